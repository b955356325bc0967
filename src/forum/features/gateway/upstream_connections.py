"""Connections to one provider: HTTP/1.1 over sockets that are kept for the next call.

The usual transport asks the system about each idle connection before each call whether the other
side has closed it, and again after the call; with some calls at the same time, that and its layers
cost more than all the rest of a call.  Here a connection that is closed while idle is told so by
the event loop, and is gone; only the one that is to be used is looked at.  Nothing is tried twice:
a call whose connection breaks has failed.
"""

import asyncio
import select
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import h11
import httpx2

IDLE_SECONDS: Final = 4.0
"""How long a connection is kept without a call: most servers close theirs after five or more."""
_MAX_HEAD_BYTES: Final = 100 << 10
_MAX_UNREAD_BYTES: Final = 256 << 10
"""How much of a reply may wait here before the provider has to wait."""
_HAPPY_EYEBALLS_S: Final = 0.25
_SWITCHING_PROTOCOLS: Final = 101


class ProviderTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections that are kept; has at most a number of them."""

    def __init__(self, context: ssl.SSLContext, connections: int) -> None:
        # As with the usual transport: no provider may choose HTTP/2.
        context.set_alpn_protocols(["http/1.1"])
        self._context = context
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[_Connection] = []
        """Those of one origin: a transport is made for one provider.  The last was used last."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request once, and return the reply as soon as its head is there."""
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        body = await request.aread()
        await self._slots.acquire()
        connection = None
        try:
            connection = self._take_idle() or await self._connect(request.url, timeouts)
            connection.read_seconds = timeouts.get("read")
            connection.send(request, body)
            reply = await connection.receive_head()
        except BaseException:
            if connection is not None:
                connection.close()
            self._slots.release()
            raise
        return httpx2.Response(
            reply.status_code,
            headers=reply.headers.raw_items(),
            stream=_ReplyStream(self, connection),
            extensions={"http_version": b"HTTP/" + reply.http_version},
        )

    async def aclose(self) -> None:
        """Close the connections that are idle; those of calls under way end with them."""
        while self._idle:
            self._idle.pop().close()

    def give_back(self, connection: "_Connection") -> None:
        """Keep a connection for the next call, or close it if its reply was not read whole."""
        self._slots.release()
        if connection.begin_next():
            self._idle.append(connection)
            loop = asyncio.get_running_loop()
            connection.expiry = loop.call_later(IDLE_SECONDS, self.forget, connection)
        else:
            connection.close()

    def forget(self, connection: "_Connection") -> None:
        """Close a connection that is not to be used again."""
        connection.close()
        if connection in self._idle:
            self._idle.remove(connection)

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                connection.stop_waiting()
                return connection
            connection.close()
        return None

    async def _connect(self, url: httpx2.URL, timeouts: dict[str, float | None]) -> "_Connection":
        is_tls = url.scheme == "https"
        try:
            async with asyncio.timeout(timeouts.get("connect")):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self),
                    url.host,
                    url.port or (443 if is_tls else 80),
                    ssl=self._context if is_tls else None,
                    happy_eyeballs_delay=_HAPPY_EYEBALLS_S,
                )
        except TimeoutError:
            raise httpx2.ConnectTimeout("the provider did not accept a connection") from None
        except OSError as error:  # also that of TLS, and of a name without an address
            raise httpx2.ConnectError(str(error)) from error
        return connection


