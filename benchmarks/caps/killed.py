"""A gateway that is killed together with its clients, as `forum run` is.

The gateway is a process that is forked for each life, so that many can be killed.  Its clients are
in it, and call its application directly; it calls the provider over sockets, and writes its ledger
to a database on disk, which the next life takes up.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import httpx2

from benchmarks.caps import workload
from benchmarks.caps.bills import Provider
from benchmarks.caps.in_process import open_gateway
from benchmarks.caps.provider import Fate
from benchmarks.caps.workload import RunPlan, make_call

_CLIENTS: Final = 8
_KEYS: Final = 3
_FATES: Final = (
    *(Fate.FINE,) * 4, Fate.CUT, Fate.DROP, Fate.SILENT, Fate.LATE, Fate.LEFT, Fate.GATEWAY,
)  # fmt: skip


@dataclass(slots=True)
class KilledGateway:
    """The lives of one gateway, and the caps of its runs."""

    home: Path
    url: str
    seed: int
    shared: dict[str, int]
    """The caps of the keys and of the day, in nano-dollars."""

    @property
    def journal(self) -> Path:
        """The file with the cap of each run, written before the run is opened."""
        return self.home / "runs"

    def live(self, life: int) -> int:
        """Begin a life in a process of its own, and return its id."""
        child = os.fork()
        if child:
            return child
        try:
            asyncio.run(self._work(life))
        finally:
            os._exit(1)

    async def _work(self, life: int) -> None:
        chance = Random(f"{self.seed}/{life}")
        file = os.open(self.journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        limits = httpx2.Limits(max_connections=64)
        async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
            provider = Provider(self.url, client)
            async with open_gateway(self.home, provider, self.shared) as gateway:

                async def make_runs(worker: int) -> None:
                    number = 0
                    while True:
                        key = f"k{chance.randrange(_KEYS)}"
                        plan = _draw(chance, (f"r{life}.{worker}.{number}", key, "day"))
                        os.write(file, f"{plan.accounts[0]} {plan.cap}\n".encode())
                        await gateway.play(plan, f"key/{key}/1")
                        number += 1

                await asyncio.gather(*map(make_runs, range(_CLIENTS)))

    def read_caps(self) -> dict[str, int]:
        """Return all caps, in nano-dollars."""
        caps = dict(self.shared)
        for line in self.journal.read_text().splitlines():
            name, cap = line.split()
            caps[name] = int(cap)
        return caps


def _draw(chance: Random, accounts: tuple[str, ...]) -> RunPlan:
    rounds = [
        [
            make_call(
                chance, accounts, size=60, fate=chance.choice(_FATES),
                pause_ms=chance.choice((0, 5, 50, 300)),
            )
            for _ in range(chance.randint(1, 3))
        ]
        for _ in range(2)
    ]  # fmt: skip
    return workload.cap_run(chance, accounts, rounds)


def kill_gateway(
    home: Path, url: str, seed: int, kills: int, due: float
) -> tuple[Counter[str], dict[str, int]]:
    """Kill a gateway at random moments; return what was counted, and all caps."""
    # So that they are reached within the lives of one ledger.
    each = 600_000 * kills
    shared = {f"k{n}": each for n in range(_KEYS)} | {"day": 2 * each}
    gateway = KilledGateway(home, url, seed, shared)
    gateway.journal.touch()
    chance, counts = Random(seed), Counter[str]()
    for life in range(kills):
        before = gateway.journal.stat().st_size
        child = gateway.live(life)
        deadline = time.monotonic() + 60
        while gateway.journal.stat().st_size == before:
            assert time.monotonic() < deadline, "the gateway does not start"
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the gateway has ended by itself"
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 1.0))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        counts["kills"] += 1
        if time.monotonic() > due:
            break
    caps = gateway.read_caps()
    counts["runs"] = len(caps) - len(shared)
    return counts, caps
