"""`forum init` and `forum db`: what comes before anything else."""

from pathlib import Path

import click

from forum.app import upgrade_database
from forum.config import FILE
from forum.surfaces.cli import options
from forum.surfaces.cli.output import print_json

_TEMPLATE = """\
# Forum's settings for this project.  Data live in .forum/ beside this file.

[ledger]
# origin = "example.com/agents"      # the log's name; without one it gets a random local name

[database]
# url = "postgresql://user@host/db"  # without one the ledger is the file .forum/ledger.db

[keys]
# log = "/etc/forum/log.key"         # without one the key is made in .forum/log.key

[witness]
# policy = "policy.txt"              # without one the local witness of this machine cosigns

# [models.capable]                   # who answers requests; try it with: forum models check --call
# url = "http://127.0.0.1:11434/v1"
# model = "qwen3"
"""


@click.command()
@options.as_json
def init(*, as_json: bool) -> None:
    """Make a ledger in this folder: forum.toml, a signing key, a policy, a local witness.

    Running it again changes nothing that is there.
    """
    path = Path(FILE)
    if not path.exists():
        path.write_text(_TEMPLATE)
    with options.forum() as forum:
        fresh = forum.initialise()
        facts = {
            "made": fresh,
            "origin": forum.origin,
            "key": str(forum.key.verifier()),
            "witness": str(forum.witness.verifier),
            "policy": str(forum.policy_file),
            "data": str(forum.settings.data),
        }
    if as_json:
        print_json("forum.init/1", facts)
        return
    click.echo(f"{'made' if fresh else 'found'} the ledger {facts['origin']}")
    for name in ("key", "witness", "policy", "data"):
        click.echo(f"  {name:<8} {facts[name]}")
    click.echo('next: forum submit "Name three rivers.", then forum show', err=True)


@click.group()
def db() -> None:
    """Prepare a Postgres database."""


@db.command()
@options.as_json
def upgrade(*, as_json: bool) -> None:
    """Apply the migrations that the configured Postgres database lacks."""
    settings = options.settings()
    if not settings.database:
        raise click.UsageError("no Postgres is configured: set FORUM_DATABASE_URL first")
    applied = upgrade_database(settings)
    if as_json:
        print_json("forum.upgrade/1", {"applied": applied})
    else:
        click.echo(f"applied: {', '.join(map(str, applied)) or 'nothing, it is up to date'}")
