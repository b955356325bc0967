"""Agents and tools that are programs, as the worst of them behave."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from forum.engine import EMPTY_CONTENT, NO_COST, CallReply, ModelCall, ToolInvocation
from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import program
from forum.models.command import CommandModel, CommandTool
from forum.models.file_content import FileContent
from forum.runs.kinds import Why
from forum.runs.policy import Command, ToolSpec
from tests.support import open_files, wait_until

MB = 1_000_000
both_ways = pytest.mark.usefixtures("each_platform")


def shell(script: str) -> tuple[str, ...]:
    """Return the argv of a script."""
    return ("sh", "-c", script)


def calling(prompt: Content = EMPTY_CONTENT, seconds: float = 30) -> ModelCall:
    """Return a call."""
    return ModelCall(
        "run-1", task="task-1", step="reply/1", number=1, prompt=prompt, seconds=seconds
    )


def run(spec: Command, prompt: bytes = b"", seconds: float = 30) -> CallReply:
    """Return what comes of one call."""
    return asyncio.run(CommandModel(spec).reply(calling(BytesContent(prompt), seconds)))


def read(content: Content) -> bytes:
    """Return all of a content."""
    return b"".join(content.chunks())


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that is dead but not yet reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def seconds_until_gone(pids: list[int], since: float) -> float:
    """Wait until no process of these is left, and return when that was."""
    assert len(pids) == 2
    wait_until(lambda: not any(map(lives, pids)))
    return monotonic() - since


STUBBORN = "trap '' TERM; sleep 60 & echo $$ $!; while :; do sleep 60; done"
"""Ignores SIGTERM, and so does its child; says who they are."""


@both_ways
def test_a_program_that_ignores_sigterm_is_gone_with_its_children_at_its_deadline() -> None:
    """`--max-seconds 3` took 60 s in the reference engine: a deadline is one for all of a call."""
    began = monotonic()
    reply = run(Command(shell(STUBBORN), usd=7, tokens=5), seconds=0.6)

    assert seconds_until_gone([int(pid) for pid in read(reply.output).split()], began) < 10
    assert (reply.outcome, reply.why) == (Outcome.TIMEOUT, Why.DEADLINE)
    assert reply.spent == Amount(7, 5, 1)
    assert 600 <= reply.milliseconds < 10_000


@both_ways
def test_a_program_may_still_say_something_when_it_is_told_to_end() -> None:
    """SIGTERM comes first for that reason; ending well after the deadline is no success."""
    reply = run(Command(shell("trap 'echo partial; exit 0' TERM; sleep 60 & wait")), seconds=0.5)

    assert (reply.outcome, read(reply.output)) == (Outcome.TIMEOUT, b"partial\n")


@both_ways
def test_a_cancelled_call_leaves_nothing_running(tmp_path: Path) -> None:
    """Who cancels does not wait for a grace, and nobody is left who could spend money."""
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"

    async def cancel() -> float:
        task = asyncio.create_task(CommandModel(Command(shell(script))).reply(calling()))
        while not pids.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        task.cancel()
        began = monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return began

    began = asyncio.run(cancel())

    assert seconds_until_gone([int(pid) for pid in pids.read_text().split()], began) < 10


@both_ways
@pytest.mark.parametrize("escapes", [False, True], ids=["in its group", "out of its group"])
def test_a_child_that_keeps_the_output_open_holds_nobody_up(*, escapes: bool) -> None:
    """The program has ended and said all that it will; what it left behind may sleep for ever."""
    child = f"Popen(['sleep', '60'], start_new_session={escapes})"
    script = f"from subprocess import Popen; print({child}.pid, 'done', flush=True)"
    began = monotonic()
    reply = run(Command((sys.executable, "-ISWignore", "-c", script)))
    took, (pid, data) = monotonic() - began, read(reply.output).split()
    if escapes:
        os.kill(int(pid), signal.SIGKILL)

    assert took < 20
    assert (reply.outcome, data) == (Outcome.OK, b"done")
    wait_until(lambda: not lives(int(pid)))


LEAVES_MUCH = """
import fcntl, os, subprocess
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
subprocess.Popen(["sleep", "60"])
os.write(1, bytes(1_000_000))
os._exit(0)
"""


@both_ways
def test_what_a_program_said_is_kept_however_late_we_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy worker must not make half an answer of a whole one, and call it a success."""
    monkeypatch.setattr(program, "EXIT_GRACE_S", 0)
    spec = Command((sys.executable, "-ISWignore", "-c", LEAVES_MUCH))

    async def late() -> CallReply:
        asyncio.get_running_loop().call_soon(sleep, 0.5)
        return await CommandModel(spec).reply(calling())

    reply = asyncio.run(late())

    assert (reply.outcome, reply.output.size) == (Outcome.OK, MB)


