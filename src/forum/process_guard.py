"""Run a program, and end all that it started when it ends or when Forum ends.

This file is a script, which Forum starts between itself and the program:

    python -I -S process_guard.py CONTROL GROUP PROGRAM [ARGUMENT...]

CONTROL is the number of a socket, of which Forum has the other end.  Each byte that arrives there
is the number of a signal for the program; SIGKILL is for the program and all that it started.  The
end of the stream is the end of Forum, however it ended: then everything is killed at once.

GROUP is the folder of a control group for the program, or empty if this machine gives Forum none.

On Linux this process becomes the parent of every process whose own parent has ended, also of those
that left their process group and session.  Elsewhere it finds those whose parents are still there,
and those in the program's process group.

It runs outside of Forum's environment, so it imports the standard library and `platform_calls`.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forum import platform_calls
else:
    # Beside this file: outside of Forum's environment there is no package of that name.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  it is fast
    import platform_calls

_GRACE_S = 2.0
"""How long processes that the program left behind may take to end when they are asked to."""
_KILL_S = 10.0
"""How long killed processes are waited for: one may hang in the kernel, or run as another user."""
_POLL_INTERVAL_S = 0.05
_MAX_LISTED = 50
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class ProcessGuard:
    """The program, and the processes that descend from it."""

    def __init__(self, control: int, group: str, argv: list[str]) -> None:
        """Start the program."""
        self._control, self._group = control, group
        self._wakeup, writing = os.pipe()
        os.set_blocking(writing, False)
        # So that a call of `select` returns when a child ends.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._adopts = platform_calls.adopt_orphans()
        self._status: int | None = None
        # Ctrl-C is for the program, and `kill -9` of the job is survived: a group of its own, in
        # the same session, so that the groups that the program makes are not orphaned.
        job = os.getpgrp()
        os.setpgid(0, 0)
        self._program = self._start(argv, job)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._end_at_once)
        self._release_streams()

    def _start(self, argv: list[str], job: int) -> int:
        me = os.getpid()
        program = os.fork()
        if program:
            return program
        try:
            os.setpgid(0, job)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            platform_calls.die_with_parent(me)
            if self._group:
                platform_calls.join_control_group(self._group)
            os.close(self._control)
            os.execvp(argv[0], argv)  # noqa: S606  # the user named the program
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            is_missing = isinstance(error, FileNotFoundError)
            os._exit(NOT_FOUND if is_missing else NOT_EXECUTABLE)

    def _release_streams(self) -> None:
        """Hold no stream of the program: its readers wait for the end of file."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)

    def run(self) -> None:
        """Pass signals on until the program has ended; then end what it left behind."""
        while self._status is None:
            ready, _, _ = select.select([self._control, self._wakeup], [], [])
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
                self._reap()
            if self._control in ready and not self._pass_signals_on():
                self._end_at_once()
        left = self._descendants()
        self._report(left)
        self._end_politely(left)
        if self._group:
            platform_calls.remove_control_group(self._group)

    def _pass_signals_on(self) -> bool:
        """Send the signals that have arrived to the program; return False at the end of Forum."""
        numbers = self._read_control()
        for number in numbers:
            if number == signal.SIGKILL:
                # All of them together: each one may have had others start again what has ended.
                self._kill([self._program, *(process for process, _ in self._descendants())])
            elif self._status is None:
                self._signal(self._program, number)
        return bool(numbers)

    def _read_control(self) -> bytes:
        """Return the signals that have arrived; nothing at the end of Forum."""
        try:
            return os.read(self._control, 100)
        except OSError:  # Forum has ended without reading what it was told
            return b""

    def _reap(self) -> bool:
        """Reap what has ended; return whether there are other children."""
        with suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    return True
                if process == self._program:
                    self._status = os.waitstatus_to_exitcode(status)
        return False

    def _descendants(self) -> list[tuple[int, str]]:
        # The number of a group may be that of another one when its last process has ended.
        group = 0 if self._adopts else self._program
        return platform_calls.list_descendants(os.getpid(), group=group)

    def _is_alone(self) -> bool:
        """Return whether nothing is left.

        A process that always starts another one and ends is on no list.  Its parent is this one,
        and the kernel knows whether this one has children.
        """
        return not self._reap() and (self._adopts or not self._descendants())

    def _report(self, left: list[tuple[int, str]]) -> None:
        """Tell Forum how the program ended, and what it left behind."""
        report = {"status": self._status, "count": len(left), "left": left[:_MAX_LISTED]}
        with suppress(OSError):
            # For Forum's own process, and on no record.
            os.write(self._control, json.dumps(report).encode() + b"\n")  # noqa: TID251

    def _end_politely(self, left: list[tuple[int, str]]) -> None:
        for process, _ in left:
            self._signal(process, signal.SIGTERM)
            self._signal(process, signal.SIGCONT)
        until = time.monotonic() + _GRACE_S
        while time.monotonic() < until:
            if self._is_alone():
                return
            ready, _, _ = select.select([self._control], [], [], _POLL_INTERVAL_S)
            numbers = self._read_control() if ready else b"."
            if not numbers or signal.SIGKILL in numbers:
                break  # Forum has ended, or is not to wait
        self._kill_all()

    def _end_at_once(self, *_: object) -> None:
        self._kill_all()
        if self._group:
            platform_calls.remove_control_group(self._group)
        os._exit(1)

    def _kill_all(self) -> None:
        """Kill until nothing is left: a process may start another one while it is killed."""
        if self._group:
            platform_calls.kill_control_group(self._group)
        until = time.monotonic() + _KILL_S
        while time.monotonic() < until:
            if self._is_alone():
                return
            self._kill([process for process, _ in self._descendants()])
            time.sleep(0.01)

    def _kill(self, processes: list[int]) -> None:
        # Stopped first, so that none starts another one in the meantime.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                self._signal(process, number)

    @staticmethod
    def _signal(process: int, number: int) -> None:
        # It has ended, or runs as another user, as with sudo.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


if __name__ == "__main__":
    ProcessGuard(int(sys.argv[1]), sys.argv[2], sys.argv[3:]).run()
