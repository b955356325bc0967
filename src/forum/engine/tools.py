"""Run tools so that an effect that has happened is not repeated.

The intent is recorded before the tool is invoked, the outcome after.  An intent without an outcome
belongs to a worker that died: the effect may or may not have happened, and a gate asks a person
which.  Only read-only tools are run again without asking.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from forum.engine import context, model_calls, ports
from forum.engine.gates import pass_gate
from forum.errors import BodyGone, BudgetSliceExhausted, CapReached
from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Position, Spend
from forum.ledger.strand import Attachment, Draft, RecordedEntry
from forum.runs import kinds, policy
from forum.runs.call_rules import read_agent_question
from forum.runs.claims import Receipt
from forum.runs.gate_rules import rule_for_use, sums_for_use
from forum.runs.prompt import Quotation, build_prompt
from forum.runs.run_fold import Run
from forum.runs.schedule import MAX_CHECK_ATTEMPTS
from forum.runs.shared_caps import Limit
from forum.tlog import Hash

DIGEST_TOOL = "forum:digest"
"""The built-in tool that returns the digest of a file."""
_MAX_SHOWN_BYTES = 65_536
"""The number of bytes read of an effect's arguments and result when claims are compared."""


@dataclass(frozen=True, slots=True)
class _ToolRequest:
    """A requested tool call, and the step and actor under which it is recorded."""

    step: str
    use: policy.ToolCall
    tool: policy.ToolSpec | None
    actor: str = context.ENGINE
    number: int = 0
    """The ordinal of this effect among identical ones of the same attempt."""
    causes: tuple[Hash, ...] = ()
    is_look: bool = False
    """Whether the tool is read-only, so that an unknown outcome needs no human decision."""


