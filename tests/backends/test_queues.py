"""The file in which DBOS keeps its queues on one machine: whole, or made anew."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from forum.backends.dbos_worker import prepare_sqlite_queue
from forum.errors import StateFileFailed


def versions(path: Path) -> list[tuple[int]]:
    """Return what the file says of its tables."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT version FROM dbos_migrations").fetchall()


@pytest.mark.parametrize(
    "left",
    [
        "",
        "CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TABLE workflow_status (workflow_uuid TEXT PRIMARY KEY)",
    ],
    ids=["nothing", "no version", "some tables"],
)
def test_a_file_whose_making_was_interrupted_is_made_anew(tmp_path: Path, left: str) -> None:
    """DBOS would find its own first table there, and never start again."""
    path = tmp_path / "engine.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        if left:
            db.execute(left)
    (tmp_path / "engine.db.new").write_bytes(b"what another attempt left")
    prepare_sqlite_queue(path)

    assert len(versions(path)) == 1


def test_a_file_that_is_in_use_stays(tmp_path: Path) -> None:
    """It holds who works on what just now."""
    path = tmp_path / "engine.db"
    prepare_sqlite_queue(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE ours (n INTEGER)")
    prepare_sqlite_queue(path)

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM ours").fetchone() == (0,)


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error says which file it was, and what to do."""
    (tmp_path / "engine.db.new").mkdir()

    with pytest.raises(StateFileFailed, match=r"the file of the queues failed .*engine\.db"):
        prepare_sqlite_queue(tmp_path / "engine.db")
