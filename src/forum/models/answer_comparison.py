"""The encoder step of a council: whether two free-text answers mean the same.

Two answers are compared by the cosine of their sentence vectors.  Where they differ in one
expression only, its vectors are compared, too: it is what the answer is about.  The rules of
`answer_rules` come first: they see what vectors do not.

The thresholds were set on the pairs of `tests/models/answer_pairs_tuning.py`.
"""

from collections.abc import Sequence
from functools import cache

from forum.errors import MissingExtra, WeightsMissing
from forum.models import answer_rules, embedding
from forum.runs.answer_similarity import AnswerVerdict
from forum.runs.model_weights import MINILM_TENSORS

MODEL_NAME = "all-MiniLM-L6-v2"

_SAME = 600
"""From this similarity on, in thousandths, two answers count as the same."""
_SYNONYM = 600
"""From this similarity on, one word may stand for another in an otherwise equal sentence."""
_UNSURE = 120
"""Distance from a threshold within which the encoder is not sure."""


class EncoderComparison:
    """Compares answers with the sentence encoder of the extra `semantic`."""

    name = MODEL_NAME
    digest = MINILM_TENSORS.sha256

    def __init__(self) -> None:
        self._model = embedding.MiniLM()

    def compare(
        self, answers: Sequence[str], pairs: Sequence[tuple[int, int]]
    ) -> tuple[AnswerVerdict, ...]:
        """Return for each pair of answers, given by their places, whether they mean the same."""
        replaced = {
            pair: answer_rules.find_replaced_words(answers[pair[0]], answers[pair[1]])
            for pair in pairs
        }
        texts = [" ".join(answer.lower().split()) for answer in answers]
        texts += [words for both in replaced.values() if both for words in both]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._model.encode(list(places))

        def similarity(first: str, second: str) -> int:
            return round(1000 * float(vectors[places[first]] @ vectors[places[second]]))

        return tuple(
            _judge(
                (answers[pair[0]], answers[pair[1]]),
                similarity(texts[pair[0]], texts[pair[1]]),
                similarity(*words) if words else None,
            )
            for pair, words in replaced.items()
        )


def _judge(answers: tuple[str, str], score: int, replaced: int | None) -> AnswerVerdict:
    """Return the verdict on a pair from its words and its similarities, in thousandths."""
    rule, score = answer_rules.find_difference(*answers), max(0, min(1000, score))
    if rule:
        return AnswerVerdict(same=False, sure=True, score=score, rule=rule)
    if answer_rules.have_equal_words(*answers):
        return AnswerVerdict(same=True, sure=True, score=score)
    is_same = score >= _SAME
    if is_same and replaced is not None and replaced < _SYNONYM:
        return AnswerVerdict(same=False, sure=False, score=score, rule="word")
    return AnswerVerdict(same=is_same, sure=abs(score - _SAME) >= _UNSURE, score=score)


@cache
def open_encoder() -> EncoderComparison | None:
    """Return the encoder, or None if its weights are not installed."""
    try:
        return EncoderComparison()
    except (MissingExtra, WeightsMissing):
        return None
