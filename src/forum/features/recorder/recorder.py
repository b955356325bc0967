"""The recorder: runs, steps, effects, gates and budgets of a Python program.

A step is handed to one writer thread for each process, and does not wait.  What must be on record
before it happens (effects, gates, calls under a limit) waits for its commit.  Recording does not
change what a function returns or raises, except where the program has asked for it: by a limit of a
run, by `effect`, by a gate, or by `loss="raise"`.

A run is written by one process.  A forked child, or a step that ends after its run, continues in a
run of its own that names the first one in `continues`.
"""

import atexit
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, Self, TypeVar, overload
from weakref import WeakSet

import msgspec

from forum import errors
from forum.features.recorder.function_steps import StepOptions, wrap_function
from forum.features.recorder.report_items import ReportItem, RunEnd, RunStart, StepReport
from forum.features.recorder.run_scope import RunScope, SpanContext, StepScope, current_context
from forum.features.recorder.sinks import LedgerSink, OffSink, ReportSink, ServerSink
from forum.features.recorder.spool import Spool
from forum.features.recorder.step_queue import LossPolicy, RunCounter, StepQueue
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation, derive_label

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
EXIT_FLUSH_S = 5.0
"""How long a process that ends waits for its steps to be recorded."""
_RETRY_DELAY_S, _MAX_RETRY_DELAY_S = 0.1, 5.0
_recorders: "WeakSet[Recorder]" = WeakSet()


