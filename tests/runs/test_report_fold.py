"""The fold of reported runs: spans, gaps, costs and provenance, whatever order strands come in."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forum.ledger.entry import FORMAT, Entry, Facts, leaf_of
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts, Outcome, RunCloseFacts, RunOpenFacts
from forum.ledger.ports import Amount
from forum.runs.kinds import WORK_KINDS, AcceptedFacts
from forum.runs.report_fold import SpanRecord, align_spans, build_span_tree
from forum.runs.report_kinds import (
    REPORT_KINDS,
    GapReason,
    Operation,
    Provenance,
    ReportBeginFacts,
    ReportGapFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.run_fold import IdentifiedEntry, RunState, fold
from forum.tlog import hash_leaf
from tests.ledger.samples import facts_of

KINDS = LEDGER_KINDS | WORK_KINDS | REPORT_KINDS
BEGIN = ReportBeginFacts(Operation.MODEL, "chat", "a", usd=10, tokens=20, calls=1)
END = ReportStepFacts(Operation.MODEL, "chat", Outcome.OK, "a", usd=4, input_tokens=5)


def entry(strand: str, n: int, facts: Facts, ts: int = 1) -> IdentifiedEntry:
    """Return an entry at a position."""
    prev = hash_leaf(b"before").hex() if n else ""
    kind = KINDS.kind_of(facts).name
    made: Entry[Any] = Entry(
        v=FORMAT,
        log="log.example",
        run="run",
        strand=strand,
        n=n,
        prev=prev,
        step=f"step{n}",
        ts=ts,
        actor="ann",
        kind=kind,
        parents=(),
        facts=facts,
        bodies={},
    )
    return leaf_of(KINDS.write(made)), made


def opened(*facts: Facts) -> list[IdentifiedEntry]:
    """Return the main strand of a run."""
    return [entry("main", n, facts) for n, facts in enumerate((RunOpenFacts(), *facts))]


def test_a_run_says_how_it_is_known() -> None:
    """Nobody may take what was told for what the engine did."""
    words = {
        Provenance.DRIVEN: fold(opened(AcceptedFacts())).provenance,
        Provenance.REPORTED: fold(opened(NoteFacts())).provenance,
    }
    for provenance in ReportProvenance:
        words[Provenance(provenance)] = fold(
            opened(ReportSourceFacts(provenance, "key"))
        ).provenance

    assert words == {word: word for word in words}
    assert set(words) == set(Provenance)


def test_an_open_call_counts_with_its_reservation_and_a_settled_one_with_its_cost() -> None:
    """A call that is in flight may be billed in full; one that nobody began costs what it says."""
    begun = fold([*opened(), entry("span/a", 0, BEGIN)])
    ended = fold([entry("span/a", 1, END)], begun)
    run = fold([*opened(), entry("span/a", 0, END)])

    assert begun.spent == Amount(10, 20, 1)
    assert ended.spent == Amount(4, 5, 1)
    assert run.spent == Amount(4, 5, 1)
    assert (begun.state, begun.report.spans["a"].outcome) == (RunState.RUNNING, None)
    assert fold([entry("main", 1, RunCloseFacts(Outcome.OK, 1))], ended).state is RunState.ENDED


report_facts = st.one_of(*(facts_of(kind) for kind in REPORT_KINDS))
places = st.sampled_from(["main", "span/a", "span/b", "span/c", "task/a"])


@given(st.lists(st.tuples(places, report_facts), max_size=12), st.randoms(use_true_random=False))
def test_strands_may_come_in_any_order_and_in_parts(
    said: list[tuple[str, Facts]], chance: random.Random
) -> None:
    """A follower folds what is new, and must see what a fresh reader sees."""
    counts: dict[str, int] = {"main": 1}
    strands: dict[str, list[IdentifiedEntry]] = {"main": [entry("main", 0, RunOpenFacts())]}
    for strand, facts in said:
        n = counts.get(strand, 0)
        counts[strand] = n + 1
        strands.setdefault(strand, []).append(entry(strand, n, facts))
    whole = fold([each for strand in strands.values() for each in strand])
    left, parts = {name: list(entries) for name, entries in strands.items()}, fold([])
    while left:
        name = chance.choice(sorted(left))
        parts = fold([left[name].pop(0)], parts)
        left = {name: entries for name, entries in left.items() if entries}

    assert parts.report.spans == whole.report.spans
    assert (parts.report.gaps, parts.report.source) == (whole.report.gaps, whole.report.source)
    assert (parts.spent, parts.state) == (whole.spent, whole.state)


spans = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sampled_from(["", *"abcdefgh", "gone"]), max_size=8
)


@given(spans)
def test_every_span_is_drawn_once_whatever_parents_are_named(within: dict[str, str]) -> None:
    """Circles and missing parents come from reporters that Forum cannot correct."""
    records = {
        name: SpanRecord(
            name,
            ended=ReportStepFacts(
                Operation.STEP, name="s", outcome=Outcome.OK, span=name, within=parent
            ),
        )
        for name, parent in within.items()
    }
    nodes, names = build_span_tree(records), align_spans(records)

    assert sorted(node.span.id for node in nodes) == sorted(within)
    assert len(set(names.values())) == len(within)
    assert {node.span.id for node in nodes if node.orphaned} == {
        name for name, parent in within.items() if parent and parent not in within
    }


def test_two_runs_of_one_program_give_equal_steps_equal_names() -> None:
    """Ids are random, so two runs could not be compared by them."""

    def record(suffix: str) -> dict[str, SpanRecord]:
        made = [("a", "", "agent"), ("b", "a", "chat"), ("c", "a", "chat"), ("d", "", "chat")]
        return {
            f"{name}{suffix}": SpanRecord(
                f"{name}{suffix}",
                ended=ReportStepFacts(
                    op=Operation.STEP,
                    name=label,
                    outcome=Outcome.OK,
                    span=f"{name}{suffix}",
                    within=f"{parent}{suffix}" if parent else "",
                    began=100 + number,
                ),
            )
            for number, (name, parent, label) in enumerate(made)
        }

    assert list(align_spans(record("x")).values()) == list(align_spans(record("0")).values())
    assert align_spans(record("x"))["cx"] == "step:agent.1>step:chat.2"


def test_gaps_and_notes_are_kept_in_their_order() -> None:
    """What is missing is part of what a run says."""
    run = fold(opened(ReportGapFacts(GapReason.OVERFLOW, 3), NoteFacts()))

    assert [(gap.facts.why, gap.facts.steps) for gap in run.report.gaps] == [("overflow", 3)]
    assert [note.strand for note in run.report.notes] == ["main"]
    assert run.is_reported
