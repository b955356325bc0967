"""Comparing two runs: the same is the same, and whatever differs is named once."""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.ledger.entry import Facts
from forum.ledger.kinds import Outcome
from forum.runs.kinds import (
    AcceptedFacts,
    Decider,
    DelegationFacts,
    GateDecisionFacts,
    GateEditFacts,
    IntentFacts,
    OutcomeFacts,
)
from forum.runs.policy import Answer
from forum.runs.run_comparison import DivergenceKind, RunStep, comparable_facts, compare_steps

words = st.sampled_from("abc")
steps = st.builds(
    RunStep, words, words, words, st.binary(max_size=2), st.just((("body", "digest"),))
)
runs = st.lists(steps, max_size=6, unique_by=lambda step: (step.strand, step.step))


def partings(first: list[RunStep], second: list[RunStep]) -> list[tuple[DivergenceKind, str, str]]:
    """Return how and where two runs part."""
    return [
        (divergence.parting, divergence.strand, divergence.step)
        for divergence in compare_steps(first, second)
    ]


@given(runs, st.data())
def test_a_run_is_the_same_as_itself_in_any_order(run: list[RunStep], data: st.DataObject) -> None:
    """Strands are written at once, so their order among each other says nothing."""
    mixed = data.draw(st.permutations(run))

    assert partings(run, run) == partings(run, mixed) == []


@given(runs.filter(bool), st.data())
def test_every_difference_is_found_where_it_is(run: list[RunStep], data: st.DataObject) -> None:
    """One fact, one body, one step too many or too few: and nothing else is blamed."""
    at = data.draw(st.integers(0, len(run) - 1))
    step = run[at]
    place = (step.strand, step.step)
    rest = [*run[:at], *run[at + 1 :]]
    fact = [*rest, replace(step, facts=step.facts + b"!")]
    kind = [*rest, replace(step, kind=step.kind + "!")]
    body = [*rest, replace(step, bodies=(("body", "another"),))]
    bare = [*rest, replace(step, bodies=())]

    assert partings(run, fact) == partings(run, kind) == [(DivergenceKind.FACTS, *place)]
    assert partings(run, body) == partings(run, bare) == [(DivergenceKind.BODIES, *place)]
    assert partings(run, rest) == [(DivergenceKind.MISSING, *place)]
    assert partings(rest, run) == [(DivergenceKind.ADDED, *place)]


@given(runs, runs)
def test_what_one_run_lacks_the_other_has_more(first: list[RunStep], second: list[RunStep]) -> None:
    """Seen from the other side a difference is the same one."""
    other = {
        DivergenceKind.MISSING: DivergenceKind.ADDED,
        DivergenceKind.ADDED: DivergenceKind.MISSING,
    }
    there = {(other.get(how, how), *place) for how, *place in partings(first, second)}

    assert there == set(partings(second, first))
    assert (first == second) <= (not there)


def test_names_of_other_entries_and_runs_are_no_difference() -> None:
    """No two runs have the same, even where they say the same."""
    pairs: list[tuple[Facts, Facts]] = [
        (AcceptedFacts(parent_run="a", fork_run="b", fork_index=1), AcceptedFacts(parent_task="c")),
        (DelegationFacts("a", usd=1), DelegationFacts("b", usd=1)),
        (
            GateDecisionFacts(Answer.APPROVE, "a", Decider.PERSON),
            GateDecisionFacts(Answer.APPROVE, "b", Decider.PERSON),
        ),
        (GateEditFacts("a"), GateEditFacts("b")),
        (OutcomeFacts(Outcome.OK, known="a"), OutcomeFacts(Outcome.OK)),
        (IntentFacts("pay", "a"), IntentFacts("pay")),
    ]

    assert all(comparable_facts(facts) == comparable_facts(other) for facts, other in pairs)
    assert comparable_facts(DelegationFacts("a", usd=1)) != comparable_facts(
        DelegationFacts("a", usd=2)
    )
    assert comparable_facts(OutcomeFacts(Outcome.OK)) != comparable_facts(
        OutcomeFacts(Outcome.FAILED)
    )


@given(st.sampled_from(["tool", "again"]), words, words)
def test_what_is_to_be_ignored_is_ignored(name: str, text: str, other: str) -> None:
    """A comparison across models may not care which one was asked."""
    assume(text != other)
    first, second = IntentFacts(text), IntentFacts(other)

    assert comparable_facts(first) != comparable_facts(second)
    same = comparable_facts(first, ignoring=frozenset({name})) == comparable_facts(
        second, ignoring=frozenset({name})
    )
    assert same == (name == "tool")
