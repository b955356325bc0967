"""Kill `forum run` at random moments, and compare its record with the log of the provider.

    python -m tests.soak.gateway [KILLS] [SEED]

After all kills, every call that reached the provider is on record, every call that was begun has
an outcome, each that was lost is paid for in full, no run has passed its cap, and the ledger
verifies.
"""

import random
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.features.gateway.running import RecordedCalls, kill_at_random, local_provider, read_log
from tests.surfaces.terminal import Terminal

CAP = "0.02"


def main() -> None:
    """Kill, look, and print what was found."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance, start = random.Random(seed), monotonic()
    with tempfile.TemporaryDirectory() as folder:
        terminal, log = Terminal(Path(folder)), Path(folder) / "provider.log"
        assert terminal.call("init").exit_code == 0
        with local_provider(log, seed) as url:
            for number in range(kills):
                kill_at_random(terminal, url, chance, CAP, log=log)
                if number % 20 == 19:
                    print(f"{number + 1} kills, {monotonic() - start:.0f} s", flush=True)
        assert terminal.type("runs").returncode == 0
        calls, billed = read_log(log)
        record = RecordedCalls(terminal)
        verified = terminal.type("ledger", "verify")
    assert record.begun.keys() == record.made.keys()
    assert len(record.begun) >= calls
    assert billed <= record.cost <= kills * float(CAP) * 10**9
    assert all(step.usd == record.begun[span].usd for span, step in record.lost.items())
    assert verified.returncode == 0, verified.stdout
    print(
        f"{kills} kills, {calls} calls at the provider, {len(record.begun)} on record, "
        f"{len(record.lost)} lost; billed {billed} of {record.cost} nano-dollars on record"
    )


if __name__ == "__main__":
    main()
