"""The report of an evaluation as lines of text."""

from collections.abc import Iterator, Sequence

from forum.app.formatting import pluralize, short_id, strip_control_characters
from forum.features.evaluation import rules as evaluation
from forum.runs.estimates import Estimate
from forum.surfaces.cli import output
from forum.surfaces.cli.console import style

FIGURE_HEADS = ("cases", "failed", "quality", "95 % interval", "cost", "time", "tokens")


def report_lines(report: evaluation.EvalReport) -> Iterator[str]:
    """Yield the tables and sentences of a report."""
    rows = [
        (strip_control_characters(c.configuration), *figure_cells(c.figures))
        for c in report.configurations
    ]
    yield from _table(("configuration", *FIGURE_HEADS), rows)
    for comparison in report.comparisons:
        yield ""
        yield from _comparison_lines(comparison)
    if len({result.lane for result in report.lanes}) > 1:
        lanes = [
            (r.lane or "(none)", r.configuration, *figure_cells(r.figures)) for r in report.lanes
        ]
        yield ""
        yield from _table(("lane", "configuration", *FIGURE_HEADS), lanes)
    if report.models:
        yield ""
        yield from _model_table(report)
    yield from _remarks(report)


def figure_cells(figures: evaluation.PlayFigures) -> tuple[str, ...]:
    """Return the figures of some plays in the columns `FIGURE_HEADS`."""
    return (
        f"{figures.quality.cases:,}",
        f"{figures.failed:,}" if figures.failed else "-",
        f"{figures.quality.mean:.3f}",
        format_interval(figures.quality, "{:.3f}"),
        f"${figures.usd.mean:.4f}",
        f"{figures.seconds.mean:.2f} s",
        f"{figures.tokens.mean:,.0f}",
    )


def format_interval(estimate: Estimate, form: str) -> str:
    """Return the interval of an estimate, or a dash if there is none."""
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{form.format(estimate.low)} to {form.format(estimate.high)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    numbers = [n for n, head in enumerate(heads) if head in FIGURE_HEADS]
    head, *lines = output.format_table([heads, *rows], right=numbers)
    return [style(head, dim=True), *lines]


def _comparison_lines(comparison: evaluation.Comparison) -> Iterator[str]:
    names = f"{comparison.first} minus {comparison.second}"
    yield style(strip_control_characters(comparison.conclusion), bold=True)
    rows = [
        (f"  {names}", "difference", "95 % interval"),
        ("  quality", *_difference(comparison.quality, "{:+.3f}")),
        ("  dollars of a case", *_difference(comparison.usd, "{:+.4f}")),
        ("  seconds of a case", *_difference(comparison.seconds, "{:+.2f}")),
    ]
    head, *lines = output.format_table(rows, right=(1, 2))
    yield style(head, dim=True)
    yield from lines


def _difference(estimate: Estimate, form: str) -> tuple[str, str]:
    return form.format(estimate.mean), format_interval(estimate, form)


def _model_table(report: evaluation.EvalReport) -> list[str]:
    rows = [("configuration", "model", "calls", "tokens", "cost", "time")]
    rows += [
        (
            strip_control_characters(m.configuration),
            strip_control_characters(m.model),
            f"{m.calls:,}",
            f"{m.tokens:,}",
            f"${m.spent_usd}",
            f"{m.seconds:.1f} s",
        )
        for m in report.models
    ]
    head, *lines = output.format_table(rows, right=(2, 3, 4, 5))
    return [style(head, dim=True), *lines]


def _remarks(report: evaluation.EvalReport) -> Iterator[str]:
    yield ""
    for result in report.configurations:
        if result.figures.failed:
            count = pluralize(result.figures.plays, "run")
            yield (
                f"{result.figures.failed} of {count} of {result.configuration} ended without an "
                "answer: their quality is 0"
            )
    for skipped in report.unplayed[:10]:
        yield f"not played: case {skipped.case} by {skipped.configuration}: {skipped.reason}"
    if len(report.unplayed) > 10:
        yield f"and {len(report.unplayed) - 10} more were not played"
    if report.judge is not None:
        yield describe_judge_use(report.judge)
    again = f"forum eval --of {short_id(report.evaluation)}"
    yield f"recorded as run {report.evaluation}; again: {again}"


def describe_judge_use(judge: evaluation.JudgeUse) -> str:
    """Return what the judge did, and whether it is another model than those it judged."""
    text = f"{judge.agent} judged {pluralize(judge.judged, 'answer')} for ${judge.spent_usd}"
    if judge.unjudged:
        text += f"; for {judge.unjudged} it gave no usable reply, and code matched the reference"
    if judge.not_independent_of:
        text += f"; it is the same model as {', '.join(judge.not_independent_of)}: not independent"
    return text
