"""Renders the spans, gaps and notes of a run that Forum does not drive.

Names and errors come from other programs, and are printed without control characters.
"""

from forum import units
from forum.app import RunView
from forum.app.formatting import first_line, short_id
from forum.app.reported_runs import describe_gap, span_agent, span_name
from forum.ledger.kinds import Outcome
from forum.runs.report_fold import SpanRecord, SpanTreeNode, build_span_tree
from forum.runs.report_kinds import span_strand
from forum.surfaces.cli import output
from forum.surfaces.cli.console import style

_MAX_TREE_DEPTH = 7
_MAX_NAME = 40
_MAX_NOTES = 20
_HEADS = ("step        ", "op", "agent", "model", "tokens", "cost", "time", "outcome", "entry")
_NUMBERS = (4, 5, 6)
"""The columns with numbers, which are aligned to the right."""


def span_mark(span: SpanRecord) -> tuple[str, str | None]:
    """Return the mark and the color of a span."""
    if span.outcome is None:
        return "●", "cyan"
    if span.outcome is Outcome.OK:
        return "✓", "green"
    return ("?", "yellow") if span.outcome is Outcome.INDETERMINATE else ("✗", "red")


def span_lines(view: RunView, columns: int, rows: int) -> list[str]:
    """Return the spans of a run as a tree; of too many, the first ones."""
    nodes = build_span_tree(view.state.report.spans)
    shown = nodes[:rows]
    if not shown:
        return []
    cells = [_cells(view, node) for node in shown]
    used = [n for n in range(1, len(_HEADS)) if any(row[n].strip("-") for row in cells)]
    table = [_HEADS, *cells]
    room = max(16, columns - 2 - sum(max(len(row[n]) for row in table) + 2 for n in used))
    names = [_cut_line(row[0], room) for row in table]
    shortened = [
        (f"  {name}", *(row[n] for n in used)) for name, row in zip(names, table, strict=True)
    ]
    numbers = [column for column, n in enumerate(used, 1) if n in _NUMBERS]
    head, *drawn = output.format_table(shortened, right=numbers)
    lines = ["", style(head, dim=True)]
    for node, line in zip(shown, drawn, strict=True):
        mark, color = span_mark(node.span)
        lines.append(line.replace(mark, style(mark, fg=color), 1))
        lines += _remark_lines(view, node, columns)
    if len(nodes) > len(shown):
        lines.append(f"  and {len(nodes) - len(shown):,} more steps (--all shows them)")
    return lines


def _cut_line(text: str, most: int) -> str:
    """Return a text cut to a width, with its leading spaces."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _branch(node: SpanTreeNode) -> tuple[str, str]:
    """Return what is drawn before a span, and under it."""
    if not node.depth:
        return "", ""
    # Indentation is limited so that a deep tree fits on a screen.
    above = node.ends[1:][-_MAX_TREE_DEPTH:]
    stem = "".join("   " if ended else "│  " for ended in above)
    return (f"{stem}└─ ", f"{stem}   ") if node.is_last else (f"{stem}├─ ", f"{stem}│  ")


def _cells(view: RunView, node: SpanTreeNode) -> tuple[str, ...]:
    span = node.span
    spent = span.spent
    outcome = span.outcome.value if span.outcome else "open"
    return (
        f"{_branch(node)[0]}{span_mark(span)[0]} {first_line(span_name(view, span), _MAX_NAME)}",
        span.op.value,
        first_line(span_agent(view, span), 20),
        first_line(span.model, 24),
        units.format_count(spent.tokens),
        units.format_price(spent.usd),
        units.format_duration(span.micros) if span.ended else "-",
        outcome,
        str(view.places.get(span.last.hex(), "-")) if span.last else "-",
    )


def _remark_lines(view: RunView, node: SpanTreeNode, columns: int) -> list[str]:
    """Return the error of a span, its missing parent, and how much of it is not kept."""
    span, remarks = node.span, []
    if span.ended is not None and span.outcome is not Outcome.OK:
        error = view.errors.get(span_strand(span.id), "")
        remarks.append(": ".join(text for text in (span.ended.code, error) if text))
    if node.orphaned:
        remarks.append(f"part of {span.within}, which is not recorded")
    cut = max((facts.cut for facts in (span.begun, span.ended) if facts), default=0)
    if cut:
        remarks.append(f"{cut:,} bytes are not kept")
    lead = f"  {_branch(node)[1]}    "
    room = max(20, columns - len(lead))
    return [lead + style(first_line(text, room), dim=True) for text in remarks if text]


def gap_lines(view: RunView, columns: int) -> list[str]:
    """Return what is known to be missing in a run."""
    lines = []
    for gap in view.state.report.gaps:
        index = view.places.get(gap.entry.hex())
        place = "" if index is None else style(f"  #{index}", dim=True)
        text = first_line(describe_gap(gap.facts), columns - 12)
        lines.append(f"  {style(text, fg='yellow')}{place}")
    return output.with_heading("gaps", lines)


def note_lines(view: RunView, columns: int) -> list[str]:
    """Return the notes of a run."""
    notes = view.state.report.notes
    lines = []
    for note in notes[:_MAX_NOTES]:
        index = view.places.get(note.entry.hex())
        place = "" if index is None else style(f"  #{index}", dim=True)
        text = first_line(f"{note.strand}: {note.step}, by {note.actor}", columns - 12)
        lines.append(f"  {text}{place}")
    if len(notes) > _MAX_NOTES:
        lines.append(f"  and {len(notes) - _MAX_NOTES} more (--json has them all)")
    if notes:
        lines.append(f"  their texts: forum show {short_id(view.run)} --transcript")
    return output.with_heading("notes", lines)
