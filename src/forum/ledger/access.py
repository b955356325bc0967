"""Who may do what at the doors of a ledger: told by entries, like everything else.

Keys are granted and revoked in a strand of the log's own run, so that who had access, when, and by
whose word can be proven like any other step; no table beside the log could say something else.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from forum.ledger.entry import Entry
from forum.ledger.kinds import (
    AccessGrantFacts,
    AccessGrantV2Facts,
    AccessRevocationFacts,
    DenialReason,
    GrantScope,
    Scope,
)

ACCESS_STRAND = "access"
"""The strand of grants and revocations."""

DENIALS_STRAND = "denials"
"""The strand of those who were turned away: it may be long, and nobody has to read it to decide."""

API_KEY_PREFIX = "forum"

OPERATOR_TOKEN_PREFIX = "forum-operator_"  # noqa: S105  how a token begins, not one
"""With what the token of a project's operator begins; 64 hexadecimal digits follow."""
_match_operator_token = re.compile(rf"{OPERATOR_TOKEN_PREFIX}[0-9a-f]{{64}}").fullmatch


class ApiKey(msgspec.Struct, frozen=True):
    """What a client shows: which key it is, for which ledger, and the secret."""

    ledger: str
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{API_KEY_PREFIX}_{self.ledger}_{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """What a ledger keeps of the secret."""
        return sha256(self.secret.encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> "ApiKey | None":
        """Read a key, or nothing if it is none."""
        parts = text.split("_", 3)
        whole = len(parts) == 4 and parts[0] == API_KEY_PREFIX and all(parts) and text.isascii()
        return cls(*parts[1:]) if whole else None


class Grant(msgspec.Struct, frozen=True):
    """What a key opens, and until when."""

    key: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    expires: int = 0
    """In microseconds since 1970; never, if zero."""

    def to_facts(self) -> AccessGrantFacts | AccessGrantV2Facts:
        """Return what is recorded of it: by the oldest kind that can say it."""
        values = (self.digest, self.expires)
        if set(self.scopes).issubset(GrantScope):
            scopes = tuple(map(GrantScope, self.scopes))
            return AccessGrantFacts(self.key, self.name, scopes, *values)
        return AccessGrantV2Facts(self.key, self.name, self.scopes, *values)

    @classmethod
    def from_facts(cls, facts: AccessGrantFacts | AccessGrantV2Facts) -> "Grant":
        """Return what was recorded."""
        scopes = tuple(map(Scope, facts.scopes))
        return cls(facts.key, facts.name, scopes, facts.digest, facts.expires)


def is_operator_token(text: str) -> bool:
    """Tell whether a text has the form of an operator's token."""
    return _match_operator_token(text) is not None


class AccessState(msgspec.Struct, frozen=True):
    """The keys of a ledger as its entries tell."""

    granted: Mapping[str, Grant] = {}
    revoked: frozenset[str] = frozenset()
    made: Mapping[str, int] = {}
    """When each was granted, in microseconds since 1970."""
    length: int = 0
    """How many entries this is known from."""

    def check_key(self, key: ApiKey, now: int) -> Grant | DenialReason:
        """Return what a key opens, or why it opens nothing."""
        grant = self.granted.get(key.id)
        # Of an unknown key too, something is compared: how long it takes tells nothing.
        expected = grant.digest if grant else sha256(b"").hexdigest()
        same = compare_digest(expected, key.digest)
        if grant is None or not same:
            return DenialReason.UNKNOWN
        return self.check_grant(grant, now) or grant

    def check_grant(self, grant: Grant, now: int) -> DenialReason | None:
        """Return why a key that was granted opens nothing any more, or nothing if it does."""
        if grant.key in self.revoked:
            return DenialReason.REVOKED
        return DenialReason.EXPIRED if grant.expires and grant.expires <= now else None


def fold_access(entries: Iterable[Entry[Any]], access: AccessState) -> AccessState:
    """Take in what was granted and revoked since."""
    granted, made = dict(access.granted), dict(access.made)
    revoked, length = set(access.revoked), access.length
    for entry in entries:
        facts, length = entry.facts, entry.n + 1
        if isinstance(facts, AccessGrantFacts | AccessGrantV2Facts):
            granted[facts.key], made[facts.key] = Grant.from_facts(facts), entry.ts
        elif isinstance(facts, AccessRevocationFacts):
            revoked.add(facts.key)
    return AccessState(granted, frozenset(revoked), made, length)


def has_scope(scopes: Iterable[Scope], wanted: Iterable[Scope]) -> bool:
    """Tell whether any of the scopes is one of those wanted; an admin may do everything."""
    held = set(scopes)
    return Scope.ADMIN in held or not held.isdisjoint(wanted)
