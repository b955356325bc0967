"""Agents and tools that are Python code: entry points of distributions, and functions of programs.

A distribution registers a model in the group `forum.models` and a tool in the group `forum.tools`:

- a model is called with its options and returns an object with the methods of `forum.engine.Model`,
  or is itself a function from a prompt to a reply;
- a tool is a function whose arguments are the members of the tool's JSON arguments.

A policy names the distribution and the version.  Another version is refused, so that a record says
what was used.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from forum import errors
from forum.engine import CallReply, Model, ModelCall, ToolInvocation, ToolPort
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models.names import plain_name
from forum.models.prices import BilledTokens, find_price
from forum.runs.kinds import Why
from forum.runs.policy import Extension, PythonEntry, ToolSpec
from forum.units import to_cost

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MODELS_GROUP: Final = "forum.models"
TOOLS_GROUP: Final = "forum.tools"

_functions: dict[tuple[str, str], Callable[..., Any]] = {}
"""The functions that this program has registered, by group and name."""


def register_function(group: str, name: str, function: Callable[..., Any]) -> None:
    """Make a function of this program available to the runs that this process drives."""
    _functions[group, name] = function


def pin_entry(group: str, entry: PythonEntry) -> PythonEntry:
    """Return an entry with its distribution and version, if a distribution registers its name."""
    entry_point = _find_entry_point(group, entry.name)
    if entry_point is None or entry_point.dist is None:
        return entry
    return PythonEntry(entry.name, entry_point.dist.name, entry_point.dist.version)


def find_extension_problem(agent: Extension) -> str:
    """Return why an agent cannot be used in this process; empty if it can."""
    try:
        _load(MODELS_GROUP, agent.entry)
    except errors.ExtensionMissing as error:
        return str(error)
    return ""


def make_extension_model(agent: Extension) -> Model:
    """Return the model of an extension.  Raises `ExtensionMissing`."""
    loaded = _load(MODELS_GROUP, agent.entry)
    if agent.entry.distribution and not _is_reply_function(loaded):
        made: Model = loaded(agent.options)
        return made
    return FunctionModel(agent, loaded)


def make_extension_tool(tool: ToolSpec) -> ToolPort:
    """Return the tool of an extension.  Raises `ExtensionMissing`."""
    assert tool.entry is not None  # noqa: S101  the caller has looked
    return FunctionTool(tool, _load(TOOLS_GROUP, tool.entry))


class FunctionReply(msgspec.Struct, frozen=True):
    """The reply of an agent that is a function, and what its call used."""

    text: str
    tokens: tuple[int, int] | None = None
    """The tokens that a model has read and written; None: what the agent declares."""
    usd: float | str | Decimal | None = None
    """What the call cost, in dollars; None: by `tokens` and `model`, or what the agent declares."""
    model: str = ""
    """The name of the model in the price table."""

    def spent(self, declared: Amount) -> Amount:
        """Return what the call has cost.  Raises `ValueError`."""
        tokens = declared.tokens if self.tokens is None else sum(self.tokens)
        usd = declared.usd
        if self.usd is not None:
            usd = to_cost(self.usd)
        elif self.model and self.tokens is not None:
            usd = find_price(self.model, "").cost(BilledTokens(*self.tokens))
        return Amount(usd, tokens, 1)


class FunctionModel:
    """A model that is a function from a prompt to a reply."""

    def __init__(self, spec: Extension, function: Callable[..., Any]) -> None:
        self._spec, self._function = spec, function

    @property
    def name(self) -> str:
        """The name of the function, reduced to the characters that names in the ledger may have."""
        return plain_name(str(self._spec.entry)) or "function"

    def bound(self, call: ModelCall) -> Amount:  # noqa: ARG002  # as in `Model`
        """Return the declared price: a function does not report its cost."""
        return Amount(self._spec.usd, self._spec.tokens, 1)

    async def reply(self, call: ModelCall) -> CallReply:
        """Call the function with the prompt."""
        prompt = b"".join(call.prompt.chunks()).decode(errors="replace")
        replies: list[FunctionReply] = []
        reply = await _call(
            self._function, (prompt,), self._spec.options, call.seconds, replies=replies
        )
        spent = Amount(self._spec.usd, self._spec.tokens, 1)
        function_reply = replies[0] if replies else FunctionReply("")
        try:
            spent = function_reply.spent(spent)
        except (ValueError, TypeError, errors.UnknownPrice) as error:
            reply = _failure("reply", f"forum.Reply: {error}", reply.milliseconds)
        return CallReply(
            reply.outcome,
            output=reply.output,
            spent=spent,
            milliseconds=reply.milliseconds,
            why=reply.why,
            code=reply.code,
            error=reply.error,
            input_tokens=min(function_reply.tokens[0], spent.tokens)
            if function_reply.tokens
            else 0,
            model=plain_name(function_reply.model),
        )


class FunctionTool:
    """A tool that is a function."""

    def __init__(self, spec: ToolSpec, function: Callable[..., Any]) -> None:
        self._spec, self._function = spec, function

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Call the function with the arguments that the agent has written."""
        given = b"".join(invocation.arguments.chunks())
        named, text = _read_arguments(given)
        return await _call(self._function, text, named, self._spec.seconds)


