"""A model that is reached through pydantic-ai: one request for each call, and no retries.

Keys are where pydantic-ai looks for them: in the environment, under the names of each provider.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, cast

import msgspec

from forum.engine import Call, Reply
from forum.errors import MissingExtra
from forum.ledger import Amount, Outcome, text
from forum.models.http import MOST_ERRORS, MOST_PAUSE, Answer, End, TooMuch
from forum.models.prices import Price, Tokens, bound_of, price_of
from forum.models.verdict import Told, label, refusal
from forum.models.wire import ANSWER, Asked, Finish, Said, count, schema_of, turns_of, words
from forum.work import Library, Who, Why

try:
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import (
        AgentRunError,
        ContentFilterError,
        ModelConnectionError,
        ModelHTTPError,
        ModelTimeoutError,
        UserError,
    )
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
except ImportError:
    raise MissingExtra("agents", "the package pydantic-ai-slim is not installed") from None

_FINISHES: Final = {
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
    "error": Finish.FAILED,
}
_NOT_SENT: Final = frozenset({"pool", "connect"})


class LibraryModel:
    """An agent that is a model behind pydantic-ai."""

    def __init__(
        self,
        spec: Library,
        infer: Callable[[str], Model] = infer_model,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._infer, self._clock = spec, infer, clock
        self._price: Price = price_of(spec)

    @property
    def name(self) -> str:
        """The model's name, as plain as the record wants names to be."""
        return label(self._spec.model)

    def bound(self, call: Call) -> Amount:
        """Return the most that a call can cost."""
        return bound_of(self._price, call, self._spec.max_tokens)

    async def reply(self, call: Call) -> Reply:
        """Make the call, once."""
        began = self._clock()
        told = Told(self._price, self.bound(call), call, Said(call.hear))
        try:
            reply = await self._ask(call, told)
        except (UserError, ImportError) as error:
            said = text(str(error)[:MOST_ERRORS])
            reply = Reply(Outcome.DENIED, why=Why.ERROR, code="not-configured", error=said)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            said = text(f"this call cannot be written as JSON: {error}; look at its schemas")
            reply = Reply(Outcome.FAILED, why=Why.ERROR, code="bad-request", error=said)
        spent = round(1000 * (self._clock() - began))
        return replace(reply, milliseconds=spent, prices=self._price.id)

    async def _ask(self, call: Call, told: Told) -> Reply:
        # What is put past pydantic-ai could lift the limit.
        options = {name: one for name, one in self._spec.options.items() if name != "extra_body"}
        settings = options | {"max_tokens": self._spec.max_tokens, "max_retries": 0}
        try:
            async with asyncio.timeout(call.seconds), self._infer(self._spec.model) as model:
                response = await model_request(
                    model,
                    _messages(call),
                    model_settings=cast("ModelSettings", settings),
                    model_request_parameters=_parameters(call, model),
                )
            _take(response, told.said)
        except AgentRunError as error:
            return _failed(error, told)
        except TimeoutError:
            return told.part(Answer(End.LATE))
        except TooMuch:
            return told.part(Answer(End.OVERSIZE))
        return told.whole()


def _parameters(call: Call, model: Model) -> ModelRequestParameters:
    tools = [_tool(one.name, one.description, schema_of(one.schema)) for one in call.offers]
    if not call.schema:
        return ModelRequestParameters(function_tools=tools)
    form = schema_of(call.schema)
    # Only a form that the provider itself knows holds a model to it.
    native = model.profile.get("supports_json_schema_output")
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if native else "tool",
        output_object=OutputObjectDefinition(form, ANSWER),
        output_tools=[_tool(ANSWER, "Give the final answer.", form, "output")],
    )


def _tool(
    name: str, told: str, form: dict[str, Any], kind: Literal["function", "output"] = "function"
) -> ToolDefinition:
    return ToolDefinition(name=name, description=told, parameters_json_schema=form, kind=kind)


def _messages(call: Call) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    asked = Asked(call.offers)
    wanted: tuple[str, ...] = ()
    for number, turn in enumerate(turns_of(call)):
        if turn.who is Who.AGENT:
            ids = asked.ids(number, turn.uses)
            wanted = tuple(use.tool for use in turn.uses)
            said: list[ModelResponsePart] = [TextPart(words(turn))] if turn.text else []
            for name, use in zip(ids, turn.uses, strict=True):
                said.append(ToolCallPart(use.tool, asked.arguments(use), name))
            messages.append(ModelResponse(said))
            continue
        part: ModelRequestPart = UserPromptPart(words(turn))
        if turn.who is Who.SYSTEM:
            part = SystemPromptPart(words(turn))
        elif turn.who is Who.TOOL and (asker := asked.id_of(turn.use)) is not None:
            part = ToolReturnPart(wanted[turn.use], words(turn), asker)
        if messages and isinstance(last := messages[-1], ModelRequest):
            last.parts = [*last.parts, part]
        else:
            messages.append(ModelRequest([part]))
    return messages


def _take(response: ModelResponse, said: Said) -> None:
    said.model = response.model_name or ""
    said.finish = _FINISHES.get(response.finish_reason or "", Finish.COMPLETE)
    usage = response.usage
    read, spoken = usage.input_tokens, usage.output_tokens
    if count(read, spoken):
        said.tokens = Tokens(read, spoken, usage.cache_read_tokens, usage.cache_write_tokens)
    for number, part in enumerate(response.parts):
        match part:
            case TextPart():
                said.add(part.content)
            case ToolCallPart(tool_name=name) if name == ANSWER:
                said.add(part.args_as_json_str())
            case ToolCallPart(tool_name=name):
                said.wish(number, name, part.args_as_json_str())
            case _:
                pass  # thoughts are no output


def _failed(error: AgentRunError, told: Told) -> Reply:
    said = str(error).encode(errors="replace")[:MOST_ERRORS]
    match error:
        case ModelHTTPError() if not error.in_stream:
            pause = int(min(1000 * (error.retry_after or 0), MOST_PAUSE))
            return refusal(Answer(End.REFUSED, error.status_code, max(pause, 0), said))
        case ModelConnectionError() if error.phase in _NOT_SENT:
            return refusal(Answer(End.CONNECT, error=said))
        case ModelTimeoutError():
            return told.part(Answer(End.LATE, error=said))
        case ModelConnectionError():
            return told.part(Answer(End.EARLY, error=said))
        case ContentFilterError():
            told.said.fail(Finish.REFUSED, said)
        case _:
            told.said.fail(Finish.FAILED, said)
    return told.whole()
