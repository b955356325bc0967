"""Who does the work: the roster and its router, the agents of the project file, their tools.

Beside `forum.app` the only module that chooses model adapters.  It imports them inside functions,
so that a command loads only what it uses.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from math import inf
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from forum.config import Settings
from forum.errors import (
    AgentUnusable,
    BadPlan,
    BadRoster,
    Malformed,
    MissingExtra,
    ServerUnusable,
    require_extra,
)
from forum.work import (
    ELSEWHERE,
    MAX_CANDIDATES,
    Agent,
    AgentInspection,
    Answer,
    Basis,
    Chat,
    Check,
    FeatureTable,
    LaneBrief,
    Panel,
    Plan,
    Policy,
    Roster,
    RouteFacts,
    Router,
    RoutingStage,
    RunBudget,
    Symposium,
    Task,
    TeamSettings,
    Tier,
    agent_for,
    agents_in,
    build_team_policy,
    count_features,
    fill_seats,
    parse_criteria,
    read_roster,
    read_team_settings,
    route_facts,
    single_task_plan,
)

if TYPE_CHECKING:
    from forum.engine import CallReply, RunRequest

_TOOLS_TTL_S = 60.0
"""For how long it is believed that MCP servers offer what they offered."""
_RETRY_DELAY_S = 5.0
"""For how long one that could not be asked is left alone."""

# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_roster = msgspec.json.Decoder(Roster)
_SAMPLE_REQUEST = "Summarise this page in three sentences."


@contextmanager
def serve_demo_model() -> Iterator[tuple[str, str]]:
    """Serve a real model on this machine, and give its address and its name."""
    from forum.models.smollm2 import MODEL, start_smollm2

    with start_smollm2() as url:
        yield url, MODEL


def load_roster(path: Path | None = None) -> Roster:
    """Read a roster; without a path, the one that comes with Forum.  Raises `BadRoster`."""
    if path is None:
        return _read_cached_roster(files("forum.work").joinpath("roster.toml").read_bytes())
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadRoster(path.name, error.strerror or str(error)) from None
    return _read_cached_roster(content)


def _read_cached_roster(content: bytes) -> Roster:
    """Read a roster, and keep it as JSON: TOML takes twenty times as long to read."""
    from forum.models.user_cache import cache_folder, read_cached, write_cached

    file = cache_folder() / f"roster-{sha256(content).hexdigest()[:32]}.json"
    try:
        return _roster.decode(read_cached(file) or b"")
    except msgspec.MsgspecError:
        pass  # not kept yet, or by another release
    roster = read_roster(content)
    write_cached(file, msgspec.json.encode(roster))
    return roster


def build_router(roster: Roster, semantic: RoutingStage | None = None) -> Router:
    """Return the router of a roster; how often it has which feature is counted once, and kept."""
    from forum.models.user_cache import cache_folder, read_cached, write_cached

    file = cache_folder() / f"features-{roster.digest[:32]}"
    try:
        features = FeatureTable(read_cached(file) or b"")
    except Malformed:
        counted = count_features(roster)
        write_cached(file, counted)
        features = FeatureTable(counted)
    return Router(roster, semantic, features=features)


def make_router(
    roster: Roster, rung: str = "auto", tell: Callable[[str], None] = lambda _: None
) -> Router:
    """Return a router by one of the RUNGS; what is fitted to a roster is kept for next time.

    Nobody waits for what was not asked for: `auto` takes meaning only where it is fitted already.
    """
    if rung == "lexical":
        return build_router(roster)
    from forum.models.user_cache import cache_folder

    cache = cache_folder()
    try:
        with require_extra("semantic"):
            from forum.models.semantic_routing import fit_semantic_stage, open_semantic_stage

            semantic = open_semantic_stage(roster, cache)
    except MissingExtra:
        if rung == "semantic":
            raise
        return build_router(roster)
    if semantic is None and rung == "semantic":
        tell("reading the examples of this roster, once; that takes a while")
        semantic = fit_semantic_stage(roster, cache)
    return build_router(roster, semantic)


def load_team_settings(settings: Settings) -> TeamSettings:
    """Return what the project file says of agents, tools, servers, roles and the roster."""
    found = read_team_settings(str(settings.file or settings.user_file), settings.team)
    home = settings.file.parent if settings.file else Path()
    agents: dict[str, Agent] = {
        name: msgspec.structs.replace(agent, key_file=str(home / agent.key_file))
        if isinstance(agent, Chat) and agent.key_file
        else agent
        for name, agent in found.agents.items()
    }
    roster = str(home / found.roster) if found.roster else ""
    return msgspec.structs.replace(found, agents=agents, roster=roster)


def pin_tools(policy: Policy, settings: Settings) -> Policy:
    """Ask the MCP servers of a policy what they offer: the tools of a run do not change under it.

    Raises `ServerUnusable`, and `MissingExtra`.
    """
    import asyncio

    if not policy.servers:
        return policy
    from forum.models.mcp_tools import list_tools
    from forum.models.sandbox import make_sandbox

    offered = asyncio.run(list_tools(policy.servers, sandbox=make_sandbox(settings)))
    return msgspec.structs.replace(policy, tools=offered | policy.tools)


def route_request(
    order: "RunRequest",
    roster: Roster,
    *,
    lane: str = "",
    team: bool = False,
    router: Router | None = None,
    rung: str = "auto",
) -> "RunRequest":
    """Return an order with the lane of its request; to be done by one agent or by a team.

    For one agent there is a plan of one task, in the lane if there is one.  A team makes its plan,
    and if the lane could not be told, its Classifier chooses among the nearest.
    """
    from forum.engine import RouteDecision

    if router is None:
        router = build_router(roster) if lane and not team else make_router(roster, rung)
    if lane:
        taken = RouteDecision(RouteFacts(lane, Basis.GIVEN, roster=roster.digest))
    else:
        found = router.route(order.request)
        taken = RouteDecision(route_facts(found, roster), msgspec.json.encode(found))
    near = router.nearest(order.request, MAX_CANDIDATES) if team else ()
    lane = taken.facts.lane
    lanes = dict.fromkeys([lane, *near] if lane else near)
    policy = build_team_policy(order.policy, roster, lanes, roles=team)
    if team:
        return replace(order, policy=policy, route=taken if lane else None)
    plan = single_task_plan(order.request, lane)
    if not lane:
        worker = agent_for(Tier.CAPABLE, policy.agents)
        # Where nobody could tell whose work it is, nobody has said which tools it may use.
        if policy.tools and not policy.lanes:
            policy = msgspec.structs.replace(policy, lanes={ELSEWHERE: LaneBrief(agent=worker)})
        plan = Plan((Task("answer", order.request, agent=worker),))
    return replace(order, policy=policy, plan=plan, route=taken)


class ClientRequest(msgspec.Struct, frozen=True):
    """What somebody who does not configure anything may say of what is to be done."""

    request: str
    tasks: tuple[Task, ...] = ()
    """The plan, if there is one already."""
    lane: str = ""
    team: bool | None = None
    route: bool | None = None
    """Whether its lane is looked for; done by itself where agents are configured."""
    budget: RunBudget = RunBudget()
    gates: tuple[str, ...] = ()
    gate_milliseconds: int | None = None
    gate_default: Answer | None = None
    parallel: int | None = None
    retries: int | None = None
    panel: Panel | None = None
    """Who deliberates on it, instead of carrying out a plan; empty seats are given to agents."""


class AgentRegistry:
    """Those who work for one ledger, kept ready for many requests.

    Who they are says the operator alone: whoever asks can choose among them, and name nobody else.
    Raises `BadRoster`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self.team_settings = settings, load_team_settings(settings)
        if self.team_settings.roster:
            _ = self.roster  # or whoever asks would be the first to find that it cannot be read
        self._lock = Lock()
        self._policy_or_error: Policy | ServerUnusable = ServerUnusable("", "")
        self._refresh_at = -inf

    @cached_property
    def roster(self) -> Roster:
        """The lanes that there are."""
        return load_roster(Path(self.team_settings.roster) if self.team_settings.roster else None)

    @cached_property
    def router(self) -> Router:
        """What tells the lane of a request."""
        return make_router(self.roster, self.team_settings.rung)

    @cached_property
    def base_policy(self) -> Policy:
        """The policy with everybody in it."""
        known = self.team_settings
        policy = Policy(tools=known.tools, servers=known.servers, roles=known.roles)
        return msgspec.structs.replace(policy, agents=known.agents) if known.agents else policy

    def warm_up(self) -> None:
        """Load what the first request would have to wait for.

        Some models are loaded only when they are asked: so a request is routed, and then dropped.
        """
        from forum.engine import RunRequest

        if self.team_settings.agents:
            order = RunRequest(_SAMPLE_REQUEST, None, self.base_policy, RunBudget())
            routed = route_request(order, self.roster, router=self.router)
            with suppress(AgentUnusable):  # that is for whoever wants this agent
                require_agents(routed.policy, routed.plan, keys=False)

    def is_cheap(self, ask: ClientRequest) -> bool:
        """Tell whether an order is made without asking a router, a model or a server of tools."""
        return not self.team_settings.servers and (bool(ask.tasks) or not self._is_routed(ask))

    def refresh_server_tools(self) -> None:
        """Learn which tools the servers offer now.  Raises `ServerUnusable`."""
        if self.team_settings.servers:
            self._current_policy()

    def make_run_request(self, ask: ClientRequest) -> "RunRequest":
        """Return what is to be carried out.  Raises `BadPlan`, `Malformed`, `AgentUnusable`."""
        from forum.engine import RunRequest

        budget = ask.budget.capped_by(self.team_settings.ceiling)
        order = RunRequest(ask.request, None, self._policy(ask), budget)
        team = self.team_settings.team if ask.team is None else ask.team
        if ask.panel is not None:
            order = seat_panel(order, ask.panel)
        elif ask.tasks:
            order = self._with_lanes(replace(order, plan=Plan(ask.tasks)), team=team)
        elif self._is_routed(ask):
            if ask.lane and ask.lane not in self.roster.by_name:
                raise BadPlan(f"the roster has no lane {ask.lane!r}")
            router = self.router
            order = route_request(order, self.roster, lane=ask.lane, team=team, router=router)
        else:
            plan = single_task_plan(ask.request)
            order = self._with_lanes(replace(order, plan=plan), team=False)
        order.policy.check(order.plan)
        # Whether the keys are here does not matter: the work is done by workers.
        require_agents(order.policy, order.plan, keys=False)
        return order

    def _is_routed(self, ask: ClientRequest) -> bool:
        if ask.route is not None:
            return ask.route
        return bool(ask.lane or ask.team or self.team_settings.agents)

    def _with_lanes(self, order: "RunRequest", *, team: bool) -> "RunRequest":
        """Return an order with the lanes of the roster that its tasks name."""
        tasks = order.plan.all_tasks if order.plan else ()
        lanes = sorted({task.lane for task in tasks} - {""})
        policy = order.policy
        if lanes or team:
            for lane in lanes:
                if lane not in self.roster.by_name:
                    raise BadPlan(f"the roster has no lane {lane!r}")
            policy = build_team_policy(policy, self.roster, lanes, roles=team)
        plan = order.plan and seat_task_panels(order.plan, policy)
        if policy.tools and not policy.lanes:
            policy = msgspec.structs.replace(policy, lanes={ELSEWHERE: LaneBrief()})
        check_tool_permissions(tasks, policy)
        return replace(order, plan=plan, policy=policy)

    def _policy(self, ask: ClientRequest) -> Policy:
        wished = {
            "gates": ask.gates or None,
            "gate_milliseconds": ask.gate_milliseconds,
            "gate_default": ask.gate_default,
            "parallel": ask.parallel,
            "retries": ask.retries,
        }
        given = {name: value for name, value in wished.items() if value is not None}
        return msgspec.structs.replace(self._current_policy(), **given)

    def _current_policy(self) -> Policy:
        """Return the policy with everybody in it, and the tools that servers now offer."""
        before = self._policy_or_error
        # One asks the servers.  Whoever has what they offered before does not wait for it.
        if not self._lock.acquire(blocking=not isinstance(before, Policy)):
            assert isinstance(before, Policy)  # noqa: S101  or it would have waited
            return before
        try:
            if monotonic() >= self._refresh_at:
                self._refresh_tools()
            found = self._policy_or_error
        finally:
            self._lock.release()
        if isinstance(found, Policy):
            return found
        raise ServerUnusable(*found.args)

    def _refresh_tools(self) -> None:
        """Ask the servers what they offer, and remember it: also that they could not be asked."""
        try:
            self._policy_or_error = pin_tools(self.base_policy, self._settings)
            self._refresh_at = monotonic() + _TOOLS_TTL_S
        except ServerUnusable as error:
            self._policy_or_error = error
            self._refresh_at = monotonic() + _RETRY_DELAY_S


