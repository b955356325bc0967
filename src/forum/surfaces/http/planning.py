"""Endpoints that preview work: routes, plans, models and lanes.  They record nothing."""

from msgspec.json import encode
from starlette.responses import Response

from forum.config import PROJECT_FILE
from forum.ledger import Scope
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.http.endpoints import JSON, READERS, Endpoint, RequestContext
from forum.surfaces.requests import AskForm, RouteAsk, request_from_form
from forum.surfaces.schemas.lanes import RosterForm, RouteForm, roster_form, route_form
from forum.surfaces.schemas.models import ModelsForm, agent_view, list_shown_agents, models_form
from forum.surfaces.schemas.plans import PlanForm, plan_form
from forum.work import Role, build_team_policy, is_independent

_SUBMIT_OR_READ = frozenset({Scope.SUBMIT, Scope.READ})
_SUBMIT_OR_READERS = READERS | {Scope.SUBMIT}


async def find_route(visit: RequestContext) -> RouteForm:
    """Say where a request belongs, and why."""
    return await run_cpu_bounded(lambda: route_form(visit.desk.staff.router.route(visit.body.text)))


async def preview_plan(visit: RequestContext) -> Response:
    """Say what would be done."""
    order = await visit.desk.build_run_request(lambda: request_from_form(visit.body))
    return Response(await run_cpu_bounded(lambda: encode(plan_form(order))), media_type=JSON)


def list_agents(visit: RequestContext) -> ModelsForm:
    """Say who would be asked for what.  Of keys only whether this process has them."""
    staff = visit.desk.staff
    team = build_team_policy(staff.base_policy, staff.roster, staff.roster.by_name, roles=True)
    views = [
        agent_view(team, name, PROJECT_FILE if name in staff.team_settings.agents else "default")
        for name in list_shown_agents(team)
    ]
    return models_form(views, independent=is_independent(team, Role.VALIDATOR))


def get_roster(visit: RequestContext) -> RosterForm:
    """List the specialists."""
    return roster_form(visit.desk.staff.roster)


PLANNING = (
    Endpoint(
        "POST", "/api/v1/route", "route", _SUBMIT_OR_READ,
        "Ask where a request belongs, and why; nothing is recorded", find_route,
        reply=RouteForm, body=RouteAsk, tag="work",
        example={"text": "The checkout returns 500 since the last migration."},
    ),
    Endpoint(
        "POST", "/api/v1/plan", "plan", _SUBMIT_OR_READ,
        "Ask what would be done; nothing is recorded", preview_plan,
        reply=PlanForm, body=AskForm, tag="work",
        example={"request": "Name three rivers.", "budget": {"usd": "0.50"}},
    ),
    Endpoint(
        "GET", "/api/v1/models", "list_models", _SUBMIT_OR_READERS,
        "List who would be asked, for what, and at what price", list_agents,
        reply=ModelsForm, tag="work",
    ),
    Endpoint(
        "GET", "/api/v1/roster", "list_lanes", _SUBMIT_OR_READERS,
        "List the specialists to whom work is given", get_roster,
        reply=RosterForm, tag="work",
    ),
)  # fmt: skip
