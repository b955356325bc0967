"""Compare a request with an earlier one: what it repeats, and what it says anew.

An agent sends its whole history with every call, and sometimes rewrites it: it replaces old
messages by a summary, drops some, or changes its system prompt.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from forum.runs.conversation.json_values import UNREADABLE, decode_json
from forum.runs.conversation.messages import ChatMessage, ChatRole, ChatToolCall

MAX_COMPARED = 20_000
"""How many messages of a history that was rewritten are looked for in the earlier one."""


class History(Struct, frozen=True):
    """What an agent knows after a call: what it has sent, and what came back."""

    request: tuple[ChatMessage, ...]
    reply: tuple[ChatMessage, ...] = ()

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """All messages, in their order."""
        return (*self.request, *self.reply)


class Repetition(NamedTuple):
    """Which messages of a request an earlier history has."""

    beginning: int
    """How many at the beginning are the same."""
    later: tuple[int, ...] = ()
    """The places of further ones, after the first that is not the same."""
    dropped: int = 0
    """How many messages of the earlier history the request has no more."""

    @property
    def total(self) -> int:
        """How many messages are the same."""
        return self.beginning + len(self.later)


def count_repeated(request: Sequence[ChatMessage], history: History) -> int:
    """Return how many messages at the beginning of a request were there before.

    The reply of a call stands in the next request as far as the agent sends it back: without the
    reasoning, and its arguments written anew.
    """
    count = count_same(request, history.request)
    if count < len(history.request):
        return count
    for message, earlier in zip(request[count:], history.reply, strict=False):
        if not _is_sent_back(message, earlier):
            break
        count += 1
    return count


def compare_histories(request: Sequence[ChatMessage], history: History) -> Repetition:
    """Return what a request repeats of an earlier history, in any part that was not rewritten."""
    count = count_repeated(request, history)
    if count >= len(history.request):
        return Repetition(count)
    new, old = request[count:], history.messages[count:]
    pairs = list(_align(new[:MAX_COMPARED], old[:MAX_COMPARED]))
    is_begun_anew = all(
        message.role is ChatRole.SYSTEM
        for message in (*request[:count], *(new[place] for place, _ in pairs))
    )
    if is_begun_anew:
        # Another conversation, or one of which nothing but the instructions is left.
        return Repetition(count)
    later = tuple(count + place for place, _ in pairs)
    return Repetition(count, later, dropped=len(old) - len(pairs))


def count_same(first: Sequence[ChatMessage], second: Sequence[ChatMessage]) -> int:
    """Return how many messages at the beginning are the same."""
    low, high = 0, min(len(first), len(second))
    # Slices are compared at once: messages that were decoded once are the same objects.
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_sent_back(message: ChatMessage, earlier: ChatMessage) -> bool:
    if message == earlier:
        return True
    if (message.role, message.text) != (earlier.role, earlier.text):
        return False
    if message.reasoning not in ("", earlier.reasoning) or message.results or message.attachments:
        return False
    return list(map(_call_key, message.calls)) == list(map(_call_key, earlier.calls))


def _call_key(call: ChatToolCall) -> tuple[str, str, str]:
    try:
        document = decode_json(call.arguments.encode(errors="replace"))
        arguments = msgspec.json.encode(document, order="deterministic").decode()
    except UNREADABLE:
        arguments = call.arguments
    return call.id, call.name, arguments


def _align(new: Sequence[ChatMessage], old: Sequence[ChatMessage]) -> Iterator[tuple[int, int]]:
    """Yield pairs of places of the same message, in order in both.

    Only messages that stand once on each side tell where parts belong; their neighbors follow.
    """
    placed, done = -1, -1
    for anchor, other in _anchors(new, old):
        if anchor <= placed or other <= done:
            continue
        back = 0
        while min(anchor - back - placed, other - back - done) > 1 and (
            new[anchor - back - 1] == old[other - back - 1]
        ):
            back += 1
        at, there = anchor - back, other - back
        while at < len(new) and there < len(old) and _is_same(new[at], old[there]):
            yield at, there
            placed, done = at, there
            at, there = at + 1, there + 1


def _is_same(message: ChatMessage, earlier: ChatMessage) -> bool:
    return message == earlier or _is_sent_back(message, earlier)


def _anchors(new: Sequence[ChatMessage], old: Sequence[ChatMessage]) -> list[tuple[int, int]]:
    """Return the longest row of messages that stand once on each side, in order in both."""
    places = _single_places(old)
    common = [(at, places[m]) for m, at in _single_places(new).items() if m in places]
    common.sort()
    # Patience sorting: `tails[k]` ends the best row of k + 1 anchors.
    tails: list[int] = []
    rows: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(common):
        row = bisect_left(tails, there)
        before.append(rows[row - 1] if row else -1)
        tails[row : row + 1] = [there]
        rows[row : row + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = rows[-1] if rows else -1
    while number >= 0:
        chosen.append(common[number])
        number = before[number]
    return chosen[::-1]


def _single_places(messages: Sequence[ChatMessage]) -> dict[ChatMessage, int]:
    """Return the places of messages that stand once."""
    places: dict[ChatMessage, int] = {}
    repeated: set[ChatMessage] = set()
    for place, message in enumerate(messages):
        if message in places:
            repeated.add(message)
        places.setdefault(message, place)
    return {message: place for message, place in places.items() if message not in repeated}
