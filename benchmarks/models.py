"""`python -m benchmarks models`: what a call of a model costs beside waiting for the model.

The provider answers at once, from a process of its own.  What is left is the client's work: that
of a bare client with pooled connections, that of our adapter, and that of a call which is carried
out by a worker and recorded in a ledger in SQLite.  The last line that is printed is one JSON
object.

bare        `httpx2` alone, reading the whole answer.
adapter     our adapter alone: a connection of its own for each call, and the answer taken apart.
recorded    a run of many tasks with one call each, from its submission to its recorded end; of the
            CPU, that of the process that works.  Beside it the same run with a scripted agent.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.ledger import say
from benchmarks.sides import Ours, Spent, cpu_ms, per_s
from forum.engine import ModelCall, RunRequest
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.runs.plan import Plan, Task
from forum.runs.policy import Agent, Chat, Policy, Scripted

AT_ONCE = 50
PROMPT = b"Say twenty words."
BODY = json.dumps(
    {
        "model": "instant",
        "messages": [{"role": "user", "content": PROMPT.decode()}],
        "stream": True,
    }
).encode()


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    calls: int
    tasks: int
    rounds: int


QUICK = Sizes(200, 200, 3)
FULL = Sizes(1000, 1000, 7)


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks models")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--full", action="store_true", help="a thousand calls, not two hundred")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, answering() as url:
        figures = measure(Path(scratch), url, FULL if options.full else QUICK)
    if not options.json:
        for name, value in figures.items():
            print(f"{name:<28} {value}")
    print(json.dumps(figures))


@contextmanager
def answering() -> Iterator[str]:
    """Have a provider that answers at once, and return its address."""
    command = [sys.executable, "-m", "benchmarks.answering"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


def measure(folder: Path, url: str, sizes: Sizes) -> dict[str, Any]:
    """Return all figures; what a reader compares with the goal comes first."""
    say("calls without a ledger")
    alone, together = asyncio.run(compare(url, sizes))
    say("recorded calls")
    recorded, scripted = record(folder, url, sizes)
    bare_ms = cpu_ms(together["bare"], sizes.calls)
    return {
        "recorded_cpu_ms_per_call": cpu_ms(recorded, sizes.tasks),
        "added_cpu_ms_per_call": round(cpu_ms(recorded, sizes.tasks) - bare_ms, 2),
        "scripted_cpu_ms_per_call": cpu_ms(scripted, sizes.tasks),
        "recorded_calls_per_s": per_s(recorded, sizes.tasks),
        "scripted_calls_per_s": per_s(scripted, sizes.tasks),
        "adapter_added_ms": round(ms(alone["adapter"], sizes) - ms(alone["bare"], sizes), 2),
        "one_by_one": {name: told(spent, sizes.calls) for name, spent in alone.items()},
        "at_once": {name: told(spent, sizes.calls) for name, spent in together.items()},
        "at_once_limit": AT_ONCE,
        "calls": sizes.calls,
        "tasks": sizes.tasks,
    }


def told(spent: list[Spent], calls: int) -> dict[str, float]:
    """Return what a call took."""
    return {"calls_per_s": per_s(spent, calls), "cpu_ms_per_call": cpu_ms(spent, calls)}


def ms(spent: list[Spent], sizes: Sizes) -> float:
    """Return the median time of a call, in milliseconds by the clock."""
    return 1000 * statistics.median(cost.seconds for cost in spent) / sizes.calls


# Without a ledger

Figures = dict[str, list[Spent]]


async def compare(url: str, sizes: Sizes) -> tuple[Figures, Figures]:
    """Call in turns with the bare client and with the adapter: one by one, and many at once."""
    model = make_model(Chat(url, "instant", max_tokens=32))
    call = ModelCall(
        "r", task="t", step="reply/1", number=1, prompt=BytesContent(PROMPT), seconds=60.0
    )

    async def adapter() -> None:
        reply = await model.reply(call)
        assert reply.outcome is Outcome.OK, reply

    alone: Figures = {"bare": [], "adapter": []}
    together: Figures = {"bare": [], "adapter": []}
    for _ in range(sizes.rounds):
        for at_once, figures in ((1, alone), (AT_ONCE, together)):
            async with pooled(at_once) as client:
                bare = partial(send, client, f"{url}/chat/completions")
                for name, way in (("bare", bare), ("adapter", adapter)):
                    await timed(way, at_once, at_once)  # it warms up, and fills the pool
                    figures[name].append(await timed(way, sizes.calls, at_once))
    return alone, together


def pooled(at_once: int) -> httpx2.AsyncClient:
    """Return a bare client that keeps its connections."""
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    return httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False)


async def send(client: httpx2.AsyncClient, url: str) -> None:
    """Make a call as simply as it can be made."""
    async with client.stream("POST", url, content=BODY) as response:
        assert response.status_code == 200
        async for _ in response.aiter_raw():
            pass


async def timed(way: Callable[[], Awaitable[None]], calls: int, at_once: int) -> Spent:
    """Make calls, so many at once, and tell what they took in this process."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await way()

    cpu, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return Spent(time.perf_counter() - started, time.process_time() - cpu)


# With a ledger


def record(folder: Path, url: str, sizes: Sizes) -> tuple[list[Spent], list[Spent]]:
    """Carry out runs of one-call tasks, in turns with the provider and with a script."""
    agents: list[Agent] = [Chat(url, "instant", max_tokens=32), Scripted()]
    spent: list[list[Spent]] = [[], []]
    with Ours(folder / "ledger", None) as ours:
        ours.wait()
        for agent in agents:
            ours.finish([order_of(agent, 4)])
        for _ in range(sizes.rounds):
            for agent, figures in zip(agents, spent, strict=True):
                request = order_of(agent, sizes.tasks)
                figures.append(ours.timed(partial(ours.finish, [request])))
    return spent[0], spent[1]


def order_of(agent: Agent, tasks: int) -> RunRequest:
    """Return the order to call an agent once for each of many tasks."""
    plan = Plan(tuple(Task(f"t{n}", PROMPT.decode()) for n in range(tasks)))
    return RunRequest("Call often.", plan, Policy(agents={"": agent}, parallel=AT_ONCE))
