"""Turn requests into run requests: the roster and its router, configured agents and tools.

Beside `forum.app` this is the only module that chooses model adapters. It imports them inside
functions, so that a command loads only the modules that it uses.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, StrEnum
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from math import inf
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from forum import errors
from forum.app.clock_ids_and_kinds import KINDS
from forum.config import Settings
from forum.installation import require_extra
from forum.runs import role_assignment, team_measurements
from forum.runs.acceptance_criteria import Check, parse_criteria
from forum.runs.agent_inspection import AgentInspection
from forum.runs.cli_agents import CliAgent
from forum.runs.feature_table import FeatureTable
from forum.runs.kinds import Basis, RouteFacts
from forum.runs.model_weights import MODEL_WEIGHTS, ModelWeights, WeightsInspection
from forum.runs.panel import Council, Panel, Symposium
from forum.runs.plan import Plan, RunBudget, Task, seat_decision_task, single_task_plan
from forum.runs.policy import (
    Agent,
    Api,
    Chat,
    Extension,
    LaneBrief,
    Library,
    Policy,
    Role,
    Scripted,
)
from forum.runs.roster import ELSEWHERE, Roster, Tier, read_roster
from forum.runs.routing import Route, Router, RoutingStage, count_features
from forum.runs.team_settings import TeamSettings, read_team_settings
from forum.section_reader import SectionTables

if TYPE_CHECKING:
    from forum.engine import CallReply, RunRequest
    from forum.models.cli_status import CliStatus

_TOOLS_TTL_S = 60.0
"""How long a list of tools from the MCP servers is used before they are asked again."""
_RETRY_DELAY_S = 5.0
"""Delay before MCP servers that could not be asked are asked again."""

_MAX_INLINE_REQUEST_BYTES = 128
"""Length of a request that is routed by its words in less than a millisecond."""

# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process.
_roster = msgspec.json.Decoder(Roster)
_SAMPLE_REQUEST = "Summarise this page in three sentences."


def load_roster(path: Path | None = None) -> Roster:
    """Read a roster; without a path, the one shipped with Forum. Raises `BadRoster`."""
    if path is None:
        return _read_cached_roster(files("forum.runs").joinpath("roster.toml").read_bytes())
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.BadRoster(path.name, error.strerror or str(error)) from None
    return _read_cached_roster(content)


def _read_cached_roster(content: bytes) -> Roster:
    """Read a roster and cache it as JSON, which loads twenty times as fast as TOML."""
    from forum.models.user_cache import cache_folder, read_cached, write_cached

    file = cache_folder() / f"roster-{sha256(content).hexdigest()[:32]}.json"
    try:
        return _roster.decode(read_cached(file) or b"")
    except msgspec.MsgspecError:
        pass  # not cached yet, or written by another release
    roster = read_roster(content)
    write_cached(file, msgspec.json.encode(roster))
    return roster


def build_router(roster: Roster, semantic: RoutingStage | None = None) -> Router:
    """Return the router of a roster; its feature counts are computed once and cached."""
    from forum.models.user_cache import cache_folder, read_cached, write_cached

    file = cache_folder() / f"features-{roster.digest[:32]}"
    try:
        features = FeatureTable(read_cached(file) or b"")
    except errors.Malformed:
        counted = count_features(roster)
        write_cached(file, counted)
        features = FeatureTable(counted)
    return Router(roster, semantic, features=features)


def make_router(
    roster: Roster, stage: str = "auto", tell: Callable[[str], None] = lambda _: None
) -> Router:
    """Return a router of the given stage: `lexical`, `semantic` or `auto`.

    Fitting the semantic stage to a roster takes a while. Only `semantic` does it, and caches the
    result; `auto` uses a cached one and falls back to the lexical stage. Raises `MissingExtra` and
    `WeightsMissing` for `semantic` without its extra or its weights.
    """
    if stage == "lexical":
        return build_router(roster)
    from forum.models.user_cache import cache_folder

    cache = cache_folder()
    try:
        with require_extra("semantic"):
            from forum.models.semantic_routing import fit_semantic_stage, open_semantic_stage

            semantic = open_semantic_stage(roster, cache)
    except (errors.MissingExtra, errors.WeightsMissing):
        if stage == "semantic":
            raise
        return build_router(roster)
    if semantic is None and stage == "semantic":
        tell("reading the examples of this roster, once; that takes a while")
        semantic = fit_semantic_stage(roster, cache)
    return build_router(roster, semantic)


def _free_on_loopback(agent: Agent) -> Agent:
    """Return an agent that costs nothing, if it is a model on this machine without a price."""
    from forum.models.urls import is_loopback

    if isinstance(agent, Chat) and is_loopback(agent.url) and agent.input_usd is None:
        return msgspec.structs.replace(agent, input_usd=0, output_usd=0)
    return agent


def load_team_settings(settings: Settings) -> TeamSettings:
    """Return the project file's agents, tools, servers, roles and roster.

    Relative paths are resolved against the folder of the project file.
    """
    written = settings.sections
    models = {
        name: _with_url(written, name, table) for name, table in written.raw("models").items()
    }
    tables = {**written.tables, "models": models}
    team = read_team_settings(msgspec.structs.replace(written, tables=tables))
    if written.raw("gateway").get("free_loopback") is True:
        freed = {name: _free_on_loopback(agent) for name, agent in team.agents.items()}
        team = msgspec.structs.replace(team, agents=freed)
    return _pin_extensions(team)


def _pin_extensions(team: TeamSettings) -> TeamSettings:
    """Return the settings with the distribution and the version of each entry point."""
    named = [agent for agent in team.agents.values() if isinstance(agent, Extension)]
    if not named and not any(tool.entry for tool in team.tools.values()):
        return team
    from forum.models.extensions import MODELS_GROUP, TOOLS_GROUP, pin_entry

    replace_struct = msgspec.structs.replace
    return replace_struct(
        team,
        agents={
            name: replace_struct(agent, entry=pin_entry(MODELS_GROUP, agent.entry))
            if isinstance(agent, Extension)
            else agent
            for name, agent in team.agents.items()
        },
        tools={
            name: replace_struct(tool, entry=pin_entry(TOOLS_GROUP, tool.entry))
            if tool.entry
            else tool
            for name, tool in team.tools.items()
        },
    )


def _with_url(sections: SectionTables, name: str, table: Any) -> Any:  # noqa: ANN401  what a file holds
    """Return the table of a model with the address from the variable that `url_env` names.

    Raises `BadSettings`.
    """
    if not isinstance(table, Mapping) or "url_env" not in table:
        return table
    rest = {key: value for key, value in table.items() if key != "url_env"}
    url = os.environ.get(str(table["url_env"]))
    if not url or "url" in rest:
        why = "write url or url_env" if url else "set the variable that it names, or write url"
        with sections.errors(f"models.{name}"):
            raise ValueError(f"url_env: {why}")
    return {**rest, "url": url}


def pin_tools(policy: Policy, settings: Settings) -> Policy:
    """Ask the MCP servers of a policy for their tools, and return the policy with these tools.

    They are recorded with the policy, so that a run's tools do not change while it runs. Raises
    `ServerUnusable`, and `MissingExtra`.
    """
    import asyncio

    if not policy.servers:
        return policy
    from forum.models.mcp_tools import list_tools
    from forum.models.sandbox import make_sandbox

    offered = asyncio.run(
        list_tools(policy.servers, sandbox=make_sandbox(settings), rules=settings.secrets)
    )
    return msgspec.structs.replace(policy, tools=offered | policy.tools)


class CallerAuthority(Enum):
    """Who submits a request, which decides what it may use."""

    OPERATOR = "operator"
    """The user of the command line or the holder of the operator token: may use every tool."""
    CLIENT = "client"
    """Chooses among the configured agents and lanes, within the operator's limits."""


