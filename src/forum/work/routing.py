"""Routing: which lane a request belongs to, why, and whether that is sure enough to be decided.

The lexical rung is a naive Bayes classifier over the words of a roster.  A request is taken apart
into features (words, their beginnings, pairs of neighbours, short pieces of scripts that write
without spaces); each feature speaks for the lanes whose terms, phrases and examples have it more
often than others do, and the more, the fewer lanes it is at home in.  What all features say for a
lane, added up, is the lane's score.  Another rung may add its own opinion to the scores.

Nobody has to believe the result: the evidence of a route adds up to its margin.  And nobody has to
act on it: a route that is not sure enough names no lane, and is left to the Classifier.

Everything here is a function of the roster and the text.  No order of a set, no hash and no clock
takes part, so that every process on every machine finds the same.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from forum.work.feature_table import FeatureTable, pack_features
from forum.work.roster import ELSEWHERE, Lane, Roster

MAX_REQUEST_CHARS = 4000
"""How many characters of a request are read: three quarters of them at its beginning."""
MAX_EVIDENCE = 12
"""How many pieces of evidence a route names; what the others say is added up in the last one."""

SEMANTIC_FEATURE = "(meaning)"
"""The feature in whose name another rung speaks."""

_SMOOTHING = 0.02
"""How often a feature counts as seen where it was not."""
_FEATURE_OFFSET = 20
"""So many features, and fewer, are no reason to be sure."""
_CHOSEN_WEIGHT = 2
"""How many examples a term or a phrase is worth."""
_MAX_CONFIDENCE = 0.99
"""Some hundred requests were measured: that is no ground to be surer of anything."""
_START_MARK = "^"
"""The neighbour of a first word."""
_STEM_CHARS = 5
"""How long the beginning of a word is: a stem, for all languages that inflect at the end."""
_UNSPACED = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Kana, Han and Hangul: no spaces between words, or endings that are written together with them."""
_LETTER = rf"[^\W_{_UNSPACED}]"
_MARK = r"[\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e]"
"""Vowel signs and the like, which are part of a word but no letters to a regular expression."""
_WORD = rf"[{_UNSPACED}]+|{_LETTER}+(?:{_MARK}+{_LETTER}*)*(?:[+#]+(?!\w))?"
"""Takes 10 ms to compile, a twentieth of a short command: it is compiled where it is used."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Evidence(msgspec.Struct, frozen=True):
    """What one feature says for the nearest lane and against the runner-up."""

    feature: str
    weight: float


class Route(msgspec.Struct, frozen=True):
    """Where a request belongs, and why."""

    lane: str | None
    """The lane that is to have it; none if that is not sure enough, or if it is nobody's work."""
    confidence: float
    """How often a route like this one names the right lane, by measurement."""
    nearest: str
    runner_up: str
    """The two with the highest scores, lanes or `elsewhere`."""
    margin: float
    """By how much the nearest is ahead: the sum of the evidence."""
    evidence: tuple[Evidence, ...]
    rung: str


class RoutingStage(Protocol):
    """Another opinion on requests, beside the words'."""

    @property
    def name(self) -> str:
        """What a route says was asked."""
        ...

    def scores(self, text: str) -> Sequence[float]:
        """Return a score for each lane of the roster, in its order, and for elsewhere."""
        ...


class Calibration(msgspec.Struct, frozen=True):
    """The few numbers that were measured, on requests which the roster does not hold.

    `python -m benchmarks routing` measures what they are worth.
    """

    meaning: float
    """How much the scores of the other rung count."""
    slope: float
    offset: float
    """The confidence is the logistic function of slope * margin + offset."""
    sure: float
    """The confidence from which on a route is decided."""

    def confidence(self, margin: float) -> float:
        """Return how often a route with such a margin is right, as far as that can be known."""
        chance = 1 / (1 + math.exp(-self.slope * margin - self.offset))
        return min(_MAX_CONFIDENCE, round(chance, 6))


