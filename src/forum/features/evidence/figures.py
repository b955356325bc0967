"""Figures: what a query gives for the items of a period."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, assert_never

import msgspec

from forum.features.evidence.queries import Measure, Query, Unit


class Unknown(StrEnum):
    """The value of a member that does not follow from the log part."""

    UNKNOWN = "unknown"


MAX_EXAMPLES = 3
"""How many entries a figure names."""
MAX_GROUPS = 40
"""How many groups of a figure are told apart; programs name agents and models as they like."""
MAX_DAYS = 400
OTHERS = "(others)"


class Group(msgspec.Struct, frozen=True):
    """The part of a figure whose items have these values."""

    key: tuple[str, ...]
    value: int


class Figure(msgspec.Struct, frozen=True):
    """One number of a report, the query that it follows from, and entries that it counts."""

    id: str
    title: str
    section: str
    unit: Unit
    value: int | None
    """None if it cannot be computed from the log part."""
    items: int | None
    """How many entries, runs, gates or steps were counted; None if that cannot be computed."""
    groups: tuple[Group, ...]
    examples: tuple[int, ...]
    """The indexes of the first entries that were counted, or because of which nothing can be."""
    query: Query


class CountedItem(msgspec.Struct, frozen=True, gc=False):
    """Something that a query may count: its entry, its run, and its members."""

    index: int
    run: str
    members: Mapping[str, Any]


def _text(value: object) -> str:
    if type(value) is str:
        return value
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)


class FigureTally:
    """Counts the items of one query."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.runs: dict[str, int] = {}
        """For each run with a counted item, the index of the first one."""
        self._examples: list[int] = []
        self._items = 0
        self._is_unknown = False
        self._total = _Number(query.measure)
        self._groups: dict[tuple[str, ...], _Number] = {}

    def add(self, item: CountedItem) -> None:
        """Count an item, if the conditions of the query are met."""
        query, members = self.query, item.members
        is_unknown = False
        for condition in query.where:
            value_of_member = members.get(condition.member)
            if isinstance(value_of_member, Unknown):
                is_unknown = True
            elif (_text(value_of_member) in condition.values) == condition.negated:
                return
        self._is_unknown = self._is_unknown or is_unknown
        value = 1 if query.measure is Measure.COUNT else _int(members, query)
        self._items += 1
        self._total.add(value)
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(item.index)
        if query.concern:
            self.runs.setdefault(item.run, item.index)
        if query.by:
            key = tuple(_text(members.get(name)) for name in query.by)
            if key not in self._groups:
                self._groups[key] = _Number(query.measure)
            self._groups[key].add(value)

    def result(self) -> Figure:
        """Return the figure."""
        query = self.query
        return Figure(
            id=query.id,
            title=query.title,
            section=query.section,
            unit=query.unit,
            value=None if self._is_unknown else self._total.result(),
            items=None if self._is_unknown else self._items,
            groups=() if self._is_unknown else tuple(self._sorted_groups()),
            examples=tuple(self._examples),
            query=query,
        )

    def _sorted_groups(self) -> Iterator[Group]:
        """Yield the groups: days in their order, others by falling value; the rest is joined."""
        groups = [Group(key, number.result()) for key, number in self._groups.items()]
        if "day" in self.query.by:
            yield from sorted(groups, key=lambda group: group.key)[: MAX_DAYS * MAX_GROUPS]
            return
        groups.sort(key=lambda group: (-group.value, group.key))
        yield from groups[:MAX_GROUPS]
        if rest := groups[MAX_GROUPS:]:
            joined = _Number(self.query.measure)
            for group in rest:
                joined.merge(self._groups[group.key])
            yield Group((OTHERS,) * len(self.query.by), joined.result())


def _int(members: Mapping[str, Any], query: Query) -> int:
    value = members.get(query.of, query.default)
    return value if isinstance(value, int) else query.default


class _Number:
    """A number that is being computed."""

    def __init__(self, measure: Measure) -> None:
        self._measure, self.sum = measure, 0
        self.values = list[int]()

    def add(self, value: int) -> None:
        if self._measure in (Measure.COUNT, Measure.SUM):
            self.sum += value
        else:
            self.values.append(value)

    def merge(self, other: "_Number") -> None:
        self.sum += other.sum
        self.values += other.values

    def result(self) -> int:
        match self._measure:
            case Measure.COUNT | Measure.SUM:
                return self.sum
            case Measure.MAX:
                return max(self.values, default=0)
            case Measure.MEDIAN:
                # The lower of the two in the middle: a figure is an integer that was recorded.
                ordered = sorted(self.values)
                return ordered[(len(ordered) - 1) // 2] if ordered else 0
            case _:
                assert_never(self._measure)
