"""`forum backup` and `forum restore`: survive the loss of a disk without forking the log."""

from pathlib import Path

import click

from forum.features.backup import service
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.output import print_json


@common_options.command(examples=("forum backup /mnt/backups/2026-11-16",))
@click.argument("dest", type=click.Path(path_type=Path))
@common_options.as_json
def backup(dest: Path, *, as_json: bool) -> None:
    """Back up the ledger of this project into the new folder DEST, while it is in use.

    Holds the ledger as of one moment, its keys, its policy and forum.toml: keep it as secret as
    the keys.  The state directory is left out on purpose: what this machine remembers must not be
    restored together with the ledger.
    """
    if dest.exists():
        raise click.UsageError(f"{dest} already exists. Name a new folder.")
    with common_options.open_forum() as forum:
        manifest = service.create_backup(forum, dest)
    facts = {
        "folder": str(dest),
        "origin": manifest.origin,
        "size": manifest.size,
        "root": manifest.root,
        "signed": manifest.signed,
        "files": len(manifest.files),
        "bytes": sum(file.size for file in manifest.files),
    }
    if as_json:
        print_json("forum.backup/1", facts)
        return
    echo(f"{dest}  {manifest.origin}  size {manifest.size}  root {manifest.root[:16]}")
    common_options.echo_info("it holds the keys of the log: keep it where only you can read it")


@common_options.command(
    examples=(
        "forum restore /mnt/backups/2026-11-16",
        "forum restore /mnt/backups/2026-11-16 --epoch",
    ),
)
@click.argument("src", type=common_options.FOLDER)
@click.option("--epoch", is_flag=True, help="Start a new epoch if the log cannot be continued.")
@click.option(
    "--resume",
    is_flag=True,
    help="Continue although this machine has no memory: nothing was signed after the backup.",
)
@common_options.as_json
def restore(src: Path, *, epoch: bool, resume: bool, as_json: bool) -> None:
    """Restore the backup SRC in this folder, which has no ledger.

    Every file is compared with the backup's manifest, and the ledger is verified.  Where entries
    were signed after the backup, to go on would fork the log: the command refuses, or with --epoch
    leaves the log and begins its next epoch, which names the checkpoint at which it was left.
    """
    if epoch and resume:
        raise click.UsageError("--epoch and --resume exclude each other")
    service.read_backup(src)
    written = service.write_project_file(src, Path.cwd())
    try:
        result = service.restore_backup(
            common_options.current_settings(), src, epoch=epoch, resume=resume
        )
    # Also on Ctrl-C: forum.toml must not stay behind without its ledger.
    except BaseException:
        if written:
            Path("forum.toml").unlink()
        raise
    if as_json:
        print_json("forum.restore/1", result)
        return
    echo(result.epoch or result.origin)
    common_options.echo_info(f"restored {result.origin} at size {result.size}")
    if result.lost:
        common_options.echo_info(
            f"lost: {result.lost} entries that were recorded after the backup, up to the "
            f"checkpoint of size {result.remembered} that this machine remembers"
        )
    if result.epoch:
        common_options.echo_info(
            f"that log stays readable; {result.epoch} continues it: forum ledger policy"
        )
