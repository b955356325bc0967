"""Having effects on the world, each once: the intent is recorded before, the outcome after.

An effect without its outcome may or may not have happened: a person is asked.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from forum.engine.calls import Ask, Caller, Turns, Waiting, broken
from forum.engine.case import ENGINE, position_of, read_body, stored
from forum.engine.gates import pass_gate
from forum.engine.ports import NOTHING, Deed, Offer, Reply
from forum.errors import BodyGone
from forum.ledger import (
    Attachment,
    Bytes,
    Content,
    Draft,
    Ledger,
    Outcome,
    Position,
    Recorded,
)
from forum.tlog import Hash
from forum.work import (
    ASK,
    MOST_LOOKS,
    Answer,
    Happened,
    Intended,
    Quoted,
    Receipt,
    Run,
    Tool,
    Use,
    Why,
    opening,
    plain,
    rule_for_use,
    use_subject,
)

DIGEST = "forum:digest"
"""The tool that tells the digest of a file; every engine has it."""
_MOST_SHOWN = 65_536
"""How much is looked at of the arguments and the result of an effect."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool by which one agent asks another."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class _Wish:
    """An effect that is wanted, and how it is recorded."""

    step: str
    use: Use
    tool: Tool | None
    actor: str = ENGINE
    number: int = 0
    """The how manieth such effect it is, of those that are wanted in one attempt."""
    causes: tuple[Hash, ...] = ()
    is_look: bool = False
    """Whether it changes nothing, so that nobody is asked in doubt."""


