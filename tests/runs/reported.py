"""A writer of runs that Forum does not drive, for the tests of several rooms."""

from msgspec.structs import replace

from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs.report_drafts import (
    gap_draft,
    names_body,
)
from forum.runs.report_kinds import (
    A_RUN,
    GapReason,
    Names,
    Operation,
    ReportBeginFacts,
    ReportGapFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
    label_name,
)
from forum.runs.reported_run import open_reported_run

DOLLAR = 10**9
TOLD = ReportSourceFacts(ReportProvenance.WRAPPED, by="process:1", framework="plain")


class ReportedRun:
    """A run that a program reports, span by span."""

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        name: str = "Stock Keeper",
        source: ReportSourceFacts = TOLD,
    ) -> None:
        self.ledger, self.run = ledger, run
        self.label = label_name(name, A_RUN)
        self._writer = open_reported_run(ledger, run, name, source, actor=self.label)
        (self.source,) = self._writer.parents
        self.main = ledger.open_strand_at_end(run, MAIN_STRAND)
        self._begun: dict[str, tuple[Strand, ReportBeginFacts]] = {}

    def begin(self, facts: ReportBeginFacts, name: str = "") -> None:
        """Record that a step is about to be made."""
        strand = self._writer.new_strand(facts.span)
        strand.append(self._writer.begin_draft(facts, names_body(Names(name or facts.name))))
        self._begun[facts.span] = (strand, facts)

    def end(self, facts: ReportStepFacts, name: str = "", error: bytes = b"") -> None:
        """Record that a step was made."""
        bodies = names_body(Names(name or facts.name))
        if error:
            bodies += (Attachment("error", BytesContent(error)),)
        strand, begun = self._begun.pop(facts.span, (None, None))
        strand = strand or self._writer.new_strand(facts.span)
        strand.append(self._writer.step_draft(facts, bodies, begun))

    def call(self, span: str, usd: int = 0, within: str = "", *, tokens: int = 0) -> None:
        """Record a call of a model, with twice its cost reserved before."""
        begun = ReportBeginFacts(
            Operation.MODEL, "chat", span, within, usd=2 * usd, tokens=2 * tokens, calls=1
        )
        self.begin(begun)
        self.end(
            ReportStepFacts(
                op=Operation.MODEL,
                name="chat",
                outcome=Outcome.OK,
                span=span,
                within=within,
                micros=1500,
                model="gpt-5",
                input_tokens=tokens,
                usd=usd,
            )
        )

    def step(
        self,
        span: str,
        name: str,
        within: str = "",
        outcome: Outcome = Outcome.OK,
        error: bytes = b"",
        op: Operation = Operation.TOOL,
    ) -> None:
        """Record a step afterwards."""
        facts = ReportStepFacts(
            op=op,
            name=label_name(name, op),
            outcome=outcome,
            span=span,
            within=within,
            code="ValueError" if error else "",
        )
        self.end(facts, name, error)

    def lose(self, steps: int, why: GapReason = GapReason.OVERFLOW) -> None:
        """Record that steps are missing."""
        self.main.append(gap_draft(ReportGapFacts(why, steps), f"{why}{steps}", self.label))

    def add(self, strand: str, draft: Draft) -> None:
        """Record any entry in a strand."""
        self.ledger.open_strand_at_end(self.run, strand).append(
            replace(draft, parents=(self.source,))
        )

    def close(self, outcome: Outcome = Outcome.OK) -> None:
        """End the run."""
        self.ledger.close_run(self.main, self.label, outcome)


def write_sample(ledger: Ledger, run: str, suffix: str = "", *, fails: bool = False) -> None:
    """Record a run with every part that a view shows; the suffix makes its span ids its own."""
    reported = ReportedRun(ledger, run, source=replace(TOLD, usd=DOLLAR))
    reported.step(f"agent{suffix}", "Ann Größe", op=Operation.AGENT)
    reported.call(f"call{suffix}", DOLLAR // 100, f"agent{suffix}", tokens=100)
    outcome = Outcome.FAILED if fails else Outcome.OK
    reported.step(
        f"tool{suffix}", "search", f"agent{suffix}", outcome, error=b"bad query" if fails else b""
    )
    reported.step(f"orphan{suffix}", "look up", f"gone{suffix}")
    reported.begin(
        ReportBeginFacts(Operation.MODEL, "chat", f"open{suffix}", usd=DOLLAR // 10, calls=1)
    )
    reported.lose(12)
    reported.close(outcome)
