"""What went wrong in runs of the reference engine (forum-engine 1.17.0), and does not here.

Each test is named for one of its measured failures.  Those of its ledger, its routing and its
surfaces are tested elsewhere; what a program prints, and how much memory that takes, is tested in
tests/models/test_command.py.
"""

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from forum.engine import Model, ModelCall, RunRequest, read_run, read_run_context
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.call_rules import CURRENT_RULES
from forum.runs.kinds import CallFacts, Next, ReplyFacts, Why
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Agent, Answer, Command, Scripted, ScriptStep, ToolCall
from forum.runs.run_fold import TaskState
from tests.engine.office import RUN, Hands, Office, chain, plan, quick
from tests.support import StoreFactory, wait_until

ROOT = Path(__file__).parent.parent.parent


class Quick(Hands):
    """Agents that answer at once, whatever their scripts say."""

    def model(self, agent: Agent) -> Model:
        """Return one that repeats what it is told."""
        return super().model(Scripted())


@pytest.mark.slow
def test_kill_9_is_recoverable_because_the_plan_holds_every_instruction(
    factory: StoreFactory,
) -> None:
    """There, the plan entry left the instructions out, and nobody could go on."""
    agents = {
        "": Scripted({"b": (ScriptStep("late", milliseconds=30_000),), "*": (ScriptStep("fine"),)})
    }
    request = RunRequest("all of it", chain("a", "b", "c"), quick(agents=agents))
    office = Office(factory())
    office.accept(request)
    command = [sys.executable, "-m", "tests.engine.another_process"]
    worker = subprocess.Popen(
        [*command, str(factory.place), factory.origin, RUN], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: "task/b" in office.store.strands(RUN))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    case = read_run_context(office.ledger, RUN)
    run = Office(factory(), Quick()).work()

    assert case.plan == request.plan
    assert case.policy.with_secret(b"") == request.policy.with_rules(CURRENT_RULES)
    assert run.outcome is Outcome.OK
    assert run.task("b").calls[0].replied == ReplyFacts(Outcome.INDETERMINATE, Why.LOST)
    assert [call.called.attempt for call in run.task("a").calls] == [1], "not done again"
    assert office.prompt("c").startswith(b"do c")
    assert office.findings() == ()


def test_resume_cannot_return_the_output_of_another_plan(factory: StoreFactory) -> None:
    """There, results were found by request; here a strand belongs to one task of one run."""
    for run, word in (("run-1", "one"), ("run-2", "two")):
        agents = {"": Scripted({"*": (ScriptStep(word),)})}
        request = RunRequest(
            "the same request", chain("a", "b"), quick(agents=agents, gates=("task:b",))
        )
        Office(factory()).do(request, run)
    resumed = Office(factory())
    for run in ("run-2", "run-1"):
        resumed.decide("task/b", Answer.APPROVE, run=run)
        resumed.work(run)

    assert [resumed.answer(run) for run in ("run-1", "run-2")] == [b"one", b"two"]
    assert b"begin: task a\none\n" in resumed.prompt("b", run="run-1")
    assert b"begin: task a\ntwo\n" in resumed.prompt("b", run="run-2")


def test_a_result_is_judged_before_anybody_builds_on_it(office: Office) -> None:
    """There, validation came after the whole plan, when dependants had used what was wrong."""
    agents = {"": Scripted({"a": (ScriptStep("wrong"),), "*": (ScriptStep("built on it"),)})}
    tasks = plan(Task("a", "x", "contains right"), Task("b", "x", needs=("a",)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents)))

    assert run.task("a").state is TaskState.FAILED
    assert {call.task for call in office.hands.calls} == {"a"}
    assert run.task("b").state is TaskState.SKIPPED
    assert b"wrong" not in office.answer()


def test_an_error_503_is_recorded_and_tried_again(office: Office) -> None:
    """There, one lost the whole run, and there were no retries."""
    agents = {"": Scripted({"*": (ScriptStep(fail="503"), ScriptStep("ok"))})}
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.outcome is Outcome.OK
    first = run.task("a").calls[0].replied
    assert first is not None
    assert (first.why, first.code, run.task("a").verdicts[0].next) == (
        Why.ERROR,
        "503",
        Next.RETRY,
    )


def test_an_agent_that_raises_does_not_lose_the_run(factory: StoreFactory) -> None:
    """Not even one that breaks its promise, in each of its calls."""

    def explode(_: ModelCall) -> None:
        raise ConnectionError("reset by peer")

    office = Office(factory(), Hands(at_call=explode))
    run = office.do(RunRequest("x", chain("a", "b"), quick(retries=1)))

    assert run.outcome is Outcome.FAILED
    assert [call.replied and call.replied.code for call in run.task("a").calls] == [
        "ConnectionError"
    ] * 2
    assert office.alarms() == []
    assert office.findings() == ()


