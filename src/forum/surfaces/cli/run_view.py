"""Renders a run on a terminal.

Text from agents and users is printed without control characters, which could manipulate the
terminal.
"""

from collections.abc import Iterable, Mapping, Sequence

from forum import units
from forum.app import ListedRun, RunView, formatting
from forum.app.reported_runs import describe_gaps, describe_provenance
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs import kinds, run_fold
from forum.runs.roster import ELSEWHERE
from forum.runs.run_words import describe_run_word
from forum.runs.scores import RecordedScore, describe_subject
from forum.surfaces.cli import output
from forum.surfaces.cli.console import style
from forum.surfaces.cli.panel_lines import panel_lines
from forum.surfaces.cli.report_view import gap_lines, note_lines, span_lines
from forum.surfaces.schemas.panels import deliberation_form
from forum.tlog import Hash
from forum.units import format_usd

_ANSWER_LINES = 12
_MAX_EFFECTS = 12
_MAX_SCORES = 20
_MAX_CLAIMS = 8
_MAX_ROWS = 50

MARKS = {
    run_fold.TaskState.PENDING: ("○", None),
    run_fold.TaskState.RUNNING: ("●", "cyan"),
    run_fold.TaskState.WAITING: ("!", "yellow"),
    run_fold.TaskState.PASSED: ("✓", "green"),
    run_fold.TaskState.FAILED: ("✗", "red"),
    run_fold.TaskState.SKIPPED: ("-", None),
    run_fold.TaskState.STOPPED: ("■", "red"),
}


_WORD_MARKS: Mapping[str, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "accepted": ("○", "cyan"),
    "running": ("●", "cyan"),
    "stopped": ("●", "cyan"),
    "waiting": ("!", "yellow"),
    "split": ("!", "yellow"),
    "blocked": ("!", "red"),
    "interrupted": ("■", "yellow"),
}
"""All other words are of runs that did not end well."""


def run_status(state: run_fold.Run, *, waiting: bool = False) -> tuple[str, str, str | None]:
    """Return a mark, a word and a color for the state of a run."""
    return mark_word(describe_run_word(state, waits=waiting))


def mark_word(word: str) -> tuple[str, str, str | None]:
    """Return a mark, the word and a color for the state of a run."""
    mark, color = _WORD_MARKS.get(word, ("✗", "red"))
    return mark, word, color


def listed_status(listed: ListedRun) -> tuple[str, str, str | None]:
    """Return the same for a run in a list."""
    return mark_word(listed.word)


def view_status(view: RunView) -> tuple[str, str, str | None]:
    """Return the same for a run with its notes: a council may be split or blocked."""
    return mark_word(formatting.view_word(view))


def task_lines(view: RunView, columns: int, rows: int) -> list[str]:
    """Return the tasks of a run as a table; of too many, the most urgent ones."""
    twigs, hidden = _select(formatting.build_task_tree(view.plan, view.state), view.state, rows)
    cells = [_cells(view, twig) for twig in twigs]
    if not cells:
        return []
    # The table must fit a narrow terminal, so empty columns are left out and long names are cut.
    used = [n for n in range(1, len(_HEADS)) if any(row[n].strip("-") for row in cells)]
    table = [_HEADS, *cells]
    room = max(12, columns - 2 - sum(max(len(row[n]) for row in table) + 2 for n in used))
    names = [row[0] if len(row[0]) <= room else f"{row[0][: room - 1]}…" for row in table]
    shown = [(f"  {name}", *(row[n] for n in used)) for name, row in zip(names, table, strict=True)]
    numbers = [column for column, n in enumerate(used, 1) if n >= _FIRST_NUMBER]
    head, *drawn = output.format_table(shown, right=numbers)
    lines = [style(head, dim=True)]
    for twig, line in zip(twigs, drawn, strict=True):
        task = view.state.task(twig.id)
        mark, color = MARKS[task.state]
        if task.state is run_fold.TaskState.PASSED:
            lines.append(line.replace(mark, style(mark, fg=color), 1))
        else:
            lines.append(style(line, fg=color, dim=True if color is None else None))
        reason = formatting.explain_task_state(view, task)
        if reason:
            lead = f"  {twig.below}    "
            text = formatting.first_line(reason, max(20, columns - len(lead)))
            lines.append(lead + style(text, fg=color))
    if hidden:
        lines.append(f"  and {hidden} more tasks (--all shows them)")
    return lines


