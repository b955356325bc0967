"""Asking models for what has to have a form: repair is bounded, and code has the last word."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from forum.engine.calls import Ask, Caller, Exchange, Turns
from forum.engine.case import ENGINE
from forum.ledger import Draft, Outcome
from forum.work import (
    REPAIRS,
    Check,
    Independence,
    Judged,
    Next,
    Opinion,
    Prompt,
    Quoted,
    Role,
    opening,
    opinion_schema,
    read_opinion,
    repair_prompt,
    validator_prompt,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Independent:
    """What a judge said, and which model it is."""

    passed: bool
    reason: str
    model: str


async def judge_independently(
    caller: Caller, turns: Turns, reader: str, instruction: str, demand: str, result: Quoted
) -> Independent:
    """Have a model judge a result.  Whoever gives no usable verdict has not accepted it."""
    asked = Quoted("the instruction", instruction.encode(), len(instruction.encode()))
    prompt = opening("", validator_prompt(asked, demand, result))
    said, exchange = await ask_formed(
        caller,
        turns,
        Ask(reader, prompt, role=Role.VALIDATOR, schema=opinion_schema()),
        read_opinion,
    )
    await caller.record(exchange)
    opinion = said or Opinion(passed=False, reason="the validator gave no usable verdict")
    return Independent(opinion.passed, opinion.reason, exchange.model)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often somebody is asked again."""

    repairs: int
    """After replies without the right form."""
    retries: int
    """After errors."""
    together: int = 1 << 30
    hopeless: Callable[[Exchange], bool] = lambda _: False

    def is_over(self, exchange: Exchange, malformed: int, failed: int) -> bool:
        """Tell whether it was enough."""
        return (
            malformed > self.repairs
            or failed > self.retries
            or malformed + failed > self.together
            or exchange.replied.outcome is Outcome.DENIED
            or self.hopeless(exchange)
        )


async def ask_formed(
    caller: Caller,
    turns: Turns,
    ask: Ask,
    read: Callable[[bytes], T],
    patience: Patience | None = None,
) -> tuple[T | None, Exchange]:
    """Ask until what is said has its form, a few times.  The last reply is not recorded yet."""
    patience = patience or Patience(REPAIRS, caller.policy.retries)
    failed = malformed = 0
    while True:
        exchange = await caller.exchange(turns, ask)
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
        if patience.is_over(exchange, malformed, failed):
            return None, exchange
        recorded = await caller.record(exchange)
        if fault:
            said = exchange.said(policy.input_bytes)
            ask = replace(ask, prompt=repaired(ask.prompt, said, fault), causes=())
        elif recorded is not None:
            await caller.pause(recorded.entry.ts, 1000 * policy.pause(failed))


VERDICT = "attempt/1/verdict"
"""Where it stands how a question ended."""


async def end_formed(caller: Caller, said: object, exchange: Exchange, *notes: Draft) -> None:
    """Record how a question ended whose answer has to have a form, with what was made of it."""
    outcome = exchange.replied.outcome
    if said is not None:
        verdict = Judged(1, Outcome.OK, Check.FORM, Next.ACCEPT)
    elif outcome is Outcome.OK:
        verdict = Judged(1, Outcome.FAILED, Check.FORM, Next.GIVE_UP, "form")
    else:
        verdict = Judged(1, outcome, Check.OUTCOME, Next.GIVE_UP, outcome.value)
    await _end(caller, *exchange.unrecorded, *notes, verdict=verdict)


async def end_checked(caller: Caller, outcome: Outcome) -> None:
    """Record how a question to a tool ended: it holds if the tool ended well."""
    holds = outcome is Outcome.OK
    following, reason = (Next.ACCEPT, "") if holds else (Next.GIVE_UP, outcome.value)
    await _end(caller, verdict=Judged(1, outcome, Check.COMMAND, following, reason))


async def _end(caller: Caller, *drafts: Draft, verdict: Judged) -> None:
    if caller.strand.recorded(VERDICT) is None:
        await caller.keep(*drafts, Draft(VERDICT, ENGINE, verdict, effects=caller.wake()))


def repaired(prompt: Prompt, said: Quoted, fault: str) -> Prompt:
    """Return a prompt that tells what was wrong with the form of a reply."""
    return opening("", repair_prompt(prompt.text, said, fault[:500]))


def independence(judge: str, producer: str) -> Independence:
    """Tell whether the judge is another model than all that it judges."""
    shared = set(judge.split(",")) & set(producer.split(","))
    return Independence.NO if shared else Independence.YES
