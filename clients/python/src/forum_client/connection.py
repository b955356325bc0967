"""Connections to a server: send requests, retry them, follow runs; with threads and with asyncio.

Both classes do the same with the same rules (`api_request`), and only wait differently.  The key is
sent in a header and stands in no error, no log and no `repr`.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import msgspec

from .api_request import REPLY_SLACK_S, ApiRequest, retry_delay
from .errors import ForumError, Malformed
from .problems import (
    ReplyUnreadable,
    RequestTimeout,
    ServerUnreachable,
    problem_from_reply,
)
from .run_events import EventParser, RunEvent

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
SILENCE_TIMEOUT_S = 60.0
"""How long a followed run may be silent.  The server sends a comment every 15 seconds."""


class BodyContent(msgspec.Struct, frozen=True, kw_only=True):
    """A body of an entry, with what it takes to check it against its commitment."""

    data: bytes
    media_type: str
    salt: str
    """The salt of the commitment, in hexadecimal digits."""


class BearerKey(httpx2.Auth):
    """Sends the key with each request, and shows it nowhere."""

    def __init__(self, key: str) -> None:
        key = key.strip()  # as it is read from a file
        # Checked here, because the HTTP library quotes a value that cannot be a header.
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise Malformed("key", "a key is visible ASCII; it is not quoted here")
        self._header = f"Bearer {key}"

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the header."""
        request.headers["Authorization"] = self._header
        yield request


