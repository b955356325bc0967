"""`forum verify --page`, and the page in a real browser, opened from a file."""

import json
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from forum.features.evidence.verify_page import build_page
from forum.ledger.kinds import Outcome
from forum.surfaces.cli import cli
from forum.tlog import SigningKey
from tests.features.evidence.packs import draw as draw_pack
from tests.features.evidence.packs import forge, make_log, period
from tests.features.evidence.packs import make as make_pack
from tests.features.evidence.packs import replace as replace_text
from tests.support import wait_until
from tests.surfaces.chromium import chromium
from tests.surfaces.terminal import Terminal
from tests.verify.samples import LOG, POLICY, make_bundle

OTHER_LOG = SigningKey(b"o" * 32, "example.com/other")
MARKS = "[...document.querySelectorAll('.mark')].map((mark) => mark.textContent)"


def test_the_command_writes_the_page_and_prints_its_digest(tmp_path: Path) -> None:
    """Readers compare the digest with the one in the documentation."""
    page = tmp_path / "verify.html"

    done = CliRunner().invoke(cli, ["verify", "--page", str(page)])

    assert (done.exit_code, page.read_text()) == (0, build_page())
    assert done.stdout == f"{sha256(page.read_bytes()).hexdigest()}  {page}\n"


def write_files(folder: Path) -> None:
    """Write the page, a bundle and its policy into a folder."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    (folder / "verify.html").write_text(build_page())
    (folder / "run.zip").write_bytes(make_bundle(folder))
    (folder / "policy").write_bytes(POLICY.encode())


@pytest.mark.slow
def test_a_bundle_can_be_dropped_and_verified_with_the_keyboard(tmp_path: Path) -> None:
    """A reader without a mouse, and one who drags the file, get the same report."""
    write_files(tmp_path)
    data = b64encode((tmp_path / "run.zip").read_bytes()).decode()

    with chromium(tmp_path / "profile") as tab:
        tab.open(tmp_path / "verify.html")
        tab.evaluate(f"""{{
            const bytes = Uint8Array.from(atob("{data}"), (letter) => letter.charCodeAt(0));
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([bytes], "run.zip"));
            document.body.dispatchEvent(
                new DragEvent("drop", {{ dataTransfer, bubbles: true, cancelable: true }}));
        }}""")
        tab.wait_for("!document.getElementById('result').hidden")
        dropped = tab.evaluate(MARKS)
        tab.evaluate(
            f"document.getElementById('policy').value = {json.dumps(POLICY.encode().decode())}"
        )
        tab.evaluate("document.querySelector('details summary').focus()")
        tab.press("Tab", 9)
        focused = tab.evaluate("document.activeElement.textContent")
        tab.press("Enter", 13, "\r")
        tab.wait_for(f"{MARKS}.at(-1) === '! by the writer'")
        entered = tab.evaluate(MARKS)

    assert "✓ holds" not in dropped[2]
    assert focused == "Verify"
    assert entered == ["✓ holds", "✓ holds", "! by the writer"]


@pytest.mark.slow
def test_the_page_verifies_a_bundle_in_a_browser_and_reaches_nobody(tmp_path: Path) -> None:
    """From a file, without a server; its own policy refuses every connection."""
    write_files(tmp_path)

    with chromium(tmp_path / "profile") as tab:
        tab.open(tmp_path / "verify.html")
        tab.choose_files("#policy-file", tmp_path / "policy")
        tab.choose_files("#bundle", tmp_path / "run.zip")
        tab.wait_for("!document.getElementById('result').hidden")
        marks = tab.evaluate(MARKS)
        console = list(tab.console)
        sent = tab.evaluate(
            "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => String(error))"
        )

    assert marks == ["✓ holds", "✓ holds", "! by the writer"]
    assert console == []
    assert sent != "sent"
    assert any("Content Security Policy" in line for line in tab.console)


NEEDED = "You need the trust file of that log."
SUMMARY = "document.getElementById('summary').textContent"
STORY = "document.getElementById('story').innerText"


@pytest.mark.slow
def test_the_page_says_in_words_what_was_found(tmp_path: Path) -> None:
    """Bundles and packs, good and altered, with the right trust file, a foreign one and none."""
    write_files(tmp_path)
    foreign = str(POLICY).replace(str(LOG.verifier()), str(OTHER_LOG.verifier()))
    (tmp_path / "foreign").write_text(foreign)
    (tmp_path / "log").mkdir()
    world = make_log(tmp_path / "log")
    try:
        pack = make_pack(world, period(1, 4, sample=2))
        (tmp_path / "packs").write_bytes(world.policy.encode())
        changed = forge(pack, world, replace_text("report.json", (b'"counted": ', b'"counted": 1')))
    finally:
        world.store.close()
    (tmp_path / "pack.zip").write_bytes(pack)
    (tmp_path / "changed.zip").write_bytes(changed)
    document = {}
    with chromium(tmp_path / "profile") as tab:
        for file, trust in (
            ("run.zip", "policy"),
            ("run.zip", "foreign"),
            ("run.zip", None),
            ("pack.zip", "packs"),
            ("changed.zip", "packs"),
        ):
            tab.open(tmp_path / "verify.html")
            if trust:
                tab.choose_files("#policy-file", tmp_path / trust)
            tab.choose_files("#bundle", tmp_path / file)
            tab.wait_for("!document.getElementById('result').hidden")
            shown = tab.evaluate("document.getElementById('result').innerText")
            document[file, trust] = (tab.evaluate(SUMMARY), tab.evaluate(MARKS), shown)

    assert document["run.zip", "policy"][0].startswith(
        "! Intact and complete. Only the writer's own"
    )
    sentence = f"Your trust file is for the log {OTHER_LOG.name}; this bundle is of {LOG.name}."
    assert document["run.zip", "foreign"][:2] == (f"✗ Nothing was checked. {sentence} {NEEDED}", [])
    assert document["run.zip", None][0] == "? Nothing was checked: choose your trust file."
    assert document["pack.zip", "packs"][0].startswith("! Intact and complete.")
    assert document["pack.zip", "packs"][1] == [
        *["✓ holds"] * 2,
        "! by the writer",
        *["✓ holds"] * 2,
    ]
    assert document["changed.zip", "packs"][0].startswith("✗ Not verified:")
    assert "figure-changed at counted" in document["changed.zip", "packs"][2]
    assert not any("--" in text for _, _, text in document.values())  # no options of a command line


DRAWN = "document.getElementById('drawn')"
# What stands between elements is how the source is laid out.
TEXTS = """((page) => {
    page.normalize();
    const texts = document.createTreeWalker(page, NodeFilter.SHOW_TEXT), found = [];
    while (texts.nextNode()) found.push(texts.currentNode.nodeValue);
    return found.join(" ").split(/\\s+/).join(" ").trim();
})"""
BODY = re.compile(r"Intact and complete\. Only the writer|with keys of your own\.")
HOSTILE = "<img src=x onerror=document.title='owned'>\u202e</style>"


@pytest.mark.slow
def test_the_page_of_a_pack_is_drawn_and_saved_without_running_a_text_of_it(tmp_path: Path) -> None:
    """What Forum draws, from a file and as a file; a name in it is a text and nothing else."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    (tmp_path / "verify.html").write_text(build_page())
    (tmp_path / "log").mkdir()
    world = make_log(tmp_path / "log")
    try:
        world.at(6, 10)
        world.report_run("hostile", Outcome.FAILED, model=HOSTILE)
        world.settle_at(7, 60)
        pack = make_pack(world, period(1, 7, sample=2))
        ours = draw_pack(pack, world.trust)
        (tmp_path / "policy").write_bytes(world.policy.encode())
    finally:
        world.store.close()
    (tmp_path / "pack.zip").write_bytes(pack)
    (tmp_path / "ours.html").write_text(ours)
    with chromium(tmp_path / "profile") as tab:
        tab.open(tmp_path / "ours.html")
        expected = tab.evaluate(f"{TEXTS}(document.querySelector('main'))")
        tab.open(tmp_path / "verify.html")
        tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.choose_files("#policy-file", tmp_path / "policy")
        tab.choose_files("#bundle", tmp_path / "pack.zip")
        tab.wait_for("!document.getElementById('result').hidden")
        before = tab.evaluate(f"{DRAWN}.childElementCount")
        tab.evaluate("document.querySelector('#report > summary').click()")
        tab.wait_for(f"{DRAWN}.querySelector('#limits')")
        shown = tab.evaluate(f"{TEXTS}({DRAWN})")
        tab.evaluate("document.getElementById('save').click()")
        saved = tmp_path / "page.html"
        wait_until(lambda: saved.exists() and saved.stat().st_size > 0)
        tab.open(saved)
        kept = tab.evaluate(f"{TEXTS}(document.querySelector('main'))")
        policy = tab.evaluate("document.querySelector('meta[http-equiv]').content")
        images = tab.evaluate("document.images.length + document.scripts.length")
        title = tab.evaluate("document.title")
        console = list(tab.console)

    assert before == 0
    assert "onerror" in shown
    assert kept == shown
    for part in (0, 2):  # around the verdict, in which each program says what it did not check
        assert BODY.split(shown)[part] == BODY.split(expected)[part]
    assert BODY.split(shown)[2].endswith("This is no legal advice.")
    assert (images, console) == (0, [])
    assert "owned" not in title
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.slow
def test_the_page_begins_with_who_asked_what_and_what_it_cost(tmp_path: Path) -> None:
    """The lines of `forum verify`, for a run with an approval."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    terminal = Terminal(tmp_path)
    (terminal.folder / "plan.toml").write_text(PLAN)
    terminal.call("init")
    terminal.call("submit", "--plan", "plan.toml")
    run = terminal.ask("runs")["runs"][0]["run"]
    assert terminal.call("gate", "approve", run, "task/publish").exit_code == 0
    terminal.call("resume", run)
    terminal.call("ledger", "export", run, "-o", "run.zip")
    output = terminal.call("verify", "run.zip", "--policy", str(terminal.policy)).stdout
    (tmp_path / "verify.html").write_text(build_page())
    with chromium(tmp_path / "profile") as tab:
        tab.open(tmp_path / "verify.html")
        tab.choose_files("#policy-file", terminal.policy)
        tab.choose_files("#bundle", terminal.folder / "run.zip")
        tab.wait_for("!document.getElementById('result').hidden")
        story = " ".join(tab.evaluate(STORY).split())

    assert story.startswith("What is proven Request Prepare the notes, and publish them.")
    for words in ("Done: Publish.", "task/publish: approve by operator (operator)", "2 calls", run):
        assert words in story
        assert words in " ".join(output.split())


PLAN = """
request = "Prepare the notes, and publish them."
[[tasks]]
id = "draft"
instruction = "Write."
[[tasks]]
id = "publish"
instruction = "Publish."
needs = ["draft"]
[policy]
gates = ["task:publish"]
"""
