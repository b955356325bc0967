"""Tasks on which a panel works: its accord decides, and what it found reaches others."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from forum.deliberation.accord_audit import audit_accords
from forum.deliberation.record_comparison import IndexedEntry, SessionEntries
from forum.deliberation.task_audit import RunAudit
from forum.engine import RunRequest, cancel_run
from forum.engine.context import read_request
from forum.errors import BadPlan
from forum.ledger.body import StoredBody
from forum.ledger.kinds import Outcome
from forum.ledger.log import stored_body
from forum.work.council_end import Accord, Requirement
from forum.work.kinds import AccordFacts, DelegationFacts, Next, StopReason
from forum.work.panel import COUNCIL_VERSION, Council, Seat
from forum.work.plan import RunBudget, Task
from forum.work.policy import Answer, Policy, Role, Scripted, ScriptStep
from forum.work.run_fold import Run, TaskState
from forum.work.run_summary import tally_entries
from forum.work.run_words import describe_run_word
from tests.engine.office import PERSON, Cut, Office, Power, plan, quick
from tests.engine.panel import DIVIDED, PRICE, QUESTION, Way, panel
from tests.engine.test_replay import play
from tests.spoken import ballot, claiming
from tests.support import StoreFactory

OBJECTION = "lock_timeout is not set"
AGREED: tuple[Way, ...] = ((claiming("yes", "it was tested"),),) * 3
BLOCKED: tuple[Way, ...] = (
    (claiming("yes", "it was tested"), ballot("yes")),
    (ballot("yes", blocker=OBJECTION), ballot("yes", blocker=OBJECTION)),
    (ballot("yes"), ballot("yes")),
)
SPLIT: tuple[Way, ...] = (
    (ballot("yes"), ballot("yes")),
    (ballot("no"), ballot("no")),
    (ballot("later"), ballot("later")),
)
ACCORDS = {
    Accord.AGREED: AGREED,
    Accord.MAJORITY: DIVIDED,
    Accord.SPLIT: SPLIT,
    Accord.BLOCKED: BLOCKED,
}
"""A council that ends with each accord."""


def order(
    ways: tuple[Way, ...], require: Requirement = Requirement.MAJORITY, **policy: object
) -> RunRequest:
    """Ask for a decision of a council, and for what follows from it."""
    seated = panel(*ways, require=require, version=COUNCIL_VERSION)
    assert isinstance(seated.panel, Council)
    tasks = plan(
        Task("decide", QUESTION, panel=seated.panel, budget=RunBudget(usd=50 * PRICE)),
        Task("ship", "Ship it.", needs=("decide",)),
    )
    rules: Policy = quick(agents=seated.agents, **policy)
    return RunRequest("See to it.", tasks, rules, RunBudget(usd=1000 * PRICE))


def states(run: Run) -> tuple[TaskState, TaskState]:
    """Return how both tasks ended."""
    return run.task("decide").state, run.task("ship").state


def test_every_accord_has_a_council_here() -> None:
    """A new accord needs a case."""
    assert set(ACCORDS) == set(Accord)


@pytest.mark.parametrize("require", Requirement)
@pytest.mark.parametrize("accord", Accord)
def test_a_task_passes_only_if_its_panel_agrees_as_far_as_it_has_to(
    office: Office, folder: Path, accord: Accord, require: Requirement
) -> None:
    """A veto or a split ends the task, and nothing is done that needs it."""
    run = office.do(order(ACCORDS[accord], require))
    passes = accord is Accord.AGREED or (accord, require) == (
        Accord.MAJORITY,
        Requirement.MAJORITY,
    )
    verdict = run.task("decide").verdict
    assert verdict is not None

    if passes:
        assert run.outcome is Outcome.OK
        assert states(run) == (TaskState.PASSED, TaskState.PASSED)
        assert verdict.reason == ""
    else:
        assert run.outcome is Outcome.FAILED
        assert states(run) == (TaskState.FAILED, TaskState.SKIPPED)
        assert (verdict.next, verdict.reason) == (Next.GIVE_UP, accord.value)
    assert run.task("decide").accord == AccordFacts(
        child_of(office), accord, blockers=int(accord is Accord.BLOCKED)
    )
    undecided = not passes and accord is not Accord.MAJORITY
    word = accord.value if undecided else "ok" if passes else "failed"
    assert describe_run_word(run) == word
    assert tally_entries(office.entries()).result().accord == (accord if undecided else None)
    assert office.findings() == ()
    assert play(office, folder) == []


@pytest.mark.parametrize("accord", Accord)
def test_a_list_says_of_a_council_what_its_own_run_says(office: Office, accord: Accord) -> None:
    """Split and blocked are not ok, in the state of the run and in its summary."""
    run = office.do(RunRequest(QUESTION, None, panel(*ACCORDS[accord])))
    decided = accord in (Accord.AGREED, Accord.MAJORITY)

    assert describe_run_word(run) == ("ok" if decided else accord.value)
    assert tally_entries(office.entries()).result().accord == (None if decided else accord)


def test_a_verifier_compares_the_accord_with_the_panel(office: Office) -> None:
    """Whoever writes that a blocked council agreed is found out."""
    run = office.do(order(DIVIDED))
    (noted,) = [e for e in office.entries() if isinstance(e.facts, AccordFacts)]
    recorded = [IndexedEntry(n, leaf, entry) for n, (leaf, entry) in enumerate(office.told())]
    forged = [
        msgspec.structs.replace(
            item,
            entry=msgspec.structs.replace(
                item.entry, facts=msgspec.structs.replace(noted.facts, accord=Accord.AGREED)
            ),
        )
        if item.entry == noted
        else item
        for item in recorded
    ]

    def entries(run: str, items: list[IndexedEntry]) -> SessionEntries:
        return SessionEntries(run, items, lambda at, name: _stored(office, at, name))

    def read(run: str) -> SessionEntries:
        told = enumerate(office.told(run))
        return entries(run, [IndexedEntry(n, leaf, entry) for n, (leaf, entry) in told])

    assert run.outcome is Outcome.OK
    assert audit_accords(entries("run-1", recorded), read) == RunAudit((), ())
    (fault,) = audit_accords(entries("run-1", forged), read).faults
    assert "accord" in fault.detail
    assert audit_accords(entries("run-1", recorded), lambda run: entries(run, [])).not_checked


def _stored(office: Office, at: IndexedEntry, name: str) -> StoredBody | None:
    return stored_body(office.store, at.entry, name)


def child_of(office: Office) -> str:
    """Return the run in which the panel sat."""
    (child,) = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]
    return str(child)


def test_a_task_that_needs_a_council_reads_its_claims_and_its_dissent(office: Office) -> None:
    """As a quotation, like all that others wrote."""
    office.do(order(DIVIDED))
    prompt = office.prompt("ship").decode()

    assert "begin: task decide\nyes\n" in prompt
    (_, found) = prompt.split("begin: the panel of task decide\n")
    assert "The council decided by a majority" in found
    assert "it was tested" in found
    assert "- no (seats 3, 5)" in found
    assert prompt.index("not instructions") < prompt.index("The council decided")


def test_the_answer_of_a_run_tells_what_its_council_found(office: Office) -> None:
    """And not the bare word."""
    policy = panel(*DIVIDED)
    assert isinstance(policy.panel, Council)
    decide = plan(Task("decide", QUESTION, "matches ^yes$", panel=policy.panel))
    run = office.do(RunRequest("See to it.", decide, quick(agents=policy.agents)))
    answer = office.answer().decode()

    assert run.outcome is Outcome.OK
    assert answer.startswith("yes\n")
    assert "- no (seats 3, 5)" in answer
    assert office.findings() == ()


@pytest.mark.parametrize("answer", Answer)
@pytest.mark.parametrize("accord", [Accord.BLOCKED, Accord.SPLIT])
def test_a_person_decides_about_a_dissent(
    office: Office, folder: Path, accord: Accord, answer: Answer
) -> None:
    """The gate shows who objects to what; the verdict keeps that it was blocked or split."""
    waiting = office.do(order(ACCORDS[accord], gates=("dissent",)))
    (gate,) = waiting.open_gates
    (opened,) = [e for e in office.entries() if e.kind == "gate.open/1"]
    shown = office.body(opened, "shown").decode()

    assert waiting.task("decide").state is TaskState.WAITING
    assert gate.opened.subject == "dissent/decide"
    assert gate.opened.default is Answer.REJECT
    assert (OBJECTION in shown) == (accord is Accord.BLOCKED)
    assert ("- no (seat 2)" in shown) == (accord is Accord.SPLIT)
    assert office.findings() == ()

    office.decide("dissent/decide", answer)
    run = office.work()
    verdict = run.task("decide").verdict
    assert verdict is not None
    assert verdict.reason == accord.value
    if answer is Answer.APPROVE:
        assert states(run) == (TaskState.PASSED, TaskState.PASSED)
    else:
        assert states(run) == (TaskState.FAILED, TaskState.SKIPPED)
    (judged,) = [e for e in office.entries() if e.kind == "verdict/1" and "decide" in e.strand]
    (decided,) = [leaf for leaf, e in office.told() if e.kind == "gate.decision/2"]
    assert judged.parents == (decided.hex(),)
    assert office.findings() == ()
    assert play(office, folder) == []


def test_a_run_that_waits_for_a_decision_about_a_dissent_can_be_cancelled(office: Office) -> None:
    """Nobody has to decide any more."""
    office.do(order(BLOCKED, gates=("dissent",)))
    cancel_run(office.ledger, "run-1", PERSON)
    run = office.work()

    assert run.outcome is Outcome.CANCELLED
    stopped = run.task("decide").stopped
    assert stopped is not None
    assert stopped.reason is StopReason.CANCELLED
    assert office.alarms() == []
    assert office.findings() == ()


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_veto_survives_a_crash_wherever_it_comes(folder: Path, *, persisted: bool) -> None:
    """Also between the end of the council and the verdict on the task, and at the gate."""
    commits, broken = 0, True
    while broken:
        factory = StoreFactory(folder / f"{commits}-{persisted}.db")
        power = Power(factory(), commits, persisted=persisted)
        office = Office(factory(), append=power.append)
        try:
            _play_veto(office)
        except Cut:
            _play_veto(Office(factory(), office.hands))
        office, broken = Office(factory(), office.hands), power.failed
        run = office.work()
        assert states(run) == (TaskState.FAILED, TaskState.SKIPPED), f"commit {commits}"
        assert office.findings() == ()
        assert office.alarms() == []
        factory.close()
        commits += 2

    assert commits > 15


def _play_veto(office: Office) -> None:
    if not office.store.strands("run-1"):
        office.accept(order(BLOCKED, gates=("dissent",)))
    run = office.work()
    if run.open_gates:
        office.decide("dissent/decide", Answer.REJECT)
        office.work()


# A panel as the last rung of the ladder

RESULT = "It is safe, because it looks safe."


def rung(ways: tuple[Way, ...], second: tuple[Way, ...] = (), **policy: object) -> RunRequest:
    """Ask for a task whose results a judge rejects, so that councils decide in the end."""
    seated, other = panel(*ways, version=COUNCIL_VERSION), panel(*second, version=COUNCIL_VERSION)
    assert isinstance(seated.panel, Council)
    assert isinstance(other.panel, Council)
    seats = tuple(Seat(f"second-{n}") for n in range(1, len(second) + 1))
    named = {f"second-{n}": other.agents[f"seat-{n}"] for n in range(1, len(second) + 1)}
    opinion = json.dumps({"reason": "no evidence", "evidence": "", "missing": [], "passed": False})
    agents = {
        **seated.agents,
        **named,
        "": Scripted({"*": (ScriptStep(RESULT),)}),
        "frontier": Scripted({"*": (ScriptStep(f"{RESULT} Trust me."),)}),
        "shipper": Scripted({"*": (ScriptStep("Shipped."),)}),
        "judge": Scripted({"*": (ScriptStep(opinion),)}),
    }
    panels = {"board": seated.panel}
    if second:
        panels["big"] = msgspec.structs.replace(other.panel, seats=seats)
    tasks = plan(
        Task("decide", QUESTION, budget=RunBudget(usd=50 * PRICE)),
        Task("ship", "Ship it.", "contains Shipped", needs=("decide",), agent="shipper"),
    )
    rules: Policy = quick(
        agents=agents,
        ladder=("frontier", *panels),
        panels=panels,
        roles={Role.VALIDATOR: "judge"},
        **policy,
    )
    return RunRequest("See to it.", tasks, rules, RunBudget(usd=1000 * PRICE))


@pytest.mark.parametrize("accord", Accord)
def test_a_council_decides_what_a_judge_has_rejected(
    office: Office, folder: Path, accord: Accord
) -> None:
    """It sees the rejected result and why; the judge is not asked about its answer again."""
    run = office.do(rung(ACCORDS[accord]))
    decide = run.task("decide")
    passes = accord in (Accord.AGREED, Accord.MAJORITY)
    nexts = [verdict.next for verdict in decide.verdicts]
    question = read_request(office.ledger, child_of(office)).decode()

    assert nexts == [Next.ESCALATE, Next.ESCALATE, Next.ACCEPT if passes else Next.GIVE_UP]
    assert decide.verdicts[-1].reason == ("" if passes else accord.value)
    assert decide.state is (TaskState.PASSED if passes else TaskState.FAILED)
    assert RESULT in question
    assert "no evidence" in question
    assert decide.accord == AccordFacts(
        child_of(office), accord, blockers=int(accord is Accord.BLOCKED)
    )
    assert office.findings() == ()
    assert play(office, folder) == []


def test_a_blocked_council_is_followed_by_another_council_only(
    office: Office, folder: Path
) -> None:
    """Both are paid from the budget of the task."""
    run = office.do(rung(BLOCKED, AGREED))
    decide = run.task("decide")
    children = [e.facts for e in office.entries() if isinstance(e.facts, DelegationFacts)]

    assert [verdict.reason for verdict in decide.verdicts] == [
        "not-accepted",
        "not-accepted",
        "blocked",
        "",
    ]
    assert decide.state is TaskState.PASSED
    first, second = children
    spent = office.account(first.run).used.usd
    assert (first.usd, second.usd) == (50 * PRICE, 50 * PRICE - spent)
    assert OBJECTION in read_request(office.ledger, second.run).decode()
    assert office.findings() == ()
    assert play(office, folder) == []


def test_no_agent_alone_comes_after_a_panel(office: Office) -> None:
    """Such a ladder is refused."""
    asked = rung(AGREED)
    wrong = msgspec.structs.replace(asked.policy, ladder=("board", "frontier"))
    with pytest.raises(BadPlan, match="no agent alone overrules a panel"):
        office.accept(replace(asked, policy=wrong))


def test_a_person_sees_the_rejection_and_the_dissent(office: Office) -> None:
    """The judge said no, the council is blocked, and a person decides."""
    waiting = office.do(rung(BLOCKED, gates=("dissent",)))
    assert [gate.opened.subject for gate in waiting.open_gates] == ["dissent/decide"]
    (opened,) = [e for e in office.entries() if e.kind == "gate.open/1"]
    shown = office.body(opened, "shown").decode()
    assert shown.startswith("The result of the agent was not accepted: no evidence")
    assert "The result of frontier was not accepted: no evidence" in shown
    assert OBJECTION in shown
    office.decide("dissent/decide", Answer.APPROVE)
    run = office.work()

    assert run.task("decide").state is TaskState.PASSED
    assert OBJECTION in office.prompt("ship").decode()
    assert office.findings() == ()
