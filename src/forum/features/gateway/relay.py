"""Relay one call: reserve, record, call the provider, pass its reply on, record, settle.

The order is what the caps rest on.  A call is made only after its reservation is durable, so a
gateway that is killed at any moment has recorded every call that it made.  It makes each call once;
an attempt at another upstream is a call of its own, with a record and a reservation of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from time import monotonic
from types import MappingProxyType
from typing import Final, TypeVar

import httpx2
import msgspec
from starlette.types import Message, Receive, Scope, Send

from forum import errors
from forum.features.gateway import (
    attempts,
    refusals,
    reply_reader,
    routes,
    sent_parts,
    upstream,
)
from forum.features.gateway.call_plan import CallPlan, PriceBook, plan_call
from forum.features.gateway.call_reader import read_call_by_size, read_model
from forum.features.gateway.composed_body import JSON_TYPE, check_media
from forum.features.gateway.conversations import ConversationKey, conversation_key
from forum.features.gateway.relayed_run import CapsChanged, RelayedRun
from forum.features.gateway.request_reader import ReadRequest
from forum.features.gateway.reservations import OpenCall
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount, Clock
from forum.ledger.strand import Attachment
from forum.limits.admission import MAX_CALL_BYTES, collect_body
from forum.limits.off_loop import read_by_size, run_by_size
from forum.models.prices import Price
from forum.runs import report_drafts, report_kinds
from forum.runs.strict_json import show_name

T = TypeVar("T")
MAX_CALL_SECONDS: Final = 3600.0
LEFT_SECONDS: Final = 120.0
"""How long the rest of a reply is read for a client that has left; then it is settled in full."""
MAX_CONNECTIONS: Final = 512
# After these the provider may have made the call: a proxy before it gave up, not the model.
_BILLED_STATUSES: Final = frozenset({408, 409, 499, 502, 504, *range(520, 528)})
_FAILURES: Final = frozenset({"timeout", "connect", "cut"})
"""Codes of calls that an upstream did not answer, or not to the end."""
_NO_ADDRESS: Final = (
    "the gateway has no address of Azure. Set AZURE_OPENAI_ENDPOINT, or azure_url in [gateway] of "
    "forum.toml."
)
_MIN_CREDENTIAL_BYTES: Final = 8
_COST_HEADER: Final = "x-litellm-response-cost"
_HIDDEN: Final = b"[credential of the client]"
_MAX_TOKENS: Final = NO_LIMIT // 4
"""The most tokens that are believed of a reply: an entry holds no larger number."""


@dataclass(slots=True)
class GatewayRequest:
    """A request of a client, with what is needed to answer it."""

    scope: Scope
    receive: Receive
    send: Send
    provider: routes.ApiProvider
    path: str
    """The path after the provider's base URL, undecoded."""
    token: bytes = field(default=b"", repr=False)
    """The run's credential, which is removed from the headers."""
    keyless: str = ""
    """Why a server makes no call at the provider's own address; empty if it does."""
    take_bytes: Callable[[int], None] = lambda _: None
    """Counts the bytes of the body that are held; a server has counted them before."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return str(self.scope["method"])

    @property
    def credentials(self) -> list[tuple[bytes, bytes]]:
        """The credentials that the client shows, as headers."""
        return sent_parts.find_credentials(
            self.provider, self.scope["headers"], self.scope.get("query_string", b"")
        )

    def hide_credential(self, content: bytes) -> bytes:
        """Return content without the client's own credentials, which a provider may echo."""
        shown = (sent_parts.bare_credential(value) for _, value in self.credentials)
        for secret in (self.token, *shown):
            if len(secret) >= _MIN_CREDENTIAL_BYTES:
                content = content.replace(secret, _HIDDEN)
        return content

    def header(self, name: bytes) -> str:
        """Return the headers of a name, separated by commas, or an empty string."""
        values = (bytes(value) for key, value in self.scope["headers"] if key.lower() == name)
        return b", ".join(values).decode("latin-1").strip()


class ClientLeft(Exception):
    """Raised when a client leaves before its request is complete."""


@dataclass(slots=True)
class _CallResult:
    """What came of a call, for the record."""

    outcome: Outcome = Outcome.OK
    code: str = ""
    status: int = 0
    media_type: str = JSON_TYPE
    kept: bytearray = field(default_factory=bytearray)
    size: int = 0
    may_be_billed: bool = True
    is_whole: bool = False
    is_retryable: bool = False
    """Whether nothing was passed on, and another upstream is to be tried."""
    stated_usd: int | None = 0
    """The cost that a header of the reply states, in nano-dollars; None if it is unreadable."""

    def keep(self, chunk: bytes) -> None:
        """Keep the beginning of a reply, and count the rest."""
        self.size += len(chunk)
        if len(self.kept) < report_drafts.MAX_BODY_BYTES:
            self.kept += chunk[: report_drafts.MAX_BODY_BYTES - len(self.kept)]


