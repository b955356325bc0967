"""How large a plan from somebody else may be.

These limits hold when a plan is accepted, edited, or written by a model.  They do not hold for
plans that were recorded before: what is in the record can always be read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from forum.errors import BadPlan
from forum.work.acceptance_criteria import (
    MAX_SCHEMA_CHARS,
    Check,
    check_pattern_size,
    parse_criteria,
    patterns_in,
)
from forum.work.step_limit import count_step

MAX_TASKS = 10_000
"""Tasks of a plan, those of plans within it included."""
MAX_NESTING = 16
"""Plans within each other."""
MAX_CRITERIA_LINES = 20_000
"""Lines of `done_when` in a plan."""
MAX_PATTERNS = 100
"""Patterns in a plan, those in its JSON schemas included."""


class WrittenTask(Protocol):
    """A task as somebody wrote it."""

    @property
    def done_when(self) -> str:
        """What its result must hold to."""
        ...

    @property
    def tasks(self) -> Sequence[Any]:
        """The plan within it: tasks of this form."""
        ...


def check_plan_size(tasks: Sequence[WrittenTask]) -> None:
    """Refuse a plan that is too large, or takes too long to check.  Raises `BadPlan`."""
    lines, schemas, patterns = 0, set[str](), set[str]()
    for task in _all_tasks(tasks):
        count_step()
        lines += len(task.done_when.splitlines())
        if lines > MAX_CRITERIA_LINES:
            raise BadPlan(f"more than {MAX_CRITERIA_LINES} lines of done_when")
        for demand in parse_criteria(task.done_when):
            if demand.check is Check.MATCHES:
                patterns.add(demand.what)
            elif demand.check is Check.JSON:
                schemas.add(demand.what)
    letters = sum(map(len, schemas))
    if letters > MAX_SCHEMA_CHARS:
        raise BadPlan(
            f"JSON schemas with {letters} letters together; the most is {MAX_SCHEMA_CHARS}"
        )
    for schema in filter(None, schemas):
        patterns.update(patterns_in(schema))
    _check_patterns(patterns)


def _check_patterns(patterns: set[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise BadPlan(f"{len(patterns)} patterns; the most is {MAX_PATTERNS}")
    for pattern in sorted(patterns):
        count_step()
        try:
            check_pattern_size(pattern)
        except ValueError as error:
            raise BadPlan(str(error)) from None


def _all_tasks(tasks: Sequence[WrittenTask]) -> Iterator[WrittenTask]:
    """Yield the tasks of a plan level by level, as long as there are not too many."""
    level, count = tuple(tasks), 0
    for _ in range(MAX_NESTING):
        count += len(level)
        if count > MAX_TASKS:
            raise BadPlan(f"more than {MAX_TASKS} tasks")
        yield from level
        level = tuple(inner for task in level for inner in task.tasks)
    if level:
        raise BadPlan(f"more than {MAX_NESTING} plans within each other")
