"""Adapter for models behind pydantic-ai: one request for each call, without retries.

API keys are read by pydantic-ai, from the environment variables of each provider.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, cast

import msgspec

from forum.engine import CallReply, ModelCall
from forum.errors import MissingExtra
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import prices, provider_http, wire
from forum.models.provider_outcome import ProviderOutcome, plain_label, refused_reply
from forum.work.kinds import Why
from forum.work.policy import Library
from forum.work.prompt import MessageRole

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
    "length": wire.Finish.LENGTH,
    "content_filter": wire.Finish.REFUSED,
    "error": wire.Finish.FAILED,
}
_NOT_SENT: Final = frozenset({"pool", "connect"})


class PydanticAiModel:
    """A model that is called through pydantic-ai."""

    def __init__(
        self,
        spec: Library,
        infer: Callable[[str], Model] = infer_model,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._infer, self._clock = spec, infer, clock
        self._price: prices.Price = prices.price_of(spec)

    @property
    def name(self) -> str:
        """The model's name, reduced to the characters that names in the ledger may have."""
        return plain_label(self._spec.model)

    def bound(self, call: ModelCall) -> Amount:
        """Return the upper bound of the cost of a call."""
        return prices.bound_of(self._price, call, self._spec.max_tokens)

    async def reply(self, call: ModelCall) -> CallReply:
        """Make the call once and return its outcome."""
        began = self._clock()
        told = ProviderOutcome(self._price, self.bound(call), call, wire.ReplyBuilder(call.hear))
        try:
            reply = await self._request(call, told)
        except (UserError, ImportError) as error:
            said = text_content(str(error)[: provider_http.MAX_ERROR_BYTES])
            reply = CallReply(Outcome.DENIED, why=Why.ERROR, code="not-configured", error=said)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            said = text_content(
                f"this call cannot be written as JSON: {error}; look at its schemas"
            )
            reply = CallReply(Outcome.FAILED, why=Why.ERROR, code="bad-request", error=said)
        spent = round(1000 * (self._clock() - began))
        return replace(reply, milliseconds=spent, prices=self._price.id)

    async def _request(self, call: ModelCall, told: ProviderOutcome) -> CallReply:
        # `extra_body` bypasses pydantic-ai and could override the token limit.
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
            _read_response(response, told.said)
        except AgentRunError as error:
            return _error_reply(error, told)
        except TimeoutError:
            return told.partial_reply(provider_http.HttpOutcome(provider_http.HttpEnd.LATE))
        except provider_http.ReplyTooLarge:
            return told.partial_reply(provider_http.HttpOutcome(provider_http.HttpEnd.OVERSIZE))
        return told.complete_reply()


def _parameters(call: ModelCall, model: Model) -> ModelRequestParameters:
    tools = [
        _tool(one.name, one.description, wire.parse_tool_schema(one.schema)) for one in call.offers
    ]
    if not call.schema:
        return ModelRequestParameters(function_tools=tools)
    form = wire.parse_tool_schema(call.schema)
    # Only the provider's native schema support guarantees the form of the output.
    native = model.profile.get("supports_json_schema_output")
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if native else "tool",
        output_object=OutputObjectDefinition(form, wire.ANSWER_NAME),
        output_tools=[_tool(wire.ANSWER_NAME, "Give the final answer.", form, "output")],
    )


def _tool(
    name: str, told: str, form: dict[str, Any], kind: Literal["function", "output"] = "function"
) -> ToolDefinition:
    return ToolDefinition(name=name, description=told, parameters_json_schema=form, kind=kind)


def _messages(call: ModelCall) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    asked = wire.ToolCallIds(call.offers)
    wanted: tuple[str, ...] = ()
    for number, turn in enumerate(wire.messages_of(call)):
        if turn.who is MessageRole.AGENT:
            ids = asked.make_ids(number, turn.uses)
            wanted = tuple(use.tool for use in turn.uses)
            said: list[ModelResponsePart] = [TextPart(wire.text_of(turn))] if turn.text else []
            for name, use in zip(ids, turn.uses, strict=True):
                said.append(ToolCallPart(use.tool, asked.arguments(use), name))
            messages.append(ModelResponse(said))
            continue
        part: ModelRequestPart = UserPromptPart(wire.text_of(turn))
        if turn.who is MessageRole.SYSTEM:
            part = SystemPromptPart(wire.text_of(turn))
        elif turn.who is MessageRole.TOOL and (asker := asked.id_of(turn.use)) is not None:
            part = ToolReturnPart(wanted[turn.use], wire.text_of(turn), asker)
        if messages and isinstance(last := messages[-1], ModelRequest):
            last.parts = [*last.parts, part]
        else:
            messages.append(ModelRequest([part]))
    return messages


def _read_response(response: ModelResponse, said: wire.ReplyBuilder) -> None:
    said.model = response.model_name or ""
    said.finish = _FINISHES.get(response.finish_reason or "", wire.Finish.COMPLETE)
    usage = response.usage
    read, spoken = usage.input_tokens, usage.output_tokens
    if wire.is_valid_count(read, spoken):
        said.tokens = prices.BilledTokens(
            read, spoken, usage.cache_read_tokens, usage.cache_write_tokens
        )
    for number, part in enumerate(response.parts):
        match part:
            case TextPart():
                said.add_text(part.content)
            case ToolCallPart(tool_name=name) if name == wire.ANSWER_NAME:
                said.add_text(part.args_as_json_str())
            case ToolCallPart(tool_name=name):
                said.add_tool_call(number, name, part.args_as_json_str())
            case _:
                pass  # reasoning is not part of the output


def _error_reply(error: AgentRunError, told: ProviderOutcome) -> CallReply:
    said = str(error).encode(errors="replace")[: provider_http.MAX_ERROR_BYTES]
    match error:
        case ModelHTTPError() if not error.in_stream:
            pause = int(min(1000 * (error.retry_after or 0), provider_http.MAX_RETRY_AFTER_MS))
            return refused_reply(
                provider_http.HttpOutcome(
                    provider_http.HttpEnd.REFUSED, error.status_code, max(pause, 0), said
                )
            )
        case ModelConnectionError() if error.phase in _NOT_SENT:
            return refused_reply(
                provider_http.HttpOutcome(provider_http.HttpEnd.CONNECT, error=said)
            )
        case ModelTimeoutError():
            return told.partial_reply(
                provider_http.HttpOutcome(provider_http.HttpEnd.LATE, error=said)
            )
        case ModelConnectionError():
            return told.partial_reply(
                provider_http.HttpOutcome(provider_http.HttpEnd.EARLY, error=said)
            )
        case ContentFilterError():
            told.said.set_error(wire.Finish.REFUSED, said)
        case _:
            told.said.set_error(wire.Finish.FAILED, said)
    return told.complete_reply()
