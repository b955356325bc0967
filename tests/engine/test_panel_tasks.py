"""Tasks on which a panel works: its accord decides, and what it found reaches others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.engine import CallReply, RunRequest, cancel_run, read_run_request
from forum.engine.child_runs import read_child_reply
from forum.engine.context import read_request
from forum.errors import BadPlan
from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.bundle import BundleReader, gather_bundle
from forum.ledger.kinds import Outcome
from forum.ledger.log import stored_body
from forum.runs.council_end import Accord, Requirement, meets_requirement
from forum.runs.kinds import AcceptedFacts, AccordFacts, DelegationFacts, Next, StopReason
from forum.runs.panel import COUNCIL_VERSION, Council, Seat, Symposium
from forum.runs.panel_protocol import PanelRecord
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Answer, Policy, Role, Scripted, ScriptStep
from forum.runs.record_comparison import IndexedEntry, SessionEntries
from forum.runs.run_fold import Run, TaskState
from forum.runs.run_summary import tally_entries
from forum.runs.run_words import describe_run_word
from forum.tlog import Hash
from forum.verify import Trust, standalone, verify_bundle
from forum.verify.accord_audit import audit_accords, audit_children
from forum.verify.report import Problem
from forum.verify.task_audit import RunAudit
from tests.engine.office import KINDS, PERSON, Cut, Office, Power, kinds_without, plan, quick
from tests.engine.panel import DIVIDED, PRICE, QUESTION, Way, panel
from tests.engine.test_replay import play
from tests.features.council.sitting import CHAIR, config
from tests.spoken import ballot, claiming, turn, verdict
from tests.support import StoreFactory, key_of
from tests.verify.go_verifier import go_verifier, verify_by_go
from tests.verify.page import page_verifier
from tests.verify.samples import stranger
from tests.verify.world import policy_of

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


def test_a_verifier_compares_parent_and_child(office: Office) -> None:
    """A run of that id that was not accepted for the task is the work of somebody else."""
    office.do(order(DIVIDED))

    def entries(run: str) -> list[IndexedEntry]:
        return [IndexedEntry(n, leaf, entry) for n, (leaf, entry) in enumerate(office.told(run))]

    def change(items: list[IndexedEntry], **facts: str) -> list[IndexedEntry]:
        return [
            msgspec.structs.replace(
                item,
                entry=msgspec.structs.replace(
                    item.entry, facts=msgspec.structs.replace(item.entry.facts, **facts)
                ),
            )
            if isinstance(item.entry.facts, (AcceptedFacts, DelegationFacts))
            else item
            for item in items
        ]

    def audit(run: str, other: list[IndexedEntry]) -> list[str]:
        def record(name: str, items: list[IndexedEntry]) -> SessionEntries:
            return SessionEntries(name, items, lambda at, what: _stored(office, at, what))

        run_audit = audit_children(record(run, entries(run)), lambda name: record(name, other))
        return [fault.detail for fault in run_audit.faults]

    parent, child = entries("run-1"), entries(child_of(office))
    assert audit("run-1", child) == audit(child_of(office), parent) == []
    assert audit("run-1", []) == audit(child_of(office), []) == []
    for squatted in (child[:1], change(child, parent_run=""), change(child, parent_run="run-2")):
        (fault,) = audit("run-1", squatted)
        assert "was not accepted for this run" in fault
    other = [i for i in parent if not isinstance(i.entry.facts, DelegationFacts)]
    (fault,) = audit(child_of(office), other)
    assert "has not delegated this run" in fault


@pytest.mark.parametrize("protocol", ["council", "symposium"])
def test_a_verifier_compares_the_accord_with_the_panel(office: Office, protocol: str) -> None:
    """Whoever writes that a panel agreed that did not is found out."""
    asked = order(DIVIDED) if protocol == "council" else hold(sitting(end=closing_words(PART)))
    run = office.do(asked)
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
    assert audit_accords(entries("run-1", recorded), KINDS, read) == RunAudit((), ())
    (fault,) = audit_accords(entries("run-1", forged), KINDS, read).faults
    assert "accord" in fault.detail
    assert audit_accords(
        entries("run-1", recorded), KINDS, lambda run: entries(run, [])
    ).not_checked

    def read_open(run: str) -> SessionEntries:
        closes = ("council.close/1", "symposium.close/1", "symposium.close/2")
        return entries(run, [i for i in read(run).entries if i.entry.kind not in closes])

    (fault,) = audit_accords(entries("run-1", recorded), KINDS, read_open).faults
    assert "no panel has closed" in fault.detail

    # Without the feature, nobody here knows how such a panel closes.
    run_audit = audit_accords(entries("run-1", recorded), kinds_without(protocol), read_open)
    assert run_audit.faults == ()
    assert f"no protocol {protocol!r} for panels is installed" in run_audit.not_checked[0]

    def read_other_words(run: str) -> SessionEntries:
        other = BytesContent(b"The panel agreed.")
        stored = stored_body(office.store, noted, "findings")
        assert stored is not None

        def body(at: IndexedEntry, name: str) -> StoredBody | None:
            is_forged = at.entry == noted and name == "findings"
            return (
                msgspec.structs.replace(stored, read=other.chunks)
                if is_forged
                else _stored(office, at, name)
            )

        return SessionEntries(run, recorded, body)

    (fault,) = audit_accords(read_other_words("run-1"), KINDS, read).faults
    assert "the findings are not those of run" in fault.detail


def test_a_bundle_is_compared_with_the_bundle_of_its_panel(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack holds both: a forged accord is found; alone, a bundle says what it cannot tell."""

    def claim_agreement(record: PanelRecord[Any]) -> AccordFacts:
        return AccordFacts(record.run, Accord.AGREED)

    with monkeypatch.context() as forger:
        forger.setattr(PanelRecord, "read_accord", claim_agreement)
        office.do(order(BLOCKED))
    assert [finding.problem for finding in office.findings()] == [Problem.RUN_COURSE]
    key, child = key_of(office.store.origin), child_of(office)
    trust = Trust((key.verifier(),))
    with office.store.snapshot() as reader:
        bundles = {
            run: gather_bundle(reader, KINDS, run, policy_of(key), verifier=b"").encode()
            for run in ("run-1", child)
        }

    alone = verify_bundle(bundles["run-1"], KINDS, trust)
    beside = verify_bundle(
        bundles["run-1"], KINDS, trust, find_bundle=lambda run: BundleReader(bundles[run])
    )

    assert alone.findings == ()
    assert any(f"run {child} is not there" in missing for missing in alone.not_checked)
    assert [finding.problem for finding in beside.findings] == [Problem.RUN_COURSE]
    # The other verifiers compare no accords, and say so.
    data, told = bundles["run-1"], stranger(trust)
    stated = standalone.verify(data, told)
    assert any(missing.startswith("the accords in run run-1") for missing in stated["not_checked"])
    if (page := page_verifier()) is not None:
        assert page.verify(data, told) == stated
    if go_verifier() is not None:
        assert verify_by_go(data, told)["not_checked"] == stated["not_checked"]


