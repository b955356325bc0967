"""Finds bodies whose period is over, and has them redacted and erased, a batch at a time.

Each step records redactions and erases what earlier redactions that are signed by now announced.  A
process that stops in between loses nothing: another one finds the redactions in the log.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from forum import errors
from forum.ledger import body_eraser, log, redaction, retention_holds
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.kinds import ExportFacts, RedactionReason, RedactionV3Facts
from forum.ledger.strand import Draft
from forum.tlog import Hash

_SCANNED_ENTRIES = 2000
"""Entries that one step looks at for each period."""
_NO_BODIES = b'"bodies":{}}'


class DueBody(msgspec.Struct, frozen=True):
    """A body whose period is over, and the subject of the rule that says so."""

    entry: log.LocatedEntry
    name: str
    rule: str

    @property
    def body(self) -> retention_holds.BodyName:
        """The id of the entry, and the name of the body."""
        return retention_holds.BodyName(self.entry.leaf.hex(), self.name)


class RetentionStep(msgspec.Struct, frozen=True):
    """What one step has done."""

    redacted: int
    """Bodies whose redaction was recorded; a later step erases them."""
    erased: int
    is_done: bool
    """Whether the scan has reached the entries whose periods are not over."""
    is_waiting: bool = False
    """Whether something is announced that a later step erases, once it is signed."""


class RetentionScan:
    """Applies the rules of retention to the whole log, and then to what becomes due."""

    def __init__(
        self,
        ledger: log.Ledger,
        is_active: Callable[[str], bool],
        archive: body_eraser.ArchiveEraser | None = None,
    ) -> None:
        """Take a ledger, and a function that tells whether a run still reads its own bodies."""
        self._ledger, self._is_active = ledger, is_active
        self._eraser = body_eraser.BodyEraser(ledger.store, ledger.kinds, archive)
        self._state = retention_holds.RetentionState()
        self._scanned: dict[int, int] = {}
        """For each period, the index before which every body was looked at."""
        self._postponed: set[str] = set()
        """Runs that were active when their entries were looked at."""
        self._ended: set[str] = set()
        self._exports: dict[str, list[Hash]] = {}
        self._exports_read = 0
        self._joined: dict[tuple[Hash, ...], Hash] = {}

    def step(self) -> RetentionStep:
        """Erase what is announced and signed, and announce the next batch.

        Raises `StoreFailed`, for example while somebody reads a snapshot of a SQLite file; the next
        step goes on.
        """
        before = self._state
        self._state = retention_holds.read_retention(self._ledger.store, self._ledger.kinds, before)
        if not self._periods():
            return RetentionStep(redacted=0, erased=0, is_done=True)
        if (self._state.periods, self._state.holds) != (before.periods, before.holds):
            # A rule may be shorter now, and a hold may be released: look at everything again.
            self._scanned, self._postponed = {}, set()
        erased = len(self._eraser.erase())
        self._ended = set()
        scanned, postponed = dict(self._scanned), set(self._postponed)
        due = {item.body: item for item in self._find_postponed(postponed)}
        for seconds in self._periods():
            due |= {item.body: item for item in self._scan_period(seconds, scanned, postponed)}
        redacted = sum(self._redact(batch) for batch in _make_batches(self._find_stored(due)))
        is_done = all(scanned[p] < self._scanned.get(p, 0) + _SCANNED_ENTRIES for p in scanned)
        # Only now: after an error the next step looks at the same entries again.
        self._scanned, self._postponed = scanned, postponed
        is_waiting = redacted > 0 or bool(self._eraser.pending)
        return RetentionStep(
            redacted=redacted, erased=erased, is_done=is_done, is_waiting=is_waiting
        )

    def _periods(self) -> list[int]:
        return sorted({seconds for seconds in self._state.periods.values() if seconds})

    def _find_stored(self, due: Mapping[retention_holds.BodyName, DueBody]) -> list[DueBody]:
        """Return those of the due bodies that are stored and not announced yet."""
        items, announced = list(due.values()), self._eraser.pending
        stored = self._ledger.store.bodies_at([(i.entry.position, i.name) for i in items])
        return [
            item
            for item, body in zip(items, stored, strict=True)
            if body is not None and item.body not in announced
        ]

    def _scan_period(
        self, seconds: int, scanned: dict[int, int], postponed: set[str]
    ) -> Iterator[DueBody]:
        """Yield the bodies for which a period counts and is over, from the next entries."""
        store, start = self._ledger.store, scanned.get(seconds, 0)
        stop = min(start + _SCANNED_ENTRIES, store.head().size)
        scanned[seconds] = start
        for index, data in enumerate(store.entries(start, stop), start):
            # Most entries have no body: they are not parsed.
            if data is not None and not data.endswith(_NO_BODIES):
                located = log.LocatedEntry(index, data, self._ledger.kinds.read(data))
                if self._is_too_young(located, seconds):
                    return
                yield from self._due_bodies(located, seconds, postponed)
            scanned[seconds] = index + 1

    def _is_too_young(self, located: log.LocatedEntry, seconds: int) -> bool:
        """Return whether the scan for a period ends before an entry.

        Entries are in the order of their times, but for some that were recorded together.  An entry
        from the future has a wrong time, which must not keep what follows it from being erased.
        """
        now = self._ledger.now()
        return now - _micros(seconds) < located.entry.ts <= now

    def _find_postponed(self, postponed: set[str]) -> Iterator[DueBody]:
        """Yield the due bodies of runs that were active when the scan passed them."""
        for run in [run for run in postponed if not self._is_running(run)]:
            postponed.discard(run)
            for located in log.locate_run(self._ledger.store, self._ledger.kinds, run):
                if located.index is not None:
                    for seconds in self._periods():
                        yield from self._due_bodies(located, seconds, postponed)

    def _due_bodies(
        self, located: log.LocatedEntry, seconds: int, postponed: set[str]
    ) -> Iterator[DueBody]:
        """Yield the bodies of an entry for which this period counts, if they may be erased."""
        entry = located.entry
        if entry.ts > self._ledger.now() - _micros(seconds) or self._state.is_held(entry.run):
            return  # when a hold is released, everything is looked at again
        for name in entry.bodies:
            rule = self._state.find_rule(entry.run, entry.kind, name)
            if rule is None or self._state.periods[rule] != seconds:
                continue
            if self._is_running(entry.run):
                postponed.add(entry.run)
                return
            yield DueBody(located, name, rule)

    def _is_running(self, run: str) -> bool:
        """Return whether a run is active; that it has ended is remembered for one step."""
        if run not in self._ended and not self._is_active(run):
            self._ended.add(run)
        return run not in self._ended

    def _redact(self, batch: Sequence[DueBody]) -> int:
        """Record the redaction of a batch, but for what is held; return the number of bodies."""
        ledger = self._ledger
        while True:
            strand = ledger.open_log_strand(retention_holds.RETENTION_STRAND)
            state = retention_holds.read_retention(ledger.store, ledger.kinds, self._state)
            # A rule that was changed since is looked at by the next step, from the beginning.
            kept = [
                due
                for due in batch
                if not state.is_held(due.entry.entry.run)
                and state.periods.get(due.rule) == self._state.periods.get(due.rule)
            ]
            if not kept:
                return 0
            try:
                # The position is the fence: if somebody placed a hold since it was read, the
                # append fails, and the hold is seen in the next round.
                strand.append_exclusive(self._draft(kept))
            except errors.ConcurrentUpdate:
                continue
            return len(kept)

    def _draft(self, batch: Sequence[DueBody]) -> Draft:
        leaves = list(dict.fromkeys(due.entry.leaf for due in batch))
        places = {leaf: place for place, leaf in enumerate(leaves)}
        runs = {due.entry.leaf: due.entry.entry.run for due in batch}
        facts = RedactionV3Facts(
            bodies=tuple(f"{places[due.entry.leaf]}/{due.name}" for due in batch),
            runs=tuple(runs[leaf] for leaf in leaves),
            reason=RedactionReason.RETENTION,
            rule=batch[0].rule,
        )
        exports = self._find_exports({due.entry.entry.run for due in batch})
        step = f"redact/{leaves[0].hex()[:16]}/{len(batch)}"
        return Draft(step, log.SYSTEM_ACTOR, facts, (*leaves, *exports))

    def _find_exports(self, runs: Iterable[str]) -> list[Hash]:
        """Return at most one entry that leads to all exports of these runs."""
        entries = log.read_strand_entries(self._ledger, LOG_RUN, MAIN_STRAND, self._exports_read)
        for leaf, entry in entries:
            self._exports_read += 1
            if isinstance(entry.facts, ExportFacts):
                self._exports.setdefault(entry.facts.run, []).append(leaf)
        causes = [leaf for run in sorted(runs) for leaf in self._exports.get(run, ())]
        key = tuple(causes)
        if len(causes) > 1 and key not in self._joined:
            self._joined[key] = self._ledger.join_causes(causes, 1)[0]
        return [self._joined[key]] if len(causes) > 1 else causes


def _micros(seconds: int) -> int:
    return 1_000_000 * seconds


def _make_batches(due: Iterable[DueBody]) -> Iterator[list[DueBody]]:
    """Yield bodies in batches of one rule that fit into one entry."""
    ordered = sorted(due, key=lambda item: (item.rule, item.entry.index or 0))
    for _, items in groupby(ordered, key=lambda item: item.rule):
        batch: list[DueBody] = []
        leaves: set[Hash] = set()
        for item in items:
            is_full = len(leaves | {item.entry.leaf}) > redaction.MAX_REDACTED_ENTRIES
            if is_full or len(batch) == redaction.MAX_REDACTED_BODIES:
                yield batch
                batch, leaves = [], set()
            batch.append(item)
            leaves.add(item.entry.leaf)
        if batch:
            yield batch