class _ReplyStream(httpx2.AsyncByteStream):
    """The body of a reply; its connection is given back when it is closed."""

    def __init__(self, transport: ProviderTransport, connection: "_Connection") -> None:
        self._transport = transport
        self._connection: _Connection | None = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        connection = self._connection
        while connection is not None and (data := await connection.receive_data()):
            yield data

    async def aclose(self) -> None:
        """Give the connection back, once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.give_back(connection)


class _Connection(asyncio.Protocol):
    """One connection, and the state of its present call."""

    def __init__(self, transport: ProviderTransport) -> None:
        self._owner = transport
        self._socket: asyncio.Transport | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._has_ended = False
        """Whether nothing more comes from the other side."""
        self._error: Exception | None = None
        self.expiry: asyncio.TimerHandle | None = None
        """When it is closed unless it is used; None while it is."""
        self.read_seconds: float | None = None

    # What the event loop calls

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  as asyncio has it
        """Begin."""
        self._socket = transport

    def data_received(self, data: bytes) -> None:
        """Keep data for the reader; nothing may come while there is no call."""
        if self.expiry is not None:
            self._owner.forget(self)
            return
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > _MAX_UNREAD_BYTES and not self._is_paused and self._socket:
            self._socket.pause_reading()
            self._is_paused = True
        self._wake()

    def eof_received(self) -> bool:
        """Close as soon as the other side does."""
        self._has_ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the reader know."""
        self._has_ended, self._error = True, exc
        if self.expiry is not None:
            self._owner.forget(self)
        self._wake()

    # What the transport calls

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent."""
        return not self._has_ended and self._socket is not None and not self._socket.is_closing()

    @property
    def is_fresh(self) -> bool:
        """Whether an idle connection can be used, also if the event loop is behind.

        Its timer may be due, and its end may have come, without the loop having said so yet.
        """
        if self.expiry is None or self._socket is None or not self.is_open:
            return False
        is_due = self.expiry.when() <= asyncio.get_running_loop().time()
        poll = select.poll()
        poll.register(self._socket.get_extra_info("socket").fileno(), select.POLLIN)
        return not is_due and not poll.poll(0)

    def send(self, request: httpx2.Request, body: bytes) -> None:
        """Send a request, and wait for nothing: the other side may answer before it has read all.

        It may then read no more, so what waits for it is the reader, whose time is limited.
        """
        try:
            head = h11.Request(
                method=request.method, target=request.url.raw_path, headers=request.headers.raw
            )
            parts = [self._http.send(head)]
            if body:
                parts.append(self._http.send(h11.Data(data=body)))
            parts.append(self._http.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as error:
            raise httpx2.LocalProtocolError(str(error)) from error
        assert self._socket is not None  # noqa: S101  it is connected
        self._socket.write(b"".join(part for part in parts if part))

    async def receive_head(self) -> h11.Response:
        """Return the head of the reply."""
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event
            if (
                not isinstance(event, h11.InformationalResponse)
                or event.status_code == _SWITCHING_PROTOCOLS
            ):
                raise httpx2.RemoteProtocolError("the provider sent something else than a reply")

    async def receive_data(self) -> bytes:
        """Return the next part of the body; nothing after the last one."""
        while True:
            event = await self._next_event()
            if not isinstance(event, h11.Data):
                return b""
            if event.data:
                return bytes(event.data)

    def begin_next(self) -> bool:
        """Return whether the connection can be used for another call, and make it ready."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        # What came behind the reply belongs to no call, and what is unsent to an earlier one.
        if not self.is_open or self._unread or self._http.trailing_data[0]:
            return False
        if self._socket is None or self._socket.get_write_buffer_size():
            return False
        self._http.start_next_cycle()
        return True

    def stop_waiting(self) -> None:
        """Be in use: the connection is not closed by its timer."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None

    def close(self) -> None:
        """Close at once: nothing that is unsent or unread matters any more."""
        self.stop_waiting()
        if self._socket is not None:
            self._socket.abort()

    async def _next_event(self) -> object:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise httpx2.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return event
            if not self._unread and not self._has_ended:
                await self._wait()
            self._feed()

    def _feed(self) -> None:
        """Give the parser what has come, or the end."""
        if self._unread:
            data = self._unread.popleft()
            self._unread_bytes -= len(data)
            self._http.receive_data(data)
            if self._is_paused and not self._unread and self._socket:
                self._is_paused = False
                self._socket.resume_reading()
        elif self._error is not None:
            raise httpx2.ReadError(str(self._error)) from self._error
        elif self._http.their_state is h11.SEND_RESPONSE:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        else:
            self._http.receive_data(b"")

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self.read_seconds):
                await self._waiter
        except TimeoutError:
            raise httpx2.ReadTimeout("the provider sends nothing") from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
