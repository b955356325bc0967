"""Traps around everything that a worker does: they end or stop their own process, when armed.

`SIGKILL` before an effect, or after it and before anybody hears of it.  The product has no hooks
for this: it is given these in place of its ports, and functions of DBOS are replaced, because the
moments in which work is taken from a queue and given back are nowhere else to be seen.
"""

import signal
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from dbos._sys_db import SystemDatabase

from forum.engine import (
    CallReply,
    ClaimedRun,
    Engine,
    Model,
    ModelCall,
    ModelFactory,
    ToolFactory,
    ToolInvocation,
    ToolOpener,
    ToolPort,
)
from forum.ledger.log import Ledger
from forum.ledger.ports import Amount, EntryWrite, Store
from forum.runs.policy import Agent
from forum.stores.claiming_worker import ClaimingWorker
from forum.stores.dbos_worker import DbosWorker
from tests.soak.engine.orders import IF_FOUND, Moment, Plan, Point, Word
from tests.soak.traps import Journal, die

T = TypeVar("T")

_POINTS = {str(point): point for point in Point}


class Diary:
    """What one life does, with the time, as lines that survive it."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)

    def write(self, what: str, *details: str | int) -> None:
        """Note something down now."""
        line = [time.monotonic_ns(), what, *details]
        self._journal.write(msgspec.json.encode(line).decode())


class Trap:
    """Springs at the next pass of one boundary, when it was armed."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self._word = Word()

    def arm(self, word: Word) -> None:
        """Set the trap, or take it away."""
        self._word = word

    def before(self, *points: Point) -> None:
        """Stand before an effect."""
        plan = self._reached(points, Moment.BEFORE, Moment.STOP)
        if plan is not None and plan.moment is Moment.BEFORE:
            self._spring(plan)
        elif plan is not None:
            self.diary.write("stops", str(plan))
            # To this very thread: it is stopped before the call returns, and the others with it.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            self.diary.write("continues")

    def after(self, *points: Point) -> None:
        """Stand after an effect, before anybody hears of it."""
        plan = self._reached(points, Moment.AFTER)
        if plan is not None:
            self._spring(plan)

    def around(self, point: Point, effect: Callable[[], T]) -> T:
        """Have an effect, between two traps."""
        if point not in IF_FOUND:
            self.before(point)
        found = effect()
        if found or point not in IF_FOUND:
            self.after(point)
        return found

    def _spring(self, plan: Plan) -> None:
        self.diary.write("dies", str(plan))
        die()

    def _reached(self, points: Sequence[Point], *moments: Moment) -> Plan | None:
        plan, token = self._word.plan, self._word.token
        if plan is None or plan.point not in points or plan.moment not in moments:
            return None
        self._word = Word()
        try:
            Path(token).unlink()
        except FileNotFoundError:
            return None  # another one was first, or the parent has changed its mind
        return plan


class _TrappedStore:
    def __init__(self, store: Store, trap: Trap) -> None:
        self._store, self._trap = store, trap

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the store has
        found = getattr(self._store, name)
        point = _POINTS.get(name)
        if point is None:
            return found
        return lambda *args, **named: self._trap.around(point, lambda: found(*args, **named))

    def expired_workers(self) -> list[str]:
        lost = self._store.expired_workers()
        if lost:
            self._trap.diary.write("mourns", *lost)
            self._trap.after(Point.LOST_WORKERS)
        return lost

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:
        lost = self._trap.around(
            Point.HOLD_LEASE, lambda: self._store.beat(worker, lease_s, early_s)
        )
        if lost:
            self._trap.diary.write("mourns", *lost)
            self._trap.after(Point.LOST_WORKERS)
        return lost

    def append(self, records: Sequence[EntryWrite]) -> None:
        points = [_POINTS[kind] for kind in map(_kind, records) if kind in _POINTS]
        self._trap.before(*points)
        self._store.append(records)
        for record in records:
            self._trap.diary.write("commit", *record.position, _kind(record))
        self._trap.after(*points)


def _kind(record: EntryWrite) -> str:
    return str(msgspec.json.decode(record.data)["kind"])


class _TrappedModel:
    """A model that tells when it is called, and when it has answered."""

    def __init__(self, model: Model, trap: Trap) -> None:
        self._model, self._trap = model, trap

    @property
    def name(self) -> str:
        return self._model.name

    def bound(self, call: ModelCall) -> Amount:
        return self._model.bound(call)

    async def reply(self, call: ModelCall) -> CallReply:
        what = (call.run, call.task, call.step, call.number)
        self._trap.diary.write("call+", *what)
        self._trap.before(Point.MODEL)
        reply = await self._model.reply(call)
        self._trap.diary.write("call-", *what)
        self._trap.after(Point.MODEL)
        return reply


