"""Who does the work: the roster and its router, the agents of the project file, their tools.

Beside `forum.app` the only module that chooses model adapters.  It imports them inside functions,
so that a command loads only what it uses.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from forum.config import Settings
from forum.errors import AgentUnusable, MissingExtra, extra
from forum.work import (
    CANDIDATES,
    ELSEWHERE,
    Agent,
    Basis,
    Brief,
    Chat,
    Configured,
    Inspection,
    Plan,
    Policy,
    Roster,
    Routed,
    Router,
    Task,
    Tier,
    agent_for,
    agents_in,
    one_task,
    read_configured,
    read_roster,
    routed,
    team_policy,
)

if TYPE_CHECKING:
    from forum.engine import Order, Reply

RUNGS = ("auto", "lexical", "semantic")
"""How requests are routed: by words, by words and meaning, or by whatever is installed."""


@contextmanager
def serve_demo_model() -> Iterator[tuple[str, str]]:
    """Serve a real model on this machine, and give its address and its name."""
    from forum.models.smollm2 import MODEL, start_smollm2

    with start_smollm2() as url:
        yield url, MODEL


def load_roster(path: Path | None = None) -> Roster:
    """Read a roster; without a path, the one that comes with Forum."""
    if path:
        return read_roster(path.read_bytes())
    return read_roster(files("forum.work").joinpath("roster.toml").read_bytes())


def make_router(
    roster: Roster, rung: str = "auto", tell: Callable[[str], None] = lambda _: None
) -> Router:
    """Return a router by one of the RUNGS; what is fitted to a roster is kept for next time.

    Nobody waits for what was not asked for: `auto` takes meaning only where it is fitted already.
    """
    if rung == "lexical":
        return Router(roster)
    import platformdirs

    cache = platformdirs.user_cache_path("forum")
    try:
        with extra("semantic"):
            from forum.models.semantic import fit_rung, open_rung

            semantic = open_rung(roster, cache)
    except MissingExtra:
        if rung == "semantic":
            raise
        return Router(roster)
    if semantic is None and rung == "semantic":
        tell("reading the examples of this roster, once; that takes a while")
        semantic = fit_rung(roster, cache)
    return Router(roster, semantic)


def configured(settings: Settings) -> Configured:
    """Return what the project file says of agents, tools, servers, roles and the roster."""
    found = read_configured(str(settings.file), settings.team)
    home = settings.file.parent if settings.file else Path()
    agents: dict[str, Agent] = {
        name: msgspec.structs.replace(agent, key_file=str(home / agent.key_file))
        if isinstance(agent, Chat) and agent.key_file
        else agent
        for name, agent in found.agents.items()
    }
    roster = str(home / found.roster) if found.roster else ""
    return msgspec.structs.replace(found, agents=agents, roster=roster)


def pin_tools(policy: Policy) -> Policy:
    """Ask the MCP servers of a policy what they offer: the tools of a run do not change under it.

    Raises `ServerUnusable`, and `MissingExtra`.
    """
    import asyncio

    if not policy.servers:
        return policy
    from forum.models.mcp import list_tools

    offered = asyncio.run(list_tools(policy.servers))
    return msgspec.structs.replace(policy, tools=offered | policy.tools)


def route_order(order: "Order", roster: Roster, *, lane: str = "", team: bool = False) -> "Order":
    """Return an order with the lane of its request; to be done by one agent or by a team.

    For one agent there is a plan of one task, in the lane if there is one.  A team makes its plan,
    and if the lane could not be told, its Classifier chooses among the nearest.
    """
    from forum.engine import RouteTaken

    router = Router(roster) if lane and not team else make_router(roster)
    if lane:
        taken = RouteTaken(Routed(lane, Basis.GIVEN, roster=roster.digest))
    else:
        found = router.route(order.request)
        taken = RouteTaken(routed(found, roster), msgspec.json.encode(found))
    near = router.nearest(order.request, CANDIDATES) if team else ()
    lane = taken.facts.lane
    lanes = dict.fromkeys([lane, *near] if lane else near)
    policy = team_policy(order.policy, roster, lanes, roles=team)
    if team:
        return replace(order, policy=policy, route=taken if lane else None)
    plan = one_task(order.request, lane)
    if not lane:
        worker = agent_for(Tier.CAPABLE, policy.agents)
        # Where nobody could tell whose work it is, nobody has said which tools it may use.
        if policy.tools and not policy.lanes:
            policy = msgspec.structs.replace(policy, lanes={ELSEWHERE: Brief(agent=worker)})
        plan = Plan((Task("answer", order.request, agent=worker),))
    return replace(order, policy=policy, plan=plan, route=taken)


def require_agents(policy: Policy, plan: Plan | None, *, keys: bool) -> None:
    """Refuse a run whose agents could not be asked.  Raises `AgentUnusable`.

    Whether keys are here counts only if the work is done here.
    """
    from forum.models import make_model
    from forum.models.inspection import require

    for name in sorted(agents_in(policy, plan)):
        if name not in policy.agents:
            raise AgentUnusable(name, "nobody says who that is")
        require(name, policy.agents[name], make_model, key=keys)


def inspect_agent(agent: Agent) -> Inspection:
    """Tell what is known of an agent, without asking it anything."""
    from forum.models.inspection import inspect

    return inspect(agent)


def ask_agent(agent: Agent, seconds: float) -> "Reply":
    """Ask an agent for a word, outside of every run.  Nothing of it is recorded."""
    import asyncio

    from forum.models import make_model
    from forum.models.inspection import ask_once

    return asyncio.run(ask_once(make_model(agent), seconds))
