"""OpenAI-compatible API for chat clients, in which "models" are ways to carry out a request.

It serves `/v1/models`, `/v1/chat/completions` and `/v1/responses`.  Each request is an ordinary
run: recorded before it begins, carried out by workers, and continued when the client disconnects.
Every response names its run, so that the client can have it verified.
"""

from forum.features.chat_api.chat_completions import CHAT
from forum.features.chat_api.models import MODELS
from forum.features.chat_api.responses_api import RESPONSES

OPENAI = (*MODELS, CHAT, RESPONSES)

__all__ = ["OPENAI"]
