"""What a confined program sees: of files, of processes, of the network."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from forum.config import load_settings
from forum.engine import CallReply, ToolInvocation
from forum.errors import BadSettings, NotConfined
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.models.sandbox import Sandbox, make_sandbox
from forum.models.secret_paths import search_secrets
from forum.runs.policy import ToolSpec
from forum.stores.project_registry import Project, ProjectEpoch, ProjectRegistry
from tests.models.asking import use_tool
from tests.sandbox.users import REPOSITORY

OWNER = 61234
LOOK = """
import json, os, socket, sys

def reads(path):
    try:
        with open(path) as file:
            return file.read() or "empty"
    except OSError as error:
        return type(error).__name__

def writes(path):
    try:
        with open(path, "w") as file:
            file.write("mine")
        return True
    except OSError:
        return False

def hears(host, port):
    try:
        with socket.create_connection((host, port), 5) as peer:
            return peer.recv(100).decode()
    except OSError as error:
        return type(error).__name__

asked = json.load(sys.stdin)
print(json.dumps({
    "reads": {path: reads(path) for path in asked["reads"]},
    "writes": {path: writes(path) for path in asked["writes"]},
    "hears": [hears(host, port) for host, port in asked["hears"]],
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "environment": sorted(os.environ),
}))
"""


WAIT = """
import pathlib, time
pathlib.Path("work/ready").touch()
while not pathlib.Path("work/go").exists():
    time.sleep(0.02)
"""
"""What a program does first that is to look around after something has changed outside."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with secrets in it, and go there."""
    folder = tmp_path / "project"
    (folder / ".forum").mkdir(parents=True)
    (folder / ".forum/log.key").write_text("PRIVATE")
    (folder / "work").mkdir()
    (folder / "notes").write_text("plain")
    (folder / "model.key").write_text("PRIVATE")
    (tmp_path / "state/projects").mkdir(parents=True)
    (tmp_path / "state/projects/a.token").write_text("PRIVATE")
    (tmp_path / "elsewhere").write_text("PRIVATE")
    (folder / "look.py").write_text(LOOK)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SOME_API_KEY", "PRIVATE")
    monkeypatch.setenv("GIVEN", "yes")
    return folder


def sandbox_of(home: Path, lines: str = "") -> Sandbox:
    """Read a project file that confines, and return what does it."""
    model = '[models.a]\nurl = "http://127.0.0.1:1/v1"\nmodel = "m"\nkey_file = "model.key"\n'
    (home / "forum.toml").write_text(f"[agents]\nconfine = true\n{lines}\n{model}")
    if os.geteuid() == 0:
        # Root's programs run as the owner of the project, whoever made the files in it.
        for path in (home, *home.rglob("*")):
            os.chown(path, OWNER, OWNER, follow_symlinks=False)
    settings = load_settings(home, {"FORUM_STATE_DIR": str(home.parent / "state")})
    sandbox = make_sandbox(settings)
    assert sandbox is not None
    return sandbox


def use(tool: ToolSpec, sandbox: Sandbox | None, given: str = "") -> CallReply:
    """Use a tool once."""
    invocation = ToolInvocation(
        "run", task="task", step="step", tool="tool", arguments=text_content(given), key="key"
    )
    return use_tool(tool, invocation, sandbox)


def look(sandbox: Sandbox | None, **asked: object) -> dict[str, object]:
    """Let a program look around, and return what it has seen."""
    tool = ToolSpec((sys.executable, "look.py"))
    reply = use(tool, sandbox, json.dumps({"reads": [], "writes": [], "hears": [], **asked}))
    assert reply.outcome is Outcome.OK, b"".join(reply.error.chunks())
    seen: dict[str, object] = json.loads(b"".join(reply.output.chunks()))
    return seen


