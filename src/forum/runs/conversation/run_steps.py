"""The steps of a run as a conversation: calls of models and uses of tools."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import Amount
from forum.runs import kinds
from forum.runs.report_fold import SpanRecord, fold_span, span_of_strand
from forum.runs.report_kinds import (
    Operation,
    Provenance,
    ReportBeginFacts,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.spending import cost_of


class ConversationStep(Struct, frozen=True):
    """One step: what was asked of a model or a tool, and what it replied."""

    first: LocatedEntry
    last: LocatedEntry | None
    """The entry that ends the step, which may be the first; None while it goes on."""
    op: Operation
    name: str
    agent: str
    model: str
    outcome: Outcome | None
    started: int
    """In microseconds since 1970."""
    micros: int
    spent: Amount
    input_tokens: int = 0
    output_tokens: int = 0
    code: str = ""
    is_command: bool = False
    """Whether it is the program that `forum run` has started."""

    @property
    def located(self) -> LocatedEntry:
        """The entry that says most of the step."""
        return self.last or self.first


def find_steps(entries: Iterable[LocatedEntry]) -> list[ConversationStep]:
    """Return the steps of a run in the order of their beginnings, without reading a body."""
    located = list(entries)
    is_relayed = any(
        isinstance(entry.entry.facts, ReportSourceFacts)
        and entry.entry.facts.told.value == Provenance.RELAYED
        for entry in located
    )
    steps = [*_reported_steps(located, is_relayed=is_relayed), *_driven_steps(located)]
    return sorted(steps, key=lambda step: (step.started, step.first.entry.strand))


def _reported_steps(
    entries: Sequence[LocatedEntry], *, is_relayed: bool
) -> Iterator[ConversationStep]:
    """Yield the spans of a program outside of the engine."""
    spans: dict[str, SpanRecord] = {}
    places: dict[str, list[LocatedEntry]] = {}
    for located in entries:
        span_id = span_of_strand(located.entry.strand)
        if span_id is None or not isinstance(
            located.entry.facts, ReportBeginFacts | ReportStepFacts
        ):
            continue
        before = spans.get(span_id, SpanRecord(span_id))
        spans[span_id] = fold_span(before, located.leaf, located.entry)
        places.setdefault(span_id, []).append(located)
    for span_id, span in spans.items():
        yield _reported_step(span, places[span_id], is_relayed=is_relayed)


def _reported_step(
    span: SpanRecord, places: Sequence[LocatedEntry], *, is_relayed: bool
) -> ConversationStep:
    by_leaf = {located.leaf: located for located in places}
    ended = span.ended
    is_root = span.op is Operation.STEP and not span.within and span.begun is not None
    return ConversationStep(
        first=by_leaf[span.begun_entry] if span.begun_entry else places[0],
        last=by_leaf[span.ended_entry] if span.ended_entry else None,
        op=span.op,
        name=span.name,
        agent=span.agent,
        model=span.model,
        outcome=span.outcome,
        started=span.started,
        micros=span.micros,
        spent=span.spent,
        input_tokens=ended.input_tokens if ended else 0,
        output_tokens=ended.output_tokens if ended else 0,
        code=ended.code if ended else "",
        is_command=is_relayed and is_root,
    )


def _driven_steps(entries: Sequence[LocatedEntry]) -> Iterator[ConversationStep]:
    """Yield the calls and tool uses of the engine."""
    open_steps: dict[tuple[str, bool], LocatedEntry] = {}
    for located in entries:
        strand, facts = located.entry.strand, located.entry.facts
        match facts:
            case kinds.CallFacts() | kinds.IntentFacts():
                open_steps[strand, isinstance(facts, kinds.CallFacts)] = located
            case kinds.ReplyFacts() | kinds.OutcomeFacts():
                first = open_steps.pop((strand, isinstance(facts, kinds.ReplyFacts)), None)
                if first is not None:
                    yield _driven_step(first, located)
            case _:
                pass
    yield from (_driven_step(first, None) for first in open_steps.values())


def _driven_step(first: LocatedEntry, last: LocatedEntry | None) -> ConversationStep:
    asked: Any = first.entry.facts
    ended: Any = last.entry.facts if last else None
    task = first.entry.strand.partition("/")[2] or first.entry.strand
    micros = last.entry.ts - first.entry.ts if last else 0
    if isinstance(asked, kinds.IntentFacts):
        return ConversationStep(
            first=first,
            last=last,
            op=Operation.TOOL,
            name=asked.tool,
            agent=task,
            model="",
            outcome=ended.outcome if ended else None,
            started=first.entry.ts,
            micros=micros,
            spent=Amount(),
            code=ended.code if ended else "",
        )
    written = max(0, ended.tokens - ended.input_tokens) if ended else 0
    return ConversationStep(
        first=first,
        last=last,
        op=Operation.MODEL,
        name=task,
        agent=asked.agent,
        model=(ended.model if ended else "") or asked.model,
        outcome=ended.outcome if ended else None,
        started=first.entry.ts,
        micros=ended.milliseconds * 1000 if ended else 0,
        spent=cost_of(asked, ended),
        input_tokens=ended.input_tokens if ended else 0,
        output_tokens=written,
        code=ended.code if ended else "",
    )
