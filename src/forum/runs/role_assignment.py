"""Assign the configured agents to the lanes of a roster and to roles.

Agents named `cheap`, `capable` and `frontier` are the tiers. All functions depend on names and
specifications only; no agent is called.
"""

from collections.abc import Collection, Mapping

import msgspec

from forum.errors import BadPlan
from forum.runs.asks import split_questions
from forum.runs.kinds import Basis, RouteFacts
from forum.runs.plan import Plan, Task
from forum.runs.policy import LaneBrief, Policy, Role, models_of
from forum.runs.roster import Lane, Roster, Tier
from forum.runs.routing import Route

MIN_PLAN_CHARS = 1600
"""Below this length, a reply has room for one task only."""
MAX_CANDIDATES = 8
"""How many lanes a Classifier or a Coordinator can choose from."""

_WEAKEST_FIRST = (Tier.CHEAP, Tier.CAPABLE, Tier.FRONTIER)


def agent_for(tier: Tier, agents: Collection[str]) -> str:
    """Return the agent of a tier, else the nearest stronger, else the nearest weaker one.

    If no agent is named after a tier, return the agent without a name.
    """
    place = _WEAKEST_FIRST.index(tier)
    wished = (*_WEAKEST_FIRST[place:], *reversed(_WEAKEST_FIRST[:place]))
    return next((tier.value for tier in wished if tier in agents), "")


def plan_single_task(request: str, lane: str, agents: Collection[str]) -> Plan:
    """Return a plan with one task in a lane; without a lane it is for the capable agent."""
    worker = "" if lane else agent_for(Tier.CAPABLE, agents)
    return Plan((Task("answer", request, lane=lane, agent=worker),))


def plan_listed_asks(request: str, lane: str, agents: Collection[str]) -> Plan | None:
    """Return a plan with a task for each question that a request lists; None if it lists none."""
    single = plan_single_task(request, lane, agents).tasks[0]
    tasks = (
        msgspec.structs.replace(single, id=f"answer-{number}", instruction=part)
        for number, part in enumerate(split_questions(request), 1)
    )
    listed = tuple(tasks)
    return Plan(listed) if listed else None


def build_team_policy(
    policy: Policy,
    roster: Roster,
    candidates: Mapping[str, int],
    *,
    roles: bool,
    workers: Collection[str] = (),
    off: Collection[Role] = (),
) -> Policy:
    """Return a policy with these lanes, the tiers as its ladder and, with `roles`, all roles.

    `candidates` maps each lane to the router's confidence in thousandths. Settings of the policy
    take precedence. With `workers`, only these agents are assigned. The roles in `off` are assigned
    to nobody. Raises `BadPlan` for an unknown lane.
    """
    agents = workers or policy.agents
    lanes = {
        name: _lane_brief(_find_lane(roster, name), policy, confidence, agents)
        for name, confidence in candidates.items()
    } | policy.lanes
    # A single tier is no ladder: escalation would repeat the agent that just failed.
    tiers = tuple(tier.value for tier in _WEAKEST_FIRST if tier in agents)
    filled = msgspec.structs.replace(
        policy, lanes=lanes, ladder=policy.ladder or (tiers if len(tiers) > 1 else ())
    )
    if not roles:
        return filled
    assigned = _assign_roles(filled, agents)
    idle = _find_idle_roles(filled, assigned)
    chosen = {role: agent for role, agent in assigned.items() if role not in {*off, *idle}}
    # A judge that nobody named costs a call for each answer, so it is asked only in doubt.
    return msgspec.structs.replace(
        filled, roles=chosen | policy.roles, doubted=Role.INTENT not in policy.roles
    )


def _find_lane(roster: Roster, name: str) -> Lane:
    # A misspelled lane must not silently become a task without a lane.
    if name not in roster.by_name:
        names = ", ".join(sorted(roster.by_name))
        raise BadPlan(f"no lane is called {name!r}; the roster has: {names}")
    return roster.by_name[name]


def _lane_brief(lane: Lane, policy: Policy, confidence: int, agents: Collection[str]) -> LaneBrief:
    return LaneBrief(
        does=lane.does,
        instructions=lane.instructions,
        agent=agent_for(lane.tier, agents),
        tools=tuple(tool for tool in policy.tools if _may_use(lane, tool, policy)),
        confidence=confidence,
    )