class _TrappedTool:
    """A tool that tells when it is used."""

    def __init__(self, tool: ToolPort, trap: Trap) -> None:
        self._tool, self._trap = tool, trap

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        self._trap.diary.write(
            "tool+", invocation.run, invocation.task, invocation.step, invocation.key
        )
        self._trap.before(Point.TOOL)
        reply = await self._tool.invoke(invocation)
        self._trap.diary.write(
            "tool-", invocation.run, invocation.task, invocation.step, invocation.key
        )
        self._trap.after(Point.TOOL)
        return reply


def trapped_store(store: Store, trap: Trap) -> Store:
    """Put a trap around a store."""
    return cast("Store", _TrappedStore(store, trap))


def trapped_models(make: ModelFactory, trap: Trap) -> ModelFactory:
    """Put a trap around every model."""

    def make_trapped(agent: Agent) -> Model:
        return _TrappedModel(make(agent), trap)

    return make_trapped


def trapped_tools(open_tools: ToolOpener, trap: Trap) -> ToolOpener:
    """Put a trap around every tool."""

    @asynccontextmanager
    async def open_trapped() -> AsyncIterator[ToolFactory]:
        async with open_tools() as make_tool:
            yield lambda tool: _TrappedTool(make_tool(tool), trap)

    return open_trapped


class TrappedEngine(Engine):
    """An engine that tells what it drives, with a trap at the end of each drive.

    There the ledger has everything, and the durable queue does not know that it was done.
    """

    def __init__(
        self,
        ledger: Ledger,
        models: ModelFactory,
        open_tools: ToolOpener,
        trap: Trap,
    ) -> None:
        models, open_tools = trapped_models(models, trap), trapped_tools(open_tools, trap)
        super().__init__(ledger, models, open_tools)
        self._trap = trap

    async def drive(self, claim: ClaimedRun) -> AsyncGenerator[tuple[str, ...], None]:
        """Go on with a run."""
        self._trap.diary.write("run+", claim.run)
        self._trap.before(Point.DRIVE_RUN)
        try:
            async with aclosing(super().drive(claim)) as wanted:
                async for tasks in wanted:
                    yield tasks
            self._trap.after(Point.DRIVE_RUN)
        finally:
            self._trap.diary.write("run-", claim.run)

    async def drive_task(self, run: str, task: str) -> None:
        """Go on with a task."""
        self._trap.diary.write("task+", run, task)
        self._trap.before(Point.DRIVE_TASK)
        try:
            await super().drive_task(run, task)
            self._trap.after(Point.DRIVE_TASK)
        finally:
            self._trap.diary.write("task-", run, task)


class _TrappedTasks(ClaimingWorker):
    """A worker with traps where it begins to drive tasks."""

    trap: Trap

    def start_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Have tasks driven."""
        self.trap.before(Point.ENQUEUE_TASKS)
        for task in tasks:
            if task not in self._tasks.get(run, {}):
                self.trap.diary.write("took", run, task)
        super().start_tasks(run, tasks)
        self.trap.after(Point.ENQUEUE_TASKS)


class TrappedClaimingWorker(_TrappedTasks):
    """A worker that claims runs, with traps where it begins to drive them."""

    def take_claim(self, claim: ClaimedRun) -> None:
        """Have a run driven."""
        self.trap.before(Point.ENQUEUE_RUN)
        self.trap.diary.write("took", claim.run)
        super().take_claim(claim)
        self.trap.after(Point.ENQUEUE_RUN)


class TrappedDbosWorker(_TrappedTasks, DbosWorker):
    """A worker of DBOS, with traps where it hands on runs."""

    async def put(self, run: str) -> None:
        """Put a run into the queue."""
        self.trap.before(Point.ENQUEUE_RUN)
        await super().put(run)
        self.trap.after(Point.ENQUEUE_RUN)


def trap_dbos(trap: Trap) -> None:
    """Put traps around what DBOS writes when work is taken and ended."""
    _wrap("update_workflow_outcome", Point.CHECKPOINT, trap)
    claim = SystemDatabase.start_queued_workflows

    def claim_and_tell(database: SystemDatabase, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        claimed = claim(database, *args, **named)
        for status in database.get_workflow_statuses(claimed[0]):
            trap.diary.write("took", *msgspec.json.decode(status["inputs"])["positionalArgs"])
        if claimed[0]:
            trap.after(Point.DEQUEUE)
        return claimed

    setattr(SystemDatabase, claim.__name__, claim_and_tell)


def _wrap(name: str, point: Point, trap: Trap) -> None:
    original = getattr(SystemDatabase, name)

    def trapped(*args: object, **named: object) -> object:
        return trap.around(point, lambda: original(*args, **named))

    setattr(SystemDatabase, name, trapped)
