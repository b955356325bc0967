"""The packages that Forum is compared with, each in an environment of its own.

Their files are locked by hash, in a file beside this one for each package.  To move to another
release:

    echo PACKAGE==X.Y.Z > in.txt
    uv pip compile in.txt -p 3.11 -o benchmarks/requirements-PACKAGE.txt
        --generate-hashes --no-emit-index-url --no-header --no-annotate
"""

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from forum.stores.state_files import lock_file

HERE = Path(__file__).parent
PATIENCE = 600.0  # seconds


class ReferenceFailed(Exception):
    """A package did something else than every judgement here takes for granted."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that others have published, in one release."""

    name: str
    version: str

    def __str__(self) -> str:
        """Name it as people do."""
        return f"{self.name} {self.version}"

    def python(self) -> str:
        """Return the interpreter of its environment, which is made when it is missing."""
        folder = HERE / ".envs" / f"{self.name}-{self.version}"
        python = str(folder / "bin/python")
        lock = HERE / f"requirements-{self.name}.txt"
        stamp, wanted = folder / "lock.sha256", hashlib.sha256(lock.read_bytes()).hexdigest()
        # Several may want it at the same time, and the first makes it for all.
        with lock_file(folder):
            if not stamp.exists() or stamp.read_text("ascii") != wanted:
                run(sys.executable, "-m", "venv", "--clear", str(folder))
                run(python, *_INSTALL, "-r", str(lock))
                # The stamp comes last: an installation that was cut short is made again.
                stamp.write_text(wanted, "ascii")
        return python


_INSTALL = (
    *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
    *("--no-deps", "--only-binary=:all:", "--require-hashes"),
)


def run(*command: str, patience: float = PATIENCE) -> str:
    """Run a command that has to succeed, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    if done.returncode:
        raise ReferenceFailed(command[1:], done.returncode, done.stderr)
    return done.stdout
