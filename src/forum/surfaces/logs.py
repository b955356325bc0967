"""The log of a process that runs for long: one line for each event, with time and level.

All ways in write to the logger `forum`.  What a line looks like is chosen where the process is
started.
"""

import logging

from forum.errors import ForumError

LOG = logging.getLogger("forum")

_MOST_LETTERS = 500


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line that does not fill a screen."""
    text = " ".join(str(error).split())[:_MOST_LETTERS]
    return text if isinstance(error, ForumError) else f"{type(error).__name__}: {text}"
