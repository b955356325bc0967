"""Record the steps of a run that Forum does not drive.

A gateway, the SDK and a server write the same entries: `begin` before a step that spends or acts,
with its highest cost reserved in the commit of that entry, and the end after it.  A crash between
them leaves a step without an end; `record_lost` ends it, at its full price.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from forum.errors import ConcurrentUpdate, StepMismatch
from forum.ledger import ports
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.ledger.log import Ledger, StrandEnd, read_strand_entries
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs import report_kinds
from forum.runs.kinds import gate_strand
from forum.runs.report_drafts import gap_draft, source_draft
from forum.runs.spending import cost_of
from forum.tlog import Hash


class ReportedRunWriter:
    """Records the steps of one open run."""

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        cause: Hash | None = None,
        cap: ports.Amount = ports.UNLIMITED,
        *,
        program: str = "",
    ) -> None:
        """Take a run with its cap, and the entry that the first entries of its spans follow from.

        A writer without a cause begins no spans.  `program` is the label of the run.
        """
        self.program = program
        self.run, self.cause = run, cause
        self._ledger, self._cap = ledger, cap

    @property
    def is_capped(self) -> bool:
        """Whether the run has an account."""
        return self._cap != ports.UNLIMITED

    @property
    def account(self) -> ports.BudgetAccount | None:
        """What the run has spent of its cap; None without a cap."""
        return self._ledger.store.account(self.run) if self.is_capped else None

    @property
    def limited(self) -> tuple[str, ...]:
        """The units that have a limit."""
        return tuple(
            unit for unit in ports.Amount._fields if getattr(self._cap, unit) < ports.NO_LIMIT
        )

    def begin_draft(
        self,
        facts: report_kinds.ReportBeginFacts,
        bodies: Sequence[Attachment] = (),
        charges: Sequence[ports.BudgetSliceCharge] = (),
    ) -> Draft:
        """Return the entry before a step, which reserves its highest cost, also of shared caps.

        Recording it raises `BudgetExceeded` if a capped run cannot pay that much.
        """
        effects: tuple[ports.Effect, ...] = tuple(charges)
        if self.is_capped and facts.reserved != ports.Amount():
            effects = (ports.BudgetCharge(self.run, facts.reserved), *effects)
        return Draft(
            step="begin",
            actor=facts.agent or facts.name,
            facts=facts,
            parents=self.parents,
            bodies=tuple(bodies),
            effects=effects,
        )

    def step_draft(
        self,
        facts: report_kinds.ReportStepFacts,
        bodies: Sequence[Attachment] = (),
        begun: report_kinds.ReportBeginFacts | None = None,
        charges: Sequence[ports.BudgetSliceCharge] = (),
    ) -> Draft:
        """Return the entry after a step, which settles the reservation that was made before it."""
        effects: tuple[ports.Effect, ...] = tuple(charges)
        if self.is_capped and begun is not None:
            settled = cost_of(begun, facts).minus(begun.reserved)
            effects = (ports.BudgetCharge(self.run, settled, guarded=False), *effects)
        return Draft(
            step="end",
            actor=facts.agent or facts.name,
            facts=facts,
            # The second entry of a strand follows from the first; only a first one needs a cause.
            parents=() if begun else self.parents,
            bodies=tuple(bodies),
            effects=effects,
        )

    @property
    def parents(self) -> tuple[Hash, ...]:
        """What the first entry of a span or a gate follows from."""
        return () if self.cause is None else (self.cause,)

    def new_strand(self, span: str) -> Strand:
        """Return the strand of a span that is not recorded yet."""
        return self._ledger.new_strand(self.run, report_kinds.span_strand(span))

    async def begin(
        self,
        facts: report_kinds.ReportBeginFacts,
        bodies: Sequence[Attachment] = (),
        charges: Sequence[ports.BudgetSliceCharge] = (),
    ) -> Strand:
        """Record that a step is about to be made, and return its strand once that is durable.

        Raises `BudgetExceeded` if a capped run cannot pay for the step.
        """
        strand = self.new_strand(facts.span)
        await strand.append_exclusive_async(self.begin_draft(facts, bodies, charges))
        return strand

    async def record(
        self, facts: report_kinds.ReportStepFacts, bodies: Sequence[Attachment] = ()
    ) -> None:
        """Record a step that was not begun, because it costs nothing or was not made."""
        draft = self.step_draft(facts, bodies)
        await self.new_strand(facts.span).append_exclusive_async(draft)

    def record_lost(self, owner: str = "") -> int:
        """Record steps whose process has died as lost, and return their number.

        They are those that have begun and not ended, and whose spans begin with `owner`.
        """
        lost = 0
        for name, length in self._ledger.store.strand_lengths(self.run).items():
            if length != 1 or not name.startswith(report_kinds.span_strand(owner)):
                continue
            strand = self._ledger.open_strand(self.run, name)
            begun = strand.loaded_entries[0].entry.facts
            if isinstance(begun, report_kinds.ReportBeginFacts):
                strand.replay_step("begin")
                # Another process may be faster: its entry stands.
                with suppress(ConcurrentUpdate):
                    strand.append_exclusive(self.step_draft(_lost_step(begun), begun=begun))
                    lost += 1
        return lost

    def append_to_main(self, draft: Draft) -> None:
        """Append to the main strand, unless it has that step already or the run is closed."""
        while True:
            # Opened before it is read: what is appended meanwhile takes the position of the draft.
            main = self._ledger.open_strand_at_end(self.run, MAIN_STRAND)
            entries = [e for _, e in read_strand_entries(self._ledger, self.run, MAIN_STRAND)]
            if any(e.step == draft.step or isinstance(e.facts, RunCloseFacts) for e in entries):
                return
            with suppress(ConcurrentUpdate, StepMismatch):
                main.append_exclusive(draft)
                return


def open_reported_run(
    ledger: Ledger,
    run: str,
    name: str,
    source: report_kinds.ReportSourceFacts,
    charges: Sequence[ports.BudgetSliceCharge] = (),
    *,
    actor: str = "",
) -> ReportedRunWriter:
    """Open a run with a new id, and return its writer; `name` is that of its program."""
    draft = source_draft(run, name, source)
    draft = replace(draft, effects=(*draft.effects, *charges))
    main = ledger.open_run(run, actor or draft.actor, draft, new=True)
    return ReportedRunWriter(ledger, run, main.head, source.cap, program=draft.actor)


def close_reported_run(
    ledger: Ledger,
    run: str,
    actor: str,
    outcome: Outcome,
    gaps: Iterable[report_kinds.ReportGapFacts] = (),
    ends: Sequence[StrandEnd] | None = None,
) -> None:
    """Append the gaps and the close of a run, unless it is closed or was never opened.

    `ends` are the ends of the strands of its spans, if the caller knows them.  A crash between the
    gaps and the close leaves gaps that whoever closes the run finds there.
    """
    while not ledger.is_closed(run):
        main = ledger.open_strand_at_end(run, MAIN_STRAND)
        if not main.length:
            return
        # Another process may append at the same time: what it has appended decides.
        with suppress(ConcurrentUpdate, StepMismatch):
            drafts = [gap_draft(gap, str(gap.why), actor) for gap in gaps]
            if drafts:
                main.append(*drafts)
                gaps = ()
            timers = _cleared_timers(ledger, run)
            # People write to the strands of gates, so the caller does not know their ends.
            ledger.close_run(main, actor, outcome, timers, ends=None if timers else ends)


def _cleared_timers(ledger: Ledger, run: str) -> tuple[ports.Timer, ...]:
    """Return effects that clear the timers that gates have set."""
    gates = [name for name in ledger.store.strands(run) if name.startswith(gate_strand(""))]
    return tuple(ports.Timer(run, name, None) for name in (*gates, MAIN_STRAND)) if gates else ()


def _lost_step(begun: report_kinds.ReportBeginFacts) -> report_kinds.ReportStepFacts:
    """Return the facts of a step whose process died: indeterminate, and paid for in full."""
    return report_kinds.copy_fields(
        report_kinds.ReportStepFacts,
        begun,
        outcome=Outcome.INDETERMINATE,
        input_tokens=begun.tokens if begun.op is report_kinds.Operation.MODEL else 0,
        code="lost",
        cut=0,
    )
