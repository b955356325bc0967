"""Rosters: what is read, what is refused and in which words, and what the default one holds."""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from forum.app.planner import load_roster
from forum.errors import BadRoster
from forum.runs.roster import Lane, Roster, Tier, read_roster
from tests.foreign_data import foreign

ROOT = Path(__file__).parents[2]

TWO = """
[elsewhere]
examples = ["good morning"]

[[lane]]
name = "kitchen"
does = "Cooks."
terms = ["soup"]

[[lane]]
name = "garden"
does = "Plants."
tier = "cheap"
phrases = ["prune the roses"]
"""


def test_a_roster_is_read_as_it_is_written() -> None:
    """Order is kept, and what a lane does not say has a default."""
    roster = read_roster(TWO.encode())

    assert [lane.name for lane in roster.lanes] == ["kitchen", "garden"]
    assert [lane.tier for lane in roster.lanes] == [Tier.CAPABLE, Tier.CHEAP]
    assert roster.by_name["garden"].phrases == ("prune the roses",)
    assert roster.elsewhere.examples == ("good morning",)


def test_a_digest_names_what_a_roster_says_and_not_how_it_is_laid_out() -> None:
    """What was fitted to a roster is kept under its digest: no word may change without it."""
    digest = read_roster(TWO.encode()).digest
    spaced = TWO.replace(" = ", "=").replace("\n\n", "\n# a remark\n")

    assert read_roster(spaced.encode()).digest == digest
    assert read_roster(TWO.replace("soup", "soups").encode()).digest != digest
    assert re.fullmatch("[0-9a-f]{64}", digest)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('name = "kitchen"', 'name = "Kitchen"', "lane 'Kitchen': this is no name for a lane"),
        ('name = "kitchen"', 'name = "elsewhere"', "lane 'elsewhere': this is no name for a lane"),
        ('name = "kitchen"', f'name = "{"k" * 41}"', "this is no name for a lane"),
        ('name = "kitchen"', 'name = "garden"', "lane 'garden': 2 lanes have this name"),
        ('name = "kitchen"', "", "$.lane[...]: Object missing required field `name`"),
        ('does = "Cooks."', 'does = " "', "lane 'kitchen': `does` is empty"),
        ('does = "Cooks."', "does = 7", "$.lane[...].does: Expected `str`, got `int`"),
        ('tier = "cheap"', 'tier = "free"', "$.lane[...].tier: Invalid enum value 'free'"),
        ('tier = "cheap"', 'teir = "cheap"', "$.lane[...]: Object contains unknown field `teir`"),
        ('terms = ["soup"]', "", "lane 'kitchen': it has no terms, phrases or examples"),
        ('terms = ["soup"]', 'terms = [""]', "lane 'kitchen': one of its terms"),
        ('terms = ["soup"]', 'terms = ["so', "TOML: "),
        ('["soup"]', "[" * 9999, "TOML: "),
        (TWO[TWO.index('[[lane]]\nname = "garden"') :], "", "lanes: there are 1; choosing needs"),
    ],
)
def test_a_roster_that_is_of_no_use_is_refused(old: str, new: str, text: str) -> None:
    """The error says what is wrong and where, so that its author need not search."""
    with pytest.raises(BadRoster) as caught:
        read_roster(TWO.replace(old, new).encode())

    found = re.sub(r"\$\.lane\[\d\]", "$.lane[...]", str(caught.value))
    assert found.startswith(f"this roster cannot be used: {text}") or text in found


def test_bytes_that_are_no_text_are_refused() -> None:
    """A file that somebody named by mistake is not taken apart as if it were one."""
    with pytest.raises(BadRoster, match="byte 2: this is not UTF-8"):
        read_roster(b"# \xff")


def test_every_lane_of_the_default_roster_can_be_put_to_work() -> None:
    """A lane without instructions would be a name only; one without foreign words is half deaf."""
    roster = load_roster()

    assert len(roster.lanes) == 28
    assert len(roster.elsewhere.examples) >= 100
    for lane in roster.lanes:
        assert len(lane.instructions.strip().splitlines()) >= 4, lane.name
        assert min(len(lane.terms), len(lane.examples)) >= 100, lane.name
        assert any(not example.isascii() for example in lane.examples), lane.name


def test_the_default_roster_holds_nothing_of_what_it_is_measured_by() -> None:
    """A roster that had learned the answers by heart would be measured to be better than it is."""
    texts = set(shingles(load_roster()))
    measured = foreign("routing/dev.jsonl").read_text().splitlines()
    asked = [json.loads(line)["text"] for line in measured]

    assert len(asked) > 300
    assert [text for text in asked if texts & set(pieces(text))] == []


def shingles(roster: Roster) -> Iterator[str]:
    """Return all that a roster says, in pieces."""
    for text in roster.elsewhere.examples:
        yield from pieces(text)
    for lane in roster.lanes:
        for text in (lane.does, lane.instructions, *lane.phrases, *lane.examples):
            yield from pieces(text)


def pieces(text: str) -> list[str]:
    """Return a text as a whole, and every eight words in a row of it."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    rows = [" ".join(words[n : n + 8]) for n in range(len(words) - 7)]
    return [" ".join(words), *rows] if words else []


def test_a_roster_of_forum_engine_is_read_as_it_is() -> None:
    """Its agents are lanes; what a roster does not decide here is left out."""
    agent = """
        [[agent]]
        name = "{name}"
        category = "engineering"
        domain = "Backend services"
        keywords = ["api", "database"]
        model_tier = "frontier"
        executor = "cli"
        max_turns = 5
        """
    roster = read_roster((agent.format(name="backend") + agent.format(name="render")).encode())

    assert roster.by_name["render"] == Lane(
        name="render",
        does="Backend services",
        group="engineering",
        tier=Tier.FRONTIER,
        terms=("api", "database"),
    )
    with pytest.raises(BadRoster, match="does"):
        read_roster(b'[[agent]]\nname = "backend"\nkeywords = ["a"]')
