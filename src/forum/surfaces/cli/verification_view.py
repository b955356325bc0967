"""The report of a verification as text.

Apart from the other output: most commands verify nothing, and need not load what does.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from forum import verify
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.console import style
from forum.surfaces.schemas.reports import report_form

ADD_WITNESS = (
    "To let another organization see it, ask it to run a witness. Then mark its witness in "
    "your trust file, which must name this log alone, with the line: independent NAME"
)
_MARKS = {
    verify.State.HOLDS: ("✓", "green"),
    verify.State.FAILS: ("✗", "red"),
    verify.State.NOT_CHECKED: ("?", "yellow"),
}


def print_report(report: verify.Report, *, as_json: bool) -> None:
    """Print the report of a verification."""
    output.print_result(
        "forum.report/1", report_form(report), _report_lines(report), as_json=as_json
    )


def unread_lines(file: Path, detail: str, problem: str, *, needs_trust_file: bool) -> Iterator[str]:
    """Yield why nothing of a file was checked."""
    yield f"{style('✗', fg='red')} {file} cannot be verified"
    yield from output.wrap_lines(detail, output.terminal_width(), "  ")
    if needs_trust_file:
        yield f"  You need the trust file of that log. {common_options.TRUST_FILE_HINT}"
    yield f"  nothing in it was checked ({problem})"


def _report_lines(report: verify.Report) -> Iterator[str]:
    yield f"{report.origin or 'unreadable'}  size {report.size}  root {report.root[:16]}"
    yield from claim_lines("Intact", report.intact)
    yield from claim_lines("Complete", report.complete)
    yield from witness_lines(report.independent, report.witnessing)
    yield from _interval_lines(report.interval)
    # No mark: what a program told cannot be checked, so this is no claim.
    yield from _wrap_words("  Coverage", str(report.coverage))
    yield from _epochs(report)
    for finding in report.findings[:20]:
        yield from _finding(finding)
    if report.found > 20:
        yield f"  and {report.found - 20} more (--json lists the first thousand)"
    yield from _remarks(report)


def _interval_lines(interval: verify.Interval | None) -> Iterator[str]:
    """Yield the proven interval of a run; `_remarks` says it where there is none."""
    if interval is not None and interval.after is not None and interval.before is not None:
        times = [datetime.fromtimestamp(t, UTC) for t in (interval.after, interval.before)]
        after, before = (f"{time:%Y-%m-%d %H:%M:%S} UTC" for time in times)
        yield from _wrap_words("  Written", f"between {after} and {before}, witnessed")


def _remarks(report: verify.Report) -> Iterator[str]:
    """Yield what was not checked, notices and pending entries."""
    for missing in report.not_checked:
        lines = output.wrap_lines(f"not checked: {missing}", output.terminal_width(), "  ")
        yield from (style(line, fg="yellow") for line in lines)
    for notice in report.notices:
        yield from output.wrap_lines(f"note: {notice}", output.terminal_width(), "  ")
    if report.pending:
        yield f"  pending: {report.pending} entries newer than the checkpoint"


def _epochs(report: verify.Report) -> Iterator[str]:
    """Yield a line for each earlier log that the ledger continues."""
    for epoch in report.epochs:
        states = f"intact {epoch.intact}, complete {epoch.complete}"
        states += f", witnesses: {epoch.witnessing}"
        yield f"  continues {epoch.origin}  size {epoch.size}  root {epoch.root[:16]}: {states}"


def claim_lines(word: str, answer: verify.ClaimResult) -> Iterator[str]:
    """Yield the result of one claim as text."""
    mark, color = _MARKS[answer.state]
    state = "" if answer.state is verify.State.HOLDS else f"{answer.state}: "
    yield from _claim_lines(mark, color, word, f"{state}{answer.reason}")


def witness_lines(answer: verify.ClaimResult, witnessing: verify.WitnessState) -> Iterator[str]:
    """Yield the result of the third claim: independent only by a mark of the reader."""
    if witnessing is verify.WitnessState.SELF_WITNESSED:
        reason = f"{answer.reason}. {ADD_WITNESS}"
        yield from _claim_lines("!", "yellow", "Self-witnessed", reason)
    else:
        yield from claim_lines("Independent", answer)


def _claim_lines(mark: str, color: str, word: str, words: str) -> Iterator[str]:
    yield from _wrap_words(f"{mark} {word}", words, color)


def _wrap_words(title: str, words: str, color: str | None = None) -> Iterator[str]:
    """Yield words behind a title, wrapped to the width of the terminal."""
    first, *more = output.wrap_lines(words, output.terminal_width(), " " * 17) or [""]
    yield f"{style(f'{title:<16}', fg=color)} {first.strip()}"
    yield from more


def _finding(finding: verify.Finding) -> Iterator[str]:
    first, *more = output.wrap_lines(str(finding), output.terminal_width() - 2, "  ")
    yield first.replace(finding.problem, style(finding.problem, fg="red"), 1)
    yield from (f"  {line}" for line in more)
