"""The kinds of entries that a run consists of, each with its facts.

Facts are texts, counts and closed enums: they stay when bodies are erased, so that a failed step
stays visibly failed, and a stranger's verifier needs no more to read them.
"""

from enum import StrEnum

import msgspec

from forum.ledger import NO_LIMIT, Amount, Count, Facts, Kind, Kinds, Outcome
from forum.work.acceptance_criteria import Check
from forum.work.policy import Answer

CONTROL = "control"
"""The strand in which others ask a run to end."""


MAX_NAME_CHARS = 128


def sanitize_name(name: str) -> str:
    """Return what facts and prompts tell of a name that others chose: one short line of text."""
    return "".join(c if c.isprintable() else " " for c in name[:MAX_NAME_CHARS])


ROLE_PREFIX = "@"
"""What the name of a role's task begins with, and that of no task of a plan."""


TURN_PREFIX = "~"
"""What the name of a turn in a deliberation begins with."""

_STRAND_PREFIXES = {"task": "", "role": ROLE_PREFIX, "turn": TURN_PREFIX}


def task_strand(task: str) -> str:
    """Return the strand of a task; what a role does, or a seat says, stands apart from the work."""
    for place, prefix in _STRAND_PREFIXES.items():
        if prefix and task.startswith(prefix):
            return f"{place}/{task[1:]}"
    return f"task/{task}"


def task_of_strand(strand: str) -> str | None:
    """Return whose strand this is, if it is that of a task, a role or a turn."""
    place, _, name = strand.partition("/")
    prefix = _STRAND_PREFIXES.get(place)
    return None if prefix is None or not name else prefix + name


def gate_strand(subject: str) -> str:
    """Return the strand of a gate."""
    return f"gate/{subject}"


def tool_gate_subject(task: str, number: int) -> str:
    """Return the subject of the gate before the n-th use of a tool in a task."""
    return f"use/{task}/{number}"


class AcceptedFacts(Facts, frozen=True):
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


class Basis(StrEnum):
    """By what a lane was chosen."""

    GIVEN = "given"
    """Whoever asked has named it."""
    LEXICAL = "lexical"
    SEMANTIC = "semantic"
    CLASSIFIER = "classifier"


class RouteFacts(Facts, frozen=True):
    """The lane that a request belongs to, or that none could be told.  Body: the evidence."""

    lane: str
    basis: Basis
    confidence: Count = 0
    """In thousandths."""
    runner_up: str = ""
    margin: Count = 0
    """How far the runner-up lies behind, in thousandths."""
    roster: str = ""
    """The digest of the lanes that there were to choose from."""


class PlanFacts(Facts, frozen=True):
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
    THROTTLED = "throttled"
    """The provider wants to be left alone for a while: the call is made again."""
    CUT = "cut"
    """Only the beginning of the reply came."""


class CallFacts(Facts, frozen=True):
    """A call is about to be made; what it can cost at most is reserved.  Body: the prompt."""

    agent: str
    model: str
    attempt: Count
    turn: Count
    usd: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0
    """How long it may take."""
    role: str = ""
    """What it is made for, if not for the work itself."""

    @property
    def reserved(self) -> Amount:
        """What is reserved for it."""
        return Amount(self.usd, self.tokens, 1)


class ReplyOrigin(StrEnum):
    """Where a reply comes from."""

    LIVE = "live"
    RECORDED = "recorded"
    """It is taken from the run that this one forks, and was paid there."""


class ReplyFacts(Facts, frozen=True):
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
    source: ReplyOrigin = ReplyOrigin.LIVE
    input_tokens: Count = 0
    """Of the tokens, those that were read."""
    model: str = ""
    """Who answered, as the provider says."""
    prices: str = ""
    """The price table by which the cost was computed."""
    pause: Count = 0
    """For how many milliseconds the provider wants to be left alone."""


class IntentFacts(Facts, frozen=True):
    """An effect is about to happen.  Body: its arguments."""

    tool: str
    again: str = ""
    """The entry of the first intent of this very effect, where an earlier attempt had it too."""


class OutcomeFacts(Facts, frozen=True):
    """What became of an effect.  Body: the result.

    `indeterminate`: the worker died in between; a person is asked.
    """

    outcome: Outcome
    why: Why = Why.NONE
    code: str = ""
    known: str = ""
    """The entry in which the effect is recorded that this one would have repeated."""


class Next(StrEnum):
    """What follows from a verdict."""

    ACCEPT = "accept"
    RETRY = "retry"
    ESCALATE = "escalate"
    GIVE_UP = "give-up"


class Independence(StrEnum):
    """Whether the one who judged is another than the one who was judged; computed, not claimed."""

    NONE = ""
    """No model has judged."""
    YES = "independent"
    NO = "not-independent"
    """The same model has judged what it said itself."""


class VerdictFacts(Facts, frozen=True):
    """A verdict on one attempt, before any task that waits for it may start.

    Body: what the result says was done, and which entries show it.
    """

    attempt: Count
    outcome: Outcome
    check: Check
    next: Next
    reason: str = ""
    pause: Count = 0
    """Milliseconds before the next attempt."""
    judge: str = ""
    """The agent that has judged, where code could not."""
    independence: Independence = Independence.NONE
    claims: Count = 0
    """How often the result says that something was done."""
    unverified: Count = 0
    """For how many of those no entry shows it."""


