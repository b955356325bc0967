"""Steps that a process has begun to relay, and how another process finds those that it lost.

A gateway that is killed leaves calls of models or tools without an outcome.  To find them without
reading every run, each gateway process has a file with the names of its runs, and holds a lock on
it.  The kernel releases the lock when the process ends, however it ends.  The next process that
opens the ledger for writing takes the lock of each such file, records the outcome of the calls as
lost, at their full price, closes the runs, and removes the file.  A process that lives keeps its
lock, so nothing is taken from it.

The first half of a span's id is the name of the process that began it: two servers may relay calls
of one run, and only those of the dead one are lost.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import UNLIMITED
from forum.platform_calls import sync_file
from forum.runs.kinds import gate_strand
from forum.runs.reported_run import ReportedRunWriter, close_reported_run

_SUFFIX = ".runs"
_OWNER_DIGITS = 8
_JOINED = " joined"
"""After the name of a run that another process closes."""
GATEWAY_ACTOR = "gateway"


class OpenRunsFile:
    """The locked file with the runs of one gateway process."""

    def __init__(self, folder: Path) -> None:
        from forum.stores.state_files import sync_path

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.owner = os.urandom(_OWNER_DIGITS // 2).hex()
        self._path = folder / f"{self.owner}{_SUFFIX}"
        # Locked before it has its name: otherwise another process could find it unlocked, and
        # remove it while its runs begin.
        hidden = folder / f".{self.owner}"
        self._file = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(self._path)
        sync_path(folder)

    def add(self, run: str, *, owns: bool = True) -> None:
        """Name a run durably, before the first of its calls is recorded.

        `owns` tells whether this process closes the run; another process closes one that it joined.
        """
        os.write(self._file, f"{run}{'' if owns else _JOINED}\n".encode())
        sync_file(self._file)

    def new_span(self) -> str:
        """Return the id of a new span, which names this process in its first half."""
        return self.owner + os.urandom(8 - _OWNER_DIGITS // 2).hex()

    def close(self) -> None:
        """Remove the file; call this when all calls have an outcome and all runs are closed."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)

    def abandon(self) -> None:
        """Release the lock and leave the file, for the next process to record what is open."""
        os.close(self._file)


@contextmanager
def hold_open_runs(state: Path) -> Iterator[OpenRunsFile]:
    """Yield a new file of open runs, then remove it; after an error, the next process does."""
    file = OpenRunsFile(open_calls_folder(state))
    try:
        yield file
    except BaseException:
        file.abandon()
        raise
    file.close()


def open_calls_folder(state: Path) -> Path:
    """Return the folder with the runs that gateway processes of this machine have open."""
    return state / "gateway"


def recover_lost_calls(ledger: Ledger, folder: Path) -> int:
    """Record the outcome of calls that dead gateways began, and return their number.

    Does nothing, at the cost of one look at a folder, if no gateway has died.
    """
    if not folder.is_dir():
        return 0
    lost = 0
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with _take_over(path) as runs:
            for line in runs:
                run = line.removesuffix(_JOINED)
                account = ledger.store.account(run)
                cap = account.cap if account else UNLIMITED
                lost += ReportedRunWriter(ledger, run, cap=cap).record_lost(path.stem)
                if run == line and not _is_open_elsewhere(folder, path, run):
                    _reject_gates(ledger, run)
                    close_reported_run(ledger, run, GATEWAY_ACTOR, Outcome.INDETERMINATE)
    return lost


@contextmanager
def _take_over(path: Path) -> Iterator[list[str]]:
    """Yield the runs in the file of a dead process, then remove the file; none if it lives."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # another process has done it
        yield []
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield []
            return
        lines = path.read_text().splitlines() if path.exists() else []
        yield list(dict.fromkeys(lines))
        # Last: after a crash before this line everything is repeated, and what is recorded
        # already is found at its position.
        path.unlink(missing_ok=True)
    finally:
        os.close(file)


def _is_open_elsewhere(folder: Path, own: Path, run: str) -> bool:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(FileNotFoundError):
            if path != own and run in path.read_text().split():
                return True
    return False


def _reject_gates(ledger: Ledger, run: str) -> None:
    """Reject at the gates of a run whose program has died: an approval would have no effect."""
    from forum.engine import end_gate

    for name in ledger.store.strands(run):
        subject = name.removeprefix(gate_strand(""))
        if subject != name:
            end_gate(ledger, run, subject, GATEWAY_ACTOR)
