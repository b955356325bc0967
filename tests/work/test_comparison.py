"""Comparing two runs: the same is the same, and whatever differs is named once."""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.ledger import Facts, Outcome
from forum.work import (
    Accepted,
    Answer,
    Decider,
    Delegated,
    GateDecided,
    GateEdited,
    Happened,
    Intended,
    Parting,
    Step,
    compare,
    facts_of,
)

words = st.sampled_from("abc")
steps = st.builds(Step, words, words, words, st.binary(max_size=2), st.just((("body", "digest"),)))
runs = st.lists(steps, max_size=6, unique_by=lambda step: (step.strand, step.step))


def partings(first: list[Step], second: list[Step]) -> list[tuple[Parting, str, str]]:
    """Return how and where two runs part."""
    return [(found.parting, found.strand, found.step) for found in compare(first, second)]


@given(runs, st.data())
def test_a_run_is_the_same_as_itself_in_any_order(run: list[Step], data: st.DataObject) -> None:
    """Strands are written at once, so their order among each other says nothing."""
    mixed = data.draw(st.permutations(run))

    assert partings(run, run) == partings(run, mixed) == []


@given(runs.filter(bool), st.data())
def test_every_difference_is_found_where_it_is(run: list[Step], data: st.DataObject) -> None:
    """One fact, one body, one step too many or too few: and nothing else is blamed."""
    at = data.draw(st.integers(0, len(run) - 1))
    step = run[at]
    place = (step.strand, step.step)
    rest = [*run[:at], *run[at + 1 :]]
    fact = [*rest, replace(step, facts=step.facts + b"!")]
    kind = [*rest, replace(step, kind=step.kind + "!")]
    body = [*rest, replace(step, bodies=(("body", "another"),))]
    bare = [*rest, replace(step, bodies=())]

    assert partings(run, fact) == partings(run, kind) == [(Parting.FACTS, *place)]
    assert partings(run, body) == partings(run, bare) == [(Parting.BODIES, *place)]
    assert partings(run, rest) == [(Parting.MISSING, *place)]
    assert partings(rest, run) == [(Parting.ADDED, *place)]


@given(runs, runs)
def test_what_one_run_lacks_the_other_has_more(first: list[Step], second: list[Step]) -> None:
    """Seen from the other side a difference is the same one."""
    other = {Parting.MISSING: Parting.ADDED, Parting.ADDED: Parting.MISSING}
    there = {(other.get(how, how), *place) for how, *place in partings(first, second)}

    assert there == set(partings(second, first))
    assert (first == second) <= (not there)


def test_names_of_other_entries_and_runs_are_no_difference() -> None:
    """No two runs have the same, even where they say the same."""
    pairs: list[tuple[Facts, Facts]] = [
        (Accepted(parent_run="a", fork_run="b", fork_index=1), Accepted(parent_task="c")),
        (Delegated("a", usd=1), Delegated("b", usd=1)),
        (
            GateDecided(Answer.APPROVE, "a", Decider.PERSON),
            GateDecided(Answer.APPROVE, "b", Decider.PERSON),
        ),
        (GateEdited("a"), GateEdited("b")),
        (Happened(Outcome.OK, known="a"), Happened(Outcome.OK)),
        (Intended("pay", "a"), Intended("pay")),
    ]

    assert all(facts_of(one) == facts_of(other) for one, other in pairs)
    assert facts_of(Delegated("a", usd=1)) != facts_of(Delegated("a", usd=2))
    assert facts_of(Happened(Outcome.OK)) != facts_of(Happened(Outcome.FAILED))


@given(st.sampled_from(["tool", "again"]), words, words)
def test_what_is_to_be_ignored_is_ignored(name: str, one: str, other: str) -> None:
    """A comparison across models may not care which one was asked."""
    assume(one != other)
    first, second = Intended(one), Intended(other)

    assert facts_of(first) != facts_of(second)
    same = facts_of(first, ignoring=frozenset({name})) == facts_of(
        second, ignoring=frozenset({name})
    )
    assert same == (name == "tool")
