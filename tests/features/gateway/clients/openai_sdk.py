"""The openai package: chat, streams, tools, responses, embeddings, lists, typed replies."""

from typing import Any

import openai
from pydantic import BaseModel

client = openai.OpenAI(default_headers={"OpenAI-Beta": "responses=experimental"})
MESSAGES: Any = [{"role": "user", "content": "Name a river. \u00e9 \U0001f600"}]
TOOL: Any = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


class River(BaseModel):
    """A typed reply."""

    name: str


assert client.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES).choices
list(client.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True))
with client.chat.completions.stream(model="gpt-4o-mini", messages=MESSAGES) as stream:
    stream.get_final_completion()
called = client.chat.completions.create(
    model="gpt-4o-mini", messages=MESSAGES, tools=[TOOL], parallel_tool_calls=True, max_tokens=50,
    temperature=1.0, seed=2**60, logit_bias={"50256": -100},
)  # fmt: skip
assert called.choices[0].message.tool_calls
reply = client.responses.create(model="gpt-4o-mini", input="x", metadata={"a": "b"}, store=True)
list(client.responses.create(model="gpt-4o-mini", input="x", stream=True))
client.responses.create(model="gpt-4o-mini", input="y", previous_response_id=reply.id)
assert client.embeddings.create(model="text-embedding-3-small", input=["x", "y"]).data
client.models.list()
client.chat.completions.with_raw_response.create(model="gpt-4o-mini", messages=MESSAGES)
image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
client.chat.completions.create(
    model="gpt-4o-mini", messages=[{"role": "user", "content": [image]}], max_tokens=5,
    response_format={"type": "json_schema", "json_schema": {
        "name": "river", "schema": River.model_json_schema()}},
)  # fmt: skip