LEXICAL_CALIBRATION = Calibration(meaning=0.0, slope=4.2, offset=-0.85, sure=0.71)
SEMANTIC_CALIBRATION = Calibration(meaning=6.0, slope=3.4, offset=-0.55, sure=0.7)

FeatureWeights = tuple[str, Mapping[int, float]]
"""A feature, and what it says for lanes, by their places; for the others it says nothing."""


class Router:
    """Finds the lane of a request, by its words alone or with the opinion of another rung."""

    def __init__(
        self,
        roster: Roster,
        semantic: RoutingStage | None = None,
        calibration: Calibration | None = None,
        features: FeatureTable | None = None,
    ) -> None:
        """Take a roster, and its features if somebody has kept them: counting them takes long."""
        self._names = (*(lane.name for lane in roster.lanes), ELSEWHERE)
        self._lexicon = LexicalClassifier(features or FeatureTable(count_features(roster)))
        self._semantic = semantic
        self._calibration = calibration or (
            SEMANTIC_CALIBRATION if semantic else LEXICAL_CALIBRATION
        )

    def route(self, text: str) -> Route:
        """Return where a request belongs.  Any text has a route."""
        opinions = self._weigh_features(text)
        first, second = _two_highest(_sum_weights(opinions, len(self._names)))
        evidence = [
            Evidence(feature, round(says.get(first, 0.0) - says.get(second, 0.0), 6))
            for feature, says in opinions
        ]
        margin = max(0.0, round(math.fsum(one.weight for one in evidence), 6))
        confidence = self._calibration.confidence(margin)
        decided = confidence >= self._calibration.sure and self._names[first] != ELSEWHERE
        return Route(
            lane=self._names[first] if decided else None,
            confidence=confidence,
            nearest=self._names[first],
            runner_up=self._names[second],
            margin=margin,
            evidence=_top_evidence(evidence),
            rung=self._semantic.name if self._semantic else "lexical",
        )

    def nearest(self, text: str, most: int) -> tuple[str, ...]:
        """Return the lanes that a request is nearest to, the nearest first."""
        totals = _sum_weights(self._weigh_features(text), len(self._names))
        lanes = range(len(self._names) - 1)
        return tuple(self._names[n] for n in sorted(lanes, key=lambda n: (-totals[n], n))[:most])

    def _weigh_features(self, text: str) -> list[FeatureWeights]:
        opinions = self._lexicon.weigh_features(text)
        if self._semantic:
            weight = self._calibration.meaning
            scores = self._semantic.scores(text)
            opinions.append(
                (SEMANTIC_FEATURE, {n: weight * score for n, score in enumerate(scores)})
            )
        return opinions


_FeatureStatistics = tuple[float, tuple[tuple[int, float], ...]]
"""How clearly a feature tells classes apart, and the logarithms of its rates, by class."""
_UNKNOWN: _FeatureStatistics = (0.0, ())


class LexicalClassifier:
    """What each feature says for each class, as learned from how often the classes have it."""

    def __init__(self, features: FeatureTable) -> None:
        self._features = features
        sizes = [max(1, size) for size in features.sizes]
        # A class with more examples has every feature more often; only the share counts.
        mean = sum(sizes) / len(sizes)
        self._scales = [mean / (size * _SMOOTHING) for size in sizes]
        self._learned: dict[str, _FeatureStatistics] = {}

    def weigh_features(self, text: str) -> list[FeatureWeights]:
        """Return what the features of a text say, as far as any class has them.

        Features repeat each other, and the longer a text, the more: what each of them says is
        worth less among many.  Those that nobody knows count among the many.
        """
        found = dict.fromkeys(extract_features(text))
        share = 1 / math.sqrt(len(found) + _FEATURE_OFFSET)
        opinions = [(feature, self._weigh_feature(feature, share)) for feature in found]
        return [(feature, says) for feature, says in opinions if says]

    def _weigh_feature(self, feature: str, share: float) -> dict[int, float]:
        """Return what a feature says for the classes that have it.

        That is naive Bayes: the logarithm of how much likelier it is there than in a class without
        it.  It is weighed by how clearly it tells the classes apart.
        """
        learned = self._learned.get(feature)
        if learned is None:
            learned = self._learn(feature)
        clarity, logs = learned
        weight = share * clarity
        return {place: weight * log for place, log in logs}

    def _learn(self, feature: str) -> "_FeatureStatistics":
        """Return what is true of a feature in every text, and keep it for the next one."""
        found = self._features.find(feature)
        rates = [(place, 1 + count * self._scales[place]) for place, count in found]
        if not rates:
            return _UNKNOWN
        clarity = _discrimination([rate for _, rate in rates], len(self._scales))
        learned = (clarity, tuple((place, math.log(rate)) for place, rate in rates))
        self._learned[feature] = learned
        return learned


