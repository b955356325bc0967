"""The engine for Python programs: submit requests and plans, follow them, and decide at gates.

Agents and tools are those of `forum.toml`, and functions of the program that are decorated with
`agent` and `tool`.  What is carried out for a request is decided by `forum.planning`, as for the
command line and the HTTP API.
"""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypedDict, TypeVar, Unpack, get_type_hints, overload

import msgspec

from forum import errors
from forum.app import OPERATOR, Forum
from forum.app.extensions import register_agent, register_tool
from forum.config import load_settings
from forum.engine import IdempotencyKey, RunRequest
from forum.ledger.kinds import Outcome
from forum.planning import AgentRegistry, CallerAuthority, CallerParts
from forum.sdk.plan_values import PlanValue, read_budget, read_plan_value
from forum.spelling import suggest_or_list
from forum.work.panel import COUNCIL_VERSION, Council, Panel, Seat
from forum.work.plan import write_plan
from forum.work.policy import Answer, Extension, Policy, ToolSpec, write_policy
from forum.work.routing import Route
from forum.work.run_fold import Run
from forum.work.team_settings import NANO_USD, to_exact_units

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_AGENT, _TOOL = "__forum_agent__", "__forum_tool__"
_POLL_INTERVAL_S = 0.05
_STOP_SECONDS = 30
_LIMITS = ("usd", "tokens", "calls", "seconds")


class NamedAgent(msgspec.Struct, frozen=True):
    """A function as an agent: its name, and its recorded form."""

    name: str
    agent: Extension


class NamedTool(msgspec.Struct, frozen=True):
    """A function as a tool: its name, and its recorded form."""

    name: str
    tool: ToolSpec


class DeliberateArguments(TypedDict, total=False):
    """The options of `deliberate`."""

    agents: Sequence[Callable[..., Any]]
    """The agents that take the seats in turn; without them, those of `forum.toml` do."""
    seats: int
    """How many sit on the council; else as many as agents, and at least three."""
    options: Sequence[str]
    """The possible answers; without them any text may be one."""
    usd: float | str | None
    """The most that the run may cost, in dollars."""
    calls: int | None


class SubmitArguments(TypedDict, total=False):
    """The options of `submit`."""

    plan: PlanValue | None
    """Tasks that answer the request: `[{"id": ..., "instruction": ...}]`, `forum.Task`s, or a
    `forum.Plan`.  Members of a task are those of a plan file."""
    agents: Sequence[Callable[..., Any]]
    """Functions; the first works on tasks that name none.  Agents of `forum.toml` then work only
    where the plan names them.  Without `agents` they do all work."""
    tools: Sequence[Callable[..., Any]]
    """Functions that every task may use, beside the tools of its lane."""
    usd: float | str | None
    """The most that the run may cost, in dollars."""
    tokens: int | None
    calls: int | None
    seconds: float | None
    lane: str
    """The lane of the roster that the request belongs to."""
    team: bool | None
    """Whether a team plans, judges and writes the answer; None: as `forum.toml` says."""
    route: bool | None
    """Whether the lane is looked for; None: if a model of `forum.toml` answers."""
    gates: Sequence[str]
    """What needs approval: `plan`, `tasks` or `task:NAME`."""
    idempotency_key: str
    """The same key returns the same run."""


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

    def submit(self, request: str = "", **options: Unpack[SubmitArguments]) -> SubmittedRun:
        """Submit a request, or a plan that answers it, and return its run.

        See `SubmitArguments`.  Raises `BadPlan`, `Malformed`, `AgentUnusable`.
        """
        _check_options("submit", options, SubmitArguments)
        plan, agents, tools = (
            options.get("plan"),
            options.get("agents", ()),
            options.get("tools", ()),
        )
        policy = self._policy(agents, tools, options.get("gates", ()))
        order = RunRequest(
            request,
            None if plan is None else read_plan_value(plan),
            policy,
            read_budget({name: options.get(name) for name in _LIMITS}, "submit"),
        )
        decided = self._registry.decide(
            order,
            CallerAuthority.OPERATOR,
            lane=options.get("lane", ""),
            team=options.get("team"),
            route=options.get("route"),
            own=CallerParts(
                tuple(_named_agent(function).name for function in agents),
                tuple(_named_tool(function).name for function in tools),
            ),
        )
        return self._submit(decided, options.get("idempotency_key", ""))

    def deliberate(self, question: str, **options: Unpack[DeliberateArguments]) -> SubmittedRun:
        """Have a council of agents deliberate on a question, and return its run.

        See `DeliberateArguments`.  Raises `BadPlan`, `Malformed`, `AgentUnusable`.
        """
        _check_options("deliberate", options, DeliberateArguments)
        agents = options.get("agents", ())
        policy = self._policy(agents, (), ())
        names = [_named_agent(function).name for function in agents] or [""]
        count = options.get("seats") or max(len(agents), 3)
        council: Panel = Council(
            seats=tuple(Seat(names[number % len(names)]) for number in range(count)),
            options=tuple(options.get("options", ())),
            version=COUNCIL_VERSION,
        )
        limits = {"usd": options.get("usd"), "calls": options.get("calls")}
        order = RunRequest(question, None, policy, read_budget(limits, "deliberate"))
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


def _check_options(function: str, given: Mapping[str, object], options: type) -> None:
    """Refuse an option that a function does not have.  Raises `TypeError`."""
    for name in given:
        if name not in options.__annotations__:
            why = suggest_or_list(name, options.__annotations__)
            raise TypeError(f"{function}() has no option {name!r}; {why}")


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


def submit(request: str = "", **options: Unpack[SubmitArguments]) -> SubmittedRun:
    """Submit a request or a plan in the current folder; see `EngineSession.submit`."""
    return default_engine().submit(request, **options)


def deliberate(question: str, **options: Unpack[DeliberateArguments]) -> SubmittedRun:
    """Have a council deliberate in the current folder; see `EngineSession.deliberate`."""
    return default_engine().deliberate(question, **options)


def route(text: str) -> Route:
    """Return the lane that a request belongs to; see `EngineSession.route`."""
    return default_engine().route(text)
