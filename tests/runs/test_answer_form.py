"""Whether an answer has the form that its request states, and whether its calculations hold."""

import time

import pytest

from forum.runs.answer_checks import has_marks
from forum.runs.answer_form import FormFinding, check_form, find_members
from forum.runs.prompt import quote, quote_whole

LINES = "How much is it? End with the lines `Load: NUMBER t` and `Choice: NAME`."
OBJECT = (
    "Extract the order as one JSON object with exactly these members: customer (text), "
    "number (integer), due (text, YYYY-MM-DD), express (true or false). Reply with it only."
)
WHOLE = '{"customer": "Wei", "number": 3, "due": "2027-10-02", "express": true}'
QUESTIONS = "1. When was Arnholm built?\n2. How many visitors did the tower of Gotland Head have?"


def find(request: str, answer: str) -> list[FormFinding]:
    """Return the findings about an answer."""
    return [fault.finding for fault in check_form(request, answer)]


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (LINES, "It is heavy.\n\n**Load:** 6.96 t\n- Choice: Aldor"),
        (LINES, "Load: 1,200.5 t\n`choice: Aldor`"),
        (LINES, "\\text{Load}: \\(6.96 \\text{ t}\\)\nChoice: Aldor"),
        (OBJECT, f"```json\n{WHOLE}\n```"),
        (OBJECT, f"Here it is: {WHOLE}"),
        (QUESTIONS, "1. 1822\n2. 8697"),
        (QUESTIONS, "Arnholm in 1822, Gotland Head had 8697."),
        ("Say hello.", "Hello."),
    ],
)
def test_an_answer_of_the_stated_form_has_no_fault(request_text: str, answer: str) -> None:
    """Marks of Markdown and LaTeX, and words around it, change nothing."""
    assert find(request_text, answer) == []


@pytest.mark.parametrize(
    ("request_text", "answer", "finding"),
    [
        (LINES, "Load: 6.96 t", FormFinding.LINE),
        (LINES, "Load: heavy\nChoice: Aldor", FormFinding.LINE),
        (LINES, "Load: 6960 kg\nChoice: Aldor", FormFinding.LINE),
        (LINES, "The load: 6.96 t\nChoice: Aldor", FormFinding.LINE),
        (OBJECT, "The customer is Wei.", FormFinding.JSON),
        (OBJECT, WHOLE[:-1], FormFinding.JSON),
        (OBJECT, WHOLE.replace("3", '"3"'), FormFinding.JSON),
        (OBJECT, WHOLE.replace("2027-10-02", "2 October 2027"), FormFinding.JSON),
        (OBJECT, WHOLE.replace("}", ', "street": ""}'), FormFinding.JSON),
        (OBJECT, WHOLE.replace('"express": true', '"fast": true'), FormFinding.JSON),
        (QUESTIONS, "Arnholm was built in 1822 and had 3843 visitors.", FormFinding.QUESTION),
        ("Write code.", "```python\ndef f():\n    return", FormFinding.UNFINISHED),
        ("Say hello.", "--- 40511740 begin: the request\nSay hello.", FormFinding.MARKS),
    ],
)
def test_a_fault_of_the_form_is_found(request_text: str, answer: str, finding: FormFinding) -> None:
    """Each answer lacks one thing that its request states."""
    assert set(find(request_text, answer)) == {finding}


def test_the_members_of_an_object_are_read_from_the_request() -> None:
    """Whatever stands in brackets behind a member says what it is."""
    assert find_members(OBJECT) == {
        "customer": "text",
        "number": "integer",
        "due": "text, YYYY-MM-DD",
        "express": "true or false",
    }
    assert list(find_members("Give me JSON with the keys: `a`, `b` and `c`.")) == ["a", "b", "c"]
    assert find_members("Name the keys: a, b.") == {}


@pytest.mark.parametrize(
    "calculation",
    [
        "12 × 30 = 360",
        "**12 * 30 = 360**",
        r"\(348 \times 20 = 348 \times (2 \times 10) = 6960\)",
        r"\[ \frac{240}{60} = 4 \]",
        "10 / 3 = 3.33 and 10 / 3 = 3.34 and 2 / 3 = 0.67",
        "2 + 3 * 4 = 14, 1,200 - 200 = 1,000",
        "348 bags x 20 kg = 6.96 t",
        "250 W * 4 h * 2 = 2 kWh",
        "12 L/min * 5 min = 60 L",
        "240 minutes / 60 = 4 hours",
        "x * 5 * 6 = 31 and f(3 + 4) * 2 = 9 and 2^3 + 1 = 9",
        "5 * 6 = 3 * 10",
        "5 * 6 = 29 + 1",
        "```python\nx = 2 * 3 = 7\n```",
        "5 / 0 = 7",
        "2024-11-18 = 5",
        "version 1.2.3 - 4 = 5",
        "20 * 5 = 100%",
    ],
)
def test_a_calculation_that_holds_or_cannot_be_read_is_no_fault(calculation: str) -> None:
    """Units that are left out, roundings, variables and code are no mistakes."""
    assert find("How many?", calculation) == []


@pytest.mark.parametrize(
    ("calculation", "right"),
    [
        ("12 × 30 = 350", "360"),
        ("So: 1,200 kg * 3 = 3,500 kg.", "3600"),
        (r"\(136 \times 4 = 564\) km", "544"),
        ("2 + 3 * 4 = 20", "14"),
        ("10 / 4 = 2.4", "2.5"),
        ("7 x 8 = 54", "56"),
        (r"\frac{240}{60} = 5", "4"),
        ("5 - 7 + 1 = 3", "-1"),
    ],
)
def test_a_wrong_calculation_is_named_with_its_right_result(calculation: str, right: str) -> None:
    """The author is told what the result is."""
    (fault,) = check_form("How many?", calculation)
    assert fault.finding is FormFinding.CALCULATION
    assert fault.text.endswith(f"the result is {right}.")


def test_every_mark_of_a_prompt_is_known() -> None:
    """Long marks as they are recorded, and short ones as they are sent."""
    quoted = quote(quote_whole("the request", "Say hello."))
    assert has_marks(quoted)
    assert has_marks(b"\n".join(quoted.splitlines()[1:]))
    assert has_marks(b"x\n--- 12345678 end\n")
    assert not has_marks(b"---\ntitle: x\n---\n--- 12345678 lines\n")


@pytest.mark.parametrize(
    "text",
    [
        "1 * " * 25_000,
        "1" * 100_000,
        "`A: " * 25_000,
        "{" * 100_000,
        '"keys: ' * 15_000,
        "```\n" * 25_000,
        "Ab " * 33_000 + "?",
        "a A" * 33_000,
        "1,111," * 16_000,
        "1 a/b * " * 12_000,
        "--- 12345678 begin" * 5_000,
        " \t" * 50_000,
    ],
    ids=range(12),
)
def test_the_check_takes_time_linear_in_the_texts(text: str) -> None:
    """An author cannot make the check of an answer slow."""
    started = time.perf_counter()
    check_form(f"As a JSON object with the keys: a. {text}", text)
    assert time.perf_counter() - started < 3
