"""A stopped agent is stopped: whatever its program has started ends with it, or with Forum."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from forum import platform_calls, process_guard
from forum.features.gateway import run_session
from forum.features.gateway.relayed_run import RelayedRun
from forum.features.gateway.reservations import OpenCall
from forum.ledger.strand import Attachment
from forum.runs.kinds import StopReason
from forum.runs.report_kinds import ReportBeginFacts
from tests.features.gateway.running import RecordedCalls, local_provider, provider_variables
from tests.surfaces.terminal import FORUM, Terminal

SPAWN = '''
import ctypes, os, signal, subprocess, sys, threading, time

def tell():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")

def rest():
    tell()
    while True:
        time.sleep(60)

def plain():
    if os.fork() == 0:
        rest()

def stubborn():
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        rest()

def daemon():
    """Leave group, session and parent, as a daemon does."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 3)
            rest()
        os._exit(0)
    os.wait()

def stopped():
    if os.fork() == 0:
        tell()
        os.kill(os.getpid(), signal.SIGSTOP)

def breeding():
    """Start another one whenever one is asked to end."""
    if os.fork() == 0:
        def breed(*_):
            if os.fork() == 0:
                tell()
        signal.signal(signal.SIGTERM, breed)
        rest()

def headless():
    """Go on in a second thread when the first one has ended: /proc shows a zombie."""
    if os.fork() == 0:
        os.setsid()
        threading.Thread(target=rest, daemon=True).start()
        ctypes.CDLL(None).pthread_exit(None)

KINDS = [plain, stubborn, daemon, stopped, breeding, headless]
for kind in KINDS:
    kind()
tell()
while len(open(sys.argv[1]).read().split()) < len(KINDS) + 1:
    time.sleep(0.01)
