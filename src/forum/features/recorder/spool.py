"""Counters of the steps that a process has handed in, in a file that outlives the process.

The file is mapped into memory and shared with the kernel, so a count is kept from the moment that
it is stored, whatever kills the process.  A machine that loses power may lose the last counts.

Each process has files of its own and holds a lock on them.  A file without a lock belongs to a
process that is dead: whoever finds it records what is missing, and deletes the file.  The lock is a
POSIX record lock, since a forked child does not inherit it.
"""

import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"forum-spool/1\n"
_HEADER_BYTES = 64
_SLOT_BYTES = 192
_SLOT_WORDS = _SLOT_BYTES // 8
_SLOTS = 256
_FILE_BYTES = _HEADER_BYTES + _SLOTS * _SLOT_BYTES
_TEXT_BYTES = 80
_HANDED_IN, _DROPPED = 0, 1
_IN_USE, _TEXTS = 2, 4
"""The words of a slot: two counts, a flag, and from the fifth word on two texts."""

_own_files: set[Path] = set()
"""The files of this process: closing a second descriptor of one would release its lock."""
os.register_at_fork(after_in_child=_own_files.clear)


class SpooledRun(NamedTuple):
    """What a dead process has left of a run."""

    run: str
    actor: str
    handed_in: int
    dropped: int


class SpoolSlot:
    """The counters of one run."""

    __slots__ = ("_base", "_file", "_words")

    def __init__(self, file: "_SpoolFile", number: int) -> None:
        self._file, self._words = file, file.words
        self._base = (_HEADER_BYTES + number * _SLOT_BYTES) // 8

    def store_counts(self, handed_in: int, dropped: int) -> None:
        """Store the counts.  Each is one aligned word, which a kill cannot tear."""
        # The number of steps goes first: a kill in between makes a dropped step one that was lost
        # at the end, and the sum stays right.
        self._words[self._base + _HANDED_IN] = handed_in
        self._words[self._base + _DROPPED] = dropped

    def store_handed_in(self, handed_in: int) -> None:
        """Store the number of steps that were handed in."""
        self._words[self._base + _HANDED_IN] = handed_in

    def free(self) -> None:
        """Give the slot back: everything about its run is recorded."""
        self._words[self._base + _IN_USE] = 0
        self._file.free.append(self)

    def occupy(self, run: str, actor: str) -> None:
        """Take the slot for a run."""
        self.store_counts(0, 0)
        self._file.write_texts(self._base, run, actor)
        # The flag goes last: a slot is either empty or whole.
        self._words[self._base + _IN_USE] = 1


class _SpoolFile:
    """One mapped file with a fixed number of slots."""

    def __init__(self, folder: Path) -> None:
        name = f"{os.getpid()}-{os.urandom(6).hex()}"
        made, self.path = folder / f"{name}.new", folder / f"{name}.spool"
        self._descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # Lock before renaming: a reader that finds a `.spool` without a lock takes its process for
        # dead, and deletes the file.
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        os.ftruncate(self._descriptor, _FILE_BYTES)
        self._map = mmap.mmap(self._descriptor, _FILE_BYTES)
        self._map[: len(_MAGIC)] = _MAGIC
        self.words = memoryview(self._map).cast("Q")
        made.rename(self.path)
        _own_files.add(self.path)
        self.free = [SpoolSlot(self, number) for number in reversed(range(_SLOTS))]

    def write_texts(self, base: int, run: str, actor: str) -> None:
        start = (base + _TEXTS) * 8
        for text in (run, actor):
            data = text.encode()[:_TEXT_BYTES]
            self._map[start : start + _TEXT_BYTES] = data.ljust(_TEXT_BYTES, b"\0")
            start += _TEXT_BYTES

    def close(self) -> None:
        """Delete the file if all of its slots are free; otherwise leave it to the next process."""
        if len(self.free) == _SLOTS:
            self.path.unlink(missing_ok=True)
        self.words.release()
        self._map.close()
        # Closing releases the lock, so it comes last.
        os.close(self._descriptor)
        _own_files.discard(self.path)


class Spool:
    """The counters of one process for all its runs.  Callers serialize access by a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[_SpoolFile] = []

    def take_slot(self, run: str, actor: str) -> SpoolSlot:
        """Return a slot for a run."""
        file = next((file for file in self._files if file.free), None)
        if file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = _SpoolFile(self._folder)
            self._files.append(file)
        slot = file.free.pop()
        slot.occupy(run, actor)
        return slot

    def close(self) -> None:
        """Delete the files whose runs are all recorded, and leave the others."""
        for file in self._files:
            file.close()
        self._files = []


def recover_spools(folder: Path, record: Callable[[SpooledRun], None]) -> int:
    """Have the runs of dead processes recorded, and delete their files; return the number of runs.

    `record` must be repeatable: a kill between it and the deletion makes the next process call it
    again.
    """
    recovered = 0
    for path in sorted(folder.glob("*.spool")) if folder.is_dir() else ():
        if path in _own_files:
            continue
        with suppress(FileNotFoundError):  # another process has just recovered it
            recovered += _recover_file(path, record)
    return recovered


def _recover_file(path: Path, record: Callable[[SpooledRun], None]) -> int:
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0  # its process lives, or another one recovers it
        runs = list(_read_slots(file.read()))
        for run in runs:
            record(run)
        path.unlink(missing_ok=True)
        return len(runs)


def _read_slots(data: bytes) -> Iterator[SpooledRun]:
    if len(data) != _FILE_BYTES or not data.startswith(_MAGIC):
        return
    words = memoryview(data).cast("Q")
    for number in range(_SLOTS):
        base = _HEADER_BYTES // 8 + number * _SLOT_WORDS
        if not words[base + _IN_USE]:
            continue
        start = (base + _TEXTS) * 8
        texts = [data[at : at + _TEXT_BYTES] for at in (start, start + _TEXT_BYTES)]
        run, actor = (text.rstrip(b"\0").decode(errors="replace") for text in texts)
        yield SpooledRun(run, actor, words[base + _HANDED_IN], words[base + _DROPPED])
