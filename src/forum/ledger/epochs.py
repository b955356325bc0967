"""The names of the epochs of a log."""


def name_epoch(base: str, number: int) -> str:
    """Return the name of an epoch of a log; the first is the log itself."""
    return f"{base}/epoch-{number}" if number > 1 else base


def split_epoch(origin: str) -> tuple[str, int]:
    """Return the name of the first epoch of a log, and the number of this one."""
    base, _, number = origin.rpartition("/epoch-")
    return (base, int(number)) if base and number.isdecimal() else (origin, 1)


def earlier_epochs(origin: str) -> tuple[str, ...]:
    """Return the names of the epochs before this one, the newest first."""
    base, number = split_epoch(origin)
    return tuple(name_epoch(base, n) for n in range(number - 1, 0, -1))


def previous_epoch(origin: str) -> str | None:
    """Return the name of the epoch before this one, if there is one."""
    base, number = split_epoch(origin)
    return name_epoch(base, number - 1) if number > 1 else None
