"""Plans: the tasks that answer a request, and the budget of a run.

Constructing a `Plan` validates it. The names of its tasks are unique, every dependency is in the
plan, and there are no cycles.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from forum.errors import BadPlan, Malformed
from forum.ledger.entry import Count
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs.acceptance_criteria import check_criterion, parse_criteria
from forum.runs.panel import Council, Panel, seat_decision
from forum.runs.plan_limits import MAX_NESTING, MAX_TASKS, check_plan_size
from forum.runs.step_limit import count_step
from forum.units import MILLISECONDS, NANO_USD, to_limit_units

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}").fullmatch


class RunBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of a run: nano-dollars, tokens, calls, milliseconds, and depth of inner runs."""

    usd: Count = NO_LIMIT
    tokens: Count = NO_LIMIT
    calls: Count = NO_LIMIT
    milliseconds: Count = NO_LIMIT
    depth: Count = 3

    @property
    def cap(self) -> Amount:
        """The part of the budget that calls spend."""
        return Amount(self.usd, self.tokens, self.calls)

    def capped_by(self, ceiling: "RunBudget") -> "RunBudget":
        """Return the lower of both budgets, limit by limit."""
        return RunBudget(
            *(min(getattr(self, name), getattr(ceiling, name)) for name in self.__struct_fields__)
        )


LIMIT_UNITS = {"usd": NANO_USD, "tokens": 1, "calls": 1, "seconds": MILLISECONDS, "depth": 1}
"""The limits of a run as people write them, and how many recorded units one of each is."""


