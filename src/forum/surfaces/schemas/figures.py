"""Figures of a record: calls by model, verdicts, checks, escalations, stops, bytes and cost."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.runs.record_figures import RecordFigures
from forum.surfaces.schemas.fields import Usd, fill

Counts = dict[str, int]


class ModelFiguresForm(Struct, frozen=True):
    """The calls of one model, and what they have cost."""

    model: Annotated[str, Meta(description="Empty for calls whose model is not recorded.")]
    calls: int
    tokens: int
    usd: Usd
    unpriced: Annotated[int, Meta(description="Calls whose price is not known.")]


class RecordForm(Struct, frozen=True):
    """What a record holds, in numbers."""

    entries: int
    bodies: Annotated[int, Meta(description="Bodies of these entries, erased ones too.")]
    body_bytes: Annotated[int, Meta(description="The size of these bodies.")]
    calls: int
    tokens: int
    usd: Usd
    models: Annotated[
        tuple[ModelFiguresForm, ...], Meta(description="The highest cost comes first.")
    ]
    verdicts: Annotated[Counts, Meta(description="By what followed, such as accept or retry.")]
    checks: Annotated[Counts, Meta(description="Checks of answers, by outcome.")]
    escalations: int
    stops: Annotated[Counts, Meta(description="By reason.")]


def record_form(record: RecordFigures) -> RecordForm:
    """Return the figures of a record, in their form."""
    models = (
        fill(ModelFiguresForm, each.spent, model=each.model, unpriced=each.unpriced)
        for each in record.models
    )
    spent = record.spent
    return fill(
        RecordForm, record, calls=spent.calls, tokens=spent.tokens, usd=spent.usd, models=models
    )
