"""Attack every route of a server with its largest bodies, and measure what others notice.

A real `forum serve` has two ledgers.  A key of the second one posts bodies of every shape to every
route, holds bodies open, and takes all connections that it may have.  Meanwhile another process
asks for `/livez`, and reads the first ledger, and looks at the memory of the server.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.routing import Route

from forum.ledger.kinds import Scope
from forum.surfaces.cli.serve import load_extensions
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import Project, project
from tests.support import free_port
from tests.surfaces.serving import Served, serving, stop

MODEL = '[models.default]\nkind = "scripted"\n'
MB = 1_000_000
PROBE_SECONDS = 0.02
HELD = 250
"""Requests that are held open at once: more than one key may have."""
MAX_LIVEZ_MS = 100.0
MAX_RSS_BYTES = 1 << 30
"""`MemoryMax` of deploy/systemd/forum-server.service; a test compares them."""
_JSON = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",  # as MCP wants it
}


# What is posted.  Each shape has about the size that it is given.


def _dense_lists(size: int) -> bytes:
    return b"[" + b"[]," * ((size - 4) // 3) + b"1]"


def _dense_objects(size: int) -> bytes:
    return b"[" + b'{"a":{}},' * ((size - 4) // 9) + b"1]"


def _many_members(size: int) -> bytes:
    return b"{" + b",".join(b'"%07x":%d' % (n, n % 9) for n in range(size // 12)) + b"}"


def _deep(size: int) -> bytes:
    half = size // 2
    return b"[" * half + b"]" * half


def _escapes(size: int) -> bytes:
    return b'{"a":"' + b"\\ud83d\\ude00" * (size // 12) + b'"}'


def _junk(size: int) -> bytes:
    return b"\xff" * size


def _chat(size: int) -> bytes:
    """Return a call of a model with a picture, as a client would send it."""
    data = "data:image/png;base64," + "A" * (size // 2)
    part = {"type": "image_url", "image_url": {"url": data}}
    says = {"role": "user", "content": [part, {"type": "text", "text": "y" * (size // 2 - 300)}]}
    return json.dumps({"model": "gpt-4o-mini", "max_tokens": 5, "messages": [says]}).encode()


def _many_messages(size: int) -> bytes:
    says = [{"role": "user", "content": "hi"}] * (size // 34)
    return json.dumps(
        {"model": "gpt-4o-mini", "max_tokens": 5, "messages": says}, separators=(",", ":")
    ).encode()


def _nested_spans(size: int) -> bytes:
    """Return spans of OpenTelemetry whose attributes are lists of lists."""
    value = '{"arrayValue":{"values":[' + '{"arrayValue":{"values":[]}},' * 40 + '{"intValue":1}]}}'
    attribute = '{"key":"a","value":' + value + "}"
    span = '{"traceId":"%032x","spanId":"%016x","name":"x","attributes":[' + attribute + "]}"
    spans = ",".join(span % (n // 50 + 1, n + 1) for n in range(size // (len(span) + 12)))
    return ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + "]}]}]}").encode()


def _tool_call(size: int) -> bytes:
    arguments = {"request": "Go.", "tasks": [{"id": "a", "instruction": "b"}] * (size // 34)}
    params = {"name": "submit", "arguments": arguments}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    ).encode()


SHAPES: Mapping[str, Callable[[int], bytes]] = {
    "dense lists": _dense_lists,
    "dense objects": _dense_objects,
    "many members": _many_members,
    "deep": _deep,
    "escapes": _escapes,
    "junk": _junk,
}
"""For every route."""


@lru_cache(maxsize=8)
def _make_shape(name: str, size: int) -> bytes:
    return SHAPES[name](size)


OWN_SHAPES: Mapping[str, tuple[Callable[[int], bytes], ...]] = {
    "/gateway/": (_chat, _many_messages),
    "/v1/chat/": (_many_messages,),
    "/v1/traces": (_nested_spans,),
    "/mcp": (_tool_call,),
}
"""Well-formed bodies, by the beginning of the path."""


def filled_bodies(example: Mapping[str, Any], size: int) -> Iterator[bytes]:
    """Yield valid bodies of an operation that are large: each text and each list in turn."""
    for name, value in example.items():
        if isinstance(value, str):
            longer: Any = value + "y" * size
        elif isinstance(value, list) and value:
            longer = value * max(1, size // len(json.dumps(value)))
        else:
            continue
        yield json.dumps({**example, name: longer}).encode()


# The routes.


@dataclass(frozen=True, slots=True)
class Target:
    """An operation of the server."""

    method: str
    path: str
    max_bytes: int
    example: Mapping[str, Any] | None = None

    def bodies(self, without: Collection[str] = ()) -> Iterator[tuple[str, bytes]]:
        """Yield bodies that are as large as the operation accepts, but for some shapes."""
        size = self.max_bytes - 64
        for name in SHAPES:
            if name not in without:
                yield name, _make_shape(name, size)
        for prefix, own in OWN_SHAPES.items():
            if self.path.startswith(prefix):
                for make in own:
                    yield make.__name__.strip("_"), make(size)
        for body in filled_bodies(self.example or {}, size - 2_000):
            yield "valid", body


_PARAMETERS = {"run": "01a1ebd5-fcc0-7bdf", "path": "index.html", "rest": ""}
_RESTS = {
    "/gateway/openai/v1/": ("chat/completions", "responses", "embeddings", "files"),
    "/gateway/anthropic/": ("v1/messages", "v1/messages/count_tokens"),
}


def find_targets(tenants: Sequence[Project]) -> list[Target]:
    """Return every operation of a server, from its table of routes."""
    config = ServerConfig([Tenant(tenant.forum) for tenant in tenants])
    targets: list[Target] = []
    for route in make_app(config, load_extensions(config)).routes:
        assert isinstance(route, Route)
        for method in sorted(route.methods or {"GET"}):
            if method != "HEAD":
                targets += _targets_of(route, method)
    return targets


def _targets_of(route: Route, method: str) -> Iterator[Target]:
    endpoint = getattr(route.endpoint, "endpoints", {}).get(method)
    most = getattr(endpoint, "max_bytes", None) or 4 << 20
    example = getattr(endpoint, "example", None)
    path = route.path
    for part in [piece[1:].split("}")[0] for piece in path.split("/") if piece.startswith("{")]:
        name = part.split(":")[0]
        if name == "rest":
            continue
        path = path.replace("{" + part + "}", _PARAMETERS.get(name, "1"))
    if "{rest:path}" in path:
        prefix = path.partition("{")[0]
        for rest in _RESTS.get(prefix, ("x",)) if method == "POST" else ("models",):
            yield Target(method, prefix + rest, most, example)
    else:
        yield Target(method, path, most, example)


# The server, and who watches it.


@dataclass(frozen=True, slots=True)
class Attacked:
    """A server with two ledgers, a key of the second one, and the process that probes it."""

    served: Served
    key: str
    targets: Sequence[Target]

    @property
    def address(self) -> tuple[str, int]:
        """Where the server listens."""
        url = urlsplit(self.served.url)
        return str(url.hostname), int(url.port or 0)

    def head(self, target: Target, length: int) -> bytes:
        """Return the head of a request."""
        lines = [
            f"{target.method} {target.path} HTTP/1.1", "Host: 127.0.0.1",
            f"Authorization: Bearer {self.key}", f"Content-Length: {length}",
            *(f"{name}: {value}" for name, value in _JSON.items()),
        ]  # fmt: skip
        return "\r\n".join((*lines, "", "")).encode()

    def post(self, target: Target, body: bytes, seconds: float = 120) -> int:
        """Send a request, and return the status of the answer; 0 if the connection was closed."""
        with socket.create_connection(self.address, seconds) as client:
            try:
                client.sendall(self.head(target, len(body)))
                client.sendall(body)
            except OSError:
                pass  # refused before all was sent; the answer may have arrived
            try:
                answer = client.recv(64)
            except OSError:
                return 0
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0

    def find(self, method: str, path: str) -> Target:
        """Return an operation."""
        return next(
            target for target in self.targets if (target.method, target.path) == (method, path)
        )

    @contextmanager
    def held(
        self, target: Target, count: int, sent: bytes = b"[", length: int = 0
    ) -> Iterator[list[socket.socket]]:
        """Hold requests open whose bodies do not come to their end."""
        with ExitStack() as stack:
            clients = []
            for _ in range(count):
                client = stack.enter_context(socket.create_connection(self.address, 30))
                with suppress(OSError):
                    client.sendall(self.head(target, length or target.max_bytes - 1) + sent)
                clients.append(client)
            yield clients

    @contextmanager
    def watched(self) -> Iterator["Figures"]:
        """Probe the server during the block."""
        figures, cpu = Figures(), self.loop_cpu()
        argv = [sys.executable, "-m", "tests.soak.limits", "--probe", self.served.url]
        token = self.served.client.headers["Authorization"].removeprefix("Bearer ")
        environ = {**os.environ, "FORUM_PROBE_TOKEN": token}
        with subprocess.Popen(
            [*argv, "--pid", str(self.served.server.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ,
        ) as probe:  # fmt: skip
            assert probe.stdin is not None
            assert probe.stdout is not None
            probe.stdout.readline()
            try:
                yield figures
            finally:
                sleep(3 * PROBE_SECONDS)
                probe.stdin.close()
                document = json.loads(probe.stdout.read())
                figures.livez, figures.reads = sorted(document["livez"]), sorted(document["reads"])
                figures.rss, figures.failed = document["rss"], document["failed"]
                figures.loop_cpu = self.loop_cpu() - cpu

    def loop_cpu(self) -> float:
        """Return the seconds of CPU time of the thread of the event loop."""
        pid = self.served.server.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


@dataclass(slots=True)
class Figures:
    """What others noticed: milliseconds, bytes, seconds."""

    livez: Sequence[float] = ()
    reads: Sequence[float] = ()
    rss: int = 0
    failed: int = 0
    loop_cpu: float = 0.0

    @property
    def are_good(self) -> bool:
        """Whether others noticed nothing."""
        return (
            not self.failed
            and quantile(self.livez, 0.99) < MAX_LIVEZ_MS
            and quantile(self.reads, 0.99) < MAX_LIVEZ_MS
            and self.rss < MAX_RSS_BYTES
        )

    def row(self, name: str) -> str:
        """Return a line of the table."""
        return (
            f"{name:58} {len(self.livez):5} {quantile(self.livez, 0.5):7.1f} "
            f"{quantile(self.livez, 0.99):7.1f} {quantile(self.livez, 1):8.1f} "
            f"{quantile(self.reads, 0.99):8.1f} {self.rss / MB:7.0f} {self.failed:6}"
            f" {1000 * self.loop_cpu:7.0f}"
        )


HEADER = (
    f"{'':58} {'n':>5} {'p50':>7} {'p99':>7} {'worst':>8} {'read p99':>8} {'RSS MB':>7} "
    f"{'failed':>6} {'loop ms':>7}"
)


def quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile of sorted values."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


@contextmanager
def attacked(
    home: Path, databases: tuple[str | None, str | None] = (None, None)
) -> Iterator[Attacked]:
    """Serve two ledgers; the second one has a gateway to a provider on this machine."""
    port = free_port()
    gateway = (
        f'[gateway]\nopenai_url = "http://127.0.0.1:{port}/v1"\n'
        f'anthropic_url = "http://127.0.0.1:{port}"\n'
    )
    with ExitStack() as stack:
        argv = [sys.executable, "-m", "tests.soak.limits", "--provider", str(port)]
        provider = subprocess.Popen(argv)
        stack.callback(stop, provider)
        first = stack.enter_context(project(home / "first", databases[0], MODEL))
        second = stack.enter_context(project(home / "second", databases[1], MODEL + gateway))
        key = second.forum.access.grant("attacker", sorted(Scope))
        environ = {**first.environ, "OPENAI_API_KEY": "k" * 20, "ANTHROPIC_API_KEY": "k" * 20}
        first = Project(first.home, environ, first.forum)
        options = ("--tenant", str(second.home), "--rate", "1000000")
        server = stack.enter_context(serving(first, options))
        yield Attacked(server, str(key), find_targets([first, second]))


# The processes beside it.


def probe(url: str, pid: int) -> None:
    """Ask for `/livez` and read a ledger on new connections until standard input ends."""
    document: dict[str, Any] = {"livez": [], "reads": [], "rss": 0, "failed": 0}
    shown = f"Authorization: Bearer {os.environ['FORUM_PROBE_TOKEN']}\r\n"
    address = (str(urlsplit(url).hostname), int(urlsplit(url).port or 0))
    os.set_blocking(0, False)
    print("ready", flush=True)
    turn = 0
    while not _has_ended(0):
        turn += 1
        name, path = ("reads", "/api/v1/runs") if turn % 4 == 0 else ("livez", "/livez")
        begun = monotonic()
        try:
            # A new connection each time: an orchestrator keeps none.
            with socket.create_connection(address, 60) as client:
                head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                client.sendall((head + shown + "\r\n").encode())
                status = client.recv(65536)[9:12]
        except OSError:
            status = b""
        document[name].append(round(1000 * (monotonic() - begun), 2))
        document["failed"] += status != b"200"
        document["rss"] = max(document["rss"], tree_rss(pid))
        sleep(PROBE_SECONDS)
    print(json.dumps(document))


def _has_ended(descriptor: int) -> bool:
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def tree_rss(pid: int) -> int:
    """Return the resident bytes of a process and its children."""
    total = 0
    try:
        total += _rss(pid)
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += tree_rss(int(child))
    except OSError:
        pass  # it has just ended
    return total


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def provide(port: int) -> None:
    """Answer like a provider whatever it is asked."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  as ASGI has it
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps({"model": "gpt-4o-mini", "choices": [], "usage": usage}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(answer, port=port, log_level="critical", lifespan="off")


def attack_bodies(server: Attacked, target: Target, few: int | None = None) -> str:
    """Post the largest bodies of an operation, and return the statuses of the answers."""
    answers: Counter[int] = Counter()
    for _, body in islice(target.bodies(), few):
        answers[server.post(target, body)] += 1
    return " ".join(f"{status}x{count}" for status, count in sorted(answers.items()))


def attack_held(server: Attacked, target: Target, count: int, seconds: float) -> str:
    """Hold requests open, and return the statuses of those that were refused."""
    answers: Counter[bytes] = Counter()
    with server.held(target, count) as clients:
        sleep(seconds)
        for client in clients:
            client.settimeout(0)
            with suppress(OSError):
                answers[client.recv(64)[9:12]] += 1
    answers[b"held"] = count - answers.total()
    return " ".join(f"{status.decode()}x{count}" for status, count in sorted(answers.items()))


def attack_routes(server: Attacked) -> Iterator[tuple[str, Figures]]:
    """Attack each route in turn, and yield what was done and what others noticed."""
    for target in server.targets:
        with server.watched() as figures:
            answers = attack_bodies(server, target)
        yield f"{target.method} {target.path}: {answers}", figures
    for target in server.targets:
        with server.watched() as figures:
            answers = attack_held(server, target, HELD, 0.5)
        yield f"held {target.method} {target.path}: {answers}", figures


def attack_gateway(server: Attacked) -> Iterator[tuple[str, Figures]]:
    """Send calls of all sizes, hold uploads, and take every connection."""
    with server.watched() as figures:
        sleep(3)
    yield "nothing", figures
    chat = server.find("POST", "/gateway/openai/v1/chat/completions")
    for size in (1, 4, 16, 32):
        for make in (_chat, _dense_lists, _many_messages):
            with server.watched() as figures:
                status = server.post(chat, make(size * MB))
                sleep(0.5)
            yield f"gateway, {make.__name__.strip('_')}, {size} MB: {status}", figures
    with server.watched() as figures, server.held(chat, 12, b"x" * (31 * MB), 32 * MB):
        sleep(2)
    yield "12 held uploads of 31 MB", figures
    with ExitStack() as stack:
        follow = server.find("GET", "/api/v1/events")
        for count, target, length in ((1500, follow, 0), (520, chat, MB)):
            for _ in range(count):
                with suppress(OSError):
                    client = stack.enter_context(socket.create_connection(server.address, 30))
                    client.sendall(server.head(target, length))
        sleep(5)  # they are held, and not only begun
        with server.watched() as figures:
            sleep(5)
        yield "2,020 connections of one key", figures


def main() -> int:
    """Measure, print a table, and return whether everything is within the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--pid", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--provider", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--gateway", action="store_true", help="only what the gateway costs")
    parser.add_argument("--database", nargs=2, default=(None, None), metavar="URL",
                        help="two databases of Postgres, instead of SQLite")  # fmt: skip
    given = parser.parse_args()
    if given.probe:
        probe(given.probe, given.pid)
        return 0
    if given.provider:
        provide(given.provider)
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    failed = 0
    with tempfile.TemporaryDirectory() as home, attacked(Path(home), given.database) as server:
        print(HEADER)
        routes = () if given.gateway else attack_routes(server)
        for name, figures in chain(attack_gateway(server), routes):
            failed += not figures.are_good
            print(figures.row(name), "" if figures.are_good else " FAILED", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
