"""Finds all errors of a plan file at once, each with its line and column."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from forum.errors import BadPlan
from forum.runs import plan
from forum.runs.acceptance_criteria import check_criterion, parse_criteria
from forum.runs.panel import draft_decision
from forum.runs.policy import Policy
from forum.runs.team_settings import model_agent
from forum.spelling import closest_names
from forum.surfaces.cli.source_positions import Path, SourcePositions, format_path
from forum.units import to_limit_units

_TOP = ("request", "tasks", "policy", "budget")
_BUDGET = {**plan.LIMIT_UNITS, "milliseconds": 1}
_ELSEWHERE = frozenset({"tasks", "panel", "budget"})
"""Fields of a task that have checks of their own."""

_INDEX = re.compile(r"^\[(\d+)\]")

PlanError = tuple[Path, str]
Table = Mapping[str, Any]


def find_plan_errors(table: Table, policy: object) -> list[PlanError]:
    """Return the errors of a plan file; prices in `policy` may be in recorded units."""
    faults = list(_check_unknown_keys((), table, _TOP))
    request = table.get("request")
    if request is not None and not isinstance(request, str):
        faults.append((("request",), "this is not a text"))
    if "tasks" in table:
        faults += _check_tasks(("tasks",), table["tasks"])
    faults += _check_policy(("policy",), policy)
    faults += _check_budget(("budget",), table.get("budget", {}))
    return faults


def format_plan_errors(faults: list[PlanError], positions: SourcePositions) -> str:
    """Return errors one per line, in the order of the file."""
    placed = sorted((positions.find(path), format_path(path), why) for path, why in faults)
    lines = [
        f"  line {line}, column {column}: {f'{where}: ' if where else ''}{why}"
        for (line, column), where, why in placed
    ]
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return "\n".join([count, *lines])


def _check_tasks(path: Path, tasks: object) -> Iterator[PlanError]:
    if not isinstance(tasks, list):
        yield path, "this is not a list of tasks; write [[tasks]]"
        return
    named: dict[str, Path] = {}
    faults: list[PlanError] = []
    for number, task in enumerate(tasks):
        place = (*path, number)
        if not isinstance(task, dict):
            faults.append((place, "a task is a table with `id` and `instruction`"))
            continue
        faults += _check_task(place, task)
        name = task.get("id")
        if isinstance(name, str) and name in named:
            faults.append(((*place, "id"), f"another task is called {name!r} already"))
        elif isinstance(name, str):
            named[name] = place
    for number, task in enumerate(tasks):
        if isinstance(task, dict):
            faults += _check_dependencies((*path, number), task, list(named))
    # The plan as a whole is checked only if its parts are valid; else one mistake would be reported
    # twice.
    yield from faults or _check_whole_plan(path, tasks)


def _check_task(path: Path, task: Table) -> Iterator[PlanError]:
    """Yield the errors of one task, regardless of the others."""
    yield from _check_fields(path, task, plan.Task, _ELSEWHERE, further=("decide",))
    if "decide" in task:
        yield from _errors_of((*path, "decide"), lambda: _check_decision(task["decide"]))
    name = task.get("id")
    if isinstance(name, str):
        yield from _errors_of((*path, "id"), lambda: plan.check_task_name(name))
    instruction = task.get("instruction")
    if isinstance(instruction, str) and not instruction.strip():
        yield (*path, "instruction"), "this is empty"
    demanded = task.get("done_when")
    for demand in parse_criteria(demanded) if isinstance(demanded, str) else ():
        yield from _errors_of((*path, "done_when"), lambda demand=demand: check_criterion(demand))  # type: ignore[misc]
    if "tasks" in task:
        yield from _check_tasks((*path, "tasks"), task["tasks"])
    if "tasks" in task and "panel" in task:
        yield (*path, "panel"), "a task has a plan or a panel of its own, not both"
    yield from _check_budget((*path, "budget"), task.get("budget", {}))


def _check_decision(options: object) -> None:
    """Raise `BadPlan` or `ValueError` if these are not the options of a decision."""
    draft_decision(msgspec.convert(options, tuple[str, ...]))


def _check_dependencies(path: Path, task: Table, names: list[str]) -> Iterator[PlanError]:
    for kind in ("needs", "after"):
        wanted = task.get(kind, [])
        for number, name in enumerate(wanted if isinstance(wanted, list) else []):
            if isinstance(name, str) and name not in names:
                yield (
                    (*path, kind, number),
                    f"no task is called {name!r}{_suggest_key(name, names)}",
                )


def _check_whole_plan(path: Path, tasks: list[Any]) -> Iterator[PlanError]:
    """Yield the errors of a plan whose parts are all valid, such as a cycle."""
    own = {"id", "instruction", "needs", "after"}
    plain = [{name: task[name] for name in task.keys() & own} for task in tasks]
    yield from _errors_of(path, lambda: plan.Plan(msgspec.convert(plain, tuple[plan.Task, ...])))


def _check_policy(path: Path, policy: object) -> Iterator[PlanError]:
    if not isinstance(policy, dict):
        yield path, "this is not a table"
        return
    yield from _check_fields(path, policy, Policy, frozenset({"agents", "panels"}))
    agents = policy.get("agents", {})
    if not isinstance(agents, dict):
        yield (*path, "agents"), "this is not a table"
        return
    kind = next(f.type for f in msgspec.structs.fields(Policy) if f.name == "agents")
    for name, agent in agents.items():
        place = (*path, "agents", name)
        if isinstance(agent, dict) and agent.get("kind") in ("chat", "pydantic-ai"):
            yield from _errors_of(place, lambda agent=agent: model_agent(agent))  # type: ignore[misc]
        else:
            yield from _check_value(place, {name: agent}, kind)


def _check_budget(path: Path, budget: object) -> Iterator[PlanError]:
    if not isinstance(budget, dict):
        yield path, "this is not a table"
        return
    yield from _check_unknown_keys(path, budget, tuple(_BUDGET))
    for name, value in budget.items():
        if name in _BUDGET:
            yield from _errors_of(
                (*path, name),
                lambda name=name, value=value: _check_limit(name, value),  # type: ignore[misc]
            )


def _check_limit(name: str, value: object) -> None:
    """Raise `ValueError` if a value is not a valid limit."""
    if isinstance(value, bool) or (isinstance(value, str) and name != "usd"):
        raise ValueError("this is not a number")
    number = to_limit_units(value, _BUDGET[name])
    name = "milliseconds" if name == "seconds" else name
    msgspec.convert({name: number}, plan.RunBudget)


def _check_fields(
    path: Path,
    table: Table,
    into: type[msgspec.Struct],
    without: frozenset[str],
    further: tuple[str, ...] = (),
) -> Iterator[PlanError]:
    """Yield the errors of a struct's fields, each checked by itself.

    `further` are keys of the file that are no fields.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    yield from _check_unknown_keys(path, table, (*fields, *further))
    for name, field in fields.items():
        if name not in table and field.required:
            yield path, f"`{name}` is missing"
        elif name in table and name not in without:
            yield from _check_value((*path, name), table[name], field.type)


def _check_value(path: Path, value: object, kind: Any) -> Iterator[PlanError]:  # noqa: ANN401  any type
    try:
        msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        why, _, place = str(error).partition(" - at `$")
        inner = tuple(int(number) for number in _INDEX.findall(place))
        yield (*path, *inner), why


def _check_unknown_keys(path: Path, table: Table, keys: tuple[str, ...]) -> Iterator[PlanError]:
    for name in table:
        if name not in keys:
            meant = _suggest_key(name, keys) or f"; known: {', '.join(keys)}"
            yield (*path, name), f"unknown key{meant}"


def _suggest_key(name: str, names: list[str] | tuple[str, ...]) -> str:
    near = closest_names(name, names)
    return f"; did you mean {near[0]}?" if near else ""


def _errors_of(path: Path, check: Callable[[], object]) -> Iterator[PlanError]:
    try:
        check()
    except BadPlan as error:
        yield path, error.why
    except (ValueError, msgspec.MsgspecError) as error:
        yield path, str(error)
