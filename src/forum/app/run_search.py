"""Search the bodies of runs for words, up to a number of bytes."""

from collections.abc import Iterator
from typing import Any

from forum.app.project import ProjectContext
from forum.errors import ArchiveUnreachable, TamperDetected
from forum.ledger.body import StoredBody
from forum.ledger.body_follower import BodyFollower
from forum.ledger.entry import Entry
from forum.ledger.ports import Position
from forum.runs.conversation.text_search import SKIPPED_BODIES, ConversationSearch, body_contains

MAX_SEARCHED_BYTES = 1 << 25
"""How many bytes of bodies one request of a client may read."""
MAX_SEARCHED_BYTES_LOCALLY = 1 << 30
MAX_RUN_BYTES = 1 << 24
"""How many bytes of one run are searched; what bodies share counts once."""
MAX_CHECKED_BYTES = 1 << 30
"""How many bytes of one run are compared with their commitments, those that bodies share too."""
_CHECKED_TO_SEARCHED = 32
"""About how much faster bytes are compared than searched."""
_PAGE_BODIES = 64


class RunSearch:
    """Searches runs for words in their bodies, which are compared with their commitments."""

    def __init__(self, project: ProjectContext, words: str, max_bytes: int) -> None:
        self._project, self._words = project, words
        self._left = max_bytes
        self.unsearched = 0
        """The number of runs without a match of which not every text was searched."""

    @property
    def is_exhausted(self) -> bool:
        """Whether as much was read as may be."""
        return self._left <= 0

    def matches(self, run: str) -> bool:
        """Return whether a text of a run has the words."""
        bodies = _BodySearch(self._words)
        try:
            is_found = any(
                bodies.is_in(entry, name, body) for entry, name, body in self._bodies_of(run)
            )
        except ArchiveUnreachable:
            is_found, bodies.is_whole = False, False
        self._left -= bodies.cost
        self.unsearched += not (is_found or bodies.is_whole)
        return is_found

    def _bodies_of(self, run: str) -> Iterator[tuple[Entry[Any], str, StoredBody]]:
        """Yield the bodies of a run that were not erased."""
        places = self._find_bodies(run)
        for start in range(0, len(places), _PAGE_BODIES):
            page = places[start : start + _PAGE_BODIES]
            stored = self._project.store.bodies_at([(at, name) for at, name, _ in page])
            for (_, name, entry), body in zip(page, stored, strict=True):
                if body is not None:
                    yield entry, name, body

    def _find_bodies(self, run: str) -> list[tuple[Position, str, Entry[Any]]]:
        entries = (
            (at, self._project.ledger.kinds.read(data))
            for at, data in self._project.store.entries_of_run(run)
        )
        return [
            (at, name, entry)
            # In the order of their recording, bodies go on from those before them.
            for at, entry in sorted(entries, key=lambda item: (item[1].ts, *item[0]))
            for name, commitment in entry.bodies.items()
            if name not in SKIPPED_BODIES and commitment.size
        ]


class _BodySearch:
    """Searches the bodies of one run."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._follower, self._conversation = BodyFollower(), ConversationSearch(words)
        self._searched = self._checked = 0
        self.is_whole = True

    @property
    def cost(self) -> int:
        """How many bytes could have been searched in the time."""
        return self._searched + self._checked // _CHECKED_TO_SEARCHED

    def is_in(self, entry: Entry[Any], name: str, body: StoredBody) -> bool:
        """Return whether a body has the words in what no earlier one has."""
        size = entry.bodies[name].size
        searched, limit = self._searched, MAX_RUN_BYTES
        if body.shared is not None:
            searched, limit = self._checked, MAX_CHECKED_BYTES
        if searched + size > limit:
            self.is_whole = False
            return False
        try:
            content, kept, base = self._follower.read(entry, name, body)
        except TamperDetected:
            self.is_whole = False
            return False
        self._checked += size
        if self._searched + size - kept > MAX_RUN_BYTES:
            self.is_whole = False
            return False
        self._searched += size - kept
        if body.shared is None:
            return body_contains(content, self._words)
        return self._conversation.is_in(content, base, kept)