class Relay:
    """Relays calls to the providers, for any number of runs, on one event loop."""

    def __init__(
        self,
        addresses: Sequence[upstream.ProviderAddress],
        prices: PriceBook,
        clock: Clock,
        model_routes: Mapping[str, attempts.ModelRoute] = MappingProxyType({}),
    ) -> None:
        self.health = attempts.UpstreamHealth()
        self._clock, self._routes = clock, model_routes
        self._targets = {each.provider: attempts.CallTarget(each, prices) for each in addresses}
        listed = (target.address for route in model_routes.values() for target in route.targets)
        self._addresses = {address.name: address for address in (*addresses, *listed)}
        self.secrets = tuple(address.secret for address in self._addresses.values())
        self._clients: dict[str, httpx2.AsyncClient] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the connections to the providers open."""
        self._clients = {
            name: upstream.make_client(address, MAX_CONNECTIONS)
            for name, address in self._addresses.items()
        }
        try:
            yield
        finally:
            for client in self._clients.values():
                await client.aclose()

    async def handle(self, request: GatewayRequest, run: RelayedRun) -> None:
        """Relay one request.  The call is settled even if the server cancels the request."""
        try:
            body = await read_body(request)
        except ClientLeft:
            return
        except refusals.CallRefused as refusal:
            await send_refusal(request, refusal)
            return
        except (errors.ShareExceeded, errors.ProcessFull) as error:
            await send_busy(request, error)
            return
        # A task of its own: when the server stops, it cancels the tasks of requests, and the
        # outcome of a call must be recorded all the same.
        await asyncio.shield(run.start(self._relay(request, body, run)))

    async def _relay(self, request: GatewayRequest, body: bytes, run: RelayedRun) -> None:
        path = routes.own_path(request.provider, request.path)
        route = routes.find_route(request.provider, request.method, path)
        http_exchange = _Exchange(
            relay=self, request=request, route=route, run=run, span=run.new_span(),
            began=self._clock(), target=self._targets[request.provider],
        )  # fmt: skip
        watch = asyncio.create_task(http_exchange.watch_client())
        try:
            reading = self._read(http_exchange, body)
            read = await http_exchange.answer_errors(body, reading)
            if read is None:
                return
            model_route = self._find_route(http_exchange, read)
            if model_route is None:
                await self._attempt(http_exchange, read, body)
                return
            targets = self.health.order(model_route.targets)
            for number, target in enumerate(targets, 1):
                wait = model_route.first_byte_s if number < len(targets) else None
                http_exchange.aim(target, self._clock(), wait)
                if not await self._attempt(http_exchange, read, body):
                    return
        finally:
            watch.cancel()

    async def _read(self, http_exchange: "_Exchange", body: bytes) -> ReadRequest | None:
        """Return a request that has a price; None if it was made because it is free."""
        await http_exchange.run.check_spending()
        _check_plain(http_exchange.request.path)
        read = await http_exchange.read_parts(body)
        if http_exchange.route.operation is not routes.ApiOperation.FREE:
            return read
        if model_route := self._find_route(http_exchange, read):
            # What is counted has the prompt, which goes to no provider but those of its route.
            target = self.health.order(model_route.targets)[0]
            http_exchange.aim(target, self._clock(), None)
        await http_exchange.make_free_call(http_exchange.plan(read))
        return None

    def _find_route(
        self, http_exchange: "_Exchange", read: ReadRequest
    ) -> attempts.ModelRoute | None:
        """Return the route by the name that a request gives as its model, if there is one."""
        model_route = self._routes.get(read.model)
        if model_route and model_route.provider is http_exchange.request.provider:
            return model_route
        return None

    async def _attempt(self, http_exchange: "_Exchange", read: ReadRequest, body: bytes) -> bool:
        """Make a call at one upstream; return whether the next one is to be tried."""
        begun = await http_exchange.answer_errors(body, self._reserve(http_exchange, read))
        return begun is not None and await http_exchange.make_call(*begun)

    async def _reserve(
        self, http_exchange: "_Exchange", read: ReadRequest
    ) -> tuple[CallPlan, OpenCall]:
        size, revision = len(read.body), http_exchange.run.caps_revision
        plan = await run_by_size(size, partial(http_exchange.plan, read))
        await http_exchange.count_once(read)
        return await self._begin(http_exchange, plan, revision)

    async def _begin(
        self, http_exchange: "_Exchange", plan: CallPlan, revision: int
    ) -> tuple[CallPlan, OpenCall]:
        """Reserve and record a call; with a lower output limit if it only fits with one."""
        run, size = http_exchange.run, len(plan.body)
        try:
            bodies = await run_by_size(size, partial(http_exchange.begin_bodies, plan))
            return plan, await run.begin(http_exchange.begin_facts(plan), bodies, revision)
        except refusals.CallRefused as refusal:
            if refusal.left is None:
                raise
            planned = partial(http_exchange.plan, plan.request, shared_left=refusal.left)
            lowered = await run_by_size(size, planned)
            if lowered.amount == plan.amount:
                raise
            altered = dict.fromkeys((*plan.altered, *lowered.altered))
            plan = replace(lowered, altered=tuple(altered))
        bodies = await run_by_size(size, partial(http_exchange.begin_bodies, plan))
        return plan, await run.begin(http_exchange.begin_facts(plan), bodies, revision)

    def client_for(self, address: upstream.ProviderAddress) -> httpx2.AsyncClient:
        """Return the open client of an upstream."""
        return self._clients[address.name]

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return self._clock()


@dataclass(slots=True)
class _Exchange:
    """One request and its reply."""

    relay: Relay
    request: GatewayRequest
    route: routes.ApiRoute
    run: RelayedRun
    span: str
    began: int
    target: attempts.CallTarget
    first_byte_s: float | None = None
    """How long the upstream may send nothing, if another one is tried after it."""
    first_byte: asyncio.Timeout | None = None
    started: float = field(default_factory=monotonic)
    is_counted: bool = False
    has_answered: bool = False
    has_left: bool = False
    limit: asyncio.Timeout | None = None
    """The time limit of the call, once it is made."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers that are sent, beside credentials."""
    query: dict[str, str] = field(default_factory=dict)
    """The members of the query that are sent."""
    media_type: str = JSON_TYPE
    """The type of the body that is sent."""

    def aim(self, target: attempts.CallTarget, began: int, first_byte_s: float | None) -> None:
        """Make the next attempt, at an upstream, a call of its own."""
        if self.target is not target:
            self.span = self.run.new_span()
            self.began, self.started = began, monotonic()
        self.target, self.limit = target, None
        self.first_byte_s = first_byte_s

    @property
    def may_go_on(self) -> bool:
        """Whether another upstream is tried if this one fails."""
        is_wanted = not self.has_left and not self.run.stop_reason
        return self.first_byte_s is not None and is_wanted and not self.has_answered

    def plan(self, read: ReadRequest, shared_left: Amount | None = None) -> CallPlan:
        """Return the plan of a call at the upstream.  Raises `CallRefused`.

        With `shared_left` it was planned before, and is bounded.
        """
        address = self.target.address
        why = self.request.keyless if address.url else _NO_ADDRESS
        if why and not address.upstream:
            raise refusals.CallRefused(refusals.RefusalReason.NO_KEY, why)
        bounded = self.bound_input(read) if shared_left is None else read
        plan = plan_call(
            self.route, self.target.prepare(bounded), self.run, self.target.prices, url=address.url,
            free=address.is_free, shared_left=shared_left,
        )  # fmt: skip
        return self.target.mark(plan, read.model)

    async def count_once(self, read: ReadRequest) -> None:
        """Count a request, however often it is tried.  Raises `CallRefused` for a loop."""
        if not self.is_counted:
            self.is_counted = True
            digest = await run_by_size(len(read.body), partial(self.digest, read))
            self.run.check_repeats(digest)

    async def answer_errors(self, body: bytes, work: Awaitable[T]) -> T | None:
        """Return what comes of work before a call; answer what it raises, and return None then."""
        try:
            return await work
        except refusals.CallRefused as refusal:
            await self.refuse(refusal, body)
        except errors.WorkerLost as error:
            await self.send_error(503, "busy", str(error))
        except CapsChanged:
            await self.send_error(503, "busy", "a cap was set just now; try again")
        except errors.ForumError:
            # Nothing was sent.  The SDKs try again after this status, which is right here.
            await self.send_error(503, "ledger", "the ledger cannot be written now")
            raise
        return None

    async def read_parts(self, body: bytes) -> ReadRequest:
        """Compose what is sent.  Raises `CallRefused` for what is not passed on, `WorkerLost`."""
        request, allowed = self.request, self.run.limits.allowed_names
        received, token = request.scope["headers"], request.token
        sent_parts.check_path(self.route, request.method, allowed)
        self.query = sent_parts.compose_query(
            request.scope.get("query_string", b""), self.route, request.method, allowed, token=token
        )
        self.headers = sent_parts.compose_headers(received, allowed, token)
        encoding = request.header(b"content-encoding")
        media_type = check_media(request.header(b"content-type"), encoding)
        if not body or request.method in ("GET", "HEAD"):
            if body or self.route.is_priced:
                why = "the body of a GET is refused." if body else "the request has no body."
                raise refusals.CallRefused(refusals.RefusalReason.MALFORMED, why)
            return ReadRequest(model="", input_tokens=0, output_limit=None)
        if self.route.operation is routes.ApiOperation.UNKNOWN and not _is_json(media_type):
            # The operator has allowed the path, whose bodies nobody checks: a file, for example.
            self.media_type = request.header(b"content-type")
            return ReadRequest(model="", input_tokens=0, output_limit=None, body=body)
        return await read_call_by_size(self.route, body)

    @property
    def conversation(self) -> ConversationKey:
        """Where the conversation of the request is held."""
        target = self.route.path + sent_parts.encode_query(self.query)
        upstream_model = f"{self.target.address.url} {self.target.model}"
        return conversation_key(upstream_model, target, self.headers)

    def bound_input(self, read: ReadRequest) -> ReadRequest:
        """Return the request with a lower bound of its input, if an earlier call gives one."""
        if not read.turns or not self.run.caps_tokens:
            return read
        return self.run.conversations.bound(self.conversation, read)

    def digest(self, read: ReadRequest) -> bytes:
        """Return a digest that is equal for the very same request."""
        target = self.route.path + sent_parts.encode_query(self.query)
        return sha256(target.encode() + b"\n" + read.body).digest()

    def _sent_parts(self) -> dict[str, object]:
        """Return what is sent beside the body, for the record, without credentials."""
        parts: dict[str, object] = {"path": self.route.path, "method": self.request.method}
        if self.query:
            parts["query"] = self._hide_values(self.query)
        if self.headers:
            parts["headers"] = self._hide_values(self.headers)
        return parts

    def _hide_values(self, members: dict[str, str]) -> dict[str, str]:
        hide = self.request.hide_credential
        return {name: hide(value.encode()).decode() for name, value in members.items()}

    def begin_facts(self, plan: CallPlan) -> report_kinds.ReportBeginFacts:
        """Return the facts of the entry before the call."""
        model = plan.request.model
        return report_kinds.ReportBeginFacts(
            op=report_kinds.Operation.MODEL,
            name=self._label(model),
            span=self.span,
            within=self.run.within,
            model=report_kinds.derive_name(model or "", report_kinds.A_MODEL),
            provider=self.target.address.name,
            usd=plan.amount.usd,
            tokens=plan.amount.tokens,
            calls=plan.amount.calls,
            prices=plan.price_id,
            altered=plan.altered,
            cut=max(0, len(plan.body) - report_drafts.MAX_BODY_BYTES),
        )

    def begin_bodies(self, plan: CallPlan) -> list[Attachment]:
        """Return the bodies of the entry before the call: the request as it is sent."""
        kept, _ = self._request_body(plan.body, self.media_type)
        named = _json_body("attributes", self._sent_parts())
        return [kept, named, *self._names(plan.request.model or "")]

    async def refuse(self, refusal: refusals.CallRefused, body: bytes) -> None:
        """Record a refusal, then answer with it."""
        received_as = partial(self._request_body, body, self.request.header(b"content-type"))
        kept, cut = await run_by_size(len(body), received_as)
        model = self.route.model
        if not model:
            with suppress(errors.BodyTooExpensive, errors.WorkerLost):
                model = await read_by_size(read_model, body, None)
        facts = report_kinds.ReportStepFacts(
            op=report_kinds.Operation.MODEL,
            name=self._label(model),
            model=report_kinds.derive_name(model or "", report_kinds.A_MODEL),
            outcome=Outcome.DENIED,
            span=self.span,
            within=self.run.within,
            began=self.began,
            micros=self._micros(),
            provider=self.target.address.name,
            code=refusal.reason.value,
            cut=cut,
        )
        error = Attachment("error", BytesContent(refusal.message.encode(errors="replace")))
        named = {"path": show_name(self.route.path), "method": self.request.method}
        bodies = [kept, error, _json_body("attributes", named), *self._names(model)]
        await self.run.record_refusal(facts, bodies)
        await send_refusal(self.request, refusal)

    async def make_free_call(self, plan: CallPlan) -> None:
        """Make a call that costs nothing, and record it afterwards."""
        result, reader = await self._call(plan)
        sent_as = partial(self._request_body, plan.body, self.media_type)
        kept, cut = await run_by_size(len(plan.body), sent_as)
        facts = report_kinds.ReportStepFacts(
            op=report_kinds.Operation.STEP,
            name=self._label(""),
            outcome=result.outcome,
            span=self.span,
            within=self.run.within,
            began=self.began,
            micros=self._micros(),
            provider=self.target.address.name,
            code=result.code,
            cut=cut + result.size - len(result.kept),
        )
        bodies = self._reply_bodies(result, reader, self._sent_parts())
        await self.run.writer.record(facts, [kept, *bodies])

    async def make_call(self, plan: CallPlan, call: OpenCall) -> bool:
        """Make the call and settle it, with its whole reservation if its cost is not known.

        Return whether another upstream is to be tried.
        """
        result, reader = _CallResult(Outcome.INDETERMINATE, "fault"), None
        try:
            if self.has_left:  # while the call waited for its reservation: nobody wants the reply
                result = _CallResult(Outcome.CANCELLED, "client-left", may_be_billed=False)
            elif self._is_stopped(call):  # since the call was recorded: it is not made
                result = _CallResult(Outcome.CANCELLED, "stopped", may_be_billed=False)
                await self._tell_stopped(call)
            else:
                self.relay.health.begin(self.target.address.name)
                result, reader = await self._call(plan, call)
        finally:
            self.relay.health.end(self.target.address.name, failed=self._has_failed(result))
            facts = self._step_facts(plan, call, result, reader)
            self._remember_input(plan, result, facts)
            if reader is not None:
                self.run.counters.tools.update(reader.tools)
            bodies = await run_by_size(result.size, partial(self._reply_bodies, result, reader))
            await self.run.settle(call, facts, bodies)
        return result.is_retryable

    def _remember_input(
        self, plan: CallPlan, result: _CallResult, facts: report_kinds.ReportStepFacts
    ) -> None:
        """Keep what the provider has read, if a whole reply told it: then there is no code."""
        is_told = result.is_whole and facts.outcome is Outcome.OK and not facts.code
        if is_told and facts.input_tokens and self.run.caps_tokens:
            memory = self.run.conversations
            memory.remember(self.conversation, plan.request, facts.input_tokens)

    def _step_facts(
        self,
        plan: CallPlan,
        call: OpenCall,
        result: _CallResult,
        reader: reply_reader.ReplyReader | None,
    ) -> report_kinds.ReportStepFacts:
        read, written = 0, 0
        usd, code = 0, result.code
        tokens = reader.tokens if reader is not None else None
        price, is_other = self._judge_model(plan, reader)
        # A cost that cannot be read is believed to be the highest one.
        costs = (result.stated_usd, reader.stated_usd if reader is not None else 0)
        stated = max(call.facts.usd if cost is None else cost for cost in costs)
        if tokens is not None:
            billed, hour = tokens
            read, written = min(billed.input, _MAX_TOKENS), min(billed.output, _MAX_TOKENS)
            usd = max(price.cost(billed, hour) if price else 0, stated)
            # Before any other code: a bill above the bound stops the run, however the call ended.
            is_over = self._is_overrun(plan, call, usd, read + written, reader=reader)
            if is_over or (is_other and self.run.caps_cost and not plan.is_unbounded):
                usd, code = max(usd, call.facts.usd), report_drafts.OVERRUN
        elif result.may_be_billed:
            # The provider does not tell what the call cost, so all that was reserved is spent.
            usd, read = call.facts.usd, call.facts.tokens
            code = code or "no-usage"
            seen = reader.seen_tokens if reader is not None else None
            billed_so_far = max(price.cost(*seen) if seen and price else 0, stated)
            if self.run.caps_cost and billed_so_far > usd:
                usd, code = billed_so_far, report_drafts.OVERRUN
        return report_kinds.copy_fields(
            report_kinds.ReportStepFacts,
            call.facts,
            outcome=result.outcome,
            began=self.began,
            micros=self._micros(),
            input_tokens=read,
            output_tokens=written,
            usd=usd,
            code=code,
            cut=result.size - len(result.kept),
        )

    def _judge_model(
        self, plan: CallPlan, reader: reply_reader.ReplyReader | None
    ) -> tuple[Price | None, bool]:
        """Return the price by the model that the reply names, and whether it is another one."""
        if reader is None or plan.is_free:
            return plan.price, False
        prices, url = self.target.prices, self.target.address.url
        return prices.judge_reply(plan.price, plan.request.model, reader.model, url)

    def _is_overrun(
        self,
        plan: CallPlan,
        call: OpenCall,
        usd: int,
        tokens: int,
        reader: reply_reader.ReplyReader | None,
    ) -> bool:
        """Return whether a bill is above the bound, and above the cap if there is no bound."""
        run, bound = self.run, call.facts
        spare = Amount(*(max(0, part) for part in run.left)) if plan.is_unbounded else Amount()
        if report_drafts.find_overrun(bound.reserved.plus(spare), Amount(usd, tokens), run.limited):
            return True
        dear = reader is not None and reader.has_unpriced_tokens and bound.usd > 0
        return dear and run.caps_cost and not plan.is_unbounded

    async def _call(
        self, plan: CallPlan, call: OpenCall | None = None
    ) -> tuple[_CallResult, reply_reader.ReplyReader | None]:
        """Send the request once and pass the reply on; report failures in the result."""
        result, reader = _CallResult(), None
        address = self.target.address
        try:
            async with (
                self.run.limit_time(MAX_CALL_SECONDS) as limit,
                asyncio.timeout(self.first_byte_s) as first_byte,
            ):
                self.limit = limit
                if call is not None:
                    call.limit = limit
                self._limit_rest()
                self.first_byte = first_byte
                response = await self.relay.client_for(address).send(
                    self._provider_request(plan, address), stream=True
                )
                try:
                    result.status = response.status_code
                    result.media_type = _media_type(response)
                    result.stated_usd = reply_reader.read_dollars(
                        response.headers.get(_COST_HEADER, "")
                    )
                    reader = reply_reader.ReplyReader(
                        self.route.operation,
                        streams=result.media_type == "text/event-stream",
                    )
                    if self.may_go_on and result.status in attempts.RETRIED_STATUSES:
                        await self._keep_failure(response, result)
                    else:
                        await self._pass_reply(response, plan, result, reader)
                finally:
                    await response.aclose()
        except TimeoutError:
            if self._is_stopped(call):
                # Another call of the run, or under the same cap, was billed above its bound.
                result.outcome, result.code = Outcome.CANCELLED, "stopped"
                await self._tell_stopped(call)
            else:
                result.outcome, result.code = Outcome.TIMEOUT, "timeout"
                why = "the provider did not answer in time"
                await self._fail(result, 504, why)
        except (
            httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.InvalidURL,
            httpx2.UnsupportedProtocol,
        ) as error:  # fmt: skip
            # No connection was made, so nothing was sent and nothing can be billed.
            result.outcome, result.code = Outcome.FAILED, "connect"
            result.may_be_billed = False
            why = f"the provider cannot be reached ({type(error).__name__})"
            await self._fail(result, 502, why)
        except httpx2.HTTPError as error:
            result.outcome, result.code = Outcome.FAILED, "cut"
            why = f"the connection to the provider broke ({type(error).__name__})"
            await self._fail(result, 502, why)
        if reader is not None and result.is_whole:
            await run_by_size(result.size, reader.finish)
        self._judge(result, reader)
        return result, reader

    async def _fail(self, result: _CallResult, status: int, why: str) -> None:
        """Tell the client of a failure, unless another upstream is tried."""
        result.is_retryable = self.may_go_on
        if not result.is_retryable:
            await self.send_error(status, result.code, why)

    async def _keep_failure(self, response: httpx2.Response, result: _CallResult) -> None:
        """Keep the reply of an upstream that failed, for the record."""
        result.is_retryable = True
        keys = reply_reader.SecretHider(self.relay.secrets)
        async for chunk in response.aiter_bytes():
            result.keep(keys.pass_on(chunk))
        result.keep(keys.finish())

    def _is_stopped(self, call: OpenCall | None) -> bool:
        return self.run.has_overrun or (call is not None and call.is_ended)

    async def _tell_stopped(self, call: OpenCall | None) -> None:
        why = f"the run was stopped: {self.run.stop_reason}"
        if not self.run.has_overrun and call is not None:
            why = call.end_reason
        await self.send_error(402, "stopped", why)

    def _has_failed(self, result: _CallResult) -> bool | None:
        """Return whether the upstream failed; None if the call says nothing of it."""
        if self.has_left or result.code in ("stopped", "client-left", "fault"):
            return None
        return result.code in _FAILURES or result.status in attempts.RETRIED_STATUSES

    def _judge(self, result: _CallResult, reader: reply_reader.ReplyReader | None) -> None:
        """Decide the outcome of a reply, and whether the provider may bill it."""
        if result.status >= 400:
            result.outcome, result.code = Outcome.FAILED, f"http-{result.status}"
            result.may_be_billed = result.status in _BILLED_STATUSES
        elif 300 <= result.status < 400:
            result.may_be_billed = False
        elif reader is not None and reader.has_error and result.outcome is Outcome.OK:
            result.outcome, result.code = Outcome.FAILED, "provider"

    async def _pass_reply(
        self,
        response: httpx2.Response,
        plan: CallPlan,
        result: _CallResult,
        reader: reply_reader.ReplyReader,
    ) -> None:
        """Pass each piece on before it is read here: a stream is not held up."""
        hider = None
        if plan.hides_usage and result.media_type == "text/event-stream":
            hider = reply_reader.UsageHider()
        keys = reply_reader.SecretHider(self.relay.secrets)
        # A reply that is compressed all the same is passed on plain: keys are looked for in it.
        is_packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        headers = upstream.reply_headers(
            response.headers.raw, altered=hider is not None or is_packed
        )
        headers = [(name, keys.hide(value)) for name, value in headers]
        if is_packed:
            headers = [pair for pair in headers if pair[0] != b"content-encoding"]
        headers.append((b"forum-run", self.run.run.encode()))
        headers += self.run.left_headers()
        chunks: AsyncIterator[bytes]
        chunks = response.aiter_bytes() if is_packed else response.aiter_raw()
        if self.may_go_on:
            # A reply that breaks off before its first byte was not passed on.
            chunks = _prepend(await anext(chunks, b""), chunks)
        if self.first_byte is not None:
            self.first_byte.reschedule(None)
        self.has_answered = True
        await self._send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        async for raw in chunks:
            chunk = keys.pass_on(raw)
            shown = hider.pass_on(chunk) if hider is not None else chunk
            if shown:
                await self._send({"type": "http.response.body", "body": shown, "more_body": True})
            result.keep(chunk)
            reader.feed(chunk)
        last = keys.finish()
        result.keep(last)
        reader.feed(last)
        result.is_whole = True
        if hider is not None:
            last = hider.pass_on(last) + hider.finish()
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def _provider_request(
        self, plan: CallPlan, address: upstream.ProviderAddress
    ) -> httpx2.Request:
        url = address.url + self.route.path + sent_parts.encode_query(self.query)
        headers = upstream.request_headers(
            # What the client shows is for the provider of its API, and for no other upstream.
            self.headers,
            () if address.upstream else self.request.credentials,
            address,
            self.request.token,
        )
        if plan.body:
            headers.append((b"content-type", self.media_type.encode("latin-1")))
        # Not built by the client, which would add headers of its own.
        return httpx2.Request(self.request.method, url, headers=headers, content=plan.body or None)

    async def watch_client(self) -> None:
        """Note when the client leaves, and limit the rest of its call."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self._limit_rest()

    def _limit_rest(self) -> None:
        """Limit the rest of a call whose client has left."""
        if self.limit is None or not self.has_left:
            return
        moment = asyncio.get_running_loop().time() + LEFT_SECONDS
        due = self.limit.when()
        self.limit.reschedule(moment if due is None else min(due, moment))

    async def send_error(self, status: int, code: str, message: str) -> None:
        """Tell the client of a failure; one whose reply has begun sees the connection close."""
        if self.has_answered:
            return
        self.has_answered = True
        body = refusals.error_body(
            self.route.provider, status, f"forum_{code}", f"Forum: {message}"
        )
        await send_body(self._send, status, body, refusals.JSON_HEADERS)

    async def _send(self, message: Message) -> None:
        if self.has_left:
            return
        try:
            await self.request.send(message)
        except OSError:
            self.has_left = True

    def _reply_bodies(
        self,
        result: _CallResult,
        reader: reply_reader.ReplyReader | None,
        sent: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Attachment]:
        members: dict[str, object] = {**sent, "status": result.status}
        if reader is not None and reader.tools:
            members["tools"] = reply_reader.count_names(reader.tools)
        if reader is not None and reader.model:
            members["model"] = reader.model
        name = "output" if 200 <= result.status < 300 else "error"
        bodies = [_json_body("attributes", members)]
        if result.kept:
            kept = BytesContent(self.request.hide_credential(bytes(result.kept)))
            bodies.append(Attachment(name, kept, result.media_type))
        return bodies

    def _label(self, model: str) -> str:
        """Return the name of the call in facts: that of its model, or of a path that is known."""
        path = self.route.path.strip("/")
        if model:
            return report_kinds.derive_name(model, report_kinds.A_MODEL)
        if self.route.operation is routes.ApiOperation.UNKNOWN:
            return report_kinds.label_name(path, report_kinds.A_PATH)
        return report_kinds.derive_label(path)

    def _names(self, model: str) -> tuple[Attachment, ...]:
        """Return the body with the model, unless the facts say the same."""
        return report_drafts.names_body(report_kinds.Names(model=model))

    def _request_body(self, body: bytes, media_type: str) -> tuple[Attachment, int]:
        """Return a request as it is recorded, and the number of bytes that were left out."""
        return report_drafts.cut_body(
            "input", self.request.hide_credential(body), _clean_type(media_type)
        )

    def _micros(self) -> int:
        return round(1e6 * (monotonic() - self.started))


async def _prepend(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a first piece, and then the others."""
    yield first
    async for chunk in rest:
        yield chunk


