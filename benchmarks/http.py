"""`python -m benchmarks http`: taking requests on over HTTP, while a worker carries them out.

Three servers are asked by the same clients (`benchmarks.load`), one after the other; each is one
process, and a client waits for each answer.  One more client asks every 50 ms whether the
server lives.  The last line that is printed is one JSON object.

forum         `forum serve` on Postgres with a ledger that is not small, and one `forum worker` of
              lower priority; the agent is scripted and takes 20 ms.  Requests are routed by words.
              A run is accepted when the 202 is here, and has ended when its close is recorded;
              both times are in its entries.
without a worker  the same server alone, to tell what the worker takes from it.
bare          a starlette handler that inserts one row of the same size (`benchmarks.bare_http`),
              before and after Forum; the ratio is to the mean of both.
forum_engine  its own `/submit`, which answers when the run has ended, by the size of its ledger;
              of its calls only that of the task takes 20 ms, the others none.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
import msgspec
import psycopg

from benchmarks import ledger, reference
from benchmarks.ledger import fill, say
from benchmarks.load import NUMBER, Load, Told, milliseconds
from forum.app import Forum, upgrade_database
from forum.config import load_settings
from forum.ledger.entry import MAIN_STRAND
from tests.soak.cluster import scratch_database

MODEL_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
STOP_SECONDS = 15.0
PROBE_SECONDS = 0.05
LOOK_SECONDS = 0.02

PROJECT = f"""
[roster]
rung = "lexical"

