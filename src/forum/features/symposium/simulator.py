"""Simulation of a session with scripted replies instead of agents.

The entries of a script answer calls in the order in which these are made, over the whole session.
Which turn a call belongs to depends on earlier replies, so the session is simulated once to find
out; the result lists the scripted steps of each turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from forum.features.symposium.budget import usd_to_nano
from forum.features.symposium.failure_codes import scripted_error_code
from forum.features.symposium.kinds import ErrorKind
from forum.features.symposium.protocol import SymposiumTurn, run_symposium
from forum.features.symposium.provider_calls import FakeScript, ProviderResult, ScriptMatch
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs import session_steps as steps
from forum.runs.kinds import TURN_PREFIX, Why
from forum.runs.panel import Symposium
from forum.runs.policy import Agent, Policy, Scripted, ScriptStep

ASSISTANT = "assistant"
SCRIPT_AGENT = "script"
"""The agent of all seats in a scripted session."""


class SimulatedSession(msgspec.Struct, frozen=True):
    """A session from its first step to its result."""

    notes: tuple[steps.SessionNote, ...]
    closing: steps.SessionResult


def run_protocol(
    protocol: steps.ProtocolSteps, answer: Callable[[steps.AgentTurn], steps.BatchResult]
) -> SimulatedSession:
    """Run a protocol to its end, with `answer` in place of all agents."""
    notes: list[steps.SessionNote] = []
    result: steps.BatchResult | None = None
    while not isinstance(step := steps.advance_protocol(protocol, result), steps.SessionResult):
        if isinstance(step, steps.SessionNote):
            notes.append(step)
            result = steps.BatchResult()
        elif isinstance(step, steps.TurnBatch):
            result = answer(_single_turn(step))
        else:  # only a council compares answers
            result = steps.BatchResult()
    return SimulatedSession(tuple(notes), step)


def _single_turn(turns: steps.TurnBatch) -> steps.AgentTurn:
    (turn,) = turns.turns
    assert not isinstance(turn, steps.ToolProbe)  # noqa: S101  this protocol asks no tools
    return turn


def simulate_session(
    session: steps.Session, script: FakeScript, selector: FakeScript | None = None
) -> dict[str, tuple[ScriptStep, ...]]:
    """Return for each turn the scripted steps that make the session follow the script.

    The choice of a panel may have a script of its own; otherwise the first entry is used for it.
    """
    rehearsal = ScriptedPanel(session, script, selector)
    run_protocol(run_symposium(session), rehearsal.answer)
    return rehearsal.moves


class _ScriptCursor(msgspec.Struct):
    """A script and the position in it."""

    script: FakeScript
    played: int = 0

    def next_for(self, turn: steps.AgentTurn) -> ScriptStep:
        """Return the step for the next call."""
        entries, at = self.script.entries, self.played
        self.played += 1
        if at >= len(entries) and self.script.on_exhaustion == "error":
            return ScriptStep(fail=ErrorKind.INTERNAL.value)
        entry = entries[at % len(entries)]
        return _to_script_step(entry.result) if _matches(entry.match, turn) else _MISMATCH


_MISMATCH = ScriptStep(fail=ErrorKind.INTERNAL.value)


@dataclass(slots=True)
class ScriptedPanel:
    """Scripted replies in place of all agents of a session."""

    session: steps.Session
    script: FakeScript
    selector: FakeScript | None = None
    moves: dict[str, tuple[ScriptStep, ...]] = field(default_factory=dict)
    _reel: _ScriptCursor = field(init=False)
    _selector: _ScriptCursor = field(init=False)

    def __post_init__(self) -> None:
        """Create the cursors of the scripts."""
        self._reel = _ScriptCursor(self.script)
        self._selector = _ScriptCursor(self.selector) if self.selector else self._reel

    def answer(self, turn: steps.AgentTurn) -> steps.BatchResult:
        """Answer a turn, with as many attempts as it takes, and keep its steps in `moves`."""
        reel = self._reel if isinstance(turn, SymposiumTurn) else self._selector
        moves: list[ScriptStep] = []
        result, spent = steps.TurnResult(turn.name, steps.TurnStatus.FAILED), steps.ZERO_AMOUNT
        while len(moves) <= turn.retries:
            moves.append(reel.next_for(turn))
            result = _to_turn_result(turn, moves[-1])
            spent = Amount(
                sum(move.usd or 0 for move in moves), sum(move.tokens for move in moves), len(moves)
            )
            dear = spent.exceeds(turn.allowance)
            if result.fate is steps.TurnStatus.SAID or dear or turn.hopeless(result):
                break
        self.moves[turn.name] = tuple(moves)
        read = sum(move.input_tokens for move in moves)
        return steps.BatchResult(
            (replace(result, spent=spent, input_tokens=read, at=self.session.begun),)
        )


def _to_turn_result(turn: steps.AgentTurn, move: ScriptStep) -> steps.TurnResult:
    output = move.say.encode()
    if move.fail:
        return steps.TurnResult(
            turn.name,
            steps.TurnStatus.FAILED,
            output,
            Outcome.FAILED,
            why=Why.ERROR,
            code=move.fail,
        )
    try:
        turn.read(output)
    except ValueError:
        return steps.TurnResult(turn.name, steps.TurnStatus.FAILED, output)
    return steps.TurnResult(turn.name, steps.TurnStatus.SAID, output)


def _to_script_step(result: ProviderResult) -> ScriptStep:
    usage = result.usage
    error = result.error
    return ScriptStep(
        say=_reply_text(result),
        fail=scripted_error_code(error.kind, retriable=error.retriable) if error else "",
        usd=usd_to_nano(usage.cost_usd),
        tokens=usage.total_tokens,
        input_tokens=min(usage.prompt_tokens, usage.total_tokens),
    )


def _reply_text(result: ProviderResult) -> str:
    """Return the structured output of a reply, else its last text."""
    if result.structured_output is not None:
        return msgspec.json.encode(result.structured_output).decode()
    texts = [message.content for message in result.messages if message.role == ASSISTANT]
    return next((words for words in reversed(texts) if isinstance(words, str)), "")


def _matches(match: ScriptMatch, turn: steps.AgentTurn) -> bool:
    """Return whether a script entry is meant for this call."""
    if not isinstance(turn, SymposiumTurn):
        return match.expected_output_schema is UNSET
    return all(
        wanted is UNSET or wanted == is_
        for wanted, is_ in (
            (match.agent_id, turn.speaker),
            (match.expected_output_schema, turn.wanted),
            (match.round, turn.round),
            (match.turn_index, turn.turn_index),
        )
    )


def build_scripted_panel(
    config: dict[str, Any], problem: str, script: FakeScript, selector: FakeScript | None
) -> tuple[Symposium, dict[str, Agent]]:
    """Return a panel and the single agent that makes its session follow a script.

    Raises `Malformed`.
    """
    speakers = [*config["agents"], config["coordinator"]]
    panel = Symposium(config, {str(speaker["id"]): SCRIPT_AGENT for speaker in speakers})
    policy = Policy(agents={SCRIPT_AGENT: Scripted()}, panel=panel)
    moves = simulate_session(steps.Session(problem, policy, 0), script, selector)
    agent = Scripted({f"{TURN_PREFIX}{turn}": played for turn, played in moves.items()})
    return panel, {SCRIPT_AGENT: agent}
