"""Connections to a provider: what a server sends is read as the usual transport reads it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread
from time import sleep

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.gateway.upstream_connections import ProviderTransport

BODY = b"a reply of some bytes"
HEADS = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n" + BODY,
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"7\r\na reply\r\ne\r\n of some bytes\r\n0\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + BODY,
    "old": b"HTTP/1.0 200 OK\r\ncontent-length: 21\r\n\r\n" + BODY,
    "hints first": b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n",
    "no body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 21\r\ncontent-length: 20\r\n\r\n" + BODY,
    "no HTTP": b"220 mail.example.com ESMTP\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "more than said": b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n" + BODY,
}


class Server:
    """Sends the same bytes for each request, in pieces, and may close then."""

    def __init__(self, reply: bytes, *, pieces: int = 1, closes: bool = True) -> None:
        self._reply, self._pieces = reply, pieces
        self._closes = closes
        self.connections = self.requests = 0
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen until the end of the block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                await reader.readexactly(int(length or 0))
                self.requests += 1
                size = max(1, -(-len(self._reply) // self._pieces))
                for at in range(0, len(self._reply), size):
                    writer.write(self._reply[at : at + size])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._closes:
                    break
            await _close(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def open_client(*, ours: bool = True, connections: int = 8) -> httpx2.AsyncClient:
    """Return a client over our connections, or over the usual ones."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = ProviderTransport(context, connections) if ours else None
    return httpx2.AsyncClient(transport=transport, verify=context, trust_env=False, timeout=5)


async def call(client: httpx2.AsyncClient, url: str, body: bytes = b"{}") -> tuple[object, ...]:
    """Return what comes of a call: status, headers and body, or the error."""
    status, data = 0, b""
    try:
        async with client.stream("POST", f"{url}/v1?a=b", content=body) as reply:
            status = reply.status_code
            async for piece in reply.aiter_raw():
                data += piece
    except httpx2.HTTPError as error:
        return status, type(error)
    return status, data, tuple(reply.headers.raw)


@given(st.sampled_from(sorted(HEADS)), st.integers(1, 5), st.integers(0, 120))
def test_replies_are_read_as_the_usual_transport_reads_them(
    name: str, pieces: int, sent: int
) -> None:
    """Also those that are cut anywhere."""
    reply = HEADS[name][: sent or None]

    async def compare() -> None:
        server = Server(reply, pieces=pieces)
        async with server.open(), open_client() as ours, open_client(ours=False) as usual:
            seen, expected = await call(ours, server.url), await call(usual, server.url)
        if name == "another protocol" and len(reply) == len(HEADS[name]):
            # The usual one takes it for a reply; nobody asked for another protocol.
            assert seen == (0, httpx2.RemoteProtocolError)
        else:
            assert seen == expected

    asyncio.run(compare())


def test_connections_are_kept_and_used_by_one_call_at_a_time() -> None:
    """Never more than there may be."""

    async def check() -> None:
        server = Server(HEADS["length"], closes=False)
        async with server.open(), open_client(connections=3) as client:
            for _ in range(3):
                assert (await call(client, server.url))[:2] == (200, BODY)
            assert server.connections == 1
            results = await asyncio.gather(*(call(client, server.url) for _ in range(12)))
            assert {result[:2] for result in results} == {(200, BODY)}
            assert server.connections <= 3
            assert server.requests == 15

    asyncio.run(check())


@pytest.mark.parametrize("name", ["length", "more than said"])
def test_a_connection_is_not_used_again_after_it_was_closed_or_said_too_much(name: str) -> None:
    """The bytes behind a reply would be read as that of the next call."""

    async def check() -> None:
        server = Server(HEADS[name], closes=name == "length")
        async with server.open(), open_client() as client:
            for _ in range(4):
                assert (await call(client, server.url))[0] == 200
                await asyncio.sleep(0.01)
            assert server.connections == server.requests == 4

    asyncio.run(check())


def test_a_call_that_breaks_is_made_once() -> None:
    """A provider may bill it, whether or not its reply arrived."""

    async def check() -> None:
        server = Server(b"", closes=True)
        async with server.open(), open_client() as client:
            assert await call(client, server.url) == (0, httpx2.RemoteProtocolError)
            assert server.requests == 1

    asyncio.run(check())


def test_a_reply_that_nobody_reads_does_not_fill_the_memory_and_gives_its_place_back() -> None:
    """The provider has to wait; and the next call gets the place."""
    size = 64 << 20
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode()

    async def check() -> None:
        sent = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            try:
                while sent < size:
                    writer.write(b"x" * 65_536)
                    await writer.drain()
                    sent += 65_536
            except ConnectionError:
                pass
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, open_client(connections=1) as client:
            for _ in range(2):
                async with client.stream("POST", url) as reply:
                    async for _ in reply.aiter_raw():
                        break
                    await asyncio.sleep(0.2)
                    assert sent < size / 2
                sent = 0

    asyncio.run(check())


def test_a_body_larger_than_the_buffers_arrives() -> None:
    """The writer waits for the other side."""

    async def check() -> None:
        server = Server(HEADS["length"], closes=False)
        async with server.open(), open_client() as client:
            assert (await call(client, server.url, b"y" * (8 << 20)))[:2] == (200, BODY)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("reply", "error"), [(b"", httpx2.ReadTimeout), (HEADS["length"][:-3], httpx2.ReadTimeout)]
)
def test_a_silent_provider_is_given_up(reply: bytes, error: type[Exception]) -> None:
    """Before the head of a reply and within its body."""

    async def check() -> None:
        server = Server(reply, closes=False)
        async with server.open(), open_client() as client:
            client.timeout = httpx2.Timeout(0.2)
            assert (await call(client, server.url))[1] is error

    asyncio.run(check())


def test_an_answer_is_read_although_the_rest_of_the_request_is_not() -> None:
    """A provider refuses a large request by its head; the rest of that is sent to nobody else."""
    refusal = b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n"
    connections, is_over = 0, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await is_over.wait()
        writer.transport.abort()

    async def send() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, open_client(connections=1) as client:
            for number in (1, 2):
                async with asyncio.timeout(1):
                    assert (await call(client, url, b"x" * (16 << 20)))[0] == 413
                assert connections == number
            is_over.set()
            await asyncio.sleep(0.05)

    asyncio.run(send())


def test_an_address_without_a_server_is_no_connection() -> None:
    """So nothing was sent, and nothing can be billed."""

    async def check() -> None:
        server = Server(b"")
        async with server.open():
            pass
        async with open_client() as client:
            assert await call(client, server.url) == (0, httpx2.ConnectError)

    asyncio.run(check())


def test_a_closed_connection_is_seen_by_a_loop_that_is_behind() -> None:
    """A busy process has not heard of the end yet when it picks a connection for the next call."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(3):
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(65_536)
                accepted.sendall(HEADS["length"])

    async def check() -> None:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_client() as client:
            for _ in range(3):
                assert (await call(client, url))[:2] == (200, BODY)
                sleep(0.05)  # noqa: ASYNC251  nothing else runs, as in a busy process

    with listener:
        thread = Thread(target=serve)
        thread.start()
        asyncio.run(check())
        thread.join()
