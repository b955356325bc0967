"""`forum tenant`: add and list tenants; and the options of commands that serve them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from forum.app import Forum
from forum.app.tenants import TenantFolders
from forum.config import Settings, bind_tenant, load_settings
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import print_json


class TenantLine(msgspec.Struct, frozen=True):
    """A tenant of a project."""

    name: str
    origin: str
    folder: str


@dataclass(frozen=True, slots=True)
class TenantOptions:
    """Which projects are served beside that of the current directory."""

    tenant: tuple[Path, ...]
    tenants: bool

    @property
    def are_given(self) -> bool:
        """Whether others are served at all."""
        return bool(self.tenant) or self.tenants

    def load_named(self, settings: Settings) -> list[Settings]:
        """Return the settings of this project and of those that were named."""
        named = [bind_tenant(load_settings(folder.resolve(), os.environ)) for folder in self.tenant]
        return [common_options.with_confine(each) for each in (settings, *named)]

    def make_finder(
        self, settings: Settings, report: Callable[[Exception], None] | None = None
    ) -> Callable[[], list[Settings]]:
        """Return a function that finds all tenants, those added since its last call too.

        Tenants whose settings cannot be loaded are reported and left out, or without `report` the
        error is raised.
        """
        if not self.tenants:
            return list
        folders = TenantFolders(settings, report=report)
        # Asked here: the function is called in other threads, too, which do not know the command.
        if not common_options.is_confine_given():
            return folders.load_all
        return lambda: list(map(common_options.confined, folders.load_all()))


tenant_options: Callable[[Callable[..., Any]], Callable[..., Any]] = common_options.collect_options(
    "served",
    TenantOptions,
    click.option(
        "--tenant",
        multiple=True,
        type=common_options.FOLDER,
        help="Another project to serve, too.",
    ),
    click.option("--tenants", is_flag=True, help="Serve all tenants of this project, too."),
)


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
    settings = TenantFolders(common_options.current_settings()).add(name)
    with Forum(settings, common_options.echo_warning) as forum:
        made = forum.keys.initialise()
        forum.access.operator_token()
        line = _describe(forum)
    if as_json:
        print_json("forum.tenant/1", {"made": made, "tenant": line})
        return
    click.echo(f"{'made' if made else 'found'} the tenant {line.name}: {line.origin}")
    click.echo(f"  folder   {line.folder}")
    click.echo("next: forum worker --tenants", err=True)


@tenant.command("list", examples=("forum tenant list",))
@common_options.as_json
def list_tenants(*, as_json: bool) -> None:
    """List the tenants of this project, with the names of their logs."""
    folders = TenantFolders(common_options.current_settings())
    lines = [_describe(Forum(settings)) for settings in folders.load_all()]
    if as_json:
        print_json("forum.tenants/1", {"tenants": lines})
        return
    if not lines:
        common_options.echo_info("there are no tenants; add one with: forum tenant add NAME")
    for line in lines:
        click.echo(f"{line.name}  {line.origin}")
        click.echo(click.style(f"  {line.folder}", dim=True))


def _describe(forum: Forum) -> TenantLine:
    folder = forum.settings.data.parent
    return TenantLine(folder.name, forum.origin, str(folder))