class CallerParts(msgspec.Struct, frozen=True):
    """What a program brings along for one request: agents, tools and panels by name, and roles."""

    agents: tuple[str, ...] = ()
    """If there are any, the configured agents work only where the plan names them."""
    tools: tuple[str, ...] = ()
    """Granted to all tasks: whoever brings a tool along has granted it."""
    panels: tuple[str, ...] = ()
    """Their seats are taken also by configured agents."""
    roles: frozenset[Role] = frozenset()
    """Roles for which the program names an agent or a panel."""
    off: frozenset[Role] = frozenset()
    """Roles that the run does without."""

    def has_role(self, role: Role, policy: Policy) -> bool:
        """Return whether somebody has a role; of configured ones, only if no agents are passed."""
        return role in policy.roles and (role in self.roles or not self.agents)


_NOTHING = CallerParts()
_PLANNING_ROLES = frozenset({Role.CLASSIFIER, Role.COORDINATOR})


class RouteNext(StrEnum):
    """What becomes of a request after it was routed."""

    LANE = "lane"
    """It is carried out in the lane."""
    CLASSIFIER = "classifier"
    """No lane is certain: a model chooses one."""
    NO_LANE = "no-lane"
    """No lane is certain: one agent carries it out, without a lane's instructions and tools."""
    NOT_ROUTED = "not-routed"
    """No model is configured: requests are not routed."""


