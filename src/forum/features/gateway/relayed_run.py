"""One run of a program whose calls the gateway relays: its limits, its record and its counters."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from forum.errors import (
    BudgetExceeded,
    CapReached,
    ForumError,
    SpendingFrozen,
)
from forum.features.gateway.conversations import ConversationMemory
from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.features.gateway.reservations import (
    CallsInFlight,
    OpenCall,
    Reservations,
    describe_limit,
    expire,
    is_limited,
)
from forum.features.gateway.sent_parts import AllowedNames
from forum.ledger.kinds import Outcome
from forum.ledger.ports import UNLIMITED, Amount, BudgetSliceCharge, Spend
from forum.ledger.strand import Attachment, Draft
from forum.runs.kinds import StopFacts, StopReason
from forum.runs.report_drafts import (
    OVERRUN,
    OVERRUN_TEXT,
    find_overrun,
    gap_draft,
)
from forum.runs.report_kinds import (
    GapReason,
    Operation,
    ReportBeginFacts,
    ReportGapFacts,
    ReportStepFacts,
)
from forum.runs.reported_run import ReportedRunWriter
from forum.units import NANO_USD, format_usd

MAX_RECORDED_REFUSALS = 1000
"""Refusals of a run that get an entry each; the others are counted in a gap."""
_RECHECK_SECONDS = 0.25
"""Delay before a reservation that another process took is tried again."""
_MAX_TRACKED_REQUESTS = 100_000
T = TypeVar("T")


class SharedCaps(Protocol):
    """Caps over many runs: of a key or of the whole ledger, per day or month."""

    async def spend(
        self, amount: Spend, commit: Callable[[tuple[BudgetSliceCharge, ...]], Awaitable[T]]
    ) -> T:
        """Call `commit` with the charges for an amount.  Raises `CapReached`."""
        ...

    async def report_overrun(self, charges: Sequence[BudgetSliceCharge]) -> None:
        """Let other processes end their calls under the caps of these charges."""
        ...

    async def overruns(self) -> Mapping[str, int]:
        """Return how often calls were billed above their bound, by the scope of the cap."""
        ...

    @property
    def is_capped(self) -> bool:
        """Whether any cap applies."""
        ...

    @property
    def revision(self) -> int:
        """A number that grows with each change of the caps."""
        ...

    @property
    def left(self) -> Spend:
        """What may be spent at most."""
        ...

    @property
    def percent(self) -> int:
        """The highest share of a cap that is used, of those at which the operator is told."""
        ...

    async def check_open(self) -> None:
        """Raise `SpendingFrozen` if nothing may be spent, and `StoreFailed` if that is unknown."""
        ...


class CapsChanged(Exception):
    """Raised when caps were set after a call was planned: its cost may need a bound now."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What the calls of a run may spend, and what is allowed although its price has no bound."""

    cap: Amount = UNLIMITED
    allowed: frozenset[str] = frozenset()
    """Names of models, tools and members of requests, and `header:NAME` and the like."""
    untouched: bool = False
    """Whether no request may be changed."""
    max_repeats: int = 100
    """How often the same request may be made."""
    is_served: bool = False
    """Whether a server sets the limits, by `[gateway]` of its `forum.toml`, and not the user."""

    @property
    def allowed_names(self) -> AllowedNames:
        """What is sent beside the lists of the gateway."""
        return AllowedNames(self.allowed, is_served=self.is_served)

    def describe_change(self, option: str, setting: str) -> str:
        """Return how a limit is changed: by an option of `forum run`, or by a server's operator."""
        if not self.is_served:
            return option
        return f"{setting} in [gateway] of the server's forum.toml, which its operator can set"


@dataclass(slots=True)
class RunCounters:
    """What a run has done so far."""

    calls: int = 0
    refused: int = 0
    failed: int = 0
    usd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    models: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


