"""Judge a result by its acceptance criteria, as far as code can."""

import msgspec
import re2

from forum.ledger.kinds import Outcome
from forum.runs import acceptance_criteria
from forum.runs.answer_checks import has_marks
from forum.runs.council_end import Accord, Requirement, meets_requirement
from forum.runs.panel import ACCEPTED, normalize_answer

MARKS = "marks"
"""The reason why a result that repeats the marks of its prompt is rejected."""
MAX_READ_BYTES = 1 << 20
"""How much of an output is examined."""


class Judgement(msgspec.Struct, frozen=True):
    """A check and its result."""

    passed: bool
    check: acceptance_criteria.Check
    reason: str = ""


def judge_output(
    done_when: str, outcome: Outcome, output: bytes, *, refuses_marks: bool = False
) -> Judgement:
    """Judge an output by the criteria that need nothing but the output.

    Criteria that need a tool or a model are skipped here; `judge_tool_result` and a judging model
    check them afterwards. If no criterion was checked, the judgement names the call's outcome as
    its check. With `refuses_marks` an output that repeats the marks of a prompt is no result.
    """
    if outcome is not Outcome.OK:
        return Judgement(
            passed=False, check=acceptance_criteria.Check.OUTCOME, reason=outcome.value
        )
    if not output.strip():
        return Judgement(passed=False, check=acceptance_criteria.Check.OUTCOME, reason="empty")
    if refuses_marks and has_marks(output):
        return Judgement(passed=False, check=acceptance_criteria.Check.OUTCOME, reason=MARKS)
    text, check = output.decode(errors="replace"), acceptance_criteria.Check.OUTCOME
    for demand in acceptance_criteria.parse_criteria(done_when):
        if (
            demand.check is acceptance_criteria.Check.MODEL
            or demand.check in acceptance_criteria.TOOL_CHECKS
        ):
            continue
        check = demand.check
        reason = _find_fault(demand, text)
        if reason:
            return Judgement(passed=False, check=check, reason=reason)
    return Judgement(passed=True, check=check)


def _find_fault(demand: acceptance_criteria.Criterion, text: str) -> str:
    """Return why a text does not meet a criterion; an empty string if it does."""
    match demand.check:
        case acceptance_criteria.Check.CONTAINS:
            return "" if demand.what in text else "not-contained"
        case acceptance_criteria.Check.MATCHES:
            return (
                "" if acceptance_criteria.compile_pattern(demand.what).search(text) else "no-match"
            )
        case acceptance_criteria.Check.JSON:
            try:
                if demand.fenced:
                    text = acceptance_criteria.strip_code_fence(text.encode())
                value = acceptance_criteria.read_json(text)
            except ValueError:
                return "not-json"
            return (
                "schema"
                if demand.what
                and acceptance_criteria.find_schema_mismatch(
                    acceptance_criteria.read_schema(demand.what), value
                )
                else ""
            )
        case _:
            raise AssertionError(demand.check)


def judge_tool_result(
    demand: acceptance_criteria.Criterion, outcome: Outcome, output: bytes
) -> Judgement:
    """Judge by the result of the tool that was run for a criterion."""
    reason = _find_tool_fault(demand, output.decode(errors="replace"))
    if outcome is not Outcome.OK:
        reason = outcome.value
    return Judgement(passed=not reason, check=demand.check, reason=reason)


def _find_tool_fault(demand: acceptance_criteria.Criterion, output: str) -> str:
    if demand.check is acceptance_criteria.Check.TESTS:
        tests = count_tests(output)
        # A tool that counted no tests at all has shown nothing, so zero passed tests fail as well.
        if tests.failed:
            return "tests-failed"
        return "" if tests.passed else "no-tests"
    if demand.check is acceptance_criteria.Check.FILE:
        return (
            ""
            if output.split()[:1] == [acceptance_criteria.parse_file_criterion(demand.what)[1]]
            else "other-digest"
        )
    return ""


def judge_accord(accord: Accord | None, required: Requirement) -> Judgement:
    """Judge by how far a panel agreed; an accord that is not known is none."""
    passed = accord is not None and meets_requirement(accord, required)
    reason = "" if passed else accord.value if accord else "no-accord"
    return Judgement(passed=passed, check=acceptance_criteria.Check.OUTCOME, reason=reason)


NOT_ACCEPTED = "not-accepted"
"""Why a result did not pass that a judge has rejected."""


def judge_by_panel(
    accord: Accord | None, required: Requirement, outcome: Outcome, decision: bytes
) -> Judgement:
    """Judge by what a panel decided that was asked to accept or reject a result.

    It passes only if the seats agree as far as they have to, and on accepting it.
    """
    agreed = judge_accord(accord if outcome is Outcome.OK else None, required)
    accepts = normalize_answer(decision.decode(errors="replace")) == ACCEPTED
    passed = agreed.passed and accepts
    reason = agreed.reason or ("" if passed else NOT_ACCEPTED)
    return Judgement(passed=passed, check=acceptance_criteria.Check.MODEL, reason=reason)


class CountedTests(msgspec.Struct, frozen=True):
    """The test counts in a program's output; zero tests are not a success."""

    passed: int = 0
    failed: int = 0


_COUNTS = (
    ("passed", re2.compile(r"(?i)\b(\d{1,9}) (?:tests? )?(?:passed|passing|ok)\b")),
    ("failed", re2.compile(r"(?i)\b(\d{1,9}) (?:tests? )?(?:failed|failing|failures?|errors?)\b")),
    ("failed", re2.compile(r"(?i)\b(?:failures|errors|failed)\s*[=:]\s*(\d{1,9})\b")),
    ("passed", re2.compile(r"(?i)\bpassed\s*[=:]\s*(\d{1,9})\b")),
)
_UNITTEST = re2.compile(r"\bRan (\d{1,9}) tests? in [0-9.]+s\s+OK\b")


def count_tests(output: str) -> CountedTests:
    """Return the counts in the summary lines of common test runners; the last match counts."""
    # The summary is at the end; the limit bounds the time for a huge output.
    tail = output[-20_000:]
    counts: dict[str, int] = {}
    for name, pattern in _COUNTS:
        numbers = pattern.findall(tail)
        if numbers:
            counts[name] = max(counts.get(name, 0), int(numbers[-1]))
    ran = _UNITTEST.findall(tail)
    if ran:
        counts["passed"] = max(counts.get("passed", 0), int(ran[-1]))
    return CountedTests(counts.get("passed", 0), counts.get("failed", 0))
