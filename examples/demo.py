"""The whole way, without a model: route, plan, work, judge, answer, verify; then tamper.

    python examples/demo.py

It needs no account and no configuration, and leaves nothing behind.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import forum

REQUEST = "Design the database schema and the API endpoint for invoices"
PLAN: list[dict[str, Any]] = [
    {"id": "schema", "instruction": "Name the tables.", "done_when": "contains invoice"},
    {
        "id": "endpoint",
        "instruction": "Name the endpoint.",
        "needs": ["schema"],
        "done_when": "contains POST",
    },
]
attempts = 0


@forum.agent
def developer(prompt: str) -> str:
    """Do a task; the first endpoint is not what was asked for, so it is judged and done again."""
    global attempts  # noqa: PLW0603  a model has no memory of its attempts, either
    if "Name the endpoint." not in prompt:
        return "Two tables: invoice and payment of 4200 EUR."
    attempts += 1
    return "GET /invoices" if attempts == 1 else "POST /invoices"


def verify(folder: Path) -> tuple[int, str]:
    """Verify the ledger of a folder in another process, as a stranger would."""
    done = subprocess.run(
        [sys.executable, "-m", "forum", "ledger", "verify"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def main() -> None:
    """Show each step, and fail if the fraud is not found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A ledger of its own, wherever you have yours.
        os.environ |= {"FORUM_DATA_DIR": f"{name}/data", "FORUM_STATE_DIR": f"{name}/state"}
        with forum.engine_of(folder) as engine:
            print("route   ", engine.route(REQUEST).lane)
            run = engine.submit(REQUEST, plan=PLAN, agents=[developer])
            result = run.wait(60)
        print("plan    ", " -> ".join(task["id"] for task in PLAN))
        print("judge   ", f"{attempts} attempts at the endpoint, the first was not accepted")
        print("answer  ", result.outcome, "-", " ".join((result.answer or "").split()))
        status, report = verify(folder)
        print("verify  ", status, "-", report.splitlines()[1].strip())

        with sqlite3.connect(folder / "data/ledger.db") as database:
            database.execute("UPDATE body SET data = replace(data, '4200 EUR', '9200 EUR')")
        status, report = verify(folder)
        print("tampered", status, "-", next(line for line in report.splitlines() if "✗" in line))
        if status != 3:
            sys.exit("the fraud was not found")


if __name__ == "__main__":
    main()
