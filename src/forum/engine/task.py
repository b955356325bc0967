"""Carrying out one task: attempts, calls, effects and verdicts, each recorded before the next.

The strand of the task is played first: what is recorded is not done again.  A call that was
recorded without its reply belonged to a worker that died: it is closed as lost, at the full price
that was reserved for it, and made again under a new reservation.  An effect without its outcome
may or may not have happened: a person is asked.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import msgspec

from forum.engine.attention import Stop
from forum.engine.case import (
    ENGINE,
    Case,
    entries_of,
    join,
    position_of,
    read_body,
    read_run,
    stored,
)
from forum.engine.child import RUN, allot, child_reply, open_child, reserve_for
from forum.engine.gates import pass_gate
from forum.engine.ports import (
    NOTHING,
    Call,
    Deed,
    Halt,
    Model,
    Models,
    Prior,
    Reply,
    Tools,
)
from forum.errors import Backlogged, BodyGone, Malformed, OverBudget, Overtaken, StoreFailed
from forum.ledger import (
    MAIN,
    Account,
    Alarm,
    Amount,
    Attachment,
    Bytes,
    Charge,
    Content,
    Draft,
    Facts,
    Ledger,
    Outcome,
    Recorded,
    Strand,
    at_once,
)
from forum.tlog import Hash
from forum.work import (
    ASK,
    MOST_READ,
    Answer,
    Called,
    Delegated,
    Happened,
    Intended,
    Judged,
    Next,
    Policy,
    Quoted,
    Replied,
    Source,
    Stopped,
    StopReason,
    Tool,
    Use,
    Why,
    find_loop,
    fold,
    judge,
    next_prompt,
    plain,
    quote,
    rung_of,
    task_prompt,
    task_strand,
    unfinished,
    verdict_on,
)

MOST_LOST = 8
"""How often in a row a worker may die in a call before the call is blamed for it."""

_AGAIN_SECONDS = 0.5
_CHANGE_MICROSECONDS = 200_000
"""How long to wait for change when the purse seems empty."""
_LARGE = 1 << 20

_uses = msgspec.json.Decoder(tuple[Use, ...])


class Waiting(Exception):
    """A person has the word."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool by which one agent asks another."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class World:
    """What a task is carried out with."""

    ledger: Ledger
    models: Models
    tools: Tools
    prior: Callable[[Case], "Prior | None"]
    """What an earlier run says of the same calls, where there is one."""
    unhurried: bool = True
    """Whether pauses are made: a replay makes none."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call and its reply; the reply may not be recorded yet."""

    replied: Replied
    output: bytes
    """The beginning of what was said."""
    size: int
    uses: tuple[Use, ...]
    unrecorded: tuple[Draft, ...] = ()


