"""Checks the entries of a log in index order, each against all entries before it.

The checker covers strands, parents, closes, redactions, bodies and times; trees and signatures are
checked elsewhere.  Memory grows with the number of runs and open strands, not with the number of
entries: a parent that is not among the recent entries is looked up in the log.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import msgspec

from forum.ledger.body import StoredBody
from forum.ledger.entry import (
    LOG_RUN,
    MAIN_STRAND,
    MAX_CLOCK_SKEW_US,
    MAX_ENTRY_SIZE,
    MAX_PARENTS,
    Commitment,
    Entry,
    match_plain_entry_tail,
    strand_prefix,
)
from forum.ledger.kinds import Kinds, LogOpenFacts, RunCloseFacts, RunOpenFacts
from forum.ledger.log import StrandEnd
from forum.ledger.own_entries import OWN_STRANDS
from forum.ledger.ports import EntryRow, Position
from forum.ledger.redaction import find_redaction_fault, redacted_bodies
from forum.ledger.retention_holds import HoldOrder
from forum.runs.report_kinds import REPORT_KINDS
from forum.verify.checkpoint_times import MAX_TIME_US
from forum.verify.report import Bodies, Findings, Problem
from forum.verify.run_tally import COUNTED_KINDS
from forum.verify.segment_summary import SegmentSummary

_MAX_RECENT_ENTRIES = 200_000
_STRUCTURAL = frozenset(
    {
        b"run.open/1",
        b"run.close/1",
        b"runs.open/1",
        b"redact/1",
        b"redact/2",
        b"redact/3",
        b"hold/1",
        b"score/1",
    }
    | {name.encode() for name in COUNTED_KINDS}
    | {kind.name.encode() for kind in REPORT_KINDS}
)
"""Kinds that refer to other entries, affect an account or a timer, or belong to a report: entries
of these kinds are always decoded, and so are those of sessions."""

_strand_ends_decoder = msgspec.json.Decoder(list[StrandEnd])
_UNREADABLE_LIST = {"": (0, "")}
"""The value for a malformed list of strands: it matches no run."""


class StrandHead(msgspec.Struct):
    """The state of a strand: its length, its last entry, and the earliest time of its entries."""

    n: int
    head: bytes
    """The id of the last entry, in hexadecimal, as in the `prev` member of entries."""
    floor: int


class RunSnapshot(msgspec.Struct, frozen=True):
    """The stored progress of a run; it includes the strands if the run is open."""

    run: str
    floor: int
    closed: bool
    session: bool
    strands: tuple[tuple[str, StrandHead], ...] = ()


class EntryChecker:
    """A checker that receives the entries of a log in index order and collects findings."""

    def __init__(
        self,
        origin: str,
        findings: Findings,
        body: Callable[[int, Position, str], StoredBody | None],
        is_known: Callable[[str, int], bool] = lambda _parent, _index: False,
        whole: str | None = None,
    ) -> None:
        self._origin, self._findings = origin, findings
        self._body, self._is_known = body, is_known
        self._whole = whole
        """The only run whose strands are complete in the input; None if all runs are complete."""
        self._strands: dict[tuple[str, str], StrandHead] = {}
        self._runs: dict[str, set[str]] = {}
        self._floors: dict[str, int] = {}
        self._closed: set[str] = set()
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._absent: dict[tuple[str, str], tuple[int, str]] = {}
        self._redacted: set[tuple[str, str]] = set()
        self._holds = HoldOrder()
        self._own: set[str] = set()
        """The ids of the entries with bodies of the only run whose strands are complete."""
        self.times: dict[tuple[int, str], int] = {}
        """The cosignature time of each signed checkpoint by size and root; 0 if it is unknown."""
        self._earliest, self._latest = -MAX_CLOCK_SKEW_US, MAX_TIME_US + MAX_CLOCK_SKEW_US
        self._witnessed = 0
        """The time by which witnesses saw the next entries; 0 if they did not yet."""
        self._floor = 0
        self._lowest = MAX_TIME_US + MAX_CLOCK_SKEW_US
        """The earliest time of an entry so far."""
        self.entries = self.runs = self.ok = self.mismatch = 0
        self.archived = 0
        """The number of bodies that were found in an archive, and not in the database."""
        self.unlisted: list[str] = []
        """The runs whose closing list of strands is no longer stored."""
        self.not_checked: list[str] = []

    def check_plain_entry(self, leaf: bytes, row: EntryRow, kinds: Kinds) -> bool:
        """Accept a plain entry that continues its strand, without decoding it: the fast path.

        Compares every part of the entry and its columns with the expected values.  If anything
        differs, returns False and changes nothing; `check_entry` then finds out what is wrong.
        """
        run, name, n, data, _ = row
        strand = self._strands.get((run, name))
        # The first entry of a strand needs more checks.  The type test refuses 1.0: it equals 1 in
        # Python, but it is not the integer that a writer stores and a reader looks for.
        if strand is None or strand.n != n or not n or type(n) is not int:
            return False
        prefix = strand_prefix(self._origin, run, name)
        start = b'%b%d,"prev":"%b","step":"' % (prefix, n, strand.head)
        plain = match_plain_entry_tail(data, len(start)) if data.startswith(start) else None
        if plain is None:
            return False
        ts, kind, parents, facts = plain.groups()
        time = int(ts)
        if (
            not strand.floor <= time <= self._latest
            or time < self._earliest
            or kind in _STRUCTURAL
            or kind in kinds.session_kinds
            or not kinds.has_valid_facts(kind, facts)
            or len(data) > MAX_ENTRY_SIZE
            or not (parents is None or parents in self._young or self._are_recent(parents))
            # Whatever stands in a strand of the sequencer is compared with what it is about.
            or (run == LOG_RUN and name in OWN_STRANDS)
        ):
            return False
        if time < self._lowest:  # noqa: PLR1730  a call for each entry would cost more
            self._lowest = time
        bound = self._earliest + MAX_CLOCK_SKEW_US
        if time > bound and self._witnessed > bound:  # a call for each entry would cost more
            self._raise_earliest(time)
        strand.n += 1
        strand.head = leaf
        self.entries += 1
        if len(self._young) >= _MAX_RECENT_ENTRIES:
            self._rotate_recent()
        self._young.add(leaf)
        return True

    def _are_recent(self, parents: bytes) -> bool:
        if parents in self._old:
            return True
        different = set(parents.split(b'","'))
        # Each parent takes 64 hexadecimal digits, two quotes and a comma.  If the length fits the
        # number of distinct names, there are no duplicates and no other text.
        if len(parents) != 67 * len(different) - 3 or len(different) > MAX_PARENTS:
            return False
        return self._old.issuperset(different - self._young)

    def _remember(self, leaf: bytes) -> None:
        self.entries += 1
        if len(self._young) >= _MAX_RECENT_ENTRIES:
            self._rotate_recent()
        self._young.add(leaf)

    def _rotate_recent(self) -> None:
        self._old, self._young = self._young, set()

    def check_entry(self, index: int, leaf: bytes, entry: Entry[Any]) -> None:
        """Check one entry against all entries before it, and add findings."""
        if entry.log != self._origin:
            self._add_finding(Problem.FOREIGN_ENTRY, f"it belongs to {entry.log}", index, entry)
        if self._whole is None or entry.run == self._whole:
            self._check_successor(index, leaf, entry)
            if entry.parents:
                self._check_parents(index, entry)
            for name, commitment in entry.bodies.items():
                self._check_body(index, leaf, entry, name, commitment=commitment)
        if self._whole is not None:
            self._check_holds(index, leaf, entry)
        self._redacted.update(redacted_bodies(entry))
        self._remember(leaf)

    @property
    def has_redactions(self) -> bool:
        """Whether an entry so far redacts a body."""
        return bool(self._redacted)

    def _check_holds(self, index: int, leaf: bytes, entry: Entry[Any]) -> None:
        """Report a redaction of the only run that stands behind a hold on it."""
        if entry.run == self._whole and entry.bodies:
            self._own.add(leaf.decode())
        self._holds.add(entry)
        fault = find_redaction_fault(
            entry, self._holds, lambda target: self._whole if target in self._own else None
        )
        self.report_redaction(fault, index, entry)

    def report_redaction(
        self, fault: tuple[bool, str] | None, index: int, entry: Entry[Any]
    ) -> None:
        """Add the finding for a fault of a redaction, if there is one."""
        if fault is not None:
            problem = Problem.HOLD_BROKEN if fault[0] else Problem.PARENT_UNKNOWN
            self._add_finding(problem, fault[1], index, entry)

    def set_time_bounds(self, floor: int, ceiling: int, witnessed: int = 0) -> None:
        """Set the time range in which the next entries must have been written.

        They were indexed after a checkpoint cosigned at `floor`, and before one cosigned at
        `ceiling` or before now.  An entry waits only moments for its index, so its own time must be
        in this range too, up to the allowed clock skew.  With the time `witnessed` of the
        checkpoint behind them, their own times bound those of the entries after them.
        """
        self._floor, self._witnessed = floor, witnessed
        self._latest = ceiling + MAX_CLOCK_SKEW_US
        # Floors never fall, so what the order of the log has shown before still holds.
        self._earliest = max(self._earliest, floor - MAX_CLOCK_SKEW_US)

    def _raise_earliest(self, time: int) -> None:
        """Let the time of an entry bound those behind it, as far as witnesses confirm it.

        A clock that is ahead counts up to the next cosigned checkpoint only.  Otherwise the entries
        of all others would be impossible from then on.
        """
        low = min(time, self._witnessed) - MAX_CLOCK_SKEW_US
        self._earliest = max(self._earliest, low)

    def allows_times(self, summary: SegmentSummary) -> bool:
        """Return whether the times of a segment fit the entries before it."""
        return summary.lowest >= self._earliest

    def finish(self) -> Bodies:
        """Report missing bodies that no redaction explains, and return the counts of bodies.

        This needs all entries, because a redaction comes after the entry that it refers to.
        """
        missing = 0
        for key, (index, where) in self._absent.items():
            if key not in self._redacted:
                missing += 1
                detail = f"body {key[1]!r} is missing, and no redaction explains it"
                self._findings.add(Problem.BODY_MISSING, detail, index, where)
        return Bodies(self.ok, len(self._absent) - missing, missing, self.mismatch)

    def open_runs(self) -> tuple[str, ...]:
        """Return the runs that were opened and not closed."""
        return tuple(sorted(run for run in self._runs if run != LOG_RUN))

    # The methods up to `close_run` implement `segment_checker.RunProgress`, so that segments which
    # other processes have checked can be merged into this object.

    def find_strand(self, run: str, name: str) -> StrandHead | None:
        """Return the state of an open strand, or None."""
        return self._strands.get((run, name))

    def strands_of(self, run: str) -> set[str] | None:
        """Return the strands of an open run except `main`; None if the run is not open."""
        return self._runs.get(run)

    def floor_of(self, run: str) -> int:
        """Return the earliest possible time of the entries of a run, or 0."""
        return self._floors.get(run, 0)

    def is_closed(self, run: str) -> bool:
        """Return whether a run was closed."""
        return run in self._closed

    def open_run(self, run: str, floor: int) -> None:
        """Record that a run was opened in a segment."""
        self._runs[run] = set()
        if floor:
            self._floors[run] = floor

    def put_strand(self, run: str, name: str, strand: StrandHead) -> None:
        """Record the state of a strand at the end of a segment."""
        if name != MAIN_STRAND:
            self._runs[run].add(name)
        self._strands[run, name] = strand

    def close_run(self, run: str) -> None:
        """Record that a run was closed in a segment, and drop its strands."""
        for name in (MAIN_STRAND, *self._runs.pop(run, ())):
            self._strands.pop((run, name), None)
        self._closed.add(run)

    def known_runs(self, sessions: Container[str]) -> Iterator[RunSnapshot]:
        """Yield the progress of every run, and mark the open runs that are sessions."""
        for run in self._closed:
            yield RunSnapshot(run, 0, closed=True, session=False)
        for run, names in self._runs.items():
            strands = tuple((n, self._strands[run, n]) for n in (MAIN_STRAND, *sorted(names)))
            yield RunSnapshot(
                run=run,
                floor=self.floor_of(run),
                closed=False,
                session=run in sessions,
                strands=strands,
            )

    def restore_recent(self, old: Iterable[bytes], young: Iterable[bytes]) -> None:
        """Replace the sets of recent entries by entries that another process has checked."""
        self._old, self._young = set(old), set(young)

    def merge_summary(self, summary: SegmentSummary) -> None:
        """Add the counts, missing bodies and redactions of a segment that was checked elsewhere."""
        self._earliest = max(self._earliest, summary.earliest)
        self.entries += summary.entries
        self.runs += len(summary.opened)
        self.ok += summary.bodies
        self.not_checked.extend(summary.not_checked)
        self.unlisted.extend(summary.unlisted)
        self._redacted.update(summary.redacted)
        for leaf, name, index, where in summary.absent:
            self._absent[leaf, name] = (index, where)

    def list_unexplained_bodies(self) -> list[tuple[int, bytes, str]]:
        """Return the missing bodies that no redaction explains so far."""
        return [
            (index, leaf.encode(), name)
            for (leaf, name), (index, _) in self._absent.items()
            if (leaf, name) not in self._redacted
        ]

    def recheck_body(self, index: int, leaf: bytes, entry: Entry[Any], name: str) -> None:
        """Check a missing body if it is stored after all; otherwise leave it listed as missing."""
        position = Position(entry.run, entry.strand, entry.n)
        if self._body(index, position, name) is not None:
            del self._absent[leaf.decode(), name]
            self._check_body(index, leaf, entry, name, commitment=entry.bodies[name])

    def is_closed_with_list(self, run: str) -> bool:
        """Return whether a run was closed and its list of strands is still stored."""
        return run in self._closed and run not in self.unlisted

    def _check_successor(self, index: int, leaf: bytes, entry: Entry[Any]) -> None:
        """Check that the entry is the next of its strand, in position, link and time."""
        strand = self._strands.get((entry.run, entry.strand))
        if strand is None:
            strand = self._begin_strand(index, entry)
        if entry.n != strand.n:
            self._report_misplaced(index, entry, strand)
        elif entry.prev.encode() != strand.head:
            self._add_finding(
                Problem.LINK_BROKEN, "prev is not the id of the entry before it", index, entry
            )
        # Continue behind this entry even after a finding, so that one gap is one finding.
        strand.n, strand.head = max(strand.n, entry.n + 1), leaf
        if not max(strand.floor, self._earliest) <= entry.ts <= self._latest:
            self._report_impossible_time(index, entry, max(strand.floor, self._earliest))
        else:
            self._raise_earliest(entry.ts)
        self._lowest = min(self._lowest, entry.ts)
        if entry.strand == MAIN_STRAND and isinstance(entry.facts, RunCloseFacts):
            self._check_close(index, entry)

    def _begin_strand(self, index: int, entry: Entry[Any]) -> StrandHead:
        if entry.run in self._closed:
            self._add_finding(
                Problem.AFTER_CLOSE, "the run was closed before this entry", index, entry
            )
        if entry.run not in self._runs:
            self.runs += 1
            self._runs[entry.run] = set()
            self._open_run(index, entry)
        if entry.strand != MAIN_STRAND:
            self._runs[entry.run].add(entry.strand)
            if not entry.parents:
                self._add_finding(
                    Problem.CAUSE_MISSING, "the first entry of a strand has no parent", index, entry
                )
        strand = StrandHead(0, b"", self._floors.get(entry.run, 0) - MAX_CLOCK_SKEW_US)
        self._strands[entry.run, entry.strand] = strand
        return strand

    def _open_run(self, index: int, entry: Entry[Any]) -> None:
        facts = entry.facts
        opening = LogOpenFacts if entry.run == LOG_RUN else RunOpenFacts
        if not isinstance(facts, opening):
            detail = "the first entry is not log.open or run.open"
            self._add_finding(Problem.RUN_UNOPENED, detail, index, entry)
        elif isinstance(facts, LogOpenFacts):
            if facts.left_origin:
                left = f"{facts.left_origin}, left at size {facts.left_size}"
                self.not_checked.append(f"the log that this one continues: {left}")
        elif facts.after_size and self.times:
            # The run names a checkpoint that existed before it: if that was cosigned, no entry of
            # the run can be older.
            past = self.times.get((facts.after_size, facts.after_root))
            if past is None:
                detail = f"it names a checkpoint of size {facts.after_size} that nobody has seen"
                self._add_finding(Problem.PAST_UNKNOWN, detail, index, entry)
            else:
                self._floors[entry.run] = past

    def _check_close(self, index: int, entry: Entry[Any]) -> None:
        """Compare the list of strands in a close with the strands that were seen."""
        run = entry.run
        ends = {name: self._strands[run, name] for name in self._runs.pop(run, set())}
        strands = {name: (strand.n - 1, strand.head.decode()) for name, strand in ends.items()}
        self._closed.add(run)
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted.append(run)
            listed = strands
        wrong = sorted({name for name, _ in listed.items() ^ strands.items()})
        if wrong or entry.facts.strands != len(strands):
            detail = f"the close does not match the strands {', '.join(wrong) or 'of the run'}"
            self._add_finding(Problem.STRAND_UNCLOSED, detail, index, entry)
        for name in (MAIN_STRAND, *strands):
            del self._strands[run, name]

    def _read_ends(self, index: int, entry: Entry[Any]) -> dict[str, tuple[int, str]] | None:
        """Return the strand ends that a close lists, or None if the list is missing or altered.

        The check of the body reports why the list is missing.
        """
        commitment = entry.bodies.get("strands")
        body = self._body(index, Position(entry.run, entry.strand, entry.n), "strands")
        if commitment is not None and (body is None or not body.matches(commitment)):
            return None
        content = b"".join(body.read()) if commitment and body else b""
        try:
            ends = _strand_ends_decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeError):
            return _UNREADABLE_LIST
        listed = {end.strand: (end.n, end.head) for end in ends}
        ordered = [end.strand for end in ends] == sorted(listed)
        return listed if ordered and msgspec.json.encode(ends) == content else _UNREADABLE_LIST

    def _check_parents(self, index: int, entry: Entry[Any]) -> None:
        for parent in entry.parents:
            name = parent.encode()
            recent = name in self._young or name in self._old
            if not recent and not self._is_known(parent, index):
                detail = f"no earlier entry has the id {parent}"
                self._add_finding(Problem.PARENT_UNKNOWN, detail, index, entry)

    def _check_body(
        self, index: int, leaf: bytes, entry: Entry[Any], name: str, commitment: Commitment
    ) -> None:
        body = self._body(index, Position(entry.run, entry.strand, entry.n), name)
        self.archived += body is not None and body.archived
        if body is None:
            self._absent[leaf.decode(), name] = (index, _format_position(entry))
        elif body.matches(commitment):
            self.ok += 1
        else:
            self.mismatch += 1
            detail = f"body {name!r} does not match its commitment"
            self._add_finding(Problem.BODY_MISMATCH, detail, index, entry)

    def _report_misplaced(self, index: int, entry: Entry[Any], strand: StrandHead) -> None:
        if entry.n < strand.n:
            detail = f"an earlier entry has position {entry.n}"
            self._add_finding(Problem.POSITION_DOUBLED, detail, index, entry)
        else:
            detail = f"positions {strand.n} to {entry.n - 1} of the strand are missing"
            self._add_finding(Problem.POSITION_MISSING, detail, index, entry)

    def _report_impossible_time(self, index: int, entry: Entry[Any], earliest: int) -> None:
        late = entry.ts > self._latest
        bound = self._latest - MAX_CLOCK_SKEW_US if late else earliest + MAX_CLOCK_SKEW_US
        seconds = abs(entry.ts - bound) // 1_000_000
        if not late and bound > self._floor and earliest == self._earliest:
            detail = (
                f"its time is {seconds} s below that of an entry before it in the log, which "
                "witnesses confirm. The clock of the machine that wrote it was probably behind"
            )
            self._add_finding(Problem.TIME_IMPOSSIBLE, detail, index, entry)
            return
        detail = (
            f"its time is {seconds} s too late: it was there before then. "
            "The clock of the machine that wrote it was probably ahead"
            if late
            else f"its time is {seconds} s too early: a witness proves that it was written after "
            "then. The clock of the machine that wrote it was probably behind"
        )
        self._add_finding(Problem.TIME_IMPOSSIBLE, detail, index, entry)

    def _add_finding(self, problem: Problem, detail: str, index: int, entry: Entry[Any]) -> None:
        self._findings.add(problem, detail, index, _format_position(entry))


def count_recent(entries: int) -> tuple[int, int]:
    """Return the sizes of the young and the old set after so many entries were checked."""
    if not entries:
        return 0, 0
    young = (entries - 1) % _MAX_RECENT_ENTRIES + 1
    return young, min(_MAX_RECENT_ENTRIES, entries - young)


def _format_position(entry: Entry[Any]) -> str:
    return f"{entry.run}/{entry.strand}/{entry.n}"


def describe_unknown_kinds(counts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Describe the entries whose facts could not be checked, by kind."""
    return tuple(
        f"the facts of {count} entries of kind {kind}, unknown to this release"
        for kind, count in sorted(counts)
    )
