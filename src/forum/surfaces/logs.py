"""The log of a long-running process: one line per event, with time and level.

All surfaces write to the logger `forum`.  The format is chosen where the process is started.
"""

import logging
from threading import Lock
from time import monotonic

from forum.errors import ForumError

LOG = logging.getLogger("forum")

_MAX_LINE_LENGTH = 500
_REPEAT_AFTER_S = 30.0
"""Time until an identical line is logged again."""
_MAX_REMEMBERED = 1000


class RecentLines:
    """The lines that were logged recently; thread-safe."""

    def __init__(self) -> None:
        self._written: dict[str, float] = {}
        self._lock = Lock()

    def add(self, line: str) -> bool:
        """Return whether a line should be logged, because it was not logged recently."""
        with self._lock:
            if monotonic() - self._written.get(line, -_REPEAT_AFTER_S) < _REPEAT_AFTER_S:
                return False
            if len(self._written) >= _MAX_REMEMBERED:
                self._written.clear()
            self._written[line] = monotonic()
            return True


def format_error_line(error: BaseException) -> str:
    """Return an error's text as one line of limited length."""
    text = " ".join(str(error).split())[:_MAX_LINE_LENGTH]
    return text if isinstance(error, ForumError) else f"{type(error).__name__}: {text}"
