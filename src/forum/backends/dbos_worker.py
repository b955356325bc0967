"""The runner over DBOS: durable queues that call the engine, here or in another process.

DBOS says who works on what, and hands it on when a worker is gone.  What was done says the ledger
alone: a workflow has no steps, its arguments are names, and it returns nothing.  So the rows of
DBOS hold no content, can be deleted at any time, and a run goes on even if all of them are lost.
"""

import asyncio
import os
import socket
import sqlite3
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import msgspec
from dbos import DBOS, DBOSConfig, EnqueueOptions, Queue, Serializer
from sqlalchemy.exc import SQLAlchemyError

from forum.backends.queue_errors import translate_queue_error
from forum.backends.queue_metrics import queue_ages
from forum.backends.state_files import lock_file
from forum.config import WorkerCapacity
from forum.engine import MAX_CLAIMED_TIMERS, Engine
from forum.errors import DurabilityDisabled, StateFileFailed, StoreConnectionLost, StoreFailed
from forum.ledger import Store
from forum.metrics import TAKEOVERS, Sample

# DBOS leaves what it was about to begin when it is closed in that moment: nothing of it has begun,
# and its timer rings again.
warnings.filterwarnings("ignore", "coroutine 'execute_dequeued_workflow", RuntimeWarning)

PROTOCOL_VERSION = "1"
"""The version of what workflows expect of each other: not that of the package, or a deploy would
strand every run that was begun before it."""

LEASE_S = 2.5
_RENEW_INTERVAL_S = 0.5
_ORPHAN_CHECK_INTERVAL_S = 30.0
_RETRY_DELAY_S = 0.5
_TIMER_POLL_INTERVAL_S = 0.1
_DRAIN_POLL_INTERVAL_S = 0.02
_QUEUE_POLL_INTERVAL_S = 0.1
_POLL_SHARING_INTERVAL_S = 1.0
_MAX_POLL_FACTOR = 10
"""By how much the polling interval grows at most: a queue must not wait for one slow worker."""
RETENTION_S = 86_400.0
"""How long DBOS remembers what has ended: of use to nobody but those who debug it."""
_CLEANUP_INTERVAL_S = 600
_CLEANUP_BATCH = 1000


class JsonSerializer(Serializer):
    """Lets nothing but JSON into the database: what can be read is never code."""

    def serialize(self, data: Any) -> str:  # noqa: ANN401  whatever DBOS keeps
        """Write a value; what JSON cannot say raises."""
        return msgspec.json.encode(data).decode()

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401
        """Read a value."""
        return msgspec.json.decode(serialized_data)

    def name(self) -> str:
        """Return under which name rows say how they are written."""
        return "forum_json"


