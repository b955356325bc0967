"""One `forum run`: open the run, serve its gateway, start the program, and close the run."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import socket, socketpair
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import msgspec
import uvicorn

from forum.app import Forum, bind_sockets, new_run_id, now
from forum.app.run_extensions import RunExtension
from forum.errors import LimitReached
from forum.features.gateway.actor_caps import find_actor_caps
from forum.features.gateway.agent_profiles import ProgramStart, apply_profile, find_profile
from forum.features.gateway.program import (
    RemovalReason,
    gateway_variables,
    make_run_sandbox,
    program_environment,
)
from forum.features.gateway.program_tree import LeftProcesses, ProgramTree
from forum.features.gateway.refusals import RefusalReason
from forum.features.gateway.relay import Relay
from forum.features.gateway.relayed_run import RelayedRun, RunLimits
from forum.features.gateway.run_app import RunGateway, base_url
from forum.features.gateway.run_terminal import ProgramTerminal
from forum.features.gateway.settings import GatewaySettings
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Attachment
from forum.models.sandbox import ProgramSession, Sandbox
from forum.platform_calls import hide_environment
from forum.runs import report_kinds
from forum.runs.kinds import StopReason
from forum.runs.reported_run import close_reported_run
from forum.surfaces.cpu_limits import shorten_thread_switches
from forum.surfaces.http.server_process import TimeoutH11Protocol

ACTOR = "operator"
DRAIN_SECONDS = 30.0
"""How long calls may go on after the program has ended; then they are settled in full."""
_NOT_EXECUTABLE = 126
"""The status by which shells say that a file is no program."""
KILL_SECONDS = 5.0
"""How long a program may take to end after its time is over."""
_TTY_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_RELAYED_SIGNALS = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, *_TTY_SIGNALS,
)  # fmt: skip
_TERMINAL_VARIABLES = ("TERM", "COLORTERM")
_LOOPBACK = "127.0.0.1"
_NOTHING_LEFT = LeftProcesses(0)
PROGRAM_ENDED = "its program has ended"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user asks of `forum run`."""

    argv: tuple[str, ...]
    limits: RunLimits
    seconds: float | None = None
    confine: bool = False
    removed: Mapping[str, RemovalReason] = field(default_factory=dict)
    """The variables that the program does not get."""
    extensions: Sequence[RunExtension] = ()


@dataclass(slots=True)
class CommandSummary:
    """What came of a command and its run, for the lines at its end."""

    run: str
    root: str
    """The span of the program."""
    status: int
    """The exit status, as a shell reports it."""
    seconds: float
    relayed: RelayedRun
    arguments: tuple[str, ...]
    """Those that the profile of the agent added."""
    timed_out: bool = False
    left: LeftProcesses = _NOTHING_LEFT
    """What was still running when the program ended."""

    @property
    def exit_status(self) -> int:
        """The exit status of `forum run`: 5 if a limit kept the program from all that it wanted."""
        is_limited = self.timed_out or self.was_refused or self.relayed.is_ended
        return LimitReached.exit_code if is_limited else self.status

    @property
    def was_refused(self) -> bool:
        """Whether every call was refused, although the program says that all is well."""
        counters = self.relayed.counters
        # Those of processes that it left behind are not its own.
        refused = counters.refused - counters.reasons[RefusalReason.STOPPED]
        return self.status == 0 and refused > 0 and not counters.calls


class _LoopbackServer(uvicorn.Server):
    """A server whose process handles signals itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401  as uvicorn has it
        """Tell when the server listens."""
        await super().startup(sockets)
        self.is_listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: they are for the program."""
        with nullcontext():
            yield


