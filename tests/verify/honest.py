"""Honest sessions of every shape, and their records: what forgers begin with."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from forum.engine import Order
from forum.ledger import Outcome
from forum.work import Budget, Move, Scripted, Symposium
from tests.deliberation.sitting import CHAIR, PANEL, PROBLEM, config, synthesis, turn, verdict
from tests.engine.conftest import MEMORY
from tests.engine.office import Office, quick
from tests.engine.panel import DIVIDED, PRICE, QUESTION, checked, judged, panel, split
from tests.spoken import ballot
from tests.support import StoreFactory
from tests.verify.forging import Story, story_of

YES, NO = ballot("yes"), ballot("no")
BLOCKED = ballot("yes", blocker="who pays?")
TWENTY = tuple((NO if seat % 3 == 0 else YES,) * 2 for seat in range(1, 21))


def ask(*ways: tuple[str | Move, ...], budget: Budget | None = None, **rules: Any) -> Order:  # noqa: ANN401
    """Ask a council whose seats go these ways."""
    return Order(QUESTION, None, panel(*ways, **rules), budget or Budget())


HONEST: dict[str, Callable[[], Order]] = {
    "agreed at the gate": lambda: ask(*((YES,),) * 5),
    "no gate": lambda: ask(*DIVIDED, baseline=0),
    "divided": split,
    "blocked": lambda: ask((YES, YES), (BLOCKED, BLOCKED), (YES, NO)),
    "a seat fails": lambda: ask(*DIVIDED[:4], (Move(fail="503"),)),
    "nobody speaks": lambda: ask(*((Move(fail="503"),),) * 3),
    "a malformed reply": lambda: _repaired("seat-1", "~ballot.0.1"),
    "never in the right form": lambda: ask(*DIVIDED[:4], ("what?",)),
    "a judge": judged,
    "a tool": checked,
    "twenty seats": lambda: ask(*TWENTY, baseline=0, policy={"parallel": 16}),
    "no money left": lambda: ask(*DIVIDED, budget=Budget(usd=7 * PRICE + 1)),
    "no money": lambda: ask(*DIVIDED, budget=Budget(usd=1)),
    "no time": lambda: ask(
        *((Move(YES, milliseconds=3000),),) * 3, budget=Budget(milliseconds=300)
    ),
    "a call that takes too long": lambda: ask(
        *DIVIDED[:4], (Move(NO, milliseconds=3000),), policy={"call_milliseconds": 100}
    ),
    "no more calls for a seat": lambda: ask(*DIVIDED[:4], ("what?",), policy={"turns": 1}),
    "an answer that claims something": lambda: ask(*((ballot("All tests passed."),),) * 3),
    "a seat that repeats itself": lambda: ask(*DIVIDED[:4], ("what?",), policy={"repeats": 2}),
}


def _repaired(name: str, turn: str) -> Order:
    """Ask a council of which one says something in the wrong form first."""
    policy = panel(*DIVIDED)
    agent = policy.agents[name]
    assert isinstance(agent, Scripted)
    moves = {**agent.moves, turn: (Move('{"answer": 7}'), *agent.moves[turn])}
    agents = {**policy.agents, name: msgspec.structs.replace(agent, moves=moves)}
    return Order(QUESTION, None, msgspec.structs.replace(policy, agents=agents))


def speak(*said: bytes, **changes: Any) -> Order:  # noqa: ANN401
    """Ask a symposium in which this is said, turn by turn."""
    moves: dict[str, tuple[Move, ...]] = {
        f"~turn.{n}": (Move(words.decode(), tokens=9),) for n, words in enumerate(said, 1)
    }
    agents = {"": Scripted(), "model": Scripted(moves, usd=PRICE, tokens=100)}
    speakers = dict.fromkeys((*PANEL, CHAIR), "model")
    return Order(PROBLEM, None, quick(agents=agents, panel=Symposium(config(**changes), speakers)))


def _late(order: Order, turn: str) -> Order:
    """Ask the same, with half a second for all of it, of which one turn would need ten times."""
    agent = order.policy.agents["model"]
    assert isinstance(agent, Scripted)
    slow = tuple(msgspec.structs.replace(move, milliseconds=5000) for move in agent.moves[turn])
    slower = msgspec.structs.replace(agent, moves={**agent.moves, turn: slow})
    policy = msgspec.structs.replace(order.policy, agents={"": Scripted(), "model": slower})
    return Order(order.request, None, policy, Budget(milliseconds=500))


SPOKEN = (
    turn("The older.", ("ben", "How old is it?"), ("cleo", "And the other?")),
    turn("A hundred years."),
    turn("The longer."),
    turn("Neither."),
)
"""A round: the first asks the second at once, and the third later."""

HONEST |= {
    "a symposium": lambda: speak(*SPOKEN, verdict("finalize"), synthesis()),
    "a second round": lambda: speak(
        *SPOKEN, verdict(), turn("Ten years."), *SPOKEN[1:], verdict("finalize"), synthesis()
    ),
    "a symposium that wants to know more": lambda: speak(
        *SPOKEN,
        verdict(
            "request_user_input", user_input_request={"question": "Which river?", "context": "x"}
        ),
    ),
    "a symposium of which nothing comes": lambda: speak(*SPOKEN, b"so be it"),
    "a symposium without one of them": lambda: speak(
        b"what?",
        *SPOKEN[1:3],
        verdict("finalize"),
        synthesis(),
        runtime={"on_agent_failure": "continue_without"},
    ),
    "a symposium without money": lambda: Order(
        PROBLEM, None, speak(*SPOKEN).policy, Budget(usd=2 * PRICE + 1)
    ),
    "a symposium without time": lambda: _late(
        speak(*SPOKEN, runtime={"per_agent_retry_budget": 0}), "~turn.2"
    ),
}


ENDS = {
    "nobody speaks": Outcome.FAILED,
    "no money left": Outcome.DENIED,
    "no money": Outcome.DENIED,
    "no time": Outcome.TIMEOUT,
    "a symposium that wants to know more": Outcome.FAILED,
    "a symposium of which nothing comes": Outcome.FAILED,
    "a symposium without money": Outcome.DENIED,
    "a symposium without time": Outcome.TIMEOUT,
}
"""How those end that do not end well."""


@cache
def recorded(name: str) -> Story:
    """Return the record of an honest session."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        factory = StoreFactory(Path(folder) / "ledger.db")
        office = Office(factory())
        office.do(HONEST[name]())
        story = story_of(office)
        factory.close()
        return story
