"""The agents and tools that a program brings along: decorated functions, and models by name."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, get_type_hints, overload

import msgspec

from forum import errors
from forum.app.extensions import register_agent, register_tool
from forum.runs.policy import Agent, Api, ToolSpec
from forum.runs.team_settings import model_agent
from forum.spelling import suggest_or_list
from forum.units import NANO_USD, to_exact_units

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_AGENT, _TOOL = "__forum_agent__", "__forum_tool__"

_decorated: dict[tuple[str, str], Callable[..., Any]] = {}
"""The function that runs call by a name, by its attribute (`_AGENT`, `_TOOL`) and name."""

_PROVIDERS: Final[Mapping[str, tuple[Api, str, str]]] = {
    "openai": (Api.CHAT, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai-responses": (Api.RESPONSES, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": (Api.ANTHROPIC, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
}
"""By the name before the colon: the API, and the usual variables of its address and key."""


class NamedTool(msgspec.Struct, frozen=True):
    """A function as a tool: its name, and its recorded form."""

    name: str
    tool: ToolSpec


class NamedAgent(msgspec.Struct, frozen=True):
    """An agent that a program brings along: its name, its recorded form, and its tools."""

    name: str
    agent: Agent
    tools: tuple[NamedTool, ...] = ()


AgentChoice = Callable[..., Any] | NamedAgent | str
"""A function, a model from `forum.model`, `provider:model`, or the name of one in forum.toml."""


@overload
def agent(function: FunctionT) -> FunctionT: ...


@overload
def agent(
    function: None = None, *, name: str = "", usd: float | str = 0, tokens: int = 0
) -> Callable[[FunctionT], FunctionT]: ...


def agent(
    function: FunctionT | None = None, *, name: str = "", usd: float | str = 0, tokens: int = 0
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Make a function from a prompt to a reply an agent.

    It may be a coroutine function.  `usd` and `tokens` are the highest cost of one call, which is
    reserved before the call.  It is billed after it, unless the function returns a `forum.Reply`
    that says what the call cost.  Raises `FunctionNameTaken`.
    """

    def register(wrapped: FunctionT) -> FunctionT:
        chosen = name or wrapped.__name__
        price = to_exact_units(usd, NANO_USD)
        _take_name(_AGENT, chosen, wrapped)
        spec = register_agent(chosen, wrapped, usd=price, tokens=tokens)
        setattr(wrapped, _AGENT, NamedAgent(chosen, spec))
        return wrapped

    return register if function is None else register(function)


@overload
def tool(function: FunctionT) -> FunctionT: ...


