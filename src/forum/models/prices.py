"""Prices of tokens: declared in the configuration, or taken from a versioned table.

The table is that of the installed package `genai-prices`; it is never downloaded.  It is loaded
only for a model without a declared price.  Some of its prices depend on the time of day.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

import msgspec

from forum.engine import ModelCall
from forum.errors import UnknownPrice
from forum.ledger.ports import Amount
from forum.models.token_bounds import count_normalized_bytes
from forum.models.urls import is_loopback
from forum.runs.policy import Chat, Library

_MAX_NANO_USD: Final = (1 << 53) - 1
"""The largest cost that an entry can represent."""

_MAX_CLOCK_SKEW_S: Final = 60.0
"""Assumed maximum difference between a provider's clock and ours, in seconds."""

_OLLAMA_NAME: Final = re.compile(r"(?!ft:)[^/:]+:[^/:]+")

_MAX_NAMES: Final = 1024
"""Names of models whose price is remembered: clients choose the names."""

_LONGEST_CALL_S: Final = 3600.0
"""The longest duration of a call of the gateway, in seconds."""

# These options make a call more expensive than the table says, or bill something other than tokens.
# With them the largest cost of a call is unknown, so `UnknownPrice` is raised.
_PRICED_OPTIONS: Final = (
    "service_tier", "speed", "inference_geo", "cache_control", "prediction", "audio", "modalities",
    "web_search_options", "search_parameters", "plugins", "models", "mcp_servers", "builtin_tools",
    "extra_body",
)  # fmt: skip

# Allowance for tokens that a provider adds: roles, separators, and the instructions for tools.
_CALL_OVERHEAD, _TURN_OVERHEAD = 64, 16
_TOOL_OVERHEAD, _TOOLS_OVERHEAD = 64, 1024


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """Token counts of a call."""

    input: int
    output: int
    cache_read: int = 0
    """The part of `input` that came from the provider's cache."""
    cache_write: int = 0
    """The part of `input` that was written to the provider's cache."""


def count_tokens(read: int, written: int, cache_read: int, cache_write: int) -> BilledTokens:
    """Return token counts; where those of the cache contradict the input, only the others."""
    if cache_read + cache_write > read:
        return BilledTokens(read, written)
    return BilledTokens(read, written, cache_read, cache_write)


