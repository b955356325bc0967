"""Runs that were interrupted: nobody goes on with them until they are resumed."""

import asyncio
from typing import Any

import pytest

from forum.engine import (
    LocalRunner,
    RunRequest,
    accept_run,
    cancel_run,
    check_forkable,
    interrupt_run,
    read_run,
    resume_run,
)
from forum.errors import BodyGone, NoSuchRun, RunAlreadyEnded
from forum.ledger.kinds import Outcome, RedactionReason
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryWrite, Timer
from forum.runs.kinds import AcceptedFacts, StopReason
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Answer, Scripted, ScriptStep
from forum.runs.run_fold import RunState
from tests.engine.office import PERSON, RUN, Office, chain, plan, quick, until
from tests.support import StoreFactory

pytestmark = pytest.mark.usefixtures("ownership")

ONE_AT_A_TIME = quick(parallel=1)


async def interrupt_at_first_call(office: Office) -> None:
    """Let a run begin, and interrupt it."""
    await until(lambda: bool(office.hands.calls))
    interrupt_run(office.ledger, RUN, PERSON)
    office.engine.check_for_stops()


def test_an_interrupted_run_is_gone_on_with_by_nobody_until_it_is_resumed(
    factory: StoreFactory,
) -> None:
    """Whoever presses Ctrl-C wants no agent called, and none paid, by whatever is started next."""
    office = Office(factory())
    office.accept(RunRequest("x", chain("a", "b", "c"), ONE_AT_A_TIME))
    interrupted = office.work(meanwhile=interrupt_at_first_call)
    timers, listed = office.alarms(), office.store.interrupted_runs("", 9)
    other = Office(factory())
    other.work()  # another process, which looks after all runs

    assert interrupted.state is RunState.INTERRUPTED
    assert (timers, listed) == ([], [RUN])
    assert (other.hands.calls, other.alarms()) == ([], [])
    assert other.findings() == ()
    assert resume_run(other.ledger, RUN, PERSON)
    run = other.work()
    assert (run.outcome, run.state) == (Outcome.OK, RunState.ENDED)
    assert other.store.interrupted_runs("", 9) == []
    kinds = [entry.kind for entry in other.entries() if entry.kind.startswith("run.")]
    assert kinds == ["run.open/1", "run.interrupted/1", "run.resumed/1", "run.close/1"]
    assert (other.alarms(), other.findings()) == ([], ())


def test_an_interruption_is_one_commit_with_the_end_of_the_timers(office: Office) -> None:
    """A crash between the two would leave a run that is called interrupted and carried on."""
    office.accept(RunRequest("x", chain("a"), quick(gates=("plan",))))
    office.work()
    before = office.alarms()
    records: list[list[EntryWrite]] = []
    other = Office(office.store, append=lambda some: records.append(list(some)))
    interrupt_run(other.ledger, RUN, PERSON)

    assert before == [(RUN, "gate/plan")]
    ((record,),) = records
    timers = sorted(effect for effect in record.effects if isinstance(effect, Timer))
    assert timers == [Timer(RUN, "gate/plan", None), Timer(RUN, "main", None)]


def test_a_gate_of_an_interrupted_run_is_decided_and_waits(office: Office) -> None:
    """A decision is recorded, and changes nothing before somebody resumes the run."""
    office.accept(RunRequest("x", chain("a"), quick(gates=("plan",))))
    office.work()
    interrupt_run(office.ledger, RUN, PERSON)
    office.decide("plan", Answer.APPROVE)
    waiting = office.work()
    called = list(office.hands.calls)
    resume_run(office.ledger, RUN, PERSON)

    assert (waiting.state, called, office.store.interrupted_runs("", 9)) == (
        RunState.INTERRUPTED,
        [],
        [],
    )
    assert office.work().outcome is Outcome.OK


def test_the_timer_of_a_gate_is_set_again(office: Office) -> None:
    """Its deadline was said when it was opened, and holds."""
    office.accept(RunRequest("x", chain("a"), quick(gates=("plan",))))
    deadline = office.work().gates["gate/plan"].deadline
    interrupt_run(office.ledger, RUN, PERSON)
    resume_run(office.ledger, RUN, PERSON)
    alarm = office.store.timer(RUN, "gate/plan")

    assert alarm is not None
    assert alarm.at == deadline


