"""What verification costs beyond one pass over a log: what is new, and several processes.

incremental  CPU seconds to verify 1,000 new entries on a log that was verified before.
parallel     Seconds with one process against seconds with two, start of the processes included;
             the best of three, because the machine may be busy.  The serial share is the CPU time
             of the process that puts the segments together, of all CPU time.
"""

import resource
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forum.ledger.kinds import LEDGER_KINDS
from forum.stores.parallel_verify import LedgerAddress, SegmentProcesses
from forum.stores.run_progress import RunProgressFile, open_run_progress
from forum.stores.sqlite import open_reader
from forum.verify import (
    Report,
    RunSnapshot,
    State,
    Trust,
    VerifiedCheckpoint,
    verify_ledger,
    verify_since,
)

if TYPE_CHECKING:
    from benchmarks.ledger import Bench

ROUNDS = 3
NEW_ENTRIES = 1000


def incremental_figures(bench: "Bench", fill: Callable[[int], None]) -> dict[str, Any]:
    """Verify the ledger, add to it, and verify what is new."""
    trust = Trust(keys=(bench.key.verifier(),))
    path = bench.folder / "seen.db"
    with open_run_progress(path) as state:
        last = _keep_state(bench, trust, state)
    seconds = []
    for _ in range(ROUNDS):
        fill(NEW_ENTRIES)
        with open_run_progress(path) as state, open_reader(_file(bench), bench.origin) as reader:
            started = time.process_time()
            done = verify_since(reader, LEDGER_KINDS, trust, _now(), last=last, state=state)
            assert done is not None
            report, last = done
            state.commit(last, "benchmark")
            seconds.append(time.process_time() - started)
        assert report.entries == NEW_ENTRIES
        _check(report)
    return {"seconds": round(sorted(seconds)[ROUNDS // 2], 4), "on_entries": last.size}


def _keep_state(bench: "Bench", trust: Trust, state: RunProgressFile) -> VerifiedCheckpoint:
    """Verify everything, and return the checkpoint whose state is kept now."""
    checkpoints: list[VerifiedCheckpoint] = []

    def keep(runs: Iterable[RunSnapshot], last: VerifiedCheckpoint) -> None:
        state.replace(runs)
        state.commit(last, "benchmark")
        checkpoints.append(last)

    with open_reader(_file(bench), bench.origin) as reader:
        verify_ledger(reader, LEDGER_KINDS, trust, _now(), keep=keep)
    return checkpoints[0]


def parallel_figures(bench: "Bench") -> dict[str, Any]:
    """Verify the ledger with one process and with two, in turns."""
    alone, together = [], []
    shares, added = [], []
    for _ in range(ROUNDS):
        serial, parallel = _measure(bench, 1), _measure(bench, 2)
        alone.append(serial["seconds"])
        together.append(parallel["seconds"])
        shares.append(parallel["own_cpu"] / parallel["cpu"])
        added.append(parallel["cpu"] / serial["cpu"])
    return {
        "ratio": round(min(alone) / min(together), 3),
        "serial_cpu_share": round(max(shares), 4),
        "seconds_1": round(min(alone), 3),
        "seconds_2": round(min(together), 3),
        "cpu_ratio": round(min(added), 3),
        "entries": bench.store.head().size,
    }


def _measure(bench: "Bench", jobs: int) -> dict[str, float]:
    address = LedgerAddress(bench.origin, str(_file(bench)))
    trust = Trust(keys=(bench.key.verifier(),))
    started, cpu = time.perf_counter(), _all_cpu()
    own = time.process_time()
    with (
        open_reader(_file(bench), bench.origin) as reader,
        SegmentProcesses(address, jobs) if jobs > 1 else nullcontext() as runner,
    ):
        report = verify_ledger(reader, LEDGER_KINDS, trust, _now(), runner=runner)
    _check(report)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": _all_cpu() - cpu,
        "own_cpu": time.process_time() - own,
    }


def _all_cpu() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    both = (
        resource.getrusage(process) for process in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _check(report: Report) -> None:
    assert report.intact.state is report.complete.state is State.HOLDS, report


def _file(bench: "Bench") -> Path:
    return bench.folder / "ledger.db"


def _now() -> int:
    return time.time_ns() // 1000