def _read_arguments(given: bytes) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the members of a JSON object, or any other text as the only argument.

    A criterion of a task gives its tool the result of the task, which may be any text.
    """
    try:
        arguments = msgspec.json.decode(given or b"{}")
    except msgspec.MsgspecError:
        arguments = None
    if isinstance(arguments, dict):
        return arguments, ()
    return {}, (given.decode(errors="replace"),)


async def _call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    seconds: float,
    replies: list[FunctionReply] | None = None,
) -> CallReply:
    """Call a function within its time; its errors are outcomes of the reply.

    A result that says what it cost is appended to `replies`.
    """
    started = monotonic()

    def elapsed() -> int:
        return round(1000 * (monotonic() - started))

    try:
        async with asyncio.timeout(seconds):
            if inspect.iscoroutinefunction(function):
                result = await function(*arguments, **named)
            else:
                # A thread cannot be stopped: what it does after its time is not waited for.
                result = await asyncio.to_thread(function, *arguments, **named)
    except TimeoutError:
        return CallReply(Outcome.TIMEOUT, milliseconds=elapsed(), why=Why.DEADLINE)
    except Exception as error:  # noqa: BLE001  an error of the code is an outcome
        return _failure(type(error).__name__, str(error), elapsed())
    if isinstance(result, FunctionReply) and replies is not None:
        replies.append(result)
        result = result.text
    return CallReply(Outcome.OK, output=_to_content(result), milliseconds=elapsed())


def _failure(code: str, error: str, milliseconds: int) -> CallReply:
    return CallReply(
        Outcome.FAILED,
        milliseconds=milliseconds,
        why=Why.ERROR,
        code=code,
        error=text_content(error),
    )


def _to_content(result: object) -> Content:
    if isinstance(result, bytes):
        return BytesContent(result)
    if isinstance(result, str):
        return text_content(result)
    return BytesContent(msgspec.json.encode(result, enc_hook=repr))


def _load(group: str, entry: PythonEntry) -> Callable[..., Any]:
    """Return the code of an entry.  Raises `ExtensionMissing`."""
    if not entry.distribution:
        function = _functions.get((group, entry.name))
        if function is None:
            why = "no distribution registers it, and this program has no such function"
            raise errors.ExtensionMissing(str(entry), why)
        return function
    point = _find_entry_point(group, entry.name)
    if point is None or point.dist is None or point.dist.name != entry.distribution:
        raise errors.ExtensionMissing(str(entry), f"install {entry.distribution}=={entry.version}")
    if point.dist.version != entry.version:
        why = f"version {point.dist.version} is installed; the run names {entry.version}"
        raise errors.ExtensionMissing(str(entry), why)
    try:
        loaded: Callable[..., Any] = point.load()
    except Exception as error:
        # Whatever the import of foreign code raises, the operator must learn whose it is.
        raise errors.ExtensionMissing(str(entry), f"it cannot be loaded: {error}") from error
    return loaded


def _find_entry_point(group: str, name: str) -> "EntryPoint | None":
    # Imported only when used: most commands name no extension.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return next(iter(entry_points(group=group, name=name)), None)


def _is_reply_function(loaded: Callable[..., Any]) -> bool:
    """Tell whether the code is a function from a prompt to a reply, and makes no model."""
    if inspect.iscoroutinefunction(loaded):
        return True
    try:
        first = next(iter(inspect.signature(loaded).parameters), "")
    except (TypeError, ValueError):
        return False
    return first == "prompt"
