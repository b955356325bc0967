"""Fold the entries of a run that Forum does not drive: its source, spans, gaps and notes.

`forum.runs.run_fold` uses this fold for the strands and kinds of reported runs.  It is total like
that one: entries in an order that no writer records change only what they state.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount, Position
from forum.runs import report_kinds
from forum.runs.spending import cost_of
from forum.tlog import Hash


class SpanRecord(msgspec.Struct, frozen=True):
    """One span: what was recorded before it began and after it ended, as far as it was."""

    id: str
    """The id in the name of its strand."""
    begun: report_kinds.ReportBeginFacts | None = None
    begun_at: Position | None = None
    begun_entry: Hash | None = None
    begun_ts: int = 0
    ended: report_kinds.ReportStepFacts | None = None
    ended_at: Position | None = None
    ended_entry: Hash | None = None
    ended_ts: int = 0

    @property
    def op(self) -> report_kinds.Operation:
        """What the step does."""
        facts = self.ended or self.begun
        return facts.op if facts else report_kinds.Operation.STEP

    @property
    def name(self) -> str:
        """The label of the step."""
        facts = self.ended or self.begun
        return facts.name if facts else ""

    @property
    def within(self) -> str:
        """The id of the span that this one is part of; empty if it is part of none."""
        facts = self.ended or self.begun
        return facts.within if facts else ""

    @property
    def agent(self) -> str:
        """The label of the agent."""
        facts = self.ended or self.begun
        return facts.agent if facts else ""

    @property
    def model(self) -> str:
        """The model that was called."""
        facts = self.ended or self.begun
        return facts.model if facts else ""

    @property
    def outcome(self) -> Outcome | None:
        """How the step ended; None while no end is recorded."""
        return self.ended.outcome if self.ended else None

    @property
    def tokens(self) -> int:
        """The tokens that the step used, or has reserved while it is open."""
        return self.spent.tokens

    @property
    def spent(self) -> Amount:
        """The cost of the step, or its reservation while no end is recorded."""
        return cost_of(self.begun, self.ended)

    @property
    def started(self) -> int:
        """When the step began: by the program's clock if it says so, else by the writer's."""
        if self.ended is not None and self.ended.began:
            return self.ended.began
        if self.begun is not None:
            return self.begun_ts
        return self.ended_ts - (self.ended.micros if self.ended else 0)

    @property
    def micros(self) -> int:
        """The duration in microseconds; 0 while no end is recorded."""
        if self.ended is None:
            return 0
        if self.ended.micros or self.begun is None:
            return self.ended.micros
        return max(0, self.ended_ts - self.begun_ts)

    @property
    def last(self) -> Hash | None:
        """The id of the last entry."""
        return self.ended_entry or self.begun_entry

    @property
    def positions(self) -> tuple[Position, ...]:
        """The positions of its entries, the last one first."""
        return tuple(at for at in (self.ended_at, self.begun_at) if at is not None)


class GapRecord(msgspec.Struct, frozen=True):
    """Steps that are known to be missing."""

    entry: Hash
    facts: report_kinds.ReportGapFacts


class NoteRecord(msgspec.Struct, frozen=True):
    """A note in a run that Forum does not drive."""

    entry: Hash
    strand: str
    step: str
    actor: str
    ts: int


class ReportedPart(msgspec.Struct, frozen=True):
    """What a run holds of the kinds that programs outside of Forum's engine record."""

    source: report_kinds.ReportSourceFacts | None = None
    source_at: Position | None = None
    label: str = ""
    """The label of the run: the actor of its source, or else of its opening."""
    spans: Mapping[str, SpanRecord] = {}
    """By id, in the order in which their entries were folded."""
    gaps: tuple[GapRecord, ...] = ()
    notes: tuple[NoteRecord, ...] = ()

    @property
    def is_counted_elsewhere(self) -> bool:
        """Whether a gateway records what the calls of the program cost."""
        return self.source is not None and self.source.is_counted_elsewhere

    @property
    def spent_by(self) -> Iterable[tuple[str, Amount]]:
        """The cost of each span that counts, with the label of its agent, or else of the step."""
        counted = () if self.is_counted_elsewhere else self.spans.values()
        return ((span.agent or span.name, span.spent) for span in counted)

    @property
    def not_counted(self) -> Amount:
        """What the program reported of costs that a gateway records."""
        total = Amount()
        for span in self.spans.values() if self.is_counted_elsewhere else ():
            total = total.plus(span.spent)
        return total


