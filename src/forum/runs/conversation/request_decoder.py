"""Decode the requests of a conversation one after the other, and only what is new in each.

A request mostly begins with the bytes of an earlier one.  `decode_request` goes on behind the last
message that lies in these bytes.  It returns what `decode_body` returns for the whole body without
limits: what may be shown at once is decided when it is known what is new.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from forum.runs.conversation.decoder import (
    MESSAGE_LISTS,
    PART_MEMBERS,
    MessageReader,
    OpenMessage,
    decode_body,
    describe_body,
)
from forum.runs.conversation.json_values import UNREADABLE, as_object, decode_json
from forum.runs.conversation.messages import ChatMessage, ChatRole, DecodedBody

_MAX_OPEN_PARTS = 32
"""A message of more parts is not remembered before its end: copies of it would cost too much."""
_REPLY_MEMBERS = frozenset({"error", "object", "choices", "candidates", "output"})
_BEGINNING = re.compile(rb"[ \t\r\n]*+([{\[])")
_KEY = re.compile(rb'[ \t\r\n,]*+"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_END = re.compile(rb"[ \t\r\n]*+\}")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class _ListEnds(NamedTuple):
    """Where the elements of a list of messages end, and what was read up to each end."""

    start: int
    """The place of the first byte behind the bracket of the list."""
    places: list[int]
    counts: list[int]
    """How many messages had ended."""
    unfinished: list[OpenMessage | None]
    """The message that the next element may continue."""
    messages: Sequence[ChatMessage]

    def cut(self, count: int) -> "_ListEnds":
        """Return the first elements, in lists that may grow."""
        counts, open_messages = self.counts[:count], self.unfinished[:count]
        messages = self.messages[: counts[-1]] if counts else ()
        return _ListEnds(self.start, self.places[:count], counts, open_messages, messages=messages)


class DecodedRequest(NamedTuple):
    """What a request says, and where the next one can go on."""

    body: DecodedBody
    ends: _ListEnds | None = None


class _FoundList(NamedTuple):
    """A list of messages in a document."""

    value: Any
    """The whole document."""
    elements: Sequence[Any]
    start: int
    """The place of the first byte behind its bracket."""
    sizes: Sequence[int]


def decode_request(
    content: bytes, role: ChatRole, earlier: DecodedRequest | None = None, kept: int = 0
) -> DecodedRequest:
    """Return what a request says; a message without a role has this one.  Never raises.

    Its first `kept` bytes are those of the earlier request, which was decoded with the same role.
    """
    before = _find_kept(earlier, kept)
    if before.places:
        # What was read already is one element in the document that is left to be read.
        document = content[: before.start] + b"null" + content[before.places[-1] :]
        message_list = _find_list(document)
        if message_list and message_list.start == before.start:
            return _read_list(message_list, content, role, before)
    message_list = _find_list(content)
    if (
        message_list is None
        or not message_list.elements
        or isinstance(message_list.elements[0], int)
    ):
        return DecodedRequest(decode_body(content, role, is_limited=False))
    return _read_list(
        message_list, content, role, _ListEnds(message_list.start, [], [], [], messages=())
    )


def _find_kept(earlier: DecodedRequest | None, kept: int) -> _ListEnds:
    """Return the elements of an earlier request that lie in its first bytes."""
    if earlier is None or earlier.ends is None:
        return _ListEnds(0, [], [], [], messages=())
    # The byte behind an element is the same too, or a number might go on there.
    return earlier.ends.cut(bisect_left(earlier.ends.places, kept))


def _find_list(document: bytes) -> _FoundList | None:
    """Return the list of messages of a request; None if it has none, or is no such document."""
    begin = _BEGINNING.match(document)
    if begin is None:
        return None
    try:
        value = decode_json(document)
        if begin[1] == b"[":
            return _FoundList(value, value, begin.end(), _sizes(document))
        name = _name_list(value)
        raws = _members.decode(document) if name else {}
    except UNREADABLE:
        return None
    start = _find_member(document, begin.end(), raws, name)
    if start is None:
        return None
    return _FoundList(value, value[name], start, _sizes(raws[name]))


def _sizes(raw: bytes | msgspec.Raw) -> list[int]:
    return [len(element) for element in _elements.decode(raw)]


def _name_list(value: dict[str, Any]) -> str:
    """Return which member of a request is its list of messages; empty if it has none."""
    if (PART_MEMBERS | _REPLY_MEMBERS) & value.keys():
        return ""
    name = next((name for name in MESSAGE_LISTS if name in value), "")
    return name if isinstance(value.get(name), list) else ""


def _find_member(document: bytes, at: int, raws: dict[str, msgspec.Raw], wanted: str) -> int | None:
    """Return the place of the first byte in a list; None if any name stands twice.

    Then the members that are known, each once, do not reach the end of the document.
    """
    start = None
    for name, raw in raws.items():
        key = _KEY.match(document, at)
        if key is None or not document.startswith(bytes(raw), key.end()):
            return None
        if name == wanted:
            start = key.end() + 1
        at = key.end() + len(raw)
    return start if _END.match(document, at) else None


def _read_list(
    message_list: _FoundList, content: bytes, role: ChatRole, before: _ListEnds
) -> DecodedRequest:
    """Return a request, read on behind the elements that an earlier one has too."""
    reader = MessageReader(is_limited=False)
    members = as_object(message_list.value)
    depth = 2 if members else 1
    reader.read_system(members, depth - 1)
    lead = len(reader.messages)
    is_resumed = bool(before.places)
    if is_resumed:
        reader.resume(before.messages, before.unfinished[-1])
    element_role = ChatRole.USER if members else role
    read_to = before.places[-1] if is_resumed else message_list.start
    places = _element_ends(content, read_to, message_list.sizes[is_resumed:])
    for element, end in zip(message_list.elements[is_resumed:], places, strict=True):
        reader.read(element, element_role, depth)
        unfinished = reader.open
        if unfinished is None or unfinished.size <= _MAX_OPEN_PARTS:
            before.places.append(end)
            before.counts.append(len(reader.messages) - lead)
            before.unfinished.append(unfinished and unfinished.copy())
    messages = reader.finish()
    body = describe_body(messages, members)
    return DecodedRequest(body, before._replace(messages=body.messages[lead:]))


def _element_ends(content: bytes, at: int, sizes: Sequence[int]) -> Iterator[int]:
    """Yield where each element ends."""
    for size in sizes:
        between = _BETWEEN.match(content, at)
        at = (between.end() if between else at) + size
        yield at
