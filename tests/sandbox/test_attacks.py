"""Programs that try to leave the sandbox, or to read a secret in it.

Each file in `attacks` is one.  It ends with status 0 if it got what it wanted.  All of them are run
by `forum run --confine`: as root and as an ordinary user, with a terminal and without one.  Outside
of the sandbox each of them succeeds, so that none fails here by a mistake of its own.
"""

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.sandbox.attacks._tools import NOT_HERE
from tests.sandbox.users import USER, as_user, is_root
from tests.surfaces.terminal import FORUM

FOLDER = Path(__file__).parent
ATTACKS = sorted(path.stem for path in (FOLDER / "attacks").glob("[a-z]*.py"))
USERS = ("root", "user") if is_root() else ("user",)
TERMINALS = ("a terminal", "none")
NOT_EVERYWHERE = {
    "call_by_numbers_of_i386", "call_by_numbers_of_x32", "make_a_socket_of_the_kernel",
    "reach_the_hypervisor", "read_keys_of_certificates",
}  # fmt: skip
"""Attacks on what some kernels and systems do not have."""
NOBODY = 65533
SESSION_KEY = "forum-attacked-key"
PEM = "-----BEGIN {}PRIVATE KEY-----\nbm90IGEga2V5\n-----END {}PRIVATE KEY-----\n"
LOG_KEY = "PRIVATE+KEY+example.com/log+00000000+" + "A" * 44
Results = dict[str, tuple[int, str]]


def make_secrets(folder: Path) -> None:
    """Put files into a project that programs must not read."""
    (folder / "work").mkdir()
    for name, text in {
        "notes/plain": "plain",
        "notes/deep/er/log.txt": LOG_KEY,
        "notes/deep/er/write.txt": f"forum/write-key/1\norigin a\nkey 00000000 {'+' * 43}=\n",
        ".env": "DATABASE_PASSWORD=hunter2\n",
        "service/.env.local": "DATABASE_PASSWORD=hunter2\n",
        "service/.envrc": "export DATABASE_PASSWORD=hunter2\n",
        "service/identity": PEM.format("OPENSSH ", "OPENSSH "),
        "service/server.pem": "subject=CN\n" + PEM.format("", ""),
        "work/kept/deep/.env": "DATABASE_PASSWORD=hunter2\n",
        "shapes/PROD.env": "DATABASE_PASSWORD=hunter2\n",
        "shapes/large/.env~": "DATABASE_PASSWORD=hunter2\n" * 4000,
        "shapes/linked/variables": "DATABASE_PASSWORD=hunter2\n",
        "shapes/bag": "Bag Attributes\n" + PEM.format("", ""),
        "shapes/account": json.dumps({"private_key": PEM.format("", "")}),
        "shapes/log": json.dumps({"key": LOG_KEY}),
        "shapes/aws": "[default]\naws_secret_access_key = abc\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "shapes/linked/.env").symlink_to("variables")
    os.mkfifo(folder / "service/pipe", 0o666)
    (folder / "link-to-outside").symlink_to("../outside")


@contextmanager
def reading(terminal: int) -> Iterator[bytearray]:
    """Read what is printed on a terminal, as a person would."""
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):
            while piece := os.read(terminal, 4096):
                shown.extend(piece)

    thread = Thread(target=read)
    thread.start()
    yield shown
    thread.join()


@contextmanager
def host() -> Iterator[dict[str, Any]]:
    """Have servers and a process on this machine that an attack may look for."""
    abstract = f"forum-attacked-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
        subprocess.Popen(["sleep", "3600.125"]) as process,
    ):
        local.bind("\0" + abstract)
        local.listen()
        yield {
            "port": server.getsockname()[1],
            "abstract": abstract,
            "process": process.pid,
            "process mark": "3600.125",
        }
        process.kill()


def private_folders() -> dict[str, tuple[int, int]]:
    """Return the folders of the system for private keys of certificates, and what they are."""
    paths = [path for top in ("/etc/ssl", "/etc/pki") for path in Path(top).rglob("private")]
    return {str(path): (path.stat().st_dev, path.stat().st_ino) for path in paths}


