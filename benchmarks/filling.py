"""A process that fills a new ledger: `python -m benchmarks.filling FOLDER ENTRIES`."""

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.ledger import fill
from benchmarks.sides import open_forum


def fill_at_once(ledgers: Iterable[tuple[Path, str | None]], entries: int) -> None:
    """Fill new ledgers, each in a process of its own, and wait until all are published."""
    command = [sys.executable, "-m", "benchmarks.filling"]
    processes = [
        subprocess.Popen(
            [*command, str(folder), str(entries), *(["--database", url] if url else [])]
        )
        for folder, url in ledgers
    ]
    for process in processes:
        process.wait()
        assert process.returncode == 0, process.args


def main() -> None:
    """Make a ledger, fill it, and publish it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filling")
    parser.add_argument("folder", type=Path)
    parser.add_argument("entries", type=int)
    parser.add_argument("--database")
    options = parser.parse_args()
    with open_forum(options.folder, options.database) as forum:
        fill(forum, options.entries)


if __name__ == "__main__":
    main()