class Recorder:
    """Records the runs of this process in a ledger or on a server.

    Make one with `forum.open`.
    """

    def __init__(self, sink: ReportSink, *, loss: LossPolicy, most: int) -> None:
        self.sink = sink
        self._loss, self._most = loss, most
        self._start_process()
        _recorders.add(self)
        # The first recorder installs what ends with the process.
        _install_exit_hooks()

    def _start_process(self) -> None:
        """Begin with an empty queue: when opened, and in a forked child."""
        self._pid = os.getpid()
        self.queue = StepQueue(self._most, self._loss)
        self._spool = Spool(self.sink.spool)
        self._thread: threading.Thread | None = None
        self._open: dict[str, RunScope] = {}
        self._continuing: dict[str, RunScope] = {}
        self._is_closed = self._gives_up = False
        self._lost = self._failures = 0

    # What programs call

    def run(  # noqa: PLR0913  each is a limit that a caller names
        self,
        name: str,
        *,
        usd: float | str | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        within: "SpanContext | str | None" = None,
        framework: str = "",
    ) -> RunScope:
        """Return a run to be used in a `with` or an `async with` block.

        `usd`, `tokens` and `calls` limit what its model calls may spend: a call that could pass a
        limit raises `BudgetExceeded` and is not made.  After `seconds`, effects and model calls
        raise `RunDeadlinePassed`.  `within` is the span that the run is part of, as `context` or
        `traceparent` of another thread, process or service return it.
        """
        return RunScope(
            self,
            name,
            usd=usd,
            tokens=tokens,
            calls=calls,
            seconds=seconds,
            within=within,
            framework=framework,
        )

    def span(  # noqa: PLR0913  each is a fact of the step
        self,
        op: Operation | str,
        name: str,
        *,
        input: object = None,  # noqa: A002  the word of the record
        model: str = "",
        provider: str = "",
        max_tokens: int | None = None,
        effect: bool = False,
    ) -> StepScope:
        """Return a step that is no function, for a `with` or an `async with` block.

        Set `output`, `model`, `provider`, `agent` and `attributes` of what the block gets, and call
        its `tokens(input, output)`.  Under a limit of dollars or tokens, the call of a model needs
        `input`, `model` and `max_tokens`, from which the highest cost is computed and reserved;
        without one of them `UnboundedCall` is raised.
        """
        return StepScope(
            self,
            Operation(op),
            name,
            input=input,
            model=model,
            provider=provider,
            max_tokens=max_tokens,
            is_effect=effect,
        )

    def budget(
        self,
        model: str,
        *,
        input: object,  # noqa: A002  the word of the record
        max_tokens: int,
        provider: str = "",
    ) -> StepScope:
        """Return the step of one model call, whose highest cost is reserved before it is made.

        The block calls `tokens(input, output)` of what it gets, and the cost is settled by the
        price table; without that the whole reservation counts as spent.
        """
        return self.span(
            Operation.MODEL,
            model,
            input=input,
            model=model,
            provider=provider,
            max_tokens=max_tokens,
        )

    @overload
    def step(
        self,
        function: FunctionT,
        *,
        op: Operation | str = ...,
        name: str = ...,
        capture: bool = ...,
        redact: str | tuple[str, ...] = ...,
    ) -> FunctionT: ...

    @overload
    def step(
        self,
        function: None = None,
        *,
        op: Operation | str = Operation.STEP,
        name: str = "",
        capture: bool = True,
        redact: str | tuple[str, ...] = (),
    ) -> Callable[[FunctionT], FunctionT]: ...

    def step(
        self,
        function: FunctionT | None = None,
        *,
        op: Operation | str = Operation.STEP,
        name: str = "",
        capture: bool = True,
        redact: str | tuple[str, ...] = (),
    ) -> FunctionT | Callable[[FunctionT], FunctionT]:
        """Record each call of a function: its arguments, its result or error, and its time.

        Works for functions, coroutines, generators and asynchronous generators.  `capture=False`
        leaves out arguments and result, `redact` the arguments of these names.
        """
        return decorate(lambda: self, function, op=op, name=name, capture=capture, redact=redact)

    @overload
    def effect(
        self,
        function: FunctionT,
        *,
        name: str = ...,
        capture: bool = ...,
        redact: str | tuple[str, ...] = ...,
    ) -> FunctionT: ...

    @overload
    def effect(
        self,
        function: None = None,
        *,
        name: str = "",
        capture: bool = True,
        redact: str | tuple[str, ...] = (),
    ) -> Callable[[FunctionT], FunctionT]: ...

    def effect(
        self,
        function: FunctionT | None = None,
        *,
        name: str = "",
        capture: bool = True,
        redact: str | tuple[str, ...] = (),
    ) -> FunctionT | Callable[[FunctionT], FunctionT]:
        """Record each call of a function before it is made, and its outcome after it.

        If it cannot be recorded, `RecorderUnusable` is raised and the call is not made.  A crash in
        between leaves the outcome `indeterminate`.
        """
        return decorate(
            lambda: self,
            function,
            op=Operation.TOOL,
            name=name,
            capture=capture,
            redact=redact,
            is_effect=True,
        )

    def gate(self, shown: str, *, default: str = "reject", seconds: float = 86_400.0) -> bool:
        """Ask for approval within the current run; return whether it was given.

        Waits for `forum gate approve` or `forum gate reject`; after `seconds` the default decides.
        """
        context = current_context()
        if context is None:
            with self.run("gate") as run:
                return run.gate(shown, default=default, seconds=seconds)
        return context.run.gate(shown, default=default, seconds=seconds)

    def context(self) -> "SpanContext | None":
        """Return the current span, to be handed to a thread, a process or a service."""
        return current_context()

    def flush(self, seconds: float = 30.0) -> bool:
        """Wait until everything handed in so far is recorded; return False if that takes longer.

        Also return False if something could not be recorded since the last call.
        """
        self.check_process()
        if self._thread is not None and not self.queue.wait_until_done(seconds):
            return False
        failures, self._failures = self._failures, 0
        return failures == 0

    @property
    def lost(self) -> int:
        """The number of steps of this process that are not recorded and never will be."""
        return self._lost + self.queue.dropped

    def close(self, seconds: float = 30.0) -> bool:
        """Record the rest, publish, and close; return False if the time does not suffice.

        What is left then is a gap that the next process records.
        """
        self.check_process()
        if self._is_closed:
            return True
        deadline = monotonic() + seconds
        for run in [*self._open.values()]:
            # A run whose block is still open ends here; nobody knows how it would have gone on.
            is_ours = run.id in {scope.id for scope in self._continuing.values()}
            run.end(Outcome.OK if is_ours else Outcome.INDETERMINATE)
        self._is_closed = True
        self.queue.stop()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - monotonic()))
            self._gives_up = True
            if self._thread.is_alive():
                return False
        self.sink.close()
        self._spool.close()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What runs and steps call

    def open_run(self, run: RunScope, start: RunStart) -> None:
        """Count and queue the start of a run."""
        self.check_process()
        self.queue.wait_for_room()
        self.queue.run_locked(partial(self._put_start, run, start))
        self._ensure_writer()

    def _put_start(self, run: RunScope, start: RunStart) -> None:
        run.counter.slot = self._spool.take_slot(run.id, derive_label(run.name))
        self._open[run.id] = run
        self.queue.append(run.counter, start)

    def end_run(self, run: RunScope, outcome: Outcome) -> None:
        """Queue the end of a run, after everything that was handed in for it."""
        self.check_process()
        if run.pid != self._pid:
            return  # a forked child leaves a block that its parent entered: the run is the parent's
        # At once, and outside of the lock: nothing that is handed in from here on is put behind
        # the end of the run.
        run.counter.is_ended = True
        self.queue.wait_for_room()
        self.queue.run_locked(partial(self._put_end, run, outcome))

    def _put_end(self, run: RunScope, outcome: Outcome) -> None:
        if run.counter.is_closed:
            return
        run.counter.is_closed = True
        end = RunEnd(
            run=run.id,
            name=run.name,
            outcome=outcome,
            handed_in=run.counter.handed_in,
            dropped=run.counter.dropped,
            dropped_why=self.sink.full_why,
            missing_why=self.sink.missing_why,
            filtered=run.filtered,
        )
        self.queue.append(run.counter, end)

    def hand_in(self, run: RunScope, step: StepReport) -> None:
        """Hand in a step; it is recorded, or counted as lost."""
        if run.pid == os.getpid() and not self._is_closed:
            # Before the step: with `loss="block"` a full queue waits for the writer.
            self._ensure_writer()
        if run.pid != os.getpid() or not self.queue.put_step(run.counter, step):
            later = self._continue(run)
            if later is None or not self.queue.put_step(
                later.counter, msgspec.structs.replace(step, run=later.id)
            ):
                self._lost += 1  # this recorder is closed

    def count_fault(self, run: RunScope, error: Exception) -> None:
        """Count a step that an adapter failed to record; the run gets a gap."""
        self._warn(error)
        self._lost += 1
        self._failures += 1
        if self.queue.count_direct(run.counter):
            self.queue.count_refused(run.counter)

    def own_run(self, run: RunScope) -> RunScope | None:
        """Return the run that this process may write to in place of a given one."""
        if run.pid == os.getpid() and not run.counter.is_ended:
            return run
        return self._continue(run)

    def _continue(self, run: RunScope) -> RunScope | None:
        """Return the run of this process that continues a run of another process, or an ended one.

        It ends when the recorder is closed.
        """
        self.check_process()
        if self._is_closed:
            return None
        later = self._continuing.get(run.id)
        if later is None:
            later = run.make_continuation()
            self._continuing[run.id] = later
        return later

    def check_process(self) -> None:
        """Notice a fork that no hook has announced."""
        if self._pid != os.getpid():
            self.after_fork_in_child()

    def after_fork_in_child(self) -> None:
        """Start with a queue, a writer and counters of this process's own."""
        if self._pid != os.getpid():
            self.sink.reopen()
            self._start_process()

    # The writer

    def _ensure_writer(self) -> None:
        if self._thread is None:
            self.queue.run_locked(self._start_writer)

    def _start_writer(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._write, name="forum-recorder", daemon=True)
            self._thread = thread
            thread.start()
            _register_child_exit(self)

    def _write(self) -> None:
        queue = self.queue
        while batch := queue.take_batch():
            self._write_batch(batch)
            queue.mark_done(len(batch))

    def _write_batch(self, batch: list[tuple[RunCounter, ReportItem]]) -> None:
        counters = {item.run: counter for counter, item in batch}
        for counter, item in batch:
            if isinstance(item, RunEnd):
                self.queue.seal(counter)
        for part in self.sink.split([item for _, item in batch]):
            for item in self._write_part(part, counters):
                if isinstance(item, RunEnd):
                    self._forget_run(item.run, counters[item.run])

    def _write_part(
        self, items: Sequence[ReportItem], counters: dict[str, RunCounter]
    ) -> list[ReportItem]:
        """Write items, and return those that are recorded; the others are counted."""
        # An end is queued before it is known what becomes of the steps before it.
        items = [_tell_refused(item, counters[item.run]) for item in items]
        delay = _RETRY_DELAY_S
        while True:
            try:
                result = self.sink.write(items)
                break
            except errors.Unavailable as error:
                if self._gives_up:
                    return []  # the counts in the spool tell the next process
                self._warn(error)
                sleep(delay)
                delay = min(2 * delay, _MAX_RETRY_DELAY_S)
            except Exception as error:  # noqa: BLE001  the program must not suffer from our faults
                if len(items) > 1:
                    # One of them is the cause: the others are recorded all the same.
                    return [
                        result for item in items for result in self._write_part([item], counters)
                    ]
                self._count_failure(items[0], counters, error)
                return []
        refused = {refusal.item for refusal in result.refused}
        for refusal in result.refused:
            why = errors.RecorderUnusable(refusal.why)
            self._count_failure(items[refusal.item], counters, why)
        return [item for number, item in enumerate(items) if number not in refused]

    def _count_failure(
        self, item: ReportItem, counters: dict[str, RunCounter], error: Exception
    ) -> None:
        """Count an item that cannot be recorded.

        A step is in a gap of its run, whose end is written later.  The counts of a run without an
        end stay in the spool, and the next process records them.
        """
        if isinstance(item, StepReport):
            self._lost += 1
            self.queue.count_refused(counters[item.run])
        self._failures += 1
        self._warn(error)

    def _forget_run(self, run: str, counter: RunCounter) -> None:
        def forget() -> None:
            self._open.pop(run, None)
            if counter.slot is not None:
                counter.slot.free()

        self.queue.run_locked(forget)

    def _warn(self, error: Exception) -> None:
        """Warn once: the same fault may concern every step."""
        if self._has_warned:
            return
        self._has_warned = True
        # The error itself would say that the step was not made, as it does of an effect.
        why = error.why if isinstance(error, errors.RecorderUnusable) else str(error)
        text = f"forum cannot record a step now; the program goes on: {why}"
        # Where warnings are errors, this one must not end the writer, nor the program.
        with suppress(RuntimeWarning):
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    _has_warned = False


