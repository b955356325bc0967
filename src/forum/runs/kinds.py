"""The kinds of entries that a run consists of, each with its facts.

Facts are texts, counts and closed enums. They stay when bodies are erased, so that a failed step
remains visible as failed, and an independent verifier needs nothing else to read them.
"""

from enum import StrEnum

import msgspec

from forum.ledger.entry import Count, Facts, Limit
from forum.ledger.kinds import Kind, Kinds, Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs.acceptance_criteria import Check
from forum.runs.council_end import Accord
from forum.runs.policy import Answer

CONTROL = "control"
"""The strand in which cancellation is requested."""


MAX_NAME_CHARS = 128


def sanitize_name(name: str) -> str:
    """Return a name chosen by others as one short printable line, for facts and prompts."""
    # Agents and providers choose such names freely; none of them may make an entry invalid and
    # thereby end a run.
    return "".join(c if c.isprintable() else " " for c in name[:MAX_NAME_CHARS])


ROLE_PREFIX = "@"
"""The prefix of a role's task name; names of a plan's tasks cannot begin with it."""


TURN_PREFIX = "~"
"""The prefix of the name of a turn in a deliberation."""

VERIFIER = f"{ROLE_PREFIX}verifier"
"""The beginning of the name of a tool that checks the answer, among roles."""
CHILD_RUN = "run"
"""The agent and model name in the recorded call of a child run, and the actor that accepts it."""


def is_inner_run(agent: str, model: str) -> bool:
    """Return whether the engine has another run answer a call, where its cost is counted too."""
    return agent == CHILD_RUN == model


# The name of a task in a plan starts with a letter or a digit, so prefixed names are distinct.
_STRAND_PREFIXES = {"task": "", "role": ROLE_PREFIX, "turn": TURN_PREFIX}


def task_strand(task: str) -> str:
    """Return the strand of a task; roles and turns have strands apart from the plan's tasks."""
    for place, prefix in _STRAND_PREFIXES.items():
        if prefix and task.startswith(prefix):
            return f"{place}/{task[1:]}"
    return f"task/{task}"


def task_of_strand(strand: str) -> str | None:
    """Return the name of the task, role or turn of a strand; None for any other strand."""
    place, _, name = strand.partition("/")
    prefix = _STRAND_PREFIXES.get(place)
    return None if prefix is None or not name else prefix + name


def gate_strand(subject: str) -> str:
    """Return the strand of a gate."""
    return f"gate/{subject}"


def dissent_gate_subject(task: str) -> str:
    """Return the subject of the gate at which a person decides what a panel left undecided."""
    return f"dissent/{task}"


def tool_gate_subject(task: str, number: int) -> str:
    """Return the subject of the gate before the n-th use of a tool in a task."""
    return f"use/{task}/{number}"


class AcceptedFacts(Facts, frozen=True):
    """A request was taken on: what it may use, and where it comes from."""

    usd: Limit = NO_LIMIT
    tokens: Limit = NO_LIMIT
    calls: Limit = NO_LIMIT
    milliseconds: Limit = NO_LIMIT
    depth: Count = 0
    parent_run: str = ""
    parent_task: str = ""
    fork_run: str = ""
    fork_index: Count = 0
    """Replies with an index up to this one are taken from the forked run."""

    @property
    def cap(self) -> Amount:
        """The limits of the run's calls."""
        return Amount(self.usd, self.tokens, self.calls)


class Basis(StrEnum):
    """By what a lane was chosen."""

    GIVEN = "given"
    """The submitter named the lane."""
    LEXICAL = "lexical"
    SEMANTIC = "semantic"
    CLASSIFIER = "classifier"


class RouteFacts(Facts, frozen=True):
    """The lane of a request, or an empty one if none was certain. Body: the evidence."""

    lane: str
    basis: Basis
    confidence: Count = 0
    """In thousandths."""
    runner_up: str = ""
    margin: Count = 0
    """The distance to the runner-up's score, in thousandths."""
    roster: str = ""
    """The digest of the roster that was used."""


# Not a part of `accepted/1`, whose facts are released. It names no parent: a bundle holds one run,
# and a parent that is not in it would be a finding.
class AboutFacts(Facts, frozen=True):
    """A panel deliberates on the answer of another run, which has ended.

    Bodies: the request and the answer of that run, with the same commitments as there.
    """

    run: str
    entry: str
    """The id of the entry with the answer, in hexadecimal digits."""


