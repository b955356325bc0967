"""`forum demo cheat`: every row of its table is a promise, so every row is a test."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import forum.verify
from forum.app import Forum, now
from forum.config import Settings
from forum.features.demo.frauds import (
    TAMPER_CASES,
    TamperCase,
    TamperScene,
    create_scene,
    detect_tampering,
)
from forum.features.demo.tampering import own_database
from forum.ledger.body import text_content
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Reader
from forum.verify import Report, Trust
from tests.support import fresh_origin, upgraded
from tests.surfaces.command_server import command_server
from tests.surfaces.terminal import Terminal
from tests.verify.world import assert_cut_does_not_matter

# What a fraud breaks besides the evidence that it is named for.  A hash that no longer fits is
# missed by the link, the cause and the close that name it.
ALSO = {
    "edit": {"root-mismatch", "strand-unclosed", "column-mismatch"},
    "delete": {"root-mismatch", "strand-unclosed", "table-mismatch"},
    "insert": {"tag-rejected", "directory-broken"},
    "reorder": {
        "root-mismatch",
        "column-mismatch",
        "position-missing",
        "position-doubled",
        "cause-missing",
        "strand-unclosed",
    },
    "rewrite": {"strand-unclosed"},
    # The log has recorded who cosigned the checkpoint that is not there any more.
    "re-sign": {"strand-unclosed", "past-unknown", "cosignature-missing"},
    "swap-key": {"nothing-signed", "not-witnessed", "tag-rejected", "cosignature-missing"},
    # Bodies of entries that are not there any more.
    "cut-tail": {"table-mismatch"},
    "split-view": {"table-mismatch"},
    "omit": {"table-mismatch"},
    # Bodies are found by the same columns.
    "swap-runs": {"body-mismatch"},
    "hide-run": {"body-missing", "table-mismatch"},
}


def everything(scene: TamperScene) -> object:
    """Return what the database holds of a log, and the key beside it."""
    store, key = scene.forum.store, scene.forum.settings.key_file
    body = store.body(scene.payment, "text")
    rows = list(store.rows(0, store.head().size))
    return (
        rows,
        [store.find_by_prefix(leaf_of(row.data)[:8]) for row in rows if row],
        store.runs("", 100),
        store.accounts(store.account_runs("", 100)),
        store.timers(None, 100, due=False),
        store.idempotency_rows("", 100),
        list(store.unsequenced_rows()),
        store.quarantined_rows(),
        list(store.checkpoints()),
        b"".join(body.read()) if body else None,
        key.read_bytes() if key.exists() else None,
        store.check_catalogue(),
    )


def settings_in(folder: Path, database: str | None = None) -> Settings:
    """Return the settings of a ledger that has a folder for itself."""
    data = folder / "ledger"
    return Settings(
        data,
        state=folder / "state",
        key_file=data / "log.key",
        origin=fresh_origin(),
        database=database,
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TamperScene]:
    """Return an honest ledger, closed, to be copied."""
    folder = tmp_path_factory.mktemp("honest")
    scene = create_scene(settings_in(folder))
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
def scene(
    honest: tuple[Path, TamperScene], database: str | None, tmp_path: Path
) -> Iterator[TamperScene]:
    """Return an honest ledger that may be spoilt."""
    if database is None:
        shutil.copytree(honest[0], tmp_path, dirs_exist_ok=True)
        copy = replace(honest[1], forum=Forum(settings_in(tmp_path)))
    else:
        copy = create_scene(settings_in(tmp_path, database))
    with copy.forum:
        yield copy


@pytest.fixture(autouse=True)
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is verified here is verified in segments besides, and the reports compared."""
    whole = forum.verify.verify_ledger

    def verify(reader: Reader, kinds: Kinds, trust: Trust, *others: Any, **named: Any) -> Report:  # noqa: ANN401
        assert_cut_does_not_matter(reader, kinds, trust, others[0])
        return whole(reader, kinds, trust, *others, **named)

    monkeypatch.setattr("forum.verify.verify_ledger", verify)


@pytest.mark.parametrize("name", ["none", "swap-body", "edit"])
def test_processes_find_what_one_finds(
    scene: TamperScene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own, with snapshots of their own: the same, in the same order."""
    monkeypatch.setattr("forum.app.log._MIN_PARALLEL_ENTRIES", 0)
    monkeypatch.setattr("forum.verify.ledger_audit._CHUNK_ENTRIES", 2)
    monkeypatch.setattr("forum.verify.ledger_audit.SEGMENT_ENTRIES", 3)
    fraud = next((fraud for fraud in TAMPER_CASES if fraud.name == name), None)
    if fraud is not None:
        fraud.play(scene)
    trust, later = scene.forum.log.read_trust(), now() + 60_000_000
    alone = scene.forum.log.verify(trust, at=later)
    together = scene.forum.log.verify(trust, at=later, jobs=2)

    assert together == alone
    assert alone.ok is (fraud is None)


@pytest.mark.parametrize("fraud", TAMPER_CASES, ids=lambda fraud: fraud.name)
def test_a_fraud_is_caught_by_the_evidence_that_it_names(
    scene: TamperScene, fraud: TamperCase, tmp_path: Path
) -> None:
    """A fraud that changes nothing proves nothing; one caught by luck is not caught next time."""
    url = scene.forum.settings.database
    if fraud.changes_schema and url is not None:
        with own_database(url) as own:
            assert own is not None
            fresh = create_scene(settings_in(tmp_path / "own", own))
            with fresh.forum:
                check_fraud(fresh, fraud)
    else:
        check_fraud(scene, fraud)


def check_fraud(scene: TamperScene, fraud: TamperCase) -> None:
    """Commit a fraud, and see that it changes something and is caught as it says."""
    before = everything(scene)
    by = detect_tampering(scene, fraud)

    assert everything(scene) != before
    assert by == fraud.by | ALSO.get(fraud.name, set())


def test_an_honest_ledger_gives_no_finding(scene: TamperScene) -> None:
    """Whoever calls everything a fraud catches them all; going on honestly is none either."""
    untouched = detect_tampering(scene, TamperCase("none", "nothing", lambda _: None, frozenset()))
    scene.forum.log.record_note(text_content("one more run"))
    longer = detect_tampering(scene, TamperCase("none", "nothing", lambda _: None, frozenset()))

    assert untouched == longer == set()


@pytest.mark.slow
def test_the_demo_tells_a_program_what_it_tells_a_person(tmp_path: Path) -> None:
    """Who tries us out in a script gets one object, within seconds, and status 0 for all caught."""
    started = command_server().cpu_seconds
    demo = Terminal(tmp_path).type("demo", "cheat", "--json")
    seconds = command_server().cpu_seconds - started

    frauds = json.loads(demo.stdout)["frauds"]
    assert (demo.returncode, demo.stdout.count("\n")) == (0, 1)
    assert seconds < 10
    assert len(frauds) >= 13
    assert {"name", "caught", "by"} <= frauds[0].keys()
    assert [fraud["name"] for fraud in frauds if fraud["caught"] is not True] == []
    assert [fraud["by"] for fraud in frauds] == [", ".join(sorted(f.by)) for f in TAMPER_CASES]
