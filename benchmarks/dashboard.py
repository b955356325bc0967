"""What the dashboard costs a browser that shows a ledger of many runs.

`python -m benchmarks dashboard FOLDER` serves a project that `python -m benchmarks runs FOLDER` has
made, and opens it in Chromium: the CPU until the list of runs is painted, the longest frame while
the longest run is scrolled from its first entry to its last, and the memory of the tab.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.http import Process, free_port
from benchmarks.many_runs import open_project

SCRIPT = Path(__file__).parents[1] / "web/test/browser/scale.mjs"


def measure(folder: Path, times: int) -> dict[str, Any]:
    """Serve the project of a folder, and return what a browser measures so many times."""
    with open_project(folder) as forum:
        token, entries = forum.access.operator_token(), forum.store.head().size
        (newest, _), *_ = forum.reads.recent_runs(None, 1)
    port = free_port()
    forum_up = [sys.executable, "-m", "forum", "up", "--port", str(port)]
    variables = {"FORUM_STATE_DIR": str(folder / "state")}
    with Process(forum_up, port, folder, variables) as server:
        server.wait("/readyz")
        before = server.cpu_seconds()
        page = {"FORUM_URL": f"http://127.0.0.1:{port}", "FORUM_KEY": token}
        printed = subprocess.run(
            ["node", SCRIPT, newest, str(times)],
            env={**os.environ, **page},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        server_cpu = server.cpu_seconds() - before
    return {"entries": entries, **json.loads(printed), "server_cpu_s": round(server_cpu / times, 2)}


def main(arguments: list[str]) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dashboard")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args(arguments)
    print(json.dumps(measure(asked.folder, asked.times), indent=2))
