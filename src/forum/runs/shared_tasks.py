"""Tasks of large plans, which all workers share.

Such a task has a timer of its own, under a key that no run can have.  Workers claim it like a run:
one worker holds it at a time, and when that worker is lost, another takes it over.
"""

_SEPARATOR = "/"
"""Not allowed in the names of runs."""


def key_of(run: str, task: str) -> str:
    """Return the key under which a task is claimed."""
    return f"{run}{_SEPARATOR}{task}"


def run_of(key: str) -> str:
    """Return the run to which a key belongs: that of a task, or of the run itself."""
    return key.partition(_SEPARATOR)[0]


def split_key(key: str) -> tuple[str, str] | None:
    """Return the run and the task of a key, or None if it is the name of a run."""
    run, separator, task = key.partition(_SEPARATOR)
    return (run, task) if separator else None
