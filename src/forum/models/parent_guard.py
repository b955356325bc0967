"""Run a program that ends with the process that started it, even if that process is killed.

Usage: python parent_guard.py PARENT PROGRAM [ARGUMENT...]

A server lives for minutes between calls.  If its worker is killed, it should notice that its input
has ended; a server that is busy does so late, and one that ignores it never.  Confined programs
have the same protection from bubblewrap.  This file is run as a script, outside of Forum's
environment, so it imports only the standard library.
"""

import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def guarded_command(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs a program under the guard."""
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv)


def _run_guarded(parent: int, argv: list[str]) -> None:
    import ctypes  # noqa: PLC0415  # only the script needs it

    # The kernel keeps this setting when the program takes the place of this process.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)  # the parent died before the setting took effect
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # the operator configured the command
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    _run_guarded(int(sys.argv[1]), sys.argv[2:])
