"""Recording of runs that Forum does not drive, by a process that stands around their calls."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

from msgspec.structs import replace

from forum.app.environment import new_run_id
from forum.app.open_calls import hold_open_runs
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.app.tool_pin import ToolPin
from forum.errors import ConcurrentUpdate, Conflict, NoSuchRun, RunAlreadyEnded
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome, RunOpenFacts
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import Timer
from forum.ledger.strand import Attachment, Draft, Strand
from forum.tlog import Hash
from forum.work import kinds
from forum.work.policy import Answer, Policy
from forum.work.report_drafts import begin_draft, source_draft, step_draft
from forum.work.report_kinds import (
    ReportBeginFacts,
    ReportSourceFacts,
    ReportStepFacts,
    program_label,
    span_strand,
)

_POLL_INTERVAL_S = 0.2
_PIN_FOLDER = "mcp-tools"
_FOLDER = "reports"
"""The folder of the session files, beside the ledger."""


class BegunStep:
    """A step that is on record before it is made."""

    def __init__(self, strand: Strand, facts: ReportBeginFacts, *, capped: bool) -> None:
        self.facts, self._strand, self._capped = facts, strand, capped

    async def end(self, facts: ReportStepFacts, bodies: Sequence[Attachment] = ()) -> None:
        """Record how the step ended, unless another process has recorded it as lost."""
        draft = step_draft(self._strand.run, facts, bodies, begun=self.facts, capped=self._capped)
        with suppress(ConcurrentUpdate):
            await self._strand.append_exclusive_async(draft)


class ReportSession:
    """The steps that this process records in one run."""

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        new_span: Callable[[], str],
        source: Hash,
        source_facts: ReportSourceFacts | None,
    ) -> None:
        self.run, self.new_span = run, new_span
        self._ledger, self._source = ledger, source
        self._capped = source_facts is not None and source_facts.is_capped

    async def begin(self, facts: ReportBeginFacts, bodies: Sequence[Attachment] = ()) -> BegunStep:
        """Record that a step is about to be made, and return when that is durable.

        Raises `RunAlreadyEnded`, and `BudgetExceeded` if a capped run cannot pay for the step.
        """
        await asyncio.to_thread(self._check_open)
        strand = self._ledger.new_strand(self.run, span_strand(facts.span))
        draft = begin_draft(self.run, facts, bodies, capped=self._capped)
        await strand.append_exclusive_async(replace(draft, parents=(self._source,)))
        return BegunStep(strand, facts, capped=self._capped)

    async def record(self, facts: ReportStepFacts, bodies: Sequence[Attachment] = ()) -> None:
        """Record a step that was not begun, such as a refused call.  Raises `RunAlreadyEnded`."""
        await asyncio.to_thread(self._check_open)
        strand = self._ledger.new_strand(self.run, span_strand(facts.span))
        draft = step_draft(self.run, facts, bodies)
        await strand.append_exclusive_async(replace(draft, parents=(self._source,)))

    async def ask_approval(self, subject: str, shown: bytes) -> Answer:
        """Open a gate and wait for its decision; without one, the default answer is to reject."""
        strand = self._ledger.new_strand(self.run, kinds.gate_strand(subject))
        policy, now = Policy(), self._ledger.now()
        facts = kinds.GateOpenFacts(subject, policy.gate_milliseconds, policy.gate_default)
        body = Attachment("shown", BytesContent(shown), "application/json")
        # The timer lists the gate for those who decide; a worker decides it by its default later.
        timer = Timer(self.run, strand.name, now + 1000 * policy.gate_milliseconds)
        draft = Draft(
            step="open",
            actor="gateway",
            facts=facts,
            parents=(self._source,),
            bodies=(body,),
            effects=(timer,),
        )
        await asyncio.to_thread(self._check_open)
        await strand.append_exclusive_async(draft)
        try:
            # Another process decides, so there is nothing in this one to wait for.
            while (answer := await asyncio.to_thread(self._read_answer, subject)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_INTERVAL_S)
        except asyncio.CancelledError:
            # Whoever asked has gone: the gate must not wait for a decision that has no effect.
            await asyncio.shield(asyncio.to_thread(self._withdraw, subject))
            raise
        return answer

    def _read_answer(self, subject: str) -> Answer | None:
        from forum.engine import expire_gate, find_gate

        gate = find_gate(self._ledger, self.run, subject)
        expire_gate(self._ledger, self.run, gate)
        return gate.decided.answer if gate.decided else None

    def _withdraw(self, subject: str) -> None:
        from forum.engine import decide_gate, find_gate

        gate = find_gate(self._ledger, self.run, subject)
        ended = kinds.GateDecisionFacts(Answer.REJECT, gate.digest, kinds.Decider.END)
        with suppress(Conflict):  # a decision came first
            decide_gate(self._ledger, self.run, subject, ended, "gateway")

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
                parent, facts = self._find_source(run)
                file.add(run, owns=False)
                yield ReportSession(ledger, run, file.new_span, parent, facts)
                return
            run = new_run_id()
            # The file first: a crash in the other order would leave a run that nobody closes.
            file.add(run)
            opening = source_draft(run, name, source)
            main = ledger.open_run(run, program_label(name), opening, new=True)
            assert main.head is not None  # noqa: S101  it was just opened
            outcome = Outcome.FAILED
            try:
                yield ReportSession(ledger, run, file.new_span, main.head, source)
                outcome = Outcome.OK
            finally:
                ledger.close_run(main, program_label(name), outcome)

    @staticmethod
    def server_environment(names: Sequence[str]) -> dict[str, str]:
        """Return the environment of an MCP server: what it needs, and the named variables."""
        from forum.models.process_environment import allowed_environment

        return allowed_environment(names)

    def tool_pin(self, command: Sequence[str], name: str, wanted: str) -> ToolPin:
        """Return the pin of the tools of the MCP server that a command starts."""
        key = sha256("\0".join(command).encode(errors="replace")).hexdigest()[:32]
        return ToolPin(self._project.state / _PIN_FOLDER / f"{key}.json", name, wanted)

    def _find_source(self, run: str) -> tuple[Hash, ReportSourceFacts | None]:
        """Return the entry that the spans of an open run depend on, and its source."""
        state = self._reads.read_run(run)
        if not state.is_reported:
            raise NoSuchRun(f"{run} is not a run that other programs record in")
        if state.outcome is not None:
            raise RunAlreadyEnded(run)
        entries = read_strand_entries(self._project.ledger, run, MAIN_STRAND)
        parents = {type(entry.facts): leaf for leaf, entry in entries}
        parent = parents.get(ReportSourceFacts) or parents[RunOpenFacts]
        return parent, state.report.source
