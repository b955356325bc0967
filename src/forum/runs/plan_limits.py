"""Size limits of plans from clients, editors and models.

The limits apply when a plan is accepted, edited, or written by a model. They do not apply to
recorded plans, so that every record stays readable.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from forum.errors import BadPlan
from forum.runs import acceptance_criteria
from forum.runs.step_limit import count_step

MAX_TASKS = 10_000
"""Tasks of a plan, including those of inner plans."""
MAX_NESTING = 16
"""Levels of inner plans."""
MAX_CRITERIA_LINES = 20_000
"""Lines of `done_when` in a plan."""
MAX_PATTERNS = 100
"""Patterns in a plan, including those in its JSON schemas."""


class WrittenTask(Protocol):
    """A task as it was submitted, not validated yet."""

    @property
    def done_when(self) -> str:
        """The acceptance criteria."""
        ...

    @property
    def tasks(self) -> Sequence[Any]:
        """The inner plan: tasks of the same form."""
        ...


def check_plan_size(tasks: Sequence[WrittenTask]) -> None:
    """Refuse a plan that is too large, or takes too long to check. Raises `BadPlan`."""
    lines, schemas = 0, set[str]()
    patterns = set[str]()
    for task in _all_tasks(tasks):
        count_step()
        lines += len(task.done_when.splitlines())
        # Compared before the lines are parsed, which takes longer than counting them.
        if lines > MAX_CRITERIA_LINES:
            raise BadPlan(f"more than {MAX_CRITERIA_LINES} lines of done_when")
        for demand in acceptance_criteria.parse_criteria(task.done_when):
            if demand.check is acceptance_criteria.Check.MATCHES:
                patterns.add(demand.what)
            elif demand.check is acceptance_criteria.Check.JSON:
                schemas.add(demand.what)
    letters = sum(map(len, schemas))
    if letters > acceptance_criteria.MAX_SCHEMA_CHARS:
        raise BadPlan(
            f"JSON schemas with {letters} letters together; "
            f"the most is {acceptance_criteria.MAX_SCHEMA_CHARS}"
        )
    for schema in filter(None, schemas):
        patterns.update(acceptance_criteria.patterns_in(schema))
    _check_patterns(patterns)


def _check_patterns(patterns: set[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise BadPlan(f"{len(patterns)} patterns; the most is {MAX_PATTERNS}")
    for pattern in sorted(patterns):
        count_step()
        try:
            acceptance_criteria.check_pattern_size(pattern)
        except ValueError as error:
            raise BadPlan(str(error)) from None


def _all_tasks(tasks: Sequence[WrittenTask]) -> Iterator[WrittenTask]:
    """Yield the tasks of a plan level by level. Raises `BadPlan` above a limit."""
    level, count = tuple(tasks), 0
    # Level by level instead of by recursion, because the depth is the client's choice.
    for _ in range(MAX_NESTING):
        count += len(level)
        if count > MAX_TASKS:
            raise BadPlan(f"more than {MAX_TASKS} tasks")
        yield from level
        level = tuple(inner for task in level for inner in task.tasks)
    if level:
        raise BadPlan(f"more than {MAX_NESTING} plans within each other")
