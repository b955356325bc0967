"""Wrap functions, coroutines and generators, so that each call is recorded as a step.

The wrapper returns and raises what the function does.  Arguments are encoded before the call and
results after it, in the thread of the call, because the program may change them later.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, TypeVar, cast

from msgspec import Struct

from forum.features.recorder.run_scope import StepScope
from forum.features.recorder.values import redact_arguments
from forum.runs.report_kinds import Operation

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_MAX_ITEMS = 10_000
"""How many items of a generator are recorded."""


class StepOptions(Struct, frozen=True):
    """How the calls of a function are recorded."""

    op: Operation
    name: str
    capture: bool = True
    redact: frozenset[str] = frozenset()
    is_effect: bool = False


OpenScope = Callable[[StepOptions, object], StepScope]
"""Returns the scope of a call with these arguments."""


def wrap_function(function: FunctionT, options: StepOptions, open_scope: OpenScope) -> FunctionT:
    """Return a function whose calls are recorded."""
    arguments = _argument_reader(function, options)
    if inspect.iscoroutinefunction(function):
        wrapper = _wrap_coroutine(function, options, open_scope, arguments)
    elif inspect.isasyncgenfunction(function):
        wrapper = _wrap_async_generator(function, options, open_scope, arguments)
    elif inspect.isgeneratorfunction(function):
        wrapper = _wrap_generator(function, options, open_scope, arguments)
    else:
        wrapper = _wrap_plain(function, options, open_scope, arguments)
    return cast("FunctionT", functools.wraps(function)(wrapper))


_Arguments = Callable[[tuple[Any, ...], dict[str, Any]], object]


def _argument_reader(function: Callable[..., Any], options: StepOptions) -> _Arguments:
    """Return a function that names the arguments of a call, without binding them each time."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in without a signature
        parameters = []
    positional = [p.name for p in parameters if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    # The object of a method is not an argument that a reader asks for, and may be very large.
    first = 1 if positional[:1] in (["self"], ["cls"]) else 0

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        named = dict(zip(positional[first:], args[first:], strict=False))
        if len(args) > len(positional):
            named["args"] = args[len(positional) :]
        named.update(kwargs)
        return redact_arguments(named, options.redact) if options.redact else named

    return read if options.capture else lambda _args, _kwargs: None


def _wrap_plain(
    function: Callable[..., Any], options: StepOptions, open_scope: OpenScope, read: _Arguments
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as the function
        scope = open_scope(options, read(args, kwargs))
        scope.start()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            scope.finish(error)
            raise
        if options.capture:
            scope.output = result
        scope.finish()
        return result

    return wrapper


def _wrap_coroutine(
    function: Callable[..., Any], options: StepOptions, open_scope: OpenScope, read: _Arguments
) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as the function
        scope = open_scope(options, read(args, kwargs))
        await scope.start_async()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            await scope.finish_async(error)
            raise
        if options.capture:
            scope.output = result
        await scope.finish_async()
        return result

    return wrapper


def _wrap_generator(  # noqa: C901  PEP 380 written out
    function: Callable[..., Any], options: StepOptions, open_scope: OpenScope, read: _Arguments
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401  as it
        scope = open_scope(options, read(args, kwargs))
        scope.start()
        items: list[Any] = []
        inner = function(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, inner)
        try:
            while True:
                item = resume()
                if options.capture and len(items) < _MAX_ITEMS:
                    items.append(item)
                # A generator shares the context of its caller: what the caller does between two
                # items is not part of the step.
                scope.pause()
                try:
                    sent = yield item
                    resume = functools.partial(inner.send, sent)
                except GeneratorExit:
                    scope.resume()
                    inner.close()
                    raise
                except BaseException as error:  # noqa: BLE001  thrown in: the generator decides
                    resume = functools.partial(inner.throw, error)
                scope.resume()
        except StopIteration as stop:
            if options.capture:
                scope.output = items
            scope.finish()
            return stop.value
        except BaseException as error:
            scope.output = items if options.capture else None
            scope.finish(error)
            raise

    return wrapper


def _wrap_async_generator(  # noqa: C901  PEP 380 written out
    function: Callable[..., Any], options: StepOptions, open_scope: OpenScope, read: _Arguments
) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: ANN401  as it
        scope = open_scope(options, read(args, kwargs))
        await scope.start_async()
        items: list[Any] = []
        inner = function(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(anext, inner)
        try:
            while True:
                item = await resume()
                if options.capture and len(items) < _MAX_ITEMS:
                    items.append(item)
                scope.pause()
                try:
                    sent = yield item
                    resume = functools.partial(inner.asend, sent)
                except GeneratorExit:
                    scope.resume()
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001  thrown in: the generator decides
                    resume = functools.partial(inner.athrow, error)
                scope.resume()
        except StopAsyncIteration:
            if options.capture:
                scope.output = items
            await scope.finish_async()
        except BaseException as error:
            scope.output = items if options.capture else None
            await scope.finish_async(error)
            raise

    return wrapper