def test_the_runs_within_are_interrupted_and_resumed_with_it(factory: StoreFactory) -> None:
    """They call agents, too, and have timers of their own."""
    slow = {"": Scripted({"*": (ScriptStep("x", milliseconds=100),)}, usd=10)}
    inner = Task("n", "x", tasks=chain("x", "y", "z").tasks, budget=RunBudget(usd=50))
    office, other = Office(factory()), Office(factory())
    request = RunRequest("x", plan(inner), quick(agents=slow, parallel=1), RunBudget(usd=100))
    office.accept(request)
    office.work(meanwhile=interrupt_at_first_call)
    (child,) = [name for name in office.store.runs("", 10) if name not in ("log", RUN)]
    states = [read_run(office.ledger, run).state for run in (RUN, child)]
    timers = office.alarms()
    resume_run(other.ledger, RUN, PERSON)
    run = other.work()

    assert (states, timers) == ([RunState.INTERRUPTED] * 2, [])
    assert (run.outcome, read_run(other.ledger, child).outcome) == (Outcome.OK, Outcome.OK)
    assert (other.alarms(), other.findings()) == ([], ())


def test_nothing_new_is_begun_for_an_interrupted_run(factory: StoreFactory) -> None:
    """A worker that holds a task of it finishes the call under way, and makes no other."""
    office = Office(factory())
    never = Task("a", "x", done_when="contains NEVER")
    slow = {"": Scripted({"*": (ScriptStep("x", milliseconds=100),)}, usd=10)}
    office.accept(RunRequest("x", plan(never), quick(agents=slow, retries=5), RunBudget(usd=1000)))
    interrupted = office.work(meanwhile=interrupt_at_first_call)
    calls = interrupted.task("a").calls

    assert interrupted.state is RunState.INTERRUPTED
    assert [call.replied.outcome for call in calls if call.replied] == [Outcome.OK]
    assert (len(calls), len(office.hands.calls)) == (1, 1)
    assert (office.alarms(), office.findings()) == ([], ())
    assert resume_run(office.ledger, RUN, PERSON)
    office.work()
    assert len(office.hands.calls) > 1


def test_a_task_that_was_left_goes_on_when_its_run_is_resumed_at_once(office: Office) -> None:
    """The call under way outlasts both, and the queue does not hand the task on a second time."""
    slow = {"": Scripted({"*": (ScriptStep("x", milliseconds=200),)})}
    never = Task("a", "x", done_when="contains NEVER")
    office.accept(RunRequest("x", plan(never), quick(agents=slow, retries=1)))

    async def interrupt_and_resume(office: Office) -> None:
        await interrupt_at_first_call(office)
        resume_run(office.ledger, RUN, PERSON)

    run = office.work(meanwhile=interrupt_and_resume)

    assert (run.outcome, len(office.hands.calls)) == (Outcome.FAILED, 2)


