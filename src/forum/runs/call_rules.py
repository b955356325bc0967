"""The rules of calls as one pure transition function: what follows from each reply.

The engine drives the calls of a task, a role or a turn by this function, and a verifier replays it
over the record. So a retry, repair, escalation or stop that does not follow from the record shows.

A released version of the rules is never changed, because a verifier replays old runs by it. Other
rules are a new function with the next number in `RULES`, and `CURRENT_RULES` names it.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.kinds import Outcome
from forum.ledger.ports import UNLIMITED, Amount
from forum.runs import kinds
from forum.runs.acceptance_criteria import Check
from forum.runs.judging import Judgement
from forum.runs.policy import (
    ACCORD_RULES,
    ASK_TOOL,
    COMPACTION_RULES,
    TEAM_RULES,
    Policy,
    ToolCall,
)
from forum.runs.prompt import Quotation

MAX_LOST_CALLS = 8
"""How many calls in a row may be lost to dying workers before the task is stopped."""
MAX_THROTTLED_CALLS = 24
"""How many calls in a row a provider may throttle before the call has failed."""


class Move(StrEnum):
    """What follows from the last event."""

    CALL = "call"
    """The next call is made."""
    REPEAT = "repeat"
    """The call was lost or throttled, and is made again."""
    READ = "read"
    """The reply counts: its reader says what it is worth."""
    REPAIR = "repair"
    """The reply is malformed: the agent is told what is wrong with it, and asked again."""
    RETRY = "retry"
    """The call, or the attempt, failed: it is made again after a pause."""
    ESCALATE = "escalate"
    """The next attempt is made by the next agent of the ladder."""
    ACCEPT = "accept"
    GIVE_UP = "give-up"


class QuestionLimits(msgspec.Struct, frozen=True):
    """How often an agent is asked the same question again."""

    repairs: int = 0
    """The maximum number of repairs after malformed replies."""
    retries: int = 0
    """The maximum number of retries after failed calls."""
    together: int = 1 << 30
    """The maximum number of repairs and retries together."""
    allowance: Amount = UNLIMITED
    """The limit for all calls of the strand; once it is exceeded, no call is made again."""


class CallState(msgspec.Struct, frozen=True):
    """How far the calls of one strand have come."""

    calls: int = 0
    """The number of answered calls in this attempt."""
    lost: int = 0
    throttled: int = 0
    """`lost`, `throttled`: calls in a row that were lost, or throttled by the provider."""
    question: QuestionLimits = QuestionLimits()
    malformed: int = 0
    failed: int = 0
    """`malformed`, `failed`: replies to the current question."""
    spent: Amount = Amount()
    """The cost of all calls of the strand."""
    replies: tuple[tuple[str, bytes], ...] = ()
    """The last successful replies: who spoke, and the digest of question and reply."""
    verdicts: tuple[kinds.VerdictFacts, ...] = ()
    move: Move = Move.CALL
    limit: kinds.StopFacts | None = None
    """The stop that another call would meet, without the name of the task."""


class AttemptBegun(msgspec.Struct, frozen=True):
    """An attempt begins."""


class QuestionAsked(msgspec.Struct, frozen=True):
    """A question begins whose reply must have a form."""

    limits: QuestionLimits


class ReplyReceived(msgspec.Struct, frozen=True):
    """A call has ended."""

    reply: kinds.ReplyFacts
    speaker: str
    """The agent and its role."""
    digest: bytes
    """The digest of question and reply; see `digest_reply`."""


class ReplyRead(msgspec.Struct, frozen=True):
    """The reply to a question was read."""

    outcome: Outcome
    usable: bool
    """Whether the reply has the required form."""
    hopeless: bool = False
    """Whether the protocol of a session forbids to ask again."""


class AttemptJudged(msgspec.Struct, frozen=True):
    """The result of an attempt was judged."""

    judgement: Judgement
    outcome: Outcome
    """The outcome of the call that gave the result."""
    agent: str
    """The agent that the task began with."""
    final: bool = False
    """Whether there is no other attempt: a task that a plan within carries out has one."""
    rungs: tuple[str, ...] = ()
    """Those who may work on the task, if a panel made the attempt. No panel is asked twice."""
    recorded: kinds.VerdictFacts | None = None
    """The verdict on record, with which a worker that takes over goes on."""


CallEvent = AttemptBegun | QuestionAsked | ReplyReceived | ReplyRead | AttemptJudged
Advance = Callable[[Policy, CallState, CallEvent], CallState]


def _advance_v1(policy: Policy, state: CallState, event: CallEvent) -> CallState:
    """Return the state after an event, by version 1 of the rules."""
    match event:
        case AttemptBegun():
            state = replace(state, calls=0, move=Move.CALL)
        case QuestionAsked(limits):
            state = replace(state, question=limits, malformed=0, failed=0, move=Move.CALL)
        case ReplyReceived():
            state = _receive_reply(policy, state, event)
        case ReplyRead():
            state = _read_reply(state, event)
        case AttemptJudged():
            applied = policy
            if event.final or event.rungs:
                applied = policy.without_retries(event.rungs[1:])
            verdict = event.recorded or decide_verdict(
                event.judgement, event.outcome, state.verdicts, applied, agent=event.agent
            )
            state = replace(
                state, verdicts=(*state.verdicts, verdict), move=Move(verdict.next.value)
            )
    return replace(state, limit=_find_limit(policy, state))


# Version 2 has the same transitions. It differs in who is called: results that do not fit are
# summarized first, and another model than the worker is preferred as judge (`Policy.judge_of`).
# Version 3 differs in what is accepted: the accord of a panel is judged (`judge_accord`). And its
# answers are compared with their requests, which decides whether the intent is judged
# (`Policy.checks_coverage`).
# Version 4 differs in what is sent: the conversation of a task with tools is compacted before it
# passes the context of its agent (`forum.runs.compaction`).
RULES: Mapping[int, Advance] = {
    1: _advance_v1,
    TEAM_RULES: _advance_v1,
    ACCORD_RULES: _advance_v1,
    COMPACTION_RULES: _advance_v1,
}
"""The transition function of each released version of the rules."""
CURRENT_RULES = COMPACTION_RULES
"""The version that new runs follow."""


class CallTracker:
    """The state of one strand's calls, advanced by the version of the rules that the run names."""

    def __init__(self, policy: Policy) -> None:
        """Begin the first attempt. Raises `Malformed` if this release lacks the version."""
        # Runs that name no version are older than the versions, or sessions: they follow the first.
        version = policy.rules or 1
        if version not in RULES:
            raise Malformed("policy", f"this release has no version {version} of the call rules")
        self._policy, self._rules = policy, RULES[version]
        self.state = self._rules(policy, CallState(), AttemptBegun())

    def advance(self, event: CallEvent) -> CallState:
        """Return the state after an event, and keep it."""
        self.state = self._rules(self._policy, self.state, event)
        return self.state


