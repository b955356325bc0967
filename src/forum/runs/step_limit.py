"""Let a caller interrupt the check of a plan.

Checking parts of a plan can take long. The checking code calls `count_step` for each unit of work,
and that calls the function that the caller set with `limit_steps`. The function decides, by the
caller's clock, whether to continue; this package reads no clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_step_check: ContextVar[Callable[[], None] | None] = ContextVar("limit", default=None)


@contextmanager
def limit_steps(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` at every step within the block; it raises an error to end the work."""
    token = _step_check.set(check)
    try:
        yield
    finally:
        _step_check.reset(token)


def count_step() -> None:
    """Count one unit of work, which the caller may have limited."""
    check = _step_check.get()
    if check is not None:
        check()
