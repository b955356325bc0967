"""Run a deliberation: its turns are tasks of the run, its notes entries of the run's `main` strand.

The protocol makes all decisions, from recorded results only.  So the next driver feeds the record
through the protocol and continues where it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from forum.engine import answer_similarity, context, model_calls, structured_output
from forum.engine.model_calls import StepNames as Calls
from forum.engine.ports import OpenEncoder, ReplySource, TaskHalted
from forum.engine.signals import CancelToken
from forum.engine.tools import ToolRunner
from forum.errors import BodyGone, ConcurrentUpdate
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Position
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs.answer_similarity import SimilarityRequest
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.kinds import TURN_PREFIX, StopReason
from forum.runs.panel_protocol import start_protocol
from forum.runs.policy import ToolCall
from forum.runs.prompt import build_prompt
from forum.runs.run_fold import Run, TaskRun
from forum.runs.session_steps import (
    CUT_OFF_REASONS,
    AgentTurn,
    BatchResult,
    Session,
    SessionNote,
    SessionResult,
    ToolProbe,
    TurnBatch,
    TurnResult,
    TurnStatus,
    advance_protocol,
    collect_results,
    similarity_note,
)
from forum.runs.turn_results import build_turn_result
from forum.tlog import Hash


def read_session(
    ledger: Ledger, run_input: context.RunInput, reply_source: ReplySource | None = None
) -> Session:
    """Return the session of a run: its problem, policy and start.

    A replay takes the start from the record, so that the protocol computes with the same times.
    """
    problem = context.read_request(ledger, run_input.run).decode(errors="replace")
    started = reply_source.accepted_at() if reply_source else None
    return Session(problem, run_input.policy, run_input.begun if started is None else started)


def note_draft(note: SessionNote, causes: tuple[Hash, ...], actor: str = context.ENGINE) -> Draft:
    """Return the draft that records a note."""
    bodies = (Attachment(body.name, BytesContent(body.data), body.media) for body in note.bodies)
    return Draft(
        step=note.step, actor=actor, facts=note.facts, parents=causes, bodies=tuple(bodies)
    )


def read_turn_result(ledger: Ledger, task: TaskRun) -> TurnResult | None:
    """Return the result of a turn, or None while it is not over."""

    def read(at: Position, name: str) -> bytes:
        try:
            return context.read_body(ledger, at, name, MAX_READ_BYTES)
        except BodyGone:
            return b""  # erased meanwhile: treat the output as empty

    return build_turn_result(task, read)


@dataclass(slots=True)
class SessionRecord:
    """The recorded turns and notes of a session."""

    ledger: Ledger
    state: Run
    notes: Mapping[str, Hash]
    """The leaf hashes of the entries of `main`, by step; notes are among them."""
    reply_source: ReplySource | None = None
    last: Hash | None = None
    """The last note that the protocol produced; it is the cause of the next turns."""

    def read_turn(self, turn: str) -> TurnResult | None:
        """Return the result of a turn, or None while it is not over.

        In a replay, the result carries the time of the original reply.
        """
        result = read_turn_result(self.ledger, self.state.task(TURN_PREFIX + turn))
        ended = self.reply_source.last_reply_at(TURN_PREFIX + turn) if self.reply_source else None
        if result is None or not result.at or ended is None:
            return result
        return replace(result, at=ended)

    def has_note(self, note: SessionNote) -> bool:
        """Return whether a note is recorded; if so, it becomes the last one."""
        self.last = self.notes.get(note.step, self.last)
        return note.step in self.notes

    @property
    def stopped(self) -> StopReason | None:
        """The reason why the run was stopped, or None."""
        return self.state.stopped.reason if self.state.stopped else None


def read_session_record(
    ledger: Ledger, run: str, reply_source: ReplySource | None = None
) -> SessionRecord:
    """Read the recorded turns and notes of a session."""
    return SessionRecord(
        ledger,
        context.read_run(ledger, run),
        context.leaves_by_step(ledger, run, MAIN_STRAND),
        reply_source,
    )


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn that is due, as the protocol described it."""

    turn: AgentTurn | ToolProbe
    run_input: context.RunInput
    cause: Hash
    """The last note before the turn."""


class TurnRegistry:
    """The pending turns of all sessions that are driven in this process.

    Prompts are not recorded before a turn starts, so a turn can only run where its session does.
    """

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], PendingTurn] = {}

    @contextmanager
    def register(self, turns: Iterable[PendingTurn]) -> Iterator[None]:
        """Make these turns available to `find` while the context is open."""
        held = {(due.run_input.run, TURN_PREFIX + due.turn.name): due for due in turns}
        self._due.update(held)
        try:
            yield
        finally:
            # A second driver of the run in this process may have registered the same turns: remove
            # only our own.
            for place, due in held.items():
                if self._due.get(place) is due:
                    del self._due[place]

    def find(self, run: str, task: str) -> PendingTurn:
        """Return a pending turn.  Raises `ConcurrentUpdate` if its session is not driven here."""
        try:
            return self._due[run, task]
        except KeyError:
            raise ConcurrentUpdate(f"turn {run}/{task}") from None


TurnExecutor = Callable[[Sequence[str], Hash], Awaitable[Run]]
"""Runs the named tasks with a cause, and returns the state of the run afterwards."""


