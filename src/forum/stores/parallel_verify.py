"""Checks segments of a ledger in child processes (`forum ledger verify --jobs`).

`python -m forum.stores.parallel_verify` is such a process.  It reads the address of the ledger,
the features, and then tasks from standard input, and writes the result of each task to standard
output in the same order.  A message is MessagePack after its length.  The address of a database may
contain a password; it is not a command-line argument, because other users could see it there.

A child opens its own snapshot, later than the one of the parent.  That is sufficient: a log only
grows, so a later snapshot contains all of an earlier one, except bodies that were erased in
between; `verify_ledger` looks for these again in its own snapshot.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO, Self

import msgspec

from forum import verify
from forum.errors import ForumError, WitnessUnreachable
from forum.feature import Feature, load_kinds
from forum.installation import require_extra
from forum.ledger.kinds import LEDGER_KINDS, Kinds
from forum.ledger.ports import Reader
from forum.runs.kinds import WORK_KINDS
from forum.runs.report_kinds import REPORT_KINDS

_LENGTH_BYTES = 8


class LedgerAddress(msgspec.Struct, frozen=True, array_like=True):
    """The location of a log: a ledger file, or a Postgres database."""

    origin: str
    file: str = ""
    database: str = ""

    def open(self) -> AbstractContextManager[Reader]:
        """Open a reader of one snapshot of the log."""
        if self.database:
            with require_extra("postgres"):
                from forum.stores.postgres_reader import open_reader as open_database  # noqa: PLC0415

            return open_database(self.database, self.origin)
        from forum.stores.sqlite import open_reader  # noqa: PLC0415  load only the backend in use

        return open_reader(Path(self.file), self.origin)


class _SegmentTask(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """A task to check a segment; the first task of each process carries the times."""

    segment: verify.Segment
    times: tuple[tuple[int, str, int], ...] | None


class _SessionTask(msgspec.Struct, frozen=True, array_like=True, tag="session"):
    """A task to check the session of a run in the tree of a size."""

    run: str
    size: int


_Task = _SegmentTask | _SessionTask
_read_task = msgspec.msgpack.Decoder(_Task).decode
_read_address = msgspec.msgpack.Decoder(LedgerAddress).decode
_read_features = msgspec.msgpack.Decoder(tuple[Feature, ...]).decode
_read_segment = msgspec.msgpack.Decoder(verify.SegmentSummary).decode
_read_session = msgspec.msgpack.Decoder(verify.SessionSummary).decode


class SegmentProcesses:
    """A pool of child processes that check segments and sessions; killed at the block's end."""

    def __init__(
        self, address: LedgerAddress, jobs: int, features: tuple[Feature, ...] = ()
    ) -> None:
        self._processes = [_Process(address, features) for _ in range(jobs)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.close()

    def run_segments(
        self, segments: Sequence[verify.Segment], times: dict[tuple[int, str], int]
    ) -> Iterator[verify.SegmentSummary | None]:
        """Yield the summary of each segment in the given order; None if a child failed."""
        rows = tuple((size, root, time) for (size, root), time in times.items())
        first = len(self._processes)
        tasks = [
            _SegmentTask(segment, rows if number < first else None)
            for number, segment in enumerate(segments)
        ]
        for answer in self._run(tasks):
            yield _read_segment(answer) if answer else None

    def run_sessions(
        self, runs: Sequence[str], size: int
    ) -> Iterator[verify.SessionSummary | None]:
        """Yield the summary of each session in the given order; None if a child failed."""
        for answer in self._run([_SessionTask(run, size) for run in runs]):
            yield _read_session(answer) if answer else None

    def _run(self, tasks: Sequence[_Task]) -> Iterator[bytes]:
        """Distribute tasks in turn over the processes, and yield the answers in task order."""
        count = len(self._processes)
        for number, process in enumerate(self._processes):
            process.send(tasks[number::count])
        for number in range(len(tasks)):
            yield self._processes[number % count].receive()


class _Process:
    """A child process, with pipes for tasks and answers."""

    def __init__(self, address: LedgerAddress, features: tuple[Feature, ...]) -> None:
        # -P keeps the current directory off the module search path: a file there could otherwise
        # replace a module that the child imports.
        command = [sys.executable, "-P", "-m", "forum.stores.parallel_verify"]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE)  # noqa: S603  no user input in the command
        self._writers: list[Thread] = []
        self._start([msgspec.msgpack.encode(address), msgspec.msgpack.encode(features)])

    def send(self, tasks: Iterable[_Task]) -> None:
        """Queue tasks for the process, without waiting."""
        self._start([msgspec.msgpack.encode(task) for task in tasks])

    def receive(self) -> bytes:
        """Return the next answer; empty if the task failed or the process has ended."""
        return _receive(_pipe(self._process.stdout)) or b""

    def close(self) -> None:
        """Kill the process and release its pipes."""
        # Killed without a request to end: it has no state to save, and may be in the middle of a
        # segment whose result is no longer needed.
        self._process.kill()
        for writer in self._writers:
            writer.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        self._process.wait()

    def _start(self, messages: list[bytes]) -> None:
        # In a thread, to prevent a deadlock: pipes have small buffers.  If this thread blocked on
        # writing tasks, it would not read answers, and the child would block on writing those.
        before = self._writers[-1] if self._writers else None

        def write() -> None:
            if before is not None:
                before.join()
            with suppress(OSError):  # the child has ended; `receive` then returns nothing
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
    """Read and carry out tasks, and write their answers, until the input ends."""
    first, features = _receive(tasks), _receive(tasks)
    if first is None or features is None:
        return
    kinds_of_features = load_kinds(_read_features(features))
    kinds = reduce(or_, kinds_of_features, LEDGER_KINDS | WORK_KINDS | REPORT_KINDS)
    times: dict[tuple[int, str], int] = {}
    with _read_address(first).open() as reader:
        while (message := _receive(tasks)) is not None:
            task = _read_task(message)
            if isinstance(task, _SegmentTask) and task.times is not None:
                times = {(size, root): time for size, root, time in task.times}
            _send(answers, _run_task(reader, kinds, task, times))


def _run_task(
    reader: Reader, kinds: Kinds, task: _Task, times: dict[tuple[int, str], int]
) -> bytes:
    try:
        if isinstance(task, _SegmentTask):
            done = verify.check_segment(reader, kinds, times, task.segment)
            return msgspec.msgpack.encode(done)
        return msgspec.msgpack.encode(verify.check_session(reader, kinds, task.run, task.size))
    except ForumError:
        return b""  # the parent checks this task itself, and reports the error


if __name__ == "__main__":
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (ForumError, BrokenPipeError, KeyboardInterrupt):
        os._exit(1)  # without a traceback: the parent checks the rest itself
