"""Bound the input of a call by what the provider said of the call before it.

An agent sends its whole conversation again with each call, and a token for each byte is several
times what that has.  Where a request has all of an earlier one, byte for byte, and then more, the
provider reads the earlier part as it did before: it has at most the tokens that it then reported,
and a margin; what is new is bounded by its bytes, as ever.

What is compared is all that can change the input: the upstream, the headers, every member of the
request but the few that concern the output alone, and every message before the new ones.  Marks for
the cache are left out: they move with each call, and are no input.  What is remembered is the usage
of a reply that the gateway has read itself, whole; nothing that a client claims is.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from forum.features.gateway.request_reader import ReadRequest

MAX_CONVERSATIONS: Final = 256
"""Calls of a run that are remembered: an agent and its sub-agents take turns."""
_MARGIN: Final = 16
"""The margin is this part of what was reported: templates name the date, and the last word before
the new text may be cut in another way."""
_MARGIN_TOKENS: Final = 256
_TOKEN_BYTES: Final = 8
"""A report of fewer tokens than bytes by this factor is not believed: a token has four on average,
and a provider that once left out what its cache had would bill it the next time."""
_VARYING_HEADERS: Final = ("user-agent", "x-client-request-id", "x-stainless-", "x-claude-code-",
                           "x-codex-")  # fmt: skip
"""Names, and beginnings of names, of headers that tell the clients' calls apart."""


class ConversationKey(NamedTuple):
    """Where a conversation is held: what comes from two upstreams is not one."""

    upstream: str
    target: str
    headers: bytes


def conversation_key(upstream: str, target: str, headers: Mapping[str, str]) -> ConversationKey:
    """Return the key of a call to a target at an upstream, with the headers that it gets."""
    shown = sorted(
        (name, text) for name, text in headers.items() if not name.startswith(_VARYING_HEADERS)
    )
    return ConversationKey(upstream, target, sha256(msgspec.json.encode(shown)).digest())


class ConversationMemory:
    """The reported input of the last calls of one run."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[ConversationKey, bytes], int] = {}
        """In the order of last use, by the conversation up to its last message."""

    def remember(self, key: ConversationKey, request: ReadRequest, tokens: int) -> None:
        """Keep how many tokens the provider has read of a request."""
        if not request.turns:
            return
        place = (key, request.turns[-1].digest)
        # The most that was ever reported of the very same input.
        self._tokens[place] = max(tokens, self._tokens.pop(place, 0))
        if len(self._tokens) > MAX_CONVERSATIONS:
            del self._tokens[next(iter(self._tokens))]

    def bound(self, key: ConversationKey, request: ReadRequest) -> ReadRequest:
        """Return the request with a lower bound of its input, if an earlier call gives one."""
        for turn in reversed(request.turns):
            reported = self._tokens.get((key, turn.digest))
            if reported is not None:
                earlier = request.input_tokens - turn.later_tokens
                read = max(reported, -(-earlier // _TOKEN_BYTES))
                bound = read + read // _MARGIN + _MARGIN_TOKENS + turn.later_tokens
                return replace(request, input_tokens=min(request.input_tokens, bound))
        return request
