"""What verification and monitors read of the tables, in SQL."""

from collections.abc import Sequence

from forum.ledger import ports
from forum.stores.sql_entries import SqlEntryReader


class SqlAuditReader(SqlEntryReader, ports.AuditReader):
    """Reads what shows that the tables hold the log and nothing else."""

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        indexes = self.indexes(leaves)
        return [index for index, other in enumerate(indexes, start) if index != other]

    def count_entries(self) -> int:
        return int(self._fetch_one("stored"))

    def count_rows(self) -> ports.TableCounts:
        return ports.TableCounts(*self._fetch_rows("count_rows")[0])

    def count_quarantined(self) -> int:
        return int(self._fetch_one("quarantined"))

    def quarantined_rows(self) -> list[ports.QuarantinedRow]:
        rows = self._fetch_rows("quarantine")
        return [ports.QuarantinedRow(row[0], ports.EntryRow(*row[1:6]), row[6]) for row in rows]
