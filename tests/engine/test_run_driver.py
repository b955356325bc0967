"""A run from its request to its answer: who waits for whom, and what is kept of what fails."""

from collections.abc import Sequence

import pytest

from forum.engine import ModelCall, RunRequest
from forum.errors import BadPlan, Malformed
from forum.ledger.entry import MAX_PARENTS
from forum.ledger.kinds import Outcome
from forum.ledger.ports import EntryWrite, Timer
from forum.runs.call_rules import CURRENT_RULES
from forum.runs.kinds import Next, ReplyFacts, SkipFacts, Why
from forum.runs.plan import Plan, Task, read_plan
from forum.runs.policy import Command, Scripted, ScriptStep, ToolCall, read_policy
from tests.engine.office import RUN, Hands, Office, chain, plan, quick
from tests.support import StoreFactory


def says(**moves: tuple[ScriptStep, ...]) -> Scripted:
    """Return an agent that makes these moves in these tasks."""
    return Scripted({"*": (ScriptStep("fine"),), **moves})


# Who waits for whom


def test_a_plan_is_recorded_in_full_before_anything_runs(office: Office) -> None:
    """Whoever takes the run over needs every word of it."""
    request = RunRequest("please", chain("a", "b"), quick().with_rules(CURRENT_RULES))
    office.do(request)
    first = office.entries()[:3]

    assert [entry.step for entry in first] == ["run/open", "accepted", "plan"]
    assert office.body(first[1], "request") == b"please"
    assert read_policy(office.body(first[1], "policy")).with_secret(b"") == request.policy
    assert read_plan(office.body(first[2], "plan")) == request.plan


def test_a_verdict_comes_before_whoever_waits_for_it(office: Office) -> None:
    """A dependant that starts on an unjudged result may build on a wrong one."""
    diamond = plan(
        Task("a", "x"),
        Task("b", "x", needs=("a",)),
        Task("c", "x", after=("a",)),
        Task("d", "x", needs=("b",), after=("c",)),
    )
    run = office.do(RunRequest("x", diamond, quick()))
    entries = office.entries()
    first = {t.id: min(_indexes(office, t.id)) for t in diamond.tasks}
    verdict = {
        e.strand.removeprefix("task/"): n for n, e in enumerate(entries) if e.kind == "verdict/1"
    }

    assert run.outcome is Outcome.OK
    assert all(verdict[u] < first[t.id] for t in diamond.tasks for u in t.upstream)
    by_id = {leaf.hex(): entry for leaf, entry in office.told()}
    begins = entries[first["d"]]
    causes = {by_id[parent].strand for parent in begins.parents}
    assert causes == {"main", "task/b", "task/c"}, "it names what allowed it to begin"
    assert office.findings() == ()


def _indexes(office: Office, task: str) -> list[int]:
    return [n for n, e in enumerate(office.entries()) if e.strand == f"task/{task}"]


def test_dependants_of_a_failed_task_are_skipped_with_their_cause(office: Office) -> None:
    """Each is on record: a task that is simply absent might have been forgotten."""
    policy = quick(agents={"": says(b=(ScriptStep(fail="503"),))}, retries=0)
    tasks = [*chain("a", "b", "c", "d").tasks, Task("e", "x", needs=("a",))]
    run = office.do(RunRequest("x", Plan(tuple(tasks)), policy))

    states = {name: run.task(name).state.value for name in "abcde"}
    assert states == {"a": "passed", "b": "failed", "c": "skipped", "d": "skipped", "e": "passed"}
    assert [run.task(name).skipped for name in "cd"] == [SkipFacts("b"), SkipFacts("c")]
    by_id = {leaf.hex(): entry for leaf, entry in office.told()}
    (skip,) = [entry for entry in office.entries() if entry.strand == "task/d"]
    assert [by_id[parent].strand for parent in skip.parents] == ["task/c"]
    assert run.outcome is Outcome.FAILED
    assert len(office.hands.calls) == 3
    assert office.findings() == ()


def test_a_slow_branch_does_not_hold_back_the_other(office: Office) -> None:
    """There are no waves: whoever's upstream has passed begins."""
    moves = {"slow": (ScriptStep("late", milliseconds=400),)}
    tasks = [Task("slow", "x"), *chain("a", "b", "c").tasks]
    office.do(RunRequest("x", Plan(tuple(tasks)), quick(agents={"": says(**moves)})))
    strands = [e.strand for e in office.entries() if e.kind == "verdict/1"]

    assert strands == ["task/a", "task/b", "task/c", "task/slow"]


def test_independent_tasks_run_at_once_but_not_more_than_allowed(office: Office) -> None:
    """Ten tasks of a tenth of a second, five at a time."""
    agents = {"": Scripted({"*": (ScriptStep("x", milliseconds=100),)})}
    tasks = plan(*(Task(f"t{n}", "x") for n in range(10)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents, parallel=5)))

    assert run.outcome is Outcome.OK
    assert office.hands.most == 5