class TokenRates(msgspec.Struct, frozen=True):
    """Prices of a model's tokens, in pico-dollars per token, for one range of request sizes."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    call: int = 0
    """The price of a call itself, in pico-dollars."""

    def cost(self, tokens: BilledTokens, cache_write_1h: int = 0) -> int:
        """Return nano-dollars, rounded up; `cache_write_1h` is a part of `tokens.cache_write`."""
        plain = tokens.input - tokens.cache_read - tokens.cache_write
        if plain < 0 or cache_write_1h > tokens.cache_write:
            # Inconsistent counts: charge all of the input at the highest price.
            pico = tokens.input * self.highest_input(long_cache=True)
        else:
            pico = (
                plain * self.input
                + tokens.cache_read * self.cache_read
                + (tokens.cache_write - cache_write_1h) * self.cache_write
                + cache_write_1h * self.cache_write_1h
            )
        return _to_nano_usd(self.call + pico + tokens.output * self.output)

    def highest_input(self, *, long_cache: bool) -> int:
        """Return the price of an input token in the most expensive case.

        `long_cache` tells whether the request may write to the cache that lives for an hour.
        """
        highest = max(self.input, self.cache_read, self.cache_write)
        return max(highest, self.cache_write_1h) if long_cache else highest


@dataclass(frozen=True, slots=True)
class _SizedRates:
    """The rates at one time of day, for each range of request sizes."""

    starts: tuple[int, ...]
    """The sizes above which the next rates apply."""
    rates: tuple[TokenRates, ...]

    def find(self, input_tokens: int) -> TokenRates:
        return self.rates[bisect_left(self.starts, input_tokens)]


class ListedRates:
    """The rates of a model in the table, computed once."""

    def __init__(self, model: Any, seconds: float = 0.0) -> None:  # noqa: ANN401  # of the table
        """Take a model of the table, and how long a call may last at least."""
        self._model, self._seconds = model, seconds
        listed = model.prices if isinstance(model.prices, list) else [model]
        # By identity, since prices have no hash; the model keeps them alive.
        self._by_prices = {id(at.prices): _size_rates(at.prices) for at in listed}

    def find(self, input_tokens: int, seconds: float = 0.0) -> TokenRates:
        """Return the highest rates of a request with so many input tokens, for some seconds."""
        now = datetime.now(UTC)  # noqa: TID251  # some prices depend on the time of day
        # A more expensive time of day may begin during the call, or by the provider's clock.
        last = now + timedelta(seconds=max(seconds, self._seconds))
        prices = {id(self._model.get_prices(moment)) for moment in (now, last)}
        return highest_rates(*(self._by_prices[key].find(input_tokens) for key in prices))


def highest_rates(*rates: TokenRates) -> TokenRates:
    """Return rates that are in no part below any of these."""
    if len(rates) == 1:
        return rates[0]
    return TokenRates(*map(max, *map(msgspec.structs.astuple, rates)))


class RateFinder(Protocol):
    """Finds the rates of a model."""

    def __call__(self, input_tokens: int, seconds: float = 0.0, /) -> TokenRates:
        """Return the highest rates of a request with so many input tokens, for some seconds."""


@dataclass(frozen=True, slots=True)
class Price:
    """What the tokens of a model cost."""

    id: str
    """The id of the price table, as recorded."""
    find_rates: RateFinder
    provider: str = ""
    """The provider in the table; "" for a declared price."""
    context_tokens: int = 0
    """The context length; 0 if it is not known."""

    def cost(self, tokens: BilledTokens, cache_write_1h: int = 0) -> int:
        """Return the cost of a call that is made now in nano-dollars, rounded up."""
        return self.find_rates(tokens.input).cost(tokens, cache_write_1h)

    def highest_cost(
        self, input_tokens: int, output_tokens: int, *, long_cache: bool, seconds: float = 0.0
    ) -> int:
        """Return the upper bound of the cost of a call, whatever the provider's cache does.

        `long_cache` tells whether the request may write to the cache that lives for an hour.
        `seconds` is how long the call may last.
        """
        # Where long requests are dearer, they are so for all of their tokens, so the dearest
        # case is the largest request.
        rates = self.find_rates(input_tokens, seconds)
        highest = rates.highest_input(long_cache=long_cache)
        return _to_nano_usd(rates.call + input_tokens * highest + output_tokens * rates.output)


def declared_price(input_pico: int, output_pico: int, name: str = "declared") -> Price:
    """Return a price that the operator declares, in pico-dollars per token.

    That is the same as nano-dollars for a thousand tokens.
    """
    rates = TokenRates(
        input=input_pico,
        output=output_pico,
        cache_read=input_pico,
        cache_write=input_pico,
        cache_write_1h=input_pico,
    )
    return Price(name, lambda *_: rates)


FREE_PRICE: Final = declared_price(0, 0, "free")
"""The price of a model on this machine."""


def price_of(spec: Chat | Library) -> Price:
    """Return the price of a model.  Raises `UnknownPrice` instead of assuming that it is free."""
    if spec.input_usd is not None and spec.output_usd is not None:
        return declared_price(spec.input_usd, spec.output_usd)
    if spec.input_usd is not None or spec.output_usd is not None:
        raise UnknownPrice(spec.model, "only one of input_usd and output_usd is set")
    if isinstance(spec, Chat) and is_loopback(spec.url):
        # A proxy or a tunnel on this machine may be a paid provider, and then the names of its
        # models are those of the table.  A model that runs here has a name of its own, or one with
        # a tag, as Ollama has it.
        listed = _find_listed_price(spec.model, None, None)
        if isinstance(listed, str) or _OLLAMA_NAME.fullmatch(spec.model):
            return FREE_PRICE
        return listed
    _check_options(spec)
    match spec:
        case Chat():
            price = _find_listed_price(spec.model, None, spec.url)
        case Library():
            provider, _, model = spec.model.partition(":")
            price = _find_listed_price(model, provider, None)
    if isinstance(price, str):
        raise UnknownPrice(spec.model, price)
    return price


def has_cache_price(spec: Chat) -> bool:
    """Return whether the table has what it costs to write to the cache of the model's provider."""
    # A declared price has no such part, so a call may cost more than reserved.
    rates = price_of(spec).find_rates(0)
    return rates.cache_write > rates.input > rates.cache_read


