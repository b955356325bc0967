"""Changes of Postgres tables that others use: readers and writers never wait for them long.

A statement that waits for a strong lock makes everybody wait who comes after it, readers too.  So
each attempt waits shortly and gives way, and is repeated for a bounded time.  Indexes of tables
that are in use are built concurrently, which writers do not notice.
"""

import re
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic
from typing import NamedTuple, TypeVar

import psycopg

from forum import errors
from forum.stores.postgres_connections import Connection
from forum.stores.postgres_sessions import QUERIES
from forum.stores.sql_migrations import Migration

LOCK_TIMEOUT = "200ms"
"""How long readers and writers may wait behind one attempt to lock a table."""
_STATEMENT_TIMEOUT = "1s"
"""How long a statement may hold a lock that others wait for: a longer one was a mistake."""
_RETRY_DELAY_S = 1.0
_PATIENCE_S = 60.0
"""How long one command waits for sessions of others, in all."""

match_index = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)\s+ON (forum\.\w+)").match
_find_tables = re.compile(r"\bforum\.(\w+)").findall
find_new_tables = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(forum\.\w+)").findall
DATA_STATEMENTS = ("INSERT", "UPDATE", "DELETE")

_Result = TypeVar("_Result")


class _Blocker(NamedTuple):
    """A session that holds what a change of the schema waits for."""

    pid: int
    application: str
    user: str
    since: str
    """When its transaction began; empty if this user may not know."""

    def describe(self) -> str:
        """Return what an operator needs to find the session."""
        name = f" ({self.application})" if self.application else ""
        since = f" in a transaction since {self.since}" if self.since else ""
        return f"session {self.pid}{name} of user {self.user} is{since or ' in its way'}"


def split_statements(script: str) -> list[str]:
    """Return the statements of a migration, without comments."""
    text = re.sub(r"--[^\n]*", "", script)
    return [statement for part in text.split(";") if (statement := part.strip())]


def is_index_migration(migration: Migration) -> bool:
    """Return whether a migration adds indexes to tables that exist before it."""
    created = find_new_tables(migration.sql)
    indexes = [match for text in split_statements(migration.sql) if (match := match_index(text))]
    return any(match[2] not in created for match in indexes)


class SchemaChanger:
    """Changes the schema in one session, which is in autocommit mode."""

    def __init__(self, db: Connection, report: Callable[[str], None]) -> None:
        """Say to `report` what is done, and who is waited for."""
        self._db, self._report = db, report
        self._deadline = monotonic() + _PATIENCE_S
        self._last_report = ""
        self._set_timeout("statement_timeout", "0", is_local=False)

    def lock_out_others(self) -> None:
        """Let no other session upgrade this database while this one is open."""
        while not self._fetch_flag("lock_upgrade"):
            self._wait_or_raise("the upgrade", self._find_blocker("upgrade_lock_holder"))

    def apply(self, migration: Migration, record: Callable[[], None]) -> None:
        """Apply a migration to a database in use, and record it.

        If it is stopped in between, it can be applied again.
        """
        doing, statements = f"migration {migration.number}", split_statements(migration.sql)
        self._say(doing)
        if is_index_migration(migration):
            for statement in statements:
                self._build_index(doing, statement)
            record()
            return

        def change() -> None:
            for statement in statements:
                # Data are moved before a strong lock is taken, and may take as long as they take.
                is_long = statement.startswith(DATA_STATEMENTS)
                self._set_timeout("statement_timeout", "0" if is_long else _STATEMENT_TIMEOUT)
                self._db.execute(statement.encode())
            record()

        self.change(doing, _find_tables(migration.sql), change)

    def change(self, doing: str, tables: Sequence[str], make: Callable[[], _Result]) -> _Result:
        """Make a change in a transaction, and begin again while others hold the tables.

        Raises `UpgradeBlocked` if they do not let them go in time.
        """
        while True:
            try:
                with self._db.transaction():
                    self._set_timeout("lock_timeout", LOCK_TIMEOUT)
                    return make()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                blocker = self._find_blocker("table_holder", tables=list(tables), any=False)
            except psycopg.errors.QueryCanceled as error:
                why = f"a statement was stopped that others waited for: {error}"
                raise errors.StoreFailed(doing, why) from error
            self._wait_or_raise(doing, blocker)

    def _build_index(self, doing: str, statement: str) -> None:
        """Build an index beside readers and writers, unless an earlier attempt has."""
        match = match_index(statement)
        if match is None:
            raise errors.StoreFailed(doing, f"this is no index of a table: {statement}")
        name, table = match[1], match[2]
        left_s = max(self._deadline - monotonic(), 1.0)
        # The build waits for transactions that are older than it.  Nobody waits for the build.
        self._set_timeout("lock_timeout", f"{left_s:.0f}s", is_local=False)
        try:
            states = self._db.execute(QUERIES["index_state"], {"name": name}).fetchall()
            if states and not states[0][0]:
                # An attempt that was stopped leaves an index that is never used.
                self._db.execute(f"DROP INDEX CONCURRENTLY forum.{name}".encode())
            if not states or not states[0][0]:
                concurrent = statement.replace("INDEX ", "INDEX CONCURRENTLY ", 1)
                self._say(f"{doing}: builds the index {name}; {table} can be used meanwhile")
                self._db.execute(concurrent.encode())
        except psycopg.errors.LockNotAvailable:
            tables = _find_tables(table)
            blocker = self._find_blocker("table_holder", tables=tables, any=True)
            raise self._blocked(doing, blocker) from None

    def _find_blocker(self, query: str, **parameters: object) -> _Blocker | None:
        rows = self._db.execute(QUERIES[query], parameters).fetchall()
        return _Blocker(*rows[0]) if rows else None

    def _wait_or_raise(self, doing: str, blocker: _Blocker | None) -> None:
        if monotonic() + _RETRY_DELAY_S > self._deadline:
            raise self._blocked(doing, blocker)
        if blocker:
            self._say(f"{doing}: waits, {blocker.describe()}")
        # Those who waited behind the last attempt go on.
        Event().wait(_RETRY_DELAY_S)

    def _blocked(self, doing: str, blocker: _Blocker | None) -> errors.UpgradeBlocked:
        if blocker is None:
            who = "this user may not see who holds it; see pg_stat_activity and pg_prepared_xacts"
            return errors.UpgradeBlocked(doing, who, "wait until it has ended")
        remedy = f"wait until it has ended, or: SELECT pg_terminate_backend({blocker.pid})"
        return errors.UpgradeBlocked(doing, blocker.describe(), remedy)

    def _say(self, text: str) -> None:
        if text != self._last_report:
            self._last_report = text
            self._report(text)

    def _fetch_flag(self, query: str) -> bool:
        return bool(self._db.execute(QUERIES[query]).fetchall()[0][0])

    def _set_timeout(self, name: str, value: str, *, is_local: bool = True) -> None:
        self._db.execute(QUERIES["set_timeout"], {"name": name, "value": value, "local": is_local})
