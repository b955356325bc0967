"""The steps of a run as a conversation: calls of models and uses of tools, with their messages."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import Amount
from forum.runs import kinds
from forum.runs.conversation.decoder import count_repeated, decode_body, decode_exchange
from forum.runs.conversation.messages import (
    ChatMessage,
    ChatRole,
    ChatToolCall,
    ChatToolResult,
    ModelExchange,
)
from forum.runs.conversation.titles import format_command
from forum.runs.policy import ToolCall
from forum.runs.report_fold import SpanRecord, fold_span, span_of_strand
from forum.runs.report_kinds import (
    Operation,
    Provenance,
    ReportBeginFacts,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.run_record import RunRecord
from forum.runs.run_summary import PROMPT_STEPS
from forum.runs.spending import cost_of

_COMPARED_STEPS = 8
"""With how many earlier calls a request is compared: sub-agents take turns."""
_SPOKEN = (ChatRole.USER, ChatRole.ASSISTANT)
_REPLY_BODIES = frozenset({"output", "result", "error"})
_CODE_TEXTS = {
    "client-left": "the program left before the provider answered",
    "connect": "the provider could not be reached",
    "cut": "the connection to the provider broke",
    "lost": "the process that made the call died",
    "timeout": "the provider did not answer in time",
}
"""The codes of calls that failed without a text of the provider."""
_uses = msgspec.json.Decoder(tuple[ToolCall, ...])


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


def read_exchanges(
    record: RunRecord, steps: Sequence[ConversationStep], start: int = 0
) -> Iterator[tuple[ConversationStep, ModelExchange]]:
    """Yield steps from a position on, each with its messages.

    Messages at the beginning of a request that an earlier one has as well are left out and counted:
    agents send the whole conversation with each call.
    """
    models = [step for step in steps[:start] if step.op is Operation.MODEL]
    earlier = [read_exchange(record, step).messages for step in models[-_COMPARED_STEPS:]]
    for step in steps[start:]:
        model_exchange = read_exchange(record, step)
        if step.op is not Operation.MODEL:
            yield step, model_exchange
            continue
        repeated = max(
            (count_repeated(model_exchange.request, past) for past in earlier), default=0
        )
        earlier = [*earlier, model_exchange.messages][-_COMPARED_STEPS:]
        new = model_exchange.request[repeated:]
        yield step, replace(model_exchange, request=new, repeated=repeated)


def read_exchange(record: RunRecord, step: ConversationStep) -> ModelExchange:
    """Return the messages of a step; bodies that were erased have none."""

    def read(located: LocatedEntry | None, *names: str) -> bytes | None:
        for name in names:
            if located is not None and name in located.entry.bodies:
                return record.read(located, name)
        return None

    if isinstance(step.first.entry.facts, kinds.CallFacts | kinds.IntentFacts):
        request = read(step.first, "prompt", "arguments")
        reply = read(step.last, "output", "result")
    else:
        request = read(step.first, "input") or read(step.last, "input")
        reply = read(step.last, "output")
    if step.is_command:
        asked = ChatMessage(ChatRole.COMMAND, format_command(request)) if request else None
        return ModelExchange(request=(asked,) if asked else ())
    errors = _read_error(step, read(step.last, "error"))
    if step.op is Operation.TOOL:
        model_exchange = _tool_exchange(step.name, request, reply)
        return replace(model_exchange, reply=(*model_exchange.reply, *errors))
    is_spoken = step.op in (Operation.MODEL, Operation.AGENT) or step.name in PROMPT_STEPS
    roles = _SPOKEN if is_spoken else (ChatRole.INPUT, ChatRole.OUTPUT)
    model_exchange = decode_exchange(request, reply, roles)
    uses = _read_uses(read(step.last, "uses") or b"")
    return replace(model_exchange, reply=(*model_exchange.reply, *uses, *errors))


def _read_error(step: ConversationStep, body: bytes | None) -> tuple[ChatMessage, ...]:
    """Return why a step was refused or failed; nobody has replied that.

    A step without such a text, as when a provider cannot be reached, is told by its code.
    """
    if body:
        messages = decode_body(body, ChatRole.ERROR).messages
        return tuple(
            message if message.role is ChatRole.RAW else replace(message, role=ChatRole.ERROR)
            for message in messages
        )
    if step.last is None or step.outcome in (None, Outcome.OK) or not step.code:
        return ()
    if _REPLY_BODIES & step.last.entry.bodies.keys():
        return ()
    return (ChatMessage(ChatRole.ERROR, _CODE_TEXTS.get(step.code, step.code)),)


def _tool_exchange(name: str, request: bytes | None, reply: bytes | None) -> ModelExchange:
    """Return a use of a tool as a call and its result."""
    arguments = (request or b"").decode(errors="replace")
    call = ChatMessage(ChatRole.ASSISTANT, calls=(ChatToolCall(name, arguments),))
    if reply is None:
        return ModelExchange(request=(call,))
    result = ChatToolResult(reply.decode(errors="replace"), name=name)
    return ModelExchange(request=(call,), reply=(ChatMessage(ChatRole.TOOL, results=(result,)),))


def _read_uses(body: bytes) -> tuple[ChatMessage, ...]:
    """Return the tools that a model of the engine wants to use."""
    try:
        uses = _uses.decode(body)
    except (msgspec.MsgspecError, UnicodeError):
        return ()
    calls = tuple(ChatToolCall(use.tool, use.arguments) for use in uses)
    return (ChatMessage(ChatRole.ASSISTANT, calls=calls),) if calls else ()


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
