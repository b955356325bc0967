"""Comparing what is recorded of a session with what its protocol comes to."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from forum.deliberation.steps import Note
from forum.ledger import Entry, Facts, RunClose, StoredBody
from forum.tlog import Hash
from forum.work import (
    MOST_READ,
    Accepted,
    Answered,
    Called,
    Happened,
    Intended,
    Replied,
    Routed,
    Stopped,
)

WRITER = "engine"
"""Who writes what no seat has said."""
_TEXT, _JSON, _BYTES = "text/plain", "application/json", "application/octet-stream"
MEDIA: dict[type[Facts], dict[str, str]] = {
    Accepted: {"request": _TEXT, "policy": _JSON},
    Routed: {"evidence": _JSON},
    Called: {"prompt": _TEXT, "schema": "application/schema+json"},
    Replied: {"output": _BYTES, "uses": _JSON, "error": _BYTES},
    Intended: {"arguments": _TEXT},
    Happened: {"result": _BYTES, "error": _BYTES},
    Stopped: {"spent": _JSON},
    Answered: {"answer": _TEXT, "claims": _JSON},
    RunClose: {"strands": _JSON},
}
"""Of which types the bodies of a session are that are no notes."""
MARK = re.compile(rb"\[secret(?: [A-Za-z0-9_.-]*)?\]")
"""What stands in a body for a secret."""


class Breach(StrEnum):
    """All that can be wrong with the record of a session."""

    ASKED = "asked"
    """Something else was asked than the protocol asks, or somebody else was."""
    RECORDED = "recorded"
    """What is recorded of a reply is not what it says."""
    COUNTED = "counted"
    """What code has made of what was said does not follow from it."""
    ORDER = "order"
    """Something came before what it follows from, or does not name it."""
    COURSE = "course"
    """A turn, or the session, took a course that the protocol does not have."""
    SURPLUS = "surplus"
    """Something is there that the protocol has not asked for."""
    ANSWER = "answer"
    """The run has another answer than the session, or ended in another way."""
    MISSING = "missing"
    """Something is not there that the protocol asks for."""


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a session, and where."""

    breach: Breach
    detail: str
    index: int | None = None
    entry: str | None = None
    """Where the entry stands: run/strand/n."""


class Indexed(msgspec.Struct, frozen=True):
    """An entry, its id and its place in the log."""

    index: int
    leaf: Hash
    entry: Entry[Any]


class Minutes(msgspec.Struct, frozen=True):
    """All that is recorded of the run of a session, in the order of the log."""

    run: str
    entries: Sequence[Indexed]
    body: Callable[[Indexed, str], StoredBody | None]
    """Returns a body that is the one that its entry has committed to, or nothing."""


class Parted(Exception):
    """The record goes another way from here on: there is nothing left to compare with."""


class Gone(Exception):
    """A body is not there without which nobody knows how it went on."""


