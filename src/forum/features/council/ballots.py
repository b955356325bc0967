"""The ballot of a seat: its JSON schema, its parsing and its recorded form."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from forum.runs import reply_schemas
from forum.runs.panel import normalize_answer

MAX_CLAIMS = 3
"""Maximum number of claims in one ballot."""
MAX_CONFIDENCE = 100

_MAX_LINE_LENGTH = 300
_MAX_ANSWER_LENGTH = 4000
_MIN_LINE_LENGTH = 60
_NOTHING = frozenset({"", "-", "n/a", "none", "null"})
"""What models write in members that they were asked to leave empty."""


class StatedClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim and where to check it."""

    text: str
    evidence: str = ""


class Attack(msgspec.Struct, frozen=True):
    """An objection to a claim."""

    claim: str
    why: str


class PeerAnswer(msgspec.Struct, frozen=True):
    """A reply to another seat's question."""

    to: str
    text: str


class Ballot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A seat's answer and its grounds."""

    answer: str
    confidence: int | float
    """In percent."""
    claims: tuple[StatedClaim, ...] = ()
    because: tuple[str, ...] = ()
    """The claims that made the seat change its answer."""
    evidence: str = ""
    """Other evidence that made the seat change its answer."""
    supports: tuple[str, ...] = ()
    attacks: tuple[Attack, ...] = ()
    question: str = ""
    """A question to the other seats."""
    replies: tuple[PeerAnswer, ...] = ()
    decides: str = ""
    """The evidence that would change the seat's mind."""
    blocker: str = ""
    """An objection that must be answered before the council may agree."""


class BallotRules(msgspec.Struct, frozen=True):
    """The values that a ballot may contain."""

    options: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """The claims that the ballot can refer to."""
    peers: tuple[str, ...] = ()
    """The labels of the seats whose questions can be answered."""
    room: int = 20_000
    """How many characters fit into a reply of the agent."""
    any_blocker: bool = False
    """Whether an objection counts in whatever form it is written: since version 2 of councils."""


def ballot_schema(rules: BallotRules, *, first: bool) -> bytes:
    """Return the JSON schema of a ballot.

    Reasons come before the answer: a model writes in this order, so its reasons can lead to the
    answer.
    """
    line, answer, items = _length_limits(rules.room)
    words = reply_schemas.text_schema(line)
    claim = reply_schemas.object_schema({"text": words, "evidence": words})
    members: dict[str, Any] = {"claims": reply_schemas.array_schema(claim, items)}
    if not first:
        names = {"enum": list(rules.claims)} if rules.claims else words
        most = min(items, len(rules.claims))
        members |= {
            "supports": reply_schemas.array_schema(names, most),
            "attacks": reply_schemas.array_schema(
                reply_schemas.object_schema({"claim": names, "why": words}), most
            ),
            "replies": reply_schemas.array_schema(
                reply_schemas.object_schema(
                    {"to": {"enum": list(rules.peers)} if rules.peers else words, "text": words}
                ),
                min(items, len(rules.peers)),
            ),
        }
    members["answer"] = (
        {"enum": list(rules.options)}
        if rules.options
        else reply_schemas.text_schema(answer, least=1)
    )
    members["confidence"] = {"type": "integer", "minimum": 0, "maximum": MAX_CONFIDENCE}
    if not first:
        members |= {"because": reply_schemas.array_schema(names, most), "evidence": words}
    members |= {"question": words, "decides": words, "blocker": words}
    return reply_schemas.build_schema(members)


