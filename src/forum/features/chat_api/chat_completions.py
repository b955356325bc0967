"""The chat completions endpoint: a conversation in, one answer out, whole or streamed."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from forum.features.chat_api import conversation, http_responses, run_stream
from forum.features.chat_api.conversation import harmless
from forum.features.chat_api.errors import NoReply, openai_error_response
from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.events import EVENT_STREAM
from forum.surfaces.http.problems import ProblemType

_DONE = b"data: [DONE]\n\n"


class StreamOptions(Struct, frozen=True):
    """What a stream tells besides."""

    include_usage: bool | None = None


class ChatAsk(http_responses.AnswerAsk, frozen=True, kw_only=True):
    """What clients send.  Members that are not listed are ignored, as are those that only tune."""

    messages: Annotated[
        tuple[conversation.Message, ...], Meta(min_length=1, max_length=conversation.MAX_MESSAGES)
    ]
    stream_options: StreamOptions | None = None
    n: Annotated[Any, harmless(1)] = None
    tools: Annotated[Any, harmless([])] = None
    tool_choice: Annotated[Any, harmless("none", "auto")] = None
    functions: Annotated[Any, harmless([])] = None
    function_call: Annotated[Any, harmless("none", "auto")] = None
    response_format: Annotated[Any, harmless({"type": "text"})] = None
    modalities: Annotated[Any, harmless(["text"])] = None
    audio: Annotated[Any, harmless()] = None
    logprobs: Annotated[Any, harmless(0)] = None
    top_logprobs: Annotated[Any, harmless(0)] = None
    stop: Annotated[Any, harmless([], "")] = None
    web_search_options: Annotated[Any, harmless()] = None


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
    forum: http_responses.RunReference


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
    forum: http_responses.RunReference
    usage: UsageForm | None = None


async def create_chat_completion(context: RequestContext) -> Response:
    """Answer a conversation."""
    ask: ChatAsk = context.body

    def request() -> str:
        return conversation.build_request_text(conversation.read_messages(ask.messages), "messages")

    usage = bool(ask.stream_options and ask.stream_options.include_usage)
    return await http_responses.answer_request(
        context, ask, request, lambda started: ChatFormat(started, usage=usage)
    )


class ChatFormat(http_responses.AnswerFormat):
    """The answer as a completion, or as chunks; `usage` adds a chunk with the tokens."""

    def __init__(self, started: run_stream.StartedRun, *, usage: bool) -> None:
        super().__init__(started)
        self._with_usage = usage
        self._id = f"chatcmpl-{started.run}"
        self._fingerprint = f"fp_{started.tenant.registry.roster.digest[:16]}"
        """Changes with the lanes."""

    def whole(self, answered: run_stream.AnsweredRun) -> Completion:
        """Return the answer in one piece."""
        started = self.started
        return Completion(
            id=self._id,
            object="chat.completion",
            created=started.created,
            model=started.model,
            choices=(Alternative(0, Reply("assistant", answered.answer), "stop"),),
            usage=_usage(answered.usage),
            system_fingerprint=self._fingerprint,
            forum=http_responses.build_provenance(started.run, answered.deliberation),
        )

    def begin(self) -> Iterator[bytes]:
        """Yield the chunk that names the role."""
        yield self._chunk(ChunkChoice(0, ChunkDelta("assistant", "")))

    def events(self, piece: str | run_stream.AnsweredRun | NoReply) -> Iterator[bytes]:
        """Yield the chunks for a piece of the text, for its end, or for a failure."""
        match piece:
            case str():
                yield self._chunk(ChunkChoice(0, ChunkDelta(content=piece)))
                return
            case NoReply():
                yield b"data: %s\n\n" % msgspec.json.encode(piece.form)
            case run_stream.AnsweredRun():
                proof = http_responses.build_provenance(self.started.run, piece.deliberation)
                yield self._chunk(ChunkChoice(0, ChunkDelta(), "stop"), proof=proof)
                if self._with_usage:
                    yield self._chunk(usage=_usage(piece.usage))
        yield _DONE

    def _chunk(
        self,
        *choices: ChunkChoice,
        usage: UsageForm | None = None,
        proof: http_responses.RunReference | None = None,
    ) -> bytes:
        started = self.started
        chunk = Chunk(
            id=self._id,
            object="chat.completion.chunk",
            created=started.created,
            model=started.model,
            choices=choices,
            system_fingerprint=self._fingerprint,
            forum=proof or http_responses.build_provenance(started.run),
            usage=usage,
        )
        return b"data: %s\n\n" % msgspec.json.encode(chunk)


def _usage(usage: run_stream.CompletionUsage) -> UsageForm:
    return UsageForm(usage.read, usage.written, usage.read + usage.written)


CHAT = Endpoint(
    "POST", path="/v1/chat/completions", name="openai_chat", scopes=frozenset({Scope.SUBMIT}),
    summary="Answer a conversation, as OpenAI's chat completions do", handle=create_chat_completion,
    reply=Completion, other_types=(EVENT_STREAM,), body=ChatAsk, idempotent=True, tag="openai",
    problems=(ProblemType.NOT_FOUND, ProblemType.GONE), voice=openai_error_response,
    seconds=run_stream.ENDPOINT_TIMEOUT_S,
    example={"model": "forum", "messages": [{"role": "user", "content": "Name three rivers."}]},
)  # fmt: skip
