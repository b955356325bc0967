"""Read the steps of a run as messages, each message once.

An agent sends its whole conversation with every call.  Of a request, only the bytes are read that
it does not share with an earlier one, and only the messages in them are decoded.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.body import StoredBody
from forum.ledger.body_follower import read_after
from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry, read_stored
from forum.ledger.spans import ByteSpan, common_beginning, common_end, common_prefix
from forum.runs import kinds
from forum.runs.conversation.decoder import decode_body, decode_exchange, limit_messages
from forum.runs.conversation.histories import History, Repetition, compare_histories
from forum.runs.conversation.messages import (
    ChatMessage,
    ChatRole,
    ChatToolCall,
    ChatToolResult,
    ModelExchange,
)
from forum.runs.conversation.request_decoder import DecodedRequest, decode_request
from forum.runs.conversation.run_steps import ConversationStep
from forum.runs.conversation.titles import format_command
from forum.runs.policy import ToolCall
from forum.runs.report_kinds import Operation
from forum.runs.run_record import RunRecord
from forum.runs.run_summary import PROMPT_STEPS

MAX_HISTORIES = 8
"""With how many earlier histories a request is compared: sub-agents take turns.

So many of bodies that share bytes, and as many of others.  One that goes on counts once.
"""
_MAX_HISTORY_BYTES = 64 << 20
"""How many bytes of requests are held in memory to compare the next with."""
_MIN_REPEATED_CHARS = 512
"""The least that is left out of a text because an earlier one begins with the same."""
_LITTLE_BYTES = 512
_PAGE_STEPS = 200
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


def read_exchanges(
    record: RunRecord, steps: Sequence[ConversationStep], start: int = 0, stop: int | None = None
) -> Iterator[tuple[ConversationStep, ModelExchange]]:
    """Yield the steps from `start` to before `stop`, each with its messages.

    Messages that an earlier request has as well are left out and counted.  What is left out does
    not depend on the position.  Raises `TamperDetected`.
    """
    reader = _ExchangeReader(record, steps, start)
    stop = len(steps) if stop is None else min(stop, len(steps))
    for low in range(0, stop, _PAGE_STEPS):
        high = min(low + _PAGE_STEPS, stop)
        reader.open_page(low, high)
        for number in range(low, high):
            model_exchange = reader.read(number)
            if number >= start:
                yield steps[number], model_exchange


class _Sizes(NamedTuple):
    """What is known of a request before it is read."""

    number: int
    size: int
    spans: Sequence[ByteSpan] | None
    """None for a body that is stored as it is."""


class _ReadRequest(NamedTuple):
    """A request that was read, and the reply to it."""

    content: bytes
    decoded: DecodedRequest
    history: History


class _OpenHistories:
    """The requests with which the next one is compared, by what is known without reading them."""

    def __init__(self) -> None:
        self._listed: list[_Sizes] = []
        self._whole: list[_Sizes] = []

    @property
    def all(self) -> list[_Sizes]:
        """Return all of them, the oldest first."""
        return sorted([*self._listed, *self._whole])

    def add(self, request: _Sizes) -> None:
        """Add the request of the next step, and forget the one that it goes on from."""
        if request.spans is None:
            self._whole = self._keep([*self._whole, request])
            return
        others = [other for other in self._listed if not _goes_on(request, other)]
        self._listed = self._keep([*others, request])

    @staticmethod
    def _keep(requests: list[_Sizes]) -> list[_Sizes]:
        kept: list[_Sizes] = []
        room = _MAX_HISTORY_BYTES // 2
        for request in reversed(requests[-MAX_HISTORIES:]):
            room -= request.size
            if kept and room < 0:
                break
            kept.append(request)
        return kept[::-1]


def _goes_on(request: _Sizes, other: _Sizes) -> bool:
    """Return whether a request has all of an earlier one, and more."""
    if request.spans is None or other.spans is None or request.size <= other.size:
        return False
    shared = common_beginning(request.spans, other.spans, other.size)
    if other.size - shared >= _LITTLE_BYTES:
        shared += common_end(request.spans, other.spans)
    return other.size - shared < _LITTLE_BYTES


class _ExchangeReader:
    """Reads the steps of a run in order; the messages of those before `start` are not needed."""

    def __init__(
        self, record: RunRecord, steps: Sequence[ConversationStep], start: int = 0
    ) -> None:
        self._record = record
        self._steps, self._start = steps, start
        self._histories = _OpenHistories()
        self._requests: dict[int, _ReadRequest] = {}
        self._stored: dict[tuple[int, str], StoredBody] = {}

    def open_page(self, low: int, high: int) -> None:
        """Look up the bodies of the next steps with one query."""
        wanted = [
            place
            for number in range(low, high)
            for place in _places(self._steps[number], is_shown=number >= self._start)
        ]
        bodies = self._record.bodies_at([(located, name) for located, name in wanted])
        self._stored = {
            (id(located), name): body
            for (located, name), body in zip(wanted, bodies, strict=True)
            if body is not None
        }

    def read(self, number: int) -> ModelExchange:
        """Return the messages of a step; of one before the start only what the next ones need."""
        step = self._steps[number]
        is_shown = number >= self._start
        if step.op is not Operation.MODEL:
            return self._read_plain(step) if is_shown else ModelExchange()
        place = self._find_request(step)
        if place is None:
            return self._read_plain(step) if is_shown else ModelExchange()
        sizes = self._measure(number, place)
        model_exchange = ModelExchange()
        if is_shown:
            model_exchange = self._read_model(sizes, place)
        self._histories.add(sizes)
        kept = {history.number for history in self._histories.all}
        self._requests = {n: read for n, read in self._requests.items() if n in kept}
        return model_exchange

    def _measure(self, number: int, place: tuple[LocatedEntry, str]) -> _Sizes:
        located, name = place
        body = self._stored[id(located), name]
        try:
            spans = body.shared.spans() if body.shared else None
        except Malformed:
            spans = None  # whoever reads the body finds that it was altered
        return _Sizes(number, located.entry.bodies[name].size, spans)

    def _read_model(self, sizes: _Sizes, place: tuple[LocatedEntry, str]) -> ModelExchange:
        """Return a call of a model, without what earlier requests have."""
        step = self._steps[sizes.number]
        earlier = self._histories.all
        for other in earlier:
            if other.number not in self._requests:
                self._load(other)
        mine = self._read_request(sizes, place, earlier)
        reply = self._read_reply(step)
        asked = mine.decoded.body
        history = History(_without_notes(asked.messages), reply.reply)
        self._requests[sizes.number] = mine._replace(history=history)
        whole = replace(reply, request=asked.messages, model=reply.model or asked.model)
        new = self._leave_out_repeated(whole, earlier)
        return replace(new, request=limit_messages(new.request))

    def _load(self, sizes: _Sizes) -> None:
        """Read a request of a step before the start, to compare the next ones with it."""
        step = self._steps[sizes.number]
        self._look_up(step)
        place = self._find_request(step)
        if place is None:
            return  # it was erased meanwhile
        read = self._read_request(sizes, place, [])
        reply = self._read_reply(step).reply
        history = History(_without_notes(read.decoded.body.messages), reply)
        self._requests[sizes.number] = read._replace(history=history)

    def _look_up(self, step: ConversationStep) -> None:
        wanted = list(_places(step, is_shown=True))
        bodies = self._record.bodies_at(wanted)
        for (located, name), body in zip(wanted, bodies, strict=True):
            if body is not None:
                self._stored[id(located), name] = body

    def _read_request(
        self, sizes: _Sizes, place: tuple[LocatedEntry, str], earlier: Sequence[_Sizes]
    ) -> _ReadRequest:
        """Return a request; what it shares with an earlier one is not read again."""
        located, name = place
        body = self._stored[id(located), name]
        base, kept = None, 0
        for other in earlier:
            if other.number in self._requests and other.spans and sizes.spans:
                length = common_beginning(sizes.spans, other.spans, other.size)
                if length > kept:
                    base, kept = self._requests[other.number], length
        content = read_after(located.entry, name, body, base.content if base else b"", kept=kept)
        for other in earlier if sizes.spans is None else ():
            if other.number in self._requests:
                length = common_prefix(content, self._requests[other.number].content)
                if length > kept:
                    base, kept = self._requests[other.number], length
        decoded = decode_request(content, ChatRole.USER, base.decoded if base else None, kept)
        return _ReadRequest(content, decoded, History(()))

    def _leave_out_repeated(
        self, model_exchange: ModelExchange, earlier: Sequence[_Sizes]
    ) -> ModelExchange:
        request = model_exchange.request
        best, follows = Repetition(0), None
        for other in reversed(earlier):
            if other.number not in self._requests:
                continue
            repetition = compare_histories(request, self._requests[other.number].history)
            if repetition.total > best.total:
                best, follows = repetition, other.number
            if best.beginning and not best.dropped and best.total >= len(request) - 1:
                break
        if follows is None:
            return self._cut_text(model_exchange, earlier)
        later = frozenset(best.later)
        new = enumerate(request[best.beginning :], best.beginning)
        return replace(
            model_exchange,
            request=tuple(message for place, message in new if place not in later),
            repeated=best.beginning,
            repeated_later=len(later),
            dropped=best.dropped,
            follows=self._steps[follows].located.index,
        )

    def _cut_text(self, model_exchange: ModelExchange, earlier: Sequence[_Sizes]) -> ModelExchange:
        """Return a prompt that is one text without what an earlier one begins with."""
        if len(model_exchange.request) != 1:
            return model_exchange
        message = model_exchange.request[0]
        best, follows = 0, None
        for other in earlier:
            if other.number not in self._requests:
                continue
            request = self._requests[other.number].history.request
            if len(request) == 1 and request[0].role is message.role:
                length = _common_chars(message.text, request[0].text)
                if length > best:
                    best, follows = length, other.number
        if follows is None or best < _MIN_REPEATED_CHARS:
            return model_exchange
        index = self._steps[follows].located.index
        note = f"its first {best:,} characters are those of an earlier request"
        shortened = replace(message, text=message.text[best:], note=note)
        return replace(model_exchange, request=(shortened,), follows=index)

    def _find_request(self, step: ConversationStep) -> tuple[LocatedEntry, str] | None:
        return next(
            (place for place in _request_places(step) if (id(place[0]), place[1]) in self._stored),
            None,
        )

    def _read(self, located: LocatedEntry | None, *names: str) -> bytes | None:
        """Return the first body of these names that the entry has; None if it was erased."""
        for name in names:
            if located is not None and name in located.entry.bodies:
                body = self._stored.get((id(located), name))
                return None if body is None else read_stored(located.entry, name, body)
        return None

    def _read_reply(self, step: ConversationStep) -> ModelExchange:
        """Return what came back of a step, without its request."""
        reply = self._read(step.last, *_reply_names(step))
        roles = _roles(step)
        model_exchange = decode_exchange(None, reply, roles)
        uses = _read_uses(self._read(step.last, "uses") or b"")
        errors = _read_error(step, self._read(step.last, "error"))
        return replace(model_exchange, reply=(*model_exchange.reply, *uses, *errors))

    def _read_plain(self, step: ConversationStep) -> ModelExchange:
        """Return a step that is no call of a model, or whose request was erased."""
        place = self._find_request(step)
        request = self._read(*place) if place else None
        if step.is_command:
            asked = ChatMessage(ChatRole.COMMAND, format_command(request)) if request else None
            return ModelExchange(request=(asked,) if asked else ())
        if step.op is Operation.TOOL:
            reply = self._read(step.last, *_reply_names(step))
            model_exchange = _tool_exchange(step.name, request, reply)
            errors = _read_error(step, self._read(step.last, "error"))
            return replace(model_exchange, reply=(*model_exchange.reply, *errors))
        asked_body = decode_body(request or b"", _roles(step)[0])
        answered = self._read_reply(step)
        model = answered.model or asked_body.model
        return replace(answered, request=asked_body.messages, model=model)


def _without_notes(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """Return what an agent has sent: a note on what cannot be read is nobody's message."""
    note = messages[-1] if messages else None
    is_note = note is not None and note.role is ChatRole.RAW and not note.text
    return messages[:-1] if is_note else messages


