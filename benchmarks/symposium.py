"""The reference: what symposium-protocol 1.12.0, which the protocol comes from, says of a session.

It is asked in an environment of its own, by its own commands.  They are forked from one process
that has imported the package, since the import takes most of the time of a command.

Facts that the answers rest on.  `validate` looks at an artifact with the JSON Schemas, and at
nothing else.  `replay` hashes the transcript, having read it into its own types: members that
are null are left out, and `usage.estimated` is filled in.  `metrics` adds up what the messages
say was spent, and fails if the session says otherwise.
"""

import argparse
import atexit
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from benchmarks.environments import PATIENCE, Package, ReferenceFailed
from forum.features.symposium.metrics import SymposiumMetrics

PACKAGE = Package("symposium-protocol", "1.12.0")
MISMATCH, INCONSISTENT = 2, 2  # exit statuses of `replay` and of `metrics`


@dataclass(frozen=True, slots=True)
class Validated:
    """Whether an artifact has the form that the schemas ask for."""

    valid: bool
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Whether a transcript has the digest that is stored with it."""

    matches: bool
    messages: int
    stored: str
    recomputed: str


@dataclass(frozen=True, slots=True)
class Inconsistent:
    """Why there are no metrics: the session does not add up."""

    why: str


_metrics = msgspec.json.Decoder(SymposiumMetrics)


def validate(artifact: Path) -> Validated:
    """Ask whether a file is an artifact."""
    done = _ask("validate", str(artifact))
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise ReferenceFailed("validate", done.returncode, done.stderr)
    return Validated(done.returncode == 0, tuple(done.stderr.splitlines()))


def replay(run: Path) -> Replayed:
    """Ask whether the transcript of the artifact in a folder has its digest."""
    done = _ask("replay", str(run))
    if done.returncode not in (0, MISMATCH):
        raise ReferenceFailed("replay", done.returncode, done.stderr)
    values = _told(done)
    return Replayed(
        matches=values["digest"] == "match",
        messages=int(values["messages"]),
        stored=values["stored_digest"],
        recomputed=values["recomputed_digest"],
    )


def metrics(run: Path) -> SymposiumMetrics | Inconsistent:
    """Ask what the session in a folder comes to; the folder stays as it is."""
    with tempfile.TemporaryDirectory(prefix="forum-symposium-") as scratch:
        file = Path(scratch) / "metrics.json"
        done = _ask("metrics", str(run), "--output", str(file), "--quiet")
        if done.returncode == INCONSISTENT:
            return Inconsistent(done.stderr.strip())
        if done.returncode:
            raise ReferenceFailed("metrics", done.returncode, done.stderr)
        return _metrics.decode(file.read_bytes())


def carry_out(config: Path, scripts: Mapping[str, Path], output: Path) -> Path:
    """Have it hold a session by scripts, and return the folder that it leaves behind.

    Scripts go by the options that take them: `--script`, `--selector-script`.
    """
    options = [word for option, file in scripts.items() for word in (option, str(file))]
    done = _ask("run", "--config", str(config), *options, "--output", str(output))
    if done.returncode:
        raise ReferenceFailed("run", done.returncode, done.stderr)
    return Path(_told(done)["persisted_to"])


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


_FORK_COMMANDS = """
import json, os, sys
from symposium.cli.main import main
for line in sys.stdin:
    words, *files = json.loads(line)
    command = os.fork()
    if not command:
        for number, file in enumerate((os.devnull, *files)):
            os.dup2(os.open(file, os.O_RDWR), number)
        sys.argv[1:] = words
        main()
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]), flush=True)
"""


class _Commands:
    """A process of the reference, which forks one for each command."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            (PACKAGE.python(), "-I", "-c", _FORK_COMMANDS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        with (
            tempfile.NamedTemporaryFile("r+") as stdout,
            tempfile.NamedTemporaryFile("r+") as stderr,
        ):
            asked.write(f"{json.dumps([words, stdout.name, stderr.name])}\n")
            asked.flush()
            if not select.select([answers], [], [], PATIENCE)[0]:
                raise subprocess.TimeoutExpired(words, PATIENCE)
            status = int(answers.readline())
            return subprocess.CompletedProcess(words, status, stdout.read(), stderr.read())


@cache
def _commands() -> _Commands:
    return _Commands()


def _ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the reference to its end."""
    return _commands().run(words)


def main() -> None:
    """Print what the reference says of the run in a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.symposium")
    parser.add_argument("run", type=Path, help="a folder with an artifact.json in it")
    run: Path = parser.parse_args().run
    for answer in (validate(run / "artifact.json"), replay(run), metrics(run)):
        sys.stdout.write(f"{answer}\n")


if __name__ == "__main__":
    main()
