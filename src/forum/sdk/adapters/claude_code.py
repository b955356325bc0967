"""Claude Code: what its hooks tell `forum hook`, one process for each event.

A session is a run, `claude-SESSION`.  `PreToolUse` is recorded before the tool is used, and may
deny it; `PostToolUse` records the result.  Model calls are not told to hooks.
"""

from enum import StrEnum
from hashlib import sha256
from time import monotonic, sleep
from typing import Any

import msgspec

from forum import errors
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT
from forum.sdk.report_items import GateQuestion, RunEnd, RunStart, StepBegin, StepReport
from forum.sdk.report_writer import OpenRun, ReportWriter
from forum.sdk.values import encode_value
from forum.work.gate_rules import GateRule, rule_for_use
from forum.work.policy import Answer
from forum.work.report_kinds import SESSION_RUN_PREFIX, Operation

FRAMEWORK = "claude-code"
_MAX_CONTINUATIONS = 1000
_GATE_POLL_S = 0.5
_GATE_MILLISECONDS = 86_400_000


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
    """What Claude Code writes to a hook's standard input; unknown members are ignored."""

    session_id: str
    hook_event_name: str
    tool_name: str = ""
    tool_input: Any = None
    tool_response: Any = None
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


def parse_event(data: bytes) -> HookEvent:
    """Return the event of a hook.  Raises `Malformed`."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise errors.Malformed("hook event", str(error)) from None


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
            span = sha256(f"{event.session_id}/{event.prompt}".encode()).hexdigest()[:16]
            prompt = msgspec.Raw(encode_value(event.prompt).raw)
            step = StepReport(
                run=run.run,
                span=span,
                op=Operation.STEP,
                name="prompt",
                outcome=Outcome.OK,
                input=prompt,
            )
            writer.record_steps([(run, step)])
        case HookName.SESSION_END:
            # Every event waited for its commit, so nothing was dropped.
            writer.end_run(RunEnd(run=run.run, name=FRAMEWORK, outcome=Outcome.OK, handed_in=0))
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


def _open_session(session: str, writer: ReportWriter, rules: HookRules) -> OpenRun:
    """Return the open run of a session; one that was resumed continues a closed run."""
    first = f"{SESSION_RUN_PREFIX}{_label(session)}"
    before = ""
    for number in range(1, _MAX_CONTINUATIONS):
        name = first if number == 1 else f"{first}.{number}"
        start = RunStart(
            run=name,
            name=FRAMEWORK,
            framework=FRAMEWORK,
            continues=before,
            calls=NO_LIMIT if rules.max_calls is None else rules.max_calls,
        )
        try:
            return writer.open_run(start)
        except errors.ReportRefused:
            before = name
    raise errors.ReportRefused(first, "the session was continued too often")


def _before_tool(event: HookEvent, run: OpenRun, writer: ReportWriter, rules: HookRules) -> str:
    arguments = encode_value(event.tool_input)
    span = _span_of(event)
    begin = StepBegin(
        run=run.run,
        span=span,
        op=Operation.TOOL,
        name=event.tool_name,
        calls=1 if run.is_capped else 0,
        input=msgspec.Raw(arguments.raw),
        cut=arguments.cut,
    )
    why = _ask_approval(event, run, writer, rules)
    if not why:
        try:
            writer.begin_step(run, begin)
        except errors.BudgetExceeded as error:
            why = str(error)
        except errors.ReportRefused:
            return ""  # the same use was announced before: Claude Code asks its hooks again
    if why:
        step = StepReport(
            run=run.run,
            span=span,
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


def _ask_approval(event: HookEvent, run: OpenRun, writer: ReportWriter, rules: HookRules) -> str:
    """Return why a tool is not approved; empty if it needs no approval, or has it."""
    text = encode_value(event.tool_input).raw.decode()
    rule = rule_for_use(rules.gate_rules, event.tool_name, "", text)
    if rule is None:
        return ""
    # The same use is the same gate, so that an approval holds when the agent tries again.
    subject = f"use-{sha256(f'{event.tool_name}/{text}'.encode()).hexdigest()[:12]}"
    question = GateQuestion(
        run=run.run,
        subject=subject,
        shown=f"{event.tool_name} {text}",
        milliseconds=_GATE_MILLISECONDS,
    )
    deadline = monotonic() + rules.wait_seconds
    while (answer := writer.ask_gate(run, question)) is None and monotonic() < deadline:
        sleep(_GATE_POLL_S)
    if answer is Answer.APPROVE:
        return ""
    if answer is Answer.REJECT:
        return f"{event.tool_name} was rejected ([gates.{rule.name}])"
    return (
        f"{event.tool_name} needs approval ([gates.{rule.name}]): forum gate approve {run.run} "
        f"{subject}, then try again"
    )


def _after_tool(event: HookEvent, run: OpenRun, writer: ReportWriter, outcome: Outcome) -> None:
    result = encode_value(event.tool_response)
    span = _span_of(event)
    step = StepReport(
        run=run.run,
        span=span,
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
        alone = msgspec.structs.replace(
            step, begun=False, input=msgspec.Raw(encode_value(event.tool_input).raw)
        )
        writer.record_steps([(run, alone)])


def _span_of(event: HookEvent) -> str:
    """Return the span of a tool use; older versions do not name it."""
    if event.tool_use_id:
        return _label(event.tool_use_id)
    named = encode_value([event.tool_name, event.tool_input]).raw
    return sha256(named).hexdigest()[:16]


def _label(text: str) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
    return plain[:50] or "none"


_decoder = msgspec.json.Decoder(HookEvent)
