"""Endpoints that preview work: routes, plans, models and lanes.

They record nothing unless a client asks for it.
"""

from typing import TypeVar

import msgspec
from msgspec.json import encode
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from forum.engine import RunRequest
from forum.ledger.kinds import Scope
from forum.surfaces import requests
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.http import endpoints
from forum.surfaces.schemas import lanes, models
from forum.surfaces.schemas.plans import PlanForm, plan_form

StructT = TypeVar("StructT", bound=msgspec.Struct)

_SUBMIT_OR_READ = frozenset({Scope.SUBMIT, Scope.READ})
_SUBMIT_OR_READERS = endpoints.READERS | {Scope.SUBMIT}


async def find_route(context: endpoints.RequestContext) -> lanes.RouteForm:
    """Say where a request belongs, and why."""
    registry = context.tenant.registry
    route = await run_cpu_bounded(lambda: registry.router.route(context.body.text))
    form = lanes.route_form(route, registry.next_step(route))
    return await _record(context, "forum.route/1", context.body.text, form)


async def preview_plan(context: endpoints.RequestContext) -> Response:
    """Say what would be done."""
    forum, registry = context.tenant.forum, context.tenant.registry
    principal = context.principal

    def build() -> RunRequest:
        subject = requests.read_subject(forum, context.body, principal.scopes)
        return requests.run_request_from_form(context.body, registry, principal.authority, subject)

    request = await context.tenant.build_run_request(build)
    form = await run_cpu_bounded(lambda: plan_form(request))
    form = await _record(context, "forum.plan/1", context.body.request, form)
    return Response(await run_cpu_bounded(lambda: encode(form)), media_type=endpoints.JSON)


async def _record(
    context: endpoints.RequestContext, schema: str, request: str, form: StructT
) -> StructT:
    """Record a preview if the client asks for it, and return the form with the run."""
    if not context.body.record:
        return form
    requests.check_record_authority(context.principal.scopes)
    forum, actor = context.tenant.forum, context.principal.name
    run = await run_in_threadpool(requests.record_preview, forum, schema, request, form, actor)
    return msgspec.structs.replace(form, recorded=run)


def list_agents(context: endpoints.RequestContext) -> models.ModelsForm:
    """Say who would be asked for what.  Of keys only whether this process has them."""
    return models.planner_models_form(context.tenant.registry)


def get_roster(context: endpoints.RequestContext) -> lanes.RosterForm:
    """List the specialists."""
    return lanes.roster_form(context.tenant.registry.roster)


PLANNING = (
    endpoints.Endpoint(
        "POST", path="/api/v1/route", name="route", scopes=_SUBMIT_OR_READ,
        summary="Ask where a request belongs, and why; recorded only with `record`",
        handle=find_route,
        reply=lanes.RouteForm, body=requests.RouteAsk, tag="work",
        example={"text": "The checkout returns 500 since the last migration."},
    ),
    endpoints.Endpoint(
        "POST", path="/api/v1/plan", name="plan", scopes=_SUBMIT_OR_READ,
        summary="Ask what would be done; recorded only with `record`", handle=preview_plan,
        reply=PlanForm, body=requests.PreviewAsk, tag="work",
        example={"request": "Name three rivers.", "budget": {"usd": "0.50"}},
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/models", name="list_models", scopes=_SUBMIT_OR_READERS,
        summary="List who would be asked, for what, and at what price", handle=list_agents,
        reply=models.ModelsForm, tag="work",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/roster", name="list_lanes", scopes=_SUBMIT_OR_READERS,
        summary="List the specialists to whom work is given", handle=get_roster,
        reply=lanes.RosterForm, tag="work",
    ),
)  # fmt: skip