def find_price(model: str, provider: str = "") -> Price:
    """Return the price of a model by its name in the table.  Raises `UnknownPrice`."""
    price = _find_listed_price(model, provider or None, None)
    if isinstance(price, str):
        raise UnknownPrice(model, price)
    return price


def listed_context_tokens(spec: Chat | Library) -> int:
    """Return the context length of a model in the table; 0 if the table does not have it."""
    if isinstance(spec, Chat) and is_loopback(spec.url):
        return 0
    provider, model = None, spec.model
    if isinstance(spec, Library):
        provider, _, model = spec.model.partition(":")
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    try:
        _, listed = snapshot.find_provider_model(
            model, None, provider, spec.url if isinstance(spec, Chat) else None
        )
    except LookupError:
        return 0
    return listed.context_window or 0


def _check_options(spec: Chat | Library) -> None:
    for name in filter(_is_priced_option, spec.options):
        raise UnknownPrice(spec.model, f"the table does not have what the option {name!r} costs")


def _is_priced_option(option: str) -> bool:
    """Return whether an option changes the price; pydantic-ai prefixes it with the provider."""
    return any(option == name or option.endswith(f"_{name}") for name in _PRICED_OPTIONS)


@lru_cache(_MAX_NAMES)
def _find_listed_price(model: str, provider: str | None, url: str | None) -> Price | str:
    """Return the price of a model in the table, or why there is none."""
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    try:
        pair = snapshot.find_provider_model(model, None, provider, url)
    except LookupError as error:
        return str(error)
    price = _listed_price(pair)
    if price is None:
        return f"the table has the model {model!r}, but not its price"
    return price


def _listed_price(
    pair: tuple[Any, Any], seconds: float = 0.0, *, embeds: bool = False
) -> Price | None:
    """Return the price of a provider's model, or None if the table does not have it."""
    owner, info = pair
    rates = ListedRates(info, seconds)
    first = rates.find(0)
    # A missing price in the table would look like a price of zero.
    if not first.input or not (embeds or first.output):
        return None
    version = import_module("genai_prices").__version__
    return Price(f"genai-prices/{version}", rates.find, owner.id, info.context_window or 0)


@lru_cache(_MAX_NAMES)
def price_by_name(model: str, *, url: str = "", embeds: bool = False) -> Price:
    """Return the price of a model in the table.  Raises `UnknownPrice`.

    Several providers may serve a model of that name.  If its name does not tell whose model it is,
    the most expensive one counts.  So does the price at the address, if the table knows that.
    """
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    try:
        pairs = [snapshot.find_provider_model(model, None, None, None)]
    except LookupError:
        pairs = [(p, m) for p in snapshot.providers for m in p.models if m.is_match(model)]
    if url:
        with suppress(LookupError):
            pairs.append(snapshot.find_provider_model(model, None, None, url))
    listed = (_listed_price(pair, _LONGEST_CALL_S, embeds=embeds) for pair in pairs)
    priced = [price for price in listed if price is not None]
    if not priced:
        raise UnknownPrice(model, "the table does not have it")
    if not url:
        return max(priced, key=lambda price: price.find_rates(0).input + price.find_rates(0).output)
    return dearest_price(priced)


def dearest_price(prices: Sequence[Price]) -> Price:
    """Return a price that is in no part below any of these; the first is the one that it names."""

    def find_rates(input_tokens: int, seconds: float = 0.0) -> TokenRates:
        return highest_rates(*(price.find_rates(input_tokens, seconds) for price in prices))

    context = max(price.context_tokens for price in prices)
    return Price(prices[0].id, find_rates, prices[0].provider, context)


