"""Leases of workers, and their claims to runs, in SQL."""

from abc import abstractmethod
from collections.abc import Sequence

from forum.ledger import ports
from forum.ledger.entry import MAIN_STRAND
from forum.stores.sql_queries import SqlClock, SqlTransactions, to_micros


class SqlWorkerStore(SqlClock, SqlTransactions, ports.WorkerStore):
    """Holds the leases of workers, and which runs each of them drives."""

    def claim_runs(self, claim: ports.RunClaim) -> list[ports.Timer]:
        pauses = {"shortest": to_micros(claim.shortest), "longest": to_micros(claim.longest)}
        claimed = self._claim_runs(claim, pauses)
        return sorted(claimed, key=lambda timer: (timer.at or 0, timer.run, timer.strand))

    @abstractmethod
    def _claim_runs(self, claim: ports.RunClaim, pauses: dict[str, int]) -> list[ports.Timer]:
        """Claim due runs, postpone their timers by these pauses (in microseconds), in any order."""

    def claim_run(self, run: str, worker: str) -> bool:
        with self._write_transaction("claiming a run") as execute:
            return execute("claim_run", run=run, worker=worker).rowcount > 0

    def release_runs(self, worker: str, runs: Sequence[str]) -> None:
        self._change("releasing runs", "release_runs", worker=worker, runs=self._list(sorted(runs)))

    def take_over(self, worker: str, early_s: float = 0.0) -> int:
        # As with `due_now`: due by every clock, and in turn with runs that were accepted.
        at = ports.due_now("", MAIN_STRAND, self.now()).at
        with self._write_transaction("taking over") as execute:
            # The row lock of the lease makes a worker that returns just now wait: it then renews a
            # lease without claims, and its drivers are refused at their next positions.
            lost = execute("drop_lost_lease", worker=worker, early=to_micros(early_s))
            if lost.rowcount == 0:
                return 0
            execute("make_claimed_due", worker=worker, strand=MAIN_STRAND, at=at)
            return execute("drop_claims", worker=worker).rowcount

    def renew_lease(self, worker: str, seconds: float) -> None:
        self._change("holding a lease", "hold_lease", worker=worker, micros=to_micros(seconds))

    def release_lease(self, worker: str) -> None:
        self._change("dropping a lease", "drop_lease", worker=worker)

    def expired_workers(self) -> list[str]:
        return self._fetch_column("lost_workers")

    def live_workers(self) -> list[str]:
        return self._fetch_column("present_workers")

    def workers(self) -> list[str]:
        return self._fetch_column("workers")
