"""What would be done and by whom: routes, plans, models, lanes.  Nothing of it is recorded."""

from msgspec.json import encode
from starlette.responses import Response

from forum.config import FILE
from forum.ledger import Scope
from forum.surfaces.asking import AskForm, RouteAsk, ask_of
from forum.surfaces.forms.lanes import RosterForm, RouteForm, roster_form, route_form
from forum.surfaces.forms.models import ModelsForm, agent_view, models_form, shown_agents
from forum.surfaces.forms.plans import PlanForm, plan_form
from forum.surfaces.http.endpoints import JSON, READERS, Endpoint, Visit
from forum.surfaces.preparing import prepare
from forum.work import Role, is_independent, team_policy

_ASKING = frozenset({Scope.SUBMIT, Scope.READ})
_ALL_BUT_APPROVERS = READERS | {Scope.SUBMIT}


async def route(visit: Visit) -> RouteForm:
    """Say where a request belongs, and why."""
    return await prepare(lambda: route_form(visit.desk.staff.router.route(visit.body.text)))


async def plan(visit: Visit) -> Response:
    """Say what would be done."""
    order = await visit.desk.order(lambda: ask_of(visit.body))
    return Response(await prepare(lambda: encode(plan_form(order))), media_type=JSON)


def models(visit: Visit) -> ModelsForm:
    """Say who would be asked for what.  Of keys only whether this process has them."""
    staff = visit.desk.staff
    team = team_policy(staff.everybody, staff.roster, staff.roster.by_name, roles=True)
    views = [
        agent_view(team, name, FILE if name in staff.known.agents else "default")
        for name in shown_agents(team)
    ]
    return models_form(views, independent=is_independent(team, Role.VALIDATOR))


def roster(visit: Visit) -> RosterForm:
    """List the specialists."""
    return roster_form(visit.desk.staff.roster)


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
