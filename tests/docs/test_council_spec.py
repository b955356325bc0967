"""Whoever writes a council from the page alone comes to the same votes, prompts and answer."""

import json
import re
from random import Random
from typing import Any

import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.features.council.kinds import (
    BaselineFacts,
    CouncilCloseFacts,
    CouncilFacts,
    RevealFacts,
)
from forum.runs.panel import Council, Seat
from forum.runs.panel_protocol import start_protocol
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
from tests.docs.stranger import Stranger

QUESTION = "Is the bridge safe?"
AGENTS = ("ash", "birch", "elm")

_QUOTED = re.compile(
    r"^--- ([0-9a-f]{32}) begin: ([^\n]*)\n(.*?)\n--- \1 end$", re.DOTALL | re.MULTILINE
)
_NAMES = ("c1", "c2", "c3", "c4", "c99")
_WORDS = ("", "a", "b", "A.", "none", "x" * 400, "`b`", "ß")
_CLAIMS = (*_WORDS, *(f"claim {number}" for number in range(40)))
SESSIONS = 60
"""How many are held in one test: together they meet nearly every rule of the page."""


def ballot(chance: Random, *, any_blocker: bool = False) -> str | None:
    """Say something, or nothing; much of it leads nowhere."""
    if chance.random() < 0.05:
        return None

    def some(*words: str) -> str:
        return chance.choice(words)

    def names() -> list[str]:
        return chance.sample(_NAMES, chance.randint(0, 4))

    def several(most: int, **members: tuple[str, ...]) -> list[dict[str, str]]:
        count = chance.randint(0, most)
        return [{name: some(*words) for name, words in members.items()} for _ in range(count)]

    document: dict[str, object] = {
        "answer": some("yes", "no", "Yes.", "'no'", " NO ", "maybe"),
        "confidence": chance.choice((40, 40, 80, 80, chance.choice((0, 1, 0.5, 1.0, 62.5)))),
        "claims": several(4, text=_CLAIMS, evidence=_WORDS),
        "because": names() if chance.random() < 0.5 else [],
        "evidence": some(*[""] * 9, "seen"),
        "supports": names(),
        "attacks": several(4, claim=_NAMES, why=_WORDS),
        "replies": several(3, to=tuple("ABCZ"), text=_WORDS),
        "question": some("", "why?", "n/a", "how?"),
        "decides": some(*_WORDS),
        "blocker": some(*[""] * 19, "no"),
    }
    if any_blocker and chance.random() < 0.1:
        del document["blocker"]
        document[chance.choice(_BLOCKER_NAMES)] = chance.choice(_OBJECTIONS)
        document |= {"BLOCKERS": ["late"]} if chance.random() < 0.2 else {}
    return json.dumps(document)


_BLOCKER_NAMES = ("blocker", "Blocker", " blockers ")
_OBJECTIONS: tuple[object, ...] = (
    *(True, False, None, 0, 7, "", "n/a", "no"),
    *([], ["rust", {"why": "salt", "sure": True}, None], {"text": "deep", "page": 0}),
)


def council(chance: Random) -> Council:
    """Return some council; meanings of open answers are compared by others since version 2."""
    options = chance.choice(((), ("yes", "no", "maybe")))
    return Council(
        tuple(Seat(chance.choice(AGENTS)) for _ in range(chance.randint(1, 9))),
        options,
        baseline=chance.randint(0, 4),
        threshold=chance.choice((1000, 750, 660, 500)),
        rounds=chance.randint(0, 4),
        peers=chance.randint(0, 5),
        judge=chance.choice((None, "elm")),
        version=chance.choice((1, 2)) if options else 1,
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_stranger_comes_to_the_same(seed: int) -> None:
    """Every note, what every seat was shown, and the answer follow from the page."""
    chance = Random(seed)
    for _ in range(SESSIONS):
        sat = Sat(council(chance), chance)
        stranger = Stranger(QUESTION, sat.rules, sat.said)

        assert stranger.play() == sat.answer
        assert stranger.notes == sat.notes
        for turn, told in stranger.prompts.items():
            assert [("the question", QUESTION), *told] == sat.shown[turn]


class Sat:
    """A session that was held, by the code."""

    def __init__(self, council: Council, chance: Random) -> None:
        self.said: dict[str, str | None] = {}
        self.shown: dict[str, list[tuple[str, str]]] = {}
        self.notes: list[tuple[Any, ...]] = []
        rules = {name: getattr(council, name) for name in council.__struct_fields__}
        self.rules = rules | {"seats": seats(council)}
        self._chance = chance
        agents: dict[str, Agent] = dict.fromkeys(AGENTS, Scripted())
        steps, heard = (
            start_protocol(KINDS, Session(QUESTION, Policy(agents=agents, panel=council), 0)),
            None,
        )
        try:
            while True:
                step = next(steps) if heard is None else steps.send(heard)
                if isinstance(step, SessionNote):
                    self.notes.append(noted(step))
                    heard = BatchResult()
                elif isinstance(step, TurnBatch):
                    heard = BatchResult(tuple(map(self._say, step.turns)))
        except StopIteration as end:
            self.answer = end.value.answer

    def _say(self, turn: AgentTurn | ToolProbe) -> TurnResult:
        assert isinstance(turn, AgentTurn)
        if turn.name.startswith("judge"):
            said: str | None = json.dumps({"better": self._chance.choice(("first", "second"))})
        else:
            said = ballot(self._chance, any_blocker=self.rules["version"] > 1)
        quoted = _QUOTED.findall(turn.prompt.decode())
        self.said[turn.name] = said
        self.shown[turn.name] = [sorted_claims((of, text)) for _, of, text in quoted]
        fate = TurnStatus.FAILED if said is None else TurnStatus.SAID
        return TurnResult(
            turn.name, fate, (said or "").encode(), entry=hash_leaf(turn.name.encode())
        )


def seats(council: Council) -> list[dict[str, str]]:
    """Return the seats with all their members: the recorded form leaves defaults out."""
    return [{"agent": seat.agent, "briefing": seat.briefing} for seat in council.seats]


def sorted_claims(told: tuple[str, str]) -> tuple[str, str]:
    """Return a quotation; of claims, whose members have an order of their own, in another one."""
    of, text = told
    if of != "claims so far":
        return told
    lines = (json.dumps(json.loads(line), sort_keys=True) for line in text.split("\n"))
    return of, "\n".join(lines)


def noted(note: SessionNote) -> tuple[Any, ...]:
    """Return what a note says, but for what it has cost."""
    match note.facts:
        case CouncilFacts() as opened:
            return "council", opened.seats, opened.models
        case BaselineFacts() as base:
            answer = note.bodies[0].data.decode()
            return "baseline", base.answers, base.agreement, base.passage, answer
        case RevealFacts() as revealed:
            return "reveal", revealed.round, revealed.ballots, revealed.seed
        case CouncilCloseFacts() as end:
            counts = (end.rounds, end.ballots, end.changed, end.conformed, end.blockers)
            return "close", end.end, end.ground, end.accord, *counts
        case other:
            raise AssertionError(other)
