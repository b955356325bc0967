"""Reads the bodies of entries in pages: a query for each costs more than all other checks."""

from collections.abc import Iterable
from typing import Protocol

from forum.ledger.body import StoredBody
from forum.ledger.entry import NO_BODIES, peek_body_names
from forum.ledger.ports import EntryRow, Position

_PAGE_BODIES = 128
"""A page holds the small bodies in memory: at most 1 MiB of them."""

Place = tuple[Position, str]


class _Reader(Protocol):
    def bodies_at(self, places: list[Place]) -> list[StoredBody | None]:
        """Return the body of each name at each position; None where it is not stored."""


class BodyPages:
    """The stored bodies of a ledger, for a reader that asks for them in the order of the log.

    What is expected decides only how many queries are made: a body that was not expected is read
    alone.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._expected: list[Place] = []
        self._places: dict[Place, int] = {}
        """For each place of `_expected` its number."""
        self._page: dict[Place, StoredBody | None] = {}

    def expect(self, rows: Iterable[EntryRow]) -> None:
        """Take the entries whose bodies will be asked for next, in place of the earlier ones."""
        self._page = {}
        self._expected = [
            (row.position, name)
            for row in rows
            if not row.data.endswith(NO_BODIES)  # nearly all of some ledgers: a call would cost
            for name in peek_body_names(row.data)
        ]
        self._places = {place: number for number, place in enumerate(self._expected)}

    def read(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or None if it is not stored."""
        place = position, name
        if place not in self._page:
            number = self._places.get(place)
            page = [place] if number is None else self._expected[number : number + _PAGE_BODIES]
            self._page = dict(zip(page, self._reader.bodies_at(page), strict=True))
        return self._page[place]
