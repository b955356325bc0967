"""Finds the runs of a ledger that can be replayed: by a protocol, or by the rules of calls.

Runs within others are compared with what those have delegated, too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.entry import Entry
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Position
from forum.runs.kinds import AcceptedFacts
from forum.runs.record_comparison import IndexedEntry, SessionEntries
from forum.verify import accord_audit, session_audit
from forum.verify.report import Finding, Findings, Problem
from forum.verify.task_audit import audit_calls

_POLICY = "policy"

GetBody = Callable[[int, Position, str], StoredBody | None]
GetEntries = Callable[[str], Iterable[IndexedEntry]]
"""A function that returns the entries of a run in the tree."""


class _RulesVersion(msgspec.Struct):
    """The member of a policy that names the version of the call rules; others are ignored."""

    rules: int = 0


_versions = msgspec.json.Decoder(_RulesVersion)


class SessionSummary(msgspec.Struct, frozen=True, array_like=True):
    """The result of checking a session, or the calls of a run."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    played: int
    found: int = 0
    """The number of findings; only the first thousand are listed."""
    replayed: int = 0


class SessionChecker:
    """A checker that detects the runs that can be replayed, and audits them."""

    def __init__(
        self, kinds: Kinds, body: GetBody, findings: Findings, entries: GetEntries
    ) -> None:
        self._kinds = kinds
        self._stored, self._findings = body, findings
        self._entries = entries
        self._policy: tuple[tuple[int, Position] | None, StoredBody | None] = (None, None)
        """The index and position of the last policy that was read, and the policy."""
        self.runs: dict[str, None] = {}
        """The runs to audit, in the order in which they were detected."""
        self.unversioned = 0
        """The number of runs that name no version of the call rules."""
        self._not_checked: list[str] = []
        self._played = self._replayed = 0

    def read_body(self, index: int, position: Position, name: str) -> StoredBody | None:
        """Return a body; the policy of a run is cached, because two checks need it."""
        if name != _POLICY:
            return self._stored(index, position, name)
        if self._policy[0] != (index, position):
            body = self._stored(index, position, name)
            if body is not None:
                content = BytesContent(b"".join(body.read()))
                body = replace(body, read=content.chunks)
            self._policy = (index, position), body
        return self._policy[1]

    def detect_session(self, index: int, entry: Entry[Any]) -> None:
        """Note the run of an entry for an audit if the entry shows that it can be replayed."""
        if self._shows_session(index, entry) or self._names_rules(index, entry):
            self.runs.setdefault(entry.run)
        elif isinstance(entry.facts, AcceptedFacts):
            self.unversioned += 1
            if entry.facts.parent_run:
                # Lists leave out what runs within another one, so another one must say so.
                self.runs.setdefault(entry.run)

    def _shows_session(self, index: int, entry: Entry[Any]) -> bool:
        seated = isinstance(entry.facts, AcceptedFacts) and session_audit.may_have_panel(
            self._read_policy(index, entry)
        )
        return (
            seated
            or session_audit.is_turn_strand(entry.strand)
            or session_audit.is_session_entry(entry, self._kinds)
        )

    def _names_rules(self, index: int, entry: Entry[Any]) -> bool:
        if not isinstance(entry.facts, AcceptedFacts):
            return False
        try:
            return _versions.decode(self._read_policy(index, entry)).rules > 0
        except (msgspec.MsgspecError, UnicodeError):
            return False

    def _read_policy(self, index: int, entry: Entry[Any]) -> bytes:
        body = self.read_body(index, _position(entry), _POLICY)
        # A missing or altered policy is reported by the check of bodies, and the turns of the run
        # still show that it is a session.
        return b"".join(body.read()) if body is not None else b""

    def check_session(self, run: str, entries: Iterable[IndexedEntry]) -> None:
        """Audit a run with these entries as a session, or else its calls, and add findings."""
        inorder = sorted(entries, key=lambda item: item.index)
        recorded = SessionEntries(run, inorder, self._read_recorded_body)
        for fault in accord_audit.audit_children(recorded, self._read_other_run).faults:
            self._findings.add(Problem.CHILD_FOREIGN, fault.detail, fault.index, fault.entry)
        if any(self._shows_session(item.index, item.entry) for item in inorder):
            audit = session_audit.audit_session(recorded, self._kinds, self._read_other_run)
            self._played += audit.is_session and not audit.not_checked
            for fault in audit.faults:
                problem = Problem(f"session-{fault.breach}")
                self._findings.add(problem, fault.detail, fault.index, fault.entry)
            self._not_checked.extend(audit.not_checked)
            if audit.is_session:
                return
        if any(self._names_rules(item.index, item.entry) for item in inorder):
            self._check_calls(recorded)

    def _check_calls(self, recorded: SessionEntries) -> None:
        calls = audit_calls(recorded)
        self._replayed += not calls.not_checked
        for fault in calls.faults:
            self._findings.add(Problem.RUN_COURSE, fault.detail, fault.index, fault.entry)
        self._not_checked.extend(calls.not_checked)
        for audit in (
            accord_audit.audit_accords(recorded, self._kinds, self._read_other_run),
            accord_audit.audit_inner_calls(recorded, self._read_other_run),
        ):
            for fault in audit.faults:
                self._findings.add(Problem.RUN_COURSE, fault.detail, fault.index, fault.entry)
            self._not_checked.extend(audit.not_checked)

    def _read_other_run(self, run: str) -> SessionEntries:
        return SessionEntries(run, tuple(self._entries(run)), self._read_recorded_body)

    def _read_recorded_body(self, where: IndexedEntry, name: str) -> StoredBody | None:
        """Return a body if it is stored and matches its commitment, else None."""
        body = self.read_body(where.index, _position(where.entry), name)
        return body if body is not None and body.matches(where.entry.bodies[name]) else None

    def summary(self) -> SessionSummary:
        """Return the result of all sessions that were checked."""
        findings = self._findings
        return SessionSummary(
            findings=tuple(findings.listed),
            not_checked=tuple(self._not_checked),
            played=self._played,
            found=findings.count,
            replayed=self._replayed,
        )

    def merge_summary(self, summary: SessionSummary) -> None:
        """Add the result of a session that was checked in another process."""
        for finding in summary.findings:
            self._findings.add(finding.problem, finding.detail, finding.index, finding.entry)
        self._not_checked.extend(summary.not_checked)
        self._played += summary.played
        self._replayed += summary.replayed

    def describe_played(self) -> str:
        """Return a phrase with the number of sessions and runs that were replayed completely."""
        played, replayed = self._played, self._replayed
        text = f", {played} deliberation{'s' if played > 1 else ''} played" if played else ""
        runs = f", the calls of {replayed} run{'s' if replayed > 1 else ''} replayed"
        return text + (runs if replayed else "")

    def list_not_checked(self) -> tuple[str, ...]:
        """Return what could not be replayed."""
        count = self.unversioned
        if not count:
            return tuple(self._not_checked)
        runs = "1 run: its policy names" if count == 1 else f"{count} runs: their policies name"
        missing = f"the calls of {runs} no version of the rules, or cannot be read"
        return (*self._not_checked, missing)


def _position(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)
