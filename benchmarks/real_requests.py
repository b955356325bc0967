"""Requests with checkable answers, for real models: five families, generated from a seed.

facts        questions about a text in which four places have the same kinds of facts
arithmetic   two quantities of a short story, each with its unit
code         a Python function, which is run with inputs whose outputs are known
extraction   an order in a message, as a JSON object with given members
comparison   the offer that meets stated criteria, and its total price

Every second request of a family is easy: it asks for less, with fewer things to be confused.
Otherwise a very small model would score nothing, and nothing could be compared.

Each request has checks, and its score is the share of them that an answer meets. It also has a
right answer, and wrong ones, which tests hold the checks to.
"""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, Final, Protocol

from benchmarks.code_cases import run_cases

FAMILIES: Final = ("facts", "arithmetic", "code", "extraction", "comparison")

MAX_DRAWS: Final = 1_000
MAX_ROUNDING: Final = Fraction(1, 200)
"""All quantities are exact with two decimals."""

_NUMBER = r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|-?\d+(?:\.\d+)?"
_UNITS: Final = {
    "m3": r"m3|m³|m\^\{?3\}?|cubic met(?:re|er)s?",
    "EUR": r"EUR\b|euros?\b|€",
    "km": r"km\b(?!/)|kilomet(?:re|er)s?\b(?! per)",
    "kWh": r"kWh\b|kilowatt[- ]hours?\b",
    "t": r"t\b|tons?\b|tonnes?\b",
    "s": r"s\b|sec\b|seconds?\b",
    "GB": r"GB\b|gigabytes?\b",
}
"""How a unit is written."""


class AnswerCheck(Protocol):
    """One thing that an answer is checked for."""

    def score(self, answer: str) -> float:
        """Return a share from 0 to 1."""


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """A value must occur, and no value of the same kind that belongs to something else."""

    value: str
    others: tuple[str, ...]

    def score(self, answer: str) -> float:
        """Return 1 or 0."""
        return float(
            _mentions(answer, self.value) and not any(_mentions(answer, o) for o in self.others)
        )


@dataclass(frozen=True, slots=True)
class QuantityCheck:
    """A quantity must have a value: the one behind its label, else the last one in its unit."""

    label: str
    value: Fraction
    unit: str

    def score(self, answer: str) -> float:
        """Return 1 or 0."""
        quantities = read_quantities(answer, self.unit)
        labels = [match.end() for match in re.finditer(rf"\b{self.label}\W", plain_text(answer))]
        labelled = [value for at, value in quantities if labels and at >= labels[-1]]
        values = labelled[:1] or [value for _, value in quantities[-1:]]
        return float(bool(values) and abs(values[0] - self.value) <= MAX_ROUNDING)


@dataclass(frozen=True, slots=True)
class CodeCheck:
    """A function must return what it should for every input."""

    function: str
    cases: tuple[tuple[Any, Any], ...]
    """An input with its output; both are JSON."""

    def score(self, answer: str) -> float:
        """Run the code in a sandbox, and return 1 or 0."""
        outputs = run_cases(read_code(answer), self.function, [case for case, _ in self.cases])
        return float(outputs == [expected for _, expected in self.cases])


@dataclass(frozen=True, slots=True)
class FieldsCheck:
    """A JSON object must have members with these values; one with other members counts nothing."""

    fields: tuple[tuple[str, Any], ...]

    def score(self, answer: str) -> float:
        """Return the share of right members."""
        document = read_object(answer)
        if document is None or not document.keys() <= {name for name, _ in self.fields}:
            return 0.0
        right = [_same_value(document.get(name), value) for name, value in self.fields]
        return sum(right) / len(right)


@dataclass(frozen=True, slots=True)
class ChoiceCheck:
    """The last line that begins with `Choice:` must name one option, and no other."""

    choice: str
    options: tuple[str, ...]

    def score(self, answer: str) -> float:
        """Return 1 or 0."""
        lines = re.findall(r"\bChoice\s*:([^\n]*)", plain_text(answer), re.IGNORECASE)
        named = [option for option in self.options if lines and _mentions(lines[-1], option)]
        return float(named == [self.choice])


@dataclass(frozen=True, slots=True)
class RealRequest:
    """A request, and how its answer is checked."""

    family: str
    text: str
    checks: tuple[AnswerCheck, ...]
    right: str
    """A right answer."""
    wrong: tuple[str, ...]
    """Answers that are wrong in one place each."""

    def score(self, answer: str) -> float:
        """Return the share of the checks that an answer meets."""
        return sum(check.score(answer) for check in self.checks) / len(self.checks)


