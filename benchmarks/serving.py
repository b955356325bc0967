"""One process that works on a ledger: `python -m benchmarks.serving FOLDER [DATABASE]`."""

import sys
from pathlib import Path

from forum.app import Forum
from forum.config import Settings


def settings_of(folder: Path, database: str | None) -> Settings:
    """Return the settings of the ledger that has its key in a folder."""
    return Settings(
        data=folder / "data",
        state=folder / "state",
        key_file=folder / "data" / "log.key",
        database=database,
    )


def main(folder: str, database: str | None = None) -> None:
    """Serve until the standard input ends."""
    with (
        Forum(settings_of(Path(folder), database)) as forum,
        forum.runs.run_worker(report=lambda error: print(repr(error), file=sys.stderr)),
    ):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
