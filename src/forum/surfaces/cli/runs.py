"""`forum runs`, `show`, `watch`, `diff` and `bench`: read and compare runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import click

from forum import app
from forum.app import formatting
from forum.errors import FeatureMissing
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.runs.report_kinds import Provenance
from forum.runs.run_record import RunRecord
from forum.runs.run_summary import RunSummary
from forum.surfaces.cli import EXIT_FAILED, common_options, output
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.diff_view import print_answers, print_divergences
from forum.surfaces.cli.run_follower import print_result_and_exit, watch_run
from forum.surfaces.cli.run_view import listed_status, render_run
from forum.surfaces.cli.transcript import message_lines, transcript_form, transcript_lines
from forum.surfaces.schemas import comparison
from forum.surfaces.schemas.runs import run_form, runs_form
from forum.units import format_age, format_duration, format_price

_MAX_MODEL = 16
_MAX_MESSAGES = 12


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Options that select runs."""

    states: tuple[str, ...] = ()
    since: int | None = None
    text: str | None = None
    lane: str | None = None

    def query(self, *, within: bool) -> app.RunQuery:
        """Return what the options select."""
        return app.RunQuery(
            labels=frozenset(self.states),
            since=self.since or 0,
            text=self.text or "",
            lane=self.lane or "",
            within=within,
        )


filter_options = common_options.collect_options(
    "runfilter",
    RunFilter,
    click.option(
        "--state",
        "states",
        multiple=True,
        metavar="WORD",
        type=click.Choice(formatting.RUN_LABELS),
        help=f"Only runs in this state; may be repeated: {', '.join(formatting.RUN_LABELS)}.",
    ),
    click.option(
        "--since",
        type=common_options.MOMENT,
        metavar="WHEN",
        help="Only runs begun since: 90m, 12h, 2d, 1w ago, or 2026-11-16, or 2026-11-16T08:00.",
    ),
    click.option(
        "--text",
        metavar="WORDS",
        help="Only runs whose request, prompts, replies or tool calls contain this text.",
    ),
    click.option("--lane", metavar="NAME", help="Only runs of this lane of the roster."),
)