class RelayedRun:
    """Records and limits the calls of one run.  Its methods run on one event loop."""

    def __init__(
        self,
        writer: ReportedRunWriter,
        limits: RunLimits,
        new_span: Callable[[], str],
        *,
        within: str = "",
        shared: SharedCaps | None = None,
        in_flight: CallsInFlight | None = None,
    ) -> None:
        self.run, self.limits = writer.run, limits
        self.within = within
        self.writer = writer
        """Its cause is the entry that calls follow from: that of the program, or the run's own."""
        self.counters = RunCounters()
        self.stop_reason = ""
        """Why no further call is made; empty while calls are."""
        self.end_requested = asyncio.Event()
        """Set when the program of the run is to end."""
        self.has_overrun = False
        """Whether a call cost more than its bound, which stops the run."""
        self.new_span = new_span
        self._shared = shared
        # The runs of a server have one: they share the caps.
        self._in_flight = in_flight or CallsInFlight()
        account = writer.account
        self._reservations = Reservations(limits.cap, account.used if account else Amount())
        self._repeats: dict[bytes, int] = {}
        self._pending: set[asyncio.Task[Any]] = set()
        self._time_limits: set[asyncio.Timeout] = set()
        self._unrecorded_refusals = 0
        self.conversations = ConversationMemory()
        self.open_calls = 0
        """Calls that were recorded and not yet settled."""

    @property
    def has_shared_caps(self) -> bool:
        """Whether a cap over many runs applies."""
        return self._shared is not None and self._shared.is_capped

    @property
    def caps_cost(self) -> bool:
        """Whether each call needs a bounded price."""
        return is_limited(self.limits.cap.usd) or self.has_shared_caps

    @property
    def caps_tokens(self) -> bool:
        """Whether each call needs a bounded number of tokens."""
        return self.caps_cost or is_limited(self.limits.cap.tokens)

    @property
    def limited(self) -> tuple[str, ...]:
        """The units of which no call may use more than its bound."""
        return (*(["usd"] if self.caps_cost else []), *(["tokens"] if self.caps_tokens else []))

    @property
    def left(self) -> Amount:
        """What the run may still reserve."""
        return self._reservations.left

    @property
    def caps_revision(self) -> int:
        """A number that grows with each change of the caps over many runs."""
        return self._shared.revision if self._shared is not None else 0

    async def check_spending(self) -> None:
        """Raise `CallRefused` if the run was stopped, or all spending is frozen."""
        self.check_open()
        if self._shared is not None:
            try:
                await self._shared.check_open()
            except SpendingFrozen as error:
                raise CallRefused(RefusalReason.FROZEN, f"{error}.") from None

    def left_headers(self) -> list[tuple[bytes, bytes]]:
        """Return what tells an agent how much is left of its caps, and that it is little."""
        left = {unit: getattr(self.left, unit) for unit in ("usd", "tokens")}
        if not is_limited(self.limits.cap.usd):
            del left["usd"]
        if not is_limited(self.limits.cap.tokens):
            del left["tokens"]
        headers = []
        if self._shared is not None:
            for unit in ("usd", "tokens"):
                rest = getattr(self._shared.left, unit)
                if is_limited(rest):
                    left[unit] = min(left.get(unit, rest), rest)
            if percent := self._shared.percent:
                headers.append((b"forum-budget-alert", str(percent).encode()))
        shown: dict[str, Callable[[int], str]] = {"usd": format_usd, "tokens": str}
        headers += [
            (f"forum-left-{unit}".encode(), shown[unit](max(0, rest)).encode())
            for unit, rest in left.items()
        ]
        return headers

    def check_open(self) -> None:
        """Raise `CallRefused` if the run was stopped."""
        if self.stop_reason:
            raise CallRefused(RefusalReason.STOPPED, f"the run was stopped: {self.stop_reason}.")

    def check_repeats(self, digest: bytes) -> None:
        """Count a request, and raise `CallRefused` if it was made too often."""
        if not self.limits.max_repeats:
            return
        times = self._repeats.pop(digest, 0) + 1
        # In the order of last use, so that the least recently used one is forgotten.
        self._repeats[digest] = times
        if len(self._repeats) > _MAX_TRACKED_REQUESTS:
            del self._repeats[next(iter(self._repeats))]
        if times > self.limits.max_repeats:
            how = self.limits.describe_change("--max-repeats", "max_repeats")
            why = (
                f"this very request was made {format_amount('times', self.limits.max_repeats)}. "
                f"If that is intended, allow more with {how}."
            )
            raise CallRefused(RefusalReason.LOOP, why)

    async def begin(
        self, facts: ReportBeginFacts, bodies: Sequence[Attachment], revision: int | None = None
    ) -> OpenCall:
        """Reserve the highest cost of a call, and record durably that it is about to be made.

        Raises `CallRefused` if a cap does not allow it, and `CapsChanged` if the caps are not those
        of the revision by which the call was planned.
        """
        if self.writer.is_capped and not await self._reservations.reserve(facts.reserved):
            raise self._over_cap(facts.reserved)
        try:
            return await self._record_begin(facts, bodies, revision)
        except (CallRefused, CapsChanged):
            if self.writer.is_capped:
                self._reservations.settle(facts.reserved, Amount())
            raise
        except ForumError:
            # The database may have the entry although it did not say so.  The call is not made,
            # its reservation stays, and the run stays open: the next process looks what is there.
            self.open_calls += 1
            raise

    async def _record_begin(
        self, facts: ReportBeginFacts, bodies: Sequence[Attachment], revision: int | None
    ) -> OpenCall:
        deadline = asyncio.get_running_loop().time() + 60
        while True:
            # The run may have been stopped while this call waited.
            self.check_open()
            try:
                call = await self._commit_begin(facts, bodies, revision)
            except BudgetExceeded as error:
                # Another process charges the account as well, and was faster.
                if asyncio.get_running_loop().time() > deadline or error.asked > error.cap:
                    raise self._over_cap(facts.reserved) from None
                await asyncio.sleep(_RECHECK_SECONDS)
            except CapReached as error:
                is_late = asyncio.get_running_loop().time() > deadline
                if not is_late and self._in_flight.may_give_back(error):
                    # A call in flight of this process, in any run, may give back enough.
                    await asyncio.sleep(_RECHECK_SECONDS)
                    continue
                left = max(0, error.cap - error.used)
                amount = (
                    UNLIMITED._replace(**{error.limit: left}) if error.limit != "runs" else None
                )
                raise CallRefused(RefusalReason.BUDGET, f"{error}.", amount) from None
            else:
                self.open_calls += 1
                self._in_flight.add(call)
                if self._shared is not None:
                    self._in_flight.watch(self._shared)
                return call

    async def _commit_begin(
        self, facts: ReportBeginFacts, bodies: Sequence[Attachment], revision: int | None
    ) -> OpenCall:
        if self._shared is None:
            return OpenCall(await self.writer.begin(facts, bodies), facts)

        # Before the charge: an overrun that is reported later ends this call.
        overruns: Mapping[str, int] = {}
        if self.has_shared_caps:
            overruns = await self._in_flight.recent_overruns(self._shared.overruns)

        async def commit(charges: tuple[BudgetSliceCharge, ...]) -> OpenCall:
            if revision not in (None, self.caps_revision):
                raise CapsChanged
            strand = await self.writer.begin(facts, bodies, charges)
            return OpenCall(strand, facts, charges, overruns)

        try:
            return await self._shared.spend(Spend(facts.usd, facts.tokens), commit)
        except SpendingFrozen as error:
            raise CallRefused(RefusalReason.FROZEN, f"{error}.") from None

    def _over_cap(self, asked: Amount) -> CallRefused:
        limit = describe_limit(asked, self._reservations.left) or "usd"
        cap, left = getattr(self.limits.cap, limit), getattr(self._reservations.left, limit)
        how = self.limits.describe_change(f"--max-{limit}", limit)
        whole = format_amount(limit, cap)
        if limit == "calls":
            return CallRefused(
                RefusalReason.BUDGET, f"the cap of {whole} is reached. For more, raise {how}."
            )
        why = (
            f"this call may cost {format_amount(limit, getattr(asked, limit))}, and "
            f"{format_amount(limit, max(0, left))} of the cap of {whole} "
            f"is left. Set a lower output limit, or raise {how}."
        )
        return CallRefused(RefusalReason.BUDGET, why, self._reservations.left)

    def settle(
        self, call: OpenCall, facts: ReportStepFacts, bodies: Sequence[Attachment]
    ) -> Awaitable[None]:
        """Record the outcome of a call and what it cost; await the result for its commit.

        The entry is written even if nobody awaits it, or the caller is cancelled.
        """
        return asyncio.shield(self.start(self._settle(call, facts, bodies)))

    async def _settle(
        self, call: OpenCall, facts: ReportStepFacts, bodies: Sequence[Attachment]
    ) -> None:
        tokens = facts.input_tokens + facts.output_tokens
        more = Spend(facts.usd - call.facts.usd, tokens - call.facts.tokens)
        settled = [BudgetSliceCharge(at.slice, more, guarded=False) for at in call.charges]
        draft = self.writer.step_draft(facts, bodies, call.facts, settled)
        if facts.code == OVERRUN:
            # In this order: no call may be reserved between the overrun and the stop.
            self.has_overrun = True
            # Tokens without a price are an overrun of dollars, although their cost is not known.
            limit = find_overrun(call.facts.reserved, facts.spent, self.limited) or "usd"
            billed, bound = (
                format_amount(limit, getattr(amount, limit))
                for amount in (facts.spent, call.facts.reserved)
            )
            self.stop_reason = self.stop_reason or OVERRUN_TEXT.format(billed=billed, bound=bound)
            # The bounds of the calls under way cannot hold either, so they are not waited for.
            self._end_calls()
            self._in_flight.end_others(call)
            if call.charges and self._shared is not None:
                # A crash after this ends calls of other processes for nothing, which loses nothing.
                await self._shared.report_overrun(call.charges)
                self._in_flight.forget_overruns()
            await call.strand.append_exclusive_async(draft)
            asked = getattr(facts.spent, limit)
            await self.record_stop(StopReason.BUDGET, limit, asked, call.facts.span)
        else:
            await call.strand.append_exclusive_async(draft)
        self.open_calls -= 1
        self._in_flight.remove(call)
        self._count(facts)
        if self.writer.is_capped:
            spent = Amount(facts.usd, tokens, call.facts.calls)
            self._reservations.settle(call.facts.reserved, spent)

    def _count(self, facts: ReportStepFacts) -> None:
        if facts.op is not Operation.MODEL:
            return
        counters = self.counters
        counters.calls += 1
        counters.failed += facts.outcome is not Outcome.OK
        counters.usd += facts.usd
        counters.input_tokens += facts.input_tokens
        counters.output_tokens += facts.output_tokens
        counters.models[facts.model] += 1

    async def record_refusal(self, facts: ReportStepFacts, bodies: Sequence[Attachment]) -> None:
        """Record that a call was refused; count the refusals beyond a number."""
        self.counters.refused += 1
        self.counters.reasons[facts.code] += 1
        if self.counters.refused > MAX_RECORDED_REFUSALS:
            # A program that ignores refusals must not fill the disk.
            self._unrecorded_refusals += 1
            return
        await asyncio.shield(self.start(self.writer.record(facts, bodies)))

    async def record_stop(
        self, reason: StopReason, limit: str, asked: int = 0, by: str = ""
    ) -> None:
        """Record in the main strand that no further call is made."""
        cap = getattr(self.limits.cap, limit, 0)
        facts = StopFacts(
            reason=reason,
            limit=limit,
            asked=asked,
            used=min(getattr(self._reservations.used, limit, 0), 2**53 - 1),
            cap=cap,
            by=by,
        )
        await self.append_to_main(Draft(step="stop", actor="gateway", facts=facts))

    async def append_to_main(self, draft: Draft) -> None:
        """Append to the main strand, unless it has that step already."""
        await asyncio.to_thread(self.writer.append_to_main, draft)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a part of a call to its end, whatever becomes of the task that started it."""
        task = asyncio.get_running_loop().create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    @asynccontextmanager
    async def limit_time(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Limit the time of a call; the limit becomes shorter when the run ends."""
        async with asyncio.timeout(seconds) as limit:
            self._time_limits.add(limit)
            try:
                yield limit
            finally:
                self._time_limits.discard(limit)

    def _end_calls(self) -> None:
        """Let the time of the calls under way be over."""
        for limit in tuple(self._time_limits):
            expire(limit)

    def stop(self, reason: str) -> None:
        """Make no further call."""
        self.stop_reason = self.stop_reason or reason
        self._reservations.refuse_waiting()

    @property
    def is_ended(self) -> bool:
        """Whether the run was ended, with what is under way."""
        return self.end_requested.is_set()

    async def end(self, why: str, reason: StopReason, limit: str = "") -> None:
        """Stop the run and what is under way: its calls, and its program if `forum run` runs one.

        The program is asked to end, and killed with all that it started if it does not.
        """
        self.stop(why)
        self._end_calls()
        await self.record_stop(reason, limit)
        self.end_requested.set()

    async def drain(self, seconds: float = 0.0) -> None:
        """Let the calls in flight end, for some seconds, and wait until all is recorded.

        A call that takes longer is settled in full.
        """
        if self._pending and seconds:
            await asyncio.wait(tuple(self._pending), timeout=seconds)
        self._end_calls()
        while self._pending:
            await asyncio.gather(*self._pending, return_exceptions=True)
        if self._unrecorded_refusals:
            gap = ReportGapFacts(GapReason.FILTERED, self._unrecorded_refusals)
            self._unrecorded_refusals = 0
            await self.append_to_main(gap_draft(gap, self.new_span(), "gateway"))


def format_amount(limit: str, amount: int) -> str:
    """Return an amount for people: dollars, or a number of tokens, calls or times."""
    if limit != "usd":
        return f"{amount} {limit.removesuffix('s') if amount == 1 else limit}"
    return f"${amount / NANO_USD:.6f}".rstrip("0").rstrip(".")