class CheckFacts(Facts, frozen=True):
    """The answer was looked at before it was given.  Body: what was said of it."""

    subject: str
    """`intent`, `delivery`, or the tool that verified it."""
    outcome: Outcome
    check: Check
    reason: str = ""
    judge: str = ""
    independence: Independence = Independence.NONE


class SkipFacts(Facts, frozen=True):
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
    ROLE = "role"
    """A role did not do its part: there is no plan that can be run, or no answer."""


class StopFacts(Facts, frozen=True):
    """A task or a run was stopped.  Body of a run's: what was spent, by agent."""

    reason: StopReason
    limit: str = ""
    asked: Count = 0
    used: Count = 0
    cap: Count = 0
    by: str = ""
    """The task that met the limit."""


class GateOpenFacts(Facts, frozen=True):
    """Something waits for a person.  Body: what is to be approved."""

    subject: str
    milliseconds: Count
    default: Answer


class GateEditFacts(Facts, frozen=True):
    """What is to be approved was changed.  Body: what it is now."""

    replaces: str
    """The digest of what was shown before."""


class Decider(StrEnum):
    """Who decided at a gate, where nobody showed a credential."""

    PERSON = "person"
    """Somebody; release 0.1 recorded no more than that."""
    DEADLINE = "deadline"
    END = "end"
    """The run ended before anybody had decided."""


class GateDecisionFacts(Facts, frozen=True):
    """The first decision about what has this digest; there is no second."""

    answer: Answer
    digest: str
    by: Decider


class Authority(StrEnum):
    """By what somebody was allowed to decide at a gate."""

    PERSON = "person"
    """A token of an identity provider, which names a person."""
    KEY = "key"
    """A key of the ledger; the actor of the entry names it."""
    OPERATOR = "operator"
    """The operator's token, or a user of the operating system who may write to the ledger."""


IDENTITY = "identity"
"""The body of a decision that says who the person was."""


class GateDecisionByFacts(Facts, frozen=True):
    """The same as `GateDecisionFacts`, by somebody who had to show that they may.

    Body: of a person, whom the token names, and who issued it.
    """

    answer: Answer
    digest: str
    by: Authority


class Identity(msgspec.Struct, frozen=True):
    """The body `identity` of a decision: whom a token names, and who issued it."""

    subject: str
    issuer: str


GateDecision = GateDecisionFacts | GateDecisionByFacts
"""What is recorded at the end of a gate."""


class CancelFacts(Facts, frozen=True):
    """Somebody wants a run to end."""


class ControlCloseFacts(Facts, frozen=True):
    """The run has ended; nobody can ask for it any more."""


class InterruptionFacts(Facts, frozen=True):
    """Whoever carried a run out was told to stop: nobody goes on with it until it is resumed."""


class ResumptionFacts(Facts, frozen=True):
    """An interrupted run is to be carried out again."""


class DelegationFacts(Facts, frozen=True):
    """A task is carried out by a run of its own, which gets an allotment."""

    run: str
    usd: Count = NO_LIMIT
    tokens: Count = NO_LIMIT
    calls: Count = NO_LIMIT

    @property
    def allotment(self) -> Amount:
        """What the run may use."""
        return Amount(self.usd, self.tokens, self.calls)


class AnswerFacts(Facts, frozen=True):
    """The one answer of a run, from the results that it names as parents.

    Bodies: its text; what it says was done, and which entries show it.
    """

    outcome: Outcome
    parts: Count
    claims: Count = 0
    unverified: Count = 0


WORK_KINDS = Kinds(
    [
        Kind("accepted/1", AcceptedFacts, frozenset({"request", "policy"})),
        Kind("route/1", RouteFacts, frozenset({"evidence"})),
        Kind("plan/1", PlanFacts, frozenset({"plan"})),
        Kind("call/1", CallFacts, frozenset({"prompt", "schema", "offers"})),
        Kind("reply/1", ReplyFacts, frozenset({"output", "uses", "error"})),
        Kind("intent/1", IntentFacts, frozenset({"arguments"})),
        Kind("outcome/1", OutcomeFacts, frozenset({"result", "error"})),
        Kind("verdict/1", VerdictFacts, frozenset({"claims"})),
        Kind("skip/1", SkipFacts),
        Kind("stop/1", StopFacts, frozenset({"spent"})),
        Kind("gate.open/1", GateOpenFacts, frozenset({"shown"})),
        Kind("gate.edit/1", GateEditFacts, frozenset({"shown"})),
        Kind("gate.decision/1", GateDecisionFacts),
        Kind("gate.decision/2", GateDecisionByFacts, frozenset({IDENTITY})),
        Kind("cancel/1", CancelFacts),
        Kind("control.close/1", ControlCloseFacts),
        Kind("run.interrupted/1", InterruptionFacts),
        Kind("run.resumed/1", ResumptionFacts),
        Kind("delegate/1", DelegationFacts),
        Kind("check/1", CheckFacts, frozenset({"detail"})),
        Kind("answer/1", AnswerFacts, frozenset({"answer", "claims"})),
    ]
)
