"""The google-genai package: contents, streams, tools, images, schemas, counts, vectors, lists."""

from typing import Any

from google import genai
from google.genai import types

client = genai.Client()
MODEL = "gemini-2.5-flash"
IMAGE = types.Part.from_bytes(data=b"123", mime_type="image/png")
DECLARED: Any = {"name": "look_up", "parameters": {"type": "OBJECT", "properties": {}}}
TOOL = types.Tool(function_declarations=[DECLARED])


def ask(contents: Any = "Name a river. \u00e9 \U0001f600", **settings: Any) -> Any:  # noqa: ANN401
    """Return the reply to a request."""
    config = types.GenerateContentConfig(**settings)
    return client.models.generate_content(model=MODEL, contents=contents, config=config)


assert ask(system_instruction="Be brief.", temperature=0.5, max_output_tokens=50).text
assert list(client.models.generate_content_stream(model=MODEL, contents=["x", IMAGE]))
call = ask(tools=[TOOL]).function_calls[0]
turns = [types.Content(role="user", parts=[types.Part(text="x")])]
turns += [types.Content(role="model", parts=[types.Part(function_call=call)])]
turns += [types.Content(role="user", parts=[
    types.Part.from_function_response(name=call.name, response={"result": "1"})])]  # fmt: skip
ask(turns, thinking_config=types.ThinkingConfig(thinking_budget=-1))
ask(response_mime_type="application/json", response_schema={"type": "OBJECT"})
chat = client.chats.create(model=MODEL)
chat.send_message("x")
assert client.models.count_tokens(model=MODEL, contents="x").total_tokens
assert client.models.embed_content(model="gemini-embedding-001", contents=["x", "y"]).embeddings
list(client.models.list(config={"page_size": 5}))
