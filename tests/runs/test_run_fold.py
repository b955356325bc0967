"""The one fold: total, in any number of sittings, and blind to how strands are interleaved."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.kinds import LEDGER_KINDS, Kind, Outcome, RunCloseFacts
from forum.ledger.ports import Amount
from forum.runs.acceptance_criteria import Check
from forum.runs.kinds import (
    CHILD_RUN,
    WORK_KINDS,
    AcceptedFacts,
    CallFacts,
    CancelFacts,
    Decider,
    DelegationFacts,
    GateDecisionFacts,
    GateEditFacts,
    GateOpenFacts,
    IntentFacts,
    Next,
    OutcomeFacts,
    PlanFacts,
    ReplyFacts,
    StopFacts,
    StopReason,
    VerdictFacts,
    Why,
    sanitize_name,
)
from forum.runs.policy import Answer
from forum.runs.run_fold import Run, RunState, TaskState, fold, sum_amounts
from tests.ledger.samples import facts_of
from tests.runs.samples import KINDS, Said, sayings, tell, told


@given(st.lists(sayings, max_size=12))
def test_a_fold_takes_whatever_it_is_told(said: list[Said]) -> None:
    """A ledger may hold what no engine of this release would write: it can still be shown."""
    run = fold(tell(said))

    assert run.state in RunState
    assert run.spent == sum_amounts(run.spent_by.values())
    assert run.deadline is None or run.accepted is not None
    assert all(run.task(name).state in TaskState for name in [*run.tasks, "nobody"])
    assert {gate.strand for gate in run.open_gates} <= run.gates.keys()
    assert all(gate.deadline >= gate.begun for gate in run.gates.values())
    assert all(task.attempts >= 0 and task.spent for task in run.tasks.values())
    assert [run.decision(strand) for strand in run.gates] == [
        gate.decided.answer if gate.decided else None for gate in run.gates.values()
    ]


@given(st.lists(sayings, max_size=12), st.data())
def test_a_fold_in_two_sittings_is_the_fold_in_one(said: list[Said], data: st.DataObject) -> None:
    """Whoever follows a run reads what is new, and knows as much as one who reads it all."""
    entries = tell(said)
    cut = data.draw(st.integers(0, len(entries)))

    before = fold(entries[:cut])
    assert fold(entries[cut:], before) == fold(entries)
    assert before == fold(entries[:cut])
    assert fold([], before) == before


@given(st.lists(sayings, max_size=12), st.data())
def test_a_fold_does_not_care_which_strand_was_read_first(
    said: list[Said], data: st.DataObject
) -> None:
    """Strands are read one after another, and were written all at once."""
    entries = tell(said)
    left = {name: [e for e in entries if e[1].strand == name] for name, _, _ in said}
    mixed = []
    while any(left.values()):
        name = data.draw(st.sampled_from(sorted(name for name in left if left[name])))
        mixed.append(left[name].pop(0))

    assert fold(mixed) == fold(entries)


@pytest.mark.parametrize("kind", list(WORK_KINDS), ids=lambda kind: kind.name)
@given(st.data())
def test_facts_are_read_back_as_they_were_written(kind: Kind[Any], data: st.DataObject) -> None:
    """What is recorded is all that there will ever be."""
    facts = data.draw(facts_of(kind))
    _, entry = told("main", 0, facts)
    written = KINDS.write(entry)

    assert KINDS.read(written) == entry
    assert KINDS.write(KINDS.read(written)) == written
    assert LEDGER_KINDS.read(written).kind == kind.name


def test_no_two_kinds_have_the_same_name_or_the_same_facts() -> None:
    """A kind is found by its name when it is read, and by its facts when it is written."""
    kinds = list(KINDS)

    assert len({kind.name for kind in kinds}) == len({kind.facts for kind in kinds}) == len(kinds)


@given(st.text())
def test_any_name_can_be_told_in_facts(name: str) -> None:
    """What an agent calls a tool, or a provider an error, must not end a run."""
    intended = IntentFacts(sanitize_name(name))
    _, entry = told("main", 0, intended)

    assert KINDS.read(KINDS.write(entry)).facts == intended
    assert len(sanitize_name(name)) <= 128
    assert len(sanitize_name(name).splitlines()) <= 1
    assert sanitize_name(sanitize_name(name)) == sanitize_name(name)


def test_what_is_no_fact_is_not_written() -> None:
    """Members are not checked when facts are made, but before they are recorded."""
    with pytest.raises(Malformed, match="control character"):
        told("main", 0, IntentFacts("two\nlines"))
    with pytest.raises(Malformed, match="no facts of plan/1"):
        told("main", 0, PlanFacts(-1))


# What a fold tells


CALLED = CallFacts("big", "m", attempt=1, turn=1, usd=10, tokens=5)
ASKED_RUN = CallFacts(CHILD_RUN, CHILD_RUN, attempt=1, turn=1, usd=10, tokens=5)


def test_a_call_costs_what_was_reserved_until_it_is_known_better() -> None:
    """An open call may yet be billed in full."""
    said: list[Said] = [("task/a", CALLED, 1)]
    open_run = fold(tell(said))
    said += [("task/a", ReplyFacts(Outcome.OK, usd=12, tokens=1), 2), ("task/a", CALLED, 3)]
    run = fold(tell(said))

    assert open_run.spent == Amount(10, 5, 1)
    assert open_run.task("a").result is None
    assert run.spent_by == {"big": Amount(22, 6, 2)}
    assert (run.task("a").result, run.task("a").attempts) == (run.task("a").calls[0], 1)
    assert [(call.begun, call.ended) for call in run.task("a").calls] == [(1, 2), (3, 0)]


def test_a_reply_belongs_to_the_call_before_it() -> None:
    """One that answers nothing, or comes a second time, changes no bill."""
    replied = ReplyFacts(Outcome.OK, usd=3)
    early: list[Said] = [("task/a", replied, 1), ("task/a", CALLED, 2)]
    twice: list[Said] = [
        ("task/a", CALLED, 1),
        ("task/a", replied, 2),
        ("task/a", ReplyFacts(Outcome.FAILED, usd=9), 3),
    ]

    assert fold(tell(early)).spent == Amount(10, 5, 1)
    assert fold(tell(twice)).spent == Amount(3, 0, 1)


@pytest.mark.parametrize(
    ("following", "state"),
    [
        (Next.ACCEPT, TaskState.PASSED),
        (Next.GIVE_UP, TaskState.FAILED),
        (Next.RETRY, TaskState.RUNNING),
        (Next.ESCALATE, TaskState.RUNNING),
    ],
)
def test_a_verdict_ends_a_task_or_lets_it_go_on(following: Next, state: TaskState) -> None:
    """A failed attempt is not yet a failed task."""
    verdict = VerdictFacts(1, Outcome.FAILED, Check.OUTCOME, following)
    run = fold(tell([("task/a", CALLED, 1), ("task/a", verdict, 2)]))

    assert run.task("a").state is state
    assert run.task("a").verdicts == (verdict,)
    assert state.is_end == (following in (Next.ACCEPT, Next.GIVE_UP))


OPENED = GateOpenFacts("task/a", 1000, Answer.REJECT)


def test_a_task_waits_as_long_as_its_gate_is_undecided() -> None:
    """Then it is where it was before: nothing of its own was recorded meanwhile."""
    said: list[Said] = [("main", AcceptedFacts(), 1), ("main", PlanFacts(1), 1)]
    said += [("gate/task/a", OPENED, 5)]
    waiting = fold(tell(said))
    said += [("gate/task/a", GateEditFacts("x"), 6)]
    edited = fold(tell(said))
    digest = edited.gates["gate/task/a"].digest
    said += [("gate/task/a", GateDecisionFacts(Answer.APPROVE, digest, Decider.PERSON), 7)]
    decided = fold(tell(said))
    said += [("gate/task/a", GateDecisionFacts(Answer.REJECT, digest, Decider.DEADLINE), 8)]
    said += [("gate/task/a", GateEditFacts("y"), 9), ("gate/task/a", OPENED, 10)]
    late = fold(tell(said))

    assert (waiting.state, waiting.task("a").state) == (RunState.WAITING, TaskState.WAITING)
    assert waiting.gates["gate/task/a"].deadline == 5 + 1_000_000
    assert waiting.gates["gate/task/a"].digest != digest
    assert (decided.state, decided.task("a").state) == (RunState.RUNNING, TaskState.PENDING)
    assert decided.decision("gate/task/a") is Answer.APPROVE
    assert late.gates == decided.gates, "there is no second decision, and no edit after it"


def test_a_task_waits_for_word_of_an_effect_and_for_its_own_run() -> None:
    """Whoever has the word is not this task."""
    effect: list[Said] = [
        ("task/a", CALLED, 1),
        ("task/a", ReplyFacts(Outcome.OK), 2),
        ("task/a", IntentFacts("pay"), 3),
        ("task/a", OutcomeFacts(Outcome.INDETERMINATE, Why.LOST), 4),
        ("gate/effect/a/1", OPENED, 5),
    ]
    child: list[Said] = [("task/b", DelegationFacts("inner"), 1), ("task/b", ASKED_RUN, 1)]
    run = fold(tell([*effect, *child]))
    returned = fold(tell([*child, ("task/b", ReplyFacts(Outcome.OK), 2)]))

    assert [run.task(name).state for name in "ab"] == [TaskState.WAITING] * 2
    assert run.task("a").uses[0].happened == OutcomeFacts(Outcome.INDETERMINATE, Why.LOST)
    assert returned.task("b").state is TaskState.RUNNING


def test_the_state_of_a_run_is_that_of_what_it_says_last() -> None:
    """Ended before stopped, stopped before waiting, waiting before running."""
    states = []
    said: list[Said] = []
    for saying in (
        ("main", AcceptedFacts(milliseconds=3), 4),
        ("main", PlanFacts(1), 4),
        ("gate/task/a", OPENED, 5),
        ("control", CancelFacts(), 6),
        ("main", StopFacts(StopReason.CANCELLED), 7),
        ("main", RunCloseFacts(Outcome.CANCELLED, 1), 8),
    ):
        said.append(saying)
        states.append(fold(tell(said)).state)
    run = fold(tell(said))

    assert states == [
        RunState.ACCEPTED,
        RunState.RUNNING,
        RunState.WAITING,
        RunState.STOPPED,
        RunState.STOPPED,
        RunState.ENDED,
    ]
    assert (run.begun, run.ended, run.deadline) == (4, 8, 3004)
    assert replace(run, accepted=AcceptedFacts()).deadline is None
    assert Run().state is RunState.ACCEPTED
