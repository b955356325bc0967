"""The engine for Python programs: submit requests and plans, follow them, and decide at gates.

Agents and tools are those of `forum.toml`, and functions of the program that are decorated with
`agent` and `tool`.  What is carried out for a request is decided by `forum.planning`, as for the
command line and the HTTP API.
"""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeVar, get_type_hints, overload

import msgspec

from forum import errors
from forum.app import OPERATOR, Forum
from forum.app.extensions import register_agent, register_tool
from forum.config import load_settings
from forum.engine import IdempotencyKey, RunRequest
from forum.ledger.kinds import Outcome
from forum.planning import AgentRegistry, CallerAuthority
from forum.work.kinds import COVERAGE
from forum.work.panel import COUNCIL_VERSION, Council, Panel, Seat
from forum.work.plan import Plan, RunBudget, Task, write_plan
from forum.work.policy import Answer, Extension, Policy, ToolSpec, write_policy
from forum.work.routing import Route
from forum.work.run_fold import Run
from forum.work.team_settings import NANO_USD, to_exact_units

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_AGENT, _TOOL = "__forum_agent__", "__forum_tool__"
_POLL_INTERVAL_S = 0.05
_STOP_SECONDS = 30


class NamedAgent(msgspec.Struct, frozen=True):
    """A function as an agent: its name, and its recorded form."""

    name: str
    agent: Extension


class NamedTool(msgspec.Struct, frozen=True):
    """A function as a tool: its name, and its recorded form."""

    name: str
    tool: ToolSpec


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended, or what it waits for."""

    run: str
    outcome: Outcome | None
    """None if the run has not ended."""
    answer: str | None
    waiting: tuple[str, ...]
    """The subjects of the gates that wait for a decision."""
    usd: float
    """The cost of its calls, in dollars."""
    flags: tuple[str, ...] = ()
    """Why the answer may be about something else, by its words: `off-topic`, `no-number`, `echo`.

    A flag fails nothing.
    """


@overload
def agent(function: FunctionT) -> FunctionT: ...


@overload
def agent(
    function: None = None, *, name: str = "", usd: float | str = 0, tokens: int = 0
) -> Callable[[FunctionT], FunctionT]: ...


def agent(
    function: FunctionT | None = None, *, name: str = "", usd: float | str = 0, tokens: int = 0
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Make a function from a prompt to a reply an agent.

    It may be a coroutine function.  `usd` and `tokens` are the highest cost of one call, which is
    reserved before the call and billed after it.
    """

    def register(wrapped: FunctionT) -> FunctionT:
        chosen = name or wrapped.__name__
        spec = register_agent(chosen, wrapped, usd=_nano_usd(usd), tokens=tokens)
        setattr(wrapped, _AGENT, NamedAgent(chosen, spec))
        return wrapped

    return register if function is None else register(function)


@overload
def tool(function: FunctionT) -> FunctionT: ...


