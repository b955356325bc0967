"""A tenant gets a Postgres role of its own, and nothing of the operator's."""

import socket
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import psycopg
import pytest

from forum.app.logs_worker import LogsWorker, open_together
from forum.config import Settings
from forum.errors import BadSettings
from tests.e2e.project import Project, project
from tests.e2e.test_many_logs import call
from tests.soak.cluster import scratch_database
from tests.support import fresh_origin, upgraded
from tests.surfaces.command_server import run_command

pytestmark = pytest.mark.postgres


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """Return a database whose roles are removed with it."""
    with scratch_database(postgres_url) as url:
        yield upgraded(url)


def type_as_tenant(home: Project, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command in the folder of a tenant, without what the operator's environment names."""
    environ = {k: v for k, v in home.environ.items() if k != "FORUM_DATABASE_URL"}
    return run_command(arguments, home.home / "tenants" / name, environ)


def address_of(home: Project, name: str) -> str:
    """Return the address of the database in the file of a tenant."""
    file = home.home / "tenants" / name / "forum.toml"
    assert file.stat().st_mode & 0o077 == 0
    return str(tomllib.loads(file.read_text())["database"]["url"])


def test_a_tenant_is_let_into_its_own_log(tmp_path: Path, database: str) -> None:
    """Its file has the address of a role that sees no other log, and commands work with it."""
    with project(tmp_path / "project", database, runner="claims") as home:
        made = [call(home, "tenant", "add", name) for name in ("red", "blue")]
        first = address_of(home, "red")
        submitted = type_as_tenant(home, "red", "submit", "ours", "--cmd", "cat")
        verified = type_as_tenant(home, "red", "ledger", "verify")
        with psycopg.connect(first) as db:
            origins = [row[0] for row in db.execute("SELECT origin FROM forum.log")]
        again = call(home, "tenant", "add", "red")
        unchanged = address_of(home, "red")
        role = call(home, "tenant", "role", "red")["access"]["role"]
        later = type_as_tenant(home, "red", "runs")

    assert [each["access"]["statements"] for each in made] == ["", ""]
    assert urlsplit(first).username == role == made[0]["access"]["role"]
    assert (submitted.returncode, verified.returncode) == (0, 0), verified.stdout
    assert origins == [made[0]["tenant"]["origin"]]
    assert (again["access"], unchanged) == (None, first)
    assert later.returncode == 0
    assert "ours" in later.stdout


def test_the_address_of_the_operator_is_replaced(tmp_path: Path, database: str) -> None:
    """As release 0.2 wrote it into the files of tenants."""
    with project(tmp_path / "project", database, runner="claims") as home:
        call(home, "tenant", "add", "red")
        file = home.home / "tenants/red/forum.toml"
        file.write_text(f'[database]\nurl = "{database}"\n\n[models.m]\nurl = "http://127.0.0.1"\n')
        call(home, "tenant", "role", "red")
        settings = tomllib.loads(file.read_text())

    assert urlsplit(settings["database"]["url"]).username != urlsplit(database).username
    assert settings["models"]["m"]["url"] == "http://127.0.0.1"


@contextmanager
def thief() -> Iterator[tuple[int, list[bytes]]]:
    """Serve as a database that asks each client for its password; yield the port and answers."""
    answers: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                with client:
                    client.settimeout(5)
                    if client.recv(8).endswith(b"\x04\xd2\x16\x2f"):  # SSLRequest
                        client.sendall(b"N")
                    client.recv(4096)
                    client.sendall(b"R\0\0\0\x08\0\0\0\x03")  # AuthenticationCleartextPassword
                    answers.append(client.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], answers
        server.shutdown(socket.SHUT_RDWR)


def settings_in(folder: Path, database: str) -> Settings:
    """Return the settings of a project."""
    data = folder / "ledger"
    return Settings(
        data,
        state=folder / "state",
        key_file=data / "log.key",
        origin=fresh_origin(),
        database=database,
    )


def serve(projects: list[Settings]) -> None:
    """Open the logs of projects, as a server does."""
    with open_together(projects) as forums:
        for forum in forums:
            forum.keys.initialise()


def test_no_address_of_a_tenant_gets_the_password_of_the_operator(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a password in the address, libpq sends the one of the environment."""
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with thief() as (port, answers):
        operator = settings_in(tmp_path / "operator", database)
        tenant = settings_in(tmp_path / "red", f"postgresql://me@127.0.0.1:{port}/mine")
        with pytest.raises(BadSettings, match="databases of the operator"):
            serve([operator, tenant])
        serve([operator])
        with pytest.raises(BadSettings, match="databases of the operator"):
            LogsWorker([operator, tenant])

    assert answers == []


def test_a_process_of_the_operator_connects_as_the_operator(tmp_path: Path, database: str) -> None:
    """Wherever the file of a tenant names the same database, by whatever role."""
    operator = settings_in(tmp_path / "operator", database)
    address = urlsplit(database)
    url = address._replace(netloc=f"red:secret@{address.hostname}:{address.port}").geturl()
    with open_together([operator, settings_in(tmp_path / "red", url)]) as forums:
        addresses = [forum.settings.database for forum in forums]

    assert addresses == [database, database]
