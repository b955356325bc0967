"""An office for tests: one ledger, engines that come and go, and hands that remember what they did.

Everything runs in one event loop: an engine, its `LocalRunner`, and somebody who looks at alarms a
hundred times a second.  A process that dies is a commit that raises, and every later one too.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from forum.engine import (
    AnswerEncoder,
    CallReply,
    DecisionTexts,
    Engine,
    LocalRunner,
    Model,
    ModelCall,
    RunRequest,
    SharedBudgets,
    ToolFactory,
    ToolInvocation,
    ToolPort,
    accept_run,
    decide_gate,
    read_body,
    read_run,
)
from forum.feature import load_kinds
from forum.features import FEATURES
from forum.features.claims.service import find_claims
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of
from forum.ledger.kinds import LEDGER_KINDS, Kinds, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Amount, BudgetAccount, EntryStore, EntryWrite, Position, Store, Timer
from forum.ledger.sequencer import Publisher, Sequencer
from forum.models import make_model
from forum.runs.call_rules import CURRENT_RULES
from forum.runs.gate_rules import GateRule
from forum.runs.kinds import WORK_KINDS, Authority, CallFacts, DelegationFacts, GateDecisionByFacts
from forum.runs.plan import Plan, Task
from forum.runs.policy import Agent, Answer, Policy, ToolSpec
from forum.runs.run_fold import IdentifiedEntry, Run
from forum.runs.shared_caps import SharedCap
from forum.verify import Finding, Trust, verify_ledger
from tests.support import key_of
from tests.verify.world import Kept, policy_of


def kinds_without(*names: str) -> Kinds:
    """Return the kinds that are known without these features."""
    left = (each for each in FEATURES if each.name not in names)
    return reduce(or_, load_kinds(left), LEDGER_KINDS | WORK_KINDS)


KINDS = kinds_without()


SOON = 100_000
"""In how many microseconds an alarm must ring in order to be waited for."""

RUN = "run-1"
PERSON = "ann"


class Cut(BaseException):
    """The process is gone, in the middle of what it was doing."""


class Power:
    """What a process lives on: it fails at one commit, before or after it, and for good."""

    def __init__(self, store: EntryStore, commits: int, *, persisted: bool) -> None:
        self._store, self._left = store, commits
        self._persisted = persisted
        self.failed = False

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit, as long as there is power."""
        if self.failed:
            raise Cut
        self.failed = self._left == 0
        self._left -= 1
        if self._persisted or not self.failed:
            self._store.append(records)
        if self.failed:
            raise Cut


@dataclass
class Hands:
    """Agents and tools that do what their scripts say, and remember what they did."""

    calls: list[ModelCall] = field(default_factory=list)
    deeds: list[ToolInvocation] = field(default_factory=list)
    at_call: Callable[[ModelCall], None] = lambda _: None
    at_deed: Callable[[ToolInvocation], CallReply | None] = lambda _: None
    going: int = 0
    most: int = 0
    """How many calls went on at once."""

    def model(self, agent: Agent) -> Model:
        """Return who answers for an agent."""
        return _Watched(make_model(agent), self)

    def tool(self, _: ToolSpec) -> ToolPort:
        """Return what has every effect."""
        return self

    def open_tools(self) -> AbstractAsyncContextManager[ToolFactory]:
        """Return the tools of a task."""
        return nullcontext(self.tool)

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Have an effect, and say how many there were."""
        self.deeds.append(invocation)
        reply = self.at_deed(invocation)
        return reply or CallReply(Outcome.OK, text_content(f"effect {len(self.deeds)}"))


class _Watched:
    def __init__(self, model: Model, hands: Hands) -> None:
        self._model, self._hands = model, hands
        self.name, self.bound = model.name, model.bound

    async def reply(self, call: ModelCall) -> CallReply:
        hands = self._hands
        hands.calls.append(call)
        hands.at_call(call)
        hands.going += 1
        hands.most = max(hands.most, hands.going)
        try:
            return await self._model.reply(call)
        finally:
            hands.going -= 1


class _Runner(LocalRunner):
    """Knows whether it was asked for something."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.lock, self.asked = asyncio.Lock(), False

    def enqueue_run(self, run: str) -> None:
        self.asked = True
        super().enqueue_run(run)


