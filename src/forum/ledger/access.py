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
    AccessGranted,
    AccessRevoked,
    Denial,
    GrantScope,
    MetricsGranted,
    Scope,
)

ACCESS = "access"
"""The strand of grants and revocations."""

DENIALS = "denials"
"""The strand of those who were turned away: it may be long, and nobody has to read it to decide."""

PREFIX = "forum"

OPERATOR_PREFIX = "forum-operator_"
"""With what the token of a project's operator begins; 64 hexadecimal digits follow."""
_OPERATOR_TOKEN = re.compile(rf"{OPERATOR_PREFIX}[0-9a-f]{{64}}").fullmatch


class ApiKey(msgspec.Struct, frozen=True):
    """What a client shows: which key it is, for which ledger, and the secret."""

    ledger: str
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}_{self.ledger}_{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """What a ledger keeps of the secret."""
        return sha256(self.secret.encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> "ApiKey | None":
        """Read a key, or nothing if it is none."""
        parts = text.split("_", 3)
        whole = len(parts) == 4 and parts[0] == PREFIX and all(parts) and text.isascii()
        return cls(*parts[1:]) if whole else None


class Grant(msgspec.Struct, frozen=True):
    """What a key opens, and until when."""

    key: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    expires: int = 0
    """In microseconds since 1970; never, if zero."""

    def facts(self) -> AccessGranted | MetricsGranted:
        """Return what is recorded of it: by the oldest kind that can say it."""
        values = (self.digest, self.expires)
        if set(self.scopes).issubset(GrantScope):
            scopes = tuple(map(GrantScope, self.scopes))
            return AccessGranted(self.key, self.name, scopes, *values)
        return MetricsGranted(self.key, self.name, self.scopes, *values)

    @classmethod
    def of(cls, facts: AccessGranted | MetricsGranted) -> "Grant":
        """Return what was recorded."""
        scopes = tuple(map(Scope, facts.scopes))
        return cls(facts.key, facts.name, scopes, facts.digest, facts.expires)


def is_operator_token(text: str) -> bool:
    """Tell whether a text has the form of an operator's token."""
    return _OPERATOR_TOKEN(text) is not None


class Access(msgspec.Struct, frozen=True):
    """The keys of a ledger as its entries tell."""

    granted: Mapping[str, Grant] = {}
    revoked: frozenset[str] = frozenset()
    made: Mapping[str, int] = {}
    """When each was granted, in microseconds since 1970."""
    length: int = 0
    """How many entries this is known from."""

    def check(self, key: ApiKey, now: int) -> Grant | Denial:
        """Return what a key opens, or why it opens nothing."""
        grant = self.granted.get(key.id)
        # Of an unknown key too, something is compared: how long it takes tells nothing.
        expected = grant.digest if grant else sha256(b"").hexdigest()
        same = compare_digest(expected, key.digest)
        if grant is None or not same:
            return Denial.UNKNOWN
        return self.lapsed(grant, now) or grant

    def lapsed(self, grant: Grant, now: int) -> Denial | None:
        """Return why a key that was granted opens nothing any more, or nothing if it does."""
        if grant.key in self.revoked:
            return Denial.REVOKED
        return Denial.EXPIRED if grant.expires and grant.expires <= now else None


def fold_access(entries: Iterable[Entry[Any]], access: Access) -> Access:
    """Take in what was granted and revoked since."""
    granted, made = dict(access.granted), dict(access.made)
    revoked, length = set(access.revoked), access.length
    for entry in entries:
        facts, length = entry.facts, entry.n + 1
        if isinstance(facts, AccessGranted | MetricsGranted):
            granted[facts.key], made[facts.key] = Grant.of(facts), entry.ts
        elif isinstance(facts, AccessRevoked):
            revoked.add(facts.key)
    return Access(granted, frozenset(revoked), made, length)


def opens(scopes: Iterable[Scope], wanted: Iterable[Scope]) -> bool:
    """Tell whether any of the scopes is one of those wanted; an admin may do everything."""
    held = set(scopes)
    return Scope.ADMIN in held or not held.isdisjoint(wanted)
