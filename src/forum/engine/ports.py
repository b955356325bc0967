"""The ports of the engine: models, tools and recorded replies; and what workers claim."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount, Timer
from forum.runs import kinds
from forum.runs.answer_similarity import (
    AnswerVerdict,
    SimilarityReading,
    SimilarityRequest,
)
from forum.runs.policy import Agent, ToolCall, ToolSpec
from forum.runs.prompt import PromptMessage

EMPTY_CONTENT = BytesContent(b"")
NO_COST = Amount()
MAX_TOOL_CALLS = 64
"""The maximum number of tool calls in one reply."""

DeltaCallback = Callable[[str], None]
"""Receives a model's output piece by piece while it is produced.  Never blocks, never raises."""


def ignore_delta(_: str) -> None:
    """Discard a piece of output."""


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool that is offered to an agent."""

    name: str
    description: str
    schema: bytes
    """The JSON schema of its arguments; empty if any text is accepted."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, as it is recorded before it is made."""

    run: str
    task: str
    step: str
    """The step under which its reply is recorded."""
    number: int
    """The n-th call of this agent in this task, not counting those whose replies were lost."""
    prompt: Content
    seconds: float
    """The time limit in seconds."""
    turns: tuple[PromptMessage, ...] = ()
    """The same prompt as separate messages, for models that distinguish speakers."""
    offers: tuple[ToolOffer, ...] = ()
    """The tools that the agent may use."""
    schema: bytes = b""
    """The JSON schema of the output; empty if any text is accepted."""
    hear: DeltaCallback = field(default=ignore_delta, compare=False, repr=False)
    """Receives the output while it is produced, but neither tool arguments nor reasoning."""


@dataclass(frozen=True, slots=True)
class CallReply:
    """The reply to a call.  Errors are outcomes of a reply, not exceptions."""

    outcome: Outcome
    output: Content = EMPTY_CONTENT
    spent: Amount = NO_COST
    milliseconds: int = 0
    uses: tuple[ToolCall, ...] = ()
    why: kinds.Why = kinds.Why.NONE
    code: str = ""
    error: Content = EMPTY_CONTENT
    """The error text of the model, its provider or the tool."""
    retry_milliseconds: int = 0
    """The pause that the provider asked for, or 0."""
    input_tokens: int = 0
    """The number of input tokens among the tokens spent."""
    model: str = ""
    """The model that answered, as the provider reports it."""
    prices: str = ""
    """The id of the price table from which the cost was computed."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run, or a shared task by its key, that a worker has claimed to drive it."""

    run: str
    timers: tuple[Timer, ...] = ()
    """Its timers that were due; none if it is to be driven in any case."""


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """The runs that a worker has claimed at once."""

    claims: tuple[ClaimedRun, ...]
    is_full: bool
    """Whether more runs may be due."""


class TaskHalted(Exception):
    """Raised to end a task; `facts` is recorded as its stop or skip entry."""

    def __init__(self, facts: kinds.StopFacts | kinds.SkipFacts) -> None:
        super().__init__(facts)
        self.facts = facts


class Model(Protocol):
    """A model that answers prompts."""

    @property
    def name(self) -> str:
        """The name of the model in recorded calls."""
        ...

    def bound(self, call: ModelCall) -> Amount:
        """Return the maximum cost of a call.  It is reserved before the call is made."""
        ...

    async def reply(self, call: ModelCall) -> CallReply:
        """Make the call.  When cancelled, leave nothing running."""
        ...


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One invocation of a tool, whose intent is recorded before it is made."""

    run: str
    task: str
    step: str
    """The step under which its outcome is recorded."""
    tool: str
    arguments: Content
    key: str
    """The id of the first intent of this effect, the same in every attempt.

    Tools can use it as an idempotency key.
    """


class ToolPort(Protocol):
    """A tool, which may have an effect outside the system."""

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Invoke the tool, and return its reply."""
        ...


ModelFactory = Callable[[Agent], Model]
"""Returns the model of an agent."""

