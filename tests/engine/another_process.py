"""Works on a run in a process of its own, until somebody kills it.

Usage: python -m tests.engine.another_process LEDGER ORIGIN RUN
"""

import sys
from pathlib import Path

from forum.stores.sqlite import SqliteStore
from tests.engine.office import Office


def main(path: str, origin: str, run: str) -> None:
    """Say that the work has begun, and do it."""
    office = Office(SqliteStore(Path(path), origin))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    office.work(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
