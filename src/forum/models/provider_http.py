"""One request to a provider, and the events of its answer, within bounds.

Each request has a connection of its own, which is closed with it.  That costs a millisecond, and
a model takes seconds to answer; in return no connection was closed by the other side just when we
wrote (which may or may not be billed), none belongs to another event loop, and none is left when a
call is cancelled.  Redirects are not followed: a key goes where it was meant to go.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, Protocol

import httpx2
import msgspec

from forum.errors import Malformed
from forum.models.urls import is_loopback

MAX_STREAM_BYTES: Final = 1 << 28
"""The most bytes of an answer, with all that is wrapped around its text."""

MAX_EVENT_BYTES: Final = 1 << 23
MAX_ERROR_BYTES: Final = 1 << 16
"""How much is kept of what a provider says of an error."""

MAX_RETRY_AFTER_MS: Final = 600_000
"""The longest pause that a provider can ask for, in milliseconds."""

CONNECT_TIMEOUT_S: Final = 10.0

_UNREADABLE: Final = (Malformed, msgspec.MsgspecError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.  Its headers hold a key, so that they are never shown."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class SseEvent(NamedTuple):
    """A server-sent event."""

    name: str
    data: bytes


class ReplyTooLarge(Exception):
    """An answer is larger than what is kept."""


class HttpEnd(Enum):
    """How an answer ended."""

    DONE = "done"
    """It said itself that it is complete."""
    EARLY = "early"
    OVERSIZE = "oversize"
    MALFORMED = "malformed"
    LATE = "late"
    REFUSED = "refused"
    """The status is not 200."""
    CONNECT = "connect"
    """Nobody was reached: nothing was sent."""
    TLS = "tls"


@dataclass(frozen=True, slots=True)
class HttpOutcome:
    """What came of a request, beside its events."""

    end: HttpEnd
    status: int = 0
    pause: int = 0
    """For how many milliseconds the provider wants to be left alone."""
    error: bytes = b""


class ResponseReader(Protocol):
    """Reads an answer as it comes in.  Both methods may raise `ReplyTooLarge`, `Malformed`."""

    def read_event(self, event: SseEvent) -> bool:
        """Take in an event, and tell whether it was the last one."""
        ...

    def read_body(self, body: bytes) -> bool:
        """Take in an answer that came in one piece, and tell whether it is a complete one."""
        ...


async def send_request(request: HttpRequest, seconds: float, taker: ResponseReader) -> HttpOutcome:
    """Send a request, and hand over its answer: event by event, or in one piece.

    When cancelled, the connection is closed.
    """
    try:
        client = _make_client(request.url, seconds)
    except (ImportError, OSError, ValueError):
        # Their text may quote the address of a proxy, with its password.
        return HttpOutcome(
            HttpEnd.CONNECT, error=b"the proxy or the certificates that are set up here fail"
        )
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            response = await stack.enter_async_context(
                client.stream("POST", request.url, headers=request.headers, content=request.body)
            )
            return await _read_response(response, taker)
    except TimeoutError:
        return HttpOutcome(HttpEnd.LATE)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        end = HttpEnd.TLS if _is_tls(error) else HttpEnd.CONNECT
        return HttpOutcome(
            end, error=_truncate_error(str(error) or "no connection came about in time")
        )
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        return HttpOutcome(
            HttpEnd.CONNECT, error=b"the url is not one of http or https; set it right"
        )
    except httpx2.HTTPError as error:
        # Its text may quote what was sent, and with it the key: only its kind is told.
        return HttpOutcome(HttpEnd.EARLY, error=type(error).__name__.encode())


async def _read_response(response: httpx2.Response, taker: ResponseReader) -> HttpOutcome:
    if response.status_code != 200:
        body = await _read_prefix(response.aiter_raw())
        return HttpOutcome(
            HttpEnd.REFUSED, response.status_code, parse_retry_after(response.headers), body
        )
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    # What is compressed could be a thousand times as long as what we count; we ask for none.
    plain = response.headers.get("content-encoding", "identity") == "identity"
    if not plain:
        return HttpOutcome(HttpEnd.MALFORMED, 200, error=await _read_prefix(response.aiter_raw()))
    chunks = response.aiter_raw()
    if kind != "text/event-stream":
        return await _read_whole(chunks, taker)
    first = await _read_to_text(chunks)
    # Some servers name the kind that was asked for, and send one JSON object all the same.  No
    # field of an event begins with a brace, so that the two cannot be confused.
    read = _read_whole if first.lstrip().startswith(b"{") else _read_stream
    return await read(_chain(first, chunks), taker)


async def _read_to_text(chunks: AsyncIterable[bytes]) -> bytes:
    """Return the beginning of an answer, up to the first piece that is not blank."""
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


async def _read_stream(chunks: AsyncIterable[bytes], taker: ResponseReader) -> HttpOutcome:
    events, size = SseParser(), 0
    try:
        async for chunk in chunks:
            size += len(chunk)
            if size > MAX_STREAM_BYTES:
                return HttpOutcome(HttpEnd.OVERSIZE, 200)
            if any(taker.read_event(event) for event in events.feed(chunk)):
                return HttpOutcome(HttpEnd.DONE, 200)
    except ReplyTooLarge:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    except _UNREADABLE as error:
        return HttpOutcome(HttpEnd.MALFORMED, 200, error=_truncate_error(str(error)))
    return HttpOutcome(HttpEnd.EARLY, 200)


async def _read_whole(chunks: AsyncIterable[bytes], taker: ResponseReader) -> HttpOutcome:
    """Read an answer that is not streamed: some servers ignore that a stream was asked for."""
    body = await _read_prefix(chunks, MAX_EVENT_BYTES + 1)
    if len(body) > MAX_EVENT_BYTES:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    try:
        if taker.read_body(body):
            return HttpOutcome(HttpEnd.DONE, 200)
    except ReplyTooLarge:
        return HttpOutcome(HttpEnd.OVERSIZE, 200)
    except _UNREADABLE:
        pass  # what the server said instead explains more than why it could not be read
    return HttpOutcome(HttpEnd.MALFORMED, 200, error=body[:MAX_ERROR_BYTES])


async def _read_prefix(chunks: AsyncIterable[bytes], most: int = MAX_ERROR_BYTES) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk[: most - len(body)]
        if len(body) == most:
            break
    return bytes(body)


class SseParser:
    """Server-sent events from bytes that come in any pieces.

    A line ends with LF or CR LF; a CR alone, which the standard also allows, is used by nobody.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        """Of everything since the last event."""
        self._name, self._data = "", list[bytes]()
        self._mark = b"\xef\xbb\xbf"
        """What may stand before the first line, and is no part of it."""

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Take in a piece, and yield the events that it completes."""
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            self._count(line)
            self._pieces.append(line)
            whole = b"".join(self._pieces).removesuffix(b"\r").removeprefix(self._mark)
            self._pieces.clear()
            self._mark = b""
            if whole:
                self._read_field(whole)
                continue
            if self._data:
                yield SseEvent(self._name, b"\n".join(self._data))
            self._name, self._data, self._size = "", [], 0
        if rest:
            self._count(rest)
            self._pieces.append(rest)

    def _count(self, piece: bytes) -> None:
        self._size += len(piece) + 1
        if self._size > MAX_EVENT_BYTES:
            raise ReplyTooLarge

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode(errors="replace")


def parse_retry_after(headers: Mapping[str, str]) -> int:
    """Return for how many milliseconds a provider wants to be left alone: RFC 9110, 10.2.3."""
    exact = _parse_decimal(headers.get("retry-after-ms", ""))
    told = headers.get("retry-after", "")
    seconds = _parse_decimal(told)
    if exact is not None:
        pause = exact
    elif seconds is not None:
        pause = 1000 * seconds
    else:
        pause = _milliseconds_until(told)
    return int(min(max(pause, 0), MAX_RETRY_AFTER_MS))


def _parse_decimal(told: str) -> float | None:
    """Read a count; what has more digits than any pause needs is none."""
    whole, _, part = told.strip().partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) < 12):
        return None
    return float(f"{whole}.{part}") if part.isascii() and part.isdigit() else float(whole)


def _milliseconds_until(told: str) -> float:
    try:
        then = parsedate_to_datetime(told)
    except (ValueError, TypeError, OverflowError):
        return 0
    now = datetime.now(UTC)  # noqa: TID251  # the provider's date is one of this world's calendar
    return 1000 * (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()


def _make_client(url: str, seconds: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=_system_ssl_context() if url.lower().startswith("https:") else _empty_ssl_context(),
        # A proxy of the environment is for others than this machine.
        trust_env=not is_loopback(url),
        timeout=httpx2.Timeout(None, connect=min(CONNECT_TIMEOUT_S, 0.9 * seconds)),
        headers={"Connection": "close", "Accept-Encoding": "identity"},
        follow_redirects=False,
    )


@cache
def _system_ssl_context() -> ssl.SSLContext:
    """Return what knows the certificates of this machine; reading them takes long."""
    return httpx2.create_ssl_context()


@cache
def _empty_ssl_context() -> ssl.SSLContext:
    """Return what trusts no certificate at all, for connections without any."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _truncate_error(told: str) -> bytes:
    return told.encode(errors="replace")[:MAX_ERROR_BYTES]
