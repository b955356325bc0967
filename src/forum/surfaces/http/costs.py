"""Endpoints for what runs have cost, and for how providers have answered."""

from typing import Annotated

from msgspec import Meta

from forum.app import RunQuery
from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.schemas import costs, fields
from forum.surfaces.schemas.upstreams import UpstreamsAsk, UpstreamsForm, upstreams_form


class CostsAsk(costs.CostsFilter, frozen=True, forbid_unknown_fields=True):
    """Which runs, and what their costs are added up by."""

    cursor: Annotated[
        str,
        Meta(
            max_length=64,
            pattern="^[!-~]*$",
            description="The cursor that the previous reply gave.",
        ),
    ] = ""


def get_costs(context: RequestContext) -> costs.CostsForm:
    """Add up what runs have cost."""
    ask: CostsAsk = context.query
    query, reads = costs.costs_query(ask), context.tenant.forum.reads
    return costs.costs_form(reads.add_up_costs(ask.by, query, ask.cursor or None, ask.split))


def get_upstreams(context: RequestContext) -> UpstreamsForm:
    """Count how providers have answered lately."""
    ask: UpstreamsAsk = context.query
    since = fields.parse_time_bound(ask.since, 0)
    until = fields.parse_time_bound(ask.until, RunQuery().until)
    return upstreams_form(context.tenant.forum.reads.count_upstream_calls(since, until))


COSTS = (
    Endpoint(
        "GET", path="/api/v1/costs", name="get_costs", scopes=READERS,
        summary="Add up what runs have cost, by day, agent, model or lane", handle=get_costs,
        reply=costs.CostsForm, query=CostsAsk, problems=(ProblemType.UNFIT,), tag="work",
    ),
    Endpoint(
        "GET", path="/api/v1/upstreams", name="get_upstreams", scopes=READERS,
        summary="Count calls, failures, latency and refusals by provider", handle=get_upstreams,
        reply=UpstreamsForm, query=UpstreamsAsk, problems=(ProblemType.UNFIT,), tag="work",
    ),
)  # fmt: skip
