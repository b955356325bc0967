"""What many forms hold: names, places, times and sums."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.ledger.ports import NO_LIMIT, Amount
from forum.surfaces.formatting import format_usd

RunId = Annotated[
    str,
    Meta(description="The name of a run.", examples=["0199c0de-1234-7abc-8def-0123456789ab"]),
]
EntryId = Annotated[
    str, Meta(description="The id of an entry: its leaf hash in the tree, in hexadecimal digits.")
]
Index = Annotated[int, Meta(description="The index of an entry in the log.", examples=[57])]
Usd = Annotated[
    str,
    Meta(description="Dollars, as exact as they are; a text, not a number.", examples=["0.012"]),
]
Moment = Annotated[
    str,
    Meta(description="A point in time (RFC 3339, UTC).", examples=["2026-03-01T12:00:00.250000Z"]),
]
Seconds = Annotated[float, Meta(description="How long it took, in seconds.", examples=[1.25])]
Needs = Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")]
After = Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")]


class AmountForm(Struct, frozen=True):
    """What something has used."""

    usd: Usd
    tokens: int
    calls: int


def amount_form(amount: Amount) -> AmountForm:
    """Return what something has used, in its form."""
    return AmountForm(format_usd(amount.usd), amount.tokens, amount.calls)


class CapForm(Struct, frozen=True):
    """What a run may use at most; null is no limit."""

    usd: Usd | None
    tokens: int | None
    calls: int | None
    seconds: float | None


def cap_form(cap: Amount, milliseconds: int) -> CapForm:
    """Return what a run may use at most, in its form."""
    return CapForm(
        None if cap.usd == NO_LIMIT else format_usd(cap.usd),
        None if cap.tokens == NO_LIMIT else cap.tokens,
        None if cap.calls == NO_LIMIT else cap.calls,
        None if milliseconds == NO_LIMIT else milliseconds / 1000,
    )


class SpentForm(Struct, frozen=True):
    """What a part of a deliberation has cost."""

    usd: Usd
    tokens: int


def spent_form(usd: int, tokens: int) -> SpentForm:
    """Return what a part of a deliberation has cost, in its form."""
    return SpentForm(format_usd(usd), tokens)
