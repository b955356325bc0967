"""The model gateway on a server, below `/gateway/`: a prefix for each provider.

Clients show an API key of scope `report`, on loopback too, in place of a provider's key.  Calls
belong to the run that the header `Forum-Run` names, else to that of the trace in `traceparent`,
else to the run of the key, which ends after a quiet period.  Each process has runs of its own, so
that no process closes a run in which another one has calls in flight.  Caps per key and per day are
those of `[budgets]`, which hold over all processes; those of `[gateway]` hold for each run.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from forum.app import new_run_id, now
from forum.config import bind_tenant
from forum.errors import SpendingFrozen, StoreFailed
from forum.features.gateway.actor_caps import find_actor_caps
from forum.features.gateway.refusals import CallRefused, RefusalReason, error_body
from forum.features.gateway.relay import GatewayRequest, Relay, refuse_upgrade, send_refusal
from forum.features.gateway.relayed_run import RelayedRun, RunLimits
from forum.features.gateway.reservations import CallsInFlight
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.settings import GatewaySettings, read_gateway_settings
from forum.ledger.kinds import Outcome, Scope
from forum.limits.admission import MAX_CALL_BYTES
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.runs.reported_run import close_reported_run
from forum.surfaces.http.admission import replay_body
from forum.surfaces.http.auth import Authenticator, ServerConfig, bearer_token
from forum.surfaces.http.endpoints import Endpoint, LateResponse, RequestContext
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.problems import ProblemType, problem_from_exception
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.logs import LOG, format_error_line

if TYPE_CHECKING:
    from forum.app.open_calls import OpenRunsFile

T = TypeVar("T")
PREFIXES = {
    ApiProvider.OPENAI: "/gateway/openai/v1",
    ApiProvider.ANTHROPIC: "/gateway/anthropic",
    ApiProvider.GEMINI: "/gateway/gemini",
    ApiProvider.AZURE: "/gateway/azure",
}
_METHODS = ("GET", "POST", "DELETE")
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}").fullmatch
_MAX_RUN_LABEL = 128
_CHECK_INTERVAL_S = 5.0
_DRAIN_SECONDS = 8.0
"""How long calls may go on when the server stops; it lets requests end for ten."""
MAX_OPEN_RUNS = 10_000
MAX_KEY_RUNS = MAX_OPEN_RUNS // 10
_REQUEST_SECONDS = 60.0
"""Time limit for receiving a request; its call has a time limit of its own."""


class GatewayQuery(msgspec.Struct):
    """Any query: the gateway decides which of its members the provider gets."""


@dataclass(slots=True)
class ServedRun:
    """A run that this process relays calls of."""

    relayed: RelayedRun
    actor: str
    last_used: float
    requests: int = 0


@dataclass(slots=True)
class TenantGateway:
    """The gateway of one ledger: its providers, and the runs that this process has open."""

    tenant: Tenant
    settings: GatewaySettings
    relay: Relay
    runs: dict[tuple[str, str], ServedRun] = field(default_factory=dict)
    in_flight: CallsInFlight = field(default_factory=CallsInFlight)
    file: "OpenRunsFile | None" = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find_run(self, actor: str, label: str, trace: str) -> ServedRun:
        """Return the open run of a key and a label, or open it."""
        async with self.lock:
            served = self.runs.get((actor, label))
            if served is None:
                own = sum(1 for key, _ in self.runs if key == actor)
                if len(self.runs) >= MAX_OPEN_RUNS or own >= MAX_KEY_RUNS:
                    why = (
                        f"more than {MAX_KEY_RUNS} runs of a key, or {MAX_OPEN_RUNS} of the "
                        "ledger, would be open. Name fewer by Forum-Run."
                    )
                    raise CallRefused(RefusalReason.STOPPED, why)
                served = await asyncio.to_thread(self._open_run, actor, label, trace)
                self.runs[actor, label] = served
            served.last_used, served.requests = monotonic(), served.requests + 1
            return served

    def _open_run(self, actor: str, label: str, trace: str) -> ServedRun:
        forum, limits = self.tenant.forum, self._limits()
        if self.file is None:
            self.file = forum.log.open_calls_file()
        run = new_run_id()
        # Named in the file first: a crash after the next line leaves a run that is found there.
        self.file.add(run)
        source = ReportSourceFacts(
            told=ReportProvenance.RELAYED,
            by=actor,
            trace=trace,
            **limits.cap._asdict(),
        )
        shared = find_actor_caps(forum, actor, label.partition("run:")[2])
        try:
            writer = shared.open_run(run, actor, label.partition(":")[2] or actor, source)
        except SpendingFrozen as error:
            raise CallRefused(RefusalReason.FROZEN, f"{error}.") from None
        relayed = RelayedRun(
            writer, limits, self.file.new_span, shared=shared, in_flight=self.in_flight
        )
        return ServedRun(relayed, actor, monotonic())

    def _limits(self) -> RunLimits:
        return RunLimits(
            cap=self.settings.cap,
            allowed=self.settings.allowed,
            untouched=self.settings.untouched,
            max_repeats=self.settings.max_repeats,
            is_served=True,
        )

    async def close_quiet_runs(self) -> None:
        """Close the runs without a call for the quiet period, again and again."""
        while True:
            await asyncio.sleep(min(_CHECK_INTERVAL_S, self.settings.quiet_seconds))
            if self.runs:
                # The last calls may be worth an alert; nothing is lost if this fails.
                with suppress(StoreFailed):
                    await asyncio.to_thread(self.tenant.forum.runs.budgets.refresh)
            due = monotonic() - self.settings.quiet_seconds
            for key, served in tuple(self.runs.items()):
                if served.last_used < due and not served.requests:
                    del self.runs[key]
                    # The file keeps the run: if this fails, the next process closes it.
                    with suppress(StoreFailed):
                        await self._close_run(served)

    async def close(self) -> None:
        """Let calls end, settle the others in full, and close all runs."""
        runs, self.runs = tuple(self.runs.values()), {}
        for served in runs:
            served.relayed.stop("the server is stopping")
        closed = await asyncio.gather(
            *(self._close_run(served) for served in runs), return_exceptions=True
        )
        for error in filter(None, closed):
            LOG.error("a run of the gateway was not closed: %s", format_error_line(error))
        if self.file is not None:
            if any(closed):
                self.file.abandon()
            else:
                self.file.close()

    async def _close_run(self, served: ServedRun) -> None:
        relayed = served.relayed
        await relayed.drain(_DRAIN_SECONDS)
        if relayed.open_calls:
            raise StoreFailed("settling", f"{relayed.open_calls} calls have no outcome yet")
        outcome = Outcome.DENIED if relayed.has_overrun else Outcome.OK
        ledger = self.tenant.forum.ledger
        await asyncio.to_thread(close_reported_run, ledger, relayed.run, served.actor, outcome)


class GatewayExtension(ServerExtension):
    """The gateway's endpoints; a key needs the scope `report`."""

    def __init__(self, config: ServerConfig) -> None:
        self._gateways: dict[int, TenantGateway] = {}
        for index, tenant in enumerate(config.desks):
            # The first is the project of the operator, to whom the environment belongs.
            bound = bind_tenant(tenant.forum.settings) if index else tenant.forum.settings
            settings = read_gateway_settings(bound, os.environ)
            relay = Relay(settings.addresses, settings.prices, now, settings.routes)
            self._gateways[id(tenant)] = TenantGateway(tenant, settings, relay)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Hold connections to the providers open, and close runs in the end."""
        async with AsyncExitStack() as stack:
            for gateway in self._gateways.values():
                await stack.enter_async_context(gateway.relay.open())
                stack.push_async_callback(gateway.close)
                closing = asyncio.create_task(gateway.close_quiet_runs())
                stack.callback(closing.cancel)
            yield

    def endpoints(self, authenticator: Authenticator) -> Sequence[Endpoint]:  # noqa: ARG002  as in the protocol
        """Return one endpoint for each provider and method."""
        return tuple(
            self._endpoint(provider, prefix, method)
            for provider, prefix in PREFIXES.items()
            for method in _METHODS
        )

    def _endpoint(self, provider: ApiProvider, prefix: str, method: str) -> Endpoint:
        async def handle(context: RequestContext) -> Response:
            gateway = self._gateways[id(context.tenant)]
            return _RelayedResponse(gateway, context, provider, prefix)

        return Endpoint(
            method,
            path=f"{prefix}/{{rest:path}}",
            name=f"gateway_{provider}_{method.lower()}",
            scopes=frozenset({Scope.REPORT}),
            summary="Relay a call to the provider, under the caps of the key",
            handle=handle,
            query=GatewayQuery,
            max_bytes=MAX_CALL_BYTES,
            seconds=_REQUEST_SECONDS,
            voice=lambda error, _path: _error_response(provider, error),
        )


class _RelayedResponse(LateResponse):
    """A response that the relay writes, with the headers that every response has."""

    def __init__(
        self, gateway: TenantGateway, context: RequestContext, provider: ApiProvider, prefix: str
    ) -> None:
        self.status_code, self.background = 200, None
        self.raw_headers = []
        self._gateway, self._context = gateway, context
        self._provider, self._prefix = provider, prefix

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Relay the request to the provider, and count it with its status and its whole time."""
        self.status_code = 499  # unless a reply begins
        try:
            await self._relay(scope, receive, send)
        finally:
            self.report_status(self.status_code)

    async def _relay(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status_code = message["status"]
                # This server writes a date of its own.
                theirs = [pair for pair in message["headers"] if pair[0] != b"date"]
                message = {**message, "headers": [*theirs, *self.raw_headers]}
            await send(message)

        path = bytes(scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        # The very key by which the client was let in, whatever else it shows.
        key = (bearer_token(self._context.request) or "").encode("latin-1")
        request = GatewayRequest(
            scope=scope,
            receive=replay_body(self._context.raw, receive),
            send=pass_on,
            provider=self._provider,
            # A prefix that is written with escapes is no prefix: such a path is refused.
            path=path.removeprefix(self._prefix) if path.startswith(self._prefix) else "",
            token=key,
        )
        if await refuse_upgrade(request):
            return
        settings = self._gateway.settings
        # The credential of the client is a key of Forum's, which no provider may see.
        request.keyless = settings.find_keyless(self._provider)
        if request.keyless and not settings.has_route(self._provider):
            await send_refusal(request, CallRefused(RefusalReason.NO_KEY, request.keyless))
            return
        label, trace = _run_label(self._context)
        try:
            served = await self._gateway.find_run(self._context.principal.name, label, trace)
        except Exception as error:  # noqa: BLE001  told to the client, and to the operator
            LOG.error("the gateway cannot open a run: %s", format_error_line(error))
            await _error_response(self._provider, error)(scope, receive, pass_on)
            return
        try:
            await self._gateway.relay.handle(request, served.relayed)
        finally:
            served.requests -= 1
            served.last_used = monotonic()


def _run_label(context: RequestContext) -> tuple[str, str]:
    """Return what tells a run of a key from its others, and the id of its trace."""
    trace = _TRACE(context.request.headers.get("traceparent", ""))
    trace_id = trace[1] if trace else ""
    named = context.request.headers.get("forum-run", "").strip()[:_MAX_RUN_LABEL]
    if named:
        return f"run:{named}", trace_id
    return (f"trace:{trace_id}" if trace_id else ""), trace_id


def _error_response(provider: ApiProvider, error: Exception) -> Response:
    """Return an error of the server in the form of the provider."""
    problem = problem_from_exception(error)
    status, code = problem.problem.status, problem.problem.name.lower()
    message = f"Forum: {problem.detail or problem.problem.title}"
    if isinstance(error, CallRefused):
        status, code = error.status, error.reason.value
        message = f"Forum: {error.message}"
    elif problem.problem is ProblemType.FORBIDDEN:
        message += ". Create a key with: forum keys create --name NAME --scope report"
    headers = dict(problem.headers)
    if status < 500 and status != ProblemType.TOO_FAST.status:
        headers["x-should-retry"] = "false"
    body = error_body(provider, status, f"forum_{code}", message)
    return Response(body, status, headers, "application/json")
