"""The changelog: a file for each change in changelog.d, collected into a section at a release.

Changes that are made beside each other would meet in one list of CHANGELOG.md; in files of their
own they do not.  A file is called NAME.CATEGORY.md and holds one paragraph, with links from the
root of the repository.

    python -m deploy.changelog prepare 0.3.0 2026-12-01   states the version, and writes its section
    python -m deploy.changelog notes                      prints the newest section
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CATEGORIES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
UNRELEASED = "[Unreleased]"

_SECTION = re.compile(r"^## (.+)\n", flags=re.MULTILINE)
_CATEGORY = re.compile(r"^### (.+)\n", flags=re.MULTILINE)
_SENTENCE = re.compile(r"[A-Z0-9`\[].*[.]", flags=re.DOTALL)
_VERSION = re.compile(r'^((?:__version__ = |version = | *"version": )")([^"]+)', flags=re.MULTILINE)
_STATE_VERSION = (
    "src/forum/__init__.py",
    "web/package*.json",
    "clients/*/package*.json",
    "clients/*/pyproject.toml",
    "clients/*/src/*/__init__.py",
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """What one file of changelog.d says."""

    category: str
    text: str


def read_fragment(name: str, text: str) -> Fragment:
    """Read a file of changelog.d; raise ValueError with what its author has to change."""
    parts = name.split(".")
    category = parts[1].capitalize() if len(parts) == 3 and parts[2] == "md" else ""
    if not parts[0] or category not in CATEGORIES:
        known = ", ".join(CATEGORIES).lower()
        raise ValueError(f"{name}: call it NAME.CATEGORY.md, with a category of {known}")
    if "\n\n" in text.strip() or not _SENTENCE.fullmatch(text.strip()):
        raise ValueError(f"{name}: write one paragraph of whole sentences, without a list")
    return Fragment(category, " ".join(text.split()))


def fragment_files(folder: Path) -> list[Path]:
    """Return the files of changelog.d that a release collects, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.name != "README.md")


def read_sections(changelog: str) -> list[tuple[str, str]]:
    """Return the title of each version with what stands below it, the newest first."""
    _, *parts = _SECTION.split(changelog)
    return list(zip(parts[::2], parts[1::2], strict=True))


def collect(changelog: str, fragments: Iterable[Fragment], version: str, date: str) -> str:
    """Return the changelog with a section of a version: what is unreleased, then the fragments."""
    waiting = dict(read_sections(changelog))[UNRELEASED]
    _, *parts = _CATEGORY.split(waiting)
    items = dict(zip(parts[::2], (part.strip() + "\n" for part in parts[1::2]), strict=True))
    for fragment in fragments:
        items[fragment.category] = items.get(fragment.category, "") + f"- {fragment.text}\n"
    blocks = [f"### {name}\n\n{items[name]}\n" for name in CATEGORIES if name in items]
    section = f"## {UNRELEASED}\n\n## [{version}] - {date}\n\n" + "".join(blocks)
    return changelog.replace(f"## {UNRELEASED}\n{waiting}", section)


def stated_versions(root: Path) -> dict[str, list[str]]:
    """Return the version of Forum as each file states it that does."""
    return {
        str(path.relative_to(root)): [match[2] for match in _VERSION.finditer(text)][:count]
        for path, text, count in _statements(root)
    }


def _statements(root: Path) -> Iterator[tuple[Path, str, int]]:
    """Return each file that states the version, its text, and how often it does.

    A lock of npm says it twice, and then the versions of other packages.
    """
    for path in sorted(path for pattern in _STATE_VERSION for path in root.glob(pattern)):
        text = path.read_text()
        if _VERSION.search(text):
            yield path, text, 2 if path.name == "package-lock.json" else 1


def prepare(root: Path, version: str, date: str) -> None:
    """State a version everywhere, and make its section of the changelog of what waits for it."""
    files = fragment_files(root / "changelog.d")
    fragments = [read_fragment(path.name, path.read_text()) for path in files]
    changelog = root / "CHANGELOG.md"
    changelog.write_text(collect(changelog.read_text(), fragments, version, date))
    for path, text, count in _statements(root):
        path.write_text(_VERSION.sub(rf"\g<1>{version}", text, count=count))
    for path in files:
        path.unlink()


def notes(changelog: str) -> str:
    """Return what the newest release says of itself."""
    return read_sections(changelog)[1][1].strip() + "\n"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", version, date]:
            prepare(ROOT, version, date)
        case ["notes"]:
            sys.stdout.write(notes((ROOT / "CHANGELOG.md").read_text()))
        case _:
            sys.exit(__doc__)
