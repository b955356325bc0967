"""Runs and steps as a program sees them: context managers, and the context that they set."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from decimal import Decimal
from functools import partial
from threading import Lock
from time import monotonic, perf_counter_ns, sleep
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from forum import errors
from forum.app import model_prices, new_run_id, now
from forum.features.recorder.report_items import GateQuestion, Json, RunStart, StepBegin, StepReport
from forum.features.recorder.sinks import (
    LedgerSink,
    ReportSink,
    find_relayed_run,
    raise_refusal,
)
from forum.features.recorder.step_queue import RunCounter, StepQueue
from forum.features.recorder.values import JsonValue, clean_label, clean_text, encode_value
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs.policy import Answer
from forum.runs.report_kinds import NOT_MADE, Operation, ReportProvenance
from forum.units import MAX_AMOUNT, NANO_USD, to_limit_units

_GATE_POLL_S, _MAX_GATE_POLL_S = 0.1, 2.0
_EMPTY: Json = msgspec.UNSET
_TRACEPARENT_PARTS = 4
_MAX_NAME_CHARS = 1000
_MAX_TOKENS = 2**40


class RunKeeper(Protocol):
    """What runs and steps need of their recorder."""

    sink: ReportSink
    queue: StepQueue

    def open_run(self, run: "RunScope", start: RunStart) -> None:
        """Count and queue the start of a run."""
        ...

    def end_run(self, run: "RunScope", outcome: Outcome) -> None:
        """Queue the end of a run."""
        ...

    def hand_in(self, run: "RunScope", step: StepReport) -> None:
        """Hand in a step; it is recorded, or counted as lost."""
        ...

    def count_fault(self, run: "RunScope", error: Exception) -> None:
        """Count a step that could not be recorded."""
        ...

    def own_run(self, run: "RunScope") -> "RunScope | None":
        """Return the run that this process may write to in place of a given one."""
        ...

    def flush(self, seconds: float = 30.0) -> bool:
        """Wait until everything handed in so far is recorded."""
        ...


class SpanContext(NamedTuple):
    """The current span of a run.  In a `with` block it is the current one of another thread."""

    run: "RunScope"
    span: str

    @property
    def traceparent(self) -> str:
        """The span in the form of the W3C header `traceparent`."""
        return f"00-{self.run.trace}-{self.span or self.run.root_span}-01"

    def __enter__(self) -> Self:
        _attach(self, self)
        return self

    def __exit__(self, *_: object) -> None:
        _detach(self)


_current: ContextVar[SpanContext | None] = ContextVar("forum_span", default=None)
_attached: ContextVar[tuple[tuple[object, SpanContext | None], ...]] = ContextVar(
    "forum_attached", default=()
)
"""The blocks of this thread or task, and the span that was current before each.