class AttackedProject:
    """A project of a user, with secrets in it."""

    def __init__(self, place: Path, user: str) -> None:
        self.place, self.folder = place, place / "project"
        self.owner = USER if user == "user" and is_root() else os.geteuid()
        (place / "home").mkdir()
        self.folder.mkdir()
        (place / "outside").write_text("OUTSIDE")
        make_secrets(self.folder)
        shutil.copytree(FOLDER / "attacks", self.folder / "attacks")
        for name in ("run_attacks.py", "begin_session.py"):
            shutil.copy(FOLDER / name, self.folder)
        for path in (place, *place.rglob("*")):
            os.chown(path, self.owner, self.owner, follow_symlinks=False)
        assert self.run([FORUM, "init"]) == 0
        settings = self.folder / "forum.toml"
        settings.write_text(settings.read_text().replace("[agents]", '[agents]\nwrite = ["work"]'))
        assert self.run([FORUM, "backup", "saved"]) == 0

    def run(self, argv: Sequence[str | Path], stream: int = subprocess.DEVNULL) -> int:
        """Run a command as the owner of the project."""
        prefix = as_user() if self.owner != os.geteuid() else []
        variables = {
            "HOME": str(self.place / "home"), "FORUM_STATE_DIR": str(self.place / "state"),
            "LANG": "C.UTF-8", "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        return subprocess.run(
            [*prefix, *map(str, argv)], cwd=self.folder, env=variables, timeout=600, check=False,
            stdin=stream, stdout=stream, stderr=stream,
        ).returncode  # fmt: skip

    def attack(self, command: Sequence[str | Path], *, with_terminal: bool) -> Results:
        """Run all attacks by a command, and return how they ended."""
        secrets = [".forum/log.key", ".forum/write.key", "forum.toml"]
        secrets += [str(path) for path in (self.place / "state").rglob("*.token")]
        mine, theirs = pty.openpty()
        shown = bytearray()
        with ExitStack() as stack:
            stack.callback(os.close, mine)
            document = stack.enter_context(host())
            document |= {
                "outside": str(self.place / "outside"),
                "live secrets": secrets,
                "secrets": [*secrets, "saved", ".env", "notes/deep/er/log.txt"],
                "session key": SESSION_KEY,
                "terminal": os.fstat(theirs).st_rdev if with_terminal else 0,
                "private folders": private_folders(),
            }
            (self.folder / "target.json").write_text(json.dumps(document))
            begin: list[str | Path] = [
                sys.executable,
                self.folder / "begin_session.py",
                SESSION_KEY,
            ]
            argv: list[str | Path] = [*begin, *command, sys.executable, "run_attacks.py"]
            with reading(mine) as shown:
                self.run(argv, theirs if with_terminal else subprocess.DEVNULL)
                os.close(theirs)
        file = self.folder / "work/results"
        assert file.exists(), shown.decode()
        results: Results = json.loads(file.read_text())
        return results


@contextmanager
def attacked(user: str) -> Iterator[AttackedProject]:
    """Make a project where every user can go."""
    place = Path(tempfile.mkdtemp(prefix="forum-attacked-"))
    place.chmod(0o755)
    try:
        yield AttackedProject(place, user)
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module", params=list(product(USERS, TERMINALS)), ids=" with ".join)
def confined(request: pytest.FixtureRequest) -> Results:
    """Return how all attacks ended in the sandbox."""
    user, terminal = request.param
    with attacked(user) as project:
        if project.owner == 0:
            os.chown(project.folder / "work", NOBODY, NOBODY)
        command: list[str | Path] = [FORUM, "run", "--confine", "--"]
        return project.attack(command, with_terminal=terminal == "a terminal")


@pytest.fixture(scope="module")
def unconfined() -> Results:
    """Return how all attacks ended outside of any sandbox."""
    with attacked("root") as project:
        return project.attack([], with_terminal=True)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_succeeds(confined: Results, attack: str) -> None:
    """Neither as root nor as a user, on a terminal or not."""
    status, output = confined[attack]

    assert status != 0, output
    assert "Traceback" not in output


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.skipif(not is_root(), reason="needs root, who may do everything")
def test_every_attack_succeeds_outside(unconfined: Results, attack: str) -> None:
    """One that fails by itself would say nothing of the sandbox."""
    status, output = unconfined[attack]

    assert status == 0 or (status == NOT_HERE and attack in NOT_EVERYWHERE), output
