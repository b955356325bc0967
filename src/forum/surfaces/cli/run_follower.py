"""Runs a run in this process, shows its progress, and prints its result."""

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

from forum.app import Forum, RunView, formatting, now, reported_runs
from forum.errors import StoreFailed
from forum.runs import run_fold
from forum.runs.kinds import ROLE_PREFIX, StopReason
from forum.runs.report_fold import SpanRecord
from forum.surfaces.cli import EXIT_FAILED, common_options, run_view
from forum.surfaces.cli.console import echo, redraw, style
from forum.surfaces.cli.logging_options import make_trouble_printer
from forum.surfaces.cli.output import print_bytes, print_json, terminal_width, wrap_lines
from forum.surfaces.cli.panel_lines import dissent_lines
from forum.surfaces.cli.report_view import span_lines
from forum.surfaces.cli.startup_notice import announce_runs
from forum.surfaces.cli.stop_signals import catch_stop_signals
from forum.surfaces.schemas import panels
from forum.surfaces.schemas.runs import run_form
from forum.units import format_count, format_duration, format_price, format_usd

_STOP_TIMEOUT_S = 60
"""How long to wait at exit for calls of other runs that this process also drives."""


def run_and_follow(
    forum: Forum,
    begin: Callable[[], str],
    *,
    as_json: bool,
    detach: bool = False,
    after: Callable[[str], str] = lambda _: "",
    later: Callable[[str], str] = lambda _: "",
) -> None:
    """Start a run beside a worker in this process, follow it, and exit with its status.

    With `detach` the run is only started, and another worker carries it out. `after` is called once
    the run has ended and before anything is printed; it returns an error message, or "". Ctrl-C and
    SIGTERM interrupt the run; `later` then returns a hint that is printed with the command to
    resume it.
    """
    if detach:
        submit_detached(forum, begin, as_json=as_json)
        return
    telling = _make_progress(forum)
    run, left = "", ""
    number = signal.SIGINT
    try:
        # Start the worker first: the time limit of a run counts from its acceptance.
        with (
            forum.runs.run_worker(
                report=telling.report_trouble, patience=_STOP_TIMEOUT_S
            ) as worker,
            # The innermost block: its handlers are removed before the worker closes, so that Ctrl-C
            # still works while the worker waits for its calls.
            catch_stop_signals() as stop,
        ):
            run = begin()
            telling.begin(run)
            announce_runs(forum, worker.id, run)
            forum.reads.follow_run(run, telling.show, wait=stop.wait)
            telling.end()
            if stop.number is not None:
                number = signal.Signals(stop.number)
                # The database may be slow to answer: a second Ctrl-C must end the process.
                stop.restore_default_handlers()
                with _slow_notice(run):
                    left = _interrupt_or_detach(forum, worker.can_drive, run, later)
            _raise_if_detached(left)
    except _DetachedFromRun:
        pass  # the worker was closed without waiting for its calls
    except KeyboardInterrupt:
        # Ctrl-C while the worker waited for its calls: if the run was accepted, its recorded state
        # can still be printed.
        if not run:
            raise
    if left:
        echo("", *left.split("\n"), err=True)
        # As shells report a process that was ended by this signal.
        raise SystemExit(128 + number)
    print_result_and_exit(forum, run, as_json=as_json, trouble=after(run))


def watch_run(forum: Forum, run: str, *, as_json: bool) -> NoReturn:
    """Follow a run that other workers drive, and exit with its status.

    Ctrl-C only ends the watching.
    """
    telling = _make_progress(forum)
    telling.begin(run)
    state = forum.reads.read_run(run)
    # No worker carries out a run that another program reports.
    if state.outcome is None and not state.is_reported and not forum.reads.has_workers:
        common_options.echo_error(
            f"no worker is running; carry it out: forum resume {formatting.short_id(run)}"
        )
    try:
        forum.reads.follow_run(run, telling.show)
    except KeyboardInterrupt:
        echo(
            "",
            f"stopped watching; the run goes on: forum watch {formatting.short_id(run)}",
            err=True,
        )
        raise SystemExit(128 + signal.SIGINT) from None
    telling.end()
    print_result_and_exit(forum, run, as_json=as_json)