Not kept in the blocks: many threads may enter the same one.
"""


def _attach(block: object, context: SpanContext) -> None:
    _attached.set((*_attached.get(), (block, _current.get())))
    _current.set(context)


def _detach(block: object) -> None:
    """Restore the span from before a block; a block that is left elsewhere changes nothing here."""
    blocks = _attached.get()
    if blocks and blocks[-1][0] is block:
        _current.set(blocks[-1][1])
        _attached.set(blocks[:-1])


def current_context() -> SpanContext | None:
    """Return the current span of this thread or task."""
    return _current.get()


class RunBudgetLeft(msgspec.Struct, frozen=True):
    """What is left of the limits of a run; None where it has no limit."""

    usd: Decimal | None
    tokens: int | None
    calls: int | None


class RunScope:
    """One recorded run: a `with` or `async with` block whose end closes it."""

    def __init__(  # noqa: PLR0913  each is a limit that a caller names
        self,
        recorder: "RunKeeper",
        name: str,
        *,
        usd: float | str | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        within: SpanContext | str | None = None,
        framework: str = "",
        provenance: ReportProvenance = ReportProvenance.WRAPPED,
        continues: str = "",
    ) -> None:
        self.recorder, self.name = recorder, clean_text(name, _MAX_NAME_CHARS)
        self.id = new_run_id()
        self.pid = os.getpid()
        self.counter = RunCounter()
        trace, self.root_within = _read_parent(within or _current.get())
        self.trace = trace or self.id.replace("-", "")
        self.root_span = os.urandom(8).hex()
        self.start = RunStart(
            run=self.id,
            name=self.name,
            told=provenance,
            framework=clean_label(framework),
            trace=find_relayed_run() or self.trace,
            continues=continues,
            usd=_read_limit("usd", usd, NANO_USD),
            tokens=_read_limit("tokens", tokens),
            calls=_read_limit("calls", calls),
        )
        self.is_capped = self.start.is_capped
        self._seconds = _check_seconds(seconds)
        self._deadline = None if seconds is None else monotonic() + seconds
        self._outcome = Outcome.OK
        self.filtered = 0
        """How many spans of a framework were left out by rule."""
        self._gates = 0
        self._is_started = False
        self._used, self._used_lock = Amount(), Lock()
        """What the calls of this run have cost, and what is reserved for those under way."""

    # The block

    def begin(self) -> None:
        """Begin the run; `with` does it by itself."""
        self.recorder.open_run(self, self.start)
        if self.is_capped:
            self.ensure_recorded()

    def end(self, outcome: Outcome | None = None) -> None:
        """End the run; the end of the block does it by itself."""
        self.recorder.end_run(self, outcome or self._outcome)

    def __enter__(self) -> Self:
        self.begin()
        _attach(self, SpanContext(self, ""))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _detach(self)
        self.end(outcome_of(error) if error is not None else None)

    async def __aenter__(self) -> Self:
        if self.is_capped:
            await _call_in_thread(self.begin, lambda: self.end(Outcome.CANCELLED))
        else:
            self.begin()
        _attach(self, SpanContext(self, ""))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    # What a program calls in the block

    def note(self, text: str) -> None:
        """Record a remark as a step of the run."""
        with StepScope(self.recorder, Operation.STEP, "note", parent=self.context) as scope:
            scope.output = text

    def fail(self, reason: str) -> None:
        """Have the run end as failed, for this reason."""
        self._outcome = Outcome.FAILED
        with StepScope(self.recorder, Operation.STEP, "fail", parent=self.context) as scope:
            scope.outcome, scope.code = Outcome.FAILED, "failed"
            scope.output = reason

    def gate(self, shown: str, *, default: str = "reject", seconds: float = 86_400.0) -> bool:
        """Ask for approval, and wait for `forum gate approve` or `reject`; return whether it came.

        After `seconds` the default decides.
        """
        question, delay = self._question(shown, default, seconds), _GATE_POLL_S
        while (answer := self.recorder.sink.ask_gate(question)) is None:
            sleep(delay)
            delay = min(1.5 * delay, _MAX_GATE_POLL_S)
        return answer is Answer.APPROVE

    async def gate_async(
        self, shown: str, *, default: str = "reject", seconds: float = 86_400.0
    ) -> bool:
        """Ask for approval like `gate`, without blocking other tasks."""
        question, delay = self._question(shown, default, seconds), _GATE_POLL_S
        while True:
            answer = await asyncio.to_thread(self.recorder.sink.ask_gate, question)
            if answer is not None:
                return answer is Answer.APPROVE
            await asyncio.sleep(delay)
            delay = min(1.5 * delay, _MAX_GATE_POLL_S)

    def verify(self) -> str:
        """Verify the ledger, and return what was found, and how the run is known.

        Only for a ledger of this machine: a server's clients verify bundles.
        """
        sink = self.recorder.sink
        if not isinstance(sink, LedgerSink):
            raise errors.LedgerElsewhere(self.id)
        self.recorder.flush()
        sink.forum.log.publish()
        report = sink.forum.log.verify(sink.forum.log.read_trust())
        return f"{report.summary}; {self.start.told}: calls that were not wrapped are missing"

    @property
    def context(self) -> SpanContext:
        """The run as the context of its steps."""
        current = _current.get()
        return current if current is not None and current.run is self else SpanContext(self, "")

    # What steps call

    def _question(self, shown: str, default: str, seconds: float) -> GateQuestion:
        self.ensure_recorded()
        self._gates += 1
        return GateQuestion(
            run=self.id,
            subject=f"ask-{self._gates}",
            shown=shown,
            milliseconds=max(1, round(1000 * seconds)),
            default=Answer(default),
        )

    @property
    def left(self) -> RunBudgetLeft:
        """What is left of its limits, after what is reserved for calls under way."""
        caps = (self.start.usd, self.start.tokens, self.start.calls)
        usd, tokens, calls = (
            None if cap == NO_LIMIT else max(0, cap - used)
            for cap, used in zip(caps, self._used, strict=True)
        )
        dollars = None if usd is None else Decimal(usd).scaleb(-9)
        return RunBudgetLeft(dollars, tokens, calls)

    def charge(self, amount: Amount, before: Amount = Amount()) -> None:  # noqa: B008  a constant
        """Count what a call costs, in place of what was counted for it before."""
        with self._used_lock:
            self._used = Amount(
                *(u + a - b for u, a, b in zip(self._used, amount, before, strict=True))
            )

    def ensure_recorded(self) -> None:
        """Have the start of the run on record before something that waits for its own commit."""
        if not self._is_started:
            raise_refusal(self.recorder.sink.write([self.start]))
            self._is_started = True

    def check_deadline(self) -> None:
        """Raise `RunDeadlinePassed` after the time limit."""
        if self._deadline is not None and monotonic() > self._deadline:
            raise errors.RunDeadlinePassed(self.id, round(self._seconds or 0))

    def make_continuation(self) -> "RunScope":
        """Return an open run of this process that continues this one."""
        later = RunScope(
            self.recorder,
            self.name,
            within=SpanContext(self, ""),
            framework=self.start.framework,
            provenance=self.start.told,
            continues=self.id,
        )
        later.begin()
        return later


class StepScope:
    """One recorded step: a `with` or `async with` block.

    It belongs to the current run, and is recorded by that run's recorder.

    `output`, `agent`, `model`, `provider` and `attributes` may be set in the block.
    """

    __slots__ = (
        "_began",
        "_bound_price",
        "_cut",
        "_input",
        "_input_tokens",
        "_is_begun",
        "_is_effect",
        "_max_tokens",
        "_own_run",
        "_price",
        "_reserved",
        "_started",
        "_token",
        "_used",
        "agent",
        "attributes",
        "code",
        "model",
        "name",
        "op",
        "outcome",
        "output",
        "provider",
        "recorder",
        "run",
        "span",
        "within",
    )

    def __init__(  # noqa: PLR0913  each is a fact of the step
        self,
        recorder: "RunKeeper",
        op: Operation,
        name: str,
        *,
        input: object = None,  # noqa: A002  the word of the record
        model: str = "",
        provider: str = "",
        agent: str = "",
        max_tokens: int | None = None,
        is_effect: bool = False,
        parent: SpanContext | None = None,
        bound: model_prices.CallPrice | None = None,
    ) -> None:
        self._bound_price = bound
        self._price: model_prices.CallPrice | None = None
        self.op, self.name = op, clean_text(name, _MAX_NAME_CHARS)
        self.model, self.provider = model, provider
        self.agent = agent
        self.output: object = None
        self.attributes: object = None
        self.outcome: Outcome | None = None
        self.code = ""
        self._is_effect, self._max_tokens = is_effect, max_tokens
        self._is_begun, self._cut = False, 0
        self._used: tuple[int, int] | None = None
        self._reserved = model_prices.CallPrice(0, 0, "")
        self._own_run: RunScope | None = None
        self._token: Token[SpanContext | None] | None = None
        context = parent or _current.get()
        if context is None:
            # A step outside of every run is a run by itself.
            self._own_run = RunScope(recorder, self.name)
            context = SpanContext(self._own_run, self._own_run.root_within)
        self.run = context.run
        # Not the given one, which does not know the run: its writer would be refused each step.
        self.recorder = context.run.recorder
        self.within = context.span or context.run.root_within
        self.span = os.urandom(8).hex()
        self._input: Json = _EMPTY if input is None else self._encode(input)
        self._input_tokens = 0
        if input is not None and op is Operation.MODEL and self._is_bounded:
            # Of all of it: what is kept for the record may be cut.
            self._input_tokens = model_prices.bound_input(
                encode_value(input, NO_LIMIT).raw.decode()
            )

    def tokens(self, input_tokens: int, output_tokens: int) -> None:
        """Set the tokens that a model has read and written; the cost is computed from them.

        Numbers that cannot be right are left out: the whole reservation counts as spent then.
        """
        is_known = _is_token_count(input_tokens) and _is_token_count(output_tokens)
        self._used = (int(input_tokens), int(output_tokens)) if is_known else None

    @property
    def bound_price(self) -> model_prices.CallPrice:
        """The highest cost of the call, where the caller has computed it."""
        return self._bound_price or model_prices.CallPrice(0, 0, "")

    def settle(self, price: model_prices.CallPrice, tokens: tuple[int, int]) -> None:
        """Set what the call of a model has cost, where the caller has computed it."""
        self._price, self._used = price, tokens

    def refuse(self, code: str) -> None:
        """End a step that was prepared, and is not made because of a limit."""
        self.outcome, self.code = Outcome.DENIED, code
        self.output = None
        self.hand_in()

    @property
    def context(self) -> SpanContext:
        """The step as the current span, for adapters that pass it on themselves."""
        return SpanContext(self.run, self.span)

    # The block

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish(error)

    async def __aenter__(self) -> Self:
        await self.start_async()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.finish_async(error)

    def start(self) -> None:
        """Begin the step, and make it the current span."""
        self.prepare()
        self.resume()

    async def start_async(self) -> None:
        """Begin the step without blocking other tasks."""
        await self.prepare_async()
        self.resume()

    async def prepare_async(self) -> None:
        """Record what must be on record before the step, without blocking other tasks."""
        if self._waits:
            await _call_in_thread(self.prepare, self.take_back)
        else:
            self.prepare()

    def take_back(self) -> None:
        """End a step that was prepared and is not made: what was reserved for it is free again."""
        self.outcome, self.code = Outcome.CANCELLED, NOT_MADE
        self._used, self.output = (0, 0), None
        self.hand_in()

    def prepare(self) -> None:
        """Record what must be on record before the step is made.

        Raises `BudgetExceeded`, `RunDeadlinePassed`, `UnknownPrice`, `RecorderUnusable`,
        `ForkedFromCappedRun` and `RecorderQueueFull`; the step is not made then.
        """
        try:
            self._prepare()
        except errors.ForumError as refusal:
            # A refusal is about the call of the program: how the recorder found it is no news.
            raise refusal.with_traceback(None) from None

    def _prepare(self) -> None:
        self.recorder.queue.raise_if_full()
        if self.op is Operation.MODEL:
            self.run.check_deadline()
        if self._own_run is not None:
            self._own_run.begin()
        if self._waits:
            try:
                self._record_begin()
            except BaseException:
                if self._own_run is not None:
                    self._own_run.end(Outcome.DENIED)
                raise
        self._began, self._started = now(), perf_counter_ns()

    def resume(self) -> None:
        """Make the step the current span."""
        self._token = _current.set(SpanContext(self.run, self.span))

    def pause(self) -> None:
        """Restore the span that was current before."""
        if self._token is not None:
            token, self._token = self._token, None
            try:
                _current.reset(token)
            except ValueError:
                # A generator that is closed by the garbage collector ends in another context.
                return

    def finish(self, error: BaseException | None = None) -> None:
        """End the step and hand it in."""
        self.pause()
        self.hand_in(error)

    async def finish_async(self, error: BaseException | None = None) -> None:
        """End the step without blocking other tasks."""
        self.pause()
        if self._is_begun:
            # Shielded: a task that is cancelled has its outcome recorded all the same.
            await asyncio.shield(_start_thread(partial(self.hand_in, error)))
        else:
            self.hand_in(error)

    def hand_in(self, error: BaseException | None = None) -> None:
        """Hand in what is known of the step."""
        outcome = outcome_of(error) if error is not None else Outcome.OK
        try:
            step = self._report(error)
            outcome = step.outcome
        except Exception as fault:  # noqa: BLE001  what the program has set must not break it
            if not self._is_begun:  # which was counted when it began
                self.recorder.count_fault(self.run, fault)
        else:
            if self._is_begun:
                self._record_end(step)
                if self.op is Operation.MODEL:
                    made = 0 if step.outcome is Outcome.CANCELLED and self.code == NOT_MADE else 1
                    cost = Amount(step.usd, step.input_tokens + step.output_tokens, made)
                    reserved = Amount(self._reserved.usd, self._reserved.tokens, 1)
                    self.run.charge(cost, reserved)
            else:
                self.recorder.hand_in(self.run, step)
        if self._own_run is not None:
            self._own_run.end(outcome)

    # Budgets and effects

    @property
    def _waits(self) -> bool:
        """Whether the step must be on record before it is made."""
        return self._is_effect or self._reserves

    @property
    def _reserves(self) -> bool:
        """Whether the step reserves its cost, of its run or of caps over many runs."""
        return self.op is Operation.MODEL and (self.run.is_capped or self._is_shared)

    @property
    def _is_shared(self) -> bool:
        """Whether caps over many runs pay for the call, whose highest cost the caller tells."""
        tells = self._bound_price is not None or self._max_tokens is not None
        return tells and self.recorder.sink.has_shared_caps

    def _record_begin(self) -> None:
        run = self.recorder.own_run(self.run)
        if run is None:
            raise errors.RecorderUnusable("the recorder is closed")
        if run is not self.run and self.run.is_capped:
            # The continuation has no account: a call in it would be paid by nobody.
            raise errors.ForkedFromCappedRun(self.run.id)
        self.run = run
        run.check_deadline()
        calls = int(self._reserves)
        if calls:
            self._reserved = self._bound()
        run.ensure_recorded()
        if not self.recorder.queue.count_direct(run.counter):
            raise errors.RecorderUnusable(f"run {run.id} has ended")
        begin = StepBegin(
            run=run.id,
            span=self.span,
            op=self.op,
            name=clean_text(self.name, _MAX_NAME_CHARS),
            within=self.within,
            agent=clean_text(self.agent, _MAX_NAME_CHARS),
            model=clean_label(self.model),
            provider=clean_label(self.provider),
            usd=self._reserved.usd,
            tokens=self._reserved.tokens,
            calls=calls,
            prices=self._reserved.prices,
            cut=self._cut,
            input=self._input,
        )
        try:
            self._write_direct(run, begin)
        except errors.BudgetExceeded:
            self._record_denial(run)
            raise
        except errors.ForumError as error:
            raise errors.RecorderUnusable(str(error)) from error
        self._is_begun, self._input = True, _EMPTY
        self._cut = 0
        run.charge(Amount(self._reserved.usd, self._reserved.tokens, calls))

    @property
    def _is_bounded(self) -> bool:
        """Whether a cap of dollars or tokens pays for the call."""
        start = self.run.start
        return start.usd < NO_LIMIT or start.tokens < NO_LIMIT or self._is_shared

    def _bound(self) -> model_prices.CallPrice:
        """Return the highest cost of the call.  Raises `UnboundedCall` and `UnknownPrice`."""
        start = self.run.start
        if not self._is_bounded:
            return model_prices.CallPrice(0, 0, "")
        if self._bound_price is not None:
            return self._bound_price
        # A model writes no more than its maximum.
        limit = self._max_tokens
        self._max_tokens = (
            model_prices.listed_output_limit(self._priced) if limit is None else limit
        )
        if self._max_tokens is None:
            raise errors.UnboundedCall(self._priced, "max_tokens is not set; pass max_tokens=")
        if not _is_token_count(self._max_tokens):
            # A negative number would give the run money.
            raise errors.UnboundedCall(self._priced, "max_tokens is no number of tokens")
        if not isinstance(self._input, msgspec.Raw):
            why = "input is not set; pass what the model is given as input="
            raise errors.UnboundedCall(self._priced, why)
        size = self._input_tokens
        if start.usd == NO_LIMIT and not self._is_shared:
            return model_prices.CallPrice(0, size + self._max_tokens, "")
        provider = clean_label(self.provider)
        try:
            return model_prices.bound_call(self._priced, provider, size, self._max_tokens)
        except errors.UnknownPrice as error:
            why = (
                f"{error.why}; limit the run by tokens= or calls= instead of usd=, or name the "
                "model and its provider as the price table does"
            )
            raise errors.UnboundedCall(error.model, why) from None

    @property
    def _priced(self) -> str:
        """The name of the model, for its price."""
        return clean_label(self.model) or clean_text(self.name, _MAX_NAME_CHARS)

    def _record_denial(self, run: RunScope) -> None:
        """Record that the call was not made."""
        self._began, self._started = now(), perf_counter_ns()
        self.outcome, self.code = Outcome.DENIED, "budget"
        self.recorder.queue.put_control(run.counter, self._report(None))

    def _write_direct(self, run: RunScope, item: StepBegin | StepReport) -> None:
        """Record an item in this thread, unless its run is being closed."""
        queue = self.recorder.queue
        if not queue.enter_direct(run.counter):
            raise errors.ReportRefused(run.id, "it is closed")
        try:
            raise_refusal(self.recorder.sink.write([item]))
        finally:
            queue.leave_direct(run.counter)

    def _record_end(self, step: StepReport) -> None:
        try:
            self._write_direct(self.run, step)
        except errors.Unavailable:
            # The step was made, and its end must not be lost: the writer tries again.
            self.recorder.queue.put_control(self.run.counter, step)
        except errors.ForumError:
            # The run was closed meanwhile; its close has counted the step as missing.
            return

    # The report

    def _encode(self, value: object) -> msgspec.Raw:
        encoded: JsonValue = encode_value(value, self.recorder.sink.max_body)
        self._cut += encoded.cut
        return msgspec.Raw(encoded.raw)

    def _report(self, error: BaseException | None) -> StepReport:
        micros = (perf_counter_ns() - self._started) // 1000
        outcome = self.outcome if isinstance(self.outcome, Outcome) else None
        outcome = outcome or (Outcome.OK if error is None else outcome_of(error))
        price, tokens = self._cost(outcome)
        output = _EMPTY if self.output is None else self._encode(self.output)
        attributes = _EMPTY if self.attributes is None else self._encode(self.attributes)
        return StepReport(
            run=self.run.id,
            span=self.span,
            op=self.op,
            name=clean_text(self.name, _MAX_NAME_CHARS),
            outcome=outcome,
            within=self.within,
            began=self._began,
            micros=micros,
            agent=clean_text(self.agent, _MAX_NAME_CHARS),
            model=clean_label(self.model),
            provider=clean_label(self.provider),
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            usd=min(price.usd, MAX_AMOUNT),
            prices=price.prices,
            code=clean_label(self.code)
            or (clean_label(type(error).__name__) if error is not None else ""),
            cut=self._cut,
            begun=self._is_begun,
            input=self._input,
            output=output,
            error=_EMPTY if error is None else self._encode(_describe_error(error)),
            attributes=attributes,
        )

    def _cost(self, outcome: Outcome) -> tuple[model_prices.CallPrice, tuple[int, int]]:
        """Return what the step cost; without a count of tokens, all that was reserved."""
        if self.op is not Operation.MODEL or outcome is Outcome.DENIED:
            return model_prices.CallPrice(0, 0, ""), (0, 0)
        if self._used is None:
            return self._reserved, (self._reserved.tokens, 0)
        if self._price is not None:
            return self._price, self._used
        provider = clean_label(self.provider)
        return model_prices.price_call(self._priced, provider, *self._used), self._used


class _ThreadCall:
    """A call in a thread, for a task that may be cancelled meanwhile.

    A thread cannot be stopped.  So the task and the thread tell each other, and the later one takes
    back what the call has done.
    """

    def __init__(self, function: Callable[[], None], take_back: Callable[[], None]) -> None:
        self._function, self._take_back = function, take_back
        self._lock = Lock()
        self._is_done = self._is_cancelled = False

    def run(self) -> None:
        """Make the call, unless the task is cancelled already."""
        if self._is_cancelled:
            return
        self._function()
        with self._lock:
            self._is_done = True
            is_cancelled = bool(self._is_cancelled)
        if is_cancelled:
            self._take_back()

    def cancel(self) -> bool:
        """Note that the task is cancelled; return whether it has to take back the call itself."""
        with self._lock:
            self._is_cancelled = not self._is_done
            return self._is_done


async def _call_in_thread(function: Callable[[], None], take_back: Callable[[], None]) -> None:
    """Call a function that blocks; have it taken back if the task is cancelled meanwhile."""
    call = _ThreadCall(function, take_back)
    running = _start_thread(call.run)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        if call.cancel():
            running = _start_thread(take_back)
        # Wait for it: the run may end next.  The thread goes on if this is cancelled again.
        with suppress(Exception):
            await asyncio.shield(running)
        raise


def _start_thread(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Start a function in a thread.  No task: a loop that ends would cancel it."""
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(None, partial(copy_context().run, function))
    # Somebody has to look at its error, even if nobody waits any more.
    running.add_done_callback(lambda done: done.cancelled() or done.exception())
    return running


