"""The kinds of entries: a closed set, each with a version, its facts and its bodies.

A released kind is never changed; a change is released as the next version, beside the old one.
This module owns the registry type and the kinds for the log itself and for opening and closing
runs.  Other packages declare their own kinds, and readers combine the sets with `|`.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.entry import (
    MAX_ENTRY_SIZE,
    Count,
    Entry,
    Facts,
    Limit,
    check_bytes,
    match_plain_entry,
    peek_kind,
    read_entry,
    write_entry,
)

F = TypeVar("F", bound=Facts)

_MAX_CACHED_FACTS = 10_000
"""Size of the cache of valid facts; when it is full, it is cleared."""


class Kind(msgspec.Struct, Generic[F], frozen=True):
    """One kind: its versioned name, the type of its facts, the allowed names of its bodies."""

    name: str
    facts: type[F]
    bodies: frozenset[str] = frozenset()


class _FactsReader(Generic[F]):
    """Reads and normalizes the facts of one kind, member by member."""

    def __init__(self, facts: type[F]) -> None:
        self._decoder = msgspec.json.Decoder(facts)
        hints = get_type_hints(facts, include_extras=True)
        fields = msgspec.structs.fields(facts)
        self._places = {
            # No value is equal to NODEFAULT.
            field.name: (n, msgspec.NODEFAULT if hints[field.name] == Limit else field.default)
            for n, field in enumerate(fields)
        }
        """The place of each member, and the value with which it is not written."""
        # An encoder leaves a default out by identity.  Python has one object for a small integer,
        # an enum member and the empty string or tuple; only other defaults must be looked for.
        self._defaults = [
            (field.name, field.default)
            for field in fields
            if field.default is not msgspec.NODEFAULT
            if _copy_value(field.default, hints[field.name]) is not field.default
        ]

    def read(self, data: bytes) -> F:
        """Return the facts with exactly these bytes.  Raises `Malformed`.

        Each member is compared with its default by value: a library may write a default that is
        equal and not the same object.
        """
        try:
            facts = self._decoder.decode(data)
            members = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Malformed("entry", str(error)) from None
        last = -1
        for name in members:
            place, default = self._places[name]
            value = members[name] = getattr(facts, name)
            if place < last or value == default:
                detail = f"the fact {name} is out of order, or written with its default"
                raise Malformed("entry", detail)
            last = place
        # White space, escapes, a member that occurs twice, and a number with a fraction.
        if msgspec.json.encode(members) != data:
            raise Malformed("entry", "facts that are not in canonical form")
        return facts

    def normalize(self, facts: F) -> F:
        """Return facts whose defaults are left out when they are written."""
        equal = {n: default for n, default in self._defaults if getattr(facts, n) == default}
        return replace(facts, **equal) if equal else facts


def _copy_value(value: object, hint: Any) -> object:  # noqa: ANN401  a type of any form
    """Return an equal value that was read from JSON."""
    return msgspec.json.decode(msgspec.json.encode(value), type=hint)


class Kinds:
    """A closed set of kinds, which encodes and decodes entries."""

    def __init__(self, kinds: Iterable[Kind[Any]]) -> None:
        self.protocols: dict[str, Callable[[], Any]] = {}
        """By its name, what loads the protocol that the sessions of a panel follow."""
        self.session_kinds: frozenset[bytes] = frozenset()
        """The names of the kinds that only sessions of panels record."""
        self._kinds = {kind.name: kind for kind in kinds}
        self._by_facts = {kind.facts: kind for kind in self._kinds.values()}
        self._facts = {kind.name.encode(): kind.facts for kind in self}
        self._readers: dict[bytes, _FactsReader[Any]] = {}
        self._cached_facts: dict[tuple[bytes, bytes], Any] = {}

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self._kinds.values())

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def __or__(self, other: "Kinds") -> "Kinds":
        joined = Kinds([*self, *other])
        joined.protocols = self.protocols | other.protocols
        joined.session_kinds = self.session_kinds | other.session_kinds
        return joined

    def of_sessions(self, name: str, protocol: Callable[[], Any]) -> "Kinds":
        """Return these kinds as those that only sessions record, which follow this protocol."""
        kinds = Kinds(self)
        kinds.protocols, kinds.session_kinds = {name: protocol}, frozenset(self._facts)
        return kinds

    def kind_of(self, facts: Facts) -> Kind[Any]:
        """Return the kind that has facts of this type.  Raises `Malformed`."""
        try:
            return self._by_facts[type(facts)]
        except KeyError:
            raise Malformed("facts", f"no kind has {type(facts).__name__}") from None

    def read(self, data: bytes) -> Entry[Any]:
        """Return the entry with these bytes.  Raises `Malformed`.

        An entry of an unknown kind, written by a later release, has raw facts.
        """
        kind = peek_kind(data)
        is_known = kind in self._facts
        entry = read_entry(
            data, (lambda facts: self._read_facts(kind, facts)) if is_known else None
        )
        if entry.bodies:
            self._check_body_names(entry)
        return entry

    def is_readable(self, data: bytes) -> bool:
        """Return whether `read` takes these bytes; most are not decoded for that."""
        plain = match_plain_entry(data)
        if plain is not None and len(data) <= MAX_ENTRY_SIZE:
            facts = plain.groups()
            if facts in self._cached_facts or self.has_valid_facts(*facts):
                return True
        try:
            self.read(data)
        except Malformed:
            return False
        return True

    def has_valid_facts(self, kind: bytes, facts: bytes) -> bool:
        """Return whether these bytes are the canonical encoding of facts of a known kind."""
        if (kind, facts) in self._cached_facts:
            return True
        try:
            check_bytes(facts)
            self._read_facts(kind, facts)
        except (KeyError, Malformed):
            return False
        return True

    def _reader_of(self, kind: bytes) -> _FactsReader[Any]:
        """Return the reader of a kind; a command meets few kinds, and each takes time to prepare.

        Raises `KeyError` for an unknown kind.
        """
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = _FactsReader(self._facts[kind])
        return reader

    def _read_facts(self, kind: bytes, data: bytes) -> Any:  # noqa: ANN401  facts of this kind
        """Return the facts with these bytes, which occur often.  Raises `Malformed`."""
        key = (kind, data)
        facts = self._cached_facts.get(key)
        if facts is None:
            facts = self._reader_of(kind).read(data)
            if len(self._cached_facts) >= _MAX_CACHED_FACTS:
                self._cached_facts.clear()
            self._cached_facts[key] = facts
        return facts

    def write(self, entry: Entry[Any]) -> bytes:
        """Return the bytes of an entry, which `read` accepts.  Raises `Malformed`."""
        if entry.kind not in self._kinds:
            raise Malformed("entry", f"no such kind: {entry.kind}")
        if entry.bodies:
            self._check_body_names(entry)
        name = entry.kind.encode()
        facts = self._reader_of(name).normalize(entry.facts)
        data, written = write_entry(entry if facts is entry.facts else replace(entry, facts=facts))
        # msgspec checks types only when it decodes, not when a struct is constructed.  An entry
        # that no reader could decode must not be written.
        if not self.has_valid_facts(name, written):
            raise Malformed("entry", f"these are no facts of {entry.kind}: {written!r}")
        return data

    def _check_body_names(self, entry: Entry[Any]) -> None:
        kind = self._kinds.get(entry.kind)
        if kind is not None and not kind.bodies.issuperset(entry.bodies):
            raise Malformed("entry", f"{entry.kind} has no body {', '.join(entry.bodies)}")


class Outcome(StrEnum):
    """How a step or a run ended."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INDETERMINATE = "indeterminate"


