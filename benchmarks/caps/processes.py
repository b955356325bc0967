"""Gateways and workers as processes of their own, which are killed, as is their database.

Everything here goes over real sockets: clients call `forum serve`, which calls the provider.  What
is killed is killed by SIGKILL, and started again.
"""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Final

import httpx2

from benchmarks.caps.bills import Provider
from benchmarks.caps.provider import Fate, Label
from benchmarks.caps.workload import PICO, Call, make_call
from benchmarks.gateway import free_port
from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Chat, Policy
from tests.features.gateway.running import provider_variables
from tests.soak.cluster import Cluster
from tests.surfaces.command_server import start_command
from tests.surfaces.terminal import Terminal

CLIENTS: Final = 8
RUN_CAP: Final = 20_000_000
KEYS: Final = ("a", "b", "c")
FATES: Final = (
    *(Fate.FINE,) * 5, Fate.ERROR, Fate.CUT, Fate.DROP, Fate.SILENT, Fate.LATE, Fate.GATEWAY,
)  # fmt: skip
_PREFIX: Final = "/gateway"
_READY_SECONDS: Final = 120.0


@dataclass(slots=True)
class Servers:
    """Gateway processes of one ledger, and their clients."""

    terminal: Terminal
    provider: Provider
    chance: Random
    numbers: Iterator[int]
    secrets: dict[str, str]
    started: "dict[int, subprocess.Popen[bytes]]" = field(default_factory=dict)
    """By port."""
    caps: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    def start(self) -> int:
        """Start a gateway, and return its port."""
        port = free_port()
        words = ("serve", "--port", str(port))
        environment = self.terminal.environment | provider_variables(self.provider.url)
        environment |= {"FORUM_SERVER_RATE": "100000"}
        self.started[port] = start_command(
            words, self.terminal.folder, environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return port

    async def wait_for(self, port: int) -> None:
        """Wait until a gateway answers."""
        deadline = monotonic() + _READY_SECONDS
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            while True:
                with suppress(httpx2.TransportError):
                    if (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code < 500:
                        return
                assert monotonic() < deadline, "a gateway does not start"
                assert self.started[port].poll() is None, "a gateway has ended by itself"
                await asyncio.sleep(0.05)

    def kill(self, port: int) -> None:
        """Kill a gateway."""
        process = self.started.pop(port)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.counts["kills"] += 1

    def stop(self) -> None:
        """Let all gateways end."""
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            process.wait(60)

    async def work(self) -> None:
        """Be a client: make run after run, each with some calls."""
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            while not self.is_over:
                if not self.started:
                    await asyncio.sleep(0.02)
                    continue
                await self._make_run(client)

    async def _make_run(self, client: httpx2.AsyncClient) -> None:
        key, port = self.chance.choice(KEYS), self.chance.choice([*self.started])
        name = f"r{next(self.numbers)}"
        accounts = (name, f"key-{key}", "day")
        self.caps[name] = RUN_CAP
        for number in range(self.chance.randint(1, 3)):
            calls = [
                make_call(
                    self.chance, accounts, size=60, fate=self.chance.choice(FATES),
                    pause_ms=self.chance.choice((0, 0, 30, 200)),
                )
                for _ in range(self.chance.randint(1, 3))
            ]  # fmt: skip
            made = [self._call(client, port, name, call, key=key) for call in calls]
            answered = await asyncio.gather(*made)
            self.counts["runs"] += number == 0 and any(answered)
            if not all(answered):
                await asyncio.sleep(0.05)
                return  # the gateway is gone, and the agent with it

    async def _call(
        self, client: httpx2.AsyncClient, port: int, name: str, call: Call, *, key: str
    ) -> bool:
        """Make a call, and return whether the gateway is still there."""
        url = f"http://127.0.0.1:{port}{_PREFIX}{call.wire.value}"
        headers = {"authorization": f"Bearer {self.secrets[key]}", "forum-run": name,
                   "content-type": "application/json"}  # fmt: skip
        try:
            reply = await client.post(url, content=call.body, headers=headers)
        except httpx2.TransportError:
            return call.fate in (Fate.CUT, Fate.DROP)
        self.counts["asked"] += 1
        if reply.status_code == 402:
            self.counts["refused"] += 1
            quote = await self.provider.quote(call.wire, call.body)
            self.counts["affordable"] += all(
                owed + quote["cost"] <= self.caps[each] * PICO
                for each, owed in quote["owed"].items()
            )
            # Nothing is left of the day: others would only be refused as well.
            await asyncio.sleep(0.02)
        elif reply.status_code == 503:
            self.counts["unavailable"] += 1
            await asyncio.sleep(0.2)
        return True


@asynccontextmanager
async def open_servers(
    home: Path,
    provider: Provider,
    seed: int,
    numbers: Iterator[int],
    kills: int,
    database: str = "",
) -> AsyncIterator[Servers]:
    """Make a project with keys and caps, and open its ledger; gateways end with the block."""
    # So that the caps of the keys are reached in the second half, that of the day a little later.
    key_cap = 1_200_000 * max(4, kills)
    terminal = Terminal(home)
    settings = (
        f'[budgets.daily]\nper = "day"\nusd = {key_cap * 2 / 1e9:.9f}\n'
        f'[budgets.keys]\nper = "day"\nkey = "*"\nusd = {key_cap / 1e9:.9f}\n'
        f"[gateway]\nusd = {RUN_CAP / 1e9:.9f}\n"
    )
    if database:
        settings += f'[database]\nurl = "{database}"\n'
    (terminal.folder / "forum.toml").write_text(settings)
    if database:
        upgraded = terminal.type("db", "upgrade")
        assert upgraded.returncode == 0, upgraded.stdout + upgraded.stderr
    made = terminal.type("init")
    assert made.returncode == 0, made.stdout + made.stderr
    secrets = {
        key: terminal.ask("keys", "create", "--name", key, "--scope", "report")["secret"]
        for key in KEYS
    }
    servers = Servers(terminal, provider, Random(seed), numbers, secrets=secrets)
    servers.caps |= {f"key-{key}": key_cap for key in KEYS} | {"day": 2 * key_cap}
    try:
        yield servers
    finally:
        servers.is_over = True
        servers.stop()
    verified = await asyncio.to_thread(terminal.type, "ledger", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


async def kill_servers(servers: Servers, kills: int, processes: int = 1, due: float = 1e12) -> None:
    """Kill one gateway after the other at random moments, and start another one for it."""
    for port in [servers.start() for _ in range(processes)]:
        await servers.wait_for(port)
    clients = [asyncio.create_task(servers.work()) for _ in range(CLIENTS)]
    for _ in range(kills):
        await asyncio.sleep(servers.chance.uniform(0.1, 0.8))
        await asyncio.to_thread(servers.kill, servers.chance.choice([*servers.started]))
        await servers.wait_for(await asyncio.to_thread(servers.start))
        if monotonic() > due:
            break
    await asyncio.sleep(0.5)
    servers.is_over = True
    await asyncio.gather(*clients)


async def kill_database(servers: Servers, cluster: Cluster, kills: int, due: float = 1e12) -> None:
    """Kill the database at random moments, and start it again; the gateways go on."""
    await servers.wait_for(servers.start())
    clients = [asyncio.create_task(servers.work()) for _ in range(CLIENTS)]
    for _ in range(kills):
        await asyncio.sleep(servers.chance.uniform(0.1, 0.8))
        await asyncio.to_thread(_restart, cluster)
        servers.counts["kills"] += 1
        await asyncio.sleep(0.3)
        if monotonic() > due:
            break
    servers.is_over = True
    await asyncio.gather(*clients)


def _restart(cluster: Cluster) -> None:
    cluster.kill()
    deadline = monotonic() + 60
    while True:
        try:
            cluster.start()
        except Exception:  # noqa: BLE001  its children still hold its memory
            assert monotonic() < deadline
            sleep(0.1)
        else:
            return


@dataclass(slots=True)
class Workers:
    """Worker processes of one ledger, and the runs that they drive."""

    terminal: Terminal
    provider: Provider
    forum: Forum
    chance: Random
    numbers: Iterator[int]
    started: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    caps: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    runs: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Start a worker."""
        quiet = subprocess.DEVNULL
        self.started.append(
            start_command(
                ("worker",), self.terminal.folder, self.terminal.environment,
                stdout=quiet, stderr=quiet,
            )
        )  # fmt: skip

    def kill(self) -> None:
        """Kill a worker."""
        process = self.started.pop(self.chance.randrange(len(self.started)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.counts["kills"] += 1

    def submit(self) -> None:
        """Submit a plan of some tasks under a cap that pays for a part of them."""
        name, tasks = f"r{next(self.numbers)}", self.chance.randint(2, 5)
        label = Label(
            accounts=(name, "day"),
            tenths=self.chance.choice((10, 40)),
            output=50,
            fate=self.chance.choice((Fate.FINE, Fate.FINE, Fate.LATE, Fate.SILENT, Fate.DROP)),
            pause_ms=self.chance.choice((20, 200, 500)),
        )
        chat = Chat(
            url=f"{self.provider.url}/v1", model="gpt-4o-mini", max_tokens=60,
            options={"user": str(label)},
        )  # fmt: skip
        plan = Plan(tuple(Task(f"t{n}", f"Say {n}.") for n in range(tasks)))
        policy = Policy(agents={"": chat}, retries=1, backoff_milliseconds=10)
        cap = self.chance.randint(50_000, 400_000)
        self.caps[name] = cap
        self.counts["runs"] += 1
        self.runs.add(
            self.forum.runs.submit(RunRequest("Count.", plan, policy, RunBudget(usd=cap)))
        )

    def count_ended(self) -> int:
        """Forget the runs that have ended, and return how many go on."""
        self.runs = {run for run in self.runs if not self.forum.ledger.is_closed(run)}
        return len(self.runs)


def kill_workers(
    home: Path, provider: Provider, seed: int, numbers: Iterator[int], kills: int, due: float
) -> Workers:
    """Kill one worker after the other at random moments, while others take its runs over."""
    terminal, chance = Terminal(home), Random(seed)
    day = 150_000 * max(4, kills)
    settings = f'[budgets.daily]\nper = "day"\nusd = {day / 1e9:.9f}\n'
    (terminal.folder / "forum.toml").write_text(settings)
    assert terminal.call("init").exit_code == 0
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        workers = Workers(terminal, provider, forum, chance, numbers=numbers)
        workers.caps["day"] = day
        try:
            workers.start()
            for _ in range(kills):
                workers.start()
                while workers.count_ended() < 4:
                    try:
                        workers.submit()
                    except Exception as error:
                        raise AssertionError(str(error)) from error
                sleep(chance.uniform(0.3, 1.2))
                workers.kill()
                if monotonic() > due:
                    break
            deadline = monotonic() + 60
            while workers.count_ended() and monotonic() < deadline:
                sleep(0.1)
            workers.counts["unended"] = workers.count_ended()
        finally:
            for process in workers.started:
                process.terminate()
            for process in workers.started:
                process.wait(60)
    verified = terminal.type("ledger", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return workers
