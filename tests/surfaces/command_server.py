"""Runs `forum` in processes that are forked from one which has imported it.

To start Python and to import Forum takes most of the CPU of a short command, and more than a second
of a server; tests run many of them.  A forked process has a folder, variables, streams, signals and
an end of its own, like any other.  What only a fresh one shows (an import that is missing, the cost
of a start, what is read in /proc) is tested by those that start `FORUM` themselves, among them the
pages of the documentation and all that is deployed.
"""

import atexit
import io
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from time import monotonic
from types import ModuleType
from typing import IO

from forum.platform_calls import open_exit_handle

ROOT = Path(__file__).parents[2]
FORUM = Path(sys.executable).with_name("forum")
PRELOADED = (
    "forum.app", "forum.engine", "forum.runs", "forum.stores", "forum.surfaces", "forum.verify",
    "forum.models", "forum.features",
)  # fmt: skip
"""Packages whose modules are imported before anything is forked."""
_LEFT_OUT = ("dbos", "temporal", "adapters", "pydantic_ai", "answer_comparison", "standalone")
"""Modules that need an engine or a framework, start threads, or are scripts."""
_FRESH = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "SSL_")
"""Variables that a process reads when it starts."""
_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_LENGTH = 4
Stream = int | IO[bytes] | None


@dataclass(frozen=True, slots=True)
class Streams:
    """What a command reads and writes, as `subprocess.Popen` takes it."""

    stdin: Stream = subprocess.DEVNULL
    stdout: Stream = None
    stderr: Stream = None