SINGLE_ASK_STEP = "plan/one-ask"
"""The step of a plan that code made although there is a Coordinator: the request is one ask."""
LISTED_ASKS_STEP = "plan/listed-asks"
"""The step of a plan that code made for a team without a Coordinator: a task for each question."""


class PlanFacts(Facts, frozen=True):
    """The plan to execute; the body holds every instruction in full."""

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
    """The reply was longer than the limit."""
    THROTTLED = "throttled"
    """The provider throttled the call; it is made again."""
    CUT = "cut"
    """Only the beginning of the reply arrived."""


class CallFacts(Facts, frozen=True):
    """A call about to be made, with its maximum cost reserved. Body: the prompt."""

    agent: str
    model: str
    attempt: Count
    turn: Count
    usd: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0
    """The time limit of the call."""
    role: str = ""
    """The role that makes the call; empty for the task's own work."""
    calls: Count = 1
    """The reserved number of calls: of an inner run those that it may make, 0 without a limit."""

    @property
    def reserved(self) -> Amount:
        """The reserved amount."""
        return Amount(self.usd, self.tokens, self.calls)


class ReplyOrigin(StrEnum):
    """Where a reply comes from."""

    LIVE = "live"
    RECORDED = "recorded"
    """Copied from the forked run, which paid for it."""


class ReplyFacts(Facts, frozen=True):
    """How a call ended and what it cost. Bodies: the output, requested tool calls, an error."""

    outcome: Outcome
    why: Why = Why.NONE
    usd: Count = 0
    tokens: Count = 0
    milliseconds: Count = 0
    code: str = ""
    """The code of an error from the agent's system: an exit status or an HTTP status."""
    overrun_usd: Count = 0
    """By how much the bill exceeded the reservation."""
    overrun_tokens: Count = 0
    source: ReplyOrigin = ReplyOrigin.LIVE
    input_tokens: Count = 0
    """The part of the tokens that was input."""
    model: str = ""
    """The model that replied, as reported by the provider."""
    prices: str = ""
    """The price table from which the cost was computed."""
    pause: Count = 0
    """The delay before the next call that the provider asked for, in milliseconds."""
    calls: Count = 1
    """How many calls count as made: of an inner run those within it."""

    @property
    def spent(self) -> Amount:
        """The cost of the call."""
        return Amount(self.usd, self.tokens, self.calls)


class IntentFacts(Facts, frozen=True):
    """A tool about to be used. Body: its arguments."""

    tool: str
    again: str = ""
    """The entry of the first intent of the same effect, if an earlier attempt recorded one."""


class OutcomeFacts(Facts, frozen=True):
    """The outcome of a tool use. Body: the result.

    `indeterminate`: the worker died before the outcome was recorded; a person is asked.
    """

    outcome: Outcome
    why: Why = Why.NONE
    code: str = ""
    known: str = ""
    """The entry that records the same effect, which was therefore not repeated."""


class CompactionMethod(StrEnum):
    """How the text was made that stands for what was left out."""

    SUMMARY = "summary"
    """By calls with the role `summarizer`, right before."""
    EXCERPT = "excerpt"
    """By code: the passages that matter most for the task."""


SUMMARY = "summary"
"""The body of `compaction/1`."""


class CompactionFacts(Facts, frozen=True):
    """The prompts of an attempt no longer show its first rounds. Body: the text in their place.

    A round is a reply with the results of the tool calls that it requested.
    """

    attempt: Count
    rounds: Count
    """How many rounds are left out, from the first one of the attempt on."""
    first: str
    """The step of the reply of the first round that is left out."""
    last: str
    """The step of the reply of the last one."""
    method: CompactionMethod
    tokens_before: Count
    """The estimated tokens of the prompt that would have been sent."""
    tokens_after: Count
    """The estimated tokens of the prompt in its place."""


class Next(StrEnum):
    """What follows from a verdict."""

    ACCEPT = "accept"
    RETRY = "retry"
    ESCALATE = "escalate"
    GIVE_UP = "give-up"


class Independence(StrEnum):
    """Whether the one who judged is another than the one who was judged; computed, not claimed."""

    NONE = ""
    """No model was the judge."""
    YES = "independent"
    NO = "not-independent"
    """The judge is the same model as the author."""


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
    """The agent that judged, where code could not."""
    independence: Independence = Independence.NONE
    claims: Count = 0
    """How many statements of completed actions the result contains."""
    unverified: Count = 0
    """How many of them no entry supports."""


