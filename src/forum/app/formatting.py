"""Describe runs for all surfaces and for programs: how a run went, why, and at what cost.

Nothing here depends on a terminal or a protocol.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec
from msgspec import Struct

from forum.app.records import RunView
from forum.app.reported_runs import explain_reported_failure
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import Amount
from forum.runs import kinds, run_fold
from forum.runs.acceptance_criteria import Check, parse_criteria
from forum.runs.council_end import Accord, CouncilCloseFacts, End
from forum.runs.panel import TurnId, parse_ballot_turn
from forum.runs.plan import Plan
from forum.runs.report_drafts import OVERRUN, OVERRUN_TEXT, find_overrun
from forum.runs.report_kinds import TRACE_RUN_PREFIX
from forum.runs.run_words import describe_run_word, find_overruns, is_overrun_stop
from forum.runs.schedule import STOP_CAUSE
from forum.runs.session_steps import SessionNote
from forum.runs.shared_caps import read_limit_name
from forum.runs.symposium_end import Reason, SymposiumClose
from forum.units import format_usd
from forum.untrusted_text import replace_hidden

SHORT_ID_LENGTH = 18
"""Length of the prefix of a run id that distinguishes it from other runs and from inner runs."""

_MAX_TREE_DEPTH = 7


def short_id(run: str) -> str:
    """Return the prefix of the id of a run or an entry, for commands to type.

    The id of a trace is kept whole: runs that continue it begin like it.
    """
    return run if run.startswith(TRACE_RUN_PREFIX) else run[:SHORT_ID_LENGTH]


_STOP_DESCRIPTIONS = {
    kinds.StopReason.DEPTH: "its plan is nested deeper than allowed",
    kinds.StopReason.REPEAT: "it said the same {cap} times",
    kinds.StopReason.PING_PONG: "two agents said the same to each other {cap} times",
    kinds.StopReason.TURNS: "{cap} calls in one attempt",
    kinds.StopReason.LOST: "workers died in its call {used} times",
    kinds.StopReason.CANCELLED: "cancelled",
    kinds.StopReason.REJECTED: "not approved",
    kinds.StopReason.ERROR: "what it needs of the record could not be read",
    kinds.StopReason.ROLE: "a role did not do its part",
}
_LIMIT_REASONS = frozenset({kinds.StopReason.BUDGET, kinds.StopReason.DEADLINE})
_TERMINATION_DESCRIPTIONS = {
    Reason.BUDGET_EXCEEDED: "budget_exceeded: a cap of its config was reached",
    Reason.SCHEMA_ERROR: "schema_error: a reply, or the panel, had not the right form",
    Reason.PROVIDER_UNRECOVERABLE: "provider_unrecoverable: an agent could not be heard",
    Reason.USER_CANCEL: "user_cancel: somebody has ended it",
    Reason.TIMEOUT: "timeout: its time was over",
    Reason.USER_INPUT_REQUIRED: "user_input_required: the panel has a question",
    Reason.EXTERNAL_RESEARCH_REQUIRED: "external_research_required: the panel wants to know more",
}
_stopped = msgspec.json.Decoder(kinds.StopFacts)
_CAP_REASONS = frozenset({Reason.BUDGET_EXCEEDED, Reason.TIMEOUT})
_FAILED_STATES = frozenset({run_fold.TaskState.FAILED, run_fold.TaskState.STOPPED})
_TAKEN_STATES = frozenset({run_fold.TaskState.PASSED, run_fold.TaskState.FAILED})


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts by name in one line, such as "3 ok, 1 failed"."""
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def pluralize(number: int, unit: str) -> str:
    """Return a number with its unit in the singular or plural."""
    if number == 1:
        return f"{number:,} {unit}"
    ends_in_y = unit.endswith("y") and unit[-2:-1] not in "aeiou"
    return f"{number:,} {unit[:-1]}ies" if ends_in_y else f"{number:,} {unit}s"


def strip_control_characters(text: str) -> str:
    """Replace characters that could control a terminal, or that nobody would see."""
    return replace_hidden(text)


