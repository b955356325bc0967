"""Endpoints for liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import PlainTextResponse, Response

from forum.ledger.conditions import Ability
from forum.metrics import METRICS_SCOPES
from forum.surfaces.http import endpoints
from forum.surfaces.http.metrics import HttpMetrics
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

TEXT = "text/plain"
METRICS_MEDIA_TYPE = "text/plain; version=0.0.4"


async def livez(_context: endpoints.RequestContext) -> Response:
    """Say that the process answers; it asks nobody else."""
    return PlainTextResponse("ok\n", headers=endpoints.NO_STORE)


def health_endpoints(
    counted: HttpMetrics, tenants: Sequence[Tenant]
) -> tuple[endpoints.Endpoint, ...]:
    """Return the endpoints for monitoring the process."""

    def make_probe(ability: Ability) -> Callable[[endpoints.RequestContext], Awaitable[Response]]:
        async def probe(_context: endpoints.RequestContext) -> Response:
            # Reads only cached state: while a database is
            # unavailable, all threads may be waiting for it.
            reasons = [tenant.not_ready_reason(ability) for tenant in tenants]
            if reason := next(filter(None, reasons), ""):
                raise ProblemError(ProblemType.UNAVAILABLE, reason)
            return PlainTextResponse("ready\n", headers=endpoints.NO_STORE)

        return probe

    def metrics(context: endpoints.RequestContext) -> Response:
        body, media_type = counted.write(context.tenant, context.request.headers.get("accept", ""))
        return Response(
            body, headers={**endpoints.NO_STORE, "Content-Type": media_type, "Vary": "Accept"}
        )

    return (
        endpoints.Endpoint("GET", path="/livez", name="livez", scopes=endpoints.NO_SCOPES,
                 summary="Whether the process lives", handle=livez, reply=TEXT, tag="health",
                 is_probe=True,
                 any_host=True),
        endpoints.Endpoint("GET", path="/readyz", name="readyz", scopes=endpoints.NO_SCOPES,
                 summary="Whether to send requests here: whether it can write",
                 handle=make_probe(Ability.WRITE),
                 reply=TEXT, tag="health", is_probe=True, any_host=True),
        endpoints.Endpoint("GET", path="/readyz/read", name="readyz_read",
                 scopes=endpoints.NO_SCOPES,
                 summary="Whether to send requests here that only read",
                 handle=make_probe(Ability.READ),
                 reply=TEXT, tag="health", is_probe=True, any_host=True),
        endpoints.Endpoint("GET", path="/readyz/sign", name="readyz_sign",
                 scopes=endpoints.NO_SCOPES,
                 summary="Whether entries get an index and a signature",
                 handle=make_probe(Ability.SIGN),
                 reply=TEXT, tag="health", is_probe=True, any_host=True),
        endpoints.Endpoint("GET", path="/metrics", name="metrics", scopes=METRICS_SCOPES,
                 summary="What this process counts", handle=metrics, reply=METRICS_MEDIA_TYPE,
                 other_types=("application/openmetrics-text; version=1.0.0",), tag="health",
                 is_probe=True),
    )  # fmt: skip
