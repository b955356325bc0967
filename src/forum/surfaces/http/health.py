"""Endpoints for liveness, readiness and metrics."""

from collections.abc import Callable, Sequence

from starlette.responses import PlainTextResponse, Response

from forum.metrics import METRICS_SCOPES
from forum.surfaces.http.endpoints import NO_SCOPES, NO_STORE, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

TEXT = "text/plain"
METRICS_MEDIA_TYPE = "text/plain; version=0.0.4"


async def livez(_visit: RequestContext) -> Response:
    """Say that the process answers; it asks nobody else."""
    return PlainTextResponse("ok\n", headers=NO_STORE)


def health_endpoints(
    exposition: Callable[[Tenant], str], desks: Sequence[Tenant]
) -> tuple[Endpoint, ...]:
    """Return the endpoints for monitoring the process."""

    async def readyz(_visit: RequestContext) -> Response:
        # Reads only cached state: while a database is
        # unavailable, all threads may be waiting for it.
        unready = next((desk.not_ready_reason for desk in desks if desk.not_ready_reason), "")
        if unready:
            raise ProblemError(ProblemType.UNAVAILABLE, unready)
        return PlainTextResponse("ready\n", headers=NO_STORE)

    def metrics(visit: RequestContext) -> Response:
        return Response(
            exposition(visit.desk), headers={**NO_STORE, "Content-Type": METRICS_MEDIA_TYPE}
        )

    return (
        Endpoint("GET", "/livez", "livez", NO_SCOPES, "Whether the process lives", livez,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/readyz", "readyz", NO_SCOPES, "Whether to send requests here", readyz,
                 reply=TEXT, tag="health"),
        Endpoint("GET", "/metrics", "metrics", METRICS_SCOPES, "What this process counts", metrics,
                 reply=METRICS_MEDIA_TYPE, tag="health"),
    )  # fmt: skip
