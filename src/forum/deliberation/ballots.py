"""What a seat says: its ballot, in the form in which it is asked for, read and recorded."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from forum.work import a_text, an_array, an_object, form_of, position, read_formed

MOST_CLAIMS = 3
"""How many claims a seat may make in one ballot."""
MOST_CONFIDENCE = 100

_LINE = 300
_ANSWER = 4000
_SHORTEST = 60
_TURN = re.compile(r"ballot\.(\d+)\.(\d+)").fullmatch
_NOTHING = frozenset({"", "-", "n/a", "none", "null"})
"""What models write where they were asked to leave something empty."""


class Place(NamedTuple):
    """Where a ballot is cast."""

    round: int
    seat: int

    @property
    def turn(self) -> str:
        """The name of the turn."""
        return f"ballot.{self.round}.{self.seat}"


def ballot_place(turn: str) -> Place | None:
    """Return where a ballot is cast, if one is in the turn of this name."""
    found = _TURN(turn)
    return Place(int(found[1]), int(found[2])) if found else None


class Stated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, and where to look in order to check it."""

    text: str
    evidence: str = ""


class Attack(msgspec.Struct, frozen=True):
    """Why a claim does not hold."""

    claim: str
    why: str


class Answered(msgspec.Struct, frozen=True):
    """What a seat says to another one's question."""

    to: str
    text: str


class Ballot(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer, and what it rests on."""

    answer: str
    confidence: int | float
    """In per cent."""
    claims: tuple[Stated, ...] = ()
    because: tuple[str, ...] = ()
    """The claims for which it has changed its answer."""
    evidence: str = ""
    """What else it has changed its answer for."""
    supports: tuple[str, ...] = ()
    attacks: tuple[Attack, ...] = ()
    question: str = ""
    """What it wants to know from the others."""
    replies: tuple[Answered, ...] = ()
    decides: str = ""
    """What evidence would change its mind."""
    blocker: str = ""
    """An objection that must be answered before anything is called agreed."""


class Rules(msgspec.Struct, frozen=True):
    """What a ballot may say."""

    options: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """The claims that can be referred to."""
    peers: tuple[str, ...] = ()
    """Those whose questions can be answered."""
    room: int = 20_000
    """How many characters its author can surely say."""


def ballot_schema(rules: Rules, *, first: bool) -> bytes:
    """Return the form of a ballot: reasons before the answer, so that they can lead to it."""
    line, answer, items = _bounds(rules.room)
    words = a_text(line)
    claim = an_object({"text": words, "evidence": words})
    members: dict[str, Any] = {"claims": an_array(claim, items)}
    if not first:
        names = {"enum": list(rules.claims)} if rules.claims else words
        most = min(items, len(rules.claims))
        members |= {
            "supports": an_array(names, most),
            "attacks": an_array(an_object({"claim": names, "why": words}), most),
            "replies": an_array(
                an_object(
                    {"to": {"enum": list(rules.peers)} if rules.peers else words, "text": words}
                ),
                min(items, len(rules.peers)),
            ),
        }
    members["answer"] = {"enum": list(rules.options)} if rules.options else a_text(answer, least=1)
    members["confidence"] = {"type": "integer", "minimum": 0, "maximum": MOST_CONFIDENCE}
    if not first:
        members |= {"because": an_array(names, most), "evidence": words}
    members |= {"question": words, "decides": words, "blocker": words}
    return form_of(members)


def read_ballot(said: bytes, rules: Rules) -> Ballot:
    """Read what a seat has said.  Raises `ValueError` with words for its author."""
    ballot = read_formed(said, _ballot)
    answer = _option(ballot.answer, rules.options)
    if not position(answer):
        raise ValueError("answer: there is no text in it")
    claims = (Stated(_line(claim.text), _line(claim.evidence)) for claim in ballot.claims)
    # One word on each claim, and one to each other seat: who repeats himself is heard once.
    attacks = {attack.claim: Attack(attack.claim, _line(attack.why)) for attack in ballot.attacks}
    replies = {reply.to: Answered(reply.to, _cut(reply.text, _LINE)) for reply in ballot.replies}
    return Ballot(
        answer,
        _confidence(ballot.confidence),
        tuple(claim for claim in claims if claim.text)[:MOST_CLAIMS],
        _known(ballot.because, rules.claims),
        _line(ballot.evidence),
        _known(ballot.supports, rules.claims),
        tuple(a for a in attacks.values() if a.claim in rules.claims and a.why)[:MOST_CLAIMS],
        _line(ballot.question),
        tuple(r for r in replies.values() if r.to in rules.peers and r.text),
        _line(ballot.decides),
        _line(ballot.blocker),
    )


def write_ballot(ballot: Ballot) -> bytes:
    """Return the recorded form of a ballot."""
    return msgspec.json.encode(ballot)


def _option(answer: str, options: Sequence[str]) -> str:
    if not options:
        return _cut(answer, _ANSWER)
    known: Mapping[str, str] = {position(option): option for option in options}
    if position(answer) not in known:
        raise ValueError(f"answer: one of {', '.join(options)}")
    return known[position(answer)]


def _confidence(said: float) -> int:
    """Return a confidence in per cent: some say 0.8 where they were asked for 80."""
    percent = round(100 * said) if type(said) is float and said <= 1 else round(said)
    if not 0 <= percent <= MOST_CONFIDENCE:
        raise ValueError(f"confidence: a number from 0 to {MOST_CONFIDENCE}")
    return percent


def _known(names: Sequence[str], claims: Sequence[str]) -> tuple[str, ...]:
    """Return the claims that are there: what a seat has made up is nothing to refer to."""
    return tuple(dict.fromkeys(name for name in names if name in claims))[:MOST_CLAIMS]


def _line(words: str) -> str:
    return "" if position(words) in _NOTHING else _cut(words, _LINE)


def _cut(words: str, most: int) -> str:
    return words.strip()[:most].rstrip()


def _bounds(room: int) -> tuple[int, int, int]:
    """Return how long a line and an answer may be, and a list: all of it has to fit into a reply.

    An exchange has four lists, of which two have two lines for an item, and four lines beside them.
    """
    items = max(1, min(MOST_CLAIMS, room // 600))
    line = max(_SHORTEST, min(_LINE, room // 40))
    return line, max(_SHORTEST, min(_ANSWER, room // 4)), items


_ballot = msgspec.json.Decoder(Ballot)
