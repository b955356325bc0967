"""Files derived from public data and kept in the user's cache directory, only for speed.

A file name includes everything that its content depends on, so a cached file is never stale.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def cache_folder() -> Path:
    """Return the user's cache directory for Forum."""
    import platformdirs  # noqa: PLC0415  most commands need no cache

    return platformdirs.user_cache_path("forum")


def read_cached(file: Path) -> bytes | None:
    """Return the content of a cached file, or None if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def write_cached(file: Path, data: bytes) -> None:
    """Write a cached file, ignoring failures."""
    with suppress(OSError):
        write_atomically(file, data)


def write_atomically(file: Path, data: bytes) -> None:
    """Write a file completely or not at all, because other processes may write it as well."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because a rename is atomic only within one file system.
    with NamedTemporaryFile(dir=file.parent, delete=False) as fresh:
        fresh.write(data)
    # A temporary file is created with mode 0600, but cached data is public, and other users may
    # share the folder.
    Path(fresh.name).chmod(0o644)
    Path(fresh.name).replace(file)