_HEADS = ("task        ", "state", "agent", "tries", "tokens", "cost", "time", "entry")
"""The columns; the first is at least this wide."""
_FIRST_NUMBER = 3
"""The first column with numbers, which are aligned to the right."""


def _cells(view: RunView, twig: formatting.TaskTreeNode) -> tuple[str, ...]:
    task = view.state.task(twig.id)
    spent = task.spent
    others = f" (+ {', '.join(twig.others)})" if twig.others else ""
    return (
        f"{twig.branch}{MARKS[task.state][0]} {twig.id}{others}",
        task.state.value,
        formatting.first_line(formatting.last_agent_name(task), 24),
        units.format_count(task.attempts),
        units.format_count(spent.tokens),
        units.format_price(spent.usd),
        units.format_duration(formatting.task_duration(task, view.at)) if task.calls else "-",
        str(view.entries.get(twig.id, "-")),
    )


URGENT_STATES = (
    run_fold.TaskState.WAITING,
    run_fold.TaskState.RUNNING,
    run_fold.TaskState.FAILED,
    run_fold.TaskState.STOPPED,
)
"""States of tasks that are shown where there is not room for all; the most urgent first."""


def rank_by_urgency(
    states: Sequence[run_fold.TaskState], urgent: Sequence[run_fold.TaskState] = URGENT_STATES
) -> list[int]:
    """Return the numbers of tasks in these states, the most urgent first, else in their order."""
    ranks = {state: rank for rank, state in enumerate(urgent)}
    return sorted(range(len(states)), key=lambda n: ranks.get(states[n], len(urgent)))


def _select(
    twigs: list[formatting.TaskTreeNode], state: run_fold.Run, rows: int
) -> tuple[list[formatting.TaskTreeNode], int]:
    """Keep the most urgent tasks if there are too many, without the tree; count the hidden ones."""
    if len(twigs) <= rows:
        return twigs, 0
    shown = sorted(rank_by_urgency([state.task(twig.id).state for twig in twigs])[:rows])
    return [formatting.TaskTreeNode(twigs[n].id, "", "") for n in shown], len(twigs) - rows


def render_run(view: RunView, *, every: bool = False) -> list[str]:
    """Return the overview of a run."""
    columns, form = output.terminal_width(), deliberation_form(view)
    planned = form or view.plan or formatting.work_tasks(view.state)
    if view.state.is_reported:
        return _render_reported_run(view, columns, every=every)
    return [
        *head_lines(view, columns),
        *(() if form else ("" if planned else "  (no plan yet)",)),
        *(panel_lines(form, columns, every=every) if form else ()),
        *task_lines(view, columns, NO_LIMIT if every else _MAX_ROWS),
        *_gate_lines(view),
        *_role_lines(view.state),
        *judgement_lines(view, columns),
        *_effect_lines(view, columns),
        *_agent_lines(view.state),
        *_answer_lines(view, columns),
        *_claim_lines(view, columns),
        *_score_lines(view, columns),
        *_why_lines(view, columns),
    ]


def _render_reported_run(view: RunView, columns: int, *, every: bool) -> list[str]:
    """Return the overview of a run that Forum does not drive."""
    return [
        *head_lines(view, columns),
        *span_lines(view, columns, NO_LIMIT if every else _MAX_ROWS),
        *gap_lines(view, columns),
        *note_lines(view, columns),
        *_gate_lines(view),
        *_agent_lines(view.state),
        *_score_lines(view, columns),
        *_why_lines(view, columns),
    ]


def _why_lines(view: RunView, columns: int) -> list[str]:
    lines = output.wrap_lines(formatting.explain_failure(view), columns)
    return ["", *(style(line, fg="red") for line in lines)] if lines else []


