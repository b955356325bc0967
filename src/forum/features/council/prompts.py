"""Prompts for the seats and the judge of a council.

Text from other seats is quoted so that its author cannot end the quotation, or encoded as JSON
within a list: no seat can forge the words of another.
"""

from collections.abc import Mapping, Sequence

import msgspec

from forum.features.council.ballots import MAX_CLAIMS, Ballot
from forum.features.council.claims import ShownClaim
from forum.runs import reply_schemas
from forum.runs.prompt import Quotation

MAX_SHOWN_CLAIMS = 24
"""Maximum number of claims shown to a seat."""

_MAX_ANSWER_SHOWN = 2000
"""Maximum number of characters shown of another seat's answer."""
_MAX_REASON_LENGTH = 300


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """A seat's question and the replies to it."""

    question: str
    replies: tuple[str, ...]


class SeatView(msgspec.Struct, frozen=True):
    """The information that a seat may see in a round of exchange."""

    own: Ballot
    peers: Mapping[str, Ballot]
    """Ballots of other seats under the labels that this seat sees."""
    claims: tuple[ShownClaim, ...]
    asked: AnsweredQuestion | None = None
    """The seat's question of the round before, if it was answered."""


class Preference(msgspec.Struct, frozen=True):
    """A judge's preference between two answers."""

    better: str
    reason: str = ""


class Equivalence(msgspec.Struct, frozen=True):
    """A judge's verdict on whether two answers are the same."""

    same: bool
    reason: str = ""


FIRST, SECOND = "first", "second"
SAME = "same"


def ballot_prompt(question: Quotation, options: Sequence[str]) -> bytes:
    """Return the prompt for the first ballot, given without sight of others."""
    return reply_schemas.compose_prompt(
        "Answer the question below on your own. Others answer it too, and nobody sees another's "
        f"answer before all are in. First state up to {MAX_CLAIMS} claims on which your answer "
        "rests, each with where to look to check it.",
        _choices(options),
        'Reply with JSON: {"claims": [{"text": "...", "evidence": "..."}], "answer": "...", '
        '"confidence": 0 to 100, "question": what you would ask the others, "decides": what '
        'evidence would change your mind, "blocker": an objection that must be answered first}. '
        "Leave empty what you do not need.",
        quoted=[question],
    )


def exchange_prompt(question: Quotation, options: Sequence[str], view: SeatView) -> bytes:
    """Return the prompt for a ballot of the exchange, with what the seat may see."""
    quoted = [question, _quote("your last ballot", msgspec.json.encode(view.own))]
    quoted += [_peer(label, ballot) for label, ballot in view.peers.items()]
    if view.claims:
        listed = b"\n".join(msgspec.json.encode(claim) for claim in view.claims)
        quoted.append(_quote("claims so far", listed))
    if view.asked:
        quoted.append(_quote("replies to your question", msgspec.json.encode(view.asked)))
    return reply_schemas.compose_prompt(
        "You have answered the question below, and so have others, whose ballots you now see. "
        "Weigh what they say; how many they are is no reason. Keep your answer unless a claim or "
        "evidence shows that another is better: then name that claim in `because`, or the evidence "
        "in `evidence`. A change without either is not counted.",
        _choices(options),
        'Reply with JSON: {"claims": new claims, [{"text": "...", "evidence": "..."}], '
        '"supports": [ids of claims], "attacks": [{"claim": id, "why": "..."}], "replies": [{"to": '
        'letter, "text": your reply to its question}], "answer": "...", "confidence": 0 to 100, '
        '"because": [ids of claims], "evidence": "...", "question": "...", "decides": "...", '
        '"blocker": "..."}. Leave empty what you do not need.',
        quoted=quoted,
    )


def judge_prompt(question: Quotation, first: str, second: str) -> bytes:
    """Return the prompt to compare two answers."""
    return reply_schemas.compose_prompt(
        "Two answers to the question below are given. Judge which is better: right, complete, and "
        "borne out by what it says. Their order means nothing.",
        'Reply with JSON: {"better": "first", "second" or "same", "reason": "..."}',
        quoted=_quote_pair(question, first, second),
    )


def _quote_pair(question: Quotation, first: str, second: str) -> list[Quotation]:
    """Return a question and two answers to it."""
    return [
        question,
        _quote("the first answer", first.encode(errors="replace")),
        _quote("the second answer", second.encode(errors="replace")),
    ]


def judge_schema() -> bytes:
    """Return the JSON schema of a preference."""
    return reply_schemas.build_schema(
        {
            "better": {"enum": [FIRST, SECOND, SAME]},
            "reason": reply_schemas.text_schema(_MAX_REASON_LENGTH),
        }
    )


def read_preference(reply: bytes) -> Preference:
    """Parse a judge's reply. Raises `ValueError`."""
    preference = reply_schemas.parse_structured(reply, _preference)
    if preference.better not in (FIRST, SECOND, SAME):
        raise ValueError(f"better: one of {FIRST}, {SECOND}, {SAME}")
    return preference


def equivalence_prompt(question: Quotation, first: str, second: str) -> bytes:
    """Return the prompt to say whether two answers mean the same."""
    return reply_schemas.compose_prompt(
        "Two answers to the question below are given. Say whether they are the same answer: "
        "whoever follows one of them does what the other says, too. Other words for the same thing "
        "make no difference; another number, another name, another condition or the opposite "
        "decision does. Which of them is right does not matter here.",
        'Reply with JSON: {"same": true or false, "reason": "..."}',
        quoted=_quote_pair(question, first, second),
    )


def equivalence_schema() -> bytes:
    """Return the JSON schema of a judge's verdict on two answers."""
    return reply_schemas.build_schema(
        {"same": {"type": "boolean"}, "reason": reply_schemas.text_schema(_MAX_REASON_LENGTH)}
    )


def read_equivalence(reply: bytes) -> Equivalence:
    """Parse a judge's verdict on two answers. Raises `ValueError`."""
    return reply_schemas.parse_structured(reply, _equivalence)


def _choices(options: Sequence[str]) -> str:
    return f"The answer is one of: {msgspec.json.encode(options).decode()}" if options else ""


def _peer(label: str, original: Ballot) -> Quotation:
    # The claims, support and attacks of the peer are already in the common list of claims.
    ballot = Ballot(
        original.answer
        if len(original.answer) <= _MAX_ANSWER_SHOWN
        else f"{original.answer[:_MAX_ANSWER_SHOWN]}…",
        original.confidence,
        question=original.question,
        decides=original.decides,
        blocker=original.blocker,
    )
    return _quote(f"ballot of {label}", msgspec.json.encode(ballot))


def _quote(source: str, data: bytes) -> Quotation:
    return Quotation(source, data, len(data))


_equivalence = msgspec.json.Decoder(Equivalence)
_preference = msgspec.json.Decoder(Preference)
