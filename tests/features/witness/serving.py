"""What the tests of the room talk to: `forum witness serve`, and servers that misbehave."""

import socket
import subprocess
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple, Self

from forum.features.witness.service import trust_log
from forum.features.witness.witness import encode_request
from forum.stores.state_files import write_key
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    SigningKey,
    hash_leaf,
    prove_consistency,
    sign_checkpoint,
)
from tests.support import free_port, fresh_origin, key_of
from tests.surfaces.command_server import start_command
from tests.surfaces.terminal import Terminal
from tests.tlog.trees import view_in_memory
from tests.verify.world import REMOTE, witness_key

HOST = "127.0.0.1"


class Answer(NamedTuple):
    """What came back over HTTP."""

    status: int
    body: bytes
    type: str = ""


class Served:
    """A witness in a process of its own, with a key and a folder of its own."""

    key = witness_key(REMOTE)

    def __init__(self, home: Path) -> None:
        self._terminal, self.folder = Terminal(home), home / "witness"
        write_key(self.folder / "witness.key", self.key)
        self._logs = [key_of(fresh_origin()) for _ in range(40)]
        self._fresh = iter(self._logs)
        self.start()

    def start(self) -> None:
        """Start the process, and return when it answers."""
        self._port = free_port()
        options = [f"--log={key.verifier()}" for key in self._logs]
        command = ["witness", "serve", f"--folder={self.folder}", f"--port={self._port}", *options]
        place, environment = self._terminal.folder, self._terminal.environment
        self._process = start_command(command, place, environment, stdout=subprocess.DEVNULL)
        deadline = monotonic() + 30
        while monotonic() < deadline:
            try:
                socket.create_connection((HOST, self._port), timeout=1).close()
            except OSError:
                sleep(0.05)
            else:
                return
        raise TimeoutError

    def kill(self) -> None:
        """End the process without a word to it."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object, **__: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The address under which the witness is asked."""
        return f"http://{HOST}:{self._port}"

    def log(self) -> "Log":
        """Return a log that the witness knows and has not seen anything of."""
        return Log(next(self._fresh))

    def know(self, key: SigningKey) -> None:
        """Let the witness know one more log."""
        trust_log(self.folder, key.verifier())

    def post(self, body: bytes) -> Answer:
        """Submit a checkpoint."""
        return self._ask("POST", "/add-checkpoint", body)

    def get(self, path: str) -> Answer:
        """Fetch something."""
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        with closing(HTTPConnection(HOST, self._port, timeout=20)) as connection:
            connection.request(method, path, body)
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.headers["Content-Type"])


class Log:
    """A log that exists for its checkpoints only."""

    def __init__(self, key: SigningKey, salt: str = "") -> None:
        self.key = key
        self._leaves = [hash_leaf(f"{salt}{n}".encode()) for n in range(64)]

    def note(self, size: int, root: Hash | None = None) -> Note:
        """Return the signed checkpoint of a size."""
        root = root or view_in_memory(self._leaves[:size]).root()
        return sign_checkpoint(Checkpoint(self.key.name, size, root), self.key)

    def prove(self, old: int, size: int) -> Sequence[Hash]:
        """Return the proof that one tree continues another."""
        return prove_consistency(view_in_memory(self._leaves[:size]), old, size)

    def request(self, old: int, size: int) -> bytes:
        """Return an honest request."""
        proof = self.prove(old, size) if 0 < old < size else ()
        return encode_request(old, proof, self.note(size).encode())

    def fork(self) -> "Log":
        """Return another history under the same key."""
        return Log(self.key, "fork ")


class Misbehaving:
    """A server that answers each request with the next of some prepared bytes."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[bytes] = []
        waiting = iter(answers)
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                requests.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.wfile.write(next(waiting, b"HTTP/1.1 500 No more\r\n\r\n"))

            def log_message(self, *_: object, **__: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object, **__: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Silent:
    """A server that takes requests and never answers, until it hangs up."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}"

    def hang_up(self) -> None:
        """Let those who wait know that there is nobody."""
        self._listener.close()


def response(status: int, body: bytes = b"", *headers: str) -> bytes:
    """Return the bytes of an HTTP response."""
    lines = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
