"""Carrying out one task: attempts, calls, effects and verdicts, each recorded before the next.

The strand of the task is played first: what is recorded is not done again.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from forum.engine.child_runs import (
    CHILD_RUN,
    allot_budget,
    read_child_reply,
    reservation_of,
    start_child_run,
)
from forum.engine.context import ENGINE, RunContext, join_causes, read_body, read_run
from forum.engine.gates import pass_gate
from forum.engine.interruption import follow_parent
from forum.engine.model_calls import (
    CallResult,
    CallSpec,
    ModelCaller,
    Services,
    StepNames,
    TaskSuspended,
)
from forum.engine.ports import CallReply, ModelCall, TaskHalted
from forum.engine.signals import CancelToken
from forum.engine.structured_output import independence, judge_independently
from forum.engine.tools import DIGEST_TOOL, ToolRunner, receipts_of
from forum.errors import ConcurrentUpdate
from forum.ledger import (
    Attachment,
    BudgetAccount,
    BudgetCharge,
    BytesContent,
    Draft,
    Outcome,
    RecordedEntry,
    read_strand_entries,
)
from forum.tlog import Hash
from forum.work import (
    TOOL_CHECKS,
    ActionClaim,
    Answer,
    CallFacts,
    Check,
    Criterion,
    DelegationFacts,
    Independence,
    Judgement,
    Next,
    Policy,
    Prompt,
    Quotation,
    Role,
    StopFacts,
    StopReason,
    ToolCall,
    VerdictFacts,
    Why,
    build_prompt,
    count_unverified,
    decide_verdict,
    escalation_level,
    find_claims,
    fold,
    judge_output,
    judge_tool_result,
    parse_criteria,
    parse_file_criterion,
    quote,
    result_schema,
    task_prompt,
    task_strand,
    unfinished_tasks,
)

_SHORT_OUTPUT_BYTES = 10_000
"""What is so short is read where others wait for it."""


@dataclass(frozen=True, slots=True)
class AttributedJudgement:
    """A judgement, and who has judged where code could not."""

    judgement: Judgement
    judge: str = ""
    independence: Independence = Independence.NONE
    words: str = ""
    """What the judge said; it is for the one who tries again."""


class TaskDriver:
    """Carries out one task of one run."""

    def __init__(self, world: Services, case: RunContext, task: str, stop: CancelToken) -> None:
        self._case, self._task = case, case.plan.by_id[task]
        self._caller = ModelCaller(world, case, task, stop)
        self._policy = self._caller.policy
        self._ledger, self._prior = world.ledger, self._caller.prior
        self._tools = ToolRunner(self._caller, case.policy.tools_of(self._task), self._task.lane)
        self._agent = case.policy.worker_of(self._task)
        self._verdicts: tuple[VerdictFacts, ...] = ()

    async def drive(self) -> None:
        """Go on with the task until it has ended, or waits for somebody."""
        await self._caller.drive(self._run_attempts)

    # Attempts

    async def _run_attempts(self) -> None:
        instruction, cause = await self._approved_instruction()
        upstream = _UpstreamInputs([], [])
        if self._task.upstream:
            upstream = await asyncio.to_thread(self._read_upstream)
        causes = await join_causes(self._caller.strand, [cause, *upstream.causes])
        background, causes = await self._tools.gather_context(instruction, causes)
        inputs = [*background, *upstream.inputs]
        lane = self._policy.lanes.get(self._task.lane)
        told = task_prompt(instruction, self._task.done_when, inputs)
        prompt = build_prompt(lane.instructions if lane else "", told)
        if self._task.is_delegated:
            await self._delegate(instruction, prompt, causes)
            return
        while True:
            verdict, prompt = await self._run_attempt(instruction, prompt, causes)
            self._verdicts = (*self._verdicts, verdict)
            if verdict.next in (Next.ACCEPT, Next.GIVE_UP):
                return
            causes = ()

    async def _approved_instruction(self) -> tuple[str, Hash]:
        """Return the instruction that may be carried out, and the entry that allows it."""
        case, subject = self._case, f"task/{self._task.id}"
        if not self._is_guarded(subject):
            return self._task.instruction, case.plan_entry
        shown = self._task.instruction.encode()
        asked = self._policy.with_gate_rules(()).is_gated(self._task)
        ruled = not asked or any(r.holds_for_task(self._task.lane) for r in self._policy.gate_rules)
        policy = self._policy.with_reject_default() if ruled else self._policy
        decision = await pass_gate(self._ledger, case.run, subject, shown, policy, case.plan_entry)
        if decision is None:
            raise TaskSuspended
        self._caller.allowed_by = decision.entry
        if decision.answer is Answer.REJECT:
            raise TaskHalted(StopFacts(StopReason.REJECTED, by=self._task.id))
        return decision.shown.decode(), decision.entry

    def _is_guarded(self, subject: str) -> bool:
        prior = self._prior
        return self._policy.is_gated(self._task) or (prior is not None and prior.has_gate(subject))

    async def _run_attempt(
        self, instruction: str, first: Prompt, causes: tuple[Hash, ...]
    ) -> tuple[VerdictFacts, Prompt]:
        """Try once; return the verdict, and what is told in the next attempt."""
        number = len(self._verdicts) + 1
        agent = self._policy.ladder_of(self._agent)[escalation_level(self._verdicts)]
        prompt, turns, question, offers = first, StepNames(number), b"", self._tools.offers()
        # A form would leave no words for wishes.
        schema = b"" if offers else result_schema(self._task.done_when)
        while True:
            ask = CallSpec(agent, prompt, causes, question, schema=schema, offers=offers)
            exchange = await self._caller.make_call(turns, ask)
            causes = ()
            if exchange.replied.outcome is not Outcome.OK or not exchange.uses:
                break
            await self._caller.record_reply(exchange)
            results = [
                await self._tools.use_tool(turns, use, self._agent or ENGINE)
                for use in exchange.uses
            ]
            question = b"".join(quote(result) for result in results)
            own = exchange.quote_output(self._policy.input_bytes)
            prompt = prompt.with_tool_results(own, exchange.uses, results)
        opined, exchange = await self._judge_result(instruction, turns, exchange)
        verdict = await self._record_verdict(number, exchange, opined)
        if exchange.replied.outcome is not Outcome.OK or not opined.words:
            return verdict, first
        return verdict, first.with_rejection(
            exchange.quote_output(self._policy.input_bytes), opined.words
        )

    # Verdicts

    async def _judge_result(
        self, instruction: str, turns: StepNames, exchange: CallResult
    ) -> tuple[AttributedJudgement, CallResult]:
        """Judge a result: by code first, by tools then, and by a model where neither can tell."""
        outcome, demands = exchange.replied.outcome, parse_criteria(self._task.done_when)
        judgement = await self._judge_by_code(outcome, exchange.output)
        checks = [demand for demand in demands if demand.check in TOOL_CHECKS]
        words = [demand.what for demand in demands if demand.check is Check.MODEL]
        reader = self._policy.roles.get(Role.VALIDATOR) if words or not demands else None
        if judgement.passed and (checks or reader is not None):
            await self._caller.record_reply(exchange)
            exchange = replace(exchange, unrecorded=())
        for number, demand in enumerate(checks, 1):
            if judgement.passed:
                judgement = await self._check_by_tool(turns, number, demand, exchange)
        if not judgement.passed or reader is None:
            return AttributedJudgement(judgement), exchange
        result = Quotation("the result", exchange.output[: self._policy.input_bytes], exchange.size)
        opinion = await judge_independently(
            self._caller, turns, reader, instruction, "\n".join(words), result
        )
        reason = "" if opinion.passed else "not-accepted"
        judgement = Judgement(passed=opinion.passed, check=Check.MODEL, reason=reason)
        told = "" if opinion.passed else opinion.reason
        who = independence(opinion.model, exchange.model)
        return AttributedJudgement(judgement, reader, who, told), exchange

    async def _judge_by_code(self, outcome: Outcome, output: bytes) -> Judgement:
        """Judge by code, which may take a second where much is demanded: others do not wait."""
        demanded = self._task.done_when
        if not demanded:
            return judge_output(demanded, outcome, output)
        return await asyncio.to_thread(judge_output, demanded, outcome, output)

    async def _check_by_tool(
        self, turns: StepNames, number: int, demand: Criterion, exchange: CallResult
    ) -> Judgement:
        """Have a demand checked by a tool, which is given the result."""
        step = f"attempt/{turns.attempt}/check/{number}"
        if demand.check is Check.FILE:
            use = ToolCall(DIGEST_TOOL, parse_file_criterion(demand.what)[0])
        else:
            use = ToolCall(demand.what, exchange.output.decode(errors="replace"))
        outcome, said = await self._tools.run_check(step, use)
        return judge_tool_result(demand, outcome, said)

    async def _record_verdict(
        self,
        number: int,
        exchange: CallResult,
        opined: AttributedJudgement,
        policy: Policy | None = None,
    ) -> VerdictFacts:
        step = f"attempt/{number}/verdict"
        found = self._caller.strand.replay_step(step)
        if found is None:
            draft = await self._verdict_draft(step, exchange, opined, policy or self._policy)
            found = (await self._caller.append_with_retry(*exchange.unrecorded, draft))[-1]
        judged: VerdictFacts = found.entry.facts
        await self._caller.wait_before_retry(found.entry.ts, 1000 * judged.pause)
        return judged

    async def _verdict_draft(
        self, step: str, exchange: CallResult, opined: AttributedJudgement, policy: Policy
    ) -> Draft:
        outcome = exchange.replied.outcome
        verdict = decide_verdict(opined.judgement, outcome, self._verdicts, policy, self._agent)
        claims = await self._find_claims(exchange.output)
        verdict = msgspec.structs.replace(
            verdict,
            judge=opined.judge,
            independence=opined.independence,
            claims=len(claims),
            unverified=count_unverified(claims),
        )
        bodies: tuple[Attachment, ...] = ()
        if claims:
            listed = BytesContent(msgspec.json.encode(claims))
            bodies = (Attachment("claims", listed, "application/json"),)
        ends = verdict.next in (Next.ACCEPT, Next.GIVE_UP)
        effects = self._caller.wake_run_effects() if ends else ()
        return Draft(step, ENGINE, verdict, (), bodies, effects)

    async def _find_claims(self, output: bytes) -> tuple[ActionClaim, ...]:
        """Return what a result says was done, with the effects of this task that show it."""
        if len(output) < _SHORT_OUTPUT_BYTES and not find_claims(output, ()):
            return ()
        return await asyncio.to_thread(self._find_backed_claims, output)

    def _find_backed_claims(self, output: bytes) -> tuple[ActionClaim, ...]:
        task = fold(read_strand_entries(self._ledger, self._case.run, task_strand(self._task.id)))
        return find_claims(output, receipts_of(self._ledger, task))

    # A plan within the plan

    async def _delegate(self, instruction: str, prompt: Prompt, causes: tuple[Hash, ...]) -> None:
        """Have the plan within carried out by a run of its own, and judge what it says."""
        strand, turns = self._caller.strand, StepNames(1)
        call_step, reply_step = turns.next_call()
        found, call = strand.replay_step("delegate"), None
        if found is None:
            found, _ = await self._reserve_allotment(call_step, prompt, causes)
        else:
            call = strand.replay_step(call_step)
        recorded = strand.replay_step(reply_step)
        if recorded is not None and call is not None:
            exchange = self._caller.read_recorded_call(call, recorded)
        else:
            delegated: DelegationFacts = found.entry.facts
            amount = reservation_of(delegated)
            reply = await asyncio.to_thread(self._child_reply, delegated, prompt.text, reply_step)
            facts = CallFacts(CHILD_RUN, CHILD_RUN, 1, 1, amount.usd, amount.tokens)
            exchange = self._caller.settle_reply(reply_step, facts, amount, reply)
        opined, exchange = await self._judge_result(instruction, turns, exchange)
        await self._record_verdict(1, exchange, opined, self._policy.without_retries())

    async def _reserve_allotment(
        self, step: str, prompt: Prompt, causes: tuple[Hash, ...]
    ) -> tuple[RecordedEntry, RecordedEntry]:
        """Set aside what the run within may use, and record which run it is."""
        known = self._prior.allotment(self._task.id) if self._prior else None
        if known is None:
            self._caller.check_limits(1)
        if self._case.accepted.depth == 0:
            raise TaskHalted(StopFacts(StopReason.DEPTH, "depth", 1, 0, 0, self._task.id))
        while True:
            account, sharers = await asyncio.to_thread(self._remaining_budget)
            delegated = known or allot_budget(self._case.run, self._task, account, sharers)
            amount = reservation_of(delegated)
            facts = CallFacts(CHILD_RUN, CHILD_RUN, 1, 1, amount.usd, amount.tokens)
            naming = Draft("delegate", ENGINE, delegated, causes)
            charge = BudgetCharge(self._case.run, amount, guarded=known is None)
            try:
                named, call = await self._caller.reserve_and_record(
                    step, facts, CallSpec(CHILD_RUN, prompt), charge, naming
                )
            except TaskHalted:
                # Others spend meanwhile: what was left when we looked may be less by now.
                if account == (await asyncio.to_thread(self._remaining_budget))[0]:
                    raise
            else:
                return named, call

    def _remaining_budget(self) -> tuple[BudgetAccount | None, int]:
        """Return the account of the run, and how many tasks have to share what is left of it."""
        state = read_run(self._ledger, self._case.run)
        sharers = sum(1 for _ in unfinished_tasks(self._case.plan, state))
        return self._ledger.store.account(self._case.run), sharers

    def _child_reply(self, delegated: DelegationFacts, prompt: bytes, step: str) -> CallReply:
        """Return what came of the run within; it is opened first, where that is yet to be done."""
        if self._prior is not None:
            call = ModelCall(self._case.run, self._task.id, step, 1, BytesContent(prompt), 0.0)
            known = self._prior.find_reply(call)
            if known is not None:
                return known.reply
        stop = self._caller.cancel_token
        if stop.left:
            raise ConcurrentUpdate(f"task {self._case.run}/{self._task.id}")
        if stop.stop_requested.is_set() and not self._ledger.store.strands(delegated.run):
            return CallReply(Outcome.CANCELLED, why=Why.CANCELLED)
        request = prompt.decode(errors="replace")  # what is quoted in it may be no text, or cut
        case = replace(self._case, policy=self._policy)
        start_child_run(self._ledger, case, self._task, delegated, request)
        follow_parent(self._ledger, self._case.run, delegated.run)
        reply = read_child_reply(self._ledger, delegated)
        if reply is None:
            raise TaskSuspended
        return reply

    # Causes

    def _read_upstream(self) -> "_UpstreamInputs":
        """Read what the tasks before this one have said, as far as it is given on."""
        inputs, causes = [], []
        for name in self._task.upstream:
            task = fold(read_strand_entries(self._ledger, self._case.run, task_strand(name))).task(
                name
            )
            if task.last is not None:
                causes.append(task.last)
            if name in self._task.needs and task.result and task.result.reply_at:
                limit, at = self._policy.input_bytes, task.result.reply_at
                entry = next(read_strand_entries(self._ledger, at.run, at.strand, at.n))[1]
                size = entry.bodies["output"].size if "output" in entry.bodies else 0
                head = read_body(self._ledger, at, "output", limit) if size else b""
                inputs.append(Quotation(f"task {name}", head, size))
        return _UpstreamInputs(inputs, causes)


@dataclass(frozen=True, slots=True)
class _UpstreamInputs:
    inputs: list[Quotation]
    causes: list[Hash]
