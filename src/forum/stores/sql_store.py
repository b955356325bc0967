"""Shared implementation of the SQLite and Postgres stores: the sum of the parts in SQL.

Each module `sql_*` implements a part of the port (`forum.ledger.ports`) with named queries, whose
texts differ by database.  What only one database can do is left to its own module.
"""

from forum.stores.sql_appending import SqlEntryStore
from forum.stores.sql_audit import SqlAuditReader
from forum.stores.sql_bodies import SqlBodyReader, SqlContentStore
from forum.stores.sql_budgets import SqlBudgetReader
from forum.stores.sql_publishing import SqlPublisherStore
from forum.stores.sql_run_tables import SqlRunTableReader, SqlSummaryReader, SqlSummaryStore
from forum.stores.sql_timers import SqlTimerReader
from forum.stores.sql_workers import SqlWorkerStore


class SqlReader(
    SqlBodyReader,
    SqlAuditReader,
    SqlBudgetReader,
    SqlTimerReader,
    SqlSummaryReader,
    SqlRunTableReader,
):
    """A reader of one log that runs the named queries of a database."""


class SqlStore(
    SqlReader,
    SqlContentStore,
    SqlPublisherStore,
    SqlWorkerStore,
    SqlSummaryStore,
    SqlEntryStore,
):
    """A store of one log that changes rows in transactions, each of which it also begins."""
