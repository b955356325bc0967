"""The responses endpoint: the same as chat completions, in OpenAI's newer form."""

from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field
from starlette.responses import Response

from forum.features.chat_api import conversation as chats
from forum.features.chat_api import http_responses, run_stream
from forum.features.chat_api.errors import NoReply, openai_error_response
from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.events import EVENT_STREAM
from forum.surfaces.http.problems import ProblemType

_TEXT = {"format": {"type": "text"}}


class ResponsesAsk(http_responses.AnswerAsk, frozen=True, kw_only=True):
    """What clients send.  Members that are not listed are ignored, as are those that only tune."""

    model: Annotated[str, Meta(min_length=1, examples=["forum"])]
    input: (
        str | Annotated[tuple[chats.Item, ...], Meta(min_length=1, max_length=chats.MAX_MESSAGES)]
    )
    instructions: str | None = None
    stream: bool | None = None
    metadata: dict[str, Any] | None = None
    forum: chats.Terms = chats.Terms()
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
        http_responses.RunReference | None,
        Meta(description="Where the answer comes from, once it is there."),
    ] = None


async def create_response(context: RequestContext) -> Response:
    """Answer a request."""
    ask: ResponsesAsk = context.body
    if isinstance(ask.text, dict) and ask.text.get("verbosity"):
        # `verbosity` only asks for a style, so it is ignored.  The other members of `text` may ask
        # for a format that is not supported, so they are checked.
        others = {name: value for name, value in ask.text.items() if name != "verbosity"}
        ask = msgspec.structs.replace(ask, text=others)

    def request() -> str:
        return chats.build_request_text(chats.read_input(ask.input, ask.instructions), "input")

    return await http_responses.answer_request(
        context, ask, request, lambda started: ResponsesFormat(started, ask)
    )


class ResponsesFormat(http_responses.AnswerFormat):
    """The answer as a response, or as numbered events."""

    def __init__(self, started: run_stream.StartedRun, ask: ResponsesAsk) -> None:
        super().__init__(started)
        self._ask, self._numbers = ask, count()
        self._item = f"msg_{started.run}"
        self._at = {"item_id": self._item, "output_index": 0, "content_index": 0}

    def whole(self, answered: run_stream.AnsweredRun) -> ResponseForm:
        """Return the completed response."""
        return self._form("completed", answered)

    def begin(self) -> Iterator[bytes]:
        """Yield the events before the text."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._form("in_progress"))
        message = OutputMessage(self._item, "in_progress", ())
        yield self._event("response.output_item.added", output_index=0, item=message)
        yield self._event("response.content_part.added", **self._at, part=OutputText(""))

    def events(self, piece: str | run_stream.AnsweredRun | NoReply) -> Iterator[bytes]:
        """Yield the events for a piece of the text, for its end, or for a failure."""
        match piece:
            case str():
                yield self._event(
                    "response.output_text.delta", **self._at, delta=piece, logprobs=()
                )
            case NoReply():
                yield self._event("response.failed", response=self._form("failed", error=piece))
            case run_stream.AnsweredRun(answer=text):
                message = self._message(text)
                yield self._event("response.output_text.done", **self._at, text=text, logprobs=())
                yield self._event("response.content_part.done", **self._at, part=OutputText(text))
                yield self._event("response.output_item.done", output_index=0, item=message)
                yield self._event("response.completed", response=self.whole(piece))

    def _event(self, kind: str, **members: Any) -> bytes:  # noqa: ANN401  the members of any event
        data = {"type": kind, "sequence_number": next(self._numbers), **members}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))

    def _form(
        self,
        status: str,
        answered: run_stream.AnsweredRun | None = None,
        error: NoReply | None = None,
    ) -> ResponseForm:
        started, proof = self.started, http_responses.build_provenance(self.started.run)
        links = {"forum_run": proof.run, "forum_verify": proof.verify}
        form = ResponseForm(
            id=f"resp_{started.run}",
            created_at=started.created,
            model=started.model,
            status=status,
            metadata={**(self._ask.metadata or {}), **links},
            error=ResponseError(error.code, str(error)) if error else None,
            instructions=self._ask.instructions,
        )
        if answered is None:
            return form
        usage = answered.usage
        return msgspec.structs.replace(
            form,
            output=(self._message(answered.answer),),
            usage=ResponseUsage(usage.read, usage.written, usage.read + usage.written),
            forum=msgspec.structs.replace(proof, deliberation=answered.deliberation),
        )

    def _message(self, text: str) -> OutputMessage:
        return OutputMessage(self._item, "completed", (OutputText(text),))


RESPONSES = Endpoint(
    "POST", path="/v1/responses", name="openai_responses", scopes=frozenset({Scope.SUBMIT}),
    summary="Answer a request, as OpenAI's responses do", handle=create_response,
    reply=ResponseForm, other_types=(EVENT_STREAM,), body=ResponsesAsk, idempotent=True,
    tag="openai",
    problems=(ProblemType.NOT_FOUND, ProblemType.GONE), voice=openai_error_response,
    seconds=run_stream.ENDPOINT_TIMEOUT_S,
    example={"model": "forum", "input": "Name three rivers."},
)  # fmt: skip
