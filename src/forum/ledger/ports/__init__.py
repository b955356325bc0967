"""Ports of the ledger: the store in parts by who uses it, and what a log needs beside it.

    identity    which log, in which database
    tree        the tree and its signed notes, read
    entries     entries and bodies, read and appended; erased and moved to an archive
    publishing  what the publisher does: sequence, sign, clean up
    budgets     accounts of runs, and slices of shared caps
    timers      when to look at a strand again
    workers     leases of workers, and which runs each drives
    run_tables  summaries of runs, idempotency keys, interrupted and ended runs
    auditing    what only verification and monitors read
    store       the sums: `Reader` and `Store`
    outside     clock, salts, checkpoint store, cosigner

A user names the part that it needs as the type of its parameter, so a simulated store can be
written part by part.  A name that ends in Reader reads; it also reads a snapshot, or a copy.
Adapters implement these protocols.  The executable contract of each part is in tests/stores, in
test_contract_*.py; every store must pass it.
"""

from forum.ledger.ports.auditing import (
    AuditReader,
    CatalogueCheck,
    QuarantinedRow,
    SequencerSession,
    StoreProbe,
    StoreState,
    TableCounts,
)
from forum.ledger.ports.budgets import (
    NO_LIMIT,
    UNLIMITED,
    Amount,
    BudgetAccount,
    BudgetCharge,
    BudgetReader,
    BudgetSlice,
    BudgetSliceCharge,
    BudgetStore,
    BudgetUse,
    OpenBudgetAccount,
    Spend,
)
from forum.ledger.ports.entries import (
    Append,
    AppendAsync,
    ArchivedRun,
    BodyReader,
    ContentStore,
    Effect,
    EntryReader,
    EntryRow,
    EntryStore,
    EntryWrite,
    LogReader,
    Position,
    RowCheck,
    RunArchive,
    TaggedHead,
)
from forum.ledger.ports.identity import LogIdentity
from forum.ledger.ports.outside import CheckpointStore, Clock, Cosigner, Salts
from forum.ledger.ports.publishing import PendingEntries, PublisherStore
from forum.ledger.ports.run_tables import (
    EndedRun,
    IdempotencyRecord,
    InterruptedRun,
    RunSummaryRow,
    RunTableReader,
    RunTableStore,
    SummaryReader,
    SummaryStore,
)
from forum.ledger.ports.store import Reader, Store
from forum.ledger.ports.timers import (
    StoreClock,
    Timer,
    TimerClaim,
    TimerReader,
    TimerStore,
    decode_due_time,
    due_now,
    due_now_limit,
)
from forum.ledger.ports.tree import TreeHead, TreeReader
from forum.ledger.ports.workers import MAX_LEASE_S, RunClaim, WorkerStore, WorkSignal
