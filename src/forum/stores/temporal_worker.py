"""A worker whose runs a Temporal server assigns, which learns their names: the extra `temporal`."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from forum.errors import RunQueueFailed
from forum.stores.queued_worker import QueuedWorker


@workflow.defn(name="forum-run")
class _RunWorkflow:
    @workflow.run
    async def run(self, run: str) -> None:
        # No heartbeats: `TemporalWorker.put` replaces the workflow of a lost worker.
        longest = timedelta(days=3650)
        await workflow.execute_activity("forum-drive", run, start_to_close_timeout=longest)


class TemporalWorker(QueuedWorker):
    """A worker that takes runs from a task queue of Temporal."""

    _poller: Worker | None = None

    async def connect(self, url: str) -> None:
        """Take runs from the server at an address, or at that of Temporal's own settings."""
        config = ClientConfig.load_client_connect_config()
        config["target_host"] = url or config.get("target_host", "127.0.0.1:7233")
        try:
            self._client = await Client.connect(**config, identity=self.id)
        except RuntimeError as error:
            raise RunQueueFailed("Temporal", str(error)) from error
        self._poller = Worker(
            self._client, task_queue=self.queue,
            workflows=[_RunWorkflow], workflow_runner=UnsandboxedWorkflowRunner(),
            activities=[self.drive_assigned], max_concurrent_activities=self._capacity.runs,
            graceful_shutdown_timeout=timedelta(days=1),
        )  # fmt: skip
        self._polling = asyncio.ensure_future(self._drive(self._poller.run))

    async def disconnect(self) -> None:
        """Tell the server which activities have ended, if it can be reached."""
        if self._poller is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._poller.shutdown(), 5.0)

    async def put(self, run: str) -> None:
        """Start a workflow, in place of one that a worker without a lease has left behind."""
        try:
            await self._start_workflow(run, WorkflowIDConflictPolicy.FAIL)
        except WorkflowAlreadyStartedError as started:
            state = await self._client.get_workflow_handle(started.workflow_id).describe()
            holders = {job.last_worker_identity for job in state.raw_description.pending_activities}
            if holders.difference(["", *await asyncio.to_thread(self._store.workers)]):
                await self._start_workflow(run, WorkflowIDConflictPolicy.TERMINATE_EXISTING)
        except RPCError as error:
            raise RunQueueFailed("Temporal", str(error)) from error

    async def _start_workflow(self, run: str, policy: WorkflowIDConflictPolicy) -> None:
        name = f"{self.queue}-{run}"
        await self._client.start_workflow(
            "forum-run", run, id=name, task_queue=self.queue, id_conflict_policy=policy
        )

    @activity.defn(name="forum-drive")
    async def drive_assigned(self, run: str) -> None:
        """Drive a run, as an activity."""
        await self.drive(run)

    def _stop_taking_work(self) -> None:
        if self._poller is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._poller.shutdown(), self._loop)
