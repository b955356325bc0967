"""`python -m benchmarks NAME`: what Forum costs, each figure beside one from the same run."""

import compileall
import sys
from collections.abc import Callable
from pathlib import Path

import forum
from benchmarks import (
    dashboard,
    deliberation,
    engine,
    frauds,
    gateway,
    history,
    http,
    ledger,
    many_runs,
    models,
    real_team,
    routing,
    runners,
    scale,
    sharing,
    team,
)
from benchmarks.caps import measure as caps

BENCHMARKS: dict[str, Callable[[list[str]], None]] = {
    "ledger": ledger.main,
    "engine": engine.main,
    "workers": sharing.main,
    "runners": runners.main,
    "frauds": frauds.main,
    "routing": routing.main,
    "models": models.main,
    "http": http.main,
    "deliberation": deliberation.main,
    "team": team.main,
    "real-team": real_team.main,
    "gateway": gateway.main,
    "caps": caps.main,
    "runs": many_runs.main,
    "dashboard": dashboard.main,
    "scale": scale.main,
    "history": history.main,
}

if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
    sys.exit(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)}}} [--json] [--full]")
# An installed package has its bytecode; a checkout would compile it in every measured process.
compileall.compile_dir(Path(forum.__file__).parent, quiet=1)
BENCHMARKS[sys.argv[1]](sys.argv[2:])
