"""The README of each feature: short, and what it names is what the feature has."""

import re
from pathlib import Path

import pytest

from forum.feature import Feature
from forum.features import FEATURES
from tests.docs.feature_pages import page_of, render

FOLDER = Path(__file__).parents[2] / "src/forum/features"
MAX_LINES = 12


def read_bullets(feature: Feature) -> dict[str, str]:
    """Return what the page of a feature says, by the word that each line begins with."""
    text = (FOLDER / feature.name / "README.md").read_text()
    return dict(re.findall(r"^- (\w[\w ]*): (.*)\.$", text, flags=re.MULTILINE))


def test_each_folder_is_a_feature_of_the_list() -> None:
    """A folder without a line in the list would be code that nobody can reach."""
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}

    assert folders == {feature.name for feature in FEATURES}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_the_page_of_a_feature_names_what_it_has(feature: Feature) -> None:
    """A reader decides by these lines whether the folder is the one to look into."""
    names = ["Commands", "Kinds", "Endpoints", "Settings", "Read first", "More"]

    bullets = read_bullets(feature)
    assert list(bullets) == names
    assert page_of(feature).read_text() == render(feature), "`just docs` writes it anew"
    settings = set(re.findall(r"`\[(\w+)", bullets["Settings"]))
    assert settings >= {name for name, _ in feature.sections}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_the_page_of_a_feature_is_short_and_names_files_that_exist(feature: Feature) -> None:
    """It is read before the code, and a file that has moved sends the reader astray."""
    folder = FOLDER / feature.name
    text = (folder / "README.md").read_text()
    files = re.findall(r"`([a-z_]+\.py|[a-z_]+/)`", text)

    assert len(text.splitlines()) <= MAX_LINES
    assert "`" in read_bullets(feature)["Read first"]
    assert [name for name in files if not (folder / name).exists()] == []
