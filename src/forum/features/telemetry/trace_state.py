"""What is recorded of one trace: enough to tell new spans from known ones without reading.

Every commit of the intake appends to `main` of its run.  So a state that is older than the record
is noticed by the commit, whose position is taken; then the state is read anew.
"""

from collections import OrderedDict
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.log import Ledger, read_body
from forum.ledger.strand import Strand
from forum.runs import report_kinds

_MAX_CACHED_IDS: Final = 200_000
"""Ids of spans in memory, over all traces; at about 150 bytes each."""


class KnownSpan(NamedTuple):
    """A recorded span."""

    run: str
    digest: bytes
    """A digest of its content; empty if another process recorded it, or this one before."""


class TraceState:
    """The runs of a trace, and the ids of everything that one reporter has told of it."""

    def __init__(self, trace: str, by: str) -> None:
        self.trace, self.by = trace, by
        self.run = f"{report_kinds.TRACE_RUN_PREFIX}{trace}"
        self.number = 1
        """The runs of a trace are numbered: a closed or full one is continued by another."""
        self.continues = ""
        self.main: Strand | None = None
        """The writer at the end of `main`; None if the run does not exist yet."""
        self.spans = 0
        """Spans in this run."""
        self.known: dict[str, KnownSpan] = {}
        """The recorded spans by id, over all runs of the trace."""
        self.wanted: set[str] = set()
        """Spans that recorded spans are part of."""
        self.left_out: set[str] = set()
        """Spans that a gap counts: they are not counted again when they are sent again."""
        self.is_sampled = False
        self.root_ended = False

    @property
    def size(self) -> int:
        """The number of ids in memory."""
        return 1 + len(self.known) + len(self.left_out)

    def add_span(self, span: str, within: str, *, is_root: bool, digest: bytes = b"") -> None:
        """Count a span that is recorded in the current run."""
        self.known[span] = KnownSpan(self.run, digest)
        self.spans += 1
        if within:
            self.wanted.add(within)
        self.root_ended |= is_root

    def begin_next_run(self) -> None:
        """Continue with another run; the current one is closed or full."""
        self.continues = self.run
        self.number += 1
        self.run = f"{report_kinds.TRACE_RUN_PREFIX}{self.trace}.{self.number}"
        self.main, self.spans = None, 0


def read_trace_state(ledger: Ledger, trace: str, by: str) -> TraceState:
    """Read everything that a reporter has told of a trace."""
    state = TraceState(trace, by)
    while True:
        if _is_foreign(ledger, state.run, by):
            before = state.continues
            state.begin_next_run()
            state.continues = before
        elif _read_run(ledger, state):
            state.begin_next_run()
        else:
            return state


def _is_foreign(ledger: Ledger, run: str, by: str) -> bool:
    """Return whether a run has the name of a trace, and another opened it, or not for a trace.

    Spans that join it would be taken for what its own writer did: the id of a trace is no secret.
    """
    data = ledger.store.read_strand(run, MAIN_STRAND)
    facts = [entry.facts for entry in map(ledger.kinds.read, islice(data, 2))]
    return bool(facts) and not any(
        isinstance(fact, report_kinds.ReportSourceFacts)
        and fact.told is report_kinds.ReportProvenance.REPORTED
        and fact.by == by
        for fact in facts
    )


def _read_run(ledger: Ledger, state: TraceState) -> bool:
    """Read the current run; return whether it is over, so that another one continues it."""
    # Read the end of `main` first.  If more is added meanwhile, our next commit is refused.
    main = ledger.open_strand_at_end(state.run, MAIN_STRAND)
    if not main.length:
        return False
    state.main, is_over = main, False
    has_trace = False
    for data in ledger.store.read_strand(state.run, MAIN_STRAND):
        entry = ledger.kinds.read(data)
        is_over |= _read_main_entry(ledger, state, entry)
        has_trace |= isinstance(entry.facts, report_kinds.ReportSourceFacts) and bool(
            entry.facts.trace
        )
    for position, data in ledger.store.entries_of_run(state.run):
        facts = ledger.kinds.read(data).facts if position.strand != MAIN_STRAND else None
        if isinstance(facts, report_kinds.ReportStepFacts):
            state.add_span(facts.span, facts.within, is_root=has_trace and not facts.within)
    return is_over


def _read_main_entry(ledger: Ledger, state: TraceState, entry: Entry[Any]) -> bool:
    """Read an entry of `main`; return whether the run takes no more spans after it."""
    facts = entry.facts
    if isinstance(facts, report_kinds.ReportGapFacts):
        state.is_sampled |= facts.why is report_kinds.GapReason.SAMPLED
        body = read_body(ledger.store, entry, "spans") if entry.bodies else None
        if body is not None:
            state.left_out.update(msgspec.json.decode(body, type=list[str]))
        return facts.why is report_kinds.GapReason.LIMIT
    return isinstance(facts, RunCloseFacts)


class _CachedStates:
    """States of traces, and how many ids of spans they hold."""

    def __init__(self) -> None:
        self.states: OrderedDict[tuple[str, str], TraceState] = OrderedDict()
        """By trace and reporter."""
        self.size = 0


class TraceCache:
    """The states of the traces that were reported last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cached = DatabaseMemory(ledger.store.lineage, _CachedStates)

    def take(self, trace: str, by: str) -> TraceState:
        """Remove and return the state of a trace of a reporter.

        It is removed so that a failure before `put` leaves no state that runs ahead of the record.
        """
        cached = self._cached.value
        state = cached.states.pop((trace, by), None)
        if state is None:
            return read_trace_state(self._ledger, trace, by)
        cached.size -= state.size
        return state

    def put(self, state: TraceState) -> None:
        """Keep a state that agrees with the record, and drop the oldest if there are too many."""
        cached = self._cached.value
        cached.states[state.trace, state.by] = state
        cached.size += state.size
        while cached.size > _MAX_CACHED_IDS and len(cached.states) > 1:
            _, oldest = cached.states.popitem(last=False)
            cached.size -= oldest.size
