"""Evaluations: a list of them, and the report of one with what was asked."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.features.evaluation.evaluation_list import EvaluationPage, ListedEvaluation, ReportCheck
from forum.features.evaluation.rules import EvalCase, EvalReport
from forum.surfaces.schemas import fields


class EvaluationLine(Struct, frozen=True):
    """An evaluation in a list."""

    run: fields.RunId
    begun: fields.Moment
    ended: Annotated[
        fields.Moment | None, Meta(description="Null while it goes on, or if it was given up.")
    ]
    configurations: Annotated[
        tuple[str, ...], Meta(description="Agents that play alone, and `team`.")
    ]
    cases: int
    repeat: Annotated[int, Meta(description="How often each case is played.")]
    plays: Annotated[int, Meta(description="How many plays were recorded.")]
    unplayed: int


class EvaluationsPage(Struct, frozen=True):
    """Evaluations, the newest first."""

    evaluations: tuple[EvaluationLine, ...]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null at the end.")]


def evaluations_page(page: EvaluationPage) -> EvaluationsPage:
    """Return a page of evaluations in its form."""
    return EvaluationsPage(tuple(map(_evaluation_line, page.evaluations)), page.next)


def _evaluation_line(listed: ListedEvaluation) -> EvaluationLine:
    facts = listed.facts
    return fields.fill(
        EvaluationLine,
        listed,
        configurations=facts.configurations,
        cases=facts.cases,
        repeat=facts.repeat,
    )


class EvaluationForm(Struct, frozen=True):
    """An evaluation: the recorded report, and whether it follows from the recorded runs."""

    run: fields.RunId
    check: ReportCheck
    requests: Annotated[
        tuple[str, ...], Meta(description="What each case asks for; none if they were erased.")
    ]
    report: EvalReport


def evaluation_form(
    report: EvalReport, check: ReportCheck, cases: tuple[EvalCase, ...]
) -> EvaluationForm:
    """Return an evaluation in its form."""
    return EvaluationForm(report.evaluation, check, tuple(c.request for c in cases), report)
