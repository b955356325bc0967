"""Take away what only Linux has, in every process that has this folder in PYTHONPATH.

Python imports this module when it starts.  What Forum still does then, it does the portable way.
"""

import ctypes
import fcntl
import os
import select
import socket
from typing import Any

from forum import platform_calls

LINUX_ONLY = {
    os: (
        "copy_file_range", "eventfd", "fdatasync", "memfd_create", "pidfd_open", "pipe2",
        "posix_fadvise", "posix_fallocate", "setns", "splice", "unshare", "waitid",
    ),
    fcntl: ("F_GETPIPE_SZ", "F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW", "F_SETPIPE_SZ"),
    select: ("epoll",),
    socket: ("SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED"),
}  # fmt: skip
"""Names that macOS lacks, some of them only with older versions of Python."""


class _LibraryWithoutPrctl(ctypes.CDLL):
    """The C library of a system that is not Linux."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as ctypes has it
        if name == "prctl":
            raise AttributeError(name)
        return super().__getattr__(name)


def take_linux_away() -> None:
    """Remove the calls of Linux from the modules of this process."""
    for module, names in LINUX_ONLY.items():
        for name in names:
            if hasattr(module, name):  # not in every version of Python
                delattr(module, name)
    ctypes.CDLL = _LibraryWithoutPrctl  # type: ignore[misc]
    platform_calls.SYSTEM = "darwin"


if __name__ == "sitecustomize":
    take_linux_away()
