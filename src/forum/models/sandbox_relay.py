"""Relay that lets a confined program reach the allowed addresses, and no others.

It runs as a separate program, in a network namespace without any route out:

    python -I -S sandbox_relay.py ADDRESS... -- COMMAND...

An ADDRESS is IP,PORT,SOCKET: connections to this loopback address are forwarded to that Unix
socket, where the worker connects them to the one address that it stands for.  COMMAND, which
confines the program, then replaces this process; the relay continues in a child process that the
program can neither see nor stop.  Only the standard library is used, because the interpreter is
started in isolated mode without site-packages.
"""

import os
import socket
import sys
from threading import Thread

_CHUNK_BYTES = 1 << 16


def main(words: list[str]) -> None:
    """Listen, fork a child that relays, and execute the command in this process."""
    end = words.index("--")
    listening = [_listen(*word.split(",", 2)) for word in words[:end]]
    if os.fork():
        os.execvp(words[end + 1], words[end + 1 :])  # noqa: S606  the worker composed it
    # The relay must not hold the program's pipes: their readers wait for end of file.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    servers = [Thread(target=_serve, args=pair) for pair in listening]
    for server in servers:
        server.start()
    # Python 3.12 starts no thread for a client once the main thread has ended.
    for server in servers:
        server.join()


def _listen(ip: str, port: str, path: str) -> tuple[socket.socket, str]:
    return socket.create_server((ip, int(port)), backlog=128), path


def _serve(listener: socket.socket, path: str) -> None:
    while True:
        client, _ = listener.accept()
        Thread(target=_relay_client, args=(client, path), daemon=True).start()


def _relay_client(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as outside:
        try:
            outside.connect(path)
        except OSError:
            return
        relay_both_ways(client, outside)


def relay_both_ways(client: socket.socket, other: socket.socket) -> None:
    """Copy bytes in both directions until both sides have ended."""
    back = Thread(target=_copy_stream, args=(other, client), daemon=True)
    back.start()
    _copy_stream(client, other)
    back.join()


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(_CHUNK_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side is gone: wake the other direction, which would wait forever.
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


if __name__ == "__main__":
    main(sys.argv[1:])