def _size_rates(prices: Any) -> _SizedRates:  # noqa: ANN401  # a class of the table
    tiers = (getattr(listed, "tiers", ()) for listed in vars(prices).values())
    starts = sorted({tier.start for listed in tiers for tier in listed})
    return _SizedRates(tuple(starts), tuple(_rates_above(prices, size) for size in (-1, *starts)))


def _rates_above(prices: Any, start: int) -> TokenRates:  # noqa: ANN401  # a class of the table
    """Return the rates of requests that are larger than the start of a range of sizes."""

    def rate(*names: str) -> int:
        return _rate_above(prices, names, start)

    return TokenRates(
        input=rate("input_mtok"),
        output=rate("output_mtok"),
        cache_read=rate("cache_read_mtok", "input_mtok"),
        cache_write=rate("cache_write_mtok", "input_mtok"),
        cache_write_1h=rate("cache_write_1h_mtok", "cache_write_mtok", "input_mtok"),
        # Dollars for a thousand calls, where the others are for a million tokens.
        call=1000 * rate("requests_kcount"),
    )


def _rate_above(prices: Any, names: Sequence[str], start: int) -> int:  # noqa: ANN401
    """Return pico-dollars per token of the first of these prices that the table has; 0 if none."""
    for name in names:
        listed = getattr(prices, name, None)
        if listed is None:
            continue
        dollars = getattr(listed, "base", listed)
        for tier in getattr(listed, "tiers", ()):
            if start >= tier.start:
                dollars = max(dollars, tier.price)
        # Dollars for a million tokens are a millionth of that for one: 10^12 / 10^6.
        return int((dollars * 10**6).to_integral_value(ROUND_CEILING))
    return 0


def _to_nano_usd(pico: int) -> int:
    """Return pico-dollars in nano-dollars, rounded up."""
    return min(-(-pico // 1000), _MAX_NANO_USD)


def bound_of(price: Price, call: ModelCall, max_tokens: int) -> Amount:
    """Return the upper bound of the cost of a call.

    No tokenizer produces more tokens than a text has bytes, before or after it is normalized.
    Whether the provider reads from or writes to its cache is not known in advance, so the most
    expensive case is assumed.
    """
    return bound_tokens(price, _max_input_tokens(call), max_tokens, call.seconds)


def bound_tokens(price: Price, read: int, max_tokens: int, seconds: float) -> Amount:
    """Return the upper bound of the cost of a call that reads and writes at most so many tokens."""
    # A more expensive time of day may begin during the call.
    lasting = seconds + _MAX_CLOCK_SKEW_S
    usd = price.highest_cost(read, max_tokens, long_cache=False, seconds=lasting)
    return Amount(usd, read + max_tokens, 1)


def _max_input_tokens(call: ModelCall) -> int:
    turns = sum(
        _TURN_OVERHEAD
        + _sent_bytes(turn.text)
        # Measured as sent: JSON may escape one character to six bytes.
        + sum(
            _TURN_OVERHEAD + _sent_bytes(msgspec.json.encode((use.tool, use.arguments)))
            for use in turn.uses
        )
        for turn in call.turns
    )
    offers = sum(
        _TOOL_OVERHEAD
        + count_normalized_bytes(offer.name + offer.description)
        + _sent_bytes(offer.schema)
        for offer in call.offers
    )
    prompt = max(turns, sum(_sent_bytes(chunk) for chunk in call.prompt.chunks()))
    tools = _TOOLS_OVERHEAD if call.offers or call.schema else 0
    return _CALL_OVERHEAD + prompt + offers + _sent_bytes(call.schema) + tools


def _sent_bytes(text: bytes) -> int:
    """Return the size as sent: an invalid byte becomes U+FFFD, which has three bytes in UTF-8."""
    return len(text) if text.isascii() else count_normalized_bytes(text.decode(errors="replace"))
