"""What may happen next in a run: pure decisions, from the plan and what is recorded.

They depend on nothing but their arguments, so whoever takes a run over decides the same.
"""

from collections.abc import Iterator, Sequence

import msgspec

from forum.ledger import Outcome
from forum.work.judging import Judgement
from forum.work.kinds import Next, SkipFacts, StopReason, VerdictFacts
from forum.work.plan import Plan
from forum.work.policy import Policy
from forum.work.run_fold import Run, TaskState

STOP_CAUSE = "stop"
"""The cause of a skipped task that no other task is to blame for."""
MAX_LOST_CALLS = 8
"""How often in a row a worker may die in a call before the call is blamed for it."""
MAX_THROTTLED_CALLS = 24
"""How often in a row a provider may turn a call away before it has failed."""
MAX_CHECK_ATTEMPTS = 3
"""How often a tool is asked that only looks, when workers die meanwhile."""


_STARTABLE_STATES = frozenset({TaskState.PENDING, TaskState.RUNNING})


class NextSteps(msgspec.Struct, frozen=True):
    """What to do now."""

    skip: tuple[tuple[str, SkipFacts], ...] = ()
    start: tuple[str, ...] = ()


def next_steps(plan: Plan, run: Run, policy: Policy, started: frozenset[str]) -> NextSteps:
    """Return which tasks to skip and which to start, in the order of the plan.

    What has begun comes first: whoever takes a run over must not begin more beside it than may go
    on at once.
    A task starts as soon as all that it waits for have passed, and there is room; nobody waits
    for a whole level of the plan.
    """
    if run.stopped is not None or run.cancelled:
        return _wind_up(plan, run, started)
    room = policy.parallel - len(started)
    skip, start = [], []
    for task in sorted(plan.tasks, key=lambda task: task.id not in run.tasks):
        if task.id in started or run.task(task.id).state not in _STARTABLE_STATES:
            continue
        cause = _blocked_by(plan, run, task.id)
        if cause is not None:
            skip.append((task.id, SkipFacts(cause)))
        elif room > 0 and _is_ready(plan, run, task.id):
            start.append(task.id)
            room -= 1
    return NextSteps(tuple(skip), tuple(start))


def _wind_up(plan: Plan, run: Run, started: frozenset[str]) -> NextSteps:
    """Skip what has not begun, and have what has begun brought to its end.

    What waits for word of an effect goes on waiting: whether it happened stays a question.
    """
    left = [name for name in unfinished_tasks(plan, run) if name not in started]
    skip = tuple((name, SkipFacts(STOP_CAUSE)) for name in left if name not in run.tasks)
    begun = (name for name in left if name in run.tasks)
    return NextSteps(skip, tuple(n for n in begun if run.task(n).state is not TaskState.WAITING))


def _blocked_by(plan: Plan, run: Run, task: str) -> str | None:
    for name in plan.by_id[task].upstream:
        state = run.task(name).state
        if state.is_end and state is not TaskState.PASSED:
            return name
    return None


def _is_ready(plan: Plan, run: Run, task: str) -> bool:
    upstream = plan.by_id[task].upstream
    return all(run.task(name).state is TaskState.PASSED for name in upstream)


def is_finished(plan: Plan, run: Run) -> bool:
    """Tell whether every task has come to its end."""
    return all(run.task(task.id).state.is_end for task in plan.tasks)


def unfinished_tasks(plan: Plan, run: Run) -> Iterator[str]:
    """Yield the tasks that have not come to their end."""
    return (task.id for task in plan.tasks if not run.task(task.id).state.is_end)


def decide_verdict(
    judgement: Judgement,
    outcome: Outcome,
    before: tuple[VerdictFacts, ...],
    policy: Policy,
    agent: str,
) -> VerdictFacts:
    """Return the verdict on the next attempt of a task of this agent, and what follows from it.

    What failed is tried again by the same agent, what did not satisfy goes to a stronger one where
    there is one.  Both end: retries are counted for each agent, and the ladder has a top.  Whoever
    was denied would be denied again.
    """
    attempt = len(before) + 1
    if judgement.passed:
        return VerdictFacts(attempt, Outcome.OK, judgement.check, Next.ACCEPT)
    rung, retries = escalation_level(before), _count_retries(before)
    stronger = rung + 1 < len(policy.ladder_of(agent))
    answered = outcome is Outcome.OK
    ended = Outcome.FAILED if answered else outcome
    spent = retries >= policy.retries or outcome is Outcome.DENIED
    if stronger and (answered or spent):
        following, pause = Next.ESCALATE, 0
    elif not spent:
        following, pause = Next.RETRY, policy.retry_delay_ms(retries + 1)
    else:
        following, pause = Next.GIVE_UP, 0
    return VerdictFacts(attempt, ended, judgement.check, following, judgement.reason, pause)


def escalation_level(verdicts: tuple[VerdictFacts, ...]) -> int:
    """Return how often a task was handed to a stronger agent."""
    return sum(1 for verdict in verdicts if verdict.next is Next.ESCALATE)


def _count_retries(verdicts: tuple[VerdictFacts, ...]) -> int:
    """Count how often the agent whose turn it is has tried again."""
    count = 0
    for verdict in reversed(verdicts):
        if verdict.next is not Next.RETRY:
            break
        count += 1
    return count


def find_loop(said: Sequence[tuple[str, bytes]], repeats: int) -> StopReason | None:
    """Tell whether agents go round in circles, by who said what in a task so far.

    The same agent says the same again and again, or two agents take turns in doing so.
    """
    if repeats == 0:
        return None
    most = max(2, repeats)  # what was said once was not repeated
    if len(said) >= most and len(set(said[-most:])) == 1:
        return StopReason.REPEAT
    turns = said[-2 * most :]
    two = len(turns) == 2 * most and len({agent for agent, _ in turns}) > 1
    if two and len(set(turns[::2])) == 1 and len(set(turns[1::2])) == 1:
        return StopReason.PING_PONG
    return None
