"""The steps of every request, in this order: host, key, rate, query, body, handler, response."""

import asyncio
import gzip
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from forum.limits.json_values import MAX_LARGE_BODY_VALUES, check_json
from forum.limits.off_loop import MAX_INLINE_BYTES, MAX_THREAD_BYTES, read_by_size
from forum.limits.shares import FairSlots, Requester
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.field_errors import describe_field_error
from forum.surfaces.http import endpoints, problems
from forum.surfaces.http.admission import held_shares, read_body
from forum.surfaces.http.auth import Authenticator
from forum.surfaces.http.metrics import HttpMetrics
from forum.surfaces.logs import LOG, format_error_line
from forum.tracing import Span, SpanAttribute, SpanName, begin_span
from forum.untrusted_text import escape_json

_MAX_QUERY_BYTES = 2_048
"""Maximum length of a query string: parsing 60,000 bytes would block the event loop for 40 ms."""
_HANDLER_THREADS = 30
"""Threads for handlers, fewer than the library has: requests need some for other things as well."""
_PROBE_THREADS = 2

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Recorded content is untrusted: no browser may interpret it as a page."""
_RAW_SECURITY_HEADERS = [
    (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]
_SECURITY_HEADER_NAMES = frozenset(name for name, _ in _RAW_SECURITY_HEADERS)

_JSON_TYPES = frozenset({endpoints.JSON, problems.MEDIA_TYPE})
_MIN_COMPRESSED_BYTES = 1024
_GZIP_LEVEL = 5

RequestHandler = Callable[[Request], Awaitable[Response]]
"""The callable behind a route."""

_handler_slots = FairSlots(_HANDLER_THREADS)
_probe_threads = anyio.CapacityLimiter(_PROBE_THREADS)


def make_request_handler(
    endpoint: endpoints.Endpoint,
    authenticator: Authenticator,
    metrics: HttpMetrics,
    most_bytes: int,
) -> RequestHandler:
    """Return the handler for the requests of one operation."""
    is_coroutine = inspect.iscoroutinefunction(endpoint.handle)
    # Spans that this server receives would otherwise make spans of their own.
    is_traced = endpoint.tag != "telemetry"

    def record(start: float, status: int) -> None:
        metrics.record_request(endpoint.name, status, monotonic() - start)

    async def answer(request: Request) -> Response:
        start = monotonic()
        with begin_span(SpanName.REQUEST, endpoint.name) if is_traced else Span() as span:
            try:
                async with asyncio.timeout(endpoint.seconds):
                    tenant, principal = await authenticator.authorize(request, endpoint)
                    if not endpoint.is_probe:
                        requester = Requester(tenant.forum.access.tenant, principal.name)
                        held_shares(request).admit(requester)
                    query = _parse_query(request, endpoint)
                    raw, body = await _read_body(request, endpoint, most_bytes)
                    if endpoint.idempotent:  # validated even if the handler does not use it
                        endpoints.read_idempotency_key(request)
                    context = endpoints.RequestContext(
                        request=request,
                        tenant=tenant,
                        principal=principal,
                        query=query,
                        body=body,
                        raw=raw,
                    )
                    handling = endpoint.handle if is_coroutine else partial(_use_thread, endpoint)
                    result = await handling(context)
                if isinstance(result, StreamingResponse):
                    # The handler's timeout ends here, but a stream may last for
                    # days: authorization is checked again while it is sent.
                    stream = result.body_iterator
                    result.body_iterator = authenticator.reauthorize_stream(
                        request, endpoint, stream
                    )
                response = _to_response(result, endpoint)
            except ClientDisconnect:
                response = Response(status_code=499)  # no client receives it; counted in metrics
            except Exception as error:  # noqa: BLE001  told to the client, and to the operator
                _log_error(endpoint, error)
                response = (endpoint.voice or _problem_from_error)(error, request.url.path)
            response = await _finish(request, response)
            _count_status(response, partial(record, start), span)
            return response

    return answer


def _count_status(response: Response, record: Callable[[int], None], span: Span) -> None:
    """Count a response now, or at its end if its status is not known before."""
    if isinstance(response, endpoints.LateResponse):
        response.report_status = record
        return
    record(response.status_code)
    span.set(SpanAttribute.STATUS, response.status_code)


async def _use_thread(endpoint: endpoints.Endpoint, context: endpoints.RequestContext) -> Response:
    """Call a handler that is no coroutine in a thread, because it may block."""
    answer = partial(_handle_in_thread, endpoint, context)
    if endpoint.is_probe:
        return await to_thread.run_sync(answer, limiter=_probe_threads)
    async with _handler_slots.hold():
        return await to_thread.run_sync(answer)


def _handle_in_thread(endpoint: endpoints.Endpoint, context: endpoints.RequestContext) -> Response:
    return _to_response(endpoint.handle(context), endpoint)


async def _finish(request: Request, response: Response) -> Response:
    """Return a response as it is sent."""
    if request.method == "HEAD" and isinstance(response, StreamingResponse):
        response = _head_only(response)
    await _escape_json(response)
    response = await _compress(request, response)
    _add_security_headers(response)
    return response


def _add_security_headers(response: Response) -> None:
    """Set the security headers, in place of any that the handler has set."""
    # Once for each request: `headers.update` searches all headers for each name.
    others = [item for item in response.raw_headers if item[0] not in _SECURITY_HEADER_NAMES]
    response.raw_headers[:] = others + _RAW_SECURITY_HEADERS


def _head_only(response: StreamingResponse) -> Response:
    """Return a response without its body, so that a HEAD request waits for no content."""
    head = Response(None, response.status_code)
    head.raw_headers = response.raw_headers
    return head


def accepts_gzip(request: Request) -> bool:
    """Tell whether a client accepts gzip as much as anything else."""
    codings = request.headers.get("accept-encoding", "").lower().split(",")
    return any(coding.replace(" ", "") in ("gzip", "gzip;q=1") for coding in codings)


async def _escape_json(response: Response) -> None:
    """Escape characters in a JSON reply that could change what a terminal shows.

    Its value stays.  A reply with an entity tag stands for one sequence of bytes: an entry as it is
    hashed.
    """
    body = bytes(getattr(response, "body", b""))
    if response.media_type not in _JSON_TYPES or "etag" in response.headers:
        return
    if body.isascii() and b"\x7f" not in body:
        return
    response.body = await run_cpu_bounded(partial(escape_json, body))
    response.headers["Content-Length"] = str(len(response.body))


async def _compress(request: Request, response: Response) -> Response:
    """Return a JSON reply compressed, if it is worth it and the client accepts gzip.

    Streams, tiles and bundles are sent as they are. A reply with an entity tag stands for one
    sequence of bytes. No reply holds a secret of somebody else than its reader, so its length
    tells an attacker who chose a part of it nothing (BREACH).
    """
    if (
        len(getattr(response, "body", b"")) < _MIN_COMPRESSED_BYTES
        or response.media_type != endpoints.JSON
        or "etag" in response.headers
    ):
        return response
    response.headers["Vary"] = "Accept-Encoding"
    if not accepts_gzip(request):
        return response
    data = await run_cpu_bounded(partial(gzip.compress, bytes(response.body), _GZIP_LEVEL, mtime=0))
    compressed = Response(data, response.status_code, response.headers, endpoints.JSON)
    compressed.headers["Content-Length"] = str(len(data))
    compressed.headers["Content-Encoding"] = "gzip"
    return compressed


def _to_response(result: Any, endpoint: endpoints.Endpoint) -> Response:  # noqa: ANN401  a form of any kind
    if isinstance(result, Response):
        return result
    headers = {**endpoints.NO_STORE, **endpoint.headers}
    return Response(msgspec.json.encode(result), endpoint.status, headers, endpoints.JSON)


def _parse_query(request: Request, endpoint: endpoints.Endpoint) -> Any:  # noqa: ANN401  what the endpoint declares
    length = len(request.scope["query_string"])
    if length > _MAX_QUERY_BYTES:
        raise _bad_request(f"a query of more than {_MAX_QUERY_BYTES} bytes")
    if not length and endpoint.query is None:
        return None
    params = request.query_params
    if any(has_controls(value) for value in params.values()):
        # No name and no id has one, and Postgres refuses a NUL.
        raise _bad_request("a parameter has a control character")
    if endpoint.query is None:
        if params:
            raise _bad_request(f"no parameter {next(iter(params))!r} is known here")
        return None
    if len(params.multi_items()) != len(params):
        raise _bad_request("a parameter is given twice")
    try:
        return msgspec.convert(dict(params), endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        text = describe_field_error(error, endpoint.query)
        raise _bad_request(f"in the query: {text}") from None


async def _read_body(
    request: Request, endpoint: endpoints.Endpoint, most_bytes: int
) -> tuple[bytes, Any]:
    """Return the body of a request, as it is and decoded, as far as the operation has one."""
    if endpoint.max_bytes:
        return await read_body(request, endpoint.max_bytes), None
    if endpoint.body is None:
        return b"", None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != endpoints.JSON:
        raise problems.ProblemError(
            problems.ProblemType.WRONG_TYPE,
            f"send {endpoints.JSON}, not {kind or 'a body without a type'}",
        )
    data = await read_body(request, most_bytes)
    return data, await _parse_body(data, endpoint.body)


async def _parse_body(data: bytes, into: type[msgspec.Struct]) -> Any:  # noqa: ANN401  what the endpoint declares
    if len(data) <= MAX_INLINE_BYTES:
        return _decode(data, into)
    if len(data) > MAX_THREAD_BYTES:
        why = await read_by_size(check_json, data, MAX_LARGE_BODY_VALUES)
        if why:
            raise _bad_request(f"in the body: {why}")
    return await run_cpu_bounded(partial(_decode, data, into))


def _decode(data: bytes, into: Any) -> Any:  # noqa: ANN401
    try:
        return msgspec.json.decode(data, type=into)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _bad_request(f"in the body: {describe_field_error(error, into)}") from None


def has_controls(text: str) -> bool:
    """Return whether a text has a control character."""
    return any(character < " " or character == "\x7f" for character in text)


def _bad_request(why: str) -> problems.ProblemError:
    return problems.ProblemError(problems.ProblemType.BAD_REQUEST, why)


def _problem_from_error(error: Exception, path: str) -> Response:
    return problems.problem_response(problems.problem_from_exception(error), path)


def _log_error(endpoint: endpoints.Endpoint, error: Exception) -> None:
    """Log an internal error, whose details the client does not see."""
    if problems.problem_from_exception(error).problem.status == problems.ProblemType.BROKEN.status:
        LOG.error("%s failed: %s", endpoint.name, format_error_line(error))
