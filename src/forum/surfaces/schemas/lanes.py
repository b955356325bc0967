"""Specialists, and which of them a request belongs to."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.surfaces.schemas.fields import fill
from forum.work.roster import Lane, Roster, Tier
from forum.work.routing import Route


class EvidenceForm(Struct, frozen=True):
    """What one feature of a request says for the nearest lane and against the runner-up."""

    feature: str
    weight: float


class RouteForm(Struct, frozen=True):
    """Where a request belongs, and why."""

    lane: Annotated[
        str | None,
        Meta(description="Null if none is sure enough: the request is left to the Classifier."),
    ]
    confidence: Annotated[
        float, Meta(description="How often a route like this one is right, by measurement.")
    ]
    nearest: str
    runner_up: str
    margin: Annotated[float, Meta(description="The sum of the evidence.")]
    evidence: tuple[EvidenceForm, ...]
    rung: str


def route_form(route: Route) -> RouteForm:
    """Return a route, in its form."""
    evidence = tuple(fill(EvidenceForm, item) for item in route.evidence)
    return fill(RouteForm, route, evidence=evidence)


class LaneForm(Struct, frozen=True):
    """A specialist of the roster."""

    name: Annotated[str, Meta(examples=["backend"])]
    group: str
    does: str
    tier: Annotated[Tier, Meta(description="How strong a model its work usually needs.")]
    tools: tuple[str, ...]


def lane_form(lane: Lane) -> LaneForm:
    """Return a lane of the roster, in its form."""
    return fill(LaneForm, lane)


class RosterForm(Struct, frozen=True):
    """Every specialist that there is."""

    digest: Annotated[str, Meta(description="Routes name it: by which roster they were found.")]
    lanes: tuple[LaneForm, ...]


def roster_form(roster: Roster) -> RosterForm:
    """Return a roster, in its form."""
    return RosterForm(roster.digest, tuple(map(lane_form, roster.lanes)))