print("ready", flush=True)
if sys.argv[2] == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
sys.exit(3)
'''
KINDS = 6


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder of its own."""
    return Terminal(tmp_path)


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Return the file in which processes tell their ids; what is left of them is killed."""
    file = tmp_path / "pids"
    file.touch()
    yield file
    for process in running(file):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def running(file: Path) -> list[int]:
    """Return which of these processes have not ended."""
    return [process for process in map(int, file.read_text().split()) if is_running(process)]


def is_running(process: int) -> bool:
    """Return whether a process has not ended; one that nobody has reaped has."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
        threads = len(list(Path(f"/proc/{process}/task").iterdir()))
    except OSError:
        return False
    return state not in (b"Z", b"X") or threads > 1


def wait_for_end(file: Path, seconds: float = 15) -> list[int]:
    """Return what is still running after some time."""
    until = monotonic() + seconds
    while running(file) and monotonic() < until:
        sleep(0.05)
    return running(file)


def script(folder: Path) -> Path:
    """Write the program that starts all kinds of processes."""
    path = folder / "spawn.py"
    path.write_text(SPAWN)
    return path


@contextmanager
def started(terminal: Terminal, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `forum run` with a program that has told that it is ready."""
    with subprocess.Popen(
        [FORUM, "run", *words],
        cwd=terminal.folder, env=terminal.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole tree is known on Linux")


def test_what_a_program_leaves_behind_ends_with_it_and_is_named(
    terminal: Terminal, tmp_path: Path, pids: Path
) -> None:
    """Also what has left its session, ignores signals or is stopped; the status is its own."""
    words = ("--json", "--", sys.executable, str(script(tmp_path)), str(pids), "ends")
    done = terminal.type("run", *words)
    summary = json.loads(done.stderr.splitlines()[-1])
    left = {each["pid"]: each["name"] for each in summary["left_running"]}

    assert done.returncode == 3
    assert running(pids) == []
    assert len(left) == KINDS
    assert set(left) <= set(map(int, pids.read_text().split()))
    assert all("python" in name for name in left.values())


def test_the_summary_names_what_was_left(terminal: Terminal) -> None:
    """With process id and name, so that a user can tell what a program has forgotten."""
    # It is named so once it has become that program.
    left = "sleep 50 & until grep -q sleep /proc/$!/comm; do sleep 0.01; done"
    done = terminal.type("run", "--", "sh", "-c", left)
    (line,) = (line for line in done.stderr.splitlines() if "left running" in line)

    assert done.returncode == 0
    assert line.endswith(" sleep")


def test_a_program_that_leaves_nothing_has_no_such_line(terminal: Terminal) -> None:
    """Most programs wait for what they start."""
    assert "left running" not in terminal.type("run", "--", "sh", "-c", "sleep 0.01 & wait").stderr


def test_a_time_limit_ends_the_whole_tree(terminal: Terminal, tmp_path: Path, pids: Path) -> None:
    """The program ignores SIGTERM, so that it is killed with all that it started."""
    program = (sys.executable, str(script(tmp_path)), str(pids), "stays")
    done = terminal.type("run", "--max-seconds", "6", "--", *program)

    assert done.returncode == 5
    assert len(pids.read_text().split()) > KINDS
    assert running(pids) == []


def test_a_time_limit_holds_if_the_guard_was_stopped(terminal: Terminal) -> None:
    """A program may stop its parent, by accident or not."""
    done = terminal.type(
        "run", "--max-seconds", "1", "--", "sh", "-c", "kill -STOP $PPID; sleep 60"
    )

    assert done.returncode == 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_nothing_survives_a_killed_forum(
    terminal: Terminal, tmp_path: Path, pids: Path, number: signal.Signals
) -> None:
    """Without any code of Forum that could clean up: the guard sees the end of its stream."""
    program = (sys.executable, str(script(tmp_path)), str(pids), "stays")
    with started(terminal, "--", *program) as process:
        os.kill(process.pid, number)
        process.wait(30)
        assert wait_for_end(pids) == []


def test_nothing_survives_a_killed_process_group(
    terminal: Terminal, tmp_path: Path, pids: Path
) -> None:
    """`kill -9` of the job of a shell meets Forum and the program, and the guard ends the rest."""
    program = (sys.executable, str(script(tmp_path)), str(pids), "stays")
    with started(terminal, "--", *program) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        assert wait_for_end(pids) == []


def test_a_killed_guard_takes_the_program_along(
    terminal: Terminal, tmp_path: Path, pids: Path
) -> None:
    """Forum inherits the orphans, and kills those that are of its run."""
    program = (sys.executable, str(script(tmp_path)), str(pids), "stays")
    with started(terminal, "--", *program) as process:
        os.kill(_guard_of(process.pid), signal.SIGKILL)
        assert process.wait(30) == 128 + signal.SIGKILL
        assert wait_for_end(pids) == []


HIDING = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "60"], {})
    os._exit(0)
os.wait()
open(sys.argv[1], "w").write(str(os.getppid()))
"""


def test_the_control_group_of_a_run_is_killed_and_removed(tmp_path: Path) -> None:
    """A program in it that hides from everything else ends with it, where there are such groups."""
    folder = platform_calls.make_control_group(f"forum-test-{os.getpid()}")
    if not folder:
        assert platform_calls.make_control_group("forum-test") == "", "this machine has none"
        return
    join = f"import sys; sys.path.append({str(Path(platform_calls.__file__).parent)!r})\n"
    join += f"import platform_calls; platform_calls.join_control_group({folder!r})\n"
    subprocess.run([sys.executable, "-c", join + HIDING, str(tmp_path / "told")], check=True)
    members = (Path(folder) / "cgroup.procs").read_text().split()

    assert len(members) == 1
    platform_calls.kill_control_group(folder)
    platform_calls.remove_control_group(folder)
    assert not Path(folder).exists()
    assert not is_running(int(members[0]))


def _guard_of(forum: int) -> int:
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == forum and process_guard.__file__.encode() in words:
                return int(folder.name)
    raise AssertionError


ORPHAN = """
import os, signal, subprocess, sys, time, urllib.error, urllib.request

def call():
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = b'{"model":"gpt-4o-mini","messages":[],"max_tokens":5}'
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
               "content-type": "application/json"}
    try:
        urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
        return "200"
    except urllib.error.HTTPError as error:
        return str(error.code)

if os.fork() == 0:
    os.setsid()
    def last(*_):
        open(sys.argv[1], "w").write(call())
        os._exit(0)
    signal.signal(signal.SIGTERM, last)
    open(sys.argv[2], "w").close()
    time.sleep(60)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print(call())
"""


def test_calls_of_orphans_are_refused_and_recorded(terminal: Terminal, tmp_path: Path) -> None:
    """The token is dead from the end of the program on, also while the rest is ended."""
    told = tmp_path / "told"
    with local_provider(tmp_path / "log") as url:
        done = terminal.type(
            "run", "--json", "--", sys.executable, "-c", ORPHAN, str(told), str(tmp_path / "ready"),
            **provider_variables(url),
        )  # fmt: skip
    summary = json.loads(done.stderr.splitlines()[-1])

    assert done.stdout == "200\n"
    assert told.read_text() == "402"
    assert (summary["calls"], summary["refusals"]) == (1, {"stopped": 1})
    codes = [step.code for step in RecordedCalls(terminal).steps.values()]
    assert codes.count("stopped") == 1


def test_a_run_that_is_ended_ends_its_program(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever freezes spending ends what is under way, and the record says why."""

    class Ended(RelayedRun):
        """A run that is ended when its program has begun."""

        async def begin(
            self, facts: ReportBeginFacts, bodies: Sequence[Attachment], revision: int | None = None
        ) -> OpenCall:
            begun = await super().begin(facts, bodies, revision)
            self.start(self.end("all spending is frozen", StopReason.BUDGET, "usd"))
            return begun

    monkeypatch.setattr(run_session, "RelayedRun", Ended)
    monkeypatch.setattr(run_session, "hide_environment", lambda: None)
    done = terminal.call("run", "--", "sleep", "60")

    assert done.exit_code == 5
    assert "stopped: all spending is frozen" in done.stderr
    record = RecordedCalls(terminal)
    assert "stop/1" in record.kinds


def test_the_processes_of_a_machine_are_listed_alike_without_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is no /proc, `ps` tells parents, groups and names."""
    with subprocess.Popen(["sleep", "60"]) as child:
        expected = (child.pid, "sleep")
        assert expected in platform_calls.list_descendants(os.getpid())
        monkeypatch.setattr(platform_calls, "_PROCESSES", "/no-such-folder")
        assert expected in platform_calls.list_descendants(os.getpid())
        child.kill()
