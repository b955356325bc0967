"""The ASGI application: routes for all endpoints, and the lifespan of its ledgers and tasks."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forum.surfaces.http.auth import Authenticator, ServerConfig
from forum.surfaces.http.budgets import BUDGETS
from forum.surfaces.http.costs import COSTS
from forum.surfaces.http.dashboard import dashboard_routes
from forum.surfaces.http.endpoints import JSON, NO_SCOPES, Endpoint, RequestContext
from forum.surfaces.http.entries import ENTRIES
from forum.surfaces.http.evaluations import EVALUATIONS
from forum.surfaces.http.evidence import EVIDENCE
from forum.surfaces.http.health import health_endpoints
from forum.surfaces.http.keys import KEYS
from forum.surfaces.http.metrics import HttpMetrics
from forum.surfaces.http.openai import OPENAI
from forum.surfaces.http.openapi import build_document
from forum.surfaces.http.oversight import OVERSIGHT
from forum.surfaces.http.planning import PLANNING
from forum.surfaces.http.problems import ProblemError, ProblemType, problem_response
from forum.surfaces.http.reports import REPORTS
from forum.surfaces.http.request_pipeline import (
    SECURITY_HEADERS,
    RequestHandler,
    make_request_handler,
)
from forum.surfaces.http.runs import RUNS
from forum.surfaces.http.scores import SCORES
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.http.tlog import TLOG
from forum.surfaces.http.webhook_delivery import (
    WebhookSender,
    deliver_webhooks,
    make_webhook_senders,
)


class ServerExtension(Protocol):
    """Endpoints that are added to a server and share its authentication."""

    def endpoints(self, door: Authenticator) -> Sequence[Endpoint]:
        """Return its operations."""
        ...

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Run its background tasks while the server runs."""
        ...


def make_app(config: ServerConfig, annexes: Sequence[ServerExtension] = ()) -> Starlette:
    """Return the application for a server configuration, with extensions."""
    door, metrics = Authenticator(config), HttpMetrics()
    senders = [
        sender
        for tenant in config.desks
        for sender in make_webhook_senders(tenant.forum, os.environ)
    ]
    by_path: dict[str, dict[str, RequestHandler]] = {}
    for endpoint in (
        *all_endpoints(metrics.render, config.desks),
        *(endpoint for annex in annexes for endpoint in annex.endpoints(door)),
    ):
        answer = make_request_handler(endpoint, door, metrics, config.most_bytes)
        by_path.setdefault(endpoint.path, {})[endpoint.method] = answer
    app = Starlette(
        routes=[
            *(_route(path, by_method) for path, by_method in by_path.items()),
            *dashboard_routes(),
        ],
        lifespan=_lifespan(config.desks, door, annexes, senders),
        exception_handlers={HTTPException: _route_error},
    )
    # A redirect would use the Host header, which the client controls.
    app.router.redirect_slashes = False
    return app


def all_endpoints(
    exposition: Callable[[Tenant], str] = str, tenants: Sequence[Tenant] = ()
) -> tuple[Endpoint, ...]:
    """Return every operation of a server with these tenants."""
    watching = health_endpoints(exposition, tenants)
    declared = (
        *RUNS,
        *SCORES,
        *EVALUATIONS,
        *REPORTS,
        *BUDGETS,
        *COSTS,
        *KEYS,
        *ENTRIES,
        *EVIDENCE,
        *OVERSIGHT,
        *PLANNING,
        *TLOG,
        *OPENAI,
        *watching,
    )
    described = msgspec.json.encode(build_document(declared))

    async def describe(_context: RequestContext) -> Response:
        return Response(described, media_type=JSON)

    return (
        *declared,
        Endpoint("GET", "/openapi.json", "openapi", NO_SCOPES, "This API as OpenAPI 3.1", describe,
                 reply=JSON, tag="health"),
    )  # fmt: skip


def _route(path: str, by_method: Mapping[str, RequestHandler]) -> Route:
    """Return a single route for all methods of a path, so that a 405 response lists them all."""

    async def answer(request: Request) -> Response:
        # Starlette adds HEAD to every GET route, and uvicorn sends its response without the body.
        return await by_method["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, answer, methods=list(by_method))


def _lifespan(
    tenants: Sequence[Tenant],
    door: Authenticator,
    annexes: Sequence[ServerExtension],
    senders: Sequence[WebhookSender],
) -> Callable[[Starlette], Any]:
    async def open_tenants(stack: AsyncExitStack) -> None:
        """Open and follow all ledgers; register their cleanup on the stack."""
        loop = asyncio.get_running_loop()
        for tenant in tenants:
            # In a thread, because opening a ledger waits for its database.
            await asyncio.to_thread(stack.enter_context, tenant.hold())
            await asyncio.to_thread(tenant.record_configuration)
            tenant.deltas.bind_loop(loop)
            stack.enter_context(tenant.forum.delta_bus.subscribe(tenant.deltas.publish))
            stack.enter_context(tenant.monitor.run_in_background())
            await tenant.look_for_worker()
            for work in (
                tenant.log_follower.poll(),
                tenant.watch_workers(),
                asyncio.to_thread(tenant.warm_up),
            ):
                stack.callback(asyncio.create_task(work).cancel)
            stack.callback(tenant.log_follower.close)
        # The stack unwinds in reverse: extensions and webhooks stop,
        # and denials are flushed, before the ledgers are closed.
        await stack.enter_async_context(door.denials.flush_periodically())
        await stack.enter_async_context(deliver_webhooks(senders))
        for annex in annexes:
            await stack.enter_async_context(annex.lifespan())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await open_tenants(stack)
            except Exception as error:
                app.state.startup_error = error
                raise
            yield

    return lifespan


def startup_error_of(app: Starlette) -> Exception | SystemExit:
    """Return the reason why an application did not start."""
    error: Exception | None = getattr(app.state, "startup_error", None)
    # uvicorn would exit with status 3, by which Forum reports that verification found a problem.
    return SystemExit(1) if error is None else error


async def _route_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    problem = ProblemType.NO_METHOD if error.status_code == 405 else ProblemType.NOT_FOUND
    headers = {**SECURITY_HEADERS, **(error.headers or {})}
    return problem_response(ProblemError(problem, headers=headers), request.url.path)
