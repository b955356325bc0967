"""Groups the free-text answers of a council that mean the same, step by step.

Answers with the same normalized text are the same (`text`).  For every other pair the verdict of a
sentence encoder is recorded if there is an encoder (`encoder`), and a judge model decides what the
encoder is not sure of if the council has a judge (`judge`).  Vectors cannot be computed here: the
verdicts of the encoder are input, taken from the record.  Everything else follows from them.

A new answer is compared with the first answer of each group, never with later ones: otherwise a
chain of small differences could join two answers that differ.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from forum.deliberation import council_kinds
from forum.tlog import Hash
from forum.work.panel import normalize_answer

MAX_JUDGED_PAIRS = 8
"""How many pairs a judge is asked about at once: the most similar ones."""

MAX_SCORES_BYTES = 1 << 24
"""Largest recorded form of a reading: 100 seats with as many answers need less than 2 MiB."""

_MAX_SCORE = 1000


class EquivalenceStep(StrEnum):
    """By what it was decided whether two answers are the same."""

    TEXT = "text"
    ENCODER = "encoder"
    JUDGE = "judge"


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


class DecidedPair(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether two answers are the same, and which step decided it."""

    first: int
    second: int
    same: bool
    step: EquivalenceStep
    score: int | None = None
    rule: str = ""
    turn: str = ""
    """The turn of the judge."""


class _Decisions(msgspec.Struct, frozen=True):
    """The recorded form of decisions."""

    answers: tuple[AnswerSource, ...]
    pairs: tuple[DecidedPair, ...]


class ComparedAnswers(msgspec.Struct, frozen=True):
    """A decided pair with the texts of its answers, for the report."""

    first: str
    second: str
    pair: DecidedPair


def similarity_facts(
    request: SimilarityRequest, reading: SimilarityReading
) -> council_kinds.SimilarityFacts:
    """Return the facts that are recorded for a reading."""
    return council_kinds.SimilarityFacts(
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
    request: SimilarityRequest, facts: council_kinds.SimilarityFacts, body: bytes
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


def encode_decisions(request: SimilarityRequest, pairs: Sequence[DecidedPair]) -> bytes:
    """Return the recorded form of decisions."""
    return msgspec.json.encode(_Decisions(request.sources, tuple(pairs)))


def select_judged_pairs(request: SimilarityRequest, reading: SimilarityReading) -> list[int]:
    """Return the places of the pairs for a judge: those that are undecided, most similar first."""
    if not reading.verdicts:
        return list(range(len(request.pairs)))[:MAX_JUDGED_PAIRS]
    unsure = [place for place, verdict in enumerate(reading.verdicts) if not verdict.sure]
    return sorted(unsure, key=lambda place: (-reading.verdicts[place].score, place))[
        :MAX_JUDGED_PAIRS
    ]


def decide_pairs(
    request: SimilarityRequest,
    reading: SimilarityReading,
    judged: Mapping[int, tuple[str, bool]],
) -> tuple[DecidedPair, ...]:
    """Return the decision on each pair; `judged` has the turn and the verdict of the judge."""
    pairs = []
    for place, (first, second) in enumerate(request.pairs):
        verdict = reading.verdicts[place] if reading.verdicts else None
        # Different normalized texts are different answers if nothing else decides.
        same, step, turn = False, EquivalenceStep.TEXT, ""
        if verdict is not None:
            same, step = verdict.same, EquivalenceStep.ENCODER
        if place in judged:
            turn, same = judged[place]
            step = EquivalenceStep.JUDGE
        pairs.append(
            DecidedPair(
                first=first,
                second=second,
                same=same,
                step=step,
                score=verdict.score if verdict else None,
                rule=verdict.rule if verdict else "",
                turn=turn,
            )
        )
    return tuple(pairs)


class AnswerGroups(msgspec.Struct):
    """The positions of a council: groups of answers that count as the same."""

    first_of: dict[str, str] = {}
    """For each normalized answer, the normalized answer that was the first of its group."""
    wordings: dict[str, tuple[AnswerSource, str]] = {}
    """For the first answer of each group, its ballot and its text."""
    compared: list[ComparedAnswers] = []
    model: str = ""
    requests: int = 0

    def position(self, answer: str) -> str:
        """Return the position of an answer: equal for answers that count as the same."""
        stand = normalize_answer(answer)
        return self.first_of.get(stand, stand)

    def request(
        self, answers: Sequence[tuple[AnswerSource, str]], causes: tuple[Hash, ...]
    ) -> SimilarityRequest | None:
        """Return what is to be compared because of new answers, or None if nothing is."""
        new: dict[str, tuple[AnswerSource, str]] = {}
        for source, text in answers:
            stand = normalize_answer(text)
            if stand not in self.first_of:
                new.setdefault(stand, (source, text))
        listed = [*self.wordings.values(), *new.values()]
        if not new or len(listed) < 2:
            self._found(new)
            return None
        start = len(self.wordings)
        pairs = tuple(
            (first, second) for second in range(start, len(listed)) for first in range(second)
        )
        self.requests += 1
        return SimilarityRequest(
            step=f"similarity/{self.requests}",
            sources=tuple(source for source, _ in listed),
            texts=tuple(text for _, text in listed),
            pairs=pairs,
            causes=causes,
        )

    def add(self, request: SimilarityRequest, pairs: Sequence[DecidedPair]) -> None:
        """Put each new answer into the most similar group whose first answer is the same."""
        self.compared += (
            ComparedAnswers(request.texts[pair.first], request.texts[pair.second], pair)
            for pair in pairs
        )
        by_second: dict[int, list[DecidedPair]] = {}
        for pair in pairs:
            if pair.same:
                by_second.setdefault(pair.second, []).append(pair)
        for place in range(len(self.wordings), len(request.texts)):
            stand = normalize_answer(request.texts[place])
            near = [
                pair
                for pair in by_second.get(place, ())
                if normalize_answer(request.texts[pair.first]) in self.wordings
            ]
            if near:
                best = max(near, key=lambda pair: (pair.score or 0, -pair.first))
                self.first_of[stand] = normalize_answer(request.texts[best.first])
            else:
                self._found({stand: (request.sources[place], request.texts[place])})

    def _found(self, answers: Mapping[str, tuple[AnswerSource, str]]) -> None:
        self.wordings |= answers
        self.first_of |= {stand: stand for stand in answers}


_scores = msgspec.json.Decoder(_Scores)
