"""Extensions of a server: what features and other surfaces add to the API."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import ClassVar

from starlette.routing import Route

from forum.feature import load_part
from forum.features import FEATURES
from forum.surfaces.http.auth import Authenticator, ServerConfig
from forum.surfaces.http.endpoints import Endpoint


class ServerExtension:
    """Endpoints and tasks that are added to a server and share its authentication."""

    home: ClassVar[str] = ""
    """The path of its page for people, if it has one."""

    def endpoints(self, authenticator: Authenticator) -> Sequence[Endpoint]:  # noqa: ARG002  for those that have some
        """Return its operations."""
        return ()

    def routes(self) -> Sequence[Route]:
        """Return the routes of what everybody may have, which are no operations."""
        return ()

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Run its background tasks while the server runs."""
        return nullcontext()


class BackgroundTasks(ServerExtension):
    """The tasks of an extension without its endpoints and pages."""

    def __init__(self, extension: ServerExtension) -> None:
        self._extension = extension

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Run the tasks of the extension."""
        return self._extension.lifespan()


def load_extensions(config: ServerConfig) -> list[ServerExtension]:
    """Return what the features add to a server.

    A server of one feature still does the work of the others: it sends webhooks for its alerts.
    """
    loaded = []
    for feature in FEATURES:
        extension: ServerExtension | None = (
            load_part(feature.server)(config) if feature.server else None
        )
        if extension is not None:
            is_served = config.only in ("", feature.name)
            loaded.append(extension if is_served else BackgroundTasks(extension))
    return loaded
