"""Endpoints for liveness, readiness and metrics."""

from collections.abc import Callable, Sequence

from starlette.responses import PlainTextResponse, Response

from forum.metrics import METRICS_SCOPES
from forum.surfaces.http import endpoints
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

TEXT = "text/plain"
METRICS_MEDIA_TYPE = "text/plain; version=0.0.4"


async def livez(_context: endpoints.RequestContext) -> Response:
    """Say that the process answers; it asks nobody else."""
    return PlainTextResponse("ok\n", headers=endpoints.NO_STORE)


def health_endpoints(
    exposition: Callable[[Tenant], str], tenants: Sequence[Tenant]
) -> tuple[endpoints.Endpoint, ...]:
    """Return the endpoints for monitoring the process."""

    async def readyz(_context: endpoints.RequestContext) -> Response:
        # Reads only cached state: while a database is
        # unavailable, all threads may be waiting for it.
        unready = next(
            (tenant.not_ready_reason for tenant in tenants if tenant.not_ready_reason), ""
        )
        if unready:
            raise ProblemError(ProblemType.UNAVAILABLE, unready)
        return PlainTextResponse("ready\n", headers=endpoints.NO_STORE)

    def metrics(context: endpoints.RequestContext) -> Response:
        return Response(
            exposition(context.desk),
            headers={**endpoints.NO_STORE, "Content-Type": METRICS_MEDIA_TYPE},
        )

    return (
        endpoints.Endpoint("GET", "/livez", "livez", endpoints.NO_SCOPES,
                 "Whether the process lives", livez, reply=TEXT, tag="health", is_probe=True,
                 any_host=True),
        endpoints.Endpoint("GET", "/readyz", "readyz", endpoints.NO_SCOPES,
                 "Whether to send requests here", readyz, reply=TEXT, tag="health", is_probe=True,
                 any_host=True),
        endpoints.Endpoint("GET", "/metrics", "metrics", METRICS_SCOPES,
                 "What this process counts", metrics, reply=METRICS_MEDIA_TYPE, tag="health",
                 is_probe=True),
    )  # fmt: skip
