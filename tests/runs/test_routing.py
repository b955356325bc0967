"""Routing: its laws, its behaviour under any text, and what it is worth on requests of others."""

import math
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.routing import (
    GOALS,
    cross_validated,
    decided,
    met,
    read_requests,
    requests_file,
    shares,
)
from forum.app.planner import load_roster
from forum.runs.roster import ELSEWHERE, ElsewhereSection, Lane, Roster
from forum.runs.routing import LEXICAL_CALIBRATION, MAX_EVIDENCE, SEMANTIC_FEATURE, Router
from tests.foreign_data import needs_foreign_data

SMALL = Roster(
    (
        Lane(
            "kitchen",
            "Cooks.",
            terms=("soup", "汤面", "खाना"),
            examples=("Boil the potatoes for dinner",),
        ),
        Lane("garden", "Plants.", phrases=("prune the roses",), examples=("Water the potatoes",)),
    ),
    ElsewhereSection(("good morning", "how are you")),
)
ROUTER = Router(SMALL, calibration=replace(LEXICAL_CALIBRATION, offset=0.0, sure=0.6))

WORDS = ["soup", "roses", "Potatoes", "汤面", "water_the", "pruneThe", "C++", "\0", "\ud800"]
TEXTS = st.text(st.characters(codec=None)) | st.lists(st.sampled_from(WORDS)).map(" ".join)


class Opinionated:
    """A rung that always says the same."""

    name = "opinionated"

    def __init__(self, *scores: float) -> None:
        self._scores = scores

    def scores(self, text: str) -> Sequence[float]:
        """Return what was given."""
        return self._scores


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("A SOUP, please", "kitchen"),
        ("prune the roses", "garden"),
        ("我要吃汤面", "kitchen"),
        ("Unityの汤面", "kitchen"),
        ("मुझे खाना चाहिए।", "kitchen"),
        ("good morning", None),
        ("potatoes", None),
        ("", None),
    ],
)
def test_a_lane_is_named_only_if_words_tell_it_apart(text: str, lane: str | None) -> None:
    """What belongs to both lanes, to none, or elsewhere is left to the Classifier."""
    assert ROUTER.route(text).lane == lane


@given(TEXTS)
@example("")
@example("soup " * 300_000)
@example("\ud800\udfff\x00" * 1000)
@example("ﷺ" * 5000)  # one character that becomes eighteen when it is normalised
def test_the_evidence_adds_up_to_the_margin(text: str) -> None:
    """Any text has a route, and nothing but the evidence leads to it."""
    route = ROUTER.route(text)

    assert math.isclose(sum(e.weight for e in route.evidence), route.margin, abs_tol=1e-5)
    assert route.margin >= 0 <= route.confidence <= 1
    assert len(route.evidence) <= MAX_EVIDENCE
    assert route.nearest != route.runner_up
    assert route.lane in (None, route.nearest)
    assert route.lane != ELSEWHERE
    assert route.nearest in (ROUTER.rank_lanes(text, 1)[0][0], ELSEWHERE)


@given(TEXTS, st.floats(0, 1), st.floats(0, 1))
def test_who_wants_to_be_surer_decides_less(text: str, one: float, other: float) -> None:
    """Raising the bar turns decisions into abstentions, and never into other decisions."""
    low, high = sorted((one, other))
    bold, careful = (
        Router(SMALL, calibration=replace(LEXICAL_CALIBRATION, sure=sure)).route(text)
        for sure in (low, high)
    )

    assert careful.lane in (None, bold.lane)
    assert replace_lane(careful) == replace_lane(bold)


def replace_lane(route: object) -> str:
    """Return a route as text, but for what was decided."""
    return repr(route).split(", ", 1)[1]


