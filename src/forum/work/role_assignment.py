"""Who does what: the lanes of a roster and the roles beside them, among the agents that there are.

Agents that are called `cheap`, `capable` and `frontier` are the tiers.  Everything here is a
function of names and specifications; nobody is asked.
"""

from collections.abc import Collection, Iterable
from typing import assert_never

import msgspec

from forum.errors import BadPlan
from forum.work.kinds import Basis, RouteFacts
from forum.work.plan import Plan
from forum.work.policy import Agent, Chat, Command, LaneBrief, Library, Policy, Role, Scripted
from forum.work.roster import Lane, Roster, Tier
from forum.work.routing import Route

MAX_CANDIDATES = 8
"""Among how many lanes a Classifier or a Coordinator chooses."""

_WEAKEST_FIRST = (Tier.CHEAP, Tier.CAPABLE, Tier.FRONTIER)


def agent_for(tier: Tier, agents: Collection[str]) -> str:
    """Return the agent of a tier: else the nearest stronger, else the nearest weaker.

    Where no agent is a tier, the one without a name does the work.
    """
    place = _WEAKEST_FIRST.index(tier)
    wished = (*_WEAKEST_FIRST[place:], *reversed(_WEAKEST_FIRST[:place]))
    return next((one.value for one in wished if one in agents), "")


def build_team_policy(
    policy: Policy, roster: Roster, candidates: Iterable[str], *, roles: bool
) -> Policy:
    """Return a policy with these lanes, the tiers as its ladder and, if wanted, all roles.

    What the policy says already is kept.
    """
    lanes = {
        name: _lane_brief(_find_lane(roster, name), policy) for name in candidates
    } | policy.lanes
    tiers = tuple(tier.value for tier in _WEAKEST_FIRST if tier in policy.agents)
    filled = msgspec.structs.replace(
        policy, lanes=lanes, ladder=policy.ladder or (tiers if len(tiers) > 1 else ())
    )
    if not roles:
        return filled
    return msgspec.structs.replace(filled, roles=_assign_roles(filled) | policy.roles)


def _find_lane(roster: Roster, name: str) -> Lane:
    if name not in roster.by_name:
        known = ", ".join(sorted(roster.by_name))
        raise BadPlan(f"no lane is called {name!r}; the roster has: {known}")
    return roster.by_name[name]


def _lane_brief(lane: Lane, policy: Policy) -> LaneBrief:
    tools = tuple(tool for tool in policy.tools if _may_use(lane, tool, policy))
    return LaneBrief(lane.does, lane.instructions, agent_for(lane.tier, policy.agents), tools)


def _may_use(lane: Lane, tool: str, policy: Policy) -> bool:
    """Tell whether a lane names a tool: by itself, by its server, or by how it begins (`git-*`)."""
    server = policy.tools[tool].server
    return any(
        wish == tool
        or (wish.endswith("*") and tool.startswith(wish[:-1]))
        or (server is not None and policy.servers.get(wish) == server)
        for wish in lane.tools
    )


def _assign_roles(policy: Policy) -> dict[Role, str]:
    """Return who plays which role: whoever judges is, if possible, nobody who works."""
    capable = agent_for(Tier.CAPABLE, policy.agents)
    judge = _pick_judge(policy)
    return {
        Role.CLASSIFIER: capable,
        Role.COORDINATOR: capable,
        Role.VALIDATOR: judge,
        Role.SYNTHESIZER: capable,
        Role.INTENT: judge,
        Role.REVISER: agent_for(Tier.CHEAP, policy.agents),
    }


def is_independent(policy: Policy, role: Role) -> bool:
    """Tell whether who has a role is another model than all who work in lanes."""
    judge = policy.agents.get(policy.roles.get(role, ""))
    return judge is not None and model_of(judge) not in _worker_models(policy)


def _worker_models(policy: Policy) -> frozenset[str]:
    workers = {brief.agent for brief in policy.lanes.values()} or {""}
    return frozenset(model_of(policy.agents[name]) for name in workers if name in policy.agents)


def _pick_judge(policy: Policy) -> str:
    """Return the strongest agent that is another model than all who work; else the strongest."""
    models = _worker_models(policy)
    tiers = [tier.value for tier in reversed(_WEAKEST_FIRST) if tier in policy.agents]
    ranked = [*tiers, *(name for name in policy.agents if name not in tiers)]
    others = (name for name in ranked if model_of(policy.agents[name]) not in models)
    return next(others, ranked[0] if ranked else "")


def model_of(agent: Agent) -> str:
    """Return what the record takes for the same model."""
    match agent:
        case Chat() | Library():
            return agent.model
        case Command():
            return agent.argv[0].rpartition("/")[2] if agent.argv else ""
        case Scripted():
            return "scripted"
        case _:
            assert_never(agent)


def agents_in(policy: Policy, plan: Plan | None) -> frozenset[str]:
    """Return who may be asked in a run: by its tasks and lanes, by the ladder and the roles."""
    if policy.panel is not None:
        return policy.panel.speakers
    workers = {policy.worker_of(task) for task in plan.all_tasks} if plan else {""}
    for task in plan.all_tasks if plan else ():
        workers |= task.panel.speakers if task.panel else frozenset()
    lanes = {brief.agent for brief in policy.lanes.values()}
    return frozenset({*workers, *lanes, *policy.ladder, *policy.roles.values()})


def route_facts(route: Route, roster: Roster) -> RouteFacts:
    """Return what is recorded of a route; one that is not decided names no lane."""
    basis = Basis.LEXICAL if route.rung == Basis.LEXICAL else Basis.SEMANTIC
    return RouteFacts(
        lane=route.lane or "",
        basis=basis,
        confidence=round(1000 * route.confidence),
        runner_up=route.runner_up,
        margin=max(0, round(1000 * route.margin)),
        roster=roster.digest,
    )