def head_lines(view: RunView, columns: int) -> list[str]:
    """Return the head: the state, the request and the figures of a run."""
    state = view.state
    mark, word, color = view_status(view)
    lines = [f"{style(f'run {view.run}', bold=True)}  {style(f'{mark} {word}', fg=color)}"]
    started = f"{units.format_moment(state.begun)}, {units.format_age(view.at - state.begun)} ago"
    facts = [
        (
            "as of",
            "" if view.until is None else f"entry {view.until}, {units.format_moment(view.at)}",
        ),
        ("reason", formatting.explain_run_state(view)),
        ("request", "" if state.is_reported else _request_text(view)),
        ("title", view.title),
        # Of a run that Forum drives, each step is recorded: there is nothing to warn of.
        ("known", describe_provenance(state) if state.is_reported else ""),
        ("source", _describe_source(state)),
        ("gaps", describe_gaps(state)),
        ("route", describe_route(state.routed) if state.routed else ""),
        ("team", formatting.describe_declined_team(view)),
        ("begun", started),
        ("done", format_task_progress(state) if state.planned else ""),
        ("used", format_usage(view)),
    ]
    if state.accepted and state.accepted.fork_run:
        fork = state.accepted
        facts.append(
            ("fork of", f"{formatting.short_id(fork.fork_run)} at entry {fork.fork_index}")
        )
    if state.about is not None:
        facts.append(("about", f"the answer of {formatting.short_id(state.about.run)}"))
    if state.accepted and state.accepted.parent_run:
        parent = formatting.short_id(state.accepted.parent_run)
        facts.append(("within", f"{parent}, task {state.accepted.parent_task}"))
    return lines + [
        f"  {name:<8} {formatting.first_line(text, columns - 11)}" for name, text in facts if text
    ]


def _request_text(view: RunView) -> str:
    return "(erased)" if view.request is None else view.request


def _describe_source(state: run_fold.Run) -> str:
    """Return who reports a run: its process or key, framework, trace, and the run it continues."""
    source = state.report.source
    if source is None:
        return ""
    parts = [
        source.by,
        source.framework,
        f"trace {source.trace}" if source.trace else "",
        f"continues {formatting.short_id(source.continues)}" if source.continues else "",
    ]
    return formatting.strip_control_characters(", ".join(part for part in parts if part))


def describe_route(routed: kinds.RouteFacts) -> str:
    """Return the lane of a request, how it was chosen, and with which confidence."""
    if routed.basis is kinds.Basis.GIVEN:
        return f"{routed.lane}, as asked for"
    if routed.basis is kinds.Basis.CLASSIFIER:
        return f"{routed.lane or 'no lane'}, by the classifier"
    if not routed.lane:
        return f"no lane, by {routed.basis.value} routing"
    sure = f"by {routed.basis.value} routing, {routed.confidence / 10:.0f} % sure"
    other = "nobody's work here" if routed.runner_up == ELSEWHERE else routed.runner_up
    after = f" (runner-up: {other})" if other else ""
    return f"{routed.lane}, {sure}{after}"


def format_usage(view: RunView) -> str:
    """Return what a run has used, with the limits that apply."""
    accepted = view.state.accepted
    limit = accepted.milliseconds if accepted else NO_LIMIT
    time = f"{formatting.run_duration(view) / 1e6:.1f}"
    duration = f"{time} s" if limit == NO_LIMIT else f"{time} of {limit / 1000:g} s"
    apart = view.state.report.not_counted
    if apart == Amount():
        return f"{format_amount(view.state.spent, view.state.cap)}, {duration}"
    # The cap of such a run is held in the program, by what it reports.
    return f"{format_amount(apart, view.state.cap)} (reported, not counted), {duration}"


def format_amount(spent: Amount, cap: Amount) -> str:
    """Return calls, tokens and dollars that were used, with the limits that apply."""
    money = f"${format_usd(spent.usd)}"
    parts = [
        _format_used_of_cap(spent.calls, cap.calls, "call"),
        _format_used_of_cap(spent.tokens, cap.tokens, "token"),
        money if cap.usd == NO_LIMIT else f"{money} of ${format_usd(cap.usd)}",
    ]
    if not spent.tokens and cap.tokens == NO_LIMIT:
        parts.pop(1)
    return ", ".join(parts)


def format_task_progress(state: run_fold.Run) -> str:
    """Return how many tasks of a run have passed."""
    planned = formatting.pluralize(state.planned, "task")
    return f"{formatting.count_passed_tasks(state):,} of {planned} passed"


def _format_used_of_cap(used: int, cap: int, unit: str) -> str:
    return (
        formatting.pluralize(used, unit)
        if cap == NO_LIMIT
        else f"{used:,} of {formatting.pluralize(cap, unit)}"
    )


def _gate_lines(view: RunView) -> list[str]:
    lines = [
        f"  {gate.opened.subject:<20} {_decision(gate, gate.decided)}"
        for gate in view.state.gates.values()
        if gate.decided is not None
    ]
    lines += [line for run, gate in view.gates for line in format_gate_advice(run, gate, view.at)]
    return output.with_heading("gates", lines)


_PAST = {"approve": "approved", "reject": "rejected"}
_DECIDED_BY = {
    "person": "by a person",
    "key": "by a key",
    "operator": "by the operator",
    "deadline": "because nobody decided in time",
}