def test_another_rung_speaks_for_itself() -> None:
    """Its opinion is evidence like any other, under a name of its own, and can turn the scale."""
    calibration = replace(LEXICAL_CALIBRATION, meaning=2.0, sure=0.6)
    route = Router(SMALL, Opinionated(0.0, 5.0, 0.0), calibration).route("soup")

    assert (route.lane, route.rung) == ("garden", "opinionated")
    assert route.evidence[0].feature == SEMANTIC_FEATURE
    assert route.evidence[0].weight == 10.0


def test_identifiers_are_read_as_their_words() -> None:
    """People paste names of functions, and those are made of words that say what they are about."""
    assert ROUTER.route("pruneTheRoses()").lane == "garden"
    assert ROUTER.route("PRUNE_THE_ROSES").lane == "garden"


def test_every_process_finds_the_same() -> None:
    """A route is recorded and checked later, elsewhere: no order of a set may take part in it."""
    program = (
        "from forum.app.planner import load_roster\nfrom forum.runs.routing import Router\n"
        "router = Router(load_roster())\n"
        "for text in ('Terraform wants to replace the cluster', 'Das Bild ruckelt', '解析器'):\n"
        "    print(router.route(text))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(outputs) == 1
    assert "cloud" in outputs.pop()


PLAIN_REQUESTS = {
    "backend": "Our endpoint for invoices times out when orders are joined; fix the query.",
    "frontend": "The dropdown in our React form closes as soon as it gets the keyboard focus.",
    "mobile": "My Android app loses the photo when the phone is rotated during the upload.",
    "sdk": "How do I deprecate a method of our npm package without breaking its users?",
    "python": "Write a Python script that renames all scans in a folder by their date.",
    "systems": "This Rust program deadlocks: two threads take the same two mutexes.",
    "compilers": "My recursive descent parser gives unary minus the wrong precedence.",
    "data-pipelines": "The nightly Airflow job loads some rows of the warehouse twice.",
    "machine-learning": "Validation loss rises after three epochs of fine-tuning the classifier.",
    "cloud": "Write Terraform for a private bucket and a role that may read it.",
    "ci-cd": "The GitHub Actions workflow builds the image again though nothing changed.",
    "reliability": "We were paged at night: p99 latency tripled and the alert came too late.",
    "security": "An intern committed an AWS secret key to a public repository. What now?",
    "testing": "One of our Cypress tests is flaky; find out why and write a stable one.",
    "code-review": "Please review this pull request and tell me what is risky in the diff.",
    "rendering": "Shadow maps flicker at the border between two cascades.",
    "shaders": "Write a GLSL fragment shader that draws animated Voronoi noise.",
    "gpu-compute": "My CUDA reduction kernel reaches a tenth of the memory bandwidth.",
    "data-analysis": "Is the difference in conversion between the two variants significant?",
    "technical-writing": "Rewrite the README so that a newcomer can install the tool.",
    "teaching": "Explain recursion to a twelve-year-old, with two exercises.",
    "synthesis": "Summarize these three meeting transcripts into one page.",
    "product-design": "Write user stories and acceptance criteria for the sign-up flow.",
}
"""One request for a lane, in the words of somebody who needs it."""


def test_plain_requests_find_their_lane() -> None:
    """A request that names its subject is not sent to another specialist."""
    router = Router(load_roster())
    document = {lane: router.route(text).lane for lane, text in PLAIN_REQUESTS.items()}

    assert {lane: other for lane, other in document.items() if other not in (lane, None)} == {}
    assert sum(other is not None for other in document.values()) >= 18


@needs_foreign_data
def test_the_lexical_rung_reaches_its_goals() -> None:
    """On requests that others wrote: with the numbers that we ship, and with held-out ones."""
    requests = read_requests(requests_file())
    router = Router(load_roster())
    routes = [router.route(request.text) for request in requests]

    for outcomes in (
        cross_validated(routes, requests, LEXICAL_CALIBRATION),
        decided(routes, requests, LEXICAL_CALIBRATION),
    ):
        document = shares(outcomes)
        assert [name for name in GOALS["lexical"] if not met("lexical", name, document[name])] == []
