"""What features add to the server of a program that runs under a cap."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from forum.app import Forum
from forum.feature import load_parts
from forum.features import FEATURES

if TYPE_CHECKING:  # without it a program can be recorded, too
    from starlette.types import Receive, Scope, Send


class RunExtension(Protocol):
    """Routes beside the gateway's own, for example those that take OpenTelemetry in."""

    def variables(self, base_url: str, token: str) -> Mapping[str, str]:
        """Return the environment variables by which the program finds the routes."""
        ...

    def serves(self, path: str) -> bool:
        """Return whether a path belongs to this extension."""
        ...

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request that has shown the run's token."""
        ...

    def end(self, run: str, step: str) -> None:
        """Learn that the program, a step of a run, has ended."""
        ...


def open_run_extensions(forum: Forum) -> tuple[RunExtension, ...]:
    """Return what features add for one program of a project that is open for writing."""
    opened = (make(forum) for make in load_parts(FEATURES, "run_extension"))
    return tuple(extension for extension in opened if extension is not None)
