"""The program of `forum run` with all that it starts: started, signalled and ended as one.

A guard process stands between Forum and the program (`forum.process_guard`).  When the program
ends, the guard ends what it left behind; when Forum ends, however that is, it kills everything.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from socket import socketpair
from typing import Self

import msgspec

from forum import process_guard
from forum.platform_calls import (
    adopt_orphans,
    has_variable,
    kill_control_group,
    list_descendants,
    make_control_group,
    remove_control_group,
)

_MAX_REPORT_BYTES = 1 << 16
_RUN_VARIABLE = "FORUM_RUN"


class LeftProcesses(msgspec.Struct, frozen=True):
    """How a program ended, and what was still running then."""

    status: int
    """Its exit status; of one that a signal ended, the number of that below zero."""
    count: int = 0
    left: tuple[tuple[int, str], ...] = ()
    """The first of them: process id and name."""


@dataclass(slots=True)
class ProgramTree:
    """A program, and all processes that descend from it."""

    _guard: asyncio.subprocess.Process
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _run: str
    _group: str
    """The folder of the program's control group, if there is one."""

    @classmethod
    async def start(cls, argv: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Start a program with the streams of this process."""
        # If the guard is killed, this process inherits what it has guarded.
        adopt_orphans()
        run = environment.get(_RUN_VARIABLE, "")
        group = make_control_group(f"forum-run-{run}")
        ours, theirs = socketpair()
        number = theirs.fileno()
        command = (sys.executable, "-I", "-S", process_guard.__file__, str(number), group, *argv)
        with theirs:
            try:
                guard = await asyncio.create_subprocess_exec(
                    *command, env=environment, pass_fds=(number,)
                )
            except OSError:
                ours.close()
                remove_control_group(group)
                raise
        reader, writer = await asyncio.open_connection(sock=ours, limit=_MAX_REPORT_BYTES)
        return cls(guard, reader, writer, run, _group=group)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program; SIGKILL, to all that it started too."""
        # The program may have stopped the guard, which runs as the same user.
        with suppress(ProcessLookupError):
            self._guard.send_signal(signal.SIGCONT)
        with suppress(OSError):
            self._writer.write(bytes([number]))

    async def wait(self) -> LeftProcesses:
        """Wait for the end of the program; what it left behind is ended from then on."""
        line = await self._reader.readline()
        if line:
            return msgspec.json.decode(line, type=LeftProcesses)
        # The guard was killed, and the program with it.
        await self._guard.wait()
        return LeftProcesses(-signal.SIGKILL)

    async def wait_for_all(self) -> None:
        """Wait until everything has ended that the program started."""
        await self._guard.wait()
        self._writer.close()
        if self._group:
            kill_control_group(self._group)
            remove_control_group(self._group)
        for process in self._orphans():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)

    def _orphans(self) -> list[int]:
        """Return what is left of a program whose guard was killed, as its environment tells."""
        if not self._guard.returncode:
            return []
        marker = f"{_RUN_VARIABLE}={self._run}"
        descendants = (process for process, _ in list_descendants(os.getpid()))
        return [process for process in descendants if has_variable(process, marker)]