class Planner:
    """Decides what will be carried out for a request, by the settings of one project."""

    def __init__(
        self,
        settings: Settings,
        roster_file: Path | None = None,
        team_settings: TeamSettings | None = None,
        *,
        any_model: bool = False,
    ) -> None:
        """Take the project's settings, and those of its team if options have changed them.

        With `any_model` a team is made of models that were measured to be too small for one, too:
        to measure them, or to show the steps of a team.
        """
        self._any_model = any_model
        self._settings, self._file_settings = settings, load_team_settings(settings)
        self.team_settings = team_settings or self._file_settings
        configured = self.team_settings.roster
        self.roster_file = roster_file or (Path(configured) if configured else None)

    @cached_property
    def roster(self) -> Roster:
        """The roster with all lanes. Raises `BadRoster`."""
        return load_roster(self.roster_file)

    @cached_property
    def router(self) -> Router:
        """The router that finds the lane of a request."""
        return make_router(self.roster, self.team_settings.rung)

    @cached_property
    def base_policy(self) -> Policy:
        """The policy with all configured agents, tools, servers and roles."""
        team = self.team_settings
        policy = Policy(
            tools=team.tools, servers=team.servers, roles=team.roles, panels=team.panels
        )
        return msgspec.structs.replace(policy, agents=team.agents) if team.agents else policy

    def decide(  # noqa: PLR0913  each is what a caller may choose
        self,
        request: "RunRequest",
        authority: CallerAuthority,
        *,
        lane: str = "",
        team: bool | None = None,
        route: bool | None = None,
        panel: Panel | None = None,
        own: CallerParts = _NOTHING,
    ) -> "RunRequest":
        """Return what will be carried out: the request with its lanes, plan, tools and limits.

        All surfaces call this function, so that the same request means the same everywhere. `order`
        holds the policy and, if the caller has one, the plan. A panel deliberates instead of
        carrying out a plan. `team` and `route` are None where the settings decide. `own` is what
        the caller brings along, which takes precedence over what is configured. Raises `BadPlan`,
        `Malformed`, `BadRoster`, `AgentUnusable`.
        """
        whole = self.team_settings.team if team is None else team
        if own.agents:
            request = _leave_out_configured(request, own)
        is_planned = panel is not None or request.plan is not None
        may_decline = whole and not is_planned and not self._any_model
        declined = team_measurements.decline_team(request.policy) if may_decline else ()
        whole = whole and not declined
        policy = msgspec.structs.replace(request.policy, declined_team=declined)
        request = replace(request, policy=policy)
        if authority is CallerAuthority.OPERATOR:
            for each in _symposia_of(request, panel):
                request = _add_environment_models(request, each, os.environ)
        else:
            request = self._keep_operators_judges(request, team=whole)
        if panel is not None:
            request = seat_panel(request, panel)
        elif request.plan is not None:
            request = self._add_lanes(request, request.plan, team=whole, own=own)
        else:
            has_choice = route is not None or lane or whole or not own.agents
            is_routed = bool(has_choice) and self.is_routed(
                request.policy, lane=lane, team=team, route=route
            )
            # Whoever names a Coordinator or a Classifier for this request wants it to be asked.
            is_routed |= route is not False and not own.roles.isdisjoint(_PLANNING_ROLES)
            # A team makes its own plan, and is not given an empty request either.
            alone = single_task_plan(request.request) if whole or not is_routed else None
            request = (
                self.route_request(request, lane, team=whole, own=own, planned=team is None)
                if is_routed
                else replace(request, plan=alone)
            )
        if authority is CallerAuthority.CLIENT:
            request = self._restrict_to_client(request)
        if whole and panel is None and _is_scripted(request.policy):
            raise errors.BadPlan(
                "a team (--team) needs a model: connect one in forum.toml, or see a team at work "
                "with `forum demo --open`"
            )
        request = replace(request, policy=_seat_named_panels(_keep_used_panels(request)))
        request.policy.check(request.plan)
        # Keys are not checked here: workers make the calls, possibly on another machine.
        require_agents(request.policy, request.plan, keys=False)
        return request

    def is_routed(
        self, policy: Policy, *, lane: str = "", team: bool | None = None, route: bool | None = None
    ) -> bool:
        """Tell whether a request without a plan is routed to a lane.

        The caller decides; without a choice it is routed if a model answers. A program that
        replaces the configured default agent is given exactly the request that it was named for.
        """
        if route is not None:
            return route
        models = any(isinstance(agent, Chat | Library) for agent in policy.agents.values())
        default = self._file_settings.agents.get("")
        is_configured = default is not None and policy.agents.get("") == default
        return bool(lane or team or models or is_configured)

    def route_request(
        self,
        request: "RunRequest",
        lane: str,
        *,
        team: bool,
        own: CallerParts = _NOTHING,
        planned: bool = False,
    ) -> "RunRequest":
        """Return a request with its lane, to be carried out by one agent or by a team.

        For one agent the plan is a single task, in the lane if there is one. A team makes its own
        plan; so does a Coordinator that the settings name, if it may (`planned`). If no lane is
        certain, the Classifier chooses among the nearest ones: in a team, and for one agent if the
        settings name a Classifier.
        """
        from forum.engine import RouteDecision

        if lane:
            decision = RouteDecision(RouteFacts(lane, Basis.GIVEN, roster=self.roster.digest))
        else:
            route = self.router.route(request.request)
            decision = RouteDecision(
                role_assignment.route_facts(route, self.roster), msgspec.json.encode(route)
            )
            lane = decision.facts.lane
        has_classifier = team or own.has_role(Role.CLASSIFIER, request.policy)
        is_classified = not lane and has_classifier
        is_planned = team or (planned and own.has_role(Role.COORDINATOR, request.policy))
        policy = role_assignment.build_team_policy(
            request.policy,
            self.roster,
            self._lane_candidates(
                request.request, decision.facts, several=is_planned or is_classified
            ),
            roles=team,
            workers=own.agents,
            off=self.team_settings.off | own.off,
        )
        policy = _grant_tools(policy, own.tools)
        if is_planned:
            policy = fill_context_lengths(policy)
            return replace(request, policy=policy, route=decision if lane else None)
        if is_classified:
            # The engine plans a single task in the lane that the Classifier chooses.
            roles = {role: name for role, name in policy.roles.items() if role != Role.COORDINATOR}
            policy = fill_context_lengths(msgspec.structs.replace(policy, roles=roles))
            return replace(request, policy=policy)
        if not lane:
            worker = role_assignment.agent_for(Tier.CAPABLE, own.agents or policy.agents)
            # Tools belong to lanes. Without a certain lane only the caller has granted tools.
            policy = _withhold_tools(policy, LaneBrief(agent=worker), own.tools)
        agents = own.agents or policy.agents
        plan = role_assignment.plan_single_task(request.request, lane, agents)
        return replace(request, policy=policy, plan=plan, route=decision)

    def next_step(self, route: Route) -> RouteNext:
        """Return what becomes of a request with this route, by the settings of the project."""
        if not self.is_routed(self.base_policy):
            return RouteNext.NOT_ROUTED
        if route.lane:
            return RouteNext.LANE
        has_classifier = self.team_settings.team or Role.CLASSIFIER in self.team_settings.roles
        return RouteNext.CLASSIFIER if has_classifier else RouteNext.NO_LANE

    def _lane_candidates(self, request: str, facts: RouteFacts, *, several: bool) -> dict[str, int]:
        """Return the lanes that a run may use, with the router's confidence in thousandths.

        A team and a Classifier choose among the nearest lanes, unless the submitter has chosen.
        """
        candidates = {facts.lane: facts.confidence} if facts.lane else {}
        if several and facts.basis is not Basis.GIVEN:
            ranked = self.router.rank_lanes(request, role_assignment.MAX_CANDIDATES)
            candidates |= {name: round(1000 * confidence) for name, confidence in ranked}
        return candidates

    def ceiling_for(self, authority: CallerAuthority) -> RunBudget | None:
        """Return the highest budget that a caller may give to a run; None if there is no limit."""
        return self.team_settings.ceiling if authority is CallerAuthority.CLIENT else None

    def _add_lanes(
        self, request: "RunRequest", plan: Plan, *, team: bool, own: CallerParts
    ) -> "RunRequest":
        """Return a request whose policy holds the roster lanes that its tasks name.

        Raises `BadPlan`.
        """
        lanes = sorted({task.lane for task in plan.all_tasks} - {"", *request.policy.lanes})
        policy = request.policy
        if lanes or team:
            policy = role_assignment.build_team_policy(
                policy,
                self.roster,
                dict.fromkeys(lanes, 0),
                roles=team,
                workers=own.agents,
                off=self.team_settings.off | own.off,
            )
        if policy.lanes and own.tools and not all(task.lane for task in plan.all_tasks):
            # A task without a lane may use the caller's tools, too.
            policy = msgspec.structs.replace(policy, lanes={"": LaneBrief()} | policy.lanes)
        policy = _grant_tools(policy, own.tools)
        if team:
            policy = fill_context_lengths(policy)
        return replace(request, plan=seat_task_panels(plan, policy), policy=policy)

    def _keep_operators_judges(self, request: "RunRequest", *, team: bool) -> "RunRequest":
        """Return a request of a client that is judged by those whom the operator has named.

        A client that replaces a panel of the operator is refused: the roles name these panels, and
        the client would choose who judges its work. Raises `BadPlan`.
        """
        for name, panel in self.team_settings.panels.items():
            if request.policy.panels.get(name, panel) != panel:
                raise errors.BadPlan(
                    f"panels: the operator has a panel {name!r}; give yours another name"
                )
        if request.plan is None or not (team or Role.VALIDATOR in request.policy.roles):
            return request
        # Before decisions are seated: what a council chose needs no other judge.
        return replace(request, plan=Plan(tuple(map(_keep_judged, request.plan.tasks))))

    def _restrict_to_client(self, request: "RunRequest") -> "RunRequest":
        """Return a request within the operator's budget, with the tools of its lanes only.

        Raises `BadPlan`.
        """
        budget = request.budget.capped_by(self.team_settings.ceiling)
        if request.plan is None:
            return replace(request, budget=budget)
        policy = _withhold_tools(request.policy, LaneBrief())
        check_tool_permissions(request.plan.all_tasks, policy)
        return replace(request, budget=budget, policy=policy)