class Worker:
    """One process's share of the work on one ledger."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._engine, self._store, self._report = engine, store, report
        self._capacity = capacity or WorkerCapacity()
        engine.limit_tasks(self._capacity.tasks)
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
        # Several ledgers may share a database: each has queues of its own.
        self.name = f"forum-{sha256(store.origin.encode()).hexdigest()[:16]}"
        self._version = f"{self.name}-{PROTOCOL_VERSION}"
        self._stop, self._gone = Event(), Event()
        self._threads: list[Thread] = []
        self._queues: list[Queue] = []
        self._looks = self._workers = 0
        """How many workers the queues were last told that poll them."""
        self._closing = False
        self._sure = -inf
        """Since when the lease has been held without a gap, on the clock of this process."""
        self._takeovers = 0
        self.last_error: Exception | None = None
        """What went wrong last; it is tried again all the time."""

    def can_drive(self, run: str) -> bool:
        """Tell whether a run is carried out here, or would be: no other worker lives."""
        others = set(self._store.workers()) - {*self._store.expired_workers(), self.id}
        return not others or self._engine.is_driving_run(run)

    async def enqueue_run(self, run: str) -> None:
        """Have a run driven, unless that is going on somewhere."""
        await self._enqueue("runs", run, run)

    async def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Have tasks driven, but for those that are being driven somewhere."""
        await asyncio.gather(*(self._enqueue("tasks", f"{run}/{t}", run, t) for t in tasks))

    async def _enqueue(self, queue: str, key: str, *names: str) -> None:
        options: EnqueueOptions = {
            "workflow_name": f"forum-{queue}",
            "queue_name": f"{self.name}-{queue}",
            "deduplication_id": key,
            # Without this, DBOS would write its refusal down as an exception, which is no JSON.
            "duplication_policy": "return-existing",
            "app_version": self._version,
        }

        def enqueue() -> None:
            DBOS.enqueue_workflow_with_options(options, *names)

        # An executor, not asyncio.to_thread: that one would take the context of the workflow
        # along, and DBOS would count this as one of its steps.
        await asyncio.get_running_loop().run_in_executor(None, enqueue)

    async def drive_run(self, run: str) -> None:
        """Drive a run; what goes wrong is tried again when its alarm rings."""

        async def drive() -> None:
            if self._workers > 1:
                # Before anything is read: what is recorded later rings here, and not at a worker
                # that could tell nobody.
                await asyncio.to_thread(self._store.mark_driver, run, self.id)
            await self._engine.drive_run(run, self)

        await self._drive(drive)

    async def drive_task(self, run: str, task: str) -> None:
        """Drive a task: it may cost money, so closing waits for it."""
        await self._drive(lambda: self._engine.drive_task(run, task))

    async def _drive(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except (
                StoreConnectionLost
            ) as error:  # the server is coming back, and the work is still ours
                self._report_error(error)
                await asyncio.sleep(_RETRY_DELAY_S)
            except Exception as error:  # noqa: BLE001  told, and nothing of it reaches DBOS
                return self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        # DBOS talks to the same database through another library.
        told = translate_queue_error("working on the queues", error)
        self.last_error = told
        self._report(told)

    # Serving

    def start(self, url: str) -> None:
        """Take part in the work until closed."""
        self._store.renew_lease(self.id, LEASE_S)
        _serving.append(self)
        # Before there is any work: what is taken by one without a lease is seen by nobody.
        self._start_thread("lease", self._renew_lease, _RENEW_INTERVAL_S, self._gone)
        try:
            with _lock_queue_database(url):
                self._launch(url)
        except BaseException:
            self.close()
            raise
        self._start_thread("polling", self._share_polling, _POLL_SHARING_INTERVAL_S, self._stop)
        self._start_thread("heir", self._take_over_expired_workers, _RENEW_INTERVAL_S, self._stop)
        self._start_thread(
            "guardian", self._take_over_orphans, _ORPHAN_CHECK_INTERVAL_S, self._stop
        )
        self._start_thread("alarm", self._claim_due_runs, _TIMER_POLL_INTERVAL_S, self._stop)
        self._start_thread("broom", self._delete_old_workflows, _CLEANUP_INTERVAL_S, self._stop)

    def _launch(self, url: str) -> None:
        DBOS(config=self._config(url))
        DBOS.launch()
        for queue, most in (("runs", self._capacity.runs), ("tasks", self._capacity.tasks)):
            self._queues.append(
                DBOS.register_queue(
                    f"{self.name}-{queue}",
                    worker_concurrency=most,
                    polling_interval_sec=_QUEUE_POLL_INTERVAL_S,
                    on_conflict="always_update",
                )
            )

    def _start_thread(self, name: str, step: Callable[[], None], pause: float, stop: Event) -> None:
        thread = Thread(target=self._repeat, args=(step, pause, stop), name=f"forum-{name}")
        thread.daemon = True
        thread.start()
        self._threads.append(thread)

    def close(self, patience: float = 0) -> None:
        """Stop, having waited some seconds for calls and effects; others take over the rest.

        The lease is held until the last moment: whoever thought us dead while we wait would pay
        for the same calls again.
        """
        self._closing = True
        self._engine.stop_starting_tasks()
        deadline = monotonic() + patience
        while self._engine.is_working and monotonic() < deadline:
            sleep(_DRAIN_POLL_INTERVAL_S)
        self._stop.set()
        for thread in self._threads[1:]:
            thread.join()
        # On a full disk it fails to say that it is gone; its lease runs out, and says the same.
        with suppress(SQLAlchemyError):
            DBOS.destroy(workflow_completion_timeout_sec=0)
        self._gone.set()
        for thread in self._threads[:1]:
            thread.join()
        _serving.remove(self)
        with suppress(StoreFailed):  # then it runs out by itself
            self._store.renew_lease(self.id, 0)

    def _config(self, url: str) -> DBOSConfig:
        return {
            "name": self.name,
            "system_database_url": url,
            "executor_id": self.id,
            "application_version": self._version,
            "serializer": JsonSerializer(),
            "use_listen_notify": False,
            "log_level": "CRITICAL",
        }

    def _repeat(self, step: Callable[[], None], pause: float, stop: Event) -> None:
        while not stop.is_set():
            try:
                step()
            except Exception as error:  # noqa: BLE001  told; a database that restarts comes back
                self._report_error(error)
            stop.wait(pause)

    # Looking after runs, and after each other

    def _renew_lease(self) -> None:
        """Say that this worker lives, and do nothing else that could come in between."""
        lost = self._store.expired_workers()
        self._store.renew_lease(self.id, LEASE_S)
        if self.id in lost:
            # We were away ourselves: the machine slept, or the database was gone.  So may the
            # others have been, and they need a moment to say that they are back.
            self._sure = monotonic()

    def _share_polling(self) -> None:
        """Poll less often the more workers there are: together, they look as often as one does.

        The interval is kept with the queues, so that all workers follow it.
        """
        workers = max(1, len(self._store.workers()))
        if workers != self._workers:
            for queue in self._queues:
                queue.set_polling_interval_sec(
                    _QUEUE_POLL_INTERVAL_S * min(workers, _MAX_POLL_FACTOR)
                )
            self._workers = workers

    def _take_over_expired_workers(self) -> None:
        """Hand on what those left behind who live no more."""
        lost = self._store.expired_workers()
        if self.id not in lost and monotonic() - self._sure > LEASE_S:
            for worker in lost:
                self._take_over_worker(worker)

    def _take_over_worker(self, worker: str) -> None:
        if self._closing:
            return
        taken = DBOS._recover_pending_workflows([worker])  # noqa: SLF001  the open way to do it
        self._takeovers += len(taken)
        # DBOS keeps what went wrong to itself.  As long as anything is left, so is the lease.
        if not self._pending(executor_id=worker, limit=1):
            self._store.release_lease(worker)

    def _take_over_orphans(self) -> None:
        """Hand on what is held by one without any lease.

        Whoever was away for so long that others dropped its lease may take work just before it
        has a new one, and die.
        """
        holders = {workflow.executor_id for workflow in self._pending()}
        for worker in holders.difference(self._store.workers()):
            self._take_over_worker(worker or "")

    def _pending(self, executor_id: str | None = None, limit: int | None = None) -> list[Any]:
        return DBOS.list_workflows(
            status="PENDING",
            app_version=self._version,
            executor_id=executor_id,
            limit=limit,
            load_input=False,
            load_output=False,
        )

    def samples(self) -> list[Sample]:
        """Return what this worker has taken over, and how long work waits for a free place."""
        return [Sample(TAKEOVERS, self._takeovers), *queue_ages(self.name, self._store.now())]

    def _claim_due_runs(self) -> None:
        self._engine.check_for_stops()
        self._looks += 1
        # Runs that are driven here are told by nobody else.
        share = 1 if self._engine.is_driving else min(max(self._workers, 1), _MAX_POLL_FACTOR)
        full = self._looks % share == 0
        while full and not self._stop.is_set():
            claimed = self._engine.claim_due(self.id)
            full = len(claimed) == MAX_CLAIMED_TIMERS
            if claimed:
                asyncio.run(self._engine.dispatch_timers(claimed, self))

    def _delete_old_workflows(self) -> None:
        """Delete what DBOS remembers of work that ended long ago."""
        before = datetime.fromtimestamp(self._store.now() / 1e6 - RETENTION_S, UTC).isoformat()
        while old := DBOS.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            completed_before=before,
            limit=_CLEANUP_BATCH,
            load_input=False,
            load_output=False,
        ):
            DBOS.delete_workflows([workflow.workflow_id for workflow in old])


