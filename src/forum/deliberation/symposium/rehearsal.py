"""Playing a session without any agent: by a script that says what each call would be answered.

The entries of a script belong to calls in the order in which these are made, over the whole
session.  Which turn a call is made for depends on what was said before, so the session has to be
played once to find out; then each turn has its moves, and agents can be given them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from forum.deliberation.steps import (
    NOTHING,
    Asked,
    Closing,
    Fate,
    Heard,
    Note,
    Probe,
    Said,
    Session,
    Steps,
    Turns,
    advance,
)
from forum.deliberation.symposium.calls import FakeScript, Match, ProviderResult
from forum.deliberation.symposium.failing import code_of
from forum.deliberation.symposium.kinds import ErrorKind
from forum.deliberation.symposium.metering import nanos
from forum.deliberation.symposium.protocol import Cue, symposium
from forum.ledger import Amount, Outcome
from forum.work import Move, Why

ASSISTANT = "assistant"


class Played(msgspec.Struct, frozen=True):
    """A session from its first step to its closing."""

    notes: tuple[Note, ...]
    closing: Closing


def perform(steps: Steps, answer: Callable[[Asked], Heard]) -> Played:
    """Play a session to its end, with somebody who answers for all agents."""
    notes: list[Note] = []
    heard: Heard | None = None
    while not isinstance(step := advance(steps, heard), Closing):
        if isinstance(step, Note):
            notes.append(step)
            heard = Heard()
        else:
            heard = answer(_only(step))
    return Played(tuple(notes), step)


def _only(turns: Turns) -> Asked:
    (asked,) = turns.turns
    assert not isinstance(asked, Probe)  # noqa: S101  this protocol asks no tools
    return asked


def rehearse(
    session: Session, script: FakeScript, selector: FakeScript | None = None
) -> dict[str, tuple[Move, ...]]:
    """Return for each turn what an agent has to do so that the session goes as the script says.

    A panel may be chosen by a script of its own; without it, the first entry is for that.
    """
    rehearsal = Rehearsal(session, script, selector)
    perform(symposium(session), rehearsal.answer)
    return rehearsal.moves


class _Reel(msgspec.Struct):
    """A script, and how far it was played."""

    script: FakeScript
    played: int = 0

    def next_for(self, asked: Asked) -> Move:
        """Return what the next call is answered."""
        entries, at = self.script.entries, self.played
        self.played += 1
        if at >= len(entries) and self.script.on_exhaustion == "error":
            return Move(fail=ErrorKind.INTERNAL.value)
        entry = entries[at % len(entries)]
        return _move(entry.result) if _matches(entry.match, asked) else _MISMATCH


_MISMATCH = Move(fail=ErrorKind.INTERNAL.value)


@dataclass(slots=True)
class Rehearsal:
    """All agents of a session, as scripts have them."""

    session: Session
    script: FakeScript
    selector: FakeScript | None = None
    moves: dict[str, tuple[Move, ...]] = field(default_factory=dict)
    _reel: _Reel = field(init=False)
    _selector: _Reel = field(init=False)

    def __post_init__(self) -> None:
        """Put the scripts in."""
        self._reel = _Reel(self.script)
        self._selector = _Reel(self.selector) if self.selector else self._reel

    def answer(self, asked: Asked) -> Heard:
        """Answer a turn, with all the attempts that it takes."""
        reel = self._reel if isinstance(asked, Cue) else self._selector
        moves: list[Move] = []
        said, spent = Said(asked.name, Fate.FAILED), NOTHING
        while len(moves) <= asked.retries:
            moves.append(reel.next_for(asked))
            said = _said(asked, moves[-1])
            spent = Amount(
                sum(move.usd or 0 for move in moves), sum(move.tokens for move in moves), len(moves)
            )
            dear = spent.exceeds(asked.allowance)
            if said.fate is Fate.SAID or dear or asked.hopeless(said):
                break
        self.moves[asked.name] = tuple(moves)
        read = sum(move.input_tokens for move in moves)
        return Heard((replace(said, spent=spent, input_tokens=read, at=self.session.begun),))


def _said(asked: Asked, move: Move) -> Said:
    output = move.say.encode()
    if move.fail:
        return Said(asked.name, Fate.FAILED, output, Outcome.FAILED, why=Why.ERROR, code=move.fail)
    try:
        asked.read(output)
    except ValueError:
        return Said(asked.name, Fate.FAILED, output)
    return Said(asked.name, Fate.SAID, output)


def _move(result: ProviderResult) -> Move:
    usage = result.usage
    error = result.error
    return Move(
        say=_words(result),
        fail=code_of(error.kind, retriable=error.retriable) if error else "",
        usd=nanos(usage.cost_usd),
        tokens=usage.total_tokens,
        input_tokens=min(usage.prompt_tokens, usage.total_tokens),
    )


def _words(result: ProviderResult) -> str:
    """Return what was said: in the right form, or else in plain words."""
    if result.structured_output is not None:
        return msgspec.json.encode(result.structured_output).decode()
    said = [one.content for one in result.messages if one.role == ASSISTANT]
    return next((words for words in reversed(said) if isinstance(words, str)), "")


def _matches(match: Match, asked: Asked) -> bool:
    """Tell whether a call is the one that an entry is for."""
    if not isinstance(asked, Cue):
        return match.expected_output_schema is UNSET
    return all(
        wanted is UNSET or wanted == is_
        for wanted, is_ in (
            (match.agent_id, asked.speaker),
            (match.expected_output_schema, asked.wanted),
            (match.round, asked.round),
            (match.turn_index, asked.turn_index),
        )
    )