def _keep_judged(task: Task) -> Task:
    """Return a task whose result a Validator judges, whatever code checks.

    Criteria that code checks alone would spare the Validator: a client may add to what is judged,
    and never take from it.
    """
    criteria = parse_criteria(task.done_when)
    is_spared = criteria and all(each.check is not Check.MODEL for each in criteria)
    return msgspec.structs.replace(
        task,
        done_when=f"{task.done_when}\n{_JUDGED_LINE}" if is_spared else task.done_when,
        tasks=tuple(map(_keep_judged, task.tasks)),
    )


_JUDGED_LINE = "The result does what the instruction asks."
"""A criterion in words, by which a Validator judges."""


def _is_scripted(policy: Policy) -> bool:
    """Return whether every agent only repeats what it is asked, which no role can be filled by."""
    return all(agent == Scripted() for agent in policy.agents.values())


def fill_context_lengths(policy: Policy) -> Policy:
    """Return a policy in which models have the context length of the table, where none is set."""
    from forum.models.prices import listed_context_tokens

    agents = {
        name: msgspec.structs.replace(agent, context_tokens=listed_context_tokens(agent))
        if isinstance(agent, Chat | Library) and not agent.context_tokens
        else agent
        for name, agent in policy.agents.items()
    }
    return msgspec.structs.replace(policy, agents=agents)


