"""Responses with an answer, whole or streamed, and the provenance that they contain."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from forum.features.chat_api import run_stream
from forum.features.chat_api.conversation import Terms, reject_unsupported
from forum.features.chat_api.errors import NoReply, run_link_headers
from forum.features.chat_api.models import resolve_requested_model
from forum.surfaces.http.endpoints import JSON, NO_STORE, RequestContext
from forum.surfaces.http.events import EVENT_STREAM, STREAM_HEADERS
from forum.surfaces.schemas.panels import DeliberationForm

KEEP_ALIVE = b": keep-alive\n\n"


class RunReference(Struct, frozen=True, omit_defaults=True):
    """Where the answer comes from."""

    run: str
    href: str
    verify: Annotated[
        str, Meta(description="POST there for the evidence, which `forum verify` reads.")
    ]
    deliberation: Annotated[
        DeliberationForm | None, Meta(description="How a panel has come to it, and who dissents.")
    ] = None


def build_provenance(run: str, deliberation: DeliberationForm | None = None) -> RunReference:
    """Return the links to a run and its evidence, and how a panel arrived at its answer."""
    href = f"/api/v1/runs/{run}"
    return RunReference(run, href, f"{href}/bundle", deliberation)


class AnswerAsk(Struct, frozen=True, kw_only=True):
    """What clients send to either API."""

    model: Annotated[str, Meta(min_length=1, examples=["forum"])]
    stream: bool | None = None
    metadata: dict[str, Any] | None = None
    forum: Terms = Terms()


class AnswerFormat(ABC):
    """The form that one API gives to the answer of a run, whole or streamed."""

    def __init__(self, started: run_stream.StartedRun) -> None:
        self.started = started

    @abstractmethod
    def whole(self, answered: run_stream.AnsweredRun) -> Struct:
        """Return the answer in one piece."""

    @abstractmethod
    def begin(self) -> Iterator[bytes]:
        """Yield the events before the text."""

    @abstractmethod
    def events(self, piece: str | run_stream.AnsweredRun | NoReply) -> Iterator[bytes]:
        """Yield the events for a piece of the text, for its end, or for a failure."""


async def answer_request(
    context: RequestContext,
    ask: AnswerAsk,
    request: Callable[[], str],
    make_format: Callable[[run_stream.StartedRun], AnswerFormat],
) -> Response:
    """Start the run that a client asks for, and return its answer, whole or as a stream."""
    reject_unsupported(ask)
    choice = await resolve_requested_model(context, ask.model, ask.metadata or {})
    try:
        started = await run_stream.start_run(context, choice, request, ask.forum)
        answer_format = make_format(started)
        links = run_link_headers(started.run)
        if ask.stream:
            events = _stream_events(answer_format)
            return StreamingResponse(events, 200, {**STREAM_HEADERS, **links}, EVENT_STREAM)
        answer = answer_format.whole(await run_stream.wait_for_answer(context, started))
        return Response(msgspec.json.encode(answer), 200, {**NO_STORE, **links}, JSON)
    except NoReply as error:
        return error.response()


async def _stream_events(answer_format: AnswerFormat) -> AsyncIterator[bytes]:
    for event in answer_format.begin():
        yield event
    try:
        async for piece in run_stream.stream_answer(answer_format.started):
            for event in answer_format.events(piece) if piece else (KEEP_ALIVE,):
                yield event
    except NoReply as error:
        for event in answer_format.events(error):
            yield event
