"""`forum demo`: what Forum does, shown on data that the demo makes itself."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forum.surfaces.cli import REJECTED, options
from forum.surfaces.cli.output import print_json

if TYPE_CHECKING:
    from forum.surfaces.cli.cheat import Verdict


@click.group()
def demo() -> None:
    """See what Forum does, without an account."""


@demo.command()
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep the ledgers in this new folder."
)
@options.as_json
def cheat(keep: Path | None, *, as_json: bool) -> None:
    """Write a small ledger, cheat in it in every way we know, and see who notices.

    With FORUM_DATABASE_URL set, the frauds are played on Postgres rows as well.
    """
    from forum.surfaces.cli.cheat import FRAUDS, play

    database = options.settings().database
    verdicts: list[tuple[str, Verdict]] = []
    with tempfile.TemporaryDirectory() as scratch:
        home = keep or Path(scratch)
        for kind, url in {"sqlite": None, "postgres": database}.items():
            if kind == "sqlite" or url:
                click.echo(f"playing {len(FRAUDS)} frauds on {kind} ...", err=True)
                verdicts += [(kind, verdict) for verdict in play(home / kind, url)]
    if as_json:
        rows = [
            {"name": v.fraud.name, "caught": v.caught, "by": v.by, "database": kind}
            for kind, v in verdicts
        ]
        print_json("forum.cheat/1", {"frauds": rows})
    else:
        _print_table(verdicts)
    raise SystemExit(0 if all(verdict.caught for _, verdict in verdicts) else REJECTED)


def _print_table(verdicts: "list[tuple[str, Verdict]]") -> None:
    heads = ("database", "fraud", "what the cheater does", "caught", "by which evidence")
    rows = [
        (kind, v.fraud.name, v.fraud.does, "yes" if v.caught else "NO", v.by)
        for kind, v in verdicts
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    click.echo("")
    for row in (heads, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        color = {"yes": "green", "NO": "red"}.get(row[3])
        cells[3] = click.style(cells[3], fg=color)
        click.echo("  ".join(cells).rstrip())
    caught = sum(verdict.caught for _, verdict in verdicts)
    click.echo(f"\n{caught} of {len(verdicts)} frauds caught.")
