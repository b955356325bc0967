"""A hook of the build: a release without the dashboard is refused."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INDEX = "src/forum/surfaces/http/ui/index.html"


class DashboardCheck(BuildHookInterface[Any]):
    """Checks that the dashboard was built; it builds nothing, so that users need no Node."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  as hatch has it
        """Raise if files are missing, unless the build only makes a checkout importable."""
        if version != "editable" and not (Path(self.root) / INDEX).exists():
            raise FileNotFoundError(
                f"{INDEX} is missing: build the dashboard with `just web` first"
            )