def _interrupt_or_detach(
    forum: Forum, carries_out: Callable[[str], bool], run: str, later: Callable[[str], str]
) -> str:
    """Interrupt a run that this process drives; only stop following one that another drives.

    Return the message to print, or "" if the run has ended meanwhile.
    """
    short = formatting.short_id(run)
    if carries_out(run):
        gone_on = f"interrupted; go on with: forum resume {short}{later(run)}"
        try:
            return gone_on if forum.runs.interrupt(run) else ""
        except StoreFailed as failure:
            return f"{formatting.strip_control_characters(str(failure))}\n{_not_interrupted(short)}"
    if forum.reads.read_run(run).outcome is not None:
        return ""
    return f"stopped following; another process carries run {short} on: forum show {short}"


def _not_interrupted(short: str) -> str:
    return (
        f"run {short} is not interrupted: the next command or worker continues it. "
        f"To end it: forum cancel {short}"
    )


@contextmanager
def _slow_notice(run: str) -> Iterator[None]:
    """Print what a second Ctrl-C does, if interrupting the run takes longer than a second."""
    then = _not_interrupted(formatting.short_id(run))
    words = f"interrupting; press Ctrl-C again to quit. Then {then}"
    timer = Timer(1.0, echo, (words,), {"err": True})
    # A pending notice must not keep the process alive.
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _DetachedFromRun(Exception):
    """Raised when the command ends before its run does."""


def _raise_if_detached(left: str) -> None:
    if left:
        raise _DetachedFromRun


def submit_detached(forum: Forum, begin: Callable[[], str], *, as_json: bool) -> None:
    """Start a run for another worker and print its id."""
    run = begin()
    forum.log.publish_or_warn()
    if as_json:
        print_json("forum.run/1", run_form(forum.reads.view_run(run)))
    else:
        echo(run)
    echo(f"a forum worker carries it out; look: forum show {formatting.short_id(run)}", err=True)


def print_result_and_exit(forum: Forum, run: str, *, as_json: bool, trouble: str = "") -> NoReturn:
    """Print the result of a run and exit with its status, or as failed if there was `trouble`."""
    view = forum.reads.view_run(run)
    if as_json:
        print_json("forum.run/1", run_form(view))
    elif (answer := formatting.answer_with_headline(view)) is not None:
        print_bytes(answer)
    _print_end(view)
    if trouble:
        common_options.echo_error(formatting.strip_control_characters(trouble))
    # A successful run does not hide the trouble: a script must see it in the exit status.
    raise SystemExit(formatting.exit_status(view) or (EXIT_FAILED if trouble else 0))


def _print_end(view: RunView) -> None:
    mark, word, color = run_view.view_status(view)
    progress = _format_progress(view)
    lines = [f"{style(f'{mark} {word}', fg=color)}: {progress}"]
    why = formatting.explain_failure(view)
    if view.state.outcome is not None and (care := formatting.describe_care(view)):
        lines.append(f"  {care}")
    lines += wrap_lines(formatting.describe_compactions(view.state), terminal_width(), "  ")
    lines += [f"  {reason}" for reason in _reasons(view, why)]
    lines += run_view.judgement_lines(view, terminal_width(), rejected_only=True)
    form = panels.deliberation_form(view)
    lines += dissent_lines(form, terminal_width()) if form else []
    for run, gate in view.gates:
        lines += run_view.format_gate_advice(run, gate, view.at)
    if view.gates and not view.state.is_reported:
        lines.append(f"then go on: forum resume {formatting.short_id(view.run)}")
    well = formatting.exit_status(view) is formatting.Status.OK
    # With --quiet a success is silent; everything else is printed.
    (common_options.echo_info if well else common_options.echo_error)(*lines)
    for words in filter(None, (why, _advise_on_cap(view))):
        common_options.echo_error(*wrap_lines(words, terminal_width()))
    echo(f"see all of it: forum show {formatting.short_id(view.run)}", err=True)


_CAP_OPTIONS = {"usd": "--max-usd", "tokens": "--max-tokens", "calls": "--max-calls"}