class LogOpenFacts(Facts, frozen=True):
    """A log begins.  A new epoch names the last checkpoint of the log that it continues."""

    program: str
    left_origin: str = ""
    left_size: Count = 0
    left_root: str = ""


class KeyAddFacts(Facts, frozen=True):
    """The key that signs for this log from this entry on."""

    vkey: str


class EpochKey(StrEnum):
    """Under which key an epoch goes on."""

    KEPT = "kept"
    NEW = "new"


class LogEpochFacts(Facts, frozen=True):
    """A log continues another one.  The body `reason` says why the old log was given up.

    Size and root are those of the newest checkpoint of the old log that was still available:
    entries of the old log that are missing below that size were lost later.
    """

    key: EpochKey
    held_size: Count = 0
    held_root: str = ""


class CarryFacts(Facts, frozen=True):
    """The entries of a strand of the earlier epoch were recorded again at the same place."""

    run: str
    strand: str
    entries: Count = 0
    head: str = ""
    """The id of the last of them, as it is in the earlier log."""


class KeyRotationFacts(Facts, frozen=True):
    """A signing key names its successor, as release 0.2 wrote it: neither key has signed this."""

    old: str
    vkey: str


class KeyAddV2Facts(Facts, frozen=True):
    """A key for attestations, published under the signature of a key of the log.

    Both keys sign what `forum.ledger.key_rotation.key_statement` returns.
    """

    vkey: str
    by: str
    """The key of the log that signs."""
    since: Count
    """The smallest index that the entry may have."""
    signed: str
    """The signature of the key of the log, in base64."""
    proof: str
    """The signature of the published key, which proves that its publisher has it, in base64."""


