"""`forum init` and `forum db`: create a ledger, and prepare a database."""

import os
from importlib.resources import files
from pathlib import Path

import click

from forum.app import Forum, partition_database, upgrade_database
from forum.app.planner import load_team_settings
from forum.config import PROJECT_FILE, Settings
from forum.surfaces.cli import EXIT_REJECTED, common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.environment_models import echo_offer, insert_offers, offered_models
from forum.surfaces.cli.output import print_json


@click.command()
@click.option(
    "--new-log",
    is_flag=True,
    help="Start a new log for this project; the current one is kept but no longer used.",
)
@common_options.as_json
def init(*, new_log: bool, as_json: bool) -> None:
    """Create a ledger in this folder: forum.toml, a signing key, a trust file, a local witness.

    If OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY is set, forum.toml shows the model that
    uses it, commented out, by the name of the variable.  No key is copied.

    Running it again changes nothing that exists.  If this machine remembers a log of this project
    and its key is missing, nothing is created: restore the key, or start an epoch.
    """
    path = Path(PROJECT_FILE)
    written = not path.exists()
    if written:
        template = files("forum.surfaces.cli").joinpath("project_template.toml").read_text()
        path.write_text(insert_offers(template, offered_models(os.environ)))
    with common_options.open_forum() as forum:
        if new_log:
            forum.keys.start_over()
        fresh = forum.keys.initialise() or new_log
        forum.access.operator_token()
        facts = {
            "made": fresh,
            "origin": forum.origin,
            "key": str(forum.verifier),
            "witness": str(forum.witnesses.own_key or ""),
            "policy": str(forum.policy_file),
            "data": str(forum.settings.data),
        }
        key_file = str(forum.settings.key_file)
        agents = load_team_settings(forum.settings).agents
    offers = offered_models(os.environ, agents.values())
    if as_json:
        print_json("forum.init/1", facts | {"offers": offers})
        return
    echo(f"{'made' if fresh else 'found'} the ledger {facts['origin']}")
    places = {
        "settings": f"{path.absolute()}{' (new)' if written else ''}",
        "data": facts["data"],
        "signing key": key_file,
        "trust file": f"{facts['policy']}",
    }
    for name, place in places.items():
        echo(f"  {name:<11} {place}")
    for offer in offers:
        echo_offer(offer, is_written=written)
    aside = "" if agents else "          # works without a model"
    echo(f'next: forum submit "Name three rivers."{aside}', err=True)
    echo("      forum run --max-usd 5 -- python agent.py   # an agent that you have", err=True)
    if written:
        echo(
            f'for judged answers at about 4.4 times the tokens: team = "auto" in {PROJECT_FILE}',
            err=True,
        )
    if not agents:
        echo(f"to connect a model: [models.capable] in {PROJECT_FILE}", err=True)


@click.group(cls=common_options.FullHelpGroup)
def db() -> None:
    """Prepare a Postgres database."""


@db.command()
@click.option(
    "--post",
    is_flag=True,
    help="Finish the upgrade: for when no process of the release before is left.",
)
@common_options.as_json
def upgrade(*, post: bool, as_json: bool) -> None:
    """Apply the migrations that the configured Postgres database lacks.

    Processes of the release before can go on beside it.  Once all of them are replaced, --post
    verifies the ledger and refuses entries without a tag from then on, which only older releases
    write.  A ledger in a file is upgraded when a command opens it alone.

    Readers and writers wait for it for a fraction of a second at most: it gives way to whoever uses
    a table, and tries again.  If a transaction does not end within a minute, the command names its
    session and stops.  What was applied stays, and the command can be given again.
    """
    settings = _postgres_settings()
    applied = upgrade_database(settings, post=post, report=_report_progress)
    enforced = _enforce_tags(settings) if post else None
    if as_json:
        print_json("forum.upgrade/1", {"applied": applied, "tags_enforced": enforced})
    else:
        echo(f"applied: {', '.join(map(str, applied)) or 'nothing, it is up to date'}")
    if enforced is False:
        common_options.echo_error("The ledger does not verify, so tags are not enforced.")
        common_options.echo_error("See why: forum ledger verify. Then: forum db upgrade --post")
        raise SystemExit(EXIT_REJECTED)


@db.command()
@common_options.as_json
def partition(*, as_json: bool) -> None:
    """Partition the tables of entries and bodies by ranges of strands, while nothing runs.

    New databases are partitioned from their beginning.  In an older one, this makes the tables of
    before the first partition: no row is copied, and readers and writers need not know.  Stop
    servers and workers first; the command refuses while other sessions are connected.  It is one
    transaction: if it is killed, nothing has changed.  Run again, it moves rows from the default
    partition to partitions of their own.
    """
    changed = partition_database(_postgres_settings(), _report_progress)
    if as_json:
        print_json("forum.partition/1", {"changed": changed})
    else:
        echo(f"partitioned: {', '.join(changed) or 'nothing, it was done before'}")


def _report_progress(text: str) -> None:
    echo(text, err=True)


def _postgres_settings() -> Settings:
    settings = common_options.current_settings()
    if not settings.database:
        raise click.UsageError("no Postgres is configured: set FORUM_DATABASE_URL first")
    return settings


def _enforce_tags(settings: Settings) -> bool | None:
    """Enforce tags in the log of this project; return None if it has no log here yet."""
    with Forum(settings) as forum:
        if not settings.key_file.exists():
            return None
        forum.keys.initialise()
        return forum.log.enforce_tags()
