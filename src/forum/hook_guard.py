"""Run a command that guards a tool: whatever fails, its exit status blocks the tool.

Claude Code uses the tool after every status of a hook but 2, and after a hook that took too long.
So this module needs little of the standard library and nothing of Forum, and the command is
imported within the guard.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import NoReturn

BLOCKED = 2
"""The exit status by which Claude Code does not use the tool, and shows stderr to the model."""
MAX_SECONDS = 20.0
"""How long a hook may take, beside the time that it waits for a person."""

_POLL_INTERVAL_S = 0.2
_MAX_WORDS_CHARS = 1000
_deadline = [float("inf")]


def extend_limit(seconds: float) -> None:
    """Let the guarded command take so much longer, from now on."""
    _deadline[0] = max(_deadline[0], monotonic() + seconds + MAX_SECONDS)


def run_guarded(command: Callable[[], object]) -> NoReturn:
    """Run a command, and end this process: with 0 if the command succeeds, and else with 2."""
    status = BLOCKED
    try:
        _deadline[0] = monotonic() + MAX_SECONDS
        # A thread and no signal: a signal waits while the main thread is within a database.
        threading.Thread(target=_watch, daemon=True).start()
        ended = _call(command)
        # What is not written here would fail at the end of the process, and change its status.
        sys.stdout.flush()
        status = BLOCKED if ended else 0
    except BaseException as error:  # noqa: BLE001  also a recursion, a lack of memory, an import
        _explain(error)
    finally:
        # No code of an exit handler runs: it could change the status.
        os._exit(status)


def _call(command: Callable[[], object]) -> int:
    """Return the status of a command: 0 for success."""
    try:
        command()
    except SystemExit as end:
        if end.code is None or end.code == 0:
            return 0
        if isinstance(end.code, str):
            _write(end.code)
        return BLOCKED
    return 0


def _watch() -> None:
    while monotonic() < _deadline[0]:
        sleep(_POLL_INTERVAL_S)
    _write("not recorded: the hook took too long, so the tool is not used. Run `forum doctor`.")
    os._exit(BLOCKED)


def _explain(error: BaseException) -> None:
    with suppress(BaseException):
        words = f"{type(error).__name__}: {error}"[:_MAX_WORDS_CHARS]
        _write(f"not recorded, so the tool is not used: {words}. Run `forum doctor`.")


def _write(words: str) -> None:
    # Not `sys.stderr`, which may be closed, muted or full of what cannot be encoded.
    with suppress(BaseException):
        os.write(2, f"{words}\n".encode(errors="backslashreplace"))
