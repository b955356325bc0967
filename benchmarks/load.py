"""Clients of an HTTP server, in a process of their own: `python -m benchmarks.load LOAD`.

Each client sends a request, waits for the whole answer, and sends the next one over the same
connection for as long as the server keeps it.  LOAD is a `Load` as JSON; what came of it is printed
as a `Told`.  The clients know just enough of HTTP/1.1 for the servers that are measured: they share
the machine with them, and what they spend the servers lack.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count

import msgspec

NUMBER = "00000000"
"""Stands in a body for the number of the request: no two requests are equal."""

_AGAIN_SECONDS = 0.05
_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_CLOSE = b"\r\nconnection: close"


class Load(msgspec.Struct, frozen=True):
    """What the clients do."""

    port: int
    path: str
    body: str = ""
    """Without one, they only read."""
    clients: int = 64
    seconds: float = 60.0
    pause: float = 0.0
    """How long a client waits before it asks again."""


class Told(msgspec.Struct, frozen=True):
    """What the clients saw.  Times are those from a request to the end of its answer."""

    answers: int
    statuses: dict[str, int]
    broken: int
    """How many requests got no answer."""
    per_s: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    cpu_seconds: float


class Answer(msgspec.Struct, frozen=True):
    """An answer, as far as a client looks at it."""

    status: str
    kept: bool
    """Whether the connection is."""


class Connection(asyncio.Protocol):
    """One connection to the server."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the server."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer.  Raises `ConnectionError` if there is none."""
        assert self._transport
        if self._transport.is_closing():
            raise ConnectionResetError
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    def data_received(self, data: bytes) -> None:
        """Take in a part of the answer."""
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0 or self._waiter is None or self._waiter.done():
            return
        head = self._buffer[: end + 2].lower()
        length = int(head.partition(_LENGTH)[2].partition(b"\r\n")[0] or b"0")
        if len(self._buffer) >= end + len(_END) + length:
            self._buffer.clear()
            self._waiter.set_result(Answer(head[9:12].decode(), _CLOSE not in head))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  it has no answer
        """Tell whoever waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError())

    def close(self) -> None:
        """Let go of the connection."""
        assert self._transport
        self._transport.close()


class Clients:
    """All clients of a load, and what they saw."""

    def __init__(self, load: Load) -> None:
        self._load, self._numbers = load, count()
        head = f"{'POST' if load.body else 'GET'} {load.path} HTTP/1.1\r\n"
        head += f"Host: 127.0.0.1:{load.port}\r\n"
        if load.body:
            head += "Content-Type: application/json\r\n"
            head += f"Content-Length: {len(load.body.encode())}\r\n"
        self._request = f"{head}\r\n{load.body}".encode()
        self._times: list[float] = []
        self._statuses: Counter[str] = Counter()
        self._broken = 0

    async def run(self) -> Told:
        """Let all clients ask until the time is over; the last answers are waited for."""
        before, started = time.process_time(), time.perf_counter()
        until = started + self._load.seconds
        await asyncio.gather(*(self._ask_until(until) for _ in range(self._load.clients)))
        seconds = time.perf_counter() - started
        return Told(
            answers=len(self._times),
            statuses=dict(self._statuses),
            broken=self._broken,
            per_s=round(len(self._times) / seconds, 1),
            p50_ms=milliseconds(self._times, 0.5),
            p99_ms=milliseconds(self._times, 0.99),
            worst_ms=milliseconds(self._times, 1),
            cpu_seconds=round(time.process_time() - before, 2),
        )

    async def _ask_until(self, until: float) -> None:
        connection: Connection | None = None
        while time.perf_counter() < until:
            request = self._request.replace(NUMBER.encode(), b"%08d" % next(self._numbers))
            started = time.perf_counter()
            try:
                connection = connection or await self._connect()
                answer = await connection.ask(request)
            except OSError:
                self._broken += 1
                connection = None
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._times.append(time.perf_counter() - started)
            self._statuses[answer.status] += 1
            connection = connection if answer.kept else None
            if self._load.pause:
                await asyncio.sleep(self._load.pause)
        if connection:
            connection.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._load.port)
        return connection


def milliseconds(times: Sequence[float], share: float) -> float:
    """Return the time in which this share of the answers was here; without answers, zero."""
    if not times:
        return 0.0
    place = min(len(times) - 1, int(len(times) * share))
    return round(1000 * sorted(times)[place], 2)


def main(load: str) -> None:
    """Make a load, and tell what came of it."""
    result = asyncio.run(Clients(msgspec.json.decode(load, type=Load)).run())
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main(sys.argv[1])
