"""The effects of entries in SQL, applied in the transaction that commits the entries."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from forum.ledger import ports
from forum.stores.sql_budgets import SqlBudgetStore
from forum.stores.sql_pieces import SqlPieceStore
from forum.stores.sql_queries import QueryExecutor
from forum.stores.sql_run_tables import SqlRunTableStore
from forum.stores.sql_timers import SqlTimerStore

_SAMPLE_ROWS = 1000
"""The number of pending rows counted at each end of the queue; the rest is extrapolated."""


class _PendingSample(NamedTuple):
    """A sample of consecutive pending rows: counts of rows and entries, first and last number."""

    rows: int
    entries: int
    first: int
    last: int


def _estimate_pending(oldest: _PendingSample, newest: _PendingSample) -> int:
    """Estimate the number of pending entries from samples of the oldest and newest rows.

    All logs of a database draw their sequence numbers from one counter, so the distance between
    two numbers says little about one log; the samples give this log's share of them.  The
    committer asks up to four times a second, and an exact count would become slower the further
    the sequencer falls behind.
    """
    sampled = oldest.entries + newest.entries
    span = oldest.last - oldest.first + newest.last - newest.first + 2
    return max(oldest.entries, sampled * (newest.last - oldest.first + 1) // span)


class SqlEntryStore(
    SqlBudgetStore, SqlTimerStore, SqlRunTableStore, SqlPieceStore, ports.EntryStore
):
    """Applies the effects of appended entries, and estimates how many have no index."""

    def _apply_effects(self, execute: QueryExecutor, records: Sequence[ports.EntryWrite]) -> None:
        # Called after the entries are inserted: when a commit with an unknown outcome is retried,
        # it fails on the taken positions before it can charge an account twice.
        effects = [effect for record in records for effect in record.effects]
        # All transactions lock in the same order (accounts before timers, each by run and strand),
        # so two transactions that change the same rows cannot deadlock.
        for kind, alike in groupby(sorted(effects, key=_effect_order), type):
            if kind is ports.OpenBudgetAccount:
                self._open_accounts(
                    execute, [e for e in alike if isinstance(e, ports.OpenBudgetAccount)]
                )
            elif kind is ports.Timer:
                self._set_timers(execute, [e for e in alike if isinstance(e, ports.Timer)])
            elif kind is ports.BudgetSliceCharge:
                self._charge_slices(
                    execute, [e for e in alike if isinstance(e, ports.BudgetSliceCharge)]
                )
            elif kind is ports.EndedRun:
                ends = [e for e in alike if isinstance(e, ports.EndedRun)]
                self._add_ended(execute, ends)
                # With the end itself: whatever crashes, a run has both or neither.
                if done := [end.run for end in ends if end.ends_sums]:
                    execute("remove_sums", runs=self._list(done))
            else:
                for effect in alike:
                    self._apply_effect(execute, effect)

    @abstractmethod
    def _add_ended(self, execute: QueryExecutor, ends: Sequence[ports.EndedRun]) -> None:
        """List runs that end in this transaction, in the given order."""

    def _apply_effect(self, execute: QueryExecutor, effect: ports.Effect) -> None:
        if isinstance(effect, ports.BudgetCharge):
            self._charge(execute, effect)
        elif isinstance(effect, ports.IdempotencyRecord):
            self._record_idempotency(execute, effect)
        elif isinstance(effect, ports.TaggedHead):
            execute("set_strand_head", **effect._asdict())
        elif isinstance(effect, ports.InterruptedRun):
            query = "list_interrupted" if effect.listed else "unlist_interrupted"
            execute(query, run=effect.run)

    def save_strand_head(self, head: ports.TaggedHead) -> None:
        self._change("keeping a head", "set_strand_head", **head._asdict())

    def backlog(self) -> int:
        oldest = _PendingSample(*self._fetch_rows("oldest_pending", limit=_SAMPLE_ROWS)[0])
        if oldest.rows < _SAMPLE_ROWS:
            return oldest.entries
        newest = _PendingSample(*self._fetch_rows("newest_pending", limit=_SAMPLE_ROWS)[0])
        if newest.rows < _SAMPLE_ROWS:
            return newest.entries  # a sequencer has taken the others since the first query
        return _estimate_pending(oldest, newest)


def _effect_order(effect: ports.Effect) -> tuple[int, str, str, bool]:
    """Return the sort key of an effect; charges of one account keep their order."""
    match effect:
        case ports.OpenBudgetAccount(run, _) | ports.BudgetCharge(run, _, _):
            return 0, run, "", isinstance(effect, ports.BudgetCharge)
        case ports.IdempotencyRecord(name, _, _, _) | ports.TaggedHead(name, _, _, _):
            return 1, name, "", True
        case ports.InterruptedRun(run, _):
            return 1, run, "", True
        case ports.Timer(run, strand, _):
            return 1, run, strand, False
        case ports.BudgetSliceCharge(budget_slice, _, _):
            return 2, budget_slice.scope, budget_slice.period, False
        case ports.EndedRun(run, _, _):
            return 3, run, "", False