def _leave_out_configured(request: "RunRequest", own: CallerParts) -> "RunRequest":
    """Return a request whose agents are the caller's, and those that the caller names.

    The caller names agents in the plan, the ladder, the panels and the roles.
    """
    policy, plan = request.policy, request.plan
    chosen = (*policy.roles.values(), *policy.ladder, *own.panels)
    named = {"", *own.agents, *policy.seat_panels(chosen)}
    for task in plan.all_tasks if plan else ():
        named |= {task.agent} | (task.panel.speakers if task.panel else frozenset())
    agents = {name: agent for name, agent in policy.agents.items() if name in named}
    panels = {
        name: panel for name, panel in policy.panels.items() if panel.speakers <= agents.keys()
    }
    return replace(request, policy=msgspec.structs.replace(policy, agents=agents, panels=panels))


def _grant_tools(policy: Policy, granted: Sequence[str]) -> Policy:
    """Return a policy in which the tasks of all its lanes may use these tools.

    Without any lane every task may use every tool.
    """
    lanes = {
        name: msgspec.structs.replace(brief, tools=tuple(dict.fromkeys((*brief.tools, *granted))))
        for name, brief in policy.lanes.items()
    }
    return msgspec.structs.replace(policy, lanes=lanes)


def _withhold_tools(policy: Policy, brief: LaneBrief, granted: Sequence[str] = ()) -> Policy:
    """Return a policy in which a task without a lane has no tools but those that are granted.

    Without any lane `tools_of` would return all tools. The placeholder lane grants none.
    """
    if policy.lanes or not policy.tools:
        return policy
    if granted:
        tools = {name: policy.tools[name] for name in granted}
        return msgspec.structs.replace(policy, tools=tools)
    return msgspec.structs.replace(policy, lanes={ELSEWHERE: brief})


