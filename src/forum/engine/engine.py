"""The engine: takes requests on, and carries runs and tasks out when its runner calls."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from forum.engine.attention import Switchboard
from forum.engine.case import Case, read_case
from forum.engine.ports import Call, Models, Reply, Runner, Tools
from forum.engine.run import RunDriver
from forum.engine.task import TaskDriver, World
from forum.errors import NoSuchRun, Overtaken, RunEnded
from forum.ledger import (
    MAIN,
    Alarm,
    Attachment,
    Bytes,
    Draft,
    Ledger,
    OpenAccount,
    text,
)
from forum.tlog import Hash
from forum.work import (
    CONTROL,
    Accepted,
    Budget,
    CancelAsked,
    Plan,
    Planned,
    Policy,
    Stopped,
    write_plan,
    write_policy,
)

_REMEMBERED = 1000
"""How many cases are known without reading them again."""

HEARTBEAT_SECONDS = 15.0
"""How long a run that is being driven may go without anybody looking whether it still is."""


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants done."""

    request: str
    plan: Plan
    policy: Policy = field(default_factory=Policy)
    budget: Budget = field(default_factory=Budget)


def accept(
    ledger: Ledger, run: str, order: Order, actor: str, origin: Accepted | None = None
) -> None:
    """Take a request on: when this returns, the run will be carried out, whatever happens.

    Request, policy, plan, account and the alarm that has it begun are one commit.
    """
    order.policy.check(order.plan)
    budget, origin = order.budget, origin or Accepted()
    facts = Accepted(
        budget.usd,
        budget.tokens,
        budget.calls,
        budget.milliseconds,
        budget.depth,
        origin.parent_run,
        origin.parent_task,
        origin.fork_run,
        origin.fork_index,
    )
    request = Attachment("request", text(order.request))
    policy = Attachment("policy", Bytes(write_policy(order.policy)), "application/json")
    plan = Attachment("plan", Bytes(write_plan(order.plan)), "application/json")
    effects = (OpenAccount(run, budget.cap), Alarm(run, MAIN, ledger.now()))
    ledger.open_run(
        run,
        actor,
        Draft("accepted", actor, facts, (), (request, policy), effects),
        Draft("plan", actor, Planned(len(order.plan.tasks)), (), (plan,)),
    )


def cancel(ledger: Ledger, run: str, actor: str) -> None:
    """Ask a run to end.  Its calls are ended wherever they are made."""
    control = ledger.end_of(run, CONTROL)
    cause = _accepted(ledger, run)
    if control.length:
        raise RunEnded(run)
    alarms = (Alarm(run, CONTROL, ledger.now()), Alarm(run, MAIN, ledger.now()))
    try:
        control.claim(Draft("cancel", actor, CancelAsked(), (cause,), effects=alarms))
    except Overtaken:
        raise RunEnded(run) from None


def _accepted(ledger: Ledger, run: str) -> Hash:
    if not ledger.store.strands(run):
        raise NoSuchRun(run)
    return read_case(ledger, run).accepted_entry


class Engine:
    """Carries out runs and tasks of one ledger, in one process."""

    def __init__(
        self,
        ledger: Ledger,
        models: Models,
        tools: Tools,
        recorded: Callable[[Case, Call], Reply | None] = lambda _case, _call: None,
    ) -> None:
        self._ledger = ledger
        self._world = World(ledger, models, tools, recorded)
        self._board = Switchboard()
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._lock = Lock()

    async def drive_run(self, run: str, runner: Runner) -> None:
        """Go on with a run until it has ended, or waits for somebody."""
        with self._board.listening(run) as attention:
            driver = RunDriver(self._ledger, runner, attention, self._board.stop)
            try:
                await driver.drive(run)
            except Overtaken:
                return  # somebody else drives it now

    async def drive_task(self, run: str, task: str) -> None:
        """Go on with a task until it has ended, or waits for somebody."""
        case = await asyncio.to_thread(self._case, run)
        with self._board.working(run) as stop:
            if await asyncio.to_thread(self._is_stopped, run):
                stop.set()
            try:
                await TaskDriver(self._world, case, task, stop).drive()
            except Overtaken:
                return
            finally:
                self._board.tell(run, task)

    def _is_stopped(self, run: str) -> bool:
        last = self._ledger.store.last(run, MAIN)
        stopped = last is not None and isinstance(self._ledger.kinds.read(last).facts, Stopped)
        return stopped or self._ledger.store.last(run, CONTROL) is not None

    def _case(self, run: str) -> Case:
        """Read a case, or remember it: tasks run only after their plan was settled."""
        with self._lock:
            known = self._cases.get(run)
        if known is None:
            known = read_case(self._ledger, run)
            with self._lock:
                self._cases[run] = known
                while len(self._cases) > _REMEMBERED:
                    self._cases.popitem(last=False)
        return known

    async def attend(self, runner: Runner) -> None:
        """Look after every run whose time has come: once, and to be called again soon.

        A run that is driven here is told; any other is handed to the runner, which drops what is
        going on elsewhere.  The alarm stays, and rings again: only the run itself puts it out.
        """
        store = self._ledger.store
        after: Alarm | None = None
        while page := await asyncio.to_thread(store.alarms, after, 500, due=True):
            for run in dict.fromkeys(alarm.run for alarm in page):
                if any(alarm.run == run and alarm.strand == CONTROL for alarm in page):
                    self._board.stop(run)
                if not self._board.tell(run):
                    await runner.enqueue_run(run)
            await asyncio.to_thread(store.snooze, page, HEARTBEAT_SECONDS)
            after = page[-1]
