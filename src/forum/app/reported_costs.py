"""The cost of calls that programs report, by the price table of Forum."""

from typing import TYPE_CHECKING

from forum.errors import UnknownPrice

if TYPE_CHECKING:
    from forum.models.prices import Price


def price_reported_call(
    model: str, provider: str, tokens: tuple[int, int, int, int]
) -> tuple[int, str]:
    """Return the cost of a call in nano-dollars and the price table; 0 and "" without a price.

    `tokens` are the input, the output, and the parts of the input read from and written to the
    cache.
    """
    from forum.models.prices import count_tokens

    price = _find_price(model, provider)
    if price is None:
        return 0, ""
    return price.cost(count_tokens(*tokens)), price.id


def _find_price(model: str, provider: str) -> "Price | None":
    from forum.models.prices import find_price

    # The table has names of its own for providers: where it does not know this one, or none is
    # given, the name of the model decides.
    for named in dict.fromkeys((provider, "")):
        try:
            return find_price(model, named)
        except UnknownPrice:
            continue
    return None