class Office:
    """One process that works on one ledger."""

    def __init__(  # noqa: PLR0913  what an engine works with
        self,
        store: Store,
        hands: Hands | None = None,
        append: Callable[[Sequence[EntryWrite]], None] | None = None,
        append_async: Callable[[Sequence[EntryWrite]], Awaitable[None]] | None = None,
        gate_rules: tuple[GateRule, ...] = (),
        caps: tuple[SharedCap, ...] = (),
        *,
        encoder: AnswerEncoder | None = None,
    ) -> None:
        self.store, self.hands = store, hands or Hands()
        self.ledger = Ledger(
            store,
            kinds=KINDS,
            clock=now,
            salts=lambda: os.urandom(32),
            append=append,
            append_async=append_async,
        )
        self.engine = Engine(
            self.ledger,
            self.hands.model,
            self.hands.open_tools,
            gate_rules=gate_rules,
            budgets=SharedBudgets(store, caps, os.urandom(4).hex()),
            open_encoder=lambda: encoder,
            find_claims=find_claims,
            shares_tasks=True,
        )

    # Working

    def accept(self, request: RunRequest, run: str = RUN) -> None:
        """Take a request on."""
        policy = request.policy.with_rules(CURRENT_RULES)
        accept_run(self.ledger, run, replace(request, policy=policy), PERSON)

    def work(self, run: str = RUN, meanwhile: "Meanwhile | None" = None) -> Run:
        """Go on with a run until nothing is to be done, and return how far it has come."""
        asyncio.run(self._work(run, meanwhile))
        return read_run(self.ledger, run)

    async def _work(self, run: str, meanwhile: "Meanwhile | None") -> None:
        runner = self._runner = _Runner(self.engine)
        self._loop = asyncio.get_running_loop()
        beside = asyncio.ensure_future(_nothing() if meanwhile is None else meanwhile(self))
        attending = asyncio.ensure_future(self._attend(runner))
        for each in {run, *self.store.runs("", 1000)} - {LOG_RUN}:
            runner.enqueue_run(each)
        try:
            while True:
                runner.asked = False
                working = asyncio.ensure_future(runner.wait_until_idle())
                await asyncio.wait(
                    [working, beside],
                    return_when=asyncio.ALL_COMPLETED if beside.done() else asyncio.FIRST_COMPLETED,
                )
                if beside.done():
                    await beside
                await working
                async with runner.lock:
                    if beside.done() and not runner.asked and not self._rings_soon():
                        return
                await asyncio.sleep(0.002)
        finally:
            attending.cancel()

    def attend(self) -> None:
        """Look at the alarms at once, from another thread, while this office works."""
        looking = self.dispatch_due_runs(self._runner.enqueue_run)
        asyncio.run_coroutine_threadsafe(looking, self._loop).result()

    async def dispatch_due_runs(self, enqueue: Callable[[str], None]) -> bool:
        """Do what is due, as a worker does; return whether more may be due."""
        batch = await asyncio.to_thread(self.engine.claim_due)
        for claim in batch.claims:
            if not self.engine.wake_driver(claim) and (
                not await self.engine.attend_to_reported(claim)
            ):
                enqueue(claim.run)
        return batch.is_full

    def _rings_soon(self) -> bool:
        alarms = self.store.timers(None, 1000, due=False)
        return any((alarm.at or 0) < now() + SOON for alarm in alarms)

    async def _attend(self, runner: "_Runner") -> None:
        while True:
            async with runner.lock:
                await self.dispatch_due_runs(runner.enqueue_run)
            await asyncio.sleep(0.01)

    def do(self, request: RunRequest, run: str = RUN) -> Run:
        """Take a request on, and carry it out as far as possible."""
        self.accept(request, run)
        return self.work(run)

    def decide(
        self, subject: str, answer: Answer, run: str = RUN, digest: str = "", reason: str = ""
    ) -> None:
        """Decide at a gate, as one who has looked at what it shows."""
        shown = digest or read_run(self.ledger, run).gates[f"gate/{subject}"].digest
        decide_gate(
            self.ledger,
            run,
            subject,
            GateDecisionByFacts(answer, shown, Authority.OPERATOR),
            actor=PERSON,
            texts=DecisionTexts(reason=reason),
        )

    # Looking

    def told(self, run: str = RUN) -> list[IdentifiedEntry]:
        """Return the entries of a run in the order in which they were committed."""
        Sequencer(self.store).drain()
        entries = self.store.entries(0, self.store.head().size)
        read = ((leaf_of(data), KINDS.read(data)) for data in entries if data is not None)
        return [told for told in read if told[1].run == run]

    def entries(self, run: str = RUN) -> list[Entry[Any]]:
        """Return the same without their ids."""
        return [entry for _, entry in self.told(run)]

    def steps(self, task: str, run: str = RUN) -> list[str]:
        """Return what was done in a task."""
        return [e.step for e in self.entries(run) if e.strand == f"task/{task}"]

    def body(self, entry: Entry[Any], name: str) -> bytes:
        """Return a body of an entry."""
        return read_body(self.ledger, Position(entry.run, entry.strand, entry.n), name)

    def prompt(self, task: str, call: int = 0, run: str = RUN) -> bytes:
        """Return what was said in a call of a task."""
        called = [e for e in self.entries(run) if e.strand == f"task/{task}" and e.kind == "call/1"]
        return self.body(called[call], "prompt")

    def answer(self, run: str = RUN) -> bytes:
        """Return the answer of a run."""
        (answered,) = [entry for entry in self.entries(run) if entry.kind == "answer/1"]
        return self.body(answered, "answer")

    def account(self, run: str = RUN) -> BudgetAccount:
        """Return what a run may use and has used."""
        account = self.store.account(run)
        assert account is not None
        return account

    def alarms(self) -> list[tuple[str, str]]:
        """Return which runs somebody will look at, and what for."""
        return [(timer.run, timer.strand) for timer in self.store.timers(None, 1000, due=False)]

    def alarm(self, run: str = RUN) -> Timer | None:
        """Return when somebody will look at a run."""
        return self.store.timer(run, MAIN_STRAND)

    def findings(self) -> tuple[Finding, ...]:
        """Sign the ledger, and return what a stranger finds wrong with it."""
        key = key_of(self.store.origin)
        self.ledger.initialize("tests/1", key.verifier())
        Sequencer(self.store).drain()
        Publisher(self.store, key, Kept(self.store.checkpoint()), policy_of(key)).sign()
        with self.store.snapshot() as reader:
            report = verify_ledger(reader, KINDS, Trust((key.verifier(),)), now())
        # Where the audit of calls itself fails, nothing would be found.
        assert not [text for text in report.not_checked if "which cannot be read" in text]
        return report.findings

    def model_calls(self, run: str = RUN) -> int:
        """Count the calls that are on record, those of runs within included."""
        own = [e for e in self.entries(run) if isinstance(e.facts, CallFacts)]
        inner = [e.facts.run for e in self.entries(run) if isinstance(e.facts, DelegationFacts)]
        return len(own) - len(inner) + sum(map(self.model_calls, inner))


