"""Sessions of both protocols, taken over at any moment: whoever goes on has only the record."""

import json
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forum.app.clock_ids_and_kinds import KINDS
from forum.features.symposium.kinds import ExpectedOutput
from forum.features.symposium.protocol import SymposiumTurn
from forum.ledger.kinds import Outcome
from forum.runs.kinds import StopReason, Why
from forum.runs.panel import Council
from forum.runs.panel_protocol import start_protocol
from forum.runs.session_steps import (
    AgentTurn,
    ProtocolStep,
    Session,
    SessionNote,
    SessionResult,
    TurnBatch,
    TurnResult,
    TurnStatus,
)
from forum.tlog import Hash
from tests.features.council import sessions, sitting

SEATS, ROUNDS = 4, 2
ANSWERS = st.sampled_from(["yes", "no", "maybe"])


class Sitting(RuleBasedStateMachine):
    """A session that is driven step by step, by one driver after another."""

    session: Session

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, TurnResult] = {}
        self.notes: list[SessionNote] = []
        self.asked: list[AgentTurn] = []
        self.prompts: dict[str, bytes] = {}
        self.stopped: StopReason | None = None

    def pending(self) -> ProtocolStep | SessionResult:
        """Return what a driver finds to do that has just taken the session over."""
        taken = {note.step for note in self.notes}
        return sessions.play(
            start_protocol(KINDS, self.session),
            self.said.get,
            lambda note: note.step in taken,
            self.stopped,
        )

    @property
    def open_turns(self) -> Sequence[AgentTurn]:
        """What has to be said before anything follows."""
        step = self.pending()
        turns = step.turns if isinstance(step, TurnBatch) else ()
        return [t for t in turns if isinstance(t, AgentTurn) and t.name not in self.said]

    def end_turn(self, turn: AgentTurn, result: TurnResult) -> None:
        """Record what came of a turn."""
        self.asked.append(turn)
        self.said[turn.name] = result

    def speak(self, turn: AgentTurn, words: bytes) -> None:
        """Record a reply."""
        entry = Hash(sha256(turn.name.encode()).digest())
        self.end_turn(
            turn, TurnResult(turn.name, TurnStatus.SAID, words, entry=entry, at=len(self.said) + 1)
        )

    @precondition(lambda self: isinstance(self.pending(), SessionNote))
    @rule()
    def take_note(self) -> None:
        """Record what code has made of what was said."""
        note = self.pending()
        assert isinstance(note, SessionNote)
        self.notes.append(note)

    @precondition(lambda self: self.open_turns)
    @rule(place=st.integers(0, 9))
    def fail(self, place: int) -> None:
        """Let a call fail for good."""
        turn = self.open_turns[place % len(self.open_turns)]
        failed = TurnResult(turn.name, TurnStatus.FAILED, outcome=Outcome.FAILED, why=Why.ERROR)
        self.end_turn(turn, failed)

    @precondition(lambda self: self.open_turns and self.stopped is None and len(self.said) > 1)
    @rule(reason=st.sampled_from([StopReason.BUDGET, StopReason.DEADLINE, StopReason.CANCELLED]))
    def stop(self, reason: StopReason) -> None:
        """Stop the run: what has not begun does not."""
        self.stopped = reason
        for turn in self.open_turns:
            self.end_turn(turn, TurnResult(turn.name, TurnStatus.CUT))

    @precondition(lambda self: isinstance(self.pending(), SessionResult))
    @rule()
    def stay_closed(self) -> None:
        """Find it closed, and as it was."""
        assert self.pending() == self.pending()

    @invariant()
    def every_driver_finds_the_same(self) -> None:
        """Compare what is asked now with what was asked: it follows from the record alone."""
        for turn in self.open_turns:
            data = turn.briefing.encode() + turn.prompt
            assert self.prompts.setdefault(turn.name, data) == data
        assert len({note.step for note in self.notes}) == len(self.notes)

    @invariant()
    def nobody_is_asked_after_a_stop(self) -> None:
        """Find nothing open in a session that was stopped: it takes its notes, and closes."""
        assert self.stopped is None or not self.open_turns

    def teardown(self) -> None:
        """Whatever has happened, the session comes to its end."""
        for _ in range(200):
            step = self.pending()
            if isinstance(step, SessionResult):
                return
            if isinstance(step, SessionNote):
                self.notes.append(step)
            for turn in self.open_turns:
                self.end_turn(
                    turn, TurnResult(turn.name, TurnStatus.FAILED, outcome=Outcome.FAILED)
                )
        pytest.fail("it does not end")


