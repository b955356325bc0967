"""Processes that read large bodies: started on demand, ended when they have nothing to do.

`python -m forum.limits.worker_processes` is such a process.  It reads tasks from standard input and
writes the result of each to standard output.  A message is MessagePack after its length; the body
follows the task as it is.  A task names a function of this package; a client names nothing.

A process that takes too long or too much memory is killed, or ends by itself; that is an error of
the one request whose body it read.
"""

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock, Timer
from time import monotonic
from typing import IO, Any, Final, TypeVar, get_type_hints

import msgspec

from forum.errors import BodyTooExpensive, WorkerLost
from forum.platform_calls import resident_bytes

OptionsT = TypeVar("OptionsT")
ResultT = TypeVar("ResultT")

MAX_CPU_S: Final = 10
MAX_SECONDS: Final = 25.0
"""Time limit of a task, with the start of its process: other work may be on the machine."""
MAX_MEMORY_BYTES: Final = 320 << 20
"""Limit of what a process allocates: it holds a body of 32 MiB about five times."""
IDLE_SECONDS: Final = 30.0
_MAX_IDLE_BYTES: Final = 96 << 20
"""A process that stays larger than this after a task is ended."""
_LENGTH_BYTES: Final = 8
_VARIABLES: Final = ("PATH", "LANG", "LC_", "PYTHON")
"""What the variables of a process begin with: no secret of the server is among them."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """A function to call, its options, and the number of bytes that follow."""

    module: str
    function: str
    options: msgspec.Raw
    size: int


class _Result(msgspec.Struct, frozen=True, array_like=True):
    """What a function returned, or why it did not return."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    is_too_expensive: bool = False
    error: str = ""


class WorkerProcesses:
    """Calls functions in other processes, from any number of threads."""

    def __init__(self) -> None:
        self._idle: list[_WorkerProcess] = []
        self._lock = Lock()

    def call(
        self, function: Callable[[bytes, OptionsT], ResultT], data: bytes, options: OptionsT
    ) -> ResultT:
        """Return what a function returns.  Raises `BodyTooExpensive`, `WorkerLost`."""
        encoded = msgspec.Raw(msgspec.msgpack.encode(options))
        task = _Task(function.__module__, function.__qualname__, encoded, len(data))
        process = self._take()
        try:
            result = process.exchange(msgspec.msgpack.encode(task), data)
        except BaseException:
            process.end()
            raise
        if process.is_reusable:
            self._put(process)
        else:
            process.end()
        if result.is_too_expensive:
            raise BodyTooExpensive(MAX_CPU_S, MAX_MEMORY_BYTES >> 20)
        if result.error:
            raise WorkerLost(result.error)
        kind = get_type_hints(function)["return"]
        value: ResultT = msgspec.msgpack.decode(result.value, type=kind)
        return value

    def end_all(self) -> None:
        """End the processes that have nothing to do."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _take(self) -> "_WorkerProcess":
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                process.stop_timer()
                if process.is_alive:
                    return process
                process.end()
        try:
            return _WorkerProcess()
        except OSError as error:
            raise WorkerLost(type(error).__name__) from None

    def _put(self, process: "_WorkerProcess") -> None:
        with self._lock:
            self._idle.append(process)
            process.start_timer(lambda: self._end_idle(process))

    def _end_idle(self, process: "_WorkerProcess") -> None:
        with self._lock:
            if process not in self._idle:
                return
            self._idle.remove(process)
        process.end()


class _WorkerProcess:
    """One process, with pipes for tasks and results."""

    def __init__(self) -> None:
        # -P keeps the current directory off the module search path: a file there could otherwise
        # replace a module that the process imports.
        argv = [sys.executable, "-P", "-m", "forum.limits.worker_processes"]
        environment = {
            name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)
        }
        self._process = Popen(  # noqa: S603  no user input in the command
            argv, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
        )
        self._timer: Timer | None = None
        self.is_reusable = True

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def exchange(self, task: bytes, data: bytes) -> _Result:
        """Send a task and return its result; a process that takes too long is killed."""
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        due = monotonic() + MAX_SECONDS
        watchdog = Timer(MAX_SECONDS, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            with suppress(BrokenPipeError):  # it has ended, and the status tells why
                _write(self._process.stdin, len(task).to_bytes(_LENGTH_BYTES, "big") + task)
                _write(self._process.stdin, data)
            answer = _read_message(self._process.stdout)
        finally:
            watchdog.cancel()
        if answer is not None:
            result, keep = msgspec.msgpack.decode(answer, type=tuple[_Result, bool])
            self.is_reusable = keep
            return result
        self.is_reusable = False
        status = self._process.wait()
        # SIGXCPU and SIGKILL: its CPU time was over, or its time, or the memory of the machine.
        if status in (-24, -9) or monotonic() >= due:
            return _Result(is_too_expensive=True)
        return _Result(error=f"exit status {status}")

    def start_timer(self, end: Callable[[], None]) -> None:
        """End the process unless it gets a task in time."""
        self._timer = Timer(IDLE_SECONDS, end)
        self._timer.daemon = True
        self._timer.start()

    def stop_timer(self) -> None:
        """Keep the process."""
        if self._timer is not None:
            self._timer.cancel()

    def end(self) -> None:
        """End the process, whatever it does."""
        self.stop_timer()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _write(pipe: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) :]


def _read_message(pipe: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the other side has ended."""
    head = _read_exactly(pipe, _LENGTH_BYTES)
    return None if head is None else _read_exactly(pipe, int.from_bytes(head, "big"))


def _read_exactly(pipe: IO[bytes], size: int) -> bytes | None:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = pipe.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            return None
        rest = rest[count:]
    rest.release()
    return bytes(data) if size <= _LENGTH_BYTES else data  # type: ignore[return-value]


# The process itself.


def work() -> None:
    """Carry out tasks until standard input ends."""
    with suppress(ValueError, OSError):  # not every system limits memory in this way
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    tasks, results = sys.stdin.buffer, sys.stdout.buffer
    while head := tasks.read(_LENGTH_BYTES):
        task = msgspec.msgpack.decode(tasks.read(int.from_bytes(head, "big")), type=_Task)
        try:
            _limit_cpu()
            result = _Result(_call(task, tasks.read(task.size)))
        except (MemoryError, RecursionError):
            result = _Result(is_too_expensive=True)
        except Exception as error:  # noqa: BLE001  the server logs its name; its text may quote the body
            result = _Result(error=type(error).__name__)
        keep = not result.is_too_expensive and resident_bytes() <= _MAX_IDLE_BYTES
        answer = msgspec.msgpack.encode((result, keep))
        del result
        results.write(len(answer).to_bytes(_LENGTH_BYTES, "big"))
        results.write(answer)
        results.flush()
        del answer
        if not keep:
            return


def _call(task: _Task, data: bytes) -> msgspec.Raw:
    function: Any = getattr(import_module(task.module), task.function)
    kind = list(get_type_hints(function).values())[1]
    value = function(data, msgspec.msgpack.decode(task.options, type=kind))
    return msgspec.Raw(msgspec.msgpack.encode(value))


def _limit_cpu() -> None:
    """Have the system end this process when the task has used up its CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime) + 1 + MAX_CPU_S
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (end, hard))


if __name__ == "__main__":
    work()
