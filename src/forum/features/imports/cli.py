"""`forum import`: record what another program has recorded."""

from pathlib import Path

import click
from msgspec import Struct

from forum.app.formatting import short_id
from forum.features.imports.rules import ENTRIES_FILE, PAYLOADS_FILE, read_engine_ledger
from forum.features.imports.service import ImportOperations
from forum.surfaces.cli import common_options, output


class ImportedRunForm(Struct, frozen=True):
    """A run that holds a part of the imported ledger."""

    run: str
    entries: int
    is_new: bool


class ImportForm(Struct, frozen=True):
    """What an import found and recorded."""

    entries: int
    recorded: int
    """The entries that no earlier import had recorded."""
    runs: tuple[ImportedRunForm, ...]
    missing_payloads: int
    torn_lines: int
    checkpoint: str
    """The Merkle root of the imported ledger, as its own program prints it."""


@click.group("import", cls=common_options.FullHelpGroup)
def import_() -> None:
    """Record what another program has recorded, as reported."""


@import_.command(
    "forum-engine",
    examples=("forum import forum-engine ./forum-ledger",),
)
@click.argument("folder", metavar="DIR", type=common_options.FOLDER)
@common_options.as_json
def forum_engine(folder: Path, *, as_json: bool) -> None:
    """Import the ledger of forum-engine in the folder DIR.

    Its hash chain and its payloads are checked first; a broken one is refused, with the entry.
    Then each request becomes one run whose steps are the entries, in their order, as *reported*:
    the chain shows that they were not changed since, and not that they happened.  A second import
    records only what is new.
    """
    if not (folder / ENTRIES_FILE).is_file():
        raise click.UsageError(
            f"{folder} has no {ENTRIES_FILE}. Name the folder that forum-engine calls --ledger."
        )
    payloads = folder / PAYLOADS_FILE
    source = read_engine_ledger(
        (folder / ENTRIES_FILE).read_bytes(), payloads.read_bytes() if payloads.exists() else b""
    )
    with common_options.open_forum() as forum:
        runs = ImportOperations(forum).import_engine_ledger(source)
        publication = forum.log.publish_or_warn()
    form = ImportForm(
        entries=len(source.entries),
        recorded=sum(run.entries for run in runs if run.is_new),
        runs=tuple(ImportedRunForm(run.run, run.entries, run.is_new) for run in runs),
        missing_payloads=source.missing_payloads,
        torn_lines=source.torn,
        checkpoint=source.checkpoint,
    )
    output.print_result("forum.import/1", form, _lines(form), as_json=as_json)
    output.print_publication(publication)
    if form.runs:
        common_options.echo_info(f"to read the newest: forum show {short_id(form.runs[-1].run)}")


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


def _lines(form: ImportForm) -> list[str]:
    summary = f"{_entries(form.entries)}, chain and payloads checked"
    lines = [f"{summary}; checkpoint {form.checkpoint[:16]}"]
    lines.append(f"{form.recorded} recorded as reported, {form.entries - form.recorded} before")
    if form.missing_payloads:
        lines.append(f"{form.missing_payloads} without payload: redacted, or never stored")
    if form.torn_lines:
        lines.append(f"{form.torn_lines} torn at the end, left out")
    return lines + [
        f"  {run.run}  {_entries(run.entries)}{'' if run.is_new else ', recorded before'}"
        for run in form.runs
    ]
