"""Listening sockets of servers; an unusable address raises one error that includes a remedy."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack

from forum.errors import PortUnusable

_REMEDIES = {
    errno.EADDRINUSE: "another process listens there; choose another port with {option}",
    errno.EACCES: "this user may not; choose a port from 1024 on with {option}",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def bind_sockets(host: str, port: int, option: str) -> list[socket.socket]:
    """Return a bound socket for each address of a host.

    `option` is the command-line option for the port, for the remedy.  Raises `PortUnusable`.
    """
    with ExitStack() as stack:
        try:
            bound = [
                stack.enter_context(_bind_socket(*address))
                for address in _resolve_addresses(host, port)
            ]
        except socket.gaierror as error:
            raise PortUnusable(host, port, f"the host is not known: {error.strerror}") from None
        except OSError as error:
            why = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
            raise PortUnusable(host, port, why.format(option=option)) from None
        stack.pop_all()
    return bound


def _resolve_addresses(
    host: str, port: int
) -> Iterator[tuple[socket.AddressFamily, tuple[object, ...]]]:
    """Yield each address of a host once; only the first for port 0.

    With port 0 the system chooses a port, and each address would get a different one.
    """
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    distinct = dict.fromkeys((family, address) for family, _, _, _, address in infos)
    yield from list(distinct)[: 1 if port == 0 else None]


def _bind_socket(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets with an explicit TCP protocol.  Without TCP_NODELAY,
    # the second part of a response waits 40 ms for the client to acknowledge the first.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Connections of a stopped server stay in TIME_WAIT for a minute; bind in spite of them.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # IPv4 addresses get sockets of their own, which a dual-stack socket would conflict with.
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