def _advise_on_cap(view: RunView) -> str:
    """Return the option that would have allowed the step that a cap of the run has stopped."""
    stop = view.state.stopped
    if stop is None or stop.reason is not StopReason.BUDGET or stop.limit not in _CAP_OPTIONS:
        return ""  # also for a cap over many runs, which no option raises
    needed = stop.used + stop.asked
    amount = format_usd(needed) if stop.limit == "usd" else str(needed)
    return f"To allow this step, raise the cap: {_CAP_OPTIONS[stop.limit]} {amount}, or more."


def _reasons(view: RunView, failure: str) -> Iterator[str]:
    """Yield why a run is in its state, and why tasks failed, as far as `failure` does not say."""
    reason = formatting.explain_run_state(view)
    if reason and not failure and (view.state.interrupted or view.state.outcome is not None):
        yield reason
    for name in view.state.tasks:
        task = view.state.task(name)
        if task.state is run_fold.TaskState.FAILED:
            why = formatting.strip_control_characters(
                " ".join(formatting.explain_task_state(view, task).split())
            )
            if why.rstrip(".") not in failure:
                yield f"{formatting.turn_name(name)}: {why}"


def _format_progress(view: RunView) -> str:
    if view.state.is_reported:
        source = (
            f"{view.state.provenance}, {formatting.pluralize(len(view.state.report.spans), 'step')}"
        )
        return f"{source}, {run_view.format_usage(view)}"
    turns = formatting.panel_turns(view.state)
    done = run_view.format_task_progress(view.state) if view.state.planned else "no plan yet"
    return f"{formatting.describe_turns(turns) if turns else done}, {run_view.format_usage(view)}"


class _LineProgress:
    """Prints each change on its own line: for files, pipes and plain terminals."""

    def __init__(self, forum: Forum) -> None:
        self._forum, self._shown_words = forum, dict[str, str]()
        self._since = now()  # what ended before is history, unless the run is this command's own
        self._heard, self._lengths = 0, dict[str, int]()
        self._print_trouble = make_trouble_printer()
        self._view = RunView(
            run="",
            state=run_fold.Run(),
            at=0,
            request=None,
            plan=None,
            answer=None,
            errors={},
            gates=(),
        )

    def begin(self, run: str) -> None:
        """Print the run id first, so that the run can be found again whatever happens."""
        self._view = replace(self._view, run=run)
        echo(f"run {run}", err=True)

    def report_trouble(self, error: Exception) -> None:
        """Print an error."""
        self._print_trouble(error)

    def show(self, state: run_fold.Run) -> None:
        """Print what has changed."""
        first = not self._view.state.opened and state.begun < self._since
        self._view = view = replace(self._view, state=state, at=now())
        turns = [turn.id for turn in formatting.panel_turns(state)]
        spoken = self._new_words(state)
        for name in turns or state.tasks:
            task = state.task(name)
            words = _describe_task(view, task)
            if self._shown_words.get(name) != words:
                self._shown_words[name] = words
                if first and task.state.is_end:
                    continue  # it ended before this command started
                passed = format_duration(view.at - state.begun)
                sealed = _describe_sealed_ballots(state, name)
                line = f"{formatting.strip_control_characters(words)}{sealed}"
                echo(f"{passed:>8}  {formatting.turn_name(name)}: {line}", err=True)
        for new_line in spoken:
            common_options.echo_info(new_line)

        self._show_spans(state, first=first)

    def _new_words(self, state: run_fold.Run) -> list[str]:
        """Return what a panel has said since the last call, as lines."""
        if not formatting.panel_turns(state) or dict(state.lengths) == self._lengths:
            return []
        first, self._lengths = not self._lengths, dict(state.lengths)
        spoken = panels.spoken_turns(self._forum.reads.view_run(self._view.run))
        fresh, self._heard = spoken[self._heard :], len(spoken)
        if first and state.outcome is not None and state.begun < self._since:
            return []  # the panel had ended before this command started
        return [line for turn in fresh for line in _spoken_lines(turn, terminal_width())]

    def _show_spans(self, state: run_fold.Run, *, first: bool) -> None:
        """Print the spans that began or ended, and the gaps that were recorded."""
        lines = {span.id: _describe_span(span) for span in state.report.spans.values()}
        lines |= {
            gap.entry.hex(): reported_runs.describe_gap(gap.facts) for gap in state.report.gaps
        }
        for name, words in lines.items():
            if self._shown_words.get(name) != words:
                self._shown_words[name] = words
                ended = name in state.report.spans and state.report.spans[name].ended is not None
                if not (first and ended):
                    passed = format_duration(self._view.at - state.begun)
                    echo(f"{passed:>8}  {formatting.strip_control_characters(words)}", err=True)

    def end(self) -> None:
        """Do nothing: every change is already printed."""


