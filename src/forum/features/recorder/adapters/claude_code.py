"""Claude Code: what its hooks tell `forum hook`, one process for each event.

A session is a run, `claude-SESSION`.  `PreToolUse` is recorded before the tool is used, and may
deny it; `PostToolUse` records the result.  Model calls are not told to hooks.

Names of spans and gates stay when bodies are erased, so none of them follows from a prompt or from
arguments: a use without an id is found again by comparing bodies.
"""

import os
from enum import StrEnum
from hashlib import sha256
from time import monotonic, sleep

import msgspec

from forum import errors
from forum.features.recorder import report_items
from forum.features.recorder.report_writer import ReportWriter
from forum.features.recorder.sinks import find_relayed_run
from forum.features.recorder.values import encode_value
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT
from forum.runs.gate_rules import GateRule, rule_for_use, sums_for_use
from forum.runs.policy import Answer
from forum.runs.report_drafts import MAX_BODY_BYTES
from forum.runs.report_kinds import SESSION_RUN_PREFIX, Operation
from forum.runs.reported_run import ReportedRunWriter
from forum.runs.strict_json import fold_tool_name, measure_depth, parse_strictly

FRAMEWORK = "claude-code"
_MAX_CONTINUATIONS = 1000
_GATE_POLL_S = 0.5
_GATE_MILLISECONDS = 86_400_000
_MAX_DEPTH = 100
_MAX_LABEL_CHARS = 50
_NOTHING = msgspec.Raw(b"null")


class HookName(StrEnum):
    """The events that are recorded."""

    SESSION_START = "SessionStart"
    PROMPT = "UserPromptSubmit"
    BEFORE_TOOL = "PreToolUse"
    AFTER_TOOL = "PostToolUse"
    TOOL_FAILED = "PostToolUseFailure"
    SUBAGENT_STOP = "SubagentStop"
    STOP = "Stop"
    SESSION_END = "SessionEnd"


class HookEvent(msgspec.Struct, frozen=True):
    """What Claude Code writes to a hook's standard input; unknown members are ignored.

    Arguments and results are kept as they were written: what is compared with the rules, shown and
    recorded is what the tool gets.
    """

    session_id: str
    hook_event_name: str
    tool_name: str = ""
    tool_input: msgspec.Raw = _NOTHING
    tool_response: msgspec.Raw = _NOTHING
    tool_use_id: str = ""
    prompt: str = ""
    error: str = ""


class HookRules(msgspec.Struct, frozen=True):
    """What a hook may refuse."""

    gate_rules: tuple[GateRule, ...] = ()
    max_calls: int | None = None
    """How many tools a session may use."""
    wait_seconds: float = 0.0
    """How long a tool that needs approval waits for it."""

    @property
    def folded(self) -> tuple[GateRule, ...]:
        """The gate rules, with tools in the form that is compared."""
        rules = self.gate_rules
        return tuple(msgspec.structs.replace(r, tool=fold_tool_name(r.tool)) for r in rules)


def parse_event(data: bytes) -> HookEvent:
    """Return the event of a hook.  Raises `Malformed`, also if it has two readings."""
    try:
        depth, event = measure_depth(parse_strictly(data)), _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise errors.Malformed("hook event", str(error)) from None
    except RecursionError:
        depth = _MAX_DEPTH + 1
    if depth > _MAX_DEPTH:
        raise errors.Malformed("hook event", f"it is nested deeper than {_MAX_DEPTH} levels")
    return event


