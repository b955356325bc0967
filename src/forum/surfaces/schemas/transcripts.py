"""Transcripts of runs: messages, tool calls and verdicts, in the order of the log."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.ledger.kinds import Outcome
from forum.runs.conversation.messages import ChatMessage, ModelExchange
from forum.runs.conversation.run_exchanges import read_exchanges
from forum.runs.conversation.run_steps import ConversationStep, find_steps
from forum.runs.report_kinds import Operation
from forum.runs.run_record import RunRecord
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.reported import ProvenanceWord


class ExchangeForm(Struct, frozen=True):
    """A call of a model, a use of a tool, or another step, as messages."""

    entry: Annotated[
        fields.Index | None, Meta(description="The entry that ends the step, or begins it.")
    ]
    began_entry: Annotated[fields.Index | None, Meta(description="The entry that begins it.")]
    strand: str
    op: Operation
    name: str
    agent: str | None
    model: str | None
    outcome: Annotated[Outcome | None, Meta(description="Null while the step goes on.")]
    code: Annotated[str | None, Meta(description="The type of an error, or a status.")]
    began: fields.Moment
    seconds: fields.Seconds
    spent: fields.AmountForm
    input_tokens: int
    output_tokens: int
    stop_reason: Annotated[str | None, Meta(description="Why the model stopped, in its words.")]
    repeated: Annotated[
        int,
        Meta(
            description="How many messages at the beginning of the request are left out here, "
            "because an earlier request has them."
        ),
    ]
    follows: Annotated[
        fields.Index | None,
        Meta(
            description="The entry of the earlier step whose messages are left out; null if none "
            "are. Agents that take turns go on from different steps."
        ),
    ]
    dropped: Annotated[
        int,
        Meta(
            description="How many messages of that step the request has no more: the agent has "
            "rewritten its history, for example replaced it by a summary."
        ),
    ]
    repeated_later: Annotated[
        int,
        Meta(
            description="How many further messages are left out, because that step has them too: "
            "those behind a part of the history that was rewritten."
        ),
    ]
    request: Annotated[
        tuple[ChatMessage, ...], Meta(description="What was sent; empty if it was erased.")
    ]
    reply: Annotated[
        tuple[ChatMessage, ...], Meta(description="What came back; empty if it was erased.")
    ]


class TranscriptPage(Struct, frozen=True):
    """Steps of a run as messages, in the order of their beginnings."""

    run: fields.RunId
    exchanges: tuple[ExchangeForm, ...]
    total: Annotated[int, Meta(description="How many steps the run has.")]
    next: Annotated[
        int | None, Meta(description="`after` of the next page; null at the end of the run.")
    ]


_MAX_PAGE_CHARS = 4_000_000
"""About how much text one page of a transcript has."""


def transcript_page(record: RunRecord, after: int, limit: int) -> TranscriptPage:
    """Return some steps of a run in their form."""
    steps = find_steps(record.entries)
    exchanges: list[ExchangeForm] = []
    size = 0
    for step, model_exchange in read_exchanges(record, steps, after, after + limit):
        if size > _MAX_PAGE_CHARS:
            break
        exchanges.append(exchange_form(step, model_exchange))
        size += model_exchange.size
    reached = after + len(exchanges)
    return TranscriptPage(
        run=record.run,
        exchanges=tuple(exchanges),
        total=len(steps),
        next=reached if exchanges and reached < len(steps) else None,
    )


def exchange_forms(record: RunRecord) -> tuple[ExchangeForm, ...]:
    """Return all steps of a run in their form."""
    steps = find_steps(record.entries)
    return tuple(exchange_form(*pair) for pair in read_exchanges(record, steps))


def exchange_form(step: ConversationStep, model_exchange: ModelExchange) -> ExchangeForm:
    """Return a step with its messages in its form."""
    return fields.fill(
        ExchangeForm,
        step,
        entry=step.located.index,
        began_entry=step.first.index,
        strand=step.first.entry.strand,
        model=step.model or model_exchange.model,
        began=step.started,
        seconds=round(step.micros / 1e6, 6),
        stop_reason=model_exchange.stop_reason,
        repeated=model_exchange.repeated,
        follows=model_exchange.follows,
        dropped=model_exchange.dropped,
        repeated_later=model_exchange.repeated_later,
        request=model_exchange.request,
        reply=model_exchange.reply,
    )


class TranscriptStep(Struct, frozen=True):
    """One entry of a run, in words, with its texts."""

    entry: fields.Index | None
    id: fields.EntryId
    at: fields.Moment
    strand: str
    kind: str
    actor: str
    summary: Annotated[str, Meta(description="What it records, in one sentence.")]
    bodies: Annotated[
        dict[str, str | None],
        Meta(description="Prompt, reply, arguments, result and the like; null if erased."),
    ]


class TranscriptForm(Struct, frozen=True):
    """All steps of a run, and why it failed, if it did."""

    run: fields.RunId
    steps: tuple[TranscriptStep, ...]
    why: str | None
    provenance: ProvenanceWord
    coverage: Annotated[
        str, Meta(description="How Forum knows of the run, and what may be missing in it.")
    ]
    exchanges: Annotated[
        tuple[ExchangeForm, ...],
        Meta(description="The calls of models and tools as messages, in their order."),
    ] = ()
