"""Ledgers of forum-engine, another program for fleets of agents: parsed and checked.

Such a ledger is a folder with two files of JSON lines.  `entries.jsonl` has one entry in each line;
its hash covers its members and, through `prev_hash`, the entry before it.  `payloads.jsonl` has the
contents, under the hash of their canonical JSON.  A payload may be missing: it was redacted.
"""

import hashlib
import json
from typing import Any, Final

import msgspec

from forum.errors import ForeignLedgerBroken
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.runs.report_drafts import cut_body, names_body
from forum.runs.report_kinds import AN_AGENT, Names, Operation, ReportStepFacts, label_name

ENTRIES_FILE: Final = "entries.jsonl"
PAYLOADS_FILE: Final = "payloads.jsonl"
FRAMEWORK: Final = "forum-engine"
RUN_PREFIX: Final = "import-"
MAX_RUN_ENTRIES: Final = 5_000
"""Entries in one run; another run continues a longer request."""

_GENESIS: Final = "0" * 64
_SEPARATOR: Final = "\x1f"
_MAX_MICROS: Final = 1 << 53
_GIVEN_KINDS: Final = frozenset({"request", "task", "context"})
"""Kinds whose payload was given to somebody; every other payload is what came of a step."""


class EngineEntry(msgspec.Struct, frozen=True):
    """One line of `entries.jsonl`."""

    seq: int
    ts: float
    actor: str
    kind: str
    causal_parent: int | None
    payload_hash: str
    prev_hash: str
    entry_hash: str

    def compute_hash(self) -> str:
        """Return the hash that the entry must have."""
        parent = "" if self.causal_parent is None else str(self.causal_parent)
        parts = (str(self.seq), f"{self.ts:.6f}", self.actor, self.kind, parent)
        text = _SEPARATOR.join((*parts, self.payload_hash, self.prev_hash))
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    @property
    def run(self) -> str:
        """The name of the run that begins with this entry."""
        return f"{RUN_PREFIX}{self.entry_hash[:32]}"


