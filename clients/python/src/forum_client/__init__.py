"""A typed client for the HTTP API of a Forum server: `Client` blocks, `AsyncClient` is awaited.

    with forum_client.Client("http://127.0.0.1:8808", key) as client:
        run = client.runs.create("Name three rivers.").run
        for event in client.runs.follow(run):
            print(event.index, event.kind)
        print(client.runs.get(run).answer)

`forms`, `operations` and `async_operations` are generated from the declared endpoints of the server
(`just client`).  The package imports nothing of the server: replies are decoded into forms of its
own, in which a member or a value that only a newer server knows does no harm.

Where Forum is installed, `forum.Client` is the same class, and its errors are also of the families
of `forum.errors`.
"""

from types import TracebackType
from typing import Self

from . import async_operations, operations
from .connection import AsyncConnection, BodyContent, Connection
from .problems import (
    ReplyUnreadable,
    RequestTimeout,
    ServerProblem,
    ServerUnreachable,
)
from .run_events import RunEvent

__all__ = [
    "AsyncClient",
    "BodyContent",
    "Client",
    "ReplyUnreadable",
    "RequestTimeout",
    "RunEvent",
    "ServerProblem",
    "ServerUnreachable",
]


class Client(operations.OperationGroups):
    """A client of one server, with one key; its calls block.  Threads may share it.

    Operations are grouped: `client.runs`, `client.gates`, `client.keys`, `client.ledger`, ...
    A call raises `ServerProblem` if the server refuses it, `ServerUnreachable` if no reply comes,
    and `RequestTimeout` if none comes in time.
    """

    def __init__(self, url: str, key: str, *, timeout: float | None = None) -> None:
        """Connect on the first call.

        `timeout` is for each reply, in seconds; without it, each operation has the time that the
        server allows it.  Raises `Malformed` if the URL or the key cannot be used.
        """
        self._connection = Connection(url, key, timeout)
        super().__init__(self._connection)

    def __repr__(self) -> str:
        return f"Client({self._connection.address!r})"

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(async_operations.AsyncOperationGroups):
    """A client of one server, with one key; its calls are awaited.

    It has the operations of `Client`.
    """

    def __init__(self, url: str, key: str, *, timeout: float | None = None) -> None:
        """Connect on the first call; see `Client`."""
        self._connection = AsyncConnection(url, key, timeout)
        super().__init__(self._connection)

    def __repr__(self) -> str:
        return f"AsyncClient({self._connection.address!r})"

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