def _receive_reply(policy: Policy, state: CallState, event: ReplyReceived) -> CallState:
    reply = event.reply
    spent = state.spent.plus(reply.spent)
    state = replace(state, calls=state.calls + 1, spent=spent, move=Move.REPEAT)
    may_repeat = not spent.exceeds(state.question.allowance)
    if reply.why is kinds.Why.LOST and may_repeat:
        return replace(state, lost=state.lost + 1)
    is_throttled = reply.why is kinds.Why.THROTTLED and state.throttled < MAX_THROTTLED_CALLS
    if is_throttled and may_repeat:
        return replace(state, throttled=state.throttled + 1)
    replies = state.replies
    if reply.outcome is Outcome.OK:
        # Only the replies that `find_loop` looks at, so that the state does not grow.
        replies = (*replies, (event.speaker, event.digest))[-2 * max(2, policy.repeats) :]
    return replace(state, lost=0, throttled=0, replies=replies, move=Move.READ)


def _read_reply(state: CallState, event: ReplyRead) -> CallState:
    if event.usable:
        return replace(state, move=Move.ACCEPT)
    question, answered = state.question, event.outcome is Outcome.OK
    state = replace(
        state, malformed=state.malformed + answered, failed=state.failed + (not answered)
    )
    exhausted = (
        state.malformed > question.repairs
        or state.failed > question.retries
        or state.malformed + state.failed > question.together
        or event.outcome is Outcome.DENIED  # it would be denied again
        or event.hopeless
        or state.spent.exceeds(question.allowance)
    )
    again = Move.REPAIR if answered else Move.RETRY
    return replace(state, move=Move.GIVE_UP if exhausted else again)


def _find_limit(policy: Policy, state: CallState) -> kinds.StopFacts | None:
    """Return the stop that forbids another call, or None. Time and money are not counted here."""
    # A lost call is charged in full and made again: a call that kills every worker must end.
    if state.lost > MAX_LOST_CALLS:
        return kinds.StopFacts(
            reason=kinds.StopReason.LOST,
            limit="calls",
            asked=1,
            used=state.lost,
            cap=MAX_LOST_CALLS,
        )
    if state.calls >= policy.turns:
        return kinds.StopFacts(
            reason=kinds.StopReason.TURNS,
            limit="turns",
            asked=1,
            used=policy.turns,
            cap=policy.turns,
        )
    loop = find_loop(state.replies, policy.repeats)
    if loop is not None:
        return kinds.StopFacts(
            reason=loop, limit="repeats", asked=1, used=policy.repeats, cap=policy.repeats
        )
    return None