def seat_panel(order: "RunRequest", panel: Panel) -> "RunRequest":
    """Return an order on which a panel deliberates, all seats at the same time.

    Raises `BadPlan`, `Malformed`.
    """
    from forum.deliberation import budget_from_panel, seat_symposium

    policy = order.policy
    if not order.request.strip():
        raise BadPlan("there is no question to deliberate on")
    if policy.agents == Policy().agents:
        raise BadPlan(
            "nobody can sit on the panel: name models in forum.toml ([models.NAME]), or see how it "
            "goes with forum demo panel"
        )
    if isinstance(panel, Symposium):
        panel = seat_symposium(panel, policy.agents)
        order = replace(order, budget=order.budget.capped_by(budget_from_panel(panel)))
    else:
        panel = fill_seats(panel, _agent_names(policy))
        policy = msgspec.structs.replace(policy, parallel=max(policy.parallel, len(panel.seats)))
    policy = policy.for_panel(panel, order.request)
    # What planning needs is of no use to a panel.
    return replace(order, policy=msgspec.structs.replace(policy, lanes={}, roles={}))


def seat_task_panels(plan: Plan, policy: Policy) -> Plan:
    """Return a plan in which the panels of its tasks are seated."""
    agents = _agent_names(policy)
    return Plan(tuple(_seat_task_panel(task, agents) for task in plan.tasks))