def _may_use(lane: Lane, tool: str, policy: Policy) -> bool:
    """Tell whether a lane names a tool: directly, by its server, or by a prefix (`git-*`)."""
    server = policy.tools[tool].server
    return any(
        pattern == tool
        or (pattern.endswith("*") and tool.startswith(pattern[:-1]))
        or (server is not None and policy.servers.get(pattern) == server)
        for pattern in lane.tools
    )


def _assign_roles(policy: Policy, agents: Collection[str]) -> dict[Role, str]:
    """Return the agent of each role; judges are independent of the workers if possible."""
    capable = agent_for(Tier.CAPABLE, agents)
    judge = _pick_judge(policy, agents)
    return {
        Role.CLASSIFIER: capable,
        Role.COORDINATOR: capable,
        Role.VALIDATOR: judge,
        Role.SYNTHESIZER: capable,
        Role.INTENT: judge,
        Role.REVISER: agent_for(Tier.CHEAP, agents),
        Role.SUMMARIZER: agent_for(Tier.CHEAP, agents),
    }


def _find_idle_roles(policy: Policy, roles: Mapping[Role, str]) -> set[Role]:
    """Return the roles that would only cost calls, unless somebody names them.

    A model whose replies are too short for a plan with two tasks needs no Coordinator: the request
    is one task, and its result is the answer, which is checked as such. A Classifier then changes
    nothing if all lanes have the same agent and tools, nor does a judge that is the same model.
    """
    if policy.max_reply_chars(roles[Role.COORDINATOR]) >= MIN_PLAN_CHARS:
        return set()
    idle = {Role.COORDINATOR}
    if len({(lane.agent, lane.tools) for lane in policy.lanes.values()}) <= 1:
        idle.add(Role.CLASSIFIER)
    judged = msgspec.structs.replace(policy, roles=dict(roles))
    if not is_independent(judged, Role.VALIDATOR):
        idle.add(Role.VALIDATOR)
    return idle


def is_independent(policy: Policy, role: Role) -> bool:
    """Tell whether the agent of a role is another model than all agents that work in lanes."""
    judge = policy.agents.get(policy.roles.get(role, ""))
    return judge is not None and models_of(judge).isdisjoint(_worker_models(policy))


def _worker_models(policy: Policy) -> frozenset[str]:
    workers = {brief.agent for brief in policy.lanes.values()} or {""}
    agents = (policy.agents[name] for name in workers if name in policy.agents)
    return frozenset(model for agent in agents for model in models_of(agent))


def _pick_judge(policy: Policy, agents: Collection[str]) -> str:
    """Return the strongest agent that is another model than all workers; else the strongest."""
    models = _worker_models(policy)
    tiers = [tier.value for tier in reversed(_WEAKEST_FIRST) if tier in agents]
    ranked = [*tiers, *(name for name in agents if name not in tiers)]
    others = (name for name in ranked if models_of(policy.agents[name]).isdisjoint(models))
    return next(others, ranked[0] if ranked else "")


def agents_in(policy: Policy, plan: Plan | None) -> frozenset[str]:
    """Return all agents that a run may call: for tasks, lanes, panels, escalation and roles."""
    if policy.panel is not None:
        return policy.panel.speakers
    tasks = [task for task in plan.all_tasks if not task.is_delegated] if plan else None
    workers = {""} if tasks is None else {policy.worker_of(task) for task in tasks}
    for task in plan.all_tasks if plan else ():
        workers |= task.panel.speakers if task.panel else frozenset()
    lanes = {brief.agent for brief in policy.lanes.values()}
    return frozenset(
        {*workers, *lanes, *policy.seat_panels({*policy.ladder, *policy.roles.values()})}
    )


def route_facts(route: Route, roster: Roster) -> RouteFacts:
    """Return the facts of a route; an undecided route has an empty lane."""
    # The record distinguishes the kind of evidence, not the names of embedding models.
    basis = Basis.LEXICAL if route.rung == Basis.LEXICAL else Basis.SEMANTIC
    return RouteFacts(
        lane=route.lane or "",
        basis=basis,
        confidence=round(1000 * route.confidence),
        runner_up=route.runner_up,
        margin=max(0, round(1000 * route.margin)),
        roster=roster.digest,
    )
