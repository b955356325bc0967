"""Functions of a program as agents and tools of the runs that it drives."""

from collections.abc import Callable
from typing import Any

from forum.models.extensions import FunctionReply as Reply
from forum.runs.policy import Extension, PythonEntry, ToolSpec

__all__ = ["Reply", "register_agent", "register_tool"]


def register_agent(name: str, function: Callable[..., Any], *, usd: int, tokens: int) -> Extension:
    """Make a function an agent of this process, and return its recorded form."""
    from forum.models.extensions import MODELS_GROUP, register_function

    register_function(MODELS_GROUP, name, function)
    return Extension(PythonEntry(name), usd=usd, tokens=tokens)


def register_tool(
    name: str,
    function: Callable[..., Any],
    *,
    description: str,
    schema: dict[str, Any],
    seconds: int,
) -> ToolSpec:
    """Make a function a tool of this process, and return its recorded form."""
    from forum.models.extensions import TOOLS_GROUP, register_function

    register_function(TOOLS_GROUP, name, function)
    return ToolSpec(
        entry=PythonEntry(name), description=description, schema=schema, seconds=seconds
    )
