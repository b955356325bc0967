"""Search recorded bodies for words, as a reader sees them.

Names of members, definitions of tools and other parts of a request that are no message are not
searched: they are the same in every call.
"""

import re

from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.messages import ChatRole
from forum.runs.conversation.streams import is_stream

SKIPPED_BODIES = frozenset(
    {"policy", "schema", "offers", "evidence", "strands", "spent", "spans", "attributes", "names"}
)
"""Bodies for programs, which hold no words of users or models."""

_PLAIN_WORDS = re.compile(r"[a-z0-9 ]+")
_STREAMED_TEXT = re.compile(
    rb'"(?:content|text|delta|refusal|arguments|partial_json|thinking|reasoning|reasoning_content'
    rb'|summary|input|name|message)":\s*"((?:[^"\\]++|\\.)*+)"'
)
"""The members of events that have pieces of texts."""
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_MAX_ESCAPE_BYTES = 6
_KNOWN_STREAM = re.compile(rb'"choices"|"content_block|"response\.')
_OTHER_INDEX = re.compile(rb'_?index":\s*[1-9]')


def body_contains(body: bytes, words: str) -> bool:
    """Return whether a message in a body has these words, in any case."""
    wanted = words.casefold()
    if _cannot_contain(body, wanted):
        return False
    for message in decode_body(body, ChatRole.USER).messages:
        texts = [message.text, message.reasoning]
        texts += [f"{call.name} {call.arguments}" for call in message.calls]
        texts += [result.text for result in message.results]
        if any(wanted in text.casefold() for text in texts):
            return True
    return False


def is_without(body: bytes, words: str, searched: int) -> bool:
    """Return whether the bytes behind the first ones, which were searched, rule the words out."""
    wanted = words.casefold()
    if not searched or is_stream(body) or not _PLAIN_WORDS.fullmatch(wanted):
        return False
    # Words may begin in what was searched; each of their characters may be escaped.
    rest = body[max(0, searched - _MAX_ESCAPE_BYTES * len(wanted)) :].decode(errors="replace")
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), rest)
    return wanted not in text.casefold()


def _cannot_contain(body: bytes, wanted: str) -> bool:
    """Return whether the bytes alone rule the words out, which saves decoding.

    JSON can escape every character; then only decoding tells.
    """
    if b"\\u" in body or not _PLAIN_WORDS.fullmatch(wanted):
        return False
    if is_stream(body):
        if _OTHER_INDEX.search(body) or not _KNOWN_STREAM.search(body):
            return False  # pieces of several texts may take turns; an unknown format is raw text
        body = b"".join(_STREAMED_TEXT.findall(body))
    return wanted not in body.decode(errors="replace").casefold()