def _is_json(media_type: str) -> bool:
    return media_type in ("", JSON_TYPE) or media_type.endswith("+json")


def _check_plain(path: str) -> None:
    """Refuse a path that could lead elsewhere, with or without a cap: the key goes along."""
    if not routes.is_plain_path(path):
        why = f"the path {path!r} has dots, escapes, or an empty or trailing segment."
        raise refusals.CallRefused(refusals.RefusalReason.MALFORMED, why)


async def read_body(request: GatewayRequest) -> bytes:
    """Return the body of a request.

    Raises `CallRefused` if it is too large or too slow, and `ShareExceeded`, `ProcessFull`.
    """
    announced = request.header(b"content-length")
    size = int(announced) if announced.isdecimal() else 0
    try:
        return await collect_body(_chunks(request), size, MAX_CALL_BYTES, request.take_bytes)
    except (errors.BodyTooLarge, errors.BodyTooSlow) as error:
        raise refusals.CallRefused(refusals.RefusalReason.MALFORMED, f"{error}.") from None


async def _chunks(request: GatewayRequest) -> AsyncIterator[bytes]:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def refuse_upgrade(request: GatewayRequest) -> bool:
    """Answer a client that wants a WebSocket, if it does: it has to use HTTP.

    Clients that can do both, Codex among them, go on with HTTP after this status at once.
    """
    if request.header(b"upgrade").lower() != "websocket":
        return False
    message = "Forum: this gateway has no WebSockets. Use HTTP, with or without a stream."
    body = refusals.error_body(request.provider, 426, "forum_upgrade", message)
    # RFC 9110, section 15.5.22: the header names what is to be used.
    headers = (
        *refusals.JSON_HEADERS, refusals.NO_RETRY_HEADER, (b"upgrade", b"HTTP/1.1"),
        (b"connection", b"upgrade"),
    )  # fmt: skip
    with suppress(OSError):
        await send_body(request.send, 426, body, headers)
    return True