class CouncilSits(Sitting):
    """A council: all seats of a round speak at the same time, and blind in the first."""

    @initialize(baseline=st.integers(0, SEATS), options=st.booleans())
    def open(self, baseline: int, *, options: bool) -> None:
        """Seat it."""
        known = ("yes", "no", "maybe") if options else ()
        rules = Council(sessions.seats_of(SEATS), known, baseline, rounds=ROUNDS)
        self.session = sessions.session_of(rules)

    @precondition(lambda self: self.open_turns)
    @rule(place=st.integers(0, 9), answer=ANSWERS, reason=st.booleans(), claim=st.booleans())
    def vote(self, place: int, answer: str, *, reason: bool, claim: bool) -> None:
        """Have a seat cast its ballot."""
        turn = self.open_turns[place % len(self.open_turns)]
        ballot = {
            "answer": answer,
            "confidence": 70,
            "claims": [{"text": f"{turn.name} says so"}] if claim else [],
            "because": ["c1"] if reason else [],
        }
        self.speak(turn, json.dumps(ballot).encode())

    @invariant()
    def first_ballots_are_blind(self) -> None:
        """Find all told the same at first, whatever others have said by then."""
        first = {data for name, data in self.prompts.items() if name.startswith("ballot.0.")}
        assert len(first) <= 1

    @invariant()
    def ballots_are_sealed_before_any_is_shown(self) -> None:
        """No round begins before the one before it was revealed, with every ballot of it."""
        shown = {note.step for note in self.notes}
        for turn in self.open_turns:
            number = int(turn.name.split(".")[1]) if turn.name.startswith("ballot.") else 0
            assert number == 0 or f"reveal/{number - 1}" in shown
            assert number <= ROUNDS


class SymposiumSits(Sitting):
    """A symposium: one speaks at a time, in the declared order, the coordinator last."""

    @initialize(leave=st.booleans())
    def open(self, *, leave: bool) -> None:
        """Seat it."""
        policy = {"on_agent_failure": "continue_without" if leave else "terminate"}
        self.session = sitting.session_of(sitting.config(runtime=policy))

    @precondition(lambda self: self.open_turns)
    @rule(
        action=st.sampled_from(["continue", "finalize"]),
        whom=st.lists(st.sampled_from([*sitting.PANEL, "nobody"]), max_size=3),
    )
    def speak_next(self, action: str, whom: list[str]) -> None:
        """Have whoever has the word say something, and perhaps ask others."""
        (turn,) = self.open_turns
        assert isinstance(turn, SymposiumTurn)
        match turn.wanted:
            case ExpectedOutput.TURN:
                words = sitting.turn(turn.name, *((name, "why?") for name in whom))
            case ExpectedOutput.VERDICT:
                words = sitting.verdict(action)
            case ExpectedOutput.SYNTHESIS:
                words = sitting.synthesis()
        self.speak(turn, words)

    @invariant()
    def one_speaks_at_a_time(self) -> None:
        """And the transcript only grows, in the order of rounds and turns."""
        assert len(self.open_turns) <= 1
        messages = [json.loads(n.bodies[0].data) for n in self.notes if n.step.startswith("mess")]
        places = [(message["round"], message["turn_index"]) for message in messages]
        assert places == sorted(set(places))


TestCouncil = CouncilSits.TestCase
TestSymposium = SymposiumSits.TestCase
TestCouncil.settings = TestSymposium.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None
)
