"""Search the bodies of runs for words, up to a number of bytes."""

from forum.app.project import ProjectContext
from forum.errors import ArchiveUnreachable
from forum.ledger.body import StoredBody
from forum.ledger.entry import Commitment
from forum.ledger.ports import Position
from forum.runs.conversation.text_search import SKIPPED_BODIES, body_contains

MAX_SEARCHED_BYTES = 1 << 25
"""How many bytes of bodies one request of a client may read."""
MAX_SEARCHED_BYTES_LOCALLY = 1 << 30
MAX_RUN_BYTES = 1 << 24
"""How many bytes of one run are searched."""
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
            for start in range(0, len(places), _PAGE_BODIES):
                page = places[start : start + _PAGE_BODIES]
                stored = self._project.store.bodies_at([(at, name) for at, name, _ in page])
                for (_, _, commitment), body in zip(page, stored, strict=True):
                    if body is None:
                        continue  # it was erased
                    if size + commitment.size > MAX_RUN_BYTES:
                        is_whole = False
                        continue
                    size += commitment.size
                    content = b"".join(body.read())
                    self._left -= len(content)
                    if not _is_committed(body, content, commitment):
                        is_whole = False
                    elif body_contains(content, self._words):
                        return True
        except ArchiveUnreachable:
            is_whole = False
        self.unsearched += not is_whole
        return False

    def _find_bodies(self, run: str) -> list[tuple[Position, str, Commitment]]:
        return [
            (at, name, commitment)
            for at, data in self._project.store.entries_of_run(run)
            for name, commitment in self._project.ledger.kinds.read(data).bodies.items()
            if name not in SKIPPED_BODIES and commitment.size
        ]


def _is_committed(body: StoredBody, content: bytes, commitment: Commitment) -> bool:
    return StoredBody(body.salt, lambda: [content]).matches(commitment)
