"""Runs that Forum does not drive: their source, their spans and known gaps."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView, reported_runs
from forum.ledger.kinds import Outcome
from forum.runs.report_fold import SpanRecord, build_span_tree
from forum.runs.report_kinds import GapReason, Operation, Provenance, span_strand
from forum.surfaces.schemas import fields

ProvenanceWord = Annotated[
    Provenance,
    Meta(
        description="How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, "
        "`wrapped` by the SDK in the program, or `reported` by a program afterwards."
    ),
]


class SourceForm(Struct, frozen=True):
    """The client that reports a run."""

    by: str
    framework: str | None
    trace: str | None
    continues: Annotated[fields.RunId | None, Meta(description="The run that this one continues.")]


class SpanForm(Struct, frozen=True):
    """A step of a program, as far as it was recorded."""

    span: str
    within: Annotated[str | None, Meta(description="The span that this one is part of.")]
    op: Operation
    name: str
    agent: str | None
    model: str | None
    provider: str | None
    outcome: Annotated[Outcome | None, Meta(description="Null while no end is recorded.")]
    code: str | None
    error: Annotated[str | None, Meta(description="The beginning of the error, if one is kept.")]
    input_tokens: int
    output_tokens: int
    spent: Annotated[
        fields.AmountForm, Meta(description="The cost; while it is open, what is reserved.")
    ]
    began: fields.Moment
    seconds: fields.Seconds
    begun_first: Annotated[bool, Meta(description="Whether it was recorded before it began.")]
    cut: Annotated[int, Meta(description="The number of bytes of its bodies that were not kept.")]
    entry: fields.Index | None


class GapForm(Struct, frozen=True):
    """Steps that are known to be missing."""

    why: GapReason
    steps: Annotated[int, Meta(description="0 if the number is not known.")]
    since: fields.Moment | None
    until: fields.Moment | None
    entry: fields.Index | None


class RunNoteForm(Struct, frozen=True):
    """A note in a run that Forum does not drive."""

    strand: str
    step: str
    actor: str
    at: fields.Moment
    entry: fields.Index | None


def source_form(view: RunView) -> SourceForm | None:
    """Return who reports a run, or None."""
    source = view.state.report.source
    return fields.fill(SourceForm, source) if source else None


def span_forms(view: RunView) -> tuple[SpanForm, ...]:
    """Return the spans of a run in the order of their tree."""
    nodes = build_span_tree(view.state.report.spans)
    return tuple(_span_form(view, node.span) for node in nodes)


def _span_form(view: RunView, span: SpanRecord) -> SpanForm:
    ended, facts = span.ended, span.ended or span.begun
    return fields.fill(
        SpanForm,
        span,
        span=span.id,
        name=reported_runs.span_name(view, span),
        agent=reported_runs.span_agent(view, span),
        provider=facts.provider if facts else None,
        code=ended.code if ended else None,
        error=view.errors.get(span_strand(span.id)),
        input_tokens=ended.input_tokens if ended else 0,
        output_tokens=ended.output_tokens if ended else 0,
        began=span.started,
        seconds=round(span.micros / 1e6, 6),
        begun_first=span.begun is not None,
        cut=max(facts.cut for facts in (span.begun, ended) if facts) if facts else 0,
        entry=view.places.get(span.last.hex()) if span.last else None,
    )


def gap_forms(view: RunView) -> tuple[GapForm, ...]:
    """Return what is known to be missing in a run."""
    return tuple(
        fields.fill(GapForm, gap.facts, entry=view.places.get(gap.entry.hex()))
        for gap in view.state.report.gaps
    )


def note_forms(view: RunView) -> tuple[RunNoteForm, ...]:
    """Return the notes of a run."""
    return tuple(
        fields.fill(RunNoteForm, note, at=note.ts, entry=view.places.get(note.entry.hex()))
        for note in view.state.report.notes
    )
