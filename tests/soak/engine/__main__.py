"""Kill and restart the workers of one ledger, again and again: every run must end.

    python -m tests.soak.engine [--database sqlite|postgres|both] [--runs N] [--kills N]

Three processes carry out runs of every shape.  They are killed before and after each step that the
engine makes: each commit to the ledger, each call and effect, the engine's own checkpoint, and what
they do to take over from each other.  They are stopped, declared dead, and continued; the database
server is restarted under them, is out of reach, has no room, and is replaced by its standby; all
that the queues remember is deleted.  At the end what they noted down by themselves is held against
the ledger.  The last line of the output is one JSON object.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.soak.engine.campaign import Goals
from tests.soak.engine.orders import ELSEWHERE
from tests.soak.engine.soak import soak

DATABASES = ("sqlite", "postgres")


def main() -> None:
    """Soak, print the summary, and exit with 0 only if everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.engine", description=__doc__)
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--runs", type=int, default=200, help="in each database")
    parser.add_argument("--kills", type=int, default=60, help="at least, in each database")
    parser.add_argument("--zombies", type=int, default=8, help="at least, in each database")
    parser.add_argument("--server-faults", type=int, default=4)
    parser.add_argument("--runner", choices=tuple(ELSEWHERE), default="claims")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    goals = Goals(asked.runs, asked.kills, asked.zombies, asked.server_faults, runner=asked.runner)
    chosen = DATABASES if asked.database == "both" else (asked.database,)
    begun = time.monotonic()
    results = {database: soak(database, goals, asked.seed) for database in chosen}
    summary: dict[str, Any] = {
        "ok": all(result["ok"] for result in results.values()),
        **{key: sum(result[key] for result in results.values()) for key in TOTALS},
        **{key: _sum_counts(results.values(), key) for key in COUNTS},
        **{key: max(result[key] for result in results.values()) for key in WORST},
        "verified": all(result["verified"] for result in results.values()),
        "seconds": round(time.monotonic() - begun, 1),
        "databases": results,
    }
    print(json.dumps(summary))
    sys.exit(0 if summary["ok"] else 1)


def _sum_counts(results: Iterable[dict[str, Any]], key: str) -> dict[str, int]:
    return dict(sum((Counter(result[key]) for result in results), Counter()))


COUNTS = ("kills", "server_faults")
TOTALS = (
    "runs",
    "runs_within",
    "killed",
    "zombies",
    "entries",
    "calls",
    "calls_lost",
    "calls_repeated",
    "tools",
    "tools_repeated",
)
WORST = ("takeover_p50", "takeover_p99", "takeover_max")

if __name__ == "__main__":
    main()