ToolFactory = Callable[[ToolSpec], ToolPort]
"""Returns the implementation of a tool."""

ToolOpener = Callable[[], AbstractAsyncContextManager[ToolFactory]]
"""Opens the tools of one task; what they have started ends with the block."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply from an earlier record, and the amount that was reserved for it there."""

    reply: CallReply
    bound: Amount
    source: kinds.ReplyOrigin
    model: str
    """The model that was called."""
    prompt: bytes | None = None
    """The recorded prompt, if another release made it in its own words; None: as made here."""
    schema: bytes = b""
    """The recorded schema that belongs to that prompt."""


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """The end of a replayed run, as far as the engine cannot derive it from replies.

    Cancellations and deadlines depend on people and clocks, so a replay takes them from here.
    """

    stopped: kinds.StopFacts | None
    spent: bytes
    cancelled_by: str
    """The actor that cancelled the run, or an empty string."""
    skipped: Mapping[str, kinds.SkipFacts]
    roles: frozenset[str]
    """The names of the role tasks that have entries."""
    steps: frozenset[str]
    """The steps recorded in `main`."""
    over: bool
    """Whether everything that was recorded before the end has been replayed."""


class ReplySource(Protocol):
    """Replies and outcomes of an earlier run, reused by a fork or a replay.

    A fork takes some replies from the run that it forks and makes the other calls.  A replay takes
    all replies from the record and makes no call.
    """

    def find_reply(self, call: ModelCall) -> RecordedReply | None:
        """Return the recorded reply to a call, or None.  Raises `TaskHalted`, `ReplayMiss`."""
        ...

    def find_call(self, task: str, step: str) -> kinds.CallFacts | None:
        """Return the recorded call of this step, or None where the run decides itself."""
        ...

    def allotment(self, task: str, step: str) -> kinds.DelegationFacts | None:
        """Return the recorded allotment of a child run, or None if it is to be computed."""

    def find_accord(self, task: str, step: str) -> tuple[kinds.AccordFacts, Content] | None:
        """Return the recorded accord of a panel and its findings, or None."""
        ...

    def recorded_end(self) -> RecordedEnd | None:
        """Return the recorded end of the run, or None if the engine is to decide it."""
        ...

    def raise_if_stopped_before(self, task: str, step: str) -> None:
        """Raise `TaskHalted` if the recorded task was stopped before it reached this step."""
        ...

    def find_outcome(self, call: ToolInvocation) -> CallReply | None:
        """Return the recorded outcome of an effect, or None to run it.  Raises `ReplayMiss`."""
        ...

    def has_gate(self, subject: str) -> bool:
        """Return whether the record has a gate for this subject; False if policy alone decides."""
        ...

    def find_similarity(self, request: SimilarityRequest) -> SimilarityReading | None:
        """Return the recorded verdicts on answers, or None to compare them.

        Raises `ReplayMiss`.
        """
        ...

    def accepted_at(self) -> int | None:
        """Return the acceptance time of the recorded run, or None to use this run's own."""
        ...

    def last_reply_at(self, task: str) -> int | None:
        """Return the recorded time of a task's last reply, 0 without one, or None to use ours."""
        ...


class AnswerEncoder(Protocol):
    """Compares free-text answers by what they mean."""

    @property
    def name(self) -> str:
        """The name of the sentence model, as it is recorded."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 of its weights, in hexadecimal."""
        ...

    def compare(
        self, answers: Sequence[str], pairs: Sequence[tuple[int, int]]
    ) -> tuple[AnswerVerdict, ...]:
        """Return a verdict for each pair of answers, which are given by their places."""
        ...


OpenEncoder = Callable[[], AnswerEncoder | None]
"""Returns the encoder, or None if none is installed.  Loading it is slow, so only a council with
several free-text answers calls this."""


class DeltaSink(Protocol):
    """Receives the output of calls while they are made.  Delivery is best effort."""

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Publish a piece of the output of this step's reply.  Never blocks, never raises."""
        ...