def _agent_names(policy: Policy) -> list[str]:
    return sorted(name for name in policy.agents if name)


def _seat_task_panel(task: Task, agents: Sequence[str]) -> Task:
    panel = task.panel and fill_seats(task.panel, agents)
    tasks = tuple(_seat_task_panel(inner, agents) for inner in task.tasks)
    return msgspec.structs.replace(task, panel=panel, tasks=tasks)


def check_tool_permissions(tasks: Iterable[Task], policy: Policy) -> None:
    """Refuse checks by which somebody from outside would use more than the lane of a task may.

    A check runs its tool, and one of a file tells what is in the files of the worker.
    """
    for task in tasks:
        wanted = [task.panel.check] if task.panel and task.panel.check else []
        for demand in parse_criteria(task.done_when):
            if demand.check is Check.FILE:
                why = "files are checked only for whoever runs forum itself"
                raise BadPlan(f"task {task.id}: {why}")
            if demand.check in (Check.COMMAND, Check.TESTS):
                wanted.append(demand.what.split(maxsplit=1)[0] if demand.what else "")
        for tool in wanted:
            if tool not in policy.tools_of(task):
                raise BadPlan(f"task {task.id}: its lane may not use the tool {tool!r}")


def require_agents(policy: Policy, plan: Plan | None, *, keys: bool) -> None:
    """Refuse a run whose agents could not be asked.  Raises `AgentUnusable`.

    Whether keys are here counts only if the work is done here.
    """
    from forum.models import make_model
    from forum.models.agent_inspection import require_agent

    for name in sorted(agents_in(policy, plan)):
        if name not in policy.agents:
            raise AgentUnusable(name, "nobody says who that is")
        require_agent(name, policy.agents[name], make_model, key=keys)


def inspect_agent(agent: Agent) -> AgentInspection:
    """Tell what is known of an agent, without asking it anything."""
    from forum.models.agent_inspection import describe_agent

    return describe_agent(agent)


def probe_agent(agent: Agent, seconds: float, settings: Settings) -> "CallReply":
    """Ask an agent for a word, outside of every run.  Nothing of it is recorded."""
    import asyncio

    from forum.models import make_model
    from forum.models.agent_inspection import probe_model
    from forum.models.sandbox import make_sandbox

    return asyncio.run(probe_model(make_model(agent, make_sandbox(settings)), seconds))


def check_confinement(settings: Settings) -> bool:
    """Tell whether programs of agents are confined.  Raises `NotConfined` if they cannot be."""
    from forum.models.sandbox import make_sandbox

    sandbox = make_sandbox(settings)
    if sandbox is not None:
        sandbox.check_usable()
    return sandbox is not None