class KeyRotationV2Facts(Facts, frozen=True):
    """A signing key hands the log over to its successor; both keys sign the hand-over."""

    old: str
    vkey: str
    since: Count
    """The smallest index that the entry may have."""
    signed: str
    """The signature of the old key, in base64."""
    proof: str
    """The signature of the new key, which proves that the owner has it, in base64."""


class LogSealFacts(Facts, frozen=True):
    """The log ends: no entry follows."""

    reason: str


class RedactionReason(StrEnum):
    """Why a body was erased."""

    REQUEST = "request"
    RETENTION = "retention"
    SECRET = "secret"  # noqa: S105  not one, but the reason
    LEGAL = "legal"


class RedactionFacts(Facts, frozen=True):
    """A body is to be erased once this entry is in a checkpoint.

    The parents are the entry that commits to the body, and the exports of its run.
    """

    entry: str
    body: str
    reason: RedactionReason


class RedactionBatchFacts(Facts, frozen=True):
    """Many bodies are to be erased once this entry is in a checkpoint.

    The first parents are the entries that commit to the bodies; the exports of their runs follow.
    """

    bodies: tuple[str, ...]
    """Each as PARENT/NAME: the place of its entry among the parents, and the name of the body."""
    reason: RedactionReason
    rule: str = ""
    """The subject of the retention rule by which their period is over, if that is the reason."""


class RedactionV3Facts(Facts, frozen=True):
    """Many bodies are to be erased; their runs are named, so that a hold on them can be seen.

    The first parents are the entries that commit to the bodies; the exports of their runs follow.
    """

    bodies: tuple[str, ...]
    """Each as PARENT/NAME: the place of its entry among the parents, and the name of the body."""
    runs: tuple[str, ...]
    """The run of each of the first parents, in their order."""
    reason: RedactionReason
    rule: str = ""
    """The subject of the retention rule by which their period is over, if that is the reason."""


class RetentionFacts(Facts, frozen=True):
    """How long bodies are kept after their entry was recorded."""

    subject: str
    """`*`, a kind without its version (`call`), or a kind and a body (`call/prompt`)."""
    seconds: Count
    """0: they are kept for ever."""


class HoldAct(StrEnum):
    """Whether a hold begins or ends."""

    PLACE = "place"
    RELEASE = "release"


class HoldFacts(Facts, frozen=True):
    """Nothing of some runs, or of any, is erased until the hold is released."""

    hold: str
    act: HoldAct
    runs: tuple[str, ...] = ()
    """Empty: all runs, also those to come."""


class CapSubject(StrEnum):
    """What a cap over many runs can be for."""

    LEDGER = "ledger"
    KEY = "key"
    PERSON = "person"
    TEAM = "team"
    LANE = "lane"
    AGENT = "agent"