def _spoken_lines(turn: panels.SpokenTurn, columns: int) -> list[str]:
    """Return the words of a turn, wrapped below the name of the speaker."""
    text = formatting.strip_control_characters(turn.text[: panels.MAX_SPOKEN_CHARS])
    cut = " …" if len(turn.text) > panels.MAX_SPOKEN_CHARS else ""
    speaker = style(f"{formatting.first_line(turn.speaker, 40)}:", bold=True)
    indent = " " * 10
    paragraphs = f"{text}{cut}".splitlines()
    lines = [line for words in paragraphs for line in wrap_lines(words, columns, indent)]
    return [f"{indent}{speaker}", *lines]


def _describe_span(span: SpanRecord) -> str:
    """Return the progress of a span, in words that change whenever the progress does."""
    if span.ended is None:
        return f"{span.op} {span.name}: begun"
    cost = f", {format_price(span.spent.usd)}" if span.spent.usd else ""
    return f"{span.op} {span.name}: {span.ended.outcome} after {format_duration(span.micros)}{cost}"


def _describe_sealed_ballots(state: run_fold.Run, name: str) -> str:
    """Return how many ballots of the round are sealed, if a task has just sealed one."""
    task, passed = state.task(name), run_fold.TaskState.PASSED
    mine = formatting.ballot_turn(task)
    if mine is None or task.state is not passed:
        return ""
    places = ((turn, formatting.ballot_turn(turn)) for turn in formatting.panel_turns(state))
    turns = [turn for turn, place in places if place and place.round == mine.round]
    sealed = sum(turn.state is passed for turn in turns)
    return f" ({sealed} of {formatting.pluralize(len(turns), 'ballot')})"


def _describe_task(view: RunView, task: run_fold.TaskRun) -> str:
    """Return the progress of a task, in words that change whenever the progress does."""
    if task.state is run_fold.TaskState.PASSED:
        cost = f", {format_price(task.spent.usd)}" if task.spent.usd else ""
        word = "ballot sealed" if formatting.ballot_turn(task) else "passed"
        return f"{word} after {format_duration(formatting.task_duration(task, view.at))}{cost}"
    facts = [
        formatting.last_agent_name(task) if task.state is run_fold.TaskState.RUNNING else "",
        f"attempt {task.attempts}" if task.attempts > 1 else "",
        formatting.explain_task_state(view, task),
    ]
    details = ", ".join(fact for fact in facts if fact)
    return f"{task.state.value} ({details})" if details else task.state.value


