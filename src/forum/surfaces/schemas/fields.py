"""Members that many schemas share: names, positions, times and amounts."""

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from forum.app import now
from forum.errors import Malformed
from forum.ledger.ports import NO_LIMIT, Amount
from forum.units import format_rfc3339, format_usd, parse_moment

FormT = TypeVar("FormT", bound=Struct)

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
    Meta(description="An exact amount in US dollars, as a string.", examples=["0.012"]),
]
Moment = Annotated[
    str,
    Meta(description="A point in time (RFC 3339, UTC).", examples=["2026-03-01T12:00:00.250000Z"]),
]
RecordedText = Annotated[str, "recorded"]
"""A text that may have been recorded empty, which is not to lack it; `fill` keeps it as it is."""
# Every text that the schema allows is a time: a client that checks it before is not refused.
_DATE = (
    r"((19|20)[0-9]{2}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    r"|((19|20)(0[48]|[2468][048]|[13579][26])|2000)-02-29)"
)
TimeBound = Annotated[
    str,
    Meta(
        pattern=(
            rf"^([0-9]{{1,6}}[mhdwy]|{_DATE}"
            r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
            r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?)$"
        ),
        description="A date or a time (RFC 3339), without an offset in UTC; or an age, such as "
        "90m, 12h, 2d or 1w.",
        examples=["2026-03-01", "2026-03-01T12:00:00Z", "12h"],
    ),
]
Seconds = Annotated[float, Meta(description="How long it took, in seconds.", examples=[1.25])]
Needs = Annotated[tuple[str, ...], Meta(description="The tasks whose output it receives.")]
After = Annotated[
    tuple[str, ...],
    Meta(description="The tasks that must end before it, and whose output it does not receive."),
]


def fill(form: type[FormT], source: object, /, **values: object) -> FormT:
    """Return a form with the attributes of a domain object that are named like its members.

    `values` holds the members that the object has under another name or in other units. All are
    written as their members are declared: amounts and times as texts, objects as forms. An empty
    text, and the time 0, become null where the member may be null, but for a `RecordedText`.
    """
    return form(
        **{
            name: write(values[name] if name in values else getattr(source, name))
            for name, write in _writers_of(form).items()
        }
    )


@cache
def _writers_of(form: type[Struct]) -> dict[str, Callable[[Any], object]]:
    """Return the members of a form, each with what writes its value."""
    return {n: _find_writer(hint) for n, hint in get_type_hints(form, include_extras=True).items()}


def _find_writer(hint: Any) -> Callable[[Any], object]:  # noqa: ANN401  a type of any shape
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        texts = (write for text, write in _TEXTS if text.__metadata__[0] in hint.__metadata__)
        return next(texts, None) or _find_writer(inner[0])
    if NoneType in inner:
        others = [each for each in inner if each is not NoneType]
        # One of several forms cannot be chosen by a name: whoever fills this one has chosen.
        write = _find_writer(others[0]) if len(others) == 1 else _keep
        nothing = _NOTHING.get(write, (None, ""))
        return lambda value: None if value in nothing else write(value)
    if origin is tuple:
        write = _find_writer(inner[0])
        return lambda values: tuple(map(write, values))
    if origin is dict:
        write = _find_writer(inner[1])
        return lambda values: {key: write(value) for key, value in values.items()}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return lambda value: value if isinstance(value, hint) else fill(hint, value)
    return _keep


def _keep(value: object) -> object:
    return value


def _keep_recorded(value: str) -> str:
    return value


def _write_usd(value: int | str) -> str:
    return value if isinstance(value, str) else format_usd(value)


def _write_moment(value: int | str) -> str:
    return value if isinstance(value, str) else format_rfc3339(value)


_TEXTS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (Usd, _write_usd),
    (Moment, _write_moment),
    (RecordedText, _keep_recorded),
)
_NOTHING: dict[Callable[[Any], object], tuple[object, ...]] = {
    _write_moment: (None, "", 0),
    _keep_recorded: (None,),
}
"""The values that become null, of those that are not written as other texts are."""


def parse_time_bound(text: str | None, default: int) -> int:
    """Return a time in microseconds since 1970, or the default for null.  Raises `Malformed`."""
    if text is None:
        return default
    return read_moment(text)


def read_moment(text: str) -> int:
    """Return an age or a time in microseconds since 1970.  Raises `Malformed`."""
    try:
        return parse_moment(text, now())
    except ValueError as error:
        raise Malformed("time", str(error)) from None


class AmountForm(Struct, frozen=True):
    """The time, calls, tokens and dollars used."""

    usd: Usd
    tokens: int
    calls: int


def amount_form(amount: Amount) -> AmountForm:
    """Return what something has used, in its form."""
    return AmountForm(format_usd(amount.usd), amount.tokens, amount.calls)


class CapForm(Struct, frozen=True):
    """The limits of a run; null means no limit."""

    usd: Usd | None
    tokens: int | None
    calls: int | None
    seconds: float | None


def cap_form(cap: Amount, milliseconds: int) -> CapForm:
    """Return what a run may use at most, in its form."""
    seconds = limit_or_null(milliseconds)
    return CapForm(
        usd_limit(cap.usd),
        limit_or_null(cap.tokens),
        limit_or_null(cap.calls),
        None if seconds is None else seconds / 1000,
    )


def limit_or_null(limit: int) -> int | None:
    """Return a limit; null if there is none."""
    return None if limit == NO_LIMIT else limit


def usd_limit(limit: int) -> str | None:
    """Return a limit in dollars; null if there is none."""
    return None if limit == NO_LIMIT else format_usd(limit)


class SpentForm(Struct, frozen=True):
    """The cost of one part of a deliberation."""

    usd: Usd
    tokens: int


def spent_form(usd: int, tokens: int) -> SpentForm:
    """Return what a part of a deliberation has cost, in its form."""
    return SpentForm(format_usd(usd), tokens)
