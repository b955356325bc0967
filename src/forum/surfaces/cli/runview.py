"""How a run looks: one screen for people, one object for programs.

What agents and users wrote is shown without the characters by which a terminal can be steered.
"""

import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from forum.app import RunView
from forum.ledger import NO_LIMIT, Amount, Outcome
from forum.surfaces.cli import FAILED, OVER_BUDGET, WAITING
from forum.surfaces.cli.output import dollars
from forum.surfaces.cli.units import age, count, duration, iso, moment, plural, price
from forum.tlog import Hash
from forum.work import (
    ELSEWHERE,
    ROLE,
    STOP,
    Basis,
    Call,
    Checked,
    Decider,
    Gate,
    Independence,
    Judged,
    Plan,
    Routed,
    Run,
    Stopped,
    StopReason,
    TaskRun,
    TaskState,
    UseOfTool,
    Why,
    total,
)

SHORT = 18
"""How much of a run's name is enough to tell it from others, and from the runs within it."""

_LEVELS = 7
_ANSWER_LINES = 12
_EFFECTS = 12
_CLAIMS = 8
_ROWS = 50

_MARKS = {
    TaskState.PENDING: ("○", None),
    TaskState.RUNNING: ("●", "cyan"),
    TaskState.WAITING: ("!", "yellow"),
    TaskState.PASSED: ("✓", "green"),
    TaskState.FAILED: ("✗", "red"),
    TaskState.SKIPPED: ("-", None),
    TaskState.STOPPED: ("■", "red"),
}

_STOPS = {
    StopReason.DEPTH: "its plan is nested deeper than allowed",
    StopReason.REPEAT: "it said the same {cap} times",
    StopReason.PING_PONG: "two agents said the same to each other {cap} times",
    StopReason.TURNS: "{cap} calls in one attempt",
    StopReason.LOST: "workers died in its call {used} times",
    StopReason.CANCELLED: "cancelled",
    StopReason.REJECTED: "not approved",
    StopReason.ERROR: "what it needs of the record could not be read",
    StopReason.ROLE: "a role did not do its part",
}


def width() -> int:
    """Return how wide the screen is, as far as one wants to read across it."""
    return max(60, min(120, shutil.get_terminal_size((80, 24)).columns))


def plain(text: str) -> str:
    """Return text without characters by which a terminal could be steered."""
    return "".join("\ufffd" if _steers(letter) else letter for letter in text)


def _steers(letter: str) -> bool:
    return letter not in "\n\u200d" and unicodedata.category(letter)[0] == "C"


