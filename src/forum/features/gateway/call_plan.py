"""Decide about a call before it is made: its highest cost, and the changes that the caps need."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forum.errors import UnknownPrice
from forum.features.gateway.composed_body import set_inner_member, set_member
from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.features.gateway.relayed_run import RelayedRun
from forum.features.gateway.request_reader import ReadRequest
from forum.features.gateway.reservations import is_limited
from forum.features.gateway.routes import ApiOperation, ApiRoute
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount
from forum.models.output_limits import max_output_tokens
from forum.models.prices import FREE_PRICE, Price, dearest_price, price_by_name
from forum.models.urls import is_loopback
from forum.runs.report_kinds import model_family
from forum.runs.strict_json import MAX_NAME_CHARS

_MIN_OUTPUT_LIMIT, _USUAL_OUTPUT_LIMIT = 256, 4096
"""The lowest output limit that the gateway sets, and the one that it tries to give at least.

The latter is also the highest for a model whose maximum is not known: all models accept it.
"""
_MIN_OUTPUT_PART = 8
"""An output limit is not lowered below this part of the context because of a long input: the bound
of the input counts a token for each byte, so in truth there is more room.
"""
_MIN_LOWERED_LIMIT = 1024
"""A client's own output limit is not lowered below this: a reply that breaks off is worth little.
"""
_SHARE = 4
"""A call without a limit of its own gets at most this part of what is left, so that calls at the
same time need not wait for each other."""
_NEWER_LIMIT_PROVIDERS = frozenset({"openai", "azure"})


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices of models by their names: declared ones first, then those of the table."""

    declared: Mapping[str, Price]
    deployments: Mapping[str, str] = field(default_factory=dict)
    """The models of names that say nothing of a price."""

    def find(self, model: str, *, url: str = "", embeds: bool = False) -> Price | None:
        """Return the price of a model, or None if it is not known.

        It is the dearest of what the table says of the name, and of the name at this address.
        """
        if model in self.declared:
            return self.declared[model]
        model = self.deployments.get(model, model)
        if len(model) > MAX_NAME_CHARS:
            return None  # names in replies are remembered with their prices
        try:
            return price_by_name(model, url=url, embeds=embeds)
        except UnknownPrice:
            return None

    def judge_reply(
        self, price: Price | None, asked: str, replied: str, url: str
    ) -> tuple[Price | None, bool]:
        """Return the price of a call whose reply names a model, and whether that is another one.

        The dearer of both models counts.  What the operator has declared of the name that was
        asked for holds whatever the provider calls its model.
        """
        is_declared = price is not None and not price.provider
        asked = self.deployments.get(asked, asked)
        if not replied or replied == asked or (is_declared and replied not in self.declared):
            return price, False
        other = self.find(replied, url=url)
        if price is None:
            return other, False
        if other is None:
            return price, not is_declared and not _is_version(replied, asked)
        is_other = model_family(asked) != model_family(replied)
        return dearest_price((price, other)), is_other and not is_declared