class TaskDriver:
    """Carries out one task of one run."""

    def __init__(self, world: World, case: Case, task: str, stop: Stop) -> None:
        self._world, self._ledger, self._case = world, world.ledger, case
        self._task, self._policy = case.plan.by_id[task], case.policy
        self._stop, self._prior = stop, world.prior(case)
        self._said: list[tuple[str, bytes]] = []
        self._answered: dict[str, int] = {}
        self._verdicts: tuple[Judged, ...] = ()
        self._first: dict[tuple[Use, int], Hash] = {}
        self._known: dict[str, Recorded] = {}
        self._used = self._lost = 0
        self._allowed_by = case.plan_entry

    async def drive(self) -> None:
        """Go on with the task until it has ended, or waits for somebody."""
        name = task_strand(self._task.id)
        self._strand: Strand = await asyncio.to_thread(self._ledger.strand, self._case.run, name)
        state = fold((r.leaf, r.entry) for r in self._strand.loaded).task(self._task.id)
        if state.state.is_end:
            return
        try:
            await self._attempts()
        except Waiting:
            return
        except Halt as halt:
            await self._end(halt.facts)
        except (BodyGone, Malformed) as error:
            why = type(error).__name__
            await self._end(Stopped(StopReason.ERROR, why, by=self._task.id))

    # Attempts

    async def _attempts(self) -> None:
        instruction, cause = await self._approved()
        upstream = await asyncio.to_thread(self._upstream)
        inputs = [quoted for quoted, _ in upstream.inputs]
        prompt = task_prompt(instruction, self._task.done_when, inputs)
        causes = await join(self._strand, [cause, *upstream.causes])
        if self._task.tasks:
            await self._delegate(prompt, causes)
            return
        while True:
            verdict = await self._attempt(prompt, causes)
            self._verdicts = (*self._verdicts, verdict)
            if verdict.next in (Next.ACCEPT, Next.GIVE_UP):
                return
            causes = ()

    async def _approved(self) -> tuple[str, Hash]:
        """Return the instruction that may be carried out, and the entry that allows it."""
        case = self._case
        if not self._policy.guards(self._task.id):
            return self._task.instruction, case.plan_entry
        shown = self._task.instruction.encode()
        decision = await pass_gate(
            self._ledger, case.run, f"task/{self._task.id}", shown, self._policy, case.plan_entry
        )
        if decision is None:
            raise Waiting
        self._allowed_by = decision.entry
        if decision.answer is Answer.REJECT:
            raise Halt(Stopped(StopReason.REJECTED, by=self._task.id))
        return decision.shown.decode(), decision.entry

    async def _attempt(self, first: bytes, causes: tuple[Hash, ...]) -> Judged:
        number = len(self._verdicts) + 1
        ladder = self._policy.ladder_of(self._task.agent)
        agent = ladder[rung_of(self._verdicts)]
        prompt, turns, question = first, _Turns(number), b""
        while True:
            exchange = await self._exchange(turns, agent, prompt, causes, question)
            causes = ()
            if exchange.replied.outcome is not Outcome.OK or not exchange.uses:
                return await self._judge(number, exchange)
            await self._record(exchange)
            results = [await self._use(turns, use) for use in exchange.uses]
            question = b"".join(quote(result) for result in results)
            own = Quoted("you", exchange.output[: self._policy.input_bytes], exchange.size)
            prompt = next_prompt(prompt, own, results)

    async def _judge(self, number: int, exchange: Exchange, policy: Policy | None = None) -> Judged:
        step = f"attempt/{number}/verdict"
        found = self._strand.recorded(step)
        if found is None:
            outcome = exchange.replied.outcome
            judgement = judge(self._task.done_when, outcome, exchange.output)
            rules = policy or self._policy
            verdict = verdict_on(judgement, outcome, self._verdicts, rules, self._task.agent)
            ends = verdict.next in (Next.ACCEPT, Next.GIVE_UP)
            draft = Draft(step, ENGINE, verdict, effects=self._wake() if ends else ())
            found = (await self._keep(*exchange.unrecorded, draft))[-1]
        judged: Judged = found.entry.facts
        await self._pause(found.entry.ts + 1000 * judged.pause)
        return judged

    async def _pause(self, until: int) -> None:
        """Wait before a retry; a deadline or a stop ends the wait."""
        deadline = self._case.deadline
        until = until if deadline is None else min(until, deadline)
        seconds = (until - self._ledger.now()) / 1e6
        if seconds > 0 and self._world.unhurried:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stop.halt.wait()

    # Calls

    async def _exchange(
        self,
        turns: "_Turns",
        agent: str,
        prompt: bytes,
        causes: tuple[Hash, ...] = (),
        question: bytes = b"",
    ) -> Exchange:
        """Make a call until it is answered: one that was lost with its worker is made again."""
        while True:
            call_step, reply_step = turns.next_call()
            call = self._strand.recorded(call_step)
            reply = self._strand.recorded(reply_step) if call else None
            if reply is not None:
                exchange = self._replay(reply)
            elif call is not None:
                exchange = await self._lose(reply_step, call.entry.facts)
            else:
                exchange = await self._call(call_step, reply_step, turns, agent, prompt, causes)
            causes = ()
            if exchange.replied.why is not Why.LOST:
                self._heard(agent, question, exchange)
                return exchange

    def _heard(self, agent: str, question: bytes, exchange: Exchange) -> None:
        self._lost = 0
        self._answered[agent] = self._answered.get(agent, 0) + 1
        if exchange.replied.outcome is Outcome.OK:
            # The same answer to another question is another one.
            said = (question, exchange.output, msgspec.json.encode(exchange.uses))
            digests = b"".join(sha256(part).digest() for part in said)
            self._said.append((agent, digests))

    def _replay(self, reply: Recorded) -> Exchange:
        facts: Replied = reply.entry.facts
        at, bodies = position_of(reply), reply.entry.bodies
        output = read_body(self._ledger, at, "output", MOST_READ) if "output" in bodies else b""
        size = bodies["output"].size if "output" in bodies else 0
        uses = _uses.decode(read_body(self._ledger, at, "uses")) if "uses" in bodies else ()
        if facts.why is Why.LOST:
            self._lost += 1
        return Exchange(facts, output, size, uses)

    async def _lose(self, step: str, called: Called) -> Exchange:
        """Close a call whose worker died: it may have been billed, so its price is gone."""
        self._lost += 1
        facts = Replied(Outcome.INDETERMINATE, Why.LOST, called.usd, called.tokens)
        await self._strand.claim_async(Draft(step, called.agent or ENGINE, facts))
        return Exchange(facts, b"", 0, ())

    async def _call(
        self,
        call_step: str,
        reply_step: str,
        turns: "_Turns",
        agent: str,
        prompt: bytes,
        causes: tuple[Hash, ...],
    ) -> Exchange:
        model = self._world.models(self._policy.agents[agent])
        number = self._answered.get(agent, 0) + 1
        call = Call(
            self._case.run,
            self._task.id,
            reply_step,
            number,
            Bytes(prompt),
            self._seconds_left(self._policy.call_milliseconds / 1000),
        )
        known = await asyncio.to_thread(self._prior.answer, call) if self._prior else None
        if known is None:
            self._check_limits(turns.calls)
        bound = known.bound if known else model.bound(call)
        facts = Called(
            agent,
            model.name,
            turns.attempt,
            turns.calls,
            bound.usd,
            bound.tokens,
            min(self._policy.call_milliseconds, self._case.accepted.milliseconds),
        )
        # What was allowed once is allowed again: in a replay, others may have spent before it.
        charge = Charge(self._case.run, bound, guarded=known is None)
        await self._reserve(call_step, agent, facts, prompt, causes, charge)
        if known is not None and known.reply.why is Why.LOST:
            return await self._lose(reply_step, facts)
        if known is not None:
            return self._answer(reply_step, agent, bound, known.reply, known.source)
        return self._answer(reply_step, agent, bound, await self._live(model, call, bound))

    async def _reserve(
        self,
        step: str,
        agent: str,
        facts: Called,
        prompt: bytes,
        causes: tuple[Hash, ...],
        charge: Charge,
        *before: Draft,
    ) -> tuple[Recorded, ...]:
        """Record a call before it is made, in one commit with what it can cost."""
        body = Attachment("prompt", Bytes(prompt))
        charges = (charge,) if any(charge.amount) else ()
        draft = Draft(step, agent or ENGINE, facts, causes, (body,), charges)
        others = True
        while True:
            try:
                return await self._strand.claim_async(*before, draft)
            except OverBudget as refused:
                if not others:
                    raise Halt(_over_budget(refused, self._task.id)) from None
            # What others have reserved is not spent yet: some of it may come back.  Whoever has
            # just given it back is not calling any more, so look first, and then try once more.
            others = await asyncio.to_thread(self._others_are_calling)
            if others:
                await self._pause(self._ledger.now() + _CHANGE_MICROSECONDS)
                self._check_time()

    def _others_are_calling(self) -> bool:
        tasks = read_run(self._ledger, self._case.run).tasks.values()
        calls = (call for task in tasks if task.id != self._task.id for call in task.calls)
        return any(call.replied is None for call in calls)

    def _answer(
        self, step: str, agent: str, bound: Amount, reply: Reply, source: Source = Source.LIVE
    ) -> Exchange:
        """Prepare the record of a reply: what was reserved is settled with what was spent."""
        spent = reply.spent
        facts = Replied(
            reply.outcome,
            reply.why,
            spent.usd,
            spent.tokens,
            reply.milliseconds,
            plain(reply.code),
            max(0, spent.usd - bound.usd) if agent != RUN else 0,
            max(0, spent.tokens - bound.tokens) if agent != RUN else 0,
            source,
        )
        settled = spent.minus(bound)
        charge = Charge(self._case.run, settled, guarded=False)
        bodies = [Attachment("output", reply.output, "application/octet-stream")]
        if reply.uses:
            encoded = Bytes(msgspec.json.encode(reply.uses))
            bodies.append(Attachment("uses", encoded, "application/json"))
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        effects = (charge,) if any(settled) else ()
        draft = Draft(step, agent or ENGINE, facts, (), tuple(bodies), effects)
        head = _head(reply.output)
        return Exchange(facts, head, reply.output.size, reply.uses, (draft,))

    async def _live(self, model: Model, call: Call, bound: Amount) -> Reply:
        """Make the call; a deadline or a stop ends it, and everything that it started."""
        try:
            reply = await self._in_time(model.reply(call), call.seconds + 1)
        except Exception as error:  # noqa: BLE001  recorded: what an agent does must not end a run
            reply = replace(_broken(error), spent=bound)
        if reply is None:
            return replace(self._cut(), spent=bound)
        # It was one call, whatever it cost: a program that could not be started is one.
        return replace(reply, spent=reply.spent._replace(calls=bound.calls))

    async def _in_time(self, work: Coroutine[Any, Any, Reply], seconds: float) -> Reply | None:
        """Wait for what is done out there; if time is up, or somebody stops the run, end it."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop.cut.wait())
        try:
            await asyncio.wait(
                (working, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return working.result() if working.done() else None
        finally:
            for future in (working, stopping):
                future.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    def _cut(self) -> Reply:
        """Return what is known of something that was ended."""
        if self._stop.cut.is_set():
            return Reply(Outcome.CANCELLED, why=Why.CANCELLED)
        return Reply(Outcome.TIMEOUT, why=Why.DEADLINE)

    async def _record(self, exchange: Exchange) -> None:
        if exchange.unrecorded:
            await self._keep(*exchange.unrecorded)

    async def _keep(self, *drafts: Draft) -> tuple[Recorded, ...]:
        """Record what was paid for, or has happened, however long the database is not to be had.

        Retry the commit, never the call.  Large bodies are hashed where nobody waits for it.
        """
        large = any(body.content.size > _LARGE for draft in drafts for body in draft.bodies)
        while True:
            try:
                if large:
                    return await asyncio.to_thread(self._strand.claim, *drafts)
                return await self._strand.claim_async(*drafts)
            except (StoreFailed, Backlogged):
                await asyncio.sleep(_AGAIN_SECONDS)

    def _check_limits(self, calls: int) -> None:
        """Refuse to make another call where a limit other than the budget's is met."""
        self._check_time()
        if self._lost > MOST_LOST:
            raise Halt(Stopped(StopReason.LOST, "calls", 1, self._lost, MOST_LOST, self._task.id))
        if calls > self._policy.turns:
            most = self._policy.turns
            raise Halt(Stopped(StopReason.TURNS, "turns", 1, most, most, self._task.id))
        loop = find_loop(self._said, self._policy.repeats)
        if loop is not None:
            most = self._policy.repeats
            raise Halt(Stopped(loop, "repeats", 1, most, most, self._task.id))

    def _check_time(self) -> None:
        """Refuse to begin anything once the run is to end."""
        deadline = self._case.deadline
        if self._stop.halt.is_set():
            raise Halt(Stopped(StopReason.CANCELLED, by=self._task.id))
        if deadline is not None and self._ledger.now() >= deadline:
            cap = self._case.accepted.milliseconds
            raise Halt(Stopped(StopReason.DEADLINE, "milliseconds", 0, cap, cap, self._task.id))

    def _seconds_left(self, most: float) -> float:
        if self._case.deadline is None:
            return most
        return max(0.0, min(most, (self._case.deadline - self._ledger.now()) / 1e6))

    # A plan within the plan

    async def _delegate(self, prompt: bytes, causes: tuple[Hash, ...]) -> None:
        """Have the plan within carried out by a run of its own, and judge what it says."""
        call_step, reply_step = _Turns(1).next_call()
        found = self._strand.recorded("delegate")
        if found is None:
            found = await self._allot(call_step, prompt, causes)
        else:
            self._strand.recorded(call_step)
        recorded = self._strand.recorded(reply_step)
        if recorded is not None:
            exchange = self._replay(recorded)
        else:
            delegated: Delegated = found.entry.facts
            reply = await asyncio.to_thread(self._follow, delegated, prompt, reply_step)
            exchange = self._answer(reply_step, RUN, reserve_for(delegated), reply)
        await self._judge(1, exchange, self._policy.once())

    async def _allot(self, step: str, prompt: bytes, causes: tuple[Hash, ...]) -> Recorded:
        """Set aside what the run within may use, and record which run it is."""
        known = self._prior.allotment(self._task.id) if self._prior else None
        if known is None:
            self._check_limits(1)
        if self._case.accepted.depth == 0:
            raise Halt(Stopped(StopReason.DEPTH, "depth", 1, 0, 0, self._task.id))
        while True:
            account, sharers = await asyncio.to_thread(self._left)
            delegated = known or allot(self._case.run, self._task, account, sharers)
            amount = reserve_for(delegated)
            facts = Called(RUN, RUN, 1, 1, amount.usd, amount.tokens)
            naming = Draft("delegate", ENGINE, delegated, causes)
            charge = Charge(self._case.run, amount, guarded=known is None)
            try:
                return (await self._reserve(step, RUN, facts, prompt, (), charge, naming))[0]
            except Halt:
                # Others spend meanwhile: what was left when we looked may be less by now.
                if account == (await asyncio.to_thread(self._left))[0]:
                    raise

    def _left(self) -> tuple[Account | None, int]:
        """Return the account of the run, and how many tasks have to share what is left of it."""
        state = read_run(self._ledger, self._case.run)
        sharers = sum(1 for _ in unfinished(self._case.plan, state))
        return self._ledger.store.account(self._case.run), sharers

    def _follow(self, delegated: Delegated, prompt: bytes, step: str) -> Reply:
        """Return what came of the run within; it is opened first, where that is yet to be done."""
        if self._prior is not None:
            call = Call(self._case.run, self._task.id, step, 1, Bytes(prompt), 0.0)
            known = self._prior.answer(call)
            if known is not None:
                return known.reply
        if self._stop.halt.is_set() and not self._ledger.store.strands(delegated.run):
            return Reply(Outcome.CANCELLED, why=Why.CANCELLED)
        request = prompt.decode(errors="replace")  # what is quoted in it may be no text, or cut
        open_child(self._ledger, self._case, self._task, delegated, request)
        reply = child_reply(self._ledger, delegated)
        if reply is None:
            raise Waiting
        return reply

    # Effects

    async def _use(self, turns: "_Turns", use: Use) -> Quoted:
        """Have an effect, once, and return what came of it."""
        if use.tool == ASK:
            return await self._ask(turns, use)
        self._used += 1
        step, wanted = turns.next_use(use)
        first = self._first.get(wanted)
        intent = self._strand.recorded(step)
        fresh = intent is None
        if intent is None:
            self._check_time()
            body = Attachment("arguments", Bytes(use.arguments.encode()))
            # What an agent wrote is not for a leaf, which cannot be erased.
            name = use.tool if use.tool in self._policy.tools else "unknown"
            facts = Intended(name, first.hex() if first else "")
            (intent,) = await self._strand.claim_async(
                Draft(step, self._task.agent or ENGINE, facts, (), (body,))
            )
        key = self._first.setdefault(wanted, intent.leaf).hex()
        outcome = self._strand.recorded(f"{step}/outcome")
        if outcome is None:
            outcome = await self._effect(use, key, step) if fresh else await self._doubt(step)
        if outcome.entry.facts.outcome is Outcome.INDETERMINATE:
            outcome = await self._settle(step, intent, outcome)
        if outcome.entry.facts.outcome is Outcome.OK and not outcome.entry.facts.known:
            self._known[key] = outcome
        return self._result(use, outcome)

    async def _effect(self, use: Use, key: str, step: str) -> Recorded:
        before = self._known.get(key)
        tool = self._policy.tools.get(use.tool)
        if before is not None:
            facts = Happened(Outcome.OK, known=before.leaf.hex())
            return await self._happened(step, facts, Reply(Outcome.OK, self._came_of(before)))
        if tool is None:
            reply = Reply(Outcome.DENIED, why=Why.ERROR, code="no-such-tool")
        else:
            arguments = Bytes(use.arguments.encode())
            deed = Deed(self._case.run, self._task.id, f"{step}/outcome", use.tool, arguments, key)
            known = await asyncio.to_thread(self._prior.outcome, deed) if self._prior else None
            if known is not None and known.why is Why.LOST:
                return await self._doubt(step)
            reply = known or await self._have(tool, deed)
        return await self._happened(
            step, Happened(reply.outcome, reply.why, plain(reply.code)), reply
        )

    async def _have(self, tool: Tool, deed: Deed) -> Reply:
        """Have an effect.  One that was cut off, or broke, may have happened all the same."""
        seconds = self._seconds_left(tool.seconds + 1)
        try:
            reply = await self._in_time(self._world.tools(tool).use(deed), seconds) or self._cut()
        except Exception as error:  # noqa: BLE001  recorded, and a person is asked
            return replace(_broken(error), outcome=Outcome.INDETERMINATE)
        unknown = reply.outcome in (Outcome.TIMEOUT, Outcome.CANCELLED)
        return replace(reply, outcome=Outcome.INDETERMINATE) if unknown else reply

    def _came_of(self, outcome: Recorded) -> Content:
        if "result" not in outcome.entry.bodies:
            return NOTHING
        return stored(self._ledger, position_of(outcome), "result")

    async def _happened(self, step: str, facts: Happened, reply: Reply) -> Recorded:
        bodies = [Attachment("result", reply.output, "application/octet-stream")]
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        actor = self._task.agent or ENGINE
        draft = Draft(f"{step}/outcome", actor, facts, (), tuple(bodies))
        return (await self._keep(draft))[0]

    async def _doubt(self, step: str) -> Recorded:
        """Close an effect whose worker died: nobody here knows whether it happened."""
        facts = Happened(Outcome.INDETERMINATE, Why.LOST)
        return (await self._strand.claim_async(Draft(f"{step}/outcome", ENGINE, facts)))[0]

    async def _settle(self, step: str, intent: Recorded, outcome: Recorded) -> Recorded:
        """Ask a person whether an effect happened: approve for yes, reject for no."""
        found = self._strand.recorded(f"{step}/settled")
        if found is not None:
            return found
        shown = read_body(self._ledger, position_of(intent), "arguments")
        subject = f"effect/{self._task.id}/{self._used}"
        decision = await pass_gate(
            self._ledger, self._case.run, subject, shown, self._policy, outcome.leaf
        )
        if decision is None:
            raise Waiting
        happened = Outcome.OK if decision.answer is Answer.APPROVE else Outcome.FAILED
        facts = Happened(happened, Why.LOST, "by-decision")
        draft = Draft(f"{step}/settled", ENGINE, facts, (decision.entry,))
        return (await self._strand.claim_async(draft))[0]

    def _result(self, use: Use, outcome: Recorded) -> Quoted:
        facts: Happened = outcome.entry.facts
        source = f"{use.tool}, {facts.outcome.value}"
        if "result" not in outcome.entry.bodies:
            return Quoted(source, b"", 0)
        limit, size = self._policy.input_bytes, outcome.entry.bodies["result"].size
        return Quoted(source, read_body(self._ledger, position_of(outcome), "result", limit), size)

    async def _ask(self, turns: "_Turns", use: Use) -> Quoted:
        """Let another agent say something: a call like every other, paid by the same run."""
        try:
            asked = msgspec.json.decode(use.arguments, type=Asked)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return _quoted(f"{ASK}, failed", str(error).encode())
        if asked.agent not in self._policy.agents:
            return _quoted(f"{ASK}, denied", f"there is no agent {asked.agent!r}".encode())
        question = asked.text.encode()
        exchange = await self._exchange(turns, asked.agent, question, question=question)
        await self._record(exchange)
        said = exchange.output[: self._policy.input_bytes]
        return Quoted(f"{asked.agent}, {exchange.replied.outcome.value}", said, exchange.size)

    # Causes and ends

    def _upstream(self) -> "_Upstream":
        """Read what the tasks before this one have said, as far as it is given on."""
        inputs, causes = [], []
        for name in self._task.upstream:
            task = fold(entries_of(self._ledger, self._case.run, task_strand(name))).task(name)
            if task.last is not None:
                causes.append(task.last)
            if name in self._task.needs and task.result and task.result.reply_at:
                limit, at = self._policy.input_bytes, task.result.reply_at
                entry = next(entries_of(self._ledger, at.run, at.strand, at.n))[1]
                size = entry.bodies["output"].size if "output" in entry.bodies else 0
                head = read_body(self._ledger, at, "output", limit) if size else b""
                inputs.append((Quoted(f"task {name}", head, size), name))
        return _Upstream(inputs, causes)

    async def _end(self, facts: Facts) -> None:
        """Record that the task goes no further, also where its record could not be played."""
        end = await asyncio.to_thread(self._ledger.end_of, self._case.run, self._strand.name)
        if end.length != self._strand.length:
            raise Overtaken(f"strand {end.run}/{end.name}")
        step = "stop" if isinstance(facts, Stopped) else "skip"
        causes = () if end.length else (self._allowed_by,)
        await end.claim_async(Draft(step, ENGINE, facts, causes, effects=self._wake()))

    def _wake(self) -> tuple[Alarm, ...]:
        return (at_once(self._case.run, MAIN, self._ledger.now()),)


