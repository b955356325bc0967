"""Plans and policies: what cannot be run cannot be made, and what is recorded is read back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import BadPlan, Malformed
from forum.runs.plan import Plan, RunBudget, Task, read_plan, single_task_plan, write_plan
from forum.runs.policy import Agent, Policy, Scripted, read_policy, write_policy
from tests.runs.samples import names, plans, policies

LONG = "x" * 41


@given(plans())
def test_a_plan_is_read_back_as_it_was_written(plan: Plan) -> None:
    """Whoever takes a run over has nothing but what was recorded."""
    assert read_plan(write_plan(plan)) == plan
    assert write_plan(read_plan(write_plan(plan))) == write_plan(plan)


@given(policies)
def test_a_policy_is_read_back_as_it_was_written(policy: Policy) -> None:
    """Another worker carries the run out the same way."""
    assert read_policy(write_policy(policy)) == policy
    assert write_policy(read_policy(write_policy(policy))) == write_policy(policy)


BAD: dict[str, list[dict[str, Any]]] = {
    "no tasks": [],
    "waits for itself": [{"id": "a", "instruction": "x", "needs": ["a"]}],
    "a cycle of two": [
        {"id": "a", "instruction": "x", "needs": ["b"]},
        {"id": "b", "instruction": "x", "after": ["a"]},
    ],
    "somebody unknown": [{"id": "a", "instruction": "x", "after": ["b"]}],
    "one name twice": [{"id": "a", "instruction": "x"}, {"id": "a", "instruction": "y"}],
    "no name": [{"id": "", "instruction": "x"}],
    "a long name": [{"id": LONG, "instruction": "x"}],
    "a name with a slash": [{"id": "a/b", "instruction": "x"}],
    "a name with a line end": [{"id": "a\n", "instruction": "x"}],
    "a name of another script": [{"id": "ä", "instruction": "x"}],
    "nothing to do": [{"id": "a", "instruction": " \n"}],
    "a bad plan within": [
        {"id": "a", "instruction": "x", "tasks": [{"id": "", "instruction": ""}]}
    ],
    "no regular expression": [{"id": "a", "instruction": "x", "done_when": "matches ("}],
}


@pytest.mark.parametrize("tasks", BAD.values(), ids=BAD.keys())
def test_a_plan_that_cannot_be_run_cannot_be_made(tasks: list[dict[str, Any]]) -> None:
    """Neither by a program nor by a file: it would be found out in the middle of a run."""
    made = msgspec.convert(tasks, tuple[Task, ...])

    with pytest.raises(BadPlan, match="this cannot be run"):
        Plan(made)
    with pytest.raises(Malformed, match="plan"):
        read_plan(msgspec.json.encode({"tasks": tasks}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"tasks":{}}',
        b'{"tasks":[{"id":"a","instruction":"x","need":["b"]}]}',
        b'{"tasks":[{"id":"a","instruction":"\xff"}]}',
        b'{"tasks":' * 100_000,
        b'{"tasks":[{"id":"a","instruction":"x","tasks":' * 100_000,
        b'{"tasks":[{"id":"a","instruction":"x","budget":{"usd":-1}}]}',
        b'{"tasks":[{"id":"a","instruction":"x","budget":{"usd":9007199254740992}}]}',
    ],
)
def test_what_is_no_plan_is_malformed(data: bytes) -> None:
    """A misspelt member would be a dependency that nobody waits for."""
    with pytest.raises(Malformed, match="plan"):
        read_plan(data)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"parallel":-1}', b'{"paralel":1}', b"[" * 100_000])
def test_what_is_no_policy_is_malformed(data: bytes) -> None:
    """A misspelt limit would be no limit."""
    with pytest.raises(Malformed, match="policy"):
        read_policy(data)


@given(st.permutations("abcdefgh"), st.data())
def test_a_task_behind_a_cycle_is_as_bad_as_one_within(
    texts: list[str], data: st.DataObject
) -> None:
    """However long the way round, and wherever its tasks stand, nobody in it would ever start."""
    length = data.draw(st.integers(1, len(texts)))
    circle = {name: texts[(n + 1) % length] for n, name in enumerate(texts[:length])}
    rest = {name: texts[n - 1] for n, name in enumerate(texts) if n >= length}
    tasks = [Task(name, "x", needs=(other,)) for name, other in {**circle, **rest}.items()]

    with pytest.raises(BadPlan, match="waits for itself"):
        Plan(tuple(data.draw(st.permutations(tasks))))


def test_a_plan_within_a_plan_has_a_bottom() -> None:
    """Whoever reads it back does so with a stack that ends."""
    task = Task("a", "x")
    for _ in range(15):
        task = Task("a", "x", tasks=(task,))

    assert read_plan(write_plan(Plan((task,)))) == Plan((task,))
    with pytest.raises(BadPlan, match="17 plans within each other"):
        Plan((Task("a", "x", tasks=(task,)),))
    for _ in range(2000):
        task = Task("a", "x", tasks=(task,))
    with pytest.raises(BadPlan, match="plans within each other"):
        Plan((task,))


@pytest.mark.parametrize(
    "plan", [Plan((Task("a", "\ud800"),)), Plan((Task("a", "x", agent="\udfff"),))]
)
def test_what_is_not_text_cannot_be_recorded(plan: Plan) -> None:
    """Arguments of a command may hold half a character: that is said before a run begins."""
    with pytest.raises(Malformed, match="plan"):
        write_plan(plan)
    with pytest.raises(Malformed, match="policy"):
        write_policy(Policy(gates=("\ud800",)))


@given(plans())
def test_everybody_waits_for_a_task_or_it_is_an_answer(plan: Plan) -> None:
    """Nothing is worked out that is neither used nor answered."""
    waiting = {name for names in plan.dependants.values() for name in names}

    assert waiting == {task.id for task in plan.tasks if task.upstream}
    assert {task.id for task in plan.final_tasks} == {
        n for n, who in plan.dependants.items() if not who
    }
    assert plan.final_tasks


def test_a_request_is_a_plan_of_one_task() -> None:
    """Nobody has to write a plan in order to ask something."""
    assert single_task_plan("why?").tasks == (Task("answer", "why?"),)
    with pytest.raises(BadPlan, match="no instruction"):
        single_task_plan(" ")


@given(names)
def test_every_name_that_is_told_is_a_name(name: str) -> None:
    """What the grammar allows is what a plan takes."""
    assert Plan((Task(name, "x"),)).by_id == {name: Task(name, "x")}


# What a policy says of a plan


PLAN = Plan((Task("a", "x", tasks=(Task("within", "x"),)), Task("b", "x", agent="big")))
AGENTS: dict[str, Agent] = {"": Scripted(), "big": Scripted()}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(), "no agent is called 'big'"),
        (Policy(agents={"big": Scripted()}), "a task names no agent, and there is no default one"),
        (Policy(agents=AGENTS, ladder=("bigger",)), "no agent is called 'bigger'"),
        (Policy(agents=AGENTS, parallel=0), "parallel is 0"),
        (Policy(agents=AGENTS, gates=("task:c",)), "a gate before 'task:c'"),
        (Policy(agents=AGENTS, gates=("a",)), "a gate before 'a'"),
        (Policy(agents=AGENTS, gates=("Plan",)), "a gate before 'Plan'"),
        (Policy(agents=AGENTS, gates=("task:",)), "a gate before 'task:'"),
        (Policy(agents={**AGENTS, "the best": Scripted()}), "'the best' is no name"),
        (Policy(agents={**AGENTS, "x" * 200: Scripted()}), "is no name"),
        (Policy(agents={**AGENTS, 'a"b': Scripted()}), "is no name"),
    ],
)
def test_a_plan_that_a_policy_cannot_carry_out_is_refused(policy: Policy, why: str) -> None:
    """Before anything is recorded: a gate that guards nothing would be believed to guard."""
    with pytest.raises(BadPlan, match=why):
        policy.check(PLAN)


@pytest.mark.parametrize("gates", [(), ("plan",), ("tasks",), ("task:a", "task:within")])
def test_a_plan_that_a_policy_can_carry_out_is_not_refused(gates: tuple[str, ...]) -> None:
    """A task of a plan within can be guarded by its name, too."""
    policy = Policy(agents=AGENTS, gates=gates)
    policy.check(PLAN)

    assert policy.is_gated(PLAN.by_id["a"]) == ("tasks" in gates or "task:a" in gates)


def test_what_is_spent_call_by_call_is_capped_call_by_call() -> None:
    """Time and depth are no amounts."""
    assert RunBudget(1, tokens=2, calls=3, milliseconds=4, depth=5).cap == (1, 2, 3)


@given(st.integers(1, 10**6), st.integers(0, 2**53 - 1))
def test_pauses_grow_and_end(retry: int, backoff: int) -> None:
    """Nobody waits longer than a minute, and nobody shorter than before."""
    policy = Policy(backoff_milliseconds=backoff)

    assert 0 <= policy.retry_delay_ms(retry) <= policy.retry_delay_ms(retry + 1) <= 60_000
    assert policy.retry_delay_ms(1) == min(backoff, 60_000)
