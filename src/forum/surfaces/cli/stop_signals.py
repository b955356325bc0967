"""SIGTERM and Ctrl-C, awaited in one place.

Nothing is done inside a signal handler: a handler runs between any two instructions of the main
thread, and could wait there for a lock which that thread holds. The interpreter writes the number
of a signal into a pipe, in whichever thread the system delivers it, and the main thread reads the
pipe. Blocking the signals in every thread instead would not work: agent programs would inherit the
block, and SIGTERM could not end them.
"""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """The first SIGTERM or SIGINT sent to this process."""

    def __init__(self, reading: int, caught: Sequence[int]) -> None:
        self._reading, self._taken = reading, caught
        self.number: int | None = None
        """Its number, or None before it was sent."""

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until the signal is sent, at most for so many seconds, and return its number."""
        while self.number is None and select.select([self._reading], [], [], seconds)[0]:
            number = os.read(self._reading, 1)[0]  # of any signal that has a handler
            self.number = number if number in STOP_SIGNALS else None
        return self.number

    def restore_default_handlers(self) -> None:
        """Restore the default action, so that the next signal ends the process at once."""
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Catch SIGTERM and SIGINT until the end of the block; only for the main thread.

    A signal that is ignored at the start stays ignored: a shell makes its background jobs ignore
    Ctrl-C.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # required by set_wakeup_fd
    ignored = signal.SIG_IGN
    caught = [number for number in STOP_SIGNALS if signal.getsignal(number) is not ignored]
    handlers = {number: signal.signal(number, _ignore_signal) for number in caught}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield StopSignal(reading, caught)
    finally:
        # Before the pipe is closed: a signal must not be written to a closed descriptor.
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; without a handler the interpreter would not write into the pipe."""