class _LiveProgress(_LineProgress):
    """Redraws the run in place: for an interactive terminal."""

    def __init__(self, forum: Forum) -> None:
        super().__init__(forum)
        self._lock, self._drawn = Lock(), list[str]()

    def report_trouble(self, error: Exception) -> None:
        """Print an error above the drawn lines."""
        with self._lock:
            self._replace([])
            super().report_trouble(error)

    def show(self, state: run_fold.Run) -> None:
        """Draw the current state of the run."""
        # `state.plan` is the id of the plan's entry. Its tasks are in a body, which is read only if
        # the id has changed.
        if state.plan != self._view.state.plan:
            self._view = replace(self._view, plan=self._forum.reads.view_run(self._view.run).plan)
        self._view = replace(self._view, state=state, at=now())
        words = self._new_words(state)
        columns, rows = _terminal_size()
        with self._lock:
            if words:  # above the drawn lines
                self._replace([])
                common_options.echo_info(*words)
            self._replace(live_lines(self._view, columns - 1, rows - 2, _spinner()))

    def end(self) -> None:
        """Leave the final tree on the screen; the result is printed below it."""
        columns, rows = _terminal_size()
        with self._lock:
            self._replace(_tree_lines(self._view, columns - 1, rows - 2, _spinner()))

    def _replace(self, lines: list[str]) -> None:
        """Replace the drawn lines in one write, which avoids flicker."""
        if lines == self._drawn:
            return
        columns = _terminal_size()[0]
        # If the terminal became narrower, a line that was drawn now occupies several rows.
        above = sum(max(1, -(-len(click.unstyle(line)) // columns)) for line in self._drawn)
        redraw(lines, above)
        self._drawn = lines


def _make_progress(forum: Forum) -> _LineProgress:
    moving = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return _LiveProgress(forum) if moving else _LineProgress(forum)


def _terminal_size() -> tuple[int, int]:
    """Return columns and rows of the terminal behind stderr, since stdout may be a file."""
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(sys.stderr.fileno())
        if size.columns and size.lines:
            return size.columns, size.lines
    return 80, 24


_STATE_ORDER = (*run_view.URGENT_STATES, run_fold.TaskState.PENDING)
"""Most urgent first; finished tasks come last."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MIN_ACTIVITY_WIDTH = 10
_MAX_ACTIVITY_WIDTH = 28


class _ProgressRow(Struct, frozen=True):
    """A task or a role, as it is drawn."""

    branch: str
    id: str
    state: run_fold.TaskState
    doing: str
    figures: tuple[str, str, str]
    """Time, cost and tokens; dropped from the right when there is little room."""


def _spinner() -> str:
    return _SPINNER[int(monotonic() * 10) % len(_SPINNER)]


def live_lines(view: RunView, columns: int, rows: int, spinner: str) -> list[str]:
    """Return a running run as lines, within so many columns and rows."""
    # A run that another program reports has spans in place of tasks.
    mark, word, color = run_view.run_status(view.state)
    if color == "cyan":
        mark = spinner
    lines = _wrap_facts(f"{mark} {word}: {_format_progress(view)}", columns)
    lines[0] = lines[0].replace(f"{mark} {word}", style(f"{mark} {word}", fg=color), 1)
    return lines + _tree_lines(view, columns, rows - len(lines), spinner)


def _wrap_facts(facts: str, columns: int) -> list[str]:
    """Return facts on as many lines as needed, without breaking within a fact."""
    # With no-break spaces within the facts, textwrap breaks only between them.
    whole = facts.replace(" ", "\u00a0").replace(",\u00a0", ", ")
    lines = textwrap.wrap(whole, columns, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _tree_lines(view: RunView, columns: int, rows: int, spinner: str) -> list[str]:
    if view.state.is_reported:
        return span_lines(view, columns, max(2, rows - 3))
    all_rows = _rows(view)
    drawn, hidden = _collapse(all_rows, max(2, rows))
    lines = _table(drawn, columns, spinner)
    if hidden:
        some = ", ".join(f"{number} {state}" for state, number in hidden.items())
        lines.append(style(f"  … {some}"[:columns], dim=True))
    return lines


def _rows(view: RunView) -> list[_ProgressRow]:
    """Return the rows: roles in order of their start, turns of a panel, and the tree of tasks."""
    state = view.state
    first = min(
        (_started_at(state.tasks[name], view.at) for name in formatting.work_tasks(state)),
        default=view.at,
    )
    roles = [task for name, task in state.tasks.items() if name.startswith(ROLE_PREFIX)]
    roles.sort(key=lambda task: _started_at(task, view.at))
    rows = [_row(view, state.task(role.id)) for role in roles]
    rows += [_row(view, turn) for turn in formatting.panel_turns(state)]
    # Readers expect the order of time: roles that started before the first task go above the tree.
    before = sum(_started_at(role, view.at) < first for role in roles)
    tree = [
        _row(view, state.task(node.id), node.branch)
        for node in formatting.build_task_tree(view.plan, state)
    ]
    return rows[:before] + tree + rows[before:]


def _started_at(task: run_fold.TaskRun, at: int) -> int:
    return task.calls[0].begun if task.calls else at


def _row(view: RunView, task: run_fold.TaskRun, branch: str = "") -> _ProgressRow:
    spent = run_fold.sum_amounts(call.spent for call in task.calls if call.replied)
    time = format_duration(formatting.task_duration(task, view.at)) if task.calls else ""
    cost, tokens = format_price(spent.usd), format_count(spent.tokens)
    figures = (time, "" if cost == "-" else cost, "" if tokens == "-" else f"{tokens} tok")
    return _ProgressRow(
        branch=branch,
        id=formatting.turn_name(task.id).removeprefix(ROLE_PREFIX),
        state=task.state,
        doing=_describe_activity(view, task),
        figures=figures,
    )


def _describe_activity(view: RunView, task: run_fold.TaskRun) -> str:
    """Return the agent and its activity, or why the task is not running."""
    if task.state is run_fold.TaskState.PASSED:
        return formatting.last_agent_name(task)
    if task.state is not run_fold.TaskState.RUNNING:
        return formatting.strip_control_characters(formatting.explain_task_state(view, task))
    again = f", try {task.attempts}" if task.attempts > 1 else ""
    if task.uses and task.uses[-1].happened is None:
        return formatting.strip_control_characters(f"uses {task.uses[-1].intended.tool}{again}")
    last = task.calls[-1].called if task.calls else None
    if last is not None and last.role and not task.id.startswith(ROLE_PREFIX):
        return formatting.strip_control_characters(
            f"{last.role}: {last.agent or last.model}{again}"
        )
    return f"{formatting.last_agent_name(task)}{again}"


def _collapse(rows: list[_ProgressRow], most: int) -> tuple[list[_ProgressRow], Counter[str]]:
    """Keep the most urgent rows if there are too many; count the hidden ones by state."""
    if len(rows) <= most:
        return rows, Counter()
    ranked = run_view.rank_by_urgency([row.state for row in rows], _STATE_ORDER)
    shown = sorted(ranked[: most - 1])
    hidden = Counter(rows[number].state.value for number in ranked[most - 1 :])
    # Without its neighbors, a row has no place in the tree.
    return [replace(rows[number], branch="") for number in shown], hidden


def _table(rows: Sequence[_ProgressRow], columns: int, spinner: str) -> list[str]:
    """Return rows in columns; when there is little room, drop tokens first, then costs."""
    longest = max((len(row.branch) + len(row.id) for row in rows), default=0) + 4
    doing = min(_MAX_ACTIVITY_WIDTH, max((len(row.doing) for row in rows), default=0))
    sizes = [max((len(row.figures[n]) for row in rows), default=0) for n in range(3)]
    shown = [number for number in range(3) if sizes[number]]
    while True:
        figures = sum(sizes[number] + 2 for number in shown)
        name = max(12, min(longest, columns - figures))
        room = max(0, min(doing, columns - figures - name - 2))
        if len(shown) < 2 or room >= min(doing, _MIN_ACTIVITY_WIDTH):
            return [
                _line(row, name, room, [(n, sizes[n]) for n in shown], spinner=spinner)
                for row in rows
            ]
        shown.pop()


def _line(
    row: _ProgressRow, name: int, room: int, shown: list[tuple[int, int]], spinner: str
) -> str:
    mark, color = run_view.MARKS[row.state]
    mark = spinner if row.state is run_fold.TaskState.RUNNING else mark
    head = formatting.first_line(row.id, name - len(row.branch) - 4)
    cells = [f"{f'  {row.branch}{mark} {head}':<{name}}"]
    if room:
        cells.append(f"{formatting.first_line(row.doing, room):<{room}}")
    cells += [f"{row.figures[number]:>{size}}" for number, size in shown]
    line = "  ".join(cells).rstrip()
    if row.state is run_fold.TaskState.PENDING:
        return style(line, dim=True)
    return line.replace(mark, style(mark, fg=color), 1)
