"""The comparison of free-text answers by a sentence encoder: what is asked, and what is recorded.

Vectors cannot be computed by those who read a record: the verdicts of the encoder are input.
"""

from enum import StrEnum

import msgspec

from forum.ledger.entry import Count, Facts
from forum.tlog import Hash

MAX_SCORES_BYTES = 1 << 24
"""Largest recorded form of a reading: 100 seats with as many answers need less than 2 MiB."""

_MAX_SCORE = 1000


class EquivalenceStep(StrEnum):
    """By what it was decided whether two answers are the same."""

    TEXT = "text"
    ENCODER = "encoder"
    JUDGE = "judge"


class SimilarityFacts(Facts, frozen=True):
    """An encoder has compared free-text answers.  Body: its verdict on each pair.

    Without an encoder, `pairs` is 0 and `model` empty.
    """

    answers: Count
    pairs: Count
    model: str
    digest: str
    """SHA-256 of the weights of the encoder."""


class AnswerVerdict(msgspec.Struct, frozen=True):
    """The verdict of an encoder on a pair of answers."""

    same: bool
    sure: bool
    """Whether no judge need be asked."""
    score: int
    """The similarity of the two, in thousandths."""
    rule: str = ""
    """The rule on words by which they are different; empty if the similarity decided."""


class SimilarityReading(msgspec.Struct, frozen=True):
    """The verdicts of an encoder on all pairs of a request; none if there is no encoder."""

    model: str = ""
    digest: str = ""
    verdicts: tuple[AnswerVerdict, ...] = ()


class AnswerSource(msgspec.Struct, frozen=True):
    """The ballot in which an answer was first given. Its text is in that ballot only."""

    seat: int
    round: int


class SimilarityRequest(msgspec.Struct, frozen=True):
    """A step of a protocol: have the encoder compare answers, and record its verdicts."""

    step: str
    sources: tuple[AnswerSource, ...]
    texts: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    """Places in `sources` and `texts`."""
    causes: tuple[Hash, ...] = ()


class _ScoredPair(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded form of a verdict."""

    first: int
    second: int
    score: int
    same: bool
    sure: bool
    rule: str = ""


class _Scores(msgspec.Struct, frozen=True):
    """The recorded form of a reading."""

    answers: tuple[AnswerSource, ...]
    pairs: tuple[_ScoredPair, ...]


def similarity_facts(request: SimilarityRequest, reading: SimilarityReading) -> SimilarityFacts:
    """Return the facts that are recorded for a reading."""
    return SimilarityFacts(
        answers=len(request.sources),
        pairs=len(reading.verdicts),
        model=reading.model,
        digest=reading.digest,
    )


def encode_similarity(request: SimilarityRequest, reading: SimilarityReading) -> bytes:
    """Return the recorded form of a reading."""
    pairs = tuple(
        _ScoredPair(
            first=first,
            second=second,
            score=verdict.score,
            same=verdict.same,
            sure=verdict.sure,
            rule=verdict.rule,
        )
        for (first, second), verdict in zip(request.pairs, reading.verdicts, strict=True)
    )
    return msgspec.json.encode(_Scores(request.sources, pairs))


def read_similarity(
    request: SimilarityRequest, facts: SimilarityFacts, body: bytes
) -> SimilarityReading:
    """Return a recorded reading. Raises `ValueError` if it is not one of this request."""
    if not facts.model:
        return SimilarityReading()
    scores = _scores.decode(body)
    places = tuple((pair.first, pair.second) for pair in scores.pairs)
    if scores.answers != request.sources or places != request.pairs:
        raise ValueError("the recorded pairs are not those of the answers")
    if any(not 0 <= pair.score <= _MAX_SCORE for pair in scores.pairs):
        raise ValueError("a similarity is not between 0 and 1000 thousandths")
    return SimilarityReading(
        facts.model,
        facts.digest,
        tuple(AnswerVerdict(p.same, p.sure, p.score, p.rule) for p in scores.pairs),
    )


_scores = msgspec.json.Decoder(_Scores)
