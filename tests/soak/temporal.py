"""Run the tests of workers and gates against a real Temporal server.

`python -m tests.soak.temporal build/temporal/bin/temporal` starts the server, with all of its state
in memory, and stops it at the end.  Other words are for pytest.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support import free_port

TESTS = ("tests/e2e/test_workers.py", "tests/e2e/test_gates.py")
_START_S = 30.0


@contextmanager
def temporal_server(program: str) -> Iterator[int]:
    """Run a server whose address is in `FORUM_TEMPORAL_ADDRESS`, and yield its process id."""
    port = free_port()
    words = ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            os.environ["FORUM_TEMPORAL_ADDRESS"] = f"127.0.0.1:{port}"
            yield process.pid
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    sys.exit("the Temporal server does not start")


def main(program: str, *options: str) -> int:
    """Start the server and run the tests; return the status of pytest."""
    words = [sys.executable, "-m", "pytest", *TESTS, "-k", "temporal", *options]
    with temporal_server(program):
        return subprocess.call(words, env={**os.environ, "FORUM_TEST_RUNNERS": "temporal"})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
