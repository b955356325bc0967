"""Responses with an answer, whole or streamed, and the provenance that they contain."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from forum.surfaces.http.endpoints import JSON, NO_STORE
from forum.surfaces.http.events import EVENT_STREAM, STREAM_HEADERS
from forum.surfaces.http.openai.errors import run_link_headers
from forum.surfaces.schemas.deliberations import DeliberationForm

KEEP_ALIVE = b": keep-alive\n\n"


class Provenance(Struct, frozen=True, omit_defaults=True):
    """Where the answer comes from."""

    run: str
    href: str
    verify: Annotated[
        str, Meta(description="POST there for the evidence, which `forum verify` reads.")
    ]
    deliberation: Annotated[
        DeliberationForm | None, Meta(description="How a panel has come to it, and who dissents.")
    ] = None


def build_provenance(run: str, deliberation: DeliberationForm | None = None) -> Provenance:
    """Return the links to a run and its evidence, and how a panel arrived at its answer."""
    href = f"/api/v1/runs/{run}"
    return Provenance(run, href, f"{href}/bundle", deliberation)


def json_response(run: str, answer: Struct) -> Response:
    """Return the answer of a run as JSON."""
    return Response(msgspec.json.encode(answer), 200, {**NO_STORE, **run_link_headers(run)}, JSON)


def stream_response(run: str, events: AsyncIterator[bytes]) -> Response:
    """Return the answer of a run as an event stream."""
    return StreamingResponse(events, 200, {**STREAM_HEADERS, **run_link_headers(run)}, EVENT_STREAM)
