"""SIGTERM and Ctrl-C, awaited in one place.

Nothing is done inside a signal handler: a handler runs between any two instructions of the main
thread, and could wait there for a lock which that thread holds.  The interpreter writes the number
of a signal into a pipe, in whichever thread the system delivers it, and the main thread reads the
pipe.  Blocking the signals in every thread instead would hand the block on to the programs of
agents, which could then not be ended by SIGTERM.
"""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """The first SIGTERM or SIGINT that this process was sent."""

    def __init__(self, reading: int, taken: Sequence[int]) -> None:
        self._reading, self._taken = reading, taken
        self.number: int | None = None
        """Which it was; nothing as long as there was none."""

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it was sent, or for some seconds, and return which it was."""
        while self.number is None and select.select([self._reading], [], [], seconds)[0]:
            number = os.read(self._reading, 1)[0]  # of any signal that has a handler
            self.number = number if number in STOP_SIGNALS else None
        return self.number

    def restore_default_handlers(self) -> None:
        """Let the next one end the process at once, whatever it is doing."""
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Wait for SIGTERM and SIGINT instead of ending by them; to be called by the main thread.

    One that this process was started to ignore stays ignored: a shell has its background jobs
    ignore Ctrl-C.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as the interpreter demands it
    ignored = signal.SIG_IGN
    taken = [number for number in STOP_SIGNALS if signal.getsignal(number) is not ignored]
    handlers = {number: signal.signal(number, _ignore_signal) for number in taken}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield StopSignal(reading, taken)
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: without a handler the interpreter would not write into the pipe."""
