"""Access to a ledger: API keys, grants and revocations, folded from entries.

Keys are granted and revoked by entries in a strand of the log's own run.  So it can be proven, like
any other step, who had access when and who granted it.  There is no table beside the log that could
contradict it.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from forum.ledger import kinds
from forum.ledger.entry import Entry

ACCESS_STRAND = "access"
"""The strand of grants and revocations."""

DENIALS_STRAND = "denials"
"""The strand of denied requests.  It may be long, and is not read to decide about access."""

API_KEY_PREFIX = "forum"

OPERATOR_TOKEN_PREFIX = "forum-operator_"  # noqa: S105  how a token begins, not one
"""The prefix of a project operator's token; 64 hexadecimal digits follow."""
_match_operator_token = re.compile(rf"{OPERATOR_TOKEN_PREFIX}[0-9a-f]{{64}}").fullmatch


class ApiKey(msgspec.Struct, frozen=True):
    """An API key as a client presents it: ledger, id of the key, secret."""

    ledger: str
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{API_KEY_PREFIX}_{self.ledger}_{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the secret, which is all that the ledger stores of it."""
        return sha256(self.secret.encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> "ApiKey | None":
        """Return the key in a text, or None if the text is not a key."""
        parts = text.split("_", 3)
        whole = len(parts) == 4 and parts[0] == API_KEY_PREFIX and all(parts) and text.isascii()
        return cls(*parts[1:]) if whole else None


class Grant(msgspec.Struct, frozen=True):
    """The scopes of an API key, and its expiry."""

    key: str
    name: str
    scopes: tuple[kinds.Scope, ...]
    digest: str
    expires: int = 0
    """Expiry in microseconds since 1970; zero means never."""

    def to_facts(self) -> kinds.AccessGrantFacts | kinds.AccessGrantV2Facts:
        """Return the facts to record, of the oldest kind that can hold these scopes.

        Release 0.1.0 cannot read the newer kind.
        """
        values = (self.digest, self.expires)
        if set(self.scopes).issubset(kinds.GrantScope):
            scopes = tuple(map(kinds.GrantScope, self.scopes))
            return kinds.AccessGrantFacts(self.key, self.name, scopes, *values)
        return kinds.AccessGrantV2Facts(self.key, self.name, self.scopes, *values)

    @classmethod
    def from_facts(cls, facts: kinds.AccessGrantFacts | kinds.AccessGrantV2Facts) -> "Grant":
        """Return the grant that these facts record."""
        scopes = tuple(map(kinds.Scope, facts.scopes))
        return cls(facts.key, facts.name, scopes, facts.digest, expires=facts.expires)


def is_operator_token(text: str) -> bool:
    """Return whether a text has the form of an operator's token."""
    return _match_operator_token(text) is not None


class AccessState(msgspec.Struct, frozen=True):
    """The granted and revoked keys of a ledger, folded from its access strand."""

    granted: Mapping[str, Grant] = {}
    revoked: frozenset[str] = frozenset()
    made: Mapping[str, int] = {}
    """The time of each grant by key id, in microseconds since 1970."""
    length: int = 0
    """The number of entries of the access strand folded so far."""

    def check_key(self, key: ApiKey, now: int) -> Grant | kinds.DenialReason:
        """Return the grant of a key, or the reason why the key is refused."""
        grant = self.granted.get(key.id)
        # A digest is compared for unknown keys too, so that the response time does not reveal
        # whether a key id exists.
        expected = grant.digest if grant else sha256(b"").hexdigest()
        same = compare_digest(expected, key.digest)
        if grant is None or not same:
            return kinds.DenialReason.UNKNOWN
        return self.check_grant(grant, now) or grant

    def check_grant(self, grant: Grant, now: int) -> kinds.DenialReason | None:
        """Return why a granted key is no longer valid, or None if it is valid."""
        if grant.key in self.revoked:
            return kinds.DenialReason.REVOKED
        return kinds.DenialReason.EXPIRED if grant.expires and grant.expires <= now else None


def fold_access(entries: Iterable[Entry[Any]], access: AccessState) -> AccessState:
    """Return the access state after these further entries of the access strand.

    A revocation is final: a later grant of the same key id does not undo it.
    """
    granted, times = dict(access.granted), dict(access.made)
    revoked, length = set(access.revoked), access.length
    for entry in entries:
        facts, length = entry.facts, entry.n + 1
        if isinstance(facts, kinds.AccessGrantFacts | kinds.AccessGrantV2Facts):
            granted[facts.key], times[facts.key] = Grant.from_facts(facts), entry.ts
        elif isinstance(facts, kinds.AccessRevocationFacts):
            revoked.add(facts.key)
    return AccessState(granted, frozenset(revoked), times, length)


def has_scope(scopes: Iterable[kinds.Scope], wanted: Iterable[kinds.Scope]) -> bool:
    """Return whether any of the scopes is one of those wanted; `admin` includes every scope."""
    held = set(scopes)
    return kinds.Scope.ADMIN in held or not held.isdisjoint(wanted)
