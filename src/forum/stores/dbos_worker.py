"""A worker whose runs DBOS assigns, from a queue in the ledger's Postgres: the extra `dbos`.

Its workflows have no steps: the rows of DBOS hold names of runs, and can be deleted at any time.
"""

import asyncio
import threading
from datetime import UTC, datetime

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
from sqlalchemy.exc import DBAPIError

from forum.errors import RunQueueFailed
from forum.stores.queued_worker import QueuedWorker

_serving: list["DbosWorker"] = []  # one at a time: DBOS allows one instance in a process


class DbosWorker(QueuedWorker):
    """A worker that takes runs from a queue of DBOS."""

    async def connect(self, url: str) -> None:
        """Make the tables of DBOS if there are none, and take runs from its queue."""
        config: DBOSConfig = {"name": self.queue, "system_database_url": url}
        config |= {"executor_id": self.id, "application_version": self.queue}
        # JSON, not pickles: reading a row must never run code.
        config |= {"serializer": DBOSPortableJSONSerializer()}
        config |= {"use_listen_notify": False, "log_level": "CRITICAL"}
        _serving.append(self)
        self._dbos = DBOS(config=config)
        try:
            await asyncio.to_thread(self._launch)
        except DBAPIError as error:
            raise RunQueueFailed("DBOS", str(error.orig)) from error
        self._start_thread("cleanup", self._delete_old_workflows, 600.0, self._stop)

    def _launch(self) -> None:
        DBOS.listen_queues([self.queue])
        DBOS.launch()
        most = self._capacity.runs
        DBOS.register_queue(self.queue, worker_concurrency=most, polling_interval_sec=0.1)

    async def disconnect(self) -> None:
        """Close DBOS; what it cannot record any more, others find by the end of the lease."""
        _serving.remove(self)
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=0)

    async def put(self, run: str) -> None:
        """Enqueue a run, in place of a workflow that a worker without a lease has left behind."""
        try:
            await asyncio.to_thread(self._enqueue, run)
        except DBAPIError as error:
            raise RunQueueFailed("DBOS", str(error.orig)) from error

    def _enqueue(self, run: str) -> None:
        options: EnqueueOptions = {"workflow_name": "forum-run", "queue_name": self.queue}
        options |= {"app_version": self.queue, "deduplication_id": run}
        options |= {"duplication_policy": "return-existing"}
        status = DBOS.enqueue_workflow_with_options(options, run).get_status()
        if status.status == "PENDING" and status.executor_id not in self._store.workers():
            DBOS.delete_workflow(status.workflow_id)
            DBOS.enqueue_workflow_with_options(options, run)

    def _stop_taking_work(self) -> None:
        # A thread that hands a workflow to the event loop of DBOS while that ends waits forever.
        for event in self._dbos.background_thread_stop_events:
            event.set()
        for thread in threading.enumerate():
            if thread.name.startswith("queue-worker-"):
                thread.join(5.0)

    def _delete_old_workflows(self) -> None:
        before = datetime.fromtimestamp(self._store.now() / 1e6 - 86_400, UTC).isoformat()
        while old := DBOS.list_workflows(queue_name=self.queue, completed_before=before, limit=500):
            DBOS.delete_workflows([workflow.workflow_id for workflow in old])


@DBOS.workflow(name="forum-run", max_recovery_attempts=None)
async def _drive_run(run: str) -> None:
    await _serving[-1].drive_from_elsewhere(run)
