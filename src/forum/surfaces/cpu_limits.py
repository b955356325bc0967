"""Reading and checking what clients send, beside the event loop and with an end.

What that costs depends on the client.  So it is done in a few threads of their own, and a step that
comes after a second of CPU time raises `CheckTooExpensive`.  Decision 0043 says why threads, and
which bounds make them enough: no single step keeps the other threads of the process waiting for
long.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Final, TypeVar

from forum.errors import CheckTooExpensive
from forum.work import limit_steps

T = TypeVar("T")

MAX_CPU_S: Final = 1.0
_THREADS: Final = 2
_THREAD_SWITCH_INTERVAL_S: Final = 0.001
"""After how long a thread that computes makes room for another one: the event loop waits for as
many of these as there are threads that compute."""

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="forum-prepare")


async def run_cpu_bounded(work: Callable[[], T]) -> T:
    """Run work whose cost depends on a client, in a thread.  Raises `CheckTooExpensive`."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _run_with_cpu_limit, work)


def _run_with_cpu_limit(work: Callable[[], T]) -> T:
    deadline = thread_time() + MAX_CPU_S

    def check() -> None:
        if thread_time() > deadline:
            raise CheckTooExpensive(MAX_CPU_S)

    with limit_steps(check):
        return work()


def shorten_thread_switches() -> None:
    """Have threads that compute make room for the event loop more often than Python does.

    What is loaded by now stays loaded: looking through it for garbage would stop all threads for
    about 80 ms, each time that a large plan has made many objects.
    """
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)
    gc.freeze()
