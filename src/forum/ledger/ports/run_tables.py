"""The parts of a store that list runs: summaries, idempotency keys, interrupted and ended runs."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class IdempotencyRecord(NamedTuple):
    """Effect: bind an idempotency key to a run.  Raises `IdempotencyKeyUsed` for a bound key."""

    name: str
    run: str
    digest: str
    """Digest of the request: a client that reuses a key for another request made an error."""
    tag: bytes | None = None


class RunSummaryRow(NamedTuple):
    """The stored summary of a closed run, from which lists are made."""

    run: str
    version: int
    """The version of the rules by which `data` follows from the entries."""
    ended: int
    """The time of the entry that closes the run, in microseconds since 1970."""
    data: bytes
    """The encoded summary; it holds facts of entries and never the content of a body."""
    tag: bytes | None = None


class InterruptedRun(NamedTuple):
    """Effect: add a run to the list of interrupted runs, or remove it."""

    run: str
    listed: bool


class EndedRun(NamedTuple):
    """Effect: list a run that ends in this commit, so that `Store.clean_up` finds it later."""

    run: str
    parent: str = ""
    """The run that delegated it, which still reads its account; empty if there is none."""
    ends_sums: bool = False
    """Whether its sums of tool uses end with it. Those of a reported session go on if it does."""


class SummaryReader(Protocol):
    """Reads the summaries of closed runs."""

    def summaries(self, runs: Sequence[str]) -> dict[str, RunSummaryRow]:
        """Return the stored summaries of these runs, unchecked; runs without one are left out."""

    def summary_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that have a summary, in ascending order."""


class SummaryStore(SummaryReader, Protocol):
    """Stores the summaries of closed runs, from which lists are made."""

    def save_summaries(self, rows: Sequence[RunSummaryRow]) -> None:
        """Store summaries of closed runs, in place of those that they may have."""


class RunTableReader(Protocol):
    """Reads idempotency records, and which runs were interrupted."""

    def idempotency_rows(self, after: str, limit: int) -> list[IdempotencyRecord]:
        """Return the next idempotency records after a name, ordered by name."""

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that are listed as interrupted, in ascending order."""


class RunTableStore(RunTableReader, Protocol):
    """Counts what is open, and tags idempotency records."""

    def tag_idempotency(self, row: IdempotencyRecord) -> None:
        """Store the writer's tag of an existing idempotency record."""

    def count_open_runs(self, limit: int) -> int:
        """Count the runs that were accepted and have not ended, but at most `limit`."""

    def count_pending_gates(self, limit: int) -> int:
        """Count the gates without a decision, up to a limit."""
