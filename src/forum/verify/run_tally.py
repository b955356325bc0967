"""Tallies of the entries of each run, from which its budget account and its timers follow.

Tallies are additive: segments of a log are tallied separately and merged in the order of the log.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import LEDGER_KINDS, RunCloseFacts
from forum.ledger.ports import UNLIMITED, Amount
from forum.runs import kinds, report_kinds
from forum.runs.spending import Beginning, End, cost_of


class RunTally(msgspec.Struct):
    """The budget use, open calls, open gates and end of one run, from some of its entries."""

    cap: tuple[int, int, int] | None = None
    """The budget of the request; None if the request is not among the entries."""
    deadline: int = 0
    usd: int = 0
    tokens: int = 0
    calls: int = 0
    delegates: bool = False
    """Whether another run answers one of its calls; then the number of calls is not compared.

    Releases up to 0.2 did not record how many the other run made.
    """
    closed: bool = False
    interrupted: bool | None = None
    """Whether the run is interrupted; None if these entries do not say."""
    open_calls: dict[str, kinds.CallFacts] = {}
    """The call without a reply of each strand."""
    open_steps: dict[str, report_kinds.ReportBeginFacts] = {}
    """The step without an end of each strand."""
    late_replies: dict[str, kinds.ReplyFacts] = {}
    """The first reply of each strand, if its call is before these entries."""
    late_steps: dict[str, report_kinds.ReportStepFacts] = {}
    """The end of each step that begins before these entries."""
    gates: dict[str, int] = {}
    """The open gates, each with its deadline."""
    decided: list[str] = []
    """Gates that were opened before these entries and decided among them."""
    reported: bool = False
    """Whether another program reports the run; then nothing continues it but that program."""
    overrun: tuple[int, int] = (0, 0)
    """Dollars and tokens by which steps have cost more than their own reservations."""

    def add_entry(self, entry: Entry[Any]) -> None:
        """Add an entry of the run."""
        match entry.facts:
            case kinds.AcceptedFacts() as facts if entry.strand == MAIN_STRAND:
                self.cap = facts.cap.usd, facts.cap.tokens, facts.cap.calls
                self.deadline = entry.ts + 1000 * facts.milliseconds
            case kinds.CallFacts() | report_kinds.ReportBeginFacts() as facts:
                self._begin(entry.strand, facts)
            case kinds.ReplyFacts() | report_kinds.ReportStepFacts() as facts:
                self._end(entry, facts)
            case kinds.GateOpenFacts() as facts:
                self.gates[entry.strand] = entry.ts + 1000 * facts.milliseconds
            case kinds.GateDecisionFacts() | kinds.GateDecisionByFacts():
                if self.gates.pop(entry.strand, None) is None:
                    self.decided.append(entry.strand)
            case RunCloseFacts() if entry.strand == MAIN_STRAND:
                self.closed = True
            case facts:
                self._add_state(entry.strand, facts)

    def _add_state(self, strand: str, facts: object) -> None:
        """Add how the run is known, and whether it is interrupted."""
        match facts:
            case report_kinds.ReportSourceFacts() if strand == MAIN_STRAND:
                self.reported = True
                # Only a capped run has an account.
                self.cap = None if facts.cap == UNLIMITED else (*facts.cap,)
            case kinds.InterruptionFacts() | kinds.ResumptionFacts() if strand == MAIN_STRAND:
                self.interrupted = isinstance(facts, kinds.InterruptionFacts)
            case _:
                pass

    def _begin(self, strand: str, facts: Beginning) -> None:
        # A call that never got an end keeps its reservation in the account.
        self._charge(facts.usd, facts.tokens, facts.calls)
        if isinstance(facts, report_kinds.ReportBeginFacts):
            self.open_steps[strand] = facts
        else:
            self.open_calls[strand] = facts
            self.delegates = self.delegates or kinds.is_inner_run(facts.agent, facts.model)

    def _end(self, entry: Entry[Any], facts: End) -> None:
        is_step = isinstance(facts, report_kinds.ReportStepFacts)
        # A step that is the first entry of its strand has no reservation, and is not charged.
        if (is_step and not entry.n) or self._settle(entry.strand, facts):
            return
        # What the beginning has reserved, and with it the calls, is known when segments are merged.
        self._charge(facts.spent.usd, facts.spent.tokens)
        if isinstance(facts, report_kinds.ReportStepFacts):
            self.late_steps.setdefault(entry.strand, facts)
        else:
            self.late_replies.setdefault(entry.strand, facts)

    def _settle(self, strand: str, facts: End) -> bool:
        """Settle the open call or step of a strand; return whether there is one."""
        begun: Beginning | None
        if isinstance(facts, report_kinds.ReportStepFacts):
            begun, is_recorded = self.open_steps.pop(strand, None), False
        else:
            begun = self.open_calls.pop(strand, None)
            is_recorded = facts.source is kinds.ReplyOrigin.RECORDED
        if begun is None:
            return False
        spent = cost_of(begun, facts)
        usd, tokens = spent.usd - begun.usd, spent.tokens - begun.tokens
        if isinstance(facts, report_kinds.ReportStepFacts):
            self._add_overrun(usd, tokens)
        # A recorded reply was reused from another run, which paid for the call.
        self._charge(usd, tokens, (0 if is_recorded else spent.calls) - begun.calls)
        return True

    def _charge(self, usd: int, tokens: int, calls: int = 0) -> None:
        self.usd, self.tokens = self.usd + usd, self.tokens + tokens
        self.calls = self.calls + calls

    def _add_overrun(self, usd: int, tokens: int) -> None:
        self.overrun = self.overrun[0] + max(0, usd), self.overrun[1] + max(0, tokens)

    def merge(self, later: "RunTally") -> None:
        """Add the tally of later entries of the run."""
        self.cap, self.deadline = (
            (later.cap, later.deadline) if later.cap else (self.cap, self.deadline)
        )
        # A segment may hold a call and the next one its reply: the reservation then ends here.
        late: list[tuple[str, End]] = [*later.late_replies.items(), *later.late_steps.items()]
        for strand, facts in late:
            if self._settle(strand, facts):
                self._charge(-facts.spent.usd, -facts.spent.tokens)
        for gate in later.decided:
            self.gates.pop(gate, None)
        self._charge(later.usd, later.tokens, later.calls)
        self.delegates, self.closed = self.delegates or later.delegates, self.closed or later.closed
        if later.interrupted is not None:
            self.interrupted = later.interrupted
        self.reported = self.reported or later.reported
        self._add_overrun(*later.overrun)
        self.open_calls |= later.open_calls
        self.open_steps |= later.open_steps
        self.gates |= later.gates

    @property
    def is_waiting(self) -> bool:
        """Whether the run is blocked on a human decision or on another run."""
        return bool(self.gates) or any(
            kinds.is_inner_run(call.agent, call.model) for call in self.open_calls.values()
        )

    def describe_difference(self, cap: Amount, used: Amount) -> str:
        """Describe how an account differs from the entries; return an empty text if it agrees."""
        if self.cap is not None and tuple(cap) != self.cap:
            return f"it allows {tuple(cap)}, and the request {self.cap}"
        spent = (self.usd, self.tokens, used.calls if self.delegates else self.calls)
        return "" if tuple(used) == spent else f"it has {tuple(used)} used, and the calls {spent}"

    def describe_overspending(self) -> str:
        """Describe how a reported run has passed its cap; return an empty text if it has not.

        A step may cost more than its reservation, which is then an overrun on record; all else is
        settled or reserved within the cap.
        """
        if not self.reported or self.cap is None:
            return ""
        used = (self.usd, self.tokens, self.calls)
        over = (*self.overrun, 0)
        for unit, spent, cap, overrun in zip(
            ("nano-dollars", "tokens", "calls"), used, self.cap, over, strict=True
        ):
            if spent > cap + overrun:
                return f"has used {spent} {unit}, and may use {cap}"
        return ""


def tally_run(entries: Iterable[Entry[Any]]) -> RunTally:
    """Return the tally of one run from all of its entries, each strand in its order."""
    tally = RunTally()
    for entry in entries:
        tally.add_entry(entry)
    return tally


class RunTallies:
    """The tallies of all runs; closed runs are removed with `pop_closed` to bound the memory."""

    def __init__(self) -> None:
        self._runs: dict[str, RunTally] = {}
        self._closed: list[str] = []
        """The closed runs whose tallies were not removed yet."""

    def add_entry(self, entry: Entry[Any]) -> None:
        """Add an entry if its kind affects the account or the timers of its run."""
        if isinstance(entry.facts, _COUNTED_FACTS):
            tally = self._of(entry.run)
            tally.add_entry(entry)
            if isinstance(entry.facts, RunCloseFacts) and tally.closed:
                self._closed.append(entry.run)

    def merge(self, later: dict[str, RunTally]) -> None:
        """Add the tallies of later entries."""
        for run, tally in later.items():
            if run in self._runs:
                self._runs[run].merge(tally)
            else:
                self._runs[run] = tally
            if tally.closed:
                self._closed.append(run)

    def as_dict(self) -> dict[str, RunTally]:
        """Return the tallies that were not removed, keyed by run."""
        return self._runs

    def pop_closed(self, enough: int) -> dict[str, RunTally]:
        """Remove and return the tallies of closed runs, if there are at least `enough`."""
        if len(self._closed) < enough:
            return {}
        # A run that is closed twice (reported elsewhere) is listed twice, but has one tally.
        closed = {run: self._runs.pop(run) for run in self._closed if run in self._runs}
        self._closed.clear()
        return closed

    def open_runs(self) -> Iterator[tuple[str, RunTally]]:
        """Yield the accepted runs that are not closed, with their tallies."""
        for run, tally in self._runs.items():
            if tally.cap is not None and not tally.closed:
                yield run, tally

    def _of(self, run: str) -> RunTally:
        return self._runs.setdefault(run, RunTally())


_COUNTED_FACTS = (
    *(
        kinds.AcceptedFacts,
        kinds.CallFacts,
        kinds.ReplyFacts,
        kinds.GateOpenFacts,
        kinds.GateDecisionFacts,
        kinds.GateDecisionByFacts,
    ),
    *(kinds.InterruptionFacts, kinds.ResumptionFacts, RunCloseFacts),
    *(report_kinds.ReportSourceFacts, report_kinds.ReportBeginFacts, report_kinds.ReportStepFacts),
)

COUNTED_KINDS = frozenset(
    kind.name
    for kind in LEDGER_KINDS | kinds.WORK_KINDS | report_kinds.REPORT_KINDS
    if kind.facts in _COUNTED_FACTS
)
"""The kinds of the entries that affect the account or the timers of a run."""
