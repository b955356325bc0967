"""What a call costs in the gateway of a server: `forum serve` on Postgres, under a cap.

Direct calls, calls through a bare proxy (`benchmarks.gateway`, starlette and httpx2, which records
nothing) and calls through the gateway take turns in blocks, at a steady rate.  CPU time is that of
the process, user and system; statements and syncs are those that Postgres counted, with those of
the server's own background work in that time.

served_added_p50_ms, _p95_ms   what the gateway adds to a direct call
served_first_byte_ms           what it adds to the first byte of a stream, against a direct one
served_cpu_ms, bare_cpu_ms     CPU time of a call, of the gateway and of the bare proxy
served_cpu_ratio               the ratio of both
served_statements              statements of Postgres for a call, with BEGIN and COMMIT
served_syncs                   syncs of the database's log for a call
served_memory_mb               how much larger the gateway is after the last call than after a tenth
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks import gateway
from benchmarks.database_counts import DatabaseCounts, private_cluster
from benchmarks.sides import process_cpu_seconds
from forum.app import Forum, upgrade_database
from forum.config import load_settings

BLOCKS = 5
_PROJECT = """
[budgets.daily]
per = "day"
usd = 1000000

[budgets.keys]
per = "day"
key = "*"
usd = 1000000

[gateway]
max_repeats = 0
"""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where calls go, and the processes whose CPU time counts."""

    direct: str
    proxy: str
    gateway: str
    key: str
    proxy_pid: int
    gateway_pid: int