@overload
def tool(
    function: None = None, *, name: str = "", seconds: int = 60
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: FunctionT | None = None, *, name: str = "", seconds: int = 60
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Make a function a tool: its docstring describes it, its type hints are its schema.

    The intent to use it is recorded before it is called, and its outcome after it.
    """

    def register(wrapped: FunctionT) -> FunctionT:
        chosen = name or wrapped.__name__
        spec = register_tool(
            chosen,
            wrapped,
            description=inspect.getdoc(wrapped) or "",
            schema=_schema_of(wrapped),
            seconds=seconds,
        )
        setattr(wrapped, _TOOL, NamedTool(chosen, spec))
        return wrapped

    return register if function is None else register(function)


class SubmittedRun:
    """A run that was accepted; it goes on after the program ends, where a worker can drive it."""

    def __init__(self, forum: Forum, run: str) -> None:
        self._forum, self.id = forum, run

    def follow(self) -> Iterator[Run]:
        """Yield the state of the run after each change, until it ends or waits for a person."""
        seen: dict[str, int] = {}
        while True:
            state = self._forum.reads.follow_run(self.id, patience=_POLL_INTERVAL_S)
            if dict(state.lengths) != seen:
                seen = dict(state.lengths)
                yield state
            if state.outcome is not None or state.interrupted or state.open_gates:
                return

    async def follow_async(self) -> AsyncIterator[Run]:
        """Follow the run without blocking other tasks."""
        states = self.follow()
        while (state := await asyncio.to_thread(next, states, None)) is not None:
            yield state

    def wait(self, seconds: float | None = None) -> RunResult:
        """Wait until the run ends or waits for a person, or so many seconds."""
        self._forum.reads.follow_run(self.id, patience=seconds)
        return self.result()

    async def wait_async(self, seconds: float | None = None) -> RunResult:
        """Wait without blocking other tasks."""
        return await asyncio.to_thread(self.wait, seconds)

    def result(self) -> RunResult:
        """Return what is known of the run now."""
        view = self._forum.reads.view_run(self.id)
        return RunResult(
            run=self.id,
            outcome=view.state.outcome,
            answer=view.answer.decode(errors="replace") if view.answer is not None else None,
            waiting=tuple(gate.opened.subject for _, gate in view.gates),
            usd=view.state.spent.usd / NANO_USD,
            flags=tuple(
                check.reason for _, check in view.state.checks if check.subject == COVERAGE
            ),
        )

    def shown_at(self, subject: str) -> str:
        """Return the content that waits at a gate."""
        return self._forum.reads.read_gate(self.id, subject)[1].decode(errors="replace")

    def decide(self, subject: str, answer: Answer | str) -> None:
        """Approve or reject what waits at a gate; the decision names the content shown now."""
        gate, _ = self._forum.reads.read_gate(self.id, subject)
        self._forum.runs.decide_gate(self.id, subject, Answer(answer), gate.digest)

    def cancel(self) -> None:
        """Request that the run be cancelled."""
        self._forum.runs.cancel(self.id)


class EngineSession:
    """A project, and a worker in this process that carries out its runs.

    Make one with `forum.engine_of`.  Use it in a `with` block, or call `close`.
    """

    def __init__(self, folder: str | Path = ".") -> None:
        self._stack, self._lock = ExitStack(), RLock()
        self._forum = self._stack.enter_context(Forum(load_settings(Path(folder), os.environ)))
        self._forum.keys.initialise()
        self._registry = AgentRegistry(self._forum.settings)
        self._has_worker = False

    def submit(  # noqa: PLR0913  each is what a request may say
        self,
        request: str = "",
        *,
        plan: Plan | Sequence[Task] | None = None,
        agents: Sequence[Callable[..., Any]] = (),
        tools: Sequence[Callable[..., Any]] = (),
        usd: float | str | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        lane: str = "",
        team: bool | None = None,
        route: bool | None = None,
        gates: Sequence[str] = (),
        idempotency_key: str = "",
    ) -> SubmittedRun:
        """Submit a request, or a plan that answers it, and return its run.

        `agents` and `tools` are functions; the first agent works on tasks that name none.  Without
        them the agents of `forum.toml` work.  `gates` are `plan`, `tasks` or `task:NAME`.  The same
        `idempotency_key` returns the same run.  Raises `BadPlan`, `Malformed`, `AgentUnusable`.
        """
        tasks = plan if plan is None or isinstance(plan, Plan) else Plan(tuple(plan))
        policy = self._policy(agents, tools, gates)
        order = RunRequest(request, tasks, policy, _budget(usd, tokens, calls, seconds))
        decided = self._registry.decide(
            order, CallerAuthority.OPERATOR, lane=lane, team=team, route=route
        )
        return self._submit(decided, idempotency_key)

    def deliberate(
        self,
        question: str,
        *,
        agents: Sequence[Callable[..., Any]] = (),
        seats: int | None = None,
        options: Sequence[str] = (),
        usd: float | str | None = None,
        calls: int | None = None,
    ) -> SubmittedRun:
        """Have a council of agents deliberate on a question, and return its run."""
        policy = self._policy(agents, (), ())
        names = [_named_agent(function).name for function in agents] or [""]
        count = seats or max(len(agents), 3)
        council: Panel = Council(
            seats=tuple(Seat(names[number % len(names)]) for number in range(count)),
            options=tuple(options),
            version=COUNCIL_VERSION,
        )
        order = RunRequest(question, None, policy, _budget(usd, None, calls, None))
        decided = self._registry.decide(order, CallerAuthority.OPERATOR, panel=council)
        return self._submit(decided, "")

    def route(self, text: str) -> Route:
        """Return the lane of the roster that a request belongs to, and why."""
        return self._registry.router.route(text)

    def run(self, run: str) -> SubmittedRun:
        """Return a run by its id, or the beginning of it."""
        return SubmittedRun(self._forum, self._forum.reads.find_run(run))

    def close(self) -> None:
        """Let calls under way end, and close the project."""
        _call_in_thread(self._stack.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, order: RunRequest, idempotency_key: str) -> SubmittedRun:
        with self._lock:
            # Before the run is accepted: its time limit counts from then on.
            if not self._has_worker:
                worker = self._forum.runs.run_worker(patience=_STOP_SECONDS)
                _call_in_thread(lambda: self._stack.enter_context(worker))
                self._has_worker = True
        ticket = None
        if idempotency_key:
            plan = write_plan(order.plan) if order.plan is not None else b""
            parts = (order.request.encode(), plan, write_policy(order.policy))
            digest = sha256(b"\0".join(parts)).hexdigest()
            ticket = IdempotencyKey(f"{OPERATOR}/python/{idempotency_key}", digest)
        return SubmittedRun(self._forum, self._forum.runs.submit(order, ticket=ticket))

    def _policy(
        self,
        agents: Sequence[Callable[..., Any]],
        tools: Sequence[Callable[..., Any]],
        gates: Sequence[str],
    ) -> Policy:
        policy = self._registry.current_policy()
        named = [_named_agent(function) for function in agents]
        added: dict[str, Any] = {found.name: found.agent for found in named}
        if named:
            added[""] = named[0].agent
        given = [_named_tool(function) for function in tools]
        return msgspec.structs.replace(
            policy,
            agents={**policy.agents, **added},
            tools={**policy.tools, **{found.name: found.tool for found in given}},
            gates=tuple(gates),
        )


def _named_agent(function: Callable[..., Any]) -> NamedAgent:
    found = getattr(function, _AGENT, None)
    if not isinstance(found, NamedAgent):
        raise errors.Malformed("agent", f"{function!r} is not decorated with forum.agent")
    return found


def _named_tool(function: Callable[..., Any]) -> NamedTool:
    found = getattr(function, _TOOL, None)
    if not isinstance(found, NamedTool):
        raise errors.Malformed("tool", f"{function!r} is not decorated with forum.tool")
    return found


def _schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, from its type hints."""
    hints = get_type_hints(function)
    members, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        members[name] = msgspec.json.schema(hints[name]) if name in hints else {}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {
        "type": "object",
        "properties": members,
        "required": required,
        "additionalProperties": False,
    }


def _budget(
    usd: float | str | None, tokens: int | None, calls: int | None, seconds: float | None
) -> RunBudget:
    limits = {
        "usd": None if usd is None else _nano_usd(usd),
        "tokens": tokens,
        "calls": calls,
        "milliseconds": None if seconds is None else round(1000 * seconds),
    }
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return msgspec.structs.replace(RunBudget(), **given)


def _nano_usd(usd: float | str) -> int:
    return to_exact_units(str(usd), NANO_USD)


def _call_in_thread(function: Callable[[], object]) -> None:
    """Call a function where no event loop runs: the queue of the worker refuses to start in one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # At the exit of the interpreter, too, where no thread can be started any more.
        function()
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


_default: EngineSession | None = None
_lock = RLock()


def engine_of(folder: str | Path = ".") -> EngineSession:
    """Return the engine of a project, with a worker in this process."""
    return EngineSession(folder)


def default_engine() -> EngineSession:
    """Return the engine of the current folder that the module's functions use."""
    global _default  # noqa: PLW0603  one for each process
    with _lock:
        if _default is None:
            import atexit  # noqa: PLC0415  only where an engine is used

            _default = EngineSession()
            atexit.register(_default.close)
    return _default


def submit(request: str = "", **options: Any) -> SubmittedRun:  # noqa: ANN401  those of the method
    """Submit a request or a plan in the current folder; see `EngineSession.submit`."""
    return default_engine().submit(request, **options)


def deliberate(question: str, **options: Any) -> SubmittedRun:  # noqa: ANN401  those of the method
    """Have a council deliberate in the current folder; see `EngineSession.deliberate`."""
    return default_engine().deliberate(question, **options)


def route(text: str) -> Route:
    """Return the lane that a request belongs to; see `EngineSession.route`."""
    return default_engine().route(text)
