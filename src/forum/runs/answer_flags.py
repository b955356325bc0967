"""The flags that code sets on an answer: they say what to look at, and fail nothing."""

from forum.ledger.kinds import Outcome
from forum.runs.acceptance_criteria import Check
from forum.runs.answer_form import check_form, describe_faults
from forum.runs.coverage import check_coverage
from forum.runs.kinds import COVERAGE, FORM, CheckFacts


def flag_answer(request: str, answer: str) -> list[tuple[CheckFacts, str]]:
    """Return the flags of an answer that may be about something else or lacks a stated form.

    Each has a text that says what was found.
    """
    coverage, faults = check_coverage(request, answer), check_form(request, answer)
    flags = []
    if coverage.is_flagged:
        facts = _flag(COVERAGE, Check.COVERAGE, coverage.finding.value)
        flags.append((facts, coverage.describe()))
    if faults:
        flags.append((_flag(FORM, Check.FORM, faults[0].finding.value), describe_faults(faults)))
    return flags


def _flag(subject: str, check: Check, reason: str) -> CheckFacts:
    return CheckFacts(subject=subject, outcome=Outcome.INDETERMINATE, check=check, reason=reason)
