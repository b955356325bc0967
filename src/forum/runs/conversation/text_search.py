"""Search recorded bodies for words, as a reader sees them.

Names of members, definitions of tools and other parts of a request that are no message are not
searched: they are the same in every call.
"""

import re
from collections.abc import Iterable

from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.histories import count_same
from forum.runs.conversation.messages import ChatMessage, ChatRole
from forum.runs.conversation.request_decoder import DecodedRequest, decode_request
from forum.runs.conversation.streams import is_stream

SKIPPED_BODIES = frozenset(
    {"policy", "schema", "offers", "evidence", "strands", "spent", "spans", "attributes", "names"}
)
"""Bodies for programs, which hold no words of users or models."""

_MAX_RECENT = 16
_PLAIN_WORDS = re.compile(r"[a-z0-9 ]+")
_STREAMED_TEXT = re.compile(
    rb'"(?:content|text|delta|refusal|arguments|partial_json|thinking|reasoning|reasoning_content'
    rb'|summary|input|name|message)":\s*"((?:[^"\\]++|\\.)*+)"'
)
"""The members of events that have pieces of texts."""
_KNOWN_STREAM = re.compile(rb'"choices"|"content_block|"response\.')
_OTHER_INDEX = re.compile(rb'_?index":\s*[1-9]')


def body_contains(body: bytes, words: str) -> bool:
    """Return whether a message in a body has these words, in any case."""
    wanted = words.casefold()
    if _cannot_contain(body, wanted):
        return False
    return _say(decode_body(body, ChatRole.USER).messages, wanted)


class ConversationSearch:
    """Searches bodies that go on from each other: what was searched once is not decoded again."""

    def __init__(self, words: str) -> None:
        self._wanted = words.casefold()
        self._recent: list[tuple[bytes, DecodedRequest]] = []

    def is_in(self, body: bytes, base: bytes, kept: int) -> bool:
        """Return whether a message that is new in a body has the words.

        Its first `kept` bytes are those of `base`, which was searched before.
        """
        earlier = next((read for content, read in self._recent if content is base), None)
        decoded = decode_request(body, ChatRole.USER, earlier, kept)
        self._recent = [*self._recent[1 - _MAX_RECENT :], (body, decoded)]
        searched = count_same(decoded.body.messages, earlier.body.messages) if earlier else 0
        return _say(decoded.body.messages[searched:], self._wanted)


def _say(messages: Iterable[ChatMessage], wanted: str) -> bool:
    for message in messages:
        texts = [message.text, message.reasoning]
        texts += [f"{call.name} {call.arguments}" for call in message.calls]
        texts += [result.text for result in message.results]
        if any(wanted in text.casefold() for text in texts):
            return True
    return False


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
