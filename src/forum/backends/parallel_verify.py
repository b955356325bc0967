"""Segments of a ledger, checked by processes of their own (`forum ledger verify --jobs`).

`python -m forum.backends.parallel_verify` is such a process.  It reads where the ledger is, then
tasks, from standard input, and writes what came of each to standard output, in their order; every
message is MessagePack behind its length.  The address of a database can hold a password, so it is
not an argument, which other users could see.

A process opens a snapshot of its own, after the one of whoever asks.  That is enough: a log only
grows, so a later snapshot holds all of an earlier one, but for bodies that were erased meanwhile;
`verify_ledger` looks for these once more.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO, Self

import msgspec

from forum.deliberation import COUNCIL_KINDS, SYMPOSIUM_KINDS
from forum.errors import ForumError, WitnessUnreachable, require_extra
from forum.ledger import LEDGER_KINDS, Reader
from forum.verify import Segment, SegmentSummary, SessionSummary, check_segment, check_session
from forum.work import WORK_KINDS

KNOWN_KINDS = LEDGER_KINDS | WORK_KINDS | COUNCIL_KINDS | SYMPOSIUM_KINDS
"""Every kind of entry that this release knows."""
_LENGTH_BYTES = 8


class LedgerAddress(msgspec.Struct, frozen=True, array_like=True):
    """Where a log can be read: in a file, or in a Postgres database."""

    origin: str
    file: str = ""
    database: str = ""

    def open(self) -> AbstractContextManager[Reader]:
        """Read the log as of one moment."""
        if self.database:
            with require_extra("postgres"):
                from forum.backends.postgres import open_reader as open_database  # noqa: PLC0415

            return open_database(self.database, self.origin)
        from forum.backends.sqlite import open_reader  # noqa: PLC0415  the other one is not loaded

        return open_reader(Path(self.file), self.origin)


class _SegmentTask(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """Check a segment.  The times come with the first task of each process."""

    segment: Segment
    times: tuple[tuple[int, str, int], ...] | None


class _SessionTask(msgspec.Struct, frozen=True, array_like=True, tag="session"):
    """Check a deliberation."""

    run: str
    size: int


_Task = _SegmentTask | _SessionTask
_read_task = msgspec.msgpack.Decoder(_Task).decode
_read_address = msgspec.msgpack.Decoder(LedgerAddress).decode
_read_segment = msgspec.msgpack.Decoder(SegmentSummary).decode
_read_session = msgspec.msgpack.Decoder(SessionSummary).decode


class SegmentProcesses:
    """Runs segments in several processes, which end with the block."""

    def __init__(self, address: LedgerAddress, jobs: int) -> None:
        self._processes = [_Process(address) for _ in range(jobs)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.close()

    def run_segments(
        self, segments: Sequence[Segment], times: dict[tuple[int, str], int]
    ) -> Iterator[SegmentSummary | None]:
        """Yield what came of each segment, in their order."""
        known = tuple((size, root, time) for (size, root), time in times.items())
        first = len(self._processes)
        tasks = [
            _SegmentTask(segment, known if number < first else None)
            for number, segment in enumerate(segments)
        ]
        for answer in self._run(tasks):
            yield _read_segment(answer) if answer else None

    def run_sessions(self, runs: Sequence[str], size: int) -> Iterator[SessionSummary | None]:
        """Yield what came of each deliberation, in their order."""
        for answer in self._run([_SessionTask(run, size) for run in runs]):
            yield _read_session(answer) if answer else None

    def _run(self, tasks: Sequence[_Task]) -> Iterator[bytes]:
        """Hand out tasks in turns, and yield the answers in the same order."""
        count = len(self._processes)
        for number, process in enumerate(self._processes):
            process.send(tasks[number::count])
        for number in range(len(tasks)):
            yield self._processes[number % count].receive()


class _Process:
    """One process, asked through pipes."""

    def __init__(self, address: LedgerAddress) -> None:
        # Without the folder that the command was called in: its modules are not ours.
        command = [sys.executable, "-P", "-m", "forum.backends.parallel_verify"]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE)  # noqa: S603  no word of it is foreign
        self._writers: list[Thread] = []
        self._start([msgspec.msgpack.encode(address)])

    def send(self, tasks: Iterable[_Task]) -> None:
        """Queue tasks."""
        self._start([msgspec.msgpack.encode(task) for task in tasks])

    def receive(self) -> bytes:
        """Return the next answer; nothing if the process cannot give one."""
        return _receive(_pipe(self._process.stdout)) or b""

    def close(self) -> None:
        """End the process, whatever it is doing."""
        # Killed, not asked: it has nothing to lose, and may be in the middle of a segment that
        # nobody waits for any more.
        self._process.kill()
        for writer in self._writers:
            writer.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        self._process.wait()

    def _start(self, messages: list[bytes]) -> None:
        # In a thread: a pipe takes little at a time, and whoever waited here for the process to
        # read its tasks would not read its answers, for which it waits.
        before = self._writers[-1] if self._writers else None

        def write() -> None:
            if before is not None:
                before.join()
            with suppress(OSError):  # it has ended, and its answers will be missed
                for message in messages:
                    _send(_pipe(self._process.stdin), message)

        writer = Thread(target=write, daemon=True)
        self._writers.append(writer)
        writer.start()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise WitnessUnreachable("a process that verifies", "it has no pipe")
    return pipe


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    message = pipe.read(length := int.from_bytes(head, "big"))
    return message if len(message) == length else None


def _serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Do tasks until there are no more."""
    first = _receive(tasks)
    if first is None:
        return
    times: dict[tuple[int, str], int] = {}
    with _read_address(first).open() as reader:
        while (message := _receive(tasks)) is not None:
            task = _read_task(message)
            if isinstance(task, _SegmentTask) and task.times is not None:
                times = {(size, root): time for size, root, time in task.times}
            _send(answers, _run_task(reader, task, times))


def _run_task(reader: Reader, task: _Task, times: dict[tuple[int, str], int]) -> bytes:
    try:
        if isinstance(task, _SegmentTask):
            done = check_segment(reader, KNOWN_KINDS, times, task.segment)
            return msgspec.msgpack.encode(done)
        return msgspec.msgpack.encode(check_session(reader, KNOWN_KINDS, task.run, task.size))
    except ForumError:
        return b""  # whoever asked looks for himself, and says what is wrong


if __name__ == "__main__":
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (ForumError, BrokenPipeError, KeyboardInterrupt):
        os._exit(1)  # nobody reads what a traceback would say
