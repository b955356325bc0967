"""What an operator meets: full disks, ports in use, databases that go away and come back."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from benchmarks.sides import process_cpu_seconds
from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.ledger.access import ApiKey
from forum.ledger.kinds import Scope
from forum.runs.plan import Plan, Task
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually, project
from tests.soak.cluster import scratch_database
from tests.support import free_port, wait_until
from tests.surfaces.halls import PROJECT, lone_hall, open_forum, showing
from tests.surfaces.serving import serving, stop
from tests.surfaces.terminal import FORUM, Terminal
from tests.surfaces.test_exposition import READERS

READY = "/readyz"


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder with a ledger."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    return made


# One sentence with a remedy


@pytest.mark.parametrize("command", ["serve", "up", "witness serve"])
def test_a_port_in_use_is_one_sentence(terminal: Terminal, command: str) -> None:
    """Whoever starts a second server reads which port it is, and how to choose another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = terminal.type(*command.split(), "--port", str(port))

    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == (
        f"error: cannot listen at 127.0.0.1 port {port}: another process listens there; "
        "choose another port with --port"
    )
    assert "Traceback" not in failed.stderr
    assert "Errno" not in failed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [0, 20])
def test_a_full_disk_is_one_sentence(terminal: Terminal, kilobytes: int) -> None:
    """Wherever in its start a process meets the end of the disk, it says so without a traceback.

    A limit on the size of files stands for the disk: the same calls fail, at the same places.
    """
    limited = ["prlimit", f"--fsize={kilobytes << 10}", str(FORUM)]
    failed = subprocess.run(
        [*limited, "up", "--port", "0"],
        cwd=terminal.folder,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert failed.returncode == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("error: ")
    assert re.search(r"\. (Check that its disk|Make room|Free some space)", line), line


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_one_sentence(terminal: Terminal) -> None:
    """The driver explains itself on several lines; the operator needs one, and what to do."""
    port = free_port()
    address = f"postgresql://nobody@127.0.0.1:{port}/nothing"
    failed = terminal.type("worker", FORUM_DATABASE_URL=address)

    assert failed.returncode == 1
    line = failed.stderr.splitlines()[-1]
    assert line.startswith("error: the ledger's database failed while connecting: ")
    assert line.endswith(" See that the server runs, and that address and password are right")
    assert "Traceback" not in failed.stderr


# Whether to send requests here


def test_a_server_is_ready_only_once_its_router_is(tmp_path: Path) -> None:
    """Whoever is sent a request before that lets its sender wait for a model to be loaded."""
    with open_forum(tmp_path) as forum:
        tenant, loaded = Tenant(forum), Event()
        tenant.registry.warm_up = lambda: None if loaded.wait(30) else fail()  # type: ignore[method-assign]
        with TestClient(make_app(ServerConfig([tenant])), "http://localhost") as client:
            before = client.get(READY)
            loaded.set()
            eventually(lambda: client.get(READY).status_code == 200)

    assert before.status_code == 503
    assert before.json()["detail"] == "the router is being loaded"


def fail() -> None:
    """Fail as a model does that cannot be read."""
    raise ValueError("no model here")


def test_every_ledger_of_a_server_must_be_ready(tmp_path: Path) -> None:
    """A balancer asks without a key: it cannot say whose ledger it means."""
    with open_forum(tmp_path / "one") as one, open_forum(tmp_path / "two") as two:
        desks = [Tenant(one), Tenant(two)]
        with TestClient(make_app(ServerConfig(desks)), "http://localhost") as client:
            eventually(lambda: client.get(READY).status_code == 200, 60)
            desks[1].log_follower.close()
            answer = client.get(READY)

    assert (answer.status_code, answer.json()["detail"]) == (503, "this process is about to end")


def test_a_router_that_cannot_be_loaded_is_told_to_operators(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every request would fail there: none may be sent, and the log says why."""
    with open_forum(tmp_path) as forum:
        tenant = Tenant(forum)
        tenant.registry.warm_up = fail  # type: ignore[method-assign]
        with TestClient(make_app(ServerConfig([tenant])), "http://localhost") as client:
            wait_until(lambda: tenant.warm_up_error == "the router cannot be loaded")
            answer = client.get(READY)

    assert answer.status_code == 503
    assert "the router cannot be loaded: ValueError: no model here" in caplog.text


@pytest.mark.slow
def test_the_first_request_after_readiness_loads_nothing_more(tmp_path: Path) -> None:
    """What a first request needs is there by then: the router, its models, the engine.

    It waited seconds for these.  The CPU of the server is counted, which others do not lengthen.
    """
    with project(tmp_path, None, PROJECT) as made, serving(made) as served:
        before = process_cpu_seconds(served.server.pid)
        taken = served.client.post("/api/v1/runs", json={"request": "Name three rivers."})
        used = process_cpu_seconds(served.server.pid) - before

    assert taken.status_code == 202
    assert used < 0.5


# A database that goes away


@contextmanager
def away(url: str, server: str) -> Iterator[None]:
    """Let nobody into a database, and throw out who is there."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        try:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            yield
        finally:
            db.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


@pytest.mark.postgres
@pytest.mark.slow
def test_a_lost_database_is_told_at_once_and_once(tmp_path: Path, postgres_url: str) -> None:
    """Balancers learn it within a second; the log has a line for the loss and one for the end."""
    with (
        scratch_database(postgres_url) as url,
        project(tmp_path, url, PROJECT) as made,
        made.worker(),
        serving(made) as served,
    ):
        eventually(lambda: "serves" in (tmp_path / "worker.log").read_text(), 30)
        waits: list[float] = []
        with away(url, postgres_url):
            lost = monotonic()
            while monotonic() - lost < 5:
                begun = monotonic()
                status = served.client.get(READY).status_code
                waits.append(monotonic() - begun)
                assert status == 503 or monotonic() - lost < 1.5
                sleep(0.1)
        eventually(lambda: served.client.get(READY).status_code == 200, 30)
        for log in ("serve.log", "worker.log"):
            eventually(lambda log=log: "is back" in (tmp_path / log).read_text(), 30)  # type: ignore[misc]
        served.submit()
        logs = [(tmp_path / log).read_text() for log in ("serve.log", "worker.log")]

    assert max(waits) < 1.0
    for log in logs:
        lines = [line for line in log.splitlines() if re.search(" (WARNING|ERROR|database)", line)]
        assert ["is away" in line for line in lines] == [True, False], log
        assert "the database is back after" in lines[1]
        assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line) for line in lines)


