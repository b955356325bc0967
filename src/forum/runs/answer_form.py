"""Whether an answer has the form that its request states, and whether its calculations hold.

A request may name lines (`Total: NUMBER EUR`), the members of a JSON object, or several things
that it asks about. An answer may state calculations (`12 x 30 = 350`). Code finds what of it is
missing or wrong. It knows no meaning, so it only flags an answer and never rejects one.

All of it is a pure function of two texts that looks at ASCII letters only: a replay and a verifier
come to the same faults, whichever release of Unicode they have.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import msgspec

from forum.runs.acceptance_criteria import read_json
from forum.runs.answer_checks import has_marks
from forum.runs.asks import find_questions
from forum.runs.quantities import find_quantities

MAX_CHECKED_CHARS = 100_000
"""How much of each text is read."""
MAX_FAULTS = 8
_MAX_LINE_CHARS = 1_000
_MAX_OBJECTS = 20

_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)")
_DECORATION = re.compile(r"[*`$#>_]|\\(?:text|mathrm|mathbf|boxed)\b|[{}]|\\[()\[\],;! ]")
_SPACES = re.compile(r"[ \t]+")


class FormFinding(StrEnum):
    """What code finds in an answer."""

    MARKS = "marks"
    """It repeats the lines that Forum puts around quoted texts."""
    JSON = "json"
    """A JSON object is asked for, and there is none, or one with other members or types."""
    LINE = "line"
    """A line of a stated form is missing."""
    QUESTION = "question"
    """It names nothing of what one of several questions is about."""
    UNIT = "unit"
    """A line states a number that the answer has in another unit of the same kind."""
    CALCULATION = "calculation"
    """A stated calculation is wrong."""
    UNFINISHED = "unfinished"
    """A block of code has no end."""


class FormFault(msgspec.Struct, frozen=True):
    """One fault of an answer."""

    finding: FormFinding
    text: str
    """What is wrong, as a sentence to the author."""
    ask: str = ""
    """What the author is asked for, if a short reply mends it: a line or a question."""


def check_form(request: str, answer: str) -> tuple[FormFault, ...]:
    """Return what code finds missing or wrong in an answer, the first faults of each finding."""
    request, answer = request[:MAX_CHECKED_CHARS], answer[:MAX_CHECKED_CHARS]
    faults = [fault for check in _CHECKS for fault in check(request, answer)]
    return tuple(dict.fromkeys(faults))[:MAX_FAULTS]


def describe_faults(faults: Sequence[FormFault]) -> str:
    """Return the faults, one on a line."""
    return "\n".join(f"- {fault.text}" for fault in faults)


# Marks


def _find_marks(_request: str, answer: str) -> Iterator[FormFault]:
    if has_marks(answer.encode(errors="replace")):
        yield FormFault(FormFinding.MARKS, "It repeats lines of the prompt with marks.")


# Lines of a stated form

_LINE_FORM = re.compile(r"`([A-Z][A-Za-z ]{0,30}):[ \t]+([^`\n]{1,80})`")
_NUMBER = r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_PLACEHOLDER = re.compile(
    r"^(?:NAME|NUMBER|TEXT|VALUE|WORD|DATE|TIME|TITLE|ANSWER|REASON|YES or NO|[NXY]|\.\.\.|<.*>)$"
)


class _LineForm(msgspec.Struct, frozen=True):
    """A line that an answer must have: a label, and what follows it."""

    label: str
    value: str

    @property
    def shown(self) -> str:
        return f"`{self.label}: {self.value}`"

    @property
    def unit(self) -> str:
        """The unit of the number that the line states; empty if it states none."""
        first, _, unit = self.value.partition(" ")
        return unit if first == "NUMBER" else ""

    def is_met(self, line: str) -> bool:
        """Tell whether a line has the label, a value, and the words that stand after the value."""
        head, colon, rest = line.partition(":")
        if not colon or head.strip(" -*").casefold() != self.label.casefold() or not rest.strip():
            return False
        first, _, fixed = self.value.partition(" ")
        if not _PLACEHOLDER.match(first):
            return True
        if first == "NUMBER" and not re.search(_NUMBER, rest):
            return False
        return all(word.casefold() in rest.casefold() for word in fixed.split())


def find_line_forms(request: str) -> tuple[_LineForm, ...]:
    """Return the forms of lines that a request states in backticks."""
    forms = (_LineForm(*match.groups()) for match in _LINE_FORM.finditer(request))
    return tuple(dict.fromkeys(forms))[:MAX_FAULTS]


def _find_missing_lines(request: str, answer: str) -> Iterator[FormFault]:
    forms = find_line_forms(request)
    lines = [_plain(line) for line in answer.splitlines()] if forms else []
    plain = "\n".join(lines)
    for form in forms:
        met = [line for line in lines if form.is_met(line)]
        hint = _convert_last(plain, form.unit)
        ask = f"{form.shown}{hint and f' ({hint})'}"
        if not met:
            text = f"The line {form.shown} is missing.{hint and f' {hint}.'}"
            yield FormFault(FormFinding.LINE, text, ask)
        elif form.unit:
            yield from _find_unit_slip(plain, met[-1], form)


def _convert_last(plain: str, unit: str) -> str:
    """Return the last quantity that has another unit of the kind, in this unit."""
    others = [each for each in find_quantities(plain) if unit and each.unit != unit]
    converted = [(each, each.convert_to(unit)) for each in others]
    return next((f"{each} = {same}" for each, same in reversed(converted) if same), "")


def _find_unit_slip(plain: str, line: str, form: _LineForm) -> Iterator[FormFault]:
    """Find a number that a line states in its unit, and the text before in another one."""
    stated = [each for each in find_quantities(line) if each.unit == form.unit]
    for each in find_quantities(plain):
        same = each.convert_to(form.unit)
        if stated and each.value == stated[-1].value and same and same.value != each.value:
            text = f"It states both {each} and {stated[-1]}: {each} = {same}."
            yield FormFault(FormFinding.UNIT, text, f"{form.shown} ({each} = {same})")
            return


def _plain(line: str) -> str:
    """Return a line without the marks of Markdown and LaTeX."""
    return _SPACES.sub(" ", _DECORATION.sub("", line[:_MAX_LINE_CHARS])).strip()


# JSON

_ASKS_JSON = re.compile(r"(?i)\b(?:one|a|the|as|in|me|with|only|valid|return) JSON(?: object)?\b")
_MEMBERS = re.compile(
    r"(?i)\b(?:members|keys|fields|properties)\b[^:.\n]{0,40}:[ \t]*([^\n]{1,2000})"
)
_MEMBER = re.compile(
    r"[ \t]*[`\"']?([A-Za-z_][A-Za-z0-9_]{0,60})[`\"']?[ \t]*(?:\(([^()]{0,200})\))?"
)
_BETWEEN = re.compile(r"[ \t]*(?:,[ \t]*(?:and[ \t]+)?|and[ \t]+)")


def _is_date(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value))


_TYPES: Final[tuple[tuple[str, str, Callable[[Any], bool]], ...]] = (
    ("YYYY-MM-DD", "a date such as 2030-12-31", _is_date),
    ("integer", "an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    ("true or false", "true or false", lambda value: isinstance(value, bool)),
    ("boolean", "true or false", lambda value: isinstance(value, bool)),
    (
        "number",
        "a number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    ),
    ("text", "a text", lambda value: isinstance(value, str)),
    ("string", "a text", lambda value: isinstance(value, str)),
)


def find_members(request: str) -> dict[str, str]:
    """Return the members that a request wants in a JSON object, with what it says of each."""
    listed = _MEMBERS.search(request) if _ASKS_JSON.search(request) else None
    members: dict[str, str] = {}
    at = 0
    while listed and (member := _MEMBER.match(listed[1], at)):
        members[member[1]] = member[2] or ""
        between = _BETWEEN.match(listed[1], member.end())
        if between is None:
            break
        at = between.end()
    return members


def _find_json_faults(request: str, answer: str) -> Iterator[FormFault]:
    if not _ASKS_JSON.search(request):
        return
    value = _read_object(answer)
    if value is None:
        yield FormFault(FormFinding.JSON, "It has no JSON object that can be read.")
        return
    members = find_members(request)
    for name, kind in members.items():
        if name not in value:
            yield FormFault(FormFinding.JSON, f"The member {name!r} is missing.")
            continue
        typed = next((each for each in _TYPES if each[0] in kind), None)
        if typed and value[name] is not None and not typed[2](value[name]):
            yield FormFault(FormFinding.JSON, f"The member {name!r} must be {typed[1]}.")
    for name in value if members else ():
        if name not in members:
            yield FormFault(FormFinding.JSON, f"The member {name[:60]!r} was not asked for.")


def _read_object(answer: str) -> dict[str, Any] | None:
    """Return the last of the JSON objects that stand in an answer, if there is one."""
    blocks = re.findall(r"(?ms)^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", answer)
    start, end = answer.find("{"), answer.rfind("}")
    for text in [*reversed(blocks[-_MAX_OBJECTS:]), answer[start : end + 1] if start >= 0 else ""]:
        try:
            value = read_json(text.strip())
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None


# Questions

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")


def _find_unnamed_questions(request: str, answer: str) -> Iterator[FormFault]:
    """Find the questions, of several, whose names the answer does not have.

    Nothing is found if the answer has no name of any question: it may number its answers.
    """
    named = {question: _NAME.findall(question) for question in find_questions(request)}
    named = {question: names for question, names in named.items() if names}
    missing = {q: n for q, n in named.items() if not any(name in answer for name in n)}
    if 0 < len(missing) < len(named):
        for question, names in missing.items():
            yield FormFault(
                FormFinding.QUESTION,
                f'It says nothing about {" and ".join(dict.fromkeys(names))}: "{question}"',
                question,
            )


# Calculations

_OPERATORS: Final = {
    r"\times": "*", r"\cdot": "*", r"\div": "/", "\u00d7": "*", "\u00b7": "*",
    "\u00f7": "/", "\u2212": "-", "\u2013": "-",
}  # fmt: skip
_FRACTION = re.compile(r"\\[dt]?frac\{([0-9.,]+)\}\{([0-9.,]+)\}")
_LETTER_TIMES = re.compile(r"(?<=[0-9]) ?x ?(?=[0-9])")
_UNIT = r"(?: ?(?:[A-Za-z]{1,20}(?:[23³²]|\^[23])?|[€$])(?:(?:/| per )[A-Za-z]{1,20}[23³²]?)?)?"
_TERM = rf"[€$]?(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?{_UNIT}"
_STATEMENT = re.compile(
    rf"(?<![\w.,(^*/+-])(?<![*/+(^-] )({_TERM}(?:(?: ?[*/+] ?| - ){_TERM}){{1,8}}) ?= ?({_TERM})"
    r"(?! ?[*/+^=(-] ?[0-9(\\]|[0-9]|[.,][0-9]|[%^])",
    re.ASCII,
)
_TOKEN = re.compile(r"[€$]?([0-9][0-9,]*(?:\.[0-9]+)?)|( ?[*/+-] ?)(?=[€$]?[0-9])")
_CONVERSIONS = frozenset({12, 24, 60, 365, 1440, 3600, 86400, 7, 8})
"""Units that are left out of a calculation change its result by such a factor."""


def _find_wrong_calculations(_request: str, answer: str) -> Iterator[FormFault]:
    for line in _FENCE.sub("", answer).splitlines():
        plain = line[:_MAX_LINE_CHARS].replace("**", "")
        for written, sign in _OPERATORS.items():
            plain = plain.replace(written, sign)
        plain = _LETTER_TIMES.sub(" * ", _plain_math(_FRACTION.sub(r"\1 / \2", plain)))
        for match in _STATEMENT.finditer(plain):
            right = _find_right_result(match[1], match[2])
            if right:
                text = f"The calculation {match[1]} = {match[2]} is wrong: the result is {right}."
                yield FormFault(FormFinding.CALCULATION, text)


def _plain_math(line: str) -> str:
    return _SPACES.sub(
        " ", re.sub(r"\\(?:text|mathrm|mathbf|boxed)\b|[`{}]|\\[()\[\],;! ]", "", line)
    )


def _find_right_result(expression: str, result: str) -> str:
    """Return the right result of a calculation; an empty text if the stated one is right."""
    stated = _TOKEN.search(result)
    exact = _evaluate(expression)
    if stated is None or exact is None:
        return ""
    digits = stated[1].replace(",", "")
    value, unit = Fraction(digits), Fraction(1, 10 ** len(digits.partition(".")[2]))
    # A result that is not exact with the stated digits may be rounded up or down.
    if value == exact or ((exact / unit).denominator != 1 and abs(value - exact) < unit):
        return ""
    if re.search("[A-Za-z€$]", expression + result) and value and exact:
        factor = max(exact / value, value / exact)
        if factor in _CONVERSIONS or re.fullmatch("10+", str(factor)):
            return ""
    return f"{float(exact):.10g}"


def _evaluate(expression: str) -> Fraction | None:
    """Return the value of numbers with the four operators; None if it divides by 0."""
    total, product = Fraction(0), None
    sign = "+"
    for token in _TOKEN.finditer(expression):
        if token[2]:
            sign = token[2].strip()
            continue
        number = Fraction(token[1].replace(",", ""))
        if sign == "*" and product is not None:
            product *= number
        elif sign == "/" and product is not None:
            if not number:
                return None
            product /= number
        else:
            total += product or 0
            product = -number if sign == "-" else number
    return None if product is None else total + product


# Mending

_ITEM = re.compile(r"(?m)^[ \t]*([0-9]{1,2})[.)][ \t]+")


def merge_reply(request: str, answer: str, fault: FormFault, reply: str) -> str:
    """Return an answer with the reply to what a fault asks for.

    The reply to a numbered question replaces the part of the answer with this number. Any other
    reply is added at the end.
    """
    number = ""
    if fault.finding is FormFinding.QUESTION:
        before = request[: request.find(fault.ask)] if fault.ask in request else ""
        numbers = _ITEM.findall(before)
        number = numbers[-1] if numbers else ""
    items = list(_ITEM.finditer(answer))
    for place, item in enumerate(items):
        if item[1] == number:
            end = items[place + 1].start() if place + 1 < len(items) else len(answer)
            rest = answer[end:]
            return f"{answer[: item.end()]}{reply.strip()}\n{rest}".rstrip()
    return f"{answer.rstrip()}\n\n{reply.strip()}"


# Blocks


def _find_open_block(_request: str, answer: str) -> Iterator[FormFault]:
    if len(re.findall(r"(?m)^[ \t]*```", answer)) % 2:
        yield FormFault(FormFinding.UNFINISHED, "Its last block of code has no end.")


_CHECKS: Final = (
    _find_marks,
    _find_json_faults,
    _find_missing_lines,
    _find_unnamed_questions,
    _find_wrong_calculations,
    _find_open_block,
)
