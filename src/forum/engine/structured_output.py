"""Ask models for structured output: code validates each reply, and repairs are limited."""

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
    """The verdict of a judging model, and the name of that model."""

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
    """Return a model's verdict on a result; a judge that gives no usable verdict rejects it."""
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
    """Limits on how often an agent is asked again."""

    repairs: int
    """The maximum number of repairs after malformed replies."""
    retries: int
    """The maximum number of retries after errors."""
    together: int = 1 << 30
    """The maximum number of repairs and retries together."""
    hopeless: Callable[[CallResult], bool] = lambda _: False
    """Returns whether asking again after this result is pointless."""

    def is_exhausted(self, exchange: CallResult, malformed: int, failed: int) -> bool:
        """Return whether to stop asking; a denied call is never repeated."""
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
    """Ask until the reply can be read, or the repair policy is exhausted.

    Return what `read` makes of the reply, or None, and the last call.  The caller records the last
    reply, so that reply and verdict can be one commit.
    """
    patience = patience or RepairPolicy(MAX_REPAIRS, caller.policy.retries)
    failed = malformed = 0
    while True:
        exchange = await caller.make_call(turns, ask)
        outcome, policy = exchange.replied.outcome, caller.policy
        fault = ""
        if outcome is Outcome.OK:
            try:
                # In a thread: a large reply, or one crafted to be slow to parse, would block the
                # event loop for all runs.
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
"""The step of the verdict on a role or a turn."""


async def record_form_verdict(
    caller: ModelCaller, said: object, exchange: CallResult, *notes: Draft
) -> None:
    """Record the last reply, the notes, and a verdict on whether the reply was well-formed."""
    outcome = exchange.replied.outcome
    if said is not None:
        verdict = VerdictFacts(1, Outcome.OK, Check.FORM, Next.ACCEPT)
    elif outcome is Outcome.OK:
        verdict = VerdictFacts(1, Outcome.FAILED, Check.FORM, Next.GIVE_UP, "form")
    else:
        verdict = VerdictFacts(1, outcome, Check.OUTCOME, Next.GIVE_UP, outcome.value)
    await _record_verdict(caller, *exchange.unrecorded, *notes, verdict=verdict)


async def record_check_verdict(caller: ModelCaller, outcome: Outcome) -> None:
    """Record the verdict of a check by a tool: accepted if the tool's outcome is `ok`."""
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
    """Return a prompt that quotes a malformed reply and says what was wrong with it."""
    return build_prompt("", repair_prompt(prompt.text, said, fault[:500]))


def independence(judge: str, producer: str) -> Independence:
    """Return `YES` if judge and producer, each a comma-separated list of models, share none."""
    shared = set(judge.split(",")) & set(producer.split(","))
    return Independence.NO if shared else Independence.YES
