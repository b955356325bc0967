"""`forum verify`: a bundle, offline."""

from pathlib import Path

import click

from forum.app import verify_bundle_file
from forum.surfaces.cli import REJECTED, options
from forum.surfaces.cli.output import print_report, progress


@click.command()
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.trust_options
@options.as_json
def verify(
    bundle: Path,
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
    trust = options.read_trust(keys, policy, seen)
    report = verify_bundle_file(bundle, trust, progress("verified"))
    print_report(report, as_json)
    raise SystemExit(0 if report.ok else REJECTED)
