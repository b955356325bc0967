"""`forum runs`, `show`, `diff` and `bench`: reading what was done."""

import click

from forum.app import Forum, RunView, now
from forum.errors import NoSuchRun
from forum.surfaces.cli import FAILED, options
from forum.surfaces.cli.divergence import print_divergences
from forum.surfaces.cli.following import print_bytes
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.runview import screen, status, width
from forum.surfaces.cli.units import age, price
from forum.surfaces.forms.comparison import BenchForm, MeasureForm, diff_form, measure_form
from forum.surfaces.forms.runs import run_form, runs_form
from forum.surfaces.telling import SHORT, first_line, share_of_work
from forum.work import Run


@click.command(cls=options.WithExamples, examples=("forum runs", "forum runs --limit 5 --json"))
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many.",
)
@click.option("--before", metavar="RUN", help="Only runs that are older than this one.")
@click.option("--all", "every", is_flag=True, help="Also the runs within runs.")
@options.as_json
def runs(limit: int, before: str | None, *, every: bool, as_json: bool) -> None:
    """List runs, the newest first."""
    with options.forum() as forum:
        before = forum.run_of(before) if before else None
        found = forum.recent_runs(before, limit, within=every)
        requests = {run: forum.request_of(run) for run, _ in found}
    if as_json:
        print_json("forum.runs/1", runs_form(found, requests))
        return
    for line in _table(found, requests):
        click.echo(line)
    if not found:
        click.echo('no run yet; begin one: forum submit "..."', err=True)
    elif len(found) == limit:
        click.echo(f"older ones: forum runs --before {found[-1][0][:SHORT]}", err=True)


def _table(found: list[tuple[str, Run]], requests: dict[str, str | None]) -> list[str]:
    """Return the runs as a table that fits the screen: the request gets what room is left."""
    moment_now, rows = now(), [("run", "state", "tasks", "cost", "age", "request")]
    colors: list[str | None] = [None]
    for run, state in found:
        mark, word, color = status(state)
        colors.append(color)
        asked = requests[run]
        rows.append(
            (
                run[:SHORT],
                f"{mark} {word}",
                "/".join(map(str, share_of_work(state))),
                price(state.spent.usd),
                age(moment_now - state.begun),
                "(erased)" if asked is None else asked,
            )
        )
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)][:5]
    room = max(12, width() - sum(sizes) - 10)
    lines = []
    for row, color in zip(rows, colors, strict=True):
        cells = [f"{row[0]:<{sizes[0]}}", click.style(f"{row[1]:<{sizes[1]}}", fg=color)]
        cells += [f"{row[n]:>{sizes[n]}}" for n in (2, 3, 4)]
        lines.append("  ".join([*cells, first_line(row[5], room)]).rstrip())
    return [click.style(lines[0], dim=True), *lines[1:]] if found else []


@click.command(
    cls=options.WithExamples,
    examples=("forum show", "forum show 0199c0de-1234-7abc", "forum show 57 --until 57"),
)
@click.argument("run", required=False)
@click.option("--until", metavar="ENTRY", help="As it stood when this entry was the last.")
@click.option("--answer", is_flag=True, help="Print the answer alone, as it is.")
@click.option("--all", "every", is_flag=True, help="Show every task of a large plan.")
@options.as_json
def show(run: str | None, until: str | None, *, answer: bool, every: bool, as_json: bool) -> None:
    """Show a RUN on one screen: its tasks with state, agent, tokens, cost and time.

    RUN is its name, the beginning of it, or any entry of it; without one, the newest run.
    A task is drawn under the last one that it waits for; `(+ a)` names the others.
    """
    with options.forum() as forum:
        found = forum.run_of(run) if run else _newest(forum)
        view = forum.view(found, forum.ledger.find(until) if until else None)
    if view.state.accepted is None:
        raise NoSuchRun(f"{found} had no request at that time" if until else found)
    if as_json:
        print_json("forum.run/1", run_form(view))
    elif not answer:
        click.echo("\n".join(screen(view, every=every)))
        _print_hints(view)
    elif view.answer is None:
        raise click.ClickException("it has no answer, or that was erased")
    else:
        print_bytes(view.answer)


def _print_hints(view: RunView) -> None:
    last = max(view.entries.values(), default=None)
    if last is not None:
        past = f"forum show {view.run[:SHORT]} --until {last}"
        click.echo(f"\nlook closer: forum why {last}, {past}", err=True)


def _newest(forum: Forum) -> str:
    found = forum.recent_runs(None, 1)
    if not found:
        raise click.ClickException('there is no run yet; begin one: forum submit "..."')
    return found[0][0]


@click.command(cls=options.WithExamples, examples=("forum diff 0199c0de-1234 0199c0df-5678",))
@click.argument("a")
@click.argument("b")
@options.as_json
def diff(a: str, b: str, *, as_json: bool) -> None:
    """Show where two runs A and B part: the first step that they do not share.

    How long something took is no difference.  Exit status 0 if they say the same, 1 if not.
    """
    with options.forum() as forum:
        first, second = forum.run_of(a), forum.run_of(b)
        found = forum.diff(first, second)
        bodies = [
            forum.bodies_at(run, one.strand, one.step)
            for one in found[:1]
            for run in (first, second)
        ]
    if as_json:
        print_json("forum.diff/1", diff_form(first, second, found))
    elif not found:
        click.echo("the runs say the same")
    else:
        print_divergences(found, ("A", "B"), bodies)
    raise SystemExit(FAILED if found else 0)


@click.command(cls=options.WithExamples, examples=("forum bench 0199c0de-1234 0199c0df-5678",))
@click.argument("a")
@click.argument("b")
@options.as_json
def bench(a: str, b: str, *, as_json: bool) -> None:
    """Measure two runs A and B side by side: what they did, cost and took."""
    with options.forum() as forum:
        views = [forum.view(forum.run_of(one)) for one in (a, b)]
    measured = BenchForm(*map(measure_form, views))
    if as_json:
        print_json("forum.bench/1", measured)
        return
    for line in _side_by_side(measured.a, measured.b):
        click.echo(line)


def _side_by_side(a: MeasureForm, b: MeasureForm) -> list[str]:
    names = (
        "",
        "outcome",
        "tasks passed",
        "attempts",
        "calls",
        "lost",
        "tokens",
        "cost",
        "time",
        "slowest task",
    )
    rows = list(zip(names, _figures(a), _figures(b), strict=True))
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"{name:<{sizes[0]}}  {one:>{sizes[1]}}  {other:>{sizes[2]}}" for name, one, other in rows
    ]
    return [click.style(lines[0], dim=True), *lines[1:]]


def _figures(measured: MeasureForm) -> tuple[str, ...]:
    """Return a run as one column."""
    slowest = measured.slowest_task
    return (
        measured.run[:SHORT],
        measured.outcome,
        f"{measured.passed} of {measured.tasks}",
        f"{measured.attempts:,}",
        f"{measured.calls:,}",
        f"{measured.lost:,}",
        f"{measured.tokens:,}",
        f"${measured.usd}",
        f"{measured.seconds:.1f} s",
        f"{slowest} ({measured.slowest_seconds:.1f} s)" if slowest else "-",
    )
