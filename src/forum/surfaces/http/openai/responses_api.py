"""The responses endpoint: the same as chat completions, in OpenAI's newer form."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field
from starlette.responses import Response

from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.events import EVENT_STREAM
from forum.surfaces.http.openai import http_responses, run_stream
from forum.surfaces.http.openai.conversation import (
    MAX_MESSAGES,
    Item,
    Terms,
    build_request_text,
    read_input,
    reject_unsupported,
)
from forum.surfaces.http.openai.errors import NoAnswer, openai_error_response
from forum.surfaces.http.openai.models import resolve_requested_model
from forum.surfaces.http.problems import ProblemType

_TEXT = {"format": {"type": "text"}}


class ResponsesAsk(Struct, frozen=True):
    """What clients send.  Members that are not listed are ignored, as are those that only tune."""

    model: Annotated[str, Meta(min_length=1, examples=["forum"])]
    input: str | Annotated[tuple[Item, ...], Meta(min_length=1, max_length=MAX_MESSAGES)]
    instructions: str | None = None
    stream: bool | None = None
    metadata: dict[str, Any] | None = None
    forum: Terms = Terms()
    tools: Any = None
    tool_choice: Any = None
    text: Any = None
    background: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    include: Any = None
    top_logprobs: Any = None


_SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "background": (None, False),
    "previous_response_id": (None,),
    "conversation": (None,),
    "prompt": (None,),
    "include": (None, [], ["reasoning.encrypted_content"]),
    "top_logprobs": (None, 0),
}


class OutputText(Struct, frozen=True):
    """The words of the answer."""

    text: str
    type: str = "output_text"
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class OutputMessage(Struct, frozen=True):
    """The answer."""

    id: str
    status: str
    content: tuple[OutputText, ...]
    type: str = "message"
    role: str = "assistant"


class ReadDetails(Struct, frozen=True):
    """Of the tokens that were read."""

    cached_tokens: int = 0


class WrittenDetails(Struct, frozen=True):
    """Of the tokens that were written."""

    reasoning_tokens: int = 0


class ResponseUsage(Struct, frozen=True):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: ReadDetails = ReadDetails()
    output_tokens_details: WrittenDetails = WrittenDetails()


class ResponseError(Struct, frozen=True):
    """Why there is no answer."""

    code: str
    message: str


class ResponseForm(Struct, frozen=True):
    """A response, as far as it has come."""

    id: str
    created_at: int
    model: str
    status: str
    metadata: dict[str, Any]
    output: tuple[OutputMessage, ...] = ()
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    object: str = "response"
    instructions: str | None = None
    incomplete_details: None = None
    parallel_tool_calls: bool = False
    tool_choice: str = "none"
    tools: tuple[()] = ()
    temperature: None = None
    top_p: None = None
    text: dict[str, Any] = field(default_factory=lambda: dict(_TEXT))
    background: bool = False
    store: bool = True
    forum: Annotated[
        http_responses.Provenance | None,
        Meta(description="Where the answer comes from, once it is there."),
    ] = None


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """Builds the responses for one run and the client's own metadata."""

    begun: run_stream.StartedRun
    metadata: Mapping[str, Any]
    instructions: str | None

    @property
    def item(self) -> str:
        """The id of the message in the response."""
        return f"msg_{self.begun.run}"

    def form(
        self,
        status: str,
        ended: run_stream.AnsweredRun | None = None,
        error: NoAnswer | None = None,
    ) -> ResponseForm:
        """Return the response in its current state."""
        begun, proof = self.begun, http_responses.build_provenance(self.begun.run)
        known = {"forum_run": proof.run, "forum_verify": proof.verify}
        return ResponseForm(
            f"resp_{begun.run}",
            begun.created,
            begun.model,
            status,
            {**self.metadata, **known},
            (self.message(ended.answer),) if ended else (),
            _usage(ended.usage) if ended else None,
            ResponseError(error.code, str(error)) if error else None,
            instructions=self.instructions,
            forum=http_responses.build_provenance(begun.run, ended.deliberation) if ended else None,
        )

    def message(self, text: str) -> OutputMessage:
        """Return the complete answer as a message."""
        return OutputMessage(self.item, "completed", (OutputText(text),))


def _usage(usage: run_stream.CompletionUsage) -> ResponseUsage:
    return ResponseUsage(usage.read, usage.written, usage.read + usage.written)


async def create_response(visit: RequestContext) -> Response:
    """Have a request answered."""
    ask: ResponsesAsk = visit.body
    reject_unsupported(
        ask, _SUPPORTED_VALUES | {"text": (None, {}, _TEXT, *_verbosity_variants(ask.text))}
    )
    metadata = ask.metadata or {}
    choice = await resolve_requested_model(visit, ask.model, metadata)

    def request() -> str:
        return build_request_text(read_input(ask.input, ask.instructions), "input")

    try:
        begun = await run_stream.start_run(visit, choice, request, ask.forum)
        answering = ResponseBuilder(begun, metadata, ask.instructions)
        if not ask.stream:
            answer = answering.form("completed", await run_stream.wait_for_answer(visit, begun))
            return http_responses.json_response(begun.run, answer)
    except NoAnswer as error:
        return error.response()
    return http_responses.stream_response(begun.run, _stream_events(answering))


def _verbosity_variants(text: object) -> tuple[Any, ...]:
    """Return the values of `text` that differ from the default only in verbosity."""
    wished = text.get("verbosity") if isinstance(text, dict) else None
    return ({"verbosity": wished}, {**_TEXT, "verbosity": wished}) if wished else ()


async def _stream_events(answering: ResponseBuilder) -> AsyncIterator[bytes]:
    """Yield the numbered events of a stream."""
    numbers = count()

    def event(kind: str, **members: Any) -> bytes:  # noqa: ANN401  what the event tells
        told = {"type": kind, "sequence_number": next(numbers), **members}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(told))

    item, at = answering.item, {"item_id": answering.item, "output_index": 0, "content_index": 0}
    yield event("response.created", response=answering.form("in_progress"))
    yield event("response.in_progress", response=answering.form("in_progress"))
    message = OutputMessage(item, "in_progress", ())
    yield event("response.output_item.added", output_index=0, item=message)
    yield event("response.content_part.added", **at, part=OutputText(""))
    try:
        async for piece in run_stream.stream_answer(answering.begun):
            if isinstance(piece, run_stream.AnsweredRun):
                text = piece.answer
                whole_message = answering.message(text)
                yield event("response.output_text.done", **at, text=text, logprobs=())
                yield event("response.content_part.done", **at, part=OutputText(text))
                yield event("response.output_item.done", output_index=0, item=whole_message)
                yield event("response.completed", response=answering.form("completed", piece))
            elif piece:
                yield event("response.output_text.delta", **at, delta=piece, logprobs=())
            else:
                yield http_responses.KEEP_ALIVE
    except NoAnswer as error:
        yield event("response.failed", response=answering.form("failed", error=error))


RESPONSES = Endpoint(
    "POST", "/v1/responses", "openai_responses", frozenset({Scope.SUBMIT}),
    "Answer a request, as OpenAI's responses do", create_response,
    reply=ResponseForm, other_types=(EVENT_STREAM,), body=ResponsesAsk, idempotent=True,
    tag="openai",
    problems=(ProblemType.NOT_FOUND, ProblemType.GONE), voice=openai_error_response,
    seconds=run_stream.ENDPOINT_TIMEOUT_S,
    example={"model": "forum", "input": "Name three rivers."},
)  # fmt: skip
