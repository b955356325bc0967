"""What the engine needs from the world: models, tools, and somebody who calls it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from forum.ledger import Amount, BytesContent, Content, Outcome
from forum.work import (
    Agent,
    DelegationFacts,
    PromptMessage,
    ReplyOrigin,
    SkipFacts,
    StopFacts,
    ToolCall,
    ToolSpec,
    Why,
)

EMPTY_CONTENT = BytesContent(b"")
NO_COST = Amount()
MAX_TOOL_CALLS = 64
"""How many tools an agent may want at once."""

DeltaCallback = Callable[[str], None]
"""Is told what a model says, piece by piece, while it says it.  Never blocks, never raises."""


def ignore_delta(_: str) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool that an agent is told of."""

    name: str
    description: str
    schema: bytes
    """The form of its arguments: a JSON schema; empty where any text will do."""


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
    """The longest that it may take."""
    turns: tuple[PromptMessage, ...] = ()
    """The prompt again, part by part; for a model that is told who speaks."""
    offers: tuple[ToolOffer, ...] = ()
    """What the agent may use."""
    schema: bytes = b""
    """The form that its output must have: a JSON schema; empty where any text will do."""
    hear: DeltaCallback = field(default=ignore_delta, compare=False, repr=False)
    """Who listens meanwhile to its output: not to arguments of tools, nor to thoughts."""


@dataclass(frozen=True, slots=True)
class CallReply:
    """What came of a call: always a value, never an exception."""

    outcome: Outcome
    output: Content = EMPTY_CONTENT
    spent: Amount = NO_COST
    milliseconds: int = 0
    uses: tuple[ToolCall, ...] = ()
    why: Why = Why.NONE
    code: str = ""
    error: Content = EMPTY_CONTENT
    """What the agent's system said of an error."""
    retry_milliseconds: int = 0
    """How long the provider wants to be left alone, where it said so."""
    input_tokens: int = 0
    """Of the tokens that were spent, those that it read."""
    model: str = ""
    """Who answered, as the provider says."""
    prices: str = ""
    """The id of the price table by which the cost was computed."""


class TaskHalted(Exception):
    """A task goes no further."""

    def __init__(self, facts: StopFacts | SkipFacts) -> None:
        super().__init__(facts)
        self.facts = facts


class Model(Protocol):
    """Somebody who answers prompts."""

    @property
    def name(self) -> str:
        """How the record calls it."""
        ...

    def bound(self, call: ModelCall) -> Amount:
        """Return the most that a call can cost.  It is reserved before the call is made."""
        ...

    async def reply(self, call: ModelCall) -> CallReply:
        """Make the call.  When cancelled, leave nothing running."""
        ...


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """An effect on the world that is about to happen, as it is recorded before."""

    run: str
    task: str
    step: str
    """The step under which its outcome is recorded."""
    tool: str
    arguments: Content
    key: str
    """The id of the first intent of this effect, in every attempt: tools that can heed it."""


class ToolPort(Protocol):
    """Something with an effect on the world."""

    async def invoke(self, deed: ToolInvocation) -> CallReply:
        """Have the effect."""
        ...


ModelFactory = Callable[[Agent], Model]
"""Makes the model of an agent."""

ToolFactory = Callable[[ToolSpec], ToolPort]
"""Makes a tool."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply that is on record already, and what was reserved for it there."""

    reply: CallReply
    bound: Amount
    source: ReplyOrigin
    model: str
    """Who was asked."""


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """How a run ended that is played again: what the engine did not decide by itself."""

    stopped: StopFacts | None
    spent: bytes
    cancelled_by: str
    """Who asked for the end, if somebody did."""
    skipped: Mapping[str, SkipFacts]
    roles: frozenset[str]
    """The roles that had begun to do their part."""
    steps: frozenset[str]
    """What was recorded of the run itself."""
    over: bool
    """Whether everything was played that came before."""


class ReplySource(Protocol):
    """What an earlier run says of calls and effects that are due again.

    A fork takes some replies from the run that it forks; a replay takes all, and nothing else.
    """

    def find_reply(self, call: ModelCall) -> RecordedReply | None:
        """Return the recorded reply to a call, or None.  Raises `TaskHalted`, `ReplayMiss`."""
        ...

    def allotment(self, task: str) -> DelegationFacts | None:
        """Return what a run within was given; without that, it is decided."""
        ...

    def recorded_end(self) -> RecordedEnd | None:
        """Return how the run ended, where that is not to be decided again."""
        ...

    def raise_if_stopped_before(self, task: str, step: str) -> None:
        """Raise `TaskHalted` where the task was stopped before it came to this step."""
        ...

    def find_outcome(self, deed: ToolInvocation) -> CallReply | None:
        """Return what became of an effect; without that it is had.  Raises `ReplayMiss`."""
        ...

    def has_gate(self, subject: str) -> bool:
        """Tell whether a person was asked about this, where the record decides that."""
        ...

    def accepted_at(self) -> int | None:
        """Return when the run was taken on, where that counts and not when this one was."""
        ...

    def last_reply_at(self, task: str) -> int | None:
        """Return when the last reply of a task came, where that counts; 0 where none did."""
        ...


class DeltaSink(Protocol):
    """Somebody who listens to calls while they are made.  What is told may be lost."""

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Tell some more of what will be recorded under this step.  Never blocks, never raises."""
        ...


class Runner(Protocol):
    """Calls the engine for runs and tasks, on this machine or another, until they return.

    It may call twice, and again after a crash: the ledger tells what was done already.  What it
    is asked for while the same is still going on is dropped; the alarms of the ledger see to it
    that nothing is forgotten.
    """

    async def enqueue_run(self, run: str) -> None:
        """Have `Engine.drive_run` called."""
        ...

    async def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Have `Engine.drive_task` called for each."""
        ...
