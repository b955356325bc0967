"""Record what programs report: one trace of one reporter is one run, and a span one strand of it.

A span is the first entry of the strand `span/ID`, and a position can be taken once.  So a span that
is sent again, to this process or another, before or after a restart, is recorded once.  Each
request is one commit.  It also appends to `main` of each run that it touches, and that position
fences it against other processes and against the close of the run.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from threading import Lock
from typing import Final

import msgspec
from msgspec.structs import replace

from forum.errors import ConcurrentUpdate, Malformed, PositionTaken
from forum.features.telemetry.log_events import SkippedRecord
from forum.features.telemetry.spans import MalformedSpan, ReportedSpan, SpanSource
from forum.features.telemetry.trace_state import TraceCache, TraceState
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger
from forum.ledger.ports import Timer, due_now
from forum.ledger.strand import Attachment, Draft, JointAppend, Strand
from forum.runs import report_kinds
from forum.runs.report_closing import CLOSE_TIMER, DEFAULT_PATIENCE, ReportPatience
from forum.runs.report_comparison import says_same
from forum.runs.report_drafts import gap_draft, source_draft
from forum.runs.reported_run import ReportedRunWriter
from forum.tlog import Hash

MAX_REQUEST_SPANS: Final = 10_000
MAX_RUN_SPANS: Final = 5_000
_MAX_ATTEMPTS: Final = 20
"""Commits that are tried while other processes append to the same runs."""
_MAX_GAP_IDS: Final = 5_000
"""Ids in the body of one gap."""

Report = ReportedSpan | MalformedSpan | SkippedRecord


class IntakeCounts(msgspec.Struct):
    """What became of the parts of one request."""

    recorded: int = 0
    duplicates: int = 0
    """Recorded or counted before."""
    filtered: int = 0
    """Left out by rule."""
    refused: int = 0
    """Malformed, or another content under the id of a recorded span."""

    def add(self, other: "IntakeCounts") -> None:
        """Add the counts of another request."""
        self.recorded += other.recorded
        self.duplicates += other.duplicates
        self.filtered += other.filtered
        self.refused += other.refused


class IntakeRules(msgspec.Struct, frozen=True):
    """What the intake records, and when it closes a run."""

    all_spans: bool = False
    """Record spans without a meaning for agents as well."""
    patience: ReportPatience = DEFAULT_PATIENCE
    max_run_spans: int = MAX_RUN_SPANS


DEFAULT_RULES = IntakeRules()


class TelemetryIntake:
    """Records the spans and events that are reported to one ledger; for any number of threads."""

    def __init__(self, ledger: Ledger, rules: IntakeRules = DEFAULT_RULES) -> None:
        self.ledger, self._rules = ledger, rules
        self._cache = TraceCache(ledger)
        self._lock = Lock()
        self.totals = IntakeCounts()
        """What this process has done; what concerns a run is in its entries."""

    def record(self, reports: Iterable[Report], by: str) -> IntakeCounts:
        """Record the parts of one request durably, in one commit, and return what became of them.

        Raises `ConcurrentUpdate` if other processes append to the same runs all the time, and the
        errors of the store.  Then nothing of the request is recorded.
        """
        counts, by_trace = IntakeCounts(), dict[str, list[Report]]()
        for report in reports:
            if report.trace:
                by_trace.setdefault(report.trace, []).append(report)
            elif isinstance(report, SkippedRecord):
                counts.filtered += 1
            else:
                counts.refused += 1
        # One request at a time: the states of traces are shared, and requests of one exporter
        # are mostly about the same traces.
        with self._lock:
            counts.add(self._commit(by_trace, by))
            self.totals.add(counts)
        return counts

    def _commit(self, by_trace: dict[str, list[Report]], by: str) -> IntakeCounts:
        by = derive_reporter(by)
        for _ in range(_MAX_ATTEMPTS):
            request = _Request(self.ledger, self._rules, by)
            states = [self._cache.take(trace, by) for trace in by_trace]
            try:
                for state in states:
                    request.add_trace(state, by_trace[state.trace])
                request.commit()
            except PositionTaken:
                # Another process has added to one of these runs, or closed it.  Nothing was
                # recorded, and the states were dropped: read them anew.
                continue
            for state in states:
                if state.main is not None:
                    self._cache.put(state)
            return request.counts
        raise ConcurrentUpdate("the runs of these traces")


def derive_reporter(by: str) -> str:
    """Return the name of a reporter in facts."""
    return by[: report_kinds.MAX_REPORTER_CHARS] or "unknown"


class _Request:
    """One commit: the entries for the spans of one request."""

    def __init__(self, ledger: Ledger, rules: IntakeRules, by: str) -> None:
        self._ledger, self._rules = ledger, rules
        self._by = by
        self._append: JointAppend = ledger.join_appends()
        self.counts = IntakeCounts()

    def commit(self) -> None:
        """Record everything, or nothing.  Raises `PositionTaken`."""
        self._append.commit()

    def add_trace(self, state: TraceState, reports: Sequence[Report]) -> None:
        """Add what is new of one trace."""
        fresh, gaps = self._sort(state, reports)
        spans, filtered = self._select(state, fresh)
        # A request lists spans by the library that wrote them.  The log has them as they ended.
        spans.sort(key=lambda span: span.facts.began + span.facts.micros)
        gaps.setdefault(report_kinds.GapReason.FILTERED, []).extend(filtered)
        self.counts.filtered += len(filtered)
        self.counts.recorded += len(spans)
        sampled = any(isinstance(r, ReportedSpan) and r.is_sampled for r in reports)
        if not spans and not any(gaps.values()):
            return
        has_trace = all(r.has_trace for r in reports if isinstance(r, ReportedSpan))
        origin = _Origin(self._by, reports[0].source, has_trace)
        drafts = [*_gap_drafts(gaps), *_sampled_drafts(state, sampled=sampled)]
        while True:
            room = self._rules.max_run_spans - state.spans
            part, spans = spans[:room], spans[room:]
            writer = _RunWriter(self._append, self._ledger, state, self._rules.patience)
            refused = writer.write(part, drafts, origin, is_full=bool(spans))
            self.counts.refused += refused
            self.counts.recorded -= refused
            if not spans:
                return
            state.begin_next_run()
            drafts = []

    def _sort(
        self, state: TraceState, reports: Sequence[Report]
    ) -> tuple[dict[str, ReportedSpan], dict[report_kinds.GapReason, list[str]]]:
        """Return the spans that are new, and the ids of what is to be counted."""
        fresh: dict[str, ReportedSpan] = {}
        gaps: dict[report_kinds.GapReason, list[str]] = {}
        for report in reports:
            reason, key = self._classify(state, fresh, report)
            if reason is None:
                continue
            is_counted = key in state.left_out
            if reason is report_kinds.GapReason.REFUSED:
                # Told each time; the run counts it once.
                self.counts.refused += 1
            elif is_counted:
                self.counts.duplicates += 1
            else:
                self.counts.filtered += 1
            if not is_counted:
                state.left_out.add(key)
                gaps.setdefault(reason, []).append(key)
        return fresh, gaps

    def _classify(
        self, state: TraceState, fresh: dict[str, ReportedSpan], report: Report
    ) -> tuple[report_kinds.GapReason | None, str]:
        """Return why something is left out and by which id; collect a new span in `fresh`."""
        match report:
            case MalformedSpan():
                return report_kinds.GapReason.REFUSED, f"malformed:{report.digest}"
            case SkippedRecord():
                return report_kinds.GapReason.FILTERED, report.id
            case ReportedSpan():
                pass
        if report.id in state.left_out:
            self.counts.duplicates += 1
            return None, ""
        is_known = report.id in state.known
        if not is_known and report.id not in fresh:
            fresh[report.id] = report
            return None, ""
        if self._is_same(state, report) if is_known else _is_equal(fresh[report.id], report):
            self.counts.duplicates += 1
            return None, ""
        return report_kinds.GapReason.REFUSED, f"{report.id}:{content_digest(report).hex()}"

    def _is_same(self, state: TraceState, report: ReportedSpan) -> bool:
        """Return whether a span is the recorded one with its id."""
        run, digest = state.known[report.id]
        if digest and digest == content_digest(report):
            return True
        # Recorded by another process, or with secrets that are masked: compare with the record.
        name = report_kinds.span_strand(report.id)
        (data,) = self._ledger.store.entries_at(run, [(name, 0)])
        entry = self._ledger.kinds.read(data) if data is not None else None
        return entry is not None and says_same(
            self._ledger, entry, report.facts, report.bodies, with_costs=False
        )

    def _select(
        self, state: TraceState, fresh: dict[str, ReportedSpan]
    ) -> tuple[list[ReportedSpan], list[str]]:
        """Return the spans to be recorded, and the ids of the others.

        Recorded are spans with a meaning for agents, roots, and whatever these are part of.
        """
        if self._rules.all_spans:
            return list(fresh.values()), []
        kept: set[str] = set()
        for span in fresh.values():
            if span.is_meaningful or span.is_root or span.id in state.wanted:
                above: ReportedSpan | None = span
                # Stop at a span that was seen: ids may form a circle.
                while above is not None and above.id not in kept:
                    kept.add(above.id)
                    above = fresh.get(above.facts.within)
        filtered = [id_ for id_ in fresh if id_ not in kept]
        state.left_out.update(filtered)
        return [span for span in fresh.values() if span.id in kept], filtered


class _GapDraft(msgspec.Struct, frozen=True):
    """A gap that is recorded with the next commit."""

    why: report_kinds.GapReason
    spans: Sequence[str]


def _gap_drafts(gaps: dict[report_kinds.GapReason, list[str]]) -> list[_GapDraft]:
    return [
        _GapDraft(reason, ids[start : start + _MAX_GAP_IDS])
        for reason, ids in gaps.items()
        for start in range(0, len(ids), _MAX_GAP_IDS)
    ]


def _sampled_drafts(state: TraceState, *, sampled: bool) -> list[_GapDraft]:
    """Return the gap that says once of a trace that it belongs to a sample."""
    if not sampled or state.is_sampled:
        return []
    state.is_sampled = True
    return [_GapDraft(report_kinds.GapReason.SAMPLED, [])]


class _RunWriter:
    """Adds the entries of one run to a commit."""

    def __init__(
        self, append: JointAppend, ledger: Ledger, state: TraceState, patience: ReportPatience
    ) -> None:
        self._append, self._ledger = append, ledger
        self._state = state
        self._patience = patience

    def write(
        self,
        spans: Sequence[ReportedSpan],
        gaps: Sequence[_GapDraft],
        origin: "_Origin",
        *,
        is_full: bool,
    ) -> int:
        """Add spans and gaps, and open the run if it does not exist yet.

        Return how many spans are refused, because their name holds a secret.
        """
        strands, refused = self._open_strands(spans)
        if refused:
            gaps = [*gaps, _GapDraft(report_kinds.GapReason.REFUSED, refused)]
        if is_full:
            gaps = [*gaps, _GapDraft(report_kinds.GapReason.LIMIT, [])]
        state = self._state
        for span, _ in strands:
            digest = content_digest(span)
            state.add_span(span.id, span.facts.within, is_root=span.is_root, digest=digest)
        head = self._write_main(gaps, origin, len(strands), is_full=is_full)
        # The cause of a span is the entry of its request, which names the reporter.
        writer = ReportedRunWriter(self._ledger, state.run, head)
        for span, strand in strands:
            self._append.add(strand, writer.step_draft(span.facts, span.bodies))
        return len(refused)

    def _open_strands(
        self, spans: Sequence[ReportedSpan]
    ) -> tuple[list[tuple[ReportedSpan, Strand]], list[str]]:
        strands, refused = [], []
        for span in spans:
            try:
                strand = self._ledger.new_strand(self._state.run, report_kinds.span_strand(span.id))
            except Malformed:
                # The id holds a secret of this process, and the name of a strand is not masked.
                refused.append(f"secret:{sha256(span.id.encode()).hexdigest()[:16]}")
            else:
                strands.append((span, strand))
        return strands, refused

    def _write_main(
        self, gaps: Sequence[_GapDraft], origin: "_Origin", spans: int, *, is_full: bool
    ) -> Hash:
        """Add the entries of `main`, and return the one that the spans follow from."""
        state = self._state
        drafts = []
        if state.main is None:
            state.main = self._ledger.new_strand(state.run, MAIN_STRAND)
            drafts = self._opening_drafts(origin)
        elif spans:
            batch = report_kinds.ReportBatchFacts(by=origin.by, spans=spans)
            drafts = [Draft(f"batch/{state.main.length}", origin.actor, batch)]
        cause = len(drafts) - 1
        first = state.main.length + len(drafts)
        drafts += [
            gap_draft(
                report_kinds.ReportGapFacts(gap.why, len(gap.spans)),
                f"{gap.why.value}/{number}",
                origin.actor,
                gap.spans,
            )
            for number, gap in enumerate(gaps, first)
        ]
        drafts[-1] = replace(drafts[-1], effects=(self._timer(is_full=is_full),))
        return self._append.add(state.main, *drafts)[max(cause, 0)].leaf

    def _opening_drafts(self, origin: "_Origin") -> list[Draft]:
        state, service = self._state, origin.source.service
        framework = origin.source.framework
        facts = report_kinds.ReportSourceFacts(
            told=report_kinds.ReportProvenance.REPORTED,
            by=origin.by,
            framework=framework,
            trace=state.trace if origin.has_trace else "",
            continues=state.continues,
        )
        opening = self._ledger.draft_opening(origin.actor)
        return [opening, source_draft(state.run, service, facts)]

    def _timer(self, *, is_full: bool) -> Timer:
        run, now = self._state.run, self._ledger.now()
        if is_full:
            return due_now(run, CLOSE_TIMER, now)
        delay = self._patience.delay(root_ended=self._state.root_ended)
        return Timer(run, CLOSE_TIMER, now + delay)


class _Origin(msgspec.Struct, frozen=True):
    """Who reports the spans of one trace in one request."""

    by: str
    source: SpanSource
    has_trace: bool

    @property
    def actor(self) -> str:
        """The actor of the entries in `main`: the program, as it names itself."""
        return report_kinds.program_label(self.source.service)


def _told(facts: report_kinds.ReportStepFacts) -> report_kinds.ReportStepFacts:
    """Return the facts that the program has told; prices may differ from one day to the next."""
    return replace(facts, usd=0, prices="")


def _content(body: Attachment) -> bytes:
    return b"".join(body.content.chunks())


def _is_equal(first: ReportedSpan, second: ReportedSpan) -> bool:
    return content_digest(first) == content_digest(second)


def content_digest(span: ReportedSpan) -> bytes:
    """Return a short digest of everything that the program has told of a span."""
    parts = [msgspec.json.encode(_told(span.facts))]
    for body in sorted(span.bodies, key=lambda body: body.name):
        parts += [body.name.encode(), sha256(_content(body)).digest()]
    return sha256(b"\n".join(parts)).digest()[:8]
