"""Send one HTTP request to a provider and parse the events of its response, within fixed limits.

Each request opens its own connection and closes it afterwards.  A new connection costs about a
millisecond, while a model takes seconds to answer.  In return, the server can never close an idle
connection at the moment of our write (which leaves open whether the call is billed), no connection
belongs to another event loop, and none is left when a call is cancelled.  Redirects are not
followed, so that the API key goes only to the configured server.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from typing import Final, Protocol

import httpx2
import msgspec

from forum.errors import Malformed
from forum.models.urls import is_loopback
from forum.runs import server_sent_events

MAX_STREAM_BYTES: Final = 1 << 28
"""Maximum size of a response in bytes, including the framing around its text."""

MAX_ERROR_BYTES: Final = 1 << 16
"""Maximum size of an error message that is kept."""

MAX_RETRY_AFTER_MS: Final = 600_000
"""Upper limit for a provider's Retry-After, in milliseconds."""

CONNECT_TIMEOUT_S: Final = 10.0

_UNREADABLE: Final = (Malformed, msgspec.MsgspecError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.  Its headers hold the API key and are therefore excluded from the repr."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class HttpEnd(Enum):
    """How a response ended."""

    DONE = "done"
    """The response was explicitly marked as complete."""
    EARLY = "early"
    OVERSIZE = "oversize"
    MALFORMED = "malformed"
    LATE = "late"
    REFUSED = "refused"
    """The status was not 200."""
    CONNECT = "connect"
    """No connection was established, so nothing was sent."""
    TLS = "tls"


@dataclass(frozen=True, slots=True)
class HttpOutcome:
    """The result of a request, apart from its events."""

    end: HttpEnd
    status: int = 0
    pause: int = 0
    """Requested delay before the next request, in milliseconds (Retry-After)."""
    error: bytes = b""


class ResponseReader(Protocol):
    """Parser of a response as it arrives.  Its methods may raise `ReplyTooLarge` or `Malformed`."""

    def read_event(self, event: server_sent_events.SseEvent) -> bool:
        """Process an event; return whether it was the last one."""

    def read_body(self, body: bytes) -> bool:
        """Process a response that was not streamed; return whether it is complete."""


async def send_request(request: HttpRequest, seconds: float, reader: ResponseReader) -> HttpOutcome:
    """Send a request and pass its response to the reader: event by event, or as one body.

    Close the connection on cancellation.  Report failures in the outcome instead of raising them.
    """
    try:
        client = _make_client(request.url, seconds)
    except (ImportError, OSError, ValueError):
        # The text of these errors may quote the URL of a proxy, including its password.
        return HttpOutcome(
            HttpEnd.CONNECT, error=b"the configured proxy or certificates cannot be used"
        )
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            response = await stack.enter_async_context(
                client.stream("POST", request.url, headers=request.headers, content=request.body)
            )
            return await _read_response(response, reader)
    except TimeoutError:
        return HttpOutcome(HttpEnd.LATE)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        end = HttpEnd.TLS if is_tls_error(error) else HttpEnd.CONNECT
        return HttpOutcome(
            end, error=_truncate_error(str(error) or "no connection was established in time")
        )
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        return HttpOutcome(
            HttpEnd.CONNECT, error=b"the url is not a valid http or https address; correct it"
        )
    except httpx2.HTTPError as error:
        # The error text may quote the request and with it the key, so only the error type is kept.
        return HttpOutcome(HttpEnd.EARLY, error=type(error).__name__.encode())


async def _read_response(response: httpx2.Response, reader: ResponseReader) -> HttpOutcome:
    if response.status_code != 200:
        body = await _read_prefix(response.aiter_raw())
        return HttpOutcome(
            HttpEnd.REFUSED, response.status_code, parse_retry_after(response.headers), body
        )
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A compressed body could expand to a thousand times the size that we count.  The request
    # accepts only `identity`, so a compressed response is a protocol error.
    plain = response.headers.get("content-encoding", "identity") == "identity"
    if not plain:
        return HttpOutcome(HttpEnd.MALFORMED, 200, error=await _read_prefix(response.aiter_raw()))
    chunks = response.aiter_raw()
    if kind != "text/event-stream":
        return await _read_whole(chunks, reader)
    first = await _read_to_text(chunks)
    # Some servers declare an event stream and send a single JSON object nevertheless.  No field
    # name of a server-sent event starts with a brace, so the two cannot be confused.
    read = _read_whole if first.lstrip().startswith(b"{") else _read_stream
    return await read(_chain(first, chunks), reader)


async def _read_to_text(chunks: AsyncIterable[bytes]) -> bytes:
    """Return the beginning of a response, up to the first chunk that is not blank."""
    first = bytearray()
    async for chunk in chunks:
        first += chunk
        if not chunk.isspace() or len(first) > MAX_ERROR_BYTES:
            break
    return bytes(first)


async def _chain(first: bytes, rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _read_stream(chunks: AsyncIterable[bytes], reader: ResponseReader) -> HttpOutcome:
    events, size = server_sent_events.SseParser(), 0
    try:
        async for chunk in chunks:
            size += len(chunk)
            if size > MAX_STREAM_BYTES:
                return HttpOutcome(HttpEnd.OVERSIZE, 200)
            if any(reader.read_event(event) for event in events.feed(chunk)):
                return HttpOutcome(HttpEnd.DONE, 200)
    except server_sent_events.ReplyTooLarge:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    except _UNREADABLE as error:
        return HttpOutcome(HttpEnd.MALFORMED, 200, error=_truncate_error(str(error)))
    return HttpOutcome(HttpEnd.EARLY, 200)


async def _read_whole(chunks: AsyncIterable[bytes], reader: ResponseReader) -> HttpOutcome:
    """Read a response that is not streamed: some servers ignore the request for a stream."""
    body = await _read_prefix(chunks, server_sent_events.MAX_EVENT_BYTES + 1)
    if len(body) > server_sent_events.MAX_EVENT_BYTES:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    try:
        if reader.read_body(body):
            return HttpOutcome(HttpEnd.DONE, 200)
    except server_sent_events.ReplyTooLarge:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    except _UNREADABLE:
        pass  # the body itself explains more than the parse error
    return HttpOutcome(HttpEnd.MALFORMED, 200, error=body[:MAX_ERROR_BYTES])


async def _read_prefix(chunks: AsyncIterable[bytes], most: int = MAX_ERROR_BYTES) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk[: most - len(body)]
        if len(body) == most:
            break
    return bytes(body)


def parse_retry_after(headers: Mapping[str, str]) -> int:
    """Return the requested delay in milliseconds (Retry-After, RFC 9110, section 10.2.3)."""
    exact = _parse_decimal(headers.get("retry-after-ms", ""))
    value = headers.get("retry-after", "")
    seconds = _parse_decimal(value)
    if exact is not None:
        pause = exact
    elif seconds is not None:
        pause = 1000 * seconds
    else:
        pause = _milliseconds_until(value)
    return int(min(max(pause, 0), MAX_RETRY_AFTER_MS))


def _parse_decimal(text: str) -> float | None:
    """Parse a non-negative decimal; return None for anything else and for 12 or more digits."""
    whole, _, part = text.strip().partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) < 12):
        return None
    return float(f"{whole}.{part}") if part.isascii() and part.isdigit() else float(whole)


