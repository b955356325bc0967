"""Where the copies of archived runs are kept: a folder, or a bucket of an object store.

A place is an absolute path or a URL (`s3://`, `gs://`, `az://`).  A copy has a name of its own: the
number of its record, and a digest of its content.  So two writers never overwrite each other's, and
a copy whose number is on record with another digest will never be recorded.  Credentials come from
the environment, as with the tools of each provider; a place holds none.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Protocol
from urllib.parse import urlsplit

from forum import errors
from forum.installation import require_extra
from forum.stores.state_files import make_private_folder, sync_path, write_durably

_RETRY_DELAY_S = 30.0
"""How long a place that did not answer is not asked again: a verification asks for many copies."""
_SCHEMES = frozenset({"s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl"})


class ArchiveStore(Protocol):
    """A folder or bucket that holds copies of runs under names."""

    def write(self, name: str, data: bytes) -> None:
        """Store a copy durably.  Raises `ArchiveUnreachable`."""

    def read(self, name: str) -> bytes:
        """Return a copy.  Raises `ArchiveUnreachable`, also if there is none of this name."""

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder.  Raises `ArchiveUnreachable`."""

    def delete(self, name: str) -> None:
        """Delete a copy, if it is there.  Raises `ArchiveUnreachable`."""


def copy_folder(run: str) -> str:
    """Return the folder of the copies of a run."""
    digest = sha256(run.encode()).hexdigest()
    # No run that this release opens has such a name.  Whoever has the write key can make one, and
    # its folder must not be that of another run.
    is_path = "/" in run or "\\" in run or run in (".", "..")
    # Spread over 256 folders: a folder with millions of others is slow to list.
    return f"{digest[:2]}/{digest if is_path else run}"


def copy_name(run: str, number: int, data: bytes) -> str:
    """Return the name of the copy of a run that is to have the record of this number."""
    return f"{copy_folder(run)}/{number}-{sha256(data).hexdigest()[:32]}.zip"


def copy_number(name: str) -> int | None:
    """Return the number of the record of a copy, or None if the name is not that of a copy."""
    number = name.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else None


def join_place(base: str, name: str) -> str:
    """Return the place of a copy in an archive."""
    return f"{base.rstrip('/')}/{name}"


def split_place(place: str) -> tuple[str, str]:
    """Return the archive and the name of the copy at a place."""
    base, *names = place.rsplit("/", 3)
    return base, "/".join(names)


def normalize_place(place: str) -> str:
    """Return a place in the form that is recorded.  Raises `BadSettings`."""
    scheme, _, rest = place.partition("://")
    if not rest:
        return str(Path(place).resolve())
    address = urlsplit(place)
    if scheme == "file" and not address.netloc:
        return str(Path(address.path).resolve())
    if scheme not in _SCHEMES or address.username or address.password or address.query:
        why = "name a folder, or s3://, gs:// or az:// with a bucket and without credentials"
        raise errors.BadSettings("the archive", why)
    return place.rstrip("/")


def open_archive(base: str) -> ArchiveStore:
    """Return the archive at a normalized place; nothing is read yet.  Raises `MissingExtra`."""
    return ObjectArchive(base) if "://" in base else FolderArchive(Path(base))


class ArchiveReader:
    """Reads copies from any archive, and does not ask one again that just did not answer."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[float, str]] = {}

    def fetch(self, place: str) -> bytes:
        """Return the copy at a place.  Raises `ArchiveUnreachable`."""
        base, name = split_place(place)
        until, why = self._failed.get(base, (0.0, ""))
        if monotonic() < until:
            raise errors.ArchiveUnreachable(place, why)
        try:
            return open_archive(base).read(name)
        except errors.MissingExtra as error:
            raise errors.ArchiveUnreachable(place, str(error)) from None
        except _PlaceUnreachable as error:
            self._failed[base] = (monotonic() + _RETRY_DELAY_S, error.why)
            raise


class _PlaceUnreachable(errors.ArchiveUnreachable):
    """The whole archive is unreachable, not only one copy in it."""


class FolderArchive:
    """An archive in a folder, for example on a mounted disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        """Store a copy, which is on disk when this returns."""
        path = self._folder / name
        with _translate_errors(str(path)):
            # Bodies hold confidential replies of agents, so only the owner may read the files.
            make_private_folder(path.parent)
            # The names of new folders must be on disk before the database forgets the run.
            sync_path(path.parent.parent)
            sync_path(self._folder)
            write_durably(path, data, "an archived run")

    def read(self, name: str) -> bytes:
        """Return a copy."""
        path = self._folder / name
        with _translate_errors(str(path)):
            return path.read_bytes()

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        with _translate_errors(str(self._folder / folder)):
            return sorted(f"{folder}/{path.name}" for path in (self._folder / folder).iterdir())

    def delete(self, name: str) -> None:
        """Delete a copy, if it is there."""
        path = self._folder / name
        with _translate_errors(str(path)):
            path.unlink(missing_ok=True)
            sync_path(path.parent)


@contextmanager
def _translate_errors(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.ArchiveUnreachable(place, error.strerror or str(error)) from None
    except errors.StateFileFailed as error:
        raise errors.ArchiveUnreachable(place, error.why) from None


class ObjectArchive:
    """An archive in a bucket of S3, Google Cloud Storage or Azure, or of a server like them."""

    def __init__(self, url: str) -> None:
        with require_extra("archive"):
            from obstore import exceptions, store  # noqa: PLC0415  an extra
        self._url, self._missing = url, (exceptions.NotFoundError, FileNotFoundError)
        self._failures = (exceptions.BaseError, OSError)
        with self._translate_errors(""):
            # Options of the client would replace those that the environment sets.
            self._store = store.from_url(
                url, retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
            )

    def write(self, name: str, data: bytes) -> None:
        """Store a copy, which is durable when the store has answered."""
        with self._translate_errors(name):
            self._store.put(name, data)

    def read(self, name: str) -> bytes:
        """Return a copy."""
        with self._translate_errors(name):
            return bytes(self._store.get(name).bytes())

    def list_folder(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        with self._translate_errors(folder):
            pages = self._store.list(folder)
            return sorted(str(item["path"]) for page in pages for item in page)

    def delete(self, name: str) -> None:
        """Delete a copy, if it is there."""
        with self._translate_errors(name), suppress(*self._missing):
            self._store.delete(name)

    @contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        place = join_place(self._url, name)
        try:
            yield
        except self._missing as error:
            raise errors.ArchiveUnreachable(place, _first_line(error)) from None
        except self._failures as error:
            raise _PlaceUnreachable(place, _first_line(error)) from None


def _first_line(error: Exception) -> str:
    """Return the first line of an error of a library, which may have a trace in the others."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
