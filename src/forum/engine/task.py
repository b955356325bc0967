"""Carrying out one task: attempts, calls, effects and verdicts, each recorded before the next.

The strand of the task is played first: what is recorded is not done again.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from forum.engine.attention import Stop
from forum.engine.calls import Ask, Caller, Exchange, Turns, Waiting, World
from forum.engine.case import ENGINE, Case, join, read_body, read_run
from forum.engine.child import RUN, allot, child_reply, open_child, reserve_for
from forum.engine.effects import DIGEST, Hands, receipts_of
from forum.engine.gates import pass_gate
from forum.engine.interrupting import follow_parent
from forum.engine.judges import independence, judge_independently
from forum.engine.ports import Call, Halt, Reply
from forum.errors import Overtaken
from forum.ledger import Account, Attachment, Bytes, Charge, Draft, Outcome, Recorded, entries_of
from forum.tlog import Hash
from forum.work import (
    WITH_TOOLS,
    Answer,
    Called,
    Check,
    Claim,
    Delegated,
    Demand,
    Independence,
    Judged,
    Judgement,
    Next,
    Policy,
    Prompt,
    Quoted,
    Role,
    Stopped,
    StopReason,
    Use,
    Why,
    demands_of,
    find_claims,
    fold,
    judge,
    judge_deed,
    opening,
    quote,
    read_file_demand,
    rung_of,
    schema_of,
    task_prompt,
    task_strand,
    unfinished,
    unverified,
    verdict_on,
)

_SHORT = 10_000
"""What is so short is read where others wait for it."""


@dataclass(frozen=True, slots=True)
class Opined:
    """A judgement, and who has judged where code could not."""

    judgement: Judgement
    judge: str = ""
    independence: Independence = Independence.NONE
    words: str = ""
    """What the judge said; it is for the one who tries again."""


class TaskDriver:
    """Carries out one task of one run."""

    def __init__(self, world: World, case: Case, task: str, stop: Stop) -> None:
        self._case, self._task = case, case.plan.by_id[task]
        self._caller = Caller(world, case, task, stop)
        self._policy = self._caller.policy
        self._ledger, self._prior = world.ledger, self._caller.prior
        self._hands = Hands(self._caller, case.policy.tools_of(self._task), self._task.lane)
        self._agent = case.policy.worker_of(self._task)
        self._verdicts: tuple[Judged, ...] = ()

    async def drive(self) -> None:
        """Go on with the task until it has ended, or waits for somebody."""
        await self._caller.drive(self._attempts)

    # Attempts

    async def _attempts(self) -> None:
        instruction, cause = await self._approved()
        upstream = _Upstream([], [])
        if self._task.upstream:
            upstream = await asyncio.to_thread(self._read_upstream)
        causes = await join(self._caller.strand, [cause, *upstream.causes])
        background, causes = await self._hands.background(instruction, causes)
        inputs = [*background, *upstream.inputs]
        lane = self._policy.lanes.get(self._task.lane)
        told = task_prompt(instruction, self._task.done_when, inputs)
        prompt = opening(lane.instructions if lane else "", told)
        if self._task.is_delegated:
            await self._delegate(instruction, prompt, causes)
            return
        while True:
            verdict, prompt = await self._attempt(instruction, prompt, causes)
            self._verdicts = (*self._verdicts, verdict)
            if verdict.next in (Next.ACCEPT, Next.GIVE_UP):
                return
            causes = ()

    async def _approved(self) -> tuple[str, Hash]:
        """Return the instruction that may be carried out, and the entry that allows it."""
        case, subject = self._case, f"task/{self._task.id}"
        if not self._is_guarded(subject):
            return self._task.instruction, case.plan_entry
        shown = self._task.instruction.encode()
        asked = self._policy.ruled(()).guards(self._task)
        ruled = not asked or any(r.holds_for_task(self._task.lane) for r in self._policy.gate_rules)
        policy = self._policy.rejecting() if ruled else self._policy
        decision = await pass_gate(self._ledger, case.run, subject, shown, policy, case.plan_entry)
        if decision is None:
            raise Waiting
        self._caller.allowed_by = decision.entry
        if decision.answer is Answer.REJECT:
            raise Halt(Stopped(StopReason.REJECTED, by=self._task.id))
        return decision.shown.decode(), decision.entry

    def _is_guarded(self, subject: str) -> bool:
        prior = self._prior
        return self._policy.guards(self._task) or (prior is not None and prior.has_gate(subject))

    async def _attempt(
        self, instruction: str, first: Prompt, causes: tuple[Hash, ...]
    ) -> tuple[Judged, Prompt]:
        """Try once; return the verdict, and what is told in the next attempt."""
        number = len(self._verdicts) + 1
        agent = self._policy.ladder_of(self._agent)[rung_of(self._verdicts)]
        prompt, turns, question, offers = first, Turns(number), b"", self._hands.offers()
        # A form would leave no words for wishes.
        schema = b"" if offers else schema_of(self._task.done_when)
        while True:
            ask = Ask(agent, prompt, causes, question, schema=schema, offers=offers)
            exchange = await self._caller.exchange(turns, ask)
            causes = ()
            if exchange.replied.outcome is not Outcome.OK or not exchange.uses:
                break
            await self._caller.record(exchange)
            results = [
                await self._hands.use(turns, use, self._agent or ENGINE) for use in exchange.uses
            ]
            question = b"".join(quote(result) for result in results)
            own = exchange.said(self._policy.input_bytes)
            prompt = prompt.after(own, exchange.uses, results)
        opined, exchange = await self._opinion(instruction, turns, exchange)
        verdict = await self._judge(number, exchange, opined)
        if exchange.replied.outcome is not Outcome.OK or not opined.words:
            return verdict, first
        return verdict, first.again(exchange.said(self._policy.input_bytes), opined.words)

    # Verdicts

    async def _opinion(
        self, instruction: str, turns: Turns, exchange: Exchange
    ) -> tuple[Opined, Exchange]:
        """Judge a result: by code first, by tools then, and by a model where neither can tell."""
        outcome, demands = exchange.replied.outcome, demands_of(self._task.done_when)
        judgement = await self._judged(outcome, exchange.output)
        checks = [demand for demand in demands if demand.check in WITH_TOOLS]
        words = [demand.what for demand in demands if demand.check is Check.MODEL]
        reader = self._policy.roles.get(Role.VALIDATOR) if words or not demands else None
        if judgement.passed and (checks or reader is not None):
            await self._caller.record(exchange)
            exchange = replace(exchange, unrecorded=())
        for number, demand in enumerate(checks, 1):
            if judgement.passed:
                judgement = await self._check(turns, number, demand, exchange)
        if not judgement.passed or reader is None:
            return Opined(judgement), exchange
        result = Quoted("the result", exchange.output[: self._policy.input_bytes], exchange.size)
        opinion = await judge_independently(
            self._caller, turns, reader, instruction, "\n".join(words), result
        )
        reason = "" if opinion.passed else "not-accepted"
        judgement = Judgement(passed=opinion.passed, check=Check.MODEL, reason=reason)
        told = "" if opinion.passed else opinion.reason
        who = independence(opinion.model, exchange.model)
        return Opined(judgement, reader, who, told), exchange

    async def _judged(self, outcome: Outcome, output: bytes) -> Judgement:
        """Judge by code, which may take a second where much is demanded: others do not wait."""
        demanded = self._task.done_when
        if not demanded:
            return judge(demanded, outcome, output)
        return await asyncio.to_thread(judge, demanded, outcome, output)

    async def _check(
        self, turns: Turns, number: int, demand: Demand, exchange: Exchange
    ) -> Judgement:
        """Have a demand checked by a tool, which is given the result."""
        step = f"attempt/{turns.attempt}/check/{number}"
        if demand.check is Check.FILE:
            use = Use(DIGEST, read_file_demand(demand.what)[0])
        else:
            use = Use(demand.what, exchange.output.decode(errors="replace"))
        outcome, said = await self._hands.check(step, use)
        return judge_deed(demand, outcome, said)

    async def _judge(
        self, number: int, exchange: Exchange, opined: Opined, policy: Policy | None = None
    ) -> Judged:
        step = f"attempt/{number}/verdict"
        found = self._caller.strand.recorded(step)
        if found is None:
            draft = await self._verdict(step, exchange, opined, policy or self._policy)
            found = (await self._caller.keep(*exchange.unrecorded, draft))[-1]
        judged: Judged = found.entry.facts
        await self._caller.pause(found.entry.ts, 1000 * judged.pause)
        return judged

    async def _verdict(
        self, step: str, exchange: Exchange, opined: Opined, policy: Policy
    ) -> Draft:
        outcome = exchange.replied.outcome
        verdict = verdict_on(opined.judgement, outcome, self._verdicts, policy, self._agent)
        claims = await self._claims(exchange.output)
        verdict = msgspec.structs.replace(
            verdict,
            judge=opined.judge,
            independence=opined.independence,
            claims=len(claims),
            unverified=unverified(claims),
        )
        bodies: tuple[Attachment, ...] = ()
        if claims:
            listed = Bytes(msgspec.json.encode(claims))
            bodies = (Attachment("claims", listed, "application/json"),)
        ends = verdict.next in (Next.ACCEPT, Next.GIVE_UP)
        effects = self._caller.wake() if ends else ()
        return Draft(step, ENGINE, verdict, (), bodies, effects)

    async def _claims(self, output: bytes) -> tuple[Claim, ...]:
        """Return what a result says was done, with the effects of this task that show it."""
        if len(output) < _SHORT and not find_claims(output, ()):
            return ()
        return await asyncio.to_thread(self._shown, output)

    def _shown(self, output: bytes) -> tuple[Claim, ...]:
        task = fold(entries_of(self._ledger, self._case.run, task_strand(self._task.id)))
        return find_claims(output, receipts_of(self._ledger, task))

    # A plan within the plan

    async def _delegate(self, instruction: str, prompt: Prompt, causes: tuple[Hash, ...]) -> None:
        """Have the plan within carried out by a run of its own, and judge what it says."""
        strand, turns = self._caller.strand, Turns(1)
        call_step, reply_step = turns.next_call()
        found, call = strand.recorded("delegate"), None
        if found is None:
            found, _ = await self._allot(call_step, prompt, causes)
        else:
            call = strand.recorded(call_step)
        recorded = strand.recorded(reply_step)
        if recorded is not None and call is not None:
            exchange = self._caller.recall(call, recorded)
        else:
            delegated: Delegated = found.entry.facts
            amount = reserve_for(delegated)
            reply = await asyncio.to_thread(self._follow, delegated, prompt.text, reply_step)
            facts = Called(RUN, RUN, 1, 1, amount.usd, amount.tokens)
            exchange = self._caller.answer(reply_step, facts, amount, reply)
        opined, exchange = await self._opinion(instruction, turns, exchange)
        await self._judge(1, exchange, opined, self._policy.once())

    async def _allot(
        self, step: str, prompt: Prompt, causes: tuple[Hash, ...]
    ) -> tuple[Recorded, Recorded]:
        """Set aside what the run within may use, and record which run it is."""
        known = self._prior.allotment(self._task.id) if self._prior else None
        if known is None:
            self._caller.check_limits(1)
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
                named, call = await self._caller.reserve(
                    step, facts, Ask(RUN, prompt), charge, naming
                )
            except Halt:
                # Others spend meanwhile: what was left when we looked may be less by now.
                if account == (await asyncio.to_thread(self._left))[0]:
                    raise
            else:
                return named, call

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
        stop = self._caller.stop
        if stop.left:
            raise Overtaken(f"task {self._case.run}/{self._task.id}")
        if stop.halt.is_set() and not self._ledger.store.strands(delegated.run):
            return Reply(Outcome.CANCELLED, why=Why.CANCELLED)
        request = prompt.decode(errors="replace")  # what is quoted in it may be no text, or cut
        case = replace(self._case, policy=self._policy)
        open_child(self._ledger, case, self._task, delegated, request)
        follow_parent(self._ledger, self._case.run, delegated.run)
        reply = child_reply(self._ledger, delegated)
        if reply is None:
            raise Waiting
        return reply

    # Causes

    def _read_upstream(self) -> "_Upstream":
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
                inputs.append(Quoted(f"task {name}", head, size))
        return _Upstream(inputs, causes)


@dataclass(frozen=True, slots=True)
class _Upstream:
    inputs: list[Quoted]
    causes: list[Hash]
