"""Everything that is wrong with a plan file, at once, each with its line and column."""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from forum.errors import BadPlan
from forum.surfaces.cli.positions import Path, Positions, words_of
from forum.work import (
    NANO,
    Budget,
    Plan,
    Policy,
    Task,
    check_demand,
    check_task_name,
    demands_of,
    exactly,
    model_agent,
)

_TOP = ("request", "tasks", "policy", "budget")
_BUDGET = {"usd": NANO, "tokens": 1, "calls": 1, "seconds": 1000, "milliseconds": 1, "depth": 1}
_ELSEWHERE = frozenset({"tasks", "panel", "budget"})
"""Fields of a task that are looked at by themselves."""

_INDEX = re.compile(r"^\[(\d+)\]")

Fault = tuple[Path, str]
Table = Mapping[str, Any]


def plan_faults(table: Table, policy: object) -> list[Fault]:
    """Return what is wrong with a plan file; its policy may have prices as the record has them."""
    faults = list(_unknown((), table, _TOP))
    request = table.get("request")
    if request is not None and not isinstance(request, str):
        faults.append((("request",), "this is not a text"))
    if "tasks" in table:
        faults += _tasks(("tasks",), table["tasks"])
    faults += _policy(("policy",), policy)
    faults += _budget(("budget",), table.get("budget", {}))
    return faults


def told(faults: list[Fault], positions: Positions) -> str:
    """Return faults for people, one on each line, in the order of their lines."""
    placed = sorted((positions.find(path), words_of(path), why) for path, why in faults)
    lines = [
        f"  line {line}, column {column}: {f'{where}: ' if where else ''}{why}"
        for (line, column), where, why in placed
    ]
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return "\n".join([count, *lines])


def _tasks(path: Path, tasks: object) -> Iterator[Fault]:
    if not isinstance(tasks, list):
        yield path, "this is not a list of tasks; write [[tasks]]"
        return
    named: dict[str, Path] = {}
    faults: list[Fault] = []
    for number, task in enumerate(tasks):
        place = (*path, number)
        if not isinstance(task, dict):
            faults.append((place, "a task is a table with `id` and `instruction`"))
            continue
        faults += _task(place, task)
        name = task.get("id")
        if isinstance(name, str) and name in named:
            faults.append(((*place, "id"), f"another task is called {name!r} already"))
        elif isinstance(name, str):
            named[name] = place
    for number, task in enumerate(tasks):
        if isinstance(task, dict):
            faults += _waits((*path, number), task, list(named))
    yield from faults or _whole(path, tasks)


def _task(path: Path, task: Table) -> Iterator[Fault]:
    """Yield what is wrong with one task, whatever the others are."""
    yield from _fields(path, task, Task, _ELSEWHERE)
    name = task.get("id")
    if isinstance(name, str):
        yield from _raised((*path, "id"), lambda: check_task_name(name))
    instruction = task.get("instruction")
    if isinstance(instruction, str) and not instruction.strip():
        yield (*path, "instruction"), "this is empty"
    demanded = task.get("done_when")
    for demand in demands_of(demanded) if isinstance(demanded, str) else ():
        yield from _raised((*path, "done_when"), lambda demand=demand: check_demand(demand))  # type: ignore[misc]
    if "tasks" in task:
        yield from _tasks((*path, "tasks"), task["tasks"])
    if "tasks" in task and "panel" in task:
        yield (*path, "panel"), "a task has a plan or a panel of its own, not both"
    yield from _budget((*path, "budget"), task.get("budget", {}))


def _waits(path: Path, task: Table, names: list[str]) -> Iterator[Fault]:
    for kind in ("needs", "after"):
        wanted = task.get(kind, [])
        for number, name in enumerate(wanted if isinstance(wanted, list) else []):
            if isinstance(name, str) and name not in names:
                yield (*path, kind, number), f"no task is called {name!r}{_meant(name, names)}"


def _whole(path: Path, tasks: list[Any]) -> Iterator[Fault]:
    """Yield what is wrong with a plan all of whose parts are right, such as a circle."""
    own = {"id", "instruction", "needs", "after"}
    plain = [{name: task[name] for name in task.keys() & own} for task in tasks]
    yield from _raised(path, lambda: Plan(msgspec.convert(plain, tuple[Task, ...])))


def _policy(path: Path, policy: object) -> Iterator[Fault]:
    if not isinstance(policy, dict):
        yield path, "this is not a table"
        return
    yield from _fields(path, policy, Policy, frozenset({"agents"}))
    agents = policy.get("agents", {})
    if not isinstance(agents, dict):
        yield (*path, "agents"), "this is not a table"
        return
    kind = next(f.type for f in msgspec.structs.fields(Policy) if f.name == "agents")
    for name, agent in agents.items():
        place = (*path, "agents", name)
        if isinstance(agent, dict) and agent.get("kind") in ("chat", "pydantic-ai"):
            yield from _raised(place, lambda agent=agent: model_agent(agent))  # type: ignore[misc]
        else:
            yield from _converted(place, {name: agent}, kind)


def _budget(path: Path, budget: object) -> Iterator[Fault]:
    if not isinstance(budget, dict):
        yield path, "this is not a table"
        return
    yield from _unknown(path, budget, tuple(_BUDGET))
    for name, value in budget.items():
        if name in _BUDGET:
            yield from _raised(
                (*path, name),
                lambda name=name, value=value: _limit(name, value),  # type: ignore[misc]
            )


def _limit(name: str, value: object) -> None:
    """Refuse what is no limit.  Raises `ValueError`."""
    if isinstance(value, bool) or (isinstance(value, str) and name != "usd"):
        raise ValueError("this is not a number")
    number = exactly(value, _BUDGET[name])
    name = "milliseconds" if name == "seconds" else name
    msgspec.convert({name: number}, Budget)


def _fields(
    path: Path, given: Table, into: type[msgspec.Struct], without: frozenset[str]
) -> Iterator[Fault]:
    """Yield what is wrong with the fields of a struct, each by itself."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    yield from _unknown(path, given, tuple(fields))
    for name, field in fields.items():
        if name not in given and field.required:
            yield path, f"`{name}` is missing"
        elif name in given and name not in without:
            yield from _converted((*path, name), given[name], field.type)


def _converted(path: Path, value: object, kind: Any) -> Iterator[Fault]:  # noqa: ANN401  any type
    try:
        msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        why, _, place = str(error).partition(" - at `$")
        inner = tuple(int(number) for number in _INDEX.findall(place))
        yield (*path, *inner), why


def _unknown(path: Path, given: Table, known: tuple[str, ...]) -> Iterator[Fault]:
    for name in given:
        if name not in known:
            meant = _meant(name, known) or f"; known: {', '.join(known)}"
            yield (*path, name), f"unknown key{meant}"


def _meant(name: str, known: list[str] | tuple[str, ...]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _raised(path: Path, check: Callable[[], object]) -> Iterator[Fault]:
    try:
        check()
    except BadPlan as error:
        yield path, error.why
    except (ValueError, msgspec.MsgspecError) as error:
        yield path, str(error)
