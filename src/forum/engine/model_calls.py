"""Make the model calls of one strand; each is recorded before it is made and when it is answered.

A recorded reply is reused; its call is not made again.  A call recorded without a reply belonged to
a worker that died: it is closed as lost, at the full price that was reserved for it, and made again
under a new reservation.  A throttled call is made again after the pause that the provider asks for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Event
from typing import Any

import msgspec

from forum import errors
from forum.engine import context, ports
from forum.engine.gates import with_operator_rules
from forum.engine.shared_budgets import SharedBudgets, settle_charges
from forum.engine.signals import CancelToken
from forum.engine.streaming import stream_reply
from forum.ledger import strand
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND, Facts
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import (
    NO_LIMIT,
    Amount,
    BudgetCharge,
    BudgetSliceCharge,
    Effect,
    Spend,
    Timer,
    due_now,
)
from forum.runs import call_rules, kinds
from forum.runs.claims import ClaimFinder
from forum.runs.gate_rules import GateRule
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.policy import ToolCall
from forum.runs.prompt import MarkShortener, Prompt, Quotation
from forum.runs.run_fold import fold
from forum.runs.shared_caps import Caller, limit_name
from forum.tlog import Hash

_RETRY_DELAY_S = 0.5
_CANCEL_GRACE_S = 0.3
"""Extra time for a call that timed out to end by itself and report what it cost."""
_BUDGET_RETRY_DELAY_US = 200_000
"""Delay before retrying a reservation refused for lack of budget."""
_FREEZE_CHECK_US = 1_000_000
"""Delay before a call that a freeze holds up looks again."""
_PAUSE_POLL_INTERVAL_S = 0.05
_LARGE_BODY_BYTES = 1 << 20
"""Larger bodies are masked and hashed in a thread, so that the event loop is not blocked."""

_tool_calls_decoder = msgspec.json.Decoder(tuple[ToolCall, ...])


class TaskSuspended(Exception):
    """Raised when a task waits for a human decision or for its child run."""


@dataclass(frozen=True, slots=True)
class Services:
    """The ledger, the factories and the operator's settings that task drivers share."""

    ledger: Ledger
    models: ports.ModelFactory
    open_tools: ports.ToolOpener
    find_reply_source: Callable[[context.RunInput], "ports.ReplySource | None"]
    """Returns the recorded replies that a fork or a replay reuses, or None."""
    real_time: bool = True
    """Whether pauses and deadlines take real time; a replay ignores both."""
    delta_sink: ports.DeltaSink | None = None
    """Receives the output of calls while it is produced."""
    gate_rules: tuple[GateRule, ...] = ()
    """The operator's current approval rules; they apply in addition to a run's own policy."""
    budgets: SharedBudgets | None = None
    """Spending caps that many runs share."""
    open_encoder: ports.OpenEncoder = lambda: None
    """Returns the encoder that compares free-text answers of councils."""
    find_claims: ClaimFinder = lambda _text, _receipts: ()
    """Finds what the replies of agents say that they did."""
    is_driven_here: Callable[[str], bool] = lambda _: False
    """Tells whether a run is driven in this process."""
    shares_tasks: bool = False
    """Whether the workers of the ledger claim tasks of large plans."""
    calls_paused: Event = field(default_factory=Event)
    """Set while this process may begin no call or effect: others may think it is gone."""


