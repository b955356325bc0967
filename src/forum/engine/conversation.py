"""The conversation of one attempt with an agent that uses tools.

Before it passes the context of the agent, its first rounds are left out, and a text stands for
them.  That is recorded before the next call, so that a worker that takes over, a fork, a replay and
a verifier come to the same prompt.
"""

import asyncio

import msgspec

from forum.engine import context, model_calls
from forum.engine.ports import TaskHalted, ToolOffer
from forum.engine.prompt_fit import QUOTE_TOKENS, PromptFitter, SourceText, excerpt, source_of
from forum.ledger.body import BytesContent
from forum.ledger.strand import Attachment, Draft, RecordedEntry
from forum.runs import call_rules, compaction, kinds, text_fit
from forum.runs.policy import ToolCall
from forum.runs.prompt import Prompt, Quotation


class Conversation:
    """The first prompt of an attempt, and the rounds that follow it."""

    def __init__(
        self,
        caller: model_calls.ModelCaller,
        fitter: PromptFitter,
        agent: str,
        purpose: str,
        first: Prompt,
        offers: tuple[ToolOffer, ...],
    ) -> None:
        """Begin with the first prompt; `purpose` decides what matters of what is left out."""
        self._caller, self._fitter = caller, fitter
        self._agent, self._purpose = agent, purpose
        self._first = first
        self._prompt = first
        self._rounds: tuple[compaction.Round, ...] = ()
        """The rounds that the prompt shows."""
        self._left_out, self._summary = 0, b""
        self._first_step = ""
        self._is_summary = False
        listed = msgspec.json.encode([(o.name, o.description, o.schema.decode()) for o in offers])
        limit = caller.policy.prompt_tokens(agent) - text_fit.estimate_tokens(listed)
        self._room = max(0, limit - compaction.estimate_prompt(first))
        """The estimated tokens that the rounds may have."""

    def add(
        self, step: str, reply: Quotation, uses: tuple[ToolCall, ...], results: list[Quotation]
    ) -> None:
        """Add a reply, and the results of the tool calls that it requested."""
        self._first_step = self._first_step or step
        self._rounds = (*self._rounds, compaction.Round(step, reply, uses, tuple(results)))
        self._prompt = self._prompt.with_tool_results(reply, uses, results)

    async def next_prompt(self, turns: model_calls.StepNames) -> Prompt:
        """Return the prompt of the next call, after compacting the conversation if it is due."""
        if not self._caller.policy.compacts or self._room < compaction.MIN_ROOM_TOKENS:
            return self._prompt
        before = compaction.estimate_prompt(self._prompt)
        if before - compaction.estimate_prompt(self._first) > self._room:
            await self._compact(turns, before)
        return self._prompt

    async def _compact(self, turns: model_calls.StepNames, before: int) -> None:
        count = compaction.count_left_out(self._rounds, self._room)
        gone, kept = self._rounds[:count], self._rounds[count:]
        kept = (*kept[:-1], self._shorten(kept[-1]))
        if gone:
            self._left_out += count
            text, self._is_summary = await self._make_text(turns, gone)
            # A crash before this entry leads to the same summary again, whose calls are recorded.
            recorded = await self._record(turns, gone[-1].step, text, kept, before)
            at = context.position_of(recorded)
            self._summary = context.read_body(self._caller.ledger, at, kinds.SUMMARY)
        self._rounds = kept
        self._prompt = self._compose(kept)

    def _compose(self, kept: tuple[compaction.Round, ...]) -> Prompt:
        if not self._left_out:
            prompt = self._first
            for each in kept:
                prompt = prompt.with_tool_results(each.reply, each.uses, each.results)
            return prompt
        return compaction.compose_prompt(
            self._first, self._summary, self._left_out, kept, is_summary=self._is_summary
        )

    def _shorten(self, last: compaction.Round) -> compaction.Round:
        """Return the round that waits for an answer, shortened with notes if it is too long."""
        room = compaction.rounds_tokens(self._room)
        if last.tokens <= room:
            return last
        share = room // (len(last.results) + 1)

        def shorten(quoted: Quotation) -> Quotation:
            return excerpt(source_of(quoted), self._purpose, share - QUOTE_TOKENS)

        return compaction.Round(
            last.step, shorten(last.reply), last.uses, tuple(map(shorten, last.results))
        )

    async def _make_text(
        self, turns: model_calls.StepNames, gone: tuple[compaction.Round, ...]
    ) -> tuple[bytes, bool]:
        """Return the text that stands for rounds, and whether it is a summary.

        It is an excerpt if no call succeeds or may be made, and if the Summarizer's context is too
        small for its instructions and a part of the conversation.
        """
        description = compaction.describe_rounds(self._summary, gone)
        room = compaction.summary_tokens(self._room)
        summary, policy = b"", self._caller.policy
        summarizer = policy.summarizer_of(self._agent)
        if policy.prompt_tokens(summarizer) >= compaction.MIN_SUMMARIZER_TOKENS:
            source = SourceText(compaction.SOURCE, description, len(description))
            summary = await self._summarize(turns, source, room)
        text = await asyncio.to_thread(
            text_fit.excerpt_by_relevance, summary.strip() or description, self._purpose, room
        )
        return text.text, bool(summary.strip())

    async def _summarize(
        self, turns: model_calls.StepNames, source: SourceText, max_tokens: int
    ) -> bytes:
        """Return a summary by recorded calls; empty if the budget has no room for them."""
        try:
            return await self._fitter.summarize(
                turns, self._agent, source, self._purpose, max_tokens=max_tokens
            )
        except TaskHalted as halt:
            stopped, move = halt.facts, self._caller.progress.state.move
            is_refused = (
                isinstance(stopped, kinds.StopFacts) and stopped.reason is kinds.StopReason.BUDGET
            )
            # A call that was lost has to be made again: without it the task ends here.
            if not is_refused or move is call_rules.Move.REPEAT:
                raise
            turns.return_call()
            return b""

    async def _record(
        self,
        turns: model_calls.StepNames,
        last: str,
        text: bytes,
        kept: tuple[compaction.Round, ...],
        before: int,
    ) -> RecordedEntry:
        step = turns.next_compaction()
        recorded = self._caller.strand.replay_step(step)
        if recorded is not None:
            return recorded
        self._summary = text
        facts = kinds.CompactionFacts(
            attempt=turns.attempt,
            rounds=self._left_out,
            first=self._first_step,
            last=last,
            method=(
                kinds.CompactionMethod.SUMMARY
                if self._is_summary
                else kinds.CompactionMethod.EXCERPT
            ),
            tokens_before=before,
            tokens_after=compaction.estimate_prompt(self._compose(kept)),
        )
        body = Attachment(kinds.SUMMARY, BytesContent(text))
        draft = Draft(step=step, actor=context.ENGINE, facts=facts, bodies=(body,))
        return (await self._caller.append_with_retry(draft))[0]
