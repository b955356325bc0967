"""Sessions of the open protocol, played without any agent: a cast says what a test wants."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from forum.features.symposium.artifact import (
    RecordedSession,
    build_artifact,
    format_file,
    read_recorded_session,
)
from forum.features.symposium.decoders import read_message, read_script
from forum.features.symposium.kinds import ErrorKind, ExpectedOutput
from forum.features.symposium.protocol import SymposiumTurn, run_symposium
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.schemas import (
    Message,
    PrimaryTurn,
    SynthesisOutcome,
    TerminationArtifact,
)
from forum.features.symposium.simulator import SimulatedSession, run_protocol
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.kinds import StopReason, Why
from forum.runs.panel import Symposium
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.runs.session_steps import AgentTurn, BatchResult, Session, TurnResult, TurnStatus
from tests import spoken

BEGUN = 1_700_000_000_000_000
SECOND = 1_000_000
PROBLEM = "Which of the two bridges goes first?"
PANEL = ("ada", "ben", "cleo")
CHAIR = "chair"
COST = Amount(2_000_000, 30, 1)
READ = 20

Answer = Callable[[SymposiumTurn], TurnResult | bytes]


# A session to play with


def config(*, panel: tuple[str, ...] = PANEL, **changes: object) -> dict[str, Any]:
    """Return a config; changes are made to its parts."""

    def agent(name: str) -> dict[str, Any]:
        return {"id": name, "persona_ref": name, "provider": "p", "model": "m"}

    whole: dict[str, Any] = {
        "schema_version": "1.0.0",
        "session_id": "bridges-1",
        "originator": "user:eve",
        "problem_statement": PROBLEM,
        "selector": {
            "strategy": "fixed",
            "default_deliberation_panel": list(panel),
            "coordinator_agent": CHAIR,
        },
        "agents": [agent(name) for name in panel],
        "coordinator": agent(CHAIR),
        "budget": {
            "max_total_tokens": 100_000,
            "max_total_cost_usd": 5.0,
            "max_rounds": 4,
            "max_wallclock_seconds": 60,
        },
        "runtime": {},
    }
    for part, change in changes.items():
        whole[part] = {**whole[part], **change} if isinstance(change, dict) else change
    return whole


def session_of(given: dict[str, Any]) -> Session:
    """Return a session with one agent of the policy that speaks for all."""
    names = [*(agent["id"] for agent in given["agents"]), given["coordinator"]["id"]]
    panel = Symposium(config=given, agents=dict.fromkeys(names, "model"))
    policy = Policy(agents={"model": Scripted()}, panel=panel)
    return Session(given["problem_statement"], policy, BEGUN)


def turn(text: str, *requests: tuple[str, str]) -> bytes:
    """Return what an agent says, and whom it asks what."""
    return spoken.turn(text, *requests).encode()


def verdict(action: str = "continue", **more: object) -> bytes:
    """Return what a coordinator says."""
    return spoken.verdict(action, **more).encode()


def synthesis(answer: str = "The older one.") -> bytes:
    """Return an answer."""
    return spoken.synthesis(answer).encode()


def failing(cue: AgentTurn, kind: ErrorKind) -> TurnResult:
    """Return a turn of which nothing came."""
    return TurnResult(
        cue.name, TurnStatus.FAILED, outcome=Outcome.FAILED, why=Why.ERROR, code=kind.value
    )


def ordinary(cue: SymposiumTurn, *, rounds: int = 1) -> bytes:
    """Answer like an agent that asks nobody, and a coordinator that ends after some rounds."""
    match cue.wanted:
        case ExpectedOutput.TURN:
            return turn(f"{cue.speaker} in round {cue.round}")
        case ExpectedOutput.VERDICT:
            return verdict("finalize" if cue.round >= rounds else "continue")
        case ExpectedOutput.SYNTHESIS:
            return synthesis()


@dataclass
class Sat:
    """A session that was played."""

    session: Session
    played: SimulatedSession
    asked: list[AgentTurn]

    @property
    def record(self) -> RecordedSession:
        """All that is kept of it."""
        return read_recorded_session(self.session, self.played.notes)

    @property
    def messages(self) -> list[Message]:
        """Its transcript."""
        return [read_message(message) for message in self.record.messages]

    @property
    def artifact(self) -> bytes:
        """What others read of it."""
        return format_file(build_artifact(self.record))

    @property
    def termination(self) -> TerminationArtifact:
        """Why it has no answer."""
        outcome = build_artifact(self.record).outcome
        assert not isinstance(outcome, SynthesisOutcome)
        return outcome.termination_artifact

    @property
    def cues(self) -> list[SymposiumTurn]:
        """The turns that were asked for."""
        return [asked for asked in self.asked if isinstance(asked, SymposiumTurn)]

    def prompt(
        self, speaker: str, round_: int, wanted: ExpectedOutput = ExpectedOutput.TURN
    ) -> str:
        """Return what somebody was told last in a round."""
        symposium_turns = [
            c for c in self.cues if (c.speaker, c.round, c.wanted) == (speaker, round_, wanted)
        ]
        return symposium_turns[-1].prompt.decode()


def sit(
    given: dict[str, Any],
    answer: Answer = ordinary,
    choose: Callable[[AgentTurn], TurnResult] | None = None,
) -> Sat:
    """Play a session.  A second passes with each turn; what is said costs something."""
    session = session_of(given)
    sat = Sat(session, SimulatedSession((), None), [])  # type: ignore[arg-type]

    def hear(asked: AgentTurn) -> BatchResult:
        sat.asked.append(asked)
        if not isinstance(asked, SymposiumTurn):
            assert choose is not None
            return BatchResult((choose(asked),))
        result = answer(asked)
        turn_result = result if isinstance(result, TurnResult) else heard_as(asked, result)
        at = turn_result.at or BEGUN + len(sat.asked) * SECOND
        stopped = StopReason(turn_result.code) if turn_result.fate is TurnStatus.CUT else None
        return BatchResult((replace(turn_result, at=at),), stopped)

    sat.played = run_protocol(run_symposium(session), hear)
    return sat


def heard_as(asked: AgentTurn, output: bytes) -> TurnResult:
    """Return what came of a turn in which this was said."""
    spent = TurnResult(asked.name, TurnStatus.SAID, output, spent=COST, input_tokens=READ)
    try:
        asked.read(output)
    except ValueError:
        return replace(spent, fate=TurnStatus.FAILED)
    return spent


def kinds(messages: list[Message]) -> list[str]:
    """Return who spoke in which way, one after the other."""
    return [f"{type(message).__name__}:{message.speaker}" for message in messages]


def asking(*asked: tuple[str, str]) -> Answer:
    """Return a cast in which the first of the panel asks something in the first round."""

    def answer(cue: SymposiumTurn) -> bytes:
        if (cue.speaker, cue.round, cue.turn_index) == ("ada", 1, 1):
            return turn("ada has questions", *asked)
        return ordinary(cue, rounds=3)

    return answer


def primaries(sat: Sat) -> dict[int, list[str]]:
    """Return who had their turn in each round, in that order."""
    document: dict[int, list[str]] = {}
    for message in sat.messages:
        if isinstance(message, PrimaryTurn):
            document.setdefault(message.round, []).append(message.speaker)
    return document


# What anybody may say in a session

requests = st.lists(
    st.sampled_from([*PANEL, CHAIR, "nobody"]).map(lambda to: (to, f"what of it, {to}?")),
    max_size=4,
)
good_turns = st.builds(lambda text, asked: turn(text, *asked), st.text(min_size=1), requests)
TOO_GREAT = '{"target": "ben", "type": "q", "content": {"n": 9007199254740993}}'
odd_turns = st.sampled_from(
    [
        b'{"text": "x", "direct_requests": [{"target": "ben"}]}',
        b'{"text": "x", "direct_requests": ["ben", 7, null]}',
        f'{{"text": "x", "direct_requests": [{TOO_GREAT}]}}'.encode(),
        b'{"text": "x", "direct_requests": [{"target": "ben", "type": "q", "content": "\\ud800"}]}',
        b'{"text": "x", "extra": 1}',
        b'```json\n{"text": "x"}\n```',
    ]
)
bad_turns = st.sampled_from(
    [
        b"",
        b"no JSON",
        b"\xff",
        b"{}",
        b'{"text": ""}',
        b'{"text": "\\udc00"}',
        b'{"text": NaN}',
        b"[]",
    ]
)
failures = st.sampled_from(list(ErrorKind))
stops = st.sampled_from(list(StopReason))
turns = st.one_of(good_turns, good_turns, good_turns, odd_turns, bad_turns, failures, stops)
verdicts = st.one_of(
    st.just(verdict()),
    st.just(verdict()),
    st.just(verdict("finalize")),
    st.just(verdict("request_user_input", user_input_request={"question": "which?"})),
    st.just(verdict("request_external_research", external_research_request={"query": "age"})),
    bad_turns,
    failures,
    stops,
)
syntheses = st.one_of(st.just(synthesis()), bad_turns, failures, stops)


@st.composite
def courses(draw: st.DrawFn) -> tuple[dict[str, Any], Answer]:
    """Draw a config, and what everybody says whenever they are asked."""
    given = config(
        budget={
            "max_rounds": draw(st.integers(1, 4)),
            "max_total_tokens": draw(st.sampled_from([100, 400, 100_000])),
            "max_wallclock_seconds": draw(st.sampled_from([5, 60])),
            "per_agent_token_budget": draw(st.sampled_from([{}, {"ben": 60}])),
        },
        runtime={
            "on_agent_failure": draw(st.sampled_from(["terminate", "continue_without"])),
            "max_deferred_queue_length": draw(st.integers(0, 3)),
            "max_deferred_drains_per_round": draw(st.integers(0, 2)),
            "synthesize_on_terminate": draw(st.booleans()),
        },
    )
    document = {
        ExpectedOutput.TURN: draw(st.lists(turns, min_size=1, max_size=12)),
        ExpectedOutput.VERDICT: draw(st.lists(verdicts, min_size=1, max_size=4)),
        ExpectedOutput.SYNTHESIS: draw(st.lists(syntheses, min_size=1, max_size=1)),
    }
    return given, _cast(document)


def _cast(document: dict[ExpectedOutput, list[bytes | ErrorKind | StopReason]]) -> Answer:
    def answer(cue: SymposiumTurn) -> TurnResult | bytes:
        which = int(cue.name.removeprefix("turn.")) % len(document[cue.wanted])
        data = document[cue.wanted][which]
        match data:
            case ErrorKind():
                return failing(cue, data)
            case StopReason():
                return TurnResult(cue.name, TurnStatus.CUT, code=data.value)
            case _:
                return data

    return answer


# Scripts


def script(*entries: dict[str, Any], **more: object) -> FakeScript:
    """Return a script."""
    return read_script({"schema_version": "1.0.0", "entries": list(entries), **more})


def entry(
    data: bytes | None, error: str = "", *, again: bool = True, **match: object
) -> dict[str, Any]:
    """Return one entry of a script."""
    document = {"kind": error, "message": "hm", "retriable": again} if error else None
    return {
        "match": match,
        "result": {
            "messages": [],
            "tool_events": [],
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 3,
                "total_tokens": 10,
                "cost_usd": 0.001,
            },
            "finish_reason": "error" if error else "stop",
            "structured_output": json.loads(data) if data else None,
            "raw": None,
            "error": document,
        },
    }


def as_scripted(moves: dict[str, tuple[ScriptStep, ...]]) -> Callable[[AgentTurn], BatchResult]:
    """Return agents that do nothing but make the moves that they were given, turn by turn."""

    def answer(asked: AgentTurn) -> BatchResult:
        own, result = moves[asked.name], TurnResult(asked.name, TurnStatus.FAILED)
        spent, read = Amount(), 0
        for attempt in range(asked.retries + 1):
            move = own[min(attempt, len(own) - 1)]
            output = move.say.encode()
            spent, read = (
                spent.plus(Amount(move.usd or 0, move.tokens, 1)),
                read + move.input_tokens,
            )
            if move.fail:
                result = TurnResult(
                    asked.name,
                    fate=TurnStatus.FAILED,
                    output=output,
                    outcome=Outcome.FAILED,
                    why=Why.ERROR,
                    code=move.fail,
                )
            else:
                result = heard_as(asked, output)
            if result.fate is TurnStatus.SAID or asked.hopeless(result):
                break
        return BatchResult((replace(result, spent=spent, input_tokens=read, at=BEGUN),))

    return answer
