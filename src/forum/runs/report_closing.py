"""Close reported runs of which nothing more is heard.

Nobody says that a trace has ended.  A run is over when its root span has ended and nothing came for
a short while, or when nothing came for a long while.  The timer of the strand `close` says when to
look; the entries say whether it is time.  So any process may look, any number of times: the close
takes a position of `main`, and whoever adds spans takes one too.
"""

from typing import Any

import msgspec

from forum.errors import ConcurrentUpdate, StepMismatch
from forum.ledger.entry import MAIN_STRAND, Entry, leaf_of
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.ledger.log import Ledger, StrandEnd
from forum.ledger.ports import Timer
from forum.runs import report_kinds
from forum.runs.report_drafts import gap_draft

CLOSE_TIMER = "close"
"""The strand whose timer says when a reported run is to be closed; it has no entries."""
_ACTOR = "intake"
_MICRO = 1_000_000
_PAGE_TIMERS = 200


class ReportPatience(msgspec.Struct, frozen=True):
    """How long a reported run stays open when nothing comes, in seconds."""

    quiet_seconds: int = 30
    """After the root span has ended."""
    idle_seconds: int = 600
    """While the root span has not come."""

    def delay(self, *, root_ended: bool) -> int:
        """Return the delay before a run is closed, in microseconds."""
        return _MICRO * (self.quiet_seconds if root_ended else self.idle_seconds)


DEFAULT_PATIENCE = ReportPatience()


class ReportSummary:
    """What the close of a reported run says, from all of its entries."""

    def __init__(self, started_by: str = "") -> None:
        self._started_by = started_by
        """The span of another run that started the program of this one."""
        self.last: Entry[Any] | None = None
        """The last entry of `main`."""
        self.source: report_kinds.ReportSourceFacts | None = None
        self.root: Outcome | None = None
        """The outcome of the root span, if it has come."""
        self.is_full = False
        """Whether another run continues this one, because it has as many spans as it may have."""
        self.ends: dict[str, StrandEnd] = {}
        self._spans: set[str] = set()
        self._parents: set[str] = set()
        self._counted = 0
        """Unseen parents that a gap names already, after a crash before the close."""

    def add(self, leaf: str, entry: Entry[Any]) -> None:
        """Add the next entry of a strand."""
        facts = entry.facts
        if entry.strand != MAIN_STRAND:
            self.ends[entry.strand] = StrandEnd(entry.strand, entry.n, leaf)
        else:
            self.last = entry
        match facts:
            case report_kinds.ReportSourceFacts():
                self.source = facts
            case report_kinds.ReportStepFacts():
                self._spans.add(facts.span)
                if facts.within and facts.within != self._started_by:
                    self._parents.add(facts.within)
                elif self.source is not None and self.source.trace:
                    self.root = facts.outcome
            case report_kinds.ReportGapFacts(why=report_kinds.GapReason.LIMIT):
                self.is_full = True
            case report_kinds.ReportGapFacts(why=report_kinds.GapReason.PARENT_UNSEEN):
                self._counted += facts.steps
            case _:
                pass

    @property
    def unseen_parents(self) -> int:
        """The number of parents that no span of the run has reported, and no gap counts."""
        return max(0, len(self._parents - self._spans) - self._counted)


def read_summary(ledger: Ledger, run: str, started_by: str = "") -> ReportSummary:
    """Fold all entries of a run."""
    summary, others = ReportSummary(started_by), []
    for position, data in ledger.store.entries_of_run(run):
        pair = (leaf_of(data).hex(), ledger.kinds.read(data))
        # The source is in `main`, and tells whether a span without a parent is a root.
        if position.strand == MAIN_STRAND:
            summary.add(*pair)
        else:
            others.append(pair)
    for leaf, entry in others:
        summary.add(leaf, entry)
    return summary


def close_if_quiet(
    ledger: Ledger,
    run: str,
    patience: ReportPatience,
    *,
    at_once: bool = False,
    started_by: str = "",
) -> bool:
    """Close a run if it is time, and otherwise set its timer; return whether it is closed.

    `at_once` closes it whatever the time is. A span within `started_by` is a root.
    """
    timer = ledger.store.timer(run, CLOSE_TIMER)
    # Read the end of `main` first: a span that is added after the others are read takes the
    # position at which the close would stand.
    main = ledger.open_strand_at_end(run, MAIN_STRAND)
    summary = read_summary(ledger, run, started_by)
    if summary.last is None or isinstance(summary.last.facts, RunCloseFacts):
        if timer is not None:
            ledger.store.reschedule([timer], None)
        return True
    outcome = summary.root or _outcome_before(ledger, summary)
    due = summary.last.ts + patience.delay(root_ended=outcome is not None)
    left = due - ledger.now()
    if left > 0 and not at_once and not summary.is_full:
        if timer is not None:
            ledger.store.reschedule([timer], left / _MICRO)
        return False
    try:
        if summary.unseen_parents:
            gap = report_kinds.ReportGapFacts(
                report_kinds.GapReason.PARENT_UNSEEN, summary.unseen_parents
            )
            # A crash after this entry leaves an open run whose gap is not counted again.
            main.append_exclusive(gap_draft(gap, f"{gap.why.value}/{main.length}", _ACTOR))
        ends = [summary.ends[name] for name in sorted(summary.ends)]
        cleared = Timer(run, CLOSE_TIMER, None)
        ledger.close_run(main, _ACTOR, outcome or Outcome.INDETERMINATE, (cleared,), ends=ends)
    except (ConcurrentUpdate, StepMismatch):
        # More spans came, and their commit has set the timer; or another process closes the run.
        return False
    return True


def _outcome_before(ledger: Ledger, summary: ReportSummary) -> Outcome | None:
    """Return the outcome of the run that this one continues, if its root span had come there."""
    if summary.source is None or not summary.source.continues:
        return None
    last = ledger.store.last_entry(summary.source.continues, MAIN_STRAND)
    facts = ledger.kinds.read(last).facts if last is not None else None
    if not isinstance(facts, RunCloseFacts) or facts.outcome is Outcome.INDETERMINATE:
        return None
    return facts.outcome


def close_quiet_runs(ledger: Ledger, patience: ReportPatience) -> int:
    """Close every reported run whose timer is due, and return how many were closed.

    For processes that serve without a worker.  Timers are read and not claimed, so that those of
    other runs are left to the workers; if a worker closes the same run, one of them is refused.
    """
    closed, after = 0, None
    while page := ledger.store.timers(after, _PAGE_TIMERS, due=True):
        after = page[-1]
        for timer in page:
            if timer.strand == CLOSE_TIMER:
                closed += close_if_quiet(ledger, timer.run, patience)
    return closed
