"""What every part of a store tells: which log it is, and in which database."""

from typing import Protocol

from forum.ledger.database_memory import Lineage


class LogIdentity(Protocol):
    """Names the log and the database."""

    lineage: Lineage
    """The identity of the database: what is remembered of it hangs on this."""

    @property
    def origin(self) -> str:
        """The log's name."""
