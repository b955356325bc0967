"""Faults of system calls, cut short: a sample of those that `just faults` injects."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = 60


def test_no_fault_loses_doubles_bricks_or_accuses() -> None:
    """A full disk, a bad one and a kill are accidents: no entry is lost, and nobody is blamed.

    In a process of its own, which forks before any thread has begun.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak.faults", f"--sample={SAMPLE}", "--jobs=2", "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout, ended.stderr
    figures = json.loads(ended.stdout.splitlines()[-1])

    assert figures["violations"] == []
    assert figures["failed_though_recorded"] == 0
    # Threads take turns as they like: now and then a call that was counted is not made.
    assert figures["injections"] >= SAMPLE * 3 // 4
