"""Scores of runs, tasks and answers."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.runs import kinds
from forum.runs.scores import RecordedScore
from forum.surfaces.schemas import fields

ScoreValue = Annotated[
    float, Meta(ge=0, le=1, description="From 0 to 1, in thousandths.", examples=[0.8])
]


class ScoreForm(Struct, frozen=True):
    """A score: its subject, its author and its value."""

    entry: fields.EntryId
    run: fields.RunId
    subject: kinds.ScoreSubject
    task: Annotated[str | None, Meta(description="Null if no task is scored.")]
    name: Annotated[str, Meta(examples=["correct", "helpful"])]
    value: ScoreValue
    by: kinds.Scorer
    judge: Annotated[str | None, Meta(description="The agent that judged.")]
    independence: kinds.Independence | None
    actor: str
    at: fields.Moment
    comment: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]
    latest: Annotated[
        bool,
        Meta(description="Whether it counts: its actor has given no newer score of this subject."),
    ]


def score_form(score: RecordedScore) -> ScoreForm:
    """Return a score in its form."""
    return fields.fill(
        ScoreForm,
        score.facts,
        entry=score.entry,
        value=score.facts.value / kinds.MAX_SCORE,
        actor=score.actor,
        at=score.at,
        comment=score.comment,
        latest=score.is_latest,
    )


class ScoresForm(Struct, frozen=True):
    """The scores of a run, its tasks and its answer, the oldest first."""

    run: fields.RunId
    scores: tuple[ScoreForm, ...]


def scores_form(run: str, scores: Iterable[RecordedScore]) -> ScoresForm:
    """Return the scores of a run in their form."""
    return ScoresForm(run, tuple(map(score_form, scores)))
