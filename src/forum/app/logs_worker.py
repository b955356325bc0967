"""One worker process for many logs of a Postgres database.

One statement a second tells for which logs there is something to do, and Postgres notifies of new
runs.  Only such a log is opened, with an engine, a publisher and a lease; it is closed some seconds
after its last work, so an idle log costs nothing.  What the process does at once is divided between
the open logs by weight and by what each can use: a log without work keeps nothing from others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from operator import add
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Self

from forum.app import Forum
from forum.config import Settings, WorkerCapacity, separate_tenant
from forum.errors import BadSettings
from forum.installation import require_extra
from forum.limits.demand import Demand, divide_by_demand

if TYPE_CHECKING:
    from forum.stores.claiming_worker import ClaimingWorker
    from forum.stores.postgres_connections import PostgresConnections

_LOOK_INTERVAL_S = 1.0
LINGER_S = 5.0
"""How long a log stays open after its last work."""
_RETRY_DELAY_S = 5.0
"""After how long a log is opened again that could not be opened."""
_CONNECTIONS = 16
MAX_OPEN_LOGS = 64
"""Each open log has about a dozen threads."""
_TURN_S = 10.0
"""After how long an open log makes room for one that waits."""
_RETENTION_INTERVAL_S = 3600.0
_FIND_INTERVAL_S = 10.0


@contextmanager
def open_together(projects: Sequence[Settings]) -> Iterator[list[Forum]]:
    """Return projects for one process; those in the same Postgres share its connections.

    The first one is that of the operator.  Raises `BadSettings` if one of them names a variable of
    another one, or another Postgres database than the first.
    """
    projects = [_use_one_database(projects[0], each) for each in projects]
    projects = [separate_tenant(projects[:index], each) for index, each in enumerate(projects)]
    with ExitStack() as stack:
        shared: dict[str, PostgresConnections] = {}
        databases = [project.database for project in projects if project.database]
        for url in {url for url in databases if databases.count(url) > 1}:
            shared[url] = stack.enter_context(_connect(url))
        yield [
            Forum(project, connections=shared.get(project.database or "")) for project in projects
        ]


def _use_one_database(operator: Settings, tenant: Settings) -> Settings:
    """Return the settings of a tenant for a process of the operator.

    The process connects as the operator.  To connect as the file of a tenant says would send there
    what the environment of the process has for libpq, such as PGPASSWORD and a client certificate.
    Raises `BadSettings` for a tenant in another Postgres database.
    """
    if tenant.database is None or tenant.database == operator.database:
        return tenant
    if operator.database:
        with require_extra("postgres"):
            from forum.stores.postgres_tenants import is_same_database

        if any(
            is_same_database(url, tenant.database)
            for url in (operator.database, *operator.databases.values())
        ):
            # Also a tenant that was moved: the row that it left behind says where it is.
            return replace(tenant, database=operator.database)
    why = (
        "a process for several ledgers connects to the databases of the operator's forum.toml only "
        "([database] and [databases]), to no other one"
    )
    raise BadSettings(str(tenant.file or tenant.data), why)


@contextmanager
def _connect(url: str) -> "Iterator[PostgresConnections]":
    with require_extra("postgres"):
        from forum.stores.postgres_connections import PostgresConnections

    connections = PostgresConnections(url, _CONNECTIONS)
    connections.connect()
    try:
        yield connections
    finally:
        connections.close()


@dataclass(slots=True, eq=False)
class _ServedProject:
    """A project, and its log while that is open."""

    settings: Settings
    origin: str
    is_signer: bool
    log: int | None = None
    """The number of its log; None until it is known, or if there is no log yet."""
    wanted_until: float = -inf
    retry_at: float = -inf
    opened: float = -inf
    closed: float = -inf
    was_unpublished: bool = False
    is_leaving: bool = False
    """Whether it claims nothing more, because other logs wait."""
    is_retaining: bool = False
    """Whether it is open for its rules of retention."""
    due: int = 0
    """How many of its timers were due when that was last counted."""
    forum: Forum | None = None
    worker: "ClaimingWorker | None" = None
    thread: Thread | None = None
    leave: Event = field(default_factory=Event)

    @property
    def is_open(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class LogsWorker:
    """Serves the logs of many projects in one process."""

    def __init__(  # noqa: PLR0913  all but the first have a default
        self,
        named: Iterable[Settings],
        capacity: WorkerCapacity | None = None,
        *,
        find: Callable[[], Iterable[Settings]] = list,
        report: Callable[[Exception], None] = lambda _: None,
        warn: Callable[[str], None] | None = None,
        on_open: Callable[[Forum], None] = lambda _: None,
        patience: int = 0,
    ) -> None:
        """`find` returns further projects; it is called from time to time, to find new ones.

        A project that it returns and that cannot be served is reported, and the others are served.
        `on_open` is called whenever a log has been opened; `patience` is how many seconds a worker
        that stops waits for running calls and tools.  Raises `BadSettings` if the named
        projects are not in one Postgres database.
        """
        with require_extra("postgres"):
            from forum.stores.leased_worker import make_worker_id
            from forum.stores.postgres_connections import PostgresConnections

        self._find, self._capacity = find, capacity or WorkerCapacity()
        self._report, self._warn = report, warn
        self._on_open = on_open
        self._patience, self.max_open = patience, MAX_OPEN_LOGS
        self._projects: dict[str, _ServedProject] = {}
        """By origin."""
        self._operators: list[Settings] = []
        """The first project, in whose database the others are; empty until there is one."""
        self._found_at = self._looked_at = self._retained_at = -inf
        self._to_retain: list[_ServedProject] = []
        self._stop = Event()
        self.id = make_worker_id()
        for settings in named:
            self._add(settings)
        database = next((each.database for each in self._operators), None) or ""
        self.connections = PostgresConnections(database, _CONNECTIONS)

    @property
    def origins(self) -> list[str]:
        """The logs that are served."""
        return list(self._projects)

    @property
    def open_logs(self) -> list[str]:
        """The logs that are open now."""
        return [project.origin for project in self._projects.values() if project.is_open]

    def __enter__(self) -> Self:
        """Serve the logs until the end of the block.  Raises `StoreConnectionLost`."""
        self._find_projects()
        self.connections.connect()
        self._signals = self.connections.share_signals(self.id, self._report)
        self._thread = Thread(target=self._run, name="forum-logs", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and close all logs."""
        self._stop.set()
        self._signals.wake()
        self._thread.join()
        opened = [project for project in self._projects.values() if project.thread is not None]
        for project in opened:
            project.leave.set()
        for project in opened:
            if project.thread is not None:
                project.thread.join()
        self.connections.close()

    def _run(self) -> None:
        heard: set[int] = set()
        while not self._stop.is_set():
            try:
                self._look(heard)
            except Exception as error:  # noqa: BLE001  reported; a restarting database recovers
                self._report(error)
            heard = self._signals.wait(_LOOK_INTERVAL_S)

    def _find_projects(self) -> None:
        """Add projects that are new, and report those that cannot be served."""
        self._found_at = monotonic()
        try:
            projects = list(self._find())
        except Exception as error:  # noqa: BLE001  reported; the known projects are served
            self._report(error)
            return
        for settings in projects:
            try:
                self._add(settings)
            except Exception as error:  # noqa: BLE001  reported; the others are served
                self._report(error)

    def _add(self, settings: Settings) -> None:
        """Add a project, unless it is known."""
        if any(
            project.settings.key_file == settings.key_file for project in self._projects.values()
        ):
            return
        settings = self._check(settings)
        settings = separate_tenant(
            (project.settings for project in self._projects.values()), settings
        )
        forum = Forum(settings, self._warn)
        is_signer = settings.key_file.exists() and forum.guard.latest() is not None
        self._projects[forum.origin] = _ServedProject(settings, forum.origin, is_signer)

    def _check(self, settings: Settings) -> Settings:
        """Return a project as this process connects to it.

        Raises `BadSettings` for a project that cannot be served beside the others.
        """
        where = str(settings.file or settings.data)
        if not settings.database:
            raise BadSettings(where, "a worker of many logs needs all of them in one Postgres")
        if settings.runner != "claims":
            raise BadSettings(where, 'a worker of many logs needs [worker] runner = "claims"')
        self._operators = self._operators or [settings]
        return _use_one_database(self._operators[0], settings)

    def _look(self, heard: set[int]) -> None:
        """Open the logs for which there is something to do, and close those that are idle."""
        moment = monotonic()
        if moment - self._found_at >= _FIND_INTERVAL_S:
            self._find_projects()
        projects = list(self._projects.values())
        for project in projects:
            if project.log in heard:
                project.wanted_until = moment + LINGER_S
                project.due = max(1, project.due)
        if moment - self._looked_at >= _LOOK_INTERVAL_S:
            self._looked_at = moment
            self._find_work(projects, moment)
            self._give_turns_to_retention(projects, moment)
        opened = [project for project in projects if project.is_open]
        for project in opened:
            if _is_idle(project, moment):
                project.leave.set()
        self._open_waiting(projects, opened, moment)
        self._divide_capacity(projects)

    def _open_waiting(
        self,
        projects: Sequence[_ServedProject],
        opened: Sequence[_ServedProject],
        moment: float,
    ) -> None:
        """Open logs that are wanted, as many as may be open; the longest closed come first."""
        waiting = [p for p in projects if not p.is_open and _wants(p, moment)]
        waiting.sort(key=lambda project: project.closed)
        room = max(0, self.max_open - len(opened))
        for project in waiting[:room]:
            self._open(project, moment)
        if waiting[room:]:
            self._make_room(opened, moment)

    def _find_work(self, projects: Sequence[_ServedProject], moment: float) -> None:
        """Note for which logs there is something to do."""
        from forum.stores.leased_worker import EARLY_TAKEOVER_S
        from forum.stores.postgres_connections import ServedLog

        unknown = [project.origin for project in projects if project.log is None]
        if unknown:
            ids = self.connections.find_logs(unknown)
            for project in projects:
                project.log = ids.get(project.origin, project.log)
                if project.log is None:
                    project.wanted_until = moment + LINGER_S  # opening it makes the log
        served = [
            ServedLog(project.log, 86_400.0 * project.settings.cleanup_days)
            for project in projects
            if project.log is not None
        ]
        rows = self.connections.find_work(served, EARLY_TAKEOVER_S, self._capacity.runs)
        work = {row.log: row for row in rows}
        for project in projects:
            row = work.get(project.log or 0)
            is_unpublished = row is not None and row.is_unpublished and project.is_signer
            # Another process may be sequencing just now: only what is left waiting is ours.
            project.due = 0 if row is None else row.due
            is_due = row is not None and (row.due > 0 or row.has_lost_worker or row.is_elsewhere)
            if is_due or (is_unpublished and project.was_unpublished):
                project.wanted_until = moment + LINGER_S
            project.was_unpublished = is_unpublished

    def _give_turns_to_retention(self, projects: Sequence[_ServedProject], moment: float) -> None:
        """Open logs with rules of retention once in an hour, one after the other."""
        if moment - self._retained_at >= _RETENTION_INTERVAL_S:
            self._retained_at = moment
            logs = {p.log: p for p in projects if p.is_signer and p.log is not None}
            requests = self.connections.find_retention(list(logs))
            self._to_retain = [logs[log] for log in sorted(requests)]
        while self._to_retain:
            project = self._to_retain[0]
            forum = project.forum  # the thread that serves the log may set it to None
            is_done = forum is not None and forum.log.has_retained
            # One that cannot be opened must not keep the others waiting.
            project.is_retaining = not is_done and project.retry_at <= moment
            if project.is_retaining:
                return
            self._to_retain.pop(0)

    def _make_room(self, opened: Sequence[_ServedProject], moment: float) -> None:
        """Let the log that has been open for longest claim nothing more."""
        oldest = min(opened, key=lambda project: project.opened)
        if moment - oldest.opened >= _TURN_S:
            oldest.is_leaving = True

    def _open(self, project: _ServedProject, moment: float) -> None:
        project.leave.clear()
        project.opened, project.is_leaving = moment, False
        project.thread = Thread(target=self._serve, args=(project,), name="forum-log", daemon=True)
        project.thread.start()

    def _serve(self, project: _ServedProject) -> None:
        """Keep one log open until it is told to leave."""
        try:
            with Forum(project.settings, self._warn, connections=self.connections) as forum:
                self._work_on(project, forum)
        except Exception as error:  # noqa: BLE001  reported, and tried again
            project.retry_at = monotonic() + _RETRY_DELAY_S
            self._report(error)
        finally:
            project.forum = project.worker = None
            project.closed = monotonic()
            self._signals.wake()

    def _work_on(self, project: _ServedProject, forum: Forum) -> None:
        # Until the thread that looks for work divides again, which closing and opening a log wakes.
        share = WorkerCapacity(1, 1)
        with forum.runs.run_worker(share, self._report, self._patience, name=self.id) as worker:
            # `_check` admits no project with workers of another class.
            project.forum, project.worker = forum, worker
            self._signals.wake()
            self._on_open(forum)
            project.leave.wait()

    def _divide_capacity(self, projects: Sequence[_ServedProject]) -> None:
        opened = [(p, worker) for p in projects if (worker := p.worker) is not None]
        weights = [project.settings.quota.weight for project, _ in opened]
        # Timers that are due are runs that wait, and each of them will want a task at least.
        waiting = [0 if project.is_leaving else project.due for project, _ in opened]
        runs, tasks = (
            divide_by_demand(total, list(map(Demand, map(add, used, waiting), weights)))
            for total, used in (
                (self._capacity.runs, [worker.runs_in_hand for _, worker in opened]),
                (self._capacity.tasks, [worker.wanted_tasks for _, worker in opened]),
            )
        )
        for (project, worker), most, at_once in zip(opened, runs, tasks, strict=True):
            worker.set_capacity(WorkerCapacity(0 if project.is_leaving else most, at_once))


def _wants(project: _ServedProject, moment: float) -> bool:
    is_wanted = project.is_retaining or project.wanted_until > moment
    return is_wanted and project.retry_at <= moment


def _is_idle(project: _ServedProject, moment: float) -> bool:
    """Return whether an open log can be closed: nothing is in hand, and nothing is to be done."""
    worker = project.worker  # the thread that serves the log may set it to None
    if worker is None or not worker.is_idle:
        return False
    return project.is_leaving or not _wants(project, moment)
