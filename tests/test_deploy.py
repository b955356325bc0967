"""What is in `deploy/` fits the program, keeps secrets in files, and gives nobody more than needed.

There is no engine of containers here and no systemd: what they would be told is read as they read
it, and what they would start is put before the command line.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest
import yaml

from forum.ledger.secret_mask import is_secret_name
from forum.surfaces.cli import cli
from tests.docs.pages import ROOT
from tests.support import free_port, wait_until
from tests.surfaces.terminal import FORUM, Terminal

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
GUIDES = [*sorted((ROOT / "docs/guides").glob("on-*.md")), ROOT / "docs/guides/kubernetes.md"]

BLOCK = re.compile(r"^```(?:console|sh|text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"(?:docker compose run --rm \w+ |ExecStart=/opt/forum/bin/)?(forum [^>]+)")
CREDENTIAL, SOME_FILE = re.compile(r"\$\{CREDENTIALS_DIRECTORY\}/.*"), ROOT / "LICENSE"

REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
"""A variable of the compose file without which nothing is started."""

HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "KillSignal": "SIGTERM",
    "TimeoutStopSec": "30",
    "Restart": "on-failure",
}

Service = dict[str, Any]


def instructions() -> list[tuple[str, str]]:
    """Return what the Dockerfile says, as pairs of a word and what stands behind it."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def compose() -> dict[str, Any]:
    """Return the compose file as it is read where no variable is set."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (DEPLOY / "compose.yaml").read_text())
    text = REQUIRED.sub("sha256:0", text)
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def services() -> dict[str, Service]:
    """Return the services that are made of our image."""
    return {name: one for name, one in compose()["services"].items() if one["image"] == "forumd"}


def unit(path: Path) -> dict[str, str]:
    """Return how a unit is to be run; of a setting that is there twice, the last."""
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return dict(parser["Service"])


# What is started


def started() -> Iterator[tuple[str, list[str]]]:
    """Yield every command of ours that something in `deploy/` starts."""
    yield "Dockerfile", json.loads(dict(instructions())["CMD"])
    for name, service in services().items():
        command = service["command"]
        if name == "worker-keys":  # it copies two files
            continue
        yield name, shlex.split(command) if isinstance(command, str) else command
    for path in UNITS:
        yield path.name, shlex.split(unit(path)["ExecStart"].replace("$WITNESS_LOGS", ""))


def told() -> Iterator[tuple[str, list[str]]]:
    """Yield every command of ours that the guides of deployment have their readers type."""
    for page in GUIDES:
        text = page.read_text().replace("\\\n", " ")
        lines = [line for block in BLOCK.findall(text) for line in block.split("\n")]
        parts = [part for line in lines for part in re.split(r"[|;&()]+", line.removeprefix("$ "))]
        for part in parts:
            if typed := TYPED.match(part.strip()):
                words = shlex.split(typed[1], comments=True)
                yield page.name, [CREDENTIAL.sub(str(SOME_FILE), word) for word in words]


@pytest.mark.parametrize(
    "argv", [pytest.param(argv, id=f"{where}: {' '.join(argv)}") for where, argv in started()]
)
def test_what_is_started_is_a_command_of_ours(argv: list[str]) -> None:
    """A renamed option would otherwise be found by whoever deploys the next release."""
    parse(argv)


@pytest.mark.parametrize(
    "argv", [pytest.param(argv, id=f"{where}: {' '.join(argv)}") for where, argv in told()]
)
def test_what_the_guides_tell_is_a_command_of_ours(argv: list[str]) -> None:
    """Most of these lines need root and a machine of their own: so at least they are read."""
    parse(argv)


def parse(argv: list[str]) -> None:
    """Have the command line read a command, without calling it."""
    assert Path(argv[0]).name == "forum"
    command: click.Command = cli
    words, context = argv[1:], click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"forum has no {words[0]}"
        command, words = found, words[1:]
    command.make_context(command.name, words).close()


# Who has what


def test_no_secret_stands_in_a_file() -> None:
    """What is here is published: secrets are files that are named, and never their content."""
    every = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    variables = [pair for one in compose()["services"].values() for pair in environment(one)]
    secret = {
        name: value for name, value in variables if is_secret_name(name.removesuffix("_FILE"))
    }

    assert [path for path in every if re.search(r"://[^\s/@]+:[^\s/@]+@", path.read_text())] == []
    assert secret == {"POSTGRES_PASSWORD_FILE": "/run/secrets/postgres-password"}
    assert all(set(one) == {"file"} for one in compose()["secrets"].values())
    assert not any(is_secret_name(name) for name in [*built_with(), *set_in_units()])


def test_the_files_of_secrets_are_never_committed() -> None:
    """They lie beside the compose file, where `git add --all` would find them."""
    files = [DEPLOY / one["file"] for one in compose()["secrets"].values()] + [DEPLOY / ".env"]

    ignored = subprocess.check_output(["git", "check-ignore", *files], cwd=ROOT, text=True)

    assert ignored.split() == [str(path) for path in files]


def environment(service: Service) -> list[tuple[str, str]]:
    """Return the variables that a service is given."""
    return list(service.get("environment", {}).items())


def built_with() -> Iterator[str]:
    """Yield the variables of the image and of its build."""
    for word, rest in instructions():
        if word in ("ARG", "ENV"):
            yield from (pair.partition("=")[0] for pair in shlex.split(rest))


def set_in_units() -> Iterator[str]:
    """Yield the variables that units set, but for those that name a file of a credential."""
    for path in UNITS:
        pairs = [pair.partition("=") for pair in unit(path).get("Environment", "").split()]
        yield from (name for name, _, value in pairs if not value.startswith("%d/"))


def test_only_this_machine_reaches_what_is_published() -> None:
    """Docker opens a published port past the firewall; so it is bound to the loopback address."""
    published = {
        name: one["ports"] for name, one in compose()["services"].items() if "ports" in one
    }

    assert published == {"server": ["127.0.0.1:8080:8080"]}


def test_the_units_listen_on_the_loopback_address() -> None:
    """A server that speaks TLS stands before them, or somebody decides otherwise."""
    hosts = [re.findall(r"--host (\S+)", unit(path)["ExecStart"]) for path in UNITS]

    assert sorted(hosts) == [[], *[["127.0.0.1"]] * 3]


def test_one_service_signs() -> None:
    """The guard is where the state is.  Two states would be two memories of what was signed."""
    mounts = {name: document.get("volumes", []) for name, document in services().items()}
    state = {name for name, found in mounts.items() if "state:/var/lib/forum-state" in found}
    writes_key = {name for name, found in mounts.items() if "key:/var/lib/forum/.forum" in found}
    reads_key = {name for name, found in mounts.items() if "key:/var/lib/forum/.forum:ro" in found}

    assert state == {"init", "server"}
    assert writes_key == {"init"}
    assert reads_key == {"server", "worker-keys"}


def test_workers_have_no_key_that_signs() -> None:
    """Programs of agents run as their user; whoever holds log.key can sign any history."""
    (copying,) = [document for name, document in services().items() if name == "worker-keys"]
    assert [Path(word).name for word in copying["command"][2:-1]] == ["write.key", "log.pub"]
    assert "worker-keys:/var/lib/forum/.forum:ro" in services()["worker"]["volumes"]

    worker = unit(DEPLOY / "systemd/forum-worker@.service")
    server = unit(DEPLOY / "systemd/forum-server.service")
    seen = worker["BindReadOnlyPaths"].split()
    assert worker["TemporaryFileSystem"] == "/etc/forum/.forum:ro"
    assert [Path(path).name for path in seen] == ["write.key", "log.pub"]
    assert worker["StateDirectory"] != server["StateDirectory"]


def test_the_compose_file_has_what_it_promises() -> None:
    """Two workers, a database that keeps what it acknowledged, and an order to start in."""
    every = compose()["services"]
    waits = {name: set(one.get("depends_on", {})) for name, one in every.items()}

    assert every["worker"]["deploy"]["replicas"] == 2
    assert {"fsync=on", "synchronous_commit=on"} <= set(every["postgres"]["command"])
    assert "postgres:/var/lib/postgresql/data" in every["postgres"]["volumes"]
    assert waits["upgrade"] == {"postgres"}
    assert waits["init"] == {"upgrade"}
    assert waits["server"] == {"postgres", "init"}
    assert waits["worker"] == {"postgres", "init", "worker-keys"}


def test_what_the_compose_file_uses_is_declared() -> None:
    """A name that is nowhere declared is refused at the first start, on somebody else's machine."""
    whole = compose()
    for kind in ("secrets", "networks"):
        used = {name for one in whole["services"].values() for name in one.get(kind, [])}
        assert used == set(whole[kind])
    mounted = {
        mount.split(":")[0]
        for one in whole["services"].values()
        for mount in one.get("volumes", [])
    }
    assert {name for name in mounted if not name.startswith("./")} == set(whole["volumes"])
    assert all((DEPLOY / name).exists() for name in mounted if name.startswith("./"))


