"""Whether a result does what was asked for, as far as code can tell.

Patterns are those of RE2: they are matched in time that grows with the text, whatever the pattern.
A plan may come from anybody, and a pattern that never ends would take its worker along.
"""

from dataclasses import dataclass

import re2

from forum.ledger import Outcome
from forum.work.kinds import Check

MOST_READ = 1 << 20
"""How much of an output is looked at."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was checked, and what came out."""

    passed: bool
    check: Check
    reason: str = ""


def judge(done_when: str, outcome: Outcome, output: bytes) -> Judgement:
    """Judge an output by what its task demands: `contains TEXT`, `matches REGEX`, or words.

    Words are for a judge that can read.  Here they are not checked, and the verdict says so: it
    names as its check the outcome of the call alone.
    """
    demand, _, what = done_when.partition(" ")
    check = {"contains": Check.CONTAINS, "matches": Check.MATCHES}.get(demand, Check.OUTCOME)
    if outcome is not Outcome.OK:
        return Judgement(passed=False, check=Check.OUTCOME, reason=outcome.value)
    if not output.strip():
        return Judgement(passed=False, check=Check.OUTCOME, reason="empty")
    text = output.decode(errors="replace")
    if check is Check.CONTAINS and what not in text:
        return Judgement(passed=False, check=check, reason="not-contained")
    if check is Check.MATCHES and not re2.search(what, text):
        return Judgement(passed=False, check=check, reason="no-match")
    return Judgement(passed=True, check=check)
