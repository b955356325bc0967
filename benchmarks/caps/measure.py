"""`python -m benchmarks caps`: whether caps hold, by the bill of the provider and not by ours.

    python -m benchmarks caps [--json] [--runs N] [--kills N] [--only NAME] [--state FILE]
                              [--seconds S]

A provider in a process of its own (`benchmarks.caps.provider`) bills each call by the published
prices with arithmetic of its own.  Runs with a cap call it through the gateway.  Afterwards its
bill is compared with each cap: of a run, of a key, of the day.

With `--state` what was counted is added to what a file has, so that many runs can be made in
several goes, also side by side.  `--runs` and `--kills` are those of this go.

scenario      what happens                                            the client reaches the gateway
burst         2 to 8 calls of a run at once                           in the same process
long          prompts up to 30 kB, also a token for each byte         in the same process
streams       streams side by side                                    in the same process
retries       429, 500, 502 and closed connections; clients retry     in the same process
cuts          replies break off; clients leave                        in the same process
silent        replies without a usage, or with zeros                  in the same process
late          calls are billed after the reply has begun              in the same process
high          the provider bills more than the published bound        in the same process
keys          caps of keys and of the day, over many runs             in the same process
agent         100 calls, one at a time; the cap is what they cost     in the same process
caching       the same; the provider's cache has 90 % of the input    in the same process
kill-gateway  a gateway is killed with its clients, as `forum run`    in the same process
kill-server   `forum serve` is killed                                 over sockets
ten-gateways  one of ten `forum serve` on one Postgres is killed      over sockets
kill-worker   `forum worker` is killed while it drives plans          no gateway: it calls itself
kill-database Postgres is killed under `forum serve`                  over sockets

The gateway always calls the provider over sockets, and its ledger is a database on disk.

over_nano     by how much caps were passed, without what was billed above the bound
overruns      runs that the gateway stopped because of a bill above the bound
refused       calls that were refused for want of money
affordable    those of them whose true cost was left by the provider's bill
used_percent  the part of the caps of runs that was billed; the cap of an `agent` is what it costs
"""

import argparse
import asyncio
import fcntl
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, Final

import httpx2

from benchmarks.caps import in_process, killed, processes, workload
from benchmarks.caps.bills import Account, Provider, find_overshoot, start_provider
from benchmarks.caps.workload import PICO, Draw
from tests.soak.cluster import Cluster

CHUNK_RUNS: Final = 500
CHUNK_AGENTS: Final = 4
CHUNK_KILLS: Final = 20
"""What one ledger gets; then a new one is made."""
GATEWAYS: Final = 10

Played = tuple[Counter[str], Mapping[str, int]]
"""What was counted, and the caps by account in nano-dollars."""


@dataclass(frozen=True, slots=True)
class Stint:
    """What one ledger is used for."""

    home: Path
    url: str
    """The address of the provider."""
    size: int
    seed: int
    due: float


def _relay(draw: Draw, keys: int = 0) -> "Play":
    def play(stint: Stint) -> Played:
        batch = in_process.Batch(
            draw, stint.size, stint.seed, seconds=stint.due - monotonic(), keys=keys
        )
        return _with_provider(stint, lambda p: in_process.play_batch(stint.home, p, batch))

    return play


def _with_provider(stint: Stint, play: "Callable[[Provider], Any]") -> Played:
    async def call() -> Played:
        limits = httpx2.Limits(max_connections=64)
        async with httpx2.AsyncClient(trust_env=False, timeout=120, limits=limits) as client:
            counts, caps = await play(Provider(stint.url, client))
            return counts, caps

    return asyncio.run(call())


def _kill_gateway(stint: Stint) -> Played:
    return killed.kill_gateway(stint.home, stint.url, stint.seed, kills=stint.size, due=stint.due)


def _kill_servers(number: int, database: str = "") -> "Play":
    def play(stint: Stint) -> Played:
        async def serve(provider: Provider) -> Played:
            async with processes.open_servers(
                stint.home, provider, stint.seed, count(), kills=stint.size, database=database
            ) as servers:
                await processes.kill_servers(servers, stint.size, number, stint.due)
            return servers.counts, servers.caps

        return _with_provider(stint, serve)

    return play


def _ten_gateways(stint: Stint) -> Played:
    with Cluster() as cluster:
        return _kill_servers(GATEWAYS, cluster.url)(stint)


def _kill_workers(stint: Stint) -> Played:
    async def work(provider: Provider) -> Played:
        workers = await asyncio.to_thread(
            processes.kill_workers,
            stint.home, provider, stint.seed, count(), kills=stint.size, due=stint.due,
        )  # fmt: skip
        return workers.counts, workers.caps

    return _with_provider(stint, work)


def _kill_database(stint: Stint) -> Played:
    async def serve(provider: Provider) -> Played:
        with Cluster() as cluster:
            async with processes.open_servers(
                stint.home, provider, stint.seed, count(), kills=stint.size, database=cluster.url
            ) as servers:
                await processes.kill_database(servers, cluster, stint.size, stint.due)
        return servers.counts, servers.caps

    return _with_provider(stint, serve)


