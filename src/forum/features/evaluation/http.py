"""Endpoints for evaluations: list them, and read the report of one."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.features.evaluation import schemas
from forum.features.evaluation.evaluation_list import MAX_RECOMPUTED_PLAYS
from forum.features.evaluation.service import EvaluationOperations
from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType


class EvaluationsAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list."""

    cursor: Annotated[
        str,
        Meta(
            max_length=64, pattern="^[!-~]*$", description="The cursor that the previous page gave."
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


def list_evaluations(context: RequestContext) -> schemas.EvaluationsPage:
    """List evaluations, the newest first."""
    ask: EvaluationsAsk = context.query
    evaluations = EvaluationOperations(context.tenant.forum)
    return schemas.evaluations_page(evaluations.list_evaluations(ask.cursor or None, ask.limit))


def get_evaluation(context: RequestContext) -> schemas.EvaluationForm:
    """Return the recorded report of an evaluation, compared with what its runs say."""
    evaluations, run = EvaluationOperations(context.tenant.forum), context.path_param("run")
    report = evaluations.read_report(run)
    check = evaluations.check_report(report, MAX_RECOMPUTED_PLAYS)
    return schemas.evaluation_form(report, check, evaluations.read_cases(run))


EVALUATIONS = (
    Endpoint(
        "GET", path="/api/v1/evaluations", name="list_evaluations", scopes=READERS,
        summary="List evaluations, the newest first", handle=list_evaluations,
        reply=schemas.EvaluationsPage, query=EvaluationsAsk, tag="runs",
    ),
    Endpoint(
        "GET", path="/api/v1/evaluations/{run}", name="get_evaluation", scopes=READERS,
        summary="Read the report of an evaluation, computed anew where it is not too large",
        handle=get_evaluation, reply=schemas.EvaluationForm, problems=(ProblemType.GONE,),
        tag="runs",
    ),
)  # fmt: skip
