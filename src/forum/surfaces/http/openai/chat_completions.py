"""The chat completions endpoint: a conversation in, one answer out, whole or streamed."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.events import EVENT_STREAM
from forum.surfaces.http.openai import conversation, http_responses, run_stream
from forum.surfaces.http.openai.errors import NoAnswer, openai_error_response
from forum.surfaces.http.openai.models import resolve_requested_model
from forum.surfaces.http.problems import ProblemType

DONE = b"data: [DONE]\n\n"


class StreamOptions(Struct, frozen=True):
    """What a stream tells besides."""

    include_usage: bool | None = None


class ChatAsk(Struct, frozen=True):
    """What clients send.  Members that are not listed are ignored, as are those that only tune."""

    model: Annotated[str, Meta(min_length=1, examples=["forum"])]
    messages: Annotated[
        tuple[conversation.Message, ...], Meta(min_length=1, max_length=conversation.MAX_MESSAGES)
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, Any] | None = None
    forum: conversation.Terms = conversation.Terms()
    n: Any = None
    tools: Any = None
    tool_choice: Any = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    modalities: Any = None
    audio: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    stop: Any = None
    web_search_options: Any = None


_SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "stop": (None, [], ""),
    "web_search_options": (None,),
}


class UsageForm(Struct, frozen=True):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Reply(Struct, frozen=True):
    """What was answered."""

    role: str
    content: str
    refusal: str | None = None


class Alternative(Struct, frozen=True):
    """The one answer that there is."""

    index: int
    message: Reply
    finish_reason: str
    logprobs: None = None


class Completion(Struct, frozen=True):
    """An answer in one piece."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[Alternative, ...]
    usage: UsageForm
    system_fingerprint: str
    forum: http_responses.Provenance


class ChunkDelta(Struct, frozen=True, omit_defaults=True):
    """What a chunk adds."""

    role: str | None = None
    content: str | None = None


class ChunkChoice(Struct, frozen=True):
    """A piece of the one answer that there is."""

    index: int
    delta: ChunkDelta
    finish_reason: str | None = None
    logprobs: None = None


class Chunk(Struct, frozen=True, omit_defaults=True):
    """One event of a stream."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    system_fingerprint: str
    forum: http_responses.Provenance
    usage: UsageForm | None = None


async def create_chat_completion(visit: RequestContext) -> Response:
    """Have a conversation answered."""
    ask: ChatAsk = visit.body
    conversation.reject_unsupported(ask, _SUPPORTED_VALUES)
    choice = await resolve_requested_model(visit, ask.model, ask.metadata or {})

    def request() -> str:
        return conversation.build_request_text(conversation.read_messages(ask.messages), "messages")

    try:
        begun = await run_stream.start_run(visit, choice, request, ask.forum)
        if not ask.stream:
            return http_responses.json_response(
                begun.run, _completion(begun, await run_stream.wait_for_answer(visit, begun))
            )
    except NoAnswer as error:
        return error.response()
    usage = bool(ask.stream_options and ask.stream_options.include_usage)
    return http_responses.stream_response(begun.run, _chunks(begun, usage=usage))


def _completion(begun: run_stream.StartedRun, ended: run_stream.AnsweredRun) -> Completion:
    return Completion(
        _completion_id(begun),
        "chat.completion",
        begun.created,
        begun.model,
        (Alternative(0, Reply("assistant", ended.answer), "stop"),),
        _usage(ended.usage),
        _fingerprint(begun),
        http_responses.build_provenance(begun.run, ended.deliberation),
    )


async def _chunks(begun: run_stream.StartedRun, *, usage: bool) -> AsyncIterator[bytes]:
    """Yield the events of a stream; after a failure, an error replaces the final chunk."""
    yield _chunk(begun, ChunkChoice(0, ChunkDelta("assistant", "")))
    try:
        async for piece in run_stream.stream_answer(begun):
            if isinstance(piece, run_stream.AnsweredRun):
                proof = http_responses.build_provenance(begun.run, piece.deliberation)
                yield _chunk(begun, ChunkChoice(0, ChunkDelta(), "stop"), proof=proof)
                if usage:
                    yield _chunk(begun, usage=piece.usage)
            else:
                yield (
                    _chunk(begun, ChunkChoice(0, ChunkDelta(content=piece)))
                    if piece
                    else http_responses.KEEP_ALIVE
                )
    except NoAnswer as error:
        yield b"data: %s\n\n" % msgspec.json.encode(error.form)
    yield DONE


def _chunk(
    begun: run_stream.StartedRun,
    *choices: ChunkChoice,
    usage: run_stream.CompletionUsage | None = None,
    proof: http_responses.Provenance | None = None,
) -> bytes:
    chunk = Chunk(
        _completion_id(begun),
        "chat.completion.chunk",
        begun.created,
        begun.model,
        choices,
        _fingerprint(begun),
        proof or http_responses.build_provenance(begun.run),
        _usage(usage) if usage else None,
    )
    return b"data: %s\n\n" % msgspec.json.encode(chunk)


def _completion_id(begun: run_stream.StartedRun) -> str:
    return f"chatcmpl-{begun.run}"


def _fingerprint(begun: run_stream.StartedRun) -> str:
    """Return a fingerprint that changes with the lanes."""
    return f"fp_{begun.desk.staff.roster.digest[:16]}"


def _usage(usage: run_stream.CompletionUsage) -> UsageForm:
    return UsageForm(usage.read, usage.written, usage.read + usage.written)


CHAT = Endpoint(
    "POST", "/v1/chat/completions", "openai_chat", frozenset({Scope.SUBMIT}),
    "Answer a conversation, as OpenAI's chat completions do", create_chat_completion,
    reply=Completion, other_types=(EVENT_STREAM,), body=ChatAsk, idempotent=True, tag="openai",
    problems=(ProblemType.NOT_FOUND, ProblemType.GONE), voice=openai_error_response,
    seconds=run_stream.ENDPOINT_TIMEOUT_S,
    example={"model": "forum", "messages": [{"role": "user", "content": "Name three rivers."}]},
)  # fmt: skip
