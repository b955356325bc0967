"""HTTP server of a witness, for logs on other machines (`forum witness serve`)."""

import asyncio
from collections.abc import Callable, Iterable
from hashlib import sha256

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forum.features.witness.witness import TEXT_MEDIA_TYPE, Witness

_MAX_REQUEST_BYTES = 1 << 16
_BODY_TIMEOUT_S = 10.0

LatestAudit = Callable[[str], bytes | None]
"""Returns the last audit report of a log as JSON, or None before the first audit."""


def build_witness_app(
    witness: Witness, origins: Iterable[str], audited: LatestAudit | None = None
) -> Starlette:
    """Return the ASGI application that serves a witness for these logs."""
    by_hash = {sha256(origin.encode()).hexdigest(): origin for origin in origins}

    async def add_checkpoint(request: Request) -> Response:
        body = await _read_body(request)
        if isinstance(body, Response):
            return body
        reply = await run_in_threadpool(witness.add_checkpoint, body)
        # Set the header directly: Starlette adds a charset to a text media type, and clients
        # compare the value exactly.
        return Response(reply.body, reply.status, {"Content-Type": reply.type})

    async def checkpoint(request: Request) -> Response:
        origin = by_hash.get(request.path_params["origin"])
        note = await run_in_threadpool(witness.latest_checkpoint, origin) if origin else None
        if note is None:
            return Response(
                "no checkpoint was cosigned for this log\n", 404, media_type=TEXT_MEDIA_TYPE
            )
        return Response(note, media_type=TEXT_MEDIA_TYPE)

    async def audit(request: Request) -> Response:
        origin = by_hash.get(request.path_params["origin"])
        report = await run_in_threadpool(audited, origin) if origin and audited else None
        if report is None:
            return Response("nothing was audited of this log\n", 404, media_type=TEXT_MEDIA_TYPE)
        return Response(report, media_type="application/json")

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin}/checkpoint", checkpoint),
            Route("/{origin}/audit", audit),
        ]
    )


async def _read_body(request: Request) -> bytes | Response:
    """Return the body of a request, or the refusal of one that is too large or too slow."""
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > _MAX_REQUEST_BYTES:
                    return _refuse(413, "the request is too large")
    except TimeoutError:
        return _refuse(408, f"the body did not come within {_BODY_TIMEOUT_S:.0f} s")
    return bytes(data)


def _refuse(status: int, why: str) -> Response:
    return Response(f"{why}\n", status, {"Connection": "close"}, TEXT_MEDIA_TYPE)
