"""Small files that others rely on: what a signer remembers, and its key."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from pathlib import Path

import pytest

from forum.errors import ConcurrentUpdate, KeyUnreadable, StoreFailed
from forum.stores.state_files import FileCheckpointStore, read_key, write_durably, write_key
from forum.tlog import SigningKey
from tests.support import key_of


def test_a_memory_moves_from_what_it_holds_only(tmp_path: Path) -> None:
    """Two signers that saw the same note: the second must look again before it signs."""
    path = tmp_path / "state" / "guard.note"
    checkpoints, other = FileCheckpointStore(path), FileCheckpointStore(path)
    before = checkpoints.latest()
    checkpoints.advance(None, b"first")
    for old in (None, b"another"):
        with pytest.raises(ConcurrentUpdate, match=r"guard\.note"):
            other.advance(old, b"second")
    kept = other.latest()
    other.advance(b"first", b"second")

    assert [before, kept, checkpoints.latest()] == [None, b"first", b"second"]


def test_of_many_that_move_a_memory_one_succeeds(tmp_path: Path) -> None:
    """Otherwise two trees could be signed, each by somebody who believed to be alone."""
    memories = [FileCheckpointStore(tmp_path / "guard.note") for _ in range(8)]

    def move(n: int) -> bool:
        try:
            memories[n].advance(None, b"%d" % n)
        except ConcurrentUpdate:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(move, range(8)))

    assert sum(moved) == 1
    assert memories[0].latest() == b"%d" % moved.index(True)


def test_memories_with_similar_names_do_not_touch_each_other(tmp_path: Path) -> None:
    """A witness keeps one for each log; example.com and example.org are two of them."""
    memories = [
        FileCheckpointStore(tmp_path / name) for name in ("example.com", "example.org", "example")
    ]
    for n, memory in enumerate(memories):
        memory.advance(None, b"%d" % n)
    names = {path.name.removesuffix(".lock") for path in tmp_path.iterdir()}

    assert [memory.latest() for memory in memories] == [b"0", b"1", b"2"]
    assert names == {"example.com", "example.org", "example"}
    assert len(list(tmp_path.iterdir())) == 6


def test_a_memory_is_durable_before_anyone_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File first, then its name, then the folder: any other order can lose it in a power cut."""
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"sync {kind}")
        sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    FileCheckpointStore(tmp_path / "guard.note").advance(None, b"note")

    assert done == ["sync file", "rename", "sync folder"]


def test_a_memory_that_cannot_be_kept_is_an_error_of_ours(tmp_path: Path) -> None:
    """A full or broken disk must reach whoever keeps the log as what it is, not end a thread."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()

    with pytest.raises(StoreFailed, match=r"guard\.note"):
        FileCheckpointStore(tmp_path / "file" / "guard.note").advance(None, b"note")
    with pytest.raises(StoreFailed, match="folder"):
        FileCheckpointStore(tmp_path / "folder").latest()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Whoever may put one into a folder would have us write what is not there."""
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    (tmp_path / "file.new").symlink_to(other)

    with pytest.raises(StoreFailed, match="file"):
        write_durably(tmp_path / "file", b"yours")
    assert other.read_bytes() == b"mine"
    assert not (tmp_path / "file").exists()


def test_a_full_disk_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays, and nothing beside it: a folder that was empty is so again."""
    write_durably(tmp_path / "file", b"old")

    def full(_: int) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFailed, match="No space left"):
        write_durably(tmp_path / "file", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_a_key_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    """Whoever can read it can sign any history."""
    path, key = tmp_path / "keys" / "log.key", key_of("example.com/log")
    write_key(path, key)

    assert read_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text().startswith("PRIVATE+KEY+example.com/log+")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PRIVATE+KEY+name",
        b"PRIVATE+KEY+name+00000000+!!!!",
        b"PRIVATE+KEY+name+00000000+AQ==",
        b"PRIVATE+KEY+name+00000000+" + b"AQID" * 11,
        b"PRIVATE+KEY+na me+00000000+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """With its path and in words: somebody has to find the right file."""
    path = tmp_path / "log.key"
    path.write_bytes(content)

    with pytest.raises(KeyUnreadable, match=r"log\.key"):
        read_key(path)


def test_a_key_is_not_taken_for_another(tmp_path: Path) -> None:
    """A key file edited to another name would sign for a log that it does not belong to."""
    path = tmp_path / "log.key"
    write_key(path, SigningKey(bytes(32), "example.com/log"))
    path.write_text(path.read_text().replace("example.com/log", "example.com/other"))

    with pytest.raises(KeyUnreadable, match="id"):
        read_key(path)
    with pytest.raises(KeyUnreadable, match="No such file"):
        read_key(tmp_path / "missing.key")
