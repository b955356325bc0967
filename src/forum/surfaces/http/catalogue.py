"""What would be done and by whom: routes, plans, models, lanes.  Nothing of it is recorded."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from forum.config import FILE
from forum.ledger import NO_LIMIT, Scope
from forum.staff import Staff, inspect_agent
from forum.surfaces.asking import AskForm, ask_of
from forum.surfaces.forms import (
    AgentView,
    CapForm,
    LaneForm,
    ModelsForm,
    RouteForm,
    lane_form,
    models_form,
    route_form,
)
from forum.surfaces.http.endpoints import READERS, Endpoint, Visit
from forum.surfaces.telling import dollars
from forum.work import (
    Budget,
    Policy,
    Role,
    Task,
    Tier,
    agent_for,
    is_independent,
    team_policy,
)

if TYPE_CHECKING:
    from forum.engine import Order

_ASKING = frozenset({Scope.SUBMIT, Scope.READ})
_ALL_BUT_APPROVERS = READERS | {Scope.SUBMIT}


class RouteAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What belongs to somebody."""

    text: Annotated[str, Meta(min_length=1, examples=["Draw the login flow."])]


class PlannedForm(Struct, frozen=True):
    """A task as it would be done."""

    id: str
    instruction: str
    done_when: str
    needs: Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")]
    after: Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")]
    lane: str | None
    agent: Annotated[str, Meta(description="Who would do it; the default agent has no name.")]
    tasks: Annotated[tuple["PlannedForm", ...], Meta(description="The plan within it.")]


class PlanForm(Struct, frozen=True):
    """What would be done, if it were asked for now."""

    lane: Annotated[str | None, Meta(description="Null if none was looked for, or is sure.")]
    team: Annotated[bool, Meta(description="Whether a team would make the plan: no task is known.")]
    tasks: tuple[PlannedForm, ...]
    gates: Annotated[tuple[str, ...], Meta(description="What a person has to approve first.")]
    cap: CapForm


class RosterForm(Struct, frozen=True):
    """Every specialist that there is."""

    digest: Annotated[str, Meta(description="Routes name it: by which roster they were found.")]
    lanes: tuple[LaneForm, ...]


def route(visit: Visit) -> RouteForm:
    """Say where a request belongs, and why."""
    return route_form(visit.desk.staff.router.route(visit.body.text))


def plan(visit: Visit) -> PlanForm:
    """Say what would be done."""
    return plan_form(visit.desk.staff.order(ask_of(visit.body)))


def plan_form(order: "Order") -> PlanForm:
    """Return what an order would have done, in its form."""
    tasks = order.plan.tasks if order.plan else ()
    return PlanForm(
        order.route.facts.lane or None if order.route else None,
        order.plan is None,
        tuple(_planned(task, order.policy) for task in tasks),
        order.policy.gates,
        _cap(order.budget),
    )


def _planned(task: Task, policy: Policy) -> PlannedForm:
    return PlannedForm(
        task.id,
        task.instruction,
        task.done_when,
        task.needs,
        task.after,
        task.lane or None,
        policy.worker_of(task),
        tuple(_planned(inner, policy) for inner in task.tasks),
    )


def _cap(budget: Budget) -> CapForm:
    return CapForm(
        None if budget.usd == NO_LIMIT else dollars(budget.usd),
        None if budget.tokens == NO_LIMIT else budget.tokens,
        None if budget.calls == NO_LIMIT else budget.calls,
        None if budget.milliseconds == NO_LIMIT else budget.milliseconds / 1000,
    )


def models(visit: Visit) -> ModelsForm:
    """Say who would be asked for what.  Of keys only whether this process has them."""
    staff = visit.desk.staff
    policy = Policy(roles=staff.known.roles)
    if staff.known.agents:
        policy = msgspec.structs.replace(policy, agents=staff.known.agents)
    team = team_policy(policy, staff.roster, staff.roster.by_name, roles=True)
    alike = [name for name, one in team.agents.items() if name and one == team.agents.get("")]
    default = (alike or [""])[0]
    shown = [name for name in team.agents if name or not alike]
    views = [_view(staff, team, name, default=name == default) for name in shown]
    return models_form(views, independent=is_independent(team, Role.VALIDATOR))


def _view(staff: Staff, team: Policy, name: str, *, default: bool) -> AgentView:
    return AgentView(
        name,
        FILE if name in staff.known.agents else "default",
        inspect_agent(team.agents[name]),
        tuple(tier for tier in Tier if agent_for(tier, team.agents) == name),
        tuple(role.value for role in Role if team.roles[role] == name),
        tuple(lane for lane, brief in team.lanes.items() if brief.agent == name),
        default,
    )


def roster(visit: Visit) -> RosterForm:
    """List the specialists."""
    found = visit.desk.staff.roster
    return RosterForm(found.digest, tuple(map(lane_form, found.lanes)))


CATALOGUE = (
    Endpoint(
        "POST", "/api/v1/route", "route", _ASKING,
        "Ask where a request belongs, and why; nothing is recorded", route,
        reply=RouteForm, body=RouteAsk, tag="work",
        example={"text": "The checkout returns 500 since the last migration."},
    ),
    Endpoint(
        "POST", "/api/v1/plan", "plan", _ASKING,
        "Ask what would be done; nothing is recorded", plan,
        reply=PlanForm, body=AskForm, tag="work",
        example={"request": "Name three rivers.", "budget": {"usd": "0.50"}},
    ),
    Endpoint(
        "GET", "/api/v1/models", "list_models", _ALL_BUT_APPROVERS,
        "List who would be asked, for what, and at what price", models,
        reply=ModelsForm, tag="work",
    ),
    Endpoint(
        "GET", "/api/v1/roster", "list_lanes", _ALL_BUT_APPROVERS,
        "List the specialists to whom work is given", roster,
        reply=RosterForm, tag="work",
    ),
)  # fmt: skip