def test_a_run_that_is_opened_within_an_interrupted_one_is_interrupted(
    factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is interrupted after the list of its children was read, or before it was made."""
    office, other = Office(factory()), Office(factory())
    inner = Task("n", "x", tasks=chain("x").tasks)
    office.accept(RunRequest("x", plan(inner), quick()))

    def accept_late(ledger: Ledger, run: str, *more: Any, **named: Any) -> None:  # noqa: ANN401
        interrupt_run(other.ledger, RUN, PERSON)
        accept_run(ledger, run, *more, **named)

    monkeypatch.setattr("forum.engine.child_runs.accept_run", accept_late)
    office.work()
    monkeypatch.undo()
    (child,) = [name for name in office.store.runs("", 10) if name not in ("log", RUN)]
    later = Office(factory())
    later.work()

    assert [read_run(office.ledger, run).state for run in (RUN, child)] == (
        [RunState.INTERRUPTED] * 2
    )
    assert (later.hands.calls, later.alarms()) == ([], [])
    resume_run(later.ledger, RUN, PERSON)
    assert later.work().outcome is Outcome.OK


@pytest.mark.parametrize("ownership", ["owned"], indirect=True)
def test_a_worker_that_stops_begins_no_other_call(office: Office) -> None:
    """Whoever takes over makes it: a worker that retried would not end before its patience does."""
    slow = {"": Scripted({"*": (ScriptStep("x", milliseconds=100),)})}
    never = Task("a", "x", done_when="contains NEVER")
    office.accept(RunRequest("x", plan(never), quick(agents=slow, retries=5)))

    async def rest() -> bool:
        runner = LocalRunner(office.engine)
        runner.enqueue_run(RUN)
        await until(lambda: bool(office.hands.calls))
        office.engine.stop_starting_tasks()
        await until(lambda: not office.engine.is_working)
        await runner.cancel_all()
        return True

    assert asyncio.run(rest())
    task = read_run(office.ledger, RUN).task("a")
    assert [call.replied is not None for call in task.calls] == [True]
    assert (len(office.hands.calls), task.state.is_end) == (1, False)


def test_an_interrupted_run_can_be_cancelled(office: Office) -> None:
    """Whoever wants it to end need not resume it first."""
    office.accept(RunRequest("x", chain("a"), quick()))
    interrupt_run(office.ledger, RUN, PERSON)
    cancel_run(office.ledger, RUN, PERSON)
    run = office.work()

    assert (run.outcome, office.hands.calls) == (Outcome.CANCELLED, [])
    assert (office.alarms(), office.findings()) == ([], ())


def test_a_task_of_an_interrupted_run_is_not_begun(office: Office) -> None:
    """A queue may hand it on for long after that, from a worker that is gone."""
    office.accept(RunRequest("x", chain("a"), quick()))
    interrupt_run(office.ledger, RUN, PERSON)

    async def drive() -> None:
        runner = LocalRunner(office.engine)
        runner.enqueue_tasks(RUN, ("a",))
        await runner.wait_until_idle()

    asyncio.run(drive())

    assert office.hands.calls == []


def test_a_run_that_is_not_interrupted_is_not_resumed(office: Office) -> None:
    """Nothing is recorded, and what has ended stays as it is."""
    office.accept(RunRequest("x", chain("a"), quick()))
    going = resume_run(office.ledger, RUN, PERSON)
    office.work()
    before = office.entries()

    assert (going, interrupt_run(office.ledger, RUN, PERSON)) == (False, False)
    with pytest.raises(RunAlreadyEnded):
        resume_run(office.ledger, RUN, PERSON)
    with pytest.raises(NoSuchRun):
        resume_run(office.ledger, "no-such-run", PERSON)
    assert office.entries() == before


# Forks of what was erased


def erase(office: Office, body: str) -> None:
    """Erase a body of the first task of a run."""
    told = [(leaf, entry) for leaf, entry in office.told() if entry.strand == "task/a"]
    (leaf,) = [leaf for leaf, entry in told if body in entry.bodies]
    office.findings()  # what is erased was signed
    target = office.ledger.find_entry(leaf.hex())
    office.ledger.request_redaction(target, body, PERSON, RedactionReason.REQUEST)
    office.findings()
    assert office.ledger.erase_redacted()


@pytest.mark.parametrize("body", ["output", "prompt"])
def test_a_fork_that_would_take_over_what_was_erased_is_refused(office: Office, body: str) -> None:
    """What it takes over is not there, and not to be made again: nobody could go on with it."""
    office.do(RunRequest("x", chain("a", "b"), quick()))
    whole = len(office.entries())
    check_forkable(office.ledger, RUN, whole)
    erase(office, body)

    with pytest.raises(BodyGone, match=f"task/a.*{body}"):
        check_forkable(office.ledger, RUN, whole)
    check_forkable(office.ledger, RUN, 2)  # before that entry, nothing is missing


def test_a_fork_ends_if_what_it_takes_over_is_erased_later(office: Office) -> None:
    """It was accepted before that: without an end, every worker would try it again for ever."""
    office.do(RunRequest("x", chain("a", "b"), quick()))
    origin = AcceptedFacts(fork_run=RUN, fork_index=len(office.entries()))
    accept_run(
        office.ledger, "fork", RunRequest("x", chain("a", "b"), quick()), PERSON, origin=origin
    )
    erase(office, "output")
    run = office.work("fork")

    stopped = run.tasks["a"].stopped
    assert stopped is not None
    assert (stopped.reason, run.outcome) == (StopReason.ERROR, Outcome.FAILED)
    assert office.alarms() == []