class _ShownUse(msgspec.Struct, frozen=True):
    """What a person is shown who has to approve the use of a tool."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class _Passage:
    """What came of the gate before an effect, if there is one."""

    causes: tuple[Hash, ...] = ()
    """The decision that allows or denies it."""
    refusal: str = ""
    """Why it is denied, in one word."""


class Hands:
    """Has the effects that the agents of one task want, and those that its checks need."""

    def __init__(
        self, caller: Caller, allowed: tuple[str, ...], lane: str = "", *, may_wait: bool = True
    ) -> None:
        """Take the tools that an agent may use, and the lane whose gates hold.

        One that may not wait for a person is denied what a person has to approve.
        """
        self._caller, self._policy, self._ledger = caller, caller.policy, caller.ledger
        self._allowed, self._lane, self._may_wait = allowed, lane, may_wait
        self._first: dict[tuple[Use, int], Hash] = {}
        self._known: dict[str, Recorded] = {}
        self._used = 0

    def offers(self) -> tuple[Offer, ...]:
        """Return what an agent is told of."""
        tools = ((name, self._policy.tools[name]) for name in self._allowed)
        return tuple(
            Offer(name, tool.description, msgspec.json.encode(tool.schema) if tool.schema else b"")
            for name, tool in tools
        )

    async def use(self, turns: Turns, use: Use, actor: str) -> Quoted:
        """Have an effect that an agent wants, and return what came of it."""
        if use.tool == ASK:
            return await self._ask(turns, use)
        step, number = turns.next_use(use)
        tool = self._policy.tools.get(use.tool) if use.tool in self._allowed else None
        return self._quoted(use, await self._have_once(_Wish(step, use, tool, actor, number)))

    async def check(
        self, step: str, use: Use, causes: tuple[Hash, ...] = ()
    ) -> tuple[Outcome, bytes]:
        """Have something looked at by a tool; return how that ended, and what it said."""
        tool = Tool((DIGEST,)) if use.tool == DIGEST else self._policy.tools.get(use.tool)
        recorded = await self._look(_Wish(step, use, tool, causes=causes, is_look=True))
        facts: Happened = recorded.entry.facts
        return facts.outcome, self._head(recorded)

    async def background(
        self, question: str, causes: tuple[Hash, ...]
    ) -> tuple[list[Quoted], tuple[Hash, ...]]:
        """Ask for background on something; return it, and the causes of what follows."""
        found = []
        for number, name in enumerate(self._policy.context, 1):
            use, tool = Use(name, question), self._policy.tools.get(name)
            wish = _Wish(f"context/{number}", use, tool, causes=causes, is_look=True)
            found.append(self._quoted(use, await self._look(wish)))
            causes = ()
        return found, causes

    async def _look(self, wish: "_Wish") -> Recorded:
        """Have a tool used that changes nothing: if its worker dies, that is done again."""
        recorded, number = await self._have_once(wish), 1
        while recorded.entry.facts.why is Why.LOST and number < MOST_LOOKS:
            number += 1
            step = f"{wish.step}/{number}"
            recorded = await self._have_once(replace(wish, step=step, number=number, causes=()))
        return recorded

    async def _have_once(self, wish: "_Wish") -> Recorded:
        self._used += 1
        strand, use, step = self._caller.strand, wish.use, wish.step
        # What only looks is had anew each time: the world may be another one by then.
        first = None if wish.is_look else self._first.get((use, wish.number))
        intent = strand.recorded(step)
        fresh, denials = intent is None, list[Recorded]()
        if intent is None:
            if self._caller.prior is not None:
                await asyncio.to_thread(self._caller.prior.reach, self._caller.task, step)
            self._caller.check_time()
            gate = await self._pass_gate(
                wish, is_new=first is None or first.hex() not in self._known
            )
            body = Attachment("arguments", Bytes(use.arguments.encode(errors="replace")))
            # What an agent wrote is not for a leaf, which cannot be erased.
            name = use.tool if wish.tool or use.tool in self._policy.tools else "unknown"
            facts = Intended(name, first.hex() if first else "")
            causes = gate.causes or wish.causes
            drafts = [Draft(step, wish.actor, facts, causes, (body,))]
            if gate.refusal:
                # In the commit of the intent: nobody has to be asked whether it happened.
                denied = Happened(Outcome.DENIED, Why.ERROR, gate.refusal)
                drafts.append(Draft(f"{step}/outcome", ENGINE, denied))
            intent, *denials = await strand.claim_async(*drafts)
        own = intent.leaf
        key = (own if wish.is_look else self._first.setdefault((use, wish.number), own)).hex()
        outcome = denials[0] if denials else strand.recorded(f"{step}/outcome")
        if outcome is None and fresh:
            outcome = await self._effect(wish, key)
        elif outcome is None:
            outcome = await self._doubt(step)
        if not wish.is_look and outcome.entry.facts.outcome is Outcome.INDETERMINATE:
            outcome = await self._settle(step, intent, outcome)
        if outcome.entry.facts.outcome is Outcome.OK and not outcome.entry.facts.known:
            self._known[key] = outcome
        return outcome

    async def _pass_gate(self, wish: "_Wish", *, is_new: bool) -> "_Passage":
        """Have a use of a tool approved where a rule says so, before it is even intended.

        What is not had a second time needs no second approval.
        """
        caller, use = self._caller, wish.use
        if wish.tool is None or use.tool == DIGEST or not is_new:
            return _Passage()
        subject = use_subject(caller.task, self._used)
        rule = rule_for_use(self._policy.gate_rules, use.tool, self._lane, use.arguments)
        if rule is None and not (caller.prior and caller.prior.has_gate(subject)):
            return _Passage()
        if not self._may_wait:
            return _Passage(refusal="needs-approval")
        arguments = use.arguments.encode(errors="replace").decode()
        shown = msgspec.json.encode(_ShownUse(use.tool, arguments))
        causes = wish.causes or (caller.strand.head or caller.allowed_by,)
        decision = await pass_gate(
            self._ledger, caller.intake.run, subject, shown, self._policy.rejecting(), *causes
        )
        if decision is None:
            raise Waiting
        refusal = "" if decision.answer is Answer.APPROVE else "rejected"
        return _Passage((decision.entry,), refusal)

    async def _effect(self, wish: "_Wish", key: str) -> Recorded:
        before, caller, step = self._known.get(key), self._caller, wish.step
        if before is not None:
            facts = Happened(Outcome.OK, known=before.leaf.hex())
            reply = Reply(Outcome.OK, self._came_of(before))
            return await self._happened(step, facts, reply, wish.actor)
        if wish.tool is None:
            reply = Reply(Outcome.DENIED, why=Why.ERROR, code="no-such-tool")
        else:
            arguments = Bytes(wish.use.arguments.encode(errors="replace"))
            run, task, name = caller.intake.run, caller.task, wish.use.tool
            deed = Deed(run, task, f"{step}/outcome", name, arguments, key)
            known = await asyncio.to_thread(caller.prior.outcome, deed) if caller.prior else None
            if known is not None and known.why is Why.LOST:
                return await self._doubt(step)
            reply = known or await self._have(wish.tool, deed)
        facts = Happened(reply.outcome, reply.why, plain(reply.code))
        return await self._happened(step, facts, reply, wish.actor)

    async def _have(self, tool: Tool, deed: Deed) -> Reply:
        """Have an effect.  One that was cut off, or broke, may have happened all the same."""
        caller = self._caller
        seconds = caller.seconds_left(tool.seconds + 1)
        try:
            reply = await caller.in_time(caller.world.tools(tool).use(deed), seconds)
            reply = reply or caller.cut()
        except Exception as error:  # noqa: BLE001  recorded, and a person is asked
            return replace(broken(error), outcome=Outcome.INDETERMINATE)
        unknown = reply.outcome in (Outcome.TIMEOUT, Outcome.CANCELLED) or (
            reply.why is Why.OVERSIZE and not tool.server  # it was killed while it spoke
        )
        return replace(reply, outcome=Outcome.INDETERMINATE) if unknown else reply

    def _came_of(self, outcome: Recorded) -> Content:
        if "result" not in outcome.entry.bodies:
            return NOTHING
        return stored(self._ledger, position_of(outcome), "result")

    async def _happened(self, step: str, facts: Happened, reply: Reply, actor: str) -> Recorded:
        bodies = [Attachment("result", reply.output, "application/octet-stream")]
        if reply.error.size:
            bodies.append(Attachment("error", reply.error, "application/octet-stream"))
        draft = Draft(f"{step}/outcome", actor, facts, (), tuple(bodies))
        return (await self._caller.keep(draft))[0]

    async def _doubt(self, step: str) -> Recorded:
        """Close an effect whose worker died: nobody here knows whether it happened."""
        facts = Happened(Outcome.INDETERMINATE, Why.LOST)
        draft = Draft(f"{step}/outcome", ENGINE, facts)
        return (await self._caller.strand.claim_async(draft))[0]

    async def _settle(self, step: str, intent: Recorded, outcome: Recorded) -> Recorded:
        """Ask a person whether an effect happened: approve for yes, reject for no."""
        caller = self._caller
        found = caller.strand.recorded(f"{step}/settled")
        if found is not None:
            return found
        shown = read_body(self._ledger, position_of(intent), "arguments")
        subject = f"effect/{caller.task}/{self._used}"
        decision = await pass_gate(
            self._ledger, caller.intake.run, subject, shown, self._policy, outcome.leaf
        )
        if decision is None:
            raise Waiting
        happened = Outcome.OK if decision.answer is Answer.APPROVE else Outcome.FAILED
        facts = Happened(happened, Why.LOST, "by-decision")
        draft = Draft(f"{step}/settled", ENGINE, facts, (decision.entry,))
        return (await caller.strand.claim_async(draft))[0]

    def _quoted(self, use: Use, outcome: Recorded) -> Quoted:
        facts: Happened = outcome.entry.facts
        source = f"{use.tool}, {facts.outcome.value}"
        if "result" not in outcome.entry.bodies:
            return Quoted(source, b"", 0)
        return Quoted(source, self._head(outcome), outcome.entry.bodies["result"].size)

    def _head(self, outcome: Recorded) -> bytes:
        if "result" not in outcome.entry.bodies:
            return b""
        limit = self._policy.input_bytes
        return read_body(self._ledger, position_of(outcome), "result", limit)

    async def _ask(self, turns: Turns, use: Use) -> Quoted:
        """Let another agent say something: a call like every other, paid by the same run."""
        try:
            asked = msgspec.json.decode(use.arguments, type=Asked)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return _quote(f"{ASK}, failed", str(error).encode())
        if asked.agent not in self._policy.agents:
            return _quote(f"{ASK}, denied", f"there is no agent {asked.agent!r}".encode())
        question = asked.text.encode()
        ask = Ask(asked.agent, opening("", question), question=question)
        exchange = await self._caller.exchange(turns, ask)
        await self._caller.record(exchange)
        said = exchange.output[: self._policy.input_bytes]
        return Quoted(f"{asked.agent}, {exchange.replied.outcome.value}", said, exchange.size)


def _quote(source: str, text: bytes) -> Quoted:
    return Quoted(source, text, len(text))


def receipts_of(ledger: Ledger, run: Run) -> tuple[Receipt, ...]:
    """Return the effects of a run that ended well: they can show that something was done."""
    found = []
    # In the order of their names: whoever has folded the run in another order finds the same.
    for _, task in sorted(run.tasks.items()):
        for use in task.uses:
            done = use.happened is not None and use.happened.outcome is Outcome.OK
            if done and use.outcome is not None and use.outcome_at is not None:
                arguments = _shown(ledger, use.at, "arguments")
                result = _shown(ledger, use.outcome_at, "result")
                found.append(Receipt(use.outcome.hex(), use.intended.tool, arguments, result))
    return tuple(found)


def _shown(ledger: Ledger, at: Position, name: str) -> str:
    """Return what there is of a body: a person's word has none, and any may be erased."""
    try:
        return read_body(ledger, at, name, _MOST_SHOWN).decode(errors="replace")
    except BodyGone:
        return ""
