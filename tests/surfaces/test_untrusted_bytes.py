"""One client cannot stop or fill a server, whatever it sends to whatever route.

`just limits` has more shapes and prints a table.  Here the CPU time of the thread of the event loop
is measured, which does not depend on what else the machine does.
"""

import ast
import re
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from forum.features.gateway import call_reader
from forum.features.gateway import http as gateway
from forum.features.telemetry import decoding
from forum.limits import admission, json_values, off_loop, worker_processes
from forum.limits.shares import divide
from forum.surfaces.http import auth
from tests.soak.limits import (
    MAX_RSS_BYTES,
    MB,
    Attacked,
    attack_bodies,
    attack_held,
    attacked,
    quantile,
)
from tests.test_repository import package_sources

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/limits.md"
MAX_BYTES = 4 << 20
LEFT_OUT = frozenset({"dense objects", "many members", "escapes", "junk"})
"""Shapes that show nothing here which others do not show; `just limits` has them."""
MAX_LOOP_S_PER_MB = 0.03
"""CPU time of the event loop for a megabyte of a body: receiving it, and nothing else."""
MAX_LOOP_S = 0.12
"""CPU time of the event loop for a request, beside that."""
IDLE_LOAD = 0.03
"""What the event loop does without requests, as a part of the time: an accepted run is waited for,
and nobody carries it out."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Serve two ledgers by one process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with attacked(tmp_path_factory.mktemp("attacked")) as made:
        yield made


@pytest.mark.slow
def test_no_route_reads_a_large_body_on_the_event_loop(server: Attacked) -> None:
    """Every route of the table is attacked, and so is one that is added later."""
    assert len(server.targets) > 60
    slow = {}
    for target in server.targets:
        smaller = replace(target, max_bytes=min(target.max_bytes, MAX_BYTES))
        for name, body in smaller.bodies(without=LEFT_OUT):
            before, begun = server.loop_cpu(), monotonic()
            status = server.post(target, body, seconds=15)
            took = server.loop_cpu() - before - IDLE_LOAD * (monotonic() - begun)
            if took > MAX_LOOP_S + MAX_LOOP_S_PER_MB * len(body) / MB:
                slow[f"{target.method} {target.path}, {name}, {len(body)}"] = (status, took)

    assert not slow


@pytest.mark.slow
def test_a_key_that_takes_all_it_may_have_keeps_nobody_else_out(server: Attacked) -> None:
    """Connections, streams, and bodies in memory: others are answered, and so are probes."""
    chat = server.find("POST", "/gateway/openai/v1/chat/completions")
    runs = server.find("POST", "/api/v1/runs")
    with server.watched() as alone:
        pass
    with server.watched() as figures:
        answers = attack_held(server, runs, 250, 1.0)
        uploads = attack_held(server, chat, 12, 1.0)
        attack_bodies(server, chat, 2)

    assert re.search(r"429x\d+ heldx\d+", answers)
    assert "429x" in uploads
    assert not figures.failed
    assert figures.rss < MAX_RSS_BYTES
    # Compared with the same machine a moment ago: it may be busy.
    assert quantile(figures.livez, 0.5) < 50 + 10 * quantile(alone.livez, 0.5)


def test_only_the_pipeline_reads_bodies() -> None:
    """Whoever reads a body elsewhere reads it past the limits.

    The servers of a witness, and of one program under `forum run`, have limits of their own.
    """
    reading = re.compile(r"(\w+\.)*_?request\.(stream|body|json|form)")
    readers = {
        path
        for path, source in package_sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and reading.fullmatch(ast.unparse(node.func))
    }

    assert readers == {
        "surfaces/http/admission.py",
        "features/telemetry/routes.py",  # of the runs of one program
        "features/witness/server.py",
    }


def test_the_memory_limit_is_that_of_the_unit() -> None:
    """What is measured here is what an operator gets."""
    unit = (ROOT / "deploy/systemd/forum-server.service").read_text()

    assert "\nMemoryMax=1G\n" in unit
    assert MAX_RSS_BYTES == 1 << 30


def test_the_page_of_limits_has_the_numbers_of_the_code() -> None:
    """Operators plan with them."""
    page, mib = PAGE.read_text(), 1 << 20

    def row(name: str) -> str:
        return next(line for line in page.splitlines() if line.startswith(f"| {name}"))

    assert f"{auth.DEFAULT_MAX_BODY_BYTES // mib} MiB" in row("body of a request")
    assert f"{admission.MAX_CALL_BYTES // mib} MiB" in row("body of a model call")
    assert f"{decoding.MAX_BODY_BYTES // mib} MiB" in row("OpenTelemetry")
    assert f"{json_values.MAX_LARGE_BODY_VALUES:,};" in row("values")
    assert f"{call_reader.MAX_CALL_VALUES:,} in a model call" in row("values")
    assert f"{admission.BODY_TIMEOUT_S:.0f} s" in row("time for a body")
    assert f"{worker_processes.MAX_CPU_S} s" in row("time to read")
    assert f"{worker_processes.MAX_MEMORY_BYTES // mib} MiB" in row("time to read")
    assert f"{off_loop.MAX_INLINE_BYTES:,} bytes" in page
    assert f"{off_loop.MAX_THREAD_BYTES >> 10} KiB is read in another process" in page
    assert f"after {worker_processes.IDLE_SECONDS:.0f} seconds" in page
    one, two, many = (admission.Admission(count) for count in (1, 2, 100))
    for name, meters in (
        ("open requests", (one.requests, two.requests, many.requests)),
        ("event streams", (one.streams, two.streams, many.streams)),
        ("MiB of bodies", (one.bodies, two.bodies, many.bodies)),
    ):
        unit = mib if name.startswith("MiB") else 1
        ledgers = " / ".join(f"{meter.shares.ledger // unit:,}" for meter in meters)
        total, key = meters[0].shares.total // unit, meters[0].shares.key // unit
        assert row(name).endswith(f"| {total:,} | {key:,} | {ledgers} |")
    runs = f"| | {gateway.MAX_KEY_RUNS:,} | {gateway.MAX_OPEN_RUNS:,} |"
    assert row("runs of the gateway").endswith(runs)
    assert divide(10, 1).key == 1
