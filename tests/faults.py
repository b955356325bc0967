"""Faults at each step of a guard: the n-th call of a function in its modules fails.

The steps are counted while the code runs, so a step that is added later is covered too.
"""

import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Self


class Fault:
    """Raises `MemoryError` at one call of a function, in whichever thread makes it."""

    def __init__(self, number: int, modules: tuple[str, ...], *, once_each: bool = False) -> None:
        """Take the number of the call, from 1, and the modules whose functions count.

        With `once_each`, only the first call of each function counts.
        """
        self._left, self._modules = number, modules
        self._once_each = once_each
        self._seen: set[CodeType] = set()
        self._counted: dict[CodeType, bool] = {}
        self.place = ""
        """The function that failed; empty if there were not so many calls."""

    def __enter__(self) -> Self:
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def trace(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call, and fail if it is the one."""
        code = frame.f_code
        counts = self._counted.get(code)
        if counts is None:
            name = frame.f_globals.get("__name__", "")
            counts = self._counted[code] = any(
                name == module or name.startswith(f"{module}.") for module in self._modules
            )
        if not counts or event != "call" or self.place:
            return
        if self._once_each:
            if code in self._seen:
                return
            self._seen.add(code)
        self._left -= 1
        if self._left == 0:
            self.place = f"{frame.f_globals.get('__name__')}.{code.co_qualname}"
            raise MemoryError(f"fault in {self.place}")


def each_fault(*modules: str, once_each: bool = False) -> Iterator[Fault]:
    """Yield a fault for each step, until there are no more; use each as a context."""
    number = 0
    while True:
        number += 1
        fault = Fault(number, modules, once_each=once_each)
        yield fault
        if not fault.place:
            assert number > 1, "the guard has no step in these modules"
            return