NESTED = RunRequest(
    "x", plan(Task("a", "x", tasks=(Task("b", "x"), Task("c", "x", needs=("b",))))), quick()
)


@pytest.mark.parametrize("asked", [order(BLOCKED), NESTED], ids=["panel", "plan"])
def test_the_calls_of_a_run_within_are_those_that_it_made(
    office: Office, monkeypatch: pytest.MonkeyPatch, asked: RunRequest
) -> None:
    """The account of a cap rests on this figure: a ledger and a pack tell a wrong one."""

    def count_less(*arguments: Any, **named: Any) -> CallReply | None:  # noqa: ANN401  as they come
        reply = read_child_reply(*arguments, **named)
        if reply is None:
            return None
        return replace(reply, spent=reply.spent._replace(calls=reply.spent.calls - 1))

    with monkeypatch.context() as forger:
        forger.setattr("forum.engine.child_runs.read_child_reply", count_less)
        office.do(asked)
    (finding,) = office.findings()
    assert finding.problem is Problem.RUN_COURSE
    assert "calls are recorded of run" in finding.detail


def test_a_verifier_finds_an_accord_of_a_session_without_an_answer(office: Office) -> None:
    """No panel has agreed that came to nothing."""
    office.do(hold(sitting(end="no form at all")))
    child = child_of(office)
    (reply,) = [e for e in office.entries() if e.kind == "reply/1" and "decide" in e.strand]
    indexed_entries = [
        IndexedEntry(n, leaf, entry) for n, (leaf, entry) in enumerate(office.told(child))
    ]
    agreed = AccordFacts(child, Accord.AGREED)
    noted = msgspec.structs.replace(reply, kind="accord/1", facts=agreed, bodies={})

    def entries(run: str, items: list[IndexedEntry]) -> SessionEntries:
        return SessionEntries(run, items, lambda at, name: _stored(office, at, name))

    audit = audit_accords(
        entries("run-1", [IndexedEntry(0, Hash(bytes(32)), noted)]),
        KINDS,
        lambda run: entries(run, indexed_entries),
    )
    (fault,) = audit.faults
    assert "came to no answer" in fault.detail


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
    (_, text) = prompt.split("begin: the panel of task decide\n")
    assert "The council decided by a majority" in text
    assert "it was tested" in text
    assert "- no (seats 3, 5)" in text
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
@pytest.mark.parametrize("protocol", ["council", "symposium"])
def test_a_veto_survives_a_crash_wherever_it_comes(
    folder: Path, protocol: str, *, persisted: bool
) -> None:
    """Also between the end of the council and the verdict on the task, and at the gate."""
    commits, broken = 0, True
    asked = order(BLOCKED, gates=("dissent",))
    if protocol == "symposium":
        asked = hold(sitting(left=VETO), gates=("dissent",))
    while broken:
        factory = StoreFactory(folder / f"{commits}-{persisted}.db")
        power = Power(factory(), commits, persisted=persisted)
        office = Office(factory(), append=power.append)
        try:
            _play_veto(office, asked)
        except Cut:
            _play_veto(Office(factory(), office.hands), asked)
        office, broken = Office(factory(), office.hands), power.failed
        run = office.work()
        assert states(run) == (TaskState.FAILED, TaskState.SKIPPED), f"commit {commits}"
        assert office.findings() == ()
        assert office.alarms() == []
        factory.close()
        commits += 2

    assert commits > 15


