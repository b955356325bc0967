"""Find statements in a text that something was done, and the entries that support them."""

import re
from collections.abc import Sequence
from typing import Self

import msgspec

from forum.features.claims.grammar import Grammar, split_words
from forum.runs.claims import ActionClaim, ClaimedAction, Receipt
from forum.runs.judging import MAX_READ_BYTES, count_tests

MAX_CLAIMS = 100

# Each repeated class is bounded: the text may come from an attacker, and a megabyte of it must be
# read in time that grows linearly.
_SENTENCE = re.compile(r"[^.!?\n]{1,600}(?:[.!?](?=\w)[^.!?\n]{0,200})*")
_TOKEN = re.compile(r"[\w./-]{3,}")


def find_claims(
    text: bytes, receipts: Sequence[Receipt], grammar: Grammar
) -> tuple[ActionClaim, ...]:
    """Return the claims in a text, each with the entry that supports it, if there is one."""
    content = text[:MAX_READ_BYTES].decode(errors="replace")
    # Cheap test first: a text without any such verb need not be split into sentences.
    if not grammar.may_claim(split_words(content)):
        return ()
    claims: list[ActionClaim] = []
    evidence = [_ReceiptEvidence.from_receipt(receipt, grammar) for receipt in receipts]
    for match in _SENTENCE.finditer(content):
        if content.startswith("?", match.end()):
            continue
        sentence = match.group().strip()
        action = grammar.find_action(sentence)
        if action is not None:
            names = _tokens(sentence, grammar)
            receipt = next((shown.entry for shown in evidence if shown.shows(action, names)), "")
            claims.append(ActionClaim(action, sentence, receipt))
            if len(claims) == MAX_CLAIMS:
                break
    return tuple(claims)


class _ReceiptEvidence(msgspec.Struct, frozen=True):
    """The evidence in one receipt, extracted once for all claims."""

    entry: str
    tested: bool
    tokens: frozenset[str]

    @classmethod
    def from_receipt(cls, receipt: Receipt, grammar: Grammar) -> Self:
        """Extract the evidence of a receipt."""
        tests = count_tests(receipt.result)
        tested = tests.passed > 0 and tests.failed == 0
        tokens = _tokens(f"{receipt.tool} {receipt.arguments}", grammar)
        return cls(receipt.entry, tested, tokens)

    def shows(self, action: ClaimedAction, tokens: frozenset[str]) -> bool:
        """Tell whether the receipt supports a claim.

        A claim about tests needs a receipt with passed and no failed tests; any other claim must
        share a name with the tool call: a file, a program, a recipient.
        """
        return self.tested if action is ClaimedAction.TESTS else not self.tokens.isdisjoint(tokens)


def _tokens(text: str, grammar: Grammar) -> frozenset[str]:
    tokens: set[str] = set()
    for match in _TOKEN.finditer(text[:MAX_READ_BYTES]):
        # A claim may name a file without the folder that the tool call names, or the reverse.
        token = match.group().casefold().strip("./-")
        tokens.update(part for part in (token, token.rpartition("/")[2]) if len(part) > 2)
    return frozenset(tokens - grammar.generic_words)
