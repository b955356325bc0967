"""Run programs without a shell, over pipes, and kill everything they started.

Each program leads its own process group.  It is reaped only after the whole group was killed: until
then the kernel cannot reuse its process id, which is also the group's id, so that our signals never
hit an unrelated process.  A child that has left the group on purpose (setsid) survives, but is not
waited for, even if it keeps the pipes open.

Neither a child watcher nor the main thread is required: pipes are sufficient.
"""

import asyncio
import codecs
import errno
import fcntl
import os
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from signal import SIGKILL, SIGTERM
from subprocess import Popen
from typing import IO

from forum import engine
from forum.errors import NotConfined
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models.file_content import FileContent
from forum.models.process_group import reap_in_background, signal_group, start_group
from forum.models.sandbox import Sandbox
from forum.platform_calls import open_exit_handle
from forum.runs.kinds import Why

EXIT_GRACE_S = 0.3
"""Seconds that a program has to exit after SIGTERM, and its pipes to close after its exit."""

MAX_STDERR_BYTES = 1 << 16
"""Maximum size of standard error that is kept."""

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Program:
    """A command line, its environment and its limits."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    seconds: float
    output_bytes: int
    price: Amount = engine.NO_COST
    sandbox: Sandbox | None = None
    """The sandbox that confines the program, if any."""


async def run_program(
    program: Program, content: Content, hear: engine.DeltaCallback = engine.ignore_delta
) -> engine.CallReply:
    """Run a program with the given input; return its output and how it ended.

    Its whole process group has been killed when this returns, raises or is cancelled.
    """
    began, chunks = time.monotonic_ns(), content.chunks()
    try:
        # Before the program is started, so that an unusable temporary
        # directory fails the call before it has any effect.
        output = FileContent()
    except OSError as error:
        return _storage_failure(error)
    try:
        process, handle = _start(program)
    except (OSError, ValueError, NotConfined) as error:
        return _start_failure(program.argv, error)
    errors = bytearray()
    stdin, stdout, stderr = filter(None, (process.stdin, process.stdout, process.stderr))
    running = _RunningProgram(
        process=process,
        handle=handle,
        writer=_StdinWriter(stdin, chunks),
        output=_OutputReader(stdout, _tee_to_listener(output.append, hear), program.output_bytes),
        errors=_OutputReader(stderr, errors.extend, MAX_STDERR_BYTES),
    )
    try:
        await running.finish(program.seconds)
    finally:
        await running.kill()
    reply = running.verdict()
    # If the output could not be stored, our own message says so; the program's standard error does
    # not explain that.
    own_error = reply.error is not engine.EMPTY_CONTENT
    return replace(
        reply,
        output=output,
        spent=program.price,
        milliseconds=(time.monotonic_ns() - began) // 1_000_000,
        error=reply.error if own_error else BytesContent(bytes(errors)),
    )


def _start(program: Program) -> tuple[Popen[bytes], int]:
    """Start a program; return it and a handle that is readable after its exit."""
    if not program.argv:
        raise FileNotFoundError(errno.ENOENT, "its argv is empty")
    argv = program.sandbox.command(program.argv) if program.sandbox else program.argv
    process = start_group(argv, program.environment)
    try:
        return process, open_exit_handle(process.pid)
    except OSError:
        # Without a handle we would not notice the exit of the program.  It must be killed before
        # the end of `with`, which waits for it.
        with process:
            signal_group(process, SIGKILL)
        raise


class _StdinWriter:
    """Writes a program's standard input, as fast as the program reads."""

    def __init__(self, pipe: IO[bytes], chunks: Iterator[bytes]) -> None:
        self.pipe, self._chunks = pipe, chunks
        self._rest = memoryview(b"")
        os.set_blocking(pipe.fileno(), False)

    def write(self) -> bool:
        """Write as much as the pipe accepts now; return whether more remains."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._rest = memoryview(chunk)
        try:
            self._rest = self._rest[self.pipe.write(self._rest) or 0 :]
        except BrokenPipeError:
            return False  # the program closed its input, which is not an error
        return True


class _OutputReader:
    """Reads an output pipe of a program; keeps the first bytes up to a limit and drops the rest."""

    def __init__(self, pipe: IO[bytes], keep: Callable[[bytes], object], most: int) -> None:
        self.pipe, self._keep = pipe, keep
        self._room = most
        self.at_end = self.too_much = False
        os.set_blocking(pipe.fileno(), False)

    def read(self) -> int:
        """Read a chunk, if there is one, and return its length."""
        try:
            piece = os.read(self.pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:  # empty, but not closed
            return 0
        self.at_end = not piece
        self.too_much |= len(piece) > self._room
        part = piece[: self._room]
        self._room -= len(part)
        self._keep(part)
        return len(piece)


def _tee_to_listener(
    keep: Callable[[bytes], object], hear: engine.DeltaCallback
) -> Callable[[bytes], object]:
    """Stream to a listener what is kept, split only between whole UTF-8 characters."""
    if hear is engine.ignore_delta:
        return keep
    letters = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def take(piece: bytes) -> None:
        keep(piece)
        text = letters.decode(piece, final=not piece)
        if text:
            hear(text)

    return take


class _RunningProgram:
    """A started program: its pipes, its exit and its process group."""

    def __init__(
        self,
        process: Popen[bytes],
        handle: int,
        writer: _StdinWriter,
        output: _OutputReader,
        errors: _OutputReader,
    ) -> None:
        self._process, self._handle = process, handle
        self._given = writer
        self._output, self._streams = output, (output, errors)
        self._verdict: engine.CallReply | None = None
        self._fault: Exception | None = None
        self._exited, self._changed = False, asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(handle, self._on_exit)
        self._loop.add_writer(writer.pipe, self._on_room)
        for stream in self._streams:
            self._loop.add_reader(stream.pipe, self._on_output, stream)

    async def finish(self, seconds: float) -> None:
        """Wait until the program exits, exceeds its output limit or runs out of time."""
        if not await self._wait_until(lambda: self._exited or self._decided, seconds):
            self._decide(engine.CallReply(Outcome.TIMEOUT, why=Why.DEADLINE))
            signal_group(self._process, SIGTERM)
        elif self._decided:
            return
        # A child process may keep the pipes open, so the
        # rest of the output is awaited only briefly.
        await self._wait_until(
            lambda: self._exited and all(s.at_end for s in self._streams), EXIT_GRACE_S
        )

    async def kill(self) -> None:
        """Kill the whole process group and release all resources."""
        signal_group(self._process, SIGKILL)
        try:
            await self._wait_until(lambda: self._exited, EXIT_GRACE_S)
        finally:
            self._release()

    def verdict(self) -> engine.CallReply:
        """Return how the program ended.  Re-raises an exception of its input."""
        if self._fault is not None:
            try:
                raise self._fault
            finally:
                self._fault = None  # breaks a reference cycle through its traceback
        return self._verdict or _verdict_on_exit(None)

    @property
    def _decided(self) -> bool:
        return self._verdict is not None or self._fault is not None

    def _decide(self, verdict: engine.CallReply) -> None:
        if self._verdict is None:
            self._verdict = verdict
        self._changed.set()

    async def _wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds or the time is over; return whether it holds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        return holds()

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._handle)
        self._exited = True
        self._changed.set()

    def _on_room(self) -> None:
        try:
            more = self._given.write()
        except Exception as error:  # noqa: BLE001  # raised again by verdict()
            more, self._fault = False, error
            self._changed.set()
        if not more:
            self._loop.remove_writer(self._given.pipe)
            self._given.pipe.close()

    def _on_output(self, stream: _OutputReader) -> int:
        length = 0
        try:
            length = stream.read()
        except OSError as error:
            self._decide(_storage_failure(error))
        if self._output.too_much:
            self._decide(engine.CallReply(Outcome.FAILED, why=Why.OVERSIZE))
        if stream.at_end:
            self._loop.remove_reader(stream.pipe)
            self._changed.set()
        return length

    def _release(self) -> None:
        self._loop.remove_reader(self._handle)
        if not self._given.pipe.closed:
            self._loop.remove_writer(self._given.pipe)
        for stream in self._streams:
            # The program's last output is still in the pipe, even if we read it late.  Whatever
            # comes later is from a surviving child, which must not keep us reading forever.
            self._loop.remove_reader(stream.pipe)
            rest = _unread_bytes(stream.pipe) + 1  # one more, to read the end of file, too
            while rest > 0 and (length := self._on_output(stream)):
                rest -= length
        if self._exited:
            self._decide(_verdict_on_exit(_reap(self._process)))
        else:
            reap_in_background(self._process)
        for pipe in (self._given.pipe, *(stream.pipe for stream in self._streams)):
            pipe.close()
        os.close(self._handle)


def _unread_bytes(pipe: IO[bytes]) -> int:
    """Return how much was written to a pipe and not read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _reap(process: Popen[bytes]) -> int | None:
    """Return the exit status of a program that has ended, or None if it cannot be known.

    The status is lost where SIGCHLD is ignored, which a process inherits; `Popen` would report
    success.
    """
    try:
        _, status = os.waitpid(process.pid, 0)
    except ChildProcessError:
        process.wait()
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def _verdict_on_exit(status: int | None) -> engine.CallReply:
    if status == 0:
        return engine.CallReply(Outcome.OK)
    if status is None:
        return engine.CallReply(Outcome.FAILED, why=Why.ERROR, code="exit unknown")
    code = f"exit {status}" if status > 0 else f"signal {-status}"
    return engine.CallReply(Outcome.FAILED, why=Why.ERROR, code=code)


