"""Groups the free-text answers of a council that mean the same, step by step.

Answers with the same normalized text are the same (`text`).  For every other pair the verdict of a
sentence encoder is recorded if there is an encoder (`encoder`), and a judge model decides what the
encoder is not sure of if the council has a judge (`judge`).  Vectors cannot be computed here: the
verdicts of the encoder are input, taken from the record.  Everything else follows from them.

A new answer is compared with the first answer of each group, never with later ones: otherwise a
chain of small differences could join two answers that differ.
"""

from collections.abc import Mapping, Sequence

import msgspec

from forum.runs.answer_similarity import (
    AnswerSource,
    EquivalenceStep,
    SimilarityReading,
    SimilarityRequest,
)
from forum.runs.panel import normalize_answer
from forum.tlog import Hash

MAX_JUDGED_PAIRS = 8
"""How many pairs a judge is asked about at once: the most similar ones."""


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
        same, step = False, EquivalenceStep.TEXT
        turn = ""
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