def look_after(change: Callable[[], None], sandbox: Sandbox, reads: list[str]) -> dict[str, str]:
    """Start a program, change something outside, and return what the program then reads."""
    Path("late.py").write_text(WAIT + LOOK)
    given = json.dumps({"reads": reads, "writes": [], "hears": []})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(use, ToolSpec((sys.executable, "late.py")), sandbox, given)
        while not Path("work/ready").exists() and not running.done():
            time.sleep(0.02)
        change()
        Path("work/go").touch()
        reply = running.result()
    assert reply.outcome is Outcome.OK, b"".join(reply.error.chunks())
    seen: dict[str, str] = json.loads(b"".join(reply.output.chunks()))["reads"]
    return seen


def run_script(script: str, sandbox: Sandbox) -> bytes:
    """Let a confined program run Python code, and return what it prints."""
    reply = use(ToolSpec((sys.executable, "-c", script)), sandbox)
    return b"".join((*reply.output.chunks(), *reply.error.chunks()))


def make_project(folder: Path, lines: str = "") -> None:
    """Make a project with keys as another one would have left it, unknown to any registry."""
    (folder / ".forum").mkdir(parents=True)
    (folder / ".forum/log.key").write_text("PRIVATE")
    (folder / "forum.toml").write_text(lines)
    (folder / "notes").write_text("plain")


def register_project(home: Path, folder: Path) -> None:
    """Have the state directory know a project, as `forum init` does."""
    place = (str(folder / ".forum"), "", str(folder / ".forum/log.key"))
    ProjectRegistry(home.parent / "state/projects").save(
        Project(*place, (ProjectEpoch("example", ("key",)),))
    )


@contextmanager
def greeting() -> Iterator[int]:
    """Greet whoever connects to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"hello")

        thread = Thread(target=greet, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_confined_program_sees_the_project_and_none_of_its_secrets(home: Path) -> None:
    """Keys, token, settings, keys of models, and what lies elsewhere are not there."""
    secrets = [
        home / ".forum/log.key", home / "forum.toml", home / "model.key",
        home.parent / "state/projects/a.token", home.parent / "elsewhere",
    ]  # fmt: skip
    paths = [str(path) for path in (*secrets, home / "notes")]
    sandbox = sandbox_of(home)
    confined, free = (look(how, reads=paths)["reads"] for how in (sandbox, None))

    assert isinstance(free, dict)
    assert isinstance(confined, dict)
    assert "FileNotFoundError" not in free.values()
    assert confined.pop(str(home / "notes")) == "plain"
    assert set(confined.values()) <= {"FileNotFoundError", "empty"}


def test_a_confined_program_writes_only_where_it_may(home: Path) -> None:
    """What it writes elsewhere would be read by others, or is its own and gone with it."""
    paths = ["notes", ".forum/log.key", "forum.toml", "look.py", "work/result"]
    seen = look(sandbox_of(home, 'write = ["work"]'), writes=paths)
    everywhere = look(sandbox_of(home, 'write = ["."]'), writes=paths)

    assert seen["writes"] == {path: path == "work/result" for path in paths}
    assert everywhere["writes"] == {
        path: path not in (".forum/log.key", "forum.toml") for path in paths
    }
    assert (home / "work/result").read_text() == "mine"
    assert (home / ".forum/log.key").read_text() == "PRIVATE"


def test_a_confined_program_knows_the_variables_that_were_named(home: Path) -> None:
    """Neither keys of providers nor anything of the worker."""
    seen = look(sandbox_of(home, 'env = ["GIVEN"]'))["environment"]

    assert isinstance(seen, list)
    assert {"GIVEN", "PATH", "FORUM_RUN"} <= set(seen)
    assert "SOME_API_KEY" not in seen


def test_a_confined_program_sees_no_other_process(home: Path) -> None:
    """The environment of the worker is in /proc."""
    alone, free = look(sandbox_of(home))["processes"], look(None)["processes"]

    assert isinstance(alone, int)
    assert isinstance(free, int)
    assert alone <= 3 < free


def test_a_confined_program_reaches_the_addresses_that_were_named_and_no_other(home: Path) -> None:
    """On this machine too: the server, the database and other agents are there."""
    with greeting() as named, greeting() as other:
        hears = [("127.0.0.1", named), ("127.0.0.1", other), ("localhost", named)]
        nothing = look(sandbox_of(home), hears=hears)
        lines = f'connect = ["127.0.0.1:{named}", "db.example:{other}"]'
        document = look(sandbox_of(home, lines), hears=hears)

    assert nothing["hears"] == ["ConnectionRefusedError"] * 3
    assert document["hears"] == ["hello", "ConnectionRefusedError", "hello"]


def test_a_name_leads_to_the_address_that_it_has_outside(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its own name, so that certificates fit; also at a port below 1024."""
    connect, where = socket.create_connection, []

    def connect_here(address: tuple[str, int], timeout: float) -> socket.socket:
        where.append(address)
        return connect(("127.0.0.1", port), timeout)

    with greeting() as port:
        sandbox = sandbox_of(home, 'connect = ["api.example:443"]')
        monkeypatch.setattr("forum.models.sandbox.socket.create_connection", connect_here)
        seen = look(sandbox, hears=[("api.example", 443), ("other.example", 443)])

    assert seen["hears"] == ["hello", "gaierror"]
    assert where == [("api.example", 443)]


