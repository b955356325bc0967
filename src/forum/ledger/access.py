"""Who may do what at the doors of a ledger: told by entries, like everything else.

Keys are granted and revoked in a strand of the log's own run, so that who had access, when, and by
whose word can be proven like any other step; no table beside the log could say something else.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from forum.ledger.entry import Entry
from forum.ledger.kinds import AccessGranted, AccessRevoked, Denial, Scope

ACCESS = "access"
"""The strand of grants and revocations."""

DENIALS = "denials"
"""The strand of those who were turned away: it may be long, and nobody has to read it to decide."""

PREFIX = "forum"


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


class Access(msgspec.Struct, frozen=True):
    """The keys of a ledger as its entries tell."""

    granted: Mapping[str, AccessGranted] = {}
    revoked: frozenset[str] = frozenset()
    made: Mapping[str, int] = {}
    """When each was granted, in microseconds since 1970."""
    length: int = 0
    """How many entries this is known from."""

    def check(self, key: ApiKey, now: int) -> AccessGranted | Denial:
        """Return what a key opens, or why it opens nothing."""
        grant = self.granted.get(key.id)
        # Of an unknown key too, something is compared: how long it takes tells nothing.
        expected = grant.digest if grant else sha256(b"").hexdigest()
        same = compare_digest(expected, key.digest)
        if grant is None or not same:
            return Denial.UNKNOWN
        return self.lapsed(grant, now) or grant

    def lapsed(self, grant: AccessGranted, now: int) -> Denial | None:
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
        if isinstance(facts, AccessGranted):
            granted[facts.key], made[facts.key] = facts, entry.ts
        elif isinstance(facts, AccessRevoked):
            revoked.add(facts.key)
    return Access(granted, frozenset(revoked), made, length)


def opens(scopes: Iterable[Scope], wanted: Iterable[Scope]) -> bool:
    """Tell whether any of the scopes is one of those wanted; an admin may do everything."""
    held = set(scopes)
    return Scope.ADMIN in held or not held.isdisjoint(wanted)
