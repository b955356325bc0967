"""The log of a process that runs for long: one line for each event, with time and level.

All ways in write to the logger `forum`.  What a line looks like is chosen where the process is
started.
"""

import logging
from threading import Lock
from time import monotonic

from forum.errors import ForumError

LOG = logging.getLogger("forum")

_MAX_LINE_LENGTH = 500
_REPEAT_AFTER_S = 30.0
"""After how long the same trouble is told again."""
_MAX_REMEMBERED = 1000


class RecentLines:
    """The lines that were written a moment ago, from any thread."""

    def __init__(self) -> None:
        self._written: dict[str, float] = {}
        self._lock = Lock()

    def add(self, line: str) -> bool:
        """Tell whether a line is to be written now, and not a repetition."""
        with self._lock:
            if monotonic() - self._written.get(line, -_REPEAT_AFTER_S) < _REPEAT_AFTER_S:
                return False
            if len(self._written) >= _MAX_REMEMBERED:
                self._written.clear()
            self._written[line] = monotonic()
            return True


def format_error_line(error: BaseException) -> str:
    """Return what an error says, on one line that does not fill a screen."""
    text = " ".join(str(error).split())[:_MAX_LINE_LENGTH]
    return text if isinstance(error, ForumError) else f"{type(error).__name__}: {text}"
