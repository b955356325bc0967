"""A TCP server in a thread of its own, for tests that stand between clients and servers."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from threading import Event, Thread


class TcpProxy(ABC):
    """Accepts connections on a free port until it is stopped."""

    def __init__(self) -> None:
        self.port = 0
        self._listening = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()))

    def start(self) -> None:
        """Accept connections from now on."""
        self._thread.start()
        self._listening.wait()

    def stop(self) -> None:
        """Close all connections."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()

    @abstractmethod
    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of one connection on."""


class HangingProxy(TcpProxy):
    """Passes bytes on until it hangs; then it acknowledges everything and passes nothing on."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.target = port
        """Where new connections lead."""
        self.hangs = Event()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            near, far = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return writer.transport.abort()
        try:
            await asyncio.gather(self._pump(reader, far), self._pump(near, writer))
        finally:
            for each in (far, writer):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                while self.hangs.is_set():  # noqa: ASYNC110  set by another thread
                    await asyncio.sleep(0.05)
                writer.write(data)
        writer.close()