class AgentRegistry(Planner):
    """The agents and tools of one ledger, kept ready for many requests.

    Only the operator configures them: a client can choose among them, and name no others. Raises
    `BadRoster`.
    """

    def __init__(self, settings: Settings, team_settings: TeamSettings | None = None) -> None:
        super().__init__(settings, team_settings=team_settings)
        if self.roster_file:
            _ = self.roster  # report an unreadable roster at start, not at the first request
        self._lock = Lock()
        self._policy_or_error: Policy | errors.ServerUnusable = errors.ServerUnusable("", "")
        self._refresh_at = -inf

    def warm_up(self) -> None:
        """Load everything that the first request would have to wait for.

        Some models are loaded at their first use, so a sample request is routed and dropped.
        """
        from forum.engine import RunRequest

        if any(isinstance(agent, Chat) for agent in self.team_settings.agents.values()):
            # The HTTP client, before there is a router: no request may load it on an event loop.
            import forum.models.http_model  # noqa: F401
        if self.team_settings.agents:
            request = RunRequest(_SAMPLE_REQUEST, None, self.base_policy, RunBudget())
            routed = self.route_request(request, "", team=False)
            with suppress(errors.AgentUnusable):  # reported to the client that needs this agent
                require_agents(routed.policy, routed.plan, keys=False)

    def can_route_inline(self, request: str, *, lane: str = "", team: bool | None = None) -> bool:
        """Tell whether routing takes less than a millisecond, whatever the request says.

        So it does by words alone for a short text, and if the caller names the lane. A team and
        a Classifier need more lanes, and a router that is not loaded yet takes seconds. Code of
        others that makes an agent may take as long as it likes.
        """
        whole = self.team_settings.team if team is None else team
        finds_more = whole or Role.CLASSIFIER in self.team_settings.roles
        router: Router | None = self.__dict__.get("router")  # of `cached_property`
        if finds_more or router is None or self._has_slow_agents:
            return False
        # In bytes: scripts without spaces have more features for each character.
        is_short = len(request.encode(errors="surrogatepass")) <= _MAX_INLINE_REQUEST_BYTES
        return bool(lane) or (router.is_lexical and is_short)

    @cached_property
    def _has_slow_agents(self) -> bool:
        agents = self.team_settings.agents.values()
        return any(isinstance(agent, Library | Extension) for agent in agents)

    def refresh_server_tools(self) -> None:
        """Update the tools that the MCP servers offer. Raises `ServerUnusable`."""
        if self.team_settings.servers:
            self.current_policy()

    def current_policy(self) -> Policy:
        """Return the policy with all agents and the current tools. Raises `ServerUnusable`."""
        before = self._policy_or_error
        # One thread asks the servers. Threads that have an earlier list use it instead of waiting.
        if not self._lock.acquire(blocking=not isinstance(before, Policy)):
            assert isinstance(before, Policy)  # noqa: S101  or it would have waited
            return before
        try:
            if monotonic() >= self._refresh_at:
                self._refresh_tools()
            current = self._policy_or_error
        finally:
            self._lock.release()
        if isinstance(current, Policy):
            return current
        raise errors.ServerUnusable(*current.args)

    def _refresh_tools(self) -> None:
        """Ask the servers for their tools, and keep the list or the error."""
        try:
            self._policy_or_error = pin_tools(self.base_policy, self._settings)
            self._refresh_at = monotonic() + _TOOLS_TTL_S
        # The error is kept as well, so that not every request waits for a server that is down.
        except errors.ServerUnusable as error:
            self._policy_or_error = error
            self._refresh_at = monotonic() + _RETRY_DELAY_S


