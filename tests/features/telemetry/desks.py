"""An intake over a log that several processes could have open, and what is recorded there."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from forum.app import KINDS
from forum.features.telemetry.intake import IntakeCounts, IntakeRules, TelemetryIntake
from forum.features.telemetry.spans import Cost, TokenUsage, read_spans
from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.log import Ledger, read_body
from forum.ledger.ports import EntryWrite, Store
from forum.runs.report_kinds import GapReason, ReportGapFacts, ReportStepFacts

MICRO = 1_000_000


def free_of_charge(_model: str, _provider: str, _usage: TokenUsage) -> Cost:
    """Return no cost."""
    return Cost(0, "")


@dataclass
class Desk:
    """One process that takes reports in."""

    store: Store
    rules: IntakeRules = field(default_factory=IntakeRules)
    clock: Iterator[int] = field(default_factory=lambda: count(1_790_000_000 * MICRO, 1000))

    interrupt: Callable[[], object] | None = None
    """What happens just before the next commit, once."""

    def __post_init__(self) -> None:
        """Open the ledger."""
        self.ledger = Ledger(
            store=self.store,
            kinds=KINDS,
            clock=self.clock.__next__,
            salts=lambda: secrets.token_bytes(32),
            append=self._append,
        )
        self.intake = TelemetryIntake(self.ledger, self.rules)

    def _append(self, records: Sequence[EntryWrite]) -> None:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        self.store.append(records)

    def take(self, request: ExportTraceServiceRequest, by: str = "key/test") -> IntakeCounts:
        """Record a request of spans."""
        return self.intake.record(read_spans(request, free_of_charge), by)


def entries(ledger: Ledger, run: str) -> list[Entry[Any]]:
    """Return the entries of a run."""
    return [ledger.kinds.read(data) for _, data in ledger.store.entries_of_run(run)]


def main_kinds(ledger: Ledger, run: str) -> list[str]:
    """Return the kinds of the entries of `main`."""
    return [ledger.kinds.read(d).kind for d in ledger.store.read_strand(run, MAIN_STRAND)]


def steps(ledger: Ledger, run: str) -> dict[str, Entry[ReportStepFacts]]:
    """Return the spans of a run, by id."""
    found = [e for e in entries(ledger, run) if isinstance(e.facts, ReportStepFacts)]
    return {entry.facts.span: entry for entry in found}


def gaps(ledger: Ledger, run: str) -> dict[GapReason, int]:
    """Return how many steps each gap of a run counts."""
    counted: dict[GapReason, int] = {}
    for entry in entries(ledger, run):
        if isinstance(entry.facts, ReportGapFacts):
            counted[entry.facts.why] = counted.get(entry.facts.why, 0) + entry.facts.steps
    return counted


def body(ledger: Ledger, entry: Entry[Any], name: str) -> str:
    """Return a body as text."""
    content = read_body(ledger.store, entry, name)
    assert content is not None
    return content.decode()
