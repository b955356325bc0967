"""Having effects on the world, each once: the intent is recorded before, the outcome after.

An effect without its outcome may or may not have happened: a person is asked.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from forum.engine.context import ENGINE, open_body, position_of, read_body
from forum.engine.gates import pass_gate
from forum.engine.model_calls import CallSpec, ModelCaller, StepNames, TaskSuspended, error_reply
from forum.engine.ports import EMPTY_CONTENT, CallReply, ToolInvocation, ToolOffer
from forum.errors import BodyGone
from forum.ledger import (
    Attachment,
    BytesContent,
    Content,
    Draft,
    Ledger,
    Outcome,
    Position,
    RecordedEntry,
)
from forum.tlog import Hash
from forum.work import (
    ASK_TOOL,
    MAX_CHECK_ATTEMPTS,
    Answer,
    IntentFacts,
    OutcomeFacts,
    Quotation,
    Receipt,
    Run,
    ToolCall,
    ToolSpec,
    Why,
    build_prompt,
    rule_for_use,
    sanitize_name,
    tool_gate_subject,
)

DIGEST_TOOL = "forum:digest"
"""The tool that tells the digest of a file; every engine has it."""
_MAX_SHOWN_BYTES = 65_536
"""How much is looked at of the arguments and the result of an effect."""


class AskToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool by which one agent asks another."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class _ToolRequest:
    """An effect that is wanted, and how it is recorded."""

    step: str
    use: ToolCall
    tool: ToolSpec | None
    actor: str = ENGINE
    number: int = 0
    """The how manieth such effect it is, of those that are wanted in one attempt."""
    causes: tuple[Hash, ...] = ()
    is_look: bool = False
    """Whether it changes nothing, so that nobody is asked in doubt."""


class _ShownToolCall(msgspec.Struct, frozen=True):
    """What a person is shown who has to approve the use of a tool."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class _ToolGateResult:
    """What came of the gate before an effect, if there is one."""

    causes: tuple[Hash, ...] = ()
    """The decision that allows or denies it."""
    refusal: str = ""
    """Why it is denied, in one word."""


