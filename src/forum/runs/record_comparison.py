"""Comparison of recorded entries with those that the protocol leads to."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from forum.ledger.body import StoredBody
from forum.ledger.entry import Entry, Facts
from forum.ledger.kinds import RunCloseFacts
from forum.runs import kinds
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.session_steps import SessionNote
from forum.tlog import Hash

WRITER = "engine"
"""The actor of entries that no seat wrote."""
_TEXT, _JSON = "text/plain", "application/json"
_BYTES = "application/octet-stream"
BODY_MEDIA_TYPES: dict[type[Facts], dict[str, str]] = {
    kinds.AcceptedFacts: {"request": _TEXT, "policy": _JSON},
    kinds.RouteFacts: {"evidence": _JSON},
    kinds.AboutFacts: {"request": _TEXT, "answer": _TEXT},
    kinds.CallFacts: {"prompt": _TEXT, "schema": "application/schema+json"},
    kinds.ReplyFacts: {"output": _BYTES, "uses": _JSON, "error": _BYTES},
    kinds.IntentFacts: {"arguments": _TEXT},
    kinds.OutcomeFacts: {"result": _BYTES, "error": _BYTES},
    kinds.StopFacts: {"spent": _JSON},
    kinds.AnswerFacts: {"answer": _TEXT, "claims": _JSON},
    RunCloseFacts: {"strands": _JSON},
}
"""Expected media types of bodies, for entries that are not notes."""
SECRET_MARK = re.compile(rb"\[secret(?: [A-Za-z0-9_.-]*)?\]")
"""The mark that replaces a secret in a body."""


class Breach(StrEnum):
    """All that can be wrong with the record of a session."""

    ASKED = "asked"
    """The recorded question or agent is not the one of the protocol."""
    RECORDED = "recorded"
    """The note of a reply does not match the reply."""
    COUNTED = "counted"
    """A note derived by code does not follow from the replies."""
    ORDER = "order"
    """An entry precedes one that it follows from, or does not name it as a parent."""
    COURSE = "course"
    """A turn or the session took a course that the protocol does not allow."""
    SURPLUS = "surplus"
    """An entry exists that the protocol did not ask for."""
    ANSWER = "answer"
    """The run's answer or outcome differs from that of the session."""
    MISSING = "missing"
    """An entry is missing that the protocol asks for."""


class AuditFault(msgspec.Struct, frozen=True):
    """A fault in the record of a session, and its position."""

    breach: Breach
    detail: str
    index: int | None = None
    entry: str | None = None
    """Position of the entry: run/strand/n."""


class IndexedEntry(msgspec.Struct, frozen=True):
    """An entry with its id and its index in the log."""

    index: int
    leaf: Hash
    entry: Entry[Any]


class SessionEntries(msgspec.Struct, frozen=True):
    """All entries of a session's run, in the order of the log."""

    run: str
    entries: Sequence[IndexedEntry]
    body: Callable[[IndexedEntry, str], StoredBody | None]
    """Returns a body that matches its entry's commitment, or None."""


class RecordDiverged(Exception):
    """Raised when the record leaves the protocol, so that nothing after it can be compared."""


class BodyMissing(Exception):
    """Raised when a body is missing that the replay needs in order to continue."""


