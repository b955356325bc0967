"""Admit requests of a server, and read their bodies.

Everything that a request has taken is given back when its response has been sent, however it ends.
Health probes take nothing, so that nobody can keep them out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.types import Message, Receive

from forum.errors import BodyTooLarge, BodyTooSlow
from forum.limits.admission import Admission, HeldShares, collect_body
from forum.surfaces.http.problems import ProblemError, ProblemType

PROBE_CONNECTIONS = 100
"""Connections beyond the limit on which only health probes are answered."""
_SCOPE_KEY = "forum.held"
_CLOSE = {"Connection": "close"}


@contextmanager
def hold_shares(admission: Admission, request: Request) -> Iterator[None]:
    """Give back at the end of the block what a request has taken."""
    held = request.scope[_SCOPE_KEY] = HeldShares(admission)
    try:
        yield
    finally:
        held.give_back()


def held_shares(request: Request) -> HeldShares:
    """Return what a request holds."""
    held: HeldShares = request.scope[_SCOPE_KEY]
    return held


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Raises `ProblemError` if it is too large or too slow, and the errors of `take_bytes`.
    """
    announced = int(request.headers.get("content-length") or 0)
    try:
        return await collect_body(
            request.stream(), announced, most, held_shares(request).take_bytes
        )
    except BodyTooLarge as error:
        raise ProblemError(ProblemType.TOO_LARGE, str(error), _CLOSE) from None
    except BodyTooSlow as error:
        raise ProblemError(ProblemType.BAD_REQUEST, str(error), _CLOSE) from None


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that first yields a body that was read, then what follows."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return left.pop() if left else await receive()

    return give
