"""The door for chat clients: what they know as models are ways to have a request carried out.

`/v1/models`, `/v1/chat/completions` and `/v1/responses`, as clients of OpenAI's API speak them.
Each request is a run like any other: recorded before it begins, carried out by workers, and gone
on with when the client is gone.  Which run it is stands in every answer, so that whoever got it
can have it proven.
"""

from forum.surfaces.http.openai.chat_completions import CHAT
from forum.surfaces.http.openai.models import MODELS
from forum.surfaces.http.openai.responses_api import RESPONSES

OPENAI = (*MODELS, CHAT, RESPONSES)

__all__ = ["OPENAI"]
