"""The semantic rung: vectors as published, bits that belong to the roster, a cache that is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from forum.errors import WeightsMissing, WeightsRejected
from forum.models.weights import find_weights
from forum.runs.model_weights import MINILM

np = pytest.importorskip("numpy", reason="the extra `semantic` is not installed")
semantic = pytest.importorskip("forum.models.semantic_routing")

try:
    find_weights(MINILM)
except WeightsMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

from benchmarks.routing import (  # noqa: E402  nothing below can run without the extra
    GOALS,
    cross_validated,
    decided,
    met,
    read_requests,
    requests_file,
    shares,
)
from forum.app.planner import load_roster, make_router  # noqa: E402
from forum.models.embedding import MiniLM  # noqa: E402
from forum.runs.roster import ElsewhereSection, Lane, Roster  # noqa: E402
from forum.runs.routing import SEMANTIC_CALIBRATION, Router  # noqa: E402

pytestmark = pytest.mark.slow

SMALL = Roster(
    (
        Lane("kitchen", "Cooks meals.", examples=("Boil some potatoes", "Bake a cake")),
        Lane("garden", "Looks after plants.", examples=("Water the flowers", "Cut the hedge")),
    ),
    ElsewhereSection(("Good morning",)),
)


@pytest.fixture(scope="module")
def model() -> MiniLM:
    """Return the sentence model: loading it takes most of a second."""
    return MiniLM()


def test_similarities_are_those_that_were_published(model: MiniLM) -> None:
    """The example of the model's own page: whoever gets these numbers has the same model."""
    a, b, c = model.encode(
        ["That is a happy person", "That is a happy dog", "That is a very happy person"]
    )

    assert a @ b == pytest.approx(0.6946, abs=2e-3)
    assert a @ c == pytest.approx(0.9430, abs=2e-3)


def test_a_text_has_one_vector_whatever_stands_beside_it(model: MiniLM) -> None:
    """Texts are computed together, by length, and come back in their order."""
    texts = ["a", "two words", "zwei Wörter, 日本語", "", "\x00\ud800", "long " * 1000, "a b"]
    together = model.encode(texts)

    assert together.shape == (7, 384)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        assert np.allclose(model.encode([text])[0], vector, atol=1e-5)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    """What was measured with one model would be worth nothing with another."""
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 64)

    with pytest.raises(WeightsRejected, match=r"model\.safetensors is not the file that is pinned"):
        MiniLM(tmp_path)


def test_what_is_shipped_belongs_to_the_roster_that_is_shipped(model: MiniLM) -> None:
    """After a change of the roster: python -m benchmarks.routing_weights."""
    roster = load_roster()
    file = Path(semantic.__file__).with_name(semantic.signs_file_name(roster))
    assert file.exists(), "the roster has changed: python -m benchmarks.routing_weights"
    signs = np.unpackbits(semantic.read_signs(file.read_bytes()), axis=1)
    texts = [text for texts in semantic.texts_of(roster) for text in texts]
    vectors = model.encode(texts[::300])

    # The last digits depend on the machine, and a number next to zero may have either sign.
    assert ((vectors > 0) == signs[::300])[np.abs(vectors) > 1e-4].all()
    assert [other.name for other in file.parent.glob("*.bits")] == [file.name]


def test_a_roster_of_the_users_own_is_read_once(tmp_path: Path, model: MiniLM) -> None:
    """The second time nothing is computed but the vector of the request."""
    first = semantic.fit_semantic_stage(SMALL, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    again = semantic.open_semantic_stage(SMALL, tmp_path / "cache")

    assert kept.stat().st_mtime_ns == before
    assert again is not None
    assert first.scores("fry an egg") == again.scores("fry an egg")
    assert Router(SMALL, again).route("fry an egg in a pan").nearest == "kitchen"
    assert Router(SMALL, again).route("mow the lawn").nearest == "garden"


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    """A disk that was full once must not stop every later request."""
    semantic.fit_semantic_stage(SMALL, tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1])

    assert semantic.open_semantic_stage(SMALL, tmp_path) is None
    semantic.fit_semantic_stage(SMALL, tmp_path)
    assert kept.read_bytes() == whole


@pytest.mark.skipif(not requests_file().exists(), reason="the requests to measure by are not here")
def test_the_semantic_rung_reaches_its_goals() -> None:
    """On requests that others wrote: with the numbers that we ship, and with held-out ones."""
    requests = read_requests(requests_file())
    router = make_router(load_roster(), "semantic")
    routes = [router.route(request.text) for request in requests]

    for outcomes in (
        cross_validated(routes, requests, SEMANTIC_CALIBRATION),
        decided(routes, requests, SEMANTIC_CALIBRATION),
    ):
        document = shares(outcomes)
        assert [
            name for name in GOALS["semantic"] if not met("semantic", name, document[name])
        ] == []


def test_programs_do_not_inherit_the_limit_of_threads() -> None:
    """One thread is right for one sentence; an agent's program decides for itself."""
    text = (
        "import os; before = dict(os.environ); import forum.models.numpy_arrays; "
        "print(before == dict(os.environ))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"
