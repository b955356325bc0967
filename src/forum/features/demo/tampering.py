"""Attacks by a user with write access to the database, for demonstrations and tests only.

Most methods run a statement as it could be typed into the database's own shell, without any of the
checks of the ledger.
"""

import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import ClassVar

from forum.app import Forum
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.ports import EntryWrite, Position, Store
from forum.ledger.sequencer import Sequencer
from forum.stores.sql_migrations import load_queries
from forum.stores.sql_queries import leaf_prefixes
from forum.stores.sqlite import SqliteStore
from forum.tlog import EMPTY_ROOT


class DatabaseTamperer(ABC):
    """An attacker who changes rows of one log directly in the database."""

    database: ClassVar[str]
    """The kind of database, as the folders of SQL files are named."""

    def __init__(self, address: str, store: Store) -> None:
        self._address, self._store = address, store
        own = load_queries(self.database, "tamper", "forum.features.demo")
        self._sql = own | load_queries(self.database)
        self._log = int(str(self._run("log", origin=store.origin)[0][0]))

    @abstractmethod
    def _run(self, query: str, **parameters: object) -> list[tuple[object, ...]]:
        """Run one statement and commit it."""

    @abstractmethod
    def _open_store(self) -> AbstractContextManager[Store]:
        """Open the log as a process that has seen nothing of it."""

    def overwrite(self, index: int, data: bytes) -> None:
        """Replace the bytes of an entry."""
        self._run("overwrite", log=self._log, idx=index, bytes=data)

    def delete(self, index: int) -> None:
        """Delete an entry."""
        self._run("delete", log=self._log, idx=index)

    def swap_entries(self, first: int, second: int) -> None:
        """Exchange the places of two entries."""
        self._run("exchange", log=self._log, one=first, two=second)

    def set_body(self, position: Position, name: str, data: bytes) -> None:
        """Replace the content of a body."""
        self._run("set_body", **self._place(position), name=name, data=data)

    def remove_body(self, position: Position, name: str) -> None:
        """Delete a body and its salt."""
        self._run("erase", **self._place(position), name=name)

    def delete_pending(self, position: Position) -> None:
        """Delete an entry that has no index yet."""
        self._run("unsequenced_delete", **self._place(position))

    def replace_history(self, entries: Sequence[bytes], keep_checkpoints: int = 0) -> None:
        """Replace the history of the whole log: entries, indexes, tiles and root."""
        for query in ("wipe_entries", "wipe_leaves", "wipe_tiles"):
            self._run(query, log=self._log)
        self._run("wipe_checkpoints", log=self._log, size=keep_checkpoints)
        self._run("wipe_head", log=self._log, root=bytes(EMPTY_ROOT))
        self._run("reopen_log", origin=self._store.origin)  # an earlier epoch takes nothing
        honest = self._store
        # A process that has seen more of the log would refuse to write to what is left of it.
        with self._open_store() as self._store:
            for data in entries:
                self.insert(data)
            Sequencer(self._store).drain()
        self._store = honest

    def replace_checkpoints(self, notes: Mapping[int, bytes]) -> None:
        """Replace all signed notes of the log."""
        self._run("wipe_checkpoints", log=self._log, size=0)
        for size, note in notes.items():
            self._store.save_checkpoint(size, note)

    def insert(self, data: bytes, tag: bytes = b"") -> None:
        """Insert an entry with any bytes, under another strand name if its position is taken."""
        entry = LEDGER_KINDS.read(data)
        occupied = entry.n < sum(1 for _ in self._store.strand_rows(entry.run, entry.strand))
        strand = f"{entry.strand}-too" if occupied else entry.strand
        position = Position(entry.run, strand, entry.n)
        self._store.append([EntryWrite(position, data, leaf_of(data), tag=tag)])

    def move(self, position: Position, strand: str) -> None:
        """Move an entry to another strand of its run."""
        self._run("move_entry", **self._place(position), other=strand)

    def rename_run(self, run: str, name: str) -> None:
        """Assign all strands of a run to another run name."""
        self._run("rename_run", log=self._log, run=run, name=name)

    def hide_row(self, position: Position) -> None:
        """Make the sequencer skip a pending entry, so that it never gets an index."""
        self._run("hide_row", **self._place(position))

    def set_prefix(self, leaf: bytes, prefix: int) -> None:
        """Change the lookup key of an entry, so that it is not found by its id."""
        self._run("set_prefix", log=self._log, prefix=leaf_prefixes([leaf])[0], other=prefix)

    def set_cap(self, run: str, usd: int) -> None:
        """Change the dollar cap of a run."""
        self._run("set_cap", log=self._log, run=run, usd=usd)

    def clear_timers(self, run: str) -> None:
        """Delete the timers of a run, so that no worker continues it."""
        self._run("clear_timers", log=self._log, run=run)

    def redirect_idempotency_key(self, run: str, other: str) -> None:
        """Make the idempotency key of a run lead to another run."""
        self._run("redirect", log=self._log, run=run, other=other)

    def change_schema(self, query: str, run: str) -> None:
        """Change what the database consists of; statements name the run as RUN."""
        self._run_script(self._sql[query].replace("RUN", run))

    @abstractmethod
    def _run_script(self, script: str) -> None:
        """Run statements without parameters."""

    def _place(self, position: Position) -> dict[str, object]:
        rows = self._run("strand", log=self._log, run=position.run, name=position.strand)
        return {"log": self._log, "strand": rows[0][0], "n": position.n}


