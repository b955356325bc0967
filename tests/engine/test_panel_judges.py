"""Panels that judge: as the Validator of results, and as the judge of the intent."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.engine import RunRequest, accept_run
from forum.engine.context import read_request
from forum.errors import BadPlan
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import stored_body
from forum.runs.call_rules import CURRENT_RULES
from forum.runs.council_end import Accord, Requirement
from forum.runs.kinds import (
    AcceptedFacts,
    AccordFacts,
    AnswerFacts,
    CheckFacts,
    DelegationFacts,
    Next,
    StopReason,
    VerdictFacts,
)
from forum.runs.panel import COUNCIL_VERSION, Council
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import PANEL_ROLES, Policy, Role, Scripted, ScriptStep
from forum.runs.record_comparison import AuditFault, IndexedEntry, SessionEntries
from forum.runs.run_fold import Run, TaskState
from forum.runs.run_summary import tally_entries
from forum.runs.run_words import describe_run_word
from forum.verify.accord_audit import audit_accords
from forum.verify.task_audit import audit_calls
from tests.engine.office import PERSON, Cut, Office, Power, plan, quick
from tests.engine.panel import PRICE, Way, panel
from tests.engine.test_replay import play
from tests.spoken import ballot, claiming
from tests.support import StoreFactory

REQUEST = "Say whether the bridge is safe, and why."
RESULT = "The bridge is safe, because it was tested."
OBJECTION = "nobody says when it was tested"
VERDICTS: dict[tuple[Accord, str], tuple[Way, ...]] = {
    (Accord.AGREED, "accept"): ((claiming("accept", "it names the test"),),) * 3,
    (Accord.AGREED, "reject"): ((claiming("reject", OBJECTION),),) * 3,
    (Accord.MAJORITY, "accept"): (
        (ballot("accept"), ballot("accept")),
        (ballot("accept"), ballot("accept")),
        (claiming("reject", OBJECTION), ballot("reject")),
    ),
    (Accord.MAJORITY, "reject"): (
        (claiming("reject", OBJECTION), ballot("reject")),
        (ballot("reject"), ballot("reject")),
        (ballot("accept"), ballot("accept")),
    ),
    (Accord.SPLIT, "accept"): (
        (ballot("accept"), ballot("accept")),
        (claiming("reject", OBJECTION), ballot("reject")),
    ),
    (Accord.BLOCKED, "accept"): (
        (ballot("accept"), ballot("accept")),
        (ballot("accept", blocker=OBJECTION), ballot("accept", blocker=OBJECTION)),
        (ballot("accept"), ballot("accept")),
    ),
}
"""A council that ends with each accord, and with each decision that it can have."""


def order(
    ways: tuple[Way, ...],
    role: Role = Role.VALIDATOR,
    require: Requirement = Requirement.MAJORITY,
    **policy: Any,  # noqa: ANN401
) -> RunRequest:
    """Ask for a result that a council judges."""
    seated = panel(*ways, require=require, version=COUNCIL_VERSION)
    assert isinstance(seated.panel, Council)
    agents = {**seated.agents, "": Scripted({"*": (ScriptStep(RESULT),)})}
    rules = {"retries": 0, "roles": {role: "board"}, **policy}
    tasks = plan(Task("look", REQUEST))
    whole: Policy = quick(agents=agents, panels={"board": seated.panel}, **rules)
    return RunRequest(REQUEST, tasks, whole, RunBudget(usd=1000 * PRICE))


def accords(office: Office) -> list[Entry[Any]]:
    """Return the entries that say how far panels agreed."""
    return [entry for entry in office.entries() if isinstance(entry.facts, AccordFacts)]


def child_of(office: Office) -> str:
    """Return the run in which the only panel sat."""
    (child,) = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]
    return str(child)


def passes(accord: Accord, decision: str, require: Requirement) -> bool:
    """Return whether a result is accepted."""
    far = accord is Accord.AGREED or (accord is Accord.MAJORITY and require is Requirement.MAJORITY)
    return far and decision == "accept"


def reason_of(accord: Accord, decision: str, require: Requirement) -> str:
    """Return why a result was not accepted."""
    if passes(accord, decision, require):
        return ""
    return "not-accepted" if passes(accord, "accept", require) else accord.value


def test_every_accord_has_a_council_here() -> None:
    """A new accord needs a case."""
    assert {accord for accord, _ in VERDICTS} == set(Accord)


@pytest.mark.parametrize("require", Requirement)
@pytest.mark.parametrize(("accord", "decision"), VERDICTS)
def test_a_result_passes_only_if_the_panel_agrees_to_accept_it(
    office: Office, folder: Path, accord: Accord, decision: str, require: Requirement
) -> None:
    """Blocked or split means that it is not accepted; all of it is recorded and replayed."""
    run = office.do(order(VERDICTS[accord, decision], require=require))
    task = run.task("look")
    verdict, (noted,) = task.verdict, accords(office)
    reason = reason_of(accord, decision, require)

    assert verdict is not None
    assert (verdict.judge, verdict.reason) == ("board", reason)
    assert task.state is (TaskState.FAILED if reason else TaskState.PASSED)
    assert run.outcome is (Outcome.FAILED if reason else Outcome.OK)
    assert noted.facts == AccordFacts(
        child_of(office), accord, int(accord is Accord.BLOCKED), Role.VALIDATOR.value
    )
    # The panel judged the task, and did not do it.
    assert task.accord is None
    assert task.delegated is None
    assert [each.accord for each in task.judged] == [noted.facts]
    undecided = reason if reason in (Accord.SPLIT, Accord.BLOCKED) else ""
    assert describe_run_word(run) == (undecided or ("failed" if reason else "ok"))
    assert (tally_entries(office.entries()).result().accord or "") == undecided
    assert office.findings() == ()
    assert play(office, folder) == []


def test_the_panel_sees_the_task_and_the_result_and_is_paid_by_the_run(office: Office) -> None:
    """Its seats are asked to accept or reject, whatever options the panel has otherwise."""
    asked = order(VERDICTS[Accord.AGREED, "accept"])
    council = msgspec.structs.replace(asked.policy.panels["board"], options=("yes", "no"))
    policy = msgspec.structs.replace(asked.policy, panels={"board": council})
    run = office.do(replace(asked, policy=policy))
    question = read_request(office.ledger, child_of(office)).decode()

    assert run.outcome is Outcome.OK
    assert RESULT in question
    assert REQUEST in question
    assert "accept or reject" in question
    assert '"passed"' not in question
    spent = office.account(child_of(office)).used
    assert spent.usd >= 3 * PRICE
    assert office.account().used.usd == spent.usd
    assert run.spent.usd == spent.usd


def test_the_author_is_told_what_the_panel_found_and_tries_again(office: Office) -> None:
    """Each attempt is judged by a session of its own."""
    run = office.do(order(VERDICTS[Accord.MAJORITY, "reject"], retries=1))
    children = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]

    assert [verdict.next for verdict in run.task("look").verdicts] == [Next.RETRY, Next.GIVE_UP]
    assert len(set(children)) == 2
    assert OBJECTION in office.prompt("look", 2).decode()
    assert [judged.attempt for judged in run.task("look").judged] == [1, 2]
    assert office.findings() == ()


def test_a_panel_that_cannot_sit_accepts_nothing(office: Office) -> None:
    """Also where the reason is the budget."""
    asked = order(VERDICTS[Accord.AGREED, "accept"])
    run = office.do(replace(asked, budget=RunBudget(usd=PRICE)))

    assert run.task("look").state is not TaskState.PASSED
    assert run.outcome is not Outcome.OK
    assert office.account().used.usd <= PRICE
    assert office.findings() == ()


def test_a_panel_needs_depth(office: Office) -> None:
    """It is a run within."""
    asked = order(VERDICTS[Accord.AGREED, "accept"])
    run = office.do(replace(asked, budget=RunBudget(depth=0)))
    stopped = run.task("look").stopped

    assert stopped is not None
    assert stopped.reason is StopReason.DEPTH
    assert office.findings() == ()


@pytest.mark.parametrize("role", [role for role in Role if role not in PANEL_ROLES])
def test_a_panel_can_only_judge(office: Office, role: Role) -> None:
    """It has no other role."""
    with pytest.raises(BadPlan, match="council can judge"):
        office.accept(order(VERDICTS[Accord.AGREED, "accept"], role))


# The judge of the intent


@pytest.mark.parametrize(("accord", "decision"), VERDICTS)
def test_an_answer_passes_only_if_the_panel_agrees_that_it_answers(
    office: Office, folder: Path, accord: Accord, decision: str
) -> None:
    """Unlike the finding of one model, the verdict of a panel needs no confirmation."""
    run = office.do(order(VERDICTS[accord, decision], Role.INTENT))
    (checked,) = [facts for _, facts in run.checks if facts.subject == "intent"]
    reason = reason_of(accord, decision, Requirement.MAJORITY)

    assert run.outcome is (Outcome.FAILED if reason else Outcome.OK)
    assert checked.outcome is run.outcome
    assert (checked.judge, checked.reason) == (
        "board",
        "not-answered" if reason == "not-accepted" else reason,
    )
    (noted,) = accords(office)
    assert noted.strand == "role/intent"
    assert noted.facts.role == "intent"
    detail = [office.body(e, "detail") for e in office.entries() if isinstance(e.facts, CheckFacts)]
    assert (OBJECTION.encode() in b"".join(detail)) == (
        OBJECTION in str(VERDICTS[accord, decision])
    )
    undecided = reason if reason in (Accord.SPLIT, Accord.BLOCKED) else ""
    assert describe_run_word(run) == (undecided or ("failed" if reason else "ok"))
    assert (tally_entries(office.entries()).result().accord or "") == undecided
    assert office.findings() == ()
    assert play(office, folder) == []


# Crashes


@pytest.mark.slow
@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_what_a_panel_judges_survives_a_crash_wherever_it_comes(
    folder: Path, role: Role, *, persisted: bool
) -> None:
    """No verdict without its session, no session twice."""
    commits, broken = 0, True
    while broken:
        factory = StoreFactory(folder / f"{commits}-{persisted}.db")
        power = Power(factory(), commits, persisted=persisted)
        office = Office(factory(), append=power.append)
        try:
            _judge(office, role)
        except Cut:
            _judge(Office(factory(), office.hands), role)
        office, broken = Office(factory(), office.hands), power.failed
        run = office.work()
        assert run.outcome is Outcome.FAILED, f"commit {commits}"
        assert len(accords(office)) == 1
        assert child_of(office)
        assert office.findings() == ()
        assert office.alarms() == []
        factory.close()
        commits += 2

    assert commits > 15


def _judge(office: Office, role: Role) -> Run:
    if not office.store.strands("run-1"):
        office.accept(order(VERDICTS[Accord.BLOCKED, "accept"], role))
    return office.work()


# Forgeries


def _entries(office: Office, run: str = "run-1") -> list[IndexedEntry]:
    return [IndexedEntry(n, leaf, entry) for n, (leaf, entry) in enumerate(office.told(run))]


def _alter(
    items: Sequence[IndexedEntry],
    kind: type,
    number: int = 0,
    **members: Any,  # noqa: ANN401
) -> list[IndexedEntry]:
    """Return the record with other facts in the n-th entry of a kind."""
    place = [n for n, item in enumerate(items) if isinstance(item.entry.facts, kind)][number]
    entry = items[place].entry
    facts = msgspec.structs.replace(entry.facts, **members)
    other = msgspec.structs.replace(entry, facts=facts)
    changed = msgspec.structs.replace(items[place], entry=other)
    return [*items[:place], changed, *items[place + 1 :]]


def _faults(office: Office, items: Sequence[IndexedEntry]) -> list[AuditFault]:
    """Return what a verifier finds in the record of a run, with the sessions that it names."""

    def session(run: str, entries: Sequence[IndexedEntry]) -> SessionEntries:
        return SessionEntries(
            run, list(entries), lambda at, name: stored_body(office.store, at.entry, name)
        )

    session_entries = session("run-1", items)
    calls = audit_calls(session_entries)
    rest = audit_accords(session_entries, KINDS, lambda run: session(run, _entries(office, run)))
    return [*calls.faults, *rest.faults]


def _accepting(items: list[IndexedEntry]) -> list[IndexedEntry]:
    """Return a record in which the attempt was accepted, and the run ended well."""
    return _alter(
        _alter(items, VerdictFacts, outcome=Outcome.OK, next=Next.ACCEPT, reason=""),
        AnswerFacts,
        outcome=Outcome.OK,
    )


@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
def test_a_verifier_finds_an_accord_that_its_session_did_not_come_to(
    office: Office, role: Role
) -> None:
    """Neither the entry alone nor a verdict that rests on it."""
    office.do(order(VERDICTS[Accord.BLOCKED, "accept"], role))
    recorded = _entries(office)
    agreed = _alter(recorded, AccordFacts, accord=Accord.AGREED, blockers=0)

    assert _faults(office, recorded) == []
    assert _faults(office, agreed)
    assert _faults(office, _accepting(agreed))
    assert _faults(office, _alter(recorded, AccordFacts, role=""))


@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
def test_a_verifier_finds_an_accord_of_another_session(office: Office, role: Role) -> None:
    """That of another run of the same ledger which did agree."""
    office.do(order(VERDICTS[Accord.AGREED, "accept"], role), run="other")
    other = next(
        e.facts.run for e in office.entries("other") if isinstance(e.facts, DelegationFacts)
    )
    office.do(order(VERDICTS[Accord.BLOCKED, "accept"], role))
    forged = _alter(_entries(office), AccordFacts, accord=Accord.AGREED, blockers=0, run=other)

    assert any("is not the one" in fault.detail for fault in _faults(office, forged))


@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
def test_a_verifier_misses_an_accord(office: Office, role: Role) -> None:
    """Nothing is accepted that no panel is recorded to have agreed on."""
    office.do(order(VERDICTS[Accord.AGREED, "accept"], role))
    without = [item for item in _entries(office) if not isinstance(item.entry.facts, AccordFacts)]

    assert _faults(office, without)


def test_a_verifier_misses_the_session(office: Office) -> None:
    """A result that nobody judged, and an answer that nobody judged, is not accepted."""
    for number, role in enumerate(sorted(PANEL_ROLES)):
        office.do(order(VERDICTS[Accord.AGREED, "accept"], role), run=f"run-{number + 1}")
        dropped = [
            item
            for item in _entries(office, f"run-{number + 1}")
            if item.entry.strand != "role/intent"
            and "call/2" not in item.entry.step
            and not isinstance(item.entry.facts, CheckFacts)
        ]
        assert _faults(office, dropped), role


def test_a_check_that_the_panel_did_not_make_is_found(office: Office) -> None:
    """The answer is called good, and the panel rejected it."""
    office.do(order(VERDICTS[Accord.AGREED, "reject"], Role.INTENT))
    good = _alter(_entries(office), CheckFacts, outcome=Outcome.OK, reason="")
    (fault,) = _faults(office, good)

    assert "did not decide so" in fault.detail


# Forks


def current(asked: RunRequest) -> RunRequest:
    """Return a request that follows the rules of this release."""
    return replace(asked, policy=asked.policy.with_rules(CURRENT_RULES))


@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
def test_a_fork_reuses_what_a_panel_judged(office: Office, role: Role) -> None:
    """It names the session of the forked run, which gave the verdict, and asks nobody again."""
    asked = order(VERDICTS[Accord.AGREED, "accept"], role)
    office.do(asked)
    office.findings()  # signs, so that entries have indexes
    at = max(office.ledger.find_entry(leaf.hex()).index or 0 for leaf, _ in office.told())
    calls = len(office.hands.calls)
    fork = AcceptedFacts(fork_run="run-1", fork_index=at)
    accept_run(office.ledger, "fork", current(asked), PERSON, origin=fork)
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert len(office.hands.calls) == calls
    assert office.findings() == ()


def test_a_fork_that_asks_its_panel_itself_records_the_accord_of_that_panel(
    office: Office,
) -> None:
    """And not that of the forked run, which judged another result."""
    office.do(order(VERDICTS[Accord.AGREED, "accept"]))
    other = order(VERDICTS[Accord.BLOCKED, "accept"])
    tasks = plan(Task("look", f"{REQUEST} Be quick."))
    fork = AcceptedFacts(fork_run="run-1", fork_index=1 << 40)
    accept_run(office.ledger, "fork", current(replace(other, plan=tasks)), PERSON, origin=fork)
    run = office.work("fork")
    (judged,) = run.task("look").judged

    assert judged.accord.accord is Accord.BLOCKED
    assert judged.accord.run in [
        e.facts.run for e in office.entries("fork") if isinstance(e.facts, DelegationFacts)
    ]
    assert run.outcome is Outcome.FAILED
    assert office.findings() == ()


# On each database


def test_a_panel_judges_on_each_database(store_factory: StoreFactory) -> None:
    """What is recorded of it verifies there as well."""
    office = Office(store_factory())
    run = office.do(order(VERDICTS[Accord.BLOCKED, "accept"]))

    assert run.outcome is Outcome.FAILED
    assert [each.accord.accord for each in run.task("look").judged] == [Accord.BLOCKED]
    assert office.findings() == ()
