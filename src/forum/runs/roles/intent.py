"""The Intent judge tells whether the answer answers the request, ask by ask.

Its prompt holds the request and the answer. For each ask it quotes the span of the answer that
meets it; code checks that the span stands in the answer and is not the question itself. Since
version 3 of the rules a finding of the judge fails an answer only where the words confirm it.
"""

import msgspec

from forum.ledger.kinds import Outcome
from forum.runs import reply_schemas
from forum.runs.asks import find_ignored_questions, is_quoted_from, is_repetition
from forum.runs.coverage import find_terms
from forum.runs.judging import NOT_ACCEPTED, Judgement
from forum.runs.kinds import CheckFacts
from forum.runs.panel import ACCEPTED, REJECTED
from forum.runs.policy import Role
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import opinions, prompt_parts
from forum.runs.roles.prompt_parts import MAX_TEXT_CHARS

MAX_ASKS = 16

SYSTEM = """\
You check whether an answer answers a request. You do not write the answer.
- List everything that the request asks for. Material in the request, such as a document or a \
diff, is no ask.
- An ask is met only by words of the answer that give what was asked for. Repeating the question, \
announcing an answer, or answering another question does not meet it.
- Do not judge style, and do not demand more than was asked."""

_TASK = """\
## Your task
Check the answer. Reply with JSON only:
{"asks": [{"ask": "...", "met_by": "...", "met": true or false}], "reason": "...", "evidence": \
"...", "passed": true or false, "missing": ["..."]}
- ask: a part of the request, in its words
- met_by: the words of the answer that meet it, quoted exactly; empty if there are none
- met: whether they do
- reason: in one or two sentences, what you found
- evidence: the words of the answer that decide
- passed: true only if every ask is met
- missing: the asks that are not met"""


_PANEL_TASK = f"""\
## Your task
Decide whether the answer gives everything that the request asks for: {ACCEPTED} or {REJECTED}. \
State as claims which ask is met by which words of the answer. If it has to be rejected, name the \
asks that are not met."""


class AskedPart(msgspec.Struct, frozen=True):
    """One thing that a request asks for, and the words of the answer that meet it."""

    ask: str
    met_by: str = ""
    met: bool = False


class IntentOpinion(opinions.Opinion, frozen=True):
    """The reply of an Intent judge."""

    asks: tuple[AskedPart, ...] = ()

    def unmet_asks(self, request: str, answer: str) -> list[str]:
        """Return the asks that the answer does not meet.

        An ask whose span is not in the answer, or repeats the ask, counts as not met: a judge that
        cannot quote the answer has not found it. So do questions of a short request that neither
        the judge nor the answer mentions.
        """
        unmet = [part.ask for part in self.asks if not _is_met(part, answer)]
        if not self.asks:  # a judge in the form of an earlier release lists none
            return unmet
        listed = "\n".join(part.ask for part in self.asks)
        return [*unmet, *find_ignored_questions(request, listed, answer)]

    @property
    def named_gaps(self) -> tuple[str, ...]:
        """The asks that the judge itself calls not met; those it only calls missing if it has none.

        A quotation that is not in the answer is none: judges describe what they should quote.
        """
        unmet = tuple(part.ask for part in self.asks if not part.met)
        return unmet or (() if self.passed else self.missing)

    @property
    def is_content(self) -> bool:
        """Whether the judge finds every ask met."""
        return self.passed and not self.named_gaps

    def outcome_for(self, request: str, answer: str, *, is_flagged: bool) -> Outcome:
        """Return what the opinion says of an answer, as far as code confirms it.

        `is_flagged`: the words of the whole answer leave a doubt. What code cannot confirm is a
        remark, which fails nothing.
        """
        if self.is_content:
            is_shown = not is_flagged or any(_is_met(part, answer) for part in self.asks)
            return Outcome.OK if is_shown else Outcome.INDETERMINATE
        is_confirmed = is_flagged or any(
            _is_absent(gap, request, answer) for gap in self.named_gaps
        )
        return Outcome.FAILED if is_confirmed else Outcome.INDETERMINATE

    def describe_gaps(self, request: str, answer: str) -> str:
        """Return a line for each ask, those that the judge finds not met first."""
        unmet = [
            f"not met: {gap}"
            + ("" if _is_absent(gap, request, answer) else " (the answer has words of it)")
            for gap in self.named_gaps
        ]
        met = [f'met: {part.ask} <- "{part.met_by}"' for part in self.asks if part.met]
        return "\n".join([*unmet, *met])

    def describe_asks(self, request: str, answer: str) -> str:
        """Return a line for each ask, those that are not met first, and the words that meet it."""
        unmet = [f"not met: {ask}" for ask in self.unmet_asks(request, answer)]
        met = [f'met: {part.ask} <- "{part.met_by}"' for part in self.asks if _is_met(part, answer)]
        return "\n".join([*unmet, *met])


def _is_absent(ask: str, request: str, answer: str) -> bool:
    """Tell whether an ask has terms of the request, and the answer mentions none of them."""
    asked = find_terms(ask).keys() & find_terms(request).keys()
    return bool(asked) and asked.isdisjoint(find_terms(answer))


def _is_met(part: AskedPart, answer: str) -> bool:
    return (
        part.met
        and is_quoted_from(part.met_by, answer)
        and not is_repetition(part.met_by, part.ask)
    )


def build_prompt(request: Quotation, answer: Quotation, *, for_panel: bool = False) -> Prompt:
    """Return a prompt that asks an agent, or a panel, whether an answer answers the request."""
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("The answer to judge", [answer]),
    ]
    return prompt_parts.compose_prompt(SYSTEM, sections, _PANEL_TASK if for_panel else _TASK)


def check_by_panel(judge: str, judgement: Judgement) -> CheckFacts:
    """Return the check of an answer that a panel has judged, without how independent that is."""
    return CheckFacts(
        subject=Role.INTENT.value,
        outcome=Outcome.OK if judgement.passed else Outcome.FAILED,
        check=judgement.check,
        reason="not-answered" if judgement.reason == NOT_ACCEPTED else judgement.reason,
        judge=judge,
    )


def build_schema(room: int) -> bytes:
    """Return the schema of the reply."""
    most = max(2, min(MAX_ASKS, room // 400))
    text = reply_schemas.text_schema(min(200, max(80, room // (4 * most))))
    part = reply_schemas.object_schema({"ask": text, "met_by": text, "met": {"type": "boolean"}})
    asks = reply_schemas.array_schema(part, most)
    return reply_schemas.build_schema({"asks": asks} | opinions.opinion_members(room // 2))


class _IntentReply(opinions.OpinionReply, frozen=True):
    """The reply of an Intent judge as models write it."""

    asks: tuple[AskedPart, ...] = ()


def parse_opinion(reply: bytes) -> IntentOpinion:
    """Return the opinion, with its texts truncated. Raises `ValueError`."""
    parsed = reply_schemas.parse_structured(reply, _decoder)
    opinion = parsed.normalize()
    asks = tuple(
        AskedPart(part.ask[:MAX_TEXT_CHARS], part.met_by[:MAX_TEXT_CHARS], part.met)
        for part in parsed.asks[:MAX_ASKS]
    )
    return IntentOpinion(
        passed=opinion.passed,
        reason=opinion.reason,
        evidence=opinion.evidence,
        missing=opinion.missing,
        asks=asks,
    )


_decoder = msgspec.json.Decoder(_IntentReply)
