"""What the publisher does in SQL beside the tree: the queue, the quarantine, and the clean-up."""

from collections.abc import Sequence

from forum.ledger import ports
from forum.stores.sql_entries import SqlEntryReader
from forum.stores.sql_queries import (
    QueryExecutor,
    QueryResult,
    SqlClock,
    SqlTransactions,
    to_micros,
)
from forum.tlog import add_signatures

_CLEAN_UP_QUERIES = (
    *("remove_accounts", "remove_idempotency", "remove_interrupted", "remove_timers"),
    "remove_ended",
)


class SqlPublisherStore(SqlEntryReader, SqlClock, SqlTransactions, ports.PublisherStore):
    """Stores signed notes, and removes what is quarantined or has ended."""

    def pending_span(self) -> tuple[int, int] | None:
        first, last = self._fetch_rows("pending_span")[0]
        return None if first is None else (first, last)

    def _save_checkpoint(self, execute: QueryExecutor, size: int, note: bytes) -> QueryResult:
        # The log may record a cosignature as soon as it is stored: from then on it is missed.
        for (stored,) in execute("lock_checkpoint", size=size).fetchall():
            note = add_signatures(note, bytes(stored))
        return execute("save_checkpoint", size=size, note=note)

    def discard_quarantine(self, ids: Sequence[int]) -> None:
        with self._write_transaction("discarding rows") as execute:
            self._check_not_moving(execute)
            for row in ids:
                execute("discard_quarantine_bodies", id=row)
                execute("discard_quarantine", id=row)

    def clean_up(self, seconds: float, limit: int) -> int:
        # If no run is due, nothing is locked.
        due = {"before": self.now() - to_micros(seconds), "limit": limit}
        if not self._fetch_rows("due_ended", **due):
            return 0
        # One transaction: after a crash either all rows beside a run are there, and the run is
        # still listed, or none of them is.
        with self._write_transaction("cleaning up") as execute:
            runs = [row[0] for row in execute("due_ended", **due).fetchall()]
            postponed = execute("postpone_ended", runs=self._list(runs)).fetchall()
            ended = self._list(sorted(set(runs).difference(row[0] for row in postponed)))
            for query in _CLEAN_UP_QUERIES:
                execute(query, runs=ended)
        return len(runs)