def _decision(gate: run_fold.Gate, decided: kinds.GateDecision) -> str:
    edited = "edited, and " if gate.shown_at.n else ""
    by = _DECIDED_BY.get(decided.by.value, "because the run ended")
    return f"{edited}{_PAST[decided.answer.value]} {by}"


def format_gate_advice(run: str, gate: run_fold.Gate, at: int) -> list[str]:
    """Return the waiting gate, its deadline, and the commands that decide it."""
    subject, left = gate.opened.subject, gate.deadline - at
    when = f"in {units.format_duration(left)}" if left > 0 else "now"
    past = _PAST[gate.opened.default.value]
    head = f"  {subject:<20} waits for approval; {past} automatically {when} unless decided"
    return [
        style(head, fg="yellow"),
        f"    forum gate show    {formatting.short_id(run)} {subject}",
        f"    forum gate approve {formatting.short_id(run)} {subject}",
    ]


def _role_lines(state: run_fold.Run) -> list[str]:
    parts = formatting.summarize_roles(state)
    size = max((len(part.role) for part in parts), default=0)
    marks = {None: " "} | {state: mark for state, (mark, _) in MARKS.items()}
    spent = [
        (
            f"{marks[part.state]} {part.role:<{size}}  {formatting.first_line(part.who, 30)}",
            part.spent,
        )
        for part in parts
    ]
    return _spent_table("roles", spent) if spent else []


def _spent_table(title: str, spent: Iterable[tuple[str, Amount]]) -> list[str]:
    """Return what roles or agents have used, as a table."""
    rows = [(title, "calls", "tokens", "cost")]
    for name, used in spent:
        counts = units.format_count(used.calls), units.format_count(used.tokens)
        rows.append((name, *counts, units.format_price(used.usd)))
    head, *lines = (f"  {line}" for line in output.format_table(rows, right=(1, 2, 3)))
    return ["", style(head, dim=True), *lines]


def judgement_lines(view: RunView, columns: int, *, rejected_only: bool = False) -> list[str]:
    """Return the verdicts of models on results and the checks of the answer, with their reasons."""
    judged = [
        (name, *_verdict(verdict), _opinion_words(view, name, verdict))
        for name in formatting.work_tasks(view.state)
        for verdict in view.state.tasks[name].verdicts
        if verdict.independence is not kinds.Independence.NONE
        if not (rejected_only and verdict.outcome is Outcome.OK)
    ]
    judged += [
        (f"answer: {check.subject}", *_check(check), view.check_details.get(leaf.hex(), ""))
        for leaf, check in view.state.checks
        if not (rejected_only and check.outcome is Outcome.OK)
    ]
    names = (formatting.strip_control_characters(name) for name, *_ in judged)
    size = min(24, max(map(len, names), default=0))
    lines = []
    for name, words, color, reason in judged:
        text = formatting.first_line(words, columns - size - 5)
        lines.append(f"  {formatting.first_line(name, size):<{size}}  {style(text, fg=color)}")
        lead = " " * (size + 6)
        lines += [
            style(line, dim=True)
            for part in output.clean_lines(reason)[:_MAX_REASON_LINES]
            for line in output.wrap_lines(part, columns, lead)
        ]
    return output.with_heading("judged", lines)


_MAX_REASON_LINES = 6


def _opinion_words(view: RunView, task: str, verdict: kinds.VerdictFacts) -> str:
    """Return what the judge wrote about an attempt."""
    opinion = view.opinions.get((task, verdict.attempt))
    return opinion.feedback if opinion else ""


def _verdict(verdict: kinds.VerdictFacts) -> tuple[str, str | None]:
    passed = verdict.outcome is Outcome.OK
    word = "accepted" if passed else f"not accepted ({verdict.reason})"
    by = describe_judge(verdict.judge, verdict.independence)
    return f"attempt {verdict.attempt} {word}{by}", None if passed else "yellow"


def _check(checked: kinds.CheckFacts) -> tuple[str, str | None]:
    passed = checked.outcome is Outcome.OK
    reason = f" ({checked.reason})" if checked.reason else ""
    by = describe_judge(checked.judge, checked.independence)
    text = f"{describe_check(checked)}{reason}, checked by {checked.check.value}{by}"
    return text, None if passed else "yellow"


def describe_check(checked: kinds.CheckFacts) -> str:
    """Return the outcome of a check in a word: a flag and a remark fail nothing."""
    if checked.outcome is not Outcome.INDETERMINATE:
        return checked.outcome.value
    if checked.subject in (kinds.COVERAGE, kinds.FORM):
        return "flagged"
    return "a remark" if checked.reason == kinds.NOT_CONFIRMED else checked.outcome.value


