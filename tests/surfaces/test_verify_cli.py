"""`forum verify`: the story of what a bundle proves, and what became of a file that is none."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from forum.ledger.zip_archive import pack_archive
from forum.verify import standalone
from tests.surfaces.terminal import Terminal
from tests.verify.page import page_verifier

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a user who has the bundle of a run that was answered."""
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    terminal.environment["COLUMNS"] = "80"
    asked = terminal.type("submit", "Name a river", "--cmd", "sed s/Name/The\\ Po,/")
    assert asked.returncode == 0, asked.stderr
    run = terminal.ask("runs")["runs"][0]["run"]
    assert terminal.call("ledger", "export", run, "-o", "run.zip").exit_code == 0
    return terminal


def test_what_was_proven_is_told(user: Terminal) -> None:
    """Request, answer, when, who, cost, models and witnesses with times, on 80 columns."""
    checked = user.call("verify", "run.zip", "--policy", str(user.policy))
    lines = checked.stdout.split("\n")
    story = lines[lines.index("what is proven") :]

    assert checked.exit_code == 0
    assert [line.split()[0] for line in story[1:8]] == [
        "run",
        "request",
        "known",
        "asked",
        "ended",
        "cost",
        "models",
    ]
    text = " ".join(" ".join(story).split())
    for part in ("Name a river", "by operator", "ok, 20", "$0.00, 1 call", "sed (1 call)"):
        assert part in text
    assert " saw it 20" in text
    assert story[story.index("answer") + 1] == "  The Po, a river"
    assert max(map(len, lines)) <= 80


def test_what_was_not_proven_is_not_told_as_if_it_were(user: Terminal) -> None:
    """Without a key nothing was checked: the same story is only what the file says."""
    checked = user.call("verify", "run.zip")

    assert checked.exit_code == 3
    assert "what it says; none of this is proven" in checked.stdout
    assert "what is proven" not in checked.stdout


def test_programs_are_told_too(user: Terminal) -> None:
    """The report has the story as one object more."""
    document = user.ask("verify", "run.zip", "--policy", str(user.policy))

    assert document["schema"] == "forum.report/1"
    assert document["ok"] is True
    story = document["story"]
    assert (story["request"], story["answer"]) == ("Name a river", "The Po, a river")
    assert (story["asked_by"], story["outcome"], story["models"]) == ("operator", "ok", {"sed": 1})
    assert [one["same_machine"] for one in story["witnesses"]] == [True]


def _again(data: bytes, kind: int, folder: str = "") -> bytes:
    """Pack the files of an archive as another program would."""
    with zipfile.ZipFile(BytesIO(data)) as old:
        return _packed({f"{folder}{name}": old.read(name) for name in old.namelist()}, kind)


def _packed(files: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Pack files as another program than ours does."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", kind) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


FAULTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a text": ("not-a-zip", lambda _: b"hello"),
    "nothing": ("not-a-zip", lambda _: b""),
    "half a download": ("truncated", lambda data: data[: len(data) // 2]),
    "all but the end": ("truncated", lambda data: data[:-1]),
    "compressed again": ("re-zipped", lambda data: _again(data, zipfile.ZIP_DEFLATED)),
    "stored again": ("re-zipped", lambda data: _again(data, zipfile.ZIP_STORED)),
    "a foreign zip": ("not-a-bundle", lambda _: _packed({"b.txt": b"b", "a.txt": b"a"})),
    "a zip of nothing": ("not-a-bundle", lambda _: _packed({})),
    "a foreign zip in our form": ("not-a-bundle", lambda _: pack_archive({"a.txt": b"a"})),
    "a bundle within a zip": ("not-a-bundle", lambda data: _packed({"run.zip": data})),
    "packed in a folder": ("re-zipped", lambda data: _again(data, zipfile.ZIP_DEFLATED, "run/")),
    "another answer": ("altered", lambda data: data.replace(b"The Po", b"The Ob")),
    "something behind": ("altered", lambda data: data + b"x"),
}


UNLIKE_ALONE = ("a zip of nothing", "a foreign zip in our form")
"""Archives in canonical form, of which the stand-alone verifier says which file is missing."""


@pytest.mark.parametrize("fault", FAULTS)
def test_what_became_of_a_file_is_told_apart(user: Terminal, fault: str) -> None:
    """Whoever has half a download is not told of a fraud, and the other way round."""
    word, spoil = FAULTS[fault]
    data = (user.folder / "run.zip").read_bytes()
    file = Path(user.folder / "spoiled.zip")
    file.write_bytes(spoil(data))
    checked = user.call("verify", "spoiled.zip", "--policy", str(user.policy))
    document = user.ask("verify", "spoiled.zip", "--policy", str(user.policy))

    argv = [sys.executable, standalone.__file__, str(file), "--policy", str(user.policy)]
    alone = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert checked.exit_code == 3
    assert f"\n  {word}: " in checked.stdout
    if fault not in UNLIKE_ALONE:
        assert document["findings"][0]["detail"] in alone.stdout
    assert document["findings"][0]["detail"].startswith(f"{word}: ")
    assert document["story"] is None


@pytest.mark.parametrize("fault", FAULTS)
def test_the_page_tells_it_in_the_same_words(user: Terminal, fault: str) -> None:
    """The script of verify.html says what verify.py says."""
    page = page_verifier()
    if page is None:
        pytest.skip("needs Node")
    data = FAULTS[fault][1]((user.folder / "run.zip").read_bytes())
    trust = standalone.BundleTrust([], None, [])

    assert page.verify(data, trust) == standalone.verify(data, trust)
