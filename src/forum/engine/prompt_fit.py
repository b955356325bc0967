"""Fit a request and results into the context of an agent.

What fits is shown whole. A request that is too long is shown by relevance, with notes for the parts
that are left out. A result that is too long is shortened by a Summarizer, whose calls are recorded
like all others, and the prompt says that it is a summary.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from forum.engine import context, model_calls
from forum.errors import BodyGone
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.runs import call_rules, text_fit
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.kinds import FINDINGS
from forum.runs.policy import Role
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import summarizer
from forum.runs.run_fold import TaskRun
from forum.tlog import Hash

MAX_SUMMARY_CALLS = 8
"""Limit of calls for one result; of a longer one the most relevant parts are summarized."""
_MIN_SHARE_TOKENS = 64
_WORDS_PER_TOKEN = 0.6
MAX_WHOLE_TOKENS = 3072
"""The estimated tokens up to which every role is shown the whole request."""
_ASKS_TOKENS = 1024
"""The estimated tokens in which a longer request says what it wants, without its material."""
QUOTE_TOKENS = 60
"""The estimated tokens of the lines around a quotation."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that an agent should see."""

    source: str
    text: bytes
    size: int
    """The size of the whole text; larger than the text if only its beginning was read."""
    note: str = ""
    """How the text differs from the whole, if it was shortened before."""

    def quote(self) -> Quotation:
        """Return the text as a quotation."""
        return Quotation(self.source, self.text, self.size, self.note)


NO_TEXT = Quotation("the request", b"", 0)
"""In place of a text, to find out how long the other parts of a prompt are."""


def read_request_source(ledger: Ledger, run: str) -> SourceText:
    """Read the request of a run as a text that may have to be shortened."""
    request = context.read_request(ledger, run)
    return SourceText("the request", request[:MAX_READ_BYTES], len(request))


def read_findings_source(ledger: Ledger, task: TaskRun, limit: int) -> list[SourceText]:
    """Read what the panel of a task found; nothing without a panel, or if it was erased."""
    if task.accord_at is None:
        return []
    with suppress(BodyGone):
        text = context.open_body(ledger, task.accord_at, FINDINGS)
        head = context.read_prefix(text.chunks(), limit)
        return [SourceText(f"the panel of task {task.id}", head, text.size)]
    return []


def source_of(quotation: Quotation) -> SourceText:
    """Return a quotation as a text that may have to be shortened for another reader."""
    return SourceText(quotation.source, quotation.text, quotation.size, quotation.note)


@dataclass(frozen=True, slots=True)
class FittedTexts:
    """Texts as they are quoted in a prompt."""

    request: Quotation
    texts: tuple[Quotation, ...]


