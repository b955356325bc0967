"""Compact the conversation of an attempt: which rounds its prompt still shows, and what it says.

A round is a reply of an agent with the results of the tool calls that it requested. The last round
is always shown, because its results wait for an answer. Rounds before it are left out from the
first one on, and a text stands for all of them.
"""

import re
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from forum.runs.kinds import sanitize_name
from forum.runs.policy import ToolCall
from forum.runs.prompt import QUOTATION_NOTICE, Prompt, Quotation, is_noticed, quote
from forum.runs.text_fit import estimate_tokens, is_excerpt_of

MIN_ROOM_TOKENS = 128
"""The least room behind the first prompt: with less of it, leaving out rounds helps nobody."""
MIN_SUMMARIZER_TOKENS = 512
"""The least prompt of an agent that is asked for a summary; for others an excerpt is made."""
_SUMMARY_SHARE, _ROUNDS_SHARE = 4, 2
"""A quarter of the room is for the text, half of it for rounds; the rest is for what follows."""
_MAX_ARGUMENT_BYTES = 2000
"""How much of the arguments of a tool call the text may tell."""
SOURCE = "the conversation so far"
_GO_ON = (
    "The first {rounds} of your replies in this conversation, with the results of their tool "
    "calls, were left out to fit your context. The text quoted above stands for them. Go on from "
    "there: what it tells as done is done."
)
_QUOTED = re.compile(rb"--- ([0-9a-f]{32}|[0-9]{8}) begin: ([^\n]*)\n")
_MARKS = re.compile(rb"^--- (?:[0-9a-f]{32}|[0-9]{8}) (begin: |end$)", re.MULTILINE)
_EXCERPT_NOTE = (
    rb"an excerpt; \d+ of \d+ bytes are left out where it says so(?:, and the last \d+ bytes)?"
)
_SHORTENED = re.compile(
    rb" \((?:the first \d+ of \d+ bytes|" + _EXCERPT_NOTE + rb"(?:; " + _EXCERPT_NOTE + rb")*)\)"
)
"""What follows the source of a text that is not shown whole."""
_FAILED_PART = re.compile(rb"^\[part \d+, \d+ bytes, could not be summarized\]$", re.MULTILINE)


class Round(msgspec.Struct, frozen=True):
    """A reply of an agent, and the results of its tool calls."""

    step: str
    """The step of the reply."""
    reply: Quotation
    uses: tuple[ToolCall, ...]
    results: tuple[Quotation, ...]

    @property
    def tokens(self) -> int:
        """The estimated tokens of the round in a prompt."""
        quoted = sum(estimate_tokens(quote(text)) for text in (self.reply, *self.results))
        return quoted + _estimate_uses(self.uses)


def estimate_prompt(prompt: Prompt) -> int:
    """Return the estimated tokens of a prompt, with the arguments of the tool calls in it."""
    return estimate_tokens(prompt.text) + sum(_estimate_uses(turn.uses) for turn in prompt.turns)


def _estimate_uses(uses: Sequence[ToolCall]) -> int:
    return sum(
        estimate_tokens(f"{use.tool} {use.arguments}".encode(errors="replace")) for use in uses
    )


def summary_tokens(room: int) -> int:
    """Return how many tokens the text has that stands for rounds."""
    return room // _SUMMARY_SHARE


def rounds_tokens(room: int) -> int:
    """Return how many tokens the rounds have that are still shown."""
    return room // _ROUNDS_SHARE


def count_left_out(rounds: Sequence[Round], room: int) -> int:
    """Return how many rounds to leave out, so that the others take no more than their part.

    The last one is always shown.
    """
    sizes = accumulate(each.tokens for each in reversed(rounds))
    shown = sum(size <= rounds_tokens(room) for size in sizes)
    return len(rounds) - max(1, shown)


def describe_rounds(summary: bytes, rounds: Sequence[Round]) -> bytes:
    """Return rounds as a text, after the text that stands for those before them."""
    return b"\n\n".join([*([summary] if summary else []), *map(_describe_round, rounds)])