class CommandServer:
    """Forks commands for one process."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        """What the commands have used: they are no children of this process."""
        self._folder = tempfile.TemporaryDirectory()
        self._variables = dict(os.environ)
        self.path = f"{self._folder.name}/commands"
        argv = [sys.executable, "-m", __name__, self.path]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        atexit.register(self.close)

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Return whether a forked process can have these variables: it has started already."""
        return not any(
            name.startswith(_FRESH) and self._variables.get(name) != text
            for name, text in environment.items()
        )

    def run(
        self, words: tuple[str, ...], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with (
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
            ForkedCommand(
                self, words, folder, environment, streams=Streams(stdout=stdout, stderr=stderr)
            ) as command,
        ):
            status = command.wait()
            return subprocess.CompletedProcess(
                [str(FORUM), *words], status, _read(stdout), _read(stderr)
            )

    def argv(self, *words: str) -> list[str]:
        """Return what somebody else starts to have a command forked."""
        return [
            sys.executable,
            "-IS",
            str(Path(__file__).with_name("forked_forum.py")),
            self.path,
            *words,
        ]

    def close(self) -> None:
        """End the server."""
        self._process.communicate()
        self._folder.cleanup()


class ForkedCommand(subprocess.Popen[bytes]):
    """A command that runs; whoever forked it waits for it, and tells how it ended."""

    _child_created = False  # what the base class would wait for when it is collected

    def __init__(
        self,
        server: CommandServer,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: Streams,
    ) -> None:
        self.args = [str(FORUM), *words]
        self.returncode = None
        self._server, self._told = server, b""
        request = json.dumps([list(words), str(folder), dict(environment)]).encode()
        with ExitStack() as theirs:
            self.stdin, stdin = _connect(streams.stdin, 0, theirs)
            self.stdout, stdout = _connect(streams.stdout, 1, theirs)
            self.stderr, stderr = _connect(streams.stderr, 2, theirs)
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.connect(server.path)
            length = len(request).to_bytes(_LENGTH)
            socket.send_fds(self._connection, [length], [stdin, stdout, stderr])
            self._connection.sendall(request)
        while b"\n" not in self._told:
            self._read(None)
        self.pid = int(self._told.split(b"\n")[0])

    def _read(self, seconds: float | None) -> bool:
        """Read what is told within this time, and return whether there was something."""
        if not select.select([self._connection], [], [], seconds)[0]:
            return False
        piece = self._connection.recv(1024)
        assert piece, "whoever waits for the command has ended"
        self._told += piece
        return True

    def poll(self) -> int | None:
        """Return how the command has ended, if it has."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the command ends, and return how."""
        if self.returncode is not None:
            return int(self.returncode)
        until = None if timeout is None else monotonic() + timeout
        while self._told.count(b"\n") < 2:
            if not self._read(None if until is None else max(0.0, until - monotonic())):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        status, used = json.loads(self._told.split(b"\n")[1])
        self._connection.close()
        self._server.cpu_seconds += used
        self.returncode = int(status)
        return self.returncode


def _connect(stream: Stream, number: int, theirs: ExitStack) -> tuple[IO[bytes] | None, int]:
    """Return our end of a stream of a command if it is a pipe, and theirs."""
    mode = "rb" if number == 0 else "wb"
    if stream == subprocess.PIPE:
        reader, writer = os.pipe()
        ours, end = (writer, reader) if number == 0 else (reader, writer)
        theirs.callback(os.close, end)
        return os.fdopen(ours, "wb" if number == 0 else "rb"), end
    if stream == subprocess.DEVNULL:
        return None, theirs.enter_context(Path(os.devnull).open(mode)).fileno()
    if stream is None:
        return None, number
    return None, stream if isinstance(stream, int) else stream.fileno()


def start_command(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdout: Stream = None,
    stderr: Stream = None,
) -> "subprocess.Popen[bytes]":
    """Start a command that runs beside the test; in a fresh process if its variables ask for it."""
    server = command_server()
    if server.serves(environment):
        streams = Streams(stdout=stdout, stderr=stderr)
        return ForkedCommand(server, words, folder, environment, streams=streams)
    return subprocess.Popen(
        [FORUM, *words], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
    )  # fmt: skip


def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; in a fresh process if its variables ask for it."""
    server = command_server()
    if server.serves(environment):
        return server.run(tuple(words), folder, environment)
    return subprocess.run(
        [FORUM, *words], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    with io.TextIOWrapper(stream) as text:  # decodes as `subprocess.run(text=True)` does
        return text.read()


@cache
def command_server() -> CommandServer:
    """Return the server of this process."""
    return CommandServer()


def serve(path: str) -> None:
    """Fork a process for each connection, until standard input ends: nobody will ask then."""
    import_commands()
    sys.path[0] = str(FORUM.parent)  # as for an installed command
    # A fork takes one thread along; what another holds would never be released.
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            with suppress(ChildProcessError):  # of those that were forked before
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def import_commands() -> None:
    """Import what commands need, once for all processes that are forked later."""
    for module in _preloaded():
        import_module(module)


def _preloaded() -> Iterator[str]:
    for package in PRELOADED:
        yield package
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            if not any(word in module.name for word in _LEFT_OUT):
                yield module.name


def _answer(connection: socket.socket) -> None:
    """Run the command of a connection in one more process; tell its number, and how it ended."""
    length, streams, _, _ = socket.recv_fds(connection, _LENGTH, 3)
    request = b""
    while len(request) < int.from_bytes(length):
        request += connection.recv(1 << 20)
    words, folder, environment = json.loads(request)
    command = os.fork()
    if command == 0:
        connection.close()
        _become(folder, environment, streams)
        _run(words)
    for number in (0, 1, 2, *streams):  # a pipe ends with the command
        os.close(number)
    with suppress(OSError):  # nobody asks any more
        connection.sendall(b"%d\n" % command)
    ended = open_exit_handle(command)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        os.kill(command, signal.SIGKILL)  # whoever asked for it is gone
    _, status, used = os.wait4(command, 0)
    told = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
    with suppress(OSError):
        connection.sendall(json.dumps(told).encode() + b"\n")
    os._exit(0)


def _become(folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Take the folder, variables and streams of a command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        name, mode = _STANDARD[number]
        # Of the one before it is remembered whether it was a file or a pipe.
        before = getattr(sys, name)
        by_line = 1 if number == 2 or os.isatty(number) else -1
        after = open(  # noqa: SIM115  for all time
            number, mode, by_line, encoding=before.encoding, errors=before.errors, closefd=False
        )
        setattr(sys, name, after)
        setattr(sys, f"__{name}__", after)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def _run(words: list[str]) -> None:
    """Run the command as its script does, and end as Python does."""
    sys.argv = [str(FORUM), *words]
    sys.modules["__main__"] = ModuleType("__main__")  # click names the command after it
    status: object = 1
    try:
        from forum.__main__ import main  # noqa: PLC0415  of the process that runs it

        main()
        status = 0
    except SystemExit as end:
        status = 0 if end.code is None else end.code
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  waits for threads
        atexit._run_exitfuncs()  # noqa: SLF001
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
