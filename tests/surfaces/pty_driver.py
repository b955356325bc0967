"""Runs commands of `forum`, each in a process with a terminal of its own; started once for many.

Reads a JSON object per line (arguments, folder, environment, input, seconds), and writes one: the
exit status, and what the terminal was sent. A command that runs longer than its seconds is sent
SIGINT.
"""

import json
import os
import pty
import select
import signal
import sys
import termios
import traceback
from base64 import b64encode
from time import monotonic
from typing import Any

import forum.surfaces.cli
from tests.surfaces.command_server import import_commands

_PATIENCE_S = 60.0
"""How long a command may take to end after SIGINT; the machine may be busy."""


def _run_command(case: dict[str, Any]) -> None:
    """Run a command in this process, and end the process."""
    # Without it a newline would be sent as two characters, and a return of ours could not be told.
    modes = termios.tcgetattr(1)
    modes[1] &= ~termios.OPOST
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(1, termios.TCSANOW, modes)
    os.chdir(case["folder"])
    os.environ.clear()
    os.environ.update(case["environment"])
    sys.argv = ["forum", *case["arguments"]]
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = open(number, "w", buffering=1, closefd=False)  # noqa: SIM115  for all time
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    status = 1
    try:
        forum.surfaces.cli.main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # noqa: BLE001  as the interpreter prints it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _follow(number: int, process: int, given: bytes, seconds: float) -> bytes:
    """Return what the terminal is sent until the command ends."""
    shown, begun = b"", monotonic()
    asked = False
    if given:
        os.write(number, given)
    while True:
        ready, _, _ = select.select([number], [], [], 0.05)
        if ready:
            try:
                piece = os.read(number, 65536)
            except OSError:  # all processes have closed the terminal
                return shown
            if not piece:
                return shown
            shown += piece
        passed = monotonic() - begun
        if passed > seconds and not asked:
            os.kill(process, signal.SIGINT)
            asked = True
        if passed > seconds + _PATIENCE_S:
            os.kill(process, signal.SIGKILL)


def _serve() -> None:
    import_commands()
    for line in sys.stdin:
        case = json.loads(line)
        process, number = pty.fork()
        if process == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _run_command(case)
        shown = _follow(number, process, case["given"].encode(), case["seconds"])
        os.close(number)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        answer = {"status": status, "shown": b64encode(shown).decode()}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
