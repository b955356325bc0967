"""Endpoint for what runs have cost."""

from typing import Annotated

from msgspec import Meta

from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.schemas import costs


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


COSTS = (
    Endpoint(
        "GET", path="/api/v1/costs", name="get_costs", scopes=READERS,
        summary="Add up what runs have cost, by day, agent, model or lane", handle=get_costs,
        reply=costs.CostsForm, query=CostsAsk, problems=(ProblemType.UNFIT,), tag="work",
    ),
)  # fmt: skip
