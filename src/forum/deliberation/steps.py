"""What every deliberation consists of: turns that are asked for, notes that are taken, a closing.

A protocol is a generator: it yields the next step and is sent what came of it.  It knows nothing
but that, so whoever plays a record through it, to go on with a session or to check one, comes to
the same steps, the same prompts and the same closing.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import msgspec

from forum.ledger import UNLIMITED, Amount, Facts, Outcome
from forum.tlog import Hash
from forum.work import Policy, StopReason, Why

JSON = "application/json"
ZERO_AMOUNT = Amount()
CUT_OFF_REASONS = frozenset({Why.DEADLINE, Why.CANCELLED})
"""How a call ends when all of the session does; a call may have a deadline of its own, too."""


class Session(msgspec.Struct, frozen=True):
    """What is deliberated on, and how."""

    problem: str
    policy: Policy
    """Holds the panel, and the agents that sit on it."""
    begun: int
    """When it was taken on, in microseconds since 1970."""


class NoteBody(msgspec.Struct, frozen=True):
    """Something that is recorded with a note."""

    name: str
    data: bytes
    media: str = JSON


class SessionNote(msgspec.Struct, frozen=True):
    """What code has made of what was said: an entry of its own."""

    step: str
    """Its place in the record: no two notes of a session share one."""
    facts: Facts
    bodies: tuple[NoteBody, ...] = ()
    causes: tuple[Hash, ...] = ()
    """The entries that it follows from."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One turn: a question to one agent."""

    name: str
    agent: str
    """As the policy calls it."""
    prompt: bytes
    schema: bytes
    """The form of the reply: a JSON schema."""
    read: Callable[[bytes], object] = field(compare=False)
    """Raises `ValueError` where a reply has not the right form; its words are for the author."""
    briefing: str = ""
    """What it is told about itself."""
    retries: int = 2
    """How often it is asked again, after errors and after replies without the right form."""
    hopeless: Callable[["TurnResult"], bool] = field(default=lambda _: False, compare=False)
    """Whether asking again after this failure is of no use."""
    allowance: Amount = UNLIMITED
    """What all its calls may use: who has used more is not asked again."""
    note: Callable[[bytes], SessionNote] | None = field(default=None, compare=False)
    """What is recorded of a reply in the right form, in one commit with it."""


class ToolProbe(msgspec.Struct, frozen=True):
    """One question to a tool: what it is given, and whether that holds is all it tells."""

    name: str
    tool: str
    given: bytes


class TurnBatch(msgspec.Struct, frozen=True):
    """What may be done at the same time."""

    turns: tuple[AgentTurn | ToolProbe, ...]


class TurnStatus(StrEnum):
    """What has become of a turn."""

    SAID = "said"
    FAILED = "failed"
    """No reply, or none in the right form."""
    CUT = "cut"
    """The session was stopped first."""


class TurnResult(msgspec.Struct, frozen=True):
    """What came of a turn."""

    turn: str
    fate: TurnStatus
    output: bytes = b""
    """The last reply."""
    outcome: Outcome = Outcome.OK
    """Of the last call: a reply without the right form is one that came."""
    why: Why = Why.NONE
    code: str = ""
    error: bytes = b""
    """What was said of an error."""
    model: str = ""
    """Who answered."""
    spent: Amount = ZERO_AMOUNT
    """All its calls together."""
    input_tokens: int = 0
    milliseconds: int = 0
    at: int = 0
    """When it was over, in microseconds since 1970."""
    entry: Hash | None = None
    """The last entry of it."""


class BatchResult(msgspec.Struct, frozen=True):
    """What came of turns, in their order."""

    said: tuple[TurnResult, ...] = ()
    stopped: StopReason | None = None
    """Why the session was stopped, where that has cut off one of them."""


class SessionResult(msgspec.Struct, frozen=True):
    """How a session ends."""

    outcome: Outcome
    answer: str
    causes: tuple[Hash, ...] = ()


def collect_results(said: Sequence[TurnResult], stopped: StopReason | None) -> BatchResult:
    """Return what a protocol is told of turns that are over."""
    cut = any(one.fate is TurnStatus.CUT for one in said)
    return BatchResult(tuple(said), (stopped or StopReason.ERROR) if cut else None)


T = TypeVar("T")
ProtocolPart = Generator[TurnBatch | SessionNote, BatchResult, T]
"""A part of a protocol at work, and what it comes to: a note is answered by `BatchResult()`."""
ProtocolSteps = ProtocolPart[SessionResult]
"""A protocol at work."""


def advance_protocol(
    steps: ProtocolSteps, heard: BatchResult | None
) -> TurnBatch | SessionNote | SessionResult:
    """Tell a protocol what came of its last step, or nothing at first; return what follows."""
    try:
        return next(steps) if heard is None else steps.send(heard)
    except StopIteration as end:
        closing: SessionResult = end.value
        return closing
