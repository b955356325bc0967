"""The encoder step of a council, measured on pairs that were not used to set it."""

import pytest

from forum.models.answer_comparison import EncoderComparison, open_encoder
from forum.runs.answer_similarity import AnswerVerdict
from tests.models import answer_pairs, answer_pairs_tuning

LEAST_RIGHT = 26


@pytest.fixture(scope="module")
def encoder() -> EncoderComparison:
    """Return the encoder with its weights."""
    opened = open_encoder()
    if opened is None:
        pytest.skip("the weights of the sentence model are not installed")
    return opened


def judge(encoder: EncoderComparison, first: str, second: str) -> AnswerVerdict:
    """Return the verdict on one pair."""
    (verdict,) = encoder.compare([first, second], [(0, 1)])
    return verdict


def test_the_encoder_step_alone_judges_at_least_26_of_30_new_pairs_rightly(
    encoder: EncoderComparison,
) -> None:
    """A council can only count answers in other words together if the step is mostly right."""
    assert len(answer_pairs.SAME) == len(answer_pairs.DIFFERENT) == 15
    wrong = [pair for pair in answer_pairs.SAME if not judge(encoder, *pair).same]
    wrong += [pair for pair in answer_pairs.DIFFERENT if judge(encoder, *pair).same]
    assert 30 - len(wrong) >= LEAST_RIGHT, wrong


def test_no_pair_that_measures_the_step_was_used_to_set_it() -> None:
    """A figure on pairs that were tuned on would say nothing."""
    used = {frozenset(pair) for pair in answer_pairs_tuning.SAME + answer_pairs_tuning.DIFFERENT}
    measured = {frozenset(pair) for pair in answer_pairs.SAME + answer_pairs.DIFFERENT}
    assert not used & measured


def test_a_verdict_does_not_depend_on_the_order_of_the_pair(encoder: EncoderComparison) -> None:
    """Which seat answers first must not decide who agrees with whom."""
    for pair in answer_pairs.SAME + answer_pairs.DIFFERENT:
        there, back = judge(encoder, *pair), judge(encoder, *reversed(pair))
        assert (there.same, there.rule) == (back.same, back.rule), pair


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        ("Wait 10 minutes.", "Wait 20 minutes.", "number"),
        ("Wait 10 minutes.", "Wait 10 hours.", "unit"),
        ("Leave in April.", "Leave in October.", "date"),
        ("Accept the offer.", "Reject the offer.", "opposite"),
        ("Publish the letter.", "Do not publish the letter.", "negation"),
        ("Send it to Oslo.", "Send it to Bergen.", "name"),
    ],
)
def test_a_rule_finds_what_vectors_do_not_show(
    encoder: EncoderComparison, first: str, second: str, rule: str
) -> None:
    """These pairs are near each other for every sentence encoder, and are opposite answers."""
    verdict = judge(encoder, first, second)
    assert (verdict.same, verdict.sure, verdict.rule) == (False, True, rule)