# What is counted and measured


def values(text: str) -> dict[str, float]:
    """Return the samples of an exposition, by name and labels, without the name of the ledger."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pairs = (line.rsplit(" ", 1) for line in lines)
    return {re.sub(r'ledger="[^"]*",?', "", name): float(value) for name, value in pairs}


@pytest.mark.slow
def test_a_worker_tells_what_it_did(tmp_path: Path) -> None:
    """Runs, calls, tokens and what waits: to a key of scope metrics, at a port of its own."""
    port = free_port()
    with project(tmp_path, None, PROJECT) as made:
        key = made.forum.access.grant("prometheus", {Scope.METRICS})
        submitter = made.forum.access.grant("ci", {Scope.SUBMIT})
        with made.worker("--metrics-port", str(port)):
            url = f"http://127.0.0.1:{port}/metrics"
            run = made.submit(one_task_order())
            made.end(run)
            eventually(lambda: scrape(url, key).status_code == 200, 30)
            eventually(lambda: "forum_runs_ended_total{" in scrape(url, key).text, 30)
            document = values(scrape(url, key).text)
            refused = [
                httpx2.get(url).status_code,
                scrape(url, "forum_x_y_z").status_code,
                scrape(url, submitter).status_code,
                scrape(url.replace("/metrics", "/api/v1/runs"), key).status_code,
            ]

    assert refused == [401, 401, 403, 404]
    assert document['forum_runs_ended_total{outcome="ok"}'] == 1
    assert sum(n for name, n in document.items() if name.startswith("forum_calls_total")) == 1
    assert document["forum_gates_waiting{}"] == document["forum_takeovers_total{}"] == 0
    assert document['forum_queue_age_seconds{queue="due"}'] < 60
    assert document["forum_sequencing_lag_seconds{}"] < 60
    assert any(name.startswith("forum_witness_age_seconds") for name in document)


@pytest.mark.slow
def test_a_server_without_a_worker_says_that_runs_wait(tmp_path: Path) -> None:
    """At its start and in each reply; it accepts all the same, and says when a worker has come."""
    ask = {"request": "Name three rivers."}
    with project(tmp_path, None, PROJECT) as made, serving(made) as served:
        alone = served.client.post("/api/v1/runs", json=ask)
        before = (made.home / "serve.log").read_text()
        with made.worker():
            eventually(lambda: served.client.post("/api/v1/runs", json=ask).json()["worker"], 60)
        after = (made.home / "serve.log").read_text()

    assert (alone.status_code, alone.json()["worker"]) == (202, False)
    assert "no worker is running, so accepted runs wait. Start one with `forum worker`" in before
    assert "a worker carries out its runs" in after


def scrape(url: str, key: ApiKey | str) -> httpx2.Response:
    """Ask for metrics, also where nobody listens yet."""
    try:
        return httpx2.get(url, headers=showing(key))
    except httpx2.TransportError:
        return httpx2.Response(599)


def one_task_order() -> RunRequest:
    """Return an order of one task for the agent of the project."""
    return RunRequest("Name three rivers.", Plan((Task("answer", "Name three rivers."),)))


def test_a_server_tells_what_waits_and_nothing_more_to_a_key_for_metrics(tmp_path: Path) -> None:
    """Whoever runs Prometheus sees no request, no answer and no key."""
    with lone_hall(tmp_path) as (forum, client):
        key = forum.access.grant("prometheus", {Scope.METRICS})
        eventually(lambda: client.get(READY).status_code == 200, 60)
        ask = {"request": "Pay 5.", "gates": {"what": ["plan"]}}
        taken = client.post(
            "/api/v1/runs", json=ask, headers=showing(forum.access.grant("ci", {Scope.SUBMIT}))
        )
        document = values(client.get("/metrics", headers=showing(key)).text)
        openmetrics = "application/openmetrics-text; version=1.0.0"
        answer = client.get("/metrics", headers={**showing(key), "Accept": openmetrics})
        families = list(READERS[openmetrics](answer.text))
        others = [
            client.get(path, headers=showing(key)).status_code
            for path in ("/api/v1/runs", "/api/v1/gates", "/api/v1/entries", "/api/v1/keys")
        ]

    assert taken.status_code == 202
    assert others == [403] * 4
    assert document["forum_runs_accepted_total{}"] == 1
    assert document['forum_queue_age_seconds{queue="due"}'] >= 0
    assert ("forum_runs_accepted", "counter") in {(each.name, each.type) for each in families}
    (times,) = [each for each in families if each.type == "histogram"]
    counts = {s.labels["le"]: s.value for s in times.samples if s.labels.get("le")}
    assert times.name == "forum_http_request_seconds"
    assert counts["+Inf"] >= counts["1.0"] >= counts["0.005"]


@pytest.mark.parametrize("command", [("up", "--port", "0"), ("worker",)])
def test_runs_of_before_are_told_of_in_json_too(terminal: Terminal, command: Sequence[str]) -> None:
    """A process that keeps a log writes everything into it: which runs it finds, for example."""
    run = terminal.call("submit", "hello", "--cmd", "cat", "--detach").stdout.strip()
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        forum.runs.interrupt(run)
    with subprocess.Popen(
        [str(FORUM), *command, "--log-format", "json"],
        cwd=terminal.folder,
        env=terminal.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        stop(process)

    messages = [json.loads(line)["message"] for line in lines]
    assert any(line.startswith(f"1 run is interrupted: {run[:18]}") for line in messages)


@pytest.mark.slow
def test_lines_of_the_log_are_json_where_that_is_asked_for(terminal: Terminal) -> None:
    """A collector takes each line for one object, with its time and its level."""
    command = [str(FORUM), "up", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(
        command, cwd=terminal.folder, env=terminal.environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        stop(process)

    assert line["message"].startswith("serving ")
    assert (line["level"], line["logger"]) == ("info", "forum")
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
