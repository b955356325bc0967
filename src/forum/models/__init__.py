"""Agents and tools behind the engine's `Model` and `ToolPort`, one module for each kind.

An adapter turns a prompt into one call of one provider, command or script, and its reply into
an outcome with tokens, cost and latency; what to do with that outcome is not its business.
The room may import `forum.engine`, `forum.work` and what lies beneath them, and its adapters do
not know each other.  Only `forum.app` may import it.
"""

from typing import assert_never

from forum.engine import DIGEST_TOOL, Model, ToolPort
from forum.models.command import CommandModel, CommandTool
from forum.models.file_digest import FileDigestTool
from forum.models.mcp_tools import McpTool
from forum.models.sandbox import Sandbox
from forum.models.scripted_model import ScriptedModel
from forum.work import Agent, Chat, Command, Library, Scripted, ToolSpec

__all__ = ["make_model", "make_tool"]


def make_model(agent: Agent, sandbox: Sandbox | None = None) -> Model:
    """Return who answers for an agent; a program is confined where there is a sandbox."""
    match agent:
        case Scripted():
            return ScriptedModel(agent)
        case Command():
            return CommandModel(agent, sandbox)
        case Chat():
            return _make_http_model(agent)
        case Library():
            # What is not used is not loaded: it takes as long as all the rest of Forum.
            from forum.models.pydantic_ai_model import PydanticAiModel  # noqa: PLC0415

            return PydanticAiModel(agent)
        case _:
            assert_never(agent)


def _make_http_model(agent: Chat) -> Model:
    from forum.models.http_model import HttpModel  # noqa: PLC0415
    from forum.models.wire_selection import wire_of  # noqa: PLC0415

    return HttpModel(agent, wire_of(agent.api))


def make_tool(tool: ToolSpec, sandbox: Sandbox | None = None) -> ToolPort:
    """Return what has the effects of a tool; a program is confined where there is a sandbox."""
    if tool.server is not None:
        return McpTool(tool, tool.server, sandbox)
    if tool.argv == (DIGEST_TOOL,):
        return FileDigestTool(tool)
    return CommandTool(tool, sandbox)