class Period(StrEnum):
    """For how long a cap counts: in UTC, by the clock of the database; weeks begin on Monday."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    EVER = "ever"


class CapUnit(StrEnum):
    """What a cap over many runs can limit."""

    USD = "usd"
    TOKENS = "tokens"
    RUNS = "runs"


class CapChange(StrEnum):
    """Whether a cap is set or removed."""

    SET = "set"
    REMOVE = "remove"


class CapFacts(Facts, frozen=True):
    """A cap over many runs, in place of an earlier one of this subject, period and unit."""

    subject: CapSubject
    per: Period
    unit: CapUnit
    act: CapChange
    name: str = ""
    """A pattern for the names of the subject; empty for the whole ledger."""
    most: Count = 0
    """Of a cap that is set; dollars are in nano-dollars."""


class TeamFacts(Facts, frozen=True):
    """Submitters who share the caps of a team, in place of an earlier one of this name."""

    team: str
    members: tuple[str, ...] = ()
    """Patterns for names of keys and people; none: the team is no more."""
    within: str = ""


class FreezeAct(StrEnum):
    """Whether a freeze begins or ends."""

    FREEZE = "freeze"
    UNFREEZE = "unfreeze"


class FreezeFacts(Facts, frozen=True):
    """No call that costs something is made until the freeze ends.  Body: the reason."""

    act: FreezeAct


class CapAlertFacts(Facts, frozen=True):
    """A share of a cap was used in a period."""

    scope: str
    period: str
    """The name of the period, such as `2026-11-16`."""
    unit: CapUnit
    percent: Count
    used: Count
    cap: Count


class ControlAct(StrEnum):
    """What a process asks for that does not sign the log."""

    PLACE = "hold-place"
    RELEASE = "hold-release"
    RETENTION = "retention"


class ControlRequestFacts(Facts, frozen=True):
    """A process asks the machine that signs for a hold or a rule of retention.

    It gives no authority: every writer can make one.  An operator of that machine grants it with
    the entry that it asks for, or refuses it; either has the request as its first parent.
    """

    act: ControlAct
    hold: str = ""
    runs: tuple[str, ...] = ()
    """Of a hold; empty: all runs."""
    subject: str = ""
    """Of a rule."""
    seconds: Count = 0


class ControlRefusalFacts(Facts, frozen=True):
    """A request is not granted."""


class TagEnforcementFacts(Facts, frozen=True):
    """Every entry after this index carries a tag; those up to it may have none."""

    last_untagged: Count


class QuarantineDiscardFacts(Facts, frozen=True):
    """An operator reviewed rows in quarantine and deleted them."""

    rows: Count
    digest: str
    """SHA-256 over the leaf hashes of the rows, in the order in which they were quarantined."""


class ExportFacts(Facts, frozen=True):
    """The bodies of a run were exported in a bundle; its holder can prove them after erasure."""

    run: str
    entries: Count
    size: Count


class ArchiveFacts(Facts, frozen=True):
    """A run was copied to an archive; the database need not hold its entries and bodies any more.

    It is in the strand `archive/RUN` of the log's own run.  The last one of a run is in force: a
    redaction has the copy replaced.
    """

    run: str
    entries: Count
    first: Count
    """The index of the first entry of the run."""
    last: Count
    """The index of its last entry."""
    digest: str
    """SHA-256 of the copy, which is a bundle."""
    place: str


class RunOpenFacts(Facts, frozen=True):
    """A run begins.  It names a checkpoint, which proves that no entry of the run is older."""

    after_size: Count = 0
    after_root: str = ""


class RunCloseFacts(Facts, frozen=True):
    """A run ended.  Its body `strands` lists every other strand with its last n and its head."""

    outcome: Outcome
    strands: Count


class WitnessedFacts(Facts, frozen=True):
    """What witnesses had cosigned of a checkpoint when the next batch got its indexes.

    The sequencer writes it, in the strand `witnessed` of the log's own run.
    """

    size: Count
    root: str
    cosignatures: tuple[str, ...] = ()
    """Lines of the signed note; none if no witness had cosigned it by then."""


class RunsOpenedFacts(Facts, frozen=True):
    """Runs whose first entries got their indexes in one batch, in the order of these indexes.

    The sequencer writes it, in the strand `runs` of the log's own run.
    """

    first: Count
    """The number of runs that the entries before it in its strand name."""
    runs: tuple[str, ...]
    since: Count = 0
    """In the first one of a log: the index from which on every opening is named."""


class JoinFacts(Facts, frozen=True):
    """Joins causes, its parents, for an entry that has more causes than it can name."""


class NoteFacts(Facts, frozen=True):
    """A remark recorded by a person or a system; the body `text` holds it."""


class Scope(StrEnum):
    """What somebody may do at the doors of a ledger."""

    SUBMIT = "submit"
    """Submit and cancel runs."""
    READ = "read"
    """Read runs and their answers."""
    APPROVE = "approve"
    """Decide at gates."""
    AUDIT = "audit"
    """Read the log itself: entries, bodies, proofs, bundles."""
    ADMIN = "admin"
    """Do everything, including granting and revoking keys."""
    METRICS = "metrics"
    """Read the metrics of processes, and nothing else."""
    REPORT = "report"
    """Add reports of runs that Forum does not drive, and read nothing."""


class GrantScope(StrEnum):
    """The scopes that release 0.1.0 knows: it could not read a grant of any other."""

    SUBMIT = "submit"
    READ = "read"
    APPROVE = "approve"
    AUDIT = "audit"
    ADMIN = "admin"


class AccessGrantV2Facts(Facts, frozen=True):
    """A grant like `AccessGrantFacts`, with scopes that were added after release 0.1.0."""

    key: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    expires: Count = 0


class AccessGrantFacts(Facts, frozen=True):
    """An API key is granted: a client that presents the secret has these scopes until expiry."""

    key: str
    """The public id of the key."""
    name: str
    scopes: tuple[GrantScope, ...]
    digest: str
    """SHA-256 of the secret.  No slow hash is needed: the secret is 32 random bytes."""
    expires: Count = 0
    """Expiry in microseconds since 1970; zero means never."""


class AccessRevocationFacts(Facts, frozen=True):
    """An API key is revoked."""

    key: str


class DenialReason(StrEnum):
    """Why somebody was not let in."""

    UNKNOWN = "unknown"
    """No key, a key that was never granted, or an invalid token."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    SCOPE = "scope"
    """A valid key without the scope for this operation."""
    ELSEWHERE = "elsewhere"
    """The Host or Origin header names another site."""


