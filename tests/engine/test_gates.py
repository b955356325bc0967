"""Gates: decided once, about what was looked at, by whoever comes first; until then only rows."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from forum.engine import RunRequest, cancel_run, edit_gate, find_gate, read_run
from forum.errors import (
    BadPlan,
    ForumError,
    GateAlreadyDecided,
    GateChanged,
    Malformed,
    NoSuchGate,
    RunAlreadyEnded,
)
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Timer
from forum.runs.kinds import Decider, GateDecisionByFacts, GateDecisionFacts, StopReason
from forum.runs.plan import RunBudget, Task, read_plan, write_plan
from forum.runs.policy import Answer, Scripted, ScriptStep
from forum.runs.run_fold import Gate, RunState, TaskState
from tests.engine.office import PERSON, RUN, Office, chain, plan, quick, until
from tests.support import StoreFactory, Wrapped

GUARDED = RunRequest("x", chain("a", "b"), quick(gates=("task:b",)))
PLANNED = RunRequest("x", chain("a"), quick(gates=("plan",)))


def digest_of(office: Office, subject: str) -> str:
    """Return the digest of what a gate shows now."""
    return find_gate(office.ledger, RUN, subject).digest


# Before a plan, and before a task


def test_nothing_of_a_plan_runs_before_it_was_approved(office: Office) -> None:
    """What is shown is the plan, word for word."""
    waiting = office.do(PLANNED)
    gate = find_gate(office.ledger, RUN, "plan")
    (opened,) = [entry for entry in office.entries() if entry.kind == "gate.open/1"]
    shown, calls = office.body(opened, "shown"), len(office.hands.calls)
    office.decide("plan", Answer.APPROVE)
    run = office.work()

    assert (waiting.state, calls) == (RunState.WAITING, 0)
    assert read_plan(shown) == PLANNED.plan
    assert gate.digest == opened.bodies["shown"].h
    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_a_rejected_plan_ends_its_run(office: Office) -> None:
    """Nothing was done, and every task says so."""
    office.do(PLANNED)
    office.decide("plan", Answer.REJECT)
    run = office.work()

    assert (run.outcome, len(office.hands.calls)) == (Outcome.DENIED, 0)
    assert run.stopped is not None
    assert (run.stopped.reason, run.stopped.by) == (StopReason.REJECTED, "plan")
    assert run.task("a").state is TaskState.SKIPPED
    assert office.alarms() == []
    assert office.findings() == ()


def test_an_edited_plan_is_the_one_that_is_carried_out(office: Office) -> None:
    """And it is recorded as the plan, with the decision as its cause."""
    office.do(PLANNED)
    other = chain("x", "y")
    old = digest_of(office, "plan")
    new = edit_gate(office.ledger, RUN, "plan", old, shown=write_plan(other), actor=PERSON)
    with pytest.raises(GateChanged):
        office.decide("plan", Answer.APPROVE, digest=old)
    office.decide("plan", Answer.APPROVE, digest=new)
    run = office.work()

    assert run.outcome is Outcome.OK
    assert set(run.tasks) == {"x", "y"}
    plans = [(leaf, entry) for leaf, entry in office.told() if entry.kind == "plan/1"]
    assert [read_plan(office.body(entry, "plan")) for _, entry in plans] == [PLANNED.plan, other]
    by_id = {leaf.hex(): entry for leaf, entry in office.told()}
    assert [by_id[parent].kind for parent in plans[1][1].parents] == ["gate.decision/2"]
    first = next(entry for entry in office.entries() if entry.strand == "task/x")
    assert first.parents == (plans[1][0].hex(),), "its cause is the plan that was approved"
    assert office.findings() == ()


@pytest.mark.parametrize(
    "shown",
    [
        b"",
        b"{}",
        write_plan(plan(Task("a", "x", agent="nobody"))),
        b'{"tasks":[{"id":"a","instruction":"x","needs":["a"]}]}',
    ],
    ids=["nothing", "no tasks", "an agent that is not there", "a cycle"],
)
def test_a_plan_cannot_be_edited_into_one_that_cannot_be_run(office: Office, shown: bytes) -> None:
    """Once it was approved, it would be too late."""
    office.do(PLANNED)
    digest = digest_of(office, "plan")

    with pytest.raises((BadPlan, Malformed)):
        edit_gate(office.ledger, RUN, "plan", digest, shown=shown, actor=PERSON)
    assert digest_of(office, "plan") == digest


def test_a_task_runs_as_it_was_approved(office: Office) -> None:
    """Its instruction is what was last shown; the other tasks do not wait for it."""
    request = RunRequest(
        "x", plan(Task("a", "x"), Task("b", "old words")), quick(gates=("task:b",))
    )
    waiting = office.do(request)
    digest = digest_of(office, "task/b")
    for nothing in (b" ", b"\xff"):
        with pytest.raises((BadPlan, Malformed)):
            edit_gate(office.ledger, RUN, "task/b", digest, shown=nothing, actor=PERSON)
    newer = edit_gate(office.ledger, RUN, "task/b", digest, shown=b"new words", actor=PERSON)
    with pytest.raises(GateChanged):
        edit_gate(
            office.ledger, RUN, "task/b", digest, shown=b"words of one who came late", actor=PERSON
        )
    newest = edit_gate(office.ledger, RUN, "task/b", newer, shown=b"newest words", actor=PERSON)
    office.decide("task/b", Answer.APPROVE, digest=newest)
    run = office.work()

    assert (waiting.task("a").state, waiting.task("b").state) == (
        TaskState.PASSED,
        TaskState.WAITING,
    )
    assert run.outcome is Outcome.OK
    assert office.prompt("b") == b"newest words"
    by_id = {leaf.hex(): entry for leaf, entry in office.told()}
    call = next(entry for entry in office.entries() if entry.strand == "task/b")
    assert [by_id[parent].kind for parent in call.parents] == ["gate.decision/2"]
    assert office.findings() == ()


def test_a_rejected_task_is_stopped_and_its_dependants_are_skipped(office: Office) -> None:
    """The rest of the plan is not concerned."""
    tasks = plan(Task("a", "x"), Task("b", "x", needs=("a",)), Task("c", "x", after=("a",)))
    office.do(RunRequest("x", tasks, quick(gates=("task:a",))))
    office.decide("task/a", Answer.REJECT)
    run = office.work()

    assert [run.task(name).state for name in "abc"] == [
        TaskState.STOPPED,
        TaskState.SKIPPED,
        TaskState.SKIPPED,
    ]
    assert run.outcome is Outcome.FAILED
    assert office.findings() == ()


def test_a_gate_before_every_task_is_one_for_each(office: Office) -> None:
    """Tasks of a plan within are tasks, too."""
    tasks = plan(Task("a", "x"), Task("n", "x", needs=("a",), tasks=(Task("inner", "x"),)))
    run = office.do(RunRequest("x", tasks, quick(gates=("tasks",))))
    seen = []
    for _ in range(5):
        for name in sorted(set(office.store.runs("", 10)) - {"log"}):
            for gate in read_run(office.ledger, name).open_gates:
                seen.append((name == RUN, gate.opened.subject))
                office.decide(gate.opened.subject, Answer.APPROVE, run=name)
        run = office.work()

    assert run.outcome is Outcome.OK
    assert seen == [(True, "task/a"), (True, "task/n"), (False, "task/inner")]


def test_a_task_of_a_plan_within_is_guarded_by_its_name(office: Office) -> None:
    """However deep it lies: a gate that guards nothing would be believed to guard."""
    deep = Task("middle", "x", tasks=(Task("inner", "x"),))
    request = RunRequest("x", plan(Task("n", "x", tasks=(deep,))), quick(gates=("task:inner",)))
    office.do(request)
    waiting = [
        gate.opened.subject
        for name in office.store.runs("", 10)
        for gate in read_run(office.ledger, name).open_gates
    ]

    assert waiting == ["task/inner"]
    assert office.hands.calls == []


# Once, and by whoever comes first


def test_there_is_no_second_decision(office: Office) -> None:
    """Whoever comes late is told what was decided, and by whom."""
    office.do(GUARDED)
    digest = digest_of(office, "task/b")
    office.decide("task/b", Answer.REJECT)

    with pytest.raises(GateAlreadyDecided, match=r"reject.*operator"):
        office.decide("task/b", Answer.APPROVE, digest=digest)
    with pytest.raises(GateAlreadyDecided):
        edit_gate(office.ledger, RUN, "task/b", digest, shown=b"other words", actor=PERSON)
    with pytest.raises(NoSuchGate):
        find_gate(office.ledger, RUN, "task/a")
    assert office.work().task("b").state is TaskState.STOPPED


def test_of_many_decisions_at_once_one_counts(store_factory: StoreFactory) -> None:
    """The position of the decision is taken once, from whatever process."""
    Office(store_factory()).do(GUARDED)
    offices = [Office(store_factory()) for _ in range(8)]
    digest, barrier = digest_of(offices[0], "task/b"), Barrier(8)

    def rush(n: int) -> ForumError | None:
        barrier.wait()
        try:
            if n == 7:
                edit_gate(
                    offices[n].ledger, RUN, "task/b", digest, shown=b"other words", actor=PERSON
                )
            else:
                answer = Answer.APPROVE if n % 2 else Answer.REJECT
                offices[n].decide("task/b", answer, digest=digest, reason=f"as {n} sees it")
        except ForumError as error:
            return error
        return None

    with ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(rush, range(8)))
    if refused[7] is None:  # the edit came first: nobody has decided about what is shown now
        assert all(isinstance(error, GateChanged) for error in refused[:7])
        offices[0].decide("task/b", Answer.APPROVE)
        refused[0] = None

    decisions = [e for e in offices[0].entries() if isinstance(e.facts, GateDecisionByFacts)]
    assert len(decisions) == 1
    # The reason is in the commit of the decision: those that were refused have left none.
    assert len([e for e in offices[0].entries() if e.kind == "gate.reason/1"]) <= 1
    assert sum(error is None for error in refused[:7]) == 1
    assert all(isinstance(error, GateAlreadyDecided | GateChanged) for error in refused if error)
    run = offices[0].work()
    assert run.decision("gate/task/b") is decisions[0].facts.answer
    assert offices[0].findings() == ()


@pytest.mark.parametrize("default", Answer)
def test_a_gate_that_nobody_decides_has_its_default(office: Office, default: Answer) -> None:
    """In time, and as a decision like any other: it names what it was about, and who it was by."""
    policy = quick(gates=("task:a",), gate_milliseconds=250, gate_default=default)
    waiting = office.do(RunRequest("x", chain("a"), policy))
    alarms = office.alarms()
    run = waiting
    while run.outcome is None:
        run = office.work()
    (decided,) = [e for e in office.entries() if isinstance(e.facts, GateDecisionFacts)]

    assert waiting.state is RunState.WAITING
    assert alarms == [(RUN, "gate/task/a")]
    gate = run.gates["gate/task/a"]
    assert decided.facts == GateDecisionFacts(default, gate.digest, Decider.DEADLINE)
    assert decided.ts >= gate.deadline
    assert run.task("a").state is {
        Answer.APPROVE: TaskState.PASSED,
        Answer.REJECT: TaskState.STOPPED,
    }.get(default)
    assert office.alarms() == []


def test_a_gate_expires_while_other_tasks_run(office: Office) -> None:
    """The default holds when it is time, not when everybody else has finished."""
    agents = {
        "": Scripted({"slow": (ScriptStep("x", milliseconds=2500),), "*": (ScriptStep("y"),)})
    }
    policy = quick(
        agents=agents, gates=("task:a",), gate_milliseconds=50, gate_default=Answer.APPROVE
    )
    run = office.do(RunRequest("x", plan(Task("slow", "x"), Task("a", "x")), policy))
    strands = [entry.strand for entry in office.entries() if entry.kind == "verdict/1"]

    assert run.outcome is Outcome.OK
    assert strands == ["task/a", "task/slow"]


def test_a_decision_is_heard_while_other_tasks_run(office: Office) -> None:
    """Nobody waits for the slowest branch in order to go on with another."""
    agents = {"": Scripted({"slow": (ScriptStep("x", milliseconds=700),), "*": (ScriptStep("y"),)})}
    request = RunRequest(
        "x",
        plan(Task("slow", "x"), Task("a", "x")),
        quick(agents=agents, gates=("task:a",)),
    )
    office.accept(request)

    async def approve(office: Office) -> None:
        await until(lambda: bool(read_run(office.ledger, RUN).open_gates))
        office.decide("task/a", Answer.APPROVE)

    run = office.work(meanwhile=approve)

    assert run.outcome is Outcome.OK
    verdicts = [entry.strand for entry in office.entries() if entry.kind == "verdict/1"]
    assert verdicts == ["task/a", "task/slow"]


# Nothing but rows


def test_what_waits_is_nothing_but_rows(office: Office) -> None:
    """No coroutine and no alarm of its own: ten thousand waiting runs cost ten thousand rows."""
    office.do(GUARDED)
    alarms, alarm = office.alarms(), office.alarm()
    office.decide("task/b", Answer.APPROVE)
    due, gate_alarm = office.alarm(), office.store.timer(RUN, "gate/task/b")
    before = office.store.now()

    assert alarms == [(RUN, "gate/task/b")]
    assert alarm is None
    assert due is not None
    assert due.at is not None
    assert due.at <= before + 1_000_000, "a decision has somebody look at the run at once"
    assert gate_alarm is None
    assert office.work().outcome is Outcome.OK
    assert office.alarms() == []


def leave(_run: str) -> None:
    """Find that the run is being driven already."""


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("budget", [RunBudget(), RunBudget(milliseconds=60_000)])
def test_a_decision_in_the_moment_of_lying_down_is_not_lost(
    factory: StoreFactory, budget: RunBudget, where: str
) -> None:
    """Between the last look at the gate and the alarm's being put out, somebody may decide."""
    store, decided = factory(), list[tuple[Gate, ...]]()

    def decide_first(alarms: Sequence[Timer], seconds: float | None) -> None:
        waiting = read_run(office.ledger, RUN).open_gates
        if waiting and not decided:
            decided.append(waiting)
            other = Office(factory())
            other.decide("task/b", Answer.APPROVE)
            # Whoever looks at the alarm finds that the run is driven, and lets it ring later.
            office.attend() if where == "here" else asyncio.run(other.dispatch_due_runs(leave))
        store.reschedule(alarms, seconds)

    office = Office(Wrapped(store, reschedule=decide_first))
    run = office.do(RunRequest("x", GUARDED.plan, GUARDED.policy, budget))

    assert decided
    assert run.outcome is Outcome.OK


