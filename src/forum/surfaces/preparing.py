"""Reading and checking what clients send, beside the event loop and with an end.

What that costs depends on the client.  So it is done in a few threads of their own, and a step that
comes after a second of CPU time raises `TooCostly`.  Decision 0043 says why threads, and which
bounds make them enough: no single step keeps the other threads of the process waiting for long.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Final, TypeVar

from forum.errors import TooCostly
from forum.work import limited

T = TypeVar("T")

CPU_SECONDS: Final = 1.0
_THREADS: Final = 2
_SWITCH_SECONDS: Final = 0.001
"""After how long a thread that computes makes room for another one: the event loop waits for as
many of these as there are threads that compute."""

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="forum-prepare")


async def prepare(work: Callable[[], T]) -> T:
    """Do in one of a few threads what a client could make expensive.  Raises `TooCostly`."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _bounded, work)


def _bounded(work: Callable[[], T]) -> T:
    deadline = thread_time() + CPU_SECONDS

    def check() -> None:
        if thread_time() > deadline:
            raise TooCostly(CPU_SECONDS)

    with limited(check):
        return work()


def share_processor() -> None:
    """Have threads that compute make room for the event loop more often than Python does.

    What is loaded by now stays loaded: looking through it for garbage would stop all threads for
    about 80 ms, each time that a large plan has made many objects.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()
