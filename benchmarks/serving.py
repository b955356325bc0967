"""One process that works on ledgers: `python -m benchmarks.serving FOLDER...`."""

import argparse
import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from forum.app import Forum
from forum.app.logs_worker import LogsWorker
from forum.config import Settings


def settings_of(folder: Path, database: str | None, runner: str = "") -> Settings:
    """Return the settings of the ledger that has its key in a folder; "" is the default runner."""
    settings = Settings(
        data=folder / "data",
        state=folder / "state",
        key_file=folder / "data" / "log.key",
        database=database,
        temporal_address=os.environ.get("FORUM_TEMPORAL_ADDRESS"),
    )
    return replace(settings, runner=runner) if runner else settings


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving")
    parser.add_argument("folder", type=Path, nargs="+", help="several in one database")
    parser.add_argument("--database")
    parser.add_argument("--runner", default="")
    parser.add_argument("--held", action="store_true", help="wait for a line before working")
    options = parser.parse_args()
    settings = [settings_of(each, options.database, options.runner) for each in options.folder]
    if len(settings) > 1:
        with LogsWorker(settings, report=_print_error):
            print("ready", flush=True)
            sys.stdin.read()
        return
    with Forum(settings[0]) as ledger:
        if options.held:
            # Loads what a worker needs, so that it works as soon as it may.
            import_module("forum.models")
            ledger.runs._choose_worker()  # noqa: SLF001
            print("ready", flush=True)
            sys.stdin.readline()
        with ledger.runs.run_worker(report=_print_error):
            if not options.held:
                print("ready", flush=True)
            sys.stdin.read()


def _print_error(error: Exception) -> None:
    print(repr(error), file=sys.stderr)


if __name__ == "__main__":
    main()