def generate_requests(
    seed: int, count: int, without: Sequence[RealRequest] = ()
) -> list[RealRequest]:
    """Return requests of all families in turn, and none of `without`.

    A longer list begins with a shorter one.
    """
    texts, requests = {request.text for request in without}, dict[str, RealRequest]()
    drawn = (Random(f"{seed}/{number}") for number in itertools.count())
    while len(requests) < count:
        turn, family = divmod(len(requests), len(FAMILIES))
        request = _GENERATORS[FAMILIES[family]](next(drawn), turn % 2 == 0)
        if request.text not in texts:
            requests.setdefault(request.text, request)
    return list(requests.values())


# Reading answers


def plain_text(answer: str) -> str:
    """Return an answer without the marks of Markdown and LaTeX."""
    without = re.sub(r"\\(?:text|mathrm|mathbf|boxed)\s*\{([^{}]*)\}", r"\1", answer)
    return re.sub(r"\\[,;()\[\] ]|[*`$_\\]", "", without)


def read_quantities(answer: str, unit: str) -> list[tuple[int, Fraction]]:
    """Return all numbers with a unit before or behind them, and where they stand."""
    spelled = _UNITS[unit]
    pattern = rf"(?<![\w.,])(?:({_NUMBER})\s*(?:{spelled})|(?:{spelled})\s*({_NUMBER}))"
    return [
        (match.start(), Fraction((match[1] or match[2]).replace(",", "")))
        for match in re.finditer(pattern, plain_text(answer), re.IGNORECASE)
    ]


def read_code(answer: str) -> str:
    """Return the code of an answer: its fenced blocks, or all of it."""
    blocks = re.findall(r"```(?:python|py)?[^\n]*\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    return "\n".join(blocks) if blocks else answer


def read_object(answer: str) -> dict[str, Any] | None:
    """Return the last JSON object that stands in an answer, if there is one."""
    decoder, found = json.JSONDecoder(), None
    at = answer.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(answer, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found = value
        at = answer.find("{", end)
    return found if isinstance(found, dict) else None


def _mentions(text: str, value: str) -> bool:
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain_text(text))
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w|\.\d)", plain, re.IGNORECASE) is not None


def _same_value(found: object, value: object) -> bool:
    if isinstance(found, str) and isinstance(value, str):
        return " ".join(found.casefold().split()) == value.casefold()
    return type(found) is type(value) and found == value


# Facts in a text

_PLACES = ("Arnholm", "Birka", "Corvick", "Dunmere", "Elsby", "Farrow", "Gotland Head", "Haldane")
_PEOPLE = ("Ida Krag", "Jonas Lund", "Mara Okoye", "Pavel Sorin", "Rosa Vidal", "Tariq Aziz",
           "Una Boyle", "Wei Chen")  # fmt: skip
_COLOURS = ("red", "blue", "green", "white", "yellow", "black")
_KINDS: Final = {
    "year": ("In which year was the lighthouse of {0} built?", "{0} was built in {1}."),
    "height": ("How many metres high is the lighthouse of {0}?",
               "Its tower at {0} is {1} metres high."),
    "keeper": ("Who is the keeper of {0}?", "The keeper of {0} is {1}."),
    "colour": ("Which colour does the tower of {0} have?", "The tower of {0} is painted {1}."),
    "visitors": ("How many visitors did {0} have last year?",
                 "Last year {0} had {1} visitors."),
}  # fmt: skip


