"""What the simulated model of the team benchmark can do with texts: extract, combine and repeat.

Everything here is a function of texts.  No skill knows a request or its right answer.

fact      a sentence or a line `NAME is VALUE` or `NAME: VALUE`, the value with a number, a capital
          letter or code; of `NAME is VALUE, and so on` the value ends at the comma
question  a sentence that ends with a question mark: the fact with the name that it asks for, else
          the sentence that shares most words with it
list      `List every fact of the sections A, B and C`: the facts below these headings, and those
          whose name ends with `of A`; without sections, all facts
review    `Review the diff of the files A and B`: removed checks, changed bounds and constants,
          swapped arguments
compare   `Compare A, B and C by X and Y`: the facts `X of A` and so on
decide    `Decide for the alternative with the lowest X whose Y is at least N`: one of those that
          the facts name
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FACT = re.compile(
    r"[-*>#\s]*(?P<name>[A-Za-z`][^.?!:;,\n]{1,90}?)(?: is | are | was |: )"
    r"(?P<value>\S[^\n]*?)[.;]?(?: \[[\w.-]+\])?$"
)
_VALUE_END = re.compile(r",\s|\s\(|;\s")
_DISTINCT = re.compile(r"[0-9A-Z`]")
_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")
_WORD = re.compile(r"[\w.-]*\w")
_ASK_VERB = re.compile(r"(List|Review|Compare|Decide)\b")
_HEADING = re.compile(r"#{1,6}\s+(?P<name>.+)")
_MIN_SHARED = 0.75
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        what which who when where how much many does do did is are was were the of a an in for to
        and or it its that this has have had with on at by
        """,
    )
)
MISSING, DECISION = "Missing", "Decision"


