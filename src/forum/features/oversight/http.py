"""Endpoints for reviews and incidents."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.app.formatting import format_facts
from forum.features.oversight import schemas as oversight
from forum.features.oversight.kinds import IncidentSeverity
from forum.features.oversight.service import OversightOperations
from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.schemas.fields import read_moment

_AUDIT = frozenset({Scope.AUDIT})
_MAX_TEXT_CHARS = 20_000
_Run = Annotated[str, Meta(max_length=64, description="A run; empty for all.")]
_Text = Annotated[str, Meta(min_length=1, max_length=_MAX_TEXT_CHARS)]


class ReviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look at."""

    run: _Run = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many items are listed.")] = 100


class ReviewAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A review that somebody has done."""

    until: Annotated[int, Meta(ge=0, description="The `until` of the review that was shown.")]
    run: _Run = ""
    remark: Annotated[str, Meta(max_length=_MAX_TEXT_CHARS)] = ""


class IncidentAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """An incident to open."""

    severity: IncidentSeverity
    text: Annotated[_Text, Meta(description="What happened.")]
    runs: Annotated[tuple[str, ...], Meta(max_length=32, description="The runs in it.")] = ()
    known: Annotated[
        str, Meta(max_length=40, description="When somebody became aware; empty for now.")
    ] = ""


class IncidentCloseAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """How an incident was dealt with."""

    text: _Text


def get_review(context: RequestContext) -> oversight.ReviewForm:
    """Return what is worth a look since the last review, or of one run."""
    ask: ReviewQuery = context.query
    forum = context.tenant.forum
    run = forum.reads.find_run(ask.run) if ask.run else ""
    view = OversightOperations(forum).view_review(run, limit=ask.limit)
    return oversight.review_form(view, [format_facts(item.entry) for item in view.items])


def create_review(context: RequestContext) -> oversight.ReviewForm:
    """Record that the client has looked at what a review showed."""
    ask: ReviewAsk = context.body
    forum = context.tenant.forum
    run = forum.reads.find_run(ask.run) if ask.run else ""
    view = OversightOperations(forum).view_review(run, ask.until)
    recorded = OversightOperations(forum).record_review(
        view, ask.remark, context.principal.approver
    )
    words = [format_facts(item.entry) for item in view.items]
    return oversight.review_form(view, words, recorded.leaf.hex())


def list_incidents(context: RequestContext) -> oversight.IncidentsForm:
    """List every incident, the oldest first."""
    return oversight.incidents_form(OversightOperations(context.tenant.forum).read_incidents())


def open_incident(context: RequestContext) -> oversight.IncidentForm:
    """Record an incident."""
    ask: IncidentAsk = context.body
    forum = context.tenant.forum
    runs = tuple(dict.fromkeys(forum.reads.find_run(run) for run in ask.runs))
    known_at = read_moment(ask.known) if ask.known else None
    by = context.principal.approver
    opened = OversightOperations(forum).open_incident(ask.severity, ask.text, runs, known_at, by=by)
    return oversight.incident_form(opened, ask.text)


def close_incident(context: RequestContext) -> oversight.IncidentForm:
    """Record that an incident is dealt with."""
    ask: IncidentCloseAsk = context.body
    incident, by = context.path_param("incident"), context.principal.approver
    closed = OversightOperations(context.tenant.forum).close_incident(incident, ask.text, by)
    return oversight.incident_form(closed, closing_text=ask.text)


OVERSIGHT = (
    Endpoint(
        "GET", path="/api/v1/reviews", name="get_review", scopes=_AUDIT,
        summary="Show what is worth a look since the last review, or in one run", handle=get_review,
        reply=oversight.ReviewForm, query=ReviewQuery, tag="ledger",
        problems=(ProblemType.NOT_FOUND, ProblemType.UNFIT),
    ),
    Endpoint(
        "POST", path="/api/v1/reviews", name="create_review", scopes=_AUDIT,
        summary="Record that you have looked", handle=create_review,
        reply=oversight.ReviewForm, body=ReviewAsk, status=201, tag="ledger",
        problems=(ProblemType.NOT_FOUND,),
        example={"until": 0, "remark": "Two budget stops, both expected."},
    ),
    Endpoint(
        "GET", path="/api/v1/incidents", name="list_incidents", scopes=_AUDIT,
        summary="List the incidents", handle=list_incidents, reply=oversight.IncidentsForm,
        tag="ledger",
    ),
    Endpoint(
        "POST", path="/api/v1/incidents", name="open_incident", scopes=_AUDIT,
        summary="Record an incident", handle=open_incident,
        reply=oversight.IncidentForm, body=IncidentAsk, status=201, tag="ledger",
        problems=(ProblemType.NOT_FOUND,),
        example={"severity": "high", "text": "Paid an invoice twice."},
    ),
    Endpoint(
        "POST", path="/api/v1/incidents/{incident}/close", name="close_incident", scopes=_AUDIT,
        summary="Record that an incident is dealt with", handle=close_incident,
        reply=oversight.IncidentForm, body=IncidentCloseAsk, tag="ledger",
        problems=(ProblemType.CONFLICT,),
        example={"text": "Refunded; the cap is lower now."},
    ),
)  # fmt: skip
