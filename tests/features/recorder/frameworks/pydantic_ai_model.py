"""A scripted model for Pydantic AI: asks for the stock once, then answers."""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def _reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("stock", {"item": "bolts"})])
    return ModelResponse(parts=[TextPart("There are 12 bolts.")])


model = FunctionModel(_reply, model_name="scripted-1")
