"""The semantic stage of routing: compares the meaning of a request with examples of each lane.

A request is near a lane if its vector is near the vectors of some of the lane's examples.  Only the
signs of the example vectors are kept, 384 bits each: this costs hardly any accuracy, and the index
of a whole roster is a small file of bits that contains no code.  It depends only on the roster and
on the weights of the sentence model, and is named after both.  The index of the default roster is
part of the package (`python -m benchmarks.routing_weights` rebuilds it); for a user's own roster it
is computed once and cached.

The sentence model was trained on English.  For other languages its scores are weak, and the
word-based score decides.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from forum.models import embedding
from forum.models.numpy_arrays import NDArray, np
from forum.models.user_cache import write_cached
from forum.models.weights import find_weights
from forum.runs.model_weights import MINILM, MINILM_TENSORS
from forum.runs.roster import Roster

Bits = NDArray[np.uint8]

_ROW_BYTES = embedding.DIMENSIONS // 8
_NEAREST_EXAMPLES = 5
"""Number of nearest examples that are averaged, because a single one could be near by chance."""


class SemanticStage:
    """Scores a request by its similarity to the examples of each lane."""

    name = "semantic"

    def __init__(self, roster: Roster, signs: Bits) -> None:
        ends = np.cumsum([len(texts) for texts in texts_of(roster)])[:-1]
        self._lanes = np.split(_unpacked(signs), ends)

    def scores(self, text: str) -> Sequence[float]:
        """Return the similarity to the nearest examples of each lane, and of "elsewhere"."""
        (vector,) = self._model.encode([text])
        return [_nearness(signs @ vector) for signs in self._lanes]

    @cached_property
    def _model(self) -> embedding.MiniLM:
        """The sentence model, loaded for the first request because loading is slow."""
        return embedding.MiniLM()


def open_semantic_stage(roster: Roster, cache: Path) -> SemanticStage | None:
    """Return the stage for a roster from the package or the cache, or None if it is in neither."""
    # Raises `WeightsMissing` now: without the weights no request could be compared later.
    find_weights(MINILM)
    shipped = files("forum.models").joinpath(signs_file_name(roster))
    if shipped.is_file():
        return SemanticStage(roster, read_signs(shipped.read_bytes()))
    cached = cache / signs_file_name(roster)
    if cached.exists() and cached.stat().st_size == signs_size(roster):
        return SemanticStage(roster, read_signs(cached.read_bytes()))
    return None


def fit_semantic_stage(roster: Roster, cache: Path) -> SemanticStage:
    """Compute the stage for a roster and cache it; encoding takes about 25 ms per example."""
    signs = signs_of(roster, embedding.MiniLM())
    write_cached(cache / signs_file_name(roster), signs.tobytes())
    return SemanticStage(roster, signs)


def signs_file_name(roster: Roster) -> str:
    """Return the file name for a roster, made from its digest and the digest of the weights."""
    return f"roster-{roster.digest[:16]}-{MINILM_TENSORS.sha256[:16]}.bits"


def signs_of(roster: Roster, model: embedding.MiniLM) -> Bits:
    """Return the signs of the vectors of all examples, packed eight to a byte."""
    vectors = model.encode([text for texts in texts_of(roster) for text in texts])
    return np.packbits(vectors > 0, axis=1)


def read_signs(data: bytes) -> Bits:
    """Return the signs stored in a file."""
    return np.frombuffer(data, np.uint8).reshape(-1, _ROW_BYTES)


def signs_size(roster: Roster) -> int:
    """Return the size of a roster's signs in bytes."""
    return _ROW_BYTES * sum(len(texts) for texts in texts_of(roster))


def texts_of(roster: Roster) -> list[tuple[str, ...]]:
    """Return the texts that a request is compared with: for each lane, then for "elsewhere"."""
    lanes = [(lane.does, *lane.examples) for lane in roster.lanes]
    return [*lanes, roster.elsewhere.examples]


def _unpacked(signs: Bits) -> embedding.Floats:
    """Return each row of bits as a vector of length one."""
    ones = np.unpackbits(signs, axis=1).astype(np.float32)
    return (2 * ones - 1) / np.float32(np.sqrt(embedding.DIMENSIONS))


def _nearness(similarities: embedding.Floats) -> float:
    nearest = np.sort(similarities)[-_NEAREST_EXAMPLES:]
    return float(nearest.mean()) if len(nearest) else 0.0
