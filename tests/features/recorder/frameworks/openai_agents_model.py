"""A scripted model for the OpenAI Agents SDK: asks for the stock once, then answers."""

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

set_tracing_disabled(True)


class ScriptedModel(Model):
    model = "scripted-1"

    async def get_response(self, system_instructions, input, *args, **kwargs):
        asked = isinstance(input, list) and any("output" in item for item in input)
        if not asked:
            item = ResponseFunctionToolCall(
                type="function_call", call_id="call-1", name="stock", arguments='{"item": "bolts"}'
            )
        else:
            text = ResponseOutputText(
                type="output_text", text="There are 12 bolts.", annotations=[]
            )
            item = ResponseOutputMessage(
                id="m1", type="message", role="assistant", status="completed", content=[text]
            )
        usage = Usage(requests=1, input_tokens=40, output_tokens=7, total_tokens=47)
        return ModelResponse(output=[item], usage=usage, response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


model = ScriptedModel()
