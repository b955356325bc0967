"""Programs that lead their own process group, with pipes for input, output and errors."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import PIPE, Popen
from threading import Thread


def start_group(argv: Sequence[str], environment: Mapping[str, str]) -> Popen[bytes]:
    """Start a program without a shell, as the leader of a new process group."""
    return Popen(  # noqa: S603  # the operator configured the command, and no shell parses it
        argv,
        bufsize=0,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        start_new_session=True,
    )


def signal_group(process: Popen[bytes], number: int) -> None:
    """Send a signal to all processes of a group; the leader must not have been reaped."""
    # The group is empty, or all its members run as another user, as with sudo.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def reap_in_background(process: Popen[bytes]) -> None:
    """Reap a process that could not be killed whenever it ends.

    It hangs in the kernel or runs as another user.
    """
    Thread(target=process.wait, daemon=True).start()
