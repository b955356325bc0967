"""`forum demo crash`, as a newcomer types it."""

import json
import subprocess
import sys
from decimal import Decimal
from time import monotonic

SECONDS = 40


def test_a_fleet_that_is_killed_twice_pays_once_and_keeps_to_its_cap() -> None:
    """The story is real, so its figures are a test: of kills, payments, calls and dollars."""
    begun = monotonic()
    argv = [sys.executable, "-m", "forum", "demo", "crash", "--json"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=120)
    seconds = monotonic() - begun
    tale = json.loads(done.stdout.splitlines()[-1])

    assert done.returncode == 0, done.stderr.decode()
    assert tale["kills"] == 2
    assert tale["calls_paid_twice"] == 0
    assert tale["payments"] == 1
    assert tale["payments_sent_twice"] == 0
    assert tale["indeterminate"] == 1
    assert tale["calls_lost"]
    assert tale["stopped"] == "budget"
    assert Decimal("0.45") < Decimal(tale["spent_usd"]) <= Decimal("0.50")
    assert sum(map(Decimal, tale["cost_by_agent"].values())) == Decimal(tale["spent_usd"])
    assert tale["verified"]
    assert seconds < SECONDS
