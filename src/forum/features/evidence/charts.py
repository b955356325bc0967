"""Charts as inline SVG: stacked bars by day, without scripts, in the colors of the page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from typing import NamedTuple

MAX_BARS = 62
_WIDTH, _HEIGHT = 520, 190
_LEFT, _TOP = 76, 12
_BOTTOM = 24


class Layer(NamedTuple):
    """One part of each bar: its name, its color class, and its value by day."""

    name: str
    color: str
    values: Mapping[str, int]


def list_days(first: str, last: str) -> list[str]:
    """Return the days from the first to the last."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(n)).isoformat() for n in range((end - begin).days + 1)]


def draw_bars(
    title: str,
    days: Sequence[str],
    layers: Sequence[Layer],
    labels: Callable[[int], str],
    combine: Callable[[Iterable[int]], int] = sum,
) -> str:
    """Return a chart of stacked bars; `labels` gives the texts of values on the axis and in tips.

    Where there are too many days, each bar stands for several, with their values combined.
    """
    width = -(-len(days) // MAX_BARS)
    bins = [days[at : at + width] for at in range(0, len(days), width)]
    totals = [[combine(layer.values.get(day, 0) for day in b) for layer in layers] for b in bins]
    top = max((sum(column) for column in totals), default=0)
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _TOP - _BOTTOM
    slot = plot_width / max(1, len(bins))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        _line(_TOP + plot_height),
        f'<text x="{_LEFT - 6}" y="{_TOP + plot_height}" text-anchor="end">0</text>',
    ]
    if top:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{_TOP}" y2="{_TOP}"/>')
        label = escape(labels(top))
        parts.append(f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{label}</text>')
    else:
        middle = f'x="{_LEFT + plot_width / 2:.1f}" y="{_TOP + plot_height / 2:.1f}"'
        parts.append(f'<text {middle} text-anchor="middle" class="none">none in this period</text>')
    gap = min(4.0, slot * 0.2)
    bar = min(slot - gap, 36.0)
    for number, (column, group) in enumerate(zip(totals, bins, strict=True)):
        x, y = _LEFT + number * slot + (slot - bar) / 2, float(_TOP + plot_height)
        for layer, value in zip(layers, column, strict=True):
            if not value:
                continue
            height = plot_height * value / top
            y -= height
            tip = escape(f"{_span(group)}: {layer.name} {labels(value)}")
            place = f'x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{height:.1f}"'
            parts.append(f'<rect class="{layer.color}" {place}><title>{tip}</title></rect>')
    place = f'y="{_HEIGHT - 6}"'
    if len(days) == 1:
        middle = f'x="{_LEFT + plot_width / 2:.1f}" {place} text-anchor="middle"'
        parts.append(f"<text {middle}>{days[0]}</text>")
    else:
        parts.append(f'<text x="{_LEFT}" {place} text-anchor="start">{days[0]}</text>')
        parts.append(f'<text x="{_WIDTH - 8}" {place} text-anchor="end">{days[-1]}</text>')
    if width > 1:
        words = f"{width} days a bar"
        middle = f'x="{_LEFT + plot_width / 2:.1f}" y="{_HEIGHT - 6}"'
        parts.append(f'<text {middle} text-anchor="middle">{words}</text>')
    return "".join([*parts, "</svg>"])


def _line(y: float) -> str:
    return f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y}" y2="{y}"/>'


def _span(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def draw_legend(layers: Sequence[Layer]) -> str:
    """Return the names of the layers with their colors."""
    items = "".join(
        f'<span class="key"><i class="{layer.color}"></i>{escape(layer.name)}</span>'
        for layer in layers
        if any(layer.values.values())
    )
    return f'<p class="legend">{items}</p>' if items else ""
