"""The typed client of `forum_client`, whose errors are here also of the families of `forum.errors`.

The distribution `forumd-client` has it without Forum (clients/python).
"""

from forum.client.problems import (
    ReplyUnreadable,
    RequestTimeout,
    ServerProblem,
    ServerUnreachable,
)
from forum_client import AsyncClient, BodyContent, Client, RunEvent

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
