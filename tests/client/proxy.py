"""A proxy that breaks connections on purpose: what a network does to a client."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.tcp_proxy import TcpProxy

Budget = Callable[[int], int | None]
"""Returns how many bytes of replies the connection with a number may bring; None is no limit."""


class CuttingProxy(TcpProxy):
    """Passes bytes to a server, and cuts each connection after some bytes of its reply."""

    def __init__(self, port: int, budget: Budget) -> None:
        super().__init__()
        self.target = port
        self.budget = budget
        self.connections = 0
        """How many came."""
        self.cuts = 0
        """How many were cut."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self.port}"

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.budget(self.connections)
        self.connections += 1
        try:
            theirs = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        asking = asyncio.create_task(_pump(reader, theirs[1], None))
        try:
            if await _pump(theirs[0], writer, left):
                self.cuts += 1
                theirs[1].close()
            await asking
        except asyncio.CancelledError:
            pass  # the proxy stops while a connection is idle


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: int | None) -> bool:
    """Pass bytes on until there are no more, and return whether the rest was cut off."""
    try:
        while data := await source.read(65536):
            if left is not None and len(data) >= left:
                sink.write(data[:left])
                await sink.drain()
                return True
            left = None if left is None else left - len(data)
            sink.write(data)
            await sink.drain()
    except OSError:
        pass  # one side is gone, and so is the connection
    finally:
        sink.close()
    return False


@contextmanager
def cutting(port: int, budget: Budget) -> Iterator[CuttingProxy]:
    """Stand between a client and a server for a while."""
    proxy = CuttingProxy(port, budget)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