def read_limits(limits: Mapping[str, object]) -> RunBudget:
    """Return a budget from limits as people write them; None is no limit.

    Raises `ValueError` with the name of the limit.
    """
    given: dict[str, int] = {}
    for name, limit in limits.items():
        if limit is None:
            continue
        try:
            amount = to_limit_units(limit, LIMIT_UNITS[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        given["milliseconds" if name == "seconds" else name] = amount
    # msgspec omits a default only if it is the same object.  An equal copy of the default budget
    # would be recorded as `{}`, and equal plans would have different digests.
    return msgspec.structs.replace(RunBudget(), **given) if given else RunBudget()


# Unknown members are refused: a misspelled `needs` would be a dependency that nothing waits for.
class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One instruction to one agent, or a plan of its own, and how to tell that it was done."""

    id: str
    instruction: str
    done_when: str = ""
    needs: tuple[str, ...] = ()
    """Tasks whose output this task receives."""
    after: tuple[str, ...] = ()
    """Tasks that must pass first, without passing on their output."""
    agent: str = ""
    tasks: tuple["Task", ...] = ()
    """An inner plan, executed by a run of its own with a part of the budget."""
    budget: RunBudget = RunBudget()
    """The limit of the inner plan."""
    lane: str = ""
    """The lane whose instructions, tools and agent the task uses."""
    panel: Panel | None = None
    """The panel that deliberates on the task, in a run of its own with a part of the budget."""

    @property
    def is_delegated(self) -> bool:
        """Whether a run of its own executes the task."""
        return bool(self.tasks) or self.panel is not None

    @property
    def upstream(self) -> tuple[str, ...]:
        """Every task that must pass before this one starts."""
        return tuple(dict.fromkeys((*self.needs, *self.after)))


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Tasks that can be executed: each starts as soon as its upstream tasks have passed."""

    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        if not self.tasks:
            raise BadPlan("it has no tasks")
        if len(self.tasks) > MAX_TASKS:
            raise BadPlan(f"{len(self.tasks)} tasks; the most is {MAX_TASKS}")
        nesting = _count_nesting(self.tasks)
        # Inner plans are validated recursively, so their depth is limited first.
        if nesting > MAX_NESTING:
            raise BadPlan(f"{nesting} plans within each other; the most is {MAX_NESTING}")
        if len(self.by_id) < len(self.tasks):
            raise BadPlan(f"two tasks are called {_find_duplicate(self.tasks)!r}")
        for task in self.tasks:
            self._check(task)
        for name in _find_unreachable(self.tasks):
            raise BadPlan(f"task {name!r} waits for itself, directly or through others")

    def _check(self, task: Task) -> None:
        count_step()
        check_task_name(task.id)
        if not task.instruction.strip():
            raise BadPlan(f"task {task.id!r} has no instruction")
        for name in task.upstream:
            if name not in self.by_id:
                raise BadPlan(f"task {task.id!r} waits for {name!r}, which is not in the plan")
        _check_criteria(task)
        if task.tasks and task.panel:
            raise BadPlan(f"task {task.id!r} has both a plan and a panel of its own")
        if task.tasks:
            # Constructing the inner plan validates it.
            Plan(task.tasks)

    @cached_property
    def by_id(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def dependants(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the tasks that wait for each task, in plan order."""
        dependants: dict[str, list[str]] = {task.id: [] for task in self.tasks}
        for task in self.tasks:
            for name in task.upstream:
                dependants[name].append(task.id)
        return {name: tuple(waiting) for name, waiting in dependants.items()}

    @property
    def final_tasks(self) -> tuple[Task, ...]:
        """The tasks that no other task waits for; their results form the answer."""
        return tuple(task for task in self.tasks if not self.dependants[task.id])

    @property
    def names(self) -> frozenset[str]:
        """The names of all tasks, including those of inner plans."""
        return frozenset(task.id for task in _walk_tasks(self.tasks))

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """All tasks, including those of inner plans."""
        return tuple(_walk_tasks(self.tasks))


class RolePlan(Plan, frozen=True):
    """Tasks of roles or seats, or none at all; not validated as a plan."""

    def __post_init__(self) -> None:
        pass


def check_task_name(name: str) -> None:
    """Check the name of a task. Raises `BadPlan`."""
    if not _NAME(name):
        raise BadPlan(
            f"{name!r} is no name for a task: letters, digits, and _.- between them, "
            "up to 40 of them"
        )


def seat_decision_task(task: Task, panels: Mapping[str, Panel]) -> Task:
    """Return a task that decides between options with the council that sits for it.

    The agent of the task names the council; without one it is the first. Any other task stays as it
    is. Raises `BadPlan`.
    """
    draft = task.panel
    if not isinstance(draft, Council) or draft.seats:
        return task
    try:
        council = seat_decision(draft, panels, task.agent)
    except BadPlan as error:
        raise BadPlan(f"task {task.id!r}: {error.why}") from None
    # Code can tell that an option was chosen, so no agent alone judges what the council decided.
    chosen = "|".join(re.escape(option) for option in draft.options)
    done_when = task.done_when or f"matches ^(?:{chosen})$"
    return msgspec.structs.replace(task, panel=council, agent="", done_when=done_when)


def single_task_plan(request: str, lane: str = "") -> Plan:
    """Return a plan with one task for the whole request."""
    return Plan((Task("answer", request, lane=lane),))


def write_plan(plan: Plan) -> bytes:
    """Return the recorded form of a plan. Raises `Malformed`."""
    try:
        return msgspec.json.encode(plan)
    except UnicodeError as error:
        raise Malformed("plan", str(error)) from None


def read_plan(data: bytes) -> Plan:
    """Return the plan with this recorded form. Raises `Malformed`."""
    try:
        return _plan.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("plan", str(error)) from None


def read_new_plan(data: bytes) -> Plan:
    """Return a plan from a client or model, if it is within the size limits.

    Raises `BadPlan`, `Malformed`.
    """
    # The limits are checked on an unvalidated plan, because validating a huge one takes too long.
    try:
        check_plan_size(_unchecked_plan.decode(data).tasks)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("plan", str(error)) from None
    return read_plan(data)


class _UncheckedPlan(msgspec.Struct, frozen=True):
    """A plan that is decoded without validation."""

    tasks: tuple[Task, ...]


# Created at import: msgspec inspects a type at its first use, and two threads that do so at the
# same time crash the process.
_plan = msgspec.json.Decoder(Plan)
_unchecked_plan = msgspec.json.Decoder(_UncheckedPlan)


def _find_duplicate(tasks: tuple[Task, ...]) -> str:
    counts = Counter(task.id for task in tasks)
    return next(name for name, count in counts.items() if count > 1)


def _walk_tasks(tasks: tuple[Task, ...]) -> Iterator[Task]:
    for task in tasks:
        yield task
        yield from _walk_tasks(task.tasks)


def _count_nesting(tasks: tuple[Task, ...]) -> int:
    """Count the levels of inner plans, without recursion: the nesting may exceed the stack."""
    levels = 0
    while tasks:
        levels += 1
        tasks = tuple(inner for task in tasks for inner in task.tasks)
    return levels


def _check_criteria(task: Task) -> None:
    """Refuse criteria that code could never check. Raises `BadPlan`."""
    for demand in parse_criteria(task.done_when):
        count_step()
        try:
            check_criterion(demand)
        except ValueError as error:
            raise BadPlan(f"task {task.id!r}: {error}") from None


def _find_unreachable(tasks: tuple[Task, ...]) -> list[str]:
    """Return the tasks that a run would never reach: those in a cycle, and those behind one."""
    # Kahn's algorithm takes linear time and no recursion: a chain of tasks may be very long.
    missing = {task.id: len(task.upstream) for task in tasks}
    behind: dict[str, list[str]] = {task.id: [] for task in tasks}
    for task in tasks:
        for name in task.upstream:
            behind[name].append(task.id)
    ready = [name for name, count in missing.items() if count == 0]
    while ready:
        for name in behind[ready.pop()]:
            missing[name] -= 1
            if missing[name] == 0:
                ready.append(name)
    return [name for name, count in missing.items() if count > 0]
