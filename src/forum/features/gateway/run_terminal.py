"""A terminal of Forum's own for a confined program, relayed to and from the user's.

A confined program must not hold the user's terminal: it could change its modes, read what is typed
after the program, and on some systems type commands into the shell.  It gets a pseudo-terminal
instead, of the same size and with the same modes.  While the program is in the foreground, the
user's terminal passes every byte on as it is, so that Ctrl-C, Ctrl-Z and Ctrl-D mean what the
program's terminal makes of them.
"""

import fcntl
import json
import os
import select
import struct
import sys
import termios
from contextlib import suppress
from subprocess import PIPE, Popen
from threading import Thread
from typing import Any, Self

from forum.surfaces.cli import terminal_guard

_STREAMS = (0, 1, 2)
_CHUNK_BYTES = 1 << 16
_DRAIN_SECONDS = 2.0
"""How long what the program has printed may take to be shown after its end."""
_POLL_MILLISECONDS = 200
_Modes = list[Any]


class ProgramTerminal:
    """A pseudo-terminal for a program, and the threads that relay it."""

    def __init__(self, owner: int | None) -> None:
        """Make a terminal like the user's; `owner` is the user that the program runs as."""
        self.number = next(number for number in _STREAMS if os.isatty(number))
        """A stream of the program that is its terminal."""
        self._shown = next((n for n in (1, 2) if os.isatty(n)), self.number)
        self._modes: _Modes = termios.tcgetattr(self.number)
        self._ours, self.theirs = os.openpty()
        if owner is not None:
            os.fchown(self.theirs, owner, -1)
        modes = [*self._modes]
        if not os.isatty(0):
            modes[1] &= ~termios.OPOST  # the user's terminal goes on to do it
        termios.tcsetattr(self.theirs, termios.TCSANOW, modes)
        self.copy_size()
        self._is_raw = False
        self._guard: Popen[bytes] | None = None
        self._stop, self._hang_up = os.pipe(), os.pipe()
        """Pipes that end the thread that reads what is typed, and the one that shows."""
        self._writer = Thread(target=self._show, daemon=True)
        self._reader = Thread(target=self._pass_input, daemon=True)

    @classmethod
    def open(cls, owner: int | None) -> Self | None:
        """Return a terminal, if any stream of this process is one."""
        return cls(owner) if any(map(os.isatty, _STREAMS)) else None

    def stream(self, number: int) -> int | None:
        """Return the program's stream with this number, or None if it is Forum's own."""
        return self.theirs if os.isatty(number) else None

    def start(self) -> None:
        """Relay, after the program was started."""
        os.close(self.theirs)
        self._writer.start()
        if os.isatty(0):
            self.attach()
            self._reader.start()

    def attach(self) -> None:
        """Pass on everything that is typed, if Forum is in the foreground."""
        self.copy_size()
        # A terminal that was hung up is none any more.
        with suppress(OSError, termios.error):
            self._attach()

    def _attach(self) -> None:
        if not os.isatty(0) or os.tcgetpgrp(0) != os.getpgrp():
            return
        if self._guard is None:
            self._guard = self._start_guard()
        raw = [*self._modes]
        raw[0] &= ~(termios.BRKINT | termios.ICRNL | termios.IGNBRK | termios.IGNCR
                    | termios.INLCR | termios.INPCK | termios.ISTRIP | termios.IXON)  # fmt: skip
        raw[1] &= ~termios.OPOST
        raw[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN
                    | termios.ISIG)  # fmt: skip
        raw[6] = [*raw[6]]
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        self._is_raw = True
        termios.tcsetattr(0, termios.TCSADRAIN, raw)

    def detach(self) -> None:
        """Give the user's terminal back as it was."""
        if self._is_raw:
            self._is_raw = False
            with suppress(termios.error):  # it was hung up
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def copy_size(self) -> None:
        """Give the program's terminal the size of the user's; the program is told."""
        with suppress(OSError):
            size = fcntl.ioctl(self.number, termios.TIOCGWINSZ, struct.pack("4H", 0, 0, 0, 0))
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def close(self) -> None:
        """Show the rest, and restore the user's terminal."""
        try:
            if self._writer.is_alive():
                # All processes of the sandbox are gone, and so is the other end.
                self._writer.join(_DRAIN_SECONDS)
            os.write(self._stop[1], b".")
            if self._reader.is_alive():
                self._reader.join(_DRAIN_SECONDS)
        finally:
            self.detach()
            if self._guard is not None:
                self._guard.communicate(b".")
            for number in (self._ours, *self._stop, *self._hang_up):
                os.close(number)

    def _start_guard(self) -> "Popen[bytes]":
        """Start the process that restores the terminal if this one is killed."""
        *flags, characters = self._modes
        values = [c if isinstance(c, int) else c[0] for c in characters]
        modes = json.dumps([*flags, values])
        return Popen(  # noqa: S603  a constant command
            [sys.executable, "-I", "-S", terminal_guard.__file__, modes],
            stdin=PIPE, stdout=self.number, start_new_session=True,
        )  # fmt: skip

    def _show(self) -> None:
        with suppress(OSError):  # the program's end of the terminal is closed, or the user's
            while True:
                ready, _, _ = select.select([self._ours, self._hang_up[0]], [], [])
                if self._ours not in ready:
                    break
                if not (piece := os.read(self._ours, _CHUNK_BYTES)):
                    break
                while piece:
                    piece = piece[os.write(self._shown, piece) :]
        # The last descriptor of our end: the program's terminal is hung up as the user's was.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self._ours, inheritable=False)
        os.close(nothing)

    def _pass_input(self) -> None:
        poll = select.poll()
        poll.register(self._stop[0], select.POLLIN)
        with suppress(OSError):
            while True:
                # In the background a read would stop this process.  Hanging up is told anyway.
                poll.register(0, select.POLLIN if self._is_raw else 0)
                ready = dict(poll.poll(_POLL_MILLISECONDS))
                if self._stop[0] in ready:
                    return
                if ready.get(0, 0) & (select.POLLHUP | select.POLLERR):
                    break
                if 0 in ready and self._is_raw:
                    piece = os.read(0, _CHUNK_BYTES)
                    if not piece:
                        break
                    while piece:
                        piece = piece[os.write(self._ours, piece) :]
        # What was typed has come to its end: the terminal was hung up.
        with suppress(OSError):
            os.write(self._hang_up[1], b".")
