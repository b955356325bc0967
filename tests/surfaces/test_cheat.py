"""`forum demo cheat`: every row of its table is a promise, so every row is a test."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.ledger import text
from forum.surfaces.cli.cheat import FRAUDS, Fraud, Scene, catch, write_scene
from tests.support import fresh_origin, upgraded
from tests.surfaces.terminal import Terminal

# What a fraud breaks besides the evidence that it is named for.  A hash that no longer fits is
# missed by the link, the cause and the close that name it.
ALSO = {
    "edit": {"root-mismatch", "strand-unclosed"},
    "delete": {"root-mismatch", "strand-unclosed"},
    "insert": {"left-unsequenced"},
    "reorder": {
        "root-mismatch",
        "position-missing",
        "position-doubled",
        "cause-missing",
        "strand-unclosed",
    },
    "rewrite": {"strand-unclosed"},
    "re-sign": {"strand-unclosed", "past-unknown"},
    "swap-key": {"nothing-signed", "left-unsequenced", "not-witnessed"},
    "double": {"link-broken", "strand-unclosed"},
}


def everything(scene: Scene) -> object:
    """Return what the database holds of a log."""
    store = scene.forum.store
    body = store.body(scene.payment, "text")
    return (
        scene.entries(),
        list(store.unsequenced()),
        list(store.checkpoints()),
        b"".join(body.read()) if body else None,
    )


def settings_in(folder: Path, database: str | None = None) -> Settings:
    """Return the settings of a ledger that has a folder for itself."""
    data = folder / "ledger"
    return Settings(data, folder / "state", data / "log.key", fresh_origin(), database)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene]:
    """Return an honest ledger, closed, to be copied."""
    folder = tmp_path_factory.mktemp("honest")
    scene = write_scene(settings_in(folder))
    scene.forum.close()
    return folder, scene


DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the address of each kind of database, and nothing for a file."""
    if request.param == "sqlite":
        return None
    return upgraded(str(request.getfixturevalue("postgres_url")))


@pytest.fixture
def scene(honest: tuple[Path, Scene], database: str | None, tmp_path: Path) -> Iterator[Scene]:
    """Return an honest ledger that may be spoilt."""
    if database is None:
        shutil.copytree(honest[0], tmp_path, dirs_exist_ok=True)
        copy = replace(honest[1], forum=Forum(settings_in(tmp_path)))
    else:
        copy = write_scene(settings_in(tmp_path, database))
    with copy.forum:
        yield copy


@pytest.mark.parametrize("fraud", FRAUDS, ids=lambda fraud: fraud.name)
def test_a_fraud_is_caught_by_the_evidence_that_it_names(scene: Scene, fraud: Fraud) -> None:
    """A fraud that changes nothing proves nothing; one caught by luck is not caught next time."""
    before = everything(scene)
    by = catch(scene, fraud)

    assert everything(scene) != before
    assert by == fraud.by | ALSO.get(fraud.name, set())


def test_an_honest_ledger_gives_no_finding(scene: Scene) -> None:
    """Whoever calls everything a fraud catches them all; going on honestly is none either."""
    untouched = catch(scene, Fraud("none", "nothing", lambda _: None, frozenset()))
    scene.forum.remark(text("one more run"))
    longer = catch(scene, Fraud("none", "nothing", lambda _: None, frozenset()))

    assert untouched == longer == set()


@pytest.mark.slow
def test_the_demo_tells_a_program_what_it_tells_a_person(tmp_path: Path) -> None:
    """Who tries us out in a script gets one object, within seconds, and status 0 for all caught."""
    started = monotonic()
    demo = Terminal(tmp_path).type("demo", "cheat", "--json")
    seconds = monotonic() - started

    frauds = json.loads(demo.stdout)["frauds"]
    assert (demo.returncode, demo.stdout.count("\n")) == (0, 1)
    assert seconds < 20
    assert len(frauds) >= 13
    assert {"name", "caught", "by"} <= frauds[0].keys()
    assert [fraud["name"] for fraud in frauds if fraud["caught"] is not True] == []
    assert [fraud["by"] for fraud in frauds] == [", ".join(sorted(f.by)) for f in FRAUDS]