class _ShownToolCall(msgspec.Struct, frozen=True):
    """The tool call as shown to the person who approves it."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class _ToolGateResult:
    """The result of the gate before an effect; empty if no gate applies."""

    causes: tuple[Hash, ...] = ()
    """The entry of the decision that allows or denies the effect."""
    refusal: str = ""
    """The code of the refusal; empty if the effect is allowed."""
    sums: tuple[tuple[Limit, Spend], ...] = ()
    """What the effect adds to the sums of gate rules; without room for it, a person is asked."""


class ToolRunner:
    """Runs the tools that the agents of one task request, and those that its checks need."""

    def __init__(
        self,
        caller: model_calls.ModelCaller,
        allowed: tuple[str, ...],
        lane: str = "",
        *,
        may_wait: bool = True,
    ) -> None:
        """Take the tools that an agent may use, and the lane whose gate rules apply.

        With `may_wait=False`, a tool call that needs approval is denied instead of waiting.
        """
        self._caller, self._policy = caller, caller.policy
        self._ledger = caller.ledger
        self._allowed, self._lane = allowed, lane
        self._may_wait = may_wait
        self._first_intents: dict[tuple[policy.ToolCall, int], Hash] = {}
        self._known_outcomes: dict[str, RecordedEntry] = {}
        self._used = 0

    def offers(self) -> tuple[ports.ToolOffer, ...]:
        """Return the descriptions of the allowed tools, as offered to an agent."""
        tools = ((name, self._policy.tools[name]) for name in self._allowed)
        return tuple(
            ports.ToolOffer(
                name, tool.description, msgspec.json.encode(tool.schema) if tool.schema else b""
            )
            for name, tool in tools
        )

    async def use_tool(
        self, turns: model_calls.StepNames, use: policy.ToolCall, actor: str
    ) -> Quotation:
        """Run a tool call that an agent requested, and return its result as a quotation."""
        if use.tool == policy.ASK_TOOL:
            return await self._ask_agent(turns, use)
        step, number = turns.next_tool_call(use)
        tool = self._policy.tools.get(use.tool) if use.tool in self._allowed else None
        return self._quote_result(
            use,
            await self._run_once(
                _ToolRequest(step=step, use=use, tool=tool, actor=actor, number=number)
            ),
        )

    async def run_check(
        self, step: str, use: policy.ToolCall, causes: tuple[Hash, ...] = ()
    ) -> tuple[Outcome, bytes]:
        """Run a check with a read-only tool; return its outcome and the beginning of its result."""
        tool = (
            policy.ToolSpec((DIGEST_TOOL,))
            if use.tool == DIGEST_TOOL
            else self._policy.tools.get(use.tool)
        )
        recorded = await self._run_read_only(
            _ToolRequest(step, use, tool, causes=causes, is_look=True)
        )
        facts: kinds.OutcomeFacts = recorded.entry.facts
        return facts.outcome, self._result_prefix(recorded)

    async def gather_context(
        self, question: str, causes: tuple[Hash, ...]
    ) -> tuple[list[Quotation], tuple[Hash, ...]]:
        """Run the policy's context tools on a question; return their results and remaining causes.

        The first recorded step names the causes, so none remain once a tool was run.
        """
        results = []
        for number, name in enumerate(self._policy.context, 1):
            use, tool = policy.ToolCall(name, question), self._policy.tools.get(name)
            tool_request = _ToolRequest(f"context/{number}", use, tool, causes=causes, is_look=True)
            results.append(self._quote_result(use, await self._run_read_only(tool_request)))
            causes = ()
        return results, causes

    async def _run_read_only(self, tool_request: "_ToolRequest") -> RecordedEntry:
        """Run a read-only tool, again if its worker died, up to `MAX_CHECK_ATTEMPTS` times."""
        recorded, number = await self._run_once(tool_request), 1
        while recorded.entry.facts.why is kinds.Why.LOST and number < MAX_CHECK_ATTEMPTS:
            number += 1
            step = f"{tool_request.step}/{number}"
            recorded = await self._run_once(
                replace(tool_request, step=step, number=number, causes=())
            )
        return recorded

    async def _run_once(self, tool_request: "_ToolRequest") -> RecordedEntry:
        """Run one tool call, or read its recorded outcome, and return the entry of the outcome.

        A later attempt that requests an effect that has succeeded gets the recorded result.
        """
        self._used += 1
        strand, use = self._caller.strand, tool_request.use
        step = tool_request.step
        # A read-only tool runs anew each time: what it reads may have changed.
        first = (
            None if tool_request.is_look else self._first_intents.get((use, tool_request.number))
        )
        intent = strand.replay_step(step)
        fresh, denials = intent is None, list[RecordedEntry]()
        if intent is None:
            if self._caller.reply_source is not None:
                await asyncio.to_thread(
                    self._caller.reply_source.raise_if_stopped_before, self._caller.task, step
                )
            await self._caller.wait_while_paused()
            self._caller.check_time()
            gate = await self._pass_gate(
                tool_request, is_new=first is None or first.hex() not in self._known_outcomes
            )
            try:
                intent, *denials = await self._record_intent(tool_request, first, gate)
            except CapReached:
                # Of a sum: nothing was recorded, and a person decides.
                gate = await self._ask_person(tool_request)
                intent, *denials = await self._record_intent(tool_request, first, gate)
        own = intent.leaf
        # The leaf of the first intent identifies the effect across attempts.  Tools get it as an
        # idempotency key.
        key = (
            own
            if tool_request.is_look
            else self._first_intents.setdefault((use, tool_request.number), own)
        ).hex()
        outcome = denials[0] if denials else strand.replay_step(f"{step}/outcome")
        if outcome is None and fresh:
            outcome = await self._run_or_reuse(tool_request, key)
        elif outcome is None:
            # Another worker recorded this intent and died: the tool may have been invoked.
            outcome = await self._record_lost(step)
        if not tool_request.is_look and outcome.entry.facts.outcome is Outcome.INDETERMINATE:
            outcome = await self._resolve_indeterminate(step, intent, outcome)
        if outcome.entry.facts.outcome is Outcome.OK and not outcome.entry.facts.known:
            self._known_outcomes[key] = outcome
        return outcome

    async def _record_intent(
        self, tool_request: "_ToolRequest", first: Hash | None, gate: "_ToolGateResult"
    ) -> tuple[RecordedEntry, ...]:
        """Record the intent, with its outcome if it is denied.  Raises `CapReached` of a sum."""
        use, step = tool_request.use, tool_request.step
        body = Attachment("arguments", BytesContent(use.arguments.encode(errors="replace")))
        # Facts are part of the leaf, which cannot be erased.  So a tool name that an agent made up
        # is not recorded there.
        name = use.tool if tool_request.tool or use.tool in self._policy.tools else "unknown"
        facts = kinds.IntentFacts(name, first.hex() if first else "")
        causes = gate.causes or tool_request.causes
        intent = Draft(
            step=step, actor=tool_request.actor, facts=facts, parents=causes, bodies=(body,)
        )
        denials = []
        if gate.refusal:
            # In the commit of the intent: a crash cannot leave a denied intent without an outcome,
            # for which a person would be asked whether it happened.
            denied = kinds.OutcomeFacts(Outcome.DENIED, kinds.Why.ERROR, gate.refusal)
            denials.append(Draft(f"{step}/outcome", context.ENGINE, denied))

        strand, budgets = self._caller.strand, self._caller.services.budgets
        if not gate.sums or budgets is None:
            return await strand.append_exclusive_async(intent, *denials)
        attempts = budgets.attempts_each(gate.sums)
        while True:
            # In the commit of the intent: two uses cannot both take what is left, and a worker that
            # is killed has either used it or not.
            charged = msgspec.structs.replace(intent, effects=attempts.charges())
            try:
                return await strand.append_exclusive_async(charged, *denials)
            except BudgetSliceExhausted as refused:
                await attempts.take_slice_async(refused)

    async def _pass_gate(self, tool_request: "_ToolRequest", *, is_new: bool) -> "_ToolGateResult":
        """Pass the gate of a tool call if a rule requires approval, before its intent is recorded.

        An effect whose earlier outcome is reused needs no second approval.  Raises `TaskSuspended`
        while the decision is pending.
        """
        caller, use = self._caller, tool_request.use
        if tool_request.tool is None or use.tool == DIGEST_TOOL or not is_new:
            return _ToolGateResult()
        if rule_for_use(self._policy.gate_rules, use.tool, self._lane, use.arguments) is None:
            subject = kinds.tool_gate_subject(caller.task, self._used)
            if not (caller.reply_source and caller.reply_source.has_gate(subject)):
                sums = await asyncio.to_thread(self._find_sums, use, subject)
                if sums is not None:
                    return _ToolGateResult(sums=sums)
        return await self._ask_person(tool_request)

    def _find_sums(
        self, use: policy.ToolCall, subject: str
    ) -> tuple[tuple[Limit, Spend], ...] | None:
        """Return what a use adds to the sums of gate rules, or None if a person has to be asked."""
        caller, rules = self._caller, self._policy.gate_rules
        if not any(rule.adds_up(use.tool, self._lane) for rule in rules):
            return ()
        run = caller.run_input.run
        outermost = context.outermost_run(self._ledger, run)
        sums = sums_for_use(rules, use.tool, self._lane, use.arguments, run=outermost)
        if caller.services.budgets is None:
            # A replay has none: the record says where a person was asked.
            return () if caller.reply_source is not None else None
        # Once a person was asked, the person decides, even if the sum has room again.
        is_asked = self._ledger.store.last_entry(run, kinds.gate_strand(subject)) is not None
        return None if is_asked else sums

    async def _ask_person(self, tool_request: "_ToolRequest") -> "_ToolGateResult":
        """Open the gate of a tool call, or return its decision.  Raises `TaskSuspended`."""
        caller, use = self._caller, tool_request.use
        subject = kinds.tool_gate_subject(caller.task, self._used)
        if not self._may_wait:
            return _ToolGateResult(refusal="needs-approval")
        arguments = use.arguments.encode(errors="replace").decode()
        shown = msgspec.json.encode(_ShownToolCall(use.tool, arguments))
        causes = tool_request.causes or (caller.strand.head or caller.allowed_by,)
        decision = await pass_gate(
            self._ledger,
            caller.run_input.run,
            subject,
            shown,
            self._policy.with_reject_default(),
            *causes,
        )
        if decision is None:
            raise model_calls.TaskSuspended
        refusal = "" if decision.answer is policy.Answer.APPROVE else "rejected"
        return _ToolGateResult((decision.entry,), refusal)

    async def _run_or_reuse(self, tool_request: "_ToolRequest", key: str) -> RecordedEntry:
        """Invoke the tool, or reuse a known outcome of the same effect, and record the outcome."""
        before, caller = self._known_outcomes.get(key), self._caller
        step = tool_request.step
        if before is not None:
            facts = kinds.OutcomeFacts(Outcome.OK, known=before.leaf.hex())
            reply = ports.CallReply(Outcome.OK, self._stored_result(before))
            return await self._record_outcome(step, facts, reply, tool_request.actor)
        if tool_request.tool is None:
            reply = ports.CallReply(Outcome.DENIED, why=kinds.Why.ERROR, code="no-such-tool")
        else:
            arguments = BytesContent(tool_request.use.arguments.encode(errors="replace"))
            run, task = caller.run_input.run, caller.task
            name = tool_request.use.tool
            invocation = ports.ToolInvocation(
                run=run, task=task, step=f"{step}/outcome", tool=name, arguments=arguments, key=key
            )
            reply_of_source = (
                await asyncio.to_thread(caller.reply_source.find_outcome, invocation)
                if caller.reply_source
                else None
            )
            if reply_of_source is not None and reply_of_source.why is kinds.Why.LOST:
                return await self._record_lost(step)
            reply = reply_of_source or await self._invoke_tool(tool_request.tool, invocation)
        facts = kinds.OutcomeFacts(reply.outcome, reply.why, kinds.sanitize_name(reply.code))
        return await self._record_outcome(step, facts, reply, tool_request.actor)

    async def _invoke_tool(
        self, tool: policy.ToolSpec, invocation: ports.ToolInvocation
    ) -> ports.CallReply:
        """Invoke a tool, and return its reply.

        The outcome is indeterminate if the tool timed out, was cancelled or raised: its effect may
        have happened.
        """
        caller = self._caller
        seconds = caller.seconds_left(tool.seconds + 1)
        try:
            reply = await caller.run_until(caller.make_tool(tool).invoke(invocation), seconds)
            reply = reply or caller.cancelled_reply()
        except Exception as error:  # noqa: BLE001  recorded, and a person is asked
            return replace(model_calls.error_reply(error), outcome=Outcome.INDETERMINATE)
        unknown = reply.outcome in (Outcome.TIMEOUT, Outcome.CANCELLED) or (
            reply.why is kinds.Why.OVERSIZE
            and not tool.server  # the program was killed while it wrote
        )
        return replace(reply, outcome=Outcome.INDETERMINATE) if unknown else reply

    def _stored_result(self, outcome: RecordedEntry) -> Content:
        if "result" not in outcome.entry.bodies:
            return ports.EMPTY_CONTENT
        return context.open_body(self._ledger, context.position_of(outcome), "result")

    async def _record_outcome(
        self, step: str, facts: kinds.OutcomeFacts, reply: ports.CallReply, actor: str
    ) -> RecordedEntry:
        bodies = [Attachment("result", reply.output, "application/octet-stream")]
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        draft = Draft(
            step=f"{step}/outcome", actor=actor, facts=facts, parents=(), bodies=tuple(bodies)
        )
        return (await self._caller.append_with_retry(draft))[0]

    async def _record_lost(self, step: str) -> RecordedEntry:
        """Record an indeterminate outcome for an effect whose worker died."""
        facts = kinds.OutcomeFacts(Outcome.INDETERMINATE, kinds.Why.LOST)
        draft = Draft(f"{step}/outcome", context.ENGINE, facts)
        return (await self._caller.strand.append_exclusive_async(draft))[0]

    async def _resolve_indeterminate(
        self, step: str, intent: RecordedEntry, outcome: RecordedEntry
    ) -> RecordedEntry:
        """Ask a person whether an effect happened: approve means yes, reject means no.

        Raises `TaskSuspended` while the decision is pending.
        """
        caller = self._caller
        settled = caller.strand.replay_step(f"{step}/settled")
        if settled is not None:
            return settled
        shown = context.read_body(self._ledger, context.position_of(intent), "arguments")
        subject = f"effect/{caller.task}/{self._used}"
        decision = await pass_gate(
            self._ledger, caller.run_input.run, subject, shown, self._policy, outcome.leaf
        )
        if decision is None:
            raise model_calls.TaskSuspended
        happened = Outcome.OK if decision.answer is policy.Answer.APPROVE else Outcome.FAILED
        facts = kinds.OutcomeFacts(happened, kinds.Why.LOST, "by-decision")
        draft = Draft(f"{step}/settled", context.ENGINE, facts, (decision.entry,))
        return (await caller.strand.append_exclusive_async(draft))[0]

    def _quote_result(self, use: policy.ToolCall, outcome: RecordedEntry) -> Quotation:
        facts: kinds.OutcomeFacts = outcome.entry.facts
        source = f"{use.tool}, {facts.outcome.value}"
        if "result" not in outcome.entry.bodies:
            return Quotation(source, b"", 0)
        return Quotation(source, self._result_prefix(outcome), outcome.entry.bodies["result"].size)

    def _result_prefix(self, outcome: RecordedEntry) -> bytes:
        if "result" not in outcome.entry.bodies:
            return b""
        limit = self._policy.read_bytes
        return context.read_body(self._ledger, context.position_of(outcome), "result", limit)

    async def _ask_agent(self, turns: model_calls.StepNames, use: policy.ToolCall) -> Quotation:
        """Ask another agent, with an ordinary model call that is charged to the same run."""
        asked = read_agent_question(use, self._policy)
        if isinstance(asked, Quotation):
            return asked
        question = asked.text.encode()
        ask = model_calls.CallSpec(asked.agent, build_prompt("", question), question=question)
        result = await self._caller.make_call(turns, ask)
        await self._caller.record_reply(result)
        text = result.output[: self._policy.read_bytes]
        return Quotation(f"{asked.agent}, {result.replied.outcome.value}", text, result.size)


def receipts_of(ledger: Ledger, run: Run) -> tuple[Receipt, ...]:
    """Return the successful effects of a run; they can prove that a claimed action was done."""
    receipts = []
    # Sorted, because the order of tasks depends on the order in which the run was folded, and every
    # worker must assign the same receipts to the same claims.
    for _, task in sorted(run.tasks.items()):
        for use in task.uses:
            done = use.happened is not None and use.happened.outcome is Outcome.OK
            if done and use.outcome is not None and use.outcome_at is not None:
                arguments = _read_shown(ledger, use.at, "arguments")
                result = _read_shown(ledger, use.outcome_at, "result")
                receipts.append(Receipt(use.outcome.hex(), use.intended.tool, arguments, result))
    return tuple(receipts)


def _read_shown(ledger: Ledger, at: Position, name: str) -> str:
    """Return the beginning of a body, or nothing if it is absent or erased.

    An outcome that a person decided has no result body.
    """
    try:
        return context.read_body(ledger, at, name, _MAX_SHOWN_BYTES).decode(errors="replace")
    except BodyGone:
        return ""
