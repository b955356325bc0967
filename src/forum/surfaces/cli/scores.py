"""`forum score` and `forum scores`: score runs, tasks and answers, and list the scores."""

from collections.abc import Sequence

import click

from forum.app.formatting import short_id
from forum.runs.kinds import Scorer, ScoreSubject
from forum.runs.scores import RecordedScore, Score, check_score, parse_score_value
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.console import style
from forum.surfaces.cli.run_view import format_score
from forum.surfaces.cli.runs import newest_run
from forum.surfaces.cli.submit_options import as_usage_error
from forum.surfaces.schemas.scores import score_form, scores_form


def _read_value(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return parse_score_value(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@common_options.command(
    examples=(
        "forum score 0199c0de-1234 --name correct --value 1",
        'forum score 0199c0de-1234 --answer --name helpful --value 0.8 --comment "Too long."',
        "forum score 0199c0de-1234 --task rivers --name correct --value 0 --by program",
    ),
)
@click.argument("run")
@click.option("--task", metavar="NAME", help="Score this task of the run.")
@click.option("--answer", is_flag=True, help="Score the answer of the run.")
@click.option("--name", required=True, help="What is measured: correct, helpful, ...")
@click.option("--value", required=True, callback=_read_value, metavar="NUMBER", help="From 0 to 1.")
@click.option("--comment", default="", help="Why; it can be erased like every body.")
@click.option(
    "--by",
    type=click.Choice([scorer.value for scorer in Scorer]),
    default=Scorer.PERSON.value,
    show_default=True,
    help="Who or what gives the score.",
)
@common_options.as_json
def score(  # noqa: PLR0913  one parameter for each option
    run: str,
    task: str | None,
    name: str,
    value: int,
    comment: str,
    by: str,
    *,
    answer: bool,
    as_json: bool,
) -> None:
    """Record how good a RUN was, one of its tasks, or its answer.

    The run must have ended.  A second score of the same subject and name replaces the first where
    scores are counted; both stay on record.
    """
    if task is not None and answer:
        raise click.UsageError("--task and --answer: a score is of one of them")
    subject = ScoreSubject.ANSWER if answer else ScoreSubject.RUN
    wanted = Score(
        name=name,
        value=value,
        subject=subject if task is None else ScoreSubject.TASK,
        task=task or "",
        by=Scorer(by),
        comment=comment,
    )
    as_usage_error(lambda: check_score(wanted))
    with common_options.open_forum() as forum:
        recorded = forum.scores.record(forum.reads.find_run(run), wanted)
        publication = forum.log.publish_or_warn()
    output.print_result("forum.score/1", score_form(recorded), [recorded.entry], as_json=as_json)
    output.print_publication(publication)


@common_options.command(
    examples=("forum scores", "forum scores 0199c0de-1234", "forum scores 0199c0de-1234 --json")
)
@click.argument("run", required=False)
@common_options.as_json
def scores(run: str | None, *, as_json: bool) -> None:
    """List the scores of a RUN, its tasks and its answer, the oldest first.

    Without a RUN, those of the newest one.
    """
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run) if run else newest_run(forum)
        recorded = forum.reads.read_scores(run_id)
    form = scores_form(run_id, recorded)
    output.print_result("forum.scores/1", form, _lines(recorded), as_json=as_json)
    if not recorded and not as_json:
        common_options.echo_info(
            f"no score yet; give one: forum score {short_id(run_id)} --name correct --value 1"
        )


def _lines(recorded: Sequence[RecordedScore]) -> list[str]:
    return [
        format_score(score) + ("" if score.is_latest else style("  (replaced)", dim=True))
        for score in recorded
    ]
