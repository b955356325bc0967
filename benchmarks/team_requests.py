"""Requests for the team benchmark: five kinds, generated from a seed, and their form in a file.

The file is JSON Lines, one request on a line:

kind            "document", "diff", "questions", "comparison" or "tools"; others are allowed
request         the text as it is submitted
context_tokens  the context length of all models: a multiple of 1024, such as 4096
facts           texts that a complete answer contains
asks            [{"ask": "...", "contains": ["..."]}]: an ask is answered if the answer contains all
tools           {"NAME": "VALUE"}: what the tool `lookup` knows; "NAME is VALUE." is its outcome
notes           characters of notes that the tool adds to each outcome; optional
lane            the lane that the submitter orders: "records" or "review"; optional
tasks           the number of tasks that the request was made for; for reports only

Texts are compared without case and with single spaces.  What the simulated model understands is
said in `benchmarks.team_skills`: write requests with such sentences.  A decision is stated as
"Decision: NAME".
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.team_skills import count_tokens

CONTEXTS = {4096: 6, 8192: 5, 16384: 4, 32768: 3, 65536: 1, 131072: 1}
"""Context lengths, and how often they occur."""
LANES = ("records", "review")
FACTS = 20
MAX_REPLY_TOKENS = 4096
_MIN_FILL, _MAX_FILL = 0.3, 0.7
_MIN_EXCESS, _MAX_EXCESS = 1.2, 3.0
_MAX_REQUEST_CHARS = 1_000_000
"""A run reads one MiB of a request at most."""
_OVER_SHARE, _LANE_SHARE = 0.3, 0.25
_VERBOSE_SHARE = 0.4
"""Shares: of documents that exceed the context, of ordered lanes, of long sentences."""


class AskCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a request, and the texts that an answer to it contains."""

    ask: str
    contains: tuple[str, ...]


class TeamRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request, and how to tell that an answer is complete."""

    kind: str
    request: str
    context_tokens: int
    facts: tuple[str, ...] = ()
    asks: tuple[AskCheck, ...] = ()
    tools: dict[str, str] = {}
    notes: int = 0
    lane: str = ""
    tasks: int = 0


_decoder = msgspec.json.Decoder(TeamRequest)


def read_requests(file: Path) -> list[TeamRequest]:
    """Read requests from a file. Raises `msgspec.MsgspecError`, which names the member."""
    return [_decoder.decode(line) for line in file.read_bytes().splitlines() if line.strip()]


def write_requests(file: Path, requests: Iterable[TeamRequest]) -> None:
    """Write requests to a file."""
    file.write_bytes(b"".join(msgspec.json.encode(request) + b"\n" for request in requests))


def reply_tokens(context_tokens: int) -> int:
    """Return the limit of a reply for a context length."""
    return min(MAX_REPLY_TOKENS, context_tokens // 4)


def generate_requests(seed: int, count: int) -> list[TeamRequest]:
    """Return requests of all kinds in turns."""
    makers: tuple[Callable[[_Writer, int], TeamRequest], ...] = (
        _make_document,
        _make_diff,
        _make_questions,
        _make_comparison,
        _make_tools,
    )
    requests = []
    for number in range(count):
        writer = _Writer(random.Random(f"team/{seed}/{number}"))
        tasks = 1 + number // len(makers) % 8
        request = makers[number % len(makers)](writer, tasks)
        if writer.random.random() < _LANE_SHARE:
            request = replace_lane(request, writer.random.choice(LANES))
        requests.append(request)
    return requests


def replace_lane(request: TeamRequest, lane: str) -> TeamRequest:
    """Return a request for which the submitter orders a lane."""
    return msgspec.structs.replace(request, lane=lane)


# Words

_SYLLABLES = tuple(first + last for first in "bdfgklmnprstvz" for last in "aeio")
_ATTRIBUTES = (
    "inlet pressure", "yearly budget", "delivery date", "serial number", "contact person",
    "storage temperature", "test voltage", "wall thickness", "service interval", "cable length",
    "filter class", "start code", "failure rate", "noise level", "mounting height",
    "warranty period", "order number", "response time", "spare stock", "signal range",
)  # fmt: skip
_UNITS = ("bar", "EUR", "mm", "days", "V", "kg", "months", "km", "dB", "hours")
_SUBJECTS = ("The crew", "A visitor", "The night shift", "Our supplier", "The auditor", "Everyone")
_VERBS = ("discussed", "postponed", "remembered", "described", "photographed", "repeated")
_OBJECTS = ("the old layout", "a quiet corner", "several drawings", "the usual routine", "a detour")
_ENDINGS = (
    "before lunch",
    "without much talk",
    "as in earlier years",
    "while the rain went on",
    "although nobody had asked",
    "after a long walk through the hall",
)
_TAILS = (
    "as the team wrote into the log after the second inspection of the spring",
    "which two people confirmed on the same day with instruments of their own",
    "according to the sheet that hangs beside the door of the workshop upstairs",
)


@dataclass(frozen=True, slots=True)
class _Stated:
    """A fact as a document states it."""

    owner: str
    text: str
    """NAME is VALUE, without the rest of the sentence."""
    sentence: str


class _Writer:
    """Writes names, facts, prose and diffs by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        weights = list(CONTEXTS.values())
        self.context_tokens = chance.choices(list(CONTEXTS), weights)[0]
        self._is_verbose = chance.random() < _VERBOSE_SHARE

    def names(self, count: int) -> list[str]:
        """Return different names of things."""
        document: dict[str, None] = {}
        while len(document) < count:
            parts = self.random.choices(_SYLLABLES, k=self.random.choice((2, 3)))
            document["".join(parts).capitalize()] = None
        return list(document)

    def value(self) -> str:
        """Return a value: an amount or a code."""
        if self.random.random() < 0.25:
            return f"{self.random.choice('QXKT')}{self.random.randrange(100, 9999)}"
        return f"{self.random.randrange(2, 9999)} {self.random.choice(_UNITS)}"

    def state(self, attribute: str, owner: str, value: str) -> _Stated:
        """Return a fact in a sentence."""
        text = f"{attribute} of {owner} is {value}"
        tail = f", {self.random.choice(_TAILS)}" if self._is_verbose else ""
        return _Stated(owner, text, f"The {text}{tail}.")

    def facts(self, owners: Sequence[str], count: int) -> list[_Stated]:
        """Return facts, each owner having its part of them."""
        pairs = [(owner, name) for owner in owners for name in _ATTRIBUTES]
        chosen = [
            pair
            for number, owner in enumerate(owners)
            for pair in self.random.sample(
                [pair for pair in pairs if pair[0] == owner],
                count // len(owners) + (number < count % len(owners)),
            )
        ]
        return [self.state(name, owner, self.value()) for owner, name in chosen]

    def sentence(self, owners: Sequence[str]) -> str:
        """Return a sentence that states no fact."""
        words = [self.random.choice(part) for part in (_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS)]
        if self.random.random() < 0.3:
            words.insert(3, f"near {self.random.choice(owners)}")
        return f"{' '.join(words)}."

    def target_chars(self, *, may_exceed: bool) -> int:
        """Return how long a request has to be to fill a part of the context, or to exceed it."""
        chance = self.random
        share = chance.uniform(_MIN_FILL, _MAX_FILL)
        if may_exceed and chance.random() < _OVER_SHARE:
            share = chance.uniform(_MIN_EXCESS, _MAX_EXCESS)
        sample = " ".join(self.sentence(("Lorane",)) for _ in range(50))
        return min(
            _MAX_REQUEST_CHARS,
            int(share * self.context_tokens * len(sample) / count_tokens(sample)),
        )

    def document(self, stated: Sequence[_Stated], owners: Sequence[str], chars: int) -> str:
        """Return a document with a section for each owner, in which the facts stand among prose."""
        filler = max(0, chars - sum(len(fact.sentence) for fact in stated)) // len(owners)
        return "\n\n".join(
            self._section(owner, [f for f in stated if f.owner == owner], owners, filler)
            for owner in owners
        )

    def _section(
        self, owner: str, stated: Sequence[_Stated], owners: Sequence[str], filler: int
    ) -> str:
        sentences = []
        while filler > 0:
            sentences.append(self.sentence(owners))
            filler -= len(sentences[-1]) + 1
        for fact in stated:
            sentences.insert(self.random.randint(0, len(sentences)), fact.sentence)
        paragraphs, at = [f"## {owner}"], 0
        while at < len(sentences):
            size = self.random.randint(3, 7)
            paragraphs.append(" ".join(sentences[at : at + size]))
            at += size
        return "\n\n".join(paragraphs)


