"""The part of a store by which workers share runs: leases, claims, and signals of work."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from forum.ledger.ports.identity import LogIdentity
from forum.ledger.ports.timers import StoreClock, Timer

MAX_LEASE_S = 300
"""The longest lease of a worker that others wait for, by the store's clock: no worker takes more.

A later end was written by somebody else, and must not keep the runs of that worker from others.
"""


class RunClaim(NamedTuple):
    """Parameters of `Store.claim_runs`: how many runs, and the delay until a timer is due again."""

    worker: str
    limit: int
    """The number of due timers of unclaimed runs to claim; with 0, only this worker's own."""
    own_limit: int
    """The number of due timers of runs that this worker has claimed already."""
    anew: int
    """A timer below this time comes from `due_now`: it was set since it was last claimed."""
    shortest: float
    """Seconds until the next claim of a timer claimed for the first time or set by `due_now`."""
    longest: float
    """Upper bound, in seconds, of the delay, which doubles with each claim."""


class WorkSignal(Protocol):
    """Wakes a worker when a timer was set to be due, by any process."""

    def wait(self, seconds: float) -> bool:
        """Wait for news; return False after some seconds without any.  Raises `StoreFailed`.

        News may be lost with a connection, so a worker also looks without them from time to time.
        """

    def close(self) -> None:
        """End the signal; others no longer see this worker live by it."""


class WorkerStore(LogIdentity, StoreClock, Protocol):
    """Holds the leases of workers, and which runs each of them drives."""

    def open_signal(self, worker: str) -> "WorkSignal":
        """Return a signal that tells a worker when something may be due.

        While it is open, other workers see that this one lives, if the database can tell.
        """

    def claim_runs(self, claim: "RunClaim") -> list[Timer]:
        """Claim runs that are due and unclaimed, longest overdue first, for one worker.

        Return their due timers, and those of runs that the worker has claimed before.  No other
        worker claims these runs until they are released, or the lease of the worker expires.  The
        timers are rescheduled in the same transaction, as by `claim_due_timers`.
        """

    def claim_run(self, run: str, worker: str) -> bool:
        """Claim one run, due or not, as by `claim_runs`; return whether the worker has it now."""

    def release_runs(self, worker: str, runs: Sequence[str]) -> None:
        """Give up the claims of a worker to these runs; claims of other workers stay."""

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:
        """Renew the lease of a worker, and return the workers that are lost, by their last beats.

        Leases of others that end after more than `MAX_LEASE_S` are cut to that.

        Lost is a worker whose lease has expired; or has less than `early_s` left while its signal
        is closed, if it has claimed runs.  The worker itself is among them if it was away.
        """

    def renew_lease(self, worker: str, seconds: float) -> None:
        """Renew the lease of a worker for some seconds: others take it to be alive so long."""

    def release_lease(self, worker: str) -> None:
        """Delete the lease of a worker that stops, or whose tasks were taken over by another."""

    def take_over(self, worker: str, early_s: float = 0.0) -> int:
        """Release the runs of a worker that is lost (see `beat`), and make them due now.

        The lease is deleted in the same transaction.  Return the number of runs; 0 if the worker
        has renewed its lease meanwhile, or another worker was first.
        """

    def expired_workers(self) -> list[str]:
        """Return the workers whose lease has expired by the store's clock and was not released."""

    def live_workers(self) -> list[str]:
        """Return the workers whose lease has not expired by the store's clock."""

    def workers(self) -> list[str]:
        """Return the workers that have a lease, expired or not."""
