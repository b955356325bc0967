"""Plans as programs write them: dictionaries with the members of a plan file, or tasks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final, TypeVar

import msgspec

from forum import errors
from forum.app import KINDS
from forum.runs.panel import (
    COUNCIL_VERSION,
    MAX_SHARE,
    Council,
    Panel,
    Seat,
    Symposium,
    count_seats,
    draft_decision,
)
from forum.runs.panel_protocol import PanelDraft, load_protocol
from forum.runs.personas import resolve_persona
from forum.runs.plan import LIMIT_UNITS, Plan, RunBudget, Task, read_limits
from forum.runs.plan_limits import check_plan_size
from forum.runs.policy import Role
from forum.runs.team_settings import DEFAULT_AGENT
from forum.spelling import suggest_or_list

StructT = TypeVar("StructT", bound=msgspec.Struct)

PlanValue = Plan | Mapping[str, Any] | Sequence[Task | Mapping[str, Any]]
"""What a program may pass as a plan: `{"tasks": [...]}`, or the list of its tasks."""

PanelValue = Panel | Mapping[str, Any]
"""What a program may pass as a panel: `{"seats": 3, "models": [...]}`."""

_COUNCIL: Final = (
    "protocol",
    "seats",
    "models",
    "options",
    "rounds",
    "baseline",
    "threshold",
    "judge",
    "check",
    "require",
)
_SYMPOSIUM: Final = ("protocol", "config", "agents", "personas", "models", "rounds", "require")
_MAX_NESTING = 64


def read_plan_value(value: PlanValue) -> Plan:
    """Return a plan from what a program has passed.  Raises `BadPlan`."""
    if isinstance(value, Plan):
        return value
    if isinstance(value, Mapping):
        _check_members("plan", value, ("tasks",))
        value = value.get("tasks", ())
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise errors.BadPlan('it is no list of tasks; write {"tasks": [...]} or [...]')
    tasks = tuple(_read_tasks("tasks", value, 0))
    check_plan_size(tasks)
    return Plan(tasks)


def read_budget(limits: Mapping[str, object], place: str = "budget") -> RunBudget:
    """Return a budget from limits in dollars and seconds; None is no limit.  Raises `BadPlan`."""
    _check_members(place, limits, tuple(LIMIT_UNITS))
    try:
        return read_limits(limits)
    except ValueError as error:
        raise errors.BadPlan(f"{place}.{error}") from None


class RoleChoices(msgspec.Struct, frozen=True):
    """Who has which role in a run, by what a program has passed."""

    named: dict[Role, str]
    """The agent or panel of each role for which one was named."""
    off: frozenset[Role]
    """The roles that the run does without."""


def read_roles(value: Mapping[str, object]) -> RoleChoices:
    """Return the roles that a program has passed.  Raises `BadPlan`."""
    table = _table("roles", value)
    _check_members("roles", table, tuple(role.value for role in Role))
    for name, chosen in table.items():
        if chosen is not False and not isinstance(chosen, str):
            raise errors.BadPlan(f"roles.{name}: name an agent or a panel, or write False")
    named = {Role(name): _agent_name(chosen) for name, chosen in table.items() if chosen}
    return RoleChoices(named, frozenset(Role(name) for name in table) - named.keys())


def read_ladder(value: Sequence[str]) -> tuple[str, ...]:
    """Return the ladder that a program has passed.  Raises `BadPlan`."""
    return tuple(map(_agent_name, _read_texts("ladder", value)))


def read_panels(value: Mapping[str, PanelValue]) -> dict[str, Panel]:
    """Return the panels that a program has passed, by name.  Raises `BadPlan`."""
    return {
        str(name): panel if isinstance(panel, Panel) else _read_panel(f"panels.{name}", panel)
        for name, panel in _table("panels", value).items()
    }


def _agent_name(name: str) -> str:
    return "" if name == DEFAULT_AGENT else name


def _read_tasks(place: str, tasks: object, depth: int) -> Iterator[Task]:
    if isinstance(tasks, str) or not isinstance(tasks, Sequence) or depth > _MAX_NESTING:
        raise errors.BadPlan(f"{place}: this is no list of tasks")
    for number, task in enumerate(tasks):
        yield task if isinstance(task, Task) else _read_task(f"{place}[{number}]", task, depth)


def _read_task(place: str, table: object, depth: int) -> Task:
    if not isinstance(table, Mapping):
        raise errors.BadPlan(f"{place}: a task is a forum.Task, or has an id and an instruction")
    _check_members(place, table, (*Task.__struct_fields__, "decide"))
    read: dict[str, Any] = {name: value for name, value in table.items() if name != "decide"}
    if "decide" in table:
        read["panel"] = draft_decision(_read_texts(f"{place}.decide", table["decide"]))
    if "tasks" in table:
        read["tasks"] = tuple(_read_tasks(f"{place}.tasks", table["tasks"], depth + 1))
    if "budget" in table and not isinstance(table["budget"], RunBudget):
        read["budget"] = read_budget(_table(f"{place}.budget", table["budget"]), f"{place}.budget")
    if table.get("panel") is not None and not isinstance(table["panel"], Panel):
        read["panel"] = _read_panel(f"{place}.panel", table["panel"])
    return _convert(place, read, Task)


def _read_texts(place: str, value: object) -> Sequence[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise errors.BadPlan(f"{place}: this is no list of texts")
    texts = [option for option in value if isinstance(option, str)]
    if len(texts) < len(value):
        raise errors.BadPlan(f"{place}: this is no list of texts")
    return texts


def _read_panel(place: str, value: object) -> Panel:
    table = _table(place, value)
    if table.get("protocol") == "symposium" or "config" in table:
        return _read_symposium(place, table)
    return _read_council(place, table)


def _read_symposium(place: str, table: Mapping[str, Any]) -> Symposium:
    """Return a symposium: that of a configuration, or one with these personas and models."""
    _check_members(place, table, _SYMPOSIUM)
    given = ("require", "config", "agents")
    read = {name: table[name] for name in given if table.get(name) is not None}
    if "config" not in read:
        # The session is given the prompt of its task in place of this problem.
        draft = PanelDraft(
            session=place,
            problem=place,
            personas=[resolve_persona(persona) for persona in table.get("personas", ())],
            agents=table.get("models", ()),
            rounds=table.get("rounds"),
        )
        drafted: Symposium = load_protocol(KINDS, "symposium").draft(draft)
        read = {"config": drafted.config, "agents": drafted.agents, **read}
    return _convert(place, {"protocol": "symposium", **read}, Symposium)


def _read_council(place: str, table: Mapping[str, Any]) -> Council:
    _check_members(place, table, _COUNCIL)
    read = {name: table[name] for name in table if name != "models"}
    models, seats = table.get("models", ()), table.get("seats")
    if seats is None or isinstance(seats, int):
        count = count_seats(seats, models=len(models))
        read["seats"] = tuple(Seat(name) for name in islice(cycle(models or ("",)), count))
    if "threshold" in read:
        read["threshold"] = int(MAX_SHARE * read["threshold"])  # down: 2/3 accepts two of three
    return _convert(place, {"version": COUNCIL_VERSION, "protocol": "council", **read}, Council)


def _table(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise errors.BadPlan(f"{place}: this is no dictionary")
    return value


def _convert(place: str, value: object, into: type[StructT]) -> StructT:
    try:
        return msgspec.convert(value, into)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.BadPlan(f"{place}: {error}") from None


def _check_members(place: str, table: Mapping[str, object], names: tuple[str, ...]) -> None:
    for name in table:
        if name not in names:
            why = suggest_or_list(str(name), names)
            raise errors.BadPlan(f"{place}: there is no member {name!r}; {why}")
