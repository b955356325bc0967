"""A whole store: the sum of the parts."""

from contextlib import AbstractContextManager
from typing import Protocol

from forum.ledger.ports.auditing import AuditReader, StoreProbe
from forum.ledger.ports.budgets import BudgetReader, BudgetStore
from forum.ledger.ports.entries import ContentStore, EntryStore, LogReader
from forum.ledger.ports.publishing import PublisherStore
from forum.ledger.ports.run_tables import RunTableReader, RunTableStore, SummaryReader, SummaryStore
from forum.ledger.ports.timers import TimerReader, TimerStore
from forum.ledger.ports.workers import WorkerStore


class Reader(
    LogReader, AuditReader, BudgetReader, TimerReader, SummaryReader, RunTableReader, Protocol
):
    """Reads all of one log, as verification, backups and carrying to a new epoch do.

    The cost of a call does not grow with the length of the log, except for `count_entries` and
    `count_rows`.
    """


class Store(
    Reader,
    EntryStore,
    ContentStore,
    PublisherStore,
    BudgetStore,
    TimerStore,
    WorkerStore,
    SummaryStore,
    RunTableStore,
    StoreProbe,
    Protocol,
):
    """Reads and writes one log: the sum of all parts, for what passes a whole store on."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Return a context whose reader sees the log as of one moment."""

    def close(self) -> None:
        """Close connections and files."""