Meanwhile = Callable[[Office], Any]
"""What somebody does while an office works."""


async def _nothing() -> None:
    return


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about soon, while others work."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  it is somebody else's doing
            await asyncio.sleep(0.005)


def now() -> int:
    """Return the time."""
    return time.time_ns() // 1000


def plan(*tasks: Task) -> Plan:
    """Return a plan of these."""
    return Plan(tasks)


def chain(*names: str) -> Plan:
    """Return a plan in which each task needs the one before it."""
    needs = ((), *((name,) for name in names))
    return Plan(tuple(Task(n, f"do {n}", needs=u) for n, u in zip(names, needs, strict=False)))


def quick(**members: Any) -> Policy:  # noqa: ANN401  members of any type
    """Return a policy whose pauses are short."""
    return Policy(**{"backoff_milliseconds": 1, **members})


def spending(entries: Sequence[Entry[Any]]) -> Iterator[Amount]:
    """Yield what a run has used and reserved after each of its entries, as the entries tell it."""
    open_calls: dict[str, Amount] = {}
    used = Amount()
    for entry in entries:
        match entry.facts:
            case CallFacts():
                open_calls[entry.strand] = entry.facts.reserved
            case facts if entry.kind == "reply/1":
                used = used.plus(Amount(facts.usd, facts.tokens, 1))
                del open_calls[entry.strand]
            case _:
                pass
        reserved = Amount(*map(sum, zip(*open_calls.values(), strict=True))) if open_calls else NONE
        yield used.plus(reserved)


NONE = Amount()


def kinds_of(entries: Sequence[Entry[Any]]) -> Counter[str]:
    """Count entries by their kinds."""
    return Counter(entry.kind for entry in entries)