[models.default]
kind = "scripted"
moves."*" = [{{ say = "It is fine.", milliseconds = {MODEL_SECONDS * 1000:.0f} }}]
"""
REQUEST = f"Summarise report {NUMBER} in one sentence."


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks http")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long Forum is asked")
    parser.add_argument("--lane", default="", help="name the lane, so that nobody looks for it")
    options = parser.parse_args(arguments)
    sizes = Sizes(64, options.seconds, entries=100_000, reference=(100, 100_000), lane=options.lane)
    with tempfile.TemporaryDirectory() as scratch, scratch_database(ledger.URL) as url:
        figures = measure(Path(scratch), url, sizes)
    if not options.json:
        for name, value in figures.items():
            print(f"{name:<28} {value}")
    print(json.dumps(figures))


@dataclass(frozen=True)
class Sizes:
    """How much is done; the others are asked for a third of the time."""

    clients: int
    seconds: float
    entries: int
    reference: tuple[int, ...]
    lane: str = ""

    @property
    def body(self) -> str:
        """What every server is asked; each reads of it what it knows."""
        named = {"lane": self.lane} if self.lane else {}
        return json.dumps({"request": REQUEST, **named})

    @property
    def briefly(self) -> float:
        """For how long the others are asked."""
        return self.seconds / 3


def measure(folder: Path, url: str, sizes: Sizes) -> dict[str, Any]:
    """Return all figures; what a reader compares with the goals comes first."""
    say(f"writing a ledger of {sizes.entries} entries")
    project = Project(folder / "project", url, sizes.entries)
    with project.serving() as server:
        size = project.size_of(server, sizes.body)
        target = Target(server.port, "/api/v1/runs")
        bare = [bare_figures(url, size, sizes)]
        say("forum with a worker")
        with project.working() as worker:
            since = time.time_ns() // 1000
            ours = asked(target, sizes, sizes.seconds, server, worker)
            completion = project.completion(since)
        say("forum without a worker")
        alone = asked(target, sizes, sizes.briefly, server)
        bare.append(bare_figures(url, size, sizes))
    theirs = [reference_figures(folder, entries, sizes) for entries in sizes.reference]
    rate = sum(row["per_s"] for row in bare) / len(bare)
    return {
        "accepted_p99_ms": ours["p99_ms"],
        "bare_ratio": round(ours["per_s"] / rate, 3),
        "livez_p99_ms": ours["livez_p99_ms"],
        "accepted_per_s": ours["per_s"],
        "accepted_p50_ms": ours["p50_ms"],
        "bare_ratio_without_worker": round(alone["per_s"] / rate, 3),
        "clients": sizes.clients,
        "seconds": sizes.seconds,
        "entries": sizes.entries,
        "lane": sizes.lane,
        "bytes_of_a_request": size,
        "completion": completion,
        "forum": ours,
        "forum_without_worker": alone,
        "bare": bare,
        "forum_engine": theirs,
    }


def bare_figures(url: str, size: int, sizes: Sizes) -> dict[str, Any]:
    """Ask the bare handler."""
    say("the bare handler")
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_http", url, str(port), str(size)]
    with Process(command, port) as server:
        server.wait("/livez")
        return asked(Target(port, "/runs"), sizes, sizes.briefly, server)


def reference_figures(folder: Path, entries: int, sizes: Sizes) -> dict[str, Any]:
    """Ask forum-engine with a ledger of this many entries."""
    say(f"forum-engine with {entries} entries")
    home = folder / f"forum-engine-{entries}"
    with Process(reference.server_command(home, entries, MODEL_SECONDS)) as server:
        server.port = int(server.line())
        target = Target(server.port, "/submit", "/health", "200")
        figures = asked(target, sizes, sizes.briefly, server)
    return {"version": reference.VERSION, "entries": entries, **figures}


# Servers


class Process:
    """A process that serves until it is stopped."""

    def __init__(
        self,
        command: list[str],
        port: int = 0,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **(environ or {})},
        )

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout
        return self._process.stdout.readline().decode().strip()

    def wait(self, path: str) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(httpx2.HTTPError):  # it is not there, or not ready
                httpx2.get(self._url(path), trust_env=False).raise_for_status()
                return
            time.sleep(LOOK_SECONDS)
        raise AssertionError(f"{self._process.args!r} does not answer")

    def post(self, path: str, body: str) -> None:
        """Ask for something once."""
        headers = {"Content-Type": "application/json"}
        with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
            client.post(self._url(path), content=body, headers=headers).raise_for_status()

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        # Nothing is measured any more, and whoever is killed leaves nothing undone for good.
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=STOP_SECONDS)
        self._process.kill()
        self._process.communicate()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


class Step(msgspec.Struct, frozen=True):
    """What is looked at of an entry."""

    step: str
    ts: int


_COMMITTED = """
SELECT sum(octet_length(bytes)) + (
    SELECT sum(octet_length(data) + octet_length(salt)) FROM forum.body b WHERE b.strand = e.strand
)
FROM forum.entry e WHERE strand = (SELECT max(id) FROM forum.strand) GROUP BY strand
"""
_FIRST_AND_LAST = """
SELECT accepted.bytes, latest.bytes FROM forum.strand s
JOIN forum.entry accepted ON accepted.log = s.log AND accepted.strand = s.id AND accepted.n = 1
CROSS JOIN LATERAL (
    SELECT bytes FROM forum.entry e WHERE e.log = s.log AND e.strand = s.id ORDER BY n DESC LIMIT 1
) AS latest
WHERE s.name = %s
"""


class Project:
    """A project whose ledger is alone in its database, and the processes that serve it."""

    def __init__(self, folder: Path, url: str, entries: int) -> None:
        folder.mkdir()
        (folder / "forum.toml").write_text(PROJECT)
        self._folder, self._url = folder, url
        self._environ = {"FORUM_DATABASE_URL": url, "FORUM_STATE_DIR": str(folder / "state")}
        settings = load_settings(folder, self._environ)
        upgrade_database(settings)
        with Forum(settings) as forum:
            forum.keys.initialise()
            fill(forum, entries)

    @contextmanager
    def serving(self) -> Iterator[Process]:
        """Have one server, for as long as it is needed."""
        port = free_port()
        # Without a key, so that what is measured is what it takes to accept a request.
        words = ("serve", "--port", str(port), "--open-loopback", "--rate", "1000000")
        with self._forum(*words, port=port) as server:
            server.wait("/livez")
            yield server

    @contextmanager
    def working(self) -> Iterator[Process]:
        """Have one worker, for as long as it is needed."""
        with self._forum("worker", "--json") as worker:
            assert worker.line(), "the worker does not start"
            yield worker

    def _forum(self, *words: str, port: int = 0) -> Process:
        # A worker is nice to the server beside it, as its unit in deploy/ has it.
        nice = ["nice", "-n", "10"] if "worker" in words else []
        command = [*nice, sys.executable, "-m", "forum", *words]
        return Process(command, port, self._folder, self._environ)

    def size_of(self, server: Process, body: str) -> int:
        """Return how many bytes of entries and bodies are committed to accept a request."""
        server.post("/api/v1/runs", body)
        with psycopg.connect(self._url) as db:
            row = db.execute(_COMMITTED).fetchone()
        assert row
        return int(row[0])

    def completion(self, since: int) -> dict[str, Any]:
        """Return how many runs were accepted and have ended since a moment, and how fast."""
        took, accepted = [], 0
        with psycopg.connect(self._url) as db:
            for pair in db.execute(_FIRST_AND_LAST, (MAIN_STRAND,)):
                first, last = (msgspec.json.decode(data, type=Step) for data in pair)
                if first.step == "accepted" and first.ts >= since:
                    accepted += 1
                    took += [(last.ts - first.ts) / 1e6] if last.step == "run/close" else []
        return {
            "accepted": accepted,
            "ended": len(took),
            "p50_ms": milliseconds(took, 0.5),
            "p99_ms": milliseconds(took, 0.99),
        }


# Clients


@dataclass(frozen=True)
class Target:
    """Where a server is asked, and what it says if it does what it is asked for."""

    port: int
    path: str
    lives: str = "/livez"
    status: str = "202"


def asked(target: Target, sizes: Sizes, seconds: float, *servers: Process) -> dict[str, Any]:
    """Have a server asked by all clients, and told of by one more; `servers` do the work."""
    Clients(
        Load(target.port, target.path, sizes.body, clients=4, seconds=min(seconds, 0.3))
    ).told()  # warms up
    before = [server.cpu_seconds() for server in servers]
    load = Clients(Load(target.port, target.path, sizes.body, sizes.clients, seconds=seconds))
    probe = Clients(
        Load(
            target.port, path=target.lives, body="", clients=1, seconds=seconds, pause=PROBE_SECONDS
        )
    )
    result, lives = load.told(), probe.told()
    spent = [server.cpu_seconds() - old for server, old in zip(servers, before, strict=True)]
    assert set(result.statuses) == {target.status}, result
    return {
        **msgspec.to_builtins(result),
        "livez_p50_ms": lives.p50_ms,
        "livez_p99_ms": lives.p99_ms,
        "server_cpu_seconds": round(spent[0], 2),
        "server_cpu_ms_per_answer": round(1000 * spent[0] / result.answers, 3),
        "worker_cpu_seconds": [round(cpu, 2) for cpu in spent[1:]],
    }


class Clients:
    """A process in which clients ask."""

    def __init__(self, load: Load) -> None:
        command = [sys.executable, "-m", "benchmarks.load", msgspec.json.encode(load).decode()]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def told(self) -> Told:
        """Wait until they have ended, and return what they saw."""
        out, _ = self._process.communicate()
        return msgspec.json.decode(out, type=Told)
