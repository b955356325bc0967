"""What happens next: nobody too early, nobody too many, nobody forgotten, and always an end."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.ledger.kinds import Outcome
from forum.runs.acceptance_criteria import Check
from forum.runs.call_rules import decide_verdict, escalation_level, find_loop
from forum.runs.judging import Judgement, judge_output
from forum.runs.kinds import CallFacts, Next, SkipFacts, StopFacts, StopReason, VerdictFacts
from forum.runs.plan import Plan, Task
from forum.runs.policy import Agent, Policy, Scripted
from forum.runs.run_fold import Run, TaskState, fold
from forum.runs.schedule import (
    STOP_CAUSE,
    NextSteps,
    is_finished,
    next_steps,
    unfinished_tasks,
)
from tests.runs.samples import Said, plans, tell, told

PASS = VerdictFacts(1, Outcome.OK, Check.OUTCOME, Next.ACCEPT)
FAIL = VerdictFacts(1, Outcome.FAILED, Check.OUTCOME, Next.GIVE_UP)
HALT = StopFacts(StopReason.REPEAT)
ENDS: list[VerdictFacts | StopFacts] = [PASS, FAIL, HALT]
CALL = CallFacts("", "m", 1, 1)


class Office:
    """Carries out a plan without doing anything, one task after another."""

    def __init__(self, plan: Plan, parallel: int) -> None:
        self.plan, self.policy = plan, Policy(parallel=parallel)
        self.run = Run()
        self.going: set[str] = set()
        self.began: list[str] = []

    def step(self) -> NextSteps:
        """Do what is to be done next."""
        steps = next_steps(self.plan, self.run, self.policy, frozenset(self.going))
        for name, skipped in steps.skip:
            self.say(name, skipped)
        for name in steps.start:
            if name not in self.run.tasks:
                self.say(name, CALL)
            self.going.add(name)
            self.began.append(name)
        return steps

    def finish(self, name: str, end: VerdictFacts | StopFacts) -> None:
        """Bring a task to its end."""
        self.going.discard(name)
        self.say(name, end)

    def say(self, name: str, facts: VerdictFacts | StopFacts | SkipFacts | CallFacts) -> None:
        """Record something of a task."""
        strand = f"task/{name}"
        self.run = fold([told(strand, self.run.lengths.get(strand, 0), facts)], self.run)

    @property
    def states(self) -> Mapping[str, TaskState]:
        """How far each task has come."""
        return {task.id: self.run.task(task.id).state for task in self.plan.tasks}


def behind(plan: Plan, ended: set[str]) -> set[str]:
    """Return all who wait for one of these, directly or through others."""
    texts = {name for task in ended for name in plan.dependants[task]}
    return texts | behind(plan, texts) if texts else set()


@given(plans(nested=False), st.integers(1, 4), st.data())
def test_every_plan_comes_to_its_end(plan: Plan, parallel: int, data: st.DataObject) -> None:
    """Whatever passes or fails, in whatever order: each task ends once, in time and for a cause."""
    office = Office(plan, parallel)
    while not is_finished(plan, office.run):
        steps = office.step()
        passed = {name for name, state in office.states.items() if state is TaskState.PASSED}
        assert all(passed.issuperset(plan.by_id[name].upstream) for name in steps.start)
        assert len(office.going) <= parallel
        if not steps.skip:
            ready = [t for t in plan.tasks if passed.issuperset(t.upstream)]
            idle = [t for t in ready if office.states[t.id] is TaskState.PENDING]
            assert not idle or len(office.going) == parallel, "nobody waits for a whole level"
        if office.going:
            name = data.draw(st.sampled_from(sorted(office.going)))
            office.finish(name, data.draw(st.sampled_from(ENDS)))
        else:
            assert steps.skip, "somebody must have the next word"

    states = office.states
    bad = {n for n, s in states.items() if s in (TaskState.FAILED, TaskState.STOPPED)}
    assert {n for n, s in states.items() if s is TaskState.SKIPPED} == behind(plan, bad)
    for name, task in office.run.tasks.items():
        if task.skipped is not None:
            cause = task.skipped.cause
            assert cause in plan.by_id[name].upstream
            assert states[cause] is not TaskState.PASSED
    assert len(office.began) == len(set(office.began))
    assert not list(unfinished_tasks(plan, office.run))


@given(plans(nested=False), st.integers(1, 4), st.data())
def test_whoever_takes_over_starts_what_was_going_on(
    plan: Plan, parallel: int, data: st.DataObject
) -> None:
    """The one who knew what was started is gone; the entries tell what has begun."""
    office = Office(plan, parallel)
    for _ in range(data.draw(st.integers(0, len(plan.tasks)))):
        office.step()
        if office.going:
            office.finish(data.draw(st.sampled_from(sorted(office.going))), PASS)
    going, office.going = office.going, set()
    steps = office.step()

    assert going <= set(steps.start)
    assert len(steps.start) <= parallel


@given(plans(nested=False), st.integers(1, 4), st.data())
def test_a_stopped_run_starts_nothing_new_and_forgets_nothing(
    plan: Plan, parallel: int, data: st.DataObject
) -> None:
    """What has begun is brought to its end, and all others are recorded as skipped."""
    office = Office(plan, parallel)
    for _ in range(data.draw(st.integers(0, len(plan.tasks)))):
        office.step()
        if office.going:
            office.finish(data.draw(st.sampled_from(sorted(office.going))), PASS)
    begun, going = set(office.run.tasks), set(office.going)
    office.run = fold(tell([("main", StopFacts(StopReason.BUDGET), 0)]), office.run)
    steps = office.step()

    assert set(steps.start) == {n for n in begun - going if not office.states[n].is_end}
    assert dict(steps.skip) == {
        t.id: SkipFacts(STOP_CAUSE) for t in plan.tasks if t.id not in begun
    }
    for name in going:
        office.finish(name, HALT)
    assert office.step() == NextSteps()
    assert is_finished(plan, office.run)


# Verdicts

ladders = st.lists(st.sampled_from(["", "a", "b", "c"]), unique=True, max_size=4).map(tuple)
outcomes = st.sampled_from(Outcome)


@given(ladders, st.sampled_from(["", "a", "other"]), st.integers(0, 4), st.data())
def test_every_task_comes_to_its_last_verdict(
    ladder: tuple[str, ...], agent: str, retries: int, data: st.DataObject
) -> None:
    """Retries are counted for each agent, and the ladder has a top."""
    policy = Policy(ladder=ladder, retries=retries)
    whole = policy.ladder_of(agent)
    verdicts: tuple[VerdictFacts, ...] = ()
    while not verdicts or verdicts[-1].next in (Next.RETRY, Next.ESCALATE):
        outcome = data.draw(outcomes)
        judgement = judge_output(
            "contains x", outcome, data.draw(st.sampled_from([b"x", b"y", b""]))
        )
        verdict = decide_verdict(judgement, outcome, verdicts, policy, agent=agent)
        assert verdict.attempt == len(verdicts) + 1
        assert (verdict.next is Next.ACCEPT) == judgement.passed == (verdict.outcome is Outcome.OK)
        assert verdict.pause == 0 or verdict.next is Next.RETRY
        assert verdict.next is Next.ACCEPT or verdict.reason
        verdicts = (*verdicts, verdict)
        assert escalation_level(verdicts) < len(whole), "there is nobody above the last"
        assert len(verdicts) <= len(whole) * (retries + 1)

    if verdicts[-1].next is Next.GIVE_UP:
        assert escalation_level(verdicts) == len(whole) - 1
    if verdicts[-1].next is Next.GIVE_UP and verdicts[-1].outcome is not Outcome.DENIED:
        assert [v.next for v in verdicts[-retries - 1 : -1]] == [Next.RETRY] * retries
    assert whole[0] == agent
    assert agent not in whole[1:]


def test_what_did_not_satisfy_goes_up_and_what_broke_is_tried_again() -> None:
    """A stronger agent helps against a bad answer, and time against a bad line."""
    policy = Policy(ladder=("big",), retries=1, backoff_milliseconds=7)
    bad = Judgement(passed=False, check=Check.CONTAINS, reason="not-contained")
    broken = Judgement(passed=False, check=Check.OUTCOME, reason="failed")
    up = decide_verdict(bad, Outcome.OK, (), policy, agent="")
    again = decide_verdict(broken, Outcome.TIMEOUT, (), policy, agent="")
    at_last = decide_verdict(broken, Outcome.TIMEOUT, (again,), policy, agent="")

    assert (up.next, up.outcome, up.pause) == (Next.ESCALATE, Outcome.FAILED, 0)
    assert (again.next, again.outcome, again.pause) == (Next.RETRY, Outcome.TIMEOUT, 7)
    assert at_last.next is Next.ESCALATE
    assert decide_verdict(broken, Outcome.DENIED, (), policy, agent="").next is Next.ESCALATE
    assert decide_verdict(broken, Outcome.DENIED, (), Policy(), agent="").next is Next.GIVE_UP
    assert decide_verdict(bad, Outcome.OK, (up,), policy, agent="").next is Next.RETRY


@pytest.mark.parametrize(
    ("done_when", "outcome", "output", "expected"),
    [
        ("", Outcome.OK, b"x", Judgement(passed=True, check=Check.OUTCOME)),
        ("it is good", Outcome.OK, b"x", Judgement(passed=True, check=Check.OUTCOME)),
        ("contains b c", Outcome.OK, b"ab cd", Judgement(passed=True, check=Check.CONTAINS)),
        ("matches ^a.c$", Outcome.OK, b"abc", Judgement(passed=True, check=Check.MATCHES)),
        (
            "contains b",
            Outcome.OK,
            b"a",
            Judgement(passed=False, check=Check.CONTAINS, reason="not-contained"),
        ),
        (
            "matches b",
            Outcome.OK,
            b"a",
            Judgement(passed=False, check=Check.MATCHES, reason="no-match"),
        ),
        (
            "contains x",
            Outcome.OK,
            b" \n",
            Judgement(passed=False, check=Check.OUTCOME, reason="empty"),
        ),
        (
            "contains x",
            Outcome.FAILED,
            b"x",
            Judgement(passed=False, check=Check.OUTCOME, reason="failed"),
        ),
        ("contains x", Outcome.OK, b"\xffx", Judgement(passed=True, check=Check.CONTAINS)),
    ],
)
def test_a_verdict_names_what_was_checked(
    done_when: str, outcome: Outcome, output: bytes, expected: Judgement
) -> None:
    """Where nothing was demanded that code can check, nothing else is claimed."""
    assert judge_output(done_when, outcome, output) == expected


@given(plans(nested=False), outcomes, st.binary(max_size=20))
def test_every_plan_can_be_judged(plan: Plan, outcome: Outcome, output: bytes) -> None:
    """What could not be checked was refused when the plan was made."""
    for task in plan.tasks:
        judgement = judge_output(task.done_when, outcome, output)
        assert not judgement.passed or outcome is Outcome.OK
        assert judgement.passed != bool(judgement.reason)


# Loops

voices = st.sampled_from([("a", b"1"), ("a", b"2"), ("b", b"1")])


turns = st.lists(voices, max_size=10) | st.builds(
    lambda before, pair, times: [*before, *pair * times],
    st.lists(voices, max_size=2),
    st.lists(voices, min_size=1, max_size=2),
    st.integers(1, 5),
)


@given(turns, st.integers(2, 4))
def test_a_loop_is_a_tail_that_repeats_itself(said: list[tuple[str, bytes]], most: int) -> None:
    """One voice that says the same so often, or two that take turns: nothing else is one."""
    one = said[-1:] * most
    two = said[-2:] * most
    stop_reason = find_loop(said, most)

    if said and said[-most:] == one:
        assert stop_reason is StopReason.REPEAT
    elif len(said) > 1 and said[-2 * most :] == two and two[0][0] != two[1][0]:
        assert stop_reason is StopReason.PING_PONG
    else:
        assert stop_reason is None


@given(st.lists(voices, max_size=10))
def test_nobody_is_in_a_loop_who_said_something_once(said: list[tuple[str, bytes]]) -> None:
    """Not even under the strictest policy; and without a limit nobody ever is."""
    assert find_loop(said, 0) is None
    assert find_loop(said[:1], 1) is None
    assert find_loop(said, 1) == find_loop(said, 2)


def test_a_ladder_begins_where_an_agent_stands() -> None:
    """Who is on it goes up from there, and who is not begins below it."""
    agents: dict[str, Agent] = {"": Scripted(), "b": Scripted(usd=1), "like-b": Scripted(usd=1)}
    policy = Policy(agents=agents, ladder=("a", "b", "c"))

    assert policy.ladder_of("") == ("", "a", "b", "c")
    assert policy.ladder_of("like-b") == ("like-b", "c"), "the same agent under another name"
    assert policy.ladder_of("b") == ("b", "c")
    assert policy.ladder_of("c") == ("c",)


def test_a_chain_is_skipped_from_the_failed_task_to_its_end() -> None:
    """Each names the one before it, so that the cause can be followed."""
    plan = Plan((Task("c", "x", after=("b",)), Task("b", "x", needs=("a",)), Task("a", "x")))
    said: list[Said] = [("task/a", FAIL, 0)]
    first = next_steps(plan, fold(tell(said)), Policy(), frozenset())
    said += [("task/b", SkipFacts("a"), 0)]
    second = next_steps(plan, fold(tell(said)), Policy(), frozenset())

    assert first == NextSteps(skip=(("b", SkipFacts("a")),))
    assert second == NextSteps(skip=(("c", SkipFacts("b")),))
