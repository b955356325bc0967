"""A run as a transcript: prompts, replies, tool calls and verdicts, in the order of the log.

Text from agents and users is printed without control characters, which could manipulate the
terminal.
"""

from collections.abc import Iterator

import msgspec

from forum.app import RunView, formatting
from forum.app.reported_runs import describe_provenance
from forum.ledger import kinds
from forum.ledger.entry import Facts
from forum.ledger.log import LocatedEntry
from forum.ledger.spans import MIN_SHARED_BYTES, common_prefix
from forum.runs import kinds as work_kinds
from forum.runs import report_kinds
from forum.runs.conversation.decoder import describe_attachment
from forum.runs.conversation.messages import ChatMessage, ChatRole, ModelExchange
from forum.runs.conversation.run_exchanges import describe_repetition, read_exchanges
from forum.runs.conversation.run_steps import ConversationStep, find_steps
from forum.runs.plan import read_plan
from forum.runs.policy import ToolCall
from forum.runs.report_kinds import Operation
from forum.runs.run_record import EntryBodies, RunRecord
from forum.surfaces.cli.console import style
from forum.surfaces.cli.explain import describe_entry
from forum.surfaces.cli.output import terminal_width, wrap_lines, wrap_text
from forum.surfaces.schemas.transcripts import TranscriptForm, TranscriptStep, exchange_forms
from forum.units import format_duration, format_rfc3339, format_usd

_OMITTED_FACTS: tuple[type[Facts], ...] = (
    kinds.RunOpenFacts,
    kinds.JoinFacts,
    kinds.ExportFacts,
    work_kinds.ControlCloseFacts,
)
"""Structural entries, which are of no interest to a reader."""
_OMITTED_BODIES = frozenset(
    {"policy", "schema", "offers", "evidence", "claims", "strands", "spent"}
)
"""Bodies for programs; `forum ledger get` prints them."""
_MAX_BODY_BYTES = 1 << 20
"""Maximum number of characters of a text in JSON."""

_uses = msgspec.json.Decoder(tuple[ToolCall, ...])


def transcript_form(record: RunRecord, view: RunView) -> TranscriptForm:
    """Return a transcript as its JSON form."""
    bodies = EntryBodies(record)
    steps = tuple(step_form(bodies, view, located) for located in _shown_entries(record))
    return TranscriptForm(
        run=record.run,
        steps=steps,
        why=formatting.explain_failure(view) or None,
        provenance=view.state.provenance,
        coverage=describe_provenance(view.state),
        exchanges=exchange_forms(record),
    )


def step_form(reader: EntryBodies, view: RunView, located: LocatedEntry) -> TranscriptStep:
    """Return an entry of a transcript as its JSON form."""
    entry = located.entry
    bodies = {
        name: reader.read(located, name) for name in entry.bodies if name not in _OMITTED_BODIES
    }
    return TranscriptStep(
        entry=located.index,
        id=located.leaf.hex(),
        at=format_rfc3339(entry.ts),
        strand=entry.strand,
        kind=entry.kind,
        actor=entry.actor,
        summary=_summarize_entry(view, located),
        bodies={
            # A body is None if it was erased, or if the bundle was exported without it.
            name: None if body is None else body.decode(errors="replace")[:_MAX_BODY_BYTES]
            for name, body in bodies.items()
        },
    )


def transcript_lines(record: RunRecord, view: RunView) -> Iterator[str]:
    """Yield a transcript line by line, followed by why the run failed, if it did."""
    columns = terminal_width()
    bodies = _ShownBodies(EntryBodies(record))
    yield style(f"known as {describe_provenance(view.state)}", dim=True)
    yield ""
    for block in transcript_blocks(record):
        if isinstance(block, LocatedEntry):
            yield from _format_heading(view, block, columns)
            for name in block.entry.bodies:
                if name not in _OMITTED_BODIES and name != "names":
                    yield from _format_body(bodies, block, name, columns)
        else:
            yield from _format_exchange(view, *block, columns)
        yield ""
    why = formatting.explain_failure(view)
    if why:
        yield from (style(line, fg="red") for line in wrap_lines(why, columns))


Block = LocatedEntry | tuple[ConversationStep, ModelExchange]


def transcript_blocks(record: RunRecord) -> Iterator[Block]:
    """Yield what a transcript shows: entries, and the steps of other programs as messages.

    Steps stand where their first entries stand, in the order in which they began: a program may
    report a step before the steps that led to it.  The last entry of a step is part of it.
    """
    steps = [
        step
        for step in find_steps(record.entries)
        if isinstance(step.first.entry.facts, _REPORTED_STEPS)
    ]
    firsts = {step.first.leaf for step in steps}
    lasts = {step.last.leaf for step in steps if step.last} - firsts
    exchanges = read_exchanges(record, steps)
    for located in _shown_entries(record):
        if located.leaf in firsts:
            yield next(exchanges)
        elif located.leaf not in lasts:
            yield located


