"""Tallies of the entries of each run, from which its budget account and its timers follow.

Tallies are additive: segments of a log are tallied separately and merged in the order of the log.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import LEDGER_KINDS, RunCloseFacts
from forum.ledger.ports import UNLIMITED, Amount
from forum.work import kinds
from forum.work.report_kinds import (
    REPORT_KINDS,
    ReportBeginFacts,
    ReportSourceFacts,
    ReportStepFacts,
)

_RUN_AGENT = "run"
"""The agent and model name of a call that another run answers; its calls count in that run."""


class RunTally(msgspec.Struct):
    """The budget use, open calls, open gates and end of one run, from some of its entries."""

    cap: tuple[int, int, int] | None = None
    """The budget of the request; None if the request is not among the entries."""
    deadline: int = 0
    usd: int = 0
    tokens: int = 0
    calls: int = 0
    delegates: bool = False
    """Whether another run answers one of its calls; then the number of calls is not compared."""
    closed: bool = False
    interrupted: bool | None = None
    """Whether the run is interrupted; None if these entries do not say."""
    reserved: dict[str, tuple[int, int, bool]] = {}
    """The call without a reply of each strand: dollars, tokens, whether another run answers it."""
    settled: list[str] = []
    """Strands whose first reply here belongs to a call before these entries."""
    gates: dict[str, int] = {}
    """The open gates, each with its deadline."""
    decided: list[str] = []
    """Gates that were opened before these entries and decided among them."""
    reported: bool = False
    """Whether another program reports the run; then nothing continues it but that program."""
    overrun: tuple[int, int] = (0, 0)
    """Dollars and tokens by which steps have cost more than their own reservations."""
    late: dict[str, tuple[int, int]] = {}
    """The cost of the spans in `settled`, whose reservations are not among these entries."""
    span_calls: dict[str, int] = {}
    """The calls that open spans have reserved."""
    taken_back: list[str] = []
    """Those of the spans in `settled` that were not made."""

    def add_entry(self, entry: Entry[Any]) -> None:
        """Add an entry of the run."""
        match entry.facts:
            case kinds.AcceptedFacts() as facts if entry.strand == MAIN_STRAND:
                self.cap = facts.cap.usd, facts.cap.tokens, facts.cap.calls
                self.deadline = entry.ts + 1000 * facts.milliseconds
            case kinds.CallFacts() as facts:
                self._reserve(entry.strand, facts)
            case kinds.ReplyFacts() as facts:
                self._settle(entry.strand, facts)
            case kinds.GateOpenFacts() as facts:
                self.gates[entry.strand] = entry.ts + 1000 * facts.milliseconds
            case kinds.GateDecisionFacts() | kinds.GateDecisionByFacts():
                if self.gates.pop(entry.strand, None) is None:
                    self.decided.append(entry.strand)
            case RunCloseFacts() if entry.strand == MAIN_STRAND:
                self.closed = True
            case facts:
                self._set_interrupted(entry.strand, facts)
                self._add_report(entry)

    def _add_report(self, entry: Entry[Any]) -> None:
        match entry.facts:
            case ReportSourceFacts() as facts if entry.strand == MAIN_STRAND:
                self.reported = True
                # Only a capped run has an account.
                self.cap = None if facts.cap == UNLIMITED else (*facts.cap,)
            case ReportBeginFacts() as facts:
                self.reserved[entry.strand] = (facts.usd, facts.tokens, False)
                self.usd, self.tokens = self.usd + facts.usd, self.tokens + facts.tokens
                self.calls += facts.calls
                self.span_calls[entry.strand] = facts.calls
            case ReportStepFacts() as facts if entry.n:  # the first entry settles nothing
                self._settle_span(entry.strand, facts)

    def _settle_span(self, strand: str, facts: ReportStepFacts) -> None:
        usd, tokens = facts.usd, facts.spent.tokens
        reserved = self.reserved.pop(strand, None)
        calls = self.span_calls.pop(strand, 0)
        if reserved is None:
            self.settled.append(strand)
            self.late[strand] = (usd, tokens)
            if facts.is_taken_back:
                self.taken_back.append(strand)
        else:
            self._add_overrun(usd - reserved[0], tokens - reserved[1])
            self.calls -= calls if facts.is_taken_back else 0
        self.usd += usd - (reserved[0] if reserved else 0)
        self.tokens += tokens - (reserved[1] if reserved else 0)

    def _add_overrun(self, usd: int, tokens: int) -> None:
        self.overrun = self.overrun[0] + max(0, usd), self.overrun[1] + max(0, tokens)

    def _set_interrupted(self, strand: str, facts: object) -> None:
        if strand == MAIN_STRAND and isinstance(
            facts, kinds.InterruptionFacts | kinds.ResumptionFacts
        ):
            self.interrupted = isinstance(facts, kinds.InterruptionFacts)

    def _reserve(self, strand: str, called: kinds.CallFacts) -> None:
        delegates = called.agent == _RUN_AGENT == called.model
        self.reserved[strand] = (called.usd, called.tokens, delegates)
        self.usd, self.tokens = self.usd + called.usd, self.tokens + called.tokens
        self.calls += 1
        self.delegates = self.delegates or delegates

    def _settle(self, strand: str, replied: kinds.ReplyFacts) -> None:
        if strand not in self.reserved:
            self.settled.append(strand)
        usd, tokens, _ = self.reserved.pop(strand, (0, 0, False))
        self.usd, self.tokens = self.usd + replied.usd - usd, self.tokens + replied.tokens - tokens
        # A recorded reply was reused from another run, which paid for the call.
        self.calls -= replied.source is kinds.ReplyOrigin.RECORDED

    def merge(self, later: "RunTally") -> None:
        """Add the tally of later entries of the run."""
        self.cap, self.deadline = (
            (later.cap, later.deadline) if later.cap else (self.cap, self.deadline)
        )
        # A segment may hold a call and the next one its reply: the reservation then ends here.
        for strand in later.settled:
            usd, tokens, _ = self.reserved.pop(strand, (0, 0, False))
            calls = self.span_calls.pop(strand, 0)
            self.calls -= calls if strand in later.taken_back else 0
            if strand in later.late:
                self._add_overrun(later.late[strand][0] - usd, later.late[strand][1] - tokens)
            self.usd, self.tokens = self.usd - usd, self.tokens - tokens
        for gate in later.decided:
            self.gates.pop(gate, None)
        self.usd, self.tokens = self.usd + later.usd, self.tokens + later.tokens
        self.calls += later.calls
        self.delegates, self.closed = self.delegates or later.delegates, self.closed or later.closed
        if later.interrupted is not None:
            self.interrupted = later.interrupted
        self.reported = self.reported or later.reported
        self._add_overrun(*later.overrun)
        self.reserved |= later.reserved
        self.span_calls |= later.span_calls
        self.gates |= later.gates

    @property
    def is_waiting(self) -> bool:
        """Whether the run is blocked on a human decision or on another run."""
        return bool(self.gates) or any(call[2] for call in self.reserved.values())

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
    tally = _empty_tally()
    for entry in entries:
        tally.add_entry(entry)
    return tally


def _empty_tally() -> RunTally:
    return RunTally(
        reserved={}, settled=[], gates={}, decided=[], late={}, span_calls={}, taken_back=[]
    )


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
        return self._runs.setdefault(run, _empty_tally())


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
    *(ReportSourceFacts, ReportBeginFacts, ReportStepFacts),
)

COUNTED_KINDS = frozenset(
    kind.name
    for kind in LEDGER_KINDS | kinds.WORK_KINDS | REPORT_KINDS
    if kind.facts in _COUNTED_FACTS
)
"""The kinds of the entries that affect the account or the timers of a run."""
