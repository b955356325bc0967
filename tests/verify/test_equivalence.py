"""How answers were found to be the same follows from the record, but for what the encoder said."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from forum.engine.context import read_body
from forum.features.council.kinds import EquivalenceFacts, SimilarityFacts
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import read_strand_entries
from forum.ledger.ports import Position
from forum.runs.answer_similarity import AnswerVerdict
from forum.verify import Problem
from tests.engine.office import RUN, Office
from tests.engine.panel import THREE_TEXTS, report_of
from tests.support import StoreFactory
from tests.verify.forging import Story, forged, story_of
from tests.verify.honest import ask

OTHER_WORDS = {("Keep it.", "Paint it.")}


class FixedEncoder:
    """Knows of two answers that they are the same."""

    name, digest = "fixed", "00" * 32

    def compare(
        self, answers: Sequence[str], pairs: Sequence[tuple[int, int]]
    ) -> tuple[AnswerVerdict, ...]:
        """Return that these two are the same, and all others different."""
        same = [(answers[first], answers[second]) in OTHER_WORDS for first, second in pairs]
        return tuple(AnswerVerdict(same=s, sure=True, score=900 if s else 100) for s in same)


def deliberate(factory: StoreFactory) -> Office:
    """Hold a council of three free texts, of which two are the same in other words."""
    office = Office(factory(), encoder=FixedEncoder())
    office.do(ask(*THREE_TEXTS, version=2, rounds=0))
    return office


def test_answers_in_other_words_are_counted_together(factory: StoreFactory) -> None:
    """In the vote and in the baseline: otherwise the two could not be compared."""
    report = report_of(deliberate(factory))

    assert (report.answer, report.holders, report.accord) == ("Keep it.", (1, 2), "majority")
    assert report.baseline.agreement == 666
    assert report.comparison is not None
    assert (report.comparison.answers, report.comparison.positions) == (3, 2)
    assert [(pair.step, pair.same) for pair in report.comparison.pairs][:1] == [("encoder", True)]


def test_without_an_encoder_the_text_decides_and_the_report_says_so(office: Office) -> None:
    """A worker without the extra holds the same council, with three positions."""
    office.do(ask(*THREE_TEXTS, version=2, rounds=0))
    compared = report_of(office).comparison

    assert compared is not None
    assert (compared.encoder, compared.positions) == ("", 3)
    assert {(pair.step, pair.same) for pair in compared.pairs} == {("text", False)}
    assert office.findings() == ()


def test_a_council_of_earlier_rules_is_held_as_before(factory: StoreFactory) -> None:
    """Its report and its entries are those that earlier releases wrote."""
    office = Office(factory(), encoder=FixedEncoder())
    office.do(ask(*THREE_TEXTS, rounds=0))
    report = report_of(office)

    assert (report.claims, report.holders, report.comparison) == ((), (), None)
    kinds = {entry.kind for _, entry in read_strand_entries(office.ledger, RUN, MAIN_STRAND)}
    assert not {kind for kind in kinds if "similarity" in kind or "equivalence" in kind}


def test_the_texts_of_answers_are_in_the_ballots_only(factory: StoreFactory) -> None:
    """Who has a ballot erased need not look for its words elsewhere among the comparisons."""
    office = deliberate(factory)
    for _, entry in read_strand_entries(office.ledger, RUN, MAIN_STRAND):
        if isinstance(entry.facts, SimilarityFacts | EquivalenceFacts):
            (name,) = entry.bodies
            data = read_body(office.ledger, Position(RUN, MAIN_STRAND, entry.n), name)
            assert b"Keep" not in data


def claim_same(story: Story) -> None:
    """Have the note say of two other answers that they are the same, too."""
    story.step("equivalence/1").rewrite("pairs", lambda data: data.replace(b"false", b"true"))


def claim_fewer(story: Story) -> None:
    """Have the note count one position less."""
    story.step("equivalence/1").alter(positions=1)


def compare_others(story: Story) -> None:
    """Have the encoder compare another ballot."""

    def change(data: bytes) -> bytes:
        scores = json.loads(data)
        scores["answers"][0]["seat"] = 2
        return json.dumps(scores, separators=(",", ":")).encode()

    story.step("similarity/1").rewrite("scores", change)


def swap_verdicts(story: Story) -> None:
    """Have the encoder say the opposite, and change nothing that follows from it."""
    story.step("similarity/1").rewrite(
        "scores", lambda data: data.replace(b'"same":true', b'"same":false')
    )


@pytest.mark.parametrize("forge", [claim_same, claim_fewer, compare_others, swap_verdicts])
def test_what_does_not_follow_from_the_recorded_comparison_is_found(
    factory: StoreFactory, tmp_path: Path, forge: Callable[[Story], None]
) -> None:
    """A holder of the keys cannot make answers the same for which nothing in the record stands."""
    story = story_of(deliberate(factory))
    forge(story)
    with forged(tmp_path, story) as forgery:
        report = forgery.verify()

    assert Problem.SESSION_COUNTED in {finding.problem for finding in report.findings}


def test_the_verdicts_of_the_encoder_are_listed_as_not_checked(
    factory: StoreFactory, tmp_path: Path
) -> None:
    """A verifier computes no vectors, and must not seem to have done so."""
    with forged(tmp_path, story_of(deliberate(factory))) as forgery:
        report = forgery.verify()

    assert report.findings == ()
    (missing,) = report.not_checked
    assert missing.endswith("in similarity/1, which is taken from the record")
