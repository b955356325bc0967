"""Specialists, and which of them a request belongs to."""

from typing import Annotated, assert_never

from msgspec import Meta, Struct

from forum.app.planner import RouteNext
from forum.runs.roster import Roster, Tier
from forum.runs.routing import Route
from forum.surfaces.schemas.fields import RunId, fill


class EvidenceForm(Struct, frozen=True):
    """The evidence that a feature of a request gives for the best lane against the second."""

    feature: str
    weight: float


class RouteForm(Struct, frozen=True):
    """The lane that a request belongs to, and why."""

    lane: Annotated[
        str | None,
        Meta(description="Null if no lane is certain enough; `next` says what happens then."),
    ]
    confidence: Annotated[
        float, Meta(description="The measured share of routes like this one that are right.")
    ]
    nearest: str
    runner_up: str
    margin: Annotated[float, Meta(description="The sum of the evidence.")]
    evidence: tuple[EvidenceForm, ...]
    rung: str
    next: Annotated[
        RouteNext,
        Meta(
            description="What `submit` does with it in this project: `lane` carries it out in the "
            "lane, `classifier` asks a model for the lane, `no-lane` carries it out without one, "
            "`not-routed` gives it to the agent as it is, because no model is configured."
        ),
    ]
    recorded: Annotated[
        RunId | None,
        Meta(description="With `record`: the run whose note holds this reply and the request."),
    ] = None


def route_form(route: Route, follows: RouteNext) -> RouteForm:
    """Return a route, in its form."""
    return fill(RouteForm, route, next=follows, recorded=None)


def explain_next_step(follows: RouteNext) -> str:
    """Return what `submit` does with a request that was routed, after the word `submit`."""
    match follows:
        case RouteNext.LANE:
            return "carries it out in this lane"
        case RouteNext.CLASSIFIER:
            return "asks the Classifier for the lane, which is a model"
        case RouteNext.NO_LANE:
            return (
                "carries it out without a lane; a team, or `classifier` under [roles] in "
                "forum.toml, has a model choose the lane"
            )
        case RouteNext.NOT_ROUTED:
            return "does not route here, because no model is configured"
        case _:
            assert_never(follows)


class LaneForm(Struct, frozen=True):
    """A specialist of the roster."""

    name: Annotated[str, Meta(examples=["backend"])]
    group: str
    does: str
    tier: Annotated[Tier, Meta(description="How strong a model its work usually needs.")]
    tools: tuple[str, ...]


class RosterForm(Struct, frozen=True):
    """All specialists of the roster."""

    digest: Annotated[str, Meta(description="The digest of the roster, which routes name.")]
    lanes: tuple[LaneForm, ...]


def roster_form(roster: Roster) -> RosterForm:
    """Return a roster, in its form."""
    return fill(RosterForm, roster)
