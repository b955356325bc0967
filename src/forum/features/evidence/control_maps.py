"""Maps: for each duty of a law or a standard, the figures that bear on it, and what is left open.

A map is data, a TOML file.  It never says that a duty is met.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from forum.errors import Malformed
from forum.features.evidence.figures import Figure
from forum.features.evidence.queries import MEMBERS, QUERIES, Measure, Over, Query
from forum.ledger.kinds import Kinds


class ReviewStatus(StrEnum):
    """Whether somebody has compared a map with the original texts."""

    REVIEWED = "reviewed"
    UNREVIEWED = "unreviewed"


class TextRead(StrEnum):
    """From what the duty of a row was written."""

    ORIGINAL = "original"
    """The wording of the source, in a copy."""
    QUOTATION = "quotation"
    """The wording of the source, as others quote it."""
    SUMMARY = "summary"
    """Summaries by others."""
    NUMBER = "number"
    """The number of the provision; its text was not at hand."""


class MapReview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who compared a map with the original texts, and when; empty while nobody has."""

    status: ReviewStatus
    by: str = ""
    on: str = ""

    def __post_init__(self) -> None:
        if (self.status is ReviewStatus.REVIEWED) != bool(self.by and self.on):
            raise ValueError("a reviewed map, and only such a map, says by whom and when")


class MapRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One duty."""

    id: str
    duty: str
    source: str
    read: TextRead
    figures: tuple[str, ...]
    """The ids of the queries whose figures bear on the duty; none if a ledger shows nothing."""
    yours: str
    """What stays the duty of the deployer."""
    not_covered: str = ""
    """What the figures do not show."""


class ControlMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The duties of one source, with their figures."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9-]{0,63}$")]
    title: str
    version: str
    applies: str
    """To whom the source applies, and from when."""
    review: MapReview
    rows: tuple[MapRow, ...]
    queries: tuple[Query, ...] = ()
    """Queries that the map adds to those of every report."""
    not_shown: tuple[str, ...] = ()


class RowState(StrEnum):
    """What a period shows for a duty."""

    ENTRIES = "entries found"
    NONE = "no entries in this period"
    UNKNOWN = "cannot be computed from this pack"
    OUTSIDE = "not from a ledger"


class RowFigure(msgspec.Struct, frozen=True):
    """A figure, where a row refers to it."""

    id: str
    value: int | None
    items: int | None


class RowResult(msgspec.Struct, frozen=True):
    """What the period shows for one duty."""

    id: str
    state: RowState
    figures: tuple[RowFigure, ...]
    examples: tuple[int, ...]


class MapResult(msgspec.Struct, frozen=True):
    """A map, and what the period shows for each of its rows."""

    map: ControlMap
    digest: str
    """SHA-256 of the map's file in the pack."""
    rows: tuple[RowResult, ...]


_find_words = re.compile("[a-z0-9]+").findall
_find_numbers = re.compile("[0-9]{4}/[0-9]+").findall
_OWN_QUERIES = frozenset(query.id for query in QUERIES)


def read_map(data: bytes, place: str, kinds: Kinds) -> ControlMap:
    """Return the map in a TOML file.  Raises `Malformed` with what is wrong with it."""
    try:
        control_map = msgspec.toml.decode(data, type=ControlMap)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise Malformed(f"map {place}", str(error)) from None
    query_ids = _OWN_QUERIES | {query.id for query in control_map.queries}
    if doubled := [query.id for query in control_map.queries if query.id in _OWN_QUERIES]:
        raise Malformed(f"map {place}", f"query {doubled[0]} exists already; choose another id")
    for query in control_map.queries:
        for why in _find_faults(query, kinds):
            raise Malformed(f"map {place}", f"query {query.id}: {why}")
    for row in control_map.rows:
        if unknown := [name for name in row.figures if name not in query_ids]:
            raise Malformed(f"map {place}", f"row {row.id}: there is no query {unknown[0]}")
    ids = [row.id for row in control_map.rows]
    if len(ids) != len(set(ids)):
        raise Malformed(f"map {place}", "two rows have the same id")
    return control_map


def _find_faults(query: Query, kinds: Kinds) -> Iterator[str]:
    """Yield why a query could only give a figure that says nothing."""
    if query.measure is not Measure.COUNT and not query.of:
        yield f"{query.measure} needs `of`"
    if query.kinds and query.over is not Over.ENTRIES:
        yield "kinds are only for entries"
    for name in query.kinds:
        if name not in kinds:
            yield f"there is no kind {name}"
    members = MEMBERS[query.over]
    if query.over is Over.ENTRIES:
        counted = [kind for kind in kinds if not query.kinds or kind.name in query.kinds]
        members |= {field.encode_name for k in counted for field in msgspec.structs.fields(k.facts)}
    named = [*(condition.member for condition in query.where), *query.by]
    for name in [*named, query.of] if query.of else named:
        if name not in members:
            yield f"{query.over} have no member {name}; there are {', '.join(sorted(members))}"


def encode_map(control_map: ControlMap) -> bytes:
    """Return a map as it is enclosed in a pack."""
    return msgspec.json.format(msgspec.json.encode(control_map), indent=1) + b"\n"


def title_marks(title: str) -> set[str]:
    """Return what tells of which source a title is: its letters and digits, and its numbers."""
    return {"".join(_find_words(title.lower())), *_find_numbers(title)}


def find_namesake(control_map: ControlMap, maps: Iterable[ControlMap]) -> str | None:
    """Return the name of a known map of the same source, of which this one is no version."""
    marks = title_marks(control_map.title)
    return next((each.name for each in maps if marks & title_marks(each.title)), None)


def apply_map(row: MapRow, figures: dict[str, Figure]) -> RowResult:
    """Return what the figures of a period show for one row."""
    named = [figures[name] for name in row.figures]
    state = RowState.NONE if named else RowState.OUTSIDE
    if any(figure.items is None for figure in named):
        state = RowState.UNKNOWN
    if any(figure.items for figure in named):
        state = RowState.ENTRIES
    return RowResult(
        id=row.id,
        state=state,
        figures=tuple(RowFigure(f.id, f.value, f.items) for f in named),
        examples=tuple(sorted({index for f in named for index in f.examples[:2]})[:6]),
    )
