"""Prices of calls that programs make themselves, by the name of the model."""

from msgspec import Struct

from forum.errors import UnknownPrice

CALL_OVERHEAD_TOKENS = 2048
"""Allowance for tokens that a provider adds to a request: roles, separators, tool instructions."""
_CALL_SECONDS = 600.0
"""The assumed duration of a call: a more expensive time of day may begin during it."""


class CallPrice(Struct, frozen=True):
    """What a call costs, in nano-dollars, and the price table that says so."""

    usd: int
    tokens: int
    prices: str


def bound_input(text: str) -> int:
    """Return the most tokens that a text has, by the bound that the gateway uses."""
    from forum.models.token_bounds import count_normalized_bytes

    return count_normalized_bytes(text)


def bound_call(model: str, provider: str, input_tokens: int, max_tokens: int) -> CallPrice:
    """Return the highest cost of a call with an input that `bound_input` has bounded.

    Raises `UnknownPrice`.
    """
    from forum.models.prices import bound_tokens, find_price

    price = find_price(model, provider)
    bound = bound_tokens(price, input_tokens + CALL_OVERHEAD_TOKENS, max_tokens, _CALL_SECONDS)
    return CallPrice(bound.usd, bound.tokens, price.id)


def listed_output_limit(model: str) -> int | None:
    """Return the most tokens that a model writes in one reply; None if that is not known."""
    from forum.models.output_limits import max_output_tokens

    return max_output_tokens(model) or None


def price_call(model: str, provider: str, input_tokens: int, output_tokens: int) -> CallPrice:
    """Return the cost of a call by its tokens; 0 without a table if the model is not listed."""
    from forum.models.prices import BilledTokens, find_price

    tokens = input_tokens + output_tokens
    try:
        price = find_price(model, provider)
    except UnknownPrice:
        return CallPrice(0, tokens, "")
    return CallPrice(price.cost(BilledTokens(input_tokens, output_tokens)), tokens, price.id)
