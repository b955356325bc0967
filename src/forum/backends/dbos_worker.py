"""Workers on DBOS: durable queues that call the engine, in this process or in another.

DBOS assigns runs and tasks to workers, and reassigns them when a worker dies.  Only the ledger
records what was done: a workflow has no steps, its arguments are names, and it returns nothing.
Therefore the rows of DBOS hold no content and can be deleted at any time, and a run continues even
if all of them are lost.
"""

import asyncio
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from dbos import DBOS, DBOSConfig, EnqueueOptions, Queue, Serializer
from sqlalchemy.exc import SQLAlchemyError

from forum import errors
from forum.backends.leased_worker import BEAT_INTERVAL_S, LEASE_S, LeasedWorker
from forum.backends.queue_errors import translate_queue_error
from forum.backends.queue_metrics import queue_ages
from forum.backends.state_files import lock_file
from forum.config import WorkerCapacity
from forum.engine import MAX_CLAIMED_TIMERS, Engine
from forum.ledger.ports import Store
from forum.metrics import TAKEOVERS, Sample

# DBOS drops the coroutine of a workflow unawaited if it is closed while it dequeues the workflow.
# That is harmless: the workflow has not started, and its timer becomes due again.
warnings.filterwarnings("ignore", "coroutine 'execute_dequeued_workflow", RuntimeWarning)

PROTOCOL_VERSION = "1"
"""The version of the contract between workflows.  It is not the package version: DBOS hands a
workflow only to workers of its own version, and each deploy would strand all earlier runs."""

_ORPHAN_CHECK_INTERVAL_S = 30.0
_TIMER_POLL_INTERVAL_S = 0.1
_DEQUEUE_TIMEOUT_S = 5.0
"""The time that `close` waits for the queue threads, which may be blocked on the database."""
_QUEUE_POLL_INTERVAL_S = 0.1
_POLL_SHARING_INTERVAL_S = 1.0
_MAX_POLL_FACTOR = 10
"""The maximum factor of the polling interval, so that no queue depends on one slow worker."""
RETENTION_S = 86_400.0
"""How long DBOS keeps the rows of ended workflows; they serve only debugging."""
_CLEANUP_INTERVAL_S = 600
_CLEANUP_BATCH = 1000


class JsonSerializer(Serializer):
    """A serializer that stores JSON only, so that reading a row can never execute code."""

    def serialize(self, data: Any) -> str:  # noqa: ANN401  any value that DBOS stores
        """Encode a value; raise if JSON cannot represent it."""
        return msgspec.json.encode(data).decode()

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401
        """Decode a value."""
        return msgspec.json.decode(serialized_data)

    def name(self) -> str:
        """Return the name of this serialization, which DBOS stores in each row."""
        return "forum_json"


