"""The building blocks of every protocol: turns to take, notes to record, a result.

A protocol is a generator: it yields the next step and is sent the result of that step. It has no
other input, so replaying a record through it, to resume a session or to audit one, yields the same
steps, the same prompts and the same result.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import msgspec

from forum.ledger.entry import Facts
from forum.ledger.kinds import Outcome
from forum.ledger.ports import UNLIMITED, Amount
from forum.runs import answer_similarity
from forum.runs.call_rules import QuestionLimits
from forum.runs.kinds import StopReason, Why
from forum.runs.policy import Policy
from forum.tlog import Hash

JSON = "application/json"
ZERO_AMOUNT = Amount()
CUT_OFF_REASONS = frozenset({Why.DEADLINE, Why.CANCELLED})
"""Why a call ends when the whole session does. A deadline may also be that of the call alone."""


class Session(msgspec.Struct, frozen=True):
    """The question of a deliberation and the policy that it runs under."""

    problem: str
    policy: Policy
    """Contains the panel and the agents that sit on it."""
    begun: int
    """When the run was accepted, in microseconds since 1970."""


class NoteBody(msgspec.Struct, frozen=True):
    """A body that is recorded with a note."""

    name: str
    data: bytes
    media: str = JSON


class SessionNote(msgspec.Struct, frozen=True):
    """An entry that code derives from replies, such as a tally."""

    step: str
    """Its step in the record, unique among the notes of a session."""
    facts: Facts
    bodies: tuple[NoteBody, ...] = ()
    causes: tuple[Hash, ...] = ()
    """The entries that this note follows from."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A turn: one question to one agent, with its retries."""

    name: str
    agent: str
    """The agent's name in the policy."""
    prompt: bytes
    schema: bytes
    """JSON schema of the reply."""
    read: Callable[[bytes], object] = field(compare=False)
    """Raises `ValueError` for an invalid reply; the message is shown to the agent."""
    briefing: str = ""
    """Instructions to the agent about its own role."""
    retries: int = 2
    """How often the agent is asked again after errors and invalid replies."""
    hopeless: Callable[["TurnResult"], bool] = field(default=lambda _: False, compare=False)
    """Returns True if asking again after this failure is useless."""
    allowance: Amount = UNLIMITED
    """Limit on all calls of the turn together; once exceeded, the agent is not asked again."""
    note: Callable[[bytes], SessionNote] | None = field(default=None, compare=False)
    """Builds the note for a valid reply; both are committed in one transaction."""

    @property
    def limits(self) -> QuestionLimits:
        """How often the agent is asked again."""
        return QuestionLimits(self.retries, self.retries, self.retries, self.allowance)


class ToolProbe(msgspec.Struct, frozen=True):
    """A check by a tool: it is given input and reports only whether the input passes."""

    name: str
    tool: str
    given: bytes


class TurnBatch(msgspec.Struct, frozen=True):
    """Turns that may be taken concurrently."""

    turns: tuple[AgentTurn | ToolProbe, ...]


class TurnStatus(StrEnum):
    """What has become of a turn."""

    SAID = "said"
    FAILED = "failed"
    """No reply, or no valid one."""
    CUT = "cut"
    """The session was stopped first."""


class TurnResult(msgspec.Struct, frozen=True):
    """The result of a turn."""

    turn: str
    fate: TurnStatus
    output: bytes = b""
    """The last reply."""
    outcome: Outcome = Outcome.OK
    """Outcome of the last call; a reply that fails validation still counts as received."""
    why: Why = Why.NONE
    code: str = ""
    error: bytes = b""
    """The provider's error text."""
    model: str = ""
    """The model that answered."""
    spent: Amount = ZERO_AMOUNT
    """Cost of all calls of the turn."""
    input_tokens: int = 0
    milliseconds: int = 0
    at: int = 0
    """When the turn ended, in microseconds since 1970."""
    entry: Hash | None = None
    """The last entry of the turn."""
    commitment: str = ""
    """The salted commitment to the last reply."""


class BatchResult(msgspec.Struct, frozen=True):
    """The results of a batch, in the order of its turns."""

    said: tuple[TurnResult, ...] = ()
    stopped: StopReason | None = None
    """Why the session was stopped, if that cut off one of the turns."""
    similarity: answer_similarity.SimilarityReading | None = None
    """The verdicts of the encoder, after a `SimilarityRequest`."""


class SessionResult(msgspec.Struct, frozen=True):
    """The result of a session."""

    outcome: Outcome
    answer: str
    causes: tuple[Hash, ...] = ()


def similarity_note(
    request: answer_similarity.SimilarityRequest, reading: answer_similarity.SimilarityReading
) -> SessionNote:
    """Return the note that records the verdicts of an encoder, or that there was none."""
    facts = answer_similarity.similarity_facts(request, reading)
    data = answer_similarity.encode_similarity(request, reading) if reading.verdicts else b""
    bodies = (NoteBody("scores", data),) if data else ()
    return SessionNote(request.step, facts, bodies, request.causes)


def collect_results(results: Sequence[TurnResult], stopped: StopReason | None) -> BatchResult:
    """Return the results of finished turns in the form that a protocol is sent."""
    cut = any(result.fate is TurnStatus.CUT for result in results)
    return BatchResult(tuple(results), (stopped or StopReason.ERROR) if cut else None)


T = TypeVar("T")
ProtocolStep = TurnBatch | SessionNote | answer_similarity.SimilarityRequest
ProtocolPart = Generator[ProtocolStep, BatchResult, T]
"""A running part of a protocol that returns T; a yielded note is answered by `BatchResult()`."""
ProtocolSteps = ProtocolPart[SessionResult]
"""A running protocol."""


def advance_protocol(
    steps: ProtocolSteps, result: BatchResult | None
) -> ProtocolStep | SessionResult:
    """Send a protocol the result of its last step and return its next step.

    `result` is None at the start, before the first step.
    """
    try:
        return next(steps) if result is None else steps.send(result)
    except StopIteration as end:
        closing: SessionResult = end.value
        return closing
