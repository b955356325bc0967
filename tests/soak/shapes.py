"""Requests of every shape that is expensive to check, while somebody asks whether the server lives.

Each shape is as large as a server takes, or just beyond.  The answers do not matter here, except
that none is a 5xx; what matters is how long `/livez` takes meanwhile.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2

from tests.surfaces.serving import Served, served

SETTINGS = '[models.default]\nkind = "scripted"\n'
UNLIMITED = ("--rate", "1000000")
_PROBE_SECONDS = 0.02

Shape = tuple[str, Mapping[str, Any]]
"""An address, and what is posted there."""


def _task(number: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401  whatever a task may have
    return {"id": f"t{number}", "instruction": "Go.", **more}


def _plan(*tasks: dict[str, Any]) -> Shape:
    return "/api/v1/runs", {"request": "Go.", "tasks": tasks, "gates": {"what": ["plan"]}}


def _checked(*lines: str) -> Shape:
    return _plan(_task(0, done_when="\n".join(lines)))


def _nested(depth: int) -> dict[str, Any]:
    task = _task(depth)
    for number in range(depth):
        task = _task(number, tasks=[task])
    return task


def _schema(letters: int) -> str:
    return json.dumps({"anyOf": [{"const": n} for n in range(letters // 16)]})


def _deep_schema(depth: int) -> str:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"allOf": [schema, {"type": "string"}]}
    return json.dumps(schema)


def _words(count: int, seed: int) -> str:
    rolled = random.Random(seed)
    return " ".join(f"{rolled.randrange(36**6):x}" for _ in range(count))


def _chat(count: int, letters: int) -> Shape:
    said = [{"role": "user", "content": "x" * letters} for _ in range(count)]
    return "/v1/chat/completions", {"model": "forum", "messages": said, "stream": True}


def _call(tool: str, arguments: Mapping[str, Any]) -> Shape:
    params = {"name": tool, "arguments": arguments}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


SHAPES: Mapping[str, Callable[[int], Shape]] = {
    "many tasks": lambda _: _plan(*(_task(n) for n in range(9_000))),
    "one name twice": lambda _: _plan(*(_task(n) for n in range(9_000)), _task(8_999)),
    "many needs": lambda _: _plan(
        *(_task(n, needs=[f"t{m}" for m in range(max(0, n - 100), n)]) for n in range(900))
    ),
    "tasks within tasks": lambda _: _plan(*(_nested(15) for _ in range(100))),
    "too deep": lambda _: _plan(_nested(300)),
    "a large schema": lambda n: _checked(f"json {_schema(16_000 - n % 64)}"),
    "a deep schema": lambda n: _checked(f"json {_deep_schema(20 + n % 10)}"),
    "many schemas": lambda _: _plan(
        *(_task(n, done_when=f"json {_schema(15_000 + n)}") for n in range(30))
    ),
    "many patterns": lambda s: _checked(*(f"matches (a|b){{1,9}}x{n}y{s}" for n in range(5_000))),
    "large patterns": lambda s: _checked(*(rf"matches \pL{{12}}{s}x{n}" for n in range(100))),
    "a huge pattern": lambda _: _checked(r"matches \pL{500}"),
    "patterns in a schema": lambda s: _checked(
        "json " + json.dumps({"anyOf": [{"pattern": rf"\pL{{9}}{s}{n}"} for n in range(99)]})
    ),
    "many lines": lambda _: _checked(*("a" for _ in range(400_000))),
    "many checks": lambda _: _checked(*("contains a" for _ in range(19_000))),
    "a long text": lambda s: ("/api/v1/runs", {"request": _words(90_000, s), "route": True}),
    "a long route": lambda s: ("/api/v1/route", {"text": _words(90_000, s)}),
    "a large plan asked": lambda _: ("/api/v1/plan", _plan(*(_task(n) for n in range(9_000)))[1]),
    "many messages": lambda _: _chat(1_900, 1),
    "far too many messages": lambda _: _chat(10_000, 1),
    "long messages": lambda _: _chat(50, 15_000),
    "a wide panel": lambda _: (
        "/api/v1/runs",
        {
            "request": "Go.",
            "panel": {"seats": 64, "options": ["o" * 900 + str(n) for n in range(99)]},
        },
    ),
    "many parameters": lambda _: ("/api/v1/route?" + "a&" * 7_000, {"text": "Go."}),
    "a large call of a tool": lambda _: _call(
        "submit", _plan(*(_task(n) for n in range(9_000)))[1]
    ),
    "a deep call of a tool": lambda _: _call("submit", {"request": _brackets(400)}),
    "brackets": lambda _: ("/api/v1/runs", {"request": "Go.", "tasks": _brackets(500)}),
}


def _brackets(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """How long `/livez` took, in milliseconds, and what was answered to the shapes."""

    probes: int
    median: float
    p99: float
    slowest: float
    requests: int
    statuses: Mapping[int, int]
    slowest_shapes: Mapping[str, float]
    """Seconds, of the five that took longest."""


def fuzz(server: Served, seconds: float, clients: int = 4) -> Found:
    """Send every shape again and again, from several clients, and ask meanwhile for `/livez`."""
    statuses: Counter[int] = Counter()
    took: dict[str, float] = {}
    with _sending(server, clients, statuses, took) as done:
        waits = list(_probe(server, seconds, done))
    waits.sort()
    worst = sorted(took, key=lambda name: -took[name])[:5]
    return Found(
        len(waits),
        median=_ms(waits[len(waits) // 2]),
        p99=_ms(waits[int(0.99 * len(waits))]),
        slowest=_ms(waits[-1]),
        requests=statuses.total(),
        statuses=dict(sorted(statuses.items())),
        slowest_shapes={name: round(took[name], 2) for name in worst},
    )


def _probe(server: Served, seconds: float, done: threading.Event) -> Iterator[float]:
    """Yield how long the server took to say that it lives, on one connection, for a while.

    It goes on until each shape was sent once.
    """
    end = monotonic() + seconds
    while monotonic() < end or not done.is_set():
        begun = monotonic()
        assert server.client.get("/livez").status_code == 200
        yield monotonic() - begun
        sleep(_PROBE_SECONDS)


@contextmanager
def _sending(
    server: Served, clients: int, statuses: "Counter[int]", took: dict[str, float]
) -> Iterator[threading.Event]:
    stop, lock = threading.Event(), threading.Lock()
    turns = iter(range(1 << 30))
    done, names = threading.Event(), list(SHAPES)
    # Written out beforehand: the clients must not take the time that the server needs.
    bodies = [[_written(SHAPES[name](seed)) for name in names] for seed in range(2)]

    def send() -> None:
        with httpx2.Client(
            base_url=server.url, timeout=120, headers=dict(server.client.headers)
        ) as client:
            while not stop.is_set():
                with lock:
                    turn = next(turns)
                round_, at = divmod(turn, len(names))
                path, body = bodies[round_ % 2][at]
                begun = monotonic()
                # Of a stream, only that it begins: the answer may take its time.
                with client.stream("POST", path, content=body, headers=_JSON) as answer:
                    status = answer.status_code
                with lock:
                    statuses[status] += 1
                    took[names[at]] = max(took.get(names[at], 0), monotonic() - begun)
                    if len(took) == len(names):
                        done.set()

    threads = [threading.Thread(target=send) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join()


_JSON = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",  # as MCP wants it
}


def _written(shape: Shape) -> tuple[str, bytes]:
    return shape[0], json.dumps(shape[1]).encode()


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def main() -> int:
    """Fuzz a server of its own, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        served(Path(home), options=UNLIMITED, workers=0, settings=SETTINGS) as server,
    ):
        found = fuzz(server, given.seconds, given.clients)
    print(json.dumps(asdict(found), indent=2))
    return int(found.p99 >= 100 or any(status >= 500 for status in found.statuses))


if __name__ == "__main__":
    sys.exit(main())
