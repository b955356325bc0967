"""Carrying out a run in this process, telling meanwhile how it goes, and what came of it."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from types import FrameType
from typing import NoReturn

import click

from forum.app import Forum, RunView, now
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.runview import (
    SHORT,
    exit_status,
    first_line,
    gate_advice,
    plain,
    progress,
    run_json,
    run_reason,
    status,
    task_lines,
    task_reason,
    task_time,
    used,
    who,
    width,
)
from forum.surfaces.cli.units import duration, price
from forum.surfaces.cli.worker import trouble_lines
from forum.work import Run, TaskRun, TaskState

_TREE_ROWS = 12
_PATIENCE_SECONDS = 60
"""How long to wait for calls of other runs that this process has begun beside its own."""


def carry_out(forum: Forum, begin: Callable[[], str], *, as_json: bool) -> NoReturn:
    """Begin a run beside a worker in this process, follow it, and exit as it did."""
    telling = _progress(forum)
    run = None
    try:
        # The worker first: the time of a run counts from when it is accepted.
        with _interruptible(), forum.working(report=telling.trouble, patience=_PATIENCE_SECONDS):
            run = begin()
            telling.begin(run)
            forum.follow(run, telling.show)
    except KeyboardInterrupt as stop:
        if run is None:
            raise
        click.echo(f"\nstopped; the run stays, go on with: forum resume {run[:SHORT]}", err=True)
        raise SystemExit(128 + _number(stop)) from None
    finish(forum, run, as_json=as_json)


def hand_over(forum: Forum, begin: Callable[[], str], *, as_json: bool) -> None:
    """Begin a run for whoever serves as a worker, and say which it is."""
    run = begin()
    forum.settle()
    if as_json:
        print_json("forum.run/1", run_json(forum.view(run)))
    else:
        click.echo(run)
    click.echo(f"a forum worker carries it out; look: forum show {run[:SHORT]}", err=True)


def finish(forum: Forum, run: str, *, as_json: bool) -> NoReturn:
    """Print what came of a run, and exit as it did."""
    view = forum.view(run)
    if as_json:
        print_json("forum.run/1", run_json(view))
    elif view.answer is not None:
        print_bytes(view.answer)
    _print_end(view)
    raise SystemExit(exit_status(view))


def print_bytes(content: bytes) -> None:
    """Print content as it is; but a terminal gets whole lines, and nothing that steers it."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        words = content.decode(errors="replace").replace("\r\n", "\n").expandtabs()
        content = plain(words).removesuffix("\n").encode(errors="replace") + b"\n"
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _print_end(view: RunView) -> None:
    mark, word, color = status(view.state, waiting=bool(view.gates))
    said = f"{progress(view.state)}, {used(view)}"
    click.echo(f"{click.style(f'{mark} {word}', fg=color)}: {said}", err=True)
    reason = run_reason(view)
    if reason and view.state.outcome is not None:
        click.echo(f"  {reason}", err=True)
    for name in view.state.tasks:
        task = view.state.task(name)
        if task.state is TaskState.FAILED:
            click.echo(f"  {name}: {plain(task_reason(view, task))}", err=True)
    for run, gate in view.gates:
        click.echo("\n".join(gate_advice(run, gate, view.at)), err=True)
    if view.gates:
        click.echo(f"then go on: forum resume {view.run[:SHORT]}", err=True)
    click.echo(f"see all of it: forum show {view.run[:SHORT]}", err=True)


# Ctrl-C


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which is to be heard as politely as Ctrl-C: agents have to be ended too."""


def _number(stop: KeyboardInterrupt) -> int:
    return signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT


@contextmanager
def _interruptible() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)

    def heard(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    signal.signal(signal.SIGTERM, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# How it goes


class _Lines:
    """Tells of each change on a line of its own: for files, pipes and plain terminals."""

    def __init__(self, forum: Forum) -> None:
        self._forum, self._said = forum, dict[str, str]()
        self.trouble = trouble_lines()
        self._view = RunView("", Run(), 0, None, None, None, {}, ())

    def begin(self, run: str) -> None:
        """Say which run it is: whatever happens now, it can be found again."""
        self._view = replace(self._view, run=run)
        click.echo(f"run {run}", err=True)

    def show(self, state: Run) -> None:
        """Tell what has changed."""
        first = self._view.state.accepted is None
        self._view = view = replace(self._view, state=state, at=now())
        for name in state.tasks:
            task = state.task(name)
            words = _task_words(view, task)
            if self._said.get(name) != words:
                self._said[name] = words
                if first and task.state.is_end:
                    continue  # of an earlier sitting
                passed = duration(view.at - state.begun)
                click.echo(f"{passed:>8}  {name}: {plain(words)}", err=True)


def _task_words(view: RunView, task: TaskRun) -> str:
    """Say how far a task has come, in words that change when that does."""
    if task.state is TaskState.PASSED:
        cost = f", {price(task.spent.usd)}" if task.spent.usd else ""
        return f"passed after {duration(task_time(task, view.at))}{cost}"
    facts = [who(task) if task.state is TaskState.RUNNING else "", task_reason(view, task)]
    facts.insert(1, f"attempt {task.attempts}" if task.attempts > 1 else "")
    said = ", ".join(fact for fact in facts if fact)
    return f"{task.state.value} ({said})" if said else task.state.value


class _Screen:
    """Draws the run again and again in the same place: for a terminal that somebody looks at."""

    def __init__(self, forum: Forum) -> None:
        self._forum, self._lock, self._drawn = forum, Lock(), list[str]()
        self._view = RunView("", Run(), 0, None, None, None, {}, ())
        self._say = trouble_lines()

    def begin(self, run: str) -> None:
        """Say which run it is: whatever happens now, it can be found again."""
        self._view = replace(self._view, run=run)
        click.echo(f"run {run}", err=True)

    def trouble(self, error: Exception) -> None:
        """Tell what went wrong, above what is drawn."""
        with self._lock:
            self._wipe()
            self._say(error)

    def show(self, state: Run) -> None:
        """Draw the run as it is now."""
        if state.plan != self._view.state.plan:
            self._view = replace(self._view, plan=self._forum.view(self._view.run).plan)
        self._view = view = replace(self._view, state=state, at=now())
        mark, word, color = status(state)
        columns = min(width(), shutil.get_terminal_size().columns - 1)
        rows = max(3, min(_TREE_ROWS, shutil.get_terminal_size().lines - 6))
        said = first_line(f"{progress(state)}, {used(view)}", columns - len(word) - 4)
        head = f"{click.style(f'{mark} {word}', fg=color)}: {said}"
        lines = [head, *task_lines(view, columns, rows)]
        with self._lock:
            if lines != self._drawn:
                self._wipe()
                self._drawn = lines
                click.echo("\n".join(lines), err=True)

    def _wipe(self) -> None:
        if self._drawn:
            sys.stderr.write(f"\x1b[{len(self._drawn)}A\x1b[J")
            sys.stderr.flush()
        self._drawn = []


def _progress(forum: Forum) -> _Lines | _Screen:
    moving = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return _Screen(forum) if moving else _Lines(forum)