def test_what_a_confined_program_leaves_running_is_gone_with_it(home: Path) -> None:
    """Also what has left its process group."""
    mark = home / "work/alive"
    script = "setsid sh -c 'while :; do date +%s%N > work/alive; sleep 0.05; done' & sleep 0.3"
    done = use(ToolSpec(("sh", "-c", script)), sandbox_of(home, 'write = ["work"]'))
    last = mark.read_text()
    use(ToolSpec(("sleep", "0.3")), None)

    assert done.outcome is Outcome.OK
    assert mark.read_text() == last


def test_a_program_that_the_confined_one_could_not_see_is_not_found(home: Path) -> None:
    """And the error says where to name it."""
    program = home.parent / "elsewhere"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    refused = use(ToolSpec((str(program),)), sandbox_of(home))
    reply = use(ToolSpec((str(program),)), sandbox_of(home, f'read = ["{program}"]'))

    assert refused.code == "not-found"
    assert b"[agents] read" in b"".join(refused.error.chunks())
    assert reply.outcome is Outcome.OK


def test_nothing_is_run_where_it_cannot_be_confined(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was to confine does not start without."""
    sandbox = sandbox_of(home)
    sandbox.check_usable()
    monkeypatch.setenv("PATH", str(home))

    with pytest.raises(NotConfined, match="apt install bubblewrap"):
        sandbox.check_usable()


def test_a_secret_that_is_replaced_while_a_program_runs_stays_hidden(home: Path) -> None:
    """A mount over a file, or over a folder, is gone as soon as another takes its name."""

    def replace() -> None:
        for name in ("forum.toml", "model.key", "keys/log.key"):
            Path(f"{name}.new").write_text("PRIVATE")
            Path(f"{name}.new").replace(name)
        Path(".forum").rename(".forum.old")
        Path("keys").rename("older")
        for name in (".forum", "keys"):
            Path(name).mkdir()
            Path(name, "log.key").write_text("PRIVATE")

    (home / "keys").mkdir()
    (home / "keys/log.key").write_text("PRIVATE")
    (home / "keys/notes").write_text("plain")
    sandbox = sandbox_of(home, 'write = ["work"]\n[keys]\nlog = "keys/log.key"')
    secrets = ["forum.toml", "model.key", ".forum/log.key", ".forum.old/log.key"]
    secrets += ["keys/log.key", "older/log.key"]
    seen = look_after(replace, sandbox, [*secrets, "keys/notes"])

    assert seen.pop("keys/notes") == "plain"
    assert set(seen.values()) <= {"FileNotFoundError", "empty"}


def test_a_confined_program_cannot_move_the_folder_of_a_secret(home: Path) -> None:
    """The next program would find the secret under a name that nobody hides."""
    (home / "keys/old").mkdir(parents=True)
    (home / "keys/old/log.key").write_text("PRIVATE")
    sandbox = sandbox_of(home, 'write = ["."]\n[keys]\nlog = "keys/old/log.key"')
    moves = [("keys", "taken"), ("keys/old", "keys/taken"), ("keys/old", "work/taken")]
    errors = [run_script(f"import os; os.rename{names}", sandbox) for names in moves]
    seen = look(sandbox, reads=[f"{taken}/log.key" for _, taken in moves])["reads"]

    assert all(b"OSError" in error for error in errors)
    assert isinstance(seen, dict)
    assert set(seen.values()) == {"FileNotFoundError"}
    assert (home / "keys/old/log.key").read_text() == "PRIVATE"


def test_a_folder_with_a_secret_takes_no_new_entry_and_says_so(home: Path) -> None:
    """What a program wrote there would be lost without a word; elsewhere it is kept."""
    seen = look(sandbox_of(home, 'write = ["."]'), writes=["new", "work/new"])

    assert seen["writes"] == {"new": False, "work/new": True}
    assert (home / "work/new").read_text() == "mine"


def test_nothing_is_run_if_a_secret_is_not_where_it_was_named(home: Path) -> None:
    """It may have been moved to where programs can read it."""
    sandbox = sandbox_of(home)
    sandbox.check_usable()
    (home / "model.key").rename(home / "moved")

    with pytest.raises(NotConfined, match=r"model\.key does not exist.*put it back"):
        sandbox.check_usable()
    refused = use(ToolSpec(("cat", "moved")), sandbox)
    assert (refused.outcome, refused.code) == (Outcome.FAILED, "not-confined")
    assert b"PRIVATE" not in b"".join(refused.output.chunks())


def test_old_versions_and_drafts_of_a_secret_are_hidden_with_it(home: Path) -> None:
    """`forum keys rotate-log` leaves the old key beside the new one, editors leave drafts."""
    copies = ["log.key.rotated-00", "log.key.next", "log.key.new", "log.0", ".log.key.swp"]
    (home / "keys").mkdir()
    for name in ("log.key", *copies):
        (home / "keys" / name).write_text("PRIVATE")
    (home / "keys/log.keyboard").write_text("plain")
    sandbox = sandbox_of(home, '[keys]\nlog = "keys/log.key"')
    seen = look(sandbox, reads=[f"keys/{name}" for name in (*copies, "log.keyboard")])["reads"]

    assert isinstance(seen, dict)
    assert seen.pop("keys/log.keyboard") == "plain"
    assert set(seen.values()) <= {"FileNotFoundError", "empty"}


def test_a_link_shows_nothing_that_its_target_would_not(home: Path) -> None:
    """Neither one beside a secret nor one on the way to it."""
    (home / "vault").mkdir()
    (home / "vault/log.key").write_text("PRIVATE")
    (home / "keys").symlink_to("vault")
    (home / "out").symlink_to(home.parent / "elsewhere")
    (home / "in").symlink_to("notes")
    sandbox = sandbox_of(home, '[keys]\nlog = "keys/log.key"')
    seen = look(sandbox, reads=["keys/log.key", "vault/log.key", "out", "in"])["reads"]

    assert seen == {
        "keys/log.key": "empty",
        "vault/log.key": "empty",
        "out": "FileNotFoundError",
        "in": "plain",
    }


def test_a_secret_among_the_files_of_the_system_is_hidden(home: Path) -> None:
    """Keys of certificates are often kept in /etc/ssl, of which programs need the rest."""
    assert look(sandbox_of(home), reads=["/etc/passwd"])["reads"] != {"/etc/passwd": "empty"}
    sandbox = sandbox_of(home, '[server]\ntls_key = "/etc/passwd"')

    assert look(sandbox, reads=["/etc/passwd"])["reads"] == {"/etc/passwd": "FileNotFoundError"}


def test_secrets_of_other_projects_in_the_folder_are_hidden(home: Path) -> None:
    """Those that are known wherever they lie, and unknown ones down to some levels."""
    near, path = home / "a/b/c", home / "work/1/2/3/4/5"
    for folder in (near, path):
        make_project(folder, '[keys]\nwrite = "own/write.key"\n')
        (folder / "own").mkdir()
        (folder / "own/write.key").write_text("PRIVATE")
    register_project(home, path)
    secrets = ("forum.toml", ".forum/log.key", "own/write.key")
    sandbox = sandbox_of(home, 'read = ["work/1"]')
    for folder in (near, path):
        seen = look(sandbox, reads=[str(folder / name) for name in (*secrets, "notes")])["reads"]
        assert isinstance(seen, dict)
        assert seen.pop(str(folder / "notes")) == "plain"
        assert set(seen.values()) <= {"FileNotFoundError", "empty"}


@pytest.mark.parametrize("known_by", ["record", "search"])
def test_nothing_is_run_that_could_move_another_project(home: Path, known_by: str) -> None:
    """What is in a folder that programs may change is nowhere safe from them."""
    child = home / ("work/1/2/3/4/5" if known_by == "record" else "work/child")
    make_project(child)
    if known_by == "record":
        register_project(home, child)
    sandbox_of(home).check_usable()

    with pytest.raises(NotConfined, match=r"keys of Forum.*\[agents\] write"):
        sandbox_of(home, 'write = ["work"]').check_usable()


def test_nothing_is_run_if_the_other_projects_are_not_known(home: Path) -> None:
    """A record that cannot be read may be of a project in the folder."""
    sandbox = sandbox_of(home)
    (home.parent / "state/projects/b.json").write_text("{")

    with pytest.raises(NotConfined, match=r"b\.json"):
        sandbox.check_usable()


def test_a_folder_with_a_secret_among_too_many_files_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is a mount; the error says what to do."""
    monkeypatch.setattr("forum.models.mounts.MAX_ENTRIES", 5)

    with pytest.raises(NotConfined, match="leave at most 5 there"):
        sandbox_of(home).check_usable()


@pytest.mark.parametrize(
    "line",
    [
        "confine = 1", 'connect = ["example.com"]', 'connect = ["192.0.2.1:80"]',
        'connect = ["a b:80"]', 'connect = ["a:0"]', 'read = "/usr"', "env = [1]",
        "sandbox = true",
    ],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    """An address by its number has no name that a program could ask for."""
    (tmp_path / "forum.toml").write_text(f"[agents]\n{line}\n")

    with pytest.raises(BadSettings, match=r"\[agents\]"):
        load_settings(tmp_path, dict(os.environ))


@pytest.mark.parametrize(
    "lines",
    [
        'write = ["work"]\nread = ["work/a/input"]',
        'write = ["work", "work/a"]',
    ],
)
def test_no_folder_is_bound_below_one_that_programs_may_change(home: Path, lines: str) -> None:
    """A program would put a link in its way, and the next one would see any folder of the host."""
    (home / "work/a/input").mkdir(parents=True)

    with pytest.raises(NotConfined, match=r"which programs may change.*beside each other"):
        sandbox_of(home, lines).command(("true",))


def test_a_link_in_the_way_of_a_bound_folder_is_not_followed(home: Path) -> None:
    """A program of another project may have put it there after the folders were checked."""
    (home / "data/input").mkdir(parents=True)
    sandbox = sandbox_of(home, 'read = ["data/input"]')
    argv = sandbox.command(("cat", "data/input/elsewhere"))
    shutil.rmtree(home / "data")
    (home / "data").mkdir()
    (home / "data/input").symlink_to(home.parent)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "PRIVATE" not in done.stdout
    assert "a link took the place" in done.stderr


LOG_KEY = "PRIVATE+KEY+example.com/log+00000000+" + "A" * 44
WRITE_KEY = "forum/write-key/1\norigin example.com/log\nkey 00000000 " + "A" * 43 + "=\n"
PEM_HEADER = "-----BEGIN PRIVATE KEY-----"
PEM_KEY = f"{PEM_HEADER}\nMIIE\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
SECRET_FILES = {
    "a": f"{LOG_KEY}\n",
    "deep/1/2/3/4/5/b": WRITE_KEY,
    "c": "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
    "d.pem": CERTIFICATE + "-----BEGIN EC PRIVATE KEY-----\nAAAA\n",
    "deep/.env": "PASSWORD=1\n",
    "old/data/log.key": "anything",
    **dict.fromkeys(
        (".env.production", ".env~", ".env-prod", ".env_local", ".ENV", "prod.env", "#.env#"),
        "PASSWORD=1\n",
    ),
    "large/.env": "PASSWORD=1\n" * 10_000,
    "linked/variables": "PASSWORD=1\n",
    "key after a blank line": f"\n{PEM_KEY}",
    "key after a mark": f"\N{ZERO WIDTH NO-BREAK SPACE}{PEM_KEY}",
    "key with attributes": f"Bag Attributes\n    friendlyName: x\n{PEM_KEY}",
    "key after a certificate": CERTIFICATE * 100 + PEM_KEY,
    "key with lines of Windows": PEM_KEY.replace("\n", "\r\n"),
    "encrypted key": f"{PEM_HEADER}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\nMIIE\n",
    "key in a manifest": f"data:\n  key: |\n    {PEM_HEADER}\n    MIIE\n",
    "key in a shell script": f'KEY="{PEM_HEADER}\nMIIE\n"\n',
    "account.json": json.dumps({"type": "service_account", "private_key": PEM_KEY}),
    "other.json": json.dumps({"signer": f"{PEM_HEADER}\n{'A' * 64}\n"}),
    "aws": "[default]\naws_access_key_id = A\naws_secret_access_key = abc\n",
    "aws.json": json.dumps({"SecretAccessKey": "a" * 40}),
    "age": "# created: today\nAGE-SECRET-KEY-1" + "Q" * 58,
    "log key after a blank line": f"\n{LOG_KEY}",
    "log key.json": json.dumps({"key": LOG_KEY}),
    "write key after a blank": f" {WRITE_KEY}",
    "write key.json": json.dumps({"key": WRITE_KEY}),
    "token": "token=forum-operator_" + "0" * 64,
    "large file": LOG_KEY + " " * 100_000,
}
PLAIN_FILES = {
    "deep/.env.example": "PASSWORD=\n",
    "example.env": "PASSWORD=\n",
    ".environment": "plain",
    "guide.md": f"A key begins so:\n{PEM_HEADER}\n",
    "longer guide.md": f"{PEM_HEADER}\nMIIE...\n",
    "tests.py": f'assert key.startswith("{PEM_HEADER}\\nMIIE")\nlog = "PRIVATE+KEY+x"\n',
    "s3.py": "client(aws_secret_access_key=settings.aws_secret_access_key)\n",
    "cert.pem": CERTIFICATE,
    "environment": "plain",
}


def write_files(home: Path, files: dict[str, str]) -> None:
    """Put files into a project."""
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def test_secrets_are_hidden_by_what_is_in_them(home: Path) -> None:
    """Wherever they are and whatever they are called; a backup is hidden whole."""
    write_files(home, SECRET_FILES | PLAIN_FILES)
    (home / "linked/.env").symlink_to("variables")
    (home / "old/manifest.json").write_text('{"v":"forum/backup/1","release":"0.2.0"}')
    seen = look(sandbox_of(home), reads=[*SECRET_FILES, *PLAIN_FILES])["reads"]

    assert isinstance(seen, dict)
    shown = {name for name in SECRET_FILES if seen[name] not in {"empty", "FileNotFoundError"}}
    assert shown == set()
    assert {name: seen[name] for name in PLAIN_FILES} == PLAIN_FILES


def test_a_program_hides_no_file_of_the_project_by_a_link(home: Path) -> None:
    """It may make a link in its own folder that is called like a file with variables."""
    (home / "work/.env").symlink_to("../notes")

    sandbox = sandbox_of(home, 'write = ["work"]')
    assert look(sandbox, reads=["notes"])["reads"] == {"notes": "plain"}


@pytest.mark.parametrize("top", ["src", "docs", "tests/models", "tests/sandbox"])
def test_the_source_of_forum_has_no_key_in_it(top: str) -> None:
    """It names the headers of keys, and agents that work on it must see it."""
    found_secrets = search_secrets([REPOSITORY / top], (), ())

    # A compiled test has the strings whole that its source puts together.
    assert [secret.path for secret in found_secrets if not str(secret.path).endswith(".pyc")] == []


def test_a_file_that_is_named_is_shown_unless_it_is_a_key_of_forum(home: Path) -> None:
    """The operator may want a program to have the variables, but never the keys of the log."""
    write_files(home, SECRET_FILES)
    sandbox = sandbox_of(home, 'read = ["deep/.env", "c", "a"]')
    seen = look(sandbox, reads=["deep/.env", "c", "a", ".env.production"])["reads"]

    assert isinstance(seen, dict)
    assert (seen["deep/.env"], seen["c"]) == (SECRET_FILES["deep/.env"], SECRET_FILES["c"])
    assert {seen["a"], seen[".env.production"]} <= {"empty", "FileNotFoundError"}


def test_a_program_works_beside_a_covered_file_and_cannot_move_it(home: Path) -> None:
    """A file with variables is common where programs work."""
    write_files(home, {"work/.env": "PASSWORD=1\n"})
    sandbox = sandbox_of(home, 'write = ["work"]')
    seen = look(sandbox, reads=["work/.env"], writes=["work/new"])
    moved = run_script("import os; os.rename('work/.env', 'work/moved')", sandbox)

    assert (seen["reads"], seen["writes"]) == ({"work/.env": "empty"}, {"work/new": True})
    assert b"OSError" in moved
    assert (home / "work/.env").read_text() == "PASSWORD=1\n"


def test_a_program_cannot_move_a_folder_that_leads_to_a_covered_file(home: Path) -> None:
    """Another program that is just being started would cover the file in its old place."""
    write_files(home, {"work/a/b/.env": "PASSWORD=1\n", "work/a/new": ""})
    sandbox = sandbox_of(home, 'write = ["work"]')
    for moved in ("work/a", "work/a/b"):
        assert b"busy" in run_script(f"import os; os.rename('{moved}', '{moved}c')", sandbox)

    seen = look(sandbox, reads=["work/a/b/.env"], writes=["work/a/b/.env", "work/a/b/new"])
    assert seen["reads"] == {"work/a/b/.env": "empty"}
    assert seen["writes"] == {"work/a/b/.env": False, "work/a/b/new": True}


@pytest.mark.parametrize("changed", ["moved", "replaced"])
def test_nothing_is_run_if_a_secret_is_moved_before_it_is_covered(home: Path, changed: str) -> None:
    """The path of the secret would be covered, and the secret itself not."""
    write_files(home, {"work/a/.env": "PASSWORD=1\n"})
    sandbox = sandbox_of(home, 'write = ["work"]')
    argv = sandbox.command(("cat", "work/b/.env"))
    (home / "work/a").rename(home / "work/b")
    if changed == "replaced":
        write_files(home, {"work/a/.env": "PASSWORD=2\n"})
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert "PASSWORD" not in done.stdout
    assert re.search(r"the sandbox cannot be made: .*work/a", done.stderr)


def test_nothing_is_run_if_a_program_may_have_closed_a_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would open the folder again once the search has passed it."""
    (home / "work/a").mkdir()
    sandbox, scan = sandbox_of(home, 'write = ["work"]'), os.scandir

    def refuse(path: Path) -> object:
        if path == home / "work/a":  # root may list every folder, whatever its mode
            raise PermissionError
        return scan(path)

    monkeypatch.setattr("os.scandir", refuse)

    with pytest.raises(NotConfined, match=r"work/a cannot be searched.*make it readable"):
        sandbox.command(("true",))


def test_sockets_and_named_pipes_of_the_project_are_hidden(home: Path) -> None:
    """Processes of the host listen there.  Those in a program's own folder are its own."""
    for folder in ("", "deep", "work"):
        (home / folder).mkdir(exist_ok=True)
        os.mkfifo(home / folder / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(home / folder / "socket"))
    script = """
import os, stat
for folder in (".", "deep", "work"):
    for name in ("pipe", "socket"):
        print(stat.filemode(os.stat(f"{folder}/{name}").st_mode)[0], end="")
"""

    assert run_script(script, sandbox_of(home, 'write = ["work"]')) == b"----ps"


def test_a_program_inherits_only_its_streams(home: Path) -> None:
    """Root's programs had a descriptor of their user namespace."""
    script = "import os; print(os.listdir('/proc/self/fd'))"

    assert run_script(script, sandbox_of(home)).strip() == b"['0', '1', '2', '3']"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose programs become another user")
def test_a_named_pipe_keeps_its_owner(home: Path) -> None:
    """Only pipes without a name are the program's own."""
    sandbox = sandbox_of(home)
    os.mkfifo(home.parent / "fifo")
    with (home.parent / "fifo").open("r+b", buffering=0) as pipe:
        subprocess.run(sandbox.command(("true",)), stdin=pipe, check=True)

    assert (home.parent / "fifo").stat().st_uid == 0


def test_nothing_is_run_that_could_move_a_key_of_forum(home: Path) -> None:
    """A copy of a key is as good as the key."""
    write_files(home, {"work/saved": SECRET_FILES["a"]})

    with pytest.raises(NotConfined, match=r"work/saved has keys of Forum.*\[agents\] write"):
        sandbox_of(home, 'write = ["work"]').command(("true",))


@pytest.mark.parametrize("made", ["work/.forum/", "work/sub/.forum/", "work/.forum/notes"])
def test_a_program_stops_no_other_by_a_folder_that_is_called_like_data(
    home: Path, made: str
) -> None:
    """The name alone is no secret; a key in such a folder is."""
    (home / made).parent.mkdir(parents=True, exist_ok=True)
    (home / made).mkdir() if made.endswith("/") else (home / made).write_text("plain")
    sandbox = sandbox_of(home, 'write = ["work"]')
    sandbox.check_usable()
    folder = (home / made) if made.endswith("/") else (home / made).parent
    (folder / "old.key").write_text(SECRET_FILES["a"])

    with pytest.raises(NotConfined, match="has keys of Forum"):
        sandbox.command(("true",))


def test_nothing_is_run_if_there_is_too_much_to_search(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fills its folder must not keep the rest from being searched."""
    monkeypatch.setattr("forum.models.secret_paths.MAX_SEARCHED", 5)

    with pytest.raises(NotConfined, match="more than 5 files"):
        sandbox_of(home).command(("true",))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose programs become another user")
def test_a_folder_that_roots_programs_could_not_use_is_refused(home: Path) -> None:
    """They run as another user, and the error says as whom."""
    sandbox = sandbox_of(home, 'write = ["work"]')
    for path in (home, home / "work"):
        os.chown(path, 0, 0)

    with pytest.raises(NotConfined, match=r"run as user 65533, which may not write to .*/work"):
        sandbox.command(("true",))


def test_a_value_that_looks_like_an_option_stays_a_value(home: Path) -> None:
    """A link in the project has a target that a program may have chosen."""
    (home / "link").symlink_to("--bind")
    hidden = str(Path.home() / ".ssh")
    script = f"import os; print(os.readlink('link'), os.path.exists({hidden!r}))"

    assert run_script(script, sandbox_of(home)).split() == [b"--bind", b"False"]
