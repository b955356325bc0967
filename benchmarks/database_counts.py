"""What the sessions of one Postgres database do: statements, syncs of the log, connections.

The server has to load `pg_stat_statements`; `private_cluster` starts one that does.  Statements of
this module name `benchmark_look`, by which they are left out.
"""

import time
from typing import Any

import psycopg

from benchmarks.sides import LOOK_SECONDS, PATIENCE_SECONDS, SUBMITTER
from tests.soak.cluster import Cluster

_STATEMENTS = """
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements AS benchmark_look
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND query NOT LIKE '%benchmark_look%'
"""
_SYNCS = "SELECT wal_sync FROM pg_stat_wal AS benchmark_look"
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity AS benchmark_look
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> %s
"""
# Runs that wait have a timer in some days.
_UNFINISHED = """
SELECT EXISTS (
    SELECT FROM forum.alarm AS benchmark_look
    WHERE at < (extract(epoch FROM now()) + 86400) * 1000000
)
"""
_REPORT_SECONDS = 1.2
"""Sessions report their syncs once a second."""


def private_cluster() -> Cluster:
    """Return a server that counts statements; its commits are synced to disk."""
    return Cluster(shared_preload_libraries="pg_stat_statements")


class DatabaseCounts:
    """Counts of one database since its beginning."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def statements(self) -> int:
        """Return how many statements other sessions have made, with BEGIN and COMMIT."""
        return int(self._fetch(_STATEMENTS))

    def syncs(self) -> int:
        """Return how often the server has synced its log, once all sessions have said so."""
        time.sleep(_REPORT_SECONDS)
        return int(self._fetch(_SYNCS))

    def connections(self) -> int:
        """Return how many sessions the workers have."""
        return int(self._fetch(_CONNECTIONS, SUBMITTER))

    def wait_for_ends(self) -> None:
        """Wait until no run has work left, without a statement that would be counted."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._fetch(_UNFINISHED):
            assert time.monotonic() < deadline, "runs do not end"
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def _fetch(self, query: str, *values: str) -> Any:  # noqa: ANN401  a column of any type
        row = self._db.execute(query.encode(), values or None).fetchone()
        assert row
        return row[0]
