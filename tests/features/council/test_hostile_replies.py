"""No reply is slow to read, whatever its author has made of it: everybody else waits meanwhile."""

import json
from collections.abc import Callable
from contextlib import suppress
from time import thread_time

import pytest

from forum.errors import Malformed
from forum.features.council.ballots import BallotRules, read_ballot
from forum.features.symposium.canonical_json import read_json
from forum.features.symposium.replies import parse_turn
from forum.runs.judging import MAX_READ_BYTES

MANY = MAX_READ_BYTES // 3
SECONDS = 2.0
"""Far more than any of these needs, and far less than it would need if it were read again and
again."""


def seconds(work: Callable[[], object]) -> float:
    """Return how long a processor was busy with something."""
    began = thread_time()
    work()
    return thread_time() - began


@pytest.mark.parametrize("member", ["answer", "question"])
def test_a_ballot_of_nothing_but_quotation_marks_is_read_at_once(member: str) -> None:
    """Each pair of them is taken away; what is left is not copied for each."""
    marks = "'" * MANY + "x" + "'" * MANY
    data = json.dumps({"answer": "x", "confidence": 1, member: marks}).encode()

    def read() -> None:
        with suppress(ValueError):
            read_ballot(data, BallotRules())

    assert seconds(read) < SECONDS


def test_a_request_with_a_long_name_is_read_at_once() -> None:
    """Where something stands is not written down for each of the things that stand there."""
    asked = {"k" * MANY: [1] * 100_000}
    data = json.dumps({"text": "x", "direct_requests": [asked]}).encode()

    assert seconds(lambda: parse_turn(data)) < SECONDS


def test_a_member_that_is_there_twice_is_found_at_once() -> None:
    """Among many that are not."""
    names = [*range(50_000), 0]
    data = ("{" + ",".join(f'"{name}":1' for name in names) + "}").encode()

    def read() -> None:
        with pytest.raises(Malformed, match="'0'"):
            read_json(data, "artifact")

    assert seconds(read) < SECONDS