def outcome_of(error: BaseException) -> Outcome:
    """Return how a block ended that an exception has left."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        return Outcome.CANCELLED
    if isinstance(error, TimeoutError):
        return Outcome.TIMEOUT
    if isinstance(error, errors.LimitReached):
        return Outcome.DENIED
    if isinstance(error, SystemExit):
        return Outcome.OK if error.code in (None, 0) else Outcome.FAILED
    return Outcome.FAILED


def _is_token_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _MAX_TOKENS


def _describe_error(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        raise  # of the user, who wants the program to end
    except BaseException:  # noqa: BLE001  a broken `__str__` must not replace the error
        return type(error).__name__


def _read_limit(name: str, value: object, unit: int = 1) -> int:
    """Return a limit in recorded units.  Raises `Malformed`."""
    try:
        return NO_LIMIT if value is None else to_limit_units(value, unit)
    except ValueError as error:
        why = f"{error}. Give a number, or None"
        raise errors.Malformed(f"limit {name}", why) from None


def _check_seconds(seconds: object) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise errors.Malformed(
            "limit seconds", f"{seconds!r} is no time. Give a number of seconds, or None"
        )
    return seconds


def _read_parent(parent: "SpanContext | str | None") -> tuple[str, str]:
    """Return the trace and the span of a parent.  Raises `Malformed` for a wrong traceparent."""
    if parent is None:
        return "", ""
    if isinstance(parent, SpanContext):
        return parent.run.trace, parent.span or parent.run.root_within
    parts: list[Any] = parent.split("-")
    if len(parts) != _TRACEPARENT_PARTS or len(parts[1]) != 32 or len(parts[2]) != 16:
        raise errors.Malformed("traceparent", "not in the form of the W3C header")
    return parts[1], parts[2]
