"""Processes that are told to stop, and do."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.project import eventually, project

STOPPED_SECONDS = 5.0
TGKILL = 234 if os.uname().machine == "x86_64" else 131


def other_threads(process: int) -> list[int]:
    """Return the threads of a process, without its main thread."""
    return [int(t.name) for t in Path(f"/proc/{process}/task").iterdir() if t.name != str(process)]


def send_to_thread(process: int, thread: int, number: int) -> None:
    """Have the system deliver a signal to one thread of a process, as it may at any time."""
    assert ctypes.CDLL(None, use_errno=True).syscall(TGKILL, process, thread, number) == 0


@pytest.mark.parametrize(
    ("command", "number"),
    [(("worker",), signal.SIGTERM), (("up", "--port", "0"), signal.SIGINT)],
    ids=["worker", "up"],
)
def test_a_signal_that_another_thread_is_given_stops_the_process(
    tmp_path: Path, command: tuple[str, ...], number: int
) -> None:
    """The system may deliver a signal to any thread, and the main thread has to wake all the same.

    A worker that misses it goes on until it is killed, and its calls are paid for again.
    """
    with project(tmp_path, None) as home:
        argv = [sys.executable, "-m", "forum", *command]
        process = subprocess.Popen(argv, cwd=home.home, env=home.environ, stderr=subprocess.PIPE)
        try:
            assert process.stderr
            assert process.stderr.readline()  # it serves
            eventually(lambda: len(other_threads(process.pid)) > 3)
            time.sleep(0.2)  # the main thread waits by now
            begun = time.monotonic()
            send_to_thread(process.pid, other_threads(process.pid)[0], number)
            process.communicate(timeout=STOPPED_SECONDS)
        finally:
            process.kill()
            process.communicate()

    assert process.returncode == 0
    assert time.monotonic() - begun < STOPPED_SECONDS