def handle_event(event: HookEvent, writer: ReportWriter, rules: HookRules) -> str:
    """Record an event; return why a tool must not be used, or an empty text."""
    run = _open_session(event.session_id, writer, rules)
    match event.hook_event_name:
        case HookName.BEFORE_TOOL:
            return _before_tool(event, run, writer, rules)
        case HookName.AFTER_TOOL:
            _after_tool(event, run, writer, Outcome.OK)
        case HookName.TOOL_FAILED:
            _after_tool(event, run, writer, Outcome.FAILED)
        case HookName.PROMPT:
            prompt = msgspec.Raw(encode_value(event.prompt).raw)
            step = report_items.StepReport(
                run=run.run,
                span=_random_name("prompt"),
                op=Operation.STEP,
                name="prompt",
                outcome=Outcome.OK,
                input=prompt,
            )
            writer.record_steps([(run, step)])
        case HookName.SESSION_END:
            # Every event waited for its commit, so nothing was dropped.
            writer.end_run(
                report_items.RunEnd(run=run.run, name=FRAMEWORK, outcome=Outcome.OK, handed_in=0)
            )
        case _:
            pass  # other events open the run, and no more
    return ""


def deny_tool(why: str) -> bytes:
    """Return what a hook prints so that Claude Code does not use the tool."""
    return msgspec.json.encode(
        {
            "hookSpecificOutput": {
                "hookEventName": str(HookName.BEFORE_TOOL),
                "permissionDecision": "deny",
                "permissionDecisionReason": why,
            }
        }
    )


def _open_session(session: str, writer: ReportWriter, rules: HookRules) -> ReportedRunWriter:
    """Return the open run of a session; one that was resumed continues a closed run."""
    first = f"{SESSION_RUN_PREFIX}{_label(session)}"
    before = ""
    for number in range(1, _MAX_CONTINUATIONS):
        name = first if number == 1 else f"{first}.{number}"
        start = report_items.RunStart(
            run=name,
            name=FRAMEWORK,
            framework=FRAMEWORK,
            trace=find_relayed_run(),
            continues=before,
            calls=NO_LIMIT if rules.max_calls is None else rules.max_calls,
        )
        try:
            return writer.open_run(start)
        except errors.ReportRefused:
            before = name
    raise errors.ReportRefused(first, "the session was continued too often")


def _before_tool(
    event: HookEvent, run: ReportedRunWriter, writer: ReportWriter, rules: HookRules
) -> str:
    arguments = encode_value(event.tool_input)
    begin = report_items.StepBegin(
        run=run.run,
        span=_label(event.tool_use_id) if event.tool_use_id else _random_name("use"),
        op=Operation.TOOL,
        name=event.tool_name,
        calls=1 if run.is_capped else 0,
        input=msgspec.Raw(arguments.raw),
        cut=arguments.cut,
    )
    if writer.has_begun(run, begin):
        return ""  # Claude Code asks its hooks again about the same use
    why = ""
    try:
        if not _begin_within_sums(event, run, writer, rules, begin=begin):
            why = _ask_approval(event, run, writer, rules, span=begin.span)
            if not why:
                writer.begin_step(run, begin)
    except errors.BudgetExceeded as error:
        why = str(error)
    except errors.ReportRefused:
        # Another hook of the same event was faster.
        if not writer.has_begun(run, begin):
            raise
    if why:
        step = report_items.StepReport(
            run=run.run,
            span=begin.span,
            op=Operation.TOOL,
            name=event.tool_name,
            outcome=Outcome.DENIED,
            code="denied",
            input=begin.input,
            cut=begin.cut,
            error=msgspec.Raw(encode_value(why).raw),
        )
        writer.record_steps([(run, step)])
    return why


def _begin_within_sums(
    event: HookEvent,
    run: ReportedRunWriter,
    writer: ReportWriter,
    rules: HookRules,
    begin: report_items.StepBegin,
) -> bool:
    """Record that a tool is used without approval; return False if a rule may require one.

    What the use adds to the sums of rules is reserved in the same commit.
    """
    text, tool = bytes(event.tool_input).decode(), fold_tool_name(event.tool_name)
    if rule_for_use(rules.folded, tool, "", text) is not None:
        return False
    # Of the whole session, also after it was resumed.
    session = f"{SESSION_RUN_PREFIX}{_label(event.session_id)}"
    sums = sums_for_use(rules.folded, tool, "", text, run=session)
    # Once a person was asked, the person decides, even if the sum has room again.
    if sums and writer.gates_about(run, _shown_use(event)):
        return False
    try:
        writer.begin_within(run, begin, sums)
    except errors.CapReached:
        return False
    return True


