"""Verification of the earlier logs (epochs) that a ledger continues.

The first entries of a new epoch commit to the checkpoint at which the previous log was left.  That
commitment is worth nothing unless it is checked: the previous log could be deleted or truncated as
soon as the next one exists.  So the verification of the newest log includes all earlier logs, back
to the first, and compares each with the commitment of its successor.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice

import msgspec
from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.carried import CARRIED_STRAND, find_difference, read_source
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.kinds import CarryFacts, Kinds, LogEpochFacts, LogOpenFacts
from forum.ledger.ports import AuditReader, EntryReader, LogIdentity, Reader, TreeReader
from forum.ledger.strand import RecordedEntry
from forum.tlog import Checkpoint, parse_checkpoint
from forum.verify.ledger_audit import verify_ledger
from forum.verify.report import Claim, ClaimResult, EpochSummary, Findings, Problem, Report, State
from forum.verify.trust import Trust


class EarlierLogs(msgspec.Struct, frozen=True):
    """The earlier logs of a project that a reader remembers, and functions to open them."""

    known: tuple[str, ...]
    """The logs of this project that the reader remembers, oldest first."""
    open_log: Callable[[str], AbstractContextManager[Reader | None]]
    """Opens another log of the same database; yields None if it does not exist."""
    trust_of: Callable[[str], Trust]


_CONTINUED = "the log that this one continues"
"""The prefix of the not-checked line about a previous log; removed here, as that log is checked."""


def verify_epochs(
    reader: EntryReader, report: Report, kinds: Kinds, now: int, logs: EarlierLogs
) -> Report:
    """Verify the earlier logs that a log continues, and merge their findings into its report.

    Every log of the project that the reader remembers must be among the earlier logs.
    """
    audit = _EpochAudit(kinds, now, logs)
    whole = audit.verify_earlier(reader)
    for origin in reversed([name for name in logs.known if name not in audit.seen]):
        audit.check_known(origin, report.origin, follows=whole)
    return audit.merge_report(report)


class _EpochAudit:
    """The state of one walk from the newest log back to the first."""

    def __init__(self, kinds: Kinds, now: int, logs: EarlierLogs) -> None:
        self._kinds, self._now = kinds, now
        self._logs = logs
        self.findings = Findings()
        self.seen: set[str] = set()
        self._reports: list[Report] = []
        self._not_checked: list[str] = []

    def verify_earlier(self, reader: EntryReader) -> bool:
        """Verify the log that this one continues, then the one before it, back to the first.

        Returns False if a log of the chain is missing, so that the first cannot be reached.
        """
        with ExitStack() as opened:
            return self._verify_chain(reader, opened)

    def _verify_chain(self, later: EntryReader, opened: ExitStack) -> bool:
        name, (opening, epoch) = later.origin, _read_opening(later, self._kinds)
        self.seen.add(name)
        while opening is not None and opening.left_origin:
            origin = opening.left_origin
            if origin in self.seen:
                detail = f"{name} says that it continues {origin}, which continues it"
                self.findings.add(Problem.HISTORY_REPLACED, detail)
                return True
            self.seen.add(origin)
            earlier = opened.enter_context(self._logs.open_log(origin))
            if earlier is None or _is_empty(earlier, opening):
                detail = (
                    f"{origin}, left at size {opening.left_size} for {name}, is not in the "
                    "database; restore it from a backup"
                )
                self.findings.add(Problem.EPOCH_MISSING, detail)
                return False
            if self._verify(earlier, _declared_loss(opening, epoch)):
                self._compare(origin, _newest(earlier), opening, epoch)
            self._compare_carried(later, earlier)
            name, (opening, epoch) = origin, _read_opening(earlier, self._kinds)
            later = earlier
        return True

    def check_known(self, origin: str, newest: str, *, follows: bool) -> None:
        """Check an earlier log that the reader remembers and the chain does not contain.

        If the chain is complete (`follows`), no later log continues this one: that is a finding.
        """
        if follows:
            detail = f"{newest} does not continue {origin}, which was this project's log"
            self.findings.add(Problem.EPOCH_MISSING, detail)
        with self._logs.open_log(origin) as earlier:
            if earlier is not None:
                self._verify(earlier, None)
            elif not follows:
                detail = f"{origin} is not in the database; restore it from a backup"
                self.findings.add(Problem.EPOCH_MISSING, detail)

    def _verify(self, earlier: Reader, held: int | None) -> bool:
        """Verify an earlier log; return False if the reader has no key of it.

        `held` is the size to which the log was reduced when it was left, if entries were lost.
        """
        trust = self._logs.trust_of(earlier.origin)
        if all(key.name != earlier.origin for key in trust.log_keys):
            detail = f"{earlier.origin}, which this log continues: no key of it is known"
            self._not_checked.append(detail)
            return False
        if held is not None:
            # The next epoch, which witnesses have seen, declares the loss.  Remembered checkpoints
            # beyond the declared size would only report it again.
            trust = replace(trust, remembered=_notes_up_to(trust.remembered, held))
        report = verify_ledger(earlier, self._kinds, trust, self._now, left=True)
        self._reports.append(report)
        for finding in report.findings:
            detail = f"in {earlier.origin}: {finding.detail}"
            if held is not None and finding.problem is Problem.NOT_WITNESSED:
                # The cosignature of the last checkpoint may be among what was lost.
                self._not_checked.append(detail)
                continue
            self.findings.add(finding.problem, detail, finding.index, finding.entry)
        self._not_checked += [
            f"in {earlier.origin}: {missing}"
            for missing in report.not_checked
            if not missing.startswith(_CONTINUED)
        ]
        return True

    def _compare(
        self,
        origin: str,
        newest: Checkpoint | None,
        opening: LogOpenFacts,
        epoch: LogEpochFacts | None,
    ) -> None:
        """Compare the end of an earlier log with the commitment of its successor."""
        size = newest.size if newest else 0
        root = newest.root.hex() if newest and size else ""
        left = f"{origin} was left at size {opening.left_size}"
        if size > opening.left_size:
            detail = f"{left}, and has a checkpoint of size {size}: it was continued after that"
            self.findings.add(Problem.HISTORY_REPLACED, detail)
        elif size == opening.left_size:
            if size and root != opening.left_root:
                detail = f"{left} with another root than its checkpoint has"
                self.findings.add(Problem.HISTORY_REPLACED, detail)
        elif epoch is None:
            # Release 0.1.0 did not record how many entries were stored when a log was left.
            self._not_checked.append(f"entries {size} to {opening.left_size - 1} of {origin}: gone")
        elif (size, root) != (epoch.held_size, epoch.held_root if size else ""):
            detail = f"{left}, {epoch.held_size} entries of it were there then, and {size} are now"
            self.findings.add(Problem.TAIL_CUT, detail)
        else:
            lost = f"entries {size} to {opening.left_size - 1} of {origin}"
            self._not_checked.append(f"{lost}: lost before the next epoch began, as that records")

    def _compare_carried(self, later: EntryReader, earlier: EntryReader) -> None:
        """Compare what a log says that it carried with the entries of the earlier log."""
        carried = [facts for facts in self._read_carried(later) if facts.entries]
        if not carried:
            return
        epoch = _read_epoch_id(later, self._kinds)
        pairs: list[tuple[RecordedEntry, RecordedEntry]] = []
        for facts in carried:
            source = list(
                islice(read_source(earlier, self._kinds, facts.run, facts.strand), facts.entries)
            )
            there = [
                RecordedEntry(leaf_of(data), self._kinds.read(data))
                for data in islice(later.read_strand(facts.run, facts.strand), facts.entries)
            ]
            head = source[-1].leaf.hex() if source else ""
            if len(source) != facts.entries or len(there) != facts.entries or head != facts.head:
                self._add_foreign_carry(later, f"{facts.run}/{facts.strand}", "its entries")
                continue
            pairs += zip(source, there, strict=True)
        ids = {old.leaf.hex(): new.leaf.hex() for old, new in pairs}
        for old, new in pairs:
            if what := find_difference(old.entry, new.entry, ids, epoch):
                place = f"{new.entry.run}/{new.entry.strand}/{new.entry.n}"
                self._add_foreign_carry(later, place, what)

    def _read_carried(self, reader: EntryReader) -> Iterator[CarryFacts]:
        for data in reader.read_strand(LOG_RUN, CARRIED_STRAND):
            facts = self._kinds.read(data).facts
            if isinstance(facts, CarryFacts):
                yield facts

    def _add_foreign_carry(self, later: LogIdentity, place: str, what: str) -> None:
        detail = f"{later.origin}: {place} was not carried as it is in the earlier log: {what}"
        self.findings.add(Problem.HISTORY_REPLACED, detail)

    def merge_report(self, report: Report) -> Report:
        """Return one report for all epochs."""
        if len(self.seen) < 2 and not self.findings.count:
            return report  # the first log of its project
        merged = {claim.value: self._merge_claim(claim, getattr(report, claim)) for claim in Claim}
        listed = (*report.findings, *self.findings.listed)
        own = [missing for missing in report.not_checked if not missing.startswith(_CONTINUED)]
        return replace(
            report,
            **merged,
            findings=listed[: Findings.MAX_LISTED],
            found=report.found + self.findings.count,
            not_checked=(*own, *self._not_checked),
            epochs=tuple(map(_summarize, self._reports)),
        )

    def _merge_claim(self, claim: Claim, answer: ClaimResult) -> ClaimResult:
        """Return the result of a claim for all epochs: it fails if it fails in one of them."""
        if answer.state is not State.HOLDS:
            return answer
        return self.findings.judge_claim(claim, answer.reason)


def _read_opening(
    reader: EntryReader, kinds: Kinds
) -> tuple[LogOpenFacts | None, LogEpochFacts | None]:
    """Return the facts that open a log, and those about the log that it continues."""
    opening, epoch = None, None
    # The rows are not checked here: gaps and altered ones are reported when the log is verified.
    for row in islice(reader.strand_rows(LOG_RUN, MAIN_STRAND), 3):
        try:
            facts = kinds.read(row.data).facts
        except Malformed:
            break  # reported when the log itself is verified
        opening = facts if opening is None and isinstance(facts, LogOpenFacts) else opening
        epoch = facts if isinstance(facts, LogEpochFacts) else epoch
    return opening, epoch


def _read_epoch_id(reader: EntryReader, kinds: Kinds) -> str:
    """Return the id of the entry that begins an epoch, or an empty text."""
    for data, _ in zip(reader.read_strand(LOG_RUN, MAIN_STRAND), range(3), strict=False):
        if isinstance(kinds.read(data).facts, LogEpochFacts):
            return leaf_of(data).hex()
    return ""


def _declared_loss(opening: LogOpenFacts, epoch: LogEpochFacts | None) -> int | None:
    """Return the size of a log when its successor began, if entries were lost; else None."""
    return epoch.held_size if epoch and epoch.held_size < opening.left_size else None


def _newest(reader: TreeReader) -> Checkpoint | None:
    note = reader.checkpoint()
    try:
        return parse_checkpoint(note) if note else None
    except Malformed:
        return None  # reported when the log is verified


def _is_empty(reader: AuditReader, opening: LogOpenFacts) -> bool:
    """Return whether a log that had entries has neither entries nor checkpoints now."""
    return opening.left_size > 0 and reader.checkpoint() is None and not reader.count_entries()


def _notes_up_to(notes: tuple[bytes, ...], size: int) -> tuple[bytes, ...]:
    selected = []
    for note in notes:
        try:
            if parse_checkpoint(note).size <= size:
                selected.append(note)
        except Malformed:
            selected.append(note)  # reported when the note is opened
    return tuple(selected)


def _summarize(report: Report) -> EpochSummary:
    return EpochSummary(
        origin=report.origin,
        size=report.size,
        root=report.root,
        intact=report.intact.state,
        complete=report.complete.state,
        independent=report.independent.state,
        witnessing=report.witnessing,
    )
