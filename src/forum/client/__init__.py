"""The typed client of a server, whose errors are here also of the families of `forum.errors`.

The distribution `forumd-client` has it without Forum, as `forum_client` (clients/python).
"""

from forum.client._forum_client import AsyncClient, BodyContent, Client, RunEvent
from forum.client.problems import (
    ReplyUnreadable,
    RequestTimeout,
    ServerProblem,
    ServerUnreachable,
)

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