def _facts(random: Random, is_easy: bool) -> RealRequest:  # noqa: FBT001  called by a table
    places = random.sample(_PLACES, 2 if is_easy else 4)
    values = {
        "year": [str(year) for year in random.sample(range(1790, 1960), 4)],
        "height": [str(height) for height in random.sample(range(12, 70), 4)],
        "keeper": random.sample(_PEOPLE, 4),
        "colour": random.sample(_COLOURS, 4),
        "visitors": [str(visitors) for visitors in random.sample(range(2_100, 9_900), 4)],
    }
    kinds = random.sample(list(_KINDS), 2 if is_easy else len(_KINDS))
    text = [
        _KINDS[kind][1].format(place, values[kind][number])
        for number, place in enumerate(places)
        for kind in random.sample(kinds, len(kinds))
    ]
    asked = [(kind, random.randrange(len(places))) for kind in kinds[: 1 if is_easy else 3]]
    questions = [_KINDS[kind][0].format(places[number]) for kind, number in asked]
    answers = [_KINDS[kind][1].format(places[n], values[kind][n]) for kind, n in asked]
    mistaken = [
        _KINDS[kind][1].format(places[n], values[kind][(n + 1) % len(places)]) for kind, n in asked
    ]
    numbered = "\n".join(f"{number}. {each}" for number, each in enumerate(questions, 1))
    ask = (
        f"{questions[0]} Answer from the notes below."
        if is_easy
        else f"Answer these questions from the notes below.\n{numbered}"
    )
    return RealRequest(
        family="facts",
        text=f"{ask} Say nothing about other places.\n\nNotes:\n{' '.join(text)}",
        checks=tuple(
            ValueCheck(values[kind][n], tuple(v for i, v in enumerate(values[kind]) if i != n))
            for kind, n in asked
        ),
        right=" ".join(answers),
        wrong=tuple(
            " ".join([*answers[:number], mistake, *answers[number + 1 :]])
            for number, mistake in enumerate(mistaken)
        ),
    )


# Arithmetic with units


def _pump(random: Random) -> tuple[str, list[QuantityCheck]]:
    rate, hours = 5 * random.randint(4, 60), random.randint(2, 12)
    price = random.randint(2, 9)
    volume = Fraction(rate * 60 * hours, 1000)
    story = (
        f"A pump moves {rate} litres of water per minute and runs for {hours} hours. "
        f"Each cubic metre of water costs {price} EUR."
    )
    return story, [
        QuantityCheck("Volume", volume, "m3"),
        QuantityCheck("Cost", volume * price, "EUR"),
    ]


def _tram(random: Random) -> tuple[str, list[QuantityCheck]]:
    speed, minutes = 4 * random.randint(6, 40), 15 * random.randint(2, 20)
    use = Fraction(random.randint(2, 9), 2)
    distance = Fraction(speed * minutes, 60)
    story = (
        f"A tram drives {minutes} minutes at {speed} km/h. "
        f"It uses {float(use):g} kWh of energy for each kilometre."
    )
    return story, [
        QuantityCheck("Distance", distance, "km"),
        QuantityCheck("Energy", distance * use, "kWh"),
    ]


def _heater(random: Random) -> tuple[str, list[QuantityCheck]]:
    watts, hours = 250 * random.randint(2, 12), random.randint(2, 9)
    days = random.randint(5, 30)
    cents = random.choice((20, 25, 30, 40))
    energy = Fraction(watts * hours * days, 1000)
    story = (
        f"A heater of {watts} W runs {hours} hours a day for {days} days. "
        f"A kilowatt-hour costs {cents / 100:.2f} EUR."
    )
    return story, [
        QuantityCheck("Energy", energy, "kWh"),
        QuantityCheck("Cost", energy * cents / 100, "EUR"),
    ]


def _trucks(random: Random) -> tuple[str, list[QuantityCheck]]:
    bags, kilograms = 4 * random.randint(30, 300), random.choice((20, 25, 40, 50))
    price = 5
    price *= random.randint(8, 40)
    load = Fraction(bags * kilograms, 1000)
    story = (
        f"A site orders {bags} bags of cement of {kilograms} kg each. "
        f"Transport costs {price} EUR for each tonne."
    )
    return story, [
        QuantityCheck("Load", load, "t"),
        QuantityCheck("Cost", load * price, "EUR"),
    ]


def _backup(random: Random) -> tuple[str, list[QuantityCheck]]:
    files, size = 50 * random.randint(4, 80), 2 * random.randint(2, 20)
    speed = 8
    speed *= random.choice((5, 10, 25, 50))
    megabytes = files * size
    story = (
        f"A backup has {files} files of {size} MB each (1 GB is 1000 MB). "
        f"The line carries {speed} Mbit per second (1 byte is 8 bits)."
    )
    return story, [
        QuantityCheck("Size", Fraction(megabytes, 1000), "GB"),
        QuantityCheck("Time", Fraction(megabytes * 8, speed), "s"),
    ]


_STORIES = (_pump, _tram, _heater, _trucks, _backup)


