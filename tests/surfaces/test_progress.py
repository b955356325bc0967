"""What somebody sees while a run goes on, and what somebody sees who wants to see little.

The command is a process of its own on a pseudo-terminal; what it writes there is played onto a
screen that knows the two movements which are used: so many lines up, and wipe what is below.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.surfaces.terminal import FORUM, Terminal

pytestmark = pytest.mark.slow

TREE = """
request = "Prepare the release"

[policy.agents.""]
kind = "scripted"
usd = "0.012"
moves."*" = [{ say = "done", tokens = 640, milliseconds = 300 }]

[[tasks]]
id = "changelog"
instruction = "Write the changelog."

[[tasks]]
id = "build"
instruction = "Build the packages."
needs = ["changelog"]

[[tasks]]
id = "announce"
instruction = "Announce it."
needs = ["build"]
"""
MANY = """
request = "Translate the handbook"

[policy]
parallel = 3

[policy.agents.""]
kind = "scripted"
moves."*" = [{ say = "done", milliseconds = 300 }]
""" + "".join(f'[[tasks]]\nid = "chapter-{n:02d}"\ninstruction = "x"\n' for n in range(20))

SPINNING = tuple(f"  {mark}" for mark in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
_MOVE = re.compile(r"\x1b\[(\d*)([A-Za-z])")


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user in a project with two plans."""
    found = Terminal(tmp_path)
    found.environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    (found.folder / "forum.toml").touch()
    (found.folder / "tree.toml").write_text(TREE)
    (found.folder / "many.toml").write_text(MANY)
    return found


@dataclass
class Screen:
    """A terminal of some size: what is on it, and what was on it before each wipe."""

    columns: int
    rows: int
    lines: list[str] = field(default_factory=lambda: [""])
    frames: list[list[str]] = field(default_factory=list)

    def play(self, text: str) -> None:
        """Put on the screen what a program has written."""
        at = 0
        for match in _MOVE.finditer(text := text.replace("\r", "")):
            self._write(text[at : match.start()])
            at = match.end()
            number, move = match.groups()
            assert move in "AJ", f"a movement that this screen does not know: {match[0]!r}"
            if move == "A":
                self.frames.append(list(self.lines))
                up = int(number)
                # What has scrolled out at the top, or was broken in two, is not drawn over.
                assert up < self.rows
                assert all(len(line) < self.columns for line in self.lines[-1 - up :])
                del self.lines[len(self.lines) - 1 - up :]
                self.lines.append("")
        self._write(text[at:])

    def _write(self, text: str) -> None:
        first, *more = text.split("\n")
        self.lines[-1] += first
        self.lines += more


def watched(
    terminal: Terminal, *words: str, size: tuple[int, int] = (80, 24), typed: bytes = b""
) -> tuple[int, Screen]:
    """Run a command on a terminal of so many columns and rows; return how it ended, and that."""
    ours, theirs = pty.openpty()
    columns, rows = size
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = subprocess.Popen(
        [FORUM, *words],
        cwd=terminal.folder,
        env=terminal.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:  # nobody has the other end any more
        pass
    finally:
        os.close(ours)
    screen = Screen(columns, rows)
    screen.play(seen.decode())
    return command.wait(), screen


@pytest.mark.parametrize("size", [(80, 24), (42, 24)], ids=["wide", "narrow"])
def test_a_tree_grows_in_its_place(terminal: Terminal, size: tuple[int, int]) -> None:
    """Each task has its mark, who is at it, and its time; no line is too long for the screen."""
    status, screen = watched(terminal, "submit", "--plan", "tree.toml", size=size)
    frames = ["\n".join(frame) for frame in screen.frames]
    end = "\n".join(screen.lines)

    assert status == 0, end
    assert any(re.search(r"[⠀-⣿] changelog +scripted +\d\.\d s", frame) for frame in frames)
    assert any("✓ changelog" in frame and "  └─ ○ announce" in frame for frame in frames)
    assert all(frame.count("run 0") == 1 for frame in frames)
    assert ("$0.012" in end) is (size[0] == 80)
    for line in ("  ✓ changelog", "  └─ ✓ build", "     └─ ✓ announce", "done", "✓ ok: "):
        assert sum(text.startswith(line) for text in screen.lines) == 1, end


def test_of_more_than_fits_what_is_done_is_counted(terminal: Terminal) -> None:
    """The screen is never overrun, and whoever is at work stays in sight."""
    status, screen = watched(terminal, "submit", "--plan", "many.toml", size=(80, 12))
    counted = re.compile(r"  … .*\d+ passed").fullmatch
    busy = [frame for frame in screen.frames if any(map(counted, frame))]
    working = [sum(line.startswith(SPINNING) for line in frame) for frame in busy]

    assert status == 0
    assert all(len(frame) <= 12 for frame in screen.frames)
    assert 1 <= max(working, default=0) <= 3


def test_without_a_terminal_each_change_is_a_line(terminal: Terminal) -> None:
    """What goes into a file is not steered, and can be read from top to bottom."""
    done = terminal.type("submit", "--plan", "tree.toml")

    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    for task in ("changelog", "build", "announce"):
        assert re.search(rf"^ +\d+\.\d s  {task}: running \(scripted\)$", done.stderr, re.MULTILINE)
        assert re.search(rf"^ +\d+\.\d s  {task}: passed after ", done.stderr, re.MULTILINE)


def test_a_dumb_terminal_is_not_steered(terminal: Terminal) -> None:
    """It can neither move nor colour: TERM=dumb is what editors and logs of builds say."""
    terminal.environment["TERM"] = "dumb"
    terminal.environment.pop("NO_COLOR")
    status, screen = watched(terminal, "submit", "x", "--cmd", "cat")

    assert (status, screen.frames) == (0, [])
    assert "x" in screen.lines


# Little talk


def test_whoever_wants_no_talk_hears_of_what_went_wrong_only(terminal: Terminal) -> None:
    """The answer, and nothing else; but why there is none, and what is asked, is still said."""
    answered = terminal.type("--quiet", "submit", "x", "--cmd", "cat")
    failed = terminal.type("--quiet", "submit", "x", "--cmd", "false", "--retries", "0")
    waiting = terminal.type("-q", "submit", "--plan", "tree.toml", "--gate", "plan")
    mistaken = terminal.type("--quiet", "show", "no-such-run")

    assert (answered.returncode, answered.stdout, answered.stderr) == (0, "x\n", "")
    assert failed.returncode == 1
    assert failed.stderr.startswith("✗ failed: 0 of 1 task passed")
    assert "answer was given up after 1 attempt, because exit 1." in failed.stderr
    assert waiting.returncode == 6
    assert "forum gate approve" in waiting.stderr
    assert mistaken.stderr.startswith("error: no such entry")


# A newcomer


def test_the_demos_are_offered(terminal: Terminal) -> None:
    """Each with how long it takes and what it needs; a number plays it, and `q` plays none."""
    listed = terminal.type("demo")
    status, screen = watched(terminal, "demo", typed=b"1\n")
    refused, _ = watched(terminal, "demo", typed=b"q\n")

    assert (listed.returncode, listed.stderr) == (0, "")
    for name in ("cheat", "crash", "panel", "team"):
        assert f"  forum demo {name}\n" in listed.stdout
    assert listed.stdout.count("takes about ") == 5
    assert listed.stdout.startswith("   forum demo --open\n")
    assert status == 0
    assert any(re.fullmatch(r"(\d+) of \1 frauds caught\.", line) for line in screen.lines)
    assert refused == 0
