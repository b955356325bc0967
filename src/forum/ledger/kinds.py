"""The kinds of entries: a closed set, each with a version, its facts and its bodies.

A released kind is never changed; it is joined by the next version.  The ledger owns the registry
and the kinds of the log's own life and of every run's frame; other rooms declare theirs and the
readers put the sets together.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from forum.errors import Malformed
from forum.ledger.entry import Count, Entry, Facts, check_bytes, peek_kind, read_entry, write_entry

F = TypeVar("F", bound=Facts)

_MAX_CACHED_FACTS = 10_000
"""How many facts that were read before are recognised without reading them again."""


class Kind(msgspec.Struct, Generic[F], frozen=True):
    """One kind: its versioned name, the type of its facts, the names its bodies may have."""

    name: str
    facts: type[F]
    bodies: frozenset[str] = frozenset()


class Kinds:
    """A closed set of kinds, and the only way between entries and their bytes."""

    def __init__(self, kinds: Iterable[Kind[Any]]) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._by_facts = {kind.facts: kind for kind in self._kinds.values()}
        self._decoders = {
            kind.name.encode(): msgspec.json.Decoder(Entry[kind.facts])  # type: ignore[name-defined]
            for kind in self._kinds.values()
        }
        self._known: set[tuple[bytes, bytes]] = set()
        self._facts = {k.name.encode(): msgspec.json.Decoder(k.facts) for k in self}

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self._kinds.values())

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def __or__(self, other: "Kinds") -> "Kinds":
        return Kinds([*self, *other])

    def kind_of(self, facts: Facts) -> Kind[Any]:
        """Return the kind whose facts these are."""
        try:
            return self._by_facts[type(facts)]
        except KeyError:
            raise Malformed("facts", f"no kind has {type(facts).__name__}") from None

    def read(self, data: bytes) -> Entry[Any]:
        """Return the entry with these bytes; that of an unknown kind has raw facts."""
        entry = read_entry(data, self._decoders.get(peek_kind(data)))
        if entry.bodies:
            self._check_body_names(entry)
        return entry

    def has_valid_facts(self, kind: bytes, facts: bytes) -> bool:
        """Tell whether these are the only bytes of some facts of a known kind."""
        key = (kind, facts)
        if key in self._known:
            return True
        decoder = self._facts.get(kind)
        if decoder is None or not _is_canonical(decoder, facts):
            return False
        if len(self._known) >= _MAX_CACHED_FACTS:
            self._known.clear()
        self._known.add(key)
        return True

    def write(self, entry: Entry[Any]) -> bytes:
        """Return the bytes of an entry of a known kind, which can be read again."""
        if entry.kind not in self._kinds:
            raise Malformed("entry", f"no such kind: {entry.kind}")
        if entry.bodies:
            self._check_body_names(entry)
        data, facts = write_entry(entry)
        # The types of facts are not checked when they are made, only when they are read: what
        # cannot be read must not be written.
        if not self.has_valid_facts(entry.kind.encode(), facts):
            raise Malformed("entry", f"these are no facts of {entry.kind}: {facts!r}")
        return data

    def _check_body_names(self, entry: Entry[Any]) -> None:
        kind = self._kinds.get(entry.kind)
        if kind is not None and not kind.bodies.issuperset(entry.bodies):
            raise Malformed("entry", f"{entry.kind} has no body {', '.join(entry.bodies)}")


def _is_canonical(decoder: "msgspec.json.Decoder[Any]", facts: bytes) -> bool:
    try:
        check_bytes(facts)
        return msgspec.json.encode(decoder.decode(facts)) == facts
    except (Malformed, msgspec.MsgspecError, UnicodeError):
        return False


class Outcome(StrEnum):
    """How a step or a run ended."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INDETERMINATE = "indeterminate"


class LogOpenFacts(Facts, frozen=True):
    """A log begins.  A new epoch names the checkpoint at which the old log was left."""

    program: str
    left_origin: str = ""
    left_size: Count = 0
    left_root: str = ""


class KeyAddFacts(Facts, frozen=True):
    """A key signs for this log from here on."""

    vkey: str


class EpochKey(StrEnum):
    """Under which key an epoch goes on."""

    KEPT = "kept"
    NEW = "new"


class LogEpochFacts(Facts, frozen=True):
    """A log continues another one.  Its body `reason` says why that one was left.

    The size and root are those of the newest checkpoint that was still there of the log that was
    left: whatever is missing of it below that size went missing afterwards.
    """

    key: EpochKey
    held_size: Count = 0
    held_root: str = ""


class KeyRotationFacts(Facts, frozen=True):
    """A key hands the log over to another one, which signs for it from here on."""

    old: str
    vkey: str


class LogSealFacts(Facts, frozen=True):
    """Nothing follows in this log."""

    reason: str


