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

from forum.models.embedding import DIMENSIONS, WEIGHTS_SHA256, Floats, MiniLM, find_weights
from forum.models.numpy_arrays import NDArray, np
from forum.models.user_cache import write_atomically, write_cached
from forum.work import Roster

Bits = NDArray[np.uint8]

_ROW_BYTES = DIMENSIONS // 8
_NEAREST_EXAMPLES = 5
"""How many of a lane's examples are compared: one alone could be near by chance."""


class SemanticStage:
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


def open_semantic_stage(roster: Roster, cache: Path) -> SemanticStage | None:
    """Return the rung of a roster, from what comes with Forum or from the cache, if it is there."""
    find_weights()
    shipped = files("forum.models").joinpath(signs_file_name(roster))
    if shipped.is_file():
        return SemanticStage(roster, read_signs(shipped.read_bytes()))
    kept = cache / signs_file_name(roster)
    if kept.exists() and kept.stat().st_size == signs_size(roster):
        return SemanticStage(roster, read_signs(kept.read_bytes()))
    return None


def fit_semantic_stage(roster: Roster, cache: Path) -> SemanticStage:
    """Make the rung of a roster, and keep it: to read an example takes about 25 ms."""
    signs = signs_of(roster, MiniLM())
    write_cached(cache / signs_file_name(roster), signs.tobytes())
    return SemanticStage(roster, signs)


def signs_file_name(roster: Roster) -> str:
    """Return the name of what is remembered of a roster: by its digest and that of the weights."""
    return f"roster-{roster.digest[:16]}-{WEIGHTS_SHA256[:16]}.bits"


def signs_of(roster: Roster, model: MiniLM) -> Bits:
    """Return the signs of the vectors of all examples, eight in a byte."""
    vectors = model.encode([text for texts in texts_of(roster) for text in texts])
    return np.packbits(vectors > 0, axis=1)


def write_signs(file: Path, signs: Bits) -> None:
    """Write what is remembered of a roster."""
    write_atomically(file, signs.tobytes())


def read_signs(data: bytes) -> Bits:
    """Return the signs in a file."""
    return np.frombuffer(data, np.uint8).reshape(-1, _ROW_BYTES)


def signs_size(roster: Roster) -> int:
    """Return how many bytes are remembered of a roster."""
    return _ROW_BYTES * sum(len(texts) for texts in texts_of(roster))


def texts_of(roster: Roster) -> list[tuple[str, ...]]:
    """Return what a request is compared with: of each lane, and of elsewhere."""
    lanes = [(lane.does, *lane.examples) for lane in roster.lanes]
    return [*lanes, roster.elsewhere.examples]


def _unpacked(signs: Bits) -> Floats:
    """Return each row of bits as a vector of length one."""
    ones = np.unpackbits(signs, axis=1).astype(np.float32)
    return (2 * ones - 1) / np.float32(np.sqrt(DIMENSIONS))


def _nearness(similarities: Floats) -> float:
    nearest = np.sort(similarities)[-_NEAREST_EXAMPLES:]
    return float(nearest.mean()) if len(nearest) else 0.0