class Worker(LeasedWorker):
    """The worker of one process: drives runs and tasks of one ledger that it takes from queues.

    A worker holds a lease while it lives.  When the lease expires, other workers take over its
    runs and tasks.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        super().__init__(engine, store, capacity, report)
        # Several ledgers may share a database.  Each has its own queues, because a worker serves
        # only one ledger.
        self.name = f"forum-{sha256(store.origin.encode()).hexdigest()[:16]}"
        self._version = f"{self.name}-{PROTOCOL_VERSION}"
        self._queues: list[Queue] = []
        self._dbos: DBOS | None = None
        self._looks = self._workers = 0
        """The number of workers for which the polling interval of the queues was last set."""

    async def enqueue_run(self, run: str) -> None:
        """Enqueue a run, unless it is already enqueued or driven."""
        await self._enqueue("runs", run, run)

    async def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Enqueue tasks, except those that are already enqueued or driven."""
        await asyncio.gather(*(self._enqueue("tasks", f"{run}/{t}", run, t) for t in tasks))

    async def _enqueue(self, queue: str, key: str, *names: str) -> None:
        options: EnqueueOptions = {
            "workflow_name": f"forum-{queue}",
            "queue_name": f"{self.name}-{queue}",
            "deduplication_id": key,
            # By default, DBOS stores the refusal of a duplicate as an exception, which JSON
            # cannot represent.
            "duplication_policy": "return-existing",
            "app_version": self._version,
        }

        def enqueue() -> None:
            DBOS.enqueue_workflow_with_options(options, *names)

        # Not asyncio.to_thread: it would copy the context of the workflow, and DBOS would record
        # this call as a step of the workflow.
        await asyncio.get_running_loop().run_in_executor(None, enqueue)

    async def drive_run(self, run: str) -> None:
        """Drive a run; after an error, it is driven again when its timer is due."""

        async def drive() -> None:
            if self._workers > 1:
                # Mark the driver before the run is read.  Whatever is recorded after the read sets
                # the run's timer.  Without the mark, another worker could claim that timer, and it
                # could not wake this driver.
                await asyncio.to_thread(self._store.mark_driver, run, self.id)
            await self._engine.drive_run(run, self)

        await self._drive(drive)

    async def drive_task(self, run: str, task: str) -> None:
        """Drive a task.  `close` waits for it, because its model calls may cost money."""
        await self._drive(lambda: self._engine.drive_task(run, task))

    def _report_error(self, error: Exception) -> None:
        # DBOS raises errors of SQLAlchemy; the translated error also names a remedy for the user,
        # such as freeing disk space.
        super()._report_error(translate_queue_error("working on the queues", error))

    def start(self, url: str) -> None:
        """Take runs and tasks from the queues at a database URL until `close` is called."""
        self._store.renew_lease(self.id, LEASE_S)
        _serving.append(self)
        # Hold the lease before any work is taken: the work of a worker that dies without a lease
        # is not found by the check for expired leases.
        self._start_thread("lease", self._beat, BEAT_INTERVAL_S, self._gone)
        try:
            with _lock_queue_database(url):
                self._launch(url)
        except BaseException:
            self.close()
            raise
        self._start_thread("polling", self._share_polling, _POLL_SHARING_INTERVAL_S, self._stop)
        self._start_thread("heir", self._take_over_expired_workers, 0, self._stop)
        self._start_thread(
            "guardian", self._take_over_orphans, _ORPHAN_CHECK_INTERVAL_S, self._stop
        )
        self._start_thread("alarm", self._claim_due_runs, _TIMER_POLL_INTERVAL_S, self._stop)
        self._start_thread("broom", self._delete_old_workflows, _CLEANUP_INTERVAL_S, self._stop)

    def _launch(self, url: str) -> None:
        self._dbos = DBOS(config=self._config(url))
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

    def _end_work(self) -> None:
        # On a full disk DBOS fails to record its shutdown.  Other workers do not need that record:
        # they take over when the lease of this worker expires.
        with suppress(SQLAlchemyError):
            DBOS.destroy(workflow_completion_timeout_sec=0)
        _serving.remove(self)

    def _stop_taking_work(self) -> None:
        """Stop the threads in which DBOS takes work from the queues, and wait until they end.

        `DBOS.destroy` stops the event loop before these threads.  A thread that hands a workflow to
        the loop while it stops would wait forever, and `destroy` would wait 10 s for the thread.
        """
        if self._dbos is None:
            return
        for event in self._dbos.background_thread_stop_events:
            event.set()
        deadline = monotonic() + _DEQUEUE_TIMEOUT_S
        for thread in threading.enumerate():
            if thread.name.startswith("queue-worker-"):
                thread.join(max(0.0, deadline - monotonic()))

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

    def _share_polling(self) -> None:
        """Multiply the polling interval by the number of workers, up to a maximum factor.

        All workers together then poll about as often as a single one.  The interval is stored with
        the queues, so all workers use the same.
        """
        workers = max(1, len(self._store.workers()))
        if workers != self._workers:
            for queue in self._queues:
                queue.set_polling_interval_sec(
                    _QUEUE_POLL_INTERVAL_S * min(workers, _MAX_POLL_FACTOR)
                )
            self._workers = workers

    def _take_over_expired_workers(self) -> None:
        """Take over the pending workflows of workers whose lease has expired."""
        for worker in self._find_lost_workers():
            self._take_over_worker(worker)

    def _take_over_worker(self, worker: str) -> None:
        if self._closing:
            return
        recovered = DBOS._recover_pending_workflows([worker])  # noqa: SLF001  no public function
        self._takeovers += len(recovered)
        # DBOS does not report failed recoveries.  Keep the expired lease while any workflow is
        # left, so that the takeover is tried again.
        if not self._pending(executor_id=worker, limit=1):
            self._store.release_lease(worker)

    def _take_over_orphans(self) -> None:
        """Take over the pending workflows of workers that have no lease at all.

        This happens to a worker that was away until others released its lease, and that then took
        work and died before it renewed the lease.
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
        """Return the metrics of this worker: takeovers, and the age of waiting queue items."""
        return [Sample(TAKEOVERS, self._takeovers), *queue_ages(self.name, self._store.now())]

    def _claim_due_runs(self) -> None:
        self._engine.check_for_stops()
        self._looks += 1
        # Idle workers share the polling: each looks only every n-th time.  A worker that drives
        # runs always looks, because no other worker claims the timers of its runs.
        share = 1 if self._engine.is_driving else min(max(self._workers, 1), _MAX_POLL_FACTOR)
        full = self._looks % share == 0
        while full and not self._stop.is_set():
            claimed = self._engine.claim_due(self.id)
            full = len(claimed) == MAX_CLAIMED_TIMERS
            if claimed:
                asyncio.run(self._engine.dispatch_timers(claimed, self))

    def _delete_old_workflows(self) -> None:
        """Delete the rows of workflows that ended longer than the retention period ago."""
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
"""The running worker of this process; DBOS allows one instance per process."""


@DBOS.workflow(name="forum-runs", max_recovery_attempts=None)
async def _drive_run(run: str) -> None:
    await _serving[-1].drive_run(run)


@DBOS.workflow(name="forum-tasks", max_recovery_attempts=None)
async def _drive_task(run: str, task: str) -> None:
    await _serving[-1].drive_task(run, task)


def prepare_sqlite_queue(path: Path) -> str:
    """Create or open the SQLite file of the DBOS queues, and return its URL.

    Raises `DurabilityDisabled` if SQLite does not sync every commit.
    """
    with lock_file(path), _translate_file_errors(path):
        if not _has_tables(path):
            _make_tables(path)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")  # persistent: stored in the file
            level = db.execute("PRAGMA synchronous").fetchone()[0]
    if level < _FULL:
        # DBOS uses the default of the SQLite library.  With a lower level, a queue could lose
        # workflows that were enqueued before a power failure.
        raise errors.DurabilityDisabled(f"{path.name}: synchronous is {level}")
    return f"{_SQLITE}{path}"


def _has_tables(path: Path) -> bool:
    """Return whether DBOS has completed the creation of its tables in a file."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'dbos_migrations'"
        if not db.execute(query).fetchone()[0]:
            return False
        return db.execute("SELECT version FROM dbos_migrations").fetchone() is not None


