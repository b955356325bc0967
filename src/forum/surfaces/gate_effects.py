"""What an approval and a rejection at a gate lead to, in sentences for every surface."""

from collections.abc import Iterable
from typing import assert_never

import msgspec
from msgspec import Struct

from forum.app import ExplainedGate
from forum.app.formatting import pluralize
from forum.runs.panel import Council
from forum.runs.plan import Plan, Task, read_plan
from forum.runs.policy import Policy
from forum.runs.report_kinds import Provenance

_MAX_NAMES = 12
"""Maximum number of names that a sentence lists."""


def describe_asker(provenance: Provenance, asked_by: str) -> str:
    """Say who asks at a gate, and how Forum knows of it."""
    by = asked_by or "unknown"
    match provenance:
        case Provenance.DRIVEN:
            return f"a run of Forum, submitted by {by}"
        case Provenance.RELAYED:
            return f"a gateway of Forum, for {by}"
        case Provenance.WRAPPED:
            return f"NOT a run of Forum: the program of {by} asks through the SDK"
        case Provenance.REPORTED:
            return f"NOT a run of Forum: reported by {by}"
        case _:
            assert_never(provenance)


class GateEffects(Struct, frozen=True):
    """What happens after each of the two answers."""

    if_approved: str
    if_rejected: str


def describe_gate_effects(question: ExplainedGate) -> GateEffects:
    """Describe what an approval and a rejection lead to.

    Names of tasks, agents and tools are those that were checked when the run was accepted; nothing
    that an agent has said is part of the sentences.
    """
    what, _, name = question.located.gate.opened.subject.partition("/")
    task = name.rpartition("/")[0]
    if question.policy is None:
        return GateEffects(
            "The program that asked is told that it may continue.",
            "The program that asked is told that it may not continue.",
        )
    if what == "plan":
        return _plan_effects(question.shown)
    if what == "use":
        return GateEffects(
            f"The tool is called once, with these arguments, for the task {task}.",
            f"The tool is not called. The agent of the task {task} is told so, and continues.",
        )
    if what == "dissent":
        return _dissent_effects(name, question.plan)
    if what == "effect":
        return GateEffects(
            f"The tool call of the task {task} counts as done, and is not repeated.",
            f"The tool call of the task {task} counts as failed, and may be made again.",
        )
    return _task_effects(name, question.plan, question.policy)


def _plan_effects(shown: bytes) -> GateEffects:
    rejected = "The run ends, and no task of the plan is carried out."
    try:
        tasks = read_plan(shown).tasks
    except (ValueError, msgspec.MsgspecError):
        return GateEffects("The plan is carried out.", rejected)
    count = "The only task" if len(tasks) == 1 else f"All {len(tasks)} tasks"
    verb = "is" if len(tasks) == 1 else "are"
    names = _join_names(task.id for task in tasks)
    return GateEffects(f"{count} of the plan {verb} carried out: {names}.", rejected)


def _dissent_effects(name: str, plan: Plan | None) -> GateEffects:
    dependants = _all_dependants(plan, name) if plan and name in plan.by_id else []
    begin = f" The tasks that need it can begin: {_join_names(dependants)}." if dependants else ""
    skipped = f" The tasks that need it are skipped: {_join_names(dependants)}."
    return GateEffects(
        f"The answer of the council is accepted for the task {name}, against its dissent.{begin}",
        f"The task {name} has failed.{skipped if dependants else ''}",
    )


def _task_effects(name: str, plan: Plan | None, policy: Policy) -> GateEffects:
    task = plan.by_id.get(name) if plan else None
    if plan is None or task is None:
        return GateEffects(
            f"The task {name} is carried out with this instruction.",
            f"The task {name} is not carried out.",
        )
    dependants = _all_dependants(plan, name)
    skipped = f" The tasks that need it are skipped: {_join_names(dependants)}."
    return GateEffects(
        f"The task {name} is carried out with this instruction{_describe_worker(task, policy)}.",
        f"The task {name} is not carried out.{skipped if dependants else ''}",
    )


def _describe_worker(task: Task, policy: Policy) -> str:
    if task.panel is not None:
        return ", by a council" if isinstance(task.panel, Council) else ", by a symposium"
    if task.tasks:
        return f", as a run of its own with {pluralize(len(task.tasks), 'task')}"
    agent, tools = policy.worker_of(task), policy.tools_of(task)
    by = f", by the agent {agent}" if agent else ""
    return f"{by}, which may use {_join_names(tools)}" if tools else by


def _all_dependants(plan: Plan, name: str) -> list[str]:
    """Return every task that directly or indirectly needs a task, in the order of the plan."""
    reached, due = set[str](), [name]
    while due:
        new = set(plan.dependants.get(due.pop(), ())) - reached
        reached |= new
        due += new
    return [task.id for task in plan.tasks if task.id in reached]


def _join_names(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MAX_NAMES
    return ", ".join(listed[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
