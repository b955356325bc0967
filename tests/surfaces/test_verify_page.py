"""`forum verify --page`, and the page in a real browser, opened from a file."""

import json
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from forum.ledger.zip_archive import pack_archive
from forum.surfaces.cli import cli
from forum.surfaces.verify_page import build_page
from tests.surfaces.chromium import chromium
from tests.verify.samples import POLICY, make_bundle

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
        tab.wait_for(f"{MARKS}.at(-1) === '✓ holds'")
        entered = tab.evaluate(MARKS)

    assert "✓ holds" not in dropped[2]
    assert focused == "Verify"
    assert entered == ["✓ holds"] * 3


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
        said = list(tab.console)
        sent = tab.evaluate(
            "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => String(error))"
        )

    assert marks == ["✓ holds"] * 3
    assert said == []
    assert sent != "sent"
    assert any("Content Security Policy" in line for line in tab.console)


@pytest.mark.slow
def test_a_pack_is_told_from_a_bundle(tmp_path: Path) -> None:
    """The page does not check packs, and says so instead of calling one an altered bundle."""
    write_files(tmp_path)
    (tmp_path / "pack.zip").write_bytes(pack_archive({"log/end.note": b"", "report.json": b""}))

    with chromium(tmp_path / "profile") as tab:
        tab.open(tmp_path / "verify.html")
        tab.choose_files("#bundle", tmp_path / "pack.zip")
        tab.wait_for("document.getElementById('state').classList.contains('refused')")
        said = tab.evaluate("document.getElementById('state').textContent")
        hidden = tab.evaluate("document.getElementById('result').hidden")

    assert "this is an evidence pack" in said
    assert "Nothing in it was checked" in said
    assert hidden
