"""Runs `forum` in processes that are forked from one which has imported it.

To start Python and to import Forum takes most of the CPU of a short command, and tests run many of
them.  A forked process has a folder, variables, streams, signals and an end of its own, like any
other.  What only a fresh one shows (an import that is missing, the cost of a start) is tested by
those that start `FORUM` themselves, among them every page of the documentation.
"""

import atexit
import io
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import IO

ROOT = Path(__file__).parents[2]
FORUM = Path(sys.executable).with_name("forum")
PRELOADED = (
    "forum.app", "forum.engine", "forum.runs", "forum.stores", "forum.surfaces.cli", "forum.verify",
)  # fmt: skip
"""Packages whose modules are imported before anything is forked, unless they need an engine."""
_LEFT_OUT = ("dbos", "temporal")
_LENGTH = 4


class CommandServer:
    """Forks commands for one process."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        """What the commands have used: they are no children of this process."""
        self._folder = tempfile.TemporaryDirectory()
        path = f"{self._folder.name}/commands"
        argv = [sys.executable, "-m", __name__, path]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        self._path = path
        atexit.register(self.close)

    def run(
        self, words: tuple[str, ...], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        request = json.dumps([words, str(folder), dict(environment)]).encode()
        with (
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            connection.connect(self._path)
            length = len(request).to_bytes(_LENGTH)
            socket.send_fds(connection, [length], [stdout.fileno(), stderr.fileno()])
            connection.sendall(request)
            with connection.makefile("rb") as answer:
                status, used = json.load(answer)
            self.cpu_seconds += used
            return subprocess.CompletedProcess(
                [str(FORUM), *words], status, _read(stdout), _read(stderr)
            )

    def close(self) -> None:
        """End the server."""
        self._process.communicate()
        self._folder.cleanup()


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
        for module in iter_modules(getattr(import_module(package), "__path__", [])):
            if not module.name.startswith(_LEFT_OUT):
                yield f"{package}.{module.name}"


def _answer(connection: socket.socket) -> None:
    """Run the command of a connection in one more process, and tell how it ended."""
    length, streams, _, _ = socket.recv_fds(connection, _LENGTH, 2)
    request = b""
    while len(request) < int.from_bytes(length):
        request += connection.recv(1 << 20)
    words, folder, environment = json.loads(request)
    command = os.fork()
    if command == 0:
        connection.close()
        _become(folder, environment, streams)
        _run(words)
    _, status, used = os.wait4(command, 0)
    told = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
    connection.sendall(json.dumps(told).encode())
    os._exit(0)


def _become(folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Take the folder, variables and streams of a command."""
    with Path(os.devnull).open("rb") as nothing:
        for number, stream in enumerate((nothing.fileno(), *streams)):
            os.dup2(stream, number)
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