def new_idempotency_key() -> str:
    """Return a new name for a request, so that asking again is harmless."""
    # 128 random bits: a collision would answer a request with the run of another one.
    return secrets.token_hex(16)


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Decoders by their forms: it takes time to make one, and a program uses few."""


def _decoder(form: type[T]) -> msgspec.json.Decoder[T]:
    if form not in _decoders:
        _decoders[form] = msgspec.json.Decoder(form)
    return _decoders[form]


class _ConnectionBase:
    """What both connections have in common: nothing here waits."""

    def __init__(self, url: str, timeout: float | None) -> None:
        # A password in the URL would stand in every error, since errors name the address.
        parts = httpx2.URL(url)
        if parts.scheme not in ("http", "https") or not parts.host or parts.userinfo:
            raise Malformed("url", "write http://HOST:PORT or https://HOST, without a password")
        self.address = str(parts.copy_with(query=None, fragment=None)).rstrip("/")
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def _arguments(self, request: ApiRequest) -> dict[str, Any]:
        """Return the arguments for the HTTP library."""
        # Each attempt has the whole time: the sum is bounded by the number of attempts.
        # Without a timeout of the user's, a reply may take as long as the server allows itself.
        seconds = request.seconds + REPLY_SLACK_S if self._timeout is None else self._timeout
        return {
            "method": request.method,
            "url": self.address + request.path,
            "params": request.parameters,
            "headers": request.headers,
            "content": request.content,
            "timeout": httpx2.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_S)),
        }

    def _stream_arguments(self, request: ApiRequest, after: int) -> dict[str, Any]:
        arguments = self._arguments(request)
        # A parameter and not the header Last-Event-ID: -1, the whole run, is no id of an event.
        arguments["params"] = {"after": after}
        arguments["timeout"] = httpx2.Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        return arguments

    def _failure(self, error: httpx2.HTTPError) -> ServerUnreachable:
        """Return the error for a connection that failed.

        It is raised outside of the `except` block: its context would hold the request, and with it
        the key.
        """
        kind = RequestTimeout if isinstance(error, httpx2.TimeoutException) else ServerUnreachable
        return kind(self.address, str(error) or type(error).__name__)

    def _problem(self, reply: httpx2.Response) -> ForumError | None:
        """Return the error that a reply tells of, if any; its content has been read."""
        if reply.status_code >= 400:
            retry_after = reply.headers.get("retry-after")
            return problem_from_reply(reply.status_code, reply.content, retry_after)
        if not reply.is_success:
            # A redirection is not followed: the key is for this server only.
            return ReplyUnreadable(self.address, f"the status {reply.status_code}")
        return None

    def _decode(self, reply: httpx2.Response, form: type[T]) -> T:
        # A member that the form does not have is skipped: newer servers add some.
        try:
            return _decoder(form).decode(reply.content)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ReplyUnreadable(self.address, str(error)) from None

    def _note_refusal(self, reply: httpx2.Response, state: "_FollowState") -> None:
        """Note why a server sends no stream; 204 means that the client has all of the run."""
        state.is_over = reply.status_code == 204
        state.failure = self._problem(reply)

    def _lost(self, state: "_FollowState") -> ForumError:
        return state.failure or ServerUnreachable(self.address, "the server closed the stream")

    @staticmethod
    def _body_content(reply: httpx2.Response) -> BodyContent:
        return BodyContent(
            data=reply.content,
            media_type=reply.headers.get("content-type", ""),
            salt=reply.headers.get("forum-salt", ""),
        )


class _FollowState:
    """How far a run or the log was followed, over all connections."""

    def __init__(self, after: int, *, ends: bool) -> None:
        self.after = after
        self._ends = ends
        self.is_over = False
        self.failure: ForumError | None = None
        """Why the last connection ended, if not because the server closed it."""
        self._attempt = 0

    def accept(self, event: RunEvent) -> bool:
        """Return whether an event is new, and count it."""
        # The server starts after this index; a proxy that repeats a reply must not double events.
        if event.index <= self.after:
            return False
        # A connection that brought an event was not in vain: only the others are counted.
        self.after, self._attempt = event.index, 0
        self.is_over = self._ends and event.is_last
        return True

    def next_attempt(self) -> int:
        """Return the number of connections in a row that brought nothing."""
        self._attempt += 1
        return self._attempt - 1


class Connection(_ConnectionBase):
    """A connection whose calls block.  Threads may share it."""

    def __init__(self, url: str, key: str, timeout: float | None = None) -> None:
        super().__init__(url, timeout)
        self._http = httpx2.Client(auth=BearerKey(key))

    def close(self) -> None:
        """Close all sockets."""
        self._http.close()

    def call(self, request: ApiRequest, form: type[T]) -> T:
        """Return the reply in its form.  Raises `ServerProblem`, `ServerUnreachable`, ..."""
        return self._decode(self._send(request), form)

    def call_text(self, request: ApiRequest) -> str:
        """Return the reply as text."""
        return self._send(request).text

    def call_bytes(self, request: ApiRequest) -> bytes:
        """Return the reply as it is."""
        return self._send(request).content

    def call_body(self, request: ApiRequest) -> BodyContent:
        """Return the reply with its type and its salt."""
        return self._body_content(self._send(request))

    def follow(self, request: ApiRequest, after: int, *, ends: bool) -> Iterator[RunEvent]:
        """Yield the events after an index: of a run until it `ends`, or of the log for ever."""
        state = _FollowState(after, ends=ends)
        while not state.is_over:
            yield from self._stream(request, state)
            # A server that stops closes its streams: an end without the last event is a loss too.
            if not state.is_over:
                self._wait(request, self._lost(state), state.next_attempt())

    def _stream(self, request: ApiRequest, state: _FollowState) -> Iterator[RunEvent]:
        """Yield the events that one connection brings, and note why it ended."""
        state.failure = None
        try:
            with self._http.stream(**self._stream_arguments(request, state.after)) as reply:
                if reply.status_code != 200:
                    reply.read()
                    self._note_refusal(reply, state)
                    return
                parser = EventParser(self.address)
                for piece in reply.iter_bytes():
                    for event in filter(state.accept, parser.feed(piece)):
                        yield event
                        if state.is_over:
                            return
        except httpx2.HTTPError as error:
            state.failure = self._failure(error)

    def _send(self, request: ApiRequest) -> httpx2.Response:
        attempt = 0
        while isinstance(reply := self._try(request), ForumError):
            self._wait(request, reply, attempt)
            attempt += 1
        return reply

    def _try(self, request: ApiRequest) -> httpx2.Response | ForumError:
        """Send a request once, and return its reply, or the reason why there is none."""
        try:
            reply = self._http.request(**self._arguments(request))
        except httpx2.HTTPError as error:
            return self._failure(error)
        return self._problem(reply) or reply

    @staticmethod
    def _wait(request: ApiRequest, failure: ForumError, attempt: int) -> None:
        """Wait before the next attempt.  Raises the failure if there is to be none."""
        delay = retry_delay(request, failure, attempt)
        if delay is None:
            raise failure
        time.sleep(delay)


class AsyncConnection(_ConnectionBase):
    """A connection whose calls are awaited."""

    def __init__(self, url: str, key: str, timeout: float | None = None) -> None:
        super().__init__(url, timeout)
        self._http = httpx2.AsyncClient(auth=BearerKey(key))

    async def close(self) -> None:
        """Close all sockets."""
        await self._http.aclose()

    async def call(self, request: ApiRequest, form: type[T]) -> T:
        """Return the reply in its form.  Raises `ServerProblem`, `ServerUnreachable`, ..."""
        return self._decode(await self._send(request), form)

    async def call_text(self, request: ApiRequest) -> str:
        """Return the reply as text."""
        return (await self._send(request)).text

    async def call_bytes(self, request: ApiRequest) -> bytes:
        """Return the reply as it is."""
        return (await self._send(request)).content

    async def call_body(self, request: ApiRequest) -> BodyContent:
        """Return the reply with its type and its salt."""
        return self._body_content(await self._send(request))

    async def follow(
        self, request: ApiRequest, after: int, *, ends: bool
    ) -> AsyncGenerator[RunEvent]:
        """Yield the events after an index: of a run until it `ends`, or of the log for ever."""
        state = _FollowState(after, ends=ends)
        while not state.is_over:
            # Closed with this generator: otherwise its socket would stay open until a collection.
            async with aclosing(self._stream(request, state)) as events:
                async for event in events:
                    yield event
            if not state.is_over:
                await self._wait(request, self._lost(state), state.next_attempt())

    async def _stream(self, request: ApiRequest, state: _FollowState) -> AsyncGenerator[RunEvent]:
        """Yield the events that one connection brings, and note why it ended."""
        state.failure = None
        try:
            async with self._http.stream(**self._stream_arguments(request, state.after)) as reply:
                if reply.status_code != 200:
                    await reply.aread()
                    self._note_refusal(reply, state)
                    return
                parser = EventParser(self.address)
                async for piece in reply.aiter_bytes():
                    for event in filter(state.accept, parser.feed(piece)):
                        yield event
                        if state.is_over:
                            return
        except httpx2.HTTPError as error:
            state.failure = self._failure(error)

    async def _send(self, request: ApiRequest) -> httpx2.Response:
        attempt = 0
        while isinstance(reply := await self._try(request), ForumError):
            await self._wait(request, reply, attempt)
            attempt += 1
        return reply

    async def _try(self, request: ApiRequest) -> httpx2.Response | ForumError:
        """Send a request once, and return its reply, or the reason why there is none."""
        try:
            reply = await self._http.request(**self._arguments(request))
        except httpx2.HTTPError as error:
            return self._failure(error)
        return self._problem(reply) or reply

    @staticmethod
    async def _wait(request: ApiRequest, failure: ForumError, attempt: int) -> None:
        """Wait before the next attempt.  Raises the failure if there is to be none."""
        delay = retry_delay(request, failure, attempt)
        if delay is None:
            raise failure
        await asyncio.sleep(delay)
