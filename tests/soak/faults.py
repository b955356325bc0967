"""Let system calls of commands fail, one at a time, and see what the ledger is worth afterwards.

    python -m tests.soak.faults [--sample N] [--seed S] [--command note|submit] [--jobs N] [--json]

Two commands are run on a ledger in SQLite: `forum ledger note`, and `forum submit` of one task.  A
first run of each, under strace, counts the calls of fsync, fdatasync, pwrite64, write, rename,
unlink and ftruncate.  Then there is one run for each of these calls and each fault: the call fails
with EIO, it fails with ENOSPC, or the process is killed by SIGKILL when it makes the call.

After each of them, on the ledger as it was left:

1. `forum ledger verify` exits with 0: what a crash leaves is no fraud.
2. The same command with the same idempotency key exits with 0: nothing is bricked.
3. `forum ledger verify` exits with 0 again, and now nothing waits to be signed.
4. What was acknowledged is there, and what was asked for is there once.

Choices:

* Only calls on files of the ledger and of the state directory are touched (strace -P): what is
  written to the terminal, to pipes and to other files is not what the ledger rests on.
* strace counts the calls of each thread by itself, so the n-th call fails in every thread that gets
  so far.  A run in which no call failed is not counted.
* The ledger was made before and holds a note that was verified: the first write of a new ledger is
  not among these runs.
* Processes are forked from one that has imported Forum; strace is attached before they begin.
  Loading takes a second, and makes none of these calls on these files.
"""

import argparse
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.kinds import NoteFacts
from forum.ledger.log import read_strand_entries
from forum.runs.kinds import AcceptedFacts
from forum.surfaces.cli import main as forum_main

CALLS = ("fsync", "fdatasync", "pwrite64", "write", "rename", "unlink", "ftruncate")
FAULTS = ("EIO", "ENOSPC", "SIGKILL")
# Processors differ in which of these they have; a name with a question mark may be missing.
_VARIANTS = {"rename": "?rename,?renameat,?renameat2", "unlink": "?unlink,?unlinkat"}
_SECONDS = 120.0
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1
_WORDS = "a remark that must be there once"
_NOT_COSIGNED = "they prove no time"


class Command(NamedTuple):
    """A command that is interrupted, and what it prints when it has succeeded."""

    name: str
    words: tuple[str, ...]


COMMANDS = {
    "note": Command("note", ("ledger", "note", _WORDS, "--idempotency-key", "once")),
    "submit": Command(
        "submit", ("submit", _WORDS, "--cmd", "cat", "--idempotency-key", "once", "--json")
    ),
}


class Injection(NamedTuple):
    """One fault: the n-th call of a name, in a command, fails."""

    command: str
    call: str
    fault: str
    n: int

    def __str__(self) -> str:
        return f"{self.command}: {self.fault} at {self.call} {self.n}"


class Ended(NamedTuple):
    """How a process ended: its exit status (negative: a signal), and what it said."""

    status: int
    said: str
    complained: str