@dataclass(frozen=True, slots=True)
class CallSpec:
    """A request to an agent."""

    agent: str
    prompt: Prompt
    causes: tuple[Hash, ...] = ()
    question: bytes = b""
    """The new part of the prompt, for loop detection."""
    role: str = ""
    schema: bytes = b""
    offers: tuple[ports.ToolOffer, ...] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call and its reply; the reply may not be recorded yet."""

    agent: str
    model: str
    """The model that answered, or the one that was asked if the reply does not name it."""
    replied: kinds.ReplyFacts
    output: bytes
    """The output, cut to `MAX_READ_BYTES`."""
    size: int
    """The size of the whole output in bytes."""
    uses: tuple[ToolCall, ...]
    unrecorded: tuple[strand.Draft, ...] = ()
    """The drafts that record the reply; empty if it is recorded."""

    def quote_output(self, most: int) -> Quotation:
        """Return at most `most` bytes of the output, for quoting it back to its agent."""
        return Quotation("you", self.output[:most], self.size)


class StepNames:
    """Generates the step names of one attempt.

    Names depend only on the order of calls and tool uses, so a replay generates the same ones.
    """

    def __init__(self, attempt: int) -> None:
        self.attempt, self.calls = attempt, 0
        self._uses = self._compactions = 0
        self._seen: dict[ToolCall, int] = {}

    def next_call(self) -> tuple[str, str]:
        """Return the step names of the next call and its reply."""
        name = self.following_call
        self.calls += 1
        return name, f"{name}/reply"

    def return_call(self) -> None:
        """Take back the names of the last call, which was refused before it was recorded."""
        self.calls -= 1

    @property
    def following_call(self) -> str:
        """The step name that the next call will have."""
        return f"attempt/{self.attempt}/call/{self.calls + 1}"

    @property
    def last_call(self) -> str:
        """The step name of the last call."""
        return f"attempt/{self.attempt}/call/{self.calls}"

    def next_compaction(self) -> str:
        """Return the step name of the next compaction of the conversation."""
        self._compactions += 1
        return f"attempt/{self.attempt}/compaction/{self._compactions}"

    def next_tool_call(self, use: ToolCall) -> tuple[str, int]:
        """Return the step name of the next effect, and its ordinal among identical ones.

        The same tool call requested twice within one attempt is two effects.
        """
        self._uses += 1
        self._seen[use] = self._seen.get(use, 0) + 1
        return f"attempt/{self.attempt}/use/{self._uses}", self._seen[use]


class ModelCaller:
    """Makes the model calls of one task, role or turn, and is the writer of its strand."""

    def __init__(
        self, services: Services, run_input: context.RunInput, task: str, stop: CancelToken
    ) -> None:
        self.services, self.ledger = services, services.ledger
        self.run_input, self.task = run_input, task
        self.policy = with_operator_rules(run_input.policy, services.gate_rules)
        self.cancel_token, self.reply_source = stop, services.find_reply_source(run_input)
        self.allowed_by = (
            run_input.plan_entry if isinstance(run_input, context.RunContext) else run_input.cause
        )
        self.progress = call_rules.CallTracker(self.policy)
        """What follows from the calls of this strand so far, recorded ones included."""
        self._answered_counts: dict[str, int] = {}
        self._submitter = ""
        self._marks = MarkShortener(run_input.policy.marks)
        self._open_charges: tuple[BudgetSliceCharge, ...] = ()
        """The charges of the call under way against shared caps; its reply settles them."""

    @asynccontextmanager
    async def open_task(self) -> AsyncIterator[bool]:
        """Open the strand and the tools of the task for a block; yield whether the task goes on.

        It does not if it has ended before.  Where the block is suspended, the task waits.  A halt,
        an erased body or a malformed record in the block ends the task with a stop entry.
        """
        name = kinds.task_strand(self.task)
        self.strand: strand.Strand = await context.read_remembered(
            self.ledger,
            self.run_input.run,
            lambda: self.ledger.open_strand(self.run_input.run, name),
        )
        state = fold((r.leaf, r.entry) for r in self.strand.loaded_entries).task(self.task)
        if state.state.is_end:
            yield False
            return
        async with self.services.open_tools() as self.make_tool:
            try:
                yield True
            except TaskSuspended:
                return
            except ports.TaskHalted as halt:
                await self._record_end(halt.facts)
            except (errors.BodyGone, errors.Malformed) as error:
                why = type(error).__name__
                await self._record_end(kinds.StopFacts(kinds.StopReason.ERROR, why, by=self.task))

    async def _record_end(self, facts: Facts) -> None:
        """Record the end of the task, even if its recorded steps could not all be replayed."""
        # A strand opened at its end appends without replaying.  The check of the length refuses
        # the entry if another worker has appended since this strand was opened.
        end = await asyncio.to_thread(
            self.ledger.open_strand_at_end, self.run_input.run, self.strand.name
        )
        if end.length != self.strand.length:
            raise errors.ConcurrentUpdate(f"strand {end.run}/{end.name}")
        step = "skip" if isinstance(facts, kinds.SkipFacts) else "stop"
        causes = () if end.length else (self.allowed_by,)
        await end.append_exclusive_async(
            strand.Draft(step, context.ENGINE, facts, causes, effects=self.wake_run_effects())
        )

    def wake_run_effects(self) -> tuple[Timer, ...]:
        """Return the effect that makes the run's timer due, to wake a driver in another process."""
        if self.services.is_driven_here(self.run_input.run):
            return ()
        return (due_now(self.run_input.run, MAIN_STRAND, self.ledger.now()),)

    async def make_call(self, turns: StepNames, ask: CallSpec) -> CallResult:
        """Make a call, and make it again while it is lost or throttled; return the final result.

        Recorded calls are read, not made.
        """
        while True:
            call_step, reply_step = turns.next_call()
            call = self.strand.replay_step(call_step)
            reply = self.strand.replay_step(reply_step) if call else None
            if call is not None and reply is not None:
                result = self.read_recorded_call(call, reply)
            elif call is not None:
                result = await self._close_lost_call(reply_step, call.entry.facts)
            else:
                result = await self._record_and_call(call_step, reply_step, turns, ask)
            ask = replace(ask, causes=())
            if self.count_reply(result, ask.role, ask.question) is not call_rules.Move.REPEAT:
                self._answered_counts[ask.agent] = self._answered_counts.get(ask.agent, 0) + 1
                return result
            if result.replied.why is kinds.Why.THROTTLED:
                # Recorded before the pause: a worker that takes over waits only for the rest of it.
                turned_away = reply or (await self.append_with_retry(*result.unrecorded))[-1]
                await self._wait_for_provider(result, turned_away)

    def goes_on_without(self, turns: StepNames, role: str) -> bool:
        """Return whether the record goes on without a call in this role that is next by the rules.

        It was refused for lack of budget then, and nothing was recorded of that.
        """
        own = self.strand.next_recorded
        if own is not None:
            return not (
                isinstance(own.entry.facts, kinds.CallFacts) and own.entry.facts.role == role
            )
        source = self.reply_source
        called = source.find_call(self.task, turns.following_call) if source else None
        return called is not None and called.role != role

    def count_reply(
        self, result: CallResult, role: str = "", question: bytes = b""
    ) -> call_rules.Move:
        """Count a call with its reply, and return what follows by the rules."""
        uses = msgspec.json.encode(result.uses)
        digest = call_rules.digest_reply(question, result.output, uses)
        speaker = f"{result.agent} {role}"
        received = call_rules.ReplyReceived(result.replied, speaker, digest)
        return self.progress.advance(received).move

    async def _wait_for_provider(self, result: CallResult, reply: strand.RecordedEntry) -> None:
        """Wait as long as the provider asks for, plus up to half of that as jitter.

        The jitter differs between calls, so that throttled calls do not all return at once.  It is
        derived from the step, so that every worker that replays the step waits equally long.
        """
        throttled = self.progress.state.throttled
        delay = result.replied.pause or self.policy.retry_delay_ms(throttled)
        seed = sha256(f"{self.run_input.run}/{self.task}/{reply.entry.step}".encode()).digest()
        spread = int.from_bytes(seed[:4], "big") / 2**32
        await self.wait_before_retry(reply.entry.ts, int(1000 * delay * (1 + spread / 2)))

    def read_recorded_call(
        self, call: strand.RecordedEntry, reply: strand.RecordedEntry
    ) -> CallResult:
        """Return the result of a recorded call and its recorded reply."""
        called: kinds.CallFacts = call.entry.facts
        facts: kinds.ReplyFacts = reply.entry.facts
        at, bodies = context.position_of(reply), reply.entry.bodies
        output = (
            context.read_body(self.ledger, at, "output", MAX_READ_BYTES)
            if "output" in bodies
            else b""
        )
        size = bodies["output"].size if "output" in bodies else 0
        uses = (
            _tool_calls_decoder.decode(context.read_body(self.ledger, at, "uses"))
            if "uses" in bodies
            else ()
        )
        return CallResult(
            agent=called.agent,
            model=facts.model or called.model,
            replied=facts,
            output=output,
            size=size,
            uses=uses,
        )

    async def _close_lost_call(self, step: str, called: kinds.CallFacts) -> CallResult:
        """Close a call whose worker died, at its full reserved price: it may have been billed."""
        facts = kinds.ReplyFacts(Outcome.INDETERMINATE, kinds.Why.LOST, called.usd, called.tokens)
        await self.strand.append_exclusive_async(
            strand.Draft(step, called.agent or context.ENGINE, facts)
        )
        return CallResult(
            agent=called.agent, model=called.model, replied=facts, output=b"", size=0, uses=()
        )

    async def _record_and_call(
        self, call_step: str, reply_step: str, turns: StepNames, ask: CallSpec
    ) -> CallResult:
        prompt = self._marks.shorten(ask.prompt)
        ask = replace(ask, prompt=self._mask_prompt(prompt))
        call = ports.ModelCall(
            run=self.run_input.run,
            task=self.task,
            step=reply_step,
            number=self._answered_counts.get(ask.agent, 0) + 1,
            prompt=BytesContent(ask.prompt.text),
            seconds=self._call_timeout_s(),
            turns=ask.prompt.turns,
            offers=ask.offers,
            schema=ask.schema,
        )
        recorded = (
            await asyncio.to_thread(self.reply_source.find_reply, call)
            if self.reply_source
            else None
        )
        if recorded is not None:
            return await self._record_replayed_call(recorded, call_step, reply_step, turns, ask=ask)
        await self.wait_while_paused()
        self.check_limits()
        model = self._model(ask.agent)
        bound = model.bound(call)
        facts = self._call_facts(model.name, bound, turns, ask)
        await self.reserve_and_record(
            call_step, facts, ask, BudgetCharge(self.run_input.run, bound)
        )
        # The reservation may have waited for budget: less time may be left before the deadline.
        call = replace(call, seconds=self._call_timeout_s())
        reply = await self._call_model(model, call, bound)
        if reply is None:
            # Cut by a freeze, it is as one whose worker died: billed perhaps, and made again once
            # spending is allowed.
            self._open_charges = ()
            return await self._close_lost_call(reply_step, facts)
        return self.settle_reply(reply_step, facts, bound, reply)

    async def _record_replayed_call(
        self,
        recorded: ports.RecordedReply,
        call_step: str,
        reply_step: str,
        turns: StepNames,
        ask: CallSpec,
    ) -> CallResult:
        """Record a call and the reply taken from an earlier record; no model is called."""
        if recorded.prompt is not None:
            prompt = Prompt(recorded.prompt, ask.prompt.turns)
            ask = replace(ask, prompt=prompt, schema=recorded.schema)
        facts = self._call_facts(recorded.model, recorded.bound, turns, ask)
        # Not guarded by the budget: in a replay, other tasks may spend in another order than in the
        # record, and a call that was allowed there must not be refused here.
        charge = BudgetCharge(self.run_input.run, recorded.bound, guarded=False)
        await self.reserve_and_record(call_step, facts, ask, charge)
        if recorded.reply.why is kinds.Why.LOST:
            return await self._close_lost_call(reply_step, facts)
        # A secret may have been configured after the reply was recorded, and the judge must see
        # the same text as this run records.
        reply = await self._mask_reply(recorded.reply)
        return self.settle_reply(reply_step, facts, recorded.bound, reply, source=recorded.source)

    def _call_facts(
        self, model: str, bound: Amount, turns: StepNames, ask: CallSpec
    ) -> kinds.CallFacts:
        longest = min(self.policy.call_milliseconds, self.run_input.accepted.milliseconds)
        return kinds.CallFacts(
            agent=ask.agent,
            model=model,
            attempt=turns.attempt,
            turn=turns.calls,
            usd=bound.usd,
            tokens=bound.tokens,
            milliseconds=longest,
            role=ask.role,
        )

    def _model(self, agent: str) -> ports.Model:
        """Return the model of an agent.  Raises `TaskHalted` if it is unusable on this worker."""
        try:
            return self.services.models(self.policy.agents[agent])
        except errors.ForumError as error:
            why = type(error).__name__
            raise ports.TaskHalted(
                kinds.StopFacts(kinds.StopReason.ERROR, why, by=self.task)
            ) from None

    def _mask_prompt(self, prompt: Prompt) -> Prompt:
        """Return a prompt with secrets masked, as it is recorded.

        Text that was escaped in a reply, and so not recognized there, may be a secret here.
        """
        mask = self.ledger.mask
        if not mask.has_secret(prompt.text):
            return prompt
        turns = (
            # The length of what is shared holds no more.
            msgspec.structs.replace(turn, text=b"".join(mask.mask_chunks([turn.text])), shared=0)
            for turn in prompt.turns
        )
        return Prompt(b"".join(mask.mask_chunks([prompt.text])), tuple(turns))

    async def reserve_and_record(
        self,
        step: str,
        facts: kinds.CallFacts,
        ask: CallSpec,
        charge: BudgetCharge,
        *before: strand.Draft,
    ) -> tuple[strand.RecordedEntry, ...]:
        """Record a call before it is made, and reserve its maximum cost in the same commit.

        Raises `TaskHalted` when the run's budget or a shared cap does not cover it.
        """
        charges = (charge,) if any(charge.amount) else ()
        draft = strand.Draft(
            step=step,
            actor=ask.agent or context.ENGINE,
            facts=facts,
            parents=ask.causes,
            bodies=_call_bodies(ask),
            effects=charges,
        )
        # An allotment is not charged to shared caps: the calls of the child run are.
        within = kinds.is_inner_run(ask.agent, facts.model)
        caller = None if within else await self._find_caller(ask.agent)
        others = True
        while True:
            try:
                return await self._append_charged(caller, charge.amount, *before, draft)
            except errors.SpendingFrozen:
                await self._wait_for_budget(_FREEZE_CHECK_US)
                continue
            except errors.CapReached as refused:
                raise ports.TaskHalted(_cap_reached(refused, self.task)) from None
            except errors.BudgetExceeded as refused:
                if not others:
                    raise ports.TaskHalted(_over_budget(refused, self.task)) from None
            # Other tasks reserve more than they spend, so budget may come back when their calls
            # end.  The last of these calls may end between the refusal and this look.  So one more
            # reservation is tried even if no call is open.
            others = await asyncio.to_thread(self._has_other_open_calls)
            if others:
                await self._wait_for_budget()

    async def _append_charged(
        self, caller: Caller | None, amount: Amount, *drafts: strand.Draft
    ) -> tuple[strand.RecordedEntry, ...]:
        """Append these drafts, charging the maximum cost to shared caps in the same commit."""
        budgets = self.services.budgets
        if budgets is None or caller is None:
            return await self.strand.append_exclusive_async(*drafts)

        *before, last = drafts
        await budgets.check_open_async()
        attempts = budgets.attempts(caller, Spend(amount.usd, amount.tokens))
        while True:
            charges = attempts.charges()
            charged = msgspec.structs.replace(last, effects=(*last.effects, *charges))
            try:
                recorded = await self.strand.append_exclusive_async(*before, charged)
            except errors.BudgetSliceExhausted as refused:
                await attempts.take_slice_async(refused)
            else:
                # Only after the commit: a refused charge must not be settled by the reply.
                self._open_charges = charges
                return recorded

    async def _find_caller(self, agent: str) -> Caller | None:
        """Return who calls an agent, for the shared caps; None where there are none."""
        if self.services.budgets is None:
            return None
        if not self._submitter:
            read = context.submitter_of
            self._submitter = await asyncio.to_thread(read, self.ledger, self.run_input.run)
        return Caller(self._submitter, (self._lane(),), agent or "default")

    def _lane(self) -> str:
        tasks = self.run_input.plan.by_id if isinstance(self.run_input, context.RunContext) else {}
        return (tasks[self.task].lane if self.task in tasks else "") or self.run_input.lane

    async def _wait_for_budget(self, delay: int = _BUDGET_RETRY_DELAY_US) -> None:
        """Wait before another reservation, without holding a worker slot.

        The task that would return budget may be waiting for a slot: holding one could deadlock.
        """
        self.cancel_token.slot.release()
        await self.wait_before_retry(self.ledger.now(), delay)
        await self.cancel_token.slot.acquire()
        await self.wait_while_paused()
        self.check_time()

    def _has_other_open_calls(self) -> bool:
        tasks = context.read_run(self.ledger, self.run_input.run).tasks.values()
        # An open call of a task that has ended is never closed, so it returns no budget.
        others = (task for task in tasks if task.id != self.task and not task.state.is_end)
        return any(call.replied is None for task in others for call in task.calls)

    def settle_reply(
        self,
        step: str,
        called: kinds.CallFacts,
        bound: Amount,
        reply: ports.CallReply,
        source: kinds.ReplyOrigin = kinds.ReplyOrigin.LIVE,
    ) -> CallResult:
        """Return the result of a call, with a draft that records the reply and settles its cost.

        The difference between the reservation and the amount spent is an effect of that entry, so
        a crash leaves either both or neither.
        """
        spent, agent = reply.spent, called.agent
        # An unlimited allotment of a child run reserves 0, so spending from it is no overrun.
        within = kinds.is_inner_run(agent, called.model)
        facts = kinds.ReplyFacts(
            outcome=reply.outcome,
            why=reply.why,
            usd=spent.usd,
            tokens=spent.tokens,
            milliseconds=reply.milliseconds,
            code=kinds.sanitize_name(reply.code),
            overrun_usd=0 if within else max(0, spent.usd - bound.usd),
            overrun_tokens=0 if within else max(0, spent.tokens - bound.tokens),
            source=source,
            input_tokens=reply.input_tokens,
            model=kinds.sanitize_name(reply.model),
            prices=kinds.sanitize_name(reply.prices),
            pause=reply.retry_milliseconds,
            # That a reply was paid for elsewhere, its source says.
            calls=spent.calls if within else 1,
        )
        settled = spent.minus(bound)
        charge = BudgetCharge(self.run_input.run, settled, guarded=False)
        # A recorded reply keeps its salt: seeds are computed from commitments, and a fork or a
        # replay has to come to the same order of the same ballots.
        salt = reply.output.body.salt if isinstance(reply.output, context.StoredContent) else b""
        bodies = [strand.Attachment("output", reply.output, "application/octet-stream", salt)]
        if reply.uses:
            encoded = BytesContent(msgspec.json.encode(reply.uses))
            bodies.append(strand.Attachment("uses", encoded, "application/json"))
        if reply.error.size:
            bodies.append(strand.Attachment("error", reply.error, "application/octet-stream"))
        effects: tuple[Effect, ...] = ()
        if any(settled):
            effects = (
                charge,
                *settle_charges(self._open_charges, Spend(settled.usd, settled.tokens)),
            )
        self._open_charges = ()
        draft = strand.Draft(
            step=step,
            actor=agent or context.ENGINE,
            facts=facts,
            parents=(),
            bodies=tuple(bodies),
            effects=effects,
        )
        model = facts.model or called.model
        head, size = context.read_prefix(reply.output.chunks(), MAX_READ_BYTES), reply.output.size
        return CallResult(
            agent=agent,
            model=model,
            replied=facts,
            output=head,
            size=size,
            uses=reply.uses,
            unrecorded=(draft,),
        )

    async def _call_model(
        self, model: ports.Model, call: ports.ModelCall, bound: Amount
    ) -> ports.CallReply | None:
        """Make the call, and return its reply; a deadline or an abort cancels the call.

        A call that raises or is cancelled costs its full reservation: it may have been billed.
        Return None if all spending was frozen meanwhile, which cancels the call as well.
        """
        freeze = asyncio.ensure_future(self._wait_for_freeze())
        try:
            with stream_reply(call, self.services.delta_sink, self.ledger.mask) as streamed:
                seconds = call.seconds + _CANCEL_GRACE_S
                reply = await self.run_until(model.reply(streamed), seconds, freeze)
        except Exception as error:  # noqa: BLE001  recorded: what an agent does must not end a run
            reply = replace(error_reply(error), spent=bound)
        finally:
            is_frozen = freeze.done()
            freeze.cancel()
        if reply is None and is_frozen and not self.cancel_token.abort_requested.is_set():
            return None
        if reply is None:
            return replace(self.cancelled_reply(), spent=bound)
        # A model that could not start its program reports no spending.  It still counts as a call,
        # so that the limit of calls ends a series of such failures.
        reply = replace(reply, spent=reply.spent._replace(calls=bound.calls))
        fault = _find_reply_fault(reply)
        return replace(error_reply(fault), spent=bound) if fault else reply

    async def _wait_for_freeze(self) -> None:
        """Return once all spending is frozen."""
        while True:
            await asyncio.sleep(_FREEZE_CHECK_US / 1e6)
            # Nothing is known without the database.  No call begins then; this one ends by its own
            # limits.
            with suppress(errors.StoreFailed):
                try:
                    if self.services.budgets is not None:
                        await self.services.budgets.check_open_async()
                except errors.SpendingFrozen:
                    return

    async def run_until(
        self,
        work: Coroutine[Any, Any, ports.CallReply],
        seconds: float,
        *others: asyncio.Future[None],
    ) -> ports.CallReply | None:
        """Run `work` until it ends, and return its reply with secrets masked.

        Return None, after cancelling the work, when the time is up, an abort is requested, or one
        of the others is done.
        """
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.cancel_token.abort_requested.wait())
        try:
            ends: set[asyncio.Future[Any]] = {working, stopping, *others}
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return await self._mask_reply(working.result()) if working.done() else None
        finally:
            for future in (working, stopping):
                future.cancel()
            # Wait for the end of the call, so that it has stopped before its outcome is recorded.
            await asyncio.gather(working, stopping, return_exceptions=True)

    async def _mask_reply(self, reply: ports.CallReply) -> ports.CallReply:
        """Return a reply with secrets masked, as it is recorded.

        This worker continues with the masked text, because a worker that takes over has only that.
        """
        mask = self.ledger.mask
        if not mask:
            return reply
        uses = tuple(
            ToolCall(mask.mask_text(use.tool), mask.mask_text(use.arguments)) for use in reply.uses
        )
        if reply.output.size + reply.error.size > _LARGE_BODY_BYTES:
            output, error = await asyncio.to_thread(
                lambda: (mask.mask_content(reply.output), mask.mask_content(reply.error))
            )
        else:
            output, error = mask.mask_content(reply.output), mask.mask_content(reply.error)
        return replace(reply, output=output, error=error, uses=uses)

    def cancelled_reply(self) -> ports.CallReply:
        """Return the reply of a call that an abort request or the time limit has cancelled."""
        if self.cancel_token.abort_requested.is_set():
            return ports.CallReply(Outcome.CANCELLED, why=kinds.Why.CANCELLED)
        return ports.CallReply(Outcome.TIMEOUT, why=kinds.Why.DEADLINE)

    async def record_reply(self, result: CallResult) -> strand.RecordedEntry | None:
        """Record a reply and return its entry, or None if it is recorded already."""
        return (await self.append_with_retry(*result.unrecorded))[-1] if result.unrecorded else None

    async def append_with_retry(self, *drafts: strand.Draft) -> tuple[strand.RecordedEntry, ...]:
        """Append entries about paid or finished work, retrying until the database is available.

        Only the commit is retried, never the call.  Large bodies are hashed in a thread.
        """
        large = any(
            body.content.size > _LARGE_BODY_BYTES for draft in drafts for body in draft.bodies
        )
        while True:
            try:
                if large:
                    return await asyncio.to_thread(self.strand.append_exclusive, *drafts)
                return await self.strand.append_exclusive_async(*drafts)
            except (errors.StoreFailed, errors.BacklogFull):
                await asyncio.sleep(_RETRY_DELAY_S)

    async def wait_while_paused(self) -> None:
        """Wait while this process may begin no call or effect; raise as `check_time` does."""
        while self.services.calls_paused.is_set():
            self.check_time()
            await asyncio.sleep(_PAUSE_POLL_INTERVAL_S)

    def check_limits(self) -> None:
        """Raise `TaskHalted` if a limit other than the budget forbids another call."""
        self.check_time()
        limit = self.progress.state.limit
        if limit is not None:
            raise ports.TaskHalted(msgspec.structs.replace(limit, by=self.task))

    def check_time(self) -> None:
        """Raise `TaskHalted` once the run is stopped or past its deadline.

        Raises `ConcurrentUpdate` where the run was interrupted or this worker shuts down: the task
        then gets no end entry, and another worker continues it.
        """
        deadline = self.run_input.deadline
        self.check_left()
        if self.cancel_token.stop_requested.is_set():
            raise ports.TaskHalted(kinds.StopFacts(kinds.StopReason.CANCELLED, by=self.task))
        if deadline is None or not self.services.real_time:
            return  # a replay ends where its record ends, however long it takes
        if self.ledger.now() >= deadline:
            cap = self.run_input.accepted.milliseconds
            raise ports.TaskHalted(
                kinds.StopFacts(
                    reason=kinds.StopReason.DEADLINE,
                    limit="milliseconds",
                    asked=0,
                    used=cap,
                    cap=cap,
                    by=self.task,
                )
            )

    def check_left(self) -> None:
        """Raise `ConcurrentUpdate` if the task is to be left without an end."""
        if self.cancel_token.left:
            raise errors.ConcurrentUpdate(f"task {self.run_input.run}/{self.task}")

    def seconds_left(self, most: float) -> float:
        """Return `most`, or the seconds left before the run's deadline if that is less."""
        if self.run_input.deadline is None:
            return most
        return max(0.0, min(most, (self.run_input.deadline - self.ledger.now()) / 1e6))

    def _call_timeout_s(self) -> float:
        return self.seconds_left(self.policy.call_milliseconds / 1000)

    async def wait_before_retry(self, since: int, micros: int) -> None:
        """Wait until `micros` after the time `since`; the deadline or a stop ends the wait."""
        now, deadline = self.ledger.now(), self.run_input.deadline
        # Never longer than `micros` from now: the clock may have been set back since `since`.
        until = now + min(since + micros - now, micros)
        until = until if deadline is None else min(until, deadline)
        seconds = (until - now) / 1e6
        if seconds > 0 and self.services.real_time:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.cancel_token.stop_requested.wait()