def _arithmetic(random: Random, is_easy: bool) -> RealRequest:  # noqa: FBT001  called by a table
    story, both = random.choice(_STORIES)(random)
    quantities = both[:1] if is_easy else both
    story = story.partition(". ")[0] + "." if is_easy else story
    ask = "Calculate the result" if is_easy else "Calculate both results"
    ending = "a line" if is_easy else "two lines"
    forms = " and ".join(f"`{each.label}: NUMBER {each.unit}`" for each in quantities)
    lines = [_quantity_line(each, each.value) for each in quantities]
    return RealRequest(
        family="arithmetic",
        text=f"{story} {ask} step by step. End with {ending} of the form {forms}.",
        checks=tuple(quantities),
        right="\n".join(lines),
        wrong=tuple(
            "\n".join([*lines[:number], _quantity_line(each, wrong), *lines[number + 1 :]])
            for number, each in enumerate(quantities)
            for wrong in (each.value * 10, each.value + 1)
        ),
    )


def _quantity_line(quantity: QuantityCheck, value: Fraction) -> str:
    return f"{quantity.label}: {float(value):.10g} {quantity.unit}"


# Code that a program tests


@dataclass(frozen=True, slots=True)
class CodeTask:
    """A kind of function with numbers to be filled in."""

    function: str
    text: str
    """What the function does."""
    source: str
    """A right solution."""
    solve: Callable[[Any, int, int], Any]
    draw: Callable[[Random, int, int], Any]
    """Draws an input."""
    ranges: tuple[tuple[int, int], tuple[int, int]]
    """The least and the greatest number of each of the two."""


def _draw_numbers(random: Random, _k: int, _m: int) -> list[int]:
    return [random.randint(-30, 90) for _ in range(random.choice((0, 3, 8, 12)))]


def _draw_text(random: Random, _k: int, _m: int) -> str:
    words = ("Sea", "harbour", "LIGHT", "keeper", "of", "the", "old", "Storm", "sea", "bell", "a")
    return " ".join(random.choice(words) for _ in range(random.choice((0, 1, 6, 10))))


_CODE_TASKS: Final = (
    CodeTask(
        "count_matching",
        text="takes a list of integers, and returns how many of them are divisible by {k} and "
        "greater "
        "than {m}",
        source="return sum(1 for n in value if n % {k} == 0 and n > {m})",
        solve=lambda value, k, m: sum(1 for n in value if n % k == 0 and n > m),
        draw=_draw_numbers,
        ranges=((2, 7), (-10, 30)),
    ),
    CodeTask(
        "long_words",
        text="takes a text, and returns the list of its words with at least {k} letters, in lower "
        "case, "
        "in their order, without repetitions (words are separated by spaces)",
        source="return list(dict.fromkeys(w.lower() for w in value.split() if len(w) >= {k}))",
        solve=lambda value, k, _: list(
            dict.fromkeys(w.lower() for w in value.split() if len(w) >= k)
        ),
        draw=_draw_text,
        ranges=((3, 5), (0, 0)),
    ),
    CodeTask(
        "shipping_fee",
        text="takes a weight in whole kilograms, and returns the fee: 5 for up to {k} kilograms, "
        "and "
        "{m} more for each further kilogram",
        source="return 5 + {m} * max(0, value - {k})",
        solve=lambda value, k, m: 5 + m * max(0, value - k),
        draw=lambda random, k, _: random.choice((0, k - 1, k, k + 1, k + random.randint(2, 40))),
        ranges=((2, 20), (2, 9)),
    ),
    CodeTask(
        "rotate",
        text="takes a list, and returns a new list with its items rotated {k} places to the left "
        "(it "
        "may be empty, or shorter than {k})",
        source="return value[{k} % len(value):] + value[:{k} % len(value)] if value else []",
        solve=lambda value, k, _: (
            value[k % len(value) :] + value[: k % len(value)] if value else []
        ),
        draw=lambda random, k, _: list(range(random.choice((0, 1, k, k + 2, k + 5)))),
        ranges=((2, 5), (0, 0)),
    ),
    CodeTask(
        "mask",
        text="takes a text, and returns it with all characters but the last {k} replaced by `#`",
        source="return '#' * max(0, len(value) - {k}) + value[max(0, len(value) - {k}):]",
        solve=lambda value, k, _: "#" * max(0, len(value) - k) + value[max(0, len(value) - k) :],
        draw=_draw_text,
        ranges=((2, 6), (0, 0)),
    ),
    CodeTask(
        "chunk",
        text="takes a list, and returns the list of its consecutive parts of {k} items each; the "
        "last "
        "part may be shorter",
        source="return [value[i:i + {k}] for i in range(0, len(value), {k})]",
        solve=lambda value, k, _: [value[i : i + k] for i in range(0, len(value), k)],
        draw=_draw_numbers,
        ranges=((2, 5), (0, 0)),
    ),
    CodeTask(
        "checksum",
        text="takes a list of integers, and returns the sum of each number times its position, the "
        "first position being {k}, modulo {m}",
        source="return sum(i * n for i, n in enumerate(value, {k})) % {m}",
        solve=lambda value, k, m: sum(i * n for i, n in enumerate(value, k)) % m,
        draw=_draw_numbers,
        ranges=((1, 4), (7, 97)),
    ),
    CodeTask(
        "clamp_all",
        text="takes a list of integers, and returns a new list in which each number below {k} is "
        "replaced by {k}, and each above {m} by {m}",
        source="return [min(max(n, {k}), {m}) for n in value]",
        solve=lambda value, k, m: [min(max(n, k), m) for n in value],
        draw=_draw_numbers,
        ranges=((-9, 9), (20, 60)),
    ),
)

