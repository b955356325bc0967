"""Route a request to a lane, with evidence and a calibrated confidence.

The lexical stage is a naive Bayes classifier over the texts of a roster. A request is split into
features: words, their stems, pairs of neighbouring words, and n-grams of scripts that are written
without spaces. Each feature has a weight for every lane whose terms, phrases and examples contain
it more often than those of other lanes; the fewer lanes contain it, the higher the weight. The sum
of the weights is the lane's score. A second stage may add scores of its own.

A route can be checked: its evidence adds up to its margin. A route below the confidence threshold
names no lane, and is left to the Classifier.

Every result is a function of the roster and the text alone. It depends on no set order, hash seed
or clock, so that every process on every machine computes the same.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from forum.runs.feature_table import FeatureTable, pack_features
from forum.runs.roster import ELSEWHERE, Lane, Roster
from forum.runs.unicode_forms import normalize_text

MAX_REQUEST_CHARS = 4000
"""How many characters of a request are read: three quarters from its start, one from its end."""
MAX_EVIDENCE = 12
"""Limit of evidence in a route; the last item sums up the rest."""

SEMANTIC_FEATURE = "(meaning)"
"""The name of the feature that carries the scores of the second stage."""

_SMOOTHING = 0.02
"""The assumed count of a feature in a class that does not have it."""
_FEATURE_OFFSET = 20
"""Added to the number of features when weights are scaled: a short text gives little certainty."""
_CHOSEN_WEIGHT = 2
"""How many examples a term or a phrase counts for."""
_MAX_CONFIDENCE = 0.99
"""Upper limit: the calibration used some hundred requests, which justifies no more."""
_START_MARK = "^"
"""Stands for the word before the first one."""
_STEM_CHARS = 5
"""Length of a stem: a prefix, for languages that inflect at the end of words."""
_UNSPACED = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Kana, Han and Hangul: no spaces between words, or endings written together with them."""
_LETTER = rf"[^\W_{_UNSPACED}]"
_MARK = r"[\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e]"
"""Combining marks such as vowel signs, which are part of a word but no letters to `re`."""
_WORD = rf"[{_UNSPACED}]+|{_LETTER}+(?:{_MARK}+{_LETTER}*)*(?:[+#]+(?!\w))?"
"""Compiled at first use: compiling takes 10 ms, a twentieth of a short command."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Evidence(msgspec.Struct, frozen=True):
    """The weight of one feature for the nearest lane minus its weight for the runner-up."""

    feature: str
    weight: float


class Route(msgspec.Struct, frozen=True):
    """Where a request belongs, and why."""

    lane: str | None
    """The chosen lane; None if the confidence is too low or no lane handles such requests."""
    confidence: float
    """The measured share of routes with this margin that name the right lane."""
    nearest: str
    runner_up: str
    """The two with the highest scores: lanes or `elsewhere`."""
    margin: float
    """The score of the nearest minus that of the runner-up; the sum of the evidence."""
    evidence: tuple[Evidence, ...]
    rung: str


class RoutingStage(Protocol):
    """A second routing stage, whose scores are added to those of the lexical one."""

    @property
    def name(self) -> str:
        """The name that a route reports."""
        ...

    def scores(self, text: str) -> Sequence[float]:
        """Return a score for each lane of the roster, in roster order, and for elsewhere."""
        ...


class Calibration(msgspec.Struct, frozen=True):
    """Constants measured on requests that the roster does not contain.

    `python -m benchmarks routing` measures the resulting accuracy.
    """

    meaning: float
    """The weight of the second stage's scores."""
    slope: float
    offset: float
    """The confidence is the logistic function of slope * margin + offset."""
    sure: float
    """The confidence threshold for choosing a lane."""

    def confidence(self, margin: float) -> float:
        """Return the expected share of correct routes with this margin."""
        # Bounded, because the exponential of a large number overflows.
        exponent = max(-700.0, min(700.0, -self.slope * margin - self.offset))
        chance = 1 / (1 + math.exp(exponent))
        return min(_MAX_CONFIDENCE, round(chance, 6))