def test_more_causes_than_an_entry_can_name_are_joined(office: Office) -> None:
    """A task may wait for any number of others, and still name all of them."""
    many = [f"t{n}" for n in range(MAX_PARENTS * 2 + 1)]
    last = Task("last", "x", needs=tuple(many[:20]), after=tuple(many[20:]))
    run = office.do(RunRequest("x", plan(*(Task(n, "x") for n in many), last), quick(parallel=40)))
    leaves = {leaf.hex(): entry for leaf, entry in office.told()}
    own = [e for e in office.entries() if e.strand == "task/last"]

    assert run.outcome is Outcome.OK
    named = {leaves[p].strand for e in own for p in e.parents}
    assert named >= {f"task/{name}" for name in many} | {"main"}
    assert [e.step for e in own][:2] == ["join/1", "join/2"]
    assert office.findings() == ()


# Trying again


def test_every_retry_is_an_entry_with_its_reason(office: Office) -> None:
    """What went wrong before it went well is part of the record."""
    moves = (
        ScriptStep(fail="503"),
        ScriptStep(fail="429", say="half"),
        ScriptStep(" "),
        ScriptStep("done"),
    )
    policy = quick(agents={"": Scripted({"*": moves})}, retries=3, backoff_milliseconds=20)
    run = office.do(RunRequest("x", plan(Task("a", "x", "contains done")), policy))
    verdicts = run.task("a").verdicts

    assert [(v.next, v.reason, v.pause) for v in verdicts] == [
        (Next.RETRY, "failed", 20),
        (Next.RETRY, "failed", 40),
        (Next.RETRY, "empty", 80),
        (Next.ACCEPT, "", 0),
    ]
    replies = [e.facts for e in office.entries() if isinstance(e.facts, ReplyFacts)]
    assert [(r.why, r.code) for r in replies][:3] == [
        (Why.ERROR, "503"),
        (Why.ERROR, "429"),
        (Why.NONE, ""),
    ]
    begun = [call.begun for call in run.task("a").calls]
    assert begun[1] - begun[0] >= 20_000
    assert begun[3] - begun[2] >= 80_000
    assert office.answer() == b"done"


def test_what_did_not_satisfy_is_handed_up_the_ladder(office: Office) -> None:
    """On a recorded verdict, and to the next stronger agent only."""
    agents = {
        "": Scripted({"*": (ScriptStep("bad"),)}),
        "mid": Scripted({"*": (ScriptStep(fail="503"),)}),
        "top": Scripted({"*": (ScriptStep("good"),)}),
    }
    policy = quick(agents=agents, ladder=("mid", "top"), retries=1)
    run = office.do(RunRequest("x", plan(Task("a", "x", "contains good")), policy))
    task = run.task("a")

    assert [call.called.agent for call in task.calls] == ["", "mid", "mid", "top"]
    assert [(v.next, v.check.value) for v in task.verdicts] == [
        (Next.ESCALATE, "contains"),
        (Next.RETRY, "outcome"),
        (Next.ESCALATE, "outcome"),
        (Next.ACCEPT, "contains"),
    ]
    actors = [e.actor for e in office.entries() if e.kind == "reply/1"]
    assert actors == ["engine", "mid", "mid", "top"]


def test_the_results_of_a_failed_run_are_kept(office: Office) -> None:
    """What was worked out and paid for is answered, though the end of the plan was not reached."""
    moves = {
        "a": (ScriptStep("part one"),),
        "b": (ScriptStep("part two"),),
        "c": (ScriptStep(fail="503"),),
        "e": (ScriptStep("used"),),
        "f": (ScriptStep("uses e"),),
    }
    tasks = plan(
        *chain("a", "c", "d").tasks, Task("b", "x"), Task("e", "x"), Task("f", "x", needs=("e",))
    )
    run = office.do(RunRequest("x", tasks, quick(agents={"": says(**moves)}, retries=0)))

    assert run.outcome is Outcome.FAILED
    assert office.answer() == b"## a\n\npart one\n\n## b\n\npart two\n\n## f\n\nuses e"
    assert run.answered is not None
    assert (run.answered.outcome, run.answered.parts) == (Outcome.FAILED, 3)


def test_an_answer_is_given_whole(office: Office) -> None:
    """However long a result is: it was said, so it is answered."""
    size = 3 << 20
    agent = Command(("/bin/sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"))
    run = office.do(
        RunRequest("x", plan(Task("a", "x"), Task("b", "x")), quick(agents={"": agent}))
    )
    both = office.answer()

    assert run.outcome is Outcome.OK
    assert both == b"## a\n\n" + b"x" * size + b"\n\n## b\n\n" + b"x" * size


