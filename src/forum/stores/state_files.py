"""Small files that must survive a crash: checkpoints, strand heads and keys.

Each file is replaced as a whole and synced to disk before the write returns.
"""

import fcntl
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from forum import errors
from forum.ledger.write_tags import WriteKeys
from forum.platform_calls import sync_file
from forum.tlog import SigningKey, parse_checkpoint

_PRIVATE_KEY_HEADER = "PRIVATE+KEY"
_DEFAULT_WHAT = "a file beside the ledger"
_BUNDLE = Path("the bundle")


class FileCheckpointStore:
    """A signed checkpoint in a file, replaced by compare-and-set and durable on return."""

    def __init__(self, path: Path, what: str = "a stored checkpoint") -> None:
        self._path, self._what = path, what

    def latest(self) -> bytes | None:
        """Return the note, or None if none was stored."""
        with _translate_errors("reading", self._path, self._what):
            return self._path.read_bytes() if self._path.exists() else None

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace the note `old` by `new` durably.

        Raises `ConcurrentUpdate` if another process has replaced `old`, and `LogEnded` after `end`.
        """
        with lock_file(self._path, self._what):
            if self._end.exists():
                raise errors.LogEnded(parse_checkpoint(new).origin)
            if self.latest() != old:
                raise errors.ConcurrentUpdate(f"the checkpoint in {self._path.name}")
            write_durably(self._path, new, what=self._what)

    def end(self) -> None:
        """Let no process replace the note from now on."""
        with lock_file(self._path, self._what):
            write_durably(self._end, b"", what=self._what)

    def reopen(self) -> None:
        """Let processes replace the note again."""
        with lock_file(self._path, self._what), _translate_errors("writing", self._end, self._what):
            self._end.unlink(missing_ok=True)
            sync_path(self._end.parent)

    @property
    def _end(self) -> Path:
        return _sibling_path(self._path, ".ended")


class StrandHeadFile:
    """The last entries of strands that this machine has seen, in a file; they only advance."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def latest(self, strand: str) -> tuple[int, str] | None:
        """Return position and id of the last entry seen of a strand, or None."""
        return self._read().get(strand)

    def advance(self, ends: Mapping[str, tuple[int, str]]) -> None:
        """Store the last entries of strands, except of those of which a later one is stored."""
        if not _select_later(ends, self._read()):
            return
        with lock_file(self._path):
            heads = self._read()
            if later := _select_later(ends, heads):
                lines = (heads | later).items()
                text = "".join(f"{name} {at} {head}\n" for name, (at, head) in sorted(lines))
                write_durably(self._path, text.encode())

    def _read(self) -> dict[str, tuple[int, str]]:
        with _translate_errors("reading", self._path, _DEFAULT_WHAT):
            lines = self._path.read_text().splitlines() if self._path.exists() else []
        try:
            named = [line.split(" ") for line in lines]
            return {strand: (int(n), leaf) for strand, n, leaf in named}
        except ValueError:
            raise errors.StoreFailed(f"reading {self._path}", "it is damaged") from None


def _select_later(
    ends: Mapping[str, tuple[int, str]], stored: Mapping[str, tuple[int, str]]
) -> dict[str, tuple[int, str]]:
    return {strand: end for strand, end in ends.items() if stored.get(strand, (-1, ""))[0] < end[0]}


class FileByteSource:
    """A file that is read on demand, slice by slice, without caching."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> bytes:
        start, stop, _ = piece.indices(self._size)
        with _translate_errors("reading", _BUNDLE, "a file"):
            return os.pread(self._descriptor, max(0, stop - start), start)


def write_durably(path: Path, data: bytes, what: str = _DEFAULT_WHAT) -> None:
    """Replace a file atomically and durably: a crash leaves the old or the new content."""
    draft = _sibling_path(path, ".new")
    with _translate_errors("writing", path, what):
        # O_NOFOLLOW: if an attacker places a symbolic link here, its target must not be written.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        descriptor = os.open(draft, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                sync_file(file.fileno())
            draft.replace(path)
        except OSError:  # for example a full disk: remove the partial draft
            draft.unlink(missing_ok=True)
            raise
        # The rename is durable only after the folder is synced too.
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make a file durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, that only the owner can access.

    `Path.mkdir` applies its mode only to the last folder; other users could enter the parents.
    """
    for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
        missing.mkdir(exist_ok=True, mode=0o700)


def write_key(path: Path, key: SigningKey) -> None:
    """Write a private key to a file that only its owner can read."""
    make_private_folder(path.parent)
    material = b64encode(bytes([key.algorithm]) + key.seed).decode()
    text = f"{_PRIVATE_KEY_HEADER}+{key.name}+{key.verifier().key_id.hex()}+{material}\n"
    write_durably(path, text.encode())


def read_key(path: Path) -> SigningKey:
    """Read a private key in the format of Go's note package.  Raises `KeyUnreadable`."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise errors.KeyUnreadable(str(path), error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise errors.KeyUnreadable(str(path), "not text") from None
    try:
        name, key_id, encoded = text.strip().removeprefix(f"{_PRIVATE_KEY_HEADER}+").split("+", 2)
        material = b64decode(encoded, validate=True)
        key = SigningKey(material[1:], name, material[0])
    except (ValueError, IndexError, errors.Malformed):
        raise errors.KeyUnreadable(
            str(path), "not a private key of the form PRIVATE+KEY+..."
        ) from None
    if key.verifier().key_id.hex() != key_id:
        raise errors.KeyUnreadable(str(path), "its id does not belong to its key")
    return key


def write_write_keys(path: Path, keys: WriteKeys) -> None:
    """Write the write keys of a log to a file that only its owner can read."""
    make_private_folder(path.parent)
    write_durably(path, keys.encode())


def read_write_keys(path: Path) -> WriteKeys:
    """Read the write keys of a log.  Raises `KeyUnreadable`."""
    try:
        return WriteKeys.parse(path.read_bytes())
    except OSError as error:
        raise errors.KeyUnreadable(str(path), error.strerror or str(error)) from None
    except errors.Malformed as error:
        raise errors.KeyUnreadable(str(path), error.why) from None


def _sibling_path(path: Path, ending: str) -> Path:
    # Append to the whole name: with_suffix would map example.com and example.org to one file.
    return path.with_name(path.name + ending)


@contextmanager
def lock_file(path: Path, what: str = _DEFAULT_WHAT) -> Iterator[None]:
    """Hold an exclusive lock for a file until the end of the block; create its folder if needed."""
    with _translate_errors("locking", path, what):
        make_private_folder(path.parent)
        file = _sibling_path(path, ".lock").open("ab")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Unlock explicitly: a child that was forked meanwhile shares the open file, and closing
            # it here would leave the lock in force for as long as the child lives.
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def _translate_errors(doing: str, path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.StateFileFailed(
            what, f"{doing} {path}", error.strerror or str(error)
        ) from error