def run_program(
    forum: Forum, ledger: Ledger, gateway: GatewaySettings, token: str, options: RunOptions
) -> CommandSummary:
    """Run a program whose calls are relayed, and return what came of it."""
    shorten_thread_switches()
    hide_environment()
    # Not in /tmp: Gemini CLI reads no settings below a folder that all may write to.
    state = forum.settings.state
    with TemporaryDirectory(prefix="run-", dir=state) as folder, ExitStack() as stack:
        sockets = bind_sockets(_LOOPBACK, 0)
        for bound in sockets:
            stack.callback(bound.close)
        # Before anything is recorded: a program that cannot be confined has no run.
        sandbox = _make_sandbox(forum, options, sockets)
        file = forum.log.open_calls_file()
        stack.callback(file.abandon)
        run, root = new_run_id(), file.new_span()
        file.add(run)
        source = report_kinds.ReportSourceFacts(
            told=report_kinds.ReportProvenance.RELAYED,
            by="forum-run",
            trace=run.replace("-", ""),
            **options.limits.cap._asdict(),
        )
        program = Path(options.argv[0]).name
        shared = find_actor_caps(forum, ACTOR, program)
        writer = shared.open_run(run, ACTOR, program, source)
        relayed = RelayedRun(writer, options.limits, file.new_span, within=root, shared=shared)
        session = _RunSession(
            gateway=gateway,
            token=token,
            options=options,
            run=relayed,
            root=root,
            sockets=sockets,
            sandbox=sandbox,
            folder=Path(folder),
        )
        summary = asyncio.run(session.play())
        if not relayed.open_calls:
            close_reported_run(ledger, run, ACTOR, _run_outcome(summary))
            stack.pop_all()
            file.close()
        return summary


def _make_sandbox(forum: Forum, options: RunOptions, sockets: Sequence[socket]) -> Sandbox | None:
    """Return the sandbox of a program that is to be confined, and can be run in it."""
    if not options.confine:
        return None
    sandbox = make_run_sandbox(forum.settings, _port_of(sockets))
    sandbox.command(options.argv)
    return sandbox