class Look(msgspec.Struct):
    """Compares what is recorded with what should be, and remembers what it found."""

    minutes: Minutes
    faults: list[Fault] = []
    not_checked: list[str] = []

    def find(self, breach: Breach, detail: str, where: Indexed | None = None) -> None:
        """Take note of something that is wrong."""
        if where is None:
            self.faults.append(Fault(breach, detail))
        else:
            self.faults.append(Fault(breach, detail, where.index, _place(where.entry)))

    def leave_out(self, what: str) -> None:
        """Take note of something that cannot be checked."""
        self.not_checked.append(f"the deliberation of run {self.minutes.run}: {what}")

    def read(self, where: Indexed, name: str, most: int = MOST_READ) -> bytes:
        """Return the beginning of a body; none was recorded where the entry names none."""
        if name not in where.entry.bodies:
            return b""
        body = self.minutes.body(where, name)
        if body is None:
            raise Gone(f"body {name!r} of {_place(where.entry)}")
        head = b""
        for chunk in body.read():
            head += chunk
            if len(head) >= most:
                break
        return head[:most]

    def read_or_leave_out(self, where: Indexed, name: str, most: int = MOST_READ) -> bytes | None:
        """Return the beginning of a body, or nothing if it is gone, which is told."""
        try:
            return self.read(where, name, most)
        except Gone as gone:
            self.leave_out(f"{gone}, which is not there")
            return None

    def compare_facts(self, breach: Breach, where: Indexed, expected: Facts) -> None:
        """Compare facts, member by member."""
        found = where.entry.facts
        if type(found) is not type(expected):
            self.find(breach, f"{where.entry.step}: {where.entry.kind} is another kind", where)
            return
        wrong = [
            f"{name} is {str(getattr(found, name))!r} and comes to {str(getattr(expected, name))!r}"
            for name in expected.__struct_fields__
            if getattr(found, name) != getattr(expected, name)
        ]
        if wrong:
            self.find(breach, f"{where.entry.step}: {'; '.join(wrong)}", where)

    def compare_bodies(
        self, breach: Breach, where: Indexed, expected: Iterable[tuple[str, bytes]]
    ) -> None:
        """Compare bodies, byte for byte; none may be there that is not expected."""
        bodies = dict(expected)
        for name in sorted(where.entry.bodies.keys() - bodies.keys()):
            self.find(breach, f"{where.entry.step}: it has no {name}", where)
        for name, data in bodies.items():
            self.compare_body(breach, where, name, data)

    def compare_body(self, breach: Breach, where: Indexed, name: str, expected: bytes) -> None:
        """Compare one body."""
        if name not in where.entry.bodies:
            self.find(breach, f"{where.entry.step}: its {name} was never recorded", where)
            return
        found = self.read_or_leave_out(where, name, MOST_READ + len(expected))
        if found is None or found == expected:
            return
        if _is_masked(found, expected):
            # A secret that was escaped in a reply is masked where it stands in plain words.
            self.leave_out(f"what stands for secrets in body {name!r} of {_place(where.entry)}")
        else:
            self.find(breach, f"{where.entry.step}: {name} is not what it comes to", where)

    def compare_parents(self, where: Indexed, expected: Sequence[Hash]) -> None:
        """Compare the entries that one names as its causes."""
        if where.entry.parents != tuple(cause.hex() for cause in expected):
            detail = f"{where.entry.step}: it does not name the {len(expected)} entries before it"
            self.find(Breach.ORDER, detail, where)

    def compare_place(self, breach: Breach, where: Indexed, step: str, actor: str = WRITER) -> None:
        """Compare the step of an entry, and who has written it."""
        found = where.entry
        if (found.step, found.actor) != (step, actor):
            detail = f"{found.step} by {found.actor}, and not {step} by {actor}"
            self.find(breach, detail, where)

    def compare_note(self, breach: Breach, taken: Indexed, note: Note, actor: str) -> None:
        """Compare the entry of a note."""
        self.compare_place(breach, taken, note.step, actor)
        self.compare_facts(breach, taken, note.facts)
        self.compare_bodies(breach, taken, ((body.name, body.data) for body in note.bodies))
        self.compare_types(breach, taken, {body.name: body.media for body in note.bodies})

    def compare_types(self, breach: Breach, where: Indexed, expected: Mapping[str, str]) -> None:
        """Compare of which types bodies are said to be."""
        for name, committed in where.entry.bodies.items():
            media = expected.get(name, committed.type)
            if committed.type != media:
                self.find(breach, f"{where.entry.step}: {name} is no {media}", where)


def _is_masked(found: bytes, expected: bytes) -> bool:
    """Tell whether two texts differ in nothing but what marks of secrets may stand for."""
    first, *rest = MARK.split(found)
    if not rest or not expected.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        at = expected.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return expected.endswith(rest[-1]) and at <= len(expected) - len(rest[-1])


def _place(entry: Entry[Any]) -> str:
    return f"{entry.run}/{entry.strand}/{entry.n}"
