"""Asking models for what has to have a form: repair is bounded, and code has the last word."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from forum.engine.context import ENGINE
from forum.engine.model_calls import CallResult, CallSpec, ModelCaller, StepNames
from forum.ledger import Draft, Outcome
from forum.work import (
    MAX_REPAIRS,
    Check,
    Independence,
    Next,
    Opinion,
    Prompt,
    Quotation,
    Role,
    VerdictFacts,
    build_prompt,
    opinion_schema,
    read_opinion,
    repair_prompt,
    validator_prompt,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndependentVerdict:
    """What a judge said, and which model it is."""

    passed: bool
    reason: str
    model: str


async def judge_independently(
    caller: ModelCaller,
    turns: StepNames,
    reader: str,
    instruction: str,
    demand: str,
    result: Quotation,
) -> IndependentVerdict:
    """Have a model judge a result.  Whoever gives no usable verdict has not accepted it."""
    asked = Quotation("the instruction", instruction.encode(), len(instruction.encode()))
    prompt = build_prompt("", validator_prompt(asked, demand, result))
    said, exchange = await ask_structured(
        caller,
        turns,
        CallSpec(reader, prompt, role=Role.VALIDATOR, schema=opinion_schema()),
        read_opinion,
    )
    await caller.record_reply(exchange)
    opinion = said or Opinion(passed=False, reason="the validator gave no usable verdict")
    return IndependentVerdict(opinion.passed, opinion.reason, exchange.model)


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """How often somebody is asked again."""

    repairs: int
    """After replies without the right form."""
    retries: int
    """After errors."""
    together: int = 1 << 30
    hopeless: Callable[[CallResult], bool] = lambda _: False

    def is_exhausted(self, exchange: CallResult, malformed: int, failed: int) -> bool:
        """Tell whether it was enough."""
        return (
            malformed > self.repairs
            or failed > self.retries
            or malformed + failed > self.together
            or exchange.replied.outcome is Outcome.DENIED
            or self.hopeless(exchange)
        )


async def ask_structured(
    caller: ModelCaller,
    turns: StepNames,
    ask: CallSpec,
    read: Callable[[bytes], T],
    patience: RepairPolicy | None = None,
) -> tuple[T | None, CallResult]:
    """Ask until what is said has its form, a few times.  The last reply is not recorded yet."""
    patience = patience or RepairPolicy(MAX_REPAIRS, caller.policy.retries)
    failed = malformed = 0
    while True:
        exchange = await caller.make_call(turns, ask)
        outcome, policy = exchange.replied.outcome, caller.policy
        fault = ""
        if outcome is Outcome.OK:
            try:
                # Elsewhere: to read what is large, or was made to be slow, holds up everybody.
                return await asyncio.to_thread(read, exchange.output), exchange
            except ValueError as error:
                fault, malformed = str(error), malformed + 1
        else:
            failed += 1
        if patience.is_exhausted(exchange, malformed, failed):
            return None, exchange
        recorded = await caller.record_reply(exchange)
        if fault:
            said = exchange.quote_output(policy.input_bytes)
            ask = replace(ask, prompt=add_repair_request(ask.prompt, said, fault), causes=())
        elif recorded is not None:
            await caller.wait_before_retry(recorded.entry.ts, 1000 * policy.retry_delay_ms(failed))


VERDICT_STEP = "attempt/1/verdict"
"""Where it stands how a question ended."""


async def record_form_verdict(
    caller: ModelCaller, said: object, exchange: CallResult, *notes: Draft
) -> None:
    """Record how a question ended whose answer has to have a form, with what was made of it."""
    outcome = exchange.replied.outcome
    if said is not None:
        verdict = VerdictFacts(1, Outcome.OK, Check.FORM, Next.ACCEPT)
    elif outcome is Outcome.OK:
        verdict = VerdictFacts(1, Outcome.FAILED, Check.FORM, Next.GIVE_UP, "form")
    else:
        verdict = VerdictFacts(1, outcome, Check.OUTCOME, Next.GIVE_UP, outcome.value)
    await _record_verdict(caller, *exchange.unrecorded, *notes, verdict=verdict)


async def record_check_verdict(caller: ModelCaller, outcome: Outcome) -> None:
    """Record how a question to a tool ended: it holds if the tool ended well."""
    holds = outcome is Outcome.OK
    following, reason = (Next.ACCEPT, "") if holds else (Next.GIVE_UP, outcome.value)
    await _record_verdict(
        caller, verdict=VerdictFacts(1, outcome, Check.COMMAND, following, reason)
    )


async def _record_verdict(caller: ModelCaller, *drafts: Draft, verdict: VerdictFacts) -> None:
    if caller.strand.replay_step(VERDICT_STEP) is None:
        await caller.append_with_retry(
            *drafts, Draft(VERDICT_STEP, ENGINE, verdict, effects=caller.wake_run_effects())
        )


def add_repair_request(prompt: Prompt, said: Quotation, fault: str) -> Prompt:
    """Return a prompt that tells what was wrong with the form of a reply."""
    return build_prompt("", repair_prompt(prompt.text, said, fault[:500]))


def independence(judge: str, producer: str) -> Independence:
    """Tell whether the judge is another model than all that it judges."""
    shared = set(judge.split(",")) & set(producer.split(","))
    return Independence.NO if shared else Independence.YES
