"""Timers of strands in SQL."""

from abc import abstractmethod
from collections.abc import Sequence

from forum.ledger import ports
from forum.stores.sql_queries import QueryExecutor, SqlClock, SqlQueries, SqlTransactions, to_micros

_EARLIEST_TIME = -(2**62)
"""A time before the due time of every timer."""


class SqlTimerReader(SqlQueries, ports.TimerReader):
    """Reads timers page by page."""

    def timers(self, after: ports.Timer | None, limit: int, *, due: bool) -> list[ports.Timer]:
        run, strand, at = after or ports.Timer("", "", None)
        place: dict[str, object] = {"run": run, "strand": strand, "limit": limit}
        if due:
            place["at"] = _EARLIEST_TIME if at is None else at
        rows = self._fetch_rows("due_alarms" if due else "alarms", **place)
        return [ports.Timer(*row) for row in rows]


class SqlTimerStore(SqlTimerReader, SqlClock, SqlTransactions, ports.TimerStore):
    """Sets, claims and reschedules timers."""

    def timer(self, run: str, strand: str) -> ports.Timer | None:
        rows = self._fetch_rows("alarm", run=run, strand=strand)
        return ports.Timer(*rows[0]) if rows else None

    def set_timers(self, timers: Sequence[ports.Timer]) -> None:
        with self._write_transaction("setting timers") as execute:
            self._set_timers(execute, timers)

    @abstractmethod
    def _set_timers(self, execute: QueryExecutor, alarms: Sequence[ports.Timer]) -> None:
        """Set these timers, or clear those without a time, in the given order."""

    def add_timers(self, timers: Sequence[ports.Timer]) -> None:
        with self._write_transaction("adding timers") as execute:
            self._add_timers(execute, timers)

    @abstractmethod
    def _add_timers(self, execute: QueryExecutor, timers: Sequence[ports.Timer]) -> None:
        """Set those of these timers that are not set."""

    def reschedule(self, alarms: Sequence[ports.Timer], seconds: float | None) -> None:
        micros = None if seconds is None else to_micros(seconds)
        query = "silence" if micros is None else "snooze"
        with self._write_transaction("snoozing") as execute:
            for timer in sorted(alarms, key=lambda set_timer: (set_timer.run, set_timer.strand)):
                execute(query, micros=micros, **timer._asdict())

    def claim_due_timers(self, claim: ports.TimerClaim) -> list[ports.Timer]:
        # If no timer is due, nothing is locked: idle workers poll up to ten times a second.
        pauses = {"shortest": to_micros(claim.shortest), "longest": to_micros(claim.longest)}
        claimed = self._claim_due_timers(claim, pauses)
        return sorted(claimed, key=lambda timer: (timer.at or 0, timer.run, timer.strand))

    @abstractmethod
    def _claim_due_timers(
        self, claim: ports.TimerClaim, pauses: dict[str, int]
    ) -> list[ports.Timer]:
        """Claim due timers, postpone each within these pauses (in microseconds), in any order."""
