"""The chronicle: entries taken in, one after another, and checked against all before them.

It knows strands, causes, closes, redactions and times; trees and signatures are checked elsewhere.
Memory grows with the number of open strands, not with the number of entries: a parent that is not
among the recent ones is looked up.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from forum.ledger import (
    LOG_RUN,
    MAIN,
    Commitment,
    Entry,
    Position,
    Redact,
    RunClose,
    RunOpen,
    StoredBody,
    StrandEnd,
)
from forum.verify.report import Bodies, Findings, Problem

TOLERANCE = 300 * 1_000_000
"""How far, in microseconds, a writer's clock may be off before its times are called impossible."""

_RECENT = 200_000
_FOREVER = 2**62

_ends = msgspec.json.Decoder(list[StrandEnd])


@dataclass(slots=True)
class _Strand:
    """How far a strand has come, and the earliest time that its entries can have."""

    n: int
    head: str
    floor: int


class Chronicle:
    """Takes in entries in the order of the log."""

    def __init__(
        self,
        origin: str,
        findings: Findings,
        body: Callable[[int, Position, str], StoredBody | None],
        known: Callable[[str, int], bool] = lambda _parent, _index: False,
        whole: str | None = None,
    ) -> None:
        self._origin, self._findings, self._body, self._known = origin, findings, body, known
        self._whole = whole
        """The one run whose strands are here whole; None if all are."""
        self._strands: dict[tuple[str, str], _Strand] = {}
        self._runs: dict[str, set[str]] = {}
        self._floors: dict[str, int] = {}
        self._closed: set[str] = set()
        self._young: set[str] = set()
        self._old: set[str] = set()
        self._absent: dict[tuple[str, str], tuple[int, str]] = {}
        self._redacted: set[tuple[str, str]] = set()
        self.times: dict[tuple[int, str], int] = {}
        """When the checkpoint with a size and root was cosigned, in microseconds."""
        self.ceiling = _FOREVER
        """The latest time that the next entries can have."""
        self.entries = self.runs = self.ok = self.mismatch = 0
        self.unlisted: list[str] = []

    def take(self, index: int, leaf: str, entry: Entry[Any]) -> None:
        """Check one entry against all before it."""
        self.entries += 1
        if entry.log != self._origin:
            self._find(Problem.FOREIGN_ENTRY, f"it belongs to {entry.log}", index, entry)
        if self._whole is None or entry.run == self._whole:
            self._follow(index, leaf, entry)
        if entry.parents:
            self._check_parents(index, entry)
        if entry.bodies and (self._whole is None or entry.run == self._whole):
            for name, commitment in entry.bodies.items():
                self._check_body(index, leaf, entry, name, commitment)
        if isinstance(entry.facts, Redact):
            self._redacted.add((entry.facts.entry, entry.facts.body))
        if len(self._young) >= _RECENT:
            self._old, self._young = self._young, set()
        self._young.add(leaf)

    def finish(self) -> Bodies:
        """Settle what only the end can tell: which absent bodies were redacted."""
        missing = 0
        for key, (index, where) in self._absent.items():
            if key not in self._redacted:
                missing += 1
                detail = f"body {key[1]!r} is gone, and no redaction says so"
                self._findings.add(Problem.BODY_MISSING, detail, index, where)
        return Bodies(self.ok, len(self._absent) - missing, missing, self.mismatch)

    def open_runs(self) -> tuple[str, ...]:
        """Return the runs that were opened and not closed."""
        return tuple(sorted(run for run in self._runs if run != LOG_RUN))

    def _follow(self, index: int, leaf: str, entry: Entry[Any]) -> None:
        """Check that the entry is the next of its strand."""
        strand = self._strands.get((entry.run, entry.strand))
        if strand is None:
            strand = self._begin(index, entry)
        if entry.n != strand.n:
            self._misplaced(index, entry, strand)
        elif entry.prev != strand.head:
            self._find(Problem.LINK_BROKEN, "prev is not the entry before it", index, entry)
        strand.n, strand.head = max(strand.n, entry.n + 1), leaf
        if not strand.floor - TOLERANCE <= entry.ts <= self.ceiling + TOLERANCE:
            self._impossible(index, entry, strand.floor)
        if entry.strand == MAIN and isinstance(entry.facts, RunClose):
            self._close(index, entry)

    def _begin(self, index: int, entry: Entry[Any]) -> _Strand:
        if entry.run in self._closed:
            self._find(Problem.AFTER_CLOSE, "its run was closed before it", index, entry)
        if entry.run not in self._runs:
            self.runs += 1
            self._runs[entry.run] = set()
            if entry.run != LOG_RUN:
                self._open(index, entry)
        if entry.strand != MAIN:
            self._runs[entry.run].add(entry.strand)
            if not entry.parents:
                self._find(Problem.CAUSE_MISSING, "a strand begins without a cause", index, entry)
        strand = _Strand(0, "", self._floors.get(entry.run, 0))
        self._strands[entry.run, entry.strand] = strand
        return strand

    def _open(self, index: int, entry: Entry[Any]) -> None:
        facts = entry.facts
        if not isinstance(facts, RunOpen):
            self._find(Problem.RUN_UNOPENED, "a run does not begin with run.open", index, entry)
        elif facts.after_size and self.times:
            past = self.times.get((facts.after_size, facts.after_root))
            if past is None:
                detail = f"it names a checkpoint of size {facts.after_size} that nobody has seen"
                self._find(Problem.PAST_UNKNOWN, detail, index, entry)
            else:
                self._floors[entry.run] = past

    def _close(self, index: int, entry: Entry[Any]) -> None:
        """Compare what a run says of its strands at its end with what was seen of them."""
        run = entry.run
        seen = {
            name: (self._strands[run, name].n - 1, self._strands[run, name].head)
            for name in self._runs.pop(run, set())
        }
        self._closed.add(run)
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted.append(run)
        elif listed != seen:
            wrong = sorted(n for n in {*listed, *seen} if listed.get(n) != seen.get(n))
            detail = f"the close does not fit what is there of {', '.join(wrong)}"
            self._find(Problem.STRAND_UNCLOSED, detail, index, entry)
        for name in (MAIN, *seen):
            del self._strands[run, name]

    def _read_ends(self, index: int, entry: Entry[Any]) -> dict[str, tuple[int, str]] | None:
        commitment = entry.bodies.get("strands")
        position = Position(entry.run, entry.strand, entry.n)
        body = self._body(index, position, "strands")
        if commitment is None or body is None or not body.matches(commitment):
            return None
        try:
            ends = _ends.decode(b"".join(body.read()))
        except msgspec.MsgspecError:
            return None
        return {end.strand: (end.n, end.head) for end in ends}

    def _check_parents(self, index: int, entry: Entry[Any]) -> None:
        for parent in entry.parents:
            recent = parent in self._young or parent in self._old
            if not recent and not self._known(parent, index):
                detail = f"no entry before it has the id {parent}"
                self._find(Problem.PARENT_UNKNOWN, detail, index, entry)

    def _check_body(
        self, index: int, leaf: str, entry: Entry[Any], name: str, commitment: Commitment
    ) -> None:
        body = self._body(index, Position(entry.run, entry.strand, entry.n), name)
        if body is None:
            self._absent[leaf, name] = (index, _where(entry))
        elif body.matches(commitment):
            self.ok += 1
        else:
            self.mismatch += 1
            detail = f"body {name!r} is not the one that was recorded"
            self._find(Problem.BODY_MISMATCH, detail, index, entry)

    def _misplaced(self, index: int, entry: Entry[Any], strand: _Strand) -> None:
        if entry.n < strand.n:
            detail = f"position {entry.n} was taken by an earlier entry"
            self._find(Problem.POSITION_DOUBLED, detail, index, entry)
        else:
            detail = f"positions {strand.n} to {entry.n - 1} of the strand are missing"
            self._find(Problem.POSITION_MISSING, detail, index, entry)

    def _impossible(self, index: int, entry: Entry[Any], floor: int) -> None:
        late = entry.ts > self.ceiling
        bound, relation = (self.ceiling, "before") if late else (floor, "after")
        seconds = abs(entry.ts - bound) // 1_000_000
        detail = (
            f"its time is {seconds} s off: a witness proves that it was written {relation} then"
        )
        self._find(Problem.TIME_IMPOSSIBLE, detail, index, entry)

    def _find(self, problem: Problem, detail: str, index: int, entry: Entry[Any]) -> None:
        self._findings.add(problem, detail, index, _where(entry))


def _where(entry: Entry[Any]) -> str:
    return f"{entry.run}/{entry.strand}/{entry.n}"


def unknown_kinds(counts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Say which entries could be held to the general rules only."""
    return tuple(
        f"the facts of {count} entries of kind {kind}, unknown to this release"
        for kind, count in sorted(counts)
    )
