"""`forum evidence`: write one file about a period or an incident, for an auditor."""

import os
from dataclasses import dataclass
from pathlib import Path

import click

from forum.app import is_pack_file
from forum.app.formatting import pluralize
from forum.features.evidence.report import PackReport
from forum.features.evidence.service import EvidenceOperations, EvidenceRequest, choose_maps
from forum.features.evidence.verify_page import build_page
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.common_options import option_field
from forum.surfaces.cli.console import echo


@dataclass(frozen=True, slots=True)
class EvidenceScope:
    """The options that say what a pack is about."""

    since: int | None = option_field(
        "--from",
        type=common_options.MOMENT,
        help="The first moment.  Default: the beginning of the log.",
    )
    until: int | None = option_field(
        type=common_options.MOMENT, help="The first moment after it.  Default: now."
    )
    incident: str | None = option_field(
        metavar="RUN", help="Write about this run and the day before it."
    )
    sample: int = option_field(
        default=0,
        type=click.IntRange(min=0),
        metavar="N",
        help="Enclose bundles of N runs, which the seed draws.",
    )
    seed: str = option_field(default="", help="The auditor's seed.  Default: cosignatures.")


@common_options.command(
    examples=(
        "forum evidence --from 2026-10-01 --until 2026-11-01 --sample 25 --output october.zip",
        "forum evidence --map ai-act --unreviewed --output pack.zip",
        "forum evidence --incident RUN --output incident.zip",
        "forum verify october.zip --policy trust",
    ),
)
@common_options.collect_options("scope", EvidenceScope)
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="NAME",
    help="A map of duties, or a TOML file; repeatable.",
)
@click.option(
    "--unreviewed", is_flag=True, help="Use maps that nobody has reviewed, and mark them."
)
@click.option(
    "--output",
    "-o",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; only an earlier pack is replaced.",
)
@common_options.as_json
def evidence(
    scope: EvidenceScope, maps: tuple[str, ...], path: Path, *, unreviewed: bool, as_json: bool
) -> None:
    """Write an evidence pack: what the ledger shows about a period, and what it does not.

    Every figure in it can be computed again from the entries in it.  The export of each enclosed
    run is recorded.  Maps name duties of laws and standards; a pack never says that one is met.
    """
    request = EvidenceRequest(
        since=scope.since,
        until=scope.until,
        maps=choose_maps(maps, unreviewed=unreviewed),
        sample=scope.sample,
        seed=scope.seed,
        incident=scope.incident or "",
    )
    _check_output(path)
    page = build_page().encode()
    with common_options.open_forum() as forum:
        pack = EvidenceOperations(forum).make_pack(request, page)
    output.write_private(path, pack.data)
    if as_json:
        report = pack.report
        facts = {
            "path": str(path),
            "since": report.since,
            "until": report.until,
            "size": report.end.size,
            "root": report.end.root,
            "counted_by": report.counted_by,
            "outside": report.outside,
        }
        output.print_json("forum.evidence/1", facts)
        return
    echo(str(path))
    for line in _summarize(pack.report):
        common_options.echo_info(line)
    # Keys that come with a pack prove nothing: its sender could have made both.
    common_options.echo_info("send the trust file separately: forum ledger policy > trust")
    common_options.echo_info(f"to verify it: forum verify {path} --policy trust")


def _check_output(path: Path) -> None:
    """Refuse a file that cannot be written: making a pack records what is exported in it."""
    place = path if path.exists() else path.parent
    if not path.parent.is_dir() or not os.access(place, os.W_OK):
        raise click.UsageError(f"{path} cannot be written. Name a file in a folder of yours.")
    if path.exists() and path.stat().st_size and not is_pack_file(path):
        raise click.UsageError(f"{path} already exists and is no evidence pack. Name a new file.")


def _count_outside(report: PackReport) -> str:
    return f"{report.outside.entries:,}" if report.outside else "unknown"


def _summarize(report: PackReport) -> list[str]:
    figures = {figure.id: figure.value for figure in report.figures}
    count = figures["runs.all"]
    runs = "runs that cannot be counted" if count is None else pluralize(count, "run")
    lines = [
        f"from {report.since} until {report.until}: {runs}, entries: {report.counted:,}",
        f"counted by: {report.counted_by}; dated outside of the period: {_count_outside(report)}",
        f"bundles in it: {len(report.bundles)}; sampled with the seed {report.sample.seed[:16]}",
    ]
    if report.unreviewed:
        lines.append(f"maps that nobody has reviewed: {', '.join(report.unreviewed)}")
    return lines