class SqliteTamperer(DatabaseTamperer):
    """An attacker who can write to the ledger file."""

    database = "sqlite"

    def _open_store(self) -> AbstractContextManager[Store]:
        return nullcontext(self._store)

    def _run(self, query: str, **parameters: object) -> list[tuple[object, ...]]:
        with sqlite3.connect(self._address, isolation_level=None) as db:
            rows = db.execute(self._sql[query], parameters).fetchall()
        db.close()
        return rows

    def _run_script(self, script: str) -> None:
        with sqlite3.connect(self._address, isolation_level=None) as db:
            db.executescript(script)
        db.close()


class PostgresTamperer(DatabaseTamperer):
    """An attacker with the right to write to the tables."""

    database = "postgres"

    def _open_store(self) -> AbstractContextManager[Store]:
        from forum.stores.postgres import PostgresStore

        return closing(PostgresStore(self._address, self._store.origin, connections=1))

    def _run(self, query: str, **parameters: object) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self._address, autocommit=True) as db:
            cursor = db.execute(self._sql[query].encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def _run_script(self, script: str) -> None:
        import psycopg

        with psycopg.connect(self._address, autocommit=True) as db:
            db.execute(script.encode())


@contextmanager
def own_database(url: str) -> Iterator[str | None]:
    """Make a Postgres database beside another, for changes that others must not meet.

    Yields its address, or None if this user may not make one.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    from forum.stores.postgres_schema import upgrade_schema

    name = f"forum_demo_{secrets.token_hex(8)}"
    with psycopg.connect(url, autocommit=True) as db:
        try:
            db.execute(f"CREATE DATABASE {name}".encode())
        except psycopg.errors.InsufficientPrivilege:
            yield None
            return
        try:
            address = make_conninfo(url, dbname=name)
            upgrade_schema(address)
            yield address
        finally:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def open_again(forum: Forum) -> Store:
    """Open the database of a ledger as another process does, with nothing remembered."""
    if forum.settings.database:
        from forum.stores.postgres import PostgresStore

        return PostgresStore(forum.settings.database, forum.origin)
    return SqliteStore(forum.settings.ledger_file, forum.origin)


def open_tamperer(forum: Forum) -> DatabaseTamperer:
    """Return an attacker's access to the database of a ledger."""
    if forum.settings.database:
        return PostgresTamperer(forum.settings.database, forum.store)
    return SqliteTamperer(str(forum.settings.ledger_file), forum.store)
