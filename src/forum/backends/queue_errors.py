"""Translation of SQLAlchemy errors, which DBOS raises, into errors of the store."""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from forum.errors import StoreConnectionLost, StoreFailed

_DISK_FULL_TEXTS = ("disk is full", "No space left", "disk I/O error")


def translate_queue_error(doing: str, error: Exception) -> Exception:
    """Return the store error for a database error of SQLAlchemy, and any other error unchanged."""
    if not isinstance(error, DBAPIError):
        return error
    why = str(error.orig or error)
    if any(word in why for word in _DISK_FULL_TEXTS):
        return StoreFailed(doing, why, "Free some space on the disk of the database")
    is_postgres = "sqlite3" not in type(error.orig).__module__
    if is_postgres and isinstance(error, OperationalError | InterfaceError):
        return StoreConnectionLost(doing, why, "See that the server runs")
    return StoreFailed(doing, why)