def _tell_refused(item: ReportItem, counter: RunCounter) -> ReportItem:
    if isinstance(item, RunEnd) and counter.refused:
        return msgspec.structs.replace(item, refused=counter.refused)
    return item


def decorate(  # noqa: PLR0913  each is an option of the decorators
    find_recorder: Callable[[], Recorder],
    function: FunctionT | None,
    *,
    op: Operation | str,
    name: str = "",
    capture: bool = True,
    redact: str | tuple[str, ...] = (),
    is_effect: bool = False,
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Wrap a function, or return a decorator; the recorder is looked up at each call."""

    def wrap(wrapped: Any) -> Any:  # noqa: ANN401  a function, or what a class makes of one
        # Python calls the function within: wrapped themselves they would lose their meaning.
        if isinstance(wrapped, staticmethod | classmethod):
            return type(wrapped)(wrap(wrapped.__func__))
        if isinstance(wrapped, property):
            get, change, delete = (
                wrap(part) if part else None for part in (wrapped.fget, wrapped.fset, wrapped.fdel)
            )
            return property(get, change, delete, wrapped.__doc__)
        options = StepOptions(
            op=Operation(op),
            name=name or _name_of(wrapped),
            capture=capture,
            redact=frozenset((redact,) if isinstance(redact, str) else redact),
            is_effect=is_effect,
        )
        return wrap_function(wrapped, options, partial(_open_scope, find_recorder))

    return wrap if function is None else wrap(function)


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, without the functions that it is defined in."""
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name.rpartition("<locals>.")[2]


def _open_scope(
    find_recorder: Callable[[], Recorder], options: StepOptions, arguments: object
) -> StepScope:
    return StepScope(
        find_recorder(),
        options.op,
        options.name,
        input=arguments,
        is_effect=options.is_effect,
    )


def open_recorder(
    folder: str | Path = ".",
    *,
    url: str | None = None,
    key: str | None = None,
    loss: LossPolicy | str = LossPolicy.DROP,
    most: int = 10_000,
) -> Recorder:
    """Return a recorder for the ledger of a folder, or for a server.

    A server is used if `url` is given, or `FORUM_URL` is set; its key is `key` or `FORUM_KEY`, with
    the scope `report`.  `most` steps wait in memory to be recorded.  If there are more, `loss`
    decides: `drop` counts them as lost, `block` lets the program wait, and `raise` raises
    `RecorderQueueFull` before the step.

    With `FORUM_OFF=1` nothing is recorded; functions run as they are, limits refuse calls as
    always, and gates answer with their default.
    """
    policy = LossPolicy(loss)
    if os.environ.get("FORUM_OFF") == "1":
        return Recorder(OffSink(), loss=policy, most=most)
    url = url or os.environ.get("FORUM_URL")
    if not url:
        return Recorder(LedgerSink(Path(folder)), loss=policy, most=most)
    sink = ServerSink(url, key or os.environ.get("FORUM_KEY", ""), Path(folder))
    recorder = Recorder(sink, loss=policy, most=most)
    # Later, if the server cannot be reached now: the counters stay.
    with suppress(errors.Unavailable):
        sink.recover()
    return recorder


# Exits and forks

_hooks_installed = False


def _install_exit_hooks() -> None:
    global _hooks_installed  # noqa: PLW0603  once for each process
    if _hooks_installed:
        return
    _hooks_installed = True
    atexit.register(_close_all)
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork
    )
    # Only where nothing else handles the signal: a program's own handler decides what happens.
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _flush_and_terminate)


def _close_all() -> None:
    for recorder in list(_recorders):
        recorder.close(EXIT_FLUSH_S)


def _flush_and_terminate(number: int, _frame: FrameType | None) -> None:
    """Flush in a thread, then end as the signal would have ended the process.

    Not in the handler itself: the main thread may hold the lock of the queue.
    """

    def flush() -> None:
        for recorder in list(_recorders):
            recorder.flush(EXIT_FLUSH_S)
        os.kill(os.getpid(), number)

    signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=flush, name="forum-terminate", daemon=True).start()


_forking: list[Recorder] = []


def _before_fork() -> None:
    # Strong references: what is locked here must be unlocked after the fork.
    _forking[:] = sorted(_recorders, key=id)
    for recorder in _forking:
        recorder.queue.lock.acquire()


def _after_fork_in_parent() -> None:
    for recorder in _forking:
        recorder.queue.lock.release()
    _forking.clear()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.after_fork_in_child()


def _register_child_exit(recorder: Recorder) -> None:
    """Have a child of `multiprocessing` close its recorder: such a child runs no exit handlers."""
    import multiprocessing.process as processes

    if processes.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, recorder.close, args=(EXIT_FLUSH_S,), exitpriority=100)