@pytest.mark.parametrize("script", ["echo oops >&2", "echo oops >&2; exit 3"])
def test_what_goes_to_stderr_is_never_the_answer(office: Office, script: str) -> None:
    """There, it became the answer, with exit status 0."""
    policy = quick(agents={"": Command(("/bin/sh", "-c", script))}, retries=0)
    run = office.do(RunRequest("x", chain("a"), policy))

    assert run.outcome is Outcome.FAILED
    assert run.task("a").state is TaskState.FAILED
    assert office.answer() == b""
    (reply,) = [entry for entry in office.entries() if isinstance(entry.facts, ReplyFacts)]
    assert office.body(reply, "error") == b"oops\n", "it is kept, as what it is"


@pytest.mark.parametrize(
    "agent",
    [
        Command(("/bin/sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60")),
        Scripted({"*": (ScriptStep("x", milliseconds=60_000),)}),
    ],
    ids=["a program that does not want to end", "a call that hangs"],
)
def test_a_limit_of_seconds_is_kept(office: Office, agent: Command | Scripted) -> None:
    """There, three seconds took a minute."""
    tasks = plan(Task("a", "x"), Task("b", "x", needs=("a",)))
    began = monotonic()
    run = office.do(RunRequest("x", tasks, quick(agents={"": agent}), RunBudget(milliseconds=500)))

    assert monotonic() - began < 10
    assert run.outcome is Outcome.TIMEOUT


def test_every_call_that_is_made_is_counted(office: Office) -> None:
    """There, six were made and two counted: those of retries, questions and helpers were not."""
    question = ToolCall("ask", '{"agent":"b","text":"why?"}')
    agents = {
        "": Scripted(
            {"a": (ScriptStep("x", use=(question,)), ScriptStep(fail="503"), ScriptStep("bad"))},
            usd=2,
        ),
        "b": Scripted({"*": (ScriptStep("because"),)}, usd=3),
        "big": Scripted({"*": (ScriptStep("good"),)}, usd=5),
    }
    tasks = plan(
        Task("a", "x", "contains good"),
        Task("n", "x", needs=("a",), tasks=(Task("a", "x", agent="big"),), budget=RunBudget(usd=9)),
    )
    run = office.do(
        RunRequest("x", tasks, quick(agents=agents, ladder=("big",)), RunBudget(usd=100))
    )

    assert run.outcome is Outcome.OK
    assert office.account().used.calls == office.model_calls() == len(office.hands.calls) == 6
    assert office.account().used == Amount(2 + 3 + 2 + 2 + 5 + 5, 0, 6)


def test_the_prompt_of_every_call_is_kept(office: Office) -> None:
    """There, those of control roles were not: nobody could see what they had been told."""
    question = ToolCall("ask", '{"agent":"b","text":"why?"}')
    agents = {
        "": Scripted(
            {"a": (ScriptStep("x", use=(question,)), ScriptStep("fine")), "*": (ScriptStep("ok"),)}
        ),
        "b": Scripted({"*": (ScriptStep("because"),)}),
    }
    office.do(RunRequest("x", chain("a", "c"), quick(agents=agents)))
    called = [entry for entry in office.entries() if isinstance(entry.facts, CallFacts)]
    kept = [office.body(entry, "prompt") for entry in called]

    assert kept == [b"".join(call.prompt.chunks()) for call in office.hands.calls]
    assert kept[1] == b"why?"
    assert all(kept)


@pytest.mark.parametrize("prompt", ["--help", "-c exit 1", "x" * 3_000_000, "a\0b", "$(false)"])
def test_a_prompt_is_never_an_argument(office: Office, prompt: str) -> None:
    """There, it died at 140 kB, and was parsed as an option when it began with two dashes."""
    policy = quick(agents={"": Command(("/bin/cat",))})
    run = office.do(RunRequest(prompt, plan(Task("a", prompt)), policy))

    assert run.outcome is Outcome.OK
    assert office.answer() == prompt.encode()


def test_the_state_of_a_run_is_in_its_entries_alone(factory: StoreFactory) -> None:
    """There, what was in memory was lost with it; here two readers see the same run."""
    office = Office(factory())
    office.do(RunRequest("x", chain("a", "b"), quick(gates=("task:b",))))

    assert read_run(Office(factory()).ledger, RUN) == read_run(office.ledger, RUN)
