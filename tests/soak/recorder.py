"""Flood a recorder and kill programs that record, many times, and add up what is left.

python -m tests.soak.recorder [--floods 50] [--kills 200]
"""

import argparse
import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.features.recorder.flood import THREADS
from tests.features.recorder.recording import make_project, read_runs
from tests.features.recorder.test_loss import flood, kill_a_flood

STEPS = 100_000


def main() -> None:
    """Run both, and stop at the first sum that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floods", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.floods):
        with TemporaryDirectory() as folder:
            _use_state_of(Path(folder))
            make_project(Path(folder))
            flood(Path(folder), seed, STEPS)
            runs = read_runs(Path(folder))
            recorded, lost = sum(len(run.steps) for run in runs), sum(run.lost for run in runs)
        print(f"flood {seed}: {recorded} recorded + {lost} lost", flush=True)
        assert recorded + lost == STEPS, (seed, recorded, lost)
    chance = random.Random(options.seed)
    for number in range(options.kills):
        with TemporaryDirectory() as folder:
            _use_state_of(Path(folder))
            begun, ended, recorded, lost = kill_a_flood(Path(folder), number, chance.random())
        print(
            f"kill {number}: {ended} to {begun} made, {recorded} recorded + {lost} lost", flush=True
        )
        assert ended <= recorded + lost <= begun <= ended + THREADS, number


def _use_state_of(folder: Path) -> None:
    os.environ["FORUM_STATE_DIR"] = str(folder / "state")


if __name__ == "__main__":
    main()
