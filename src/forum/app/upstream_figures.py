"""How the providers of reported model calls have answered lately: latency, failures, refusals.

They are counted in the newest entries of the log, of which a request reads at most `MAX_ENTRIES`:
the work does not grow with the log.
"""

from collections import Counter

from msgspec import Struct

from forum.app.clock_ids_and_kinds import KINDS
from forum.app.project import ProjectContext
from forum.ledger.entry import peek_kind
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation, ReportStepFacts
from forum.runs.run_summary import OTHER_AGENTS

MAX_ENTRIES = 10_000
"""The number of entries that one request reads."""
MAX_UPSTREAMS = 100
"""The number of providers that are told apart; reporters name them as they like."""
_PAGE_SIZE = 1000
_MAX_CLOCK_SKEW_US = 60_000_000
"""Tolerated difference between the clocks of two writers, in microseconds."""


class UpstreamCalls(Struct):
    """The calls that one provider got."""

    calls: int = 0
    failed: int = 0
    usd: int = 0
    """In nano-dollars."""
    durations: list[int] = []
    """In microseconds, of the calls that ended well."""

    def percentile(self, percent: int) -> int:
        """Return the duration within which so many of the calls ended well; 0 if none did."""
        ordered = sorted(self.durations)
        return ordered[(len(ordered) * percent + 99) // 100 - 1] if ordered else 0


class UpstreamFigures(Struct):
    """The calls of all providers, and those that were refused."""

    by_provider: dict[str, UpstreamCalls] = {}
    refused: Counter[str] = Counter()
    """The calls that were refused before they were made, by reason."""
    since: int = 0
    """The time of the oldest entry that was read, if older ones were not; 0 if all were."""

    def add_step(self, step: ReportStepFacts) -> None:
        """Count a call."""
        if step.op is not Operation.MODEL or step.is_taken_back:
            return
        if step.outcome is Outcome.DENIED:
            self.refused[_limit_key(self.refused, step.code)] += 1
            return
        key = _limit_key(self.by_provider, step.provider)
        upstream = self.by_provider.setdefault(key, UpstreamCalls())
        upstream.calls += 1
        upstream.usd += step.usd
        if step.outcome is Outcome.OK:
            upstream.durations.append(step.micros)
        else:
            upstream.failed += 1


def count_upstream_calls(project: ProjectContext, since: int, until: int) -> UpstreamFigures:
    """Count the reported calls of a period, as far as the newest entries have them."""
    figures = UpstreamFigures(refused=Counter())
    with project.open_reader() as reader:
        stop = size = reader.head().size
        while stop > 0:
            if size - stop >= MAX_ENTRIES:
                return figures
            start = max(0, stop - _PAGE_SIZE)
            page = [data for data in reader.entries(start, stop) if data is not None]
            for data in page:
                if peek_kind(data) == _STEP_KIND:
                    entry = KINDS.read(data)
                    if since <= entry.ts < until and isinstance(entry.facts, ReportStepFacts):
                        figures.add_step(entry.facts)
            if page:
                figures.since = KINDS.read(page[0]).ts
                if figures.since < since - _MAX_CLOCK_SKEW_US:
                    break
            stop = start
    figures.since = 0
    return figures


_STEP_KIND = b"report.step/1"


def _limit_key(counted: dict[str, UpstreamCalls] | Counter[str], key: str) -> str:
    return key if key in counted or len(counted) < MAX_UPSTREAMS else OTHER_AGENTS