@common_options.command(
    examples=(
        "forum runs",
        "forum runs --state failed --since 2d",
        'forum runs --text "checkout" --lane backend --json',
    ),
)
@filter_options
@common_options.limit_option(20, "Maximum number of runs.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
@click.option("--all", "every", is_flag=True, help="Also list runs that other runs have started.")
@common_options.as_json
def runs(
    limit: int, before: str | None, *, runfilter: RunFilter, every: bool, as_json: bool
) -> None:
    """List runs, the newest first."""
    query = runfilter.query(within=every)
    with common_options.open_forum() as forum:
        before = forum.reads.find_run(before) if before else None
        listed = forum.reads.list_runs(query, before, limit)
    page = listed.runs
    output.print_result("forum.runs/1", runs_form(page), _table(page), as_json=as_json)
    if any(run.is_altered for run in page):
        echo(
            "the database was altered for the runs marked with ?; run: forum ledger verify",
            err=True,
        )
    _print_unsearched(listed, limit)
    if as_json:
        return
    if not page and runfilter != RunFilter():
        echo("no run matches; all of them: forum runs", err=True)
    elif not page:
        echo('no run yet; begin one: forum submit "..."', err=True)
    # A full page: there may be older runs.
    elif len(page) == limit:
        echo(f"older ones: forum runs --before {formatting.short_id(page[-1].run)}", err=True)


def _print_unsearched(listed: app.RunPage, limit: int) -> None:
    """Say if a search has left something out, so that nobody takes a missing run for a proof."""
    if listed.unsearched:
        runs = formatting.pluralize(listed.unsearched, "run")
        why = "too large, or in an archive that cannot be reached"
        echo(f"not every text of {runs} was searched: {why}", err=True)
    if listed.next is not None and len(listed.runs) < limit:
        again = f"--before {formatting.short_id(listed.next)}"
        echo(f"older runs were not searched; search on with {again}", err=True)


def _table(page: Sequence[app.ListedRun]) -> list[str]:
    """Return the runs as a table; the request, or the title, gets the remaining width."""
    if not page:
        return []
    moment_now, width = app.now(), output.terminal_width()
    rows = [_COLUMNS, *(_cells(listed, moment_now) for listed in page)]
    has_models = any(listed.summary.models for listed in page)
    shown = [n for n, name in enumerate(_COLUMNS) if name != "model" or has_models]
    for column in _OPTIONAL_COLUMNS:
        place = _COLUMNS.index(column)
        if place in shown and width - _table_width(rows, shown) < _MIN_TEXT:
            shown.remove(place)
    numbers = [place for place, column in enumerate(shown) if _COLUMNS[column] in _NUMBERS]
    head, *table = output.format_table(
        [tuple(row[column] for column in shown) for row in rows], right=numbers
    )
    room = max(12, width - len(head) - 2)
    lines = [style(f"{head}  request", dim=True)]
    for listed, line in zip(page, table, strict=True):
        mark, word, color = listed_status(listed)
        text = listed.title or ("(erased)" if listed.request is None else listed.request)
        if _is_note(listed.summary):
            text = f"note by {text}"
        request = formatting.first_line(f"? {text}" if listed.is_altered else text, room)
        colored = line.replace(f"{mark} {word}", style(f"{mark} {word}", fg=color), 1)
        lines.append(f"{colored}  {request}".rstrip())
    return lines


_COLUMNS = ("run", "state", "known", "tasks", "model", "cost", "time", "age")
_NUMBERS = frozenset({"tasks", "cost", "time", "age"})
_OPTIONAL_COLUMNS = ("known", "tasks", "age", "model")
"""The columns that are left out of a narrow terminal, in this order; `--json` has them all."""
_MIN_TEXT = 30


def _table_width(rows: Sequence[tuple[str, ...]], shown: Sequence[int]) -> int:
    return sum(max(len(row[column]) for row in rows) + 2 for column in shown)


def _cells(listed: app.ListedRun, moment_now: int) -> tuple[str, ...]:
    mark, word, _ = listed_status(listed)
    summary = listed.summary
    is_driven = summary.provenance is Provenance.DRIVEN
    return (
        formatting.short_id(listed.run),
        f"{mark} {word}{f', {summary.refused} refused' if summary.refused else ''}",
        summary.provenance.value,
        f"{summary.passed}/{summary.tasks}" if is_driven else _count_reported(summary),
        _describe_models(summary),
        format_price(summary.spent.usd),
        format_duration((listed.ended or moment_now) - summary.begun),
        format_age(moment_now - summary.begun),
    )


def _describe_models(summary: RunSummary) -> str:
    """Return the model of a run; of several, the dearest one and how many others there are."""
    models = summary.models
    more = f" +{len(models) - 1}" if len(models) > 1 else ""
    return f"{formatting.first_line(models[0], _MAX_MODEL)}{more}" if models else "-"


def _count_reported(summary: RunSummary) -> str:
    """Return how much was recorded of a run that Forum does not drive."""
    if _is_note(summary):
        return formatting.pluralize(summary.notes, "note")
    return formatting.pluralize(summary.spans, "step")


def _is_note(summary: RunSummary) -> bool:
    """Return whether a run holds only notes, as `forum ledger note` records them."""
    is_reported = summary.provenance is not Provenance.DRIVEN
    return is_reported and bool(summary.notes) and not summary.spans


@common_options.command(
    examples=(
        "forum show",
        "forum show 0199c0de-1234-7abc --transcript",
        "forum show run.zip --transcript",
        "forum show 57 --until 57",
        "forum show 0199c0de-1234-7abc --html report.html",
    ),
)
@click.argument("run", required=False)
@click.option("--until", metavar="ENTRY", help="Show the run as of this entry.")
@click.option("--answer", is_flag=True, help="Print only the answer, unchanged.")
@click.option(
    "--transcript",
    is_flag=True,
    help="Print prompts, replies, tool calls and verdicts in their order.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the run and its evidence bundle to this page.",
)
@click.option("--all", "every", is_flag=True, help="Show every task of a large plan.")
@common_options.as_json
def show(  # noqa: PLR0913  each is an option
    run: str | None,
    until: str | None,
    html: Path | None,
    *,
    answer: bool,
    transcript: bool,
    every: bool,
    as_json: bool,
) -> None:
    """Show a RUN on one screen: its tasks or spans with state, agent, tokens, cost and time.

    RUN is its id, the beginning of it, or any entry of it; without one, the newest run.  It may
    also be an evidence bundle (a file); `forum verify` checks whether that is genuine.
    A task is drawn under the last one that it waits for; `(+ a)` names the others.  `known` says
    how Forum knows of the run, and what may be missing.
    """
    if transcript and (answer or until):
        raise click.UsageError("--transcript prints all of a run: leave out --answer and --until")
    if html is not None:
        _check_page(html, is_alone=not (transcript or answer or until or as_json))
    if run is not None and _is_file(run):
        if until:
            raise click.UsageError("--until is for runs of the ledger, not for a bundle")
        _show_bundle(Path(run), html, transcript, answer, every=every, as_json=as_json)
        return
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run) if run else newest_run(forum)
        if forum.reads.is_evaluation(run_id):
            again = f"forum eval --of {formatting.short_id(run_id)}"
            raise click.ClickException(f"{run_id} is an evaluation; print its report: {again}")
        if html is not None:
            bundle = forum.log.export(run_id)
            _write_page(html, forum.reads.read_run_record(run_id), f"{run_id}.zip", bundle)
            return
        view = forum.reads.view_run(run_id, forum.ledger.find_entry(until) if until else None)
        record = forum.reads.read_run_record(run_id) if transcript or _has_messages(view) else None
        _print_run(view, record if transcript else None, answer, every, as_json=as_json)
        if not (answer or transcript or as_json):
            _print_details(view, record)


