"""`forum demo`: demonstrations of Forum on data that they create themselves."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from forum.app import Forum
from forum.app.formatting import explain_failure, first_line, short_id
from forum.features.dashboard.cli import choose_port, serve_and_work
from forum.installation import install_command
from forum.surfaces.cli import EXIT_FAILED, EXIT_REJECTED, common_options, output
from forum.surfaces.cli.console import echo, prompt, style
from forum.surfaces.cli.logging_options import log_to_stderr, log_warning
from forum.surfaces.cli.panel_lines import panel_lines
from forum.surfaces.cli.serve import port_option
from forum.surfaces.schemas.panels import deliberation_form
from forum.surfaces.schemas.runs import run_form
from forum.units import format_usd

if TYPE_CHECKING:
    from forum.features.demo.crash import CrashDemoResult
    from forum.features.demo.frauds import TamperResult
    from forum.features.demo.panel import PanelDemoResult
    from forum.features.demo.team import TeamDemoResult


class DemoInfo(NamedTuple):
    """The description of a demo."""

    shows: str
    takes: str
    needs: str


_DEMOS = {
    "cheat": DemoInfo(
        "tampers with a small ledger in every way we know, and reports what detects it", "2 s", ""
    ),
    "crash": DemoInfo(
        "kills the workers of a fleet twice, and checks that nothing is paid twice", "15 s", ""
    ),
    "panel": DemoInfo(
        "runs a panel whose first majority is wrong, and forges a ballot in two ways", "5 s", ""
    ),
    "team": DemoInfo(
        "runs a whole team with a real, very small model on this machine",
        "1 min",
        "the extra demo: {install}, and: forum models pull smollm2",
    ),
}
"""The demos, in the suggested order."""


@click.group(cls=common_options.FullHelpGroup, invoke_without_command=True)
@click.option(
    "--open",
    "open_browser",
    is_flag=True,
    help="Serve sample runs, and open the dashboard in your browser, until Ctrl-C.",
)
@port_option
@click.pass_context
def demo(ctx: click.Context, port: int, *, open_browser: bool) -> None:
    """See what Forum does, without an account.

    Without a name, the demos are listed; on a terminal you can choose one.  With --open, runs by
    scripted agents are carried out in a new ledger and shown in the dashboard; the ledger is
    deleted at the end.
    """
    if ctx.invoked_subcommand is not None:
        if open_browser:
            raise click.UsageError("--open takes no name of a demo: forum demo --open")
        return
    if open_browser:
        _serve_sample_runs(port)
        return
    echo(f"   {style('forum demo --open', bold=True)}")
    echo("   carries out sample runs, and shows them in the dashboard; takes about 10 s")
    for number, (name, offer) in enumerate(_DEMOS.items(), 1):
        echo(f"{number}  {style(f'forum demo {name}', bold=True)}")
        echo(f"   {offer.shows}")
        echo(f"   takes about {offer.takes}; needs {_needs_of(offer)}")
    if sys.stdin.isatty() and sys.stdout.isatty():
        _choose_demo(ctx)


def _needs_of(offer: DemoInfo) -> str:
    return offer.needs.format(install=install_command("demo")) or "nothing"


_keep_option = click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep what the demo writes in this new folder."
)
_tell = partial(echo, err=True)
_MAX_REQUEST_CHARS = 70


@contextmanager
def _demo_folder(keep: Path | None) -> Iterator[Path]:
    """Yield the folder for a demo: the one to keep, or one that is deleted at the end."""
    with TemporaryDirectory() as scratch:
        yield (keep or Path(scratch)).absolute()


def _serve_sample_runs(port: int) -> None:
    """Submit the sample runs to a new ledger, and do for it what `forum up --open` does."""
    echo("preparing sample runs by scripted agents, in a ledger of their own", err=True)
    port = choose_port(port)
    # While scripted agents pretend to think, so that nobody waits for it afterwards.
    Thread(target=import_module, args=("forum.surfaces.http.server_process",), daemon=True).start()
    from forum.features.demo.project import create_project
    from forum.features.demo.sample_runs import build_sample_requests
    from forum.features.evaluation.sample import play_sample_evaluation

    with (
        _demo_folder(None) as home,
        log_to_stderr("text"),
        Forum(create_project(home)[0], log_warning) as forum,
    ):
        forum.keys.initialise()
        with forum.runs.run_worker():
            play_sample_evaluation(forum, _tell_step)
        for name, request in build_sample_requests().items():
            forum.runs.submit(request)
            _tell_step(f"{name}: {first_line(request.request, _MAX_REQUEST_CHARS)}")
        _tell_step("starting the server and a worker")
        serve_and_work(
            forum,
            port,
            open_browser=True,
            prints_sign_in=common_options.is_terminal(sys.stderr),
            sign_in_again="For another one, start the demo again.",
        )


def _tell_step(line: str) -> None:
    echo(f"  {line}", err=True)


def _choose_demo(ctx: click.Context) -> None:
    """Ask which demo to run, and run it."""
    names = list(_DEMOS)
    numbers = click.Choice([*map(str, range(1, len(names) + 1)), "q"])
    chosen = prompt("Which one? (q for none)", type=numbers, default="1", show_choices=False)
    if chosen != "q":
        ctx.invoke(demo.commands[names[int(chosen) - 1]])


@demo.command()
@_keep_option
@common_options.as_json
def cheat(keep: Path | None, *, as_json: bool) -> None:
    """Tamper with a small ledger in every way we know, and report what detects it.

    With FORUM_DATABASE_URL set, the frauds are also committed on rows of Postgres.
    """
    from forum.features.demo.frauds import TAMPER_CASES, run_tampering_demo

    database = common_options.current_settings().database
    verdicts: list[tuple[str, TamperResult]] = []
    with _demo_folder(keep) as home:
        for kind, url in {"sqlite": None, "postgres": database}.items():
            if kind == "sqlite" or url:
                echo(f"committing {len(TAMPER_CASES)} frauds on {kind} ...", err=True)
                results = list(run_tampering_demo(home / kind, url))
                verdicts += [(kind, result) for result in results]
                if left_out := len(TAMPER_CASES) - len(results):
                    why = "this user may not make a database for them"
                    echo(f"{left_out} frauds were left out: {why}", err=True)
    rows = [
        {"name": v.fraud.name, "caught": v.caught, "by": v.by, "database": kind}
        for kind, v in verdicts
    ]
    output.print_result("forum.cheat/1", {"frauds": rows}, _fraud_lines(verdicts), as_json=as_json)
    raise SystemExit(0 if all(verdict.caught for _, verdict in verdicts) else EXIT_REJECTED)


@demo.command()
@_keep_option
@common_options.as_json
def crash(keep: Path | None, *, as_json: bool) -> None:
    """Kill the workers of a fleet twice, and check the ledger for repeated calls and payments.

    The fleet has two agents in an endless loop, a simulated payment and a cap of $0.50.  The demo
    kills its first worker with SIGKILL during a call, and the second one during the payment.
    """
    from forum.features.demo.crash import run_crash_demo

    with _demo_folder(keep) as home:
        tale = run_crash_demo(home, _tell)
    output.print_result(
        "forum.crash/1", _crash_json(tale), _crash_lines(tale, keep), as_json=as_json
    )
    raise SystemExit(0 if _is_expected(tale) else EXIT_FAILED)


@demo.command()
@_keep_option
@common_options.as_json
def panel(keep: Path | None, *, as_json: bool) -> None:
    """Run a panel whose first majority is wrong, and forge one of its ballots.

    Five scripted seats seal their ballots.  The minority is right.  One seat of the majority is
    convinced; one of the minority changes its answer without a reason, which does not count.  Then
    a ballot is changed in the database, and in another copy by the operator, who signs the log
    again.
    """
    from forum.features.demo.panel import run_panel_demo

    with _demo_folder(keep) as home:
        sitting = run_panel_demo(home, _tell)
    text = _panel_lines(sitting, keep)
    output.print_result("forum.panel/1", _panel_json(sitting), text, as_json=as_json)
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
            {"name": forgery.name, "does": forgery.does, "caught": forgery.caught, "by": forgery.by}
            for forgery in sitting.forgeries
        ],
        "seconds": round(sitting.seconds, 1),
    }


def _panel_lines(sitting: "PanelDemoResult", keep: Path | None) -> Iterator[str]:
    form, columns = deliberation_form(sitting.view), output.terminal_width()
    yield from panel_lines(form, columns) if form else ()
    answer = (sitting.view.answer or b"").decode(errors="replace")
    first = f"as {sitting.minority} of 5 seats had said at first"
    yield ""
    yield f"answer: {style(answer, bold=True)}, {first}"
    yield f"counted without asking for reasons it would have been: {sitting.plain_vote}"
    yield f"ledger verified: {'yes' if sitting.verified else 'NO'}"
    yield ""
    for forgery in sitting.forgeries:
        mark, color = ("✓", "green") if forgery.caught else ("✗", "red")
        by = f"{forgery.meaning}: {', '.join(forgery.by)}" if forgery.caught else "NOT NOTICED"
        yield f"{style(mark, fg=color)} {forgery.does}"
        for line in textwrap.wrap(by, columns - 4, break_on_hyphens=False):
            yield f"    {line}"
    if keep:
        run = short_id(sitting.view.run)
        yield f"look at it: cd {keep}/honest && FORUM_STATE_DIR=state forum show {run}"


@demo.command()
@click.argument("request", required=False)
@_keep_option
@common_options.as_json
def team(request: str | None, keep: Path | None, *, as_json: bool) -> None:
    """Run a whole team with a real, very small model on this machine, and verify the record.

    The request is routed, worked on, checked by code, mended if code finds a fault, and answered;
    every call is an entry.  The model is SmolLM2-135M, which is too small to make a plan: it shows
    that the steps from a request to an answer work, not how good answers are.  It needs the extra
    `demo`, and its weights: `forum models pull smollm2`.
    """
    from forum.features.demo.team import REQUEST, run_team_demo

    with _demo_folder(keep) as home:
        played = run_team_demo(home, request or REQUEST, _tell)
    reason = explain_failure(played.view)
    facts = {
        "run": played.run,
        "request": played.request,
        "lane": played.lane,
        "calls": msgspec.to_builtins(played.calls),
        "outcome": played.outcome,
        "reason": reason,
        "answer": played.answer,
        "verified": played.verified,
        "diverged": played.diverged,
        "seconds": played.seconds,
    }
    output.print_result("forum.team/1", facts, _team_lines(played, reason, keep), as_json=as_json)
    succeeded = not reason and played.verified and not played.diverged
    raise SystemExit(0 if succeeded else EXIT_FAILED)


def _team_lines(played: "TeamDemoResult", reason: str, keep: Path | None) -> Iterator[str]:
    yield from ("", played.request, f"-> lane: {played.lane or 'none'}", "")
    heads = ("for", "role", "tokens", "ms", "outcome")
    rows = [(c.task, c.role, str(c.tokens), str(c.milliseconds), c.outcome) for c in played.calls]
    yield from output.format_table([heads, *rows])
    yield from ("", f"answer ({played.outcome}):")
    for line in output.clean_lines(played.answer):
        yield from output.wrap_lines(line, output.terminal_width()) or [""]
    yield ""
    if reason:
        yield f"The model was not able to answer. {reason}"
    yield f"ledger verified: {'yes' if played.verified else 'NO'}"
    same = "says the same" if not played.diverged else f"differs in {played.diverged} places"
    yield f"replay from the record alone: {same}"
    if keep:
        yield f"look at it: cd {keep} && FORUM_STATE_DIR=state forum show {played.run}"


@demo.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def provider(command: tuple[str, ...]) -> None:
    """Run COMMAND with a stand-in for OpenAI on this machine as its provider.

    The stand-in answers by a script and costs nothing.  COMMAND finds it by OPENAI_BASE_URL.  The
    exit status is that of COMMAND.  Try it with:

    forum demo provider -- forum run --max-usd 0.02 -- forum demo agent
    """
    from forum.features.demo.provider import serve_provider

    with serve_provider() as url:
        try:
            # As with `env`, the user names the program.
            environment = os.environ | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "stand-in"}
            ended = subprocess.run(command, env=environment, check=False)  # noqa: S603
        except FileNotFoundError:
            raise click.UsageError(f"{command[0]}: no such program") from None
    raise SystemExit(ended.returncode)


@demo.command()
def agent() -> None:
    """Run a small agent whose model always asks for one more tool call.

    It ends after 50 calls, or with exit status 1 when its provider refuses one.  It calls only the
    stand-in of `forum demo provider`.
    """
    from forum.features.demo.agent import NotTheStandIn, ProviderRefusal, run_agent

    try:
        run_agent(os.environ.get("OPENAI_BASE_URL", ""), os.environ.get("OPENAI_API_KEY", ""), echo)
    except ProviderRefusal as refusal:
        echo(f"agent: the provider refused the call ({refusal.status}):")
        echo(*textwrap.wrap(str(refusal), 76, initial_indent="  ", subsequent_indent="  "))
        raise SystemExit(EXIT_FAILED) from None
    except NotTheStandIn:
        raise click.ClickException(
            "this agent calls only the stand-in provider, which costs nothing. Start both with: "
            "forum demo provider -- forum run --max-usd 0.02 -- forum demo agent"
        ) from None


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


def _crash_lines(tale: "CrashDemoResult", keep: Path | None) -> Iterator[str]:
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
    yield ""
    for name, value in lines:
        yield f"{name:<52}{value}"
    for subject in tale.indeterminate:
        yield ""
        yield f"Whether {subject} happened is unknown. It waits for your decision:"
        if keep:
            place = f"cd {keep} && FORUM_STATE_DIR=state "
            yield f"  {place}forum gate approve {tale.run} {subject}   # yes, it did"
            yield f"  {place}forum gate reject {tale.run} {subject}    # no, it did not"
        else:
            yield "  to make it, keep the ledger of the demo: forum demo crash --keep DIR"


def _fraud_lines(verdicts: "list[tuple[str, TamperResult]]") -> Iterator[str]:
    several = len({kind for kind, _ in verdicts}) > 1
    names = [f"{v.fraud.name} ({kind})" if several else v.fraud.name for kind, v in verdicts]
    first = max(map(len, names))
    second = max(len(verdict.fraud.does) for _, verdict in verdicts)
    room = max(20, output.terminal_width() - first - second - 6)
    heads = f"  {'fraud':<{first}}  {'what the attacker does':<{second}}  caught by"
    yield from ("", style(heads, dim=True))
    for name, (_, verdict) in zip(names, verdicts, strict=True):
        mark, color = ("✓", "green") if verdict.caught else ("✗", "red")
        evidence = textwrap.wrap(verdict.by, room, break_on_hyphens=False)
        head, *rest = evidence if verdict.caught else ["NOTHING", *evidence]
        line = f"{name:<{first}}  {verdict.fraud.does:<{second}}  {head}"
        yield f"{style(mark, fg=color)} {line}"
        for part in rest:
            yield f"{'':{first + second + 6}}{part}"
    caught = sum(verdict.caught for _, verdict in verdicts)
    yield from ("", f"{caught} of {len(verdicts)} frauds caught.")
