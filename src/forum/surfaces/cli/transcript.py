"""A run as a transcript: prompts, replies, tool calls and verdicts, in the order of the log.

Text from agents and users is printed without control characters, which could manipulate the
terminal.
"""

from collections.abc import Iterator

import click
import msgspec

from forum.app import RunView
from forum.ledger import kinds
from forum.ledger.entry import Facts
from forum.ledger.log import LocatedEntry
from forum.surfaces.cli.explain import describe_entry
from forum.surfaces.cli.output import terminal_width, wrap_lines, wrap_text
from forum.surfaces.cli.units import format_duration
from forum.surfaces.formatting import (
    describe_rejection,
    explain_failure,
    format_rfc3339,
    rejected_demand,
    short_id,
    strip_control_characters,
)
from forum.surfaces.reported_runs import describe_provenance
from forum.surfaces.schemas.transcripts import TranscriptForm, TranscriptStep
from forum.work import kinds as work_kinds
from forum.work import report_kinds
from forum.work.plan import read_plan
from forum.work.policy import ToolCall
from forum.work.run_record import RunRecord

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
    steps = tuple(_step_form(record, view, located) for located in _shown_entries(record))
    return TranscriptForm(
        run=record.run,
        steps=steps,
        why=explain_failure(view) or None,
        provenance=view.state.provenance,
        coverage=describe_provenance(view.state),
    )


def _step_form(record: RunRecord, view: RunView, located: LocatedEntry) -> TranscriptStep:
    entry = located.entry
    bodies = {
        name: record.read(located, name) for name in entry.bodies if name not in _OMITTED_BODIES
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
    yield click.style(f"known as {describe_provenance(view.state)}", dim=True)
    yield ""
    for located in _shown_entries(record):
        yield from _format_heading(view, located, columns)
        for name in located.entry.bodies:
            if name not in _OMITTED_BODIES:
                yield from _format_body(record, located, name, columns)
        yield ""
    why = explain_failure(view)
    if why:
        yield from (click.style(line, fg="red") for line in wrap_lines(why, columns))


def _shown_entries(record: RunRecord) -> Iterator[LocatedEntry]:
    return (entry for entry in record.entries if not isinstance(entry.entry.facts, _OMITTED_FACTS))


def _summarize_entry(view: RunView, located: LocatedEntry) -> str:
    """Return the description of an entry; for a rejection, with the criterion that failed."""
    facts, text = located.entry.facts, describe_entry(located)
    if isinstance(facts, work_kinds.VerdictFacts) and facts.next is not work_kinds.Next.ACCEPT:
        task = located.entry.strand.partition("/")[2]
        demand = rejected_demand(view, task, facts)
        return f"{text}; {describe_rejection(facts, demand)}"
    return text


def _format_heading(view: RunView, located: LocatedEntry, columns: int) -> Iterator[str]:
    index = "#-" if located.index is None else f"#{located.index}"
    passed = format_duration(located.entry.ts - view.state.begun)
    lines = wrap_lines(_summarize_entry(view, located), columns - 16)
    color = _color(located)
    for number, line in enumerate(lines):
        lead = f"{index:<6} {passed:>7}  " if number == 0 else " " * 16
        yield f"{click.style(lead, dim=True)}{click.style(line, fg=color, bold=True)}"


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


def _format_body(
    record: RunRecord, located: LocatedEntry, name: str, columns: int
) -> Iterator[str]:
    content = record.read(located, name)
    if content == b"":
        return
    yield click.style(f"  {label_body(name)}", dim=True)
    if content is None:
        yield "    (erased, or not in this bundle)"
        return
    place = located.index if located.index is not None else short_id(located.leaf.hex())
    rest = f"forum ledger get {place} --body {name}"
    yield from wrap_text(format_body(name, content), columns, "    ", rest)


_LABELS = {"output": "reply", "uses": "wants to use", "arguments": "with", "shown": "to approve"}


def label_body(name: str) -> str:
    """Return how readers are told what a body is."""
    return _LABELS.get(name, name)


def format_body(name: str, content: bytes) -> str:
    """Return a body as text; plans and tool calls line by line."""
    if name == "plan":
        tasks = read_plan(content).all_tasks
        lines = [f"{task.id}: {task.instruction}" for task in tasks]
        return strip_control_characters("\n".join(lines))
    if name == "uses":
        return strip_control_characters(
            "\n".join(f"{use.tool} {use.arguments}" for use in _uses.decode(content))
        )
    return strip_control_characters(
        content.decode(errors="replace").replace("\r\n", "\n").expandtabs(4).strip("\n")
    )
