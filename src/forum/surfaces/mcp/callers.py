"""The client of a tool call: its ledger, its scopes and its name in entries."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from forum.app import OPERATOR, Approver, Forum
from forum.app.planner import AgentRegistry, CallerAuthority
from forum.errors import ForumError
from forum.ledger.access import has_scope
from forum.ledger.kinds import Scope
from forum.runs.kinds import Authority


@dataclass(frozen=True, slots=True)
class McpCaller(ABC):
    """An authenticated client."""

    forum: Forum
    registry: AgentRegistry
    scopes: frozenset[Scope]
    name: str
    """The actor's name in entries."""
    authority: CallerAuthority
    """What the client's requests may use."""

    @property
    def arguments(self) -> bytes:
        """The arguments of a tool as JSON, if they were read apart from their message."""
        return b""

    @property
    @abstractmethod
    def approver(self) -> Approver:
        """The identity that decides at a gate."""

    @property
    def leaving(self) -> bool:
        """Whether the server is about to stop, so that no call should keep waiting."""
        return False

    @abstractmethod
    async def require_scopes(self, tool: str, scopes: frozenset[Scope]) -> None:
        """Raise and record a denial unless the caller has one of the scopes."""

    @abstractmethod
    def describe_error(self, error: Exception) -> str | None:
        """Return an error's text for this caller, or None for an internal error."""


class ToolDenied(Exception):
    """Raised when a tool is called whose scopes the operator did not grant."""


@dataclass(frozen=True, slots=True)
class LocalCaller(McpCaller):
    """The user who started the server as a local program, with the scopes they granted it."""

    name: str = f"{OPERATOR}/mcp"
    """Distinct from the operator's own name, so that actions of an agent can be told apart."""
    # An AI agent that the user gave some scopes, and not the user: a page that it reads could tell
    # it to use a tool or to read a file.
    authority: CallerAuthority = CallerAuthority.CLIENT

    @property
    def approver(self) -> Approver:
        """The operator, who allowed this client to decide."""
        return Approver(self.name, Authority.OPERATOR)

    async def require_scopes(self, tool: str, scopes: frozenset[Scope]) -> None:
        """Raise `ToolDenied` unless the operator granted one of the scopes."""
        if not has_scope(self.scopes, scopes):
            wanted = " or ".join(sorted(scopes))
            # The option replaces the default scopes, so the advice must list all of them.
            options = " ".join(f"--scope {scope}" for scope in sorted({*self.scopes, max(scopes)}))
            raise ToolDenied(f"{tool} needs the scope {wanted}: forum mcp {options}")

    def describe_error(self, error: Exception) -> str | None:
        """Return the text of every expected error: it is the user's own machine."""
        return str(error) if isinstance(error, ForumError | ToolDenied) else None