# What they may do


@pytest.mark.parametrize("name", services())
def test_a_container_has_no_more_rights_than_it_needs(name: str) -> None:
    """Whoever gets in finds nothing to write to and no way to become root."""
    service = services()[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", compose()["services"])
def test_a_container_cannot_take_all_memory_or_processes(name: str) -> None:
    """An agent that leaks or forks for ever is ended, and the database beside it is not."""
    service = compose()["services"][name]

    assert re.fullmatch("[1-9][0-9]*g", service["mem_limit"])
    assert 0 < service["pids_limit"] <= 2048


def test_images_are_named_by_digests_that_somebody_has_looked_up() -> None:
    """A tag is whatever its registry says today; and a digest that nobody looked up is worse."""
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    text = (DEPLOY / "compose.yaml").read_text()
    pulled = [one["image"] for one in compose()["services"].values() if one["image"] != "forumd"]
    arguments = [rest for word, rest in instructions() if word == "ARG"]

    assert bases == ["python:3.13-slim@${PYTHON_DIGEST}"] * 2
    assert arguments[0] == "PYTHON_DIGEST"
    assert pulled == ["postgres:17@sha256:0"]
    assert set(REQUIRED.findall(text)) == {"PYTHON_DIGEST", "POSTGRES_DIGEST"}
    assert not re.search("sha256:[0-9a-f]{64}", text + (DEPLOY / "Dockerfile").read_text())


def test_the_image_does_not_run_as_root() -> None:
    """The last word on it, and by number: some platforms do not believe names."""
    words = instructions()
    last = max(place for place, (word, _) in enumerate(words) if word == "FROM")

    assert [rest for word, rest in words[last:] if word == "USER"] == ["10001:10001"]
    assert "/livez" in dict(words)["HEALTHCHECK"]


def test_the_image_is_installed_by_hashes() -> None:
    """Each call of pip says so; the wheel that was just built comes from no index."""
    runs = [part for word, rest in instructions() if word == "RUN" for part in rest.split("&&")]
    installs = [part for part in runs if " install " in part and "pip" in part]

    assert len(installs) == 3
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)