_serving: list[Worker] = []
"""The worker of this process, while it serves: DBOS is one per process."""


@DBOS.workflow(name="forum-runs", max_recovery_attempts=None)
async def _drive_run(run: str) -> None:
    await _serving[-1].drive_run(run)


@DBOS.workflow(name="forum-tasks", max_recovery_attempts=None)
async def _drive_task(run: str, task: str) -> None:
    await _serving[-1].drive_task(run, task)


def prepare_sqlite_queue(path: Path) -> str:
    """Prepare the file in which DBOS keeps its queues, and return its address."""
    with lock_file(path), _translate_file_errors(path):
        if not _has_tables(path):
            _make_tables(path)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")  # it stays with the file
            level = db.execute("PRAGMA synchronous").fetchone()[0]
    if level < _FULL:
        # DBOS leaves it at the default of the library: with less, a queue could lose what was
        # handed to it.
        raise DurabilityDisabled(f"{path.name}: synchronous is {level}")
    return f"{_SQLITE}{path}"


def _has_tables(path: Path) -> bool:
    """Tell whether DBOS has once made all of its tables in a file."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as db:
        known = "SELECT count(*) FROM sqlite_master WHERE name = 'dbos_migrations'"
        if not db.execute(known).fetchone()[0]:
            return False
        return db.execute("SELECT version FROM dbos_migrations").fetchone() is not None


def _make_tables(path: Path) -> None:
    """Let DBOS make its tables in a file beside, and put that in place.

    DBOS makes them one by one.  Stopped in between, or on a full disk, it leaves a file that it can
    never use again; nobody has worked with such a file, and it is replaced.
    """
    draft = path.with_name(f"{path.name}.new")
    for stale in (draft, draft.with_name(f"{draft.name}-journal")):
        stale.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    DBOS.migrate(f"{_SQLITE}{draft}")
    # The file before its logs: stopped in between, there is none, and this is done again.  A log
    # that is left belongs to another file than the one that is put in place.
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    draft.replace(path)


@contextmanager
def _translate_file_errors(path: Path) -> Iterator[None]:
    """Say which file failed, whoever was about to read or write it."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        why = getattr(error, "orig", None) or error
        raise StateFileFailed("the file of the queues", f"preparing {path}", str(why)) from error


@contextmanager
def _translate_queue_errors(doing: str) -> Iterator[None]:
    """Turn what SQLAlchemy says of a database into an error of ours."""
    try:
        yield
    except SQLAlchemyError as error:
        raise translate_queue_error(doing, error) from error


@contextmanager
def _lock_queue_database(url: str) -> Iterator[None]:
    """Let one process at a time prepare a file: DBOS makes its tables whoever else is at it."""
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE))
        with lock_file(path), _translate_file_errors(path):
            yield
    else:
        with _translate_queue_errors("preparing the queues"):
            yield


_FULL = 2
_SQLITE = "sqlite:///"
