"""Chat API: OpenAI's API for chat clients, in which "models" are ways to carry out a request."""

from forum.feature import Feature

FEATURE = Feature(
    "chat_api",
    endpoints="chat_api.operations:OPENAI",
)
