"""Chat completions: a conversation in, one answer out, whole or as it comes."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from forum.ledger import Scope
from forum.surfaces.http.endpoints import Endpoint, Visit
from forum.surfaces.http.events import STREAM
from forum.surfaces.http.openai.answering import (
    ENDPOINT_SECONDS,
    Begun,
    Ended,
    Usage,
    begin,
    tell,
    whole,
)
from forum.surfaces.http.openai.catalogue import find
from forum.surfaces.http.openai.conversation import (
    MOST_MESSAGES,
    Message,
    Terms,
    read_messages,
    refuse_others,
    request_of,
)
from forum.surfaces.http.openai.errors import NoAnswer, in_their_form
from forum.surfaces.http.openai.saying import (
    BEAT,
    Provenance,
    as_stream,
    in_one_piece,
    provenance,
)
from forum.surfaces.http.problems import Problem

DONE = b"data: [DONE]\n\n"


class StreamOptions(Struct, frozen=True):
    """What a stream tells besides."""

    include_usage: bool | None = None


class ChatAsk(Struct, frozen=True):
    """What clients send.  Members that are not listed are ignored, as are those that only tune."""

    model: Annotated[str, Meta(min_length=1, examples=["forum"])]
    messages: Annotated[tuple[Message, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, Any] | None = None
    forum: Terms = Terms()
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


_TAKEN: dict[str, tuple[Any, ...]] = {
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
    forum: Provenance


class More(Struct, frozen=True, omit_defaults=True):
    """What a chunk adds."""

    role: str | None = None
    content: str | None = None


class ChunkChoice(Struct, frozen=True):
    """A piece of the one answer that there is."""

    index: int
    delta: More
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
    forum: Provenance
    usage: UsageForm | None = None


async def complete(visit: Visit) -> Response:
    """Have a conversation answered."""
    ask: ChatAsk = visit.body
    refuse_others(ask, _TAKEN)
    choice = await find(visit, ask.model, ask.metadata or {})

    def request() -> str:
        return request_of(read_messages(ask.messages), "messages")

    try:
        begun = await begin(visit, choice, request, ask.forum)
        if not ask.stream:
            return in_one_piece(begun.run, _completion(begun, await whole(visit, begun)))
    except NoAnswer as error:
        return error.response()
    usage = bool(ask.stream_options and ask.stream_options.include_usage)
    return as_stream(begun.run, _chunks(begun, usage=usage))


def _completion(begun: Begun, ended: Ended) -> Completion:
    return Completion(
        _id(begun),
        "chat.completion",
        begun.created,
        begun.model,
        (Alternative(0, Reply("assistant", ended.answer), "stop"),),
        _usage(ended.usage),
        _fingerprint(begun),
        provenance(begun.run, ended.deliberation),
    )


async def _chunks(begun: Begun, *, usage: bool) -> AsyncIterator[bytes]:
    """Yield the events of a stream; one that ends badly has no end but an error."""
    yield _chunk(begun, ChunkChoice(0, More("assistant", "")))
    try:
        async for piece in tell(begun):
            if isinstance(piece, Ended):
                proof = provenance(begun.run, piece.deliberation)
                yield _chunk(begun, ChunkChoice(0, More(), "stop"), proof=proof)
                if usage:
                    yield _chunk(begun, usage=piece.usage)
            else:
                yield _chunk(begun, ChunkChoice(0, More(content=piece))) if piece else BEAT
    except NoAnswer as error:
        yield b"data: %s\n\n" % msgspec.json.encode(error.form)
    yield DONE


def _chunk(
    begun: Begun,
    *choices: ChunkChoice,
    usage: Usage | None = None,
    proof: Provenance | None = None,
) -> bytes:
    chunk = Chunk(
        _id(begun),
        "chat.completion.chunk",
        begun.created,
        begun.model,
        choices,
        _fingerprint(begun),
        proof or provenance(begun.run),
        _usage(usage) if usage else None,
    )
    return b"data: %s\n\n" % msgspec.json.encode(chunk)


def _id(begun: Begun) -> str:
    return f"chatcmpl-{begun.run}"


def _fingerprint(begun: Begun) -> str:
    """Return what changes when the lanes do."""
    return f"fp_{begun.desk.staff.roster.digest[:16]}"


def _usage(usage: Usage) -> UsageForm:
    return UsageForm(usage.read, usage.written, usage.read + usage.written)


CHAT = Endpoint(
    "POST", "/v1/chat/completions", "openai_chat", frozenset({Scope.SUBMIT}),
    "Answer a conversation, as OpenAI's chat completions do", complete,
    reply=Completion, other_types=(STREAM,), body=ChatAsk, idempotent=True, tag="openai",
    problems=(Problem.NOT_FOUND, Problem.GONE), voice=in_their_form, seconds=ENDPOINT_SECONDS,
    example={"model": "forum", "messages": [{"role": "user", "content": "Name three rivers."}]},
)  # fmt: skip
