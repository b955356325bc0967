"""A load balancer that knows nothing of HTTP: connections go to the servers in turn."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from tests.tcp_proxy import TcpProxy


class Balancer(TcpProxy):
    """Passes bytes between clients and servers; one that does not answer is left out."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__()
        self._turns, self._servers = cycle(ports), len(ports)
        self.visited: list[int] = []
        """To which server each connection went."""

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._servers):
            port = next(self._turns)
            try:
                theirs = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue  # it is down: the next one, please
            self.visited.append(port)
            await asyncio.gather(_pump(reader, theirs[1]), _pump(theirs[0], writer))
            return
        writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass  # one side is gone, and so is the connection
    finally:
        sink.close()


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[Balancer]:
    """Balance between servers for a while."""
    balancer = Balancer(ports)
    balancer.start()
    try:
        yield balancer
    finally:
        balancer.stop()
