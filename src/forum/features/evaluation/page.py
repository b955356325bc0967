"""The report of an evaluation as one page that loads nothing: tables, and plots in SVG."""

from collections.abc import Callable, Sequence

from forum import pages
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation import table
from forum.runs.estimates import Estimate
from forum.untrusted_text import escape_html

_STYLE = """\
:is(th, td):nth-child(n + 2) { text-align: right; font-variant-numeric: tabular-nums; }
svg .bar { stroke: var(--mark); stroke-width: 3; } svg .mean { fill: var(--mark); }
.conclusion { font-weight: 600; }
"""
_WIDTH, _LEFT = 720, 200
_RIGHT, _ROW = 90, 34
"""The width of a plot, its margins and the height of a row, in pixels."""


def render_page(report: evaluation.EvalReport) -> str:
    """Return the whole page."""
    title = f"Evaluation of {len(report.configurations)} configurations on {report.cases} cases"
    parts = [
        f"<h1>{escape_html(title)}</h1>",
        *(f'<p class="conclusion">{escape_html(c.conclusion)}.</p>' for c in report.comparisons),
        _summary_table(report),
        *_plots(report),
        *_comparison_tables(report),
        _lane_table(report),
        _model_table(report),
        _play_table(report),
        _remarks(report),
    ]
    return pages.render_page(escape_html(title), parts, pages.FIGURE_STYLE + _STYLE)


def _summary_table(report: evaluation.EvalReport) -> str:
    rows = [(c.configuration, *table.figure_cells(c.figures)) for c in report.configurations]
    return pages.render_table(
        "Mean of a case, by configuration", ("configuration", *table.FIGURE_HEADS), rows
    )


def _plots(report: evaluation.EvalReport) -> list[str]:
    results = report.configurations
    names = [result.configuration for result in results]
    figures = [result.figures for result in results]
    plots = [
        _plot("Quality of a case", names, [f.quality for f in figures], "{:.2f}", most=1.0),
        _plot("Cost of a case, in dollars", names, [f.usd for f in figures], "${:.4f}"),
        _plot("Time of a case, in seconds", names, [f.seconds for f in figures], "{:.2f} s"),
    ]
    if report.comparisons:
        pairs = [f"{c.first} minus {c.second}" for c in report.comparisons]
        differences = [c.quality for c in report.comparisons]
        plots.append(
            _plot("Difference in quality", pairs, differences, "{:+.2f}", least=-1.0, most=1.0)
        )
    return plots


def _plot(
    title: str,
    names: Sequence[str],
    estimates: Sequence[Estimate],
    form: str,
    least: float = 0.0,
    most: float | None = None,
) -> str:
    """Return a plot of means as dots with their 95 % intervals as bars."""
    if not estimates:
        return ""
    top = max(max(e.mean, e.high or e.mean) for e in estimates) if most is None else most
    span = (top - least) or 1.0

    def place(value: float) -> float:
        share = min(1.0, max(0.0, (value - least) / span))
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    height = _ROW * (len(names) + 1)
    ticks = [least, 0.0, top] if least < 0 else [least, top]
    axis = [
        f'<line class="axis" x1="{place(t)}" x2="{place(t)}" y1="0" y2="{height - _ROW + 6}"/>'
        f'<text x="{place(t)}" y="{height - 8}" text-anchor="middle">'
        f"{escape_html(form.format(t))}</text>"
        for t in ticks
    ]
    rows = [
        _plot_row(name, estimate, place, _ROW * n + _ROW // 2, form=form)
        for n, (name, estimate) in enumerate(zip(names, estimates, strict=True))
    ]
    words = "; ".join(
        f"{name}: {form.format(e.mean)}, interval {table.format_interval(e, form)}"
        for name, e in zip(names, estimates, strict=True)
    )
    return (
        f"<figure><figcaption>{escape_html(title)}, with 95 % intervals</figcaption>\n"
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape_html(f"{title}. {words}")}">\n'
        + "\n".join([*axis, *rows])
        + "\n</svg></figure>"
    )


def _plot_row(
    name: str, estimate: Estimate, place: Callable[[float], float], y: int, form: str
) -> str:
    short = name if len(name) <= 26 else f"{name[:25]}…"
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    return (
        f'<text x="{_LEFT - 12}" y="{y + 5}" text-anchor="end">{escape_html(short)}</text>'
        f'<line class="bar" x1="{place(low)}" x2="{place(high)}" y1="{y}" y2="{y}"/>'
        f'<circle class="mean" cx="{place(estimate.mean)}" cy="{y}" r="6"/>'
        f'<text x="{_WIDTH - 4}" y="{y + 5}" text-anchor="end">'
        f"{escape_html(form.format(estimate.mean))}</text>"
    )


def _comparison_tables(report: evaluation.EvalReport) -> list[str]:
    return [
        pages.render_table(
            f"{c.first} minus {c.second}, case by case",
            ("", "difference", "95 % interval", "method"),
            [
                (name, form.format(e.mean), table.format_interval(e, form), e.method.value)
                for name, e, form in (
                    ("quality", c.quality, "{:+.3f}"),
                    ("cost, dollars", c.usd, "{:+.4f}"),
                    ("time, seconds", c.seconds, "{:+.2f}"),
                )
            ],
        )
        for c in report.comparisons
    ]


def _lane_table(report: evaluation.EvalReport) -> str:
    rows = [
        (f"{r.lane or '(none)'}: {r.configuration}", *table.figure_cells(r.figures))
        for r in report.lanes
    ]
    return pages.render_table("By lane", ("lane: configuration", *table.FIGURE_HEADS), rows)


def _model_table(report: evaluation.EvalReport) -> str:
    rows = [
        (
            f"{m.configuration}: {m.model}",
            f"{m.calls:,}",
            f"{m.tokens:,}",
            f"${m.spent_usd}",
            f"{m.seconds:.1f} s",
        )
        for m in report.models
    ]
    heads = ("configuration: model", "calls", "tokens", "cost", "time")
    return pages.render_table("By model, all plays together", heads, rows)


def _play_table(report: evaluation.EvalReport) -> str:
    rows = [
        (
            f"{p.case}: {p.configuration}" + (f", play {p.repeat}" if report.repeat > 1 else ""),
            p.outcome.value,
            f"{p.quality:.3f}",
            f"${p.usd}",
            f"{p.seconds:.2f} s",
            p.run,
        )
        for p in report.plays
    ]
    heads = ("case: configuration", "outcome", "quality", "cost", "time", "run")
    return pages.render_table("Every play, with the run that shows it", heads, rows)


def _remarks(report: evaluation.EvalReport) -> str:
    lines = [
        f"Not played: case {s.case} by {s.configuration}: {s.reason}." for s in report.unplayed
    ]
    if report.judge is not None:
        lines.append(f"{table.describe_judge_use(report.judge)}.")
    lines.append(
        f"Recorded as run {report.evaluation}. `forum eval --of {report.evaluation}` computes this "
        "report anew from the record, and `forum ledger verify` verifies the record."
    )
    return "\n".join(f"<p>{escape_html(line)}</p>" for line in lines)
