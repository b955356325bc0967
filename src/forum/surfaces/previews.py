"""Records routes and plans that were only asked for.

What is recorded is a note in a run of its own: nothing is carried out, and no worker is told. Its
text is the reply as the client got it, with the request, so that it can be erased like any text.
"""

import json

import msgspec
from msgspec import Struct

from forum.app import Forum
from forum.ledger.body import text_content


def record_preview(forum: Forum, schema: str, request: str, form: Struct, actor: str) -> str:
    """Record what was answered to a request, and return the run that holds it.

    Raises `Malformed` for a request that is not valid Unicode.
    """
    reply = {**msgspec.to_builtins(form), "recorded": None}
    text = json.dumps({"schema": schema, "request": request, "reply": reply}, ensure_ascii=False)
    return forum.log.append_note(text_content(text), actor=actor)
