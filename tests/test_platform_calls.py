"""The Linux way and the portable way do the same, and no other module knows the difference.

The portable way is tested on Linux, in processes from which the calls of Linux were taken away.
"""

import ast
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from forum import platform_calls
from tests import without_linux
from tests.support import wait_until
from tests.surfaces.terminal import FORUM, Terminal
from tests.test_repository import package_sources
from tests.without_linux.sitecustomize import LINUX_ONLY

LINUX_MODULES = {"platform_calls.py", "models/sandbox_start.py"}
"""The second is a script, and runs only where programs can be confined."""
HELD = "sk-held-by-the-parent"


@pytest.fixture(params=["linux", "portable"])
def variables(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the environment of a process that has the calls of Linux, or has them not."""
    taken = {"PYTHONPATH": str(Path(without_linux.__file__).parent)}
    return {**os.environ, **(taken if request.param == "portable" else {})}


def run_python(script: str, variables: dict[str, str], *arguments: str) -> str:
    """Return the output of a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=variables, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def lives(process: int) -> bool:
    """Tell whether a process runs; one that has ended and was not reaped does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


# The exit of a child.

EXIT = """
import os, select, signal, subprocess, sys
from forum.platform_calls import open_exit_handle
if "ignore" in sys.argv:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
handle = open_exit_handle(child.pid)
early = select.select([handle], [], [], 0.2)[0]
child.stdin.close()
late = select.select([handle], [], [], 30)[0]
reaped = "ignore" in sys.argv or os.waitpid(child.pid, os.WNOHANG)[0] == child.pid
child.returncode = 0
print(not early, bool(late), reaped, hasattr(os, "pidfd_open"))
"""


@pytest.mark.parametrize("how", ["default", "ignore"])
def test_an_exit_is_noticed_and_the_child_not_reaped(variables: dict[str, str], how: str) -> None:
    """Also where SIGCHLD is ignored, so that the kernel reaps the child itself."""
    has_pidfd = "PYTHONPATH" not in variables

    assert run_python(EXIT, variables, how).split() == ["True", "True", "True", str(has_pidfd)]


def test_a_container_that_forbids_pidfd_gets_the_portable_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel that does not know the call refuses it, too."""

    def refuse(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with subprocess.Popen(["true"]) as child:
        handle = platform_calls.open_exit_handle(child.pid)
        assert select.select([handle], [], [], 30)[0]
    os.close(handle)


# Programs that end with their parent.

PARENT = """
import subprocess, sys
from forum.platform_calls import command_that_ends_with_parent
program = subprocess.Popen(command_that_ends_with_parent(sys.argv[1:]), stdout=subprocess.PIPE)
print(program.pid, program.stdout.readline().decode().strip(), flush=True)
sys.stdin.read()
program.kill()
program.wait()
print("end of output:", program.stdout.read(), flush=True)
"""
STUBBORN = ("sh", "-c", "trap '' TERM HUP INT; echo ready; while :; do sleep 0.1; done")


@pytest.fixture
def parent(variables: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return what starts a process that starts a program."""
    started: list[subprocess.Popen[str]] = []

    def start(*program: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", PARENT, *program]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(argv, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def ready(process: subprocess.Popen[str]) -> int:
    """Return the id of the program as soon as it runs."""
    assert process.stdout is not None
    program, word = process.stdout.readline().split()
    assert word == "ready"
    return int(program)


def watchers(parent: int) -> list[int]:
    """Return the processes that watch the programs of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if platform_calls.__file__.encode() in words and str(parent).encode() in words:
                found.append(int(folder.name))
    return found


def lock_files() -> set[Path]:
    """Return the files that processes keep locked while they live."""
    return set(Path(os.environ.get("TMPDIR", "/tmp")).glob("forum-*.lock"))  # noqa: S108


def test_a_program_is_killed_with_its_parent(
    parent: Callable[..., subprocess.Popen[str]],
) -> None:
    """However stubborn it is, and however the parent ends; nothing is left of either."""
    process = parent(*STUBBORN)
    program = ready(process)
    process.send_signal(signal.SIGKILL)
    began = monotonic()
    wait_until(lambda: not lives(program))

    assert monotonic() - began < 5
    wait_until(lambda: not watchers(process.pid))


def test_a_program_that_ends_first_leaves_nothing(
    parent: Callable[..., subprocess.Popen[str]],
) -> None:
    """The reader of its output sees the end, and the process that watched it ends."""
    before = lock_files()
    process = parent(*STUBBORN)
    program = ready(process)
    output, _ = process.communicate("", timeout=30)

    assert output == "end of output: b''\n"
    assert not lives(program)
    wait_until(lambda: not watchers(process.pid))
    assert lock_files() - before == set()


def test_a_program_has_no_child_that_it_did_not_start(variables: dict[str, str]) -> None:
    """One that waits for all of its children would wait for its watcher."""
    waiting = "import os\ntry: os.wait()\nexcept ChildProcessError: print('ready none')"
    script = PARENT.replace("sys.stdin.read()", "")

    assert "ready none" in run_python(script, variables, sys.executable, "-c", waiting)


def test_a_program_that_could_outlive_its_parent_is_not_started(tmp_path: Path) -> None:
    """The watching process finds no lock: a guard that fails lets nothing through."""
    gone, marker = tmp_path / "gone.lock", tmp_path / "ran"
    script = [sys.executable, "-I", "-S", platform_calls.__file__, str(os.getpid()), str(gone)]
    done = subprocess.run(
        [*script, "touch", str(marker)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "could outlive Forum" in done.stderr
    assert not marker.exists()


def test_a_forked_process_does_not_use_the_lock_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not hold it; and a file that was cleaned up is made again."""
    monkeypatch.setattr(platform_calls, "_has_prctl", lambda: False)

    def lock_of_next_program() -> str:
        return platform_calls.command_that_ends_with_parent(["true"])[5]

    mine = lock_of_next_program()
    assert lock_of_next_program() == mine
    Path(mine).unlink()
    again = lock_of_next_program()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    forked = lock_of_next_program()

    assert len({mine, again, forked}) == 3
    for path in (again, forked):
        Path(path).unlink()


# The environment of a process with keys.

HIDDEN = """
import ctypes, os, subprocess, sys
from forum.platform_calls import hide_environment
hide_environment()
# Root reads the environment of every process, and so the kernel is asked whether others could.
PR_GET_DUMPABLE = 3
is_protected = hasattr(os, "pidfd_open") and ctypes.CDLL(None).prctl(PR_GET_DUMPABLE) == 0
look = "import sys; sys.stdout.buffer.write(open(f'/proc/{sys.argv[1]}/environ', 'rb').read())"
seen = subprocess.run([sys.executable, "-c", look, str(os.getpid())], capture_output=True)
inherited = subprocess.run(["printenv", "A_KEY"], capture_output=True, text=True).stdout
is_blank = seen.stdout and b"held-by-the-parent" not in seen.stdout
print(bool(is_protected or is_blank), os.environ["A_KEY"], inherited)
"""


def test_no_other_process_reads_the_keys(variables: dict[str, str]) -> None:
    """The process itself still has them, and those that it gives them to."""
    output = run_python(HIDDEN, variables | {"A_KEY": HELD}).split()

    assert output == ["True", HELD, HELD]


# Files on the disk.


def test_a_file_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the system tells."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with (tmp_path / "file").open("wb") as file:
        platform_calls.sync_file(file.fileno())

        assert synced == [file.fileno()]


# Whole commands.


@pytest.fixture
def elsewhere(tmp_path: Path) -> Terminal:
    """Return a user with a project, on a system that is not Linux."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    terminal.environment["PYTHONPATH"] = str(Path(without_linux.__file__).parent)
    return terminal


def test_forum_run_works_without_linux(elsewhere: Terminal) -> None:
    """The status and the streams are those of the program."""
    done = elsewhere.type("run", "--", "sh", "-c", "echo said; exit 7")

    assert (done.returncode, done.stdout) == (7, "said\n")
    assert elsewhere.type("ledger", "verify").returncode == 0


def test_the_program_of_a_killed_forum_run_is_killed(
    variables: dict[str, str], tmp_path: Path
) -> None:
    """It would go on and spend, past a gateway that is no more."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    began = tmp_path / "began"
    script = f"trap '' TERM HUP; echo $$ > {began}; while :; do sleep 0.1; done"
    taken = {name: variables[name] for name in ("PYTHONPATH",) if name in variables}
    argv = [str(FORUM), "run", "--", "sh", "-c", script]
    with subprocess.Popen(
        argv, cwd=terminal.folder, env=terminal.environment | taken, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: began.exists() and bool(began.read_text().strip()))
        program = int(began.read_text())
        assert lives(program)
        process.kill()
    wait_until(lambda: not lives(program))


@pytest.mark.parametrize("how", ["option", "settings"])
def test_nothing_runs_unconfined_where_it_was_to_be_confined(elsewhere: Terminal, how: str) -> None:
    """One sentence says why, and what to do."""
    option = ["--confine"]
    if how == "settings":
        option = []
        file = elsewhere.folder / "forum.toml"
        file.write_text(file.read_text().replace("[agents]", "[agents]\nconfine = true"))
    done = elsewhere.type("run", *option, "--", "touch", "ran")

    assert done.returncode == 1
    assert "confinement needs Linux, and this is darwin" in done.stderr
    assert "Linux container" in done.stderr
    assert not (elsewhere.folder / "ran").exists()


def test_the_doctor_tells_what_is_missing(elsewhere: Terminal) -> None:
    """So that nobody believes in protection that is not there."""
    text = " ".join(elsewhere.type("doctor").stdout.split())

    for missing in ("no confinement: confinement needs Linux", "no prctl: ", "no pidfd: "):
        assert missing in text


# The law: only one module knows what only Linux has.

LINUX_NAMES = {name for names in LINUX_ONLY.values() for name in names}
LINUX_TEXT = re.compile(r"(?<![\w.])/(proc|sys|dev/shm)\b|\bbwrap\b|\bprctl\b|^--unshare|^\0(?=.)")
FORBIDDEN = {"sys.platform", "os.uname", "os.fsync", "os.name"} | {
    f"{module.__name__}.{name}" for module, names in LINUX_ONLY.items() for name in names
}


def linux_uses(source: str) -> Iterator[str]:
    """Yield the places of a module that use, or ask for, what only Linux has."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = {alias.name for alias in node.names} & {"ctypes", "platform"}
            case ast.ImportFrom():
                names = {f"{node.module}.{alias.name}" for alias in node.names} & FORBIDDEN
                names |= {node.module or ""} & {"ctypes", "platform"}
            case ast.Attribute(value=ast.Name(id=module)):
                names = {f"{module}.{node.attr}"} & FORBIDDEN
            case ast.Constant(value=str() | bytes() as value) if id(node) not in documents:
                text = value if isinstance(value, str) else value.decode("latin-1")
                names = {text} if LINUX_TEXT.search(text) or text in LINUX_NAMES else set()
            case _:
                continue
        for name in names:
            yield f"line {node.lineno}: {name!r}"


@pytest.mark.parametrize(
    "line",
    [
        "import ctypes", "from ctypes import CDLL", "import sys; sys.platform == 'linux'",
        "from os import pidfd_open", "import os; os.fsync(1)", "getattr(os, 'pidfd_open')",
        "open('/proc/self/status')", "argv = ('bwrap', 'sh')", "bind(b'\\0forum')",
        "import platform", "path = f'/proc/{pid}/environ'", "fcntl.F_SETPIPE_SZ",
    ],
)  # fmt: skip
def test_a_use_of_linux_is_found(line: str) -> None:
    """A law that nothing breaks is a comment."""
    assert list(linux_uses(f'"""Read /proc with bwrap."""\n{line}\n'))


def test_no_other_module_uses_what_only_linux_has() -> None:
    """Everything else takes it from there, and so has a portable way."""
    document = {
        path: uses
        for path, source in package_sources().items()
        if path not in LINUX_MODULES and (uses := list(linux_uses(source)))
    }

    assert document == {}