def _storage_failure(error: OSError) -> engine.CallReply:
    message = f"cannot store the program's output: {error}; free space, or set TMPDIR elsewhere"
    content = text_content(message)
    return engine.CallReply(Outcome.FAILED, why=Why.ERROR, code="not-kept", error=content)


def _start_failure(
    argv: tuple[str, ...], error: OSError | ValueError | NotConfined
) -> engine.CallReply:
    name = repr(argv[0]) if argv else "without a name"
    match error:
        case FileNotFoundError() | NotADirectoryError():
            code, advice = "not-found", "install it, or put its full path first in argv"
        case PermissionError() | OSError(errno=errno.ENOEXEC):
            code, advice = "not-executable", "make it executable, with a #! line if it is a script"
        case OSError():
            code, advice = errno.errorcode.get(error.errno or 0, "error"), "try again later"
        case NotConfined():
            code, advice = "not-confined", "forum doctor checks the sandbox"
        case ValueError():
            code, advice = "not-executable", "remove the invalid characters from its argv"
    # A missing program will still be missing a moment later, so the call is denied and not retried.
    permanent = code in ("not-found", "not-executable")
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    message = f"cannot start the program {name}: {why}; {advice}"
    outcome = Outcome.DENIED if permanent else Outcome.FAILED
    return engine.CallReply(outcome, why=Why.ERROR, code=code, error=text_content(message))
