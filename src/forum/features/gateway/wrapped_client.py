"""Cap and record the calls of an SDK client in the process that makes them: `forum.wrap`.

The client is changed where it prepares and sends an HTTP request, so that each attempt of each call
passes here, whichever method of the client began it.  A request is bounded, and a reply is read, by
the rules of the gateway.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

from forum import errors
from forum.app.model_prices import CallPrice
from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.composed_body import check_media, set_member
from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.reply_reader import ReplyReader, UsageHider
from forum.features.gateway.request_reader import ReadRequest, read_loosely, read_request
from forum.features.gateway.routes import ApiOperation, ApiProvider, ApiRoute, find_route
from forum.features.gateway.sent_parts import AllowedNames, compose_headers, compose_query
from forum.features.recorder.public import Recorder, RunScope, StepScope, context, default_recorder
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from forum.models.output_limits import max_output_tokens
from forum.models.prices import Price, price_by_name
from forum.runs.report_kinds import Operation

ClientT = TypeVar("ClientT")
_CALL, _GUARD = "forum_call", "_forum_guard"
_MAX_KEPT_BYTES = 1 << 20
"""How much of a streamed reply is recorded."""


def wrap(
    client: ClientT,
    *,
    usd: float | str | None = None,
    tokens: int | None = None,
    calls: int | None = None,
    name: str = "",
    recorder: Recorder | None = None,
) -> ClientT:
    """Cap and record each call of a client of `openai` or `anthropic`, and return the client.

    It may be sync or async, and its replies may be streams.  The highest cost of a call is computed
    before it is made; a call that would pass a limit raises `BudgetExceeded`, one without a bound
    `UnboundedCall`.  The limits hold for all calls of the client in this process.  Within
    `forum.run` a call belongs to that run, and to its limits as well; other calls belong to a run
    called `name`.  The client itself is changed, so that there is no way around.
    """
    provider = _provider_of(client)
    target: Any = client
    if hasattr(target, _GUARD):
        raise errors.Malformed("client", "it is wrapped already; use the one that was returned")
    guard = ClientGuard(provider, recorder, name or provider.value, (usd, tokens, calls))
    http = target._client  # noqa: SLF001  the clients have no public way to their connections
    if hasattr(http, _GUARD):
        raise errors.Malformed("client", "a client with the same connections is wrapped already")
    setattr(http, _GUARD, guard)
    is_async = asyncio.iscoroutinefunction(http.send)
    http.send = _async_send(guard, http) if is_async else _send(guard, http)
    _guard_requests(target, guard, is_async=is_async)
    return client


class ClientGuard:
    """Bounds, reserves, records and settles the calls of one client."""

    def __init__(
        self,
        provider: ApiProvider,
        recorder: Recorder | None,
        name: str,
        limits: tuple[float | str | None, int | None, int | None],
    ) -> None:
        self._provider, self._recorder = provider, recorder
        self._name = name
        self._limits = dict(zip(("usd", "tokens", "calls"), limits, strict=True))
        self._run: RunScope | None = None
        self._lock, self._pid = Lock(), os.getpid()
        # Made now, so that a wrong limit is an error of `wrap` and not of a later call.
        start = RunScope(recorder or default_recorder(), name, **self._limits).start  # type: ignore[arg-type]
        self._cap = Amount(start.usd, start.tokens, start.calls)
        self._used = Amount()

    def plan(self, base_path: str, request: Any) -> "GuardedCall | None":  # noqa: ANN401
        """Return the call of a request; None if it costs nothing.  Raises `UnboundedCall`."""
        if os.getpid() != self._pid and self._cap != Amount(NO_LIMIT, NO_LIMIT, NO_LIMIT):
            raise errors.ForkedFromCappedRun(self._name)
        path = "/" + request.url.path.removeprefix(base_path).lstrip("/")
        route = find_route(self._provider, request.method, path)
        if route.operation is ApiOperation.FREE:
            return None
        return GuardedCall(self, route, request)

    def scope(self, call: "GuardedCall") -> StepScope:
        """Return the step of a call, in the current run or in that of the client."""
        current = context()
        run = current.run if current is not None else self._own_run()
        start = run.start
        caps = (start.usd, start.tokens, self._cap.usd, self._cap.tokens)
        is_shared = run.recorder.sink.has_shared_caps
        bound = (
            call.bound(usd=is_shared or min(start.usd, self._cap.usd) != NO_LIMIT)
            if is_shared or min(caps) != NO_LIMIT
            else CallPrice(0, 0, "")
        )
        return StepScope(
            run.recorder,
            Operation.MODEL,
            f"{self._provider.value} {call.route.operation.value}",
            input=call.content,
            model=call.read.model,
            provider=self._provider.value,
            parent=current or run.context,
            bound=bound,
        )

    def reserve(self, bound: CallPrice) -> Amount:
        """Reserve the highest cost of a call.  Raises `BudgetExceeded`."""
        asked = Amount(bound.usd, bound.tokens, 1)
        with self._lock:
            for limit, more, used, cap in zip(
                ("usd", "tokens", "calls"), asked, self._used, self._cap, strict=True
            ):
                if cap != NO_LIMIT and used + more > cap:
                    raise errors.BudgetExceeded(self._name, limit, more, used, cap)
            self._used = self._used.plus(asked)
        return asked

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """Count what a call has cost in place of what was reserved for it."""
        with self._lock:
            parts = zip(self._used, reserved, spent, strict=True)
            self._used = Amount(*(used - before + cost for used, before, cost in parts))

    def _own_run(self) -> RunScope:
        with self._lock:
            if self._run is None:
                recorder = self._recorder or default_recorder()
                run = RunScope(recorder, self._name, **self._limits)  # type: ignore[arg-type]
                run.begin()  # its recorder ends it when it is closed
                self._run = run
            return self._run


class GuardedCall:
    """One HTTP request of a client, from its bound to what it cost."""

    def __init__(self, guard: ClientGuard, route: ApiRoute, request: Any) -> None:  # noqa: ANN401
        self._guard, self.route = guard, route
        self._url = str(request.url)
        body: bytes = request.read() if not hasattr(request, "_content") else request.content
        self.content = _to_json(body)
        self._refusal = ""
        self.read = read_loosely(body)
        if not route.is_priced:
            self._refusal = f"the path {route.path!r} has no bounded price"
        else:
            try:
                self.read = read_request(route.operation, body)
                _check_parts(route, request)
            except CallRefused as refusal:
                self._refusal = str(refusal)
            else:
                # What was read is what is sent, to the byte.
                _replace_body(request, self.read.body)
        self._price = self._find_price()
        self._reserved, self._kept = Amount(), bytearray()
        self.hider: UsageHider | None = None
        if self.read.streams and not self.read.asks_usage:
            options = {**(self.read.stream_options or {}), "include_usage": True}
            _replace_body(request, set_member(self.read.body, "stream_options", options))
            self.hider = UsageHider()
        # What is compressed could not be read.
        request.headers["accept-encoding"] = "identity"
        self._reader = ReplyReader(route.operation, streams=self.read.streams)
        self.step = guard.scope(self)

    def bound(self, *, usd: bool) -> CallPrice:
        """Return the highest cost of the call.  Raises `UnboundedCall`."""
        model, read = self.read.model or self.route.path, self.read
        why = self._refusal or next((f"{n!r} has no bounded price" for n in read.unpriced), "")
        output = self._output_limit(read)
        price = self._price
        read_tokens = read.input_tokens
        if read.stored_input:
            read_tokens = max(read_tokens, price.context_tokens if price else 0)
            why = why or ("" if price and price.context_tokens else "its input is stored elsewhere")
        if output is None:
            why = why or "it has no output limit; pass max_tokens, or its like"
        if usd and price is None:
            why = why or "its price is not known; limit the client by tokens= or calls="
        if why:
            raise errors.UnboundedCall(model, why)
        written = (output or 0) * read.choices
        cost = 0
        if price is not None:
            cost = price.highest_cost(read_tokens, written, long_cache=read.long_cache)
        return CallPrice(cost, read_tokens + written, price.id if price else "")

    def prepare(self) -> None:
        """Reserve and record what must be on record before the call is made."""
        self.step.prepare()
        self._reserve()

    async def prepare_async(self) -> None:
        """Do it without blocking other tasks."""
        await self.step.prepare_async()
        self._reserve()

    def feed(self, chunk: bytes) -> bytes:
        """Read a piece of the reply, and return what of it the client is given."""
        self._reader.feed(chunk)
        if len(self._kept) < _MAX_KEPT_BYTES:
            self._kept += chunk
        return self.hider.pass_on(chunk) if self.hider else chunk

    def end(self, status: int, error: BaseException | None = None) -> None:
        """Settle what the call cost; a reply that was not whole costs what was reserved."""
        self._reader.finish()
        self.step.output = _to_json(bytes(self._kept)) if self._kept else None
        self.step.attributes = {"status": status} if status else None
        if status >= 400:
            self.step.outcome, self.step.code = Outcome.FAILED, f"http-{status}"
            self.step.settle(CallPrice(0, 0, ""), (0, 0))
            self._guard.settle(self._reserved, Amount(0, 0, 1))
            return
        billed = self._reader.tokens
        if billed is None:
            if error is not None:
                self.step.outcome = Outcome.FAILED
            return
        tokens, hour = billed
        model, url = self.read.model, self._url
        by_reply, _ = PriceBook({}).judge_reply(self._price, model, self._reader.model, url)
        stated = self._reader.stated_usd
        # A cost that cannot be read is believed to be the highest one.
        stated = self._reserved.usd if stated is None else stated
        cost = max(by_reply.cost(tokens, hour) if by_reply else 0, stated)
        price = CallPrice(cost, tokens.input + tokens.output, by_reply.id if by_reply else "")
        self.step.settle(price, (tokens.input, tokens.output))
        self._guard.settle(self._reserved, Amount(cost, price.tokens, 1))

    def _reserve(self) -> None:
        try:
            self._reserved = self._guard.reserve(self.step.bound_price)
        except errors.BudgetExceeded:
            self.step.refuse("budget")
            raise

    def _output_limit(self, read: ReadRequest) -> int | None:
        if self.route.operation.embeds:
            return 0
        context_tokens = self._price.context_tokens if self._price else 0
        # A model writes no more than its maximum, so that nothing has to be set for it.
        return read.output_limit or max_output_tokens(read.model) or context_tokens or None

    def _find_price(self) -> Price | None:
        with suppress(errors.UnknownPrice):
            embeds = self.route.operation.embeds
            return price_by_name(self.read.model, url=self._url, embeds=embeds)
        return None


def _guard_requests(client: Any, guard: ClientGuard, *, is_async: bool) -> None:  # noqa: ANN401
    """Have a client, and its copies, plan each request where it prepares it.

    What is raised there reaches the program as it is; what is raised while a request is sent would
    be taken for a broken connection, and tried again.
    """
    before, copied = client._prepare_request, client.copy  # noqa: SLF001  made to be replaced
    base_path = client.base_url.path

    def prepare(request: Any) -> None:  # noqa: ANN401  of httpx or httpx2
        before(request)
        if (call := guard.plan(base_path, request)) is not None:
            call.prepare()
            request.extensions[_CALL] = call

    async def prepare_async(request: Any) -> None:  # noqa: ANN401
        await before(request)
        if (call := guard.plan(base_path, request)) is not None:
            await call.prepare_async()
            request.extensions[_CALL] = call

    def copy(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        made = copied(*arguments, **options)
        if hasattr(made._client, _GUARD):  # noqa: SLF001  or it was given other connections
            _guard_requests(made, guard, is_async=is_async)
        return made

    client._prepare_request = prepare_async if is_async else prepare  # noqa: SLF001
    client.copy = client.with_options = copy
    setattr(client, _GUARD, guard)


def _send(guard: ClientGuard, http: Any) -> Any:  # noqa: ANN401
    send = http.send

    def send_guarded(request: Any, *, stream: bool = False, **options: Any) -> Any:  # noqa: ANN401
        call: GuardedCall | None = request.extensions.pop(_CALL, None)
        if call is None:
            # From a copy with another way to prepare: refused all the same, if it must be.
            call = guard.plan(http.base_url.path, request)
            if call is not None:
                call.prepare()
        if call is None:
            return send(request, stream=stream, **options)
        try:
            response = send(request, stream=stream, **options)
            if stream:
                response.stream = _stream_class(http, "SyncByteStream", _SyncReply)(call, response)
            else:
                call.feed(response.content)
        except BaseException as error:
            call.end(0, error)
            call.step.finish(error)
            raise
        if not stream:
            call.end(response.status_code)
            call.step.finish()
        return response

    return send_guarded


def _async_send(guard: ClientGuard, http: Any) -> Any:  # noqa: ANN401
    send = http.send

    async def send_guarded(request: Any, *, stream: bool = False, **options: Any) -> Any:  # noqa: ANN401
        call: GuardedCall | None = request.extensions.pop(_CALL, None)
        if call is None:
            call = guard.plan(http.base_url.path, request)
            if call is not None:
                await call.prepare_async()
        if call is None:
            return await send(request, stream=stream, **options)
        try:
            response = await send(request, stream=stream, **options)
            if stream:
                kind = _stream_class(http, "AsyncByteStream", _AsyncReply)
                response.stream = kind(call, response)
            else:
                call.feed(response.content)
        except BaseException as error:
            call.end(0, error)
            await call.step.finish_async(error)
            raise
        if not stream:
            call.end(response.status_code)
            await call.step.finish_async()
        return response

    return send_guarded


class _SyncReply:
    """The bytes of a reply on their way to the client."""

    def __init__(self, call: GuardedCall, response: Any) -> None:  # noqa: ANN401
        self._call, self._inner = call, response.stream
        self._status = response.status_code
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                yield self._call.feed(chunk)
        except BaseException as error:
            self._end(error)
            raise
        if self._call.hider and (rest := self._call.hider.finish()):
            yield rest
        self._end(None)

    def close(self) -> None:
        self._inner.close()
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        if self._is_open:
            self._is_open = False
            self._call.end(self._status, error)
            self._call.step.finish(error)


class _AsyncReply:
    """The bytes of a reply on their way to an async client."""

    def __init__(self, call: GuardedCall, response: Any) -> None:  # noqa: ANN401
        self._call, self._inner = call, response.stream
        self._status = response.status_code
        self._is_open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield self._call.feed(chunk)
        except BaseException as error:
            await self._end(error)
            raise
        if self._call.hider and (rest := self._call.hider.finish()):
            yield rest
        await self._end(None)

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._end(None)

    async def _end(self, error: BaseException | None) -> None:
        if self._is_open:
            self._is_open = False
            self._call.end(self._status, error)
            await self._call.step.finish_async(error)


def _stream_class(http: Any, base: str, kind: type[Any]) -> type[Any]:  # noqa: ANN401
    """Return a stream class for the library of a client: it takes no others."""
    library = next(
        name
        for name in (each.__module__.partition(".")[0] for each in type(http).__mro__)
        if name in ("httpx", "httpx2")
    )
    return type(kind.__name__, (kind, getattr(import_module(library), base)), {})


def _check_parts(route: ApiRoute, request: Any) -> None:  # noqa: ANN401  of httpx or httpx2
    """Raise `CallRefused` for a header or a query by which another call could be made."""
    check_media(request.headers.get("content-type", ""), "")
    compose_headers(request.headers.raw, AllowedNames(), b"")
    compose_query(request.url.query, route, request.method, AllowedNames(), token=b"")


def _replace_body(request: Any, body: bytes) -> None:  # noqa: ANN401  of httpx or httpx2
    library = import_module(type(request).__module__.partition(".")[0])
    request.stream, request._content = library.ByteStream(body), body  # noqa: SLF001
    request.headers["content-length"] = str(len(body))


def _provider_of(client: object) -> ApiProvider:
    for kind in type(client).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ("openai", "anthropic") and hasattr(client, "_prepare_request"):
            return ApiProvider(package)
    raise errors.Malformed(
        "client", f"{type(client).__name__} is no client of openai or anthropic; use forum.budget"
    )


def _to_json(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
