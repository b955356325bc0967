"""What is made once from public files and kept in the user's cache: never needed, only faster.

A name says all that its content depends on, so that nothing kept is ever out of date.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def cache_folder() -> Path:
    """Return where this user's cache is."""
    import platformdirs  # noqa: PLC0415  most commands need no cache

    return platformdirs.user_cache_path("forum")


def read_cached(file: Path) -> bytes | None:
    """Return what is kept in a file of the cache, or nothing if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def write_cached(file: Path, data: bytes) -> None:
    """Keep something; a cache that cannot be written is no reason to stop."""
    with suppress(OSError):
        write_atomically(file, data)


def write_atomically(file: Path, data: bytes) -> None:
    """Write a file whole or not at all: another process may be doing the same."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as fresh:
        fresh.write(data)
    Path(fresh.name).chmod(0o644)
    Path(fresh.name).replace(file)
