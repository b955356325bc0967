"""Reviews and incidents."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.features.oversight.kinds import IncidentSeverity
from forum.features.oversight.rules import Concern, Incident
from forum.features.oversight.service import IncidentRecord, RecordedReview, ReviewItem, ReviewView
from forum.runs.kinds import Authority
from forum.surfaces.schemas import fields


class ReviewItemForm(Struct, frozen=True):
    """An entry that is worth a look, and why."""

    concern: Concern
    id: fields.EntryId
    index: fields.Index | None
    run: fields.RunId
    strand: str
    kind: Annotated[str, Meta(examples=["stop/1"])]
    actor: str
    at: fields.Moment
    text: Annotated[str, Meta(description="The entry in words; over HTTP, its facts.")]


class ConcernCountsForm(Struct, frozen=True):
    """The number of entries with each concern; of those that are left out too."""

    stops: int
    budget_stops: int
    denials: int
    gaps: int
    indeterminate: int
    gates: Annotated[int, Meta(description="Gates that are open, whenever they were opened.")]


class DoneReviewForm(Struct, frozen=True):
    """A review that somebody has done."""

    entry: fields.EntryId
    at: fields.Moment
    actor: str
    by: Authority
    since: fields.Index
    until: fields.Index
    remark: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]


class IncidentForm(Struct, frozen=True):
    """An incident, open or closed."""

    id: str
    severity: IncidentSeverity
    runs: tuple[fields.RunId, ...]
    known: Annotated[fields.Moment, Meta(description="When somebody became aware of it.")]
    opened: fields.Moment
    opened_by: str
    entry: fields.EntryId
    closed: Annotated[fields.Moment | None, Meta(description="Null while it is open.")]
    closed_by: str | None
    text: Annotated[str | None, Meta(description="Null if it was erased.")] = None
    closing_text: Annotated[
        str | None, Meta(description="Null while it is open, or if it was erased.")
    ] = None


class IncidentsForm(Struct, frozen=True):
    """All incidents, the oldest first."""

    incidents: tuple[IncidentForm, ...]


class ReviewForm(Struct, frozen=True):
    """What is worth a look since the last review, or of one run."""

    since: Annotated[fields.Index, Meta(description="The first entry that was looked at.")]
    until: Annotated[fields.Index, Meta(description="The first entry that was not looked at.")]
    run: fields.RunId | None
    counts: ConcernCountsForm
    items: Annotated[tuple[ReviewItemForm, ...], Meta(description="The newest of them.")]
    incidents: Annotated[tuple[IncidentForm, ...], Meta(description="Those that are open.")]
    last: Annotated[DoneReviewForm | None, Meta(description="The review before.")]
    recorded: Annotated[
        fields.EntryId | None, Meta(description="The entry of the review that was just recorded.")
    ]


def review_form(view: ReviewView, words: Iterable[str], recorded: str = "") -> ReviewForm:
    """Return a review in its form; `words` describe its items."""
    counts = view.counts
    return ReviewForm(
        since=view.scope.since,
        until=view.scope.until,
        run=view.scope.run or None,
        counts=ConcernCountsForm(
            stops=counts[Concern.STOP],
            budget_stops=counts[Concern.BUDGET_STOP],
            denials=counts[Concern.DENIAL],
            gaps=counts[Concern.GAP],
            indeterminate=counts[Concern.INDETERMINATE],
            gates=counts[Concern.GATE],
        ),
        items=tuple(_item_form(item, text) for item, text in zip(view.items, words, strict=True)),
        incidents=tuple(map(incident_form, view.incidents)),
        last=_done_form(view.last) if view.last else None,
        recorded=recorded or None,
    )


def _item_form(item: ReviewItem, text: str) -> ReviewItemForm:
    entry = item.entry.entry
    return fields.fill(
        ReviewItemForm,
        entry,
        concern=item.concern,
        id=item.entry.leaf.hex(),
        index=item.entry.index,
        at=entry.ts,
        text=text,
    )


def _done_form(review: RecordedReview) -> DoneReviewForm:
    return fields.fill(
        DoneReviewForm,
        review.facts,
        entry=review.entry,
        at=review.at,
        actor=review.actor,
        remark=review.remark,
    )


def incident_form(
    incident: Incident, text: str | None = None, closing_text: str | None = None
) -> IncidentForm:
    """Return an incident in its form."""
    return fields.fill(IncidentForm, incident, text=text, closing_text=closing_text)


def incidents_form(records: Iterable[IncidentRecord]) -> IncidentsForm:
    """Return incidents in their form."""
    return IncidentsForm(tuple(incident_form(r.incident, r.text, r.closing_text) for r in records))