def _describe_round(each: Round) -> bytes:
    parts = [b"# Reply\n" + each.reply.text]
    for use, result in zip(each.uses, each.results, strict=True):
        arguments = use.arguments.encode(errors="replace")[:_MAX_ARGUMENT_BYTES]
        parts.append(b"# Tool call " + use.tool.encode(errors="replace") + b"\n" + arguments)
        parts.append(b"# Result of " + result.source.encode() + b"\n" + result.text)
    return b"\n".join(parts)


def is_summary_of(text: bytes, outputs: Sequence[bytes]) -> bool:
    """Return whether a text is what these calls said, or an excerpt of it."""
    summary = _FAILED_PART.sub(b"", text)
    return is_excerpt_of(summary, b"\n".join(outputs))


def compose_prompt(
    first: Prompt, summary: bytes, left_out: int, rounds: Sequence[Round], *, is_summary: bool
) -> Prompt:
    """Return the prompt after a compaction: the first one, the text, and the rounds still shown."""
    note = "a summary" if is_summary else "an excerpt"
    quoted = Quotation(SOURCE, summary, len(summary), note)
    prompt = first.with_text(quoted, _GO_ON.format(rounds=left_out).encode())
    for each in rounds:
        prompt = prompt.with_tool_results(each.reply, each.uses, each.results)
    return prompt


def find_prompt_fault(
    prompt: bytes,
    first: bytes,
    summary: bytes,
    left_out: int,
    rounds: Sequence[Round],
    *,
    is_summary: bool,
) -> str:
    """Return how a recorded prompt differs from the composed one; empty if it does not.

    `rounds` have the whole replies and results: a prompt may show excerpts of them. Short marks
    follow from a secret and from all texts, and are not compared.
    """
    note = "a summary" if is_summary else "an excerpt"
    reader = _PromptReader(prompt, len(first))
    if _remove_marks(prompt[: len(first)]) != _remove_marks(first):
        return "it does not begin with the first prompt of the attempt"
    go_on = b"\n\n" + _GO_ON.format(rounds=left_out).encode()
    notice = b"\n\n" + QUOTATION_NOTICE
    is_told = QUOTATION_NOTICE in first
    before = b"" if is_noticed(first) else notice
    if (
        reader.read_quotation(before) != (f"{SOURCE} ({note})".encode(), summary)
        or not reader.read_text(go_on)
    ):  # fmt: skip
        return "it does not have the text that stands for what was left out"
    is_told = is_told or bool(before)
    for each in rounds:
        for quoted in (each.reply, *each.results):
            quotation = reader.read_quotation(b"" if is_told else notice)
            is_told = True
            if quotation is None or not _names_source(quotation[0], quoted, quotation[1]):
                return f"it does not show {quoted.source!r} of {each.step}"
            if not is_excerpt_of(quotation[1], quoted.text):
                return f"what it shows of {quoted.source!r} of {each.step} is not in the record"
    return "" if reader.is_at_end else "it shows more than the record has"


def _names_source(head: bytes, whole: Quotation, shown: bytes) -> bool:
    """Return whether the line above a text names its source, and says if it is not the whole."""
    name = sanitize_name(whole.source).encode()
    if head == name:
        return shown == whole.text
    return head.startswith(name) and _SHORTENED.fullmatch(head[len(name) :]) is not None


def _remove_marks(text: bytes) -> bytes:
    return _MARKS.sub(rb"--- \1", text)


class _PromptReader:
    """Reads the parts of a prompt one after the other."""

    def __init__(self, prompt: bytes, start: int) -> None:
        self._prompt, self._at = prompt, start

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._prompt)

    def read_text(self, text: bytes) -> bool:
        """Return whether this text follows, and pass over it."""
        follows = self._prompt.startswith(text, self._at)
        self._at += len(text) if follows else 0
        return follows

    def read_quotation(self, before: bytes) -> tuple[bytes, bytes] | None:
        """Return the head and the text of the quotation that follows, or None if none does."""
        if not self.read_text(before + b"\n\n"):
            return None
        head = _QUOTED.match(self._prompt, self._at)
        if head is None:
            return None
        # No text contains its own mark, so the first such line is the end.
        mark = b"\n--- " + head[1] + b" end\n"
        end = self._prompt.find(mark, head.end() - 1)
        if end < 0:
            return None
        self._at = end + len(mark)
        return head[2], self._prompt[head.end() : end]
