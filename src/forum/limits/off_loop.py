"""Run what reads the bytes of a client beside the event loop, by their number.

Up to `MAX_INLINE_BYTES` it takes less than a millisecond and is done at once.  Up to
`MAX_THREAD_BYTES` it is done in a thread.  A decoder holds the interpreter's lock until it is done,
so that a thread would stop the event loop as well; above that, it is done in another process, which
is killed when it takes too long or too much memory.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

from forum.limits.shares import FairSlots
from forum.limits.worker_processes import WorkerProcesses

T = TypeVar("T")
OptionsT = TypeVar("OptionsT")
ResultT = TypeVar("ResultT")

MAX_INLINE_BYTES: Final = 4_096
MAX_THREAD_BYTES: Final = 256 << 10
_THREADS: Final = 3
_PROCESSES: Final = 2

_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="forum-bodies")
_thread_slots = FairSlots(_THREADS)
_exchanges = ThreadPoolExecutor(_PROCESSES, thread_name_prefix="forum-exchange")
_process_slots = FairSlots(_PROCESSES)
_processes = WorkerProcesses()


async def run_in_body_thread(work: Callable[[], T]) -> T:
    """Run work in one of a few threads, which clients get in turn."""
    async with _thread_slots.hold():
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_threads, partial(copy_context().run, work))


async def run_by_size(size: int, work: Callable[[], T]) -> T:
    """Run work on so many bytes of a client: at once, or in a thread.

    For what does not hold the interpreter's lock for long: hashing, copying, searching.
    """
    return work() if size <= MAX_INLINE_BYTES else await run_in_body_thread(work)


async def read_by_size(
    function: Callable[[bytes, OptionsT], ResultT],
    data: bytes,
    options: OptionsT,
    *,
    size: int | None = None,
) -> ResultT:
    """Return `function(data, options)`, computed at once, in a thread, or in another process.

    The function is at the top level of its module, pure, and annotated; options and result are
    what msgspec can encode.  `size` is given where the data become larger when they are read.
    Raises `BodyTooExpensive`, `WorkerLost`.
    """
    number = len(data) if size is None else size
    if number <= MAX_THREAD_BYTES:
        return await run_by_size(number, partial(function, data, options))
    async with _process_slots.hold():
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_exchanges, _processes.call, function, data, options)
