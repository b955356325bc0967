"""`forum review` and `forum incident`: look at what needs a look, and record that you did."""

from collections.abc import Iterator

import click

from forum.app.formatting import pluralize, short_id, strip_control_characters
from forum.features.oversight.kinds import IncidentSeverity
from forum.features.oversight.rules import Concern
from forum.features.oversight.schemas import (
    IncidentForm,
    incident_form,
    incidents_form,
    review_form,
)
from forum.features.oversight.service import (
    OversightOperations,
    RecordedReview,
    ReviewItem,
    ReviewView,
)
from forum.features.oversight.words import describe_range
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.console import style
from forum.surfaces.cli.explain import describe_entry
from forum.units import format_moment

_TITLES = {
    Concern.STOP: "stops",
    Concern.BUDGET_STOP: "budget stops",
    Concern.DENIAL: "denials",
    Concern.GAP: "gaps in reports",
    Concern.INDETERMINATE: "effects in doubt",
    Concern.GATE: "open gates",
}
_INCIDENT_HEADS = ("id", "severity", "state", "known", "runs", "text")
_MAX_TEXT_CHARS = 40


@common_options.command(
    examples=(
        "forum review",
        'forum review --done --remark "Two budget stops, both expected."',
        "forum review 0199c0de-1234 --done",
    ),
)
@click.argument("run", required=False)
@click.option("--done", is_flag=True, help="Record that you have looked.")
@click.option("--remark", default="", help="A remark; it can be erased like every body.")
@click.option(
    "--until",
    type=click.IntRange(min=0),
    metavar="INDEX",
    help="Look at entries before this index only; a list that you saw ends with its index.",
)
@common_options.limit_option(100, "Maximum number of items that are listed; all are counted.")
@common_options.as_json
def review(
    run: str | None, remark: str, until: int | None, limit: int, *, done: bool, as_json: bool
) -> None:
    """Show what is worth a look since the last review, or in one RUN.

    Lists stops, budget stops, denials, gaps in reports, effects in doubt and open gates.  With
    --done the review is recorded: who looked, at which entries, how many items were shown, and the
    remark.  The next review begins where it ended; the review of one RUN changes nothing of that.
    """
    if remark and not done:
        raise click.UsageError("--remark is recorded with --done only")
    publication, recorded = None, ""
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run) if run else ""
        view = OversightOperations(forum).view_review(run_id, until, limit)
        if done:
            recorded = OversightOperations(forum).record_review(view, remark).leaf.hex()
            publication = forum.log.publish_or_warn()
    words = [describe_entry(item.entry) for item in view.items]
    form = review_form(view, words, recorded)
    output.print_result("forum.review/1", form, _review_lines(view, words), as_json=as_json)
    if done:
        common_options.echo_info(f"recorded as {recorded}")
        output.print_publication(publication)
    else:
        named = f"{short_id(run_id)} " if run_id else ""
        common_options.echo_info(
            f"to record that you looked: forum review {named}--done --until {view.scope.until}"
        )


def _review_lines(view: ReviewView, words: list[str]) -> Iterator[str]:
    scope = view.scope
    named = f", of run {scope.run}" if scope.run else ""
    yield describe_range(scope.since, scope.until) + named
    yield f"last review: {_describe_last(view.last) if view.last else 'none'}"
    for concern, title in _TITLES.items():
        count = view.counts[concern]
        yield style(f"{title}: {count}", bold=bool(count))
        for item, text in zip(view.items, words, strict=True):
            if item.concern is concern:
                yield _item_line(item, text)
    if view.incidents:
        yield style(f"open incidents: {len(view.incidents)}", bold=True)
        for incident in view.incidents:
            yield f"  {incident.id}  {incident.severity.value}  {format_moment(incident.known)}"
    left_out = sum(view.counts.values()) - len(view.items)
    if left_out:
        yield f"{pluralize(left_out, 'older item')} not listed; see --limit"