def _milliseconds_until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return 0
    now = datetime.now(UTC)  # noqa: TID251  # compared with a date of the provider
    return 1000 * (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()


def _make_client(url: str, seconds: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=system_ssl_context() if url.lower().startswith("https:") else _empty_ssl_context(),
        # A proxy from the environment is meant for other hosts, not for this machine.
        trust_env=not is_loopback(url),
        # Ends before the whole call does: a connect timeout proves that nothing was sent, so the
        # call costs nothing.  After a timeout of the call, the provider may bill it.
        timeout=httpx2.Timeout(None, connect=min(CONNECT_TIMEOUT_S, 0.9 * seconds)),
        headers={"Connection": "close", "Accept-Encoding": "identity"},
        follow_redirects=False,
    )


@cache
def system_ssl_context() -> ssl.SSLContext:
    """Return a context with the system's CA certificates, cached because loading them is slow."""
    return httpx2.create_ssl_context()


@cache
def _empty_ssl_context() -> ssl.SSLContext:
    """Return a context without any CA certificate, for plain HTTP connections."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_tls_error(error: BaseException) -> bool:
    """Return whether an error was caused by a failed TLS handshake."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _truncate_error(message: str) -> bytes:
    return message.encode(errors="replace")[:MAX_ERROR_BYTES]