_REPORTED_STEPS = (report_kinds.ReportBeginFacts, report_kinds.ReportStepFacts)


def message_lines(record: RunRecord, columns: int, most: int) -> list[str]:
    """Return the messages of a run that Forum does not drive, one line for each of the first."""
    steps = [step for step in find_steps(record.entries) if step.op is Operation.MODEL]
    lines: list[str] = []
    for step, model_exchange in read_exchanges(record, steps):
        for message in model_exchange.messages:
            if len(lines) == most:
                return [
                    *lines,
                    f"  more: forum show {formatting.short_id(record.run)} --transcript",
                ]
            text = formatting.first_line(" ".join(describe_message(message)), columns - 14)
            label = f"{label_message(step, message):<10}"
            lines.append(f"  {style(label, dim=True)} {text}")
    return lines


def label_message(step: ConversationStep, message: ChatMessage) -> str:
    """Return who says a message; an error is nobody's words, and says what became of the call."""
    if message.role is not ChatRole.ERROR:
        return message.role.value
    if step.outcome is kinds.Outcome.DENIED:
        return "refused:"
    return "error:" if step.outcome in (None, kinds.Outcome.OK) else "failed:"


def describe_step(step: ConversationStep, model_exchange: ModelExchange) -> str:
    """Return a step in one line: its model, outcome, time, cost and tokens."""
    if step.is_command:
        what = "program"
    elif step.op is Operation.MODEL:
        what = step.model or model_exchange.model or step.name
    else:
        what = f"{step.op} {step.name}"
    parts = [
        f"{step.outcome or 'open'}{f' ({step.code})' if step.code else ''}",
        format_duration(step.micros) if step.last else "",
        f"${format_usd(step.spent.usd)}" if step.spent.usd else "",
        f"{step.input_tokens:,} + {step.output_tokens:,} tokens" if step.spent.tokens else "",
        model_exchange.stop_reason if model_exchange.stop_reason not in _USUAL_STOPS else "",
    ]
    agent = f"{step.agent}: " if step.agent not in ("", what, step.name) else ""
    return f"{agent}{what}: {', '.join(filter(None, parts))}"


_USUAL_STOPS = frozenset({"", "stop", "end_turn", "tool_calls", "tool_use", "STOP"})
"""Reasons of which the messages say as much."""


def describe_message(message: ChatMessage) -> list[str]:
    """Return a message as texts: what is said, tool calls, results, attachments."""
    texts = [f"(reasoning) {message.reasoning}"] if message.reasoning else []
    texts += [message.text] if message.text else []
    texts += [f"calls {call.name} {call.arguments}" for call in message.calls]
    texts += [result.text for result in message.results]
    texts += [f"({describe_attachment(attachment)})" for attachment in message.attachments]
    return [*texts, f"({message.note})"] if message.note else texts


def _format_exchange(
    view: RunView, step: ConversationStep, model_exchange: ModelExchange, columns: int
) -> Iterator[str]:
    """Yield a step: a line about it, then what was sent and what came back as messages."""
    color = "cyan" if step.outcome is None else "green"
    color = color if step.outcome in (None, kinds.Outcome.OK) else "red"
    passed = step.started - view.state.begun
    yield from _heading_lines(
        step.located.index, passed, describe_step(step, model_exchange), columns, color=color
    )
    repeated = describe_repetition(model_exchange)
    if repeated:
        yield f"  ({repeated})"
    for message in model_exchange.request:
        label = label_message(step, message)
        yield from _format_message(label, message, step.first, "input", columns=columns)
    for message in model_exchange.reply:
        label = label_message(step, message)
        body = "error" if "error" in step.located.entry.bodies else "output"
        yield from _format_message(label, message, step.located, body, columns=columns)
    for located, name in ((step.first, "input"), (step.located, "output")):
        commitment = located.entry.bodies.get(name)
        shown = model_exchange.request if name == "input" else model_exchange.reply
        if commitment and commitment.size and not shown and not model_exchange.repeated:
            yield f"  ({label_body(name)}: erased, or not in this bundle)"


def _format_message(
    label: str, message: ChatMessage, located: LocatedEntry, body: str, columns: int
) -> Iterator[str]:
    place = located.index if located.index is not None else formatting.short_id(located.leaf.hex())
    rest = f"forum ledger get {place} --body {body}"
    role = f"  {label:<10} "
    for text in describe_message(message):
        clean = formatting.strip_control_characters(
            text.replace("\r\n", "\n").expandtabs(4).strip("\n")
        )
        for line in wrap_text(clean, columns, " " * len(role), rest):
            yield style(role, bold=True) + line[len(role) :] if role.strip() else line
            role = " " * len(role)


