"""Asking models for what has to have a form: repair is bounded, and code has the last word."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from forum.engine.calls import Ask, Caller, Exchange, Turns
from forum.ledger import Outcome
from forum.work import (
    REPAIRS,
    Independence,
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


async def ask_formed(
    caller: Caller, turns: Turns, ask: Ask, read: Callable[[bytes], T]
) -> tuple[T | None, Exchange]:
    """Ask until what is said has its form, a few times.  The last reply is not recorded yet."""
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
        if malformed > REPAIRS or failed > policy.retries or outcome is Outcome.DENIED:
            return None, exchange
        recorded = await caller.record(exchange)
        if fault:
            said = exchange.said(policy.input_bytes)
            ask = replace(ask, prompt=repaired(ask.prompt, said, fault), causes=())
        elif recorded is not None:
            await caller.pause(recorded.entry.ts + 1000 * policy.pause(failed))


def repaired(prompt: Prompt, said: Quoted, fault: str) -> Prompt:
    """Return a prompt that tells what was wrong with the form of a reply."""
    return opening("", repair_prompt(prompt.text, said, fault[:500]))


def independence(judge: str, producer: str) -> Independence:
    """Tell whether the judge is another model than all that it judges."""
    shared = set(judge.split(",")) & set(producer.split(","))
    return Independence.NO if shared else Independence.YES
