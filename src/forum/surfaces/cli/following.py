"""Carrying out a run in this process, telling meanwhile how it goes, and what came of it."""

import os
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Timer
from time import monotonic
from typing import NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from forum.app import Forum, RunView, now
from forum.errors import StoreFailed
from forum.ledger import Outcome
from forum.surfaces.cli import FAILED, options
from forum.surfaces.cli.announcing import announce_runs
from forum.surfaces.cli.logging_options import trouble_lines
from forum.surfaces.cli.output import print_json, width, wrapped
from forum.surfaces.cli.panelview import dissent_lines
from forum.surfaces.cli.runview import gate_advice, progress, status, used
from forum.surfaces.cli.stopping import stopping
from forum.surfaces.cli.units import count, duration, price
from forum.surfaces.forms.deliberations import deliberation_form
from forum.surfaces.forms.runs import run_form
from forum.surfaces.telling import (
    SHORT,
    ballot_of,
    draw_tree,
    exit_status,
    first_line,
    plain,
    plural,
    run_reason,
    task_reason,
    task_time,
    tasks_of,
    turn_name,
    turns_of,
    turns_words,
    who,
    why_failed,
)
from forum.work import ROLE, Run, TaskRun, TaskState, total

_PATIENCE_SECONDS = 60
"""How long to wait for calls of other runs that this process has begun beside its own."""


def carry_out(
    forum: Forum,
    begin: Callable[[], str],
    *,
    as_json: bool,
    after: Callable[[str], str] = lambda _: "",
    later: Callable[[str], str] = lambda _: "",
) -> NoReturn:
    """Begin a run beside a worker in this process, follow it, and exit as it did.

    What is to be done `after` it has ended is done before anything is printed; it returns what
    went wrong with that.  Ctrl-C and SIGTERM interrupt the run: whoever resumes it is told what
    to do `later`.
    """
    telling = _progress(forum)
    run, left = "", ""
    number = signal.SIGINT
    try:
        # The worker first: the time of a run counts from when it is accepted.
        with (
            forum.working(report=telling.trouble, patience=_PATIENCE_SECONDS) as worker,
            stopping() as stop,
        ):
            run = begin()
            telling.begin(run)
            announce_runs(forum, worker.id, run)
            forum.follow(run, telling.show, wait=stop.wait)
            telling.end()
            if stop.number is not None:
                number = signal.Signals(stop.number)
                # The database may not answer for long: a second Ctrl-C must end the process.
                stop.end_at_next()
                with _slow_notice(run):
                    left = _leave(forum, worker.carries_out, run, later)
            _check_left(left)
    except _LeftRun:
        pass  # the worker was closed without waiting for its calls
    except KeyboardInterrupt:
        # A second one, or one that came while the worker waited for calls of other runs.
        if not run:
            raise
    if left:
        click.echo(f"\n{left}", err=True)
        raise SystemExit(128 + number)
    finish(forum, run, as_json=as_json, trouble=after(run))


def watch_run(forum: Forum, run: str, *, as_json: bool) -> NoReturn:
    """Follow a run that others carry out, and exit as it did; Ctrl-C ends the watching only."""
    telling = _progress(forum)
    telling.begin(run)
    if forum.read_run(run).outcome is None and not forum.has_workers:
        options.complain(f"no worker is running; carry it out: forum resume {run[:SHORT]}")
    try:
        forum.follow(run, telling.show)
    except KeyboardInterrupt:
        click.echo(f"\nstopped watching; the run goes on: forum watch {run[:SHORT]}", err=True)
        raise SystemExit(128 + signal.SIGINT) from None
    telling.end()
    finish(forum, run, as_json=as_json)


def _leave(
    forum: Forum, carries_out: Callable[[str], bool], run: str, later: Callable[[str], str]
) -> str:
    """Interrupt a run that this process carries out; one that another does is only left.

    Return what to say; nothing if the run has ended meanwhile.
    """
    short = run[:SHORT]
    if carries_out(run):
        gone_on = f"interrupted; go on with: forum resume {short}{later(run)}"
        try:
            return gone_on if forum.interrupt(run) else ""
        except StoreFailed as failure:
            return f"{plain(str(failure))}\n{_not_interrupted(short)}"
    if forum.read_run(run).outcome is not None:
        return ""
    return f"stopped following; another process carries run {short} on: forum show {short}"


