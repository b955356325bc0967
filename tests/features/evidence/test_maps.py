"""Maps: those that come with Forum, and what a map of a user's must be."""

from pathlib import Path

import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.errors import EvidenceRefused, Malformed
from forum.features.evidence.control_maps import ReviewStatus, read_map
from forum.features.evidence.service import choose_maps, shipped_maps

NAMES = ["ai-act", "dora", "gdpr", "iso-42001", "nist-ai-rmf", "pci-dss", "soc2"]
OWN = """
name = "own"
title = "Own"
version = "1"
applies = "us"
rows = [{ id = "1", duty = "d", source = "s", read = "original", figures = ["own.q"], yours = "y" }]
queries = [{ id = "own.q", title = "Q", section = "own", kinds = ["note/1"] }]
review = { status = "reviewed", by = "A. Reader", on = "2026-11-02" }
"""


def test_no_shipped_map_invents_a_reviewer() -> None:
    """Until somebody has read the originals, a map says so and names nobody."""
    maps = shipped_maps()

    assert list(maps) == NAMES
    for control_map in maps.values():
        assert control_map.review.status is ReviewStatus.UNREVIEWED
        assert (control_map.review.by, control_map.review.on) == ("", "")
        assert all(row.duty and row.source and row.yours for row in control_map.rows)


def test_an_unreviewed_map_must_be_asked_for() -> None:
    """With the option it is used, without it refused with the remedy."""
    with pytest.raises(EvidenceRefused, match="--unreviewed"):
        choose_maps(["ai-act"], unreviewed=False)

    assert [m.name for m in choose_maps(["soc2", "ai-act", "soc2"], unreviewed=True)] == [
        "ai-act",
        "soc2",
    ]
    with pytest.raises(EvidenceRefused, match="there are ai-act, dora"):
        choose_maps(["hipaa"], unreviewed=True)


def test_a_map_of_the_users_is_a_file(tmp_path: Path) -> None:
    """A reviewed one needs no option; one with the name of ours is refused."""
    file = tmp_path / "own.toml"
    file.write_text(OWN)

    assert choose_maps([str(file)], unreviewed=False)[0].review.by == "A. Reader"
    other = tmp_path / "other.toml"
    other.write_text(OWN.replace("own.q", "other.q"))
    with pytest.raises(EvidenceRefused, match="two maps have the name own"):
        choose_maps([str(file), str(other)], unreviewed=False)
    file.write_text(OWN.replace('name = "own"', 'name = "gdpr"'))
    with pytest.raises(EvidenceRefused, match="choose another"):
        choose_maps([str(file)], unreviewed=True)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('["own.q"]', '["runs.none"]', "no query runs.none"),
        ('id = "own.q"', 'id = "runs.all"', "exists already"),
        ('by = "A. Reader", ', "", "by whom and when"),
        ('status = "reviewed"', 'status = "unreviewed"', "by whom and when"),
        ('title = "Own"', "", "title"),
        ('yours = "y" }', 'yours = "y", met = true }', "met"),
        ('id = "own.q"', 'id = "own.q", measure = "sum"', "needs `of`"),
        ('id = "own.q"', 'id = "own.q", over = "runs"', "only for entries"),
        ('"note/1"', '"notes/1"', "query own.q: there is no kind notes/1"),
        ('id = "own.q"', 'id = "own.q", by = ["colour"]', "entries have no member colour"),
        (
            'kinds = ["note/1"]',
            'over = "runs", where = [{ member = "tokens", values = ["1"] }]',
            "runs have no member tokens; there are actor, began",
        ),
        ("= ", "", "map own"),
    ],
)
def test_a_malformed_map_says_why(old: str, new: str, why: str) -> None:
    """A reviewed map names its reviewer, and a row names figures that exist."""
    with pytest.raises(Malformed, match=why):
        read_map(OWN.replace(old, new, 1).encode(), "own", KINDS)
