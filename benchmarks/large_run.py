"""A run of 5,000 entries, shown and exported by the command line: in CPU seconds of the command.

Of some tries the best counts: on a busy machine the same work takes more seconds, never fewer.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from forum.app import Forum
from forum.config import Settings
from forum.ledger.body import text_content
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.strand import Attachment, Draft
from forum.stores.postgres_schema import upgrade_schema
from tests.soak.cluster import scratch_database

ENTRIES, STRANDS = 5_000, 50
REPLY = "What a model answers is about a paragraph long, and half of the steps have one. " * 6


def large_run_figures(folder: Path, url: str, rounds: int) -> dict[str, Any]:
    """Return what showing and exporting cost, on both databases."""
    figures = {"sqlite": _measure(folder / "large-run", None, rounds)}
    with scratch_database(url) as address:
        figures["postgres"] = _measure(folder / "large-run-postgres", address, rounds)
    return figures


def _measure(folder: Path, url: str | None, rounds: int) -> dict[str, float]:
    folder.mkdir()
    data, state = folder / "data", folder / "state"
    settings = Settings(data, state, data / "log.key", database=url)
    if url:
        upgrade_schema(url)
    with Forum(settings) as forum:
        forum.keys.initialise()
        run = _write(forum, ENTRIES)
        forum.log.publish()
    environment = {name: value for name, value in os.environ.items() if name[:6] != "FORUM_"}
    environment |= {"FORUM_DATA_DIR": str(data), "FORUM_STATE_DIR": str(state)}
    environment |= {"FORUM_DATABASE_URL": url} if url else {}

    def seconds(*arguments: str) -> float:
        command = [sys.executable, "-m", "forum", "ledger", *arguments]
        return min(_cpu_seconds(command, folder, environment) for _ in range(rounds))

    return {
        "entries": ENTRIES,
        "show_seconds": seconds("show", run),
        "export_seconds": seconds("export", run, "--output", str(folder / "bundle.zip")),
        # What every command costs before it does anything.
        "start_seconds": seconds("checkpoint"),
    }


def _write(forum: Forum, entries: int) -> str:
    run = "benchmark-of-a-large-run"
    main = forum.ledger.open_run(run, "system:benchmark")
    cause = (main.head,) if main.head else ()
    for nth in range(STRANDS):
        strand = forum.ledger.open_strand(run, f"task/{nth}")
        strand.append(
            *(
                Draft(
                    f"attempt/{n}/reply",
                    actor="lane:benchmark",
                    facts=NoteFacts(),
                    parents=cause,
                    bodies=(Attachment("text", text_content(REPLY), "text/plain"),)
                    if n % 2
                    else (),
                )
                for n in range(entries // STRANDS)
            )
        )
    forum.ledger.close_run(main, "system:benchmark", Outcome.OK)
    return run


def _cpu_seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Return the CPU seconds that a command took, those of the interpreter's start among them."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return round(usage.ru_utime + usage.ru_stime, 3)
