"""Rules of retention, holds, and the erasure of bodies whose period is over."""

import re
from typing import Any, assert_never

from msgspec import Struct

from forum.app import Forum
from forum.app.clock_ids_and_kinds import KINDS, OPERATOR, new_salt
from forum.errors import HoldInForce, Malformed, NoSuchHold, NoSuchRequest, NotSigner, NotYetSigned
from forum.ledger.body import text_content
from forum.ledger.control_key import REQUESTS_STRAND
from forum.ledger.entry import LOG_RUN, Entry
from forum.ledger.kinds import (
    ControlAct,
    ControlRefusalFacts,
    ControlRequestFacts,
    HoldAct,
    HoldFacts,
    RedactionV3Facts,
    RetentionFacts,
)
from forum.ledger.log import read_body, read_strand_entries
from forum.ledger.retention_holds import (
    ALL_BODIES,
    RETENTION_STRAND,
    STRUCTURAL_BODIES,
    Hold,
    RetentionState,
    read_retention,
)
from forum.ledger.strand import Attachment, Draft, RecordedEntry
from forum.tlog import Hash

MAX_HELD_RUNS = 40
"""Runs that one hold names: an entry with the longest names still fits."""


MIN_REQUEST_DIGITS = 12
"""The first digits of the id of a request by which it may be named: as many as lists show."""

_Control = RetentionFacts | HoldFacts | ControlRequestFacts | ControlRefusalFacts

_is_hold_name = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch


class HoldRecord(Struct, frozen=True):
    """A hold in force, with its reason if that was given and not erased."""

    hold: Hold
    reason: str | None


class ControlRequest(Struct, frozen=True):
    """An open request of a process that does not sign the log."""

    id: str
    facts: ControlRequestFacts
    ts: int
    actor: str
    """Who asks, as the process says that asks: every holder of the write key can write it."""
    reason: str | None
    is_signed: bool
    """Whether a signed tree has it.  Until then whoever has the database can exchange it."""


class ErasureResult(Struct, frozen=True):
    """What an application of the rules has done."""

    redacted: int
    erased: int


def check_subject(subject: str) -> None:
    """Raise `Malformed` unless a rule of retention may be about this."""
    bodies = {kind.name.partition("/")[0]: kind.bodies for kind in KINDS}
    name, _, body = subject.partition("/")
    if subject == ALL_BODIES or (body and body in bodies.get(name, ()) and not _is_kept(subject)):
        return
    if not body and bodies.get(name) and not all(_is_kept(f"{name}/{b}") for b in bodies[name]):
        return
    raise Malformed(
        "retention", f"{subject!r} is neither * nor a kind with bodies, as call, or call/prompt"
    )


def _is_kept(subject: str) -> bool:
    return subject in STRUCTURAL_BODIES