def _list_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


# Kinds


def _make_document(writer: _Writer, tasks: int) -> TeamRequest:
    """Return a request for all facts of a long document."""
    owners = writer.names(2 * tasks)
    stated = writer.facts(owners, FACTS)
    ask = f"List every fact of the sections {_list_names(owners)} of the document below."
    body = writer.document(stated, owners, writer.target_chars(may_exceed=True))
    return TeamRequest(
        kind="document",
        request=f"{ask}\n\n# Document\n\n{body}",
        context_tokens=writer.context_tokens,
        facts=tuple(fact.text for fact in stated),
        asks=(AskCheck(ask, tuple(fact.text for fact in stated)),),
        tasks=tasks,
    )


def _make_questions(writer: _Writer, tasks: int) -> TeamRequest:
    """Return a question in many parts about a document."""
    owners = writer.names(4)
    stated = writer.facts(owners, 24)
    asked = writer.random.sample(stated, max(2, 2 * tasks))
    checks = tuple(
        AskCheck(f"What is the {fact.text.partition(' is ')[0]}?", (fact.text,)) for fact in asked
    )
    questions = " ".join(check.ask for check in checks)
    body = writer.document(stated, owners, writer.target_chars(may_exceed=True))
    return TeamRequest(
        kind="questions",
        request=f"Please answer from the notes below. {questions}\n\n# Notes\n\n{body}",
        context_tokens=writer.context_tokens,
        facts=tuple(fact.text for fact in asked),
        asks=checks,
        tasks=tasks,
    )