Play = Callable[[Stint], Played]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, and how much of it one ledger gets."""

    play: Play
    chunk: int = CHUNK_RUNS
    share: float = 1.0
    """Which part of the runs of a go it gets, compared with others."""
    kills: bool = False


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "burst": Scenario(_relay(workload.burst), share=3),
    "long": Scenario(_relay(workload.long_prompts)),
    "streams": Scenario(_relay(workload.streams)),
    "retries": Scenario(_relay(workload.retries)),
    "cuts": Scenario(_relay(workload.cut_streams)),
    "silent": Scenario(_relay(workload.missing_usage)),
    "late": Scenario(_relay(workload.late_bills)),
    "high": Scenario(_relay(workload.high_bills)),
    "keys": Scenario(_relay(workload.burst, keys=5), share=2),
    "agent": Scenario(_relay(workload.agent), CHUNK_AGENTS, share=0.01),
    "caching": Scenario(_relay(workload.caching_agent), CHUNK_AGENTS, share=0.01),
    "kill-gateway": Scenario(_kill_gateway, CHUNK_KILLS, kills=True),
    "kill-server": Scenario(_kill_servers(1), CHUNK_KILLS, kills=True),
    "ten-gateways": Scenario(_ten_gateways, CHUNK_KILLS, kills=True),
    "kill-worker": Scenario(_kill_workers, CHUNK_KILLS, kills=True),
    "kill-database": Scenario(_kill_database, CHUNK_KILLS, kills=True),
}


def count_stint(play: Play, size: int, due: float = 1e12) -> Counter[str]:
    """Play a scenario with one ledger, and return what was counted."""
    with tempfile.TemporaryDirectory() as folder, start_provider() as url:
        stint = Stint(Path(folder) / "home", url, size, time_ns() & 0xFFFFFFFF, due=due)
        stint.home.mkdir()
        started = monotonic()
        counts, caps = play(stint)
        bills = Provider.read_bills(url)
    return counts + _count_bills(caps, bills) + Counter(ms=round(1000 * (monotonic() - started)))


def _count_bills(caps: Mapping[str, int], bills: Mapping[str, Account]) -> Counter[str]:
    over = find_overshoot(caps, bills)
    runs = {name: bill for name, bill in bills.items() if name.startswith("r")}
    return Counter(
        calls=sum(bill.calls for bill in runs.values()),
        over_caps=len(over),
        over_nano=sum(over.values()),
        billed_nano=sum(bill.owed - bill.excess for bill in runs.values()) // PICO,
        excess_nano=sum(bill.excess for bill in runs.values()) // PICO,
        caps_nano=sum(cap for name, cap in caps.items() if name.startswith("r")),
        caps=len(caps),
    )


def figures(counts: Mapping[str, int]) -> dict[str, float]:
    """Return what is printed of a scenario."""
    names = ("runs", "calls", "kills", "caps", "over_nano", "overruns", "stopped", "refused",
             "affordable")  # fmt: skip
    shown: dict[str, float] = {name: counts.get(name, 0) for name in names}
    asked, caps = counts.get("asked", 0), counts.get("caps_nano", 0)
    if asked:
        shown["affordable_percent"] = round(100 * counts.get("affordable", 0) / asked, 3)
    if caps:
        shown["used_percent"] = round(100 * counts.get("billed_nano", 0) / caps, 2)
    shown["runs_per_s"] = round(1000 * counts.get("runs", 0) / max(1, counts.get("ms", 0)), 1)
    return shown


State = dict[str, Counter[str]]


@contextmanager
def _open_state(path: Path | None, counted: State) -> Iterator[State]:
    """Yield what was counted so far, and keep what it then is."""
    if path is None:
        yield counted
        return
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = path.read_text()
        state = {name: Counter(counts) for name, counts in json.loads(text or "{}").items()}
        yield state
        new = path.with_suffix(".new")
        new.write_text(json.dumps(state))
        # In place: others wait for the lock of this very file.
        os.pwrite(file, (data := new.read_bytes()), 0)
        os.ftruncate(file, len(data))
        new.unlink()
    finally:
        os.close(file)


def measure(
    runs: int, kills: int, only: str = "", state: Path | None = None, seconds: float = 1e9
) -> dict[str, dict[str, float]]:
    """Play all scenarios, or one, and return the figures of each."""
    counted: State = {}
    chosen = {name: each for name, each in SCENARIOS.items() if only in ("", name)}
    shares = sum(each.share for each in chosen.values() if not each.kills)
    due = monotonic() + seconds
    left = {
        name: kills if each.kills else round(runs * each.share / shares)
        for name, each in chosen.items()
    }
    while any(left.values()) and monotonic() < due:
        for name, scenario in chosen.items():
            if not left[name] or monotonic() > due:
                continue
            size = min(left[name], scenario.chunk)
            left[name] -= size
            counts = count_stint(scenario.play, size, due)
            with _open_state(state, counted) as kept:
                kept[name] = kept.get(name, Counter()) + counts
    with _open_state(state, counted) as kept:
        return {name: figures(counts) for name, counts in kept.items()}


def main(words: list[str]) -> None:
    """Print the figures of all scenarios."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks caps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--only", choices=SCENARIOS, default="")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args(words)
    table = measure(
        options.runs,
        options.kills,
        only=options.only,
        state=options.state,
        seconds=options.seconds,
    )
    total = {
        name: sum(row[name] for row in table.values())
        for name in ("runs", "calls", "kills", "caps", "over_nano", "overruns")
    }
    if options.json:
        print(json.dumps({"scenarios": table, "total": total}))
        return
    for name, row in (*table.items(), ("total", total)):
        print(f"{name:<14}", *(f"{key} {value:g}" for key, value in row.items()), sep="  ")