def _port_of(sockets: Sequence[socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port


def _run_outcome(summary: CommandSummary) -> Outcome:
    if summary.timed_out:
        return Outcome.TIMEOUT
    if summary.relayed.is_ended:
        return Outcome.CANCELLED
    if summary.relayed.has_overrun or summary.was_refused:
        return Outcome.DENIED  # by its budget, whatever the program made of it
    return Outcome.OK if summary.status == 0 else Outcome.FAILED


@dataclass(slots=True)
class _RunSession:
    """The server and the program of one run, on one event loop."""

    gateway: GatewaySettings
    token: str = field(repr=False)
    options: RunOptions
    run: RelayedRun
    root: str
    """The span of the program."""
    sockets: list[socket]
    """Where the gateway listens."""
    sandbox: Sandbox | None
    folder: Path
    """For the settings of an agent, while it runs."""
    arguments: tuple[str, ...] = ()
    timed_out: bool = False
    left: LeftProcesses = _NOTHING_LEFT

    async def play(self) -> CommandSummary:
        """Serve the gateway while the program runs."""
        relay = Relay(self.gateway.addresses, self.gateway.prices, now, self.gateway.routes)
        app = RunGateway(relay, self.run, self.token, self.options.extensions)
        config = uvicorn.Config(
            app, http=TimeoutH11Protocol, ws="none", lifespan="off", log_config=None,
            log_level="critical", access_log=False, server_header=False, date_header=False,
            backlog=2048, proxy_headers=False,
        )  # fmt: skip
        server = _LoopbackServer(config)
        started = monotonic()
        async with relay.open():
            serving = asyncio.create_task(server.serve(self.sockets))
            try:
                await server.is_listening.wait()
                root_url = f"http://{_LOOPBACK}:{_port_of(self.sockets)}"
                status = await self._run_command(root_url)
                # Only calls that are in flight go on: a program that left others behind has ended.
                self.run.stop(PROGRAM_ENDED)
                await self.run.drain(DRAIN_SECONDS)
            finally:
                server.should_exit = server.force_exit = True
                await serving
        return CommandSummary(
            run=self.run.run,
            root=self.root,
            status=status,
            seconds=monotonic() - started,
            relayed=self.run,
            arguments=self.arguments,
            timed_out=self.timed_out,
            left=self.left,
        )

    async def _run_command(self, root_url: str) -> int:
        """Record the program, run it, record its exit, and return its status."""
        argv = self.options.argv
        start = self._prepare_start(root_url)
        self.arguments = start.arguments
        name = report_kinds.label_name(Path(argv[0]).name, report_kinds.Operation.STEP)
        line = msgspec.json.encode([word.encode(errors="replace").decode() for word in argv])
        facts = report_kinds.ReportBeginFacts(
            op=report_kinds.Operation.STEP, name=name, span=self.root
        )
        command = Attachment("input", BytesContent(line[: 1 << 20]), "application/json")
        call = await self.run.begin(facts, [command, self._describe_start(start)])
        self.run.writer.cause = call.strand.head or self.run.writer.cause
        began, started = now(), monotonic()
        status = 127
        try:
            status = await self._spawn(start)
        finally:
            outcome = Outcome.OK if status == 0 else Outcome.FAILED
            ended = report_kinds.ReportStepFacts(
                op=report_kinds.Operation.STEP,
                name=name,
                outcome=Outcome.TIMEOUT if self.timed_out else outcome,
                span=self.root,
                began=began,
                micros=round(1e6 * (monotonic() - started)),
                code=f"exit-{status}",
            )
            await self.run.settle(call, ended, ())
        return status

    def _prepare_start(self, root_url: str) -> ProgramStart:
        """Return the command and the variables of the program."""
        variables = gateway_variables(
            self.gateway, root_url, self.token, self.run.run, span=self.root
        )
        for extension in self.options.extensions:
            variables |= extension.variables(root_url, self.token)
        urls = {a.provider: base_url(a.provider, root_url) for a in self.gateway.addresses}
        keyed = frozenset(a.provider for a in self.gateway.addresses if a.key_header is not None)
        folder = None if self.sandbox is not None else self.folder
        return apply_profile(
            self.options.argv, urls, variables, folder, token=self.token, keyed=keyed
        )

    def _describe_start(self, start: ProgramStart) -> Attachment:
        """Return what was added to the command and to the environment, without values of these."""
        name, profile = find_profile(self.options.argv)
        document = {
            "profile": name if profile is not None else "",
            "arguments": start.arguments,
            "variables": sorted(start.variables),
            "removed": self.options.removed,
        }
        return Attachment(
            "attributes", BytesContent(msgspec.json.encode(document)), "application/json"
        )

    async def _spawn(self, start: ProgramStart) -> int:
        if self.sandbox is not None:
            return await self._spawn_confined(self.sandbox, start)
        environment = program_environment(start.variables, self.options.removed)
        # The streams are the program's own: nothing is read or copied here.
        try:
            tree = await ProgramTree.start(start.argv, environment)
        except OSError:  # for example, too many arguments
            return _NOT_EXECUTABLE

        def pass_on(number: signal.Signals) -> None:
            # A terminal sends Ctrl-C to the program as well, and a second one could mean more.
            if number not in _TTY_SIGNALS or not _is_foreground():
                tree.send(number)

        with _relay_signals(pass_on):
            kill = partial(tree.send, signal.SIGKILL)
            status = await self._wait(self._wait_for_tree(tree), tree.send, kill)
            await tree.wait_for_all()
        return status

    async def _wait_for_tree(self, tree: ProgramTree) -> int:
        """Wait for the end of the program, and refuse the calls of what it left behind."""
        self.left = await tree.wait()
        self.run.stop(PROGRAM_ENDED)
        return self.left.status

    async def _spawn_confined(self, sandbox: Sandbox, start: ProgramStart) -> int:
        """Run the program in a session of its own, and on a terminal of its own if there is one."""
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            ours, theirs = map(stack.enter_context, socketpair())
            terminal = ProgramTerminal.open(sandbox.user.uid if sandbox.user else None)
            if terminal:
                stack.callback(terminal.close)
            ends = ProgramSession(theirs.fileno(), terminal.number if terminal else -1)
            argv = await asyncio.to_thread(sandbox.command, start.argv, ends)
            # A session without a terminal: /dev/tty would be the user's.
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=sandbox.environment(_TERMINAL_VARIABLES if terminal else (), **start.variables),
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                stdin=terminal.stream(0) if terminal else None,
                stdout=terminal.stream(1) if terminal else None,
                stderr=terminal.stream(2) if terminal else None,
            )
            theirs.close()

            def send(number: signal.Signals) -> None:
                with suppress(OSError):
                    ours.send(bytes([number]))

            ours.setblocking(False)  # noqa: FBT003  as Python has it
            if terminal:
                terminal.start()
                loop.add_reader(ours, _stop_with_program, ours, terminal, send)
                loop.add_signal_handler(signal.SIGWINCH, terminal.copy_size)
                loop.add_signal_handler(signal.SIGCONT, terminal.attach)
            try:
                with _relay_signals(send):
                    return await self._wait(process.wait(), send, process.kill)
            finally:
                loop.remove_reader(ours)
                loop.remove_signal_handler(signal.SIGWINCH)
                loop.remove_signal_handler(signal.SIGCONT)

    async def _wait(
        self,
        program: Coroutine[Any, Any, int],
        send: Callable[[signal.Signals], object],
        kill: Callable[[], object],
    ) -> int:
        """Return the status of the program when it ends, or is ended because the run is."""
        running = asyncio.ensure_future(program)
        ending = asyncio.ensure_future(self.run.end_requested.wait())
        await asyncio.wait(
            (running, ending), timeout=self.options.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not running.done():
            if not ending.done():
                self.timed_out = True
                self.run.stop("its time is over")
                await self.run.record_stop(StopReason.DEADLINE, "seconds")
            await _end_program(running, send, kill)
        ending.cancel()
        status = await running
        return status if status >= 0 else 128 - status


def _stop_with_program(
    control: socket, terminal: ProgramTerminal, send: Callable[[signal.Signals], object]
) -> None:
    """Stop this process like its program, and continue both when the shell continues this one."""
    if not control.recv(100):
        asyncio.get_running_loop().remove_reader(control)
        return
    terminal.detach()
    # All of the job, as Ctrl-Z does.  Without a shell that waits for the job the kernel stops
    # nothing, and both go on.
    os.killpg(0, signal.SIGTSTP)
    try:
        terminal.attach()
    finally:
        # Whatever became of the terminal: a program that stays stopped would stay for ever.
        send(signal.SIGCONT)


async def _end_program(
    running: asyncio.Future[int],
    send: Callable[[signal.Signals], object],
    kill: Callable[[], object],
) -> None:
    """Ask a program to end, and kill it if it does not."""
    send(signal.SIGTERM)
    await asyncio.wait((running,), timeout=KILL_SECONDS)
    if not running.done():
        with suppress(ProcessLookupError):
            kill()


@contextmanager
def _relay_signals(pass_on: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Pass signals on to the program, which decides what follows from them."""
    loop = asyncio.get_running_loop()
    # A signal that is ignored at the start stays ignored, as with nohup.
    caught = [n for n in _RELAYED_SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
    for number in caught:
        loop.add_signal_handler(number, pass_on, number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
            if number in (signal.SIGTERM, signal.SIGHUP, *_TTY_SIGNALS):
                # The program has ended; what is left to do takes seconds, and loses nothing if
                # it is done by the next process.
                signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)


def _is_foreground() -> bool:
    """Return whether this process and the program are in the foreground of a terminal."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
