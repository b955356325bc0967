"""A confined program on a terminal: it has one of its own, which behaves like the user's."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from tests.support import wait_until
from tests.surfaces.terminal import FORUM, Terminal

PROGRAM = """
import curses, fcntl, os, signal, sys, termios

def say(*words):
    # Not by print: a signal may come within one, whose buffer is then locked.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def size(*_):
    say("size", *os.get_terminal_size())

def interrupted(*_):
    say("interrupted")

signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGINT, interrupted)
print("tty", *map(os.isatty, range(3)), os.getpgrp() == os.tcgetpgrp(0), flush=True)
curses.setupterm()
size()
while line := sys.stdin.readline():
    print("said", line.strip(), flush=True)
print("end of input", flush=True)
sys.exit(9)
"""
RAW = "import tty, time; tty.setraw(0); print('ready', flush=True); time.sleep(600)"


class Shell:
    """An interactive shell on a terminal, at which a person types."""

    def __init__(self, terminal: Terminal) -> None:
        self.screen, theirs = pty.openpty()
        self.resize(24, 80)
        variables = terminal.environment | {"PS1": "OUTER> ", "TERM": "xterm"}
        start = "import fcntl, os, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        # As at a login: tests that `nohup` started would pass it on ignored, and nothing hung up.
        start += "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        start += "os.execvp('bash', ['bash', '--norc', '--noediting', '-i'])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start],
            cwd=terminal.folder, env=variables, start_new_session=True,
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        self.theirs = theirs
        self.see("OUTER> ")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.screen, text.encode())

    def see(self, pattern: str, seconds: float = 120) -> str:
        """Return what is shown up to a pattern."""
        shown, end = "", monotonic() + seconds
        while not re.search(pattern, shown):
            ready = select.select([self.screen], [], [], max(0, end - monotonic()))[0]
            assert ready, f"{pattern!r} is not shown: {shown!r}"
            shown += os.read(self.screen, 1).decode(errors="replace")
        return shown

    def resize(self, lines: int, columns: int) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def modes(self) -> list[object]:
        """Return the modes of the terminal."""
        return list(termios.tcgetattr(self.theirs))

    def close(self) -> None:
        """Hang up."""
        if self.process.returncode is not None:
            return
        os.close(self.screen)
        os.close(self.theirs)
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Return a shell in a project."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    (terminal.folder / "program.py").write_text(PROGRAM)
    (terminal.folder / "raw.py").write_text(RAW)
    shell = Shell(terminal)
    yield shell
    shell.close()


@pytest.mark.slow
def test_a_confined_program_uses_its_terminal_as_if_it_were_the_users(shell: Shell) -> None:
    """Size, Ctrl-C, Ctrl-Z, Ctrl-D and the exit status are the program's own matter."""
    shell.type(f"{FORUM} run --confine -- {sys.executable} program.py; echo status $?\n")
    assert "tty True True True True" in shell.see(r"size 80 24")
    shell.type("one\n")
    shell.see("said one")
    shell.resize(33, 77)
    shell.see("size 77 33")
    shell.type("\x03")
    shell.see("interrupted")
    shell.type("\x1a")
    shell.see(r"Stopped[^\n]*\n(.|\n)*OUTER> ")
    shell.type("fg\n")
    shell.see("program.py")
    shell.type("two\n")
    shell.see("said two")
    shell.type("\x04")
    shell.see("end of input")
    shell.see(r"OUTER> ")
    shell.type("stty -a; echo all $?\n")
    assert re.search(r"[^-]icanon(.|\n)*[^-]echo\b", shell.see("all 0"))


@pytest.mark.slow
def test_the_status_of_a_program_on_a_terminal_is_forums(shell: Shell) -> None:
    """Also of one that a signal has ended."""
    shell.type(f"{FORUM} run --confine -- sh -c 'exit 9'; echo status=$?\n")
    shell.see("status=9\r")
    shell.type(f"{FORUM} run --confine -- sh -c 'kill -TERM $$'; echo status=$?\n")
    shell.see("status=143\r")


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["program", "forum"])
def test_the_terminal_is_restored_after_a_crash(shell: Shell, killed: str) -> None:
    """Forum itself may be killed, and a shell need not restore what others changed."""
    before = shell.modes()
    shell.type(f"{FORUM} run --confine -- {sys.executable} raw.py\n")
    shell.see("ready")
    assert shell.modes() != before
    wanted = "raw.py" if killed == "program" else "run --confine"
    lines = subprocess.run(
        ["pgrep", "-f", wanted], capture_output=True, text=True, check=True
    ).stdout.split()
    mine = [int(line) for line in lines if _descends(int(line), shell.process.pid)]
    os.kill(max(mine) if killed == "program" else min(mine), signal.SIGKILL)
    os.kill(shell.process.pid, signal.SIGSTOP)
    wait_until(lambda: shell.modes() == before)
    os.kill(shell.process.pid, signal.SIGCONT)


DEAF = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "is_stopped", "program"),
    [
        # Each pair of these meets in the gate.
        pytest.param("kill", False, RAW, id="kill-running-raw"),
        pytest.param("kill", True, DEAF, id="kill-stopped-deaf"),
        pytest.param("hang up", False, DEAF, id="hang up-running-deaf"),
        pytest.param("hang up", True, RAW, id="hang up-stopped-raw"),
        pytest.param("kill", False, DEAF, id="kill-running-deaf", marks=pytest.mark.nightly),
        pytest.param("kill", True, RAW, id="kill-stopped-raw", marks=pytest.mark.nightly),
        pytest.param("hang up", False, RAW, id="hang up-running-raw", marks=pytest.mark.nightly),
        pytest.param("hang up", True, DEAF, id="hang up-stopped-deaf", marks=pytest.mark.nightly),
    ],
)
def test_a_confined_program_ends_with_forum(
    shell: Shell, tmp_path: Path, end: str, *, is_stopped: bool, program: str
) -> None:
    """However Forum or its terminal ends, also while the program is stopped."""
    # Unique among processes that run tests at once.
    mark = f"program-{os.getpid()}-{tmp_path.name}"
    (tmp_path / "project" / mark).write_text(program)
    shell.type(f"{FORUM} run --confine -- {sys.executable} {mark}\n")
    shell.see("ready")
    forum = min(_find(mark))
    if is_stopped:
        children = [pid for pid in _find(mark) if _arguments(pid)[1:] == [mark]]
        os.kill(max(children), signal.SIGTSTP)
        shell.see(r"Stopped")
    assert len(_find(mark)) > 2
    if end == "kill":
        os.kill(forum, signal.SIGKILL)
    else:
        shell.close()
    wait_until(lambda: not _find(mark))


def _find(mark: str) -> list[int]:
    """Return the processes with a word in their arguments, but for the shell."""
    every = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [pid for pid in every if any(mark in word for word in _arguments(pid))]


def _arguments(process: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")[:-1]
    return []


def _descends(process: int, ancestor: int) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = int(stat.rpartition(")")[2].split()[1])
    return False