def describe_judge(judge: str, independence: kinds.Independence) -> str:
    """Return the agent that judged, and whether it is independent of the one judged."""
    if independence is kinds.Independence.NONE:
        return f", by {formatting.strip_control_characters(judge)}" if judge else ""
    word = "independent" if independence is kinds.Independence.YES else "not independent"
    return f", by {formatting.strip_control_characters(judge) or 'the agent'}, {word}"


def _effect_lines(view: RunView, columns: int) -> list[str]:
    uses = [(task.id, use) for task in view.state.tasks.values() for use in task.uses]
    cut = formatting.first_line
    lines = [
        f"  {cut(f'{use.intended.tool}: {_effect(use)}, in {task}', columns - 14)}"
        f"{_format_position(view, use.outcome or use.entry)}"
        for task, use in uses[:_MAX_EFFECTS]
    ]
    if len(uses) > _MAX_EFFECTS:
        lines.append(f"  and {len(uses) - _MAX_EFFECTS} more (--json has them all)")
    return output.with_heading("effects", lines)


def _effect(use: run_fold.ToolUseRecord) -> str:
    if use.happened is None:
        return "intended"
    if use.happened.known:
        return "known from an earlier attempt"
    return use.happened.outcome.value


def _format_position(view: RunView, entry: Hash) -> str:
    index = view.places.get(entry.hex())
    return "" if index is None else style(f"  #{index}", dim=True)


def _claim_lines(view: RunView, columns: int) -> list[str]:
    """Return the actions that the answer claims, with the entry that proves each."""
    lines = []
    for claim in view.claims[:_MAX_CLAIMS]:
        index = view.places.get(claim.receipt)
        shown = f"entry {index}" if index is not None else claim.receipt[:10] or "unverified"
        text = formatting.first_line(claim.text, columns - len(shown) - 13)
        color = None if claim.receipt else "yellow"
        lines.append(f"  says: {text} -> {style(shown, fg=color)}")
    if len(view.claims) > _MAX_CLAIMS:
        lines.append(f"  and {len(view.claims) - _MAX_CLAIMS} more (--json has them all)")
    return output.with_heading("claims", lines)


def _score_lines(view: RunView, columns: int) -> list[str]:
    """Return the scores that count: the latest of each actor, subject and name."""
    lines = [format_score(score) for score in view.scores if score.is_latest]
    shown = [f"  {formatting.first_line(line, columns - 3)}" for line in lines[-_MAX_SCORES:]]
    if len(lines) > _MAX_SCORES:
        shown.append(f"  all of them: forum scores {formatting.short_id(view.run)}")
    return output.with_heading("scores", shown)


def format_score(score: RecordedScore) -> str:
    """Return a score on one line."""
    facts = score.facts
    by = f"a {facts.by.value}{describe_judge(facts.judge, facts.independence)}"
    comment = f": {formatting.first_line(score.comment, 200)}" if score.comment else ""
    value = f"{facts.value / kinds.MAX_SCORE:.3f}"
    subject = formatting.strip_control_characters(describe_subject(facts))
    return f"{facts.name} {value}  {subject}, by {by} ({score.actor}){comment}"


def _agent_lines(state: run_fold.Run) -> list[str]:
    spent_by = state.spent_by
    if len(spent_by) < 2 and not any(spent.usd for spent in spent_by.values()):
        return []
    named = (
        (formatting.strip_control_characters(agent) or "(default)", s)
        for agent, s in spent_by.items()
    )
    return _spent_table("spent by", named)


def _answer_lines(view: RunView, columns: int) -> list[str]:
    if view.state.answered is None or view.answer == b"":
        return []
    if view.answer is None:
        return output.with_heading("answer", ["  (erased)"])
    lines = output.clean_lines(view.answer)
    shown = [f"  {line[: columns - 3]}" for line in lines[:_ANSWER_LINES]]
    more = len(lines) - _ANSWER_LINES
    cut = more > 0 or any(len(line) > columns - 3 for line in lines)
    rest = [f"  … all of it: forum show {formatting.short_id(view.run)} --answer"] if cut else []
    headline = output.wrap_lines(formatting.undecided_headline(view), columns, "  ")
    compacted = output.wrap_lines(formatting.describe_compactions(view.state), columns, "  ")
    return output.with_heading("answer", [*headline, *shown, *rest, *compacted])
