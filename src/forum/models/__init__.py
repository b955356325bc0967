"""Adapters behind the engine's `Model` and `ToolPort`, one module for each kind of agent or tool.

An adapter makes one call to a provider, program or script, and turns the result into an outcome
with tokens, cost and latency.  Decisions about retries belong to the engine.  This package may
import `forum.engine`, `forum.runs` and the packages below them; only `forum.app` may import it.
Adapters do not import each other.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from forum.config import SecretRules
from forum.engine import DIGEST_TOOL, Model, ToolFactory, ToolPort
from forum.models.command import CommandModel, CommandTool
from forum.models.extensions import make_extension_model, make_extension_tool
from forum.models.file_digest import FileDigestTool
from forum.models.mcp_sessions import McpTarget, TaskServers
from forum.models.mcp_tools import McpTool
from forum.models.process_environment import OPERATOR
from forum.models.sandbox import Sandbox
from forum.models.scripted_model import ScriptedModel
from forum.runs.policy import Agent, Chat, Command, Extension, Library, Scripted, ToolSpec

__all__ = ["make_model", "open_tools"]


def make_model(
    agent: Agent, sandbox: Sandbox | None = None, rules: SecretRules = OPERATOR
) -> Model:
    """Return the model for an agent; programs are confined if there is a sandbox.

    `rules` say which keys the agent may have: its specification may come out of a record.
    """
    match agent:
        case Scripted():
            return ScriptedModel(agent)
        case Command():
            return CommandModel(agent, sandbox, rules)
        case Chat():
            # Imported only when used: the HTTP client takes long to load.
            from forum.models.http_model import HttpModel  # noqa: PLC0415

            return HttpModel(agent, rules)
        case Library():
            # Imported only when used: it takes as long to load as the rest of Forum.
            from forum.models.pydantic_ai_model import PydanticAiModel  # noqa: PLC0415

            return PydanticAiModel(agent, rules=rules)
        case Extension():
            return make_extension_model(agent)
        case _:
            assert_never(agent)


@asynccontextmanager
async def open_tools(
    sandbox: Sandbox | None = None, rules: SecretRules = OPERATOR
) -> AsyncIterator[ToolFactory]:
    """Yield the factory for the tools of one task, and stop the task's servers in the end.

    Programs are confined if there is a sandbox; `rules` say which variables they may have.
    """
    servers = TaskServers()

    def make_tool(tool: ToolSpec) -> ToolPort:
        if tool.server is not None:
            return McpTool(tool, McpTarget(tool.server, sandbox, rules), servers)
        if tool.entry is not None:
            return make_extension_tool(tool)
        if tool.argv == (DIGEST_TOOL,):
            return FileDigestTool(tool)
        return CommandTool(tool, sandbox, rules)

    try:
        yield make_tool
    finally:
        await servers.close()
