"""Small disks that tests fill; they need the right to mount one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.project import eventually


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a small disk on a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={megabytes}m"
    argv = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a small disk to the last byte, again and again: what others free is taken, too."""
    assert folder.is_mount()
    filler = folder / "filler"
    code = (
        "import sys, time\nfile = open(sys.argv[1], 'ab', buffering=0)\n"
        "while True:\n    size = 1 << 20\n    while size:\n        try:\n"
        "            file.write(bytes(size))\n        except OSError:\n            size //= 2\n"
        "    time.sleep(0.02)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(filler)])
    try:
        eventually(lambda: os.statvfs(folder).f_bavail == 0)
        yield
    finally:
        process.kill()
        process.wait()
        filler.unlink()