def _make_tables(path: Path) -> None:
    """Let DBOS create its tables in a temporary file, then move that file into place.

    DBOS creates the tables one by one.  If it is interrupted or the disk is full, it leaves a file
    that it can never use again.  No work was enqueued in such a file, so it can be replaced.
    """
    draft = path.with_name(f"{path.name}.new")
    for stale in (draft, draft.with_name(f"{draft.name}-journal")):
        stale.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    DBOS.migrate(f"{_SQLITE}{draft}")
    # Delete the main file before its journals: after a crash in between there is no main file, and
    # the next start repeats this.  A journal must not be left behind, because SQLite would apply
    # it to the new file.
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    draft.replace(path)


@contextmanager
def _translate_file_errors(path: Path) -> Iterator[None]:
    """Turn errors of DBOS, SQLite and the system into a `StateFileFailed` that names the file."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        why = getattr(error, "orig", None) or error
        raise errors.StateFileFailed(
            "the file of the queues", f"preparing {path}", str(why)
        ) from error


@contextmanager
def _translate_queue_errors(doing: str) -> Iterator[None]:
    """Turn errors of SQLAlchemy into errors of the store."""
    try:
        yield
    except SQLAlchemyError as error:
        raise translate_queue_error(doing, error) from error


@contextmanager
def _lock_queue_database(url: str) -> Iterator[None]:
    """Lock the queue file of SQLite: DBOS does not guard the creation of its tables itself.

    With another database, only translate the errors.
    """
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE))
        with lock_file(path), _translate_file_errors(path):
            yield
    else:
        with _translate_queue_errors("preparing the queues"):
            yield


_FULL = 2
_SQLITE = "sqlite:///"