def _play_veto(office: Office, asked: RunRequest) -> None:
    if not office.store.strands("run-1"):
        office.accept(asked)
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


# A symposium as the panel of a task

PART = {"topic": "the rust", "positions": [{"agent": "ben", "claim": "it is deep"}]}
VETO = {**PART, "blocker": True}
CLOSED = {"topic": "The rust.", "resolution": "it is paint"}


def closing_words(*unsettled: object, settled: tuple[object, ...] = ()) -> str:
    """Return a synthesis with these disagreements."""
    content = {
        "integrated_answer": "Yes.",
        "resolved_disagreements": settled,
        "unresolved_disagreements": unsettled,
    }
    return json.dumps(content)


def sitting(
    *, finalized: bool = True, left: object = None, fails: bool = False, end: str = closing_words()
) -> Policy:
    """Return a symposium of two with one round, which a limit ends unless it is finalized."""
    second = ScriptStep(fail="auth_failure") if fails else ScriptStep(turn("It is rusty."))
    judged = verdict(
        "finalize" if finalized else "continue", unresolved_disagreements=[left] if left else []
    )
    said = (ScriptStep(turn("It is old.")), second, ScriptStep(judged), ScriptStep(end))
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~turn.{number}": (step,) for number, step in enumerate(said, 1)
    }
    given = config(
        panel=("ada", "ben"),
        session_id="bridge-1",
        problem_statement=QUESTION,
        budget={"max_rounds": 1},
        runtime={"on_agent_failure": "continue_without", "synthesize_on_terminate": True},
    )
    agents = {"": Scripted(), "model": Scripted(moves, usd=PRICE, tokens=100)}
    seats = dict.fromkeys(("ada", "ben", CHAIR), "model")
    return quick(agents=agents, panel=Symposium(given, seats))


SYMPOSIA = {
    "agreed": (sitting(), Accord.AGREED, 0),
    "a dissent": (sitting(end=closing_words(PART)), Accord.MAJORITY, 0),
    "one has left": (sitting(fails=True), Accord.MAJORITY, 0),
    "not converged": (sitting(finalized=False), Accord.SPLIT, 0),
    "an objection": (sitting(end=closing_words(PART, VETO)), Accord.BLOCKED, 1),
    "an objection left out": (sitting(left=VETO), Accord.BLOCKED, 1),
    "an objection answered": (
        sitting(left=VETO, end=closing_words(settled=(CLOSED,))),
        Accord.AGREED,
        0,
    ),
    "an objection called a dissent": (
        sitting(left=VETO, end=closing_words(PART)),
        Accord.BLOCKED,
        1,
    ),
    "an objection said to be settled and open": (
        sitting(left=VETO, end=closing_words(PART, settled=(CLOSED,))),
        Accord.BLOCKED,
        1,
    ),
    "a dissent left out": (sitting(left=PART), Accord.MAJORITY, 0),
    "a dissent settled": (
        sitting(left=PART, end=closing_words(settled=(CLOSED,))),
        Accord.AGREED,
        0,
    ),
    "not converged, and an objection": (
        sitting(finalized=False, left=VETO),
        Accord.BLOCKED,
        1,
    ),
}
"""Sessions with an answer, how far each agreed, and how many objections are left."""


def hold(
    seated: Policy, require: Requirement = Requirement.MAJORITY, **policy: object
) -> RunRequest:
    """Ask a symposium for a decision, and for what follows from it."""
    assert isinstance(seated.panel, Symposium)
    held = msgspec.structs.replace(seated.panel, require=require)
    tasks = plan(
        Task("decide", QUESTION, panel=held, budget=RunBudget(usd=50 * PRICE)),
        Task("ship", "Ship it.", needs=("decide",)),
    )
    rules: Policy = quick(agents=seated.agents, **policy)
    return RunRequest("See to it.", tasks, rules, RunBudget(usd=1000 * PRICE))