class PromptFitter:
    """Fits texts into the prompts of one strand; its summaries are calls of that strand."""

    def __init__(self, caller: model_calls.ModelCaller, causes: tuple[Hash, ...] = ()) -> None:
        self._caller, self._summaries = caller, 0
        self.causes = causes
        """The causes that the next recorded call of the strand has to name."""

    async def fit(  # noqa: PLR0913  the last two have a default
        self,
        turns: model_calls.StepNames,
        agent: str,
        request: SourceText,
        texts: Sequence[SourceText],
        *,
        purpose: str,
        fixed: bytes = b"",
        reserved: int = 0,
        request_tokens: int | None = None,
    ) -> FittedTexts:
        """Return the texts so that they fit into a prompt of `agent`, beside the `fixed` parts.

        `purpose` says what the reader does with them: it decides what is relevant. `reserved` are
        the tokens of what is added to the prompt later. `request_tokens` limits the request where
        more of it would fit.
        """
        room = self._caller.policy.prompt_tokens(agent) - text_fit.estimate_tokens(fixed) - reserved
        sizes = [text_fit.estimate_tokens(text.text) + QUOTE_TOKENS for text in (request, *texts)]
        if request_tokens is not None:
            sizes[0] = min(sizes[0], request_tokens + QUOTE_TOKENS)
        shares = share_tokens(sizes, room)
        # In a thread: ranking the passages of a megabyte takes seconds.
        shown = await asyncio.to_thread(
            excerpt,
            request,
            purpose,
            shares[0] - QUOTE_TOKENS,
            by_section=request_tokens is not None,
        )
        fitted = [
            await self._fit_text(turns, agent, text, purpose, max_tokens=share - QUOTE_TOKENS)
            for text, share in zip(texts, shares[1:], strict=True)
        ]
        return FittedTexts(shown, tuple(fitted))

    async def _fit_text(
        self,
        turns: model_calls.StepNames,
        agent: str,
        text: SourceText,
        purpose: str,
        max_tokens: int,
    ) -> Quotation:
        if text_fit.estimate_tokens(text.text) <= max_tokens:
            return text.quote()
        summary = await self.summarize(turns, agent, text, purpose, max_tokens=max_tokens)
        if not summary.strip():
            return await asyncio.to_thread(excerpt, text, purpose, max_tokens)
        shortened = text_fit.excerpt_by_relevance(summary, purpose, max_tokens)
        note = f"a summary; the whole text has {text.size} bytes"
        return Quotation(text.source, shortened.text, text.size, note)

    async def summarize(
        self,
        turns: model_calls.StepNames,
        agent: str,
        text: SourceText,
        purpose: str,
        max_tokens: int,
    ) -> bytes:
        """Return summaries of the parts of a text; empty if no call succeeded, or was allowed."""
        policy = self._caller.policy
        summarizing = policy.summarizer_of(agent)
        # Half of the summarizer's prompt is for the purpose and its instructions.
        room = policy.prompt_tokens(summarizing) // 2
        source = await asyncio.to_thread(
            text_fit.excerpt_by_relevance, text.text, purpose, room * MAX_SUMMARY_CALLS
        )
        chunks = text_fit.split_chunks(source.text, room)
        words = max(20, int(max_tokens / len(chunks) * _WORDS_PER_TOKEN))
        purpose = text_fit.excerpt_by_relevance(purpose.encode(), "", room // 2).text.decode(
            errors="replace"
        )
        summaries = []
        for number, chunk in enumerate(chunks, 1):
            source_name = f"{text.source}, part {number} of {len(chunks)}"
            quoted = Quotation(source_name, chunk, len(chunk))
            prompt = summarizer.build_prompt(purpose, quoted, words)
            if self._caller.goes_on_without(turns, Role.SUMMARIZER):
                return b""
            summaries.append(await self._call_summarizer(turns, summarizing, prompt))
        if not any(summaries):
            return b""
        return b"\n".join(
            summary or f"[part {number}, {len(chunk)} bytes, could not be summarized]".encode()
            for number, (chunk, summary) in enumerate(zip(chunks, summaries, strict=True), 1)
        )

    async def _call_summarizer(
        self, turns: model_calls.StepNames, agent: str, prompt: Prompt
    ) -> bytes:
        # The number makes each question another one: two parts may well have the same summary,
        # which is no loop.
        self._summaries += 1
        spec = model_calls.CallSpec(
            agent=agent,
            prompt=prompt,
            causes=self.causes,
            question=call_rules.summary_question(self._summaries),
            role=Role.SUMMARIZER,
        )
        self.causes = ()
        result = await self._caller.make_call(turns, spec)
        await self._caller.record_reply(result)
        return result.output.strip() if result.replied.outcome is Outcome.OK else b""


def excerpt(
    text: SourceText, purpose: str, max_tokens: int, *, by_section: bool = False
) -> Quotation:
    """Return the parts of a text that matter for a purpose, with notes for the others."""
    room = max(_MIN_SHARE_TOKENS, max_tokens)
    shown = text_fit.excerpt_by_relevance(text.text, purpose, room, by_section=by_section)
    if not shown.left_out:
        return text.quote()
    unread = text.size - len(text.text)
    note = f"an excerpt; {shown.left_out} of {text.size} bytes are left out where it says so"
    note += f", and the last {unread} bytes" if unread and not text.note else ""
    note = f"{text.note}; {note}" if text.note else note
    return Quotation(text.source, shown.text, text.size, note)


def task_request_tokens(request: SourceText, instruction: str, tasks: int) -> int | None:
    """Return how many tokens of a request one of several tasks is shown; None: all that fit.

    Each of `tasks` has an equal share of a long request, and an eighth of it in addition. A task
    that does not say which parts it is about sees the whole.
    """
    size = text_fit.estimate_tokens(request.text)
    if size <= MAX_WHOLE_TOKENS or not text_fit.names_passages(request.text, instruction):
        return None
    return max(MAX_WHOLE_TOKENS, size // tasks + size // 8)


def asks_tokens(request: SourceText) -> int | None:
    """Return how many tokens of a request are shown for its asks; None: all that fit."""
    return _ASKS_TOKENS if text_fit.estimate_tokens(request.text) > MAX_WHOLE_TOKENS else None


def share_tokens(sizes: Sequence[int], room: int) -> list[int]:
    """Return how many tokens each text may have: all it needs, or an equal share of the rest."""
    shares = [0] * len(sizes)
    remaining = max(room, _MIN_SHARE_TOKENS * len(sizes))
    for place, number in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[number] = min(sizes[number], remaining // (len(sizes) - place))
        remaining -= shares[number]
    return shares