def note_order(note: NoteRecord) -> tuple[int, str]:
    """Return the key by which notes are sorted: strands may be read in any order."""
    return note.ts, note.strand


def span_of_strand(strand: str) -> str | None:
    """Return the id of the span that a strand is about, or None."""
    return (
        strand.removeprefix(report_kinds.SPAN_PREFIX)
        if strand.startswith(report_kinds.SPAN_PREFIX)
        else None
    )


def fold_span(span: SpanRecord, leaf: Hash, entry: Entry[Any]) -> SpanRecord:
    """Return a span after one more entry of its strand; the first beginning and end count."""
    at = Position(entry.run, entry.strand, entry.n)
    match entry.facts:
        case report_kinds.ReportBeginFacts() as facts if span.begun is None:
            return replace(span, begun=facts, begun_at=at, begun_entry=leaf, begun_ts=entry.ts)
        case report_kinds.ReportStepFacts() as facts if span.ended is None:
            return replace(span, ended=facts, ended_at=at, ended_entry=leaf, ended_ts=entry.ts)
        case _:
            return span


class SpanTreeNode(msgspec.Struct, frozen=True):
    """A span in the tree of its run."""

    span: SpanRecord
    depth: int
    is_last: bool
    """Whether it is the last span of its parent."""
    ends: tuple[bool, ...]
    """For each span above it, the outermost first, whether that is the last of its parent."""
    orphaned: bool = False
    """Whether it names a parent that is not recorded."""


def build_span_tree(spans: Mapping[str, SpanRecord]) -> list[SpanTreeNode]:
    """Return all spans in display order: by parent, then by time.

    A span whose parent is not recorded stands at the top.  So does one span of each circle of
    parents, which no honest reporter sends.
    """
    ordered = sorted(spans.values(), key=lambda span: (span.started, span.id))
    under: dict[str, list[SpanRecord]] = {}
    for span in ordered:
        under.setdefault(span.within if span.within in spans else "", []).append(span)
    nodes: list[SpanTreeNode] = []
    placed: set[str] = set()

    def place(roots: list[SpanRecord]) -> None:
        # Not recursive: a reporter chooses the depth.
        left = [(span, 0, span is roots[-1], ()) for span in reversed(roots)]
        waiting: list[tuple[SpanRecord, int, bool, tuple[bool, ...]]] = list(left)
        while waiting:
            span, depth, is_last, ends = waiting.pop()
            if span.id in placed:
                continue
            placed.add(span.id)
            orphaned = bool(span.within) and span.within not in spans
            nodes.append(SpanTreeNode(span, depth, is_last, ends, orphaned=orphaned))
            children = under.get(span.id, [])
            waiting.extend(
                (child, depth + 1, child is children[-1], (*ends, is_last))
                for child in reversed(children)
            )

    place(under.get("", []))
    for span in ordered:
        if span.id not in placed:
            place([span])
    return nodes


def align_spans(spans: Mapping[str, SpanRecord]) -> dict[str, str]:
    """Return a name for each span that does not depend on its id, by id.

    Two runs of the same program give equal steps equal names: operation, label, and the ordinal
    among equal steps of the same parent, below the name of the parent.
    """
    names: dict[str, str] = {}
    counts: dict[tuple[str, str], int] = {}
    for node in build_span_tree(spans):
        parent = names.get(node.span.within, "")
        what = f"{node.span.op}:{node.span.name}"
        counts[parent, what] = ordinal = counts.get((parent, what), 0) + 1
        names[node.span.id] = f"{parent}{'>' if parent else ''}{what}.{ordinal}"
    return names