class RedactionReason(StrEnum):
    """Why a body was erased."""

    REQUEST = "request"
    RETENTION = "retention"
    SECRET = "secret"  # noqa: S105  not one, but the reason
    LEGAL = "legal"


class RedactionFacts(Facts, frozen=True):
    """A body is erased after this entry is in a checkpoint.  Parents: its entry, its exports."""

    entry: str
    body: str
    reason: RedactionReason


class TagEnforcementFacts(Facts, frozen=True):
    """Every entry behind this index carries a tag; those up to it were written before tags."""

    last_untagged: Count


class QuarantineDiscardFacts(Facts, frozen=True):
    """Rows that no writer of this log wrote were looked at and deleted."""

    rows: Count
    digest: str
    """SHA-256 over their leaf hashes, in the order in which they were set aside."""


class ExportFacts(Facts, frozen=True):
    """Bodies of a run left the ledger in a bundle: who holds it can still prove them."""

    run: str
    entries: Count
    size: Count


class RunOpenFacts(Facts, frozen=True):
    """A run begins, after the checkpoint that it names: nothing in it is older than that."""

    after_size: Count = 0
    after_root: str = ""


class RunCloseFacts(Facts, frozen=True):
    """A run ended.  Its body `strands` lists every other strand with its last n and its head."""

    outcome: Outcome
    strands: Count


class JoinFacts(Facts, frozen=True):
    """Gathers more causes than one entry can name."""


class NoteFacts(Facts, frozen=True):
    """A remark that a person or a system wants on record; its text is the body."""


class Scope(StrEnum):
    """What somebody may do at the doors of a ledger."""

    SUBMIT = "submit"
    """Have work done, and stop it."""
    READ = "read"
    """See runs and their answers."""
    APPROVE = "approve"
    """Decide at gates."""
    AUDIT = "audit"
    """Read the log itself: entries, bodies, proofs, bundles."""
    ADMIN = "admin"
    """Everything, and who may do what."""
    METRICS = "metrics"
    """Read what processes count and measure, and nothing else."""


class GrantScope(StrEnum):
    """The scopes that release 0.1.0 knows: it could not read a grant of any other."""

    SUBMIT = "submit"
    READ = "read"
    APPROVE = "approve"
    AUDIT = "audit"
    ADMIN = "admin"


class AccessGrantV2Facts(Facts, frozen=True):
    """The same as `AccessGrantFacts`, for scopes that were added later."""

    key: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    expires: Count = 0


class AccessGrantFacts(Facts, frozen=True):
    """Whoever shows the secret with this digest may do this much, until it expires."""

    key: str
    """The part of the key that is no secret."""
    name: str
    scopes: tuple[GrantScope, ...]
    digest: str
    """SHA-256 of the secret: 32 random bytes, so that nobody finds it by trying."""
    expires: Count = 0
    """In microseconds since 1970; never, if zero."""


class AccessRevocationFacts(Facts, frozen=True):
    """A key opens nothing any more."""

    key: str


class DenialReason(StrEnum):
    """Why somebody was not let in."""

    UNKNOWN = "unknown"
    """No key, or none that we gave out, or a token that does not hold."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    SCOPE = "scope"
    """A good key that does not open this door."""
    ELSEWHERE = "elsewhere"
    """The Host or Origin is not ours."""


class AccessDenialFacts(Facts, frozen=True):
    """Somebody was turned away, once or more often since the last entry that says so."""

    who: str
    why: DenialReason
    door: str
    """The operation that was asked for."""
    times: Count = 1


class NoticeFacts(Facts, frozen=True):
    """Somebody outside was told of an entry, or could not be."""

    endpoint: str
    entry: str
    event: str
    outcome: Outcome
    attempts: Count = 1
    code: str = ""
    """The HTTP status of the last attempt, or what kept it from being made."""


LEDGER_KINDS = Kinds(
    [
        Kind("log.open/1", LogOpenFacts),
        Kind("key.add/1", KeyAddFacts),
        Kind("log.seal/1", LogSealFacts),
        Kind("redact/1", RedactionFacts),
        Kind("export/1", ExportFacts),
        Kind("run.open/1", RunOpenFacts),
        Kind("run.close/1", RunCloseFacts, frozenset({"strands"})),
        Kind("join/1", JoinFacts),
        Kind("note/1", NoteFacts, frozenset({"text"})),
        Kind("access.grant/1", AccessGrantFacts),
        Kind("access.grant/2", AccessGrantV2Facts),
        Kind("access.revoke/1", AccessRevocationFacts),
        Kind("access.deny/1", AccessDenialFacts),
        Kind("notice/1", NoticeFacts),
        Kind("tags.enforce/1", TagEnforcementFacts),
        Kind("quarantine.discard/1", QuarantineDiscardFacts),
        Kind("log.epoch/1", LogEpochFacts, frozenset({"reason"})),
        Kind("key.rotate/1", KeyRotationFacts),
    ]
)
