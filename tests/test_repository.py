"""What the repository holds: nothing of the machine that it was written on."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A home or working directory at the start of a path; a folder of that name inside one is fine.
MACHINE_PATH = re.compile(r"(?<![\w.*/~})-])/(?:home|root|Users|work)/\w|\b[A-Z]:\\Users\\")
# Spelled with a class, so that this file does not hold what it looks for.
INDEX_HOST = re.compile(r"pypi[.]org|pythonhosted[.]org|[/@]pypi[.]|/simple/?(?:\s|$)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def tracked(*patterns: str) -> list[Path]:
    """Return the files that are committed, or would be by ``git add --all``."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def package_sources() -> dict[str, str]:
    """Return the text of each module of Forum and of its client, by the path in its folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for folder in (ROOT / "src/forum", ROOT / "clients/python/src")
        for path in sorted(folder.rglob("*.py"))
    }


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Return every line that matches, with where it stands."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_path_of_a_machine() -> None:
    """Such a path works for its author only, and tells strangers about him."""
    assert lines_with(MACHINE_PATH, tracked()) == []


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is the installer's choice; what they are is fixed by hashes."""
    assert lines_with(INDEX_HOST, tracked()) == []


def test_the_wheels_with_weights_are_a_source_of_the_tests_only() -> None:
    """Users get weights from those who publish them, and Forum loads them from a plain folder."""
    wheels = re.compile("pyduck|llm[_-]smollm2|gt[_-]all[_-]minilm")
    files = tracked(
        *("src", "clients", "docs", "deploy", "benchmarks", "examples", "*.md", "pyproject.toml")
    )

    assert len(files) > 400
    assert lines_with(wheels, files) == []


def test_no_lock_file_holds_an_address() -> None:
    """A lock that names hosts would send every reader to them."""
    locks = tracked("*requirements*.txt", "requirements/*", "*.lock", "*lock*.json", "*lock*.yaml")

    assert ROOT / "requirements/ci.txt" in locks
    assert lines_with(re.compile(r"https?://|file:"), locks) == []


PAGES = tracked("*.md", ":!changelog.d/*.*.md")  # the links of a fragment are of CHANGELOG.md


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """A link to a file that has moved is found here and not by a reader."""
    targets = [page.parent / target for target in LINK.findall(page.read_text())]

    assert [target for target in targets if not target.exists()] == []


NAMED_FILE = re.compile(r"`([a-z_/]+/[a-z_]+\.(?:py|toml|json|js|md|sql)|[a-z_]+\.py)`")


@pytest.mark.parametrize("name", ["AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(name: str) -> None:
    """A recipe that begins in a file that has moved is worse than none."""
    files = set(NAMED_FILE.findall((ROOT / name).read_text()))
    ends = [path.as_posix() for path in tracked("src", "tests", "docs", "benchmarks", "clients")]

    assert len(files) > 3
    assert [f for f in files if not any(end.endswith(f"/{f}") or end == f for end in ends)] == []


def test_the_path_of_a_request_names_functions_that_exist() -> None:
    """Who follows a request from module to module must find each step where the page says."""
    page = (ROOT / "ARCHITECTURE.md").read_text().split("## The path of a request")[1]
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \| (`[^|]+) \|$", page, flags=re.MULTILINE)
    missing = []
    for functions, modules in rows:
        texts = [
            (ROOT / "src/forum" / module).read_text() for module in re.findall("`(.*?)`", modules)
        ]
        for function in re.findall("`(.*?)`", functions):
            definition = re.compile(rf"(?:def|class) {function}\b")
            missing += [] if any(map(definition.search, texts)) else [function]

    assert len(rows) >= 8
    assert missing == []


def test_decisions_are_numbered_without_gaps() -> None:
    """A decision is superseded, never removed; so a missing number is a mistake."""
    numbers = [int(page.name[:4]) for page in tracked("docs/adr/[0-9]*.md")]

    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", tracked("docs/adr/[0-9]*.md"), ids=lambda page: page.stem)
def test_a_decision_has_the_form_of_one(page: Path) -> None:
    """Readers look for the reasons and for what was turned down, in the same place on each page."""
    text = page.read_text()
    headings = re.findall(r"^\*\*(\w+)\*\* ", text, flags=re.MULTILINE)

    status = r"accepted|superseded by \d{4}|superseded in part by \d{4}(?: and \d{4})*"

    assert re.match(rf"# {page.name[:4]}  \S.*\n\nStatus: (?:{status})\n", text)
    assert headings == ["Context", "Decision", "Consequences", "Rejected"]
    assert ("\nSuperseded: " in text and "\nStill holds: " in text) == ("in part" in text[:200])


PARTICIPLE = re.compile(r"[A-Z][a-z]+(?:ed|en|ing)|Told|Kept|Gone|Said|Heard|Sent|Made|Begun|Lost")
NOT_PARTICIPLES = {"Finding", "Setting", "Sighting", "Untrusted"}
RELEASED_NAMES = {
    "Malformed",  # recorded as the code of a stop
    "Scripted",  # part of a recorded digest
    "Nothing",  # a schema of an MCP tool
    "Taken",  # a schema of the OpenAPI document
}


# What the client has under the names of Forum: its forms, and the families of its errors.
COUNTERPARTS = {
    ROOT / "clients/python/src/forum_client" / name
    for name in ("errors.py", "forms.py", "problem_types.py")
}


def class_names() -> list[str]:
    """Return the name of every class of the packages that somebody has named."""
    paths = set(tracked("src/forum/*.py", "clients/python/src/*.py"))
    assert paths > COUNTERPARTS
    trees = (ast.parse(path.read_text()) for path in sorted(paths - COUNTERPARTS))
    return [
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]


def test_a_class_name_means_one_class() -> None:
    """A reader who knows a name from one module knows it from all."""
    counts = Counter(class_names())

    assert len(counts) > 500
    assert [name for name, count in counts.items() if count > 1] == []


def test_a_class_is_named_by_a_noun() -> None:
    """A bare participle does not say what kind of thing it is."""
    found = {name for name in class_names() if PARTICIPLE.fullmatch(name)}

    assert found <= NOT_PARTICIPLES | RELEASED_NAMES


def test_limits_are_called_max() -> None:
    """One word for one thing: the word of the field."""
    files = tracked("src/*.py", "clients/python/*.py", "benchmarks/*.py")

    assert lines_with(re.compile(r"\b_?MOST_"), files) == []