def test_a_decision_in_the_moment_of_leaving_is_not_lost(factory: StoreFactory) -> None:
    """The alarm is out, and whoever drives the run is still there to be told, but does not wait."""
    store, decided = factory(), list[bool]()

    def decide_after(run: str, strand: str) -> Timer | None:
        alarm = store.timer(run, strand)
        if alarm is None and not decided and read_run(office.ledger, RUN).open_gates:
            decided.append(True)
            Office(factory()).decide("task/b", Answer.APPROVE)
            office.attend()
        return alarm

    office = Office(Wrapped(store, timer=decide_after))
    run = office.do(GUARDED)

    assert decided
    assert run.outcome is Outcome.OK


def test_when_a_run_has_ended_its_gates_are_closed(office: Office) -> None:
    """Whoever decides after that is refused, so that nothing comes after the close."""
    office.do(RunRequest("x", plan(Task("a", "x"), Task("b", "x")), quick(gates=("task:b",))))
    digest = digest_of(office, "task/b")
    cancel_run(office.ledger, RUN, PERSON)
    run = office.work()
    before = office.entries()

    assert run.outcome is Outcome.CANCELLED
    gate = run.gates["gate/task/b"].decided
    assert gate == GateDecisionFacts(Answer.REJECT, digest, Decider.END)
    with pytest.raises(GateAlreadyDecided, match="end"):
        office.decide("task/b", Answer.APPROVE, digest=digest)
    with pytest.raises(GateAlreadyDecided):
        edit_gate(office.ledger, RUN, "task/b", digest, shown=b"other words", actor=PERSON)
    with pytest.raises(RunAlreadyEnded):
        cancel_run(office.ledger, RUN, PERSON)
    assert office.entries() == before
    assert office.alarms() == []
    assert office.findings() == ()