@pytest.mark.parametrize("require", Requirement)
@pytest.mark.parametrize("case", SYMPOSIA)
def test_a_task_with_a_symposium_passes_only_if_it_agrees_as_far_as_it_has_to(
    office: Office, folder: Path, case: str, require: Requirement
) -> None:
    """What its coordinator records decides, and not how the answer sounds."""
    seated, accord, blockers = SYMPOSIA[case]
    run = office.do(hold(seated, require))
    verdict = run.task("decide").verdict
    assert verdict is not None

    passes = meets_requirement(accord, require)
    assert run.outcome is (Outcome.OK if passes else Outcome.FAILED)
    end = (TaskState.PASSED, TaskState.PASSED) if passes else (TaskState.FAILED, TaskState.SKIPPED)
    assert states(run) == end
    assert verdict.reason == ("" if passes else accord.value)
    assert run.task("decide").accord == AccordFacts(child_of(office), accord, blockers=blockers)
    assert office.account(child_of(office)).used.usd <= 50 * PRICE
    assert office.findings() == ()
    assert play(office, folder) == []


def test_every_accord_has_a_symposium_here() -> None:
    """A new accord needs a case."""
    assert {accord for _, accord, _ in SYMPOSIA.values()} == set(Accord)


def test_a_symposium_without_an_answer_fails_its_task(office: Office, folder: Path) -> None:
    """There is no answer that a person could accept, so nobody is asked."""
    asked = hold(sitting(end="no form at all"), gates=("dissent",))
    run = office.do(asked)

    assert states(run) == (TaskState.FAILED, TaskState.SKIPPED)
    assert run.task("decide").accord is None
    assert not run.open_gates
    assert office.findings() == ()
    assert play(office, folder) == []


def test_what_a_symposium_found_reaches_the_next_task(office: Office) -> None:
    """With its dissent, as a quotation."""
    office.do(hold(sitting(end=closing_words(PART))))
    (_, text) = office.prompt("ship").decode().split("begin: the panel of task decide\n")

    assert "The symposium came to an answer, with a dissent." in text
    assert "- the rust (ben: it is deep)" in text


def test_a_symposium_is_a_session_of_its_own(office: Office) -> None:
    """Its id is that of its run, and its calls are paid from the lower of both caps."""
    seated = sitting()
    assert isinstance(seated.panel, Symposium)
    budget = {**seated.panel.config["budget"], "max_total_cost_usd": 5 * PRICE / 1e9}
    capped = msgspec.structs.replace(seated.panel, config={**seated.panel.config, "budget": budget})
    office.do(hold(msgspec.structs.replace(seated, panel=capped)))
    held = read_run_request(office.ledger, child_of(office)).policy.panel

    assert isinstance(held, Symposium)
    assert held.config["session_id"] == child_of(office)
    assert office.account(child_of(office)).cap.usd == 5 * PRICE
    assert office.findings() == ()


@pytest.mark.parametrize("answer", Answer)
def test_a_person_decides_about_the_objection_of_a_symposium(
    office: Office, folder: Path, answer: Answer
) -> None:
    """The gate shows who objects to what."""
    waiting = office.do(hold(sitting(left=VETO), gates=("dissent",)))
    (opened,) = [e for e in office.entries() if e.kind == "gate.open/1"]
    shown = office.body(opened, "shown").decode()
    assert [gate.opened.subject for gate in waiting.open_gates] == ["dissent/decide"]
    assert "Objections that must be answered first:\n- the rust (ben: it is deep)" in shown

    office.decide("dissent/decide", answer)
    run = office.work()
    passes = answer is Answer.APPROVE
    end = (TaskState.PASSED, TaskState.PASSED) if passes else (TaskState.FAILED, TaskState.SKIPPED)
    assert states(run) == end
    assert office.findings() == ()
    assert play(office, folder) == []


def test_a_symposium_on_the_ladder_decides_what_a_judge_has_rejected(
    office: Office, folder: Path
) -> None:
    """After a council that is blocked, for both are panels."""
    asked, seated = rung(BLOCKED), sitting()
    assert isinstance(seated.panel, Symposium)
    policy = msgspec.structs.replace(
        asked.policy,
        agents={**asked.policy.agents, "model": seated.agents["model"]},
        ladder=("board", "hall"),
        panels={**asked.policy.panels, "hall": seated.panel},
    )
    run = office.do(replace(asked, policy=policy))

    assert [verdict.reason for verdict in run.task("decide").verdicts] == [
        "not-accepted",
        "blocked",
        "",
    ]
    assert run.task("decide").state is TaskState.PASSED
    assert office.findings() == ()
    assert play(office, folder) == []
