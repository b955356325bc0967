"""Compares the tables of a database with the entries of the log.

Readers find entries by columns, lookup tables and strand names, and workers act on rows beside the
log; an attacker who changes only these could hide an entry or misdirect a worker.  So the audit
compares every such column with the bytes of the entry, counts the rows of all tables, and
recomputes the rows that are derived from entries.

The use of caps that many runs share cannot be derived: it is counted by day or month on the clock
of the database, from the moment when an operator sets the cap.  The report lists it as not checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from forum.errors import Malformed
from forum.ledger import ports
from forum.ledger.carried import CARRIED_STRAND
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of
from forum.ledger.own_entries import is_foreign_to_own
from forum.ledger.row_checks import has_matching_columns
from forum.ledger.strand import ENDED_MARK, LOST_COMMITS_MARK, TAGGED_STRANDS, WRITE_KEY_MARK
from forum.ledger.write_tags import WriteKeys
from forum.runs import shared_tasks
from forum.tlog import count_tiles
from forum.verify.report import Findings, Problem
from forum.verify.run_tally import RunTallies, RunTally

Row = TypeVar("Row")

_MARKS = (WRITE_KEY_MARK, LOST_COMMITS_MARK, ENDED_MARK)
"""What the table of heads may have beside the heads of strands."""

_PAGE_ROWS = 1000
_NEVER_US = 2**62
_SET_ASIDE = "forum ledger quarantine sets it aside"
_MAX_TIMER_DELAY_US = 24 * 3600 * 1_000_000
"""The tolerance for a late timer, far more than the seconds by which workers postpone one."""


class TableAudit:
    """An audit of the rows of one log, fed with its entries in order and completed by `finish`."""

    def __init__(
        self,
        reader: ports.Reader,
        findings: Findings,
        now: int,
        keys: WriteKeys | None,
        heads: Mapping[str, tuple[int, str]],
    ) -> None:
        self._reader, self._findings = reader, findings
        self._now, self._keys = now, keys
        self._remembered = heads
        """The last entry (position and id) of strands that this reader saw earlier."""
        self.tallies = RunTallies()
        self.strands = 0
        """The number of strands that begin among the entries so far."""
        self.not_checked: list[str] = []
        """Descriptions of table content that does not follow from entries."""
        self._accounts = 0
        """The number of accounts found for the runs of the entries so far."""

    def check_row(self, index: int, row: ports.EntryRow) -> None:
        """Compare the columns of an entry with its bytes."""
        if not row.n:
            self.strands += 1
        if not has_matching_columns(self._reader.origin, row):
            detail = f"its row stands at {row.position}, and its bytes name another place"
            self._findings.add(Problem.COLUMN_MISMATCH, detail, index, str(row.position))

    def check_ids(
        self, start: int, rows: Sequence[ports.EntryRow | None], leaves: Sequence[bytes]
    ) -> None:
        """Check that the lookup by id finds each of these consecutive entries."""
        for index in self._reader.find_misplaced(start, leaves):
            if row := rows[index - start]:
                detail = "it is not found by its id"
                self._findings.add(Problem.COLUMN_MISMATCH, detail, index, str(row.position))

    def add_entry(self, entry: Entry[object]) -> None:
        """Add an entry to the tallies, and compare the accounts of a page of closed runs."""
        self.tallies.add_entry(entry)
        self._compare_accounts(self.tallies.pop_closed(_PAGE_ROWS))

    def merge(self, strands: int, tallies: dict[str, RunTally]) -> None:
        """Add the results of a segment of later entries that was checked elsewhere."""
        self.strands += strands
        self.tallies.merge(tallies)
        self._compare_accounts(self.tallies.pop_closed(_PAGE_ROWS))

    def check_waiting(self, rows: Sequence[ports.EntryRow], sequenced: int) -> None:
        """Check rows that are not signed yet: their columns, and the tag of a writer.

        The first `sequenced` rows have an index.  The others must not have one: a duplicate of an
        indexed entry could conceal, in the row counts, that another entry is missing.
        """
        leaves = [leaf_of(row.data) for row in rows[sequenced:]]
        for row, index in zip(rows[sequenced:], self._reader.indexes(leaves), strict=True):
            if index is not None:
                detail = f"it is pending, but has index {index} already"
                self._findings.add(Problem.TABLE_MISMATCH, detail, index, str(row.position))
        for row in filter(is_foreign_to_own, rows[sequenced:]):
            detail = (
                "only the sequencer writes to this strand, and it leaves nothing waiting; "
                f"{_SET_ASIDE}"
            )
            self._findings.add(Problem.DIRECTORY_BROKEN, detail, None, str(row.position))
        for row in rows:
            self.strands += row.n == 0
            where = str(row.position)
            if not has_matching_columns(self._reader.origin, row):
                detail = f"a row that waits at {where} has the bytes of another place"
                self._findings.add(Problem.COLUMN_MISMATCH, detail, None, where)
            elif self._keys and not self._keys.accepts_new_entry(row.data, row.tag):
                detail = (
                    "it waits for its signature, and no writer of this log has tagged it; "
                    f"{_SET_ASIDE}"
                )
                self._findings.add(Problem.TAG_REJECTED, detail, None, where)

    def finish(self, bodies: int, checkpoints: int) -> None:
        """Count all rows and compare the derived ones; call this after all entries were added."""
        counts = self._reader.count_rows()
        self._compare_counts(counts, bodies, checkpoints)
        self._compare_accounts(self.tallies.pop_closed(0))
        self._compare_accounts(dict(self.tallies.open_runs()))
        self._check_accounts(counts)
        self._check_timers()
        self._check_idempotency()
        self._check_heads()
        self._report_quarantine()
        if used := self._reader.budget_use():
            self.not_checked.append(f"what {len(used)} accounts under shared caps have used")

    def _add_mismatch(self, detail: str) -> None:
        self._findings.add(Problem.TABLE_MISMATCH, detail)

    def _compare_counts(self, counts: ports.TableCounts, bodies: int, checkpoints: int) -> None:
        try:
            size = self._reader.head().size
        except Malformed:
            return  # an unreadable head is reported elsewhere
        expected = {
            "edge": 1,
            "strands": self.strands,
            "leaves": size,
            "tiles": count_tiles(size),
            "checkpoints": checkpoints,
            "bodies": bodies,
            "heads": min(counts.heads, len(TAGGED_STRANDS) + len(_MARKS)),
            "strays": 0,
        }
        for name, count in expected.items():
            there = getattr(counts, name)
            if there != count:
                self._add_mismatch(f"the database has {there} rows of {name}, and the log {count}")

    def _compare_accounts(self, tallies: dict[str, RunTally]) -> None:
        """Compare accounts with the tallies of their runs; a closed run may have no account."""
        runs = [run for run, tally in tallies.items() if tally.cap is not None]
        for start in range(0, len(runs), _PAGE_ROWS):
            accounts = self._reader.accounts(runs[start : start + _PAGE_ROWS])
            for run in runs[start : start + _PAGE_ROWS]:
                tally, account = tallies[run], accounts.get(run)
                self._accounts += account is not None
                if account is None:
                    why = "" if tally.closed else "it is not there, and the run goes on"
                else:
                    why = tally.describe_difference(account.cap, account.used)
                if why:
                    self._add_mismatch(f"the account of run {run}: {why}")
                if fault := tally.describe_overspending():
                    self._findings.add(Problem.REPORT_INVALID, f"run {run} {fault}")

    def _check_accounts(self, counts: ports.TableCounts) -> None:
        """Report accounts of runs that the log does not have, if the counts differ."""
        if counts.accounts == self._accounts:
            return
        for run in _read_pages(lambda last: self._reader.account_runs(last or "", _PAGE_ROWS)):
            if not self._is_run(run):
                self._add_mismatch(f"an account of run {run}, of which the log has no entry")

    def _check_timers(self) -> None:
        """Check that every run that can continue, and every open gate, has a timer in time.

        A deleted or late timer would stop a run without a trace in the log.
        """
        timers = {
            (timer.run, timer.strand): timer.at if isinstance(timer.at, int) else _NEVER_US
            for timer in _read_pages(lambda last: self._reader.timers(last, _PAGE_ROWS, due=False))
        }
        for run, tally in self.tallies.open_runs():
            if tally.interrupted:
                continue  # resuming the run sets its timers again
            if tally.reported:
                continue  # no worker continues a run that another program reports
            latest = max(self._now, min(tally.deadline, self._now + _MAX_TIMER_DELAY_US))
            if not tally.is_waiting:
                self._check_timer(timers, run, MAIN_STRAND, latest)
            for strand, deadline in tally.gates.items():
                self._check_timer(timers, run, strand, max(self._now, deadline))
        for key, strand in timers:
            if not self._is_run(shared_tasks.run_of(key)):
                self._add_mismatch(f"a timer of {key}/{strand}, of which the log has no entry")

    def _check_timer(
        self, timers: dict[tuple[str, str], int], run: str, strand: str, latest: int
    ) -> None:
        at = timers.get((run, strand))
        if at is None:
            self._add_mismatch(f"{run}/{strand} has no timer, so no worker would continue it")
        elif at > latest + _MAX_TIMER_DELAY_US:
            self._add_mismatch(f"the timer of {run}/{strand} is set more than a day too late")

    def _check_idempotency(self) -> None:
        for row in _read_pages(
            lambda last: self._reader.idempotency_rows(last.name if last else "", _PAGE_ROWS)
        ):
            if not self._is_tagged_idempotency(row):
                self._add_mismatch(
                    f"idempotency key {row.name!r} leads to run {row.run}, and must not"
                )

    def _is_tagged_idempotency(self, row: ports.IdempotencyRecord) -> bool:
        """Return whether a writer of this log assigned an idempotency key to its run.

        A row of a release without tags, or one whose digest was erased, has no tag to check: then
        its run must exist in the log.  So it must where there is no key to check a tag with, unless
        the row may have been carried from an earlier epoch.
        """
        if not all(isinstance(text, str) for text in row[:3]):
            return False
        if self._keys is not None and row.digest and (row.tag or self._keys.is_enforced):
            return self._keys.accepts_idempotency(row.name, row.run, row.digest, row.tag)
        # A key of an earlier epoch may lead to a run that has ended there.
        is_carried = bool(row.tag) and self._keys is None and self._has_carried()
        return is_carried or self._is_run(row.run)

    def _has_carried(self) -> bool:
        return CARRIED_STRAND in self._reader.strands(LOG_RUN)

    def _is_run(self, run: str) -> bool:
        # The strand table can be relied on: its rows were counted, and the names were compared
        # with the bytes of the entries.
        return bool(self._reader.strands(run))

    def _check_heads(self) -> None:
        for strand in sorted(TAGGED_STRANDS):
            self._check_memory(strand)
            for why in self._explain_head(strand):
                self._add_mismatch(f"{LOG_RUN}/{strand} {why}")
        if not self._is_marked():
            why = "the mark of the write key is not that of any key here, so nobody can write"
            self._add_mismatch(f"{why}; on the machine that signs: forum keys rotate-write")

    def _is_marked(self) -> bool:
        """Return whether the mark, if there is one, was made with a key of the writers."""
        try:
            mark = self._reader.strand_head(WRITE_KEY_MARK)
        except Malformed:
            return False
        return mark is None or self._keys is None or self._keys.accepts_head(*mark)

    def _check_memory(self, strand: str) -> None:
        """Compare one of the log's own strands with the end that this machine has seen."""
        n, seen = self._remembered.get(strand, (0, None))
        there = self._leaf_at(strand, n) if seen is not None else None
        if there != seen:
            detail = f"ended with entry {n} when it was seen before, which is not there"
            # What is missing was cut off; what is there instead is not what was recorded.
            problem = Problem.TAIL_CUT if there is None else Problem.TABLE_MISMATCH
            self._findings.add(problem, f"{LOG_RUN}/{strand} {detail}")

    def _explain_head(self, strand: str) -> Iterator[str]:
        """Yield the problems with the end of one of the log's own strands."""
        try:
            head = self._reader.strand_head(strand)
        except Malformed as error:
            yield f"has a head that cannot be read: {error}"
            return
        if head is None:
            is_enforced = self._keys is not None and self._keys.is_enforced
            if is_enforced and self._leaf_at(strand, 0) is not None:
                yield "has lost its head"
        elif self._leaf_at(strand, head.n) != head.leaf.hex():
            yield f"ended with entry {head.n}, which is not there"
        elif self._keys is not None and not self._keys.accepts_head(*head):
            yield "has a head that no writer of this log has tagged"

    def _leaf_at(self, strand: str, n: int) -> str | None:
        """Return the id of the entry at a position of a strand of the log's own run, or None."""
        row = next(self._reader.strand_rows(LOG_RUN, strand, n), None)
        return leaf_of(row.data).hex() if row is not None and row.n == n else None

    def _report_quarantine(self) -> None:
        for quarantined in self._reader.quarantined_rows():
            detail = (
                "no writer of this log wrote it; it was quarantined and is in no tree. Look at it, "
                "then delete it: forum ledger quarantine --discard"
            )
            self._findings.add(Problem.ROW_QUARANTINED, detail, None, str(quarantined.row.position))


def _read_pages(read: Callable[[Row | None], list[Row]]) -> Iterator[Row]:
    """Yield all rows; `read` returns the page of rows after one, or the first page."""
    last: Row | None = None
    while page := read(last):
        yield from page
        last = page[-1]
