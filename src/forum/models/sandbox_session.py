"""Lead the session of a confined program, inside of the sandbox.

    python -I -S session.py CONTROL TERMINAL PROGRAM...

CONTROL is a socket to Forum, TERMINAL the descriptor of a terminal that Forum made for the program,
or -1.  The program gets a process group of its own, in the foreground of that terminal, so that
Ctrl-C and Ctrl-Z reach it and nothing else.  Forum sends the numbers of signals for the program.
If the program has stopped, this process tells Forum, which stops too and later sends SIGCONT.
The exit status is the program's, or 128 and the number of the signal that ended it.

The program could send what this process sends.  It would only stop itself by that.
"""

import fcntl
import os
import select
import signal
import sys
import termios
from contextlib import suppress

STOPPED = b"s"
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def main(control: int, terminal: int, argv: list[str]) -> int:
    """Run a program, and return its exit status."""
    changes, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.setsid()
    if terminal >= 0:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        # Else this process would be stopped when it gives the foreground to the program.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.set_inheritable(control, False)  # noqa: FBT003  as Python has it
    program = os.fork()
    if program == 0:
        _become(terminal, argv)
    # Both processes do it, so that it is done before either goes on.
    with suppress(OSError):
        os.setpgid(program, program)
    while True:
        ready, _, _ = select.select([control, changes], [], [])
        if changes in ready:
            os.read(changes, 100)
            status = _look_after(program, control)
            if status is not None:
                return status
        if control in ready and not _pass_on(program, control, terminal):
            return 1  # Forum has ended, and the sandbox ends with this process


def _look_after(program: int, control: int) -> int | None:
    """Return the exit status of the program if it has ended; tell Forum if it was stopped."""
    ended, status = os.waitpid(program, os.WNOHANG | os.WUNTRACED)
    if not ended:
        return None
    if os.WIFSTOPPED(status):
        os.write(control, STOPPED)
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _pass_on(program: int, control: int, terminal: int) -> bool:
    """Send the program the signals that Forum names; return whether Forum is still there."""
    numbers = os.read(control, 100)
    for number in numbers:
        if number == signal.SIGCONT and terminal >= 0:
            os.tcsetpgrp(terminal, program)
        with suppress(ProcessLookupError):
            os.killpg(program, number)
    return bool(numbers)


def _become(terminal: int, argv: list[str]) -> None:
    """Replace a child process by the program."""
    try:
        os.setpgid(0, 0)
        if terminal >= 0:
            os.tcsetpgrp(terminal, os.getpid())
        for number in (signal.SIGTTOU, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606  the user's command
    except FileNotFoundError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(_NOT_EXECUTABLE)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