def find_loop(replies: Sequence[tuple[str, bytes]], repeats: int) -> kinds.StopReason | None:
    """Return the reason to stop a task whose replies repeat, or None.

    `replies` holds the agent and the reply of each call so far. A loop is one agent giving the same
    reply `repeats` times, or two agents alternating with the same two replies.
    """
    # In a policy, 0 means no limit; `max` below would turn it into 2.
    if repeats == 0:
        return None
    most = max(2, repeats)  # a reply that came once is not a repetition
    if len(replies) >= most and len(set(replies[-most:])) == 1:
        return kinds.StopReason.REPEAT
    turns = replies[-2 * most :]
    two = len(turns) == 2 * most and len({agent for agent, _ in turns}) > 1
    if two and len(set(turns[::2])) == 1 and len(set(turns[1::2])) == 1:
        return kinds.StopReason.PING_PONG
    return None


def digest_reply(question: bytes, output: bytes, uses: bytes) -> bytes:
    """Return the digest by which loops are found.

    It covers the new part of the prompt: the same reply to another question is no repetition.
    """
    return b"".join(sha256(part).digest() for part in (question, output, uses))


def summary_question(number: int) -> bytes:
    """Return the question of the n-th summary in a strand.

    It differs for each: two parts of a text may well have the same summary, which is no loop.
    """
    return f"summary {number}".encode()


def decide_verdict(
    judgement: Judgement,
    outcome: Outcome,
    before: tuple[kinds.VerdictFacts, ...],
    policy: Policy,
    agent: str,
) -> kinds.VerdictFacts:
    """Return the verdict on the next attempt of a task by this agent, and the next step.

    A failed call is retried by the same agent; an unsatisfactory result escalates to a stronger
    agent if there is one. Both terminate: retries are counted per agent, and the ladder is finite.
    A denied call is not retried, because it would be denied again.
    """
    attempt = len(before) + 1
    if judgement.passed:
        return kinds.VerdictFacts(attempt, Outcome.OK, judgement.check, kinds.Next.ACCEPT)
    level, retries = escalation_level(before), _count_retries(before)
    # A stronger agent helps against a bad result, and time against a broken connection: results
    # escalate at once, failed calls only after the retries.
    stronger = level + 1 < len(policy.ladder_of(agent))
    answered = outcome is Outcome.OK
    ended = Outcome.FAILED if answered else outcome
    spent = retries >= policy.retries or outcome is Outcome.DENIED
    if stronger and (answered or spent):
        following, pause = kinds.Next.ESCALATE, 0
    elif not spent:
        following, pause = kinds.Next.RETRY, policy.retry_delay_ms(retries + 1)
    else:
        following, pause = kinds.Next.GIVE_UP, 0
    return kinds.VerdictFacts(
        attempt=attempt,
        outcome=ended,
        check=judgement.check,
        next=following,
        reason=judgement.reason,
        pause=pause,
    )


def escalation_level(verdicts: tuple[kinds.VerdictFacts, ...]) -> int:
    """Return how often a task was escalated to a stronger agent."""
    return sum(1 for verdict in verdicts if verdict.next is kinds.Next.ESCALATE)


def _count_retries(verdicts: tuple[kinds.VerdictFacts, ...]) -> int:
    """Count the retries of the current agent since the last escalation."""
    count = 0
    for verdict in reversed(verdicts):
        if verdict.next is not kinds.Next.RETRY:
            break
        count += 1
    return count


def form_verdict(outcome: Outcome, *, usable: bool) -> kinds.VerdictFacts:
    """Return the verdict on a role or a turn, by the form of its last reply."""
    if usable:
        return kinds.VerdictFacts(1, Outcome.OK, Check.FORM, kinds.Next.ACCEPT)
    if outcome is Outcome.OK:
        return kinds.VerdictFacts(
            attempt=1,
            outcome=Outcome.FAILED,
            check=Check.FORM,
            next=kinds.Next.GIVE_UP,
            reason="form",
        )
    return kinds.VerdictFacts(
        attempt=1,
        outcome=outcome,
        check=Check.OUTCOME,
        next=kinds.Next.GIVE_UP,
        reason=outcome.value,
    )


def tool_verdict(outcome: Outcome) -> kinds.VerdictFacts:
    """Return the verdict of a check by a tool: accepted if the tool's outcome is `ok`."""
    holds = outcome is Outcome.OK
    following, reason = (kinds.Next.ACCEPT, "") if holds else (kinds.Next.GIVE_UP, outcome.value)
    return kinds.VerdictFacts(
        attempt=1, outcome=outcome, check=Check.COMMAND, next=following, reason=reason
    )


class AgentQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool with which one agent asks another."""

    agent: str
    text: str


def read_agent_question(use: ToolCall, policy: Policy) -> AgentQuestion | Quotation:
    """Return the question of an agent to another, or what it is told if it cannot be asked."""
    try:
        question = msgspec.json.decode(use.arguments, type=AgentQuestion)
    except (msgspec.MsgspecError, UnicodeError) as error:
        return _quote(f"{ASK_TOOL}, failed", str(error))
    if question.agent not in policy.agents:
        return _quote(f"{ASK_TOOL}, denied", f"there is no agent {question.agent!r}")
    return question


def _quote(source: str, text: str) -> Quotation:
    data = text.encode()
    return Quotation(source, data, len(data))