def _is_driven(step: ConversationStep) -> bool:
    return isinstance(step.first.entry.facts, kinds.CallFacts | kinds.IntentFacts)


def _reply_names(step: ConversationStep) -> tuple[str, ...]:
    return ("output", "result") if _is_driven(step) else ("output",)


def _request_places(step: ConversationStep) -> Iterator[tuple[LocatedEntry, str]]:
    """Yield where the request of a step may be."""
    names = ("prompt", "arguments") if _is_driven(step) else ("input",)
    entries = [step.first] if _is_driven(step) or step.last is None else [step.first, step.last]
    for located in entries:
        yield from ((located, name) for name in names if name in located.entry.bodies)


def _places(step: ConversationStep, *, is_shown: bool) -> Iterator[tuple[LocatedEntry, str]]:
    """Yield the bodies that are needed of a step: of one that is not shown, its request."""
    if is_shown or step.op is Operation.MODEL:
        yield from _request_places(step)
    if is_shown and step.last is not None:
        names = (*_reply_names(step), "error", "uses")
        yield from ((step.last, name) for name in names if name in step.last.entry.bodies)


def _roles(step: ConversationStep) -> tuple[ChatRole, ChatRole]:
    is_spoken = step.op in (Operation.MODEL, Operation.AGENT) or step.name in PROMPT_STEPS
    return _SPOKEN if is_spoken else (ChatRole.INPUT, ChatRole.OUTPUT)


def describe_repetition(model_exchange: ModelExchange) -> str:
    """Return which messages of a request are not shown again; empty if none are left out."""
    count = model_exchange.repeated + model_exchange.repeated_later
    if not count:
        return ""
    place = "before" if model_exchange.follows is None else f"in #{model_exchange.follows}"
    same = f"{count:,} message{'' if count == 1 else 's'} as {place}"
    if not model_exchange.dropped:
        return same
    return f"{same}; history rewritten: {model_exchange.dropped:,} left out by the agent"


def _common_chars(first: str, second: str) -> int:
    """Return how many characters at the beginning are the same, up to the end of a line."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first.startswith(second[:middle]):
            low = middle
        else:
            high = middle - 1
    if low < min(len(first), len(second)):
        low = first.rfind("\n", 0, low) + 1
    return low


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
