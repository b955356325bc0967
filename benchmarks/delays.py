"""How long runs wait: for their first call, and for another worker after a crash.

start     from acceptance to the first call, by the times of both entries; the worker is idle, and
          runs come one at a time.
takeover  from `kill -9` of the worker that waits for a reply until another one goes on.
"""

import random
import time
from typing import Any

from benchmarks.load import milliseconds
from benchmarks.run_costs import ONE_TASK, CountedForum
from benchmarks.sides import PATIENCE_SECONDS, Ours, order_of
from forum.engine import RunRequest
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import read_strand_entries
from forum.runs.kinds import CallFacts
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy, Scripted, ScriptStep

LOOK_SECONDS = 0.005
SETTLE_SECONDS = 1.0
"""How long workers take to notice each other."""
STRAND = "task/answer"
KILLS_OF_A_RUN = 5
"""A run whose calls are lost again and again is stopped."""
_CALL_MILLISECONDS = 600_000


def start_figures(forum: CountedForum, *, runs: int) -> dict[str, Any]:
    """Submit runs one at a time to an idle worker."""
    pauses = random.Random(18)  # so that runs do not keep in step with the worker's polling
    waited = []
    for _ in range(runs):
        time.sleep(pauses.uniform(0.02, 0.15))
        waited.append(_delay_of_start(forum))
    return {
        "p50": milliseconds(waited, 0.5),
        "p99": milliseconds(waited, 0.99),
        "worst": milliseconds(waited, 1),
        "runs": runs,
    }


def _delay_of_start(forum: CountedForum) -> float:
    ours = forum.ours
    run = ours.forum.runs.submit(order_of(ONE_TASK))
    forum.counts.wait_for_ends()
    _, accepted = next(read_strand_entries(ours.forum.ledger, run, MAIN_STRAND))
    for _, entry in read_strand_entries(ours.forum.ledger, run, STRAND):
        if isinstance(entry.facts, CallFacts):
            return (entry.ts - accepted.ts) / 1e6
    raise AssertionError(f"run {run} has no call")


def takeover_figures(ours: Ours, *, kills: int) -> dict[str, Any]:
    """Kill the worker that has a run, again and again, while one more waits."""
    script = Scripted({"*": (ScriptStep("Done.", milliseconds=_CALL_MILLISECONDS),)})
    policy = Policy(agents={"": script}, retries=KILLS_OF_A_RUN, backoff_milliseconds=0)
    request = RunRequest("Wait.", Plan((Task("answer", "Wait."),)), policy)
    ours.set_workers(1)
    run, taken = "", []
    for nth in range(kills):
        if nth % KILLS_OF_A_RUN == 0:
            if run:
                ours.forum.runs.cancel(run)
            run = ours.forum.runs.submit(request)
            _wait_for_change(ours, run, None)
        ours.add_worker()
        time.sleep(SETTLE_SECONDS)
        before = ours.forum.store.last_entry(run, STRAND)
        started = time.monotonic()
        ours.servers.pop(0).kill()
        _wait_for_change(ours, run, before)
        taken.append(time.monotonic() - started)
    # Nobody waits for the reply.
    ours.servers.pop().kill()
    return {
        "p50": round(milliseconds(taken, 0.5) / 1000, 3),
        "p99": round(milliseconds(taken, 0.99) / 1000, 3),
        "kills": kills,
    }


def _wait_for_change(ours: Ours, run: str, before: bytes | None) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ours.forum.store.last_entry(run, STRAND) == before:
        assert time.monotonic() < deadline, f"nobody takes run {run} over"
        time.sleep(LOOK_SECONDS)