@dataclass(slots=True)
class Sample:
    """The times of calls to one server, and the CPU time that they took."""

    seconds: list[float] = field(default_factory=list)
    first_bytes: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    async def add(self, caller: gateway.Caller, calls: int, rate: float, pid: int | None) -> None:
        """Take the times of a block of calls, and then of some streams."""
        before = process_cpu_seconds(pid) if pid else 0.0
        self.seconds += await call_steadily(caller, calls, rate)
        self.cpu_seconds += process_cpu_seconds(pid) - before if pid else 0.0
        self.first_bytes += [await caller.first_byte() for _ in range(calls // 10)]

    @property
    def cpu_ms(self) -> float:
        """CPU time of a call that is no stream."""
        return 1000 * self.cpu_seconds / len(self.seconds)


@contextmanager
def start_servers(folder: Path, database: str) -> Iterator[Servers]:
    """Start a provider, a bare proxy, and a server on this database, with a key of its own."""
    me = (sys.executable, "-m", "benchmarks.gateway")
    forum = (sys.executable, "-m", "forum")
    ports = [gateway.free_port() for _ in range(3)]
    provider, proxy, server = (f"http://127.0.0.1:{port}" for port in ports)
    (folder / "forum.toml").write_text(_PROJECT)
    variables = {
        "FORUM_DATABASE_URL": database,
        "FORUM_STATE_DIR": str(folder / "state"),
        "OPENAI_BASE_URL": f"{provider}/v1",
    }
    settings = load_settings(folder, variables)
    upgrade_database(settings)
    with Forum(settings) as opened:
        opened.keys.initialise()
    with ExitStack() as stack:
        stack.enter_context(gateway.process(*me, "provider", str(ports[0])))
        gateway.wait_for(provider)
        bare = stack.enter_context(gateway.process(*me, "proxy", str(ports[1]), provider))
        serving = stack.enter_context(
            gateway.process(
                *forum,
                "serve",
                "--port",
                str(ports[2]),
                "--rate",
                "1000000",
                folder=folder,
                variables=variables,
            )
        )
        for url in (proxy, f"{server}/livez"):
            gateway.wait_for(url)
        made = subprocess.run(
            [*forum, "keys", "create", "--name", "benchmark", "--scope", "report", "--json"],
            env=os.environ | variables, cwd=folder, capture_output=True, check=True,
        )  # fmt: skip
        yield Servers(
            direct=f"{provider}/v1",
            proxy=f"{proxy}/v1",
            gateway=f"{server}/gateway/openai/v1",
            key=json.loads(made.stdout)["secret"],
            proxy_pid=bare.pid,
            gateway_pid=serving.pid,
        )


async def call_steadily(caller: gateway.Caller, calls: int, rate: float) -> list[float]:
    """Return the seconds of calls that begin at a steady rate, whenever others end."""
    begin, tasks = perf_counter(), []
    for number in range(calls):
        await asyncio.sleep(max(0.0, begin + number / rate - perf_counter()))
        tasks.append(asyncio.create_task(caller.call()))
    return list(await asyncio.gather(*tasks))


async def measure(
    servers: Servers, counts: DatabaseCounts, calls: int, rate: float
) -> dict[str, float]:
    """Return the figures, from so many calls to each."""
    samples = {"direct": Sample(), "proxy": Sample(), "gateway": Sample()}
    targets = {
        "direct": (servers.direct, "-", None),
        "proxy": (servers.proxy, "-", servers.proxy_pid),
        "gateway": (servers.gateway, servers.key, servers.gateway_pid),
    }
    statements, syncs = 0, 0
    async with gateway.open_client() as client:
        for base, key, _ in targets.values():
            await call_steadily(gateway.Caller(client, base, key), 50, rate)
        for _ in range(BLOCKS):
            for name in ("direct", "proxy"):
                base, key, pid = targets[name]
                caller = gateway.Caller(client, base, key)
                await samples[name].add(caller, calls // BLOCKS, rate, pid)
            base, key, pid = targets["gateway"]
            # Syncs are told with a delay, in which other statements are made.
            syncs -= counts.syncs()
            statements -= counts.statements()
            caller = gateway.Caller(client, base, key)
            await samples["gateway"].add(caller, calls // BLOCKS, rate, pid)
            statements += counts.statements()
            syncs += counts.syncs()
    ours, bare = samples["gateway"], samples["proxy"]
    direct = samples["direct"]

    def added(share: float, to: Sample = direct) -> float:
        return gateway.percentile(ours.seconds, share) - gateway.percentile(to.seconds, share)

    first = gateway.percentile(ours.first_bytes, 0.5) - gateway.percentile(direct.first_bytes, 0.5)
    made = len(ours.seconds) + len(ours.first_bytes)
    return {
        "served_added_p50_ms": added(0.5),
        "served_added_p95_ms": added(0.95),
        "served_added_to_bare_p50_ms": added(0.5, bare),
        "served_first_byte_ms": first,
        "served_cpu_ms": ours.cpu_ms,
        "bare_cpu_ms": bare.cpu_ms,
        "served_cpu_ratio": ours.cpu_ms / bare.cpu_ms,
        "served_statements": statements / made,
        "served_syncs": syncs / made,
    }


async def measure_memory(servers: Servers, calls: int) -> float:
    """Return the growth of the gateway in MB, from a tenth of so many calls to their end."""
    async with gateway.open_client() as client:
        caller = gateway.Caller(client, servers.gateway, servers.key)
        await gateway.rate_of(caller, max(1, calls // 10))
        before = resident_mb(servers.gateway_pid)
        await gateway.rate_of(caller, calls - calls // 10)
    return resident_mb(servers.gateway_pid) - before


def resident_mb(pid: int) -> float:
    """Return the memory that a process has now, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def served_figures(
    folder: Path, calls: int, rate: float = 100.0, memory_calls: int = 5_000
) -> dict[str, float]:
    """Return the figures of the gateway of a server."""
    folder.mkdir(parents=True, exist_ok=True)
    with private_cluster() as cluster:
        counts = DatabaseCounts(cluster.url)
        with start_servers(folder, cluster.url) as servers:
            figures = asyncio.run(measure(servers, counts, calls, rate))
            figures["served_memory_mb"] = asyncio.run(measure_memory(servers, memory_calls))
        counts.close()
    return figures
