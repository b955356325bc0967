"""A run as a page: all of it is text, nothing is loaded, and its evidence verifies."""

import re
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from forum.app import Forum, open_bundle, view_record
from forum.config import load_settings
from forum.features.pages.run_page import render_run_page
from forum.untrusted_text import escape_html
from tests.surfaces.page import Page
from tests.surfaces.terminal import Terminal
from tests.verify.conversations import conversation, prompts

pytestmark = pytest.mark.slow

PLAN = """
request = "Name <script>alert(1)</script> rivers"

[policy.agents.""]
kind = "scripted"
moves.river = [{ say = "the \\u202eRhine\\u001b[31m <img src=x onerror=alert(1)>" }]
moves.sea = [{ say = "the North Sea" }]

[[tasks]]
id = "sea"
instruction = "Name the sea that it flows into."

[[tasks]]
id = "river"
instruction = "Name the longest river of Europe."
done_when = "contains Danube"

[[tasks]]
id = "city"
instruction = "Name its largest city."
needs = ["river"]
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a user with a failed run, and its page."""
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    (terminal.folder / "plan.toml").write_text(PLAN)
    failed = terminal.type("submit", "--plan", "plan.toml")
    assert failed.returncode == 1, failed.stderr
    written = terminal.type("show", "--html", "report.html")
    assert written.returncode == 0, written.stderr
    return terminal


def attached(text: str) -> bytes:
    """Return the bundle that a page holds."""
    (data,) = re.findall(r'href="data:application/zip;base64,([^"]+)"', text)
    return b64decode(data)


def test_what_agents_say_is_text_on_the_page(user: Terminal) -> None:
    """No script, no image, nothing that is loaded, and no hidden direction of writing."""
    text = (user.folder / "report.html").read_text()
    page = Page(text)

    assert [str(link).partition(";")[0] for link in page.loaded] == [
        "data:application/zip",
        "verify.html",
    ]
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert "&lt;script&gt;" in text
    assert not {"\u202e", "\x1b"} & set(text)
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    assert not re.search(r"https?://", text)
    assert "does not contain" in text
    assert "verified" not in text


def test_the_page_holds_a_bundle_that_verifies(user: Terminal) -> None:
    """The page has its digest; the export of the bundle is on record."""
    text = (user.folder / "report.html").read_text()
    bundle = attached(text)
    (user.folder / "taken.zip").write_bytes(bundle)
    (user.folder / "policy").write_text(user.ask("ledger", "policy")["policy"])

    assert sha256(bundle).hexdigest() in text
    assert user.call("verify", "taken.zip", "--policy", "policy").exit_code == 0
    assert " export/1 " in user.call("ledger", "show").stdout


def test_a_bundle_becomes_the_same_page(user: Terminal) -> None:
    """Whoever was sent a bundle can read it as a page, without the ledger."""
    text = (user.folder / "report.html").read_text()
    (run,) = [run["run"] for run in user.ask("runs")["runs"]]
    (user.folder / f"{run}.zip").write_bytes(attached(text))
    written = user.type("show", f"{run}.zip", "--html", "again.html")

    assert written.returncode == 0, written.stderr
    assert (user.folder / "again.html").read_text() == text
    assert "not verified" in written.stderr


def test_a_bundle_shows_what_the_ledger_shows(user: Terminal) -> None:
    """Why a run failed must not depend on where it is read; scores are beside the run."""
    with Forum(load_settings(user.folder, user.environment)) as forum:
        (listed,) = forum.reads.recent_runs(None, 10)
        shown = forum.reads.view_run(listed[0])
    (user.folder / "shown.zip").write_bytes(attached((user.folder / "report.html").read_text()))
    with open_bundle(user.folder / "shown.zip") as record:
        view = view_record(record)

    # The reply of a task that passed says nothing of the failure.
    assert list(shown.replies) == ["river"]
    assert replace(view, at=shown.at) == shown


@pytest.mark.parametrize("other", ["--transcript", "--answer", "--json"])
def test_a_page_is_all_of_a_run(user: Terminal, other: str) -> None:
    """Two outputs of one command would be one too many."""
    refused = user.type("show", "--html", "other.html", other)

    assert refused.returncode == 2
    assert "leave out" in refused.stderr
    assert not (user.folder / "other.html").exists()


def test_a_page_shows_once_what_prompts_repeat(tmp_path: Path) -> None:
    """A page of a long conversation grows with what is new, and so does the bundle in it."""
    path = tmp_path / "run.zip"
    path.write_bytes(conversation(40, 900))
    with open_bundle(path) as record:
        page = render_run_page(view_record(record), record, path.name, path.read_bytes())
    said = list(prompts(40, 900))[-1]
    middle = said.split('"content":"')[20][:60]
    assert page.count(escape_html(middle)) == 1
    assert "characters as before" in page
    assert len(page) - len(attached(page)) * 4 / 3 < 3 * len(said)