# What tasks are given


def test_a_task_is_given_what_it_needs_up_to_a_limit(office: Office) -> None:
    """All of it stays on record; what a task only follows is not given to it."""
    moves = {"a": (ScriptStep("A" * 100),), "b": (ScriptStep("B" * 100),)}
    tasks = plan(Task("a", "x"), Task("b", "x"), Task("c", "do c", needs=("a",), after=("b",)))
    office.do(RunRequest("x", tasks, quick(agents={"": says(**moves)}, input_bytes=10)))
    (reply,) = [e for e in office.entries() if e.strand == "task/a" and e.kind == "reply/1"]
    prompt = office.prompt("c")

    assert prompt.startswith(b"do c\n\n")
    assert b"begin: task a (the first 10 of 100 bytes)\n" + b"A" * 10 + b"\n---" in prompt
    assert b"BB" not in prompt
    assert office.body(reply, "output") == b"A" * 100


def test_the_result_that_was_accepted_is_the_one_that_is_given_on(office: Office) -> None:
    """Not what an earlier attempt said, and not what somebody else was asked on the way."""
    ask = '{"agent":"b","text":"how?"}'
    agents = {
        "": Scripted(
            {
                "a": (
                    ScriptStep("bad"),
                    ScriptStep("hm", use=(ToolCall("ask", ask),)),
                    ScriptStep("good"),
                ),
                "c": (ScriptStep("used"),),
            }
        ),
        "b": Scripted({"*": (ScriptStep("like this"),)}),
    }
    tasks = plan(Task("a", "x", "contains good"), Task("c", "x", needs=("a",)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents)))

    assert run.outcome is Outcome.OK
    assert b"begin: task a\ngood\n---" in office.prompt("c")
    assert b"like this" not in office.prompt("c")
    assert b"begin: b, ok\nlike this\n---" in office.prompt("a", 3)


# What is refused, and what goes wrong


def test_a_bad_order_leaves_no_trace(office: Office) -> None:
    """It is refused before anything is recorded."""
    with pytest.raises(BadPlan, match="no agent"):
        office.accept(RunRequest("x", plan(Task("a", "x", agent="nobody"))))
    with pytest.raises(Malformed, match="lone surrogate"):
        office.accept(RunRequest("\ud800", chain("a")))
    with pytest.raises(Malformed, match="plan"):
        office.accept(RunRequest("x", plan(Task("a", "\ud800"))))

    assert office.store.strands(RUN) == []
    assert office.alarms() == []


def test_an_agent_that_breaks_its_promise_is_recorded_as_an_error(factory: StoreFactory) -> None:
    """An adapter that raises must not take the run along, and neither must what it says of it."""

    def explode(call: ModelCall) -> None:
        if call.number == 1:
            raise RuntimeError("\x1b[31m" + "x" * 5000)

    office = Office(factory(), Hands(at_call=explode))
    run = office.do(RunRequest("x", chain("a"), quick()))

    assert run.outcome is Outcome.OK
    first = run.task("a").calls[0].replied
    assert first is not None
    assert (first.outcome, first.why, first.code) == (Outcome.FAILED, Why.ERROR, "RuntimeError")
    (failed,) = [e for e in office.entries() if "error" in e.bodies]
    assert office.body(failed, "error").endswith(b"xxx")


def test_what_a_provider_says_of_an_error_cannot_end_a_run(office: Office) -> None:
    """A code may hold anything; what facts cannot hold of it is left out."""
    agents = {"": Scripted({"*": (ScriptStep(fail="line\nline" + "x" * 5000), ScriptStep("ok"))})}
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents)))

    assert run.outcome is Outcome.OK
    replied = run.task("a").calls[0].replied
    assert replied is not None
    assert replied.code.startswith("line line")


def test_a_run_is_closed_and_its_alarm_put_out_in_one_commit(factory: StoreFactory) -> None:
    """Nobody would ever put it out afterwards: a run that has ended is not looked at."""
    store = factory()
    alarms: list[Timer | None] = []

    def look(records: Sequence[EntryWrite]) -> None:
        store.append(records)
        alarms.append(store.timer(RUN, "main"))

    Office(store, append=look).do(RunRequest("x", chain("a"), quick()))

    assert alarms[0] is not None, "it is set by the commit that accepts the run"
    assert alarms[-1] is None
    assert None not in alarms[:-1]


def test_a_finished_run_is_left_alone(office: Office) -> None:
    """Whoever is told to go on with it does nothing, and nobody is told again."""
    office.do(RunRequest("x", chain("a"), quick()))
    before = office.entries()
    office.work()

    assert office.entries() == before
    assert office.alarms() == []
    assert len(office.hands.calls) == 1