LEXICAL_CALIBRATION = Calibration(meaning=0.0, slope=4.2, offset=-0.85, sure=0.71)
SEMANTIC_CALIBRATION = Calibration(meaning=6.0, slope=3.4, offset=-0.55, sure=0.7)

FeatureWeights = tuple[str, Mapping[int, float]]
"""A feature and its weights by class position; classes without the feature are left out."""


class Router:
    """Finds the lane of a request, by its words alone or with a second stage."""

    def __init__(
        self,
        roster: Roster,
        semantic: RoutingStage | None = None,
        calibration: Calibration | None = None,
        features: FeatureTable | None = None,
    ) -> None:
        """Prepare a router; pass precomputed `features`, because counting them takes long."""
        self._names = (*(lane.name for lane in roster.lanes), ELSEWHERE)
        self._lexicon = LexicalClassifier(features or FeatureTable(count_features(roster)))
        self._semantic = semantic
        self._calibration = calibration or (
            SEMANTIC_CALIBRATION if semantic else LEXICAL_CALIBRATION
        )

    @property
    def is_lexical(self) -> bool:
        """Whether it decides by words alone, without a second stage."""
        return self._semantic is None

    def route(self, text: str) -> Route:
        """Return the route of a request; every text has one."""
        opinions = self._weigh_features(text)
        first, second = _two_highest(_sum_weights(opinions, len(self._names)))
        evidence = [
            Evidence(feature, round(says.get(first, 0.0) - says.get(second, 0.0), 6))
            for feature, says in opinions
        ]
        # `fsum` is exact, so the sum does not depend on the order of the features.
        margin = max(0.0, round(math.fsum(item.weight for item in evidence), 6))
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

    def rank_lanes(self, text: str, most: int) -> tuple[tuple[str, float], ...]:
        """Return the lanes with the highest scores, each with its confidence, the best first."""
        totals = _sum_weights(self._weigh_features(text), len(self._names))
        # The last class is `elsewhere`, which is not a lane.
        lanes = sorted(range(len(self._names) - 1), key=lambda n: (-totals[n], n))[:most]
        return tuple((self._names[n], self._confidence_of(n, totals)) for n in lanes)

    def _confidence_of(self, lane: int, totals: list[float]) -> float:
        """Return the confidence in a lane by its margin to the best other class."""
        others = max(total for n, total in enumerate(totals) if n != lane)
        return self._calibration.confidence(totals[lane] - others)

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
"""How well a feature discriminates between classes, and the logarithms of its rates by class."""
_UNKNOWN: _FeatureStatistics = (0.0, ())


class LexicalClassifier:
    """Naive Bayes weights of features, from how often each class has them."""

    def __init__(self, features: FeatureTable) -> None:
        self._features = features
        sizes = [max(1, size) for size in features.sizes]
        # A class with more examples has every feature more often, so counts are scaled by class
        # size.
        mean = sum(sizes) / len(sizes)
        self._scales = [mean / (size * _SMOOTHING) for size in sizes]
        self._learned: dict[str, _FeatureStatistics] = {}

    def weigh_features(self, text: str) -> list[FeatureWeights]:
        """Return the weights of a text's features that any class has.

        Features overlap, the more so the longer a text is, so each weight is divided by the square
        root of their number. Unknown features count towards that number.
        """
        features = dict.fromkeys(extract_features(text))
        share = 1 / math.sqrt(len(features) + _FEATURE_OFFSET)
        opinions = [(feature, self._weigh_feature(feature, share)) for feature in features]
        return [(feature, says) for feature, says in opinions if says]

    def _weigh_feature(self, feature: str, share: float) -> dict[int, float]:
        """Return the weights of a feature for the classes that have it.

        The weight is that of naive Bayes: the logarithm of how much likelier the feature is in a
        class than in a class without it. It is multiplied by how well the feature discriminates.
        """
        learned = self._learned.get(feature)
        if learned is None:
            learned = self._learn(feature)
        clarity, logs = learned
        weight = share * clarity
        return {place: weight * log for place, log in logs}

    def _learn(self, feature: str) -> "_FeatureStatistics":
        """Compute and cache the statistics of a feature that do not depend on the text."""
        counts = self._features.find(feature)
        rates = [(place, 1 + count * self._scales[place]) for place, count in counts]
        if not rates:
            # Not cached, so that the cache cannot outgrow the features of the roster.
            return _UNKNOWN
        clarity = _discrimination([rate for _, rate in rates], len(self._scales))
        learned = (clarity, tuple((place, math.log(rate)) for place, rate in rates))
        self._learned[feature] = learned
        return learned


