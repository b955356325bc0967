"""How things look: reports and entries for people, one JSON object for programs."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import click
import msgspec

from forum.ledger import Located, Publication
from forum.surfaces.forms.reports import report_form
from forum.verify import Finding, Report, State

_MARKS = {
    State.HOLDS: ("✓", "green"),
    State.FAILS: ("✗", "red"),
    State.NOT_CHECKED: ("?", "yellow"),
}


def print_json(schema: str, content: msgspec.Struct | dict[str, Any]) -> None:
    """Print one JSON object that names its schema."""
    said: dict[str, Any] = json.loads(msgspec.json.encode(content))
    # Escapes of JSON are understood under every locale; those of Python are not.
    ascii_only = sys.stdout is None or sys.stdout.encoding.lower() != "utf-8"
    click.echo(json.dumps({"schema": schema, **said}, ensure_ascii=ascii_only))


def print_report(report: Report, as_json: bool) -> None:  # noqa: FBT001  what the flag said
    """Print what verification found."""
    if as_json:
        print_json("forum.report/1", report_form(report))
        return
    click.echo(f"{report.origin or 'unreadable'}  size {report.size}  root {report.root[:16]}")
    answers = {
        "Intact": report.intact,
        "Complete": report.complete,
        "Independent": report.independent,
    }
    for word, answer in answers.items():
        mark, color = _MARKS[answer.state]
        state = "" if answer.state is State.HOLDS else f"{answer.state}: "
        click.echo(f"{click.style(f'{mark} {word:<12}', fg=color)} {state}{answer.reason}")
    for finding in report.findings[:20]:
        click.echo(f"  {_finding(finding)}")
    if report.found > 20:
        click.echo(f"  and {report.found - 20} more (--json lists the first thousand)")
    for missing in report.not_checked:
        click.echo(click.style(f"  not checked: {missing}", fg="yellow"))
    if report.pending:
        click.echo(f"  pending: {report.pending} entries newer than the checkpoint")


def _finding(finding: Finding) -> str:
    return f"{click.style(finding.problem, fg='red')}{str(finding)[len(finding.problem) :]}"


def entry_line(located: Located) -> str:
    """Return an entry on one line."""
    entry = located.entry
    index = "-" if located.index is None else str(located.index)
    time = datetime.fromtimestamp(entry.ts / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    facts = _facts(located)
    bodies = f" [{', '.join(entry.bodies)}]" if entry.bodies else ""
    place = f"{entry.run}/{entry.strand}/{entry.n}"
    head = f"{index:>6}  {located.leaf.hex()[:10]}  {time}  {place:<43}"
    return f"{head} {entry.kind:<12} {entry.actor:<10} {facts}{bodies}".rstrip()


def _facts(located: Located) -> str:
    facts = json.loads(located.data)["facts"]
    return " ".join(f"{name}={_short(value)}" for name, value in facts.items())


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 24 else f"{text[:21]}..."


def print_entry(located: Located) -> None:
    """Print all of one entry."""
    click.echo(f"id     {located.leaf.hex()}")
    click.echo(f"index  {'not sequenced yet' if located.index is None else located.index}")
    click.echo(msgspec.json.format(located.data, indent=2).decode())


def print_publication(publication: Publication) -> None:
    """Say on stderr how far the newest entries have come."""
    state = "witnessed" if publication.witnessed else "signed, not witnessed yet"
    click.echo(f"checkpoint {publication.checkpoint.size}: {state}", err=True)
    for error in (*publication.refused, *publication.unreachable):
        click.echo(click.style(f"  {error}", fg="red"), err=True)


def progress(what: str) -> Callable[[int, int], None]:
    """Return a callback that shows on stderr how far something is, once it takes a second."""
    started = shown = monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        if monotonic() - started > 1 and monotonic() - shown > 0.2 and sys.stderr.isatty():
            shown = monotonic()
            end = "\n" if done >= total else ""
            click.echo(f"\r{what} {done} of {total} ({100 * done // total} %)", err=True, nl=False)
            click.echo(end, err=True, nl=False)

    return show
