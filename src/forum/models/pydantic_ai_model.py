"""Adapter for models behind pydantic-ai: one request for each call, without retries.

API keys are read by pydantic-ai, from the environment variables of each provider.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

from forum.config import SecretRules
from forum.engine import CallReply, ModelCall
from forum.installation import missing_extra
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.models import provider_http, provider_outcome, wire
from forum.models.process_environment import OPERATOR
from forum.models.provider_http import HttpEnd, HttpOutcome
from forum.runs.kinds import Why
from forum.runs.policy import Library
from forum.runs.prompt import MessageRole
from forum.runs.server_sent_events import ReplyTooLarge

try:
    from pydantic_ai import exceptions, messages
    from pydantic_ai.direct import model_request
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
except ImportError:
    raise missing_extra("agents", "the package pydantic-ai-slim is not installed") from None

_FINISHES: Final = {
    "length": wire.Finish.LENGTH,
    "content_filter": wire.Finish.REFUSED,
    "error": wire.Finish.FAILED,
}
_KEYS_OF_OPERATOR: Final = (
    "pydantic-ai reads the keys of this process, which are not those of this ledger; "
    'write kind = "chat" with key_env or key_file'
)
_NOT_SENT: Final = frozenset({"pool", "connect"})


class PydanticAiModel(provider_outcome.PricedModel[Library]):
    """A model that is called through pydantic-ai."""

    def __init__(
        self,
        spec: Library,
        infer: Callable[[str], Model] = infer_model,
        rules: SecretRules = OPERATOR,
    ) -> None:
        super().__init__(spec)
        self._infer, self._rules = infer, rules

    async def _call(self, call: ModelCall) -> CallReply:
        if self._rules.tenant is not None:
            message = text_content(_KEYS_OF_OPERATOR)
            return CallReply(Outcome.DENIED, why=Why.ERROR, code="no-key", error=message)
        received = wire.ReplyBuilder(call.hear)
        outcome = provider_outcome.ProviderOutcome(self._price, self.bound(call), call, received)
        try:
            return await self._request(call, outcome)
        except (exceptions.UserError, ImportError) as error:
            message = text_content(str(error)[: provider_http.MAX_ERROR_BYTES])
            return CallReply(Outcome.DENIED, why=Why.ERROR, code="not-configured", error=message)
        except wire.UNREADABLE as error:
            return provider_outcome.unencodable_reply(error)

    async def _request(
        self, call: ModelCall, outcome: provider_outcome.ProviderOutcome
    ) -> CallReply:
        # `extra_body` bypasses pydantic-ai and could override the token limit.
        options = {n: value for n, value in self._spec.options.items() if n != "extra_body"}
        settings = options | {"max_tokens": self._spec.max_tokens, "max_retries": 0}
        try:
            async with asyncio.timeout(call.seconds), self._infer(self._spec.model) as model:
                response = await model_request(
                    model,
                    _sent_messages(call),
                    model_settings=cast("ModelSettings", settings),
                    model_request_parameters=_parameters(call, model),
                )
            _read_response(response, outcome.received)
        except exceptions.AgentRunError as error:
            return _error_reply(error, outcome)
        except TimeoutError:
            return outcome.partial_reply(HttpOutcome(HttpEnd.LATE))
        except ReplyTooLarge:
            return outcome.partial_reply(HttpOutcome(HttpEnd.OVERSIZE))
        return outcome.complete_reply()


def _parameters(call: ModelCall, model: Model) -> ModelRequestParameters:
    tools = [_tool(offer.name, offer.description, offer.schema) for offer in call.offers]
    if not call.schema:
        return ModelRequestParameters(function_tools=tools)
    # Only the provider's native schema support guarantees the form of the output.
    native = model.profile.get("supports_json_schema_output")
    form = wire.parse_tool_schema(call.schema)
    answer = _tool(wire.ANSWER_NAME, "Give the final answer.", call.schema)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if native else "tool",
        output_object=OutputObjectDefinition(form, wire.ANSWER_NAME),
        output_tools=[replace(answer, kind="output")],
    )


def _tool(name: str, description: str, schema: bytes) -> ToolDefinition:
    form = wire.parse_tool_schema(schema)
    return ToolDefinition(name=name, description=description, parameters_json_schema=form)


def _sent_messages(call: ModelCall) -> list[messages.ModelMessage]:
    sent: list[messages.ModelMessage] = []
    for message in wire.messages_of(call):
        if message.who is MessageRole.AGENT:
            parts: list[messages.ModelResponsePart] = (
                [messages.TextPart(message.text)] if message.text else []
            )
            parts += [
                messages.ToolCallPart(used.tool, used.arguments, used.id) for used in message.calls
            ]
            sent.append(messages.ModelResponse(parts))
            continue
        part: messages.ModelRequestPart = messages.UserPromptPart(message.text)
        if message.who is MessageRole.SYSTEM:
            part = messages.SystemPromptPart(message.text)
        elif message.answers:
            part = messages.ToolReturnPart(message.answers.tool, message.text, message.answers.id)
        if sent and isinstance(last := sent[-1], messages.ModelRequest):
            last.parts = [*last.parts, part]
        else:
            sent.append(messages.ModelRequest([part]))
    return sent


def _read_response(response: messages.ModelResponse, received: wire.ReplyBuilder) -> None:
    received.model = response.model_name or ""
    received.finish = _FINISHES.get(response.finish_reason or "", wire.Finish.COMPLETE)
    usage = response.usage
    received.tokens = wire.billed_tokens(
        usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    )
    for number, part in enumerate(response.parts):
        match part:
            case messages.TextPart():
                received.add_text(part.content)
            case messages.ToolCallPart(tool_name=name) if name == wire.ANSWER_NAME:
                received.add_text(part.args_as_json_str())
            case messages.ToolCallPart(tool_name=name):
                received.add_tool_call(number, name, part.args_as_json_str())
            case _:
                pass  # reasoning is not part of the output


def _error_reply(
    error: exceptions.AgentRunError, outcome: provider_outcome.ProviderOutcome
) -> CallReply:
    message = str(error).encode(errors="replace")[: provider_http.MAX_ERROR_BYTES]
    match error:
        case exceptions.ModelHTTPError() if not error.in_stream:
            pause = int(min(1000 * (error.retry_after or 0), provider_http.MAX_RETRY_AFTER_MS))
            end = HttpOutcome(HttpEnd.REFUSED, error.status_code, max(pause, 0), message)
            return provider_outcome.refused_reply(end)
        case exceptions.ModelConnectionError() if error.phase in _NOT_SENT:
            return provider_outcome.refused_reply(HttpOutcome(HttpEnd.CONNECT, error=message))
        case exceptions.ModelTimeoutError():
            return outcome.partial_reply(HttpOutcome(HttpEnd.LATE, error=message))
        case exceptions.ModelConnectionError():
            return outcome.partial_reply(HttpOutcome(HttpEnd.EARLY, error=message))
        case exceptions.ContentFilterError():
            outcome.received.set_error(message, wire.Finish.REFUSED)
        case _:
            outcome.received.set_error(message)
    return outcome.complete_reply()
