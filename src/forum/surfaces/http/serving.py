"""What happens to every request, in this order: host, key, rate, query, body, handler, answer."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from forum.surfaces.http.door import Door
from forum.surfaces.http.endpoints import JSON, NEVER, Endpoint, Visit, idempotency_key
from forum.surfaces.http.metrics import Metrics
from forum.surfaces.http.problems import Problem, Refusal, refusal_of, respond
from forum.surfaces.logs import LOG, one_line
from forum.surfaces.preparing import prepare

QUICK_BYTES = 4_096
"""Up to how many bytes a body is read on the event loop: that takes less than 0.1 ms."""
_MOST_QUERY = 2_048
"""How many bytes a query may have: one of 60,000 takes 40 ms to read on the event loop."""
BODY_SECONDS = 20.0
"""How long a client may take to send a body."""

GUARDED = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""What was recorded is untrusted: no browser may take it for a page."""


Answer = Callable[[Request], Awaitable[Response]]
"""What a route calls."""


def serve(endpoint: Endpoint, door: Door, metrics: Metrics, most_bytes: int) -> Answer:
    """Return what answers the requests of one operation."""

    async def answer(request: Request) -> Response:
        begun = monotonic()
        try:
            response = await _answer(request)
        except ClientDisconnect:
            response = Response(status_code=499)  # nobody reads it; the measure counts it
        except Exception as error:  # noqa: BLE001  told to the client, and to the operator
            _tell(endpoint, error)
            response = (endpoint.voice or _problem)(error, request.url.path)
        if request.method == "HEAD" and isinstance(response, StreamingResponse):
            response = _unsent(response)
        response.headers.update(GUARDED)
        metrics.count(endpoint.name, response.status_code, monotonic() - begun)
        return response

    async def _answer(request: Request) -> Response:
        async with asyncio.timeout(endpoint.seconds):
            desk, principal = await door.admit(request, endpoint)
            query = _query(request, endpoint)
            body, size = await _body(request, endpoint, most_bytes)
            made = await _made(endpoint, Visit(request, desk, principal, query, body, size))
        if isinstance(made, StreamingResponse):
            made.body_iterator = door.escort(request, endpoint, made.body_iterator)
        return _response(made, endpoint)

    return answer


async def _made(endpoint: Endpoint, visit: Visit) -> Any:  # noqa: ANN401  what the endpoint declares
    """Have it done, in a thread where that may wait for something."""
    if endpoint.idempotent:
        idempotency_key(visit.request)  # refused even where nobody would look at it
    if inspect.iscoroutinefunction(endpoint.handle):
        return await endpoint.handle(visit)
    return await run_in_threadpool(lambda: _response(endpoint.handle(visit), endpoint))


def _unsent(response: StreamingResponse) -> Response:
    """Return the head of a response alone: nothing more is sent, so nothing is waited for."""
    head = Response(None, response.status_code)
    head.raw_headers = response.raw_headers
    return head


def _response(made: Any, endpoint: Endpoint) -> Response:  # noqa: ANN401  a form of any kind
    if isinstance(made, Response):
        return made
    headers = {**NEVER, **endpoint.headers}
    return Response(msgspec.json.encode(made), endpoint.status, headers, JSON)


def _query(request: Request, endpoint: Endpoint) -> Any:  # noqa: ANN401  what the endpoint declares
    if len(request.scope["query_string"]) > _MOST_QUERY:
        raise Refusal(Problem.BAD_REQUEST, f"a query of more than {_MOST_QUERY} bytes")
    given = request.query_params
    if endpoint.query is None:
        if given:
            raise Refusal(Problem.BAD_REQUEST, f"no parameter {next(iter(given))!r} is known here")
        return None
    if len(given.multi_items()) != len(given):
        raise Refusal(Problem.BAD_REQUEST, "a parameter is given twice")
    try:
        return msgspec.convert(dict(given), endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(Problem.BAD_REQUEST, f"in the query: {error}") from None


async def _body(request: Request, endpoint: Endpoint, most: int) -> tuple[Any, int]:
    """Return the body in its form, and how many bytes it has."""
    if endpoint.body is None:
        return None, 0
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refusal(Problem.WRONG_TYPE, f"send {JSON}, not {kind or 'a body without a type'}")
    data = await read_body(request, most)
    if len(data) <= QUICK_BYTES:
        return _decode(data, endpoint.body), len(data)
    return await prepare(partial(_decode, data, endpoint.body)), len(data)


def _decode(data: bytes, into: Any) -> Any:  # noqa: ANN401
    try:
        return msgspec.json.decode(data, type=into)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refusal(Problem.BAD_REQUEST, f"in the body: {error}") from None


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, as far as it comes in time and is not too much."""
    if int(request.headers.get("content-length") or 0) > most:
        raise Refusal(Problem.TOO_LARGE, f"at most {most} bytes", {"Connection": "close"})
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most:
                    refused = {"Connection": "close"}
                    raise Refusal(Problem.TOO_LARGE, f"at most {most} bytes", refused)
    except TimeoutError:
        why = f"the body did not come within {BODY_SECONDS:.0f} s"
        raise Refusal(Problem.BAD_REQUEST, why, {"Connection": "close"}) from None
    return bytes(data)


def _problem(error: Exception, path: str) -> Response:
    return respond(refusal_of(error), path)


def _tell(endpoint: Endpoint, error: Exception) -> None:
    """Write down what a client is not told."""
    if refusal_of(error).problem.status == Problem.BROKEN.status:
        LOG.error("%s failed: %s", endpoint.name, one_line(error))
