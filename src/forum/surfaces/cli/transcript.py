"""A run as a transcript: prompts, replies, tool calls and verdicts, in the order of the log.

Whatever agents and users wrote is shown without characters by which a terminal can be steered.
"""

from collections.abc import Iterator

import click
import msgspec

from forum.app import RunView
from forum.ledger import Export, Facts, Join, Located, Outcome, RunOpen
from forum.surfaces.cli.output import width, wrapped
from forum.surfaces.cli.units import duration
from forum.surfaces.cli.words import words
from forum.surfaces.forms.transcripts import TranscriptForm, TranscriptStep
from forum.surfaces.telling import (
    SHORT,
    demand_of,
    iso,
    plain,
    plural,
    rejection_words,
    why_failed,
)
from forum.work import (
    Answered,
    Called,
    CancelAsked,
    Checked,
    ControlClosed,
    Happened,
    Intended,
    Judged,
    Next,
    Replied,
    RunRecord,
    Skipped,
    Stopped,
    Use,
    read_plan,
)

_SILENT: tuple[type[Facts], ...] = (RunOpen, Join, Export, ControlClosed)
"""Entries that hold the record together, and tell a reader nothing."""
_HIDDEN = frozenset({"policy", "schema", "offers", "evidence", "claims", "strands", "spent"})
"""Bodies for programs; `forum ledger get` prints them."""
_MOST_SHOWN = 20_000
"""How many characters of a text are printed."""
_MOST_TOLD = 1 << 20
"""How many characters of a text are in JSON."""

_uses = msgspec.json.Decoder(tuple[Use, ...])


def transcript_form(record: RunRecord, view: RunView) -> TranscriptForm:
    """Return a transcript in its form."""
    steps = tuple(_step_form(record, view, located) for located in _told(record))
    return TranscriptForm(record.run, steps, why_failed(view) or None)


def _step_form(record: RunRecord, view: RunView, located: Located) -> TranscriptStep:
    entry = located.entry
    bodies = {name: record.read(located, name) for name in entry.bodies if name not in _HIDDEN}
    return TranscriptStep(
        located.index,
        located.leaf.hex(),
        iso(entry.ts),
        entry.strand,
        entry.kind,
        entry.actor,
        _summary(view, located),
        {
            name: None if body is None else body.decode(errors="replace")[:_MOST_TOLD]
            for name, body in bodies.items()
        },
    )


def transcript_lines(record: RunRecord, view: RunView) -> Iterator[str]:
    """Yield a transcript line by line, and in the end why the run failed, if it did."""
    columns = width()
    for located in _told(record):
        yield from _head(view, located, columns)
        for name in located.entry.bodies:
            if name not in _HIDDEN:
                yield from _body(record, located, name, columns)
        yield ""
    why = why_failed(view)
    if why:
        yield from (click.style(line, fg="red") for line in wrapped(why, columns))


def _told(record: RunRecord) -> Iterator[Located]:
    return (one for one in record.entries if not isinstance(one.entry.facts, _SILENT))


def _summary(view: RunView, located: Located) -> str:
    """Say what an entry records; of a rejection also what was demanded."""
    facts, said = located.entry.facts, words(located)
    if isinstance(facts, Judged) and facts.next is not Next.ACCEPT:
        task = located.entry.strand.partition("/")[2]
        demand = demand_of(view, task, facts)
        return f"{said}; {rejection_words(facts, demand)}"
    return said


def _head(view: RunView, located: Located, columns: int) -> Iterator[str]:
    index = "#-" if located.index is None else f"#{located.index}"
    passed = duration(located.entry.ts - view.state.begun)
    lines = wrapped(_summary(view, located), columns - 16)
    color = _color(located)
    for number, line in enumerate(lines):
        lead = f"{index:<6} {passed:>7}  " if number == 0 else " " * 16
        yield f"{click.style(lead, dim=True)}{click.style(line, fg=color, bold=True)}"


def _color(located: Located) -> str | None:
    match located.entry.facts:
        case Called() | Intended():
            return "cyan"
        case Judged(next=following):
            return "green" if following is Next.ACCEPT else "red"
        case Replied() | Happened() | Checked() | Answered() as facts:
            return "green" if facts.outcome is Outcome.OK else "red"
        case Stopped() | Skipped() | CancelAsked():
            return "red"
        case _:
            return None


def _body(record: RunRecord, located: Located, name: str, columns: int) -> Iterator[str]:
    content = record.read(located, name)
    if content == b"":
        return
    yield click.style(f"  {_LABELS.get(name, name)}", dim=True)
    if content is None:
        yield "    (erased, or not in this bundle)"
        return
    text = _readable(name, content)
    for line in text[:_MOST_SHOWN].split("\n"):
        yield from wrapped(line, columns, "    ") or [""]
    if len(text) > _MOST_SHOWN:
        rest = plural(len(text) - _MOST_SHOWN, "more character")
        place = located.index if located.index is not None else located.leaf.hex()[:SHORT]
        yield click.style(f"    … {rest}: forum ledger get {place} {name}", dim=True)


_LABELS = {"output": "reply", "uses": "wants to use", "arguments": "with", "shown": "to approve"}


def _readable(name: str, content: bytes) -> str:
    """Return a body as text: plans and wishes for tools line by line."""
    if name == "plan":
        tasks = read_plan(content).all_tasks
        told = [f"{task.id}: {task.instruction}" for task in tasks]
        return plain("\n".join(told))
    if name == "uses":
        return plain("\n".join(f"{use.tool} {use.arguments}" for use in _uses.decode(content)))
    return plain(content.decode(errors="replace").replace("\r\n", "\n").expandtabs(4).strip("\n"))
