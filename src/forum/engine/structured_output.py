"""Ask models for structured output: code validates each reply, and repairs are limited."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from forum.engine import model_calls
from forum.engine.context import ENGINE
from forum.engine.prompt_fit import excerpt, source_of
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Draft
from forum.runs import call_rules
from forum.runs.kinds import Independence, VerdictFacts
from forum.runs.policy import Policy, Role
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import opinions, prompt_parts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndependentVerdict:
    """The opinion of a judging model, and the name of that model."""

    opinion: opinions.Opinion
    model: str


async def judge_independently(
    caller: model_calls.ModelCaller, turns: model_calls.StepNames, judge: str, prompt: Prompt
) -> IndependentVerdict:
    """Return a model's verdict on a result; a judge that gives no usable verdict rejects it."""
    schema = opinions.build_schema(caller.policy.max_reply_chars(judge))
    spec = model_calls.CallSpec(judge, prompt, role=Role.VALIDATOR, schema=schema)
    opinion, result = await ask_structured(caller, turns, spec, opinions.parse_opinion)
    await caller.record_reply(result)
    unusable = opinions.Opinion(passed=False, reason="The judge gave no usable verdict.")
    return IndependentVerdict(opinion or unusable, result.model)


async def ask_structured(
    caller: model_calls.ModelCaller,
    turns: model_calls.StepNames,
    ask: model_calls.CallSpec,
    read: Callable[[bytes], T],
    limits: call_rules.QuestionLimits | None = None,
    *,
    is_hopeless: Callable[[model_calls.CallResult], bool] = lambda _: False,
) -> tuple[T | None, model_calls.CallResult]:
    """Ask until the reply can be read, or the rules forbid to ask again.

    Return what `read` makes of the reply, or None, and the last call.  The caller records the last
    reply, so that reply and verdict can be one commit.
    """
    policy = caller.policy
    limits = limits or call_rules.QuestionLimits(prompt_parts.MAX_REPAIRS, policy.retries)
    caller.progress.advance(call_rules.QuestionAsked(limits))
    while True:
        result = await caller.make_call(turns, ask)
        outcome, fault = result.replied.outcome, ""
        if outcome is Outcome.OK:
            try:
                # In a thread: a large reply, or one crafted to be slow to parse, would block the
                # event loop for all runs.
                return await asyncio.to_thread(read, result.output), result
            except ValueError as error:
                fault = str(error)
        state = caller.progress.advance(
            call_rules.ReplyRead(outcome, usable=False, hopeless=is_hopeless(result))
        )
        if state.move is call_rules.Move.GIVE_UP:
            return None, result
        recorded = await caller.record_reply(result)
        if state.move is call_rules.Move.REPAIR:
            reply = _quote_for_repair(policy, ask.agent, result)
            ask = replace(ask, prompt=ask.prompt.with_repair(reply, fault[:_MAX_FAULT]), causes=())
        elif recorded is not None:
            delay = policy.retry_delay_ms(state.failed)
            await caller.wait_before_retry(recorded.entry.ts, 1000 * delay)


_MAX_FAULT = 500
"""How much of a fault is told; the prompts of sessions are audited, and have this limit."""


def _quote_for_repair(policy: Policy, agent: str, result: model_calls.CallResult) -> Quotation:
    """Return an unusable reply for the prompt of its repair, of a team's role what fits there."""
    reply = result.quote_output(policy.read_bytes)
    if not policy.is_team:
        return reply
    return excerpt(source_of(reply), "", policy.prompt_tokens(agent) // 16)


VERDICT_STEP = "attempt/1/verdict"
"""The step of the verdict on a role or a turn."""


async def record_form_verdict(
    caller: model_calls.ModelCaller, parsed: object, result: model_calls.CallResult, *notes: Draft
) -> None:
    """Record the last reply, the notes, and a verdict on whether the reply was well-formed."""
    verdict = call_rules.form_verdict(result.replied.outcome, usable=parsed is not None)
    await _record_verdict(caller, *result.unrecorded, *notes, verdict=verdict)


async def record_check_verdict(caller: model_calls.ModelCaller, outcome: Outcome) -> None:
    """Record the verdict of a check by a tool: accepted if the tool's outcome is `ok`."""
    await _record_verdict(caller, verdict=call_rules.tool_verdict(outcome))


async def _record_verdict(
    caller: model_calls.ModelCaller, *drafts: Draft, verdict: VerdictFacts
) -> None:
    if caller.strand.replay_step(VERDICT_STEP) is None:
        await caller.append_with_retry(
            *drafts, Draft(VERDICT_STEP, ENGINE, verdict, effects=caller.wake_run_effects())
        )


def independence(judge: str, producer: str) -> Independence:
    """Return `YES` if judge and producer, each a comma-separated list of models, share none."""
    shared = set(judge.split(",")) & set(producer.split(","))
    return Independence.NO if shared else Independence.YES
