"""Stops: somebody cancels, agents go round in circles, turns are used up; each is an entry."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from forum.engine import RunRequest, cancel_run, read_run
from forum.errors import NoSuchRun, RunAlreadyEnded
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.kinds import Next, ReplyFacts, StopFacts, StopReason, Why
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Command, Scripted, ScriptStep, ToolCall
from forum.runs.run_fold import RunState, TaskState
from tests.engine.office import PERSON, RUN, Office, chain, plan, quick, until
from tests.support import Interlude, StoreFactory, wait_until

pytestmark = pytest.mark.usefixtures("ownership")

SLOW = {"": Scripted({"*": (ScriptStep("x", milliseconds=20_000),)}, usd=10)}


# Somebody cancels


async def cancel_at_first_call(office: Office) -> None:
    """Let a run begin, and stop it."""
    await until(lambda: bool(office.hands.calls))
    cancel_run(office.ledger, RUN, PERSON)


def test_a_cancelled_run_ends_its_calls_and_itself(office: Office) -> None:
    """What went on is cut, what had not begun is skipped, what was done is kept."""
    agents = {
        "": Scripted(
            {"a": (ScriptStep("done"),), "*": (ScriptStep("x", milliseconds=20_000),)}, usd=10
        )
    }
    tasks = plan(*chain("a", "b", "c").tasks, Task("d", "x"))
    office.accept(RunRequest("x", tasks, quick(agents=agents), RunBudget(usd=100)))

    async def wait_and_cancel(office: Office) -> None:
        await until(lambda: len(office.hands.calls) == 3)
        cancel_run(office.ledger, RUN, PERSON)

    began = time.monotonic()
    run = office.work(meanwhile=wait_and_cancel)

    assert time.monotonic() - began < 10
    assert run.outcome is Outcome.CANCELLED
    states = {name: run.task(name).state.value for name in "abcd"}
    assert states == {"a": "passed", "b": "stopped", "c": "skipped", "d": "stopped"}
    cut = [call.replied for name in "bd" for call in run.task(name).calls]
    assert cut == [ReplyFacts(Outcome.CANCELLED, Why.CANCELLED, 10)] * 2
    assert [run.task(n).verdicts for n in "bd"] == [run.task("b").verdicts] * 2
    assert office.account().used == Amount(30, 0, 3), "it may have been billed in full"
    assert run.stopped == StopFacts(StopReason.CANCELLED)
    assert office.answer() == b"done"
    assert office.alarms() == []
    assert office.findings() == ()


def test_nothing_is_added_after_the_end(office: Office) -> None:
    """Whoever wants a run to end that has ended is told so."""
    office.do(RunRequest("x", chain("a"), quick()))
    before = office.entries()

    with pytest.raises(RunAlreadyEnded):
        cancel_run(office.ledger, RUN, PERSON)
    with pytest.raises(NoSuchRun):
        cancel_run(office.ledger, "no-such-run", PERSON)
    assert office.entries() == before
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_run_is_cancelled_once_however_many_ask(factory: StoreFactory) -> None:
    """The second wish is the first one; nobody is told that a run has ended which has not."""
    offices = [Office(factory()) for _ in range(6)]
    offices[0].accept(RunRequest("x", chain("a"), quick()))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda office: cancel_run(office.ledger, RUN, PERSON), offices))
    asked = [e.kind for e in offices[0].entries()].count("cancel/1")
    run = offices[0].work()

    assert asked == 1
    assert (run.outcome, offices[0].hands.calls) == (Outcome.CANCELLED, [])
    with pytest.raises(RunAlreadyEnded):
        cancel_run(offices[0].ledger, RUN, PERSON)


def test_a_cancellation_before_any_commit_of_a_run_is_honored(factory: StoreFactory) -> None:
    """Call, verdict, and the end: whoever was not refused is right to believe in the end."""
    refusals, request = [], RunRequest("x", chain("a"), quick())
    for commit in range(3):
        store, other = factory(), Office(factory())
        run = f"run-{commit}"
        other.accept(request, run)
        rush = Interlude(commit, lambda: refusals.append(is_refused(other, run)))  # noqa: B023
        outcome = Office(store, append=partial(rush.call, store.append)).work(run).outcome

        assert rush.reached
        assert outcome is Outcome.CANCELLED
    assert refusals == [False, False, False]
    assert is_refused(other, run)
    assert other.alarms() == []
    assert other.findings() == ()


def is_refused(office: Office, run: str) -> bool:
    """Ask a run to end, and tell whether it had."""
    try:
        cancel_run(office.ledger, run, PERSON)
    except RunAlreadyEnded:
        return True
    return False


def test_a_cancelled_run_takes_its_runs_within_along(office: Office) -> None:
    """They end first, and give back what they did not use."""
    inner = Task("n", "x", tasks=chain("x", "y").tasks, budget=RunBudget(usd=50))
    office.accept(RunRequest("x", plan(inner), quick(agents=SLOW), RunBudget(usd=100)))
    run = office.work(meanwhile=cancel_at_first_call)
    (child,) = [name for name in office.store.runs("", 10) if name not in ("log", RUN)]
    within = read_run(office.ledger, child)

    assert (run.outcome, within.outcome) == (Outcome.CANCELLED, Outcome.CANCELLED)
    assert run.ended >= within.ended
    assert office.account().used == Amount(10, 0, 1)
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_cancelled_program_is_gone(office: Office, tmp_path: Path) -> None:
    """With all that it started: a process that lives on would go on spending."""
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"
    policy = quick(agents={"": Command(("/bin/sh", "-c", script))})
    office.accept(RunRequest("x", chain("a"), policy))

    async def stop(office: Office) -> None:
        await until(pids.exists)
        cancel_run(office.ledger, RUN, PERSON)

    run = office.work(meanwhile=stop)

    assert run.outcome is Outcome.CANCELLED
    for pid in map(int, pids.read_text().split()):
        wait_until(lambda: not _is_alive(pid))  # noqa: B023  the kernel takes its time


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Going round in circles


def test_who_says_the_same_again_and_again_is_stopped(office: Office) -> None:
    """Each time with the same wish, and told the same: the fifth call would be no different."""
    agents = {"": Scripted({"*": (ScriptStep("let me see", use=(ToolCall("look", "x"),)),)})}
    run = office.do(RunRequest("x", chain("a", "b"), quick(agents=agents)))

    assert run.task("a").stopped == StopFacts(
        StopReason.REPEAT, limit="repeats", asked=1, used=3, cap=3, by="a"
    )
    assert len(run.task("a").calls) == 4
    assert run.task("b").state is TaskState.SKIPPED
    assert run.outcome is Outcome.FAILED
    assert office.findings() == ()


def ask(agent: str, words: str) -> ToolCall:
    """Return the wish to ask another agent."""
    return ToolCall("ask", f'{{"agent":"{agent}","text":"{words}"}}')


def test_two_who_only_answer_each_other_are_stopped(office: Office) -> None:
    """After you; no, after you: neither repeats itself, and together they do nothing else."""
    agents = {
        "": Scripted({"*": (ScriptStep("hm", use=(ask("b", "what now?"),)),)}),
        "b": Scripted({"*": (ScriptStep("you tell me"),)}),
    }
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.task("a").stopped == StopFacts(
        StopReason.PING_PONG, limit="repeats", asked=1, used=3, cap=3, by="a"
    )
    assert [call.called.agent for call in run.task("a").calls] == [*["", "b"] * 3, ""]
    assert office.findings() == ()


def test_the_same_answer_to_different_questions_is_no_loop(office: Office) -> None:
    """Yes, yes and yes: somebody was asked three things at once."""
    questions = tuple(ask("b", f"is {n} odd?") for n in (1, 3, 5, 7))
    agents = {
        "": Scripted({"*": (ScriptStep("hm", use=questions), ScriptStep("all are"))}),
        "b": Scripted({"*": (ScriptStep("yes"),)}),
    }
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.outcome is Outcome.OK
    assert len(run.task("a").calls) == 6


def test_the_same_question_to_the_same_agent_is_one(office: Office) -> None:
    """Whoever asks it four times at once gets the same answer three times."""
    agents = {
        "": Scripted({"*": (ScriptStep("hm", use=(ask("b", "why?"),) * 4), ScriptStep("well"))}),
        "b": Scripted({"*": (ScriptStep("because"),)}),
    }
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.task("a").stopped == StopFacts(
        StopReason.REPEAT, limit="repeats", asked=1, used=3, cap=3, by="a"
    )


def test_an_error_that_comes_again_is_no_loop(office: Office) -> None:
    """A line that is down says the same each time, and may be up the next."""
    agents = {"": Scripted({"*": (*(ScriptStep(fail="503", say="busy"),) * 6, ScriptStep("ok"))})}
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents, retries=6)))

    assert run.outcome is Outcome.OK
    assert [verdict.next for verdict in run.task("a").verdicts] == [Next.RETRY] * 6 + [Next.ACCEPT]


def test_turns_are_counted(office: Office) -> None:
    """An agent that always wants something else is no loop, and still has to come to an end."""
    moves = tuple(ScriptStep(f"{n}", use=(ToolCall("look", f"{n}"),)) for n in range(20))
    policy = quick(agents={"": Scripted({"*": moves})}, turns=5)
    run = office.do(RunRequest("x", chain("a"), policy))

    assert run.task("a").stopped == StopFacts(
        StopReason.TURNS, limit="turns", asked=1, used=5, cap=5, by="a"
    )
    assert len(run.task("a").calls) == 5


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        ("not json", b"ask, failed"),
        ('{"agent":"nobody","text":"x"}', b"ask, denied"),
        ('{"agent":"b"}', b"ask, failed"),
        ('{"agent":"b","text":"x","more":1}', b"ask, failed"),
    ],
)
def test_a_question_that_cannot_be_asked_is_told_to_the_one_who_asks(
    office: Office, arguments: str, data: bytes
) -> None:
    """It costs nothing, and it ends nothing."""
    agents = {
        "": Scripted(
            {"*": (ScriptStep("hm", use=(ToolCall("ask", arguments),)), ScriptStep("ok"))}
        ),
        "b": Scripted(),
    }
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.outcome is Outcome.OK
    assert b"begin: " + data in office.prompt("a", 1)
    assert len(run.task("a").calls) == 2


def test_a_stopped_task_does_not_stop_the_others(office: Office) -> None:
    """Only limits of the whole run do that."""
    agents = {
        "": Scripted({"a": (ScriptStep("x", use=(ToolCall("look"),)),), "*": (ScriptStep("fine"),)})
    }
    run = office.do(RunRequest("x", plan(Task("a", "x"), Task("b", "x")), quick(agents=agents)))

    assert (run.stopped, run.state) == (None, RunState.ENDED)
    assert run.task("b").state is TaskState.PASSED
    assert office.answer() == b"fine"
