"""How large a plan from somebody else may be.

These limits hold when a plan is accepted, edited, or written by a model.  They do not hold for
plans that were recorded before: what is in the record can always be read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from forum.errors import BadPlan
from forum.work.demands import MOST_SCHEMA, Check, check_pattern_size, demands_of, patterns_in
from forum.work.limits import step

MOST_TASKS = 10_000
"""Tasks of a plan, those of plans within it included."""
MOST_NESTING = 16
"""Plans within each other."""
MOST_LINES = 20_000
"""Lines of `done_when` in a plan."""
MOST_PATTERNS = 100
"""Patterns in a plan, those in its JSON schemas included."""


class Written(Protocol):
    """A task as somebody wrote it."""

    @property
    def done_when(self) -> str:
        """What its result must hold to."""
        ...

    @property
    def tasks(self) -> Sequence[Any]:
        """The plan within it: tasks of this form."""
        ...


def check_size(tasks: Sequence[Written]) -> None:
    """Refuse a plan that is too large, or takes too long to check.  Raises `BadPlan`."""
    lines, schemas, patterns = 0, set[str](), set[str]()
    for task in _all_tasks(tasks):
        step()
        lines += len(task.done_when.splitlines())
        if lines > MOST_LINES:
            raise BadPlan(f"more than {MOST_LINES} lines of done_when")
        for demand in demands_of(task.done_when):
            if demand.check is Check.MATCHES:
                patterns.add(demand.what)
            elif demand.check is Check.JSON:
                schemas.add(demand.what)
    letters = sum(map(len, schemas))
    if letters > MOST_SCHEMA:
        raise BadPlan(f"JSON schemas with {letters} letters together; the most is {MOST_SCHEMA}")
    for schema in filter(None, schemas):
        patterns.update(patterns_in(schema))
    _check_patterns(patterns)


def _check_patterns(patterns: set[str]) -> None:
    if len(patterns) > MOST_PATTERNS:
        raise BadPlan(f"{len(patterns)} patterns; the most is {MOST_PATTERNS}")
    for pattern in sorted(patterns):
        step()
        try:
            check_pattern_size(pattern)
        except ValueError as error:
            raise BadPlan(str(error)) from None


def _all_tasks(tasks: Sequence[Written]) -> Iterator[Written]:
    """Yield the tasks of a plan level by level, as long as there are not too many."""
    level, count = tuple(tasks), 0
    for _ in range(MOST_NESTING):
        count += len(level)
        if count > MOST_TASKS:
            raise BadPlan(f"more than {MOST_TASKS} tasks")
        yield from level
        level = tuple(inner for task in level for inner in task.tasks)
    if level:
        raise BadPlan(f"more than {MOST_NESTING} plans within each other")