def extract_features(text: str) -> list[str]:
    """Take a text apart: words, their beginnings, neighbours, and pieces of unspaced scripts."""
    found: list[str] = []
    before = _START_MARK
    for word in split_words(text):
        if re.match(f"[{_UNSPACED}]", word):
            found += _ngrams(word)
            before = _START_MARK
            continue
        found.append(word)
        if len(word) > _STEM_CHARS:
            found.append(f"{word[:_STEM_CHARS]}*")
        found.append(f"{before} {word}")
        before = word
    return found


def split_words(text: str) -> list[str]:
    """Return the words of a text, with the parts of identifiers as words of their own."""
    if len(text) > MAX_REQUEST_CHARS:
        text = f"{text[: MAX_REQUEST_CHARS * 3 // 4]} {text[-MAX_REQUEST_CHARS // 4 :]}"
    text = unicodedata.normalize("NFKC", text)
    return re.findall(_WORD, _HUMP.sub(" ", text).casefold())


def _ngrams(word: str) -> list[str]:
    """Return every two and three neighbouring characters."""
    pieces = [word[n : n + size] for size in (2, 3) for n in range(len(word) - size + 1)]
    return pieces or [word]


def count_features(roster: Roster) -> bytes:
    """Return how often the lanes of a roster, and elsewhere, have each feature: a packed table."""
    counts = [*map(_count_lane, roster.lanes), _count_features(roster.elsewhere.examples)]
    return pack_features(counts)


def _count_lane(lane: Lane) -> Counter[str]:
    """Count the features of a lane; what was chosen to be typical of it counts more."""
    counts = _count_features((*lane.examples, lane.does))
    for chosen in (*lane.terms, *lane.phrases):
        for feature in extract_features(chosen):
            counts[feature] += _CHOSEN_WEIGHT
    return counts


def _count_features(texts: Iterable[str]) -> Counter[str]:
    """Count in how many texts each feature is."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(list(dict.fromkeys(extract_features(text))))
    return counts


def _discrimination(rates: Sequence[float], classes: int) -> float:
    """Return 1 for a feature of one class only, and 0 for one that all classes share alike.

    It is one less the entropy of the class, given the feature; classes without it have the rate 1.
    """
    rest = classes - len(rates)
    total = math.fsum(rates) + rest
    unsure = math.log(total) - math.fsum(rate * math.log(rate) for rate in rates) / total
    return max(0.0, 1 - unsure / math.log(classes))


def _sum_weights(opinions: Iterable[FeatureWeights], classes: int) -> list[float]:
    totals = [0.0] * classes
    for _, says in opinions:
        for place, weight in says.items():
            totals[place] += weight
    return totals


def _two_highest(scores: Sequence[float]) -> tuple[int, int]:
    """Return the places of the two highest scores; of equal ones, the first come first."""
    first, second, *_ = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
    return first, second


def _top_evidence(evidence: list[Evidence]) -> tuple[Evidence, ...]:
    """Return the weightiest evidence, with all the rest of it added up at the end."""
    ranked = sorted(evidence, key=lambda one: (-abs(one.weight), one.feature))
    named, rest = ranked[: MAX_EVIDENCE - 1], ranked[MAX_EVIDENCE - 1 :]
    if len(rest) > 1:
        weight = round(math.fsum(one.weight for one in rest), 6)
        rest = [Evidence(f"({len(rest)} others)", weight)]
    return (*named, *rest)
