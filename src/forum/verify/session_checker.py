"""The deliberations of a ledger, each played through its protocol."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from forum.deliberation import (
    Breach,
    IndexedEntry,
    SessionEntries,
    audit_session,
    is_session_facts,
    is_turn_strand,
    may_have_panel,
)
from forum.ledger import BytesContent, Entry, Position, StoredBody
from forum.verify.report import Finding, Findings, Problem
from forum.work import AcceptedFacts

_PROBLEMS = {
    Breach.ASKED: Problem.SESSION_ASKED,
    Breach.RECORDED: Problem.SESSION_RECORDED,
    Breach.COUNTED: Problem.SESSION_COUNTED,
    Breach.ORDER: Problem.SESSION_ORDER,
    Breach.COURSE: Problem.SESSION_COURSE,
    Breach.SURPLUS: Problem.SESSION_SURPLUS,
    Breach.ANSWER: Problem.SESSION_ANSWER,
    Breach.MISSING: Problem.SESSION_MISSING,
}

_POLICY = "policy"

GetBody = Callable[[int, Position, str], StoredBody | None]


class SessionSummary(msgspec.Struct, frozen=True, array_like=True):
    """What came of playing one deliberation."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    played: int
    found: int = 0
    """How many findings there are; only the first thousand are listed."""


class SessionChecker:
    """Finds the runs that were deliberated on, and checks them."""

    def __init__(self, body: GetBody, findings: Findings) -> None:
        self._stored, self._findings = body, findings
        self._policy: tuple[tuple[int, Position] | None, StoredBody | None] = (None, None)
        """The last one that was read, and where."""
        self.runs: dict[str, None] = {}
        """Those that have a panel, turns, or minutes, in the order in which they began."""
        self.not_checked: list[str] = []
        self._played = 0

    def read_body(self, index: int, position: Position, name: str) -> StoredBody | None:
        """Return a body.  The policy of a run is looked at twice, and read once."""
        if name != _POLICY:
            return self._stored(index, position, name)
        if self._policy[0] != (index, position):
            body = self._stored(index, position, name)
            if body is not None:
                body = StoredBody(body.salt, BytesContent(b"".join(body.read())).chunks)
            self._policy = (index, position), body
        return self._policy[1]

    def detect_session(self, index: int, entry: Entry[Any]) -> None:
        """Look at an entry: it may tell of a session."""
        seated = isinstance(entry.facts, AcceptedFacts) and self._has_panel(index, entry)
        if seated or is_turn_strand(entry.strand) or is_session_facts(entry.facts):
            self.runs.setdefault(entry.run)

    def _has_panel(self, index: int, entry: Entry[Any]) -> bool:
        body = self.read_body(index, _position(entry), _POLICY)
        # One that is gone, or another, is told of by others; its turns still tell of a session.
        return body is not None and may_have_panel(b"".join(body.read()))

    def check_session(self, run: str, entries: Iterable[IndexedEntry]) -> None:
        """Check a session, of which these are the entries."""
        inorder = sorted(entries, key=lambda one: one.index)
        found = audit_session(SessionEntries(run, inorder, self._read_recorded_body))
        self._played += found.is_session and not found.not_checked
        for fault in found.faults:
            problem = _PROBLEMS[fault.breach]
            self._findings.add(problem, fault.detail, fault.index, fault.entry)
        self.not_checked.extend(found.not_checked)

    def _read_recorded_body(self, where: IndexedEntry, name: str) -> StoredBody | None:
        """Return the very body that an entry committed to, or nothing."""
        body = self.read_body(where.index, _position(where.entry), name)
        return body if body is not None and body.matches(where.entry.bodies[name]) else None

    def summary(self) -> SessionSummary:
        """Return what came of all that were checked."""
        findings = self._findings
        return SessionSummary(
            tuple(findings.listed), tuple(self.not_checked), self._played, findings.count
        )

    def merge_summary(self, summary: SessionSummary) -> None:
        """Take over what came of a session that somebody else has checked."""
        for one in summary.findings:
            self._findings.add(one.problem, one.detail, one.index, one.entry)
        self.not_checked.extend(summary.not_checked)
        self._played += summary.played

    def describe_played(self) -> str:
        """Say how many were played from their beginning to their end, and compared with it."""
        count = self._played
        return f", {count} deliberation{'s' if count > 1 else ''} played" if count else ""


def _position(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)