COVERAGE = "coverage"
"""The subject of the check that compares the words of an answer with those of its request.

It is recorded only where it flags the answer, and a flag fails nothing: its outcome is
`indeterminate`.
"""
FORM = "form"
"""The subject of the check whether an answer has the form that its request states.

It is a flag too.
"""
NOT_CONFIRMED = "not-confirmed"
"""The reason of a finding of the intent judge that the words of the answer do not confirm."""


class CheckFacts(Facts, frozen=True):
    """The answer was looked at before it was given.  Body: what was said of it."""

    subject: str
    """`coverage`, `form`, `synthesis`, `intent`, `delivery`, or the name of the verifying tool."""
    outcome: Outcome
    check: Check
    reason: str = ""
    judge: str = ""
    independence: Independence = Independence.NONE


class SkipFacts(Facts, frozen=True):
    """A task was not run, because of another task or because the run was stopped."""

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
    """Two agents alternated with the same replies too often."""
    TURNS = "turns"
    LOST = "lost"
    """Workers died too often at the same step."""
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    ERROR = "error"
    """A needed part of the record could not be read."""
    ROLE = "role"
    """A role produced no usable plan or no answer."""


class StopFacts(Facts, frozen=True):
    """A task or a run was stopped. Body, for a run: the amounts spent, by agent."""

    reason: StopReason
    limit: str = ""
    asked: Count = 0
    used: Count = 0
    cap: Count = 0
    by: str = ""
    """The task that reached the limit."""


class GateOpenFacts(Facts, frozen=True):
    """A gate that waits for a person. Body: the content to approve."""

    subject: str
    milliseconds: Count
    default: Answer


class GateEditFacts(Facts, frozen=True):
    """The content to approve was changed. Body: the new content."""

    replaces: str
    """The digest of the content shown before."""


class Decider(StrEnum):
    """Who decided at a gate, where nobody showed a credential."""

    PERSON = "person"
    """A person; release 0.1 recorded no more than that."""
    DEADLINE = "deadline"
    END = "end"
    """The run ended before a decision."""


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
    """An API key of the ledger; the actor of the entry names it."""
    OPERATOR = "operator"
    """The operator token, or an operating system user with write access to the ledger."""


IDENTITY = "identity"
"""The body of a decision that identifies the person."""


# A second kind, because the facts of a released kind do not change. Decisions of the engine itself
# stay `gate.decision/1`, so that a replay of an old run records what that run recorded.
class GateDecisionByFacts(Facts, frozen=True):
    """The same as `GateDecisionFacts`, by somebody who had to show that they may.

    Body: of a person, whom the token names, and who issued it.
    """

    answer: Answer
    digest: str
    by: Authority


class Identity(msgspec.Struct, frozen=True):
    """The body `identity` of a decision: the subject and the issuer of the token."""

    subject: str
    issuer: str


# An entry of its own, right before the decision and in its commit, because a released kind gets no
# further body: a worker or a verifier of an earlier release passes over it and finds a decision
# that it knows.
class GateReasonFacts(Facts, frozen=True):
    """Why somebody decides; the decision follows at once. Body: the reason in words."""

    digest: str
    """Of the content that the decision is about."""


REASON = "reason"
"""The body of `gate.reason/1`."""

GateDecision = GateDecisionFacts | GateDecisionByFacts
"""The entry that ends a gate."""


class CancelFacts(Facts, frozen=True):
    """A request to cancel a run."""


# Takes the last position of the control strand before the run is closed: a late request to cancel
# finds its position taken, and no entry can follow the close of a run.
class ControlCloseFacts(Facts, frozen=True):
    """The run has ended, and cancellation can no longer be requested."""


class InterruptionFacts(Facts, frozen=True):
    """The driver of a run was told to stop; no worker continues the run until it is resumed."""


class ResumptionFacts(Facts, frozen=True):
    """An interrupted run may be executed again."""


class DelegationFacts(Facts, frozen=True):
    """A task is executed by a run of its own, with a part of the budget."""

    run: str
    usd: Limit = NO_LIMIT
    tokens: Limit = NO_LIMIT
    calls: Limit = NO_LIMIT

    @property
    def allotment(self) -> Amount:
        """The limits of the inner run."""
        return Amount(self.usd, self.tokens, self.calls)


FINDINGS = "findings"
"""The body of `accord/1`."""


class AccordFacts(Facts, frozen=True):
    """How far the panel agreed that answered the call before. Body: what it found, in words."""

    run: str
    """The run in which the panel deliberated."""
    accord: Accord
    blockers: Count = 0
    """The number of objections that must be answered first."""
    role: str = ""
    """The role in which the panel was asked; empty for the task's own work."""


