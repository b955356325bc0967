"""The functions of `import forum` that record: they use one recorder for the process.

The recorder is opened when it is first needed, for the ledger of the current folder, or for the
server that `FORUM_URL` names.  `open` returns another one.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast, overload

from forum.features.recorder.recorder import Recorder, decorate, open_recorder
from forum.features.recorder.run_scope import RunScope, SpanContext, StepScope, current_context
from forum.runs.report_kinds import Operation

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

open = open_recorder  # noqa: A001  the word of the interface, like `gzip.open`
_default: Recorder | None = None
_lock = RLock()  # a signal handler may need a recorder while one is being opened


def default_recorder() -> Recorder:
    """Return the recorder of the module's functions; open it if there is none."""
    global _default  # noqa: PLW0603  one for each process
    context = current_context()
    if context is not None:
        # A step belongs to the recorder of its run.
        return cast("Recorder", context.run.recorder)
    if _default is None:
        with _lock:
            if _default is None:
                opened = open_recorder()
                # A signal handler may have opened one meanwhile.
                _default = _default or opened  # type: ignore[redundant-expr]
    return _default


def run(  # noqa: PLR0913  each is a limit that a caller names
    name: str,
    *,
    usd: float | str | None = None,
    tokens: int | None = None,
    calls: int | None = None,
    seconds: float | None = None,
    within: SpanContext | str | None = None,
    framework: str = "",
) -> RunScope:
    """Return a run of the default recorder; see `Recorder.run`."""
    return default_recorder().run(
        name,
        usd=usd,
        tokens=tokens,
        calls=calls,
        seconds=seconds,
        within=within,
        framework=framework,
    )


@overload
def step(
    function: FunctionT,
    *,
    op: Operation | str = ...,
    name: str = ...,
    capture: bool = ...,
    redact: str | tuple[str, ...] = ...,
) -> FunctionT: ...


@overload
def step(
    function: None = None,
    *,
    op: Operation | str = Operation.STEP,
    name: str = "",
    capture: bool = True,
    redact: str | tuple[str, ...] = (),
) -> Callable[[FunctionT], FunctionT]: ...


def step(
    function: FunctionT | None = None,
    *,
    op: Operation | str = Operation.STEP,
    name: str = "",
    capture: bool = True,
    redact: str | tuple[str, ...] = (),
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Record each call of a function; see `Recorder.step`."""
    return decorate(default_recorder, function, op=op, name=name, capture=capture, redact=redact)


@overload
def effect(
    function: FunctionT,
    *,
    name: str = ...,
    capture: bool = ...,
    redact: str | tuple[str, ...] = ...,
) -> FunctionT: ...


@overload
def effect(
    function: None = None,
    *,
    name: str = "",
    capture: bool = True,
    redact: str | tuple[str, ...] = (),
) -> Callable[[FunctionT], FunctionT]: ...


def effect(
    function: FunctionT | None = None,
    *,
    name: str = "",
    capture: bool = True,
    redact: str | tuple[str, ...] = (),
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Record each call of a function before it is made; see `Recorder.effect`."""
    return decorate(
        default_recorder,
        function,
        op=Operation.TOOL,
        name=name,
        capture=capture,
        redact=redact,
        is_effect=True,
    )


def span(  # noqa: PLR0913  each is a fact of the step
    op: Operation | str,
    name: str,
    *,
    input: object = None,  # noqa: A002  the word of the record
    model: str = "",
    provider: str = "",
    max_tokens: int | None = None,
    effect: bool = False,
) -> StepScope:
    """Return a step that is no function; see `Recorder.span`."""
    return default_recorder().span(
        op,
        name,
        input=input,
        model=model,
        provider=provider,
        max_tokens=max_tokens,
        effect=effect,
    )


def budget(
    model: str,
    *,
    input: object,  # noqa: A002  the word of the record
    max_tokens: int,
    provider: str = "",
) -> StepScope:
    """Return the step of one model call, whose cost is reserved; see `Recorder.budget`."""
    return default_recorder().budget(model, input=input, max_tokens=max_tokens, provider=provider)


def gate(shown: str, *, default: str = "reject", seconds: float = 86_400.0) -> bool:
    """Ask for approval within the current run; see `Recorder.gate`."""
    return default_recorder().gate(shown, default=default, seconds=seconds)


def context() -> SpanContext | None:
    """Return the current span, to be handed to a thread, a process or a service."""
    return current_context()


def traceparent() -> str:
    """Return the current span in the form of the W3C header `traceparent`; empty without one."""
    current = current_context()
    return current.traceparent if current else ""


def flush(seconds: float = 30.0) -> bool:
    """Wait until everything handed in so far is recorded; return False if that takes longer."""
    return _default is None or _default.flush(seconds)


def close(seconds: float = 30.0) -> bool:
    """Record the rest and close the default recorder; the next step opens another one."""
    global _default
    with _lock:
        recorder, _default = _default, None
    return recorder is None or recorder.close(seconds)