def _make_comparison(writer: _Writer, tasks: int) -> TeamRequest:
    """Return a comparison by some criteria, with a decision by a rule."""
    chance = writer.random
    owners = writer.names(chance.randint(2, 5))
    criteria = chance.sample(("price", "weight", "power", "length", "warranty", "range", "noise"),
                             max(2, tasks - 1))  # fmt: skip
    amounts = {
        (name, owner): amount
        for name in criteria
        for owner, amount in zip(owners, chance.sample(range(10, 900), len(owners)), strict=True)
    }
    stated = [
        writer.state(name, owner, f"{amount} {_UNITS[criteria.index(name)]}")
        for (name, owner), amount in amounts.items()
    ]
    goal, other = criteria[:2]
    bound = sorted(amounts[other, owner] for owner in owners)[len(owners) // 2]
    allowed = [owner for owner in owners if amounts[other, owner] >= bound]
    best = min(allowed, key=lambda owner: amounts[goal, owner])
    compare = f"Compare {_list_names(owners)} by {_list_names(criteria)}."
    decide = f"Decide for the alternative with the lowest {goal} whose {other} is at least {bound}."
    body = writer.document(stated, owners, writer.target_chars(may_exceed=False))
    decision = f"Decision: {best}"
    rows = tuple(fact.text for fact in stated)
    return TeamRequest(
        kind="comparison",
        request=f"{compare} {decide}\n\n# Offers\n\n{body}",
        context_tokens=writer.context_tokens,
        facts=(*rows, decision),
        asks=(AskCheck(compare, rows), AskCheck(decide, (decision,))),
        tasks=len(criteria) + 1,
    )


def _make_tools(writer: _Writer, tasks: int) -> TeamRequest:
    """Return questions of which some can be answered by a tool only."""
    chance = writer.random
    owners = writer.names(4)
    stated = writer.facts(owners, 24)
    asked = chance.sample(stated, max(2, 2 * tasks))
    hidden = [fact for fact in asked if chance.random() < 0.6] or asked[:1]
    shown = [fact for fact in stated if fact not in hidden]
    checks = tuple(
        AskCheck(f"What is the {fact.text.partition(' is ')[0]}?", (fact.text,)) for fact in asked
    )
    questions = " ".join(check.ask for check in checks)
    body = writer.document(shown, owners, writer.target_chars(may_exceed=False))
    text = "Look up with the tool what the notes do not say."
    return TeamRequest(
        kind="tools",
        request=f"Please answer from the notes below. {text} {questions}\n\n# Notes\n\n{body}",
        context_tokens=writer.context_tokens,
        facts=tuple(fact.text for fact in asked),
        asks=checks,
        tools=dict(fact.text.split(" is ", 1) for fact in hidden),
        notes=chance.choice((0, 0, writer.context_tokens)),
        tasks=tasks,
    )


def _make_diff(writer: _Writer, tasks: int) -> TeamRequest:
    """Return a diff to review: some files have a defect, most changes are harmless."""
    chance = writer.random
    files = [f"{name.casefold()}.py" for name in writer.names(max(2, 2 * tasks))]
    room = writer.target_chars(may_exceed=False) // len(files)
    parts, facts = [], []
    checks = []
    for file in files:
        defects = chance.sample(_DEFECTS, chance.randint(0, 2))
        hunks = [defect(writer) for defect in defects]
        texts = [text for _, text in hunks]
        facts += [f"{file}", *texts] if texts else [f"{file}"]
        checks.append((file, (file, *texts)))
        rows = [hunk for hunk, _ in hunks]
        while sum(map(len, rows)) < room:
            rows.insert(chance.randint(0, len(rows)), _write_harmless_hunk(writer))
        parts.append(f"--- a/{file}\n+++ b/{file}\n" + "".join(rows))
    ask = f"Review the diff of the files {_list_names(files)} against its intention."
    intention = "The change should rename variables and keep all checks, bounds and arguments."
    contained = tuple(dict.fromkeys(text for _, texts in checks for text in texts))
    return TeamRequest(
        kind="diff",
        request=f"{ask} {intention}\n\n```diff\n{''.join(parts)}```\n",
        context_tokens=writer.context_tokens,
        facts=tuple(dict.fromkeys(facts)),
        asks=(AskCheck(ask, contained),),
        tasks=tasks,
    )


def _write_hunk(writer: _Writer, removed: Sequence[str], added: Sequence[str]) -> str:
    line = writer.random.randrange(10, 5000)
    name = writer.names(1)[0].casefold()
    rows = [
        f"@@ -{line},{len(removed) + 2} +{line},{len(added) + 2} @@ def {name}():",
        f"     {name} = load_{name}()",
        *(f"-    {row}" for row in removed),
        *(f"+    {row}" for row in added),
        f"     return {name}",
    ]
    return "\n".join(rows) + "\n"


def _write_harmless_hunk(writer: _Writer) -> str:
    old, new, call = (name.casefold() for name in writer.names(3))
    return _write_hunk(writer, [f"{old} = read({call})"], [f"{new} = read({call})"])


def _write_lost_check(writer: _Writer) -> tuple[str, str]:
    name = writer.names(1)[0].casefold()
    check = f"if not {name}:"
    return _write_hunk(writer, [check, f"    raise ValueError({name!r})"], []), check


def _write_changed_bound(writer: _Writer) -> tuple[str, str]:
    name, limit = (word.casefold() for word in writer.names(2))
    old, new = f"while {name} <= {limit}:", f"while {name} < {limit}:"
    return _write_hunk(writer, [old], [new]), new


def _write_swapped_arguments(writer: _Writer) -> tuple[str, str]:
    call, text, other = (word.casefold() for word in writer.names(3))
    old, new = f"{call}({text}, {other})", f"{call}({other}, {text})"
    return _write_hunk(writer, [old], [new]), new


def _write_changed_constant(writer: _Writer) -> tuple[str, str]:
    name, amount = writer.names(1)[0].casefold(), writer.random.randrange(10, 500)
    old, new = f"{name} = {amount}", f"{name} = {amount * 10}"
    return _write_hunk(writer, [old], [new]), new


_DEFECTS = (
    _write_lost_check,
    _write_changed_bound,
    _write_swapped_arguments,
    _write_changed_constant,
)