def extract_features(text: str) -> list[str]:
    """Split a text into words, stems, pairs of words, and n-grams of unspaced scripts."""
    features: list[str] = []
    before = _START_MARK
    for word in split_words(text):
        if re.match(f"[{_UNSPACED}]", word):
            # Text without spaces is not one word, so the next word must not be paired with it.
            features += _ngrams(word)
            before = _START_MARK
            continue
        features.append(word)
        if len(word) > _STEM_CHARS:
            features.append(f"{word[:_STEM_CHARS]}*")
        features.append(f"{before} {word}")
        before = word
    return features


def split_words(text: str) -> list[str]:
    """Return the words of a text; the parts of camelCase identifiers are separate words."""
    if len(text) > MAX_REQUEST_CHARS:
        text = f"{text[: MAX_REQUEST_CHARS * 3 // 4]} {text[-MAX_REQUEST_CHARS // 4 :]}"
    # NFKC makes full-width and composed forms equal before the words are compared.
    text = normalize_text("NFKC", text)
    return re.findall(_WORD, _HUMP.sub(" ", text).casefold())


def _ngrams(word: str) -> list[str]:
    """Return all substrings of two and three characters, or the word if it is shorter."""
    pieces = [word[n : n + size] for size in (2, 3) for n in range(len(word) - size + 1)]
    return pieces or [word]


def count_features(roster: Roster) -> bytes:
    """Return a packed table of how often each lane, and elsewhere, has each feature."""
    counts = [*map(_count_lane, roster.lanes), _count_features(roster.elsewhere.examples)]
    return pack_features(counts)


def _count_lane(lane: Lane) -> Counter[str]:
    """Count the features of a lane; its terms and phrases count more than its examples."""
    counts = _count_features((*lane.examples, lane.does))
    for chosen in (*lane.terms, *lane.phrases):
        for feature in extract_features(chosen):
            counts[feature] += _CHOSEN_WEIGHT
    return counts


def _count_features(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that contain each feature."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(list(dict.fromkeys(extract_features(text))))
    return counts


def _discrimination(rates: Sequence[float], classes: int) -> float:
    """Return 1 for a feature of one class only, and 0 for one that all classes have equally.

    That is one minus the normalised entropy of the class given the feature; classes without the
    feature have the rate 1.
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
    """Return the positions of the two highest scores; the first of equal ones comes first."""
    first = max(range(len(scores)), key=scores.__getitem__)
    second = max((n for n in range(len(scores)) if n != first), key=scores.__getitem__)
    return first, second


def _top_evidence(evidence: list[Evidence]) -> tuple[Evidence, ...]:
    """Return the evidence with the highest weights, and the sum of the rest as the last item."""
    # Ties are broken by name, so that every machine records the same evidence.
    ranked = sorted(evidence, key=lambda item: (-abs(item.weight), item.feature))
    named, rest = ranked[: MAX_EVIDENCE - 1], ranked[MAX_EVIDENCE - 1 :]
    if len(rest) > 1:
        weight = round(math.fsum(item.weight for item in rest), 6)
        rest = [Evidence(f"({len(rest)} others)", weight)]
    return (*named, *rest)
