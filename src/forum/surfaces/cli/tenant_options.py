"""The options of commands that serve other projects too: named ones, or all tenants."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forum.app.tenant_settings import ServedTenants, bind_operator
from forum.config import Settings, bind_tenant, load_settings
from forum.surfaces.cli import common_options
from forum.surfaces.cli.common_options import option_field


@dataclass(frozen=True, slots=True)
class TenantOptions:
    """Which projects are served beside that of the current directory."""

    tenant: tuple[Path, ...] = option_field(
        multiple=True, type=common_options.FOLDER, help="Another project to serve, too."
    )
    tenants: bool = option_field(is_flag=True, help="Serve all tenants of this project, too.")

    @property
    def are_given(self) -> bool:
        """Whether others are served at all."""
        return bool(self.tenant) or self.tenants

    def load_named(self, settings: Settings) -> list[Settings]:
        """Return the settings of this project and of those that were named."""
        loaded = [load_settings(folder.resolve(), os.environ) for folder in self.tenant]
        named = [bind_operator(settings, bind_tenant(each)) for each in loaded]
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
        folders = ServedTenants(settings, report=report)
        # Asked here: the function is called in other threads, too, which do not know the command.
        if not common_options.is_confine_given():
            return folders.load_all
        return lambda: list(map(common_options.confined, folders.load_all()))


tenant_options: Callable[[Callable[..., Any]], Callable[..., Any]] = common_options.collect_options(
    "served", TenantOptions
)