def _not_interrupted(short: str) -> str:
    return (
        f"run {short} is not interrupted: the next command or worker continues it. "
        f"To end it: forum cancel {short}"
    )


@contextmanager
def _slow_notice(run: str) -> Iterator[None]:
    """Say what a second Ctrl-C does, if interrupting the run takes longer than a second."""
    words = f"interrupting; press Ctrl-C again to quit. Then {_not_interrupted(run[:SHORT])}"
    timer = Timer(1.0, click.echo, (words,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _LeftRun(Exception):
    """The command ends before its run does."""


def _check_left(left: str) -> None:
    if left:
        raise _LeftRun


def hand_over(forum: Forum, begin: Callable[[], str], *, as_json: bool) -> None:
    """Begin a run for whoever serves as a worker, and say which it is."""
    run = begin()
    forum.sign_or_warn()
    if as_json:
        print_json("forum.run/1", run_form(forum.view(run)))
    else:
        click.echo(run)
    click.echo(f"a forum worker carries it out; look: forum show {run[:SHORT]}", err=True)


def finish(forum: Forum, run: str, *, as_json: bool, trouble: str = "") -> NoReturn:
    """Print what came of a run, and exit as it did; or as failed, if there was trouble beside."""
    view = forum.view(run)
    if as_json:
        print_json("forum.run/1", run_form(view))
    elif view.answer is not None:
        print_bytes(view.answer)
    _print_end(view)
    if trouble:
        options.complain(plain(trouble))
    raise SystemExit(exit_status(view) or (FAILED if trouble else 0))


def print_bytes(content: bytes) -> None:
    """Print content as it is; but a terminal gets whole lines, and nothing that steers it."""
    if sys.stdout is None:  # closed by whoever called
        return
    sys.stdout.flush()
    if sys.stdout.isatty():
        words = content.decode(errors="replace").replace("\r\n", "\n").expandtabs()
        content = plain(words).removesuffix("\n").encode(errors="replace") + b"\n"
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _print_end(view: RunView) -> None:
    mark, word, color = status(view.state, waiting=bool(view.gates))
    said = _so_far(view)
    lines = [f"{click.style(f'{mark} {word}', fg=color)}: {said}"]
    reason = run_reason(view)
    if reason and (view.state.interrupted or view.state.outcome is not None):
        lines.append(f"  {reason}")
    for name in view.state.tasks:
        task = view.state.task(name)
        if task.state is TaskState.FAILED:
            lines.append(f"  {turn_name(name)}: {plain(task_reason(view, task))}")
    told = deliberation_form(view)
    lines += dissent_lines(told, width()) if told else []
    for run, gate in view.gates:
        lines += gate_advice(run, gate, view.at)
    if view.gates:
        lines.append(f"then go on: forum resume {view.run[:SHORT]}")
    well = view.state.outcome is Outcome.OK
    (options.talk if well else options.complain)("\n".join(lines))
    why = why_failed(view)
    if why:
        options.complain("\n".join(wrapped(why, width())))
    click.echo(f"see all of it: forum show {view.run[:SHORT]}", err=True)


def _so_far(view: RunView) -> str:
    turns = turns_of(view.state)
    done = progress(view.state) if view.state.planned else "no plan yet"
    if turns:
        done = turns_words(turns)
    return f"{done}, {used(view)}"


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
        turns = [turn.id for turn in turns_of(state)]
        for name in turns or state.tasks:
            task = state.task(name)
            words = _task_words(view, task)
            if self._said.get(name) != words:
                self._said[name] = words
                if first and task.state.is_end:
                    continue  # of an earlier sitting
                passed = duration(view.at - state.begun)
                told = f"{turn_name(name)}: {plain(words)}{_sealed(state, name)}"
                click.echo(f"{passed:>8}  {told}", err=True)

    def end(self) -> None:
        """Nothing is left to be told."""


def _sealed(state: Run, name: str) -> str:
    """Say how many ballots of its round are sealed, where a task has just sealed one."""
    task, passed = state.task(name), TaskState.PASSED
    mine = ballot_of(task)
    if mine is None or task.state is not passed:
        return ""
    places = ((turn, ballot_of(turn)) for turn in turns_of(state))
    turns = [turn for turn, place in places if place and place.round == mine.round]
    sealed = sum(turn.state is passed for turn in turns)
    return f" ({sealed} of {plural(len(turns), 'ballot')})"


def _task_words(view: RunView, task: TaskRun) -> str:
    """Say how far a task has come, in words that change when that does."""
    if task.state is TaskState.PASSED:
        cost = f", {price(task.spent.usd)}" if task.spent.usd else ""
        word = "ballot sealed" if ballot_of(task) else "passed"
        return f"{word} after {duration(task_time(task, view.at))}{cost}"
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
        context = click.get_current_context(silent=True)
        self._plain = context is not None and context.color is False

    def begin(self, run: str) -> None:
        """Say which run it is: whatever happens now, it can be found again."""
        self._view = replace(self._view, run=run)
        click.echo(f"run {run}", err=True)

    def trouble(self, error: Exception) -> None:
        """Tell what went wrong, above what is drawn."""
        with self._lock:
            self._replace([])
            self._say(error)

    def show(self, state: Run) -> None:
        """Draw the run as it is now."""
        if state.plan != self._view.state.plan:
            self._view = replace(self._view, plan=self._forum.view(self._view.run).plan)
        self._view = replace(self._view, state=state, at=now())
        columns, rows = _size()
        with self._lock:
            self._replace(live_lines(self._view, columns - 1, rows - 2, _spinner()))

    def end(self) -> None:
        """Leave the tree as it ended; how the run ended is told below it."""
        columns, rows = _size()
        with self._lock:
            self._replace(_tree_lines(self._view, columns - 1, rows - 2, _spinner()))

    def _replace(self, lines: list[str]) -> None:
        """Draw lines in place of those that are there, in one write: nothing flickers."""
        if lines == self._drawn:
            return
        columns = _size()[0]
        # Where a terminal was made narrower, a line that was drawn takes more than one by now.
        above = sum(max(1, -(-len(click.unstyle(line)) // columns)) for line in self._drawn)
        wipe = f"\x1b[{above}A\x1b[J" if above else ""
        text = "".join(f"{line}\n" for line in lines)
        sys.stderr.write(wipe + (click.unstyle(text) if self._plain else text))
        sys.stderr.flush()
        self._drawn = lines


def _progress(forum: Forum) -> _Lines | _Screen:
    moving = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return _Screen(forum) if moving else _Lines(forum)


def _size() -> tuple[int, int]:
    """Return columns and rows of the terminal behind stderr; stdout may be a file."""
    with suppress(OSError, ValueError):
        found = os.get_terminal_size(sys.stderr.fileno())
        if found.columns and found.lines:
            return found.columns, found.lines
    return 80, 24


# The tree while it grows

_MARKS = {
    TaskState.PENDING: ("○", None),
    TaskState.WAITING: ("!", "yellow"),
    TaskState.PASSED: ("✓", "green"),
    TaskState.FAILED: ("✗", "red"),
    TaskState.SKIPPED: ("-", None),
    TaskState.STOPPED: ("■", "red"),
}
_FIRST = (
    TaskState.WAITING,
    TaskState.RUNNING,
    TaskState.FAILED,
    TaskState.STOPPED,
    TaskState.PENDING,
)
"""What one wants to see first; what is done comes last."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LEAST_DOING = 10
_MOST_DOING = 28


class _Row(Struct, frozen=True):
    """A task, or a role, as it is drawn."""

    branch: str
    id: str
    state: TaskState
    doing: str
    figures: tuple[str, str, str]
    """Time, cost, tokens: the first is the last to go when there is little room."""


def _spinner() -> str:
    return _SPINNER[int(monotonic() * 10) % len(_SPINNER)]


def live_lines(view: RunView, columns: int, rows: int, spinner: str) -> list[str]:
    """Return a run as it goes on, in a room of so many columns and rows."""
    mark, word, color = status(view.state)
    if color == "cyan":
        mark = spinner
    said = _wrapped(f"{mark} {word}: {_so_far(view)}", columns)
    said[0] = said[0].replace(f"{mark} {word}", click.style(f"{mark} {word}", fg=color), 1)
    return said + _tree_lines(view, columns, rows - len(said), spinner)


def _wrapped(facts: str, columns: int) -> list[str]:
    """Return facts on as many lines as they take, none of them torn apart."""
    whole = facts.replace(" ", "\u00a0").replace(",\u00a0", ", ")
    lines = textwrap.wrap(whole, columns, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _tree_lines(view: RunView, columns: int, rows: int, spinner: str) -> list[str]:
    found = _rows(view)
    drawn, hidden = _collapse(found, max(2, rows))
    lines = _table(drawn, columns, spinner)
    if hidden:
        some = ", ".join(f"{number} {state}" for state, number in hidden.items())
        lines.append(click.style(f"  … {some}"[:columns], dim=True))
    return lines


def _rows(view: RunView) -> list[_Row]:
    """Return what has been done and what is to do: roles where they took part, tasks as a tree."""
    state = view.state
    first = min((_begun(state.tasks[name], view.at) for name in tasks_of(state)), default=view.at)
    roles = [task for name, task in state.tasks.items() if name.startswith(ROLE)]
    roles.sort(key=lambda task: _begun(task, view.at))
    rows = [_row(view, state.task(role.id)) for role in roles]
    rows += [_row(view, turn) for turn in turns_of(state)]
    before = sum(_begun(role, view.at) < first for role in roles)
    tree = [_row(view, state.task(one.id), one.branch) for one in draw_tree(view.plan, state)]
    return rows[:before] + tree + rows[before:]


def _begun(task: TaskRun, at: int) -> int:
    return task.calls[0].begun if task.calls else at


def _row(view: RunView, task: TaskRun, branch: str = "") -> _Row:
    spent = total(call.spent for call in task.calls if call.replied)
    time = duration(task_time(task, view.at)) if task.calls else ""
    cost, tokens = price(spent.usd), count(spent.tokens)
    figures = (time, "" if cost == "-" else cost, "" if tokens == "-" else f"{tokens} tok")
    return _Row(
        branch, turn_name(task.id).removeprefix(ROLE), task.state, _doing(view, task), figures
    )


def _doing(view: RunView, task: TaskRun) -> str:
    """Say who is at it and what that one does, or why nobody is."""
    if task.state is TaskState.PASSED:
        return who(task)
    if task.state is not TaskState.RUNNING:
        return plain(task_reason(view, task))
    again = f", try {task.attempts}" if task.attempts > 1 else ""
    if task.uses and task.uses[-1].happened is None:
        return plain(f"uses {task.uses[-1].intended.tool}{again}")
    last = task.calls[-1].called if task.calls else None
    if last is not None and last.role and not task.id.startswith(ROLE):
        return plain(f"{last.role}: {last.agent or last.model}{again}")
    return f"{who(task)}{again}"


def _collapse(rows: list[_Row], most: int) -> tuple[list[_Row], Counter[str]]:
    """Of more than there is room for, keep what matters most now; count the rest by its state."""
    if len(rows) <= most:
        return rows, Counter()
    ranked = sorted(range(len(rows)), key=lambda number: _rank(rows[number].state))
    kept = sorted(ranked[: most - 1])
    hidden = Counter(rows[number].state.value for number in ranked[most - 1 :])
    return [replace(rows[number], branch="") for number in kept], hidden


def _rank(state: TaskState) -> int:
    return _FIRST.index(state) if state in _FIRST else len(_FIRST)


def _table(rows: Sequence[_Row], columns: int, spinner: str) -> list[str]:
    """Return rows in columns; where there is little room, tokens go first, then costs."""
    longest = max((len(row.branch) + len(row.id) for row in rows), default=0) + 4
    doing = min(_MOST_DOING, max((len(row.doing) for row in rows), default=0))
    sizes = [max((len(row.figures[n]) for row in rows), default=0) for n in range(3)]
    kept = [number for number in range(3) if sizes[number]]
    while True:
        figures = sum(sizes[number] + 2 for number in kept)
        name = max(12, min(longest, columns - figures))
        room = max(0, min(doing, columns - figures - name - 2))
        if len(kept) < 2 or room >= min(doing, _LEAST_DOING):
            return [_line(row, name, room, [(n, sizes[n]) for n in kept], spinner) for row in rows]
        kept.pop()


def _line(row: _Row, name: int, room: int, kept: list[tuple[int, int]], spinner: str) -> str:
    mark, color = _MARKS.get(row.state, (spinner, "cyan"))
    head = first_line(row.id, name - len(row.branch) - 4)
    cells = [f"{f'  {row.branch}{mark} {head}':<{name}}"]
    if room:
        cells.append(f"{first_line(row.doing, room):<{room}}")
    cells += [f"{row.figures[number]:>{size}}" for number, size in kept]
    line = "  ".join(cells).rstrip()
    if row.state is TaskState.PENDING:
        return click.style(line, dim=True)
    return line.replace(mark, click.style(mark, fg=color), 1)
