"""`forum worker`: a process that carries out runs, beside all others that do."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from time import monotonic
from types import FrameType
from urllib.parse import urlsplit, urlunsplit

import click

from forum.config import Capacity, Settings
from forum.surfaces.cli import options
from forum.surfaces.cli.output import print_json

PATIENCE_SECONDS = 10
_AGAIN_SECONDS = 30.0
_USUAL = Capacity()

at_once = click.option(
    "--tasks",
    default=_USUAL.tasks,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many tasks at once, turns of panels included, those of all runs together.",
)


@click.command(
    cls=options.WithExamples,
    examples=("forum worker &", 'forum submit --detach "Summarise the news"', "forum runs"),
)
@click.option(
    "--runs",
    default=_USUAL.runs,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many runs at once.",
)
@at_once
@options.as_json
def worker(runs: int, tasks: int, *, as_json: bool) -> None:
    """Carry out runs until stopped by SIGTERM or Ctrl-C.

    Takes on what `forum submit --detach` left, and what another worker left that died.  Any number
    of workers may serve one ledger.  When stopped, it lets what is going on end, for 10 seconds;
    others, or the next one, take over the rest.
    """
    with options.forum() as forum:
        place = _place(forum.settings)
        with (
            stopping() as stop,
            forum.working(Capacity(runs, tasks), trouble_lines(), PATIENCE_SECONDS) as serving,
        ):
            if as_json:
                facts = {"worker": serving.id, "origin": forum.origin, "database": place}
                print_json("forum.worker/1", facts)
            click.echo(f"worker {serving.id} serves {forum.origin} ({place})", err=True)
            stop.wait()
            click.echo(f"stopping; work in hand gets {PATIENCE_SECONDS} s", err=True)


@contextmanager
def stopping() -> Iterator[Event]:
    """Turn the first SIGTERM or SIGINT into an event; the second one ends the process."""
    stop = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def heard(_number: int, _frame: FrameType | None) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.set()

    for number in before:
        signal.signal(number, heard)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def trouble_lines() -> Callable[[Exception], None]:
    """Return a callback that says on stderr what went wrong: once, and again after a while."""
    said: dict[str, float] = {}
    lock = Lock()

    def say(error: Exception) -> None:
        line = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
        with lock:
            if monotonic() - said.get(line, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
                return
            said[line] = monotonic()
        click.echo(f"trouble: {line} (it is tried again)", err=True)

    return say


def _place(settings: Settings) -> str:
    """Say where the database is, without its password."""
    if not settings.database:
        return str(settings.ledger_file)
    url = urlsplit(settings.database)
    host = url.netloc.rpartition("@")[2]
    user = f"{url.username}@" if url.username else ""
    return urlunsplit((url.scheme, f"{user}{host}", url.path, "", ""))
