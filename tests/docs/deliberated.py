"""The examples of the specification of deliberation: two sessions, played without an engine."""

import json
from collections.abc import Mapping

import msgspec

from forum.app.clock_ids_and_kinds import KINDS
from forum.features.symposium.seating import draft_symposium
from forum.ledger.ports import Amount
from forum.runs.panel import Council, Panel, Seat
from forum.runs.panel_protocol import start_protocol
from forum.runs.personas import PERSONAS
from forum.runs.policy import Agent, Policy, Scripted
from forum.runs.session_steps import (
    AgentTurn,
    BatchResult,
    Session,
    SessionNote,
    ToolProbe,
    TurnBatch,
    TurnResult,
    TurnStatus,
)
from forum.tlog import hash_leaf

QUESTION = "Is the bridge safe?"
BEGUN = 1_700_000_000_000_000

_BALLOTS: Mapping[str, object] = {
    "ballot.0.1": {
        "claims": [{"text": "It is rusty", "evidence": "photo 4"}],
        "answer": "No.",
        "confidence": 70,
    },
    "ballot.0.2": {
        "claims": [{"text": "It was tested in May", "evidence": "the report of the city"}],
        "answer": "yes",
        "confidence": 0.9,
        "question": "Which part is rusty?",
    },
    "ballot.1.1": {
        "replies": [{"to": "A", "text": "The railing."}],
        "answer": "yes",
        "confidence": 80,
        "because": ["c1"],
    },
    "ballot.1.2": {"answer": "yes", "confidence": 90},
    "judge": {"better": "same", "reason": ""},
}
_VERDICT = {
    "next_action": "finalize",
    "rationale": "All was said.",
    "confidence": 0.8,
    "focus": "the rust",
    "next_agents": [],
    "resolved_disagreements": [{"topic": "the rust", "resolution": "it is on the railing"}],
    "unresolved_disagreements": [],
}
_TURNS: Mapping[str, object] = {
    "turn.1": {
        "text": "It is rusty.",
        "direct_requests": [{"target": "critic", "type": "question", "content": "How deep?"}],
    },
    "turn.2": {"text": "Not deep."},
    "turn.3": {"text": "It was tested."},
    "turn.4": _VERDICT,
    "turn.5": {
        "integrated_answer": "Yes, it is safe.",
        "resolved_disagreements": [],
        "unresolved_disagreements": [],
    },
}


class _Played:
    """A session from beginning to end: what was asked, and what was noted."""

    def __init__(self, panel: Panel, agents: tuple[str, ...], words: Mapping[str, object]) -> None:
        scripted: dict[str, Agent] = dict.fromkeys(agents, Scripted())
        session = Session(QUESTION, Policy(agents=scripted, panel=panel), BEGUN)
        self.asked: dict[str, AgentTurn] = {}
        self.notes: dict[str, SessionNote] = {}
        self._words = words
        steps, heard = start_protocol(KINDS, session), None
        try:
            while True:
                step = next(steps) if heard is None else steps.send(heard)
                if isinstance(step, SessionNote):
                    self.notes[step.step] = step
                    heard = BatchResult()
                elif isinstance(step, TurnBatch):
                    heard = BatchResult(tuple(self._say(turn) for turn in step.turns))
        except StopIteration as end:
            self.closing = end.value

    def _say(self, turn: AgentTurn | ToolProbe) -> TurnResult:
        assert isinstance(turn, AgentTurn)
        self.asked[turn.name] = turn
        said = self._words.get(turn.name) or self._words[turn.name.partition(".")[0]]
        return TurnResult(
            turn.name,
            TurnStatus.SAID,
            json.dumps(said).encode(),
            model=turn.agent,
            spent=Amount(1_000_000, 100, 1),
            input_tokens=60,
            at=BEGUN + 1_000_000 * len(self.asked),
            entry=hash_leaf(turn.name.encode()),
        )

    def ballot(self, turn: str) -> bytes:
        """Return what is recorded of a ballot."""
        note = self.asked[turn].note
        assert note is not None
        return note(json.dumps(self._words[turn]).encode()).bodies[0].data


def council() -> _Played:
    """Return a council of two seats that disagree; the first one is convinced."""
    rules = Council((Seat("ash"), Seat("birch")), baseline=0, rounds=1)
    return _Played(rules, ("ash", "birch"), _BALLOTS)


def symposium() -> _Played:
    """Return a session with a question, an answer and a synthesis."""
    sitting = [PERSONAS["engineer"], PERSONAS["critic"]]
    panel = draft_symposium("bridge-1", QUESTION, sitting, ("ash",), rounds=3)
    return _Played(panel, ("ash",), _TURNS)


def judge_prompt() -> str:
    """Return what a judge is told of two answers."""
    rules = Council((Seat("ash"), Seat("birch")), baseline=0, rounds=0, judge="elm")
    words = {**_BALLOTS, "ballot.0.2": {"answer": "yes", "confidence": 70}}
    return _prompt(_Played(rules, ("ash", "birch", "elm"), words), "judge.1.1")


def deliberation_examples() -> dict[str, str]:
    """Return the content of every example of the page by its name."""
    sat, spoken = council(), symposium()
    seed = msgspec.to_builtins(sat.notes["reveal/0"].facts)["seed"]
    message = spoken.notes["message/1"].bodies[0].data
    return {
        "first-ballot": sat.ballot("ballot.0.1").decode(),
        "second-ballot": sat.ballot("ballot.0.2").decode(),
        "seed": seed,
        "ballot-prompt": _prompt(sat, "ballot.0.1"),
        "ballot-form": sat.asked["ballot.0.1"].schema.decode(),
        "exchange-prompt": _prompt(sat, "ballot.1.1"),
        "exchange-form": sat.asked["ballot.1.1"].schema.decode(),
        "judge-prompt": judge_prompt(),
        "council-close": msgspec.json.encode(sat.notes["council.close"].facts).decode(),
        "council-report": sat.notes["council.close"].bodies[0].data.decode(),
        "briefing": spoken.asked["turn.1"].briefing,
        "primary-prompt": _prompt(spoken, "turn.1"),
        "branch-prompt": _prompt(spoken, "turn.2"),
        "verdict-prompt": _prompt(spoken, "turn.4"),
        "synthesis-prompt": _prompt(spoken, "turn.5"),
        "message": message.decode(),
        "symposium-close": msgspec.json.encode(spoken.notes["close"].facts).decode(),
    }


def _prompt(played: _Played, turn: str) -> str:
    return played.asked[turn].prompt.decode()