def _describe_last(review: RecordedReview) -> str:
    remark = f": {_one_line(review.remark)}" if review.remark else ""
    return f"{format_moment(review.at)} by {review.actor}, up to {review.facts.until}{remark}"


def _item_line(item: ReviewItem, text: str) -> str:
    entry = item.entry.entry
    run = short_id(entry.run) if entry.run != "log" else "log"
    return f"  #{item.entry.index}  {format_moment(entry.ts)}  {run}  {_one_line(text)}"


def _one_line(text: str) -> str:
    return " ".join(strip_control_characters(text).split())


@click.group(cls=common_options.FullHelpGroup)
def incident() -> None:
    """Open, close and list incidents.  What counts as one, and whom to tell, is yours to decide."""


@incident.command(
    "open",
    examples=(
        'forum incident open --severity high --run 0199c0de-1234 "Paid an invoice twice."',
        'forum incident open --severity low --known 2h "The provider lost replies."',
    ),
)
@click.argument("text")
@click.option(
    "--severity",
    required=True,
    type=click.Choice([severity.value for severity in IncidentSeverity]),
    help="Severity of the incident.",
)
@click.option("--run", "runs", multiple=True, help="A run that is part of it; may be repeated.")
@click.option(
    "--known",
    type=common_options.MOMENT,
    help="When somebody became aware of it: an age such as 2h, or a time.  Default: now.",
)
@common_options.as_json
def open_(
    text: str, severity: str, runs: tuple[str, ...], known: int | None, *, as_json: bool
) -> None:
    """Record an incident, with a TEXT that says what happened."""
    with common_options.open_forum() as forum:
        named = tuple(dict.fromkeys(forum.reads.find_run(run) for run in runs))
        opened = OversightOperations(forum).open_incident(
            IncidentSeverity(severity), text, named, known
        )
        publication = forum.log.publish_or_warn()
    form = incident_form(opened, text)
    output.print_result("forum.incident/1", form, [opened.id], as_json=as_json)
    if not as_json:
        common_options.echo_info(f'when it is dealt with: forum incident close {opened.id} "..."')
        output.print_publication(publication)


@incident.command("close", examples=('forum incident close 4f1c09ab "Refunded; cap lowered."',))
@click.argument("incident_id", metavar="ID")
@click.argument("text")
@common_options.as_json
def close(incident_id: str, text: str, *, as_json: bool) -> None:
    """Record that the incident ID is dealt with, with a TEXT that says how."""
    with common_options.open_forum() as forum:
        closed = OversightOperations(forum).close_incident(incident_id, text)
        publication = forum.log.publish_or_warn()
    form = incident_form(closed, closing_text=text)
    output.print_result("forum.incident/1", form, [f"closed  {closed.id}"], as_json=as_json)
    if not as_json:
        output.print_publication(publication)


@incident.command("list", examples=("forum incident list", "forum incident list --json"))
@common_options.as_json
def list_(*, as_json: bool) -> None:
    """List every incident, the oldest first."""
    with common_options.open_forum() as forum:
        form = incidents_form(OversightOperations(forum).read_incidents())
    rows = [_incident_row(incident) for incident in form.incidents]
    table = output.format_table([_INCIDENT_HEADS, *rows]) if rows else []
    output.print_result("forum.incidents/1", form, table, as_json=as_json)
    if not rows and not as_json:
        common_options.echo_info("no incident was recorded; open one: forum incident open --help")


def _incident_row(form: IncidentForm) -> tuple[str, ...]:
    text = _one_line(form.text or "")
    short = text if len(text) <= _MAX_TEXT_CHARS else f"{text[: _MAX_TEXT_CHARS - 3]}..."
    state = "closed" if form.closed else "open"
    runs = str(len(form.runs)) if form.runs else "-"
    return form.id, form.severity.value, state, form.known[:16], runs, short
