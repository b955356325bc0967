"""Honest sessions of every shape, and their records: what forgers begin with."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from forum.engine import RouteDecision, RunRequest, accept_run, cancel_run
from forum.ledger.kinds import Outcome
from forum.runs.kinds import AcceptedFacts, Basis, RouteFacts
from forum.runs.panel import (
    COUNCIL_VERSION,
    SYMPOSIUM_VERSION,
    Council,
    Seat,
    Symposium,
)
from forum.runs.plan import RunBudget
from forum.runs.policy import Scripted, ScriptStep
from tests.engine.conftest import MEMORY
from tests.engine.office import PERSON, RUN, Cut, Office, Power, quick, until
from tests.engine.panel import (
    DIVIDED,
    JUDGE,
    PRICE,
    QUESTION,
    THREE_TEXTS,
    checked,
    judged,
    panel,
    split,
    symposiast,
)
from tests.features.council.sitting import CHAIR, PANEL, PROBLEM, config, synthesis, turn, verdict
from tests.spoken import ballot
from tests.support import StoreFactory
from tests.verify.forging import Story, story_of

YES, NO = ballot("yes"), ballot("no")
BLOCKED = ballot("yes", blocker="who pays?")
TWENTY = tuple((NO if seat % 3 == 0 else YES,) * 2 for seat in range(1, 21))


def ask(
    *ways: tuple[str | ScriptStep, ...],
    budget: RunBudget | None = None,
    **rules: Any,  # noqa: ANN401
) -> RunRequest:
    """Ask a council whose seats go these ways."""
    return RunRequest(QUESTION, None, panel(*ways, **rules), budget or RunBudget())


_SAME = ("true", "false", "false")
"""The second answer is the first in other words; the third is another one."""


def _equivalence_judged() -> RunRequest:
    """Ask a council of the current rules, whose judge says which answers are the same."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~same.1.{n}": (ScriptStep(f'{{"same": {word}}}'),) for n, word in enumerate(_SAME, 1)
    }
    agents = {JUDGE: Scripted(moves, usd=PRICE, tokens=100)}
    council = panel(*THREE_TEXTS, judge=JUDGE, rounds=0, version=2, policy={"agents": agents})
    return RunRequest(QUESTION, None, council)


HONEST: dict[str, Callable[[], RunRequest]] = {
    "agreed at the gate": lambda: ask(*((YES,),) * 5),
    "no gate": lambda: ask(*DIVIDED, baseline=0),
    "divided": split,
    "blocked": lambda: ask((YES, YES), (BLOCKED, BLOCKED), (YES, NO)),
    "a seat fails": lambda: ask(*DIVIDED[:4], (ScriptStep(fail="503"),)),
    "nobody speaks": lambda: ask(*((ScriptStep(fail="503"),),) * 3),
    "a malformed reply": lambda: _repaired("seat-1", "~ballot.0.1"),
    "never in the right form": lambda: ask(*DIVIDED[:4], ("what?",)),
    "a judge": judged,
    "free texts without an encoder": lambda: ask(*DIVIDED, version=2),
    "seeds from commitments": lambda: ask(*DIVIDED, version=COUNCIL_VERSION),
    "a judge of free texts": _equivalence_judged,
    "a tool": checked,
    "seventeen seats": lambda: ask(*TWENTY[:17], baseline=0, rounds=0, policy={"parallel": 16}),
    "twenty seats": lambda: ask(*TWENTY, baseline=0, policy={"parallel": 16}),
    "no money left": lambda: ask(*DIVIDED, budget=RunBudget(usd=7 * PRICE + 1)),
    "no money": lambda: ask(*DIVIDED, budget=RunBudget(usd=1)),
    "no time": lambda: ask(
        *((ScriptStep(YES, milliseconds=3000),),) * 3, budget=RunBudget(milliseconds=300)
    ),
    "a call that takes too long": lambda: ask(
        *DIVIDED[:4], (ScriptStep(NO, milliseconds=3000),), policy={"call_milliseconds": 100}
    ),
    "no more calls for a seat": lambda: ask(*DIVIDED[:4], ("what?",), policy={"turns": 1}),
    "an answer that claims something": lambda: ask(*((ballot("All tests passed."),),) * 3),
    "a bill above what was reserved": lambda: _called_run(
        ask((ScriptStep(YES, usd=3 * PRICE, tokens=300),), (YES,), (YES,))
    ),
    "a seat that repeats itself": lambda: ask(*DIVIDED[:4], ("what?",), policy={"repeats": 2}),
}


def _repaired(name: str, turn: str) -> RunRequest:
    """Ask a council of which one says something in the wrong form first."""
    policy = panel(*DIVIDED)
    agent = policy.agents[name]
    assert isinstance(agent, Scripted)
    moves = {**agent.moves, turn: (ScriptStep('{"answer": 7}'), *agent.moves[turn])}
    agents = {**policy.agents, name: msgspec.structs.replace(agent, moves=moves)}
    return RunRequest(QUESTION, None, msgspec.structs.replace(policy, agents=agents))


def _undigested(request: RunRequest) -> RunRequest:
    """Ask the same symposium, which leaves the record of this release."""
    assert isinstance(request.policy.panel, Symposium)
    panel = msgspec.structs.replace(request.policy.panel, version=SYMPOSIUM_VERSION)
    return replace(request, policy=msgspec.structs.replace(request.policy, panel=panel))


