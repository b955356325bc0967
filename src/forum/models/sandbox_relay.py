"""Lets a confined program reach the addresses that were named, and no other.

It runs as a program of its own, in a network without any way out:

    python -I -S relay.py ADDRESS... -- COMMAND...

An ADDRESS is IP,PORT,SOCKET: what comes to this loopback address goes to that Unix socket, behind
which the worker connects to the one address that it stands for.  Then COMMAND, which confines the
program, takes the place of this process; the relay goes on beside it, where the program can
neither see nor stop it.  Only the standard library is used: the interpreter is started bare.
"""

import os
import socket
import sys
from threading import Thread

_CHUNK_BYTES = 1 << 16


def main(words: list[str]) -> None:
    """Listen, go on in a process of its own, and become the command."""
    end = words.index("--")
    listening = [_listen(*word.split(",", 2)) for word in words[:end]]
    if os.fork():
        os.execvp(words[end + 1], words[end + 1 :])  # noqa: S606  as the worker has put it together
    # What the program prints must end when the program does.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    for listener, path in listening:
        Thread(target=_serve, args=(listener, path)).start()


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


def relay_both_ways(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended."""
    back = Thread(target=_copy_stream, args=(other, one), daemon=True)
    back.start()
    _copy_stream(one, other)
    back.join()


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(_CHUNK_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side is gone: the other one must not wait for it.
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


if __name__ == "__main__":
    main(sys.argv[1:])