class AccessDenialFacts(Facts, frozen=True):
    """Denied requests of one client for one operation, counted since the last such entry."""

    who: str
    why: DenialReason
    door: str
    """The operation that was requested."""
    times: Count = 1


class NoticeFacts(Facts, frozen=True):
    """The start, an attempt, or the result of delivering events about entries to a webhook."""

    endpoint: str
    entry: str
    event: str
    outcome: Outcome
    attempts: Count = 1
    code: str = ""
    """The HTTP status of the last attempt, or the reason why no request was made."""


LEDGER_KINDS = Kinds(
    [
        Kind("log.open/1", LogOpenFacts),
        Kind("key.add/1", KeyAddFacts),
        Kind("log.seal/1", LogSealFacts),
        Kind("redact/1", RedactionFacts),
        Kind("export/1", ExportFacts),
        Kind("run.open/1", RunOpenFacts),
        Kind("run.close/1", RunCloseFacts, frozenset({"strands"})),
        Kind("runs.open/1", RunsOpenedFacts),
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
        Kind("redact/2", RedactionBatchFacts),
        Kind("redact/3", RedactionV3Facts),
        Kind("retention/1", RetentionFacts),
        Kind("hold/1", HoldFacts, frozenset({"reason"})),
        Kind("control.request/1", ControlRequestFacts, frozenset({"reason"})),
        Kind("control.refuse/1", ControlRefusalFacts),
        Kind("archive/1", ArchiveFacts),
        Kind("budget.cap/1", CapFacts),
        Kind("budget.team/1", TeamFacts),
        Kind("budget.freeze/1", FreezeFacts, frozenset({"reason"})),
        Kind("budget.alert/1", CapAlertFacts),
        Kind("key.add/2", KeyAddV2Facts),
        Kind("key.rotate/2", KeyRotationV2Facts),
        Kind("witnessed/1", WitnessedFacts),
        Kind("log.carry/1", CarryFacts),
    ]
)