def first_line(text: str, most: int) -> str:
    """Return the beginning of a text, on one line."""
    line = plain(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


# What a run has come to, in words


def status(state: Run, *, waiting: bool = False) -> tuple[str, str, str | None]:
    """Return a mark, a word and a colour for what a run has come to."""
    if state.outcome is Outcome.OK:
        return "✓", "ok", "green"
    if state.outcome is not None:
        return "✗", state.stopped.reason.value if state.stopped else state.outcome.value, "red"
    if state.open_gates or waiting:
        return "!", "waiting", "yellow"
    if not state.tasks:
        return "○", "accepted", "cyan"
    return "●", state.state.value, "cyan"


def exit_status(view: RunView) -> int | None:
    """Return the exit status that tells what a run has come to; none while it goes on."""
    state = view.state
    if state.outcome is Outcome.OK:
        return 0
    if state.outcome is None:
        return WAITING if view.gates else None
    return OVER_BUDGET if state.stopped and state.stopped.reason in _LIMITS else FAILED


_LIMITS = frozenset({StopReason.BUDGET, StopReason.DEADLINE})


def stop_words(stopped: Stopped) -> str:
    """Say why something was stopped."""
    if stopped.reason is StopReason.DEADLINE:
        return f"out of time after {stopped.cap / 1000:g} s"
    if stopped.reason is StopReason.BUDGET:
        amounts = (_of_limit(stopped.limit, n) for n in (stopped.asked, stopped.used, stopped.cap))
        asked, used, cap = amounts
        return f"over budget: {asked} more, with {used} of {cap} used"
    return _STOPS[stopped.reason].format(used=stopped.used, cap=stopped.cap)


def _of_limit(limit: str, number: int) -> str:
    return f"${dollars(number)}" if limit == "usd" else plural(number, limit.removesuffix("s"))


def run_reason(view: RunView) -> str:
    """Say why a run did not end well, or what it waits for."""
    state = view.state
    if state.stopped is not None:
        by = f" (at {state.stopped.by})" if state.stopped.by else ""
        return f"{stop_words(state.stopped)}{by}"
    if state.outcome is None:
        waiting = ", ".join(gate.opened.subject for _, gate in view.gates)
        return f"waits for approval: {waiting}" if waiting else ""
    failed = [name for name in tasks_of(state) if state.task(name).state in _BAD]
    return f"{', '.join(failed)} did not pass" if failed else ""


_BAD = frozenset({TaskState.FAILED, TaskState.STOPPED})


def task_reason(view: RunView, task: TaskRun) -> str:
    """Say why a task is where it is, if that needs saying."""
    if task.skipped is not None:
        cause = task.skipped.cause
        return "the run was stopped" if cause == STOP else f"because {cause} did not pass"
    if task.stopped is not None:
        return stop_words(task.stopped)
    if task.delegated is not None:
        return f"in run {task.delegated.run[:SHORT]}"
    if task.state is TaskState.WAITING:
        return "for approval"
    if task.state is TaskState.PASSED or not task.verdicts:
        return ""
    return _verdict_words(view, task)


def _verdict_words(view: RunView, task: TaskRun) -> str:
    """Say what was wrong with the last attempt that was judged."""
    call, verdict = task.result, task.verdicts[-1]
    facts = [verdict.reason]
    if call is not None and call.replied is not None and call.replied.outcome is not Outcome.OK:
        facts = [call.replied.code or call.replied.why.value or verdict.reason]
    said = view.errors.get(task.id)
    return ": ".join([*facts, *([said.split("\n")[-1]] if said else [])])


def task_time(task: TaskRun, at: int) -> int:
    """Return how long a task has taken, in microseconds, from its first call on."""
    if not task.calls:
        return 0
    ended = at if task.calls[-1].replied is None else task.calls[-1].ended
    return max(0, ended - task.calls[0].begun)


def run_time(view: RunView) -> int:
    """Return how long a run has taken, in microseconds."""
    return max(0, (view.state.ended or view.at) - view.state.begun)


def who(task: TaskRun) -> str:
    """Say who worked on a task last; whoever judges it has not worked on it."""
    own = own_calls(task)
    if not own:
        return ""
    called = own[-1].called
    names = dict.fromkeys(name for name in (called.agent, called.model) if name)
    return plain("/".join(names))


def tasks_of(state: Run) -> list[str]:
    """Return the tasks that are work, and not the part of a role."""
    return [name for name in state.tasks if not name.startswith(ROLE)]


def own_calls(task: TaskRun) -> list[Call]:
    """Return the calls of a task that were made for its work; of a role, all are."""
    if task.id.startswith(ROLE):
        return list(task.calls)
    return [call for call in task.calls if not call.called.role]


# The tree of tasks


@dataclass(frozen=True, slots=True)
class Twig:
    """A task in the tree: under the last one that it waits for."""

    id: str
    branch: str
    """What is drawn before it."""
    below: str
    """What is drawn under it."""
    others: tuple[str, ...] = ()
    """What else it waits for."""


def draw_tree(plan: Plan | None, state: Run) -> list[Twig]:
    """Return the tasks in the order in which they are drawn."""
    if plan is None:
        return [Twig(name, "", "") for name in tasks_of(state)]
    place = {task.id: number for number, task in enumerate(plan.tasks)}
    under: dict[str | None, list[str]] = {}
    for task in plan.tasks:
        last = max(task.upstream, key=lambda name: place[name], default=None)
        under.setdefault(last, []).append(task.id)
    twigs: list[Twig] = []
    left = [(name, "", "", 0) for name in reversed(under.get(None, []))]
    while left:
        name, branch, below, level = left.pop()
        upstream = plan.by_id[name].upstream
        last = max(upstream, key=lambda one: place[one], default=None)
        twigs.append(Twig(name, branch, below, tuple(n for n in upstream if n != last)))
        children = under.get(name, [])
        for number, child in reversed(list(enumerate(children))):
            is_last = number == len(children) - 1
            # Far from the root nothing is indented further: it has to fit on a screen.
            stem = below if level < _LEVELS else below[:-3]
            fork, line = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            left.append((child, stem + fork, stem + line, level + 1))
    return twigs


def task_lines(view: RunView, columns: int, rows: int) -> list[str]:
    """Return the tasks of a run as a table; of too many, those that matter most now."""
    twigs, hidden = _select(draw_tree(view.plan, view.state), view.state, rows)
    cells = [_cells(view, twig) for twig in twigs]
    if not cells:
        return []
    kept = [n for n in range(1, len(_HEADS)) if any(row[n].strip("-") for row in cells)]
    sizes = {n: max([len(row[n]) for row in cells] + [len(_HEADS[n])]) for n in kept}
    room = columns - sum(size + 2 for size in sizes.values()) - 2
    longest = max([len(row[0]) for row in cells] + [len(_HEADS[0])])
    name_size = max(12, min(room, longest))
    lines = [click.style(_row(_HEADS, name_size, sizes), dim=True)]
    for twig, row in zip(twigs, cells, strict=True):
        task = view.state.task(twig.id)
        mark, color = _MARKS[task.state]
        line = _row(row, name_size, sizes)
        if task.state is TaskState.PASSED:
            lines.append(line.replace(mark, click.style(mark, fg=color), 1))
        else:
            lines.append(click.style(line, fg=color, dim=True if color is None else None))
        reason = task_reason(view, task)
        if reason:
            lead = f"  {twig.below}    "
            said = first_line(reason, max(20, columns - len(lead)))
            lines.append(lead + click.style(said, fg=color))
    if hidden:
        lines.append(f"  and {hidden} more tasks (--all shows them)")
    return lines


_HEADS = ("task", "state", "agent", "tries", "tokens", "cost", "time", "entry")


def _cells(view: RunView, twig: Twig) -> tuple[str, ...]:
    task = view.state.task(twig.id)
    spent = task.spent
    others = f" (+ {', '.join(twig.others)})" if twig.others else ""
    return (
        f"{twig.branch}{_MARKS[task.state][0]} {twig.id}{others}",
        task.state.value,
        first_line(who(task), 24),
        count(task.attempts),
        count(spent.tokens),
        price(spent.usd),
        duration(task_time(task, view.at)) if task.calls else "-",
        str(view.entries.get(twig.id, "-")),
    )


def _row(row: Sequence[str], name_size: int, sizes: dict[int, int]) -> str:
    name = row[0] if len(row[0]) <= name_size else f"{row[0][: name_size - 1]}…"
    cells = [f"{name:<{name_size}}"]
    for number, size in sizes.items():
        cells.append(f"{row[number]:<{size}}" if number < 3 else f"{row[number]:>{size}}")
    return ("  " + "  ".join(cells)).rstrip()


_FIRST = (TaskState.WAITING, TaskState.RUNNING, TaskState.FAILED, TaskState.STOPPED)


def _select(twigs: list[Twig], state: Run, rows: int) -> tuple[list[Twig], int]:
    """Of more tasks than there is room for, keep those that matter most, without the tree."""
    if len(twigs) <= rows:
        return twigs, 0
    ranked = sorted(range(len(twigs)), key=lambda n: _rank(state.task(twigs[n].id).state))
    kept = sorted(ranked[:rows])
    return [Twig(twigs[n].id, "", "") for n in kept], len(twigs) - rows


def _rank(state: TaskState) -> int:
    return _FIRST.index(state) if state in _FIRST else len(_FIRST)


# One screen


def screen(view: RunView, *, every: bool = False) -> list[str]:
    """Return everything that one wants to know of a run at first."""
    columns = width()
    return [
        *head_lines(view, columns),
        "" if view.plan or tasks_of(view.state) else "  (no plan yet)",
        *task_lines(view, columns, NO_LIMIT if every else _ROWS),
        *_gate_lines(view),
        *_role_lines(view.state),
        *_judgement_lines(view, columns),
        *_effect_lines(view, columns),
        *_agent_lines(view.state),
        *_answer_lines(view, columns),
        *_claim_lines(view, columns),
    ]


def head_lines(view: RunView, columns: int) -> list[str]:
    """Return what a run is, and what it has come to."""
    state = view.state
    mark, word, color = status(state, waiting=bool(view.gates))
    lines = [
        f"{click.style(f'run {view.run}', bold=True)}  {click.style(f'{mark} {word}', fg=color)}"
    ]
    begun = f"{moment(state.begun)}, {age(view.at - state.begun)} ago"
    facts = [
        ("as of", "" if view.until is None else f"entry {view.until}, {moment(view.at)}"),
        ("reason", run_reason(view)),
        ("request", "(erased)" if view.request is None else view.request),
        ("route", route_words(state.routed) if state.routed else ""),
        ("begun", begun),
        ("done", progress(state) if state.planned else ""),
        ("used", used(view)),
    ]
    if state.accepted and state.accepted.fork_run:
        fork = state.accepted
        facts.append(("fork of", f"{fork.fork_run[:SHORT]} at entry {fork.fork_index}"))
    if state.accepted and state.accepted.parent_run:
        facts.append(
            ("within", f"{state.accepted.parent_run[:SHORT]}, task {state.accepted.parent_task}")
        )
    return lines + [f"  {name:<8} {first_line(text, columns - 11)}" for name, text in facts if text]


def route_words(routed: Routed) -> str:
    """Say which lane a request was given, by what, and how sure that was."""
    if routed.basis is Basis.GIVEN:
        return f"{routed.lane}, as asked for"
    if routed.basis is Basis.CLASSIFIER:
        return f"{routed.lane or 'no lane'}, by the classifier"
    if not routed.lane:
        return f"no lane, by {routed.basis.value} routing"
    sure = f"by {routed.basis.value} routing, {routed.confidence / 10:.0f} % sure"
    other = "nobody's work here" if routed.runner_up == ELSEWHERE else routed.runner_up
    after = f" (runner-up: {other})" if other else ""
    return f"{routed.lane}, {sure}{after}"


def used(view: RunView) -> str:
    """Say what a run has used, and of what it may."""
    spent, accepted = view.state.spent, view.state.accepted
    cap = accepted.cap if accepted else _NO_CAP
    limit = accepted.milliseconds if accepted else NO_LIMIT
    money = f"${dollars(spent.usd)}"
    time = f"{run_time(view) / 1e6:.1f}"
    parts = [
        _of(spent.calls, cap.calls, "call"),
        _of(spent.tokens, cap.tokens, "token"),
        money if cap.usd == NO_LIMIT else f"{money} of ${dollars(cap.usd)}",
        f"{time} s" if limit == NO_LIMIT else f"{time} of {limit / 1000:g} s",
    ]
    if not spent.tokens and cap.tokens == NO_LIMIT:
        parts.pop(1)
    return ", ".join(parts)


def progress(state: Run) -> str:
    """Say how many tasks of a run have passed."""
    return f"{passed_tasks(state):,} of {plural(state.planned, 'task')} passed"


def passed_tasks(state: Run) -> int:
    """Count the tasks of a run that have passed."""
    return sum(1 for name in tasks_of(state) if state.task(name).state is TaskState.PASSED)


_NO_CAP = Amount(NO_LIMIT, NO_LIMIT, NO_LIMIT)


def _of(used: int, cap: int, unit: str) -> str:
    return plural(used, unit) if cap == NO_LIMIT else f"{used:,} of {plural(cap, unit)}"


def _gate_lines(view: RunView) -> list[str]:
    decided = [gate for gate in view.state.gates.values() if gate.decided is not None]
    lines = [f"  {gate.opened.subject:<20} {_decision(gate)}" for gate in decided]
    lines += [line for run, gate in view.gates for line in gate_advice(run, gate, view.at)]
    return ["", click.style("gates", bold=True), *lines] if lines else []


def _decision(gate: Gate) -> str:
    if gate.decided is None:
        return "open"
    by = {Decider.PERSON: "by a person", Decider.DEADLINE: "because nobody decided in time"}
    edited = "edited, and " if gate.shown_at.n else ""
    past = f"{gate.decided.answer.value}d".replace("rejectd", "rejected")
    return f"{edited}{past} {by.get(gate.decided.by, 'because the run ended')}"


def gate_advice(run: str, gate: Gate, at: int) -> list[str]:
    """Say what waits, until when, and what to type."""
    subject, left = gate.opened.subject, gate.deadline - at
    default = gate.opened.default.value
    when = f"{default} in {duration(left)}" if left > 0 else f"{default} now"
    lines = [
        f"  {subject:<20} waits for you; without a word: {when}",
        f"    forum gate show    {run[:SHORT]} {subject}",
        f"    forum gate approve {run[:SHORT]} {subject}",
    ]
    return [click.style(lines[0], fg="yellow"), *lines[1:]]


@dataclass(frozen=True, slots=True)
class Part:
    """What a role has done in a run."""

    role: str
    who: str
    state: TaskState | None
    """None of one that is asked within tasks."""
    spent: Amount


def parts_of(state: Run) -> list[Part]:
    """Return what roles have done, in the order in which they began."""
    found = [
        Part(name.removeprefix(ROLE), who(task), task.state, task.spent)
        for name, task in state.tasks.items()
        if name.startswith(ROLE)
    ]
    asked: dict[tuple[str, str], list[Call]] = {}
    for name in tasks_of(state):
        for call in state.tasks[name].calls:
            if call.called.role:
                names = dict.fromkeys(n for n in (call.called.agent, call.called.model) if n)
                asked.setdefault((call.called.role, plain("/".join(names))), []).append(call)
    found += [
        Part(role, name, None, total(call.spent for call in calls))
        for (role, name), calls in asked.items()
    ]
    return found


def _role_lines(state: Run) -> list[str]:
    parts = parts_of(state)
    size = max((len(part.role) for part in parts), default=0)
    rows = [
        (
            f"{_mark(part)} {part.role:<{size}}  {first_line(part.who, 30)}",
            count(part.spent.calls),
            count(part.spent.tokens),
            price(part.spent.usd),
        )
        for part in parts
    ]
    return ["", *table(("roles", "calls", "tokens", "cost"), rows)] if rows else []


def _mark(part: Part) -> str:
    return " " if part.state is None else _MARKS[part.state][0]


def _judgement_lines(view: RunView, columns: int) -> list[str]:
    """Say what models have said of results, and how the answer was looked at."""
    judged = [
        (name, *_verdict(verdict))
        for name in tasks_of(view.state)
        for verdict in view.state.tasks[name].verdicts
        if verdict.independence is not Independence.NONE
    ]
    judged += [(f"answer: {one.subject}", *_check(one)) for _, one in view.state.checks]
    if not judged:
        return []
    size = min(24, max(len(plain(name)) for name, _, _ in judged))
    lines = []
    for name, words, color in judged:
        said = first_line(words, columns - size - 5)
        lines.append(f"  {first_line(name, size):<{size}}  {click.style(said, fg=color)}")
    return ["", click.style("judged", bold=True), *lines]


def _verdict(verdict: Judged) -> tuple[str, str | None]:
    passed = verdict.outcome is Outcome.OK
    word = "accepted" if passed else f"not accepted ({verdict.reason})"
    by = judge_words(verdict.judge, verdict.independence)
    return f"attempt {verdict.attempt} {word}{by}", None if passed else "yellow"


def _check(checked: Checked) -> tuple[str, str | None]:
    passed = checked.outcome is Outcome.OK
    reason = f" ({checked.reason})" if checked.reason else ""
    by = judge_words(checked.judge, checked.independence)
    said = f"{checked.outcome.value}{reason}, checked by {checked.check.value}{by}"
    return said, None if passed else "yellow"


def judge_words(judge: str, independence: Independence) -> str:
    """Say which agent has judged, and whether it is another than the one that was judged."""
    if independence is Independence.NONE:
        return f", by {plain(judge)}" if judge else ""
    word = "independent" if independence is Independence.YES else "not independent"
    return f", by {plain(judge) or 'the agent'}, {word}"


def _effect_lines(view: RunView, columns: int) -> list[str]:
    uses = [(task.id, use) for task in view.state.tasks.values() for use in task.uses]
    lines = [
        f"  {first_line(f'{use.intended.tool}: {_effect(use)}, in {task}', columns - 14)}"
        f"{_place(view, use.outcome or use.entry)}"
        for task, use in uses[:_EFFECTS]
    ]
    if len(uses) > _EFFECTS:
        lines.append(f"  and {len(uses) - _EFFECTS} more (--json has them all)")
    return ["", click.style("effects", bold=True), *lines] if lines else []


def _effect(use: UseOfTool) -> str:
    if use.happened is None:
        return "intended"
    if use.happened.known:
        return "known from an earlier attempt"
    return use.happened.outcome.value


def _place(view: RunView, entry: Hash) -> str:
    index = view.places.get(entry.hex())
    return "" if index is None else click.style(f"  #{index}", dim=True)


def _claim_lines(view: RunView, columns: int) -> list[str]:
    """Say what the answer says was done, and which entry shows it."""
    lines = []
    for claim in view.claims[:_CLAIMS]:
        index = view.places.get(claim.receipt)
        shown = f"entry {index}" if index is not None else claim.receipt[:10] or "unverified"
        said = first_line(claim.text, columns - len(shown) - 13)
        color = None if claim.receipt else "yellow"
        lines.append(f"  says: {said} -> {click.style(shown, fg=color)}")
    if len(view.claims) > _CLAIMS:
        lines.append(f"  and {len(view.claims) - _CLAIMS} more (--json has them all)")
    return ["", click.style("claims", bold=True), *lines] if lines else []


def _agent_lines(state: Run) -> list[str]:
    spent_by = state.spent_by
    if len(spent_by) < 2 and not any(spent.usd for spent in spent_by.values()):
        return []
    rows = [
        (plain(agent) or "(default)", count(s.calls), count(s.tokens), price(s.usd))
        for agent, s in spent_by.items()
    ]
    return ["", *table(("spent by", "calls", "tokens", "cost"), rows)]


def _answer_lines(view: RunView, columns: int) -> list[str]:
    if view.state.answered is None or view.answer == b"":
        return []
    if view.answer is None:
        return ["", click.style("answer", bold=True), "  (erased)"]
    lines = plain(view.answer.decode(errors="replace").expandtabs(4)).strip().split("\n")
    shown = [f"  {line[: columns - 3]}" for line in lines[:_ANSWER_LINES]]
    more = len(lines) - _ANSWER_LINES
    cut = more > 0 or any(len(line) > columns - 3 for line in lines)
    rest = [f"  … all of it: forum show {view.run[:SHORT]} --answer"] if cut else []
    return ["", click.style("answer", bold=True), *shown, *rest]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table whose first column is words, and whose others are numbers."""
    rows = list(rows)
    sizes = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = [f"{row[0]:<{sizes[0]}}"]
        cells += [f"{cell:>{size}}" for cell, size in zip(row[1:], sizes[1:], strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return [click.style(lines[0], dim=True), *lines[1:]]


# One object


def run_json(view: RunView) -> dict[str, Any]:
    """Return a run as JSON has it."""
    state, accepted = view.state, view.state.accepted
    cap = accepted.cap if accepted else _NO_CAP
    answer = None if view.answer is None else view.answer.decode(errors="replace")
    twigs = draw_tree(view.plan, state)
    return {
        "run": view.run,
        "until": view.until,
        "state": state.state.value,
        "outcome": state.outcome.value if state.outcome else None,
        "status": exit_status(view),
        "reason": run_reason(view),
        "request": view.request,
        "answer": answer,
        "spent": amount_json(state.spent),
        "cap": {
            "usd": None if cap.usd == NO_LIMIT else dollars(cap.usd),
            "tokens": _limit(cap.tokens),
            "calls": _limit(cap.calls),
            "seconds": None
            if accepted is None or accepted.milliseconds == NO_LIMIT
            else accepted.milliseconds / 1000,
        },
        "spent_by": {agent: amount_json(spent) for agent, spent in state.spent_by.items()},
        "route": _route_json(view) if state.routed else None,
        "roles": [
            {
                "role": p.role,
                "who": p.who,
                "state": p.state and p.state.value,
                "spent": amount_json(p.spent),
            }
            for p in parts_of(state)
        ],
        "checks": [_check_json(view, leaf, one) for leaf, one in state.checks],
        "claims": [
            {
                "deed": claim.deed.value,
                "text": claim.text,
                "entry": view.places.get(claim.receipt),
                "receipt": claim.receipt or None,
            }
            for claim in view.claims
        ],
        "effects": [
            _effect_json(view, task.id, use) for task in state.tasks.values() for use in task.uses
        ],
        "begun": iso(state.begun),
        "seconds": round(run_time(view) / 1e6, 3),
        "tasks": [_task_json(view, state.task(twig.id)) for twig in twigs],
        "gates": [gate_json(view.run, gate) for gate in state.gates.values()],
        "waits_for": [{"run": run, "subject": gate.opened.subject} for run, gate in view.gates],
        "fork_of": accepted.fork_run or None if accepted else None,
        "within": accepted.parent_run or None if accepted else None,
    }


def _route_json(view: RunView) -> dict[str, Any]:
    routed = view.state.routed or Routed("", Basis.GIVEN)
    return {
        "lane": routed.lane or None,
        "basis": routed.basis.value,
        "confidence": routed.confidence / 1000,
        "runner_up": routed.runner_up or None,
        "margin": routed.margin / 1000,
        "roster": routed.roster or None,
        "entry": view.places.get(view.state.route.hex()) if view.state.route else None,
    }


def _check_json(view: RunView, leaf: Hash, checked: Checked) -> dict[str, Any]:
    return {
        "subject": checked.subject,
        "outcome": checked.outcome.value,
        "check": checked.check.value,
        "reason": checked.reason or None,
        "judge": checked.judge or None,
        "independence": checked.independence.value or None,
        "entry": view.places.get(leaf.hex()),
    }


def _effect_json(view: RunView, task: str, use: UseOfTool) -> dict[str, Any]:
    return {
        "task": task,
        "tool": use.intended.tool,
        "outcome": use.happened.outcome.value if use.happened else None,
        "entry": view.places.get((use.outcome or use.entry).hex()),
    }


def _verdict_json(verdict: Judged) -> dict[str, Any]:
    return {
        "attempt": verdict.attempt,
        "outcome": verdict.outcome.value,
        "check": verdict.check.value,
        "next": verdict.next.value,
        "reason": verdict.reason or None,
        "judge": verdict.judge or None,
        "independence": verdict.independence.value or None,
        "claims": verdict.claims,
        "unverified": verdict.unverified,
    }


def amount_json(amount: Amount) -> dict[str, Any]:
    """Return what something cost as JSON has it; dollars are a text, so that they stay exact."""
    return {"usd": dollars(amount.usd), "tokens": amount.tokens, "calls": amount.calls}


def gate_json(run: str, gate: Gate) -> dict[str, Any]:
    """Return a gate as JSON has it."""
    return {
        "run": run,
        "subject": gate.opened.subject,
        "digest": gate.digest,
        "decided": gate.decided.answer.value if gate.decided else None,
        "by": gate.decided.by.value if gate.decided else None,
        "default": gate.opened.default.value,
        "deadline": iso(gate.deadline),
    }


def _limit(cap: int) -> int | None:
    return None if cap == NO_LIMIT else cap


def _task_json(view: RunView, task: TaskRun) -> dict[str, Any]:
    planned = view.plan.by_id.get(task.id) if view.plan else None
    own = own_calls(task)
    last = own[-1].called if own else None
    return {
        "id": task.id,
        "lane": planned.lane or None if planned else None,
        "state": task.state.value,
        "reason": task_reason(view, task),
        "agent": last.agent if last else planned.agent if planned else "",
        "model": last.model if last else None,
        "attempts": task.attempts,
        "verdicts": [_verdict_json(verdict) for verdict in task.verdicts],
        "lost": lost_calls(task),
        "spent": amount_json(task.spent),
        "seconds": round(task_time(task, view.at) / 1e6, 3),
        "needs": list(planned.needs) if planned else [],
        "after": list(planned.after) if planned else [],
        "run": task.delegated.run if task.delegated else None,
        "entry": view.entries.get(task.id),
    }


def lost_calls(task: TaskRun) -> int:
    """Count the calls whose replies were lost with their workers."""
    return sum(1 for call in task.calls if call.replied and call.replied.why is Why.LOST)