def test_the_build_is_given_what_it_copies_and_no_more() -> None:
    """The list of what may go in is short, and begins with nothing."""
    ignored = [
        line
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")
        if line and not line.startswith("#")
    ]
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }

    assert ignored[0] == "*"
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)
    assert not any(fnmatch(".forum/log.key", pattern) for pattern in let_in)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.name))
def test_a_unit_is_hardened(path: Path) -> None:
    """It runs as nobody else, writes nowhere but to its state, and is given time to end."""
    settings = unit(path)

    assert {name: settings.get(name) for name in HARDENED} == HARDENED
    assert settings.get("User", "root") != "root" or settings["DynamicUser"] == "yes"
    assert "StateDirectory" in settings
    assert {"MemoryHigh", "MemoryMax", "TasksMax"} <= settings.keys()


DENY_WRITE_EXECUTE = """
import ctypes, mmap, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, as MemoryDenyWriteExecute= does
    sys.exit(77)
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    sys.exit("it is not denied")
except PermissionError:
    os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
def test_a_server_runs_without_memory_that_is_written_and_executed(tmp_path: Path) -> None:
    """Every library that it loads does without; the unit denies it."""
    denied = {path.name for path in UNITS if unit(path).get("MemoryDenyWriteExecute") == "yes"}
    assert denied == {f"forum-{name}.service" for name in ("gateway", "server", "witness")}
    terminal, port = Terminal(tmp_path), free_port()
    (terminal.folder / "forum.toml").write_text('[models.default]\nkind = "scripted"\n')
    assert terminal.call("init").exit_code == 0
    serve = [str(FORUM), "serve", "--open-loopback", "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, "-c", DENY_WRITE_EXECUTE, *serve],
        cwd=terminal.folder, env=terminal.environment, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            root = f"http://127.0.0.1:{port}"
            wait_until(lambda: process.poll() is not None or _answers(root))
            # A large body is read in a process of its own.
            asked = httpx2.post(f"{root}/api/v1/runs", json={"request": "x" * 2_000_000})
            assert asked.status_code == 202
        finally:
            process.terminate()
        assert process.wait(30) == 0


def _answers(root: str) -> bool:
    try:
        return httpx2.get(f"{root}/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def test_only_the_worker_itself_is_told_to_stop() -> None:
    """A signal to its agents would kill calls that are paid for, which it lets end."""
    assert unit(DEPLOY / "systemd/forum-worker@.service")["KillMode"] == "mixed"
