"""Prices of tokens: declared in the configuration, or taken from a versioned table.

The table is that of the installed package `genai-prices`; it is never downloaded.  It is loaded
only for a model without a declared price.  Some of its prices depend on the time of day.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol

import msgspec

from forum.engine import ModelCall
from forum.errors import UnknownPrice
from forum.ledger.ports import Amount
from forum.models.urls import is_loopback
from forum.work.policy import Chat, Library

_MAX_NANO_USD: Final = (1 << 53) - 1
"""The largest cost that an entry can represent."""

_MAX_CLOCK_SKEW_S: Final = 60.0
"""Assumed maximum difference between a provider's clock and ours, in seconds."""

# These options make a call more expensive than the table says, or bill something other than tokens.
# With them the largest cost of a call is unknown, so `UnknownPrice` is raised.
_PRICED_OPTIONS: Final = (
    "service_tier", "speed", "inference_geo", "cache_control", "prediction", "audio", "modalities",
    "web_search_options", "search_parameters", "plugins", "models", "mcp_servers", "builtin_tools",
    "extra_body",
)  # fmt: skip

# Allowance for tokens that a provider adds: roles, separators, and the instructions for tools.
_CALL_OVERHEAD, _TURN_OVERHEAD, _TOOL_OVERHEAD, _TOOLS_OVERHEAD = 64, 16, 64, 1024


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """Token counts of a call."""

    input: int
    output: int
    cache_read: int = 0
    """The part of `input` that came from the provider's cache."""
    cache_write: int = 0
    """The part of `input` that was written to the provider's cache."""


class Price(Protocol):
    """Converts tokens to money."""

    @property
    def id(self) -> str:
        """The id of the price table, as recorded."""

    def cost(self, tokens: BilledTokens, after: float = 0) -> int:
        """Return nano-dollars, rounded up, for a call that is made `after` seconds from now."""


@dataclass(frozen=True, slots=True)
class DeclaredPrice:
    """Prices per thousand tokens, in nano-dollars, as declared in the configuration."""

    input: int
    output: int
    id: str = "declared"

    def cost(self, tokens: BilledTokens, after: float = 0) -> int:  # noqa: ARG002  # as in `Price`
        """Return nano-dollars, rounded up."""
        nano_usd = tokens.input * self.input + tokens.output * self.output
        return min(-(-nano_usd // 1000), _MAX_NANO_USD)


FREE_PRICE: Final = DeclaredPrice(0, 0, "free")
"""The price of a model on this machine."""


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """The price of a model in the table."""

    id: str
    model: Any
    provider: Any
    usage: Any
    """The table's class for token counts."""

    def cost(self, tokens: BilledTokens, after: float = 0) -> int:
        """Return nano-dollars, rounded up."""
        cache_read, cache_write = tokens.cache_read, tokens.cache_write
        if cache_read + cache_write > tokens.input:
            cache_read = cache_write = 0  # inconsistent counts: charge all of it at the full price
        usage = self.usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=cache_read,
            cache_write_tokens=cache_write,
        )
        now = datetime.now(UTC)  # noqa: TID251  # some prices depend on the time of day
        at = now + timedelta(seconds=after)
        price = self.model.calc_price(usage, self.provider, genai_request_timestamp=at)
        dollars = price.total_price
        return min(int((dollars * Decimal(10**9)).to_integral_value(ROUND_CEILING)), _MAX_NANO_USD)


def price_of(spec: Chat | Library) -> Price:
    """Return the price of a model.  Raises `UnknownPrice` instead of assuming that it is free."""
    if spec.input_usd is not None and spec.output_usd is not None:
        return DeclaredPrice(spec.input_usd, spec.output_usd)
    if spec.input_usd is not None or spec.output_usd is not None:
        raise UnknownPrice(spec.model, "only one of input_usd and output_usd is set")
    if isinstance(spec, Chat) and is_loopback(spec.url):
        return FREE_PRICE
    _check_options(spec)
    try:
        match spec:
            case Chat():
                return _find_listed_price(spec.model, None, spec.url)
            case Library():
                provider, _, model = spec.model.partition(":")
                return _find_listed_price(model, provider, None)
    except LookupError as error:
        raise UnknownPrice(spec.model, str(error)) from None


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


@cache
def _find_listed_price(model: str, provider: str | None, url: str | None) -> Price:
    table: Any = import_module("genai_prices")
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    owner, model_info = snapshot.find_provider_model(model, None, provider, url)
    price = ListedPrice(f"genai-prices/{table.__version__}", model_info, owner, table.Usage)
    # A missing price in the table would look like a price of zero.
    if not all(price.cost(tokens) for tokens in (BilledTokens(10**6, 0), BilledTokens(0, 10**6))):
        raise LookupError(f"the table has the model {model!r}, but not its price")
    return price


def bound_of(price: Price, call: ModelCall, max_tokens: int) -> Amount:
    """Return the upper bound of the cost of a call.

    No tokenizer produces more tokens than a text has bytes.  Whether the provider reads from or
    writes to its cache is not known in advance, so the most expensive case is assumed.
    """
    read = _max_input_tokens(call)
    ways = (
        BilledTokens(read, max_tokens),
        BilledTokens(read, max_tokens, cache_read=read),
        BilledTokens(read, max_tokens, cache_write=read),
    )
    # A more expensive time of day may begin during the call.
    moments = (0.0, call.seconds + _MAX_CLOCK_SKEW_S)
    usd = max(price.cost(way, moment) for way in ways for moment in moments)
    return Amount(usd, read + max_tokens, 1)


def _max_input_tokens(call: ModelCall) -> int:
    turns = sum(
        _TURN_OVERHEAD
        + _sent_bytes(turn.text)
        # Measured as sent: JSON may escape one character to six bytes.
        + sum(
            _TURN_OVERHEAD + len(msgspec.json.encode((use.tool, use.arguments)))
            for use in turn.uses
        )
        for turn in call.turns
    )
    offers = sum(
        _TOOL_OVERHEAD + len((offer.name + offer.description).encode()) + len(offer.schema)
        for offer in call.offers
    )
    prompt = max(turns, sum(_sent_bytes(chunk) for chunk in call.prompt.chunks()))
    tools = _TOOLS_OVERHEAD if call.offers or call.schema else 0
    return _CALL_OVERHEAD + prompt + offers + len(call.schema) + tools


def _sent_bytes(text: bytes) -> int:
    """Return the size as sent: an invalid byte becomes U+FFFD, which has three bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.decode(errors="replace").encode())
