"""How the log of a long-running command looks: text for people, JSON for collectors."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

import click

from forum.errors import StoreConnectionLost
from forum.surfaces.cli import UNMUTED_STDERR
from forum.surfaces.logs import LOG, RecentLines, format_error_line

if TYPE_CHECKING:
    from forum.app import Forum


class LogFormat(StrEnum):
    """What a line of the log looks like."""

    TEXT = "text"
    JSON = "json"


log_format: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--log-format",
    type=click.Choice([str(one) for one in LogFormat]),
    default=str(LogFormat.TEXT),
    show_default=True,
    help="What a line of the log on stderr looks like.",
)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time_of(record)} {record.levelname} {_message_of(record)}"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message_of(record),
        }
        return json.dumps(fields)


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _message_of(record: logging.LogRecord) -> str:
    """Return what happened, on one line: a collector takes each line for an event."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}: {format_error_line(record.exc_info[1])}"
    return " ".join(text.split())


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to stderr; with --quiet, only warnings and errors."""

    def __init__(self) -> None:
        context = click.get_current_context(silent=True)
        aloud: TextIO | None = context.meta.get(UNMUTED_STDERR) if context else None
        super().__init__(aloud or sys.stderr)
        self.setLevel(logging.INFO if aloud is None else logging.WARNING)


@contextmanager
def log_to_stderr(chosen: str) -> Iterator[None]:
    """Have everything that is logged written to stderr until the end of the block."""
    handler = _StderrHandler()
    handler.setFormatter(_JsonFormatter() if chosen == LogFormat.JSON else _TextFormatter())
    root, level = logging.getLogger(), LOG.level
    root.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)
        root.removeHandler(handler)


def log_line(line: str) -> None:
    """Write down what a process does."""
    LOG.info("%s", line)


def log_warning(line: str) -> None:
    """Write down what is wrong, or to be known, and yet has stopped nothing."""
    LOG.warning("%s", line)


def make_trouble_logger(forum: "Forum") -> Callable[[Exception], None]:
    """Return a callback that writes down what went wrong: once, and again after a while.

    That a connection to the database broke is for the monitor to tell: while the database is away,
    every thread of a worker meets it.
    """
    recent = RecentLines()

    def report(error: Exception) -> None:
        if isinstance(error, StoreConnectionLost):
            forum.monitor.report_failure(error)
        elif recent.add(line := format_error_line(error)):
            LOG.warning("%s (it is tried again)", line)

    return report


def make_trouble_printer() -> Callable[[Exception], None]:
    """Return the same for a command that somebody looks at: it writes no log."""
    recent = RecentLines()

    def report(error: Exception) -> None:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
        if recent.add(line):
            click.echo(f"trouble: {line} (it is tried again)", err=True)

    return report