@both_ways
def test_a_program_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have the rights of somebody else, like sudo; it is reaped whenever it ends."""
    monkeypatch.setattr(program, "signal_group", lambda *_, **__: None)
    began = monotonic()
    reply = run(Command(shell("echo $$; exec sleep 40")), seconds=0.1)
    took, pid = monotonic() - began, int(read(reply.output))
    process = Path(f"/proc/{pid}")

    assert reply.outcome is Outcome.TIMEOUT
    assert took < 20
    assert process.exists()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not process.exists())


MEASURED = """
import asyncio
from hashlib import sha256
from pathlib import Path
from tests.models.test_command import calling
from forum.models.command import CommandModel
from forum.runs.policy import Command

spec = Command(("head", "-c", "300000000", "/dev/zero"))
reply = asyncio.run(CommandModel(spec).reply(calling()))
digest = sha256()
for chunk in reply.output.chunks():
    digest.update(chunk)
most = next(l for l in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in l)
print(reply.outcome, reply.output.size, digest.hexdigest(), most.split()[1])
"""


@pytest.mark.slow
def test_300_mb_of_output_stay_out_of_memory() -> None:
    """They made 1.2 GB of memory in the reference engine; here the limit is 200 MB, all told."""
    printed = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True
    ).stdout.split()
    print(f"VmHWM: {printed[3]} kB")  # noqa: T201

    digest = sha256()
    for _ in range(300):
        digest.update(bytes(MB))
    assert printed[:3] == ["ok", str(300 * MB), digest.hexdigest()]
    assert int(printed[3]) < 200 * 1024


@pytest.mark.parametrize(
    "prompt",
    [os.urandom(5 * MB), b"--help\n-rf $(id) `id` 'x", b""],
    ids=["5 MB", "like options", "empty"],
)
def test_a_prompt_arrives_intact(prompt: bytes) -> None:
    """As an argument it died at 140 kB, and was parsed as an option when it looked like one."""
    reply = run(Command(("sha256sum",)), prompt)

    assert reply.outcome is Outcome.OK
    assert read(reply.output).split()[0].decode() == sha256(prompt).hexdigest()


def test_a_program_may_open_its_standard_input_by_name() -> None:
    """Many do; a socket, which asyncio puts there, could not be opened."""
    assert read(run(Command(("cat", "/dev/stdin")), b"asked").output) == b"asked"


@pytest.mark.parametrize(
    "script",
    ["echo said", "exec 0<&-; sleep 0.1; echo said", "head -c 1 >/dev/null; echo said"],
    ids=["exits", "closes it", "reads a little"],
)
def test_a_program_need_not_read_its_input(script: str) -> None:
    """What it wants to know is its own affair, and a broken pipe is no error of anybody."""
    reply = run(Command(shell(script)), bytes(5 * MB))

    assert (reply.outcome, read(reply.output)) == (Outcome.OK, b"said\n")


def test_what_a_program_says_on_stderr_is_never_its_output() -> None:
    """In the reference engine the synthesizer's stderr became the answer, with exit status 0."""
    reply = run(Command(shell("echo warning >&2")))

    assert reply.outcome is Outcome.OK
    assert (read(reply.output), read(reply.error)) == (b"", b"warning\n")


def test_a_flood_on_stderr_is_cut_and_stops_nobody() -> None:
    """A full pipe that nobody reads would hold the program up for ever."""
    reply = run(Command(shell("head -c 10000000 /dev/zero >&2; echo said")))

    assert (reply.outcome, read(reply.output)) == (Outcome.OK, b"said\n")
    assert reply.error.size == program.MAX_STDERR_BYTES


@both_ways
@pytest.mark.parametrize(
    ("end", "code"), [("exit 3", "exit 3"), ("kill -9 $$", "signal 9"), ("exit 127", "exit 127")]
)
def test_a_program_that_reports_a_failure_has_failed(end: str, code: str) -> None:
    """What it said before is kept, but is nobody's answer; it is paid for all the same."""
    reply = run(Command(shell(f"echo half; echo why >&2; {end}"), usd=7))

    assert (reply.outcome, reply.why, reply.code) == (Outcome.FAILED, Why.ERROR, code)
    assert (read(reply.output), read(reply.error)) == (b"half\n", b"why\n")
    assert reply.spent == Amount(7, 0, 1)


