"""The semantic rung of routing: what a request means, beside the words that it uses.

A request is near a lane if its vector is near the vectors of some of the lane's examples.  Of those
only the signs are kept, 384 bits each: that costs hardly any accuracy, and the memory of a whole
roster is a small file of bits, not of code.  It depends on the roster and on the weights of the
sentence model alone, and is named after both.  That of the roster which comes with Forum comes with
Forum (`python -m benchmarks.routing_weights` makes it anew); for a roster of the user's own it is
made once, and kept in the user's cache.

The sentence model was trained on English.  For other languages its opinion is weak, and the words
decide.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from forum.models.arrays import NDArray, np
from forum.models.cache import write_cached, write_whole
from forum.models.embedding import DIMENSIONS, WEIGHTS, Floats, MiniLM, find_weights
from forum.work import Roster

Bits = NDArray[np.uint8]

_ROW = DIMENSIONS // 8
_NEAREST = 5
"""How many of a lane's examples are compared: one alone could be near by chance."""


class SemanticRung:
    """Tells how near a request is to the examples of each lane."""

    name = "semantic"

    def __init__(self, roster: Roster, signs: Bits, model: Callable[[], MiniLM] = MiniLM) -> None:
        ends = np.cumsum([len(texts) for texts in texts_of(roster)])[:-1]
        self._lanes = np.split(_unpacked(signs), ends)
        self._load = model

    def scores(self, text: str) -> Sequence[float]:
        """Return the similarity to the nearest examples of each lane, and of elsewhere."""
        (vector,) = self._model.encode([text])
        return [_nearness(signs @ vector) for signs in self._lanes]

    @cached_property
    def _model(self) -> MiniLM:
        """Loaded for the first request: nothing is slower here."""
        return self._load()


def open_rung(roster: Roster, cache: Path) -> SemanticRung | None:
    """Return the rung of a roster, from what comes with Forum or from the cache, if it is there."""
    find_weights()
    shipped = files("forum.models").joinpath(file_name(roster))
    if shipped.is_file():
        return SemanticRung(roster, read_signs(shipped.read_bytes()))
    kept = cache / file_name(roster)
    if kept.exists() and kept.stat().st_size == size_of(roster):
        return SemanticRung(roster, read_signs(kept.read_bytes()))
    return None


def fit_rung(roster: Roster, cache: Path) -> SemanticRung:
    """Make the rung of a roster, and keep it: to read an example takes about 25 ms."""
    signs = signs_of(roster, MiniLM())
    write_cached(cache / file_name(roster), signs.tobytes())
    return SemanticRung(roster, signs)


def file_name(roster: Roster) -> str:
    """Return the name of what is remembered of a roster: by its digest and that of the weights."""
    return f"roster-{roster.digest[:16]}-{WEIGHTS[:16]}.bits"


def signs_of(roster: Roster, model: MiniLM) -> Bits:
    """Return the signs of the vectors of all examples, eight in a byte."""
    vectors = model.encode([text for texts in texts_of(roster) for text in texts])
    return np.packbits(vectors > 0, axis=1)


def write_signs(file: Path, signs: Bits) -> None:
    """Write what is remembered of a roster."""
    write_whole(file, signs.tobytes())


def read_signs(data: bytes) -> Bits:
    """Return the signs in a file."""
    return np.frombuffer(data, np.uint8).reshape(-1, _ROW)


def size_of(roster: Roster) -> int:
    """Return how many bytes are remembered of a roster."""
    return _ROW * sum(len(texts) for texts in texts_of(roster))


def texts_of(roster: Roster) -> list[tuple[str, ...]]:
    """Return what a request is compared with: of each lane, and of elsewhere."""
    lanes = [(lane.does, *lane.examples) for lane in roster.lanes]
    return [*lanes, roster.elsewhere.examples]


def _unpacked(signs: Bits) -> Floats:
    """Return each row of bits as a vector of length one."""
    ones = np.unpackbits(signs, axis=1).astype(np.float32)
    return (2 * ones - 1) / np.float32(np.sqrt(DIMENSIONS))


def _nearness(similarities: Floats) -> float:
    nearest = np.sort(similarities)[-_NEAREST:]
    return float(nearest.mean()) if len(nearest) else 0.0
