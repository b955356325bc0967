"""Whether the process lives, whether it should be sent work, and what it counts."""

from collections.abc import Callable, Sequence

from starlette.responses import PlainTextResponse, Response

from forum.metrics import READERS
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.endpoints import ANYBODY, NEVER, Endpoint, Visit
from forum.surfaces.http.problems import Problem, Refusal

TEXT = "text/plain"
EXPOSITION = "text/plain; version=0.0.4"


async def livez(_visit: Visit) -> Response:
    """Say that the process answers; it asks nobody else."""
    return PlainTextResponse("ok\n", headers=NEVER)


def health(exposition: Callable[[Desk], str], desks: Sequence[Desk]) -> tuple[Endpoint, ...]:
    """Return the endpoints for those who look after the process."""

    async def readyz(_visit: Visit) -> Response:
        # Asks nobody: while a database is away, all threads may be waiting for it.
        unready = next((desk.unready for desk in desks if desk.unready), "")
        if unready:
            raise Refusal(Problem.UNAVAILABLE, unready)
        return PlainTextResponse("ready\n", headers=NEVER)

    def metrics(visit: Visit) -> Response:
        return Response(exposition(visit.desk), headers={**NEVER, "Content-Type": EXPOSITION})

    return (
        Endpoint("GET", "/livez", "livez", ANYBODY, "Whether the process lives", livez,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/readyz", "readyz", ANYBODY, "Whether to send requests here", readyz,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/metrics", "metrics", READERS, "What this process counts", metrics,
                 reply=EXPOSITION, tag="health"),
    )  # fmt: skip
