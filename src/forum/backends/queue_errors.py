"""What SQLAlchemy, through which DBOS keeps its queues, says of a database: as errors of ours."""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from forum.errors import StoreFailed, StoreLost

_FULL = ("disk is full", "No space left", "disk I/O error")


def queue_failure(doing: str, error: Exception) -> Exception:
    """Return the error of ours for one of SQLAlchemy; any other error as it is."""
    if not isinstance(error, DBAPIError):
        return error
    why = str(error.orig or error)
    if any(word in why for word in _FULL):
        return StoreFailed(doing, why, "Free some space on the disk of the database")
    is_postgres = "sqlite3" not in type(error.orig).__module__
    if is_postgres and isinstance(error, OperationalError | InterfaceError):
        return StoreLost(doing, why, "See that the server runs")
    return StoreFailed(doing, why)
