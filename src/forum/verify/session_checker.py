"""Finds the sessions of a ledger, and replays each through its protocol."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from forum.deliberation import session_audit
from forum.deliberation.record_comparison import Breach, IndexedEntry, SessionEntries
from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.entry import Entry
from forum.ledger.ports import Position
from forum.verify.report import Finding, Findings, Problem
from forum.work.kinds import AcceptedFacts

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
    """The result of checking a session."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    played: int
    found: int = 0
    """The number of findings; only the first thousand are listed."""


class SessionChecker:
    """A checker that detects the runs that are sessions, and audits them."""

    def __init__(self, body: GetBody, findings: Findings) -> None:
        self._stored, self._findings = body, findings
        self._policy: tuple[tuple[int, Position] | None, StoredBody | None] = (None, None)
        """The index and position of the last policy that was read, and the policy."""
        self.runs: dict[str, None] = {}
        """The runs with a panel, turns or minutes, in the order in which they were detected."""
        self.not_checked: list[str] = []
        self._played = 0

    def read_body(self, index: int, position: Position, name: str) -> StoredBody | None:
        """Return a body; the policy of a run is cached, because two checks need it."""
        if name != _POLICY:
            return self._stored(index, position, name)
        if self._policy[0] != (index, position):
            body = self._stored(index, position, name)
            if body is not None:
                body = StoredBody(body.salt, BytesContent(b"".join(body.read())).chunks)
            self._policy = (index, position), body
        return self._policy[1]

    def detect_session(self, index: int, entry: Entry[Any]) -> None:
        """Record the run of an entry as a session if the entry shows that it is one."""
        seated = isinstance(entry.facts, AcceptedFacts) and self._has_panel(index, entry)
        if (
            seated
            or session_audit.is_turn_strand(entry.strand)
            or session_audit.is_session_facts(entry.facts)
        ):
            self.runs.setdefault(entry.run)

    def _has_panel(self, index: int, entry: Entry[Any]) -> bool:
        body = self.read_body(index, _position(entry), _POLICY)
        # A missing or altered policy is reported by the check of bodies, and the turns of the run
        # still show that it is a session.
        return body is not None and session_audit.may_have_panel(b"".join(body.read()))

    def check_session(self, run: str, entries: Iterable[IndexedEntry]) -> None:
        """Audit the session of a run with these entries, and add findings."""
        inorder = sorted(entries, key=lambda one: one.index)
        found = session_audit.audit_session(SessionEntries(run, inorder, self._read_recorded_body))
        self._played += found.is_session and not found.not_checked
        for fault in found.faults:
            problem = _PROBLEMS[fault.breach]
            self._findings.add(problem, fault.detail, fault.index, fault.entry)
        self.not_checked.extend(found.not_checked)

    def _read_recorded_body(self, where: IndexedEntry, name: str) -> StoredBody | None:
        """Return a body if it is stored and matches its commitment, else None."""
        body = self.read_body(where.index, _position(where.entry), name)
        return body if body is not None and body.matches(where.entry.bodies[name]) else None

    def summary(self) -> SessionSummary:
        """Return the result of all sessions that were checked."""
        findings = self._findings
        return SessionSummary(
            tuple(findings.listed), tuple(self.not_checked), self._played, findings.count
        )

    def merge_summary(self, summary: SessionSummary) -> None:
        """Add the result of a session that was checked in another process."""
        for one in summary.findings:
            self._findings.add(one.problem, one.detail, one.index, one.entry)
        self.not_checked.extend(summary.not_checked)
        self._played += summary.played

    def describe_played(self) -> str:
        """Return a phrase with the number of sessions that were replayed completely."""
        count = self._played
        return f", {count} deliberation{'s' if count > 1 else ''} played" if count else ""


def _position(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)
