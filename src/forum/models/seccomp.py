"""Assemble the system call filter of confined programs (seccomp, classic BPF).

The kernel runs the filter at each system call.  The filter denies the calls through which programs
have left sandboxes, and which agents do not need: typing into a terminal (TIOCSTI, TIOCLINUX), the
keys of the user, io_uring, bpf, performance events, userfaultfd, and sockets of other families than
those of this machine's network, such as AF_VSOCK, which leads to the host of a virtual machine.
Everything else is left to the namespaces.

A process can also call the kernel by the numbers of another architecture (i386, x32), for which the
rules would mean other calls.  The first is killed, the second fails.

The module is pure: it makes bytes from tables.
"""

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType

_LOAD, _EQUAL = 0x20, 0x15
_AT_LEAST, _RETURN = 0x35, 0x06
"""Opcodes: load a word of the call; jump if equal; jump if greater or equal; return."""
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
_ARGUMENTS = 16
"""Offsets in `struct seccomp_data`.  Both architectures are little-endian, so the lower half of an
argument of 64 bits comes first."""
_EPERM, _ENOSYS = 1, 38
_EAFNOSUPPORT = 97
_X32_BIT = 0x40000000

TIOCSTI, TIOCLINUX = 0x5412, 0x541C
FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which lists the addresses of the own network."""

ARCHITECTURES: Mapping[str, int] = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
"""The machines that a filter can be made for, and the kernel's constants for them."""
NUMBERS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "x86_64": {
            "ioctl": 16, "socket": 41, "add_key": 248, "request_key": 249, "keyctl": 250,
            "perf_event_open": 298, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
            "io_uring_enter": 426, "io_uring_register": 427,
        },
        "aarch64": {
            "ioctl": 29, "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219,
            "perf_event_open": 241, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
            "io_uring_enter": 426, "io_uring_register": 427,
        },
    }
)  # fmt: skip
"""The system calls that the filter knows.  Those without a rule about an argument are denied."""


def assemble_filter(machine: str) -> bytes:
    """Return the filter for a machine, as the kernel takes it.  Raises `KeyError` for others."""
    numbers = dict(NUMBERS[machine])
    ioctl, socket = numbers.pop("ioctl"), numbers.pop("socket")
    return b"".join(
        (
            _operation(_LOAD, _ARCHITECTURE),
            _operation(_EQUAL, ARCHITECTURES[machine], then=1),
            _operation(_RETURN, _KILL),
            _operation(_LOAD, _NUMBER),
            *((_operation(_AT_LEAST, _X32_BIT, otherwise=1), _deny(_ENOSYS))
              if machine == "x86_64" else ()),
            *_deny_argument(ioctl, 1, (TIOCSTI, TIOCLINUX)),
            *_allow_argument(socket, 0, FAMILIES),
            *(part for number in numbers.values() for part in
              (_operation(_EQUAL, number, otherwise=1), _deny(_EPERM))),
            _operation(_RETURN, _ALLOW),
        )
    )  # fmt: skip


def _deny_argument(number: int, index: int, values: Iterable[int]) -> Iterable[bytes]:
    """Yield operations that deny a call with one of these values as an argument, and allow others.

    Only the lower half is compared: the kernel takes the argument as an int, and ignores the rest.
    """
    tests = [part for value in values for part in
             (_operation(_EQUAL, value, otherwise=1), _deny(_EPERM))]  # fmt: skip
    body = [_operation(_LOAD, _ARGUMENTS + 8 * index), *tests, _operation(_RETURN, _ALLOW)]
    return (_operation(_EQUAL, number, otherwise=len(body)), *body)


def _allow_argument(number: int, index: int, values: Iterable[int]) -> Iterable[bytes]:
    """Yield operations that allow a call with one of these values as an argument, and no other."""
    tests = [part for value in values for part in
             (_operation(_EQUAL, value, otherwise=1), _operation(_RETURN, _ALLOW))]  # fmt: skip
    body = [_operation(_LOAD, _ARGUMENTS + 8 * index), *tests, _deny(_EAFNOSUPPORT)]
    return (_operation(_EQUAL, number, otherwise=len(body)), *body)


def _deny(error: int) -> bytes:
    return _operation(_RETURN, _ERRNO | error)


def _operation(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Return a `struct sock_filter`: `then` and `otherwise` are how many operations to skip."""
    return struct.pack("<HBBI", code, then, otherwise, value)
