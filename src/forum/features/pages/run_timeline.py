"""When each task or span of a run was at work, as a picture in SVG."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from forum.app import RunView
from forum.app.formatting import first_line
from forum.app.reported_runs import span_name
from forum.units import format_duration
from forum.untrusted_text import escape_html

_MAX_BARS = 60
_WIDTH, _LEFT = 900, 190
_ROW, _CUT = 24, 14
"""The width of the picture, its left margin, the height of a row and the width of a cut pause."""


class _Bar(NamedTuple):
    """Some time in which a task or a span was at work."""

    row: int
    begun: int
    ended: int
    failed: bool
    words: str


def render_timeline(view: RunView) -> str:
    """Return when each task or span was at work, as a picture with pauses cut short."""
    names, bars = _task_bars(view) if view.state.tasks else _span_bars(view)
    if not bars:
        return ""
    active = _join_intervals([(bar.begun, bar.ended) for bar in bars])
    place, cuts = _make_axis(active)
    height = _ROW * len(names) + 6
    lines = [
        f'<text x="{_LEFT - 10}" y="{_ROW * row + 17}" text-anchor="end">'
        f"{escape_html(first_line(name, 26))}</text>"
        for row, name in enumerate(names)
    ]
    lines += [
        f'<rect class="{"failed" if bar.failed else "call"}" x="{place(bar.begun):.1f}" '
        f'y="{_ROW * bar.row + 5}" rx="2" height="14" '
        f'width="{max(2.0, place(bar.ended) - place(bar.begun)):.1f}">'
        f"<title>{escape_html(bar.words)}</title></rect>"
        for bar in bars
    ]
    lines += [f'<line class="cut" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>' for x in cuts]
    total = format_duration(sum(end - begin for begin, end in active))
    words = f"{total} at work" + (", pauses cut short at the dotted lines" if cuts else "")
    return (
        f"<h2>Timeline</h2>\n<figure><figcaption>{escape_html(words)}</figcaption>\n"
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="When each step was at work; the tables above have the same in numbers">\n'
        + "\n".join(lines)
        + "\n</svg></figure>"
    )


def _task_bars(view: RunView) -> tuple[list[str], list[_Bar]]:
    tasks = [task for task in view.state.tasks.values() if task.calls][:_MAX_BARS]
    bars = [
        _Bar(
            row,
            call.begun,
            call.ended or view.at,
            failed=call.replied is not None and call.replied.outcome.value != "ok",
            words=f"{call.called.role or task.id}, attempt {call.called.attempt}",
        )
        for row, task in enumerate(tasks)
        for call in task.calls
    ]
    return [task.id for task in tasks], bars


def _span_bars(view: RunView) -> tuple[list[str], list[_Bar]]:
    spans = list(view.state.report.spans.values())[:_MAX_BARS]
    bars = [
        _Bar(
            row,
            span.started,
            span.started + span.micros,
            failed=span.outcome is not None and span.outcome.value != "ok",
            words=f"{span.op.value}, {span.outcome.value if span.outcome else 'open'}",
        )
        for row, span in enumerate(spans)
    ]
    return [span_name(view, span) for span in spans], bars


def _join_intervals(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return intervals of time in their order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _make_axis(active: Sequence[tuple[int, int]]) -> tuple[Callable[[int], float], list[float]]:
    """Return the place of each moment at work, and the places of pauses that were cut."""
    total = sum(end - begin for begin, end in active) or 1
    room = _WIDTH - _LEFT - 10
    # A short pause keeps its length; a gate that waits for a day would hide all the work.
    pauses = [begin - end for (_, end), (begin, _) in pairwise(active)]
    kept = [pause if pause <= total / 20 else 0 for pause in pauses]
    width = min(_CUT, room / (2 * len(active)))
    scale = (room - width * kept.count(0)) / (total + sum(kept))
    starts, cuts = [float(_LEFT)], []
    x = float(_LEFT)
    for (begin, end), pause in zip(active, kept, strict=False):
        x += (end - begin) * scale
        cuts += [] if pause else [x + width / 2]
        x += pause * scale or width
        starts.append(x)

    def place(moment: int) -> float:
        for (begin, end), start in zip(active, starts, strict=False):
            if begin <= moment <= end:
                return start + (moment - begin) * scale
        return starts[-1]

    return place, cuts