def _called_run(request: RunRequest) -> RunRequest:
    """Ask the same, with an agent on the first seat that is called like a run within."""
    policy = request.policy
    assert isinstance(policy.panel, Council)
    seats = (Seat("run"), *policy.panel.seats[1:])
    panel = msgspec.structs.replace(policy.panel, seats=seats)
    agents = {**policy.agents, "run": policy.agents["seat-1"]}
    return replace(request, policy=msgspec.structs.replace(policy, agents=agents, panel=panel))


def speak(*said: bytes, **changes: Any) -> RunRequest:  # noqa: ANN401
    """Ask a symposium in which this is said, turn by turn."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~turn.{n}": (ScriptStep(words.decode(), tokens=9),) for n, words in enumerate(said, 1)
    }
    agents = {"": Scripted(), "model": Scripted(moves, usd=PRICE, tokens=100)}
    speakers = dict.fromkeys((*PANEL, CHAIR), "model")
    return RunRequest(
        PROBLEM, None, quick(agents=agents, panel=Symposium(config(**changes), speakers))
    )


def _late(request: RunRequest, turn: str) -> RunRequest:
    """Ask the same, with half a second for all of it, of which one turn would need ten times."""
    agent = request.policy.agents["model"]
    assert isinstance(agent, Scripted)
    slow = tuple(msgspec.structs.replace(move, milliseconds=5000) for move in agent.moves[turn])
    slower = msgspec.structs.replace(agent, moves={**agent.moves, turn: slow})
    policy = msgspec.structs.replace(request.policy, agents={"": Scripted(), "model": slower})
    return RunRequest(request.request, None, policy, RunBudget(milliseconds=500))


def _routed() -> RunRequest:
    """Ask a council to which a router has sent the request."""
    facts = RouteFacts(
        "bridges",
        basis=Basis.LEXICAL,
        confidence=700,
        runner_up="roads",
        margin=200,
        roster="0" * 64,
    )
    return replace(split(), route=RouteDecision(facts, b'{"words":["bridge"]}'))


SPOKEN = (
    turn("The older.", ("ben", "How old is it?"), ("cleo", "And the other?")),
    turn("A hundred years."),
    turn("The longer."),
    turn("Neither."),
)
"""A round: the first asks the second at once, and the third later."""

HONEST |= {
    "a route": _routed,
    "a symposium with everything": symposiast,
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
    "a symposium without a digest": lambda: _undigested(
        speak(*SPOKEN, verdict("finalize"), synthesis())
    ),
    "nothing comes of a symposium without a digest": lambda: _undigested(
        speak(*SPOKEN, b"so be it")
    ),
    "a symposium of which nothing comes": lambda: speak(*SPOKEN, b"so be it"),
    "a symposium without one of them": lambda: speak(
        b"what?",
        *SPOKEN[1:3],
        verdict("finalize"),
        synthesis(),
        runtime={"on_agent_failure": "continue_without"},
    ),
    "a symposium without money": lambda: RunRequest(
        PROBLEM, None, speak(*SPOKEN).policy, RunBudget(usd=2 * PRICE + 1)
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
    "nothing comes of a symposium without a digest": Outcome.FAILED,
    "a symposium without money": Outcome.DENIED,
    "a symposium without time": Outcome.TIMEOUT,
}
"""How those end that do not end well."""


@cache
def recorded(name: str) -> Story:
    """Return the record of an honest session."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        factory = StoreFactory(Path(folder) / "ledger.db")
        story = UNUSUAL[name](factory) if name in UNUSUAL else _plain(factory, HONEST[name]())
        factory.close()
        return story


def _plain(factory: StoreFactory, request: RunRequest) -> Story:
    office = Office(factory())
    office.do(request)
    return story_of(office)


def _cancelled(factory: StoreFactory) -> Story:
    """Have somebody cancel a session while it is under way."""
    office = Office(factory())
    office.accept(
        ask(
            (NO,),
            *((ScriptStep(YES, milliseconds=20_000),),) * 4,
            baseline=0,
            policy={"parallel": 3},
        )
    )

    async def stop(office: Office) -> None:
        await until(lambda: len(office.hands.calls) == 4)
        cancel_run(office.ledger, RUN, PERSON)

    office.work(meanwhile=stop)
    return story_of(office)


def _outlived(factory: StoreFactory) -> Story:
    """Have a session outlive the process that made its first calls."""
    office = Office(factory())
    power = Power(factory(), 4, persisted=True)
    office.accept(split())
    with suppress(Cut, asyncio.CancelledError):
        Office(office.store, append=power.append).work()
    office.work()
    return story_of(office)


def _forked(factory: StoreFactory) -> Story:
    """Have a session go on from the middle of another one."""
    office = Office(factory())
    office.do(split())
    reveal = next(at for at, entry in enumerate(office.entries()) if entry.step == "reveal/0")
    accept_run(
        office.ledger,
        "fork",
        split(),
        PERSON,
        origin=AcceptedFacts(fork_run=RUN, fork_index=reveal),
    )
    office.work("fork")
    return story_of(office, "fork")


UNUSUAL: dict[str, Callable[[StoreFactory], Story]] = {
    "cancelled": _cancelled,
    "a call that was lost": _outlived,
    "a fork": _forked,
}
