"""What several attacks use.  It is copied beside them into the project that they attack."""

import ctypes
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

NOT_HERE = 77
"""The status of an attack for which this machine lacks something."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {
    "x86_64": {
        "ioctl": 16, "socket": 41, "mount": 165, "umount2": 166, "add_key": 248,
        "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "bpf": 321,
        "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    },
    "aarch64": {
        "ioctl": 29, "socket": 198, "mount": 40, "umount2": 39, "add_key": 217,
        "request_key": 218, "keyctl": 219, "unshare": 97, "perf_event_open": 241, "bpf": 280,
        "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    },
}  # fmt: skip


def target() -> dict[str, Any]:
    """Return what there is to be had: paths, ports and processes of the host."""
    document: dict[str, Any] = json.loads(Path("target.json").read_text())
    return document


def call(name: str | int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number; arguments have 64 bits.  Raises `OSError`."""
    number = name if isinstance(name, int) else _NUMBERS[os.uname().machine][name]
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(name))
    return result


def reaches(name: str | int, *arguments: int | bytes | None, denied: int = 1) -> NoReturn:
    """End with success if the kernel looks at a call at all, even if it refuses these arguments."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno == denied:
            sys.exit(f"{name}: {error}")
        succeed(f"{name}: the kernel answers: {error}")
    succeed(f"{name}: done")


def read_any(paths: Iterable[str | Path], mark: str) -> NoReturn:
    """End with success if one of these files can be read, and has the secret text in it."""
    for path in paths:
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            print(error)
            continue
        if text and mark.encode() in text:
            succeed(f"read {path}")
    sys.exit("nothing was read")


def succeed(how: str) -> NoReturn:
    """End with success."""
    print("GOT", how)
    sys.exit(0)


def terminals() -> list[int]:
    """Return descriptors of every terminal that this process has, or can open."""
    found = [number for number in range(20) if _is_terminal(number)]
    for path in ("/dev/tty", "/dev/console"):
        try:
            found.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
        except OSError as error:
            print(error)
    return found


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False