def read_ballot(output: bytes, rules: BallotRules) -> Ballot:
    """Parse a seat's reply. Raises `ValueError` with a message for its author."""
    ballot = (
        _decode_any_blocker(output)
        if rules.any_blocker
        else reply_schemas.parse_structured(output, _ballot)
    )
    answer = _match_option(ballot.answer, rules.options)
    if not normalize_answer(answer):
        raise ValueError("answer: there is no text in it")
    claims = (
        StatedClaim(_to_line(claim.text), _to_line(claim.evidence)) for claim in ballot.claims
    )
    # A model may repeat itself: only its last attack on a claim and last reply to a peer count.
    attacks = {
        attack.claim: Attack(attack.claim, _to_line(attack.why)) for attack in ballot.attacks
    }
    replies = {
        reply.to: PeerAnswer(reply.to, _truncate(reply.text, _MAX_LINE_LENGTH))
        for reply in ballot.replies
    }
    return Ballot(
        answer=answer,
        confidence=_to_percent(ballot.confidence),
        claims=tuple(claim for claim in claims if claim.text)[:MAX_CLAIMS],
        because=_keep_known_claims(ballot.because, rules.claims),
        evidence=_to_line(ballot.evidence),
        supports=_keep_known_claims(ballot.supports, rules.claims),
        attacks=tuple(a for a in attacks.values() if a.claim in rules.claims and a.why)[
            :MAX_CLAIMS
        ],
        question=_to_line(ballot.question),
        replies=tuple(r for r in replies.values() if r.to in rules.peers and r.text),
        decides=_to_line(ballot.decides),
        blocker=_to_line(ballot.blocker),
    )


def _decode_any_blocker(output: bytes) -> Ballot:
    """Decode a reply whose objection may be of any type and named in another case or number.

    A ballot that cannot be read is not counted, and an unknown member is ignored: either way the
    objection would be lost. Raises `ValueError`.
    """
    members = reply_schemas.parse_structured(output, _members)
    names = [name for name in members if name.strip().casefold() in ("blocker", "blockers")]
    if names == ["blocker"] and isinstance(members["blocker"], str):
        names = []
    texts = [text for name in names for text in _texts_in(members.pop(name))]
    try:
        return msgspec.convert(
            {**members, "blocker": "; ".join(texts)} if names else members, Ballot
        )
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _texts_in(value: object) -> list[str]:
    """Return the texts within a value, without those that mean nothing."""
    match value:
        case None | False:
            return []
        case True:
            return ["an objection without words"]
        case str():
            return [value] if _to_line(value) else []
        case list():
            return [text for item in value for text in _texts_in(item)]
        case dict():
            return [text for item in value.values() for text in _texts_in(item)]
        case _:
            return [str(value)] if value else []


def encode_ballot(ballot: Ballot) -> bytes:
    """Return the recorded form of a ballot."""
    return msgspec.json.encode(ballot)


def _match_option(answer: str, options: Sequence[str]) -> str:
    if not options:
        return _truncate(answer, _MAX_ANSWER_LENGTH)
    normalized: Mapping[str, str] = {normalize_answer(option): option for option in options}
    if normalize_answer(answer) not in normalized:
        raise ValueError(f"answer: one of {', '.join(options)}")
    return normalized[normalize_answer(answer)]


def _to_percent(value: float) -> int:
    """Return a confidence in percent: some models write 0.8 when asked for 80."""
    percent = round(100 * value) if type(value) is float and value <= 1 else round(value)
    if not 0 <= percent <= MAX_CONFIDENCE:
        raise ValueError(f"confidence: a number from 0 to {MAX_CONFIDENCE}")
    return percent


def _keep_known_claims(names: Sequence[str], claims: Sequence[str]) -> tuple[str, ...]:
    """Return the names of existing claims, dropping names that the model made up."""
    return tuple(dict.fromkeys(name for name in names if name in claims))[:MAX_CLAIMS]


def _to_line(words: str) -> str:
    return "" if normalize_answer(words) in _NOTHING else _truncate(words, _MAX_LINE_LENGTH)


def _truncate(words: str, most: int) -> str:
    return words.strip()[:most].rstrip()


def _length_limits(room: int) -> tuple[int, int, int]:
    """Return the maximum length of a line, of the answer and of a list, so that a reply fits.

    A ballot of the exchange has four lists, two of them with two lines per item, and four more
    lines.
    """
    items = max(1, min(MAX_CLAIMS, room // 600))
    line = max(_MIN_LINE_LENGTH, min(_MAX_LINE_LENGTH, room // 40))
    return line, max(_MIN_LINE_LENGTH, min(_MAX_ANSWER_LENGTH, room // 4)), items


_ballot = msgspec.json.Decoder(Ballot)
_members = msgspec.json.Decoder(dict[str, Any])