def _is_version(replied: str, asked: str) -> bool:
    """Return whether a name is that of a model with more behind it: `gpt-4o@2024-08-06`."""
    name, begun = (each.lower().rpartition("/")[2] for each in (replied, asked))
    return name.startswith(begun) and not name[len(begun) :][:1].isalnum()


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A call that may be made: its bytes, its highest cost, and how to price its reply."""

    request: ReadRequest
    body: bytes
    amount: Amount
    price: Price | None = None
    altered: tuple[str, ...] = ()
    hides_usage: bool = False

    @property
    def is_unbounded(self) -> bool:
        """Whether the request has parts without a bounded price, which the user allowed."""
        return bool(self.request.unpriced) or self.price is None

    @property
    def is_free(self) -> bool:
        """Whether the operator has declared that the call costs nothing."""
        return self.price is FREE_PRICE

    @property
    def price_id(self) -> str:
        """The id of the price table, as recorded; empty if the price is not known."""
        return self.price.id if self.price else ""


def plan_call(  # noqa: PLR0913  three have names
    route: ApiRoute,
    request: ReadRequest,
    run: RelayedRun,
    prices: PriceBook,
    *,
    url: str,
    free: bool,
    shared_left: Amount | None = None,
) -> CallPlan:
    """Return the plan of a call.  Raises `CallRefused`.

    `url` is the provider's address, and `free` tells that the operator has declared it to cost
    nothing.  `shared_left` is what is left of the caps that refused an earlier plan of this call:
    then the client's own output limit is lowered, if it helps.
    """
    if route.operation is ApiOperation.FREE:
        return CallPlan(request, request.body, Amount())
    embeds = route.operation.embeds
    price = FREE_PRICE if free else prices.find(request.model, url=url, embeds=embeds)
    if route.operation is ApiOperation.UNKNOWN:
        unbounded = replace(request, unpriced=(route.path,))
        return CallPlan(unbounded, request.body, Amount(calls=1), price)
    if request.doubt and run.caps_tokens:
        raise CallRefused(RefusalReason.MALFORMED, request.doubt)
    _check_priced(request, price, run, is_local=is_loopback(url))
    left = Amount(*map(min, run.left, shared_left or UNLIMITED))
    plan = _bound_output(
        _Bounds(route, request, price, run, left=left), lowers=shared_left is not None
    )
    if request.streams and not request.asks_usage and not run.limits.untouched:
        options = {**(request.stream_options or {}), "include_usage": True}
        return replace(
            plan,
            body=set_member(plan.body, "stream_options", options),
            altered=(*plan.altered, "stream_options.include_usage"),
            hides_usage=True,
        )
    return plan


def _check_priced(
    request: ReadRequest, price: Price | None, run: RelayedRun, *, is_local: bool
) -> None:
    """Refuse what has no bounded price, unless it is allowed by name."""
    if not run.caps_tokens or price is FREE_PRICE:
        return
    allowed = run.limits.allowed
    for name in request.unpriced:
        if name not in allowed:
            raise _unpriced(run, name, f"{name!r} has no bounded price")
    if price is None and run.caps_cost and request.model not in allowed:
        why = f"the price of the model {request.model!r} is not known"
        raise _unpriced(run, request.model, why, _LOCAL_REMEDY if is_local else "")


_LOCAL_REMEDY = (
    " If the server on this machine costs nothing, write free_loopback = true under [gateway] in "
    "forum.toml; if it costs something, declare its prices there."
)


def _unpriced(run: RelayedRun, name: str, why: str, remedy: str = "") -> CallRefused:
    how = run.limits.describe_change(f"--allow {name}", f"allow = [{name!r}]")
    message = (
        f"{why}, and this run has a cap.{remedy} Allow it with {how}; its cost then has no bound."
    )
    return CallRefused(RefusalReason.UNPRICED, message)


class _Bounds:
    """Computes the highest cost of one request for different output limits."""

    def __init__(
        self,
        route: ApiRoute,
        request: ReadRequest,
        price: Price | None,
        run: RelayedRun,
        left: Amount,
    ) -> None:
        self.route, self.request = route, request
        self.price, self.run = price, run
        self.left = left
        self.context = price.context_tokens if price else 0
        self.input_tokens = request.input_tokens
        if request.stored_input or "files" in request.unpriced:
            self.input_tokens = max(self.input_tokens, self.context)
        self.max_output = max_output_tokens(request.model)
        self.longest_output = self.max_output or self.context
        """The longest output of the model; 0 if it is not known."""

    def amount(self, limit: int) -> Amount:
        """Return the highest cost of the call with an output limit."""
        output = min(limit * self.request.choices, NO_LIMIT - self.input_tokens)
        usd = 0
        if self.price is not None:
            usd = self.price.highest_cost(
                self.input_tokens, output, long_cache=self.request.long_cache
            )
        return Amount(usd, self.input_tokens + output, 1)

    def affordable_limit(self, left: Amount) -> int:
        """Return the highest output limit that an amount pays for; less than 1 if none."""
        limit = left.tokens - self.input_tokens if is_limited(left.tokens) else NO_LIMIT
        if self.price is not None and is_limited(left.usd):
            rates = self.price.find_rates(self.input_tokens)
            highest = rates.highest_input(long_cache=self.request.long_cache)
            pico = 1000 * left.usd - rates.call - self.input_tokens * highest
            if rates.output:
                limit = min(limit, pico // rates.output)
        return limit // self.request.choices

    def free_context(self) -> int:
        """Return how many tokens of the context the input leaves for the output."""
        if not self.context:
            return NO_LIMIT
        least = min(_USUAL_OUTPUT_LIMIT, self.context // _MIN_OUTPUT_PART)
        return max(self.context - self.input_tokens, least)


def _bound_output(bounds: _Bounds, *, lowers: bool) -> CallPlan:
    """Return the plan with an output limit: the client's, the model's, or one that fits the cap."""
    route, request = bounds.route, bounds.request
    run, body = bounds.run, bounds.request.body
    if request.stored_input and run.caps_tokens and not bounds.context:
        names = run.limits.allowed
        if names.isdisjoint({"previous_response_id", "conversation", "item_reference"}):
            raise _unpriced(run, "previous_response_id", "stored input has no bounded price here")
    limit = 0 if route.operation.embeds else request.output_limit
    is_unbounded = bounds.price is FREE_PRICE and not is_limited(run.limits.cap.tokens)
    if lowers and limit and not is_unbounded:
        return _lower_limit(bounds, limit)
    if limit is not None or not run.caps_tokens or is_unbounded:
        limit = bounds.longest_output if limit is None else limit
        return CallPlan(request, body, bounds.amount(limit), bounds.price)
    longest = bounds.amount(bounds.longest_output) if bounds.longest_output else None
    if longest is not None and not longest.exceeds(bounds.left):
        return CallPlan(request, body, longest, bounds.price)
    if run.limits.untouched:
        if longest is None:
            raise _unpriced(run, _limit_member(bounds), "a request without an output limit")
        return CallPlan(request, body, longest, bounds.price)
    return _set_limit(bounds)


def _set_limit(bounds: _Bounds) -> CallPlan:
    left = bounds.left
    share = Amount(*(part // _SHARE if is_limited(part) else part for part in left))
    affordable = bounds.affordable_limit(left)
    limit = max(bounds.affordable_limit(share), min(_USUAL_OUTPUT_LIMIT, affordable))
    limit = min(limit, bounds.max_output or _USUAL_OUTPUT_LIMIT, bounds.free_context())
    # Where not even the lowest limit fits, the call waits for others with it, or is refused.
    # What the client grants for thinking is spent whatever the limit is.
    limit = max(limit, bounds.request.thinking_tokens + _MIN_OUTPUT_LIMIT)
    name = _limit_member(bounds)
    return CallPlan(
        request=bounds.request,
        body=set_inner_member(bounds.request.body, name.split("."), limit),
        amount=bounds.amount(limit),
        price=bounds.price,
        altered=(name,),
    )


def _lower_limit(bounds: _Bounds, limit: int) -> CallPlan:
    """Return the plan with the client's own limit lowered to what is left, as far as it may be."""
    request, body = bounds.request, bounds.request.body
    least = _MIN_LOWERED_LIMIT
    if request.thinking_tokens:
        # Providers reject a limit that leaves nothing beside the thinking.
        least = max(least, request.thinking_tokens + _MIN_OUTPUT_LIMIT)
    lowered = min(limit, max(bounds.affordable_limit(bounds.left), least))
    names = request.limit_names
    if lowered == limit or bounds.run.limits.untouched or not names:
        return CallPlan(request, body, bounds.amount(limit), bounds.price)
    for name in names:
        body = set_member(body, name, lowered)
    return CallPlan(request, body, bounds.amount(lowered), bounds.price, altered=names)


def _limit_member(bounds: _Bounds) -> str:
    """Return the member that limits the output: OpenAI's newer models reject `max_tokens`."""
    match bounds.route.operation:
        case ApiOperation.RESPONSES:
            return "max_output_tokens"
        case ApiOperation.GENERATE:
            return "generationConfig.maxOutputTokens"
        case ApiOperation.CHAT if (
            bounds.price is not None and bounds.price.provider in _NEWER_LIMIT_PROVIDERS
        ):
            return "max_completion_tokens"
        case _:
            return "max_tokens"
