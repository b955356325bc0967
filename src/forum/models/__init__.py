"""Adapters behind the engine's `Model` and `ToolPort`, one module for each kind of agent or tool.

An adapter makes one call to a provider, program or script, and turns the result into an outcome
with tokens, cost and latency.  Decisions about retries belong to the engine.  This package may
import `forum.engine`, `forum.work` and the packages below them; only `forum.app` may import it.
Adapters do not import each other.
"""

from typing import assert_never

from forum.engine import DIGEST_TOOL, Model, ToolPort
from forum.models.command import CommandModel, CommandTool
from forum.models.file_digest import FileDigestTool
from forum.models.mcp_tools import McpTool
from forum.models.sandbox import Sandbox
from forum.models.scripted_model import ScriptedModel
from forum.work.policy import Agent, Chat, Command, Library, Scripted, ToolSpec

__all__ = ["make_model", "make_tool"]


def make_model(agent: Agent, sandbox: Sandbox | None = None) -> Model:
    """Return the model for an agent; programs are confined if there is a sandbox."""
    match agent:
        case Scripted():
            return ScriptedModel(agent)
        case Command():
            return CommandModel(agent, sandbox)
        case Chat():
            # Imported only when used: the HTTP client takes long to load.
            from forum.models.http_model import HttpModel  # noqa: PLC0415

            return HttpModel(agent)
        case Library():
            # Imported only when used: it takes as long to load as the rest of Forum.
            from forum.models.pydantic_ai_model import PydanticAiModel  # noqa: PLC0415

            return PydanticAiModel(agent)
        case _:
            assert_never(agent)


def make_tool(tool: ToolSpec, sandbox: Sandbox | None = None) -> ToolPort:
    """Return the implementation of a tool; programs are confined if there is a sandbox."""
    if tool.server is not None:
        return McpTool(tool, tool.server, sandbox)
    if tool.argv == (DIGEST_TOOL,):
        return FileDigestTool(tool)
    return CommandTool(tool, sandbox)
