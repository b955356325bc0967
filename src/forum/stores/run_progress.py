"""The progress of the runs of a log, in a SQLite file from which a later verification continues.

The state is bound to one checkpoint and to the trust settings of the reader; with other settings it
is ignored, and everything is verified again.  The file is in the state directory of the reader or
in the folder of a witness, and is as trustworthy as the other files there.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from forum.errors import StoreFailed
from forum.stores.state_files import make_private_folder
from forum.verify import RunSnapshot, StrandHead, VerifiedCheckpoint

_BUSY_TIMEOUT_S = 20.0
_FORMAT = "forum/run-state/1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS last (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format TEXT NOT NULL, trust TEXT NOT NULL, checkpoint BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS run (
    run TEXT PRIMARY KEY, floor INTEGER NOT NULL,
    closed INTEGER NOT NULL, session INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_run ON run (run) WHERE NOT closed;
CREATE TABLE IF NOT EXISTS strand (
    run TEXT NOT NULL, name TEXT NOT NULL,
    n INTEGER NOT NULL, head BLOB NOT NULL, floor INTEGER NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID
"""
_MAIN = "main"
_read_last = msgspec.json.Decoder(VerifiedCheckpoint).decode


class RunProgressFile:
    """The state of the runs in a file; changes are stored only by `commit`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def last(self, trust: str) -> VerifiedCheckpoint | None:
        """Return the checkpoint of this state, or None if it was stored with other trust."""
        query = "SELECT checkpoint FROM last WHERE format = ? AND trust = ?"
        row = self._first_row(query, _FORMAT, trust)
        try:
            return _read_last(row[0]) if row else None
        except msgspec.MsgspecError:
            return None

    def commit(self, last: VerifiedCheckpoint, trust: str) -> None:
        """Store all changes as the state at a checkpoint, and begin a new transaction."""
        row = (_FORMAT, trust, msgspec.json.encode(last))
        self._db.execute("REPLACE INTO last VALUES (1, ?, ?, ?)", row)
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")

    def rollback(self) -> None:
        """Discard all changes since the last commit, and begin a new transaction."""
        self._db.execute("ROLLBACK")
        self._db.execute("BEGIN IMMEDIATE")

    def replace(self, runs: Iterable[RunSnapshot]) -> None:
        """Replace the whole state by that of these runs."""
        for table in ("last", "run", "strand"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608  one of three constants
        for run in runs:
            row = (run.run, run.floor, run.closed, run.session)
            self._db.execute("INSERT INTO run VALUES (?, ?, ?, ?)", row)
            for name, strand in run.strands:
                self.put_strand(run.run, name, strand)

    def find_strand(self, run: str, name: str) -> StrandHead | None:
        """Return the state of an open strand, or None."""
        query = "SELECT n, head, floor FROM strand WHERE run = ? AND name = ?"
        row = self._first_row(query, run, name)
        return StrandHead(*row) if row else None

    def strands_of(self, run: str) -> set[str] | None:
        """Return the strands of an open run except `main`; None if the run is not open."""
        if not self._first_row("SELECT 1 FROM run WHERE run = ? AND NOT closed", run):
            return None
        rows = self._db.execute("SELECT name FROM strand WHERE run = ?", (run,))
        return {row[0] for row in rows} - {_MAIN}

    def floor_of(self, run: str) -> int:
        """Return the earliest possible time of the entries of a run, or 0."""
        row = self._first_row("SELECT floor FROM run WHERE run = ?", run)
        return row[0] if row else 0

    def is_closed(self, run: str) -> bool:
        """Return whether a run was closed."""
        return bool(self._first_row("SELECT 1 FROM run WHERE run = ? AND closed", run))

    def open_run(self, run: str, floor: int) -> None:
        """Record that a run was opened."""
        self._db.execute("INSERT INTO run VALUES (?, ?, 0, 0)", (run, floor))

    def put_strand(self, run: str, name: str, strand: StrandHead) -> None:
        """Record the state of a strand of an open run."""
        row = (run, name, strand.n, strand.head, strand.floor)
        self._db.execute("REPLACE INTO strand VALUES (?, ?, ?, ?, ?)", row)

    def close_run(self, run: str) -> None:
        """Record that a run was closed, and delete its strands."""
        self._db.execute("UPDATE run SET closed = 1 WHERE run = ?", (run,))
        self._db.execute("DELETE FROM strand WHERE run = ?", (run,))

    def is_session(self, run: str) -> bool:
        """Return whether a run is known to be a session."""
        return bool(self._first_row("SELECT 1 FROM run WHERE run = ? AND session", run))

    def mark_session(self, run: str) -> None:
        """Record that a run is a session."""
        self._db.execute("UPDATE run SET session = 1 WHERE run = ?", (run,))

    def open_runs(self) -> tuple[str, ...]:
        """Return the open runs, except the log's own run, in the order of their names."""
        rows = self._db.execute("SELECT run FROM run WHERE NOT closed ORDER BY run")
        return tuple(row[0] for row in rows if row[0] != "log")

    def _first_row(self, query: str, *parameters: str) -> Any:  # noqa: ANN401  columns of any type
        return self._db.execute(query, parameters).fetchone()


@contextmanager
def open_run_progress(path: Path) -> Iterator[RunProgressFile]:
    """Open the state for one process at a time; discard uncommitted changes at the end.

    Raises `StoreFailed`.
    """
    try:
        make_private_folder(path.parent)
        path.touch(mode=0o600)
    except OSError as error:
        raise StoreFailed(f"opening {path}", error.strerror or str(error)) from None
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        with closing(connection):
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            yield RunProgressFile(connection)
    except sqlite3.Error as error:
        raise StoreFailed(f"storing the state in {path}", str(error)) from error
