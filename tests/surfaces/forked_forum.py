"""Stands for a command of `forum` that is forked: its streams, signals and end are those of it.

Started as a script, with the path of a command server (command_server.py) and the words of the
command.  It imports little, so that it costs a tenth of a fresh command.
"""

import json
import os
import signal
import socket
import sys

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(path: str, words: list[str]) -> int:
    """Have a command forked, wait for its end, and return its status."""
    request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(request)
        with connection.makefile("rb") as told:
            command = int(told.readline())
            for number in _FORWARDED:
                signal.signal(number, lambda received, _: os.kill(command, received))
            return int(json.loads(told.readline())[0])


if __name__ == "__main__":
    status = run(sys.argv[1], sys.argv[2:])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
