"""What a short command costs: a person waits for it, and a script calls it a thousand times."""

import os
import subprocess
from pathlib import Path

from tests.surfaces.terminal import FORUM, Terminal


def _cpu_seconds(user: Terminal, *words: str) -> float:
    """Return the CPU time of a command with all that it has started."""
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(
        [FORUM, *words],
        cwd=user.folder,
        env=user.environment,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_routing_by_meaning_adds_little_to_a_submit(tmp_path: Path) -> None:
    """What was read, counted and checked once is kept; nothing is loaded that is not needed.

    On a quiet machine both take under 1.5 CPU-seconds.  A busy one needs up to twice that, and
    does so for both.
    """
    user = Terminal(tmp_path)
    submit = ("submit", "Write a haiku about the sea", "--cmd", "cat")
    # The first one on this machine compiles, reads the roster, checks the weights, and keeps that.
    _cpu_seconds(user, *submit, "--route")
    plain = min(_cpu_seconds(user, *submit) for _ in range(5))
    routed = min(_cpu_seconds(user, *submit, "--route") for _ in range(5))

    assert routed < 4
    assert routed < 1.4 * plain
