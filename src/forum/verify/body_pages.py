"""Reads the bodies of entries in pages: a query for each costs more than all other checks."""

from collections import deque
from collections.abc import Iterable

from forum.ledger.body import StoredBody
from forum.ledger.entry import NO_BODIES, peek_body_names
from forum.ledger.ports import BodyReader, EntryRow, Position

_PAGE_BODIES = 128
_MAX_PAGES = 8
"""Pages hold small bodies in memory: at most 8 MiB of them."""
_MAX_EXPECTED = 20_000

Place = tuple[Position, str]


class BodyPages:
    """The stored bodies of a ledger, for a reader that says which ones it will ask for.

    What is expected decides only how many queries are made: a body that was not expected is read
    alone.
    """

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader
        self._expected: dict[Place, list[Place]] = {}
        """For each place that may be asked for, the page of places that is read with it."""
        self._pages: deque[dict[Place, StoredBody | None]] = deque(maxlen=_MAX_PAGES)

    def expect(self, rows: Iterable[EntryRow]) -> None:
        """Take entries whose bodies will be asked for, about in this order."""
        if len(self._expected) > _MAX_EXPECTED:
            self._expected.clear()
        places = [
            (row.position, name)
            for row in rows
            if not row.data.endswith(NO_BODIES)  # nearly all of some ledgers: a call would cost
            for name in peek_body_names(row.data)
        ]
        for low in range(0, len(places), _PAGE_BODIES):
            page = places[low : low + _PAGE_BODIES]
            self._expected.update(dict.fromkeys(page, page))

    def read(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or None if it is not stored."""
        place = position, name
        for page in reversed(self._pages):
            if place in page:
                return page[place]
        places = self._expected.get(place, [place])
        page = dict(zip(places, self._reader.bodies_at(places), strict=True))
        if len(places) > 1:
            self._pages.append(page)
        return page[place]
