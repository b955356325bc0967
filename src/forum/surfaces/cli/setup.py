"""`forum init` and `forum db`: create a ledger, and prepare a database."""

from pathlib import Path

import click

from forum.app import Forum, upgrade_database
from forum.config import PROJECT_FILE, Settings
from forum.surfaces.cli import EXIT_REJECTED, common_options
from forum.surfaces.cli.output import print_json

_TEMPLATE = """\
# Forum's settings for this project.  Data live in .forum/ beside this file.
# Every line that is commented out shows what holds without it, or an example.
# `forum config show` tells what holds and why; `forum doctor` tells whether all is well.
# What is to hold for all of your projects goes into config.toml in your configuration directory.

[ledger]
# origin = "example.com/agents"      # the log's name; without one it gets a random local name

[database]
# url = "postgresql://user@host/db"  # without one the ledger is the file .forum/ledger.db

[keys]
# log = "/etc/forum/log.key"         # without one the key is made in .forum/log.key
# write = "/etc/forum/write.key"     # without one .forum/write.key; all writers of a log share it
# public = "/etc/forum/log.pub"      # without one .forum/log.pub: for machines that do not sign

[witness]
# policy = "policy.txt"              # without one the local witness of this machine cosigns

# Who answers requests.  Models called cheap, capable and frontier are tiers; `forum models check`
# shows them with their prices, and asks them with --call.  Keys are never written here: key_env
# names the variable that holds one.

# [models.capable]                   # a model on this machine
# url = "http://127.0.0.1:11434/v1"
# model = "qwen3"

# [models.frontier]                  # a model in a cloud; its key is in OPENAI_API_KEY
# model = "gpt-5-mini"
# max_tokens = 1024

# [models.cheap]                     # a program: prompt in, reply out, no shell
# cmd = "my-agent --print"
# usd = 0.001                        # what one call costs

[roles]
# team = true                        # have requests planned, judged and put together by several
# validator = "frontier"             # who judges; better another model than the one that works

[roster]
# file = "roster.toml"               # lanes of your own, in place of those that come with Forum
# rung = "lexical"                   # route by words alone: fast; by meaning too where installed

# [tools.lint]                       # a program that agents may use
# cmd = "ruff check"
# seconds = 60
# description = "Checks the code of this project."

# [servers.files]                    # an MCP server whose tools agents may use
# cmd = "mcp-server-files ."
# env = ["HOME"]                     # names of the variables that it is given

# [gates.payments]                   # what a person has to approve, whoever submits the run
# tool = "pay*"                      # before a tool with such a name is used
# argument = "amount"                # and this argument of it
# above = 100                        # is more than that, or cannot be read

# [budgets.daily]                    # what all runs of the ledger together may use in a day
# per = "day"                        # or a month: UTC, by the clock of the database
# usd = 20                           # also tokens, and runs
# [budgets.each-key]                 # what each key may use for itself; or lane = "*"
# per = "month"
# key = "*"
# usd = 50

[agents]
# confine = true                     # programs of agents see no key, and no network: bubblewrap
# write = ["work"]                   # what confined programs may change; also read, connect, env

[clients]
# usd = 0.50                         # what one run may use at most that a client of the server
# seconds = 600                      # asks for, whatever the client says; also tokens, calls, depth

[server]
# host = "127.0.0.1"                 # where to listen; clients need keys: forum keys create
# port = 8080
# allow_hosts = ["forum.example.com"]
# open_loopback = true               # for demos: whoever reaches 127.0.0.1 may submit and read

# [oidc]                             # whose tokens are taken beside keys
# issuer = "https://login.example.com"
# audience = "forum"

# [webhooks.pager]                   # who is told when a run ends, or waits for approval
# url = "https://hooks.example.com/forum"
# secret_env = "PAGER_SECRET"
"""


@click.command()
@click.option(
    "--new-log",
    is_flag=True,
    help="Put a new log in the place of this project's log, which is kept but no longer used.",
)
@common_options.as_json
def init(*, new_log: bool, as_json: bool) -> None:
    """Make a ledger in this folder: forum.toml, a signing key, a policy, a local witness.

    Running it again changes nothing that is there.  If this machine remembers a log of this
    project and its key is gone, nothing is made: restore the key, or begin an epoch.
    """
    path = Path(PROJECT_FILE)
    written = not path.exists()
    if written:
        path.write_text(_TEMPLATE)
    with common_options.open_forum() as forum:
        if new_log:
            forum.keys.start_over()
        fresh = forum.keys.initialise() or new_log
        forum.access.operator_token()
        facts = {
            "made": fresh,
            "origin": forum.origin,
            "key": str(forum.verifier),
            "witness": str(forum.witness.local.verifier),
            "policy": str(forum.policy_file),
            "data": str(forum.settings.data),
        }
        configured = bool(forum.settings.team.get("models"))
    if as_json:
        print_json("forum.init/1", facts)
        return
    click.echo(f"{'made' if fresh else 'found'} the ledger {facts['origin']}")
    click.echo(f"  {'settings':<8} {path.absolute()}{' (new)' if written else ''}")
    for name in ("key", "witness", "policy", "data"):
        click.echo(f"  {name:<8} {facts[name]}")
    step = "" if configured else f"name a model in {PROJECT_FILE}, then: "
    click.echo(f'next: {step}forum submit "Name three rivers."', err=True)
    click.echo("is all well? forum doctor", err=True)


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
    """
    settings = common_options.current_settings()
    if not settings.database:
        raise click.UsageError("no Postgres is configured: set FORUM_DATABASE_URL first")
    applied = upgrade_database(settings, post=post)
    enforced = _enforce_tags(settings) if post else None
    if as_json:
        print_json("forum.upgrade/1", {"applied": applied, "tags_enforced": enforced})
    else:
        click.echo(f"applied: {', '.join(map(str, applied)) or 'nothing, it is up to date'}")
    if enforced is False:
        common_options.echo_error("The ledger does not verify, so tags are not enforced.")
        common_options.echo_error("See why: forum ledger verify. Then: forum db upgrade --post")
        raise SystemExit(EXIT_REJECTED)


def _enforce_tags(settings: Settings) -> bool | None:
    """Enforce tags in the log of this project; return None if it has no log here yet."""
    with Forum(settings) as forum:
        if not settings.key_file.exists():
            return None
        forum.keys.initialise()
        return forum.log.enforce_tags()