class ToolRunner:
    """Has the effects that the agents of one task want, and those that its checks need."""

    def __init__(
        self,
        caller: ModelCaller,
        allowed: tuple[str, ...],
        lane: str = "",
        *,
        may_wait: bool = True,
    ) -> None:
        """Take the tools that an agent may use, and the lane whose gates hold.

        One that may not wait for a person is denied what a person has to approve.
        """
        self._caller, self._policy, self._ledger = caller, caller.policy, caller.ledger
        self._allowed, self._lane, self._may_wait = allowed, lane, may_wait
        self._first_intents: dict[tuple[ToolCall, int], Hash] = {}
        self._known_outcomes: dict[str, RecordedEntry] = {}
        self._used = 0

    def offers(self) -> tuple[ToolOffer, ...]:
        """Return what an agent is told of."""
        tools = ((name, self._policy.tools[name]) for name in self._allowed)
        return tuple(
            ToolOffer(
                name, tool.description, msgspec.json.encode(tool.schema) if tool.schema else b""
            )
            for name, tool in tools
        )

    async def use_tool(self, turns: StepNames, use: ToolCall, actor: str) -> Quotation:
        """Have an effect that an agent wants, and return what came of it."""
        if use.tool == ASK_TOOL:
            return await self._ask_agent(turns, use)
        step, number = turns.next_tool_call(use)
        tool = self._policy.tools.get(use.tool) if use.tool in self._allowed else None
        return self._quote_result(
            use, await self._run_once(_ToolRequest(step, use, tool, actor, number))
        )

    async def run_check(
        self, step: str, use: ToolCall, causes: tuple[Hash, ...] = ()
    ) -> tuple[Outcome, bytes]:
        """Have something looked at by a tool; return how that ended, and what it said."""
        tool = (
            ToolSpec((DIGEST_TOOL,))
            if use.tool == DIGEST_TOOL
            else self._policy.tools.get(use.tool)
        )
        recorded = await self._run_read_only(
            _ToolRequest(step, use, tool, causes=causes, is_look=True)
        )
        facts: OutcomeFacts = recorded.entry.facts
        return facts.outcome, self._result_prefix(recorded)

    async def gather_context(
        self, question: str, causes: tuple[Hash, ...]
    ) -> tuple[list[Quotation], tuple[Hash, ...]]:
        """Ask for background on something; return it, and the causes of what follows."""
        found = []
        for number, name in enumerate(self._policy.context, 1):
            use, tool = ToolCall(name, question), self._policy.tools.get(name)
            wish = _ToolRequest(f"context/{number}", use, tool, causes=causes, is_look=True)
            found.append(self._quote_result(use, await self._run_read_only(wish)))
            causes = ()
        return found, causes

    async def _run_read_only(self, wish: "_ToolRequest") -> RecordedEntry:
        """Have a tool used that changes nothing: if its worker dies, that is done again."""
        recorded, number = await self._run_once(wish), 1
        while recorded.entry.facts.why is Why.LOST and number < MAX_CHECK_ATTEMPTS:
            number += 1
            step = f"{wish.step}/{number}"
            recorded = await self._run_once(replace(wish, step=step, number=number, causes=()))
        return recorded

    async def _run_once(self, wish: "_ToolRequest") -> RecordedEntry:
        self._used += 1
        strand, use, step = self._caller.strand, wish.use, wish.step
        # What only looks is had anew each time: the world may be another one by then.
        first = None if wish.is_look else self._first_intents.get((use, wish.number))
        intent = strand.replay_step(step)
        fresh, denials = intent is None, list[RecordedEntry]()
        if intent is None:
            if self._caller.prior is not None:
                await asyncio.to_thread(
                    self._caller.prior.raise_if_stopped_before, self._caller.task, step
                )
            self._caller.check_time()
            gate = await self._pass_gate(
                wish, is_new=first is None or first.hex() not in self._known_outcomes
            )
            body = Attachment("arguments", BytesContent(use.arguments.encode(errors="replace")))
            # What an agent wrote is not for a leaf, which cannot be erased.
            name = use.tool if wish.tool or use.tool in self._policy.tools else "unknown"
            facts = IntentFacts(name, first.hex() if first else "")
            causes = gate.causes or wish.causes
            drafts = [Draft(step, wish.actor, facts, causes, (body,))]
            if gate.refusal:
                # In the commit of the intent: nobody has to be asked whether it happened.
                denied = OutcomeFacts(Outcome.DENIED, Why.ERROR, gate.refusal)
                drafts.append(Draft(f"{step}/outcome", ENGINE, denied))
            intent, *denials = await strand.append_exclusive_async(*drafts)
        own = intent.leaf
        key = (
            own if wish.is_look else self._first_intents.setdefault((use, wish.number), own)
        ).hex()
        outcome = denials[0] if denials else strand.replay_step(f"{step}/outcome")
        if outcome is None and fresh:
            outcome = await self._run_or_reuse(wish, key)
        elif outcome is None:
            outcome = await self._record_lost(step)
        if not wish.is_look and outcome.entry.facts.outcome is Outcome.INDETERMINATE:
            outcome = await self._resolve_indeterminate(step, intent, outcome)
        if outcome.entry.facts.outcome is Outcome.OK and not outcome.entry.facts.known:
            self._known_outcomes[key] = outcome
        return outcome

    async def _pass_gate(self, wish: "_ToolRequest", *, is_new: bool) -> "_ToolGateResult":
        """Have a use of a tool approved where a rule says so, before it is even intended.

        What is not had a second time needs no second approval.
        """
        caller, use = self._caller, wish.use
        if wish.tool is None or use.tool == DIGEST_TOOL or not is_new:
            return _ToolGateResult()
        subject = tool_gate_subject(caller.task, self._used)
        rule = rule_for_use(self._policy.gate_rules, use.tool, self._lane, use.arguments)
        if rule is None and not (caller.prior and caller.prior.has_gate(subject)):
            return _ToolGateResult()
        if not self._may_wait:
            return _ToolGateResult(refusal="needs-approval")
        arguments = use.arguments.encode(errors="replace").decode()
        shown = msgspec.json.encode(_ShownToolCall(use.tool, arguments))
        causes = wish.causes or (caller.strand.head or caller.allowed_by,)
        decision = await pass_gate(
            self._ledger,
            caller.run_input.run,
            subject,
            shown,
            self._policy.with_reject_default(),
            *causes,
        )
        if decision is None:
            raise TaskSuspended
        refusal = "" if decision.answer is Answer.APPROVE else "rejected"
        return _ToolGateResult((decision.entry,), refusal)

    async def _run_or_reuse(self, wish: "_ToolRequest", key: str) -> RecordedEntry:
        before, caller, step = self._known_outcomes.get(key), self._caller, wish.step
        if before is not None:
            facts = OutcomeFacts(Outcome.OK, known=before.leaf.hex())
            reply = CallReply(Outcome.OK, self._stored_result(before))
            return await self._record_outcome(step, facts, reply, wish.actor)
        if wish.tool is None:
            reply = CallReply(Outcome.DENIED, why=Why.ERROR, code="no-such-tool")
        else:
            arguments = BytesContent(wish.use.arguments.encode(errors="replace"))
            run, task, name = caller.run_input.run, caller.task, wish.use.tool
            deed = ToolInvocation(run, task, f"{step}/outcome", name, arguments, key)
            known = (
                await asyncio.to_thread(caller.prior.find_outcome, deed) if caller.prior else None
            )
            if known is not None and known.why is Why.LOST:
                return await self._record_lost(step)
            reply = known or await self._invoke_tool(wish.tool, deed)
        facts = OutcomeFacts(reply.outcome, reply.why, sanitize_name(reply.code))
        return await self._record_outcome(step, facts, reply, wish.actor)

    async def _invoke_tool(self, tool: ToolSpec, deed: ToolInvocation) -> CallReply:
        """Have an effect.  One that was cut off, or broke, may have happened all the same."""
        caller = self._caller
        seconds = caller.seconds_left(tool.seconds + 1)
        try:
            reply = await caller.run_until(caller.services.tools(tool).invoke(deed), seconds)
            reply = reply or caller.cancelled_reply()
        except Exception as error:  # noqa: BLE001  recorded, and a person is asked
            return replace(error_reply(error), outcome=Outcome.INDETERMINATE)
        unknown = reply.outcome in (Outcome.TIMEOUT, Outcome.CANCELLED) or (
            reply.why is Why.OVERSIZE and not tool.server  # it was killed while it spoke
        )
        return replace(reply, outcome=Outcome.INDETERMINATE) if unknown else reply

    def _stored_result(self, outcome: RecordedEntry) -> Content:
        if "result" not in outcome.entry.bodies:
            return EMPTY_CONTENT
        return open_body(self._ledger, position_of(outcome), "result")

    async def _record_outcome(
        self, step: str, facts: OutcomeFacts, reply: CallReply, actor: str
    ) -> RecordedEntry:
        bodies = [Attachment("result", reply.output, "application/octet-stream")]
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        draft = Draft(f"{step}/outcome", actor, facts, (), tuple(bodies))
        return (await self._caller.append_with_retry(draft))[0]

    async def _record_lost(self, step: str) -> RecordedEntry:
        """Close an effect whose worker died: nobody here knows whether it happened."""
        facts = OutcomeFacts(Outcome.INDETERMINATE, Why.LOST)
        draft = Draft(f"{step}/outcome", ENGINE, facts)
        return (await self._caller.strand.append_exclusive_async(draft))[0]

    async def _resolve_indeterminate(
        self, step: str, intent: RecordedEntry, outcome: RecordedEntry
    ) -> RecordedEntry:
        """Ask a person whether an effect happened: approve for yes, reject for no."""
        caller = self._caller
        found = caller.strand.replay_step(f"{step}/settled")
        if found is not None:
            return found
        shown = read_body(self._ledger, position_of(intent), "arguments")
        subject = f"effect/{caller.task}/{self._used}"
        decision = await pass_gate(
            self._ledger, caller.run_input.run, subject, shown, self._policy, outcome.leaf
        )
        if decision is None:
            raise TaskSuspended
        happened = Outcome.OK if decision.answer is Answer.APPROVE else Outcome.FAILED
        facts = OutcomeFacts(happened, Why.LOST, "by-decision")
        draft = Draft(f"{step}/settled", ENGINE, facts, (decision.entry,))
        return (await caller.strand.append_exclusive_async(draft))[0]

    def _quote_result(self, use: ToolCall, outcome: RecordedEntry) -> Quotation:
        facts: OutcomeFacts = outcome.entry.facts
        source = f"{use.tool}, {facts.outcome.value}"
        if "result" not in outcome.entry.bodies:
            return Quotation(source, b"", 0)
        return Quotation(source, self._result_prefix(outcome), outcome.entry.bodies["result"].size)

    def _result_prefix(self, outcome: RecordedEntry) -> bytes:
        if "result" not in outcome.entry.bodies:
            return b""
        limit = self._policy.input_bytes
        return read_body(self._ledger, position_of(outcome), "result", limit)

    async def _ask_agent(self, turns: StepNames, use: ToolCall) -> Quotation:
        """Let another agent say something: a call like every other, paid by the same run."""
        try:
            asked = msgspec.json.decode(use.arguments, type=AskToolArguments)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return _quote(f"{ASK_TOOL}, failed", str(error).encode())
        if asked.agent not in self._policy.agents:
            return _quote(f"{ASK_TOOL}, denied", f"there is no agent {asked.agent!r}".encode())
        question = asked.text.encode()
        ask = CallSpec(asked.agent, build_prompt("", question), question=question)
        exchange = await self._caller.make_call(turns, ask)
        await self._caller.record_reply(exchange)
        said = exchange.output[: self._policy.input_bytes]
        return Quotation(f"{asked.agent}, {exchange.replied.outcome.value}", said, exchange.size)


def _quote(source: str, text: bytes) -> Quotation:
    return Quotation(source, text, len(text))


def receipts_of(ledger: Ledger, run: Run) -> tuple[Receipt, ...]:
    """Return the effects of a run that ended well: they can show that something was done."""
    found = []
    # In the order of their names: whoever has folded the run in another order finds the same.
    for _, task in sorted(run.tasks.items()):
        for use in task.uses:
            done = use.happened is not None and use.happened.outcome is Outcome.OK
            if done and use.outcome is not None and use.outcome_at is not None:
                arguments = _read_shown(ledger, use.at, "arguments")
                result = _read_shown(ledger, use.outcome_at, "result")
                found.append(Receipt(use.outcome.hex(), use.intended.tool, arguments, result))
    return tuple(found)


def _read_shown(ledger: Ledger, at: Position, name: str) -> str:
    """Return what there is of a body: a person's word has none, and any may be erased."""
    try:
        return read_body(ledger, at, name, _MAX_SHOWN_BYTES).decode(errors="replace")
    except BodyGone:
        return ""
