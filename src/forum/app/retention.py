"""Rules of retention, holds, and the erasure of bodies whose period is over."""

import re

from msgspec import Struct

from forum.app.environment import KINDS, OPERATOR, new_salt
from forum.app.log import LogOperations
from forum.app.project import ProjectContext
from forum.errors import HoldInForce, Malformed, NoSuchHold
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import HoldAct, HoldFacts, RetentionFacts
from forum.ledger.log import read_body
from forum.ledger.retention import (
    ALL_BODIES,
    RETENTION_STRAND,
    STRUCTURAL_BODIES,
    Hold,
    RetentionState,
    read_retention,
)
from forum.ledger.strand import Attachment, Draft, RecordedEntry

MAX_HELD_RUNS = 40
"""Runs that one hold names: an entry with the longest names still fits."""


_is_hold_name = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch


class HoldRecord(Struct, frozen=True):
    """A hold in force, with its reason if that was given and not erased."""

    hold: Hold
    reason: str | None


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

    def __init__(self, project: ProjectContext, log: LogOperations) -> None:
        self._project, self._log = project, log

    def read_state(self) -> RetentionState:
        """Return the rules and holds in force."""
        return read_retention(self._project.store, KINDS)

    def set_rule(self, subject: str, seconds: int, actor: str = OPERATOR) -> RecordedEntry:
        """Record how long bodies are kept; 0 keeps them for ever.  Raises `Malformed`."""
        check_subject(subject)
        return self._append(f"retention/{subject}", RetentionFacts(subject, seconds), "", actor)

    def place_hold(
        self, name: str, runs: tuple[str, ...] = (), reason: str = "", actor: str = OPERATOR
    ) -> RecordedEntry:
        """Keep everything that some runs, or all, have recorded, until the hold is released.

        Raises `HoldInForce`, `Malformed`.
        """
        if not _is_hold_name(name):
            raise Malformed("hold", f"its name {name!r} is not of a-z, 0-9, dot, dash, underscore")
        if len(runs) > MAX_HELD_RUNS:
            raise Malformed("hold", f"it names {len(runs)} runs; at most {MAX_HELD_RUNS}")
        if name in self.read_state().holds:
            raise HoldInForce(name)
        facts = HoldFacts(name, HoldAct.PLACE, runs)
        return self._append(f"hold/{name}", facts, reason, actor)

    def release_hold(self, name: str, reason: str = "", actor: str = OPERATOR) -> RecordedEntry:
        """Release a hold.  Raises `NoSuchHold`."""
        if name not in self.read_state().holds:
            raise NoSuchHold(name)
        facts = HoldFacts(name, HoldAct.RELEASE)
        return self._append(f"hold/{name}/release", facts, reason, actor)

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
        scan, redacted, erased = self._log.make_retention_scan(), 0, 0
        while True:
            step = scan.step()
            redacted, erased = redacted + step.redacted, erased + step.erased
            if step.redacted:
                self._log.publish_or_warn()
            elif step.is_done:
                return ErasureResult(redacted, erased)

    def _read_reason(self, hold: Hold) -> str | None:
        data = next(self._project.store.read_strand(LOG_RUN, RETENTION_STRAND, hold.position))
        body = read_body(self._project.store, KINDS.read(data), "reason")
        return None if body is None else body.decode(errors="replace")

    def _append(
        self, step: str, facts: RetentionFacts | HoldFacts, reason: str, actor: str
    ) -> RecordedEntry:
        bodies = (Attachment("reason", text_content(reason)),) if reason else ()
        # A random suffix makes each step unique.  Otherwise one of two rules that are set at the
        # same moment would be adopted in place of the other, and be lost.
        draft = Draft(f"{step}/{new_salt()[:8].hex()}", actor, facts, (), bodies)
        return self._project.ledger.append_log_entry(draft, RETENTION_STRAND)
