"""Parse and check client input in threads, with a limit for CPU time.

The cost of this work depends on the client.  So it is done in a few dedicated threads, and raises
`CheckTooExpensive` at the first step after a second of CPU time.  Decision 0043 explains why
threads, and which limits make them sufficient: no single step blocks the other threads of the
process for long.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from time import thread_time
from typing import Final, TypeVar

from forum.errors import CheckTooExpensive
from forum.limits.off_loop import run_in_body_thread
from forum.runs.step_limit import limit_steps

T = TypeVar("T")

MAX_CPU_S: Final = 1.0
_THREAD_SWITCH_INTERVAL_S: Final = 0.001
"""Time slice of a computing thread.  The event loop waits for one of these per computing thread."""


async def run_cpu_bounded(work: Callable[[], T]) -> T:
    """Run work whose cost depends on a client, in a thread.  Raises `CheckTooExpensive`."""
    return await run_in_body_thread(partial(_run_with_cpu_limit, work))


def _run_with_cpu_limit(work: Callable[[], T]) -> T:
    deadline = thread_time() + MAX_CPU_S

    def check() -> None:
        if thread_time() > deadline:
            raise CheckTooExpensive(MAX_CPU_S)

    with limit_steps(check):
        return work()


def shorten_thread_switches() -> None:
    """Reduce the time that computing threads can delay the event loop.

    Objects that exist now are excluded from garbage collection: scanning them would stop all
    threads for about 80 ms, each time that a large plan has created many objects.
    """
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)
    gc.freeze()