def _show_bundle(
    path: Path,
    html: Path | None,
    transcript: bool,  # noqa: FBT001  the values of flags
    answer: bool,  # noqa: FBT001
    every: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    with app.open_bundle(path) as record:
        if html is not None:
            _write_page(html, record, path.name, path.read_bytes())
        else:
            view = app.view_record(record)
            _print_run(view, record if transcript else None, answer, every, as_json=as_json)
            if not (answer or transcript or as_json):
                _print_messages(record if _has_messages(view) else None)
    common_options.echo_info(
        "", f"not verified; to verify it: forum verify {path} --policy TRUSTFILE"
    )


def _check_page(html: Path, *, is_alone: bool) -> None:
    if not is_alone:
        others = "--transcript, --answer, --until and --json"
        raise click.UsageError(f"--html writes all of a run: leave out {others}")
    if not html.parent.is_dir():
        raise click.UsageError(f"--html {html}: there is no folder {html.parent}")


def _write_page(html: Path, record: RunRecord, name: str, bundle: bytes) -> None:
    """Write a run as a page.  It shows what the bundle holds, and nothing else."""
    render: Callable[..., str] | None = load_only_part(FEATURES, "run_page", None)
    if render is None:
        raise FeatureMissing("pages of runs", "pages")
    page = render(app.view_record(record), record, name, bundle)
    app.write_files(html.parent, {html.name: page.encode()})
    common_options.echo_info(f"written: {html}")


def _is_file(named: str) -> bool:
    """Return whether a bundle is meant; positions of entries may look like paths."""
    return named.endswith(".zip") or (bool({".", "/"} & set(named)) and Path(named).is_file())


def _print_run(
    view: app.RunView,
    record: RunRecord | None,
    answer: bool,  # noqa: FBT001  the values of flags
    every: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    if record is not None and as_json:
        output.print_json("forum.transcript/1", transcript_form(record, view))
    elif record is not None:
        for line in transcript_lines(record, view):
            echo(line)
    elif as_json:
        output.print_json("forum.run/1", run_form(view))
    elif not answer:
        echo(*render_run(view, every=every))
    elif (answered := formatting.answer_with_headline(view)) is None:
        raise click.ClickException("the run has no answer, or its answer was erased")
    else:
        output.print_bytes(answered)


def _has_messages(view: app.RunView) -> bool:
    """Return whether the messages of a run are printed: a plan shows more of a driven one."""
    return view.state.is_reported and view.until is None


def _print_details(view: app.RunView, record: RunRecord | None) -> None:
    """Print what follows the view of a run of the ledger."""
    _print_messages(record)
    _print_hints(view)


def _print_messages(record: RunRecord | None) -> None:
    """Print what was said to models and by them, one line for each message."""
    if record is None:
        return
    lines = message_lines(record, output.terminal_width(), _MAX_MESSAGES)
    for line in output.with_heading("messages", lines):
        echo(line)


def _print_hints(view: app.RunView) -> None:
    spans = [span.last for span in view.state.report.spans.values() if span.last]
    places = [view.places[leaf.hex()] for leaf in spans if leaf.hex() in view.places]
    last = max((*view.entries.values(), *places), default=None)
    if last is not None:
        past = f"forum show {formatting.short_id(view.run)} --until {last}"
        echo("", f"look closer: forum why {last}, {past}", err=True)


@common_options.command(examples=("forum watch", "forum watch 0199c0de-1234-7abc"))
@click.argument("run", required=False)
@common_options.as_json
def watch(run: str | None, *, as_json: bool) -> None:
    """Follow a RUN that another process carries out, until it has ended or waits for approval.

    Without a RUN, the newest one.  Ctrl-C ends only this command, not the run.  Its exit status is
    that of `forum submit`.
    """
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run) if run else newest_run(forum)
        state = forum.reads.read_run(run_id)
        if state.interrupted and state.outcome is None:
            # The tasks of an interrupted run keep their state, but no worker drives them: there is
            # nothing to watch.
            common_options.echo_error(formatting.explain_run_state(forum.reads.view_run(run_id)))
            print_result_and_exit(forum, run_id, as_json=as_json)
        watch_run(forum, run_id, as_json=as_json)


def newest_run(forum: app.Forum) -> str:
    """Return the run that was begun last.  Raises `ClickException` if there is none."""
    newest = forum.reads.recent_runs(None, 1)
    if not newest:
        raise click.ClickException('there is no run yet; begin one: forum submit "..."')
    return newest[0][0]


def _find_pair(forum: app.Forum, a: str, b: str | None) -> tuple[str, str]:
    """Return the runs that a user compares; the second one is the newest if it is not named."""
    return forum.reads.find_run(a), forum.reads.find_run(b) if b else newest_run(forum)


@common_options.command(
    examples=("forum diff 0199c0de-1234 0199c0df-5678", "forum diff 0199c0de-1234")
)
@click.argument("a")
@click.argument("b", required=False)
@common_options.as_json
def diff(a: str, b: str | None, *, as_json: bool) -> None:
    """Print the answers of two runs A and B, and the first step in which they differ.

    Without B, it is the newest run.
    Durations are not compared.  Spans are matched by operation, name and order, not by their ids.
     Exit status 0 if the runs are the same, 1 if not.
    """
    with common_options.open_forum() as forum:
        first, second = _find_pair(forum, a, b)
        divergences = forum.reads.diff_runs(first, second)
        views = forum.reads.view_run(first), forum.reads.view_run(second)
        answers = (views[0].answer, views[1].answer)
        provenances = (views[0].state.provenance, views[1].state.provenance)
        bodies = [
            forum.reads.bodies_at(run, divergence.strand, divergence.step)
            # Only the first difference is printed in full, so no other bodies are read.
            for divergence in divergences[:1]
            for run in (first, second)
        ]
    if as_json:
        form = comparison.diff_form(first, second, divergences, answers, provenances=provenances)
        output.print_json("forum.diff/1", form)
    elif not divergences:
        echo(f"the runs are the same (A {provenances[0]}, B {provenances[1]})")
    else:
        print_answers(("A", "B"), (first, second), answers)
        print_divergences(divergences, ("A", "B"), bodies)
        echo(f"A is {provenances[0]}, B is {provenances[1]}")
    raise SystemExit(EXIT_FAILED if divergences else 0)


@common_options.command(
    examples=("forum bench 0199c0de-1234 0199c0df-5678", "forum bench 0199c0de-1234")
)
@click.argument("a")
@click.argument("b", required=False)
@common_options.as_json
def bench(a: str, b: str | None, *, as_json: bool) -> None:
    """Print the figures of two runs A and B side by side, and what B has more or less than A.

    Without B, it is the newest run.  The runs within them count as well.
    """
    with common_options.open_forum() as forum:
        measured = comparison.bench_runs(forum.reads, *_find_pair(forum, a, b))
    head, *lines = output.format_table(_bench_rows(measured.a, measured.b), right=(1, 2, 3))
    text = [style(head, dim=True), *lines]
    output.print_result("forum.bench/1", measured, text, as_json=as_json)


def _bench_rows(
    a: comparison.MeasureForm, b: comparison.MeasureForm
) -> list[tuple[str, str, str, str]]:
    """Return one row for each figure: its name, both values, and the difference."""

    def count(name: str, first: int, second: int) -> tuple[str, str, str, str]:
        return _bench_row(name, first, second, "{:,}")

    def counts(
        name: str, first: Mapping[str, int], second: Mapping[str, int]
    ) -> list[tuple[str, str, str, str]]:
        each = dict.fromkeys((*first, *second))
        return [
            count(name, sum(first.values()), sum(second.values())),
            *(count(f"  {key}", first.get(key, 0), second.get(key, 0)) for key in each),
        ]

    ours, theirs = (
        {model.model or "(no model)": model.calls for model in side.record.models}
        for side in (a, b)
    )
    models = dict.fromkeys((*ours, *theirs))
    return [
        ("", formatting.short_id(a.run), formatting.short_id(b.run), "difference"),
        ("known", a.provenance.value, b.provenance.value, ""),
        ("outcome", a.outcome, b.outcome, ""),
        ("tasks passed", f"{a.passed} of {a.tasks}", f"{b.passed} of {b.tasks}", ""),
        count("spans", a.spans, b.spans),
        count("attempts", a.attempts, b.attempts),
        count("calls", a.calls, b.calls),
        *(count(f"  {model}", ours.get(model, 0), theirs.get(model, 0)) for model in models),
        count("lost", a.lost, b.lost),
        count("tokens", a.tokens, b.tokens),
        _bench_row("cost", Decimal(a.usd), Decimal(b.usd), "${}"),
        *counts("verdicts", a.record.verdicts, b.record.verdicts),
        *counts("checks", a.record.checks, b.record.checks),
        count("escalations", a.record.escalations, b.record.escalations),
        *counts("stops", a.record.stops, b.record.stops),
        count("entries", a.record.entries, b.record.entries),
        count("bytes of bodies", a.record.body_bytes, b.record.body_bytes),
        _bench_row("time", a.seconds, b.seconds, "{:.1f} s"),
        ("slowest task", _slowest(a), _slowest(b), ""),
    ]


NumberT = TypeVar("NumberT", int, float, Decimal)


def _bench_row(name: str, a: NumberT, b: NumberT, form: str) -> tuple[str, str, str, str]:
    more = abs(b - a)
    share = f" ({(b - a) / a:+.0%})" if a else ""
    difference = f"{'+' if b > a else '-'}{form.format(more)}{share}" if more else "="
    return name, form.format(a), form.format(b), difference


def _slowest(measured: comparison.MeasureForm) -> str:
    slowest = measured.slowest_task
    return f"{slowest} ({measured.slowest_seconds:.1f} s)" if slowest else "-"
