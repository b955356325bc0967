"""A scripted model for Google's kit: asks for the stock once, then answers."""

from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class ScriptedModel(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        if any(part.function_response for part in parts):
            part = types.Part(text="There are 12 bolts.")
        else:
            part = types.Part.from_function_call(name="stock", args={"item": "bolts"})
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=40, candidates_token_count=7, total_token_count=47
        )
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=usage)


model = ScriptedModel(model="scripted-1")
