"""`forum tenant`: add and list tenants."""

import click
import msgspec

from forum.app import Forum, QuotaUse
from forum.app.logs_worker import open_together
from forum.features.tenants.service import TenantAccess, TenantFolders, has_address
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.epoch_view import print_epoch
from forum.surfaces.cli.output import print_json


class TenantLine(msgspec.Struct, frozen=True):
    """A tenant of a project."""

    name: str
    origin: str
    folder: str


class QuotaLine(msgspec.Struct, frozen=True):
    """What a tenant may have, and what it has; null is no limit."""

    weight: int
    runs_at_once: int | None
    runs_per_minute: int | None
    used: QuotaUse


class ListedTenant(TenantLine, frozen=True):
    """A tenant with its quota."""

    quota: QuotaLine


@click.group(cls=common_options.FullHelpGroup)
def tenant() -> None:
    """Add and list tenants: projects with a log of their own in the same Postgres."""


@tenant.command("add", examples=("forum tenant add research",))
@click.argument("name")
@common_options.as_json
def add_tenant(name: str, *, as_json: bool) -> None:
    """Make the tenant NAME: a folder with a project file, keys and a log of its own.

    The folder is tenants/NAME beside the forum.toml of this project.  Running it again changes
    nothing that exists.
    """
    folders = TenantFolders(common_options.current_settings())
    settings = folders.add(name)
    with Forum(folders.as_operator(settings), common_options.echo_warning) as forum:
        made = forum.keys.initialise()
        forum.access.operator_token()
        line = _describe(forum)
    access = None if has_address(settings) else folders.add_role(settings)
    if as_json:
        print_json("forum.tenant/1", {"made": made, "tenant": line, "access": access})
        return
    echo(f"{'made' if made else 'found'} the tenant {line.name}: {line.origin}")
    echo(f"  folder   {line.folder}")
    if access is not None:
        _echo_role(access)
    echo("next: forum worker --tenants", err=True)


@tenant.command("role", examples=("forum tenant role research",))
@click.argument("name")
@common_options.as_json
def make_role(name: str, *, as_json: bool) -> None:
    """Give the tenant NAME a Postgres role of its own, or its role a new password.

    The role sees and changes the rows of its log alone.  Its address is written into the
    forum.toml of the tenant, in the place of that of the operator.  If you may not make roles, the
    statements are printed for somebody who may.
    """
    folders = TenantFolders(common_options.current_settings())
    access = folders.add_role(folders.load(folders.find(name)))
    if as_json:
        print_json("forum.tenant-role/1", {"access": access})
        return
    _echo_role(access)


def _echo_role(access: TenantAccess) -> None:
    if access.statements:
        for statement in access.statements.splitlines():
            echo(statement)
        echo("you may not make roles: have these statements carried out", err=True)
    else:
        echo(f"  role     {access.role}")


@tenant.command("move", examples=("forum tenant move research --to second",))
@click.argument("name")
@click.option(
    "--to",
    "place",
    required=True,
    metavar="DATABASE",
    help="A name of [databases] in forum.toml; home is the database of this project.",
)
@common_options.as_json
def move_tenant(name: str, place: str, *, as_json: bool) -> None:
    """Move the log of the tenant NAME to another database, while its writers work.

    It is copied and verified, then writes are refused for a moment, in which the rest is copied.
    Servers and workers of this project follow it.  If the command is killed, the log is where it
    was or where it was to be, and never in both; typing it again finishes the move.
    """
    folders = TenantFolders(common_options.current_settings())
    result = folders.move(name, place, common_options.echo_info)
    if as_json:
        print_json("forum.tenant-move/1", {"name": name, "database": place, **result._asdict()})
        return
    echo(f"moved the tenant {name} to the database {place}, at size {result.size}")
    if result.pause_s:
        echo(
            f"  {result.copied} entries before the pause, {result.delta} in it; "
            f"no writes for {result.pause_s:.2f} s"
        )


@tenant.command("epoch", examples=('forum tenant epoch research --reason "a failover"',))
@click.argument("name")
@click.confirmation_option(prompt="Close the log of this tenant for good and start its next epoch?")
@click.option("--reason", default="", help="Why the old log is closed; it is recorded.")
@common_options.as_json
def begin_epoch(name: str, reason: str, *, as_json: bool) -> None:
    """Start the next epoch of the log of the tenant NAME, as `forum ledger epoch` does.

    A tenant's role may not add a log, so the operator does.  The log begins in the database in
    which the earlier one is, and the tenant gets a role for it: copy its forum.toml again.
    """
    folders = TenantFolders(common_options.current_settings())
    print_epoch(folders.begin_epoch(name, reason), as_json=as_json)


@tenant.command("list", examples=("forum tenant list",))
@common_options.as_json
def list_tenants(*, as_json: bool) -> None:
    """List the tenants of this project, with the names of their logs and their quotas.

    Quotas are set in the forum.toml of this project, in sections [tenants.NAME].
    """
    folders = TenantFolders(common_options.current_settings())
    with open_together([folders.operator, *folders.load_all()]) as forums:
        lines = [_list_tenant(forum) for forum in forums[1:]]
    if as_json:
        print_json("forum.tenants/1", {"tenants": lines})
        return
    if not lines:
        common_options.echo_info("there are no tenants; add one with: forum tenant add NAME")
    for line in lines:
        echo(f"{line.name}  {line.origin}")
        echo(style(f"  {line.folder}", dim=True))
        echo(f"  {_format_quota(line.quota)}")


def _describe(forum: Forum) -> TenantLine:
    folder = forum.settings.data.parent
    return TenantLine(folder.name, forum.origin, str(folder))


def _list_tenant(forum: Forum) -> ListedTenant:
    quota = forum.settings.quota
    with forum:
        use = forum.runs.quota_use()
    limits = QuotaLine(quota.weight, quota.runs_at_once, quota.runs_per_minute, use)
    return ListedTenant(**msgspec.structs.asdict(_describe(forum)), quota=limits)


def _format_quota(quota: QuotaLine) -> str:
    parts = [
        f"{use}/{most} {what}"
        for what, use, most in (
            ("runs at once", quota.used.runs_at_once, quota.runs_at_once),
            ("runs in this minute", quota.used.runs_per_minute, quota.runs_per_minute),
        )
        if most is not None
    ]
    return ", ".join([*parts, f"weight {quota.weight}"])
