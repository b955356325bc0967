"""Carrying out a deliberation: its turns as tasks of the run, its notes in the run's own strand.

The protocol decides, and knows nothing but what is recorded: whoever drives the run next plays
the record through it, and goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from forum.deliberation import (
    CUTS,
    Asked,
    Closing,
    Fate,
    Heard,
    Note,
    Probe,
    Said,
    Session,
    Turns,
    advance,
    deliberate,
    hear,
    said_of,
)
from forum.engine.attention import Stop
from forum.engine.calls import Ask, Caller, Exchange, World
from forum.engine.calls import Turns as Calls
from forum.engine.case import ENGINE, Intake, join, read_body, read_request, read_run, steps_in
from forum.engine.effects import Hands
from forum.engine.judges import VERDICT, Patience, ask_formed, end_checked, end_formed
from forum.engine.ports import Halt, Prior
from forum.errors import BodyGone, Overtaken
from forum.ledger import MAIN, Attachment, Bytes, Draft, Ledger, Outcome, Position, Strand
from forum.tlog import Hash
from forum.work import (
    MOST_READ,
    TURN,
    Run,
    StopReason,
    TaskRun,
    Use,
    opening,
)


def session_of(ledger: Ledger, intake: Intake, prior: Prior | None = None) -> Session:
    """Return what is deliberated on.  Where a record is played, it is as late as it was then."""
    problem = read_request(ledger, intake.run).decode(errors="replace")
    begun = prior.begun() if prior else None
    return Session(problem, intake.policy, intake.begun if begun is None else begun)


def draft_of(note: Note, causes: tuple[Hash, ...], actor: str = ENGINE) -> Draft:
    """Return the entry of a note."""
    bodies = (Attachment(body.name, Bytes(body.data), body.media) for body in note.bodies)
    return Draft(note.step, actor, note.facts, causes, tuple(bodies))


def said_in(ledger: Ledger, task: TaskRun) -> Said | None:
    """Return what came of a turn, once it is over."""

    def read(at: Position, name: str) -> bytes:
        try:
            return read_body(ledger, at, name, MOST_READ)
        except BodyGone:
            return b""  # erased meanwhile: it has said nothing

    return said_of(task, read)


@dataclass(slots=True)
class Proceedings:
    """What is recorded of a session."""

    ledger: Ledger
    state: Run
    notes: Mapping[str, Hash]
    """The notes that were taken, by their steps."""
    prior: Prior | None = None
    last: Hash | None = None
    """The last note that was asked for."""

    def said(self, turn: str) -> Said | None:
        """Return what came of a turn, once it is over; where a record is played, when it was."""
        said = said_in(self.ledger, self.state.task(TURN + turn))
        ended = self.prior.ended(TURN + turn) if self.prior else None
        if said is None or not said.at or ended is None:
            return said
        return replace(said, at=ended)

    def noted(self, note: Note) -> bool:
        """Tell whether a note was taken."""
        self.last = self.notes.get(note.step, self.last)
        return note.step in self.notes

    @property
    def stopped(self) -> StopReason | None:
        """Why the run was stopped."""
        return self.state.stopped.reason if self.state.stopped else None


def read_record(ledger: Ledger, run: str, prior: Prior | None = None) -> Proceedings:
    """Read what is recorded of a session."""
    return Proceedings(ledger, read_run(ledger, run), steps_in(ledger, run, MAIN), prior)


@dataclass(frozen=True, slots=True)
class Due:
    """A turn that is to be taken."""

    turn: Asked | Probe
    intake: Intake
    cause: Hash
    """The last note before it."""


class Agenda:
    """What sessions that are driven in this process are about to ask."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], Due] = {}

    @contextmanager
    def holding(self, turns: Iterable[Due]) -> Iterator[None]:
        """Have these turns found while they are taken."""
        held = {(due.intake.run, TURN + due.turn.name): due for due in turns}
        self._due.update(held)
        try:
            yield
        finally:
            # Whoever has overtaken us here may hold the same ones: those are not ours to take away.
            for place, due in held.items():
                if self._due.get(place) is due:
                    del self._due[place]

    def find(self, run: str, task: str) -> Due:
        """Return what is to be asked in a turn."""
        try:
            return self._due[run, task]
        except KeyError:
            raise Overtaken(f"turn {run}/{task}") from None


TakeTurns = Callable[[Sequence[str], Hash], Awaitable[Run]]
"""Has tasks carried out for a cause, and returns the run as it is then."""