_EASY_CODE_TASKS: Final = (
    CodeTask(
        "add",
        text="takes a number, and returns it plus {k}",
        source="return value + {k}",
        solve=lambda value, k, _: value + k,
        draw=lambda random, _k, _m: random.randint(-90, 90),
        ranges=((2, 9_999), (0, 0)),
    ),
    CodeTask(
        "is_long",
        text="takes a text, and returns True if it has more than {k} characters, else False",
        source="return len(value) > {k}",
        solve=lambda value, k, _: len(value) > k,
        draw=lambda random, k, _: "a" * random.randint(k - 3, k + 3),
        ranges=((3, 999), (0, 0)),
    ),
    CodeTask(
        "scale",
        text="takes a list of integers, and returns the list of each of them times {k}",
        source="return [n * {k} for n in value]",
        solve=lambda value, k, _: [n * k for n in value],
        draw=_draw_numbers,
        ranges=((2, 9_999), (0, 0)),
    ),
)


def _code(random: Random, is_easy: bool) -> RealRequest:  # noqa: FBT001  called by a table
    task = random.choice(_EASY_CODE_TASKS if is_easy else _CODE_TASKS)
    k, m = (random.randint(*limits) for limits in task.ranges)
    inputs = [task.draw(random, k, m) for _ in range(16)]
    mistakes = [(k + 1, m), *([(k, m + abs(k) + 1)] if "{m}" in task.source else [])]
    # An input that tells each mistake from the right function is always among the cases.
    inputs += [
        next(
            value
            for _ in range(MAX_DRAWS)
            for value in [task.draw(random, k, m)]
            if task.solve(value, k, m) != task.solve(value, *other)
        )
        for other in mistakes
    ]
    head = f"def {task.function}(value):\n    "
    return RealRequest(
        family="code",
        text=f"Write a Python function `{task.function}(value)` that "
        f"{task.text.format(k=k, m=m)}. Reply with the code in one ```python block.",
        checks=(
            CodeCheck(task.function, tuple((value, task.solve(value, k, m)) for value in inputs)),
        ),
        right=f"```python\n{head}{task.source.format(k=k, m=m)}\n```",
        wrong=(
            *(f"```python\n{head}{task.source.format(k=a, m=b)}\n```" for a, b in mistakes),
            f"```python\n{head}while True: pass\n```",
            f"```python\n{head}return None\n```",
        ),
    )


# Extraction to a schema

_PRODUCTS = ("desk lamp", "garden hose", "wall clock", "steel shelf", "water filter", "tool box")
_STREETS = ("Kiln Lane", "Abbey Road", "Mill Street", "Harbour View", "Elm Court")