def _shown_entries(record: RunRecord) -> Iterator[LocatedEntry]:
    return (entry for entry in record.entries if not isinstance(entry.entry.facts, _OMITTED_FACTS))


def _summarize_entry(view: RunView, located: LocatedEntry) -> str:
    """Return the description of an entry; for a rejection, with the criterion that failed."""
    facts, text = located.entry.facts, describe_entry(located)
    if isinstance(facts, work_kinds.VerdictFacts) and facts.next is not work_kinds.Next.ACCEPT:
        task = located.entry.strand.partition("/")[2]
        demand = formatting.rejected_demand(view, task, facts)
        return f"{text}; {formatting.describe_rejection(facts, demand)}"
    return text


def _format_heading(view: RunView, located: LocatedEntry, columns: int) -> Iterator[str]:
    passed = located.entry.ts - view.state.begun
    summary = _summarize_entry(view, located)
    return _heading_lines(located.index, passed, summary, columns, color=_color(located))


def _heading_lines(
    index: int | None, passed: int, summary: str, columns: int, color: str | None
) -> Iterator[str]:
    place = "#-" if index is None else f"#{index}"
    for number, line in enumerate(wrap_lines(summary, columns - 16)):
        lead = f"{place:<6} {format_duration(passed):>7}  " if number == 0 else " " * 16
        yield f"{style(lead, dim=True)}{style(line, fg=color, bold=True)}"


def _color(located: LocatedEntry) -> str | None:
    match located.entry.facts:
        case work_kinds.CallFacts() | work_kinds.IntentFacts() | report_kinds.ReportBeginFacts():
            return "cyan"
        case work_kinds.VerdictFacts(next=following):
            return "green" if following is work_kinds.Next.ACCEPT else "red"
        case (
            work_kinds.ReplyFacts()
            | work_kinds.OutcomeFacts()
            | work_kinds.CheckFacts()
            | work_kinds.AnswerFacts()
            | report_kinds.ReportStepFacts() as facts
        ):
            return "green" if facts.outcome is kinds.Outcome.OK else "red"
        case (
            work_kinds.StopFacts()
            | work_kinds.SkipFacts()
            | work_kinds.CancelFacts()
            | report_kinds.ReportGapFacts()
        ):
            return "red"
        case _:
            return None


class _ShownBodies:
    """The bodies of entries that a transcript prints: a prompt mostly repeats the one before it."""

    def __init__(self, reader: EntryBodies) -> None:
        self._reader = reader
        self._last: dict[tuple[str, str], bytes] = {}

    def read(self, located: LocatedEntry, name: str) -> tuple[bytes | None, int]:
        """Return a body, and how many bytes at its beginning the last one of its strand has."""
        content = self._reader.read(located, name)
        if content is None:
            return None, 0
        place = located.entry.strand, name
        last = self._last.get(place, b"")
        self._last[place] = content
        repeated = common_prefix(content, last)
        if repeated < min(len(content), len(last)):
            # A line that is the same in part is shown whole.
            repeated = content.rfind(b"\n", 0, repeated) + 1
        return content, repeated if repeated >= MIN_SHARED_BYTES else 0


def _format_body(
    bodies: _ShownBodies, located: LocatedEntry, name: str, columns: int
) -> Iterator[str]:
    content, repeated = bodies.read(located, name)
    if content == b"":
        return
    yield style(f"  {label_body(name)}", dim=True)
    if content is None:
        yield "    (erased, or not in this bundle)"
        return
    if repeated and name not in _DECODED_BODIES:
        yield f"    (its first {repeated:,} bytes are as before)"
        content = content[repeated:]
    place = located.index if located.index is not None else formatting.short_id(located.leaf.hex())
    rest = f"forum ledger get {place} --body {name}"
    yield from wrap_text(format_body(name, content), columns, "    ", rest)


_DECODED_BODIES = frozenset({"plan", "uses"})
"""Bodies that are printed in another form than that in which they are recorded."""
_LABELS = {"output": "reply", "uses": "wants to use", "arguments": "with", "shown": "to approve"}


def label_body(name: str) -> str:
    """Return how readers are told what a body is."""
    return _LABELS.get(name, name)


def format_body(name: str, content: bytes) -> str:
    """Return a body as text; plans and tool calls line by line."""
    if name == "plan":
        tasks = read_plan(content).all_tasks
        lines = [f"{task.id}: {task.instruction}" for task in tasks]
        return formatting.strip_control_characters("\n".join(lines))
    if name == "uses":
        return formatting.strip_control_characters(
            "\n".join(f"{use.tool} {use.arguments}" for use in _uses.decode(content))
        )
    return formatting.strip_control_characters(
        content.decode(errors="replace").replace("\r\n", "\n").expandtabs(4).strip("\n")
    )
