"""Many runs through the gateway in this process; the provider is a process of its own.

The client calls the gateway's ASGI application directly, so that many runs can be made.  The
gateway calls the provider over sockets, and writes its ledger to a database on disk.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

from benchmarks.caps.bills import Provider
from benchmarks.caps.provider import Fate
from benchmarks.caps.workload import PICO, Call, Draw, RunPlan
from forum.app import Forum, new_run_id, now
from forum.app.open_calls import OpenRunsFile
from forum.config import load_settings
from forum.features.gateway.actor_caps import find_actor_caps
from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.relay import Relay
from forum.features.gateway.relayed_run import RelayedRun, RunLimits
from forum.features.gateway.reservations import CallsInFlight
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.run_app import RunGateway
from forum.features.gateway.upstream import ProviderAddress
from forum.ledger.kinds import Outcome
from forum.ledger.ports import UNLIMITED
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.runs.reported_run import close_reported_run

TOKEN: Final = "forum-run-0123456789abcdef"  # noqa: S105  # of the benchmark
SIDE_BY_SIDE: Final = 24
"""Runs at the same time."""
_RETRIED: Final = (429, 500, 502, 503, 504)


@dataclass(slots=True)
class Reply:
    """What a client got; status 0 if the connection broke."""

    status: int = 0
    body: bytes = b""
    is_whole: bool = False


@dataclass(slots=True)
class Gateway:
    """The gateway of one ledger, in this process."""

    forum: Forum
    relay: Relay
    file: OpenRunsFile
    provider: Provider
    in_flight: CallsInFlight = field(default_factory=CallsInFlight)
    caps: dict[str, int] = field(default_factory=dict)
    """Caps in nano-dollars, by account."""
    counts: Counter[str] = field(default_factory=Counter)

    async def play(self, plan: RunPlan, actor: str) -> None:
        """Make the calls of a run, and close it."""
        run = new_run_id()
        cap = UNLIMITED._replace(usd=plan.cap)
        source = ReportSourceFacts(told=ReportProvenance.RELAYED, by=actor, **cap._asdict())
        shared = find_actor_caps(self.forum, actor)
        writer = await asyncio.to_thread(shared.open_run, run, actor, "agent", source)
        relayed = RelayedRun(
            writer, RunLimits(cap=cap), self.file.new_span, shared=shared, in_flight=self.in_flight
        )
        app = RunGateway(self.relay, relayed, TOKEN)
        self.caps[plan.accounts[0]] = plan.cap
        try:
            for calls in plan.rounds:
                await asyncio.gather(*(self._make(app, call, plan) for call in calls))
        finally:
            await relayed.drain(10)
            outcome = Outcome.DENIED if relayed.has_overrun else Outcome.OK
            self.counts["overruns"] += relayed.has_overrun
            ledger = self.forum.ledger
            await asyncio.to_thread(close_reported_run, ledger, run, actor, outcome)
        self.counts["runs"] += 1

    async def _make(self, app: RunGateway, call: Call, plan: RunPlan) -> None:
        for attempt in range(plan.retries + 1):
            reply = await send(app, call)
            self.counts["asked"] += 1
            if reply.status == 402:
                await self._count_refusal(call, reply)
                return
            if reply.status >= 400 and reply.status not in _RETRIED:
                raise AssertionError(reply.body)
            if attempt < plan.retries and (reply.status in _RETRIED or not reply.is_whole):
                continue
            return

    async def _count_refusal(self, call: Call, reply: Reply) -> None:
        if b"forum_stopped" in reply.body:
            self.counts["stopped"] += 1
            return
        self.counts["refused"] += 1
        quote = await self.provider.quote(call.wire, call.body)
        if call.fate is not Fate.HIGH and all(
            owed + quote["cost"] <= self.caps[name] * PICO for name, owed in quote["owed"].items()
        ):
            self.counts["affordable"] += 1


async def send(app: RunGateway, call: Call) -> Reply:
    """Make a call of the application as a client would, which may leave in the middle."""
    reply, left = Reply(), asyncio.Event()
    messages = [{"type": "http.request", "body": call.body, "more_body": False}]

    async def receive() -> Any:  # noqa: ANN401  # ASGI
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:  # noqa: ANN401  # ASGI
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            return
        reply.body += message.get("body", b"")
        reply.is_whole = not message.get("more_body", False)
        if call.fate is Fate.LEFT:
            left.set()

    path = call.wire.value.encode()
    headers = [
        (b"content-type", b"application/json"), (b"authorization", f"Bearer {TOKEN}".encode()),
    ]  # fmt: skip
    scope = {"type": "http", "method": "POST", "path": call.wire.value, "raw_path": path,
             "query_string": b"", "headers": headers}  # fmt: skip
    await app(scope, receive, take)
    return reply


@asynccontextmanager
async def open_gateway(
    home: Path, provider: Provider, shared: Mapping[str, int]
) -> AsyncIterator[Gateway]:
    """Open a ledger in a folder, and a gateway to the provider; `shared` are caps of many runs."""
    (home / "forum.toml").write_text(_budgets_of(shared) if shared else "")
    with Forum(load_settings(home, {"FORUM_STATE_DIR": str(home / "state")})) as forum:
        forum.keys.initialise()
        with forum.log.open_writer():
            key = (b"authorization", b"Bearer sk-of-the-provider")
            addresses = (
                ProviderAddress(ApiProvider.OPENAI, f"{provider.url}/v1", key),
                ProviderAddress(ApiProvider.ANTHROPIC, provider.url, key),
            )
            relay = Relay(addresses, PriceBook({}), now)
            file = forum.log.open_calls_file()
            async with relay.open():
                yield Gateway(forum, relay, file, provider, caps=dict(shared))
            file.close()


@dataclass(frozen=True, slots=True)
class Batch:
    """How many runs are made, and what they do."""

    draw: Draw
    runs: int
    seed: int
    seconds: float = 1e9
    keys: int = 0
    """So many keys have a cap each, beside the caps of runs and that of the day."""


async def play_batch(
    home: Path, provider: Provider, batch: Batch
) -> tuple[Counter[str], dict[str, int]]:
    """Make the runs of a batch, a few at a time."""
    chance, due = Random(batch.seed), monotonic() + batch.seconds
    plans = (_draw_plan(batch, chance, number) for number in range(batch.runs))
    shared: dict[str, int] = {}
    if batch.keys:
        # A few cents, which are used up by the first part of the runs.
        shared = {f"k{n}": 2_000_000 * batch.runs // batch.keys // 8 for n in range(batch.keys)}
        shared["day"] = sum(shared.values()) * 3 // 4
    async with open_gateway(home, provider, shared) as gateway:

        async def work() -> None:
            for plan, actor in plans:
                await gateway.play(plan, actor)
                if monotonic() > due:
                    return

        await asyncio.gather(*(work() for _ in range(SIDE_BY_SIDE)))
        return gateway.counts, gateway.caps


def _draw_plan(batch: Batch, chance: Random, number: int) -> tuple[RunPlan, str]:
    key = f"k{number % batch.keys}" if batch.keys else ""
    accounts = (f"r{number}", *((key, "day") if key else ()))
    return batch.draw(chance, accounts), f"key/{key}/1" if key else "operator"


def _budgets_of(shared: Mapping[str, int]) -> str:
    each = next(cap for name, cap in shared.items() if name != "day")
    return (
        f'[budgets.daily]\nper = "day"\nusd = {shared["day"] / 1e9:.9f}\n'
        f'[budgets.keys]\nper = "day"\nkey = "*"\nusd = {each / 1e9:.9f}\n'
    )