@both_ways
def test_an_exit_status_that_nobody_knows_is_no_success() -> None:
    """Where SIGCHLD is ignored, which a worker may inherit, `Popen` reports 0 for everything."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        reply = run(Command(("sh", "-c", "sleep 0.2; false")))
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "exit unknown")


@both_ways
def test_a_program_that_says_too_much_is_killed_and_its_beginning_kept() -> None:
    """`yes` would fill the disk; what it said until then may tell somebody why."""
    reply = run(Command(("yes",), output_bytes=100_001))

    assert (reply.outcome, reply.why) == (Outcome.FAILED, Why.OVERSIZE)
    assert read(reply.output) == b"y\n" * 50_000 + b"y"


def test_a_program_may_say_as_much_as_is_kept() -> None:
    """The limit itself is not too much."""
    reply = run(Command(("printf", "12345"), output_bytes=5))

    assert (reply.outcome, read(reply.output)) == (Outcome.OK, b"12345")


def test_output_is_kept_byte_for_byte() -> None:
    """The ledger commits to what was said, not to what it looks like as text."""
    data = bytes(range(256)) + b"\xff\xfe\r\n\0"

    assert read(run(Command(("cat",)), data).output) == data


@pytest.mark.parametrize(
    ("argv", "code", "outcome"),
    [
        (("forum-no-such-program",), "not-found", Outcome.DENIED),
        (("/dev/null/program",), "not-found", Outcome.DENIED),
        (("/dev/null",), "not-executable", Outcome.DENIED),
        ((), "not-found", Outcome.DENIED),
        (("a\0b",), "not-executable", Outcome.DENIED),
        (("true", "x" * 200_000), "E2BIG", Outcome.FAILED),
    ],
    ids=["unknown", "no folder", "no program", "empty", "not text", "too long"],
)
def test_a_program_that_cannot_be_started_is_a_failure_that_costs_nothing(
    argv: tuple[str, ...], code: str, outcome: Outcome
) -> None:
    """Whoever configured it is told what to do; nobody was called, so nobody is paid.

    One that is not there is denied: it would not be there a moment later either.
    """
    reply = run(Command(argv, usd=7))

    assert (reply.outcome, reply.why, reply.code) == (outcome, Why.ERROR, code)
    assert read(reply.error).startswith(b"cannot start the program ")
    assert reply.spent == NO_COST


def test_a_script_without_a_first_line_cannot_be_started(tmp_path: Path) -> None:
    """A shell would guess; we have none, and say what is missing."""
    script = tmp_path / "agent"
    script.write_text("echo said\n")
    script.chmod(0o755)
    reply = run(Command((str(script),)))

    assert reply.code == "not-executable"
    assert b"#! line" in read(reply.error)


def test_a_full_disk_is_a_failure_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an output must not pass for all of it, and the program must not go on."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileContent, "append", fail)
    reply = run(Command(("yes",)))

    assert (reply.outcome, reply.why, reply.code) == (Outcome.FAILED, Why.ERROR, "not-kept")
    assert b"No space left on device" in read(reply.error)


class Torn:
    """Content that cannot be read to its end."""

    size = 2

    def chunks(self) -> Iterator[bytes]:
        """Fail after the first piece."""
        yield b"1"
        raise LookupError("the second piece")


def test_a_prompt_that_cannot_be_read_is_not_sent_in_part() -> None:
    """The program may wait for the rest for ever; the reader's error is not the program's."""
    began = monotonic()

    with pytest.raises(LookupError, match="the second piece"):
        asyncio.run(CommandModel(Command(("cat",))).reply(calling(Torn())))
    assert monotonic() - began < 5


@both_ways
def test_programs_are_run_by_a_loop_outside_of_the_main_thread() -> None:
    """The durable engine keeps its loop in a thread of its own."""
    replies: list[CallReply] = []
    thread = Thread(target=lambda: replies.append(run(Command(("cat",)), b"asked")))
    thread.start()
    thread.join()

    assert [(reply.outcome, read(reply.output)) for reply in replies] == [(Outcome.OK, b"asked")]


@both_ways
def test_programs_run_side_by_side_and_leave_nothing_open() -> None:
    """A worker makes calls for months: one descriptor for each would be its end."""

    async def crowd() -> list[CallReply]:
        specs = [
            Command(argv, output_bytes=1000)
            for argv in (("cat",), ("yes",), ("false",), ("no-such",), shell(STUBBORN))
        ]
        calls = [
            CommandModel(spec).reply(calling(BytesContent(b"asked"), seconds=0.5))
            for spec in specs
            for _ in range(4)
        ]
        return await asyncio.gather(*calls)

    before, began = open_files(), monotonic()
    replies = asyncio.run(crowd())
    outcomes = [reply.outcome.value for reply in replies]
    del replies

    assert outcomes == ["ok"] * 4 + ["failed"] * 8 + ["denied"] * 4 + ["timeout"] * 4
    assert monotonic() - began < 10
    assert open_files() <= before


def model_says(argv: tuple[str, ...]) -> Awaitable[CallReply]:
    """Run a program as an agent."""
    return CommandModel(Command(argv)).reply(calling())


def tool_says(argv: tuple[str, ...]) -> Awaitable[CallReply]:
    """Run a program as a tool."""
    return CommandTool(ToolSpec(argv)).invoke(
        ToolInvocation(
            "run-1",
            task="task-1",
            step="outcome/1",
            tool="tool",
            arguments=EMPTY_CONTENT,
            key="key-1",
        )
    )


@pytest.mark.parametrize(
    ("says", "document"),
    [
        (model_says, {"FORUM_RUN": "run-1", "FORUM_TASK": "task-1"}),
        (tool_says, {"FORUM_RUN": "run-1", "FORUM_TASK": "task-1", "FORUM_KEY": "key-1"}),
    ],
    ids=["model", "tool"],
)
def test_a_program_is_told_whose_it_is_but_no_secrets(
    says: Callable[[tuple[str, ...]], Awaitable[CallReply]],
    document: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who finds it can find the run; who controls it cannot write to the ledger."""
    for name in [name for name in os.environ if name.startswith("FORUM_")]:
        monkeypatch.delenv(name)
    for name in ("DATABASE_URL", "KEY_FILE", "KEY", "RUN", "TASK", "POLICY_FILE"):
        monkeypatch.setenv(f"FORUM_{name}", "of the worker")

    async def environment() -> bytes:
        return read((await says(("env",))).output)

    lines = asyncio.run(environment()).decode().splitlines()
    members = dict(line.split("=", 1) for line in lines if line.startswith("FORUM_"))

    assert members == document | {"FORUM_POLICY_FILE": "of the worker"}


