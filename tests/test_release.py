"""How a release is made: version, changelog and tags agree, and it can be made again."""

import re
import subprocess
from pathlib import Path

import pytest

from deploy.changelog import notes, prepare, stated_versions
from deploy.release import (
    find_differences,
    find_disagreements,
    find_misnamed,
    find_missing,
    read_tags,
)
from tests.test_changelog import CHANGELOG
from tests.test_repository import ROOT

VERSIONS = {"src/forum/__init__.py": ["0.2.0"], "web/package-lock.json": ["0.2.0", "0.2.0"]}
TAGS = {"v0.1.0": "0.1.0", "v0.2.0": "0.2.0"}


# Version, changelog and tags


def test_a_release_is_prepared_in_every_file_that_states_the_version(tmp_path: Path) -> None:
    """Then all of them agree, and no fragment is collected twice."""
    files = {
        "src/forum/__init__.py": '# Of the build.\n__version__ = "0.2.0"\n',
        "web/package-lock.json": '{\n  "version": "0.2.0",\n      "version": "0.2.0",\n'
        '      "version": "7.1.0"\n}\n',
        "clients/python/pyproject.toml": '[project]\nversion = "0.2.0"\n',
        "clients/ruby/pyproject.toml": '[project]\ndynamic = ["version"]\n',
        "CHANGELOG.md": CHANGELOG,
        "changelog.d/README.md": "What this folder is for.",
        "changelog.d/a.added.md": "A is new.",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    prepare(tmp_path, "0.3.0", "2026-12-01")

    stated = stated_versions(tmp_path)
    assert stated == {
        "clients/python/pyproject.toml": ["0.3.0"],
        "src/forum/__init__.py": ["0.3.0"],
        "web/package-lock.json": ["0.3.0", "0.3.0"],
    }
    assert '"7.1.0"' in (tmp_path / "web/package-lock.json").read_text()
    changelog = (tmp_path / "CHANGELOG.md").read_text()
    assert "- A is new." in notes(changelog)
    assert [path.name for path in (tmp_path / "changelog.d").iterdir()] == ["README.md"]
    assert find_disagreements(stated, changelog, TAGS) == []


def test_version_changelog_and_tags_of_the_repository_agree() -> None:
    """A reader of a release looks for its section; one of the changelog, for the release."""
    versions = stated_versions(ROOT)
    tags = read_tags(ROOT) if (ROOT / ".git").exists() else {}

    assert {"src/forum/__init__.py", "web/package.json", "clients/typescript/package.json"} <= set(
        versions
    )
    assert find_disagreements(versions, (ROOT / "CHANGELOG.md").read_text(), tags) == []


def test_a_release_that_is_about_to_be_tagged_agrees() -> None:
    """The tag is the last step; and a copy without history has none at all."""
    assert find_disagreements(VERSIONS, CHANGELOG, {"v0.1.0": "0.1.0"}) == []
    assert find_disagreements(VERSIONS, CHANGELOG, {}) == []
    assert find_disagreements(VERSIONS, CHANGELOG, TAGS) == []


@pytest.mark.parametrize(
    ("versions", "changes", "tags", "text"),
    [
        ({**VERSIONS, "web/package.json": ["0.1.0"]}, {}, TAGS, "stated as 0.1.0 and 0.2.0"),
        ({"src/forum/__init__.py": ["0.3.0"]}, {}, TAGS, "newest section .* not that of 0.3.0"),
        (VERSIONS, {"## [Unreleased]": "## Unreleased"}, TAGS, "does not begin with"),
        (VERSIONS, {"## [Unreleased]": "## [0.4.0]"}, TAGS, "does not begin with"),
        (VERSIONS, {"[0.2.0] - 2026-11-17": "[0.2.0]"}, TAGS, "is not called"),
        (VERSIONS, {"[0.2.0] -": "0.2.0 -"}, TAGS, "is not called"),
        (VERSIONS, {"2026-11-17": "2026-11-31"}, TAGS, "no date of the calendar: 2026-11-31"),
        (VERSIONS, {"2026-11-17": "2026-11-01"}, TAGS, "0.2.0 of 2026-11-01 before 0.1.0 of"),
        (VERSIONS, {"[0.1.0]": "[0.10.0]"}, {}, "0.2.0 of .* before 0.10.0 of"),
        (VERSIONS, {"[0.1.0]": "[0.2.0]"}, {}, "0.2.0 of .* before 0.2.0 of"),
        (VERSIONS, {}, {**TAGS, "v0.2.0": "0.1.0"}, "tag v0.2.0 states version 0.1.0"),
        (VERSIONS, {}, {**TAGS, "v0.2.0": ""}, "tag v0.2.0 states version"),
        (VERSIONS, {}, {**TAGS, "v0.1.1": "0.1.1"}, "tag v0.1.1 has no section"),
        (VERSIONS, {}, {"v0.2.0": "0.2.0"}, "0.1.0 has a section in .*, and no tag v0.1.0"),
    ],
)
def test_what_does_not_agree_is_found(
    versions: dict[str, list[str]], changes: dict[str, str], tags: dict[str, str], text: str
) -> None:
    """Each of these would be published as it is."""
    changelog = CHANGELOG
    for old, new in changes.items():
        assert old in changelog
        changelog = changelog.replace(old, new)

    assert re.search(text, "\n".join(find_disagreements(versions, changelog, tags)))


def test_a_commit_is_a_release_only_with_its_own_tag_and_nothing_left_to_do(tmp_path: Path) -> None:
    """A light tag has no date and no author, and another commit is not what was tested."""

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.invalid")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    empty = CHANGELOG.replace("### Added\n\n- A thing that waits.\n\n", "", 1)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d/README.md").write_text("What this folder is for.")
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message=one")

    git("tag", "v0.2.0")
    assert list(find_missing(tmp_path, "0.2.0", empty)) == ["HEAD has no annotated tag v0.2.0"]
    git("tag", "--force", "--annotate", "--message=two", "v0.2.0")
    assert list(find_missing(tmp_path, "0.2.0", empty)) == []

    (tmp_path / "changelog.d/README.md").write_text("Changed.")
    (tmp_path / "changelog.d/a.added.md").write_text("A is new.")
    assert list(find_missing(tmp_path, "0.2.0", CHANGELOG)) == [
        "CHANGELOG.md has items under [Unreleased]",
        "1 files of changelog.d are not collected",
        "there are changes that are not committed",
    ]
    git("add", "--all")
    git("commit", "--quiet", "--message=two")
    assert "HEAD has no annotated tag v0.2.0" in find_missing(tmp_path, "0.2.0", empty)


# What was made


def test_files_that_are_not_the_same_are_named(tmp_path: Path) -> None:
    """One byte is enough, and so is a file that only one of the two has."""
    for folder, texts in {"a": "same one left", "b": "same two"}.items():
        (tmp_path / folder).mkdir()
        for name, text in zip("xyz", texts.split(), strict=False):
            (tmp_path / folder / name).write_text(text)

    assert find_differences(tmp_path / "a", tmp_path / "b") == ["y", "z"]
    assert find_differences(tmp_path / "a", tmp_path / "a") == []


def test_a_distribution_of_another_version_is_named(tmp_path: Path) -> None:
    """Each distribution of the repository has the version of the release."""
    for name in ("forumd-0.2.0-py3-none-any.whl", "forumd-0.2.0.tar.gz", "forumd.cdx.json"):
        (tmp_path / name).write_text("")
    assert find_misnamed(tmp_path, "0.2.0") == []
    assert len(find_misnamed(tmp_path, "0.2")) == 2

    (tmp_path / "forumd_client-0.1.0.tar.gz").write_text("")
    assert find_misnamed(tmp_path, "0.2.0") == ["forumd_client-0.1.0.tar.gz"]
