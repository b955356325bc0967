"""Sessions without an engine: turns are answered from a script, and all that happens is kept."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from forum.app.clock_ids_and_kinds import KINDS
from forum.ledger.ports import Amount
from forum.runs.answer_similarity import SimilarityReading, SimilarityRequest
from forum.runs.kinds import StopReason
from forum.runs.panel import Council, Seat
from forum.runs.panel_protocol import start_protocol
from forum.runs.policy import Policy, Scripted
from forum.runs.session_steps import (
    AgentTurn,
    BatchResult,
    ProtocolStep,
    ProtocolSteps,
    Session,
    SessionNote,
    SessionResult,
    ToolProbe,
    TurnBatch,
    TurnResult,
    TurnStatus,
    advance_protocol,
    collect_results,
)
from forum.tlog import Hash

Turn = AgentTurn | ToolProbe
Answer = Callable[[Turn], bytes | TurnStatus]
"""What comes of a turn: a reply, or why there is none."""

Compare = Callable[[SimilarityRequest], SimilarityReading]
"""What the encoder says of answers."""
NO_ENCODER = SimilarityReading()

COST = Amount(7, 3)
"""Of each turn."""


@dataclass(slots=True)
class Held:
    """A session that was held, from its opening to its closing."""

    session: Session
    steps: list[ProtocolStep] = field(default_factory=list)
    said: dict[str, TurnResult] = field(default_factory=dict)
    closing: SessionResult | None = None

    @property
    def asked(self) -> list[AgentTurn]:
        """All that was asked, in its order."""
        turns = (step.turns for step in self.steps if isinstance(step, TurnBatch))
        return [turn for some in turns for turn in some if isinstance(turn, AgentTurn)]

    @property
    def notes(self) -> list[SessionNote]:
        """All that was noted, in its order."""
        return [step for step in self.steps if isinstance(step, SessionNote)]

    def note(self, step: str) -> SessionNote:
        """Return the one note of this step."""
        (session_note,) = [note for note in self.notes if note.step == step]
        return session_note

    def prompt(self, turn: str) -> bytes:
        """Return what was asked in a turn."""
        (data,) = [asked.prompt for asked in self.asked if asked.name == turn]
        return data

    def ballots(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield the ballots that were recorded: the round, the seat, and what stands in them."""
        for turn in self.asked:
            if turn.note is not None and self.said[turn.name].fate is TurnStatus.SAID:
                note = turn.note(self.said[turn.name].output)
                facts: Any = note.facts
                yield facts.round, facts.seat, json.loads(note.bodies[0].data)


def session_of(council: Council, problem: str = "Is it?") -> Session:
    """Return a session of these rules."""
    names = {seat.agent for seat in council.seats} | {council.judge or ""}
    return Session(problem, Policy({name: Scripted() for name in names}, panel=council), begun=0)


def seats_of(number: int) -> tuple[Seat, ...]:
    """Return seats, each with an agent of its own."""
    return tuple(Seat(f"agent-{n}") for n in range(1, number + 1))


def hold(session: Session, answer: Answer, compare: Compare = lambda _: NO_ENCODER) -> Held:
    """Hold a session to its end, as an engine would."""
    held, steps = Held(session), start_protocol(KINDS, session)
    try:
        step = next(steps)
        while True:
            held.steps.append(step)
            turns = step.turns if isinstance(step, TurnBatch) else ()
            held.said |= {turn.name: _say(turn, answer(turn)) for turn in turns}
            results = [held.said[turn.name] for turn in turns]
            heard = collect_results(results, StopReason.CANCELLED)
            if isinstance(step, SimilarityRequest):
                heard = BatchResult(similarity=compare(step))
            step = steps.send(heard)
    except StopIteration as end:
        held.closing = end.value
        return held


def replay(held: Held, turns: int, notes: int) -> ProtocolStep | SessionResult:
    """Return the next step, by a record that holds so much of the session and no more."""
    document = dict(list(held.said.items())[:turns])
    noted = {note.step for note in held.notes[:notes]}
    return play(
        start_protocol(KINDS, held.session),
        document.get,
        lambda note: note.step in noted,
        StopReason.CANCELLED,
    )


def _say(turn: Turn, reply: bytes | TurnStatus) -> TurnResult:
    entry = Hash(sha256(turn.name.encode()).digest())
    if isinstance(reply, TurnStatus):
        return TurnResult(turn.name, reply, spent=COST, entry=entry)
    fate = TurnStatus.SAID
    if isinstance(turn, AgentTurn):
        try:
            turn.read(reply)
        except ValueError:
            fate = TurnStatus.FAILED
    return TurnResult(turn.name, fate, reply, model="m", spent=COST, entry=entry)


def play(
    steps: ProtocolSteps,
    said: Callable[[str], TurnResult | None],
    noted: Callable[[SessionNote], bool],
    stopped: StopReason | None,
) -> ProtocolStep | SessionResult:
    """Play a record through a protocol, and return the first step that is not over."""
    heard: BatchResult | None = None
    while not isinstance(step := advance_protocol(steps, heard), SessionResult):
        if isinstance(step, SessionNote):
            if not noted(step):
                return step
            heard = BatchResult()
        elif isinstance(step, SimilarityRequest):
            heard = BatchResult(similarity=NO_ENCODER)
        else:
            results = [said(turn.name) for turn in step.turns]
            over = [result for result in results if result is not None]
            if len(over) < len(results):
                return step
            heard = collect_results(over, stopped)
    return step