def _shown_use(event: HookEvent) -> str:
    """Return what a person is shown of a use.

    The same use is the same text, so that an approval holds when the agent tries again.
    """
    return f"{event.tool_name} {bytes(event.tool_input).decode()}"


def _ask_approval(
    event: HookEvent, run: ReportedRunWriter, writer: ReportWriter, rules: HookRules, span: str
) -> str:
    """Return why a use that needs approval does not have it; empty if it has."""
    text, tool = bytes(event.tool_input).decode(), fold_tool_name(event.tool_name)
    by_sum = (rule for rule in rules.folded if rule.adds_up(tool, ""))
    rule = rule_for_use(rules.folded, tool, "", text) or next(by_sum)
    name = f"{event.tool_name} ([gates.{rule.name}])"
    if len(event.tool_input) > MAX_BODY_BYTES:
        return f"{name} needs approval, and its arguments are too long to be shown to a person"
    shown = _shown_use(event)
    # The gates of earlier uses that are equal; only if each approval is taken, a new one is opened.
    for subject in [*writer.gates_about(run, shown), _random_name("use")]:
        question = report_items.GateQuestion(
            run=run.run, subject=subject, shown=shown, milliseconds=_GATE_MILLISECONDS
        )
        deadline = monotonic() + rules.wait_seconds
        while (answer := writer.ask_gate(run, question)) is None and monotonic() < deadline:
            sleep(_GATE_POLL_S)
        if answer is None:
            command = f"forum gate approve {run.run} {subject}"
            return f"{name} needs approval: {command}, then try again"
        if answer is not Answer.APPROVE:
            return f"{name} was rejected"
        # A person has approved one use.
        if _take_approval(subject, span, run, writer):
            return ""
    return f"{name} needs approval: try again"


def _take_approval(subject: str, span: str, run: ReportedRunWriter, writer: ReportWriter) -> bool:
    """Record that a use takes an approval; return False if another has taken it before.

    After a crash before the use has begun, the approval is lost, and a person is asked again.
    """
    step = report_items.StepReport(
        run=run.run,
        span=subject,
        op=Operation.STEP,
        name="approval-taken",
        outcome=Outcome.OK,
        input=msgspec.Raw(encode_value(span).raw),
    )
    (is_new,) = writer.record_steps([(run, step)])
    return is_new


def _after_tool(
    event: HookEvent, run: ReportedRunWriter, writer: ReportWriter, outcome: Outcome
) -> None:
    result = encode_value(event.tool_response)
    arguments = msgspec.Raw(encode_value(event.tool_input).raw)
    step = report_items.StepReport(
        run=run.run,
        span=_label(event.tool_use_id)
        if event.tool_use_id
        else writer.find_open_step(run, Operation.TOOL, event.tool_name, arguments)
        or _random_name("use"),
        op=Operation.TOOL,
        name=event.tool_name,
        outcome=outcome,
        begun=True,
        output=msgspec.Raw(result.raw),
        cut=result.cut,
    )
    if event.error:
        step = msgspec.structs.replace(step, error=msgspec.Raw(encode_value(event.error).raw))
    try:
        writer.finish_step(run, step)
    except errors.ReportRefused:
        # The hook before the tool was not configured, or did not run.
        alone = msgspec.structs.replace(step, begun=False, input=arguments)
        writer.record_steps([(run, alone)])


def _random_name(prefix: str) -> str:
    return f"{prefix}-{os.urandom(8).hex()}"


def _label(text: str) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
    if plain == text and 0 < len(text) <= _MAX_LABEL_CHARS:
        return text
    # Two ids stay two.
    return f"{plain[:16]}-{sha256(text.encode(errors='replace')).hexdigest()[:32]}"


_decoder = msgspec.json.Decoder(HookEvent)