def _extraction(random: Random, is_easy: bool) -> RealRequest:  # noqa: FBT001  called by a table
    customer, product = random.choice(_PEOPLE), random.choice(_PRODUCTS)
    number, former = random.sample(range(10_000, 99_999), 2)
    quantity, month = random.randint(2, 60), random.randint(1, 12)
    day = random.randint(1, 28)
    express = random.random() < 0.5
    names = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
             "October", "November", "December")  # fmt: skip
    fields: dict[str, Any] = {
        "customer": customer,
        "order_number": number,
        "product": product,
        "quantity": quantity,
        "delivery_date": f"2027-{month:02d}-{day:02d}",
        "express": express,
    }
    message = (
        f"Hello, this is {customer} of {random.randint(2, 90)} {random.choice(_STREETS)}. "
        f"My last order, number {former}, arrived broken, but never mind. "
        f"I now order {quantity} pieces of your {product}; the number of this order is {number}. "
        f"Please deliver on {day} {names[month - 1]} 2027, "
        + ("by express." if express else "by normal mail, not by express.")
    )
    if is_easy:
        fields = {name: fields[name] for name in ("customer", "product", "quantity")}
        message = f"Hello, this is {customer}. I order {quantity} pieces of your {product}. Thanks!"
    types = {
        "customer": "text",
        "order_number": "integer",
        "product": "text, singular",
        "quantity": "integer",
        "delivery_date": "text, YYYY-MM-DD",
        "express": "true or false",
    }
    members = ", ".join(f"{name} ({types[name]})" for name in fields)
    mistakes = {"order_number": former, "quantity": str(quantity), "express": not express}
    return RealRequest(
        family="extraction",
        text="Extract the new order from the message as one JSON object with exactly these "
        f"members: {members}. Reply with the object only.\n\nMessage:\n{message}",
        checks=(FieldsCheck(tuple(fields.items())),),
        right=json.dumps(fields),
        wrong=(
            *(json.dumps(fields | {n: value}) for n, value in mistakes.items() if n in fields),
            json.dumps({name: value for name, value in fields.items() if name != "product"}),
            json.dumps(fields | {"street": "unknown"}),
        ),
    )


# Comparison with stated criteria

_FIRMS = ("Aldor", "Bexley", "Cartwell", "Dorin", "Everis", "Foxton", "Grayle", "Hestia")


def _comparison(random: Random, is_easy: bool) -> RealRequest:  # noqa: FBT001  called by a table
    firms, pieces = random.sample(_FIRMS, 4), random.choice((10, 20, 30, 40, 50))
    days, years = random.randint(5, 14), random.randint(2, 4)
    prices = sorted(random.sample(range(20, 95), 4))
    late, short = random.randint(2, 9), random.randint(1, years - 1)
    # By price: too late; warranty too short; the right one; one that meets all and is dearer.
    offers = [
        (firms[0], prices[0], days + late, years + 1),
        (firms[1], prices[1], days - 1, years - short),
        (firms[2], prices[2], days - random.randint(0, 2), years + random.randint(0, 1)),
        (firms[3], prices[3], days - random.randint(0, 3), years + random.randint(0, 2)),
    ]
    listed = [
        f"- {name}: {price} EUR a piece, delivery in {wait} days, {warranty} years of warranty"
        for name, price, wait, warranty in random.sample(offers, 4)
    ]
    if is_easy:
        return _cheapest(offers, random)
    totals = [price * pieces for price in prices]
    answers = [
        f"Choice: {offer[0]}\nTotal: {total} EUR"
        for offer, total in zip(offers, totals, strict=True)
    ]
    return RealRequest(
        family="comparison",
        text=f"We need {pieces} pieces. Criteria: delivery within {days} days, and at least "
        f"{years} years of warranty. Of the offers that meet both criteria we take the one with "
        "the lowest price. Say for each offer whether it meets the criteria. End with the two "
        "lines `Choice: NAME` and `Total: NUMBER EUR` (the price of all pieces).\n\nOffers:\n"
        + "\n".join(listed),
        checks=(
            ChoiceCheck(firms[2], tuple(firms)),
            QuantityCheck("Total", Fraction(totals[2]), "EUR"),
        ),
        right=answers[2],
        wrong=(
            *(answer for number, answer in enumerate(answers) if number != 2),
            f"Choice: {firms[2]} or {firms[3]}\nTotal: {totals[2]} EUR",
            f"Choice: {firms[2]}\nTotal: {prices[2]} EUR",
        ),
    )


def _cheapest(offers: Sequence[tuple[str, int, int, int]], random: Random) -> RealRequest:
    """Return an easy comparison: two offers, by their price alone."""
    (right, low, *_), (wrong, high, *_) = offers[0], offers[3]
    listed = random.sample([f"- {right}: {low} EUR", f"- {wrong}: {high} EUR"], 2)
    return RealRequest(
        family="comparison",
        text="Which offer has the lower price? End with the line `Choice: NAME`.\n\nOffers:\n"
        + "\n".join(listed),
        checks=(ChoiceCheck(right, (right, wrong)),),
        right=f"Choice: {right}",
        wrong=(f"Choice: {wrong}", f"Choice: {right} or {wrong}", right),
    )


_GENERATORS: Final[dict[str, Callable[[Random, bool], RealRequest]]] = {
    "facts": _facts,
    "arithmetic": _arithmetic,
    "code": _code,
    "extraction": _extraction,
    "comparison": _comparison,
}