class AnswerFacts(Facts, frozen=True):
    """The answer of a run; its parents are the results that it is made from.

    Bodies: the text, and the actions that it claims with the entries that support them.
    """

    outcome: Outcome
    parts: Count
    claims: Count = 0
    unverified: Count = 0


class ScoreSubject(StrEnum):
    """What a score is about."""

    RUN = "run"
    TASK = "task"
    ANSWER = "answer"


class Scorer(StrEnum):
    """What kind of judge gave a score, by its own statement; the actor names who wrote it."""

    PERSON = "person"
    PROGRAM = "program"
    JUDGE = "judge"
    """A model."""


MAX_SCORE = 1000
"""The best score; scores are in thousandths."""


def score_strand(run: str) -> str:
    """Return the strand of the log's own run that holds the scores of a run.

    A closed run takes no further entries, so its scores are beside it.
    """
    return f"score/{run}"


class ScoreFacts(Facts, frozen=True):
    """How good a run, a task or an answer is. The first parent is the entry that is scored.

    The latest score of an actor for the same subject and name counts. Body: a comment.
    """

    run: str
    subject: ScoreSubject
    name: str
    value: Count
    """In thousandths, from 0 to 1000."""
    by: Scorer
    task: str = ""
    """The task that is scored; empty for the run and the answer."""
    judge: str = ""
    """The agent that judged."""
    independence: Independence = Independence.NONE


class EvalOpenFacts(Facts, frozen=True):
    """An evaluation begins. Body: the cases, before any of them is played."""

    cases: Count
    repeat: Count
    configurations: tuple[str, ...]


class EvalPlayFacts(Facts, frozen=True):
    """A case was played by a configuration. Parents: the close of its run, and its scores."""

    case: Count
    """The number of the case, from 1."""
    configuration: str
    repeat: Count
    run: str
    quality: Count
    """In thousandths."""


class EvalReportFacts(Facts, frozen=True):
    """The comparison that follows from the plays. Body: the report."""

    plays: Count
    unplayed: Count = 0


# The names are part of the released format: facts of a released kind do not change, and new facts
# need a new version.
WORK_KINDS = Kinds(
    [
        Kind("accepted/1", AcceptedFacts, frozenset({"request", "policy"})),
        Kind("route/1", RouteFacts, frozenset({"evidence"})),
        Kind("about/1", AboutFacts, frozenset({"request", "answer"})),
        Kind("plan/1", PlanFacts, frozenset({"plan"})),
        Kind("call/1", CallFacts, frozenset({"prompt", "schema", "offers"})),
        Kind("reply/1", ReplyFacts, frozenset({"output", "uses", "error"})),
        Kind("intent/1", IntentFacts, frozenset({"arguments"})),
        Kind("outcome/1", OutcomeFacts, frozenset({"result", "error"})),
        Kind("compaction/1", CompactionFacts, frozenset({SUMMARY})),
        Kind("verdict/1", VerdictFacts, frozenset({"claims"})),
        Kind("skip/1", SkipFacts),
        Kind("stop/1", StopFacts, frozenset({"spent"})),
        Kind("gate.open/1", GateOpenFacts, frozenset({"shown"})),
        Kind("gate.edit/1", GateEditFacts, frozenset({"shown"})),
        Kind("gate.reason/1", GateReasonFacts, frozenset({REASON})),
        Kind("gate.decision/1", GateDecisionFacts),
        Kind("gate.decision/2", GateDecisionByFacts, frozenset({IDENTITY})),
        Kind("cancel/1", CancelFacts),
        Kind("control.close/1", ControlCloseFacts),
        Kind("run.interrupted/1", InterruptionFacts),
        Kind("run.resumed/1", ResumptionFacts),
        Kind("delegate/1", DelegationFacts),
        Kind("accord/1", AccordFacts, frozenset({FINDINGS})),
        Kind("check/1", CheckFacts, frozenset({"detail"})),
        Kind("answer/1", AnswerFacts, frozenset({"answer", "claims"})),
        Kind("score/1", ScoreFacts, frozenset({"comment"})),
        Kind("eval.open/1", EvalOpenFacts, frozenset({"cases"})),
        Kind("eval.play/1", EvalPlayFacts),
        Kind("eval.report/1", EvalReportFacts, frozenset({"report"})),
    ]
)
