"""Who asks, whatever way they came: their ledger, their scopes, their name in the record."""

from dataclasses import dataclass
from typing import Protocol

from forum.app import OPERATOR, Approver, Forum
from forum.errors import ForumError
from forum.ledger import Scope, has_scope
from forum.planning import AgentRegistry
from forum.work import Authority


class McpCaller(Protocol):
    """Somebody who was let in."""

    @property
    def name(self) -> str:
        """As entries have it."""
        ...

    @property
    def approver(self) -> Approver:
        """Who decides at a gate, if this one does."""
        ...

    @property
    def scopes(self) -> frozenset[Scope]:
        """What that one may do."""
        ...

    @property
    def forum(self) -> Forum:
        """The ledger that is theirs."""
        ...

    @property
    def staff(self) -> AgentRegistry:
        """Those who work for it."""
        ...

    @property
    def leaving(self) -> bool:
        """Whether the server is about to end: nobody should be kept waiting."""
        ...

    async def require_scopes(self, tool: str, scopes: frozenset[Scope]) -> None:
        """Refuse a tool, on record, to those who have none of its scopes; `explain` tells why."""
        ...

    def describe_error(self, error: Exception) -> str | None:
        """Return what this caller may know of an error; nothing of what is a fault of ours."""
        ...


class ToolDenied(Exception):
    """A tool was called that the operator did not open."""


@dataclass(frozen=True, slots=True)
class LocalCaller:
    """Whoever started the server as a program of theirs, with the scopes that they gave it."""

    forum: Forum
    staff: AgentRegistry
    scopes: frozenset[Scope]
    name: str = f"{OPERATOR}/mcp"
    """Not the operator alone: what an agent did in their name should be told from what they did."""
    leaving: bool = False

    @property
    def approver(self) -> Approver:
        """The operator, who has let this client decide."""
        return Approver(self.name, Authority.OPERATOR)

    async def require_scopes(self, tool: str, scopes: frozenset[Scope]) -> None:
        """Refuse what was not opened."""
        if not has_scope(self.scopes, scopes):
            wanted = " or ".join(sorted(scopes))
            # The option replaces what holds without it: all that is to hold has to be said.
            given = " ".join(f"--scope {scope}" for scope in sorted({*self.scopes, max(scopes)}))
            raise ToolDenied(f"{tool} needs the scope {wanted}: forum mcp {given}")

    def describe_error(self, error: Exception) -> str | None:
        """Tell everything that is meant for people: it is their own machine."""
        return str(error) if isinstance(error, ForumError | ToolDenied) else None
