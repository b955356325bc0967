"""Endpoints for scores of runs: record one, list them."""

from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import READERS, Credential, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.requests import ScoreAsk, score_from_form
from forum.surfaces.schemas.scores import ScoreForm, ScoresForm, score_form, scores_form


def create_score(context: RequestContext) -> ScoreForm:
    """Record a score of an ended run, of a task or of its answer."""
    forum, run = context.tenant.forum, context.path_param("run")
    # An API key is a program's; a server without keys has no other client than its user.
    is_person = context.principal.credential is not Credential.KEY
    score = score_from_form(context.body, is_person=is_person)
    return score_form(forum.scores.record(run, score, context.principal.name))


def list_scores(context: RequestContext) -> ScoresForm:
    """List the scores of a run, its tasks and its answer, the oldest first."""
    forum, run = context.tenant.forum, context.path_param("run")
    forum.reads.read_run(run)  # an unknown run is an error, not one without scores
    return scores_form(run, forum.reads.read_scores(run))


SCORES = (
    Endpoint(
        "POST", path="/api/v1/runs/{run}/scores", name="create_score",
        scopes=frozenset({Scope.SUBMIT}),
        summary="Score a run, a task or an answer", handle=create_score,
        reply=ScoreForm, body=ScoreAsk, status=201, problems=(ProblemType.CONFLICT,), tag="runs",
        example={"name": "correct", "value": 0.8, "comment": "The date is wrong."},
    ),
    Endpoint(
        "GET", path="/api/v1/runs/{run}/scores", name="list_scores", scopes=READERS,
        summary="List the scores of a run", handle=list_scores, reply=ScoresForm, tag="runs",
    ),
)  # fmt: skip
