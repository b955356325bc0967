"""Whether the process lives, whether it should be sent work, and what it counts."""

from collections.abc import Callable

from starlette.responses import PlainTextResponse, Response

from forum.errors import ForumError
from forum.ledger import Scope
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.endpoints import ANYBODY, NEVER, Endpoint, Visit
from forum.surfaces.http.problems import Problem, Refusal

TEXT = "text/plain"
EXPOSITION = "text/plain; version=0.0.4"
_OBSERVERS = frozenset({Scope.READ, Scope.AUDIT, Scope.ADMIN})


async def livez(_visit: Visit) -> Response:
    """Say that the process answers; it asks nobody else."""
    return PlainTextResponse("ok\n", headers=NEVER)


def readyz(visit: Visit) -> Response:
    """Say whether requests should be sent here: the database answers, and nobody stops us."""
    if visit.desk.tail.closed:
        raise Refusal(Problem.UNAVAILABLE, "this process is about to end")
    try:
        visit.desk.forum.store.now()
    except ForumError:
        raise Refusal(Problem.UNAVAILABLE, "the database does not answer") from None
    return PlainTextResponse("ready\n", headers=NEVER)


def health(exposition: Callable[[Desk], str]) -> tuple[Endpoint, ...]:
    """Return the endpoints for those who look after the process."""

    def metrics(visit: Visit) -> Response:
        return Response(exposition(visit.desk), headers={**NEVER, "Content-Type": EXPOSITION})

    return (
        Endpoint("GET", "/livez", "livez", ANYBODY, "Whether the process lives", livez,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/readyz", "readyz", ANYBODY, "Whether to send requests here", readyz,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/metrics", "metrics", _OBSERVERS, "What this process counts", metrics,
                 reply=EXPOSITION, tag="health"),
    )  # fmt: skip