@dataclass(frozen=True, slots=True)
class _Upstream:
    inputs: list[tuple[Quoted, str]]
    causes: list[Hash]


class _Turns:
    """Names the steps of one attempt."""

    def __init__(self, attempt: int) -> None:
        self.attempt, self.calls, self._uses = attempt, 0, 0
        self._seen: dict[Use, int] = {}

    def next_call(self) -> tuple[str, str]:
        self.calls += 1
        name = f"attempt/{self.attempt}/call/{self.calls}"
        return name, f"{name}/reply"

    def next_use(self, use: Use) -> tuple[str, tuple[Use, int]]:
        """Name the next effect, and say which one is wanted: whatever attempt it is wanted in.

        The same thing wanted twice within one attempt is two effects.
        """
        self._uses += 1
        self._seen[use] = self._seen.get(use, 0) + 1
        return f"attempt/{self.attempt}/use/{self._uses}", (use, self._seen[use])


def _broken(error: Exception) -> Reply:
    """Return what is known of an agent or a tool that raised something."""
    said = Bytes(str(error).encode(errors="replace"))
    return Reply(Outcome.FAILED, why=Why.ERROR, code=type(error).__name__, error=said)


def _over_budget(refused: OverBudget, task: str) -> Stopped:
    return Stopped(StopReason.BUDGET, refused.limit, refused.asked, refused.used, refused.cap, task)


def _head(content: Content) -> bytes:
    """Return the beginning of a content, as much as is judged and given on."""
    head = b""
    for chunk in content.chunks():
        head += chunk
        if len(head) >= MOST_READ:
            break
    return head[:MOST_READ]


def _quoted(source: str, text: bytes) -> Quoted:
    return Quoted(source, text, len(text))
