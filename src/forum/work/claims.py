"""Find statements in a text that something was done, and the entries that support them.

A model that writes "all tests pass" may be right; the record shows whether a program ran that
counted them. A claim is linked to the outcome that supports it, or it is *unverified*, which does
not mean that it is wrong.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Self

import msgspec
import re2

from forum.work.judging import MAX_READ_BYTES, count_tests

MAX_CLAIMS = 100


class ClaimedAction(StrEnum):
    """What kind of thing is said to have been done."""

    TESTS = "tests"
    FILE = "file"
    COMMAND = "command"
    SENT = "sent"


class Receipt(msgspec.Struct, frozen=True):
    """The outcome of a tool use, as evidence that something was done."""

    entry: str
    tool: str
    arguments: str
    result: str


class ActionClaim(msgspec.Struct, frozen=True):
    """A sentence that says that something was done."""

    deed: ClaimedAction
    text: str
    receipt: str = ""
    """The entry that supports the claim; empty if it is unverified."""


# Each repeated class is bounded: the text may come from an attacker, and a megabyte of it must be
# read in time that grows linearly.
_SENTENCE = re.compile(r"[^.!?\n]{1,600}(?:[.!?](?=\w)[^.!?\n]{0,200})*")
_ACTION_PATTERNS = (
    (
        ClaimedAction.TESTS,
        (
            r"(?i)\b(?:tests?|test suite|specs?|checks?)\b.{0,60}\b(?:pass(?:ed|es|ing)?|green|"
            r"succeed(?:ed|s)?|ran|were run)\b|\b(?:ran|executed|passed)\b.{0,40}\btests?\b"
        ),
    ),
    (
        ClaimedAction.FILE,
        (
            r"(?i)\b(?:wrote|written|created|saved|updated|modified|deleted|removed|edited|patched)\b"
            r".{0,80}(?:\bfiles?\b|\bnotes?\b|[\w-]+\.[a-z][a-z0-9]{0,7}\b|/[\w.-]+)"
            r"|\b(?:i|we)(?: have|'ve)? (?:wrote|written|created|saved|updated|deleted|edited)\b"
        ),
    ),
    (
        ClaimedAction.SENT,
        (
            r"(?i)\b(?:i|we|have|has|been|was|were|successfully)\b.{0,40}\b(?:sent|posted|deployed|"
            r"committed|pushed|merged|published|paid|transferred|booked|emailed|uploaded|installed)\b"
        ),
    ),
    (
        ClaimedAction.COMMAND,
        (
            r"(?i)\b(?:i|we|have|been|was|were|successfully)\b.{0,40}\b(?:ran|executed|run)\b"
            r"|\b(?:command|script|build|migration)\b.{0,40}\b(?:succeeded|completed|finished|worked)\b"
        ),
    ),
)
_ANY_ACTION = "|".join(pattern for _, pattern in _ACTION_PATTERNS)
_compile_pattern = cache(re2.compile)
"""Compiled at first use, because few commands search for claims."""
_TOKEN = re.compile(r"[\w./-]{3,}")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        the and was were has have been file files note notes test tests all with
        """,
    )
)


def find_claims(text: bytes, receipts: Sequence[Receipt]) -> tuple[ActionClaim, ...]:
    """Return the claims in a text, each with the entry that supports it, if there is one."""
    words = text[:MAX_READ_BYTES].decode(errors="replace")
    # Cheap test first: a text without any match need not be split into sentences.
    if not _compile_pattern(_ANY_ACTION).search(words):
        return ()
    found: list[ActionClaim] = []
    deeds = [_ReceiptEvidence.from_receipt(receipt) for receipt in receipts]
    for match in _SENTENCE.finditer(words):
        sentence = match.group().strip()
        deed = next(
            (
                deed
                for deed, pattern in _ACTION_PATTERNS
                if _compile_pattern(pattern).search(sentence)
            ),
            None,
        )
        if deed is not None:
            said = _tokens(sentence)
            shown = next((done.entry for done in deeds if done.shows(deed, said)), "")
            found.append(ActionClaim(deed, sentence, shown))
            if len(found) == MAX_CLAIMS:
                break
    return tuple(found)


def read_claims(data: bytes) -> tuple[ActionClaim, ...]:
    """Return the claims of a body; none if it is empty or cannot be read."""
    try:
        return _claims.decode(data) if data else ()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()


# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process.
_claims = msgspec.json.Decoder(tuple[ActionClaim, ...])


def count_unverified(claims: Sequence[ActionClaim]) -> int:
    """Count the claims that no entry supports."""
    return sum(1 for claim in claims if not claim.receipt)


class _ReceiptEvidence(msgspec.Struct, frozen=True):
    """The evidence in one receipt, extracted once for all claims."""

    entry: str
    tested: bool
    tokens: frozenset[str]

    @classmethod
    def from_receipt(cls, receipt: Receipt) -> Self:
        """Extract the evidence of a receipt."""
        tests = count_tests(receipt.result)
        tested = tests.passed > 0 and tests.failed == 0
        return cls(receipt.entry, tested, _tokens(f"{receipt.tool} {receipt.arguments}"))

    def shows(self, deed: ClaimedAction, said: frozenset[str]) -> bool:
        """Tell whether the receipt supports a claim.

        A claim about tests needs a receipt with passed and no failed tests; any other claim must
        share a name with the tool call: a file, a program, a recipient.
        """
        return self.tested if deed is ClaimedAction.TESTS else not self.tokens.isdisjoint(said)


def _tokens(text: str) -> frozenset[str]:
    found: set[str] = set()
    for match in _TOKEN.finditer(text[:MAX_READ_BYTES]):
        # A claim may name a file without the folder that the tool call names, or the reverse.
        token = match.group().casefold().strip("./-")
        found.update(part for part in (token, token.rpartition("/")[2]) if len(part) > 2)
    return frozenset(found - _STOP_WORDS)
