"""The openai package with Azure: deployments in the path, streams, vectors, and the API v1."""

import os
from typing import Any

import openai

MESSAGES: Any = [{"role": "user", "content": "Name a river."}]
MODEL = "gpt-4o-mini"

client = openai.AzureOpenAI(api_version="2024-10-21")
assert client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=50).choices
list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
assert client.embeddings.create(model="text-embedding-3-small", input=["x"]).data
newer = openai.OpenAI(
    base_url=os.environ["AZURE_OPENAI_ENDPOINT"] + "/openai/v1/",
    api_key=os.environ["AZURE_OPENAI_API_KEY"],
)
assert newer.chat.completions.create(model=MODEL, messages=MESSAGES).choices
assert newer.responses.create(model=MODEL, input="x").output
