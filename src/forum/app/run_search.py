"""Search the bodies of runs for words, up to a number of bytes."""

from typing import Any

from forum.app.project import ProjectContext
from forum.errors import ArchiveUnreachable, TamperDetected
from forum.ledger.body_follower import BodyFollower
from forum.ledger.entry import Entry
from forum.ledger.ports import Position
from forum.runs.conversation.text_search import SKIPPED_BODIES, body_contains, is_without

MAX_SEARCHED_BYTES = 1 << 25
"""How many bytes of bodies one request of a client may read."""
MAX_SEARCHED_BYTES_LOCALLY = 1 << 30
MAX_RUN_BYTES = 1 << 24
"""How many bytes of one run are searched; what bodies share counts once."""
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
        try:
            places = self._find_bodies(run)
            size, is_whole = 0, True
            follower = BodyFollower()
            for start in range(0, len(places), _PAGE_BODIES):
                page = places[start : start + _PAGE_BODIES]
                stored = self._project.store.bodies_at([(at, name) for at, name, _ in page])
                for (_, name, entry), body in zip(page, stored, strict=True):
                    if body is None:
                        continue  # it was erased
                    if body.shared is None and size + entry.bodies[name].size > MAX_RUN_BYTES:
                        is_whole = False
                        continue
                    try:
                        content, kept = follower.read(entry, name, body)
                    except TamperDetected:
                        is_whole = False
                        continue
                    size += len(content) - kept
                    self._left -= len(content) - kept
                    # What it shares with an earlier body was searched there.
                    if not is_without(content, self._words, kept) and body_contains(
                        content, self._words
                    ):
                        return True
        except ArchiveUnreachable:
            is_whole = False
        self.unsearched += not is_whole
        return False

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
