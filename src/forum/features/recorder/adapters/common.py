"""What the adapters of frameworks share: the open steps of a framework, by its own keys.

An adapter must not break the program: its own faults are counted, warned of once, and become a gap.
Only refusals that the program has asked for by a limit are raised.
"""

import functools
import types
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

from forum import errors
from forum.features.recorder import run_scope
from forum.features.recorder.api import default_recorder
from forum.features.recorder.recorder import Recorder
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation

REFUSALS = (
    errors.LimitReached,
    errors.UnknownPrice,
    errors.RecorderUnusable,
    errors.RecorderQueueFull,
)
"""Errors that refuse a call, because the program asked for it."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class SpanTracker:
    """The open runs and steps of one framework; safe to use from many threads."""

    def __init__(self, framework: str, recorder: Recorder | None = None) -> None:
        self.framework, self._recorder = framework, recorder
        self._contexts: dict[Hashable, run_scope.SpanContext] = {}
        self._steps: dict[Hashable, run_scope.StepScope] = {}
        self._runs: dict[Hashable, run_scope.RunScope] = {}
        self._lock = RLock()  # the collector may end a step in the midst of it

    @property
    def recorder(self) -> Recorder:
        """The recorder that was given, or the default one."""
        return self._recorder or default_recorder()

    def open_run(self, key: Hashable, name: str) -> run_scope.SpanContext:
        """Return the current run of the program, or open one for this key."""
        context = run_scope.current_context()
        if context is None:
            run = self.recorder.run(name or self.framework, framework=self.framework)
            run.begin()
            context = run_scope.SpanContext(run, "")
            with self._lock:
                self._runs[key] = run
        with self._lock:
            self._contexts[key] = context
        return context

    def close_run(self, key: Hashable, error: BaseException | None = None) -> None:
        """End a run that `open_run` has opened."""
        with self._lock:
            run = self._runs.pop(key, None)
            self._contexts.pop(key, None)
        if run is not None:
            run.end(run_scope.outcome_of(error) if error is not None else Outcome.OK)

    def context_of(self, *keys: Hashable) -> run_scope.SpanContext | None:
        """Return the span of the first of these keys that is open, or the current one."""
        with self._lock:
            context = next((self._contexts[key] for key in keys if key in self._contexts), None)
        return context or run_scope.current_context()

    def make_step(
        self,
        key: Hashable,
        op: Operation,
        name: str,
        parent: run_scope.SpanContext | None,
        **facts: Any,
    ) -> run_scope.StepScope:
        """Return a step within a span; the caller prepares it."""
        step = run_scope.StepScope(self.recorder, op, name, parent=parent, **facts)
        with self._lock:
            self._steps[key] = step
            self._contexts[key] = step.context
        return step

    def take_step(self, key: Hashable) -> run_scope.StepScope | None:
        """Return an open step that ends now; None if there is none of this key."""
        with self._lock:
            self._contexts.pop(key, None)
            return self._steps.pop(key, None)

    def skip_step(self, key: Hashable, parent: run_scope.SpanContext | None) -> None:
        """Leave a span out: those within it belong to its parent."""
        if parent is not None:
            parent.run.filtered += 1
            with self._lock:
                self._contexts[key] = parent

    def forget(self, key: Hashable) -> None:
        """Forget a span that was left out."""
        with self._lock:
            self._contexts.pop(key, None)

    def count_fault(self, error: Exception) -> None:
        """Count a fault of the adapter in the current run."""
        context = self.context_of()
        if context is not None:
            context.run.recorder.count_fault(context.run, error)


def guard(function: FunctionT) -> FunctionT:
    """Keep a method of an adapter, which has a `tracker`, from raising anything but refusals."""

    @functools.wraps(function)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except REFUSALS:
            raise
        except Exception as error:  # noqa: BLE001  counted: the program goes on
            self.tracker.count_fault(error)
            return None

    return guarded  # type: ignore[return-value]  # the same signature


def guard_async(function: FunctionT) -> FunctionT:
    """Do the same as `guard` for a coroutine."""

    @functools.wraps(function)
    async def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await function(self, *args, **kwargs)
        except REFUSALS:
            raise
        except Exception as error:  # noqa: BLE001  counted: the program goes on
            self.tracker.count_fault(error)
            return None

    return guarded  # type: ignore[return-value]  # the same signature


def mix(name: str, own: type, base: Any) -> Any:
    """Return a class of the framework with the methods of ours.

    The base is known only where the framework is installed.
    """
    # Some frameworks export a generic alias, which is resolved to its class.
    return types.new_class(name, (own, base))
