"""Fragments of the changelog: each can be collected, and collecting loses nothing."""

import re

import pytest

from deploy.changelog import (
    Fragment,
    collect,
    fragment_files,
    notes,
    read_fragment,
    read_sections,
)
from tests.test_repository import LINK, ROOT

CHANGELOG = """\
# Changelog

What changed.

## [Unreleased]

### Added

- A thing that waits.

## [0.2.0] - 2026-11-17

### Fixed

- A thing that was broken.

## [0.1.0] - 2026-11-15

### Added

- Everything.
"""
SENTENCE = "Something that users notice is different."


def test_the_fragments_can_be_collected() -> None:
    """Whoever makes the release has nothing to repair; links are those of CHANGELOG.md."""
    files = fragment_files(ROOT / "changelog.d")
    texts = [read_fragment(path.name, path.read_text()).text for path in files]

    assert [
        link for text in texts for link in LINK.findall(text) if not (ROOT / link).exists()
    ] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gates.improved.md", SENTENCE),
        ("gates.Fixed.txt", SENTENCE),
        ("gates.md", SENTENCE),
        ("gates", SENTENCE),
        (".fixed.md", SENTENCE),
        ("two.gates.fixed.md", SENTENCE),
        ("gates.fixed.md", ""),
        ("gates.fixed.md", "Something without an end"),
        ("gates.fixed.md", f"- {SENTENCE}"),
        ("gates.fixed.md", f"### Fixed\n{SENTENCE}"),
        ("gates.fixed.md", f"{SENTENCE}\n\n{SENTENCE}"),
        ("gates.fixed.md", "something small."),
    ],
)
def test_a_fragment_without_a_known_category_or_a_sentence_is_refused(name: str, text: str) -> None:
    """A release would leave it out, or print it as it is."""
    with pytest.raises(ValueError, match=re.escape(name)):
        read_fragment(name, text)


def test_a_fragment_may_have_several_lines_and_begin_with_a_name() -> None:
    """Lines are for editors; an item of the changelog is one line."""
    text = "`forum runs` is faster.\nIt reads less, as [the guide](docs/index.md)\nsays.\n"

    assert read_fragment("runs.changed.md", text) == Fragment(
        "Changed", "`forum runs` is faster. It reads less, as [the guide](docs/index.md) says."
    )


def test_a_release_collects_what_waits_and_loses_nothing() -> None:
    """Items under Unreleased come first, categories in their order; older sections stay."""
    fragments = [Fragment("Fixed", "B is right."), Fragment("Added", "A is new.")]

    collected = collect(CHANGELOG, fragments, "0.3.0", "2026-12-01")

    newest = "### Added\n\n- A thing that waits.\n- A is new.\n\n### Fixed\n\n- B is right.\n"
    assert notes(collected) == newest
    titles = [title for title, _ in read_sections(collected)]
    assert titles[:2] == ["[Unreleased]", "[0.3.0] - 2026-12-01"]
    assert read_sections(collected)[2:] == read_sections(CHANGELOG)[1:]
    assert dict(read_sections(collected))["[Unreleased]"].strip() == ""