class RecordComparer(msgspec.Struct):
    """Compares recorded entries with expected ones and collects the differences."""

    minutes: SessionEntries
    faults: list[AuditFault] = []
    not_checked: list[str] = []

    def report_fault(self, breach: Breach, detail: str, where: IndexedEntry | None = None) -> None:
        """Record a fault."""
        place = (where.index, _format_position(where.entry)) if where else (None, None)
        self.faults.append(AuditFault(breach, detail, *place))

    def report_unchecked(self, what: str) -> None:
        """Record something that could not be checked."""
        self.not_checked.append(f"the deliberation of run {self.minutes.run}: {what}")

    def read_body(self, where: IndexedEntry, name: str, most: int = MAX_READ_BYTES) -> bytes:
        """Return the beginning of a body, or b"" if the entry names none. Raises `BodyMissing`."""
        if name not in where.entry.bodies:
            return b""
        body = self.minutes.body(where, name)
        if body is None:
            raise BodyMissing(f"body {name!r} of {_format_position(where.entry)}")
        head = b""
        for chunk in body.read():
            head += chunk
            if len(head) >= most:
                break
        return head[:most]

    def read_body_or_skip(
        self, where: IndexedEntry, name: str, most: int = MAX_READ_BYTES
    ) -> bytes | None:
        """Return the beginning of a body, or None if it is missing, which is reported."""
        try:
            return self.read_body(where, name, most)
        except BodyMissing as error:
            self.report_unchecked(f"{error}, which is not there")
            return None

    def compare_facts(self, breach: Breach, where: IndexedEntry, expected: Facts) -> None:
        """Compare facts member by member."""
        facts = where.entry.facts
        if type(facts) is not type(expected):
            self.report_fault(
                breach, f"{where.entry.step}: {where.entry.kind} is another kind", where
            )
            return
        wrong = [
            f"{name} is {str(getattr(facts, name))!r} and comes to {str(getattr(expected, name))!r}"
            for name in expected.__struct_fields__
            if getattr(facts, name) != getattr(expected, name)
        ]
        if wrong:
            self.report_fault(breach, f"{where.entry.step}: {'; '.join(wrong)}", where)

    def compare_bodies(
        self, breach: Breach, where: IndexedEntry, expected: Iterable[tuple[str, bytes]]
    ) -> None:
        """Compare bodies byte for byte; report bodies that are not expected."""
        bodies = dict(expected)
        for name in sorted(where.entry.bodies.keys() - bodies.keys()):
            self.report_fault(breach, f"{where.entry.step}: it has no {name}", where)
        for name, data in bodies.items():
            self.compare_body(breach, where, name, data)

    def compare_body(self, breach: Breach, where: IndexedEntry, name: str, expected: bytes) -> None:
        """Compare one body."""
        if name not in where.entry.bodies:
            self.report_fault(breach, f"{where.entry.step}: its {name} was never recorded", where)
            return
        actual = self.read_body_or_skip(where, name, MAX_READ_BYTES + len(expected))
        if actual is None or actual == expected:
            return
        if _is_masked(actual, expected):
            # Masking misses a secret that is escaped in a reply, but replaces it in a body that was
            # made from the decoded reply.  Such a difference is no sign of tampering.
            self.report_unchecked(
                f"what stands for secrets in body {name!r} of {_format_position(where.entry)}"
            )
        else:
            self.report_fault(breach, f"{where.entry.step}: {name} is not what it comes to", where)

    def compare_parents(self, where: IndexedEntry, expected: Sequence[Hash]) -> None:
        """Compare the parents of an entry."""
        if where.entry.parents != tuple(cause.hex() for cause in expected):
            detail = f"{where.entry.step}: it does not name the {len(expected)} entries before it"
            self.report_fault(Breach.ORDER, detail, where)

    def compare_step(
        self, breach: Breach, where: IndexedEntry, step: str, actor: str = WRITER
    ) -> None:
        """Compare the step and the actor of an entry."""
        entry = where.entry
        if (entry.step, entry.actor) != (step, actor):
            detail = f"{entry.step} by {entry.actor}, and not {step} by {actor}"
            self.report_fault(breach, detail, where)

    def compare_note(
        self, breach: Breach, where: IndexedEntry, note: SessionNote, actor: str
    ) -> None:
        """Compare the entry of a note."""
        self.compare_step(breach, where, note.step, actor)
        self.compare_facts(breach, where, note.facts)
        self.compare_bodies(breach, where, ((body.name, body.data) for body in note.bodies))
        self.compare_media_types(breach, where, {body.name: body.media for body in note.bodies})

    def compare_media_types(
        self, breach: Breach, where: IndexedEntry, expected: Mapping[str, str]
    ) -> None:
        """Compare the media types of bodies."""
        for name, committed in where.entry.bodies.items():
            media = expected.get(name, committed.type)
            if committed.type != media:
                self.report_fault(breach, f"{where.entry.step}: {name} is no {media}", where)


def _is_masked(actual: bytes, expected: bytes) -> bool:
    """Return whether `actual` equals `expected` apart from marks that replace secrets."""
    first, *rest = SECRET_MARK.split(actual)
    if not rest or not expected.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        at = expected.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return expected.endswith(rest[-1]) and at <= len(expected) - len(rest[-1])


def _format_position(entry: Entry[Any]) -> str:
    return f"{entry.run}/{entry.strand}/{entry.n}"