def _symposia_of(request: "RunRequest", panel: Panel | None) -> list[Symposium]:
    """Return all symposia of a request: of its tasks, of its ladder, or its own."""
    tasks = request.plan.all_tasks if request.plan else ()
    panels = (panel, *(task.panel for task in tasks), *request.policy.panels.values())
    return [each for each in panels if isinstance(each, Symposium)]


def _add_environment_models(
    request: "RunRequest", panel: Symposium, environ: Mapping[str, str]
) -> "RunRequest":
    """Return a request with the models of a config that the providers' variables make available.

    Only for the operator: a client may not spend on models that nobody configured. The key itself
    is not recorded, only the name of its variable. Raises `BadPlan` and `Malformed`.
    """
    from forum.runs.panel_protocol import ENVIRONMENT_PROVIDERS, find_protocol
    from forum.runs.team_settings import chat_agent

    added: dict[str, Agent] = {}
    for entry in find_protocol(KINDS, panel).find_unserved(panel, request.policy.agents):
        name = entry.provider.upper()
        url, key = environ.get(f"{name}_BASE_URL", ""), f"{name}_API_KEY"
        if entry.provider not in ENVIRONMENT_PROVIDERS or not (url or environ.get(key)):
            continue
        api = ENVIRONMENT_PROVIDERS[entry.provider]
        # Its SDK appends the version to the address.
        if url and api is Api.ANTHROPIC and not url.rstrip("/").endswith("/v1"):
            url = f"{url.rstrip('/')}/v1"
        settings = {"api": api.value, "model": entry.model, "url": url}
        settings |= {"key_env": key} if environ.get(key) else {}
        try:
            agent = chat_agent({n: value for n, value in settings.items() if value})
        except ValueError as error:
            raise errors.BadPlan(f"{entry.id}: {error}") from None
        added[f"{entry.provider}/{entry.model}"] = agent
    policy = msgspec.structs.replace(request.policy, agents={**request.policy.agents, **added})
    return replace(request, policy=policy) if added else request


def seat_panel(request: "RunRequest", panel: Panel) -> "RunRequest":
    """Return a request on which a panel deliberates, all seats of a council in parallel.

    Raises `BadPlan`, `Malformed`.
    """
    from forum.runs.panel_protocol import ENVIRONMENT_PROVIDERS, find_protocol

    policy, protocol = request.policy, find_protocol(KINDS, panel)
    if not request.request.strip():
        raise errors.BadPlan("there is no question to deliberate on")
    # Where a variable would do, the error that names the model says so.
    needs_variable = any(
        entry.provider in ENVIRONMENT_PROVIDERS
        for entry in protocol.find_unserved(panel, policy.agents)
    )
    if policy.agents == Policy().agents and not needs_variable:
        raise errors.BadPlan(
            "nobody can sit on the panel: name models in forum.toml ([models.NAME]), or see how it "
            "goes with forum demo panel"
        )
    panel = protocol.seat(panel, policy.agents)
    request = replace(request, budget=request.budget.capped_by(protocol.budget_of(panel)))
    if isinstance(panel, Council):
        policy = msgspec.structs.replace(policy, parallel=max(policy.parallel, len(panel.seats)))
    policy = policy.for_panel(panel, request.request)
    # A panel neither plans nor routes, so lanes and roles are dropped.
    return replace(request, policy=msgspec.structs.replace(policy, lanes={}, roles={}))


def seat_task_panels(plan: Plan, policy: Policy) -> Plan:
    """Return a plan in which the empty seats of its tasks' panels are filled."""
    return Plan(tuple(_seat_task_panel(task, policy) for task in plan.tasks))


def _keep_used_panels(request: "RunRequest") -> Policy:
    """Return a policy with the panels that the run may ask: its record names no others.

    A Coordinator can plan a decision of any of them.
    """
    policy = request.policy
    if request.plan is None and Role.COORDINATOR in policy.roles:
        return policy
    used = {*policy.ladder, *policy.roles.values()}
    panels = {name: panel for name, panel in policy.panels.items() if name in used}
    return msgspec.structs.replace(policy, panels=panels)


def _seat_named_panels(policy: Policy) -> Policy:
    """Return a policy in which the empty seats of its panels are filled."""
    if not policy.panels:
        return policy
    panels = {name: _seat_agents(panel, policy) for name, panel in policy.panels.items()}
    return msgspec.structs.replace(policy, panels=panels)


def _seat_agents(panel: Panel, policy: Policy) -> Panel:
    """Return a panel in which every seat has an agent. Raises `BadPlan`, `Malformed`."""
    from forum.runs.panel_protocol import find_protocol

    return find_protocol(KINDS, panel).seat(panel, policy.agents)