class EngineLedger(msgspec.Struct, frozen=True):
    """A ledger whose chain and payloads were checked."""

    entries: tuple[EngineEntry, ...]
    payloads: dict[str, bytes]
    """The canonical JSON of each payload that is there, by its hash."""
    torn: int
    """Last lines that a crash cut off; forum-engine leaves them out as well."""

    @property
    def missing_payloads(self) -> int:
        """The number of entries whose payload is not there."""
        return sum(entry.payload_hash not in self.payloads for entry in self.entries)

    @property
    def checkpoint(self) -> str:
        """The Merkle root that forum-engine prints as its checkpoint."""
        level = [_hash(b"\x00", entry.entry_hash) for entry in self.entries] or [_GENESIS]
        while len(level) > 1:
            pairs = [_hash(b"\x01", *level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
            # A node without a sibling is carried up unchanged.
            level = pairs + (level[-1:] if len(level) % 2 else [])
        return level[0]

    def end_of_run(self, start: int) -> int:
        """Return where the run that begins at an entry ends: before the next request."""
        most = min(len(self.entries), start + MAX_RUN_ENTRIES)
        requests = (at for at in range(start + 1, most) if self.entries[at].kind == "request")
        return next(requests, most)

    def outcome_of(self, entries: tuple[EngineEntry, ...]) -> Outcome:
        """Return how the last result of a run ended; nobody knows how a run without one did."""
        results = [entry for entry in entries if entry.kind == "result"]
        if not results:
            return Outcome.INDETERMINATE
        return _outcome(results[-1], self.payloads.get(results[-1].payload_hash))

    def step(self, entry: EngineEntry) -> tuple[ReportStepFacts, tuple[Attachment, ...]]:
        """Return an entry as a reported step, with its payload and its members as bodies."""
        payload, cut = self.payloads.get(entry.payload_hash), 0
        bodies = [
            Attachment("attributes", BytesContent(msgspec.json.encode(entry)), "application/json"),
            *names_body(Names(entry.kind, entry.actor)),
        ]
        if payload is not None:
            name = "input" if entry.kind in _GIVEN_KINDS else "output"
            body, cut = cut_body(name, payload, "application/json")
            bodies.append(body)
        facts = ReportStepFacts(
            op=Operation.AGENT if entry.kind == "result" else Operation.STEP,
            name=label_name(entry.kind, Operation.STEP),
            outcome=_outcome(entry, payload),
            span=entry.entry_hash,
            began=_micros(entry.ts),
            agent=label_name(entry.actor, AN_AGENT),
            cut=cut,
        )
        return facts, tuple(bodies)


def read_engine_ledger(entries: bytes, payloads: bytes) -> EngineLedger:
    """Parse both files and check every hash.

    Raises `ForeignLedgerBroken` with the first entry that is not what it was.
    """
    rows, torn = _read_lines(ENTRIES_FILE, entries)
    bodies, torn_payloads = _read_lines(PAYLOADS_FILE, payloads)
    parsed = tuple(_read_entry(number, row) for number, row in enumerate(rows))
    _check_chain(parsed)
    stored = dict(_read_payload(number, row) for number, row in reversed([*enumerate(bodies)]))
    kept: dict[str, bytes] = {}
    for entry in parsed:
        if entry.payload_hash not in stored:
            continue
        payload = stored[entry.payload_hash]
        if hashlib.sha256(payload).hexdigest() != entry.payload_hash:
            raise ForeignLedgerBroken(f"entry {entry.seq}", "its payload has another hash")
        kept[entry.payload_hash] = payload
    return EngineLedger(parsed, kept, torn + torn_payloads)


def _check_chain(entries: tuple[EngineEntry, ...]) -> None:
    previous = _GENESIS
    for number, entry in enumerate(entries):
        where = f"entry {number}"
        if entry.seq != number:
            raise ForeignLedgerBroken(where, f"it says that it is entry {entry.seq}")
        if entry.prev_hash != previous:
            raise ForeignLedgerBroken(where, "it does not follow the entry before it")
        if entry.compute_hash() != entry.entry_hash:
            raise ForeignLedgerBroken(where, "its hash is not that of its members")
        if entry.causal_parent is not None and not 0 <= entry.causal_parent < number:
            raise ForeignLedgerBroken(where, "its cause is no earlier entry")
        previous = entry.entry_hash


def _read_lines(file: str, data: bytes) -> tuple[list[Any], int]:
    """Return the values of a file of JSON lines, and how many torn lines were left out."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    values = []
    for number, line in enumerate(lines):
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            # Only the last line can be one whose write was interrupted.
            if number == len(lines) - 1 and not data.endswith(b"\n"):
                return values, 1
            raise ForeignLedgerBroken(f"{file}, line {number + 1}", "it is not JSON") from None
    return values, 0


def _read_entry(number: int, row: object) -> EngineEntry:
    try:
        return msgspec.convert(row, EngineEntry)
    except msgspec.ValidationError as error:
        raise ForeignLedgerBroken(f"entry {number}", str(error)) from None


def _read_payload(number: int, row: object) -> tuple[str, bytes]:
    if not isinstance(row, dict) or not isinstance(row.get("hash"), str) or "body" not in row:
        where = f"{PAYLOADS_FILE}, line {number + 1}"
        raise ForeignLedgerBroken(where, "it has no hash or no body")
    # The canonical form of forum-engine, over which it computes its hashes.
    canonical = json.dumps(row["body"], sort_keys=True, separators=(",", ":"))  # noqa: TID251
    return row["hash"], canonical.encode()


def _outcome(entry: EngineEntry, payload: bytes | None) -> Outcome:
    """Return how a step ended, as far as its payload tells."""
    result = json.loads(payload) if entry.kind == "result" and payload is not None else None
    failed = isinstance(result, dict) and result.get("ok") is False
    return Outcome.FAILED if failed else Outcome.OK


def _micros(ts: float) -> int:
    return round(ts * 1_000_000) if 0 <= ts < _MAX_MICROS // 1_000_000 else 0


def _hash(tag: bytes, *parts: str) -> str:
    return hashlib.sha256(tag + "".join(parts).encode()).hexdigest()
