"""`forum verify`: a bundle, offline."""

from pathlib import Path
from typing import BinaryIO

import click

from forum.app import KINDS
from forum.surfaces.cli import REJECTED, options
from forum.surfaces.cli.output import print_report
from forum.verify import verify_bundle


@click.command()
@click.argument("bundle", type=click.File("rb"))
@options.trust_options
@options.as_json
def verify(
    bundle: BinaryIO,
    keys: tuple[str, ...],
    policy: Path | None,
    seen: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Check a bundle, offline, without trusting the log or the bundle.

    Keys and policy are yours: what a bundle encloses is not believed.  Exit status 0 only if
    the run is intact, complete and independently witnessed; 3 otherwise.
    """
    report = verify_bundle(bundle.read(), KINDS, options.read_trust(keys, policy, seen))
    print_report(report, as_json)
    raise SystemExit(0 if report.ok else REJECTED)