def _seat_task_panel(task: Task, policy: Policy) -> Task:
    task = seat_decision_task(task, policy.panels)
    panel = task.panel and _seat_agents(task.panel, policy)
    tasks = tuple(_seat_task_panel(inner, policy) for inner in task.tasks)
    return msgspec.structs.replace(task, panel=panel, tasks=tasks)


def check_tool_permissions(tasks: Iterable[Task], policy: Policy) -> None:
    """Refuse acceptance criteria that would use more than the lane of a task permits.

    A criterion runs its tool, and a file criterion reveals the content of the worker's files, so a
    client could use both to get around the tool permissions. Raises `BadPlan`.
    """
    for task in tasks:
        panel = task.panel
        wanted = [panel.check] if isinstance(panel, Council) and panel.check else []
        for demand in parse_criteria(task.done_when):
            if demand.check is Check.FILE:
                why = "only the operator may use criteria that check files"
                raise errors.BadPlan(f"task {task.id}: {why}")
            if demand.check in (Check.COMMAND, Check.TESTS):
                wanted.append(demand.what.split(maxsplit=1)[0] if demand.what else "")
        for tool in wanted:
            if tool not in policy.tools_of(task):
                raise errors.BadPlan(f"task {task.id}: its lane may not use the tool {tool!r}")


def check_client_rights(tasks: Iterable[Task], policy: Policy) -> None:
    """Refuse tasks that a client takes over or writes under the policy of a recorded run.

    The policy of an operator's run without lanes lets every task use every tool: a client that
    forks the run, or edits its plan, would use them. Raises `BadPlan`.
    """
    if policy.tools and not policy.lanes:
        raise errors.BadPlan("its tasks may use every tool; only the operator may do this to it")
    check_tool_permissions(tasks, policy)


def require_agents(policy: Policy, plan: Plan | None, *, keys: bool) -> None:
    """Check that the agents of a run can be called. Raises `AgentUnusable`.

    `keys` tells whether API keys must be present, which matters only if this process makes the
    calls.
    """
    from forum.models import make_model
    from forum.models.agent_inspection import require_agent

    for name in sorted(role_assignment.agents_in(policy, plan)):
        if name not in policy.agents:
            raise errors.AgentUnusable(name, "no agent with this name is configured")
        require_agent(name, policy.agents[name], make_model, key=keys)


def inspect_agent(agent: Agent) -> AgentInspection:
    """Describe an agent from its configuration, without calling it."""
    from forum.models.agent_inspection import describe_agent

    return describe_agent(agent)


def inspect_cli_agent(program: str, agent: CliAgent) -> "CliStatus":
    """Ask a coding agent's program for its version and its login."""
    from forum.models.cli_status import read_cli_status

    return read_cli_status(program, agent)


def probe_agent(agent: Agent, seconds: float, settings: Settings) -> "CallReply":
    """Send an agent a short prompt outside of every run; nothing is recorded."""
    import asyncio

    from forum.models import make_model
    from forum.models.agent_inspection import probe_model
    from forum.models.sandbox import make_sandbox

    return asyncio.run(
        probe_model(make_model(agent, make_sandbox(settings), settings.secrets), seconds)
    )


def check_confinement(settings: Settings) -> bool:
    """Tell whether the programs of agents run in a sandbox. Raises `NotConfined` if unusable."""
    from forum.models.sandbox import make_sandbox

    sandbox = make_sandbox(settings)
    if sandbox is not None:
        sandbox.check_usable()
    return sandbox is not None


def inspect_weights() -> list[WeightsInspection]:
    """Return which weights are installed, without reading them."""
    from forum.models.weights import inspect_weights

    return [inspect_weights(model) for model in MODEL_WEIGHTS.values()]


def load_weights(model: ModelWeights) -> Path:
    """Return the folder with the verified weights of a model.

    Raises `WeightsMissing` and `WeightsRejected`.
    """
    from forum.models.weights import load_weights

    return load_weights(model)


def pull_weights(
    model: ModelWeights,
    source: str | Path,
    tell: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> list[str]:
    """Install the weights of a model from an address, a folder or a file.

    Return the names of the files that were not installed before. `progress` is called with the
    name of a file, the bytes that are there, and its size. Raises `WeightsUnavailable` and
    `WeightsRejected`.
    """
    from forum.models.weights_pull import pull_weights

    return pull_weights(model, source, tell, progress)