class RetentionOperations:
    """Sets rules of retention, places holds, and erases what no rule keeps."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._log = forum, forum.log

    def read_state(self) -> RetentionState:
        """Return the rules and holds in force."""
        return read_retention(self._project.store, KINDS)

    def set_rule(self, subject: str, seconds: int, actor: str = OPERATOR) -> RecordedEntry:
        """Record how long bodies are kept; 0 keeps them for ever.  Raises `Malformed`.

        Like placing and releasing holds, it is only asked for where another machine signs.
        """
        check_subject(subject)
        self._project.set_aside_foreign_rows()
        return self._append(f"retention/{subject}", RetentionFacts(subject, seconds), "", actor)

    def place_hold(
        self, name: str, runs: tuple[str, ...] = (), reason: str = "", actor: str = OPERATOR
    ) -> RecordedEntry:
        """Keep everything that some runs, or all, have recorded, until the hold is released.

        Raises `HoldInForce`, `Malformed`.
        """
        self._project.set_aside_foreign_rows()
        self._check_new_hold(name, runs)
        facts = HoldFacts(name, HoldAct.PLACE, runs)
        return self._append(f"hold/{name}", facts, reason, actor)

    def release_hold(self, name: str, reason: str = "", actor: str = OPERATOR) -> RecordedEntry:
        """Release a hold.  Raises `NoSuchHold`."""
        self._project.set_aside_foreign_rows()
        self._check_hold(name)
        facts = HoldFacts(name, HoldAct.RELEASE)
        return self._append(f"hold/{name}/release", facts, reason, actor)

    def read_requests(self) -> list[ControlRequest]:
        """Return the open requests of processes that do not sign the log, the oldest first."""
        decided = {
            entry.parents[0]
            for _, entry in read_strand_entries(self._project.ledger, LOG_RUN, RETENTION_STRAND)
            if entry.parents and not isinstance(entry.facts, RedactionV3Facts)
        }
        tree = self._project.open_signed_tree()
        return [
            ControlRequest(
                id=leaf.hex(),
                facts=entry.facts,
                ts=entry.ts,
                actor=entry.actor,
                reason=self._read_text(entry, "reason"),
                is_signed=tree.has_leaf(leaf),
            )
            for leaf, entry in read_strand_entries(self._project.ledger, LOG_RUN, REQUESTS_STRAND)
            if isinstance(entry.facts, ControlRequestFacts) and leaf.hex() not in decided
        ]

    def grant_request(self, request: str) -> RecordedEntry:
        """Record what a request asks for, checked as if it were typed here.

        Raises `NoSuchRequest`, `NotSigner`, `NotYetSigned`, and what the request itself raises.
        """
        asked = self.find_request(request)
        facts, reason = asked.facts, asked.reason or ""
        cause = Hash.from_hex(asked.id)
        match facts.act:
            case ControlAct.PLACE:
                self._check_new_hold(facts.hold, facts.runs)
                granted: _Control = HoldFacts(facts.hold, HoldAct.PLACE, facts.runs)
                step = f"hold/{facts.hold}"
            case ControlAct.RELEASE:
                self._check_hold(facts.hold)
                granted, step = HoldFacts(facts.hold, HoldAct.RELEASE), f"hold/{facts.hold}/release"
            case ControlAct.RETENTION:
                check_subject(facts.subject)
                granted = RetentionFacts(facts.subject, facts.seconds)
                step = f"retention/{facts.subject}"
            case _:
                assert_never(facts.act)
        return self._record(step, granted, reason, OPERATOR, cause)

    def refuse_request(self, request: str) -> RecordedEntry:
        """Record that a request is not granted.  Raises like `find_request`."""
        asked = self.find_request(request)
        cause = Hash.from_hex(asked.id)
        return self._record(f"refuse/{asked.id}", ControlRefusalFacts(), "", OPERATOR, cause)

    def find_request(self, request: str) -> ControlRequest:
        """Return the open request whose id begins with these digits.

        Only a signed one is decided: what waits for its signature can be exchanged between the
        list that the operator reads and the command that he types.  Raises `NoSuchRequest`,
        `NotSigner`, `NotYetSigned`.
        """
        if not self._project.may_control:
            raise NotSigner(self._project.origin, RETENTION_STRAND)
        self._project.set_aside_foreign_rows()
        requests = [asked for asked in self.read_requests() if asked.id.startswith(request)]
        if len(requests) != 1 or len(request) < MIN_REQUEST_DIGITS:
            raise NoSuchRequest(request)
        if not requests[0].is_signed:
            raise NotYetSigned(f"{LOG_RUN}/{REQUESTS_STRAND} {requests[0].id}")
        return requests[0]

    def read_holds(self) -> list[HoldRecord]:
        """Return the holds in force, the oldest first."""
        holds = sorted(self.read_state().holds.values(), key=lambda hold: hold.position)
        return [HoldRecord(hold, self._read_reason(hold)) for hold in holds]

    def apply_rules(self) -> ErasureResult:
        """Erase everything whose period is over, and return how much.

        Each batch is recorded and signed before it is erased; where another machine signs, that one
        erases it.  Raises `StoreFailed` if somebody reads a SQLite file; what is recorded by then
        is erased by the next call.
        """
        scan, redacted = self._log.make_retention_scan(), 0
        erased = 0
        while True:
            step = scan.step()
            redacted, erased = redacted + step.redacted, erased + step.erased
            if step.redacted:
                self._log.publish_or_warn()
            elif step.is_done:
                return ErasureResult(redacted, erased)

    def _read_reason(self, hold: Hold) -> str | None:
        data = next(self._project.store.read_strand(LOG_RUN, RETENTION_STRAND, hold.position))
        return self._read_text(KINDS.read(data), "reason")

    def _read_text(self, entry: Entry[Any], name: str) -> str | None:
        body = read_body(self._project.store, entry, name)
        return None if body is None else body.decode(errors="replace")

    def _check_new_hold(self, name: str, runs: tuple[str, ...]) -> None:
        if not _is_hold_name(name):
            raise Malformed("hold", f"its name {name!r} is not of a-z, 0-9, dot, dash, underscore")
        if len(runs) > MAX_HELD_RUNS:
            raise Malformed("hold", f"it names {len(runs)} runs; at most {MAX_HELD_RUNS}")
        if name in self.read_state().holds:
            raise HoldInForce(name)

    def _check_hold(self, name: str) -> None:
        if name not in self.read_state().holds:
            raise NoSuchHold(name)

    def _append(
        self, step: str, facts: RetentionFacts | HoldFacts, reason: str, actor: str
    ) -> RecordedEntry:
        """Record a rule or a hold; where another machine signs, ask it for that."""
        if self._project.may_control:
            return self._record(step, facts, reason, actor)
        return self._record(f"ask/{step}", _ask_for(facts), reason, actor)

    def _record(
        self, step: str, facts: _Control, reason: str, actor: str, *causes: Hash
    ) -> RecordedEntry:
        is_request = isinstance(facts, ControlRequestFacts)
        bodies = (Attachment("reason", text_content(reason)),) if reason else ()
        # A random suffix makes each step unique.  Otherwise one of two rules that are set at the
        # same moment would be adopted in place of the other, and be lost.
        draft = Draft(f"{step}/{new_salt()[:8].hex()}", actor, facts, parents=causes, bodies=bodies)
        strand = REQUESTS_STRAND if is_request else RETENTION_STRAND
        return self._project.ledger.append_log_entry(draft, strand)


def _ask_for(facts: RetentionFacts | HoldFacts) -> ControlRequestFacts:
    """Return the request for an entry."""
    if isinstance(facts, RetentionFacts):
        return ControlRequestFacts(
            ControlAct.RETENTION, subject=facts.subject, seconds=facts.seconds
        )
    act = ControlAct.PLACE if facts.act is HoldAct.PLACE else ControlAct.RELEASE
    return ControlRequestFacts(act, hold=facts.hold, runs=facts.runs)
