"""One fact has one encoding, and every verifier refuses all others."""

import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.ledger.entry import Entry, Limit
from forum.runs.kinds import AcceptedFacts, DelegationFacts
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from tests.ledger.samples import members_of
from tests.verify.encodings import all_cases, disagreements, frame, random_cases, readers

NO_LIMIT = int("9007199254740991")
"""Equal to the default of limits, and another object: msgspec compares by identity."""


def test_all_readers_agree_on_every_kind() -> None:
    """What one verifier accepts and another refuses splits the verifiers for ever."""
    assert disagreements(all_cases()) == []


def test_all_readers_agree_on_drawn_entries() -> None:
    """`just fuzz-encoding` draws more of them."""
    assert disagreements(random_cases(seed=31, count=2000)) == []


@pytest.mark.parametrize(
    "facts",
    [
        AcceptedFacts(usd=NO_LIMIT, milliseconds=NO_LIMIT),
        DelegationFacts("r", tokens=NO_LIMIT),
        ReportSourceFacts(ReportProvenance.REPORTED, "ci", usd=NO_LIMIT, calls=5),
    ],
)
def test_a_writer_leaves_a_default_out_that_was_named(
    facts: AcceptedFacts | DelegationFacts | ReportSourceFacts,
) -> None:
    """A client may name the largest number; only a number that is another one is written."""
    entry = Entry(
        v="forum/entry/1",
        log="example.com/log",
        run="r",
        strand="main",
        n=0,
        prev="",
        step="s",
        ts=1,
        actor="a",
        kind=KINDS.kind_of(facts).name,
        parents=(),
        facts=facts,
        bodies={},
    )

    assert b"9007199254740991" not in KINDS.write(entry)


def test_an_entry_of_0_2_with_a_default_written_out_is_valid_everywhere() -> None:
    """It can never be removed from its log, so that it must not make the log look forged."""
    facts = '{"told":"reported","by":"ci","usd":9007199254740991,"calls":5}'
    data = frame("report.source/1", facts)

    assert {name: read([data]) for name, read in readers().items()} == {
        name: [True] for name in readers()
    }
    assert KINDS.read(data).facts == ReportSourceFacts(ReportProvenance.REPORTED, "ci", calls=5)


def test_only_the_kinds_of_0_2_have_limits() -> None:
    """A limit has two encodings, which no new kind may have."""
    limited = {kind.name for kind in KINDS if Limit in members_of(kind.facts).values()}

    assert limited == {"accepted/1", "delegate/1", "report.source/1"}