def count_tokens(text: str) -> int:
    """Return the tokens of a text by the rule of this model.

    A token is up to 6 letters of a word, up to 3 digits of a number, or one other character.
    """
    tokens = 0
    for match in _TOKEN.finditer(text):
        size = match.end() - match.start()
        first = match.group()[0]
        tokens += -(-size // 6) if first.isalpha() else -(-size // 3)
    return tokens


@dataclass(frozen=True, slots=True)
class Fact:
    """A name, its value, and the sentence that says so."""

    name: str
    value: str
    sentence: str

    @property
    def key(self) -> str:
        """The name as it is compared."""
        return normalize_name(self.name)

    @property
    def short(self) -> str:
        """The fact without the rest of its sentence."""
        link = ": " if self.name == DECISION else " is "
        return f"{self.name}{link}{self.value}."


def normalize_name(name: str) -> str:
    """Return a name without articles, case and repeated spaces."""
    words = (word for word in name.casefold().replace("`", "").split() if word != "the")
    return " ".join(words)


def normalize_value(value: str) -> str:
    """Return a value as it is compared."""
    return " ".join(value.casefold().strip(" .;").split())


@lru_cache(maxsize=64)
def sentences_of(text: str) -> tuple[str, ...]:
    """Return the sentences and lines of a text."""
    return tuple(part for part in _SENTENCE_END.split(text) if part)


@lru_cache(maxsize=64)
def facts_of(text: str) -> tuple[Fact, ...]:
    """Return the facts of a text outside of diffs, in their order."""
    return tuple(fact for _, fact in _facts_with_headings(text))


@lru_cache(maxsize=64)
def _facts_with_headings(text: str) -> tuple[tuple[str, Fact], ...]:
    heading, found = "", []
    for sentence in sentences_of(_outside_code(text)):
        if sentence.startswith("#"):
            match = _HEADING.match(sentence)
            heading = match["name"].strip() if match else heading
        elif fact := read_fact(sentence):
            found.append((heading, fact))
    return tuple(found)


def read_fact(sentence: str) -> Fact | None:
    """Return the fact that a sentence states, if it states one."""
    if sentence.endswith("?") or not any(
        mark in sentence for mark in (" is ", " are ", ": ", " was ")
    ):
        return None
    if _ASK_VERB.match(sentence):
        return None
    match = _FACT.fullmatch(sentence.strip())
    if match is None:
        return None
    value = _VALUE_END.split(match["value"], maxsplit=1)[0].strip()
    if not _DISTINCT.search(value):
        return None
    name = match["name"].strip()
    return None if name == MISSING else Fact(name, value, sentence.strip())


_FENCE = re.compile(r"(?ms)^```.*?^```[^\n]*$")


def _outside_code(text: str) -> str:
    return _FENCE.sub("", text) if "```" in text else text


@dataclass(frozen=True, slots=True)
class Material:
    """The texts that the model is shown."""

    texts: tuple[str, ...]
    is_whole: bool = True
    """Whether no text says that a part of it was left out."""

    def facts(self) -> dict[str, Fact]:
        """Return the facts by their names; the first statement of a name counts."""
        document: dict[str, Fact] = {}
        for text in self.texts:
            for fact in facts_of(text):
                document.setdefault(fact.key, fact)
        return document


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a result: a fact, a finding or a decision."""

    text: str
    fact: Fact | None = None
    is_missing: bool = False
    wanted: str = ""
    """The name that a missing line asks for."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A thing that a request or an instruction asks for."""

    text: str
    verb: str
    """List, Review, Compare, Decide, or empty for a question."""
    names: tuple[str, ...] = ()
    """Sections, files or alternatives."""
    criteria: tuple[str, ...] = field(default=())


def asks_of(text: str) -> list[Ask]:
    """Return the asks of a text outside of code, in their order."""
    asks = []
    for sentence in sentences_of(_outside_code(text)):
        if sentence.endswith("?"):
            # A question may follow an introduction: "Notes: what is X?"
            asks.append(
                Ask(
                    sentence.strip(" -*0123456789.)")
                    if sentence[0] in "-*0123456789"
                    else sentence,
                    "",
                )
            )
        elif match := _ASK_VERB.match(sentence):
            asks.append(_read_order(sentence, match[1]))
    return asks


def _read_order(sentence: str, verb: str) -> Ask:
    body = sentence.rstrip(".")
    if verb == "Compare":
        names, _, criteria = body.removeprefix("Compare ").partition(" by ")
        return Ask(sentence, verb, split_names(names), split_names(criteria))
    if verb == "Decide":
        return Ask(sentence, verb)
    match = re.search(r"\b(?:sections?|files?) (.+?)(?: of the | against | in the |$)", body)
    return Ask(sentence, verb, split_names(match[1]) if match else ())


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list such as `A, B and C`."""
    parts = re.split(r",\s*(?:and\s+)?|\s+and\s+", text.strip(" ."))
    return tuple(part.strip() for part in parts if part.strip())


def answer_asks(asks: Iterable[Ask], material: Material) -> list[Line]:
    """Return the lines that answer some asks, as far as the material goes, without repetition."""
    lines: dict[str, Line] = {}
    for ask in asks:
        for line in answer_ask(ask, material):
            lines.setdefault(line.text, line)
    return list(lines.values())


def answer_ask(ask: Ask, material: Material) -> list[Line]:
    """Return the lines that answer one ask."""
    match ask.verb:
        case "":
            return [_answer_question(ask.text, material)]
        case "List":
            return _list_facts(ask, material)
        case "Review":
            return _review_files(ask, material)
        case "Compare":
            return _compare(ask, material)
        case _:
            return [_decide(ask, material)]


def asked_name(question: str) -> str:
    """Return the name that a question asks for."""
    body = question.rstrip("?").strip()
    match = re.search(r"(?i)\b(?:what|which|who|when|where) (?:is|are|was) (?:the )?(.+)$", body)
    return match[1].strip() if match else body


def _answer_question(question: str, material: Material) -> Line:
    name = asked_name(question)
    fact = material.facts().get(normalize_name(name))
    if fact:
        return Line(fact.sentence, fact)
    sentence = _nearest_sentence(question, material)
    if sentence:
        return Line(sentence, read_fact(sentence))
    return _missing(name)


def _missing(name: str) -> Line:
    return Line(f"{MISSING}: {name}.", is_missing=True, wanted=name)


def _nearest_sentence(question: str, material: Material) -> str:
    """Return the sentence that shares most words with a question; empty if none is near.

    Names and numbers of the question must all stand in it.
    """
    words = [word for word in _WORD.findall(question) if word.casefold() not in _STOP_WORDS]
    terms = {word.casefold() for word in words}
    exact = {w.casefold() for w in words[0 if len(words) == 1 else 1 :] if _DISTINCT.search(w)}
    if not exact:
        return ""
    best, best_shared = "", _MIN_SHARED * len(terms)
    for text in material.texts:
        for sentence in sentences_of(text):
            folded = sentence.casefold()
            if sentence.endswith("?") or _ASK_VERB.match(sentence):
                continue
            if any(term not in folded for term in exact):
                continue
            there = {word.casefold() for word in _WORD.findall(sentence)}
            shared = len(terms & there)
            if exact <= there and shared > best_shared:
                best, best_shared = sentence.strip(), shared
    return best


def _list_facts(ask: Ask, material: Material) -> list[Line]:
    wanted = {normalize_name(name) for name in ask.names}
    document: dict[str, Line] = {}
    for text in material.texts:
        for heading, fact in _facts_with_headings(text):
            # The name says more than the heading, which may have been left out.
            owner = (
                fact.key.rpartition(" of ")[2] if " of " in fact.key else normalize_name(heading)
            )
            if not wanted or owner in wanted:
                document.setdefault(fact.key, Line(fact.sentence, fact))
    return list(document.values()) or [_missing(f"the facts of {', '.join(ask.names)}")]


# Comparing and deciding


def _compare(ask: Ask, material: Material) -> list[Line]:
    facts = material.facts()
    lines = []
    for criterion in ask.criteria:
        for name in ask.names:
            fact = facts.get(normalize_name(f"{criterion} of {name}"))
            lines.append(Line(fact.sentence, fact) if fact else _missing(f"{criterion} of {name}"))
    return lines


_GOAL = re.compile(r"\b(lowest|highest) ([\w -]+?)(?= whose|[.,;]|$)")
_BOUND = re.compile(r"whose ([\w -]+?) is (at least|at most) (-?\d[\d.]*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _decide(ask: Ask, material: Material) -> Line:
    goal = _GOAL.search(ask.text)
    if goal is None:
        return _missing("the rule of the decision")
    facts = material.facts()
    values = _values_by_owner(facts, goal[2])
    for attribute, direction, limit in _BOUND.findall(ask.text):
        others = _values_by_owner(facts, attribute)
        bound = float(limit.rstrip("."))
        values = {
            owner: value
            for owner, value in values.items()
            if owner in others
            and (others[owner] >= bound if direction == "at least" else others[owner] <= bound)
        }
    if not values:
        return _missing(f"the {goal[2]} of the alternatives")
    choose = min if goal[1] == "lowest" else max
    best = choose(values, key=lambda owner: values[owner])
    text = f"Decision: {best}, which has the {goal[1]} {goal[2]} of those that qualify."
    return Line(text, Fact(DECISION, best, text))


def _values_by_owner(facts: dict[str, Fact], attribute: str) -> dict[str, float]:
    prefix, values = f"{normalize_name(attribute)} of ", {}
    for key, fact in facts.items():
        number = _NUMBER.search(fact.value.replace(",", ""))
        if key.startswith(prefix) and number:
            values[fact.name.rpartition(" of ")[2]] = float(number.group())
    return values


# Reviewing

_FILE = re.compile(r"\+\+\+ (?:b/)?(\S+)")
_CHECK = re.compile(r"\s*(?:if|assert|raise|elif|while|check|require)\b")
_BOUND_SIGN = re.compile(r"<=|>=|==|!=|<|>")
_CALL = re.compile(r"(\w+)\(([^()]*)\)")


def _review_files(ask: Ask, material: Material) -> list[Line]:
    findings: dict[str, dict[str, None]] = {}
    for text in material.texts:
        for file, texts in (*_review_diff(text).items(), *_stated_findings(text).items()):
            findings.setdefault(file, {}).update(dict.fromkeys(texts))
    lines = []
    for file in ask.names or tuple(findings):
        if file not in findings:
            lines.append(_missing(f"the diff of {file}"))
        elif not findings[file]:
            lines.append(Line(f"No defect in {file}."))
        else:
            lines += [Line(finding) for finding in findings[file]]
    return lines or [_missing("a diff")]


_FINDING = re.compile(r"(?m)^In (\S+), .*`.*$")


def _stated_findings(text: str) -> dict[str, list[str]]:
    """Return the findings that a text states itself: an input, or the words of a judge."""
    findings: dict[str, list[str]] = {}
    for match in _FINDING.finditer(text):
        findings.setdefault(match[1], []).append(match.group().strip())
    return findings


@dataclass(slots=True)
class _DiffReader:
    """Collects the findings of each file of a diff, row by row."""

    findings: dict[str, list[str]] = field(default_factory=dict)
    file: str = ""
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    def read(self, row: str) -> None:
        """Take the next row of a text."""
        if match := _FILE.match(row):
            self.close_run()
            self.file = match[1]
            self.findings.setdefault(self.file, [])
        elif not self.file or row.startswith(("--- ", "@@", "diff ", "```")):
            self.close_run()
        elif row.startswith("-"):
            if self.added:
                self.close_run()
            self.removed.append(row[1:])
        elif row.startswith("+"):
            self.added.append(row[1:])
        else:
            self.close_run()

    def close_run(self) -> None:
        """Review the adjacent changed rows so far."""
        if self.file:
            self.findings[self.file] += _review_run(self.file, self.removed, self.added)
        self.removed, self.added = [], []


@lru_cache(maxsize=64)
def _review_diff(text: str) -> dict[str, list[str]]:
    """Return the findings of each file in the diffs of a text."""
    reader = _DiffReader()
    for row in text.split("\n"):
        reader.read(row)
    reader.close_run()
    return reader.findings


def _review_run(file: str, removed: Sequence[str], added: Sequence[str]) -> list[str]:
    """Return the findings of adjacent removed and added lines."""
    if len(removed) == len(added):
        texts = (_review_pair(file, *pair) for pair in zip(removed, added, strict=True))
        return [finding for finding in texts if finding]
    kept = {row.strip() for row in added}
    lost = [row.strip() for row in removed if row.strip() not in kept and _CHECK.match(row)]
    # The body of a removed check is part of it.
    checks = [row for n, row in enumerate(lost) if not (n and row.startswith("raise"))]
    return [f"In {file}, the check `{row}` is removed." for row in checks]


def _review_pair(file: str, old: str, new: str) -> str:
    before, after = old.strip(), new.strip()
    if before == after:
        return ""
    change = f"`{before}` became `{after}`."
    if _BOUND_SIGN.sub("?", before) == _BOUND_SIGN.sub("?", after):
        return f"In {file}, a bound is changed: {change}"
    if _NUMBER.sub("0", before) == _NUMBER.sub("0", after):
        return f"In {file}, a constant is changed: {change}"
    for match, other in zip(_CALL.finditer(before), _CALL.finditer(after), strict=False):
        first, second = (tuple(part.strip() for part in c[2].split(",")) for c in (match, other))
        if match[1] == other[1] and first != second and sorted(first) == sorted(second):
            return f"In {file}, the arguments of `{match[1]}` are swapped: {change}"
    return ""


# Comparing a result with what it ought to hold


def find_faults(result: str, expected: Sequence[Line], material: Material) -> list[str]:
    """Return what is wrong with a result: facts that differ, and lines that it lacks."""
    stated = {fact.key: fact for fact in facts_of(result)}
    folded = _fold(result)
    faults = [
        f"lacks: {line.fact.short if line.fact else line.text}"
        for line in expected
        if not line.is_missing and not _holds(line, stated, folded)
    ]
    own = {line.fact.key for line in expected if line.fact}
    others = {key: fact for key, fact in stated.items() if key not in own}
    document = material.facts()
    faults += [fault for key, fact in others.items() if (fault := _doubt(fact, document.get(key)))]
    if not material.is_whole:
        faults = [fault for fault in faults if not fault.startswith(_UNKNOWN)]
    texts = {_fold(line.text) for line in expected}
    return faults + [
        f"not in the diff: {match.group()}"
        for match in _FINDING.finditer(result)
        if _fold(match.group()) not in texts
    ]


_UNKNOWN = "not in the material"


def _doubt(fact: Fact, known: Fact | None) -> str:
    """Return why a fact of a result is wrong; empty if the material says the same."""
    if known is None:
        return f"{_UNKNOWN}: {fact.short}"
    if normalize_value(known.value) != normalize_value(fact.value):
        return f"differs: {fact.short} The material says: {known.short}"
    return ""


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _holds(line: Line, stated: dict[str, Fact], folded: str) -> bool:
    if line.fact:
        fact = stated.get(line.fact.key)
        if fact is not None:
            return normalize_value(fact.value) == normalize_value(line.fact.value)
        return False
    return _fold(line.text) in folded


def shorten_lines(text: str) -> list[str]:
    """Return the facts, findings, decisions and gaps of a text, each in its shortest form."""
    lines: dict[str, str] = {}
    for sentence in sentences_of(text):
        plain = re.sub(r" \[[\w.-]+\]$", "", sentence.strip())
        fact = read_fact(plain)
        is_finding = plain.startswith("In ") and "`" in plain
        if is_finding or plain.startswith(("No defect in ", f"{MISSING}: ")):
            lines.setdefault(plain, plain)
        elif fact:
            lines.setdefault(fact.key + normalize_value(fact.value), fact.short)
    return list(lines.values())