def error_reply(error: Exception) -> ports.CallReply:
    """Return the failed reply of an agent or a tool that raised this exception."""
    message = BytesContent(str(error).encode(errors="replace"))
    return ports.CallReply(
        Outcome.FAILED, why=kinds.Why.ERROR, code=type(error).__name__, error=message
    )


def _find_reply_fault(reply: ports.CallReply) -> errors.Malformed | None:
    """Return why a reply cannot be recorded, or None.

    Models are not trusted, and adapters need not check: numbers may be out of range, tool calls too
    many, and their text not encodable as UTF-8.
    """
    numbers = (*reply.spent, reply.milliseconds, reply.input_tokens, reply.retry_milliseconds)
    if not all(0 <= number < NO_LIMIT for number in numbers):
        return errors.Malformed("reply", f"its numbers are {numbers}")
    if len(reply.uses) > ports.MAX_TOOL_CALLS:
        return errors.Malformed(
            "reply", f"{len(reply.uses)} uses; the most is {ports.MAX_TOOL_CALLS}"
        )
    try:
        msgspec.json.encode(reply.uses)
    except UnicodeError as error:
        return errors.Malformed("reply", str(error))
    return None


def _call_bodies(ask: CallSpec) -> tuple[strand.Attachment, ...]:
    """Return the bodies of a call: the prompt, the output schema and the offered tools."""
    bodies = [strand.Attachment("prompt", BytesContent(ask.prompt.text))]
    if ask.schema:
        bodies.append(
            strand.Attachment("schema", BytesContent(ask.schema), "application/schema+json")
        )
    if ask.offers:
        listed = [(o.name, o.description, o.schema.decode()) for o in ask.offers]
        bodies.append(
            strand.Attachment(
                "offers", BytesContent(msgspec.json.encode(listed)), "application/json"
            )
        )
    return tuple(bodies)


def _over_budget(refused: errors.BudgetExceeded, task: str) -> kinds.StopFacts:
    used = min(refused.used, NO_LIMIT)  # overruns billed by a provider may exceed the range
    return kinds.StopFacts(
        reason=kinds.StopReason.BUDGET,
        limit=refused.limit,
        asked=refused.asked,
        used=used,
        cap=refused.cap,
        by=task,
    )


def _cap_reached(refused: errors.CapReached, task: str) -> kinds.StopFacts:
    limit = kinds.sanitize_name(limit_name(refused.limit, refused.per, refused.scope))
    used = min(refused.used, NO_LIMIT)
    return kinds.StopFacts(
        reason=kinds.StopReason.BUDGET,
        limit=limit,
        asked=refused.asked,
        used=used,
        cap=refused.cap,
        by=task,
    )
