"""`python -m benchmarks NAME`: what Forum costs, each figure beside one from the same run."""

import sys
from collections.abc import Callable

from benchmarks import deliberation, engine, frauds, http, ledger, models, routing, sharing

BENCHMARKS: dict[str, Callable[[list[str]], None]] = {
    "ledger": ledger.main,
    "engine": engine.main,
    "workers": sharing.main,
    "frauds": frauds.main,
    "routing": routing.main,
    "models": models.main,
    "http": http.main,
    "deliberation": deliberation.main,
}

if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
    sys.exit(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)}}} [--json] [--full]")
BENCHMARKS[sys.argv[1]](sys.argv[2:])
