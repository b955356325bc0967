"""What the seats and the judge of a council are told.

Everything that others have said is quoted so that its author cannot end the quotation, or, within
a list, written as JSON: nobody can forge another one's words.
"""

from collections.abc import Sequence

import msgspec

from forum.deliberation.ballots import MAX_CLAIMS, Ballot
from forum.deliberation.claims import ShownClaim
from forum.work import Quotation, build_schema, compose_prompt, parse_structured, text_schema

MAX_SHOWN_CLAIMS = 24
"""How many claims a seat is shown."""

_MAX_ANSWER_SHOWN = 2000
"""How much of another one's answer is shown."""
_MAX_REASON_LENGTH = 300


class PeerBallot(msgspec.Struct, frozen=True):
    """Another seat, as a reader sees it."""

    label: str
    ballot: Ballot


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """What a seat has asked, and what others have answered."""

    question: str
    replies: tuple[str, ...]


class SeatView(msgspec.Struct, frozen=True):
    """What a seat may see in a round of exchange."""

    own: Ballot
    peers: tuple[PeerBallot, ...]
    claims: tuple[ShownClaim, ...]
    asked: AnsweredQuestion | None = None
    """What it asked before, where that was answered."""


class Preference(msgspec.Struct, frozen=True):
    """What a judge says of two answers."""

    better: str
    reason: str = ""


FIRST, SECOND, SAME = "first", "second", "same"


def ballot_prompt(question: Quotation, options: Sequence[str]) -> bytes:
    """Ask for an answer of one's own."""
    return compose_prompt(
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
    """Ask again, after what others have said."""
    own = msgspec.json.encode(view.own)
    quoted = [question, Quotation("your last ballot", own, len(own))]
    quoted += [_peer(peer) for peer in view.peers]
    if view.claims:
        listed = b"\n".join(msgspec.json.encode(claim) for claim in view.claims)
        quoted.append(Quotation("claims so far", listed, len(listed)))
    if view.asked:
        answers = msgspec.json.encode(view.asked)
        quoted.append(Quotation("replies to your question", answers, len(answers)))
    return compose_prompt(
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
    """Ask which of two answers is better."""
    return compose_prompt(
        "Two answers to the question below are given. Judge which is better: right, complete, and "
        "borne out by what it says. Their order means nothing.",
        'Reply with JSON: {"better": "first", "second" or "same", "reason": "..."}',
        quoted=[question, _answer("the first answer", first), _answer("the second answer", second)],
    )


def judge_schema() -> bytes:
    """Return the form of a preference."""
    return build_schema(
        {"better": {"enum": [FIRST, SECOND, SAME]}, "reason": text_schema(_MAX_REASON_LENGTH)}
    )


def read_preference(said: bytes) -> Preference:
    """Return what a judge says.  Raises `ValueError`."""
    preference = parse_structured(said, _preference)
    if preference.better not in (FIRST, SECOND, SAME):
        raise ValueError(f"better: one of {FIRST}, {SECOND}, {SAME}")
    return preference


def _choices(options: Sequence[str]) -> str:
    return f"The answer is one of: {msgspec.json.encode(options).decode()}" if options else ""


def _peer(peer: PeerBallot) -> Quotation:
    # Its claims, and what it makes of those of others, stand in the list of all claims.
    said = peer.ballot
    ballot = Ballot(
        said.answer
        if len(said.answer) <= _MAX_ANSWER_SHOWN
        else f"{said.answer[:_MAX_ANSWER_SHOWN]}…",
        said.confidence,
        question=said.question,
        decides=said.decides,
        blocker=said.blocker,
    )
    data = msgspec.json.encode(ballot)
    return Quotation(f"ballot of {peer.label}", data, len(data))


def _answer(source: str, words: str) -> Quotation:
    data = words.encode(errors="replace")
    return Quotation(source, data, len(data))


_preference = msgspec.json.Decoder(Preference)