async def send_busy(request: GatewayRequest, error: errors.ForumError) -> None:
    """Answer that the client has as much in use as it may have; the SDKs try again."""
    body = refusals.error_body(request.provider, 429, "forum_busy", f"Forum: {error}")
    with suppress(OSError):
        await send_body(request.send, 429, body, refusals.JSON_HEADERS)


async def send_refusal(request: GatewayRequest, refusal: refusals.CallRefused) -> None:
    """Answer with a refusal in the form of the provider."""
    headers = (*refusals.JSON_HEADERS, refusals.NO_RETRY_HEADER)
    with suppress(OSError):
        await send_body(request.send, refusal.status, refusal.body(request.provider), headers)


async def send_body(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Send a reply as a whole."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _media_type(response: httpx2.Response) -> str:
    return _clean_type(response.headers.get("content-type", ""))


def _clean_type(header: str) -> str:
    """Return a media type without parameters; a plain one for anything else."""
    media = header.partition(";")[0].strip().lower()
    is_valid = media.isascii() and media.isprintable() and " " not in media and 0 < len(media) < 100
    return media if is_valid else JSON_TYPE


def _json_body(name: str, content: object) -> Attachment:
    return Attachment(name, BytesContent(msgspec.json.encode(content)), JSON_TYPE)