def first_line(text: str, most: int) -> str:
    """Return the beginning of a text as one line of at most `most` characters."""
    # Cut first, so that the cost does not depend on the length of the text.
    line = strip_control_characters(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Status(IntEnum):
    """What a run has come to, as the exit status of a program tells it."""

    OK = 0
    FAILED = 1
    OVER_BUDGET = 5
    WAITING = 6
    SPLIT = 8
    """A council has an answer, and no majority for it."""
    BLOCKED = 9
    """A seat of a council has an objection that must be answered first."""
    INTERRUPTED = 130


_UNDECIDED: dict[Status | None, str] = {
    Status.SPLIT: "the council is split: no answer has a majority of its seats",
    Status.BLOCKED: "the council is blocked: a seat has an objection that must be answered first",
}
_ACCORD_STATUS = {Accord.SPLIT: Status.SPLIT, Accord.BLOCKED: Status.BLOCKED}

RUN_LABELS = tuple(
    dict.fromkeys(
        str(word)
        for words in (run_fold.RunState, Outcome, kinds.StopReason, (OVERRUN,), _ACCORD_STATUS)
        for word in words
    )
)
"""Every label by which runs can be filtered: state, outcome, stop reason, overrun, accord."""


def exit_status(view: RunView) -> Status | None:
    """Return the exit status for a run, or None while it continues."""
    state = view.state
    if (accord := run_fold.undecided_accord(state)) is not None:
        return _ACCORD_STATUS[accord]
    if state.outcome is Outcome.OK:
        return Status.OK
    if state.outcome is None:
        if state.interrupted:
            return Status.INTERRUPTED
        return Status.WAITING if view.gates else None
    closed = session_end(view)
    over = run_fold.stop_reason(state) in _LIMIT_REASONS or (
        closed and closed.reason in _CAP_REASONS
    )
    return Status.OVER_BUDGET if over else Status.FAILED


def view_word(view: RunView) -> str:
    """Return the one word for the state of a run; a council may be split or blocked."""
    return describe_run_word(view.state, waits=bool(view.gates))


def council_end(view: RunView) -> CouncilCloseFacts | None:
    """Return how a council ended, or None."""
    facts = (note.facts for note in view.notes)
    return next((closed for closed in facts if isinstance(closed, CouncilCloseFacts)), None)


def undecided_headline(view: RunView) -> str:
    """Return the line that stands above an answer that is not a decision; "" if it is one."""
    closed, status = council_end(view), exit_status(view)
    if closed is None or status not in (Status.SPLIT, Status.BLOCKED):
        return ""
    if status is Status.SPLIT:
        return "Split: no answer has a majority of the seats. The one with the most weight is:"
    objections = pluralize(closed.blockers, "objection")
    return f"Blocked: {objections} must be answered before this is a decision. The answer would be:"


def answer_with_headline(view: RunView) -> bytes | None:
    """Return the answer of a run, below a headline if it is not a decision; None without one."""
    headline = undecided_headline(view)
    if not headline or view.answer is None:
        return view.answer
    return f"{headline}\n\n".encode() + view.answer


def session_end(view: RunView) -> SymposiumClose | None:
    """Return how a symposium ended, or None."""
    facts = (note.facts for note in view.notes)
    return next((closed for closed in facts if isinstance(closed, SymposiumClose)), None)


def note_body(note: SessionNote, name: str) -> bytes:
    """Return a body of a note; empty if it was erased."""
    return next((body.data for body in note.bodies if body.name == name), b"")


def describe_stop(stopped: kinds.StopFacts) -> str:
    """Describe why something was stopped."""
    if stopped.reason is kinds.StopReason.DEADLINE:
        return f"out of time after {stopped.cap / 1000:g} s"
    if stopped.reason is kinds.StopReason.BUDGET:
        shared = read_limit_name(stopped.limit)
        limit = shared[0] if shared else stopped.limit
        more, used, cap = (
            _format_limit(limit, number) for number in (stopped.asked, stopped.used, stopped.cap)
        )
        whose = f" per {shared[1]} for {shared[2]}" if shared else ""
        return f"budget: {more} more was needed, and {used} of {cap}{whose} was used"
    return _STOP_DESCRIPTIONS[stopped.reason].format(used=stopped.used, cap=stopped.cap)


def describe_stop_entry(entry: Entry[kinds.StopFacts]) -> str:
    """Describe why something was stopped, as the entry of the stop tells it."""
    if not is_overrun_stop(entry):
        return describe_stop(entry.facts)
    billed = _format_limit(entry.facts.limit, entry.facts.asked) if entry.facts.asked else "more"
    more = ", more" if entry.facts.asked else ""
    return f"overrun: the provider billed {billed} for a call{more} than its bound"


def describe_overrun(state: run_fold.Run) -> str:
    """Say what a provider billed above a bound, and what to do; "" if none did."""
    for span_id in find_overruns(state):
        span = state.report.spans[span_id]
        if span.begun is None or span.ended is None:
            continue
        unit = find_overrun(span.begun.reserved, span.ended.spent, ("usd", "tokens")) or "usd"
        billed, bound = (
            _format_limit(unit, getattr(amount, unit))
            for amount in (span.ended.spent, span.begun.reserved)
        )
        return OVERRUN_TEXT.format(billed=billed, bound=bound)
    return ""


def _format_limit(limit: str, number: int) -> str:
    return (
        f"${format_usd(number)}" if limit == "usd" else pluralize(number, limit.removesuffix("s"))
    )


def explain_run_state(view: RunView) -> str:
    """Describe why a run failed or what it waits for; "" otherwise."""
    state, closed = view.state, session_end(view)
    if state.interrupted and state.outcome is None:
        return f"interrupted; go on with: forum resume {short_id(view.run)}"
    if state.stopped is not None:
        return describe_overrun(state) or _describe_run_stop(view, state.stopped)
    if closed is not None:
        return _TERMINATION_DESCRIPTIONS.get(closed.reason, "")
    if state.outcome is None:
        waiting = ", ".join(gate.opened.subject for _, gate in view.gates)
        return f"waits for approval: {waiting}" if waiting else ""
    if any(
        isinstance(note.facts, CouncilCloseFacts) and note.facts.end is End.SILENT
        for note in view.notes
    ):
        reasons = dict.fromkeys(explain_task_state(view, turn) for turn in panel_turns(state))
        return f"nobody cast a ballot: {', '.join(filter(None, reasons))}"
    failed = [name for name in work_tasks(state) if state.task(name).state in _FAILED_STATES]
    undecided = _UNDECIDED.get(exit_status(view), "")
    if failed and undecided:
        failed = [name for name in failed if run_fold.is_undecided_task(state.task(name))]
        undecided = f": {undecided}"
    return f"{', '.join(failed)} did not pass{undecided}" if failed else undecided


def describe_compaction(facts: kinds.CompactionFacts) -> str:
    """Describe what the prompts of an attempt no longer show, and what stands in its place."""
    count = pluralize(facts.rounds, "reply")
    article = "a" if facts.method is kinds.CompactionMethod.SUMMARY else "an"
    return (
        f"{article} {facts.method.value} stands for the first {count} with the results of their "
        f"tool calls; about {facts.tokens_after} tokens in place of {facts.tokens_before}"
    )


def describe_compactions(state: run_fold.Run) -> str:
    """Return which tasks went on with a compacted conversation; "" if none did."""
    counts = {task.id: len(task.compactions) for task in state.tasks.values() if task.compactions}
    listed = ", ".join(f"{name} ({pluralize(counts[name], 'time')})" for name in sorted(counts))
    if not counts:
        return ""
    return f"The conversation passed the context of its model, and was compacted: {listed}."


def explain_task_state(view: RunView, task: run_fold.TaskRun) -> str:
    """Describe the reason for a task's state; "" if it needs no explanation."""
    if task.skipped is not None:
        cause = task.skipped.cause
        return "the run was stopped" if cause == STOP_CAUSE else f"because {cause} did not pass"
    if task.stopped is not None:
        return describe_stop(task.stopped)
    if task.delegated is not None:
        why = _describe_inner_failure(view, task)
        reason = f": {why}" if why else _describe_accord(task)
        return f"in run {short_id(task.delegated.run)}{reason}"
    if task.state is run_fold.TaskState.WAITING:
        return f"for run {short_id(task.open_run)}" if task.open_run else "for approval"
    if task.state is run_fold.TaskState.PASSED or not task.verdicts:
        return ""
    return _describe_verdict(view, task)


def _describe_accord(task: run_fold.TaskRun) -> str:
    """Describe how far the panel of a task agreed, and what followed; "" if it need not be said."""
    if task.accord is None:
        return ""
    accord = task.accord.accord
    if task.state is run_fold.TaskState.WAITING:
        return f": {_ACCORDS[accord]}; a person decides"
    overruled = task.verdict is not None and task.verdict.reason == accord
    if overruled and task.state is run_fold.TaskState.PASSED:
        return f": {_ACCORDS[accord]}; a person accepted the answer"
    return f": {_ACCORDS[accord]}"


_ACCORDS = {
    Accord.AGREED: "the panel agreed",
    Accord.MAJORITY: "the panel decided, with a dissent",
    Accord.SPLIT: "the panel is split",
    Accord.BLOCKED: "the panel is blocked",
}


def _describe_inner_failure(view: RunView, task: run_fold.TaskRun) -> str:
    """Describe why the inner run of a task was stopped or failed; "" if it did not."""
    if not run_fold.has_failed_inner_run(task):
        return ""
    if run_fold.inner_stop_reason(task) is None:
        return _last_line(view.errors.get(task.id, "")) or "that run gave no answer"
    # The facts of its stop are in the task's reply.
    try:
        return describe_stop(_stopped.decode(view.errors.get(task.id, "")))
    except (msgspec.MsgspecError, UnicodeError):  # erased, or written by an earlier release
        return f"it was stopped: {run_fold.inner_stop_reason(task)}"


def _describe_verdict(view: RunView, task: run_fold.TaskRun) -> str:
    """Describe what was wrong with the last attempt that was judged."""
    inner = _describe_inner_failure(view, task)
    if inner:
        return inner
    call, verdict = task.result, task.verdicts[-1]
    facts = [verdict.reason]
    if verdict.check is Check.FORM:
        is_turn = task.id.startswith(kinds.TURN_PREFIX)
        facts = ["no reply in the form that was asked for" if is_turn else _FORMLESS]
    if call is not None and call.replied is not None and call.replied.outcome is not Outcome.OK:
        facts = [call.replied.code or call.replied.why.value or verdict.reason]
    error = _last_line(view.errors.get(task.id, ""))
    return ": ".join([*facts, *([error] if error else [])])


def _describe_run_stop(view: RunView, stopped: kinds.StopFacts) -> str:
    """Describe why a run was stopped, and at which task."""
    role = view.state.tasks.get(stopped.by)
    if stopped.reason is kinds.StopReason.ROLE and role is not None and role.verdicts:
        return f"the {stopped.by.removeprefix(kinds.ROLE_PREFIX)} failed: " + _describe_verdict(
            view, role
        )
    at = f" (at {turn_name(stopped.by)})" if stopped.by else ""
    return f"{describe_stop(stopped)}{at}"


def _last_line(error: str) -> str:
    """Return the last line of an error message; JSON is joined to one line instead."""
    is_json = error.startswith(("{", "[")) and error.endswith(("}", "]"))
    return " ".join(error.split()) if is_json else error.rsplit("\n", maxsplit=1)[-1]


_FORMLESS = "its reply was not the JSON that was asked for"
_REJECTIONS = {
    "empty": "the reply is empty",
    "not-contained": "the reply does not contain what was demanded",
    "no-match": "the reply does not match the pattern",
    "not-json": "the reply is not JSON",
    "schema": "the reply does not fit the JSON schema",
    "tests-failed": "tests failed",
    "no-tests": "no test was run",
    "other-digest": "the file has another content",
    "not-accepted": "the judge did not accept it",
    Accord.SPLIT.value: _UNDECIDED[Status.SPLIT],
    Accord.BLOCKED.value: _UNDECIDED[Status.BLOCKED],
    Accord.MAJORITY.value: "the council has a majority only, and has to agree",
    "no-accord": "nobody knows how far the panel agreed",
    "form": _FORMLESS,
    "failed": "the call failed",
    "denied": "the call was refused",
    "timeout": "the call took too long",
    "cancelled": "the call was cancelled",
    "indeterminate": "nobody knows whether the call was answered",
}


def describe_rejection(verdict: kinds.VerdictFacts, demand: str = "") -> str:
    """Describe why an attempt was rejected, and by which criterion."""
    why = _REJECTIONS.get(verdict.reason, verdict.reason or "it did not pass")
    return f"{why} ({demand})" if demand else why


def rejected_demand(view: RunView, task: str, verdict: kinds.VerdictFacts) -> str:
    """Return the line of `done_when` that rejected an attempt, or ""."""
    if view.plan is None or task not in view.plan.by_id:
        return ""
    demands = parse_criteria(view.plan.by_id[task].done_when)
    line = next((demand for demand in demands if demand.check is verdict.check), None)
    if line is None or verdict.check is Check.OUTCOME:
        return ""
    return first_line(line.what if line.check is Check.MODEL else f"{line.check} {line.what}", 80)


_MAX_QUOTED = 300


def explain_failure(view: RunView) -> str:
    """Explain in one sentence why a run failed, with its last reply; "" if it did not fail."""
    state = view.state
    if state.outcome in (None, Outcome.OK):
        return ""
    if state.is_reported and state.stopped is None:
        failure = strip_control_characters(explain_reported_failure(view))
        return f"It failed: {failure.rstrip('.')}."
    names = [*work_tasks(state), *(task.id for task in panel_turns(state)), *state.tasks]
    failed = [name for name in names if state.task(name).state in _FAILED_STATES]
    blamed = state.stopped.by if state.stopped and state.stopped.by in state.tasks else ""
    task = state.task(blamed or failed[0]) if blamed or failed else None
    rejected = _explain_rejected_answer(view)
    if state.stopped is not None or session_end(view) is not None:
        why = explain_run_state(view) or "no answer came about"
    elif rejected and not any(name in failed for name in work_tasks(state)):
        # A role that failed on the way, such as the Classifier, does not fail a run.
        return f"It failed: {strip_control_characters(rejected).rstrip('.')}."
    elif task is None:
        why = explain_run_state(view) or "no answer came about"
    else:
        why = _explain_task_failure(view, task)
    words = view.replies.get(task.id, "") if task else next(iter(view.replies.values()), "")
    quoted = first_line(words, _MAX_QUOTED)
    last = f'; the last reply was "{quoted}"' if quoted else ""
    return f"It failed: {strip_control_characters(why).rstrip('.')}{last}."


def _explain_rejected_answer(view: RunView) -> str:
    """Return which check of the answer failed, and what was found; "" if none did."""
    for leaf, check in view.state.checks:
        if check.outcome is Outcome.FAILED and check.check is not Check.KEPT:
            detail = first_line(view.check_details.get(leaf.hex(), "") or check.reason, _MAX_QUOTED)
            return f"the answer did not pass the check {check.subject!r}: {detail}"
    return ""


def _explain_task_failure(view: RunView, task: run_fold.TaskRun) -> str:
    tries = f"after {pluralize(task.attempts, 'attempt')}"
    verdict, call = task.verdict, task.result
    if verdict is None:
        reason = explain_task_state(view, task) or "it was stopped"
        return f"{turn_name(task.id)} did not pass: {reason}"
    if call is not None and call.replied is not None and call.replied.outcome is not Outcome.OK:
        why = " ".join(_describe_verdict(view, task).split())
    else:
        why = describe_rejection(verdict, rejected_demand(view, task.id, verdict))
        opinion = view.opinions.get((task.id, verdict.attempt))
        if opinion and opinion.reason:
            why = f"{why}: {first_line(opinion.reason, _MAX_QUOTED)}"
    return f"{turn_name(task.id)} was given up {tries}, because {why}"


def task_duration(task: run_fold.TaskRun, at: int) -> int:
    """Return the duration of a task since its first call, in microseconds."""
    if not task.calls:
        return 0
    ended = at if task.calls[-1].replied is None else task.calls[-1].ended
    return max(0, ended - task.calls[0].begun)


def run_duration(view: RunView) -> int:
    """Return the duration of a run in microseconds."""
    return max(0, (view.state.ended or view.at) - view.state.begun)


def last_agent_name(task: run_fold.TaskRun) -> str:
    """Return the agent that last worked on a task, ignoring its judges."""
    own = own_calls(task)
    if not own:
        return ""
    called = own[-1].called
    names = dict.fromkeys(name for name in (called.agent, called.model) if name)
    return strip_control_characters("/".join(names))


def work_tasks(state: run_fold.Run) -> list[str]:
    """Return the ids of the work tasks, without role tasks and turns of seats."""
    return [
        name for name in state.tasks if not name.startswith((kinds.ROLE_PREFIX, kinds.TURN_PREFIX))
    ]


def panel_turns(state: run_fold.Run) -> list[run_fold.TaskRun]:
    """Return the turns of a panel, sorted by round and seat."""
    turns = [state.task(name) for name in state.tasks if name.startswith(kinds.TURN_PREFIX)]
    return sorted(turns, key=lambda turn: _turn_sort_key(turn.id))


def _turn_sort_key(turn: str) -> tuple[str, list[int]]:
    what, *numbers = turn.split(".")
    return what, [int(number) if number.isdecimal() else 0 for number in numbers]


def turn_name(task: str) -> str:
    """Return the display name of a turn; other tasks keep their id."""
    if not task.startswith(kinds.TURN_PREFIX):
        return task
    turn = task.removeprefix(kinds.TURN_PREFIX)
    place = parse_ballot_turn(turn)
    return f"seat {place.seat}, round {place.round}" if place else turn.replace(".", " ")


def ballot_turn(task: run_fold.TaskRun) -> TurnId | None:
    """Return the round and seat of a ballot's task; None for other tasks."""
    return (
        parse_ballot_turn(task.id.removeprefix(kinds.TURN_PREFIX))
        if task.id.startswith(kinds.TURN_PREFIX)
        else None
    )


def count_taken_turns(turns: Sequence[run_fold.TaskRun]) -> int:
    """Count the turns that were completed, not those that were stopped or never started."""
    return sum(turn.state in _TAKEN_STATES for turn in turns)


def describe_turns(turns: Sequence[run_fold.TaskRun]) -> str:
    """Describe the progress of a deliberation; for a council, the number of sealed ballots."""
    ballots = [(place.round, turn) for turn in turns if (place := ballot_turn(turn))]
    if not ballots:
        return f"{count_taken_turns(turns):,} of {pluralize(len(turns), 'turn')} taken"
    last = max(number for number, _ in ballots)
    now = [turn for number, turn in ballots if number == last]
    sealed = sum(turn.state is run_fold.TaskState.PASSED for turn in now)
    return f"round {last}, {sealed} of {pluralize(len(now), 'ballot')} sealed"


def own_calls(task: run_fold.TaskRun) -> list[run_fold.CallRecord]:
    """Return the calls of a task made for its own work; for a role task, all calls."""
    if task.id.startswith(kinds.ROLE_PREFIX):
        return list(task.calls)
    return [call for call in task.calls if not call.called.role]


def count_passed_tasks(state: run_fold.Run) -> int:
    """Count the tasks of a run that have passed."""
    return sum(
        1 for name in work_tasks(state) if state.task(name).state is run_fold.TaskState.PASSED
    )


def count_progress(state: run_fold.Run) -> tuple[int, int]:
    """Return the numbers of passed and of all tasks; for a deliberation, of turns."""
    if turns := panel_turns(state):
        return sum(turn.state is run_fold.TaskState.PASSED for turn in turns), len(turns)
    return count_passed_tasks(state), state.planned


def count_lost_calls(task: run_fold.TaskRun) -> int:
    """Count the calls whose replies were lost because a worker died."""
    return sum(1 for call in task.calls if call.replied and call.replied.why is kinds.Why.LOST)


class RoleSummary(Struct, frozen=True):
    """What a role has done in a run."""

    role: str
    who: str
    state: run_fold.TaskState | None
    """None of one that is asked within tasks."""
    spent: Amount


def summarize_roles(state: run_fold.Run) -> list[RoleSummary]:
    """Return what the roles did, in the order in which they began."""
    summaries = [
        RoleSummary(
            name.removeprefix(kinds.ROLE_PREFIX), last_agent_name(task), task.state, task.spent
        )
        for name, task in state.tasks.items()
        if name.startswith(kinds.ROLE_PREFIX)
    ]
    by_role: dict[tuple[str, str], list[run_fold.CallRecord]] = {}
    for name in work_tasks(state):
        for call in state.tasks[name].calls:
            if call.called.role:
                names = dict.fromkeys(n for n in (call.called.agent, call.called.model) if n)
                by_role.setdefault(
                    (call.called.role, strip_control_characters("/".join(names))), []
                ).append(call)
    summaries += [
        RoleSummary(role, name, None, run_fold.sum_amounts(call.spent for call in calls))
        for (role, name), calls in by_role.items()
    ]
    return summaries


class RunCare(Struct, frozen=True):
    """How much care a run was given: whether a model planned it, and whether it was judged."""

    planned: bool
    judged: bool


def run_care(state: run_fold.Run) -> RunCare:
    """Return whether a Coordinator planned a run, and whether models or verifiers judged it."""
    roles = {summary.role.partition(".")[0] for summary in summarize_roles(state)}
    return RunCare("coordinator" in roles, bool(roles & {"validator", "intent", "verifier"}))


def describe_care(view: RunView) -> str:
    """Return whether a run was planned and judged, in words; nothing of panels and reported runs.

    A run that ended without either names the option that has both.
    """
    state, care = view.state, run_care(view.state)
    if state.accepted is None or panel_turns(state):
        return ""
    tasks = "one task" if state.planned == 1 else pluralize(state.planned, "task")
    planned = f"{tasks}, planned by a model" if care.planned else tasks
    judged = "judged" if care.judged else "not judged"
    if view.declined_team:
        return f"{planned}, {judged}; {describe_declined_team(view)}"
    advice = "" if care.planned or care.judged or state.planned > 1 else "; --team plans and judges"
    return f"{planned}, {judged}{advice}"


def describe_declined_team(view: RunView) -> str:
    """Return that a team was asked for, and which models are too small for one; else nothing."""
    models = strip_control_characters(", ".join(view.declined_team))
    return f"no team: {models} gains nothing from one" if models else ""


class TaskTreeNode(Struct, frozen=True):
    """A task in the tree: under the last one that it waits for."""

    id: str
    branch: str
    """What is drawn before it."""
    below: str
    """What is drawn under it."""
    others: tuple[str, ...] = ()
    """What else it waits for."""


def build_task_tree(plan: Plan | None, state: run_fold.Run) -> list[TaskTreeNode]:
    """Return the tasks in display order."""
    if plan is None:
        return [TaskTreeNode(name, "", "") for name in work_tasks(state)]
    place = {task.id: number for number, task in enumerate(plan.tasks)}
    under: dict[str | None, list[str]] = {}
    for task in plan.tasks:
        last = max(task.upstream, key=lambda name: place[name], default=None)
        under.setdefault(last, []).append(task.id)
    nodes: list[TaskTreeNode] = []
    left = [(name, "", "", 0) for name in reversed(under.get(None, []))]
    while left:
        name, branch, below, level = left.pop()
        upstream = plan.by_id[name].upstream
        last = max(upstream, key=lambda task_id: place[task_id], default=None)
        nodes.append(TaskTreeNode(name, branch, below, tuple(n for n in upstream if n != last)))
        children = under.get(name, [])
        for number, child in reversed(list(enumerate(children))):
            is_last = number == len(children) - 1
            # Indentation is limited so that a deep tree fits on a screen.
            stem = below if level < _MAX_TREE_DEPTH else below[:-3]
            fork, line = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            left.append((child, stem + fork, stem + line, level + 1))
    return nodes


def format_facts(located: LocatedEntry) -> str:
    """Return the facts of an entry on one line; money is in dollars, and long values are cut."""
    facts = msgspec.json.decode(located.data)["facts"]
    money = {"asked", "used", "cap"} if facts.get("limit") == "usd" else set()
    money |= {name for name in facts if name == "usd" or name.endswith("_usd")}
    return " ".join(
        f"{name}=${format_usd(value)}"
        if name in money and isinstance(value, int)
        else f"{name}={_shorten_value(value)}"
        for name, value in facts.items()
    )


def _shorten_value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 24 else f"{text[:21]}..."
