"""What the gateway adds to a call, beside a bare reverse proxy that makes one durable insert.

    python -m benchmarks gateway [--json] [--calls N]

Both relay to the same local provider, over real sockets: provider, proxy and gateway are processes
of their own, and the client is this one.  The bare proxy is starlette with httpx2; before each call
it commits one row with the request to a SQLite database that syncs to disk, as the gateway's ledger
does.  Calls of both alternate, so that both meet the same noise.

added_p50_ms, added_p99_ms   what the gateway adds to a call, against the bare proxy
calls_ratio                  calls per second with 32 clients, gateway against bare proxy
first_byte_ms                what the gateway adds to the first byte of a stream
step_caller_us, step_ratio   what a step of the SDK costs (`benchmarks.recorder`)
otlp_span_ms                 what a span costs that is reported over OTLP (`benchmarks.otlp`)
served_...                   the gateway of a server on Postgres (`benchmarks.gateway_costs`)
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic, perf_counter, sleep
from types import MappingProxyType
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from benchmarks.otlp import span_figures
from benchmarks.recorder import step_figures

GOALS = {
    "added_p50_ms": 5.0,
    "added_p99_ms": 15.0,
    "calls_ratio": 0.5,
    "first_byte_ms": 5.0,
    "step_caller_us": 60.0,
    "step_ratio": 2.0,
    "otlp_span_ms": 0.3,
    "served_added_p50_ms": 2.0,
    "served_cpu_ms": 3.0,
}
CLIENTS = 32
_ROOT = Path(__file__).parent.parent


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_provider() -> Starlette:
    """Return a provider that answers at once: a short reply, or a stream of 20 chunks."""
    usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
    message = {"role": "assistant", "content": "word " * 20}
    reply = json.dumps(
        {"id": "c", "object": "chat.completion", "model": "gpt-4o-mini", "usage": usage,
         "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    ).encode()  # fmt: skip
    part = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
    chunk = b"data: " + json.dumps({"id": "c", "choices": [part]}).encode() + b"\n\n"
    last = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\n"

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield chunk
            await asyncio.sleep(0)
        yield last
        yield b"data: [DONE]\n\n"

    async def answer(request: Request) -> Response:
        asked = json.loads(await request.body())
        if asked.get("stream"):
            return StreamingResponse(stream(), media_type="text/event-stream")
        return Response(reply, media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


def open_insert(database: str) -> Callable[[bytes], object]:
    """Return a function that inserts a row into a database of SQLite, and syncs it to disk."""
    store = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute("CREATE TABLE IF NOT EXISTS call (id INTEGER PRIMARY KEY, body BLOB)")
    return lambda body: store.execute("INSERT INTO call (body) VALUES (?)", (body,))


def make_proxy(upstream: str, insert: Callable[[bytes], object] | None = None) -> Starlette:
    """Return the bare reverse proxy: an insert, if there is one, then the call."""
    client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=512))
    lock = asyncio.Lock()

    async def relay(request: Request) -> Response:
        body = await request.body()
        if insert is not None:
            async with lock:
                await asyncio.to_thread(insert, body)
        sent = client.build_request(
            "POST", upstream + request.url.path, content=body,
            headers={"content-type": "application/json", "accept-encoding": "identity"},
        )  # fmt: skip
        reply = await client.send(sent, stream=True)

        async def passed() -> AsyncIterator[bytes]:
            async for piece in reply.aiter_raw():
                yield piece
            await reply.aclose()

        kind = reply.headers.get("content-type")
        return StreamingResponse(passed(), reply.status_code, media_type=kind)

    return Starlette(routes=[Route("/v1/chat/completions", relay, methods=["POST"])])


def serve(app: Starlette, port: int) -> None:
    """Serve an application until killed."""
    uvicorn.run(app, port=port, log_level="critical", access_log=False)


@contextmanager
def process(
    *words: str, variables: Mapping[str, str] = MappingProxyType({}), folder: Path = _ROOT
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program until the end of the block."""
    with subprocess.Popen(
        words, env={**os.environ, **variables}, cwd=folder, stderr=subprocess.DEVNULL
    ) as running:
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)


def wait_for(url: str) -> None:
    """Wait until a server answers."""
    """Wait until a server answers."""
    deadline = monotonic() + 60
    while True:
        try:
            httpx2.get(url)
        except httpx2.TransportError:
            assert monotonic() < deadline, url
            sleep(0.05)
        else:
            return