class SessionRunner:
    """Drives one session: feeds results to its protocol, records its notes, runs its turns."""

    def __init__(
        self,
        ledger: Ledger,
        run_input: context.RunInput,
        main: Strand,
        reply_source: ReplySource | None,
        turn_registry: TurnRegistry,
        open_encoder: OpenEncoder,
    ) -> None:
        self._ledger, self._run_input = ledger, run_input
        self._main, self._reply_source = main, reply_source
        self._pending_turns, self._open_encoder = turn_registry, open_encoder

    async def run_to_close(self, take: TurnExecutor) -> SessionResult:
        """Drive the session until the protocol closes it, and return its result."""
        ledger, run_input = self._ledger, self._run_input
        reply_source = self._reply_source
        session = await asyncio.to_thread(read_session, ledger, run_input, reply_source)
        self._record = await asyncio.to_thread(
            read_session_record, ledger, run_input.run, reply_source
        )
        steps, result = start_protocol(ledger.kinds, session), None
        while True:
            # In a thread: building the prompts of a hundred seats would block the event loop.
            step = await asyncio.to_thread(advance_protocol, steps, result)
            if isinstance(step, SessionResult):
                return step
            if isinstance(step, SessionNote):
                result = await self._record_note(step)
            elif isinstance(step, SimilarityRequest):
                result = await self._compare_answers(step)
            else:
                result = await self._run_turns(step, take)

    async def _record_note(self, note: SessionNote) -> BatchResult:
        if not self._record.has_note(note):
            place, notes = f"{note.step}/join", self._record.notes
            causes = await context.join_causes(self._main, note.causes, place, notes)
            (entry,) = await self._main.append_exclusive_async(note_draft(note, causes))
            self._record.last = entry.leaf
        return BatchResult()

    async def _compare_answers(self, request: SimilarityRequest) -> BatchResult:
        """Record the verdicts of the encoder, or read them if an earlier driver has done so.

        A crash before the entry is durable only repeats the comparison: nothing follows from
        verdicts that are not recorded.
        """
        run = self._run_input.run
        reading = await asyncio.to_thread(
            answer_similarity.read_recorded_similarity, self._ledger, run, request
        )
        if reading is None and self._reply_source is not None:
            reading = await asyncio.to_thread(self._reply_source.find_similarity, request)
        if reading is None:
            reading = await asyncio.to_thread(
                answer_similarity.compare_answers, request, self._open_encoder
            )
        await self._record_note(similarity_note(request, reading))
        return BatchResult(similarity=reading)

    async def _run_turns(self, step: TurnBatch, take: TurnExecutor) -> BatchResult:
        names = [TURN_PREFIX + turn.name for turn in step.turns]
        record = self._record
        cause = record.last or self._run_input.cause
        with self._pending_turns.register(
            PendingTurn(turn, self._run_input, cause) for turn in step.turns
        ):
            record.state = await take(names, cause)
        results = await asyncio.to_thread(
            lambda: [record.read_turn(turn.name) for turn in step.turns]
        )
        return collect_results([result for result in results if result is not None], record.stopped)


class TurnDriver:
    """Drives one turn of one session."""

    def __init__(
        self, services: model_calls.Services, due: PendingTurn, task: str, stop: CancelToken
    ) -> None:
        self._due, self._caller = due, model_calls.ModelCaller(services, due.run_input, task, stop)
        self._caller.allowed_by = due.cause

    async def drive(self) -> None:
        """Drive the turn until it has ended."""
        turn, cause = self._due.turn, self._due.cause
        async with self._caller.open_task() as goes_on:
            if not goes_on:
                return
            if isinstance(turn, ToolProbe):
                await self._run_probe(turn, cause)
            else:
                await self._ask_agent(turn, cause)

    async def _ask_agent(self, turn: AgentTurn, cause: Hash) -> None:
        prompt = build_prompt(turn.briefing, turn.prompt)
        ask = model_calls.CallSpec(turn.agent, prompt, (cause,), schema=turn.schema)
        parsed, result = await structured_output.ask_structured(
            self._caller,
            Calls(1),
            ask,
            turn.read,
            limits=turn.limits,
            is_hopeless=lambda failed: turn.hopeless(_failed_turn(failed)),
        )
        # A call that was cut off because the run ends is no failure of the seat.
        if result.replied.why in CUT_OFF_REASONS:
            await self._halt_if_run_stopped(result)
        drafts = []
        if parsed is not None and turn.note is not None:
            note = await asyncio.to_thread(turn.note, result.output)  # see `ask_structured`
            if self._caller.strand.replay_step(note.step) is None:
                drafts.append(note_draft(note, (), turn.agent or context.ENGINE))
        await structured_output.record_form_verdict(self._caller, parsed, result, *drafts)

    async def _halt_if_run_stopped(self, result: model_calls.CallResult | None = None) -> None:
        """Halt the turn without a verdict if its call was cut off because the whole run ends.

        The reply is recorded first, so that its cost is settled.  Raises `TaskHalted` or
        `ConcurrentUpdate`; returns if the run continues.
        """
        caller = self._caller
        try:
            if caller.reply_source is not None:
                await asyncio.to_thread(
                    caller.reply_source.raise_if_stopped_before,
                    caller.task,
                    structured_output.VERDICT_STEP,
                )
            caller.check_time()
        except (TaskHalted, ConcurrentUpdate):
            if result is not None:
                await caller.record_reply(result)
            raise

    async def _run_probe(self, probe: ToolProbe, cause: Hash) -> None:
        # A turn does not wait for a person: a probe that needs approval is denied.
        hands = ToolRunner(self._caller, (), may_wait=False)
        use = ToolCall(probe.tool, probe.given.decode(errors="replace"))
        outcome, _ = await hands.run_check("check", use, (cause,))
        if outcome is Outcome.INDETERMINATE:
            await self._halt_if_run_stopped()
        await structured_output.record_check_verdict(self._caller, outcome)


def _failed_turn(result: model_calls.CallResult) -> TurnResult:
    replied = result.replied
    return TurnResult(
        turn="",
        fate=TurnStatus.FAILED,
        output=result.output,
        outcome=replied.outcome,
        why=replied.why,
        code=replied.code,
    )
