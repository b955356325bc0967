"""Errors of SQLite as those of Forum, each with its cause and remedy."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from forum import errors

_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space on its disk, then try again",
    # SQLite also reports an I/O error if a full disk has no room even for its smallest file.
    sqlite3.SQLITE_IOERR: "Check that its disk has free space and no faults, then try again",
    sqlite3.SQLITE_READONLY: "Let this user write the file and its folder",
    sqlite3.SQLITE_PERM: "Let this user write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "Check that its folder is there, and that this user may write there",
    sqlite3.SQLITE_BUSY: "Another process keeps it locked: try again when that one is done",
    sqlite3.SQLITE_CORRUPT: "Restore a backup of it: forum restore",
    sqlite3.SQLITE_NOTADB: "Restore a backup of it: forum restore",
}
"""The remedy for an error of SQLite, keyed by primary result code."""


_CAUSES: dict[int, type[errors.StoreFailed]] = {
    sqlite3.SQLITE_FULL: errors.StoreFull,
    sqlite3.SQLITE_READONLY: errors.StoreReadOnly,
    sqlite3.SQLITE_BUSY: errors.StoreLocked,
}
"""The error for a cause that has a class of its own, keyed by primary result code."""


DISK_ERRORS = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EFBIG: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
}
"""The result code of SQLite for the same error of the operating system."""


def make_error(doing: str, why: str, code: int | None) -> errors.StoreFailed:
    """Return the error for a result code of SQLite, with its remedy."""
    kind = _CAUSES.get(code or 0, errors.StoreFailed)
    return kind(doing, why, _REMEDIES.get(code or 0, ""))


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raise errors of SQLite as `StoreFailed`, which says what was being done."""
    try:
        yield
    except sqlite3.Error as error:
        code: int = getattr(error, "sqlite_errorcode", None) or 0
        raise make_error(doing, str(error), code & 0xFF) from error
