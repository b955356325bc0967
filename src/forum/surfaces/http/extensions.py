"""Extensions of a server: what features and other surfaces add to the API."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import ClassVar

from starlette.routing import Route

from forum.feature import load_parts
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


def load_extensions(config: ServerConfig) -> list[ServerExtension]:
    """Return what the features add to a server."""
    made: list[ServerExtension | None] = [make(config) for make in load_parts(FEATURES, "server")]
    return [extension for extension in made if extension is not None]