def test_a_tool_is_given_the_secrets_that_its_owner_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent says what a tool runs; what the worker can open is none of the agent's business."""
    for name in ("OPENAI_API_KEY", "SHOP_TOKEN"):
        monkeypatch.setenv(name, "of the worker")

    async def environment() -> bytes:
        invocation = ToolInvocation(
            "run-1",
            task="task-1",
            step="outcome/1",
            tool="tool",
            arguments=BytesContent(b""),
            key="key-1",
        )
        return read(
            (await CommandTool(ToolSpec(("env",), env=("SHOP_TOKEN",))).invoke(invocation)).output
        )

    lines = asyncio.run(environment()).decode().splitlines()

    assert "SHOP_TOKEN=of the worker" in lines
    assert "PATH=" + os.environ["PATH"] in lines
    assert not [line for line in lines if line.startswith("OPENAI_API_KEY")]


def test_a_tool_gets_its_arguments_and_a_deadline() -> None:
    """It is run like an agent, but is nobody who is paid by the call."""

    async def use(argv: tuple[str, ...]) -> CallReply:
        invocation = ToolInvocation(
            "run-1",
            task="task-1",
            step="outcome/1",
            tool="tool",
            arguments=BytesContent(b"--to all"),
            key="key-1",
        )
        return await CommandTool(ToolSpec(argv, seconds=1)).invoke(invocation)

    done, hung = (asyncio.run(use(argv)) for argv in (("cat",), ("sleep", "60")))

    assert (done.outcome, read(done.output), done.spent) == (Outcome.OK, b"--to all", NO_COST)
    assert (hung.outcome, hung.why) == (Outcome.TIMEOUT, Why.DEADLINE)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("/opt/bin/claude", "-p"), "claude"),
        (('./my "agent" é\\1',), "my-agent-1"),
        (("x" * 200,), "x" * 128),
        (("/",), "command"),
        ((), "command"),
    ],
)
def test_a_program_is_recorded_under_a_plain_name(argv: tuple[str, ...], name: str) -> None:
    """Labels of entries have no spaces, quotes or backslashes, whatever files are called."""
    model = CommandModel(Command(argv, usd=7, tokens=5))

    assert model.name == name
    assert model.bound(calling()) == Amount(7, 5, 1)
