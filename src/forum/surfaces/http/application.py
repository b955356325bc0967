"""The ASGI application: routes for all endpoints, and the lifespan of its ledgers and tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from forum.feature import load_parts
from forum.features import FEATURES
from forum.limits.admission import Admission
from forum.surfaces.http import request_pipeline
from forum.surfaces.http.admission import hold_shares
from forum.surfaces.http.auth import Authenticator, ServerConfig
from forum.surfaces.http.budgets import BUDGETS
from forum.surfaces.http.costs import COSTS
from forum.surfaces.http.endpoints import JSON, NO_SCOPES, Endpoint, ErrorVoice, RequestContext
from forum.surfaces.http.entries import ENTRIES
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.health import health_endpoints
from forum.surfaces.http.keys import KEYS
from forum.surfaces.http.metrics import HttpMetrics
from forum.surfaces.http.openapi import build_document
from forum.surfaces.http.planning import PLANNING
from forum.surfaces.http.problems import ProblemError, ProblemType, problem_response
from forum.surfaces.http.runs import RUNS
from forum.surfaces.http.scores import SCORES
from forum.surfaces.http.sign_in import session_endpoints
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.http.tlog import TLOG


def make_app(config: ServerConfig, extensions: Sequence[ServerExtension] = ()) -> Starlette:
    """Return the application for a server configuration, with extensions."""
    authenticator, metrics = Authenticator(config), HttpMetrics()
    admission = metrics.admission = Admission(len(config.desks))
    declared = (
        health_endpoints(metrics, config.desks)
        if config.only
        else (*all_endpoints(metrics, config.desks), *session_endpoints(authenticator))
    )
    by_path: dict[str, _PathApp] = {}
    for endpoint in (
        *declared,
        *(endpoint for annex in extensions for endpoint in annex.endpoints(authenticator)),
    ):
        answer = request_pipeline.make_request_handler(
            endpoint, authenticator, metrics, config.most_bytes
        )
        path = by_path.setdefault(endpoint.path, _PathApp(admission))
        path.endpoints[endpoint.method], path.handlers[endpoint.method] = endpoint, answer
    app = Starlette(
        routes=[
            *(Route(path, app, methods=list(app.handlers)) for path, app in by_path.items()),
            *(route for annex in extensions for route in annex.routes()),
        ],
        lifespan=_lifespan(config.desks, authenticator, extensions),
        exception_handlers={HTTPException: _route_error},
        middleware=[Middleware(_PlainPaths, voices=_collect_voices(declared))],
    )
    # A redirect would use the Host header, which the client controls.
    app.router.redirect_slashes = False
    return app


def _collect_voices(endpoints: Sequence[Endpoint]) -> Mapping[str, ErrorVoice]:
    """Return how errors are told below the first part of a path, where endpoints there say how."""
    return {e.path.split("/", 2)[1]: e.voice for e in endpoints if e.voice is not None}


class _PlainPaths:
    """Refuses paths that a proxy in front and this server could read in two ways.

    `/api/v1%2Fkeys` would be routed like `/api/v1/keys`, past the proxy's rule for that path. The
    clients of OpenAI escape the name of a model, which is all that stands behind `/v1/models/`.
    """

    def __init__(self, app: ASGIApp, voices: Mapping[str, ErrorVoice]) -> None:
        self._app, self._voices = app, voices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = bytes(scope.get("raw_path") or b"").lower()
            why = ""
            is_model = raw.startswith(b"/v1/models/")
            if b"%5c" in raw or (b"%2f" in raw and not is_model):
                why = "the path has an escaped slash; write it as it is"
            elif request_pipeline.has_controls(scope["path"]):
                why = "the path has a control character"
            if why:
                problem = ProblemError(ProblemType.BAD_REQUEST, why)
                first, slash, _ = raw.decode("latin-1").removeprefix("/").partition("/")
                voice = self._voices.get(first) if slash else None
                response = (voice or problem_response)(problem, "")
                response.headers.update(request_pipeline.SECURITY_HEADERS)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def all_endpoints(
    metrics: HttpMetrics | None = None, tenants: Sequence[Tenant] = ()
) -> tuple[Endpoint, ...]:
    """Return every operation of a server with these tenants."""
    watching = health_endpoints(metrics or HttpMetrics(), tenants)
    declared = (
        *RUNS,
        *SCORES,
        *BUDGETS,
        *COSTS,
        *KEYS,
        *ENTRIES,
        *PLANNING,
        *TLOG,
        *(endpoint for part in load_parts(FEATURES, "endpoints") for endpoint in part),
        *watching,
    )
    described = msgspec.json.encode(build_document(declared))

    async def describe(_context: RequestContext) -> Response:
        return Response(described, media_type=JSON)

    return (
        *declared,
        Endpoint("GET", path="/openapi.json", name="openapi", scopes=NO_SCOPES,
                 summary="This API as OpenAPI 3.1", handle=describe,
                 reply=JSON, tag="health", any_host=True),
    )  # fmt: skip


class _PathApp:
    """All methods of a path, as one route, so that a 405 response lists them all."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.endpoints: dict[str, Endpoint] = {}
        self.handlers: dict[str, request_pipeline.RequestHandler] = {}

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
    authenticator: Authenticator,
    extensions: Sequence[ServerExtension],
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
        # The stack unwinds in reverse: extensions stop, and denials
        # are flushed, before the ledgers are closed.
        await stack.enter_async_context(authenticator.denials.flush_periodically())
        # The first one stops first: the gateway closes its runs before the webhooks end.
        for annex in reversed(extensions):
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
    headers = {**request_pipeline.SECURITY_HEADERS, **(error.headers or {})}
    return problem_response(ProblemError(problem, headers=headers), request.url.path)
