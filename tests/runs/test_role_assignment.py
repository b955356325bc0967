"""Who does what: tiers, roles and lanes, for any agents that there may be."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import BadPlan
from forum.runs.kinds import Basis
from forum.runs.plan import Plan, Task
from forum.runs.policy import (
    Agent,
    Chat,
    Command,
    McpServer,
    Policy,
    Role,
    Scripted,
    ToolSpec,
    model_of,
)
from forum.runs.role_assignment import (
    agent_for,
    agents_in,
    build_team_policy,
    is_independent,
    route_facts,
)
from forum.runs.roster import Lane, Roster, Tier
from forum.runs.routing import Route, Router

ROSTER = Roster(
    (
        Lane("kitchen", "Cooks.", tier=Tier.CHEAP, instructions="Be quick.", terms=("soup",)),
        Lane("garden", "Grows.", tools=("rake", "notes", "web-*"), terms=("roses",)),
        Lane("bank", "Pays.", tier=Tier.FRONTIER, terms=("invoice",)),
    )
)
WEAKEST_FIRST = ["cheap", "capable", "frontier"]


def chat(model: str) -> Chat:
    """Return a model on this machine."""
    return Chat("http://127.0.0.1/v1", model)


def policy_of(**agents: Agent) -> Policy:
    """Return a policy with these agents, and one without a name."""
    return Policy(agents={"": chat("default"), **agents})


names = st.sampled_from([*WEAKEST_FIRST, "judge", "helper"])
models = st.sampled_from(["a", "b", "c"]).map(chat)
policies = st.dictionaries(names, models).map(lambda document: policy_of(**document))


@given(st.sampled_from(list(Tier)), st.sets(names))
def test_a_tier_is_served_by_itself_or_its_nearest(tier: Tier, agents: set[str]) -> None:
    """A task is rather done too well than too badly, and always by somebody."""
    text = agent_for(tier, agents)
    there = [name for name in WEAKEST_FIRST if name in agents]
    stronger = [n for n in there if WEAKEST_FIRST.index(n) >= WEAKEST_FIRST.index(tier)]

    if stronger:
        assert text == stronger[0]
    else:
        assert text == (there[-1] if there else "")


@given(policies, st.booleans())
def test_a_team_is_made_of_agents_that_are_there(policy: Policy, roles: bool) -> None:  # noqa: FBT001
    """Whoever is named, the policy can be carried out, with a plan and without one."""
    team = build_team_policy(policy, ROSTER, dict.fromkeys(ROSTER.by_name, 0), roles=roles)
    team.check(None)
    team.check(Plan(tuple(Task(name, "do", lane=name) for name in ROSTER.by_name)))

    assert set(team.lanes) == {"kitchen", "garden", "bank"}
    assert set(team.roles) == (set(Role) if roles else set())
    assert agents_in(team, None) <= team.agents.keys()


@given(policies)
def test_the_judge_is_another_model_wherever_there_is_one(policy: Policy) -> None:
    """A model that judges itself is no judge; it is chosen only where there is no other."""
    team = build_team_policy(policy, ROSTER, dict.fromkeys(ROSTER.by_name, 0), roles=True)
    at_work = {model_of(team.agents[brief.agent]) for brief in team.lanes.values()}
    others = {model_of(agent) for agent in team.agents.values()} - at_work

    assert is_independent(team, Role.VALIDATOR) == bool(others)
    assert team.roles[Role.INTENT] == team.roles[Role.VALIDATOR]


def test_the_cast_of_a_whole_team() -> None:
    """Each role goes to the tier that its work needs, and the ladder is the tiers."""
    agents = {tier: chat(tier) for tier in ("frontier", "cheap", "capable")}
    team = build_team_policy(
        policy_of(**agents, judge=chat("other")), ROSTER, dict.fromkeys(["kitchen"], 0), roles=True
    )

    assert team.ladder == ("cheap", "capable", "frontier")
    assert team.lanes["kitchen"].agent == "cheap"
    assert team.roles == {
        Role.CLASSIFIER: "capable",
        Role.COORDINATOR: "capable",
        Role.VALIDATOR: "frontier",
        Role.SYNTHESIZER: "capable",
        Role.INTENT: "frontier",
        Role.REVISER: "cheap",
        Role.SUMMARIZER: "cheap",
    }


def test_what_a_policy_says_already_is_kept() -> None:
    """Whoever has named a judge or a ladder gets no other."""
    policy = msgspec.structs.replace(
        policy_of(cheap=chat("a"), frontier=chat("b")),
        ladder=("frontier",),
        roles={Role.VALIDATOR: "cheap"},
    )
    team = build_team_policy(policy, ROSTER, dict.fromkeys(["bank"], 0), roles=True)

    assert team.ladder == ("frontier",)
    assert team.roles[Role.VALIDATOR] == "cheap"


def test_one_tier_is_no_ladder() -> None:
    """To hand a task up to who has just failed at it would only cost."""
    assert (
        build_team_policy(
            policy_of(capable=chat("a")), ROSTER, dict.fromkeys(["bank"], 0), roles=False
        ).ladder
        == ()
    )


def test_a_lane_may_use_the_tools_that_it_names() -> None:
    """By their names, by the server that offers them, by how they begin; and no others."""
    notes, other = McpServer(("notes",)), McpServer(("other",))
    tools = {
        "rake": ToolSpec(("rake",)),
        "notes-add": ToolSpec(server=notes, name="add"),
        "other-add": ToolSpec(server=other, name="add"),
        "web-get": ToolSpec(("get",)),
        "pay": ToolSpec(("pay",)),
    }
    policy = Policy(tools=tools, servers={"notes": notes, "other": other})
    team = build_team_policy(policy, ROSTER, dict.fromkeys(["garden", "bank"], 0), roles=False)

    assert team.lanes["garden"].tools == ("rake", "notes-add", "web-get")
    assert team.lanes["bank"].tools == ()


def test_a_lane_that_is_not_there_is_refused_with_those_that_are() -> None:
    """A misspelt lane must not become work without one."""
    with pytest.raises(BadPlan, match="no lane is called 'gardn'; the roster has: bank, garden"):
        build_team_policy(Policy(), ROSTER, dict.fromkeys(["gardn"], 0), roles=False)


def test_programs_are_the_same_model_if_they_have_the_same_name() -> None:
    """So the record tells them apart, and independence is computed by what the record has."""
    assert model_of(Command(("/usr/bin/cat", "-u"))) == model_of(Command(("cat",))) == "cat"
    assert model_of(Scripted()) == "scripted"


@given(st.text())
def test_every_route_can_be_recorded(text: str) -> None:
    """What was decided, in whole thousandths, and by which roster."""
    route = Router(ROSTER).route(text)
    facts = route_facts(route, ROSTER)

    assert facts.lane == (route.lane or "")
    assert (facts.basis, facts.roster) == (Basis.LEXICAL, ROSTER.digest)
    assert 0 <= facts.confidence <= 1000
    assert facts.margin >= 0


def test_a_route_by_another_rung_is_recorded_as_one_by_meaning() -> None:
    """The record knows kinds of evidence, not the names of weights."""
    route = Route(
        "bank",
        confidence=0.9,
        nearest="bank",
        runner_up="garden",
        margin=1.0,
        evidence=(),
        rung="minilm",
    )

    assert route_facts(route, ROSTER).basis is Basis.SEMANTIC


@given(st.text(), st.integers(0, 5))
def test_the_nearest_lanes_begin_with_the_nearest(text: str, most: int) -> None:
    """The Classifier chooses among lanes only, and among those that a request may belong to."""
    router = Router(ROSTER)
    ranked, route = router.rank_lanes(text, most), router.route(text)
    near = [lane for lane, _ in ranked]

    assert len(near) == min(most, 3)
    assert len(set(near)) == len(near)
    assert set(near) <= set(ROSTER.by_name)
    if near and route.nearest in ROSTER.by_name:
        assert near[0] == route.nearest