@dataclass
class Figures:
    """What was found out, counted."""

    injections: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    bricked: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    """Findings, or anything else that is not a report that all is well."""
    failed_though_recorded: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Count what was found out elsewhere too."""
        self.injections.update(other.injections)
        self.missed += other.missed
        for name in ("lost", "doubled", "bricked", "verdicts", "failed_though_recorded"):
            getattr(self, name).extend(getattr(other, name))

    def violations(self) -> list[str]:
        """Return everything that must not be."""
        return [*self.lost, *self.doubled, *self.bricked, *self.verdicts]

    def told(self) -> dict[str, Any]:
        """Return the figures for `--json`."""
        return {
            "injections": sum(self.injections.values()),
            "by_fault": dict(sorted(self.injections.items())),
            "missed": self.missed,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "bricked": len(self.bricked),
            "false_verdicts": len(self.verdicts),
            "failed_though_recorded": len(self.failed_though_recorded),
            "violations": self.violations(),
        }


class Scene:
    """A ledger in a folder of its own: a project, and the state directory beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project, self.state = folder / "project", folder / "state"

    def environment(self) -> dict[str, str]:
        """Return the variables that lead a command here, and nowhere else."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FORUM_")}
        return kept | {
            "FORUM_STATE_DIR": str(self.state),
            "FORUM_CONFIG_DIR": str(self.folder / "config"),
            "HOME": str(self.folder),
        }

    def copy(self, to: Path) -> "Scene":
        """Return the same ledger elsewhere."""
        shutil.copytree(self.folder, to, symlinks=True)
        return Scene(to)

    def files(self) -> Iterator[Path]:
        """Yield every file that a command may write here, and the folders that hold them."""
        data = self.project / ".forum"
        yield from (data / f"ledger.db{end}" for end in ("", "-wal", "-shm", "-journal"))
        for folder, _, names in os.walk(self.state):
            yield Path(folder)
            for name in names:
                if not name.endswith(".lock"):
                    yield from (Path(folder) / f"{name}{end}" for end in ("", ".new"))

    def run(self, *words: str, strace: Sequence[str] = (), log: Path | None = None) -> Ended:
        """Run a command here, under strace if so wished."""
        out, err = self.folder / "stdout", self.folder / "stderr"
        hold, release = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            os.close(release)
            self._become(words, hold, out, err)
        os.close(hold)
        tracer = _attach(child, strace, log, list(self.files())) if log else None
        os.write(release, b".")
        os.close(release)
        status = _wait(child)
        if tracer:
            tracer.wait(timeout=_SECONDS)
        return Ended(status, out.read_text(), err.read_text())

    def _become(self, words: tuple[str, ...], hold: int, out: Path, err: Path) -> None:
        """Be the command, in a process that was just forked; never return."""
        status = 70
        try:
            os.setsid()
            os.chdir(self.project)
            os.environ.clear()
            os.environ.update(self.environment())
            # Where only parents may trace, the tracer is let in: it is a brother of this process.
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
            for number, path in enumerate((Path(os.devnull), out, err)):
                flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(path, flags, 0o600), number)
            os.read(hold, 1)
            sys.argv = ["forum", *words]
            try:
                forum_main()
                status = 0
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001  the process must end here, whatever it is
            traceback.print_exc()
        finally:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)


def _attach(
    child: int, options: Sequence[str], log: Path, files: Sequence[Path]
) -> subprocess.Popen[str]:
    paths = [word for path in files for word in ("-P", str(path))]
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", str(log), *options, *paths, "-p", str(child)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    text = ""
    for line in tracer.stderr:
        text += line
        if "attached" in line:
            return tracer
    os.kill(child, signal.SIGKILL)
    raise RuntimeError(f"strace cannot trace here: {text.strip()}")


def _wait(child: int) -> int:
    """Return the exit status of a process; one that hangs is killed, and its status is -99."""
    deadline = monotonic() + _SECONDS
    while monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with suppress(ProcessLookupError):  # the program that was called, if it outlived it
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -99


def make_scene(folder: Path) -> Scene:
    """Make a ledger that holds a note, and was verified."""
    scene = Scene(folder)
    scene.project.mkdir(parents=True)
    for words in (("init",), ("ledger", "note", "before"), ("ledger", "verify")):
        ended = scene.run(*words)
        if ended.status != 0:
            raise RuntimeError(f"forum {' '.join(words)}: {ended.complained}")
    return scene


def count_calls(scene: Scene, command: Command, scratch: Path) -> dict[str, int]:
    """Return how often a thread of a command makes each call, at most."""
    copy, log = scene.copy(scratch / f"count-{command.name}"), scratch / "count.log"
    ended = copy.run(
        *command.words, strace=["-e", f"trace={','.join(map(_named, CALLS))}"], log=log
    )
    if ended.status != 0:
        raise RuntimeError(f"{command.name}: {ended.complained}")
    seen: Counter[tuple[str, str]] = Counter()
    for line in log.read_text().splitlines():
        called = re.match(r"(\d+) +(\w+?)(?:at2?)?\(", line)
        if called and called[2] in CALLS:
            seen[called[1], called[2]] += 1
    return {
        call: max((n for (_, name), n in seen.items() if name == call), default=0) for call in CALLS
    }


def _named(call: str) -> str:
    return _VARIANTS.get(call, call)


def injections(command: Command, calls: dict[str, int]) -> list[Injection]:
    """Return every fault at every call of a command."""
    return [
        Injection(command.name, call, fault, n)
        for call, most in calls.items()
        for fault in FAULTS
        for n in range(1, most + 1)
    ]


def inject(scene: Scene, injection: Injection, scratch: Path) -> Figures:
    """Let one call fail, and return what came of it."""
    figures = Figures()
    name = re.sub(r"\W+", "-", str(injection))
    copy, log = scene.copy(scratch / name), scratch / f"{name}.log"
    calls = _named(injection.call)
    failing = f"error={injection.fault}"
    if injection.fault == "SIGKILL":
        failing = "signal=SIGKILL"
    command = COMMANDS[injection.command]
    options = ["-e", f"trace={calls}", "-e", f"inject={calls}:{failing}:when={injection.n}"]
    first = copy.run(*command.words, strace=options, log=log)
    if not re.search(r"\(INJECTED\)|killed by SIGKILL", log.read_text()):
        figures.missed += 1
    else:
        figures.injections[injection.fault] += 1
        _judge(copy, command, first, str(injection), figures=figures)
    shutil.rmtree(copy.folder, ignore_errors=True)
    log.unlink()
    return figures


def _judge(scene: Scene, command: Command, first: Ended, name: str, figures: Figures) -> None:
    """Check everything that the module promises, after one fault."""
    # First of all, on the very files that were left: to look into them for writing repairs them.
    _verify(scene, f"{name}, before the next write", figures)
    recorded = _recorded(scene)
    if first.status == 0 and not recorded:
        figures.lost.append(f"{name}: {first.said!r}")
    if first.status > 0 and recorded and command.name == "note":
        figures.failed_though_recorded.append(f"{name}: {first.complained}")
    if first.status == -99:
        figures.bricked.append(f"{name}: it hangs")
    again = scene.run(*command.words)
    if again.status != 0:
        figures.bricked.append(f"{name}: {again.status} {again.complained}")
    after = _verify(scene, f"{name}, after the next write", figures)
    # A signer that ended before it asked its witness leaves a checkpoint that proves no time: the
    # notice is true, and accuses nobody.
    notices = [said for said in after.get("notices", ()) if not said.endswith(_NOT_COSIGNED)]
    if after and (after["pending"] or notices):
        figures.bricked.append(f"{name}: not repaired: {notices}")
    left = _recorded(scene)
    if len(left) > 1:
        figures.doubled.append(f"{name}: {left}")
    if recorded - left or (again.status == 0 and not left):
        figures.lost.append(f"{name}: {recorded} became {left}")


def _verify(scene: Scene, when: str, figures: Figures) -> dict[str, Any]:
    ended = scene.run("ledger", "verify", "--json")
    if ended.status != 0:
        text = ended.said
        with suppress(ValueError, KeyError):
            text = str([f"{f['problem']}: {f['detail']}" for f in json.loads(text)["findings"]])
        figures.verdicts.append(f"{when}: {ended.status} {text} {ended.complained}")
        return {}
    report: dict[str, Any] = json.loads(ended.said)
    return report


def _recorded(scene: Scene) -> set[str]:
    """Return the runs in which the words are recorded, as a note or as a request."""
    with Forum(load_settings(scene.project, scene.environment())) as forum:
        texts = set()
        for run in forum.store.runs("", 1000):
            for _, entry in read_strand_entries(forum.ledger, run, "main"):
                facts = entry.facts
                name = "text" if isinstance(facts, NoteFacts) else ""
                name = "request" if isinstance(facts, AcceptedFacts) else name
                if name and forum.reads.bodies_at(run, "main", entry.step)[name] == _WORDS.encode():
                    texts.add(run)
        return texts


def soak(
    commands: Sequence[str] = tuple(COMMANDS),
    sample: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    only: str | None = None,
) -> Figures:
    """Inject every fault, or a sample of them, and return the figures."""
    for module in ("ledger", "submit", "setup"):
        import_module(f"forum.surfaces.cli.{module}")
    for module in ("stores.claiming_worker", "models", "verify", "features.witness"):
        import_module(f"forum.{module}")
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="forum-faults-") as folder:
        scratch = Path(folder)
        scene = make_scene(scratch / "scene")
        chosen = []
        for name in commands:
            calls = count_calls(scene, COMMANDS[name], scratch)
            print(f"{name}: {calls}", file=sys.stderr)
            chosen += injections(COMMANDS[name], calls)
        if only is not None:
            chosen = [one for one in chosen if str(one) == only]
        if sample is not None:
            chosen = random.Random(seed).sample(chosen, min(sample, len(chosen)))
        # Processes, not threads: each forks, and a fork must not find locks that others hold.
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
            work = [pool.submit(inject, scene, one, scratch) for one in chosen]
            for done, future in enumerate(work, 1):
                figures.add(future.result())
                if done % 20 == 0 or done == len(work):
                    bad = len(figures.violations())
                    print(f"{done} of {len(work)}, {bad} violations", file=sys.stderr)
    return figures


def main() -> None:
    """Inject, print the figures, and exit with 0 only if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.faults", description=__doc__)
    parser.add_argument("--sample", type=int, help="inject only so many faults, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", choices=[*COMMANDS], help="interrupt only this command")
    parser.add_argument("--only", help="inject only the fault of this name")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one object as the last line")
    asked = parser.parse_args()
    commands = [asked.command] if asked.command else list(COMMANDS)
    figures = soak(commands, asked.sample, asked.seed, asked.jobs, only=asked.only)
    for violation in (*figures.violations(), *figures.failed_though_recorded):
        print(violation, file=sys.stderr)
    document = figures.told()
    print(json.dumps(document) if asked.json else document)
    sys.exit(1 if figures.violations() else 0)


if __name__ == "__main__":
    main()
