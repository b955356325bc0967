"""What `deploy/compose.yaml` starts is run as processes; and its standby has every commit."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
import yaml

from tests.deployed.containers import (
    Container,
    Host,
    Mount,
    copy_secret,
    image_probe,
    image_variables,
)
from tests.docs.pages import ROOT
from tests.e2e.project import eventually
from tests.soak.cluster import Cluster, scratch_database, server_binaries
from tests.support import free_port

DEPLOY = ROOT / "deploy"
PATIENCE_S = 60.0
Service = dict[str, Any]


def read_compose(name: str) -> dict[str, Any]:
    """Return a compose file as it is read where no variable is set."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (DEPLOY / name).read_text())
    document: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:\?[^}]+\}", "sha256:0", text))
    return document


SERVICES: dict[str, Service] = read_compose("compose.yaml")["services"]
STANDBY = read_compose("compose.standby.yaml")


def read_container(name: str, host: Host) -> Container:
    """Return the container of a service; services share the volumes of one name."""
    service = SERVICES[name]
    mounts = [Mount(f"/run/secrets/{each}", "secrets", each) for each in service.get("secrets", ())]
    for volume in service.get("volumes", ()):
        source, path, *_ = volume.split(":")
        if source.startswith("./"):
            copy_secret(DEPLOY, host.volume("files"), source)
            mounts.append(Mount(path, "files", source.removeprefix("./")))
        else:
            mounts.append(Mount(path, source))
    command = service["command"]
    words = shlex.split(command) if isinstance(command, str) else command
    variables = image_variables() | service.get("environment", {})
    return Container(name, tuple(words), tuple(mounts), variables)


def probe_of(name: str) -> tuple[str, ...]:
    """Return the command by which a service says whether it is healthy; none if it has none."""
    check = SERVICES[name].get("healthcheck", {})
    if check.get("disable"):
        return ()
    return tuple(check["test"][1:]) if "test" in check else image_probe()


def is_healthy(host: Host, name: str) -> bool:
    """Run the probe of a service as it would be run in its container."""
    container = read_container(name, host)
    probe = Container(name, probe_of(name), container.mounts, container.variables)
    return host.status(probe) == 0


@pytest.mark.postgres
def test_every_command_and_probe_of_compose_is_run(tmp_path: Path, postgres_url: str) -> None:
    """In the order in which services wait for each other."""
    with scratch_database(postgres_url) as url:
        host = Host(tmp_path, {"FORUM_DATABASE_URL": url})
        (host.volume("secrets") / "pgpass").write_text("*:*:*:forum:secret\n")
        with host.stack:
            for name in ("upgrade", "init", "worker-keys"):
                host.run(read_container(name, host))
            running = {
                name: host.start(read_container(name, host))
                for name in ("server", "worker", "witness")
            }
            for name, process in running.items():
                if probe_of(name):
                    eventually(lambda name=name: is_healthy(host, name), seconds=PATIENCE_S)  # type: ignore[misc]
                assert process.poll() is None
            eventually(
                lambda: "serves" in (tmp_path / "worker.log").read_text(), seconds=PATIENCE_S
            )
            kept = {path.name for path in host.volume("worker-keys").iterdir()}
            for name, process in running.items():
                process.terminate()
                assert process.wait(30) in (0, -15), (tmp_path / f"{name}.log").read_text()
                assert host.written_outside_of_mounts(name) == []
        started = {"upgrade", "init", "worker-keys", *running}

    assert kept == {"write.key", "log.pub"}
    assert started == {name for name, document in SERVICES.items() if document["image"] == "forumd"}


def test_the_standby_is_made_of_what_the_primary_is() -> None:
    """Another version could not follow it."""
    standby = STANDBY["services"]["standby"]
    mounted = [
        volume.split(":")[0]
        for service in STANDBY["services"].values()
        for volume in service.get("volumes", ())
    ]

    assert standby["image"] == SERVICES["postgres"]["image"]
    assert standby["networks"] == SERVICES["postgres"]["networks"]
    assert all((DEPLOY / name).is_file() for name in mounted if name.startswith("./"))
    assert standby["command"] == ["sh", "/standby.sh", "postgres"]
    assert all(os.access(DEPLOY / name, os.X_OK) for name in mounted if name.startswith("./"))


@pytest.mark.postgres
def test_a_commit_waits_until_the_standby_has_it(tmp_path: Path) -> None:
    """The scripts that make it are run, and what was acknowledged is there after a failover."""
    binaries = server_binaries()
    assert binaries
    with Cluster() as primary:
        environment = os.environ | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PGDATA": str(primary.data),
            "POSTGRES_USER": "postgres",
            "POSTGRES_DB": "test",
        }
        place = psycopg.conninfo.conninfo_to_dict(primary.url)
        with psycopg.connect(primary.url, autocommit=True) as db:
            db.execute("CREATE ROLE forum SUPERUSER LOGIN")
            db.execute("CREATE TABLE kept (n integer)")
        subprocess.run(
            ["sh", DEPLOY / "postgres/allow-standby.sh"],
            env=environment | {"PGHOST": "127.0.0.1", "PGPORT": str(place["port"])},
            check=True, capture_output=True,
        )  # fmt: skip
        primary.restart("fast")
        waiting = Thread(target=insert, args=(primary.url, 1))
        waiting.start()
        eventually(lambda: count_waiting(primary.url) == 1)
        folder = primary.folder / "standby"
        folder.mkdir()
        (folder / "password").write_text("secret")
        port = free_port()
        with standing_by(primary, folder, port, environment | {"PGDATA": str(folder / "copy")}):
            url = psycopg.conninfo.make_conninfo(primary.url, port=port)
            eventually(lambda: follows(primary.url), seconds=PATIENCE_S)
            waiting.join(PATIENCE_S)
            insert(primary.url, 2)
            primary.stop()
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("SELECT pg_promote()")
                found = db.execute("SELECT n FROM kept ORDER BY n").fetchall()

    assert found == [(1,), (2,)]


@contextmanager
def standing_by(
    primary: Cluster, folder: Path, port: int, environment: Mapping[str, str]
) -> Iterator[None]:
    """Run the script of the standby as the user of the database."""
    user: list[str] = []
    if os.geteuid() == 0:
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    script = folder / "standby.sh"
    shutil.copyfile(DEPLOY / "postgres/standby.sh", script)  # the user may not read our folders
    source = psycopg.conninfo.conninfo_to_dict(primary.url)
    variables = {"PASSWORD_FILE": str(folder / "password"), "PGPORT": str(port)}
    with (primary.folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*user, "sh", script, f"127.0.0.1 port={source['port']}"],
            env={**environment, **variables}, stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def insert(url: str, number: int) -> None:
    """Insert a row, and return when that is acknowledged."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("INSERT INTO kept VALUES (%s)", (number,))


def count_waiting(url: str) -> int:
    """Return how many commits wait for a standby."""
    with psycopg.connect(url) as db:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        row = db.execute(query).fetchone()
    return int(row[0]) if row else 0


def follows(url: str) -> bool:
    """Return whether a standby has the commits of a primary before they are acknowledged."""
    with psycopg.connect(url) as db:
        rows = db.execute("SELECT application_name, sync_state FROM pg_stat_replication").fetchall()
    return ("standby", "sync") in rows
