"""Recording of runs that Forum does not drive, by a process that stands around their calls."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from forum.app.clock_ids_and_kinds import new_run_id
from forum.app.open_calls import GATEWAY_ACTOR, hold_open_runs
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.errors import ConcurrentUpdate, NoSuchRun, RunAlreadyEnded
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome, RunOpenFacts
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import UNLIMITED
from forum.ledger.strand import Attachment, Strand
from forum.runs import kinds
from forum.runs.policy import Answer, Policy
from forum.runs.report_kinds import (
    ReportBeginFacts,
    ReportSourceFacts,
    ReportStepFacts,
    program_label,
)
from forum.runs.reported_run import ReportedRunWriter, close_reported_run, open_reported_run

_POLL_INTERVAL_S = 0.2
_FOLDER = "reports"
"""The folder of the session files, beside the ledger."""


class BegunStep:
    """A step that is on record before it is made."""

    def __init__(self, writer: ReportedRunWriter, strand: Strand, facts: ReportBeginFacts) -> None:
        self.facts, self._writer = facts, writer
        self._strand = strand

    async def end(self, facts: ReportStepFacts, bodies: Sequence[Attachment] = ()) -> None:
        """Record how the step ended, unless another process has recorded it as lost."""
        draft = self._writer.step_draft(facts, bodies, self.facts)
        with suppress(ConcurrentUpdate):
            await self._strand.append_exclusive_async(draft)


class ReportSession:
    """The steps that this process records in one run."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ReportedRunWriter,
        new_span: Callable[[], str],
    ) -> None:
        self.run, self.new_span = writer.run, new_span
        self._ledger, self._writer = ledger, writer

    async def begin(self, facts: ReportBeginFacts, bodies: Sequence[Attachment] = ()) -> BegunStep:
        """Record that a step is about to be made, and return when that is durable.

        Raises `RunAlreadyEnded`, and `BudgetExceeded` if a capped run cannot pay for the step.
        """
        await asyncio.to_thread(self._check_open)
        return BegunStep(self._writer, await self._writer.begin(facts, bodies), facts)

    async def record(self, facts: ReportStepFacts, bodies: Sequence[Attachment] = ()) -> None:
        """Record a step that was not begun, such as a refused call.  Raises `RunAlreadyEnded`."""
        await asyncio.to_thread(self._check_open)
        await self._writer.record(facts, bodies)

    async def ask_approval(self, subject: str, shown: bytes) -> Answer:
        """Open a gate and wait for its decision; without one, the default answer is to reject."""
        from forum.engine import end_gate, open_gate_draft

        strand, policy = self._ledger.new_strand(self.run, kinds.gate_strand(subject)), Policy()
        facts = kinds.GateOpenFacts(subject, policy.gate_milliseconds, policy.gate_default)
        body = Attachment("shown", BytesContent(shown), "application/json")
        # A worker decides the gate by its default later, if this process does not.
        draft = open_gate_draft(self.run, facts, body, self._ledger.now(), actor=GATEWAY_ACTOR)
        await asyncio.to_thread(self._check_open)
        await strand.append_exclusive_async(replace(draft, parents=self._writer.parents))
        try:
            # Another process decides, so there is nothing in this one to wait for.
            while (answer := await asyncio.to_thread(self._read_answer, subject)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_INTERVAL_S)
        except asyncio.CancelledError:
            # Whoever asked has gone: the gate must not wait for a decision that has no effect.
            ended = asyncio.to_thread(end_gate, self._ledger, self.run, subject, GATEWAY_ACTOR)
            await asyncio.shield(ended)
            raise
        return answer

    def _read_answer(self, subject: str) -> Answer | None:
        from forum.engine import expire_gate, find_gate

        gate = find_gate(self._ledger, self.run, subject)
        expire_gate(self._ledger, self.run, gate)
        return gate.decided.answer if gate.decided else None

    def _check_open(self) -> None:
        # A span that begins after the close would contradict the list of strands in the close.
        # Who closes a run waits for those who record in it; this finds the ones that are late.
        if self._ledger.is_closed(self.run):
            raise RunAlreadyEnded(self.run)


class ReportOperations:
    """Records runs that Forum does not drive."""

    def __init__(self, project: ProjectContext, reads: RunReads) -> None:
        self._project, self._reads = project, reads

    @contextmanager
    def open_session(
        self, name: str, source: ReportSourceFacts, run: str | None = None
    ) -> Iterator[ReportSession]:
        """Open a run, and close it at the end of the block; or record in an open run.

        Call this within `LogOperations.open_writer`.  Raises `RunAlreadyEnded` or `NoSuchRun`.
        """
        ledger = self._project.ledger
        with hold_open_runs(self._project.state) as file:
            if run is not None:
                writer = self._find_writer(run)
                file.add(run, owns=False)
                yield ReportSession(ledger, writer, file.new_span)
                return
            run = new_run_id()
            # The file first: a crash in the other order would leave a run that nobody closes.
            file.add(run)
            writer = open_reported_run(ledger, run, name, source)
            outcome = Outcome.FAILED
            try:
                yield ReportSession(ledger, writer, file.new_span)
                outcome = Outcome.OK
            finally:
                close_reported_run(ledger, run, program_label(name), outcome)

    @staticmethod
    def server_environment(names: Sequence[str]) -> dict[str, str]:
        """Return the environment of an MCP server: what it needs, and the named variables."""
        from forum.models.process_environment import allowed_environment

        return allowed_environment(names)

    def _find_writer(self, run: str) -> ReportedRunWriter:
        """Return a writer of an open run, whose spans follow from the entry about its source."""
        state = self._reads.read_run(run)
        if not state.is_reported:
            raise NoSuchRun(f"{run} is not a run that other programs record in")
        if state.outcome is not None:
            raise RunAlreadyEnded(run)
        entries = read_strand_entries(self._project.ledger, run, MAIN_STRAND)
        parents = {type(entry.facts): leaf for leaf, entry in entries}
        parent = parents.get(ReportSourceFacts) or parents[RunOpenFacts]
        source = state.report.source
        return ReportedRunWriter(
            self._project.ledger, run, parent, source.cap if source else UNLIMITED
        )
