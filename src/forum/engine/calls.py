"""Making the calls of one strand, each recorded before it is made and when it is answered.

What is recorded is not done again.  A call that was recorded without its reply belonged to a worker
that died: it is closed as lost, at the full price that was reserved for it, and made again under a
new reservation.  A call that the provider turned away is made again after the pause it asks for.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import msgspec

from forum.engine.aloud import aloud
from forum.engine.attention import Stop
from forum.engine.budgets import SharedBudgets, settle
from forum.engine.case import (
    ENGINE,
    Case,
    Intake,
    beginning,
    position_of,
    read_body,
    read_run,
    submitter_of,
)
from forum.engine.child import RUN
from forum.engine.gates import rules_of
from forum.engine.ports import (
    MOST_USES,
    Call,
    Halt,
    Known,
    Model,
    Models,
    Offer,
    Prior,
    Reply,
    Tools,
    Whispers,
)
from forum.errors import (
    Backlogged,
    BodyGone,
    CapReached,
    ForumError,
    Malformed,
    OverBudget,
    Overtaken,
    StoreFailed,
)
from forum.ledger import (
    MAIN,
    NO_LIMIT,
    UNLIMITED,
    Alarm,
    Amount,
    Attachment,
    Bytes,
    Charge,
    Draft,
    Effect,
    Facts,
    Ledger,
    Outcome,
    Recorded,
    SliceCharge,
    Spend,
    Strand,
    at_once,
)
from forum.tlog import Hash
from forum.work import (
    MOST_LOST,
    MOST_READ,
    MOST_THROTTLED,
    Called,
    GateRule,
    Limit,
    Prompt,
    Quoted,
    Replied,
    Skipped,
    Source,
    Stopped,
    StopReason,
    Use,
    Why,
    find_loop,
    fold,
    limit_name,
    plain,
    task_strand,
)

_AGAIN_SECONDS = 0.5
_GRACE_SECONDS = 0.3
"""How long one whose time is over may take to end by itself, and to tell what it has cost."""
_CHANGE_MICROSECONDS = 200_000
"""How long to wait for change when the purse seems empty."""
_LARGE = 1 << 20

_uses = msgspec.json.Decoder(tuple[Use, ...])


class Waiting(Exception):
    """A person has the word."""


@dataclass(frozen=True, slots=True)
class World:
    """What a task is carried out with."""

    ledger: Ledger
    models: Models
    tools: Tools
    prior: Callable[[Intake], "Prior | None"]
    """What an earlier run says of the same calls, where there is one."""
    unhurried: bool = True
    """Whether pauses are made: a replay makes none."""
    whispers: Whispers | None = None
    """Who listens to calls while they are made."""
    gate_rules: tuple[GateRule, ...] = ()
    """What the operator wants approved today, beside what the policies of runs say."""
    budgets: SharedBudgets | None = None
    """Caps over many runs."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of an agent."""

    agent: str
    prompt: Prompt
    causes: tuple[Hash, ...] = ()
    question: bytes = b""
    """What is new in it: the same answer to another question is another one."""
    role: str = ""
    schema: bytes = b""
    offers: tuple[Offer, ...] = ()
    allowance: Amount = UNLIMITED
    """What all calls of the task may use: once more is used, none is made again."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call and its reply; the reply may not be recorded yet."""

    agent: str
    model: str
    """What answered, as far as that is known."""
    replied: Replied
    output: bytes
    """The beginning of what was said."""
    size: int
    uses: tuple[Use, ...]
    unrecorded: tuple[Draft, ...] = ()

    def said(self, most: int) -> Quoted:
        """Return what was said, or its beginning, in order to quote it to the one who said it."""
        return Quoted("you", self.output[:most], self.size)