@contextmanager
def start_all(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Start provider, proxy and gateway; yield the addresses of both, and the gateway's token."""
    me = (sys.executable, "-m", "benchmarks.gateway")
    ports = [free_port(), free_port()]
    provider = f"http://127.0.0.1:{ports[0]}"
    path = folder / "environment"
    # The program of `forum run` writes down where its gateway is, and waits.
    program = (
        "import json,os,sys,time; from pathlib import Path; "
        "p=Path(sys.argv[1]); p.with_suffix('.new').write_text(json.dumps(dict(os.environ))); "
        "p.with_suffix('.new').rename(p); time.sleep(3600)"
    )
    state = {
        "FORUM_STATE_DIR": str(folder / "state"),
        "FORUM_DATA_DIR": str(folder / "data"),
        "OPENAI_BASE_URL": f"{provider}/v1",
        "OPENAI_API_KEY": "sk-benchmark",
    }
    with ExitStack() as stack:
        stack.enter_context(process(*me, "provider", str(ports[0])))
        wait_for(provider)
        stack.enter_context(process(*me, "proxy", str(ports[1]), provider, str(folder / "p.db")))
        stack.enter_context(
            process(
                sys.executable, "-m", "forum", "run", "--max-usd", "1000", "--max-repeats", "0",
                "--", sys.executable, "-c", program, str(path),
                variables=state,
            )
        )  # fmt: skip
        wait_for(f"http://127.0.0.1:{ports[1]}")
        deadline = monotonic() + 60
        while not path.exists():
            assert monotonic() < deadline
            sleep(0.05)
        document = json.loads(path.read_text())
        gateway, token = document["OPENAI_BASE_URL"], document["OPENAI_API_KEY"]
        yield f"http://127.0.0.1:{ports[1]}/v1", gateway, token


class Caller:
    """Sends calls to one of the two, and takes their time."""

    def __init__(self, client: httpx2.AsyncClient, base: str, token: str) -> None:
        self._client, self._url = client, f"{base}/chat/completions"
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._number = 0

    def _body(self, *, stream: bool) -> bytes:
        self._number += 1
        turn = {"role": "user", "content": f"{self._number} " + "A short question. " * 20}
        body: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [turn], "max_tokens": 50}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps(body).encode()

    async def call(self) -> float:
        """Return the seconds of one call."""
        body, start = self._body(stream=False), perf_counter()
        reply = await self._client.post(self._url, content=body, headers=self._headers)
        assert reply.status_code == 200, reply.text
        return perf_counter() - start

    async def first_byte(self) -> float:
        """Return the seconds to the first byte of a stream, and read the rest."""
        body, start = self._body(stream=True), perf_counter()
        async with self._client.stream(
            "POST", self._url, content=body, headers=self._headers
        ) as reply:
            pieces = reply.aiter_raw()
            await anext(pieces)
            seconds = perf_counter() - start
            async for _ in pieces:
                pass
        return seconds


Measure = Callable[[], Awaitable[float]]


async def alternate(bare: Measure, gateway: Measure, calls: int) -> tuple[list[float], list[float]]:
    """Return the seconds of calls to both, taken in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(calls):
        times[0].append(await bare())
        times[1].append(await gateway())
    return times


async def rate_of(caller: Caller, calls: int) -> float:
    """Return the calls per second of many clients."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await caller.call()

    start = perf_counter()
    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return calls / (perf_counter() - start)


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx2.AsyncClient]:
    """Open a client with a connection for each worker."""
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx2.AsyncClient(timeout=60, limits=limits, trust_env=False) as client:
        yield client


def percentile(values: list[float], share: float) -> float:
    """Return a percentile in milliseconds."""
    return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def measure(calls: int, bases: tuple[str, str, str]) -> dict[str, float]:
    """Measure both, warm."""
    async with open_client() as first, open_client() as second:
        bare, gateway = Caller(first, bases[0], "-"), Caller(second, bases[1], bases[2])
        await alternate(bare.call, gateway.call, 20)
        plain = await alternate(bare.call, gateway.call, calls)
        streams = await alternate(bare.first_byte, gateway.first_byte, calls // 2)
        ratios = []
        for _ in range(3):
            slow = await rate_of(bare, calls)
            ratios.append(await rate_of(gateway, calls) / slow)
    return {
        "added_p50_ms": percentile(plain[1], 0.5) - percentile(plain[0], 0.5),
        "added_p99_ms": percentile(plain[1], 0.99) - percentile(plain[0], 0.99),
        "calls_ratio": statistics.median(ratios),
        "first_byte_ms": percentile(streams[1], 0.5) - percentile(streams[0], 0.5),
        "bare_p50_ms": percentile(plain[0], 0.5),
        "gateway_p50_ms": percentile(plain[1], 0.5),
    }


def measure_gateway(calls: int) -> dict[str, float]:
    """Return the figures of the gateway."""
    with tempfile.TemporaryDirectory() as folder, start_all(Path(folder)) as bases:
        return asyncio.run(measure(calls, bases))


def main(words: list[str]) -> None:
    """Print the figures of the gateway, the SDK and the intake beside their goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gateway")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="more calls and steps")
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args(words)
    figures = measure_gateway(2000 if options.full else options.calls)
    figures |= step_figures(20_000 if options.full else 5_000)
    figures |= span_figures()
    with tempfile.TemporaryDirectory() as folder:
        # Here, because it needs the parts above.
        from benchmarks.gateway_costs import served_figures  # noqa: PLC0415

        calls, memory_calls = (5_000, 100_000) if options.full else (500, 5_000)
        figures |= served_figures(Path(folder), calls, memory_calls=memory_calls)
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
        return
    for name, value in figures.items():
        goal = f"  (goal {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:<27} {value:8.2f}{goal}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["provider", port]:
            serve(make_provider(), int(port))
        case ["proxy", port, upstream, database]:
            serve(make_proxy(upstream, open_insert(database)), int(port))
        case ["proxy", port, upstream]:
            serve(make_proxy(upstream), int(port))
        case words:
            main(words)
