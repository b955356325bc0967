"""Agents and tools behind the engine's `Model` and `ToolPort`, one module for each kind.

An adapter turns a prompt into one call of one provider, command or script, and its reply into
an outcome with tokens, cost and latency; what to do with that outcome is not its business.
The room may import `forum.engine`, `forum.work` and what lies beneath them, and its adapters do
not know each other.  Only `forum.app` may import it.
"""

from typing import assert_never

from forum.engine import Model, ToolPort
from forum.models.command import CommandModel, CommandTool
from forum.models.scripted import ScriptedModel
from forum.work import Agent, Command, Scripted, Tool

__all__ = ["make_model", "make_tool"]


def make_model(agent: Agent) -> Model:
    """Return who answers for an agent."""
    match agent:
        case Scripted():
            return ScriptedModel(agent)
        case Command():
            return CommandModel(agent)
        case _:
            assert_never(agent)


def make_tool(tool: Tool) -> ToolPort:
    """Return what has the effects of a tool."""
    return CommandTool(tool)
