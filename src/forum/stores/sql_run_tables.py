"""Tables that list runs in SQL: summaries, idempotency keys, interrupted runs."""

from collections.abc import Sequence

from forum import errors
from forum.ledger import ports
from forum.ledger.entry import MAIN_STRAND
from forum.stores.sql_queries import QueryExecutor, SqlQueries, SqlTransactions


class SqlSummaryReader(SqlQueries, ports.SummaryReader):
    """Reads the summaries of closed runs."""

    def summaries(self, runs: Sequence[str]) -> dict[str, ports.RunSummaryRow]:
        rows = self._fetch_rows("summaries", runs=self._list(list(runs)))
        return {row[0]: ports.RunSummaryRow(*row) for row in rows}

    def summary_runs(self, after: str, limit: int) -> list[str]:
        return self._fetch_column("summary_runs", run=after, limit=limit)


class SqlSummaryStore(SqlSummaryReader, SqlTransactions, ports.SummaryStore):
    """Stores the summaries of closed runs."""

    def save_summaries(self, rows: Sequence[ports.RunSummaryRow]) -> None:
        with self._write_transaction("keeping summaries") as execute:
            for row in sorted(rows):
                execute("set_summary", **row._asdict())


class SqlRunTableReader(SqlQueries, ports.RunTableReader):
    """Reads idempotency records, and which runs were interrupted."""

    def idempotency_rows(self, after: str, limit: int) -> list[ports.IdempotencyRecord]:
        rows = self._fetch_rows("idempotency_rows", name=after, limit=limit)
        return [ports.IdempotencyRecord(*row) for row in rows]

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        return self._fetch_column("interrupted_runs", run=after, limit=limit)


class SqlRunTableStore(SqlRunTableReader, SqlTransactions, ports.RunTableStore):
    """Counts what is open, and holds idempotency records."""

    def tag_idempotency(self, row: ports.IdempotencyRecord) -> None:
        self._change("tagging", "tag_idempotency", name=row.name, tag=row.tag)

    def _record_idempotency(self, execute: QueryExecutor, once: ports.IdempotencyRecord) -> None:
        while execute("ask_once", **once._asdict()).rowcount != 1:
            # Without a row, the clean-up has deleted it since: then the key is free.
            for run, digest, tag in execute("asked", name=once.name).fetchall():
                raise errors.IdempotencyKeyUsed(run, digest, tag)

    def count_open_runs(self, limit: int) -> int:
        return int(self._fetch_one("open_runs", strand=MAIN_STRAND, limit=limit))

    def count_pending_gates(self, limit: int) -> int:
        return int(self._fetch_one("gates_waiting", limit=limit))