@overload
def tool(
    function: None = None, *, name: str = "", seconds: int = 60
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: FunctionT | None = None, *, name: str = "", seconds: int = 60
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Make a function a tool: its docstring describes it, its type hints are its schema.

    The intent to use it is recorded before it is called, and its outcome after it.  Raises
    `FunctionNameTaken`.
    """

    def register(wrapped: FunctionT) -> FunctionT:
        chosen = name or wrapped.__name__
        schema = _schema_of(wrapped)
        _take_name(_TOOL, chosen, wrapped)
        spec = register_tool(
            chosen,
            wrapped,
            description=inspect.getdoc(wrapped) or "",
            schema=schema,
            seconds=seconds,
        )
        setattr(wrapped, _TOOL, NamedTool(chosen, spec))
        return wrapped

    return register if function is None else register(function)


def model(
    name: str,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    max_tokens: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> NamedAgent:
    """Return a model as an agent: `openai:gpt-5-mini`, `anthropic:claude-sonnet-5`.

    Its key is in the usual variable (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`), its address too if it
    is another one (`OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`), and its price in the price table.
    Models of other providers are called through pydantic-ai, if that is installed.  `tools` are
    granted to the runs that the model works in; `max_tokens` is the most that it may write in one
    reply, and `options` are further members of its requests.  Raises `Malformed`.
    """
    provider, colon, called = name.partition(":")
    if not colon or not called:
        raise errors.Malformed("model", f"{name!r}: write provider:model, as openai:gpt-5-mini")
    settings: dict[str, Any] = {"kind": "pydantic-ai", "model": name}
    if provider in _PROVIDERS:
        settings = _endpoint(called, *_PROVIDERS[provider])
    if max_tokens is not None:
        settings["max_tokens"] = max_tokens
    if options:
        settings["options"] = dict(options)
    try:
        spec = model_agent(settings)
    except ValueError as error:
        raise errors.Malformed("model", f"{name}: {error}") from None
    return NamedAgent(name, spec, tuple(map(named_tool, tools)))


def _endpoint(called: str, api: Api, url_variable: str, key_variable: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"kind": "chat", "model": called, "api": api.value}
    if url := os.environ.get(url_variable):
        # The client of Anthropic appends the version itself, and ours does not.
        versioned = url.rstrip("/").endswith("/v1") or api is not Api.ANTHROPIC
        settings["url"] = url if versioned else f"{url.rstrip('/')}/v1"
        if os.environ.get(key_variable):
            # Who sets the address by this variable means the key of the same provider.
            settings["key_env"] = key_variable
    return settings


def named_agent(choice: AgentChoice, configured: Mapping[str, Agent]) -> NamedAgent:
    """Return an agent that a program has passed.  Raises `Malformed` and `FunctionNameTaken`."""
    if isinstance(choice, NamedAgent):
        return choice
    if isinstance(choice, str):
        if ":" in choice:
            return model(choice)
        if choice not in configured:
            names = [name for name in configured if name]
            why = f"forum.toml has no model of that name; {suggest_or_list(choice, names)}"
            raise errors.Malformed("agent", f"{choice!r}: {why}, or write provider:model")
        return NamedAgent(choice, configured[choice])
    part = find_agent(choice)
    if part is None:
        raise errors.Malformed("agent", f"{choice!r} is not decorated with forum.agent")
    return part


def find_agent(function: Callable[..., Any]) -> NamedAgent | None:
    """Return a decorated function as an agent, else None.  Raises `FunctionNameTaken`."""
    part = getattr(function, _AGENT, None)
    if not isinstance(part, NamedAgent):
        return None
    _check_current(_AGENT, part, function)
    return part


def named_tool(function: Callable[..., Any]) -> NamedTool:
    """Return a tool that a program has passed.  Raises `Malformed` and `FunctionNameTaken`."""
    part = getattr(function, _TOOL, None)
    if not isinstance(part, NamedTool):
        raise errors.Malformed("tool", f"{function!r} is not decorated with forum.tool")
    _check_current(_TOOL, part, function)
    return part


def all_tools(
    tools: Iterable[Callable[..., Any]], agents: Iterable[NamedAgent]
) -> dict[str, ToolSpec]:
    """Return the tools of a program and of its agents, by name."""
    named = [*map(named_tool, tools), *(each for named_part in agents for each in named_part.tools)]
    return {named_part.name: named_part.tool for named_part in named}


def _take_name(attribute: str, name: str, function: Callable[..., Any]) -> None:
    """Note that runs call this function by a name.  Raises `FunctionNameTaken`.

    It may replace a former version of itself: a module was loaded again, or a cell of a notebook.
    """
    before = _decorated.get((attribute, name))
    if before is not None and not _sources_of(before) & _sources_of(function):
        raise errors.FunctionNameTaken(name, _describe(before), _describe(function))
    _decorated[attribute, name] = function


def _check_current(
    attribute: str, part: NamedAgent | NamedTool, function: Callable[..., Any]
) -> None:
    """Refuse a function whose name another one has by now: a run would call the other one."""
    current = _decorated[attribute, part.name]
    # A wrapper of a decorated function has its attributes, and stands for it.
    if getattr(current, attribute) is not part:
        raise errors.FunctionNameTaken(part.name, _describe(function), _describe(current))


def _sources_of(function: Callable[..., Any]) -> set[tuple[str, str]]:
    """Return where a function is written.

    Its module is another one if a script imports itself; its file, if a cell is run again.
    """
    name, code = _name_of(function), getattr(function, "__code__", None)
    sources = {(function.__module__, name)}
    return sources | {(code.co_filename, name)} if code else sources


def _describe(function: Callable[..., Any]) -> str:
    name, code = _name_of(function), getattr(function, "__code__", None)
    return f"{function.__module__}.{name}{f' (line {code.co_firstlineno})' if code else ''}"


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, from its type hints."""
    hints = get_type_hints(function)
    members, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        members[name] = msgspec.json.schema(hints[name]) if name in hints else {}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {
        "type": "object",
        "properties": members,
        "required": required,
        "additionalProperties": False,
    }
