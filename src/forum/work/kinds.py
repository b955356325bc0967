"""The kinds of entries that a run consists of, each with its facts.

Facts are texts, counts and closed enums: they stay when bodies are erased, so that a failed step
stays visibly failed, and a stranger's verifier needs no more to read them.
"""

from enum import StrEnum

from forum.ledger import NO_LIMIT, Amount, Count, Facts, Kind, Kinds, Outcome
from forum.work.policy import Answer

CONTROL = "control"
"""The strand in which others ask a run to end."""


MOST_TOLD = 128


def plain(name: str) -> str:
    """Return what facts and prompts tell of a name that others chose: one short line of text."""
    return "".join(c if c.isprintable() else " " for c in name[:MOST_TOLD])


def task_strand(task: str) -> str:
    """Return the strand of a task."""
    return f"task/{task}"


def gate_strand(subject: str) -> str:
    """Return the strand of a gate."""
    return f"gate/{subject}"


class Accepted(Facts, frozen=True):
    """A request was taken on: what it may use, and where it comes from."""

    usd: Count = NO_LIMIT
    tokens: Count = NO_LIMIT
    calls: Count = NO_LIMIT
    milliseconds: Count = NO_LIMIT
    depth: Count = 0
    parent_run: str = ""
    parent_task: str = ""
    fork_run: str = ""
    fork_index: Count = 0
    """Replies with an index up to this one are taken from the run that this one forks."""

    @property
    def cap(self) -> Amount:
        """What its calls may use."""
        return Amount(self.usd, self.tokens, self.calls)


class Planned(Facts, frozen=True):
    """The plan that is carried out; its body holds every instruction in full."""

    tasks: Count


class Why(StrEnum):
    """Why a call did not end well."""

    NONE = ""
    ERROR = "error"
    """The agent reported an error, or could not be started."""
    LOST = "lost"
    """The worker died before the reply was recorded."""
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    OVERSIZE = "oversize"
    """It said more than is kept."""


class Called(Facts, frozen=True):
    """A call is about to be made; what it can cost at most is reserved.  Body: the prompt."""

    agent: str
    model: str
    attempt: Count
    turn: Count
    usd: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0
    """How long it may take."""

    @property
    def reserved(self) -> Amount:
        """What is reserved for it."""
        return Amount(self.usd, self.tokens, 1)


class Source(StrEnum):
    """Where a reply comes from."""

    LIVE = "live"
    RECORDED = "recorded"
    """It is taken from the run that this one forks, and was paid there."""


class Replied(Facts, frozen=True):
    """How a call ended and what it cost.  Bodies: the output, the tools it wants, an error."""

    outcome: Outcome
    why: Why = Why.NONE
    usd: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0
    code: str = ""
    """What the agent's system says of an error: an exit status, an HTTP status."""
    overrun_usd: Count = 0
    """By how much the bill passed what was reserved."""
    overrun_tokens: Count = 0
    source: Source = Source.LIVE


class Intended(Facts, frozen=True):
    """An effect is about to happen.  Body: its arguments."""

    tool: str
    again: str = ""
    """The entry of the first intent of this very effect, where an earlier attempt had it too."""


class Happened(Facts, frozen=True):
    """What became of an effect.  Body: the result.

    `indeterminate`: the worker died in between; a person is asked.
    """

    outcome: Outcome
    why: Why = Why.NONE
    code: str = ""
    known: str = ""
    """The entry in which the effect is recorded that this one would have repeated."""


class Check(StrEnum):
    """By what a result was judged."""

    OUTCOME = "outcome"
    """Only that the call succeeded and said something: nothing was demanded that code can check."""
    CONTAINS = "contains"
    MATCHES = "matches"


class Next(StrEnum):
    """What follows from a verdict."""

    ACCEPT = "accept"
    RETRY = "retry"
    ESCALATE = "escalate"
    GIVE_UP = "give-up"


class Judged(Facts, frozen=True):
    """A verdict on one attempt, before any task that waits for it may start."""

    attempt: Count
    outcome: Outcome
    check: Check
    next: Next
    reason: str = ""
    pause: Count = 0
    """Milliseconds before the next attempt."""


class Skipped(Facts, frozen=True):
    """A task was not run, because of another one, or because the run was stopped."""

    cause: str
    """The task that did not pass, or `stop`."""


class StopReason(StrEnum):
    """Why something was stopped."""

    BUDGET = "budget"
    DEADLINE = "deadline"
    DEPTH = "depth"
    REPEAT = "repeat"
    """The same call gave the same reply too often."""
    PING_PONG = "ping-pong"
    """Two agents said the same to each other again and again."""
    TURNS = "turns"
    LOST = "lost"
    """Workers died too often at the same step."""
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    ERROR = "error"
    """What it needs of the record could not be read."""


class Stopped(Facts, frozen=True):
    """A task or a run was stopped.  Body of a run's: what was spent, by agent."""

    reason: StopReason
    limit: str = ""
    asked: Count = 0
    used: Count = 0
    cap: Count = 0
    by: str = ""
    """The task that met the limit."""


class GateOpened(Facts, frozen=True):
    """Something waits for a person.  Body: what is to be approved."""

    subject: str
    milliseconds: Count
    default: Answer


class GateEdited(Facts, frozen=True):
    """What is to be approved was changed.  Body: what it is now."""

    replaces: str
    """The digest of what was shown before."""


class Decider(StrEnum):
    """Who decided at a gate."""

    PERSON = "person"
    DEADLINE = "deadline"
    END = "end"
    """The run ended before anybody had decided."""


class GateDecided(Facts, frozen=True):
    """The first decision about what has this digest; there is no second."""

    answer: Answer
    digest: str
    by: Decider


class CancelAsked(Facts, frozen=True):
    """Somebody wants a run to end."""


class ControlClosed(Facts, frozen=True):
    """The run has ended; nobody can ask for it any more."""


class Delegated(Facts, frozen=True):
    """A task is carried out by a run of its own, which gets an allotment."""

    run: str
    usd: Count = NO_LIMIT
    tokens: Count = NO_LIMIT
    calls: Count = NO_LIMIT

    @property
    def allotment(self) -> Amount:
        """What the run may use."""
        return Amount(self.usd, self.tokens, self.calls)


class Answered(Facts, frozen=True):
    """The one answer of a run.  Body: its text, from the results that it names as parents."""

    outcome: Outcome
    parts: Count


WORK_KINDS = Kinds(
    [
        Kind("accepted/1", Accepted, frozenset({"request", "policy"})),
        Kind("plan/1", Planned, frozenset({"plan"})),
        Kind("call/1", Called, frozenset({"prompt"})),
        Kind("reply/1", Replied, frozenset({"output", "uses", "error"})),
        Kind("intent/1", Intended, frozenset({"arguments"})),
        Kind("outcome/1", Happened, frozenset({"result", "error"})),
        Kind("verdict/1", Judged),
        Kind("skip/1", Skipped),
        Kind("stop/1", Stopped, frozenset({"spent"})),
        Kind("gate.open/1", GateOpened, frozenset({"shown"})),
        Kind("gate.edit/1", GateEdited, frozenset({"shown"})),
        Kind("gate.decision/1", GateDecided),
        Kind("cancel/1", CancelAsked),
        Kind("control.close/1", ControlClosed),
        Kind("delegate/1", Delegated),
        Kind("answer/1", Answered, frozenset({"answer"})),
    ]
)