class Turns:
    """Names the steps of one attempt."""

    def __init__(self, attempt: int) -> None:
        self.attempt, self.calls, self._uses = attempt, 0, 0
        self._seen: dict[Use, int] = {}

    def next_call(self) -> tuple[str, str]:
        """Name the next call, and its reply."""
        self.calls += 1
        name = f"attempt/{self.attempt}/call/{self.calls}"
        return name, f"{name}/reply"

    def next_use(self, use: Use) -> tuple[str, int]:
        """Name the next effect, and say the how manieth such effect it is.

        The same thing wanted twice within one attempt is two effects.
        """
        self._uses += 1
        self._seen[use] = self._seen.get(use, 0) + 1
        return f"attempt/{self.attempt}/use/{self._uses}", self._seen[use]


class Caller:
    """Makes calls for one task, or one role, of a run, and keeps its strand."""

    def __init__(self, world: World, intake: Intake, task: str, stop: Stop) -> None:
        self.world, self.ledger, self.intake, self.task = world, world.ledger, intake, task
        self.policy = rules_of(intake.policy, world.gate_rules)
        self.stop, self.prior = stop, world.prior(intake)
        self.allowed_by = intake.plan_entry if isinstance(intake, Case) else intake.cause
        self._said: list[tuple[str, bytes]] = []
        self._answered: dict[str, int] = {}
        self._lost = self._throttled = 0
        self.spent = Amount()
        """What its calls have cost so far."""
        self._limits: tuple[Limit, ...] | None = None
        self._charged: tuple[SliceCharge, ...] = ()
        """What the call that is under way has been charged to, of caps over many runs."""

    async def drive(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Go on with the work until it has ended, or waits for somebody."""
        name = task_strand(self.task)
        self.strand: Strand = await asyncio.to_thread(self.ledger.strand, self.intake.run, name)
        state = fold((r.leaf, r.entry) for r in self.strand.loaded).task(self.task)
        if state.state.is_end:
            return
        try:
            await work()
        except Waiting:
            return
        except Halt as halt:
            await self._end(halt.facts)
        except (BodyGone, Malformed) as error:
            why = type(error).__name__
            await self._end(Stopped(StopReason.ERROR, why, by=self.task))

    async def _end(self, facts: Facts) -> None:
        """Record that the task goes no further, also where its record could not be played."""
        end = await asyncio.to_thread(self.ledger.end_of, self.intake.run, self.strand.name)
        if end.length != self.strand.length:
            raise Overtaken(f"strand {end.run}/{end.name}")
        step = "skip" if isinstance(facts, Skipped) else "stop"
        causes = () if end.length else (self.allowed_by,)
        await end.claim_async(Draft(step, ENGINE, facts, causes, effects=self.wake()))

    def wake(self) -> tuple[Alarm, ...]:
        """Return what has the run looked after."""
        return (at_once(self.intake.run, MAIN, self.ledger.now()),)

    # Calls

    async def exchange(self, turns: Turns, ask: Ask) -> Exchange:
        """Make a call until it is answered: lost or turned away, it is made again.

        But not once more was used than may be: then nobody answers it.
        """
        while True:
            call_step, reply_step = turns.next_call()
            call = self.strand.recorded(call_step)
            reply = self.strand.recorded(reply_step) if call else None
            if call is not None and reply is not None:
                exchange = self.recall(call, reply)
            elif call is not None:
                exchange = await self._lose(reply_step, call.entry.facts)
            else:
                exchange = await self._call(call_step, reply_step, turns, ask)
            ask = replace(ask, causes=())
            replied = exchange.replied
            self.spent = self.spent.plus(Amount(replied.usd, replied.tokens, 1))
            may_go_on = not self.spent.exceeds(ask.allowance)
            if replied.why is Why.LOST and may_go_on:
                self._lost += 1
            elif self._is_turned_away(replied) and may_go_on:
                turned_away = reply or (await self.keep(*exchange.unrecorded))[-1]
                await self._wait_for_provider(exchange, turned_away)
            else:
                self._heard(ask, exchange)
                return exchange

    def _is_turned_away(self, replied: Replied) -> bool:
        return replied.why is Why.THROTTLED and self._throttled < MOST_THROTTLED

    async def _wait_for_provider(self, exchange: Exchange, reply: Recorded) -> None:
        """Leave the provider alone for as long as it wants, and a little longer.

        How much longer differs from call to call, so that they do not all come back at once; and
        is the same for everybody who plays this one again.
        """
        self._throttled += 1
        asked = exchange.replied.pause or self.policy.pause(self._throttled)
        seed = sha256(f"{self.intake.run}/{self.task}/{reply.entry.step}".encode()).digest()
        spread = int.from_bytes(seed[:4], "big") / 2**32
        await self.pause(reply.entry.ts, int(1000 * asked * (1 + spread / 2)))

    def _heard(self, ask: Ask, exchange: Exchange) -> None:
        self._lost = self._throttled = 0
        self._answered[ask.agent] = self._answered.get(ask.agent, 0) + 1
        if exchange.replied.outcome is Outcome.OK:
            said = (ask.question, exchange.output, msgspec.json.encode(exchange.uses))
            digests = b"".join(sha256(part).digest() for part in said)
            self._said.append((f"{ask.agent} {ask.role}", digests))

    def recall(self, call: Recorded, reply: Recorded) -> Exchange:
        """Return an exchange as it is recorded."""
        called: Called = call.entry.facts
        facts: Replied = reply.entry.facts
        at, bodies = position_of(reply), reply.entry.bodies
        output = read_body(self.ledger, at, "output", MOST_READ) if "output" in bodies else b""
        size = bodies["output"].size if "output" in bodies else 0
        uses = _uses.decode(read_body(self.ledger, at, "uses")) if "uses" in bodies else ()
        return Exchange(called.agent, facts.model or called.model, facts, output, size, uses)

    async def _lose(self, step: str, called: Called) -> Exchange:
        """Close a call whose worker died: it may have been billed, so its price is gone."""
        facts = Replied(Outcome.INDETERMINATE, Why.LOST, called.usd, called.tokens)
        await self.strand.claim_async(Draft(step, called.agent or ENGINE, facts))
        return Exchange(called.agent, called.model, facts, b"", 0, ())

    async def _call(self, call_step: str, reply_step: str, turns: Turns, ask: Ask) -> Exchange:
        ask = replace(ask, prompt=self._without_secrets(ask.prompt))
        call = Call(
            self.intake.run,
            self.task,
            reply_step,
            self._answered.get(ask.agent, 0) + 1,
            Bytes(ask.prompt.text),
            self._seconds_for_call(),
            ask.prompt.turns,
            ask.offers,
            ask.schema,
        )
        known = await asyncio.to_thread(self.prior.answer, call) if self.prior else None
        if known is not None:
            return await self._call_again(known, call_step, reply_step, turns, ask)
        self.check_limits(turns.calls)
        model = self._model(ask.agent)
        bound = model.bound(call)
        facts = self._called(model.name, bound, turns, ask)
        await self.reserve(call_step, facts, ask, Charge(self.intake.run, bound))
        # It may have waited for money, and the run does not wait for it.
        call = replace(call, seconds=self._seconds_for_call())
        return self.answer(reply_step, facts, bound, await self._live(model, call, bound))

    async def _call_again(
        self, known: Known, call_step: str, reply_step: str, turns: Turns, ask: Ask
    ) -> Exchange:
        """Record a call whose reply is known: nobody is asked."""
        facts = self._called(known.model, known.bound, turns, ask)
        # What was allowed once is allowed again: in a replay, others may have spent before it.
        charge = Charge(self.intake.run, known.bound, guarded=False)
        await self.reserve(call_step, facts, ask, charge)
        if known.reply.why is Why.LOST:
            return await self._lose(reply_step, facts)
        # A secret may have been named since: what is judged is what is recorded.
        reply = await self._masked(known.reply)
        return self.answer(reply_step, facts, known.bound, reply, known.source)

    def _called(self, model: str, bound: Amount, turns: Turns, ask: Ask) -> Called:
        longest = min(self.policy.call_milliseconds, self.intake.accepted.milliseconds)
        amounts = (bound.usd, bound.tokens, longest)
        return Called(ask.agent, model, turns.attempt, turns.calls, *amounts, ask.role)

    def _model(self, agent: str) -> Model:
        """Return who answers for an agent; one that cannot be asked from here ends the task."""
        try:
            return self.world.models(self.policy.agents[agent])
        except ForumError as error:
            why = type(error).__name__
            raise Halt(Stopped(StopReason.ERROR, why, by=self.task)) from None

    def _without_secrets(self, prompt: Prompt) -> Prompt:
        """Return a prompt as it is recorded: what was escaped in a reply may be a secret by now."""
        mask = self.ledger.mask
        if not mask.finds(prompt.text):
            return prompt
        turns = (
            msgspec.structs.replace(turn, text=b"".join(mask.hide([turn.text])))
            for turn in prompt.turns
        )
        return Prompt(b"".join(mask.hide([prompt.text])), tuple(turns))

    async def reserve(
        self, step: str, facts: Called, ask: Ask, charge: Charge, *before: Draft
    ) -> tuple[Recorded, ...]:
        """Record a call before it is made, in one commit with what it can cost."""
        charges = (charge,) if any(charge.amount) else ()
        draft = Draft(step, ask.agent or ENGINE, facts, ask.causes, _bodies(ask), charges)
        # What a run within may use is not spent yet: its own calls are charged.
        within = ask.agent == RUN == facts.model
        limits = () if within else await self._find_limits()
        others = True
        while True:
            try:
                return await self._claim_charged(limits, charge.amount, *before, draft)
            except CapReached as refused:
                raise Halt(_cap_reached(refused, self.task)) from None
            except OverBudget as refused:
                if not others:
                    raise Halt(_over_budget(refused, self.task)) from None
            # What others have reserved is not spent yet: some of it may come back.  Whoever has
            # just given it back is not calling any more, so look first, and then try once more.
            others = await asyncio.to_thread(self._others_are_calling)
            if others:
                await self._wait_for_change()

    async def _claim_charged(
        self, limits: tuple[Limit, ...], amount: Amount, *drafts: Draft
    ) -> tuple[Recorded, ...]:
        """Record these with what they can cost at most, also against caps over many runs."""
        budgets = self.world.budgets
        if budgets is None or not limits:
            return await self.strand.claim_async(*drafts)

        async def claim(charges: tuple[SliceCharge, ...]) -> tuple[Recorded, ...]:
            *before, last = drafts
            last = msgspec.structs.replace(last, effects=(*last.effects, *charges))
            recorded = await self.strand.claim_async(*before, last)
            self._charged = charges
            return recorded

        return await budgets.spend_async(limits, Spend(amount.usd, amount.tokens), claim)

    async def _find_limits(self) -> tuple[Limit, ...]:
        """Return the caps over many runs that hold for this task."""
        if self.world.budgets is None:
            return ()
        if self._limits is None:
            actor = await asyncio.to_thread(submitter_of, self.ledger, self.intake.run)
            self._limits = self.world.budgets.limits(actor, [self._lane()])
        return self._limits

    def _lane(self) -> str:
        tasks = self.intake.plan.by_id if isinstance(self.intake, Case) else {}
        return (tasks[self.task].lane if self.task in tasks else "") or self.intake.lane

    async def _wait_for_change(self) -> None:
        """Wait a moment, without a place: whoever gives something back may be waiting for one."""
        self.stop.place.leave()
        await self.pause(self.ledger.now(), _CHANGE_MICROSECONDS)
        await self.stop.place.take()
        self.check_time()

    def _others_are_calling(self) -> bool:
        tasks = read_run(self.ledger, self.intake.run).tasks.values()
        # A call that is open in a task which has ended is closed by nobody: it gives nothing back.
        others = (task for task in tasks if task.id != self.task and not task.state.is_end)
        return any(call.replied is None for task in others for call in task.calls)

    def answer(
        self,
        step: str,
        called: Called,
        bound: Amount,
        reply: Reply,
        source: Source = Source.LIVE,
    ) -> Exchange:
        """Prepare the record of a reply: what was reserved is settled with what was spent."""
        spent, agent = reply.spent, called.agent
        within = (agent, called.model) == (RUN, RUN)
        facts = Replied(
            reply.outcome,
            reply.why,
            spent.usd,
            spent.tokens,
            reply.milliseconds,
            plain(reply.code),
            0 if within else max(0, spent.usd - bound.usd),
            0 if within else max(0, spent.tokens - bound.tokens),
            source,
            reply.input_tokens,
            plain(reply.model),
            plain(reply.prices),
            reply.retry_milliseconds,
        )
        settled = spent.minus(bound)
        charge = Charge(self.intake.run, settled, guarded=False)
        bodies = [Attachment("output", reply.output, "application/octet-stream")]
        if reply.uses:
            encoded = Bytes(msgspec.json.encode(reply.uses))
            bodies.append(Attachment("uses", encoded, "application/json"))
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        effects: tuple[Effect, ...] = ()
        if any(settled):
            effects = (charge, *settle(self._charged, Spend(settled.usd, settled.tokens)))
        self._charged = ()
        draft = Draft(step, agent or ENGINE, facts, (), tuple(bodies), effects)
        model = facts.model or called.model
        head, size = beginning(reply.output.chunks(), MOST_READ), reply.output.size
        return Exchange(agent, model, facts, head, size, reply.uses, (draft,))

    async def _live(self, model: Model, call: Call, bound: Amount) -> Reply:
        """Make the call; a deadline or a stop ends it, and everything that it started."""
        try:
            with aloud(call, self.world.whispers, self.ledger.mask) as heard:
                reply = await self.in_time(model.reply(heard), call.seconds + _GRACE_SECONDS)
        except Exception as error:  # noqa: BLE001  recorded: what an agent does must not end a run
            reply = replace(broken(error), spent=bound)
        if reply is None:
            return replace(self.cut(), spent=bound)
        # It was one call, whatever it cost: a program that could not be started is one.
        reply = replace(reply, spent=reply.spent._replace(calls=bound.calls))
        fault = _fault(reply)
        return replace(broken(fault), spent=bound) if fault else reply

    async def in_time(self, work: Coroutine[Any, Any, Reply], seconds: float) -> Reply | None:
        """Wait for what is done out there; if time is up, or somebody stops the run, end it."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stop.cut.wait())
        try:
            await asyncio.wait(
                (working, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return await self._masked(working.result()) if working.done() else None
        finally:
            for future in (working, stopping):
                future.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    async def _masked(self, reply: Reply) -> Reply:
        """Return a reply as it is recorded: whoever takes over has nothing else to go on with."""
        mask = self.ledger.mask
        if not mask:
            return reply
        uses = tuple(Use(mask.text(use.tool), mask.text(use.arguments)) for use in reply.uses)
        if reply.output.size + reply.error.size > _LARGE:
            output, error = await asyncio.to_thread(
                lambda: (mask.content(reply.output), mask.content(reply.error))
            )
        else:
            output, error = mask.content(reply.output), mask.content(reply.error)
        return replace(reply, output=output, error=error, uses=uses)

    def cut(self) -> Reply:
        """Return what is known of something that was ended."""
        if self.stop.cut.is_set():
            return Reply(Outcome.CANCELLED, why=Why.CANCELLED)
        return Reply(Outcome.TIMEOUT, why=Why.DEADLINE)

    # Recording

    async def record(self, exchange: Exchange) -> Recorded | None:
        """Record a reply; nothing is to be done where it is recorded already."""
        return (await self.keep(*exchange.unrecorded))[-1] if exchange.unrecorded else None

    async def keep(self, *drafts: Draft) -> tuple[Recorded, ...]:
        """Record what was paid for, or has happened, however long the database is not to be had.

        Retry the commit, never the call.  Large bodies are hashed where nobody waits for it.
        """
        large = any(body.content.size > _LARGE for draft in drafts for body in draft.bodies)
        while True:
            try:
                if large:
                    return await asyncio.to_thread(self.strand.claim, *drafts)
                return await self.strand.claim_async(*drafts)
            except (StoreFailed, Backlogged):
                await asyncio.sleep(_AGAIN_SECONDS)

    # Limits

    def check_limits(self, calls: int) -> None:
        """Refuse to make another call where a limit other than the budget's is met."""
        self.check_time()
        if self._lost > MOST_LOST:
            raise Halt(Stopped(StopReason.LOST, "calls", 1, self._lost, MOST_LOST, self.task))
        if calls > self.policy.turns:
            most = self.policy.turns
            raise Halt(Stopped(StopReason.TURNS, "turns", 1, most, most, self.task))
        loop = find_loop(self._said, self.policy.repeats)
        if loop is not None:
            most = self.policy.repeats
            raise Halt(Stopped(loop, "repeats", 1, most, most, self.task))

    def check_time(self) -> None:
        """Refuse to begin anything once the run is to end.

        Raises `Overtaken` where the run was interrupted or this worker stops: then the task is
        left without an end, for whoever goes on with it.
        """
        deadline = self.intake.deadline
        if self.stop.left:
            raise Overtaken(f"task {self.intake.run}/{self.task}")
        if self.stop.halt.is_set():
            raise Halt(Stopped(StopReason.CANCELLED, by=self.task))
        if deadline is None or not self.world.unhurried:
            return  # a replay is over when its record is, however long it takes
        if self.ledger.now() >= deadline:
            cap = self.intake.accepted.milliseconds
            raise Halt(Stopped(StopReason.DEADLINE, "milliseconds", 0, cap, cap, self.task))

    def seconds_left(self, most: float) -> float:
        """Return how long something may take that may take so long, before the run is over."""
        if self.intake.deadline is None:
            return most
        return max(0.0, min(most, (self.intake.deadline - self.ledger.now()) / 1e6))

    def _seconds_for_call(self) -> float:
        return self.seconds_left(self.policy.call_milliseconds / 1000)

    async def pause(self, since: int, micros: int) -> None:
        """Wait before a retry, so long after something; a deadline or a stop ends the wait."""
        now, deadline = self.ledger.now(), self.intake.deadline
        # No longer than that from now on: the clock may have been set back.
        until = now + min(since + micros - now, micros)
        until = until if deadline is None else min(until, deadline)
        seconds = (until - now) / 1e6
        if seconds > 0 and self.world.unhurried:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.stop.halt.wait()


def broken(error: Exception) -> Reply:
    """Return what is known of an agent or a tool that raised something."""
    said = Bytes(str(error).encode(errors="replace"))
    return Reply(Outcome.FAILED, why=Why.ERROR, code=type(error).__name__, error=said)


def _fault(reply: Reply) -> Malformed | None:
    """Return why a reply cannot be recorded: a model may say anything, and an adapter let it by."""
    numbers = (*reply.spent, reply.milliseconds, reply.input_tokens, reply.retry_milliseconds)
    if not all(0 <= number < NO_LIMIT for number in numbers):
        return Malformed("reply", f"its numbers are {numbers}")
    if len(reply.uses) > MOST_USES:
        return Malformed("reply", f"{len(reply.uses)} uses; the most is {MOST_USES}")
    try:
        msgspec.json.encode(reply.uses)
    except UnicodeError as error:
        return Malformed("reply", str(error))
    return None


def _bodies(ask: Ask) -> tuple[Attachment, ...]:
    """Return all that an agent is told: the prompt, and what goes beside it."""
    bodies = [Attachment("prompt", Bytes(ask.prompt.text))]
    if ask.schema:
        bodies.append(Attachment("schema", Bytes(ask.schema), "application/schema+json"))
    if ask.offers:
        listed = [(o.name, o.description, o.schema.decode()) for o in ask.offers]
        bodies.append(Attachment("offers", Bytes(msgspec.json.encode(listed)), "application/json"))
    return tuple(bodies)


def _over_budget(refused: OverBudget, task: str) -> Stopped:
    used = min(refused.used, NO_LIMIT)  # a provider may have billed whatever it likes
    return Stopped(StopReason.BUDGET, refused.limit, refused.asked, used, refused.cap, task)


def _cap_reached(refused: CapReached, task: str) -> Stopped:
    limit = plain(limit_name(refused.limit, refused.per, refused.scope))
    used = min(refused.used, NO_LIMIT)
    return Stopped(StopReason.BUDGET, limit, refused.asked, used, refused.cap, task)