class Sitting:
    """A session that is driven here."""

    def __init__(
        self, ledger: Ledger, intake: Intake, main: Strand, prior: Prior | None, agenda: Agenda
    ) -> None:
        self._ledger, self._intake, self._main, self._prior = ledger, intake, main, prior
        self._agenda = agenda

    async def close(self, take: TakeTurns) -> Closing:
        """Go on until the session closes, and return how it does."""
        ledger, intake, prior = self._ledger, self._intake, self._prior
        session = await asyncio.to_thread(session_of, ledger, intake, prior)
        self._record = await asyncio.to_thread(read_record, ledger, intake.run, prior)
        steps, heard = deliberate(session), None
        while True:
            # Elsewhere: what a hundred seats are told takes a moment to write.
            step = await asyncio.to_thread(advance, steps, heard)
            if isinstance(step, Closing):
                return step
            if isinstance(step, Note):
                heard = await self._take_note(step)
            else:
                heard = await self._take_turns(step, take)

    async def _take_note(self, note: Note) -> Heard:
        if not self._record.noted(note):
            place, known = f"{note.step}/join", self._record.notes
            causes = await join(self._main, note.causes, place, known)
            (taken,) = await self._main.claim_async(draft_of(note, causes))
            self._record.last = taken.leaf
        return Heard()

    async def _take_turns(self, step: Turns, take: TakeTurns) -> Heard:
        names = [TURN + turn.name for turn in step.turns]
        record = self._record
        cause = record.last or self._intake.cause
        with self._agenda.holding(Due(turn, self._intake, cause) for turn in step.turns):
            record.state = await take(names, cause)
        said = await asyncio.to_thread(lambda: [record.said(turn.name) for turn in step.turns])
        return hear([one for one in said if one is not None], record.stopped)


class TurnDriver:
    """Carries out one turn of one session."""

    def __init__(self, world: World, due: Due, task: str, stop: Stop) -> None:
        self._due, self._caller = due, Caller(world, due.intake, task, stop)
        self._caller.allowed_by = due.cause

    async def drive(self) -> None:
        """Go on with the turn until it has ended."""
        await self._caller.drive(self._take)

    async def _take(self) -> None:
        turn, cause = self._due.turn, self._due.cause
        if isinstance(turn, Probe):
            await self._probe(turn, cause)
        else:
            await self._ask(turn, cause)

    async def _ask(self, turn: Asked, cause: Hash) -> None:
        prompt = opening(turn.briefing, turn.prompt)
        ask = Ask(turn.agent, prompt, (cause,), schema=turn.schema, allowance=turn.allowance)
        most, caller = turn.retries, self._caller

        def is_hopeless(exchange: Exchange) -> bool:
            return turn.hopeless(_failed(exchange)) or caller.spent.exceeds(turn.allowance)

        patience = Patience(most, most, most, is_hopeless)
        said, exchange = await ask_formed(caller, Calls(1), ask, turn.read, patience)
        if exchange.replied.why in CUTS:
            await self._mind_the_end(exchange)
        drafts = []
        if said is not None and turn.note is not None:
            note = await asyncio.to_thread(turn.note, exchange.output)  # see `ask_formed`
            if self._caller.strand.recorded(note.step) is None:
                drafts.append(draft_of(note, (), turn.agent or ENGINE))
        await end_formed(self._caller, said, exchange, *drafts)

    async def _mind_the_end(self, exchange: Exchange | None = None) -> None:
        """Cut the turn off if it was ended because all of the run is: nobody has failed."""
        caller = self._caller
        try:
            if caller.prior is not None:
                await asyncio.to_thread(caller.prior.reach, caller.task, VERDICT)
            caller.check_time()
        except (Halt, Overtaken):
            if exchange is not None:
                await caller.record(exchange)
            raise

    async def _probe(self, probe: Probe, cause: Hash) -> None:
        hands = Hands(self._caller, (), may_wait=False)
        use = Use(probe.tool, probe.given.decode(errors="replace"))
        outcome, _ = await hands.check("check", use, (cause,))
        if outcome is Outcome.INDETERMINATE:
            await self._mind_the_end()
        await end_checked(self._caller, outcome)


def _failed(exchange: Exchange) -> Said:
    replied = exchange.replied
    return Said("", Fate.FAILED, exchange.output, replied.outcome, replied.why, replied.code)
