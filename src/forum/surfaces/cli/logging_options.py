"""The log of a long-running command on stderr: text for people, JSON for collectors."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from forum.errors import StoreBlocked, StoreConnectionLost
from forum.surfaces.cli import UNMUTED_STDERR
from forum.surfaces.cli.console import echo
from forum.surfaces.logs import LOG, RecentLines, format_error_line

if TYPE_CHECKING:
    from forum.app import Forum


class LogFormat(StrEnum):
    """What a line of the log looks like."""

    TEXT = "text"
    JSON = "json"


log_format: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--log-format",
    type=click.Choice([str(choice) for choice in LogFormat]),
    default=str(LogFormat.TEXT),
    show_default=True,
    help="What a line of the log on stderr looks like.",
)


class _LineFormatter(logging.Formatter):
    """Formats lines for a collector, for a file, or, where `is_terminal`, for a person."""

    def __init__(self, chosen: str, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_json = chosen == LogFormat.JSON
        self._is_terminal = is_terminal

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        time, message = f"{moment.isoformat(timespec='milliseconds')}Z", _message_of(record)
        if not self._is_json:
            # A person reads an event when it happens; only what is wrong needs to stand out.
            if self._is_terminal and record.levelno <= logging.INFO:
                return message
            return f"{time} {record.levelname} {message}"
        level = record.levelname.lower()
        fields = {"time": time, "level": level, "logger": record.name, "message": message}
        return json.dumps(fields)


def _message_of(record: logging.LogRecord) -> str:
    """Return the message on one line, because a collector treats each line as an event."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}: {format_error_line(record.exc_info[1])}"
    return " ".join(text.split())


@contextmanager
def log_to_stderr(chosen: str) -> Iterator[None]:
    """Write all log records to stderr until the end of the block."""
    context = click.get_current_context(silent=True)
    unmuted: TextIO | None = context.meta.get(UNMUTED_STDERR) if context else None
    stream = unmuted or sys.stderr
    handler = logging.StreamHandler(stream)
    # `unmuted` is set by --quiet, which must still let warnings and errors through.
    handler.setLevel(logging.INFO if unmuted is None else logging.WARNING)
    is_terminal = stream is not None and stream.isatty()
    handler.setFormatter(_LineFormatter(chosen, is_terminal=is_terminal))
    # At the root, so that warnings of libraries get the same format.
    root, level = logging.getLogger(), LOG.level
    root.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)
        root.removeHandler(handler)


log_line: Callable[[str], None] = partial(LOG.info, "%s")
"""Logs an event of this process."""
log_warning: Callable[[str], None] = partial(LOG.warning, "%s")
"""Logs a warning: something is wrong, but nothing was stopped."""


def make_trouble_logger(forum: "Forum") -> Callable[[Exception], None]:
    """Return a callback that logs an error once, and again after a while.

    Lost connections and refused writes are left to the monitor: while the database is unavailable,
    every thread of a worker would report one.
    """
    recent = RecentLines()

    def report(error: Exception) -> None:
        if isinstance(error, StoreConnectionLost | StoreBlocked):
            forum.monitor.report_failure(error)
        elif recent.add(line := format_error_line(error)):
            LOG.warning("%s (it is tried again)", line)

    return report


def make_trouble_printer() -> Callable[[Exception], None]:
    """Return the same callback for an interactive command, which prints instead of logging."""
    recent = RecentLines()

    def report(error: Exception) -> None:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
        if recent.add(line):
            echo(f"trouble: {line} (it is tried again)", err=True)

    return report
