"""The engine for Python programs: submit requests and plans, follow them, and decide at gates.

Agents and tools are those of `forum.toml`, and functions of the program that are decorated with
`agent` and `tool`.  What is carried out for a request is decided by `forum.app.planner`, as for the
command line and the HTTP API.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

import msgspec

from forum.app import OPERATOR, Forum
from forum.app.planner import AgentRegistry, CallerAuthority, CallerParts, require_agents
from forum.config import load_settings
from forum.engine import IdempotencyKey, RunRequest
from forum.features.recorder.named_parts import AgentChoice, NamedAgent, all_tools, named_agent
from forum.features.recorder.plan_values import (
    PanelValue,
    PlanValue,
    read_budget,
    read_ladder,
    read_panels,
    read_plan_value,
    read_roles,
)
from forum.features.recorder.submitted_run import SubmittedRun
from forum.features.recorder.typed_values import AnswerType
from forum.runs.panel import COUNCIL_VERSION, Council, Panel, Seat, count_seats
from forum.runs.policy import Chat, Policy, ToolSpec
from forum.runs.routing import Route
from forum.spelling import suggest_or_list

ValueT = TypeVar("ValueT")
_STOP_SECONDS = 30
_LIMITS = ("usd", "tokens", "calls", "seconds")


class DeliberateArguments(TypedDict, total=False):
    """The options of `deliberate`."""

    agents: Sequence[AgentChoice]
    """The agents that take the seats in turn; without them, those of `forum.toml` do."""
    seats: int
    """How many sit on the council; else as many as agents, or five for one or none."""
    options: Sequence[str]
    """The possible answers; without them any text may be one."""
    usd: float | str | None
    """The most that the run may cost, in dollars."""
    calls: int | None
    about: str | None
    """The run on whose answer the council deliberates; the question is about it, or empty."""


class SubmitArguments(TypedDict, total=False):
    """The options of `submit`."""

    plan: PlanValue | None
    """Tasks that answer the request: `[{"id": ..., "instruction": ...}]`, `forum.Task`s, or a
    `forum.Plan`.  Members of a task are those of a plan file."""
    agents: Sequence[AgentChoice]
    """Functions, `forum.model(...)`, `provider:model`, or names of models in `forum.toml`; the
    first works on tasks that name none.  Other agents of `forum.toml` then work only
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
    ladder: Sequence[str]
    """Who tries next if a result is not accepted: names of agents, then of panels."""
    panels: Mapping[str, PanelValue]
    """Panels by name, as `[panels.NAME]` in `forum.toml`; one of the same name is replaced."""
    roles: Mapping[str, str | bool]
    """The agent or panel of each role, as `[roles]` in `forum.toml`; False leaves a role out."""
    gates: Sequence[str]
    """What needs approval: `plan`, `tasks` or `task:NAME`."""
    idempotency_key: str
    """The same key returns the same run."""


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

    @overload
    def submit(
        self, request: str = "", *, result: None = None, **options: Unpack[SubmitArguments]
    ) -> SubmittedRun[None]: ...

    @overload
    def submit(
        self, request: str = "", *, result: type[ValueT], **options: Unpack[SubmitArguments]
    ) -> SubmittedRun[ValueT]: ...

    def submit(
        self,
        request: str = "",
        *,
        result: type[Any] | None = None,
        **options: Unpack[SubmitArguments],
    ) -> SubmittedRun[Any]:
        """Submit a request, or a plan that answers it, and return its run.

        `result` is the type of the answer: its schema reaches the model, and `value` of the result
        is the parsed answer.  See `SubmitArguments`.  Raises `BadPlan`, `Malformed` and
        `AgentUnusable`.
        """
        _check_options("submit", options, SubmitArguments)
        plan, agents = options.get("plan"), options.get("agents", ())
        tools = options.get("tools", ())
        named = [named_agent(choice, self._registry.base_policy.agents) for choice in agents]
        given = all_tools(tools, named)
        panels = read_panels(options.get("panels", {}))
        roles = read_roles(options.get("roles", {}))
        policy = self._policy(named, given, options.get("gates", ()))
        policy = msgspec.structs.replace(
            policy,
            ladder=read_ladder(options.get("ladder", ())) or policy.ladder,
            panels=policy.panels | panels,
            roles={
                role: name
                for role, name in (policy.roles | roles.named).items()
                if role not in roles.off
            },
        )
        run_request = RunRequest(
            request,
            None if plan is None else read_plan_value(plan),
            policy,
            read_budget({name: options.get(name) for name in _LIMITS}, "submit"),
        )
        decided = self._registry.decide(
            run_request,
            CallerAuthority.OPERATOR,
            lane=options.get("lane", ""),
            team=options.get("team"),
            route=options.get("route"),
            own=CallerParts(
                agents=tuple(agent.name for agent in named),
                tools=tuple(given),
                panels=tuple(panels),
                roles=frozenset(roles.named),
                off=roles.off,
            ),
        )
        into = AnswerType(result) if result is not None else None
        if into is not None:
            decided = into.demand(decided)
        if any(isinstance(agent.agent, Chat) for agent in named):
            # This process makes the calls, so that it is known now whether it has the keys.
            require_agents(decided.policy, decided.plan, keys=True)
        return self._submit(decided, options.get("idempotency_key", ""), into)

    @overload
    async def asubmit(
        self, request: str = "", *, result: None = None, **options: Unpack[SubmitArguments]
    ) -> SubmittedRun[None]: ...

    @overload
    async def asubmit(
        self, request: str = "", *, result: type[ValueT], **options: Unpack[SubmitArguments]
    ) -> SubmittedRun[ValueT]: ...

    async def asubmit(
        self,
        request: str = "",
        *,
        result: type[Any] | None = None,
        **options: Unpack[SubmitArguments],
    ) -> SubmittedRun[Any]:
        """Submit without blocking other tasks; see `submit`."""
        return await asyncio.to_thread(lambda: self.submit(request, result=result, **options))

    def deliberate(
        self, question: str = "", **options: Unpack[DeliberateArguments]
    ) -> SubmittedRun[None]:
        """Have a council of agents deliberate on a question, and return its run.

        See `DeliberateArguments`.  Raises `BadPlan`, `Malformed`, `AgentUnusable`; with `about`
        also `NoSuchEntry`, `AnswerNotFinal`, `NoAnswer`, `BodyGone`.
        """
        _check_options("deliberate", options, DeliberateArguments)
        agents = options.get("agents", ())
        named = [named_agent(choice, self._registry.base_policy.agents) for choice in agents]
        policy = self._policy(named, {}, ())
        names = [agent.name for agent in named] or [""]
        count = count_seats(options.get("seats"), models=len(agents))
        council: Panel = Council(
            seats=tuple(Seat(names[number % len(names)]) for number in range(count)),
            options=tuple(options.get("options", ())),
            version=COUNCIL_VERSION,
        )
        limits = {"usd": options.get("usd"), "calls": options.get("calls")}
        about = options.get("about")
        subject = self._forum.reads.read_answer_reference(about) if about else None
        asked = subject.compose_question(question) if subject else question
        budget = read_budget(limits, "deliberate")
        request = RunRequest(asked, None, policy, budget, about=subject)
        decided = self._registry.decide(request, CallerAuthority.OPERATOR, panel=council)
        return self._submit(decided, "", None)

    def route(self, text: str) -> Route:
        """Return the lane of the roster that a request belongs to, and why."""
        return self._registry.router.route(text)

    def run(self, run: str) -> SubmittedRun[None]:
        """Return a run by its id, or the beginning of it."""
        return SubmittedRun(self._forum, self._forum.reads.find_run(run))

    def close(self) -> None:
        """Let calls under way end, and close the project."""
        _call_in_thread(self._stack.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(
        self, request: RunRequest, idempotency_key: str, into: AnswerType[Any] | None
    ) -> SubmittedRun[Any]:
        with self._lock:
            # Before the run is accepted: its time limit counts from then on.
            if not self._has_worker:
                worker = self._forum.runs.run_worker(patience=_STOP_SECONDS)
                _call_in_thread(lambda: self._stack.enter_context(worker))
                self._has_worker = True
        key, owner = idempotency_key, f"{OPERATOR}/python"
        key_of_request = IdempotencyKey.of_order(owner, key, request) if key else None
        return SubmittedRun(
            self._forum, self._forum.runs.submit(request, idempotency_key=key_of_request), into
        )

    def _policy(
        self, agents: Sequence[NamedAgent], tools: Mapping[str, ToolSpec], gates: Sequence[str]
    ) -> Policy:
        policy = self._registry.current_policy()
        added = {agent.name: agent.agent for agent in agents}
        if agents:
            added[""] = agents[0].agent
        return msgspec.structs.replace(
            policy,
            agents=policy.agents | added,
            tools=policy.tools | dict(tools),
            gates=tuple(gates),
        )


def _check_options(function: str, given: Mapping[str, object], options: type) -> None:
    """Refuse an option that a function does not have.  Raises `TypeError`."""
    for name in given:
        if name not in options.__annotations__:
            why = suggest_or_list(name, options.__annotations__)
            raise TypeError(f"{function}() has no option {name!r}; {why}")


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
            import atexit

            _default = EngineSession()
            atexit.register(_default.close)
    return _default


@overload
def submit(
    request: str = "", *, result: None = None, **options: Unpack[SubmitArguments]
) -> SubmittedRun[None]: ...


@overload
def submit(
    request: str = "", *, result: type[ValueT], **options: Unpack[SubmitArguments]
) -> SubmittedRun[ValueT]: ...


def submit(
    request: str = "", *, result: type[Any] | None = None, **options: Unpack[SubmitArguments]
) -> SubmittedRun[Any]:
    """Submit a request or a plan in the current folder; see `EngineSession.submit`."""
    return default_engine().submit(request, result=result, **options)


@overload
async def asubmit(
    request: str = "", *, result: None = None, **options: Unpack[SubmitArguments]
) -> SubmittedRun[None]: ...


@overload
async def asubmit(
    request: str = "", *, result: type[ValueT], **options: Unpack[SubmitArguments]
) -> SubmittedRun[ValueT]: ...


async def asubmit(
    request: str = "", *, result: type[Any] | None = None, **options: Unpack[SubmitArguments]
) -> SubmittedRun[Any]:
    """Submit in the current folder without blocking other tasks; see `EngineSession.submit`."""
    return await asyncio.to_thread(lambda: submit(request, result=result, **options))


def deliberate(question: str = "", **options: Unpack[DeliberateArguments]) -> SubmittedRun[None]:
    """Have a council deliberate in the current folder; see `EngineSession.deliberate`."""
    return default_engine().deliberate(question, **options)


def route(text: str) -> Route:
    """Return the lane that a request belongs to; see `EngineSession.route`."""
    return default_engine().route(text)
