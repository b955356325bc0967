"""How whoever checks what others wrote can end it.

Some of what a plan may hold takes long to check.  The code that does so calls `step` for each unit
of work.  A caller that has set a limit with `limited` is asked at each of them whether to go on;
the clock is the caller's, and this package reads none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_step_check: ContextVar[Callable[[], None] | None] = ContextVar("limit", default=None)


@contextmanager
def limit_steps(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` at every step of what is done within; it raises an error to end it."""
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
