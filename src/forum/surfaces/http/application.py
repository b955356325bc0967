"""The ASGI application: routes for all endpoints, and the lifespan of its ledgers and tasks."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from forum.limits.admission import Admission
from forum.surfaces.http.admission import hold_shares
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
from forum.surfaces.http.openai.errors import openai_error_response
from forum.surfaces.http.openapi import build_document
from forum.surfaces.http.oversight import OVERSIGHT
from forum.surfaces.http.planning import PLANNING
from forum.surfaces.http.problems import ProblemError, ProblemType, problem_response
from forum.surfaces.http.reports import REPORTS
from forum.surfaces.http.request_pipeline import (
    SECURITY_HEADERS,
    RequestHandler,
    has_controls,
    make_request_handler,
)
from forum.surfaces.http.runs import RUNS
from forum.surfaces.http.scores import SCORES
from forum.surfaces.http.sign_in import session_endpoints
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
    admission = metrics.admission = Admission(len(config.desks))
    senders = [
        sender
        for tenant in config.desks
        for sender in make_webhook_senders(tenant.forum, os.environ)
    ]
    by_path: dict[str, _PathApp] = {}
    for endpoint in (
        *all_endpoints(metrics.render, config.desks),
        *session_endpoints(door),
        *(endpoint for annex in annexes for endpoint in annex.endpoints(door)),
    ):
        answer = make_request_handler(endpoint, door, metrics, config.most_bytes)
        path = by_path.setdefault(endpoint.path, _PathApp(admission))
        path.endpoints[endpoint.method], path.handlers[endpoint.method] = endpoint, answer
    app = Starlette(
        routes=[
            *(Route(path, app, methods=list(app.handlers)) for path, app in by_path.items()),
            *dashboard_routes(),
        ],
        lifespan=_lifespan(config.desks, door, annexes, senders),
        exception_handlers={HTTPException: _route_error},
        middleware=[Middleware(_PlainPaths)],
    )
    # A redirect would use the Host header, which the client controls.
    app.router.redirect_slashes = False
    return app


class _PlainPaths:
    """Refuses paths that a proxy in front and this server could read in two ways.

    `/api/v1%2Fkeys` would be routed like `/api/v1/keys`, past the proxy's rule for that path. The
    clients of OpenAI escape the name of a model, which is all that stands behind `/v1/models/`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = bytes(scope.get("raw_path") or b"").lower()
            why = ""
            is_model = raw.startswith(b"/v1/models/")
            if b"%5c" in raw or (b"%2f" in raw and not is_model):
                why = "the path has an escaped slash; write it as it is"
            elif has_controls(scope["path"]):
                why = "the path has a control character"
            if why:
                problem = ProblemError(ProblemType.BAD_REQUEST, why)
                is_openai = raw.startswith(b"/v1/")
                response = (openai_error_response if is_openai else problem_response)(problem, "")
                response.headers.update(SECURITY_HEADERS)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


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
                 reply=JSON, tag="health", any_host=True),
    )  # fmt: skip


class _PathApp:
    """All methods of a path, as one route, so that a 405 response lists them all."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.endpoints: dict[str, Endpoint] = {}
        self.handlers: dict[str, RequestHandler] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, which holds what it takes until its response has been sent."""
        request = Request(scope, receive, send)
        # Starlette adds HEAD to every GET route, and uvicorn sends its response without the body.
        method = "GET" if request.method == "HEAD" else request.method
        with hold_shares(self._admission, request):
            response = await self.handlers[method](request)
            await response(scope, receive, send)


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
