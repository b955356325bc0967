"""`forum eval`: play cases with several configurations, and compare quality, cost and time."""

from pathlib import Path

import click
import msgspec

from forum import app
from forum.app import Forum
from forum.app import planner as planning
from forum.app.formatting import pluralize
from forum.engine import RunRequest
from forum.errors import TamperDetected
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.page import render_page
from forum.features.evaluation.player import EvalJob, EvalJudge, EvalPlayer
from forum.features.evaluation.service import EvaluationOperations
from forum.features.evaluation.table import report_lines
from forum.ledger.ports import NO_LIMIT
from forum.runs import kinds, role_assignment
from forum.runs.plan import RunBudget
from forum.runs.policy import Agent, Policy, Role, models_of
from forum.runs.team_settings import DEFAULT_AGENT
from forum.surfaces.cli import EXIT_FAILED, common_options, output, submit_options
from forum.units import format_usd

_STOP_TIMEOUT_S = 60
"""How long to wait at the end for runs that were cancelled."""


@common_options.command(
    "eval",
    examples=(
        "forum eval cases.jsonl --agent cheap --agent capable --team",
        'forum eval cases.jsonl --agent mine="./agent --brief" --agent other=./other --repeat 3',
        "forum eval cases.jsonl --agent capable --team --max-usd 0.10 --html report.html",
        "forum eval --of 0199c0de-1234 --html report.html",
    ),
)
@click.argument("cases", required=False, type=common_options.FILE)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME[=CMD]",
    help="Play with this agent alone: one of forum.toml, or a program; may be repeated.",
)
@click.option("--team", is_flag=True, help="Play with the whole team, too.")
@click.option(
    "--repeat",
    type=common_options.POSITIVE,
    default=1,
    show_default=True,
    metavar="N",
    help="Number of times to play each case.",
)
@click.option(
    "--parallel",
    type=common_options.POSITIVE,
    default=1,
    show_default=True,
    metavar="N",
    help="Maximum number of runs at once; more than one makes times less comparable.",
)
@submit_options.limit_options
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this page."
)
@click.option("--of", "past", metavar="RUN", help="Print the report of a recorded evaluation.")
@common_options.as_json
def eval(  # noqa: A001, PLR0913  the name of the command; one parameter for each option
    cases: Path | None,
    *,
    agents: tuple[str, ...],
    repeat: int,
    parallel: int,
    limits: submit_options.LimitOptions,
    html: Path | None,
    past: str | None,
    team: bool,
    as_json: bool,
) -> None:
    """Play the CASES with each agent alone and with the team, and compare the answers.

    Each line of CASES is a JSON object with `request`; with `checks` (lines `contains TEXT`,
    `matches REGEX`, `json SCHEMA`) or a `reference` answer, or both; and if wanted with `lane`.
    Quality is the share of checks that pass, and how well the answer agrees with the reference:
    as a judge says, if forum.toml names one ([roles] validator), and else whether the answer
    contains it.

    Every play is a run with its scores, and the evaluation is a run, too: --of prints its report
    again, after computing it anew from the record.  Limits apply to each run.

    Exit status: 0 played, 1 some cases were not played or an agent answered none, 2 usage, 3 the
    recorded report does not follow from the record, 130 stopped by Ctrl-C.
    """
    if (cases is None) == (past is None):
        raise click.UsageError("name a file of CASES, or a recorded evaluation with --of RUN")
    if html is not None and not html.parent.is_dir():
        raise click.UsageError(f"--html {html}: there is no folder {html.parent}")
    if past is not None and (agents or team):
        raise click.UsageError("--of plays nothing: leave out --agent and --team")
    if cases is None:
        with common_options.open_forum() as forum:
            report = _read_recorded(forum, forum.reads.find_run(past or ""))
        _print_report(report, html, as_json=as_json)
        return
    setup = _EvalSetup(agents, limits.apply_limits(RunBudget()), team=team)
    report, stopped = _play_cases(setup, cases.read_bytes(), repeat, parallel)
    _print_report(report, html, as_json=as_json)
    if stopped is not None:
        raise SystemExit(128 + stopped)
    raise SystemExit(EXIT_FAILED if _is_incomplete(report) else 0)


def _play_cases(
    setup: "_EvalSetup", content: bytes, repeat: int, parallel: int
) -> tuple[evaluation.EvalReport, int | None]:
    """Play a case file, and return the report and the signal that stopped it, if any."""
    cases = submit_options.as_usage_error(lambda: evaluation.read_cases(content))
    jobs, judge = setup.make_jobs(cases, repeat), setup.pick_judge(cases)
    _announce(jobs, setup.budget, judge)
    with common_options.open_forum() as forum:
        common_options.announce_user_ledger(forum.settings)
        forum.keys.initialise()
        with forum.runs.run_worker(patience=_STOP_TIMEOUT_S):
            player = EvalPlayer(
                forum=forum,
                evaluation_facts=kinds.EvalOpenFacts(len(cases), repeat, setup.names),
                cases=content,
                jobs=jobs,
                parallel=parallel,
                judge=judge,
                tell=common_options.echo_info,
            )
            return player.play()


def _is_incomplete(report: evaluation.EvalReport) -> bool:
    """Return whether a case was not played, or a configuration never answered."""
    silent = any(c.figures.failed == c.figures.plays for c in report.configurations)
    return bool(report.unplayed) or silent or not report.configurations


def _read_recorded(forum: Forum, run: str) -> evaluation.EvalReport:
    """Return a recorded report, if it follows from the recorded plays. Raises `TamperDetected`."""
    recorded = EvaluationOperations(forum).read_report(run)
    if EvaluationOperations(forum).recompute_report(run) != recorded:
        raise TamperDetected(
            f"the report of evaluation {run}", "it does not follow from the recorded runs"
        )
    return recorded


def _print_report(report: evaluation.EvalReport, html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        app.write_files(html.parent, {html.name: render_page(report).encode()})
    output.print_result("forum.eval/1", report, report_lines(report), as_json=as_json)
    if html is not None:
        common_options.echo_info(f"written: {html}")


def _announce(jobs: list[EvalJob], budget: RunBudget, judge: EvalJudge | None) -> None:
    """Print how many runs will be played, and what they may cost at most."""
    judged = sum(bool(job.case.reference) for job in jobs) if judge else 0
    runs = pluralize(len(jobs), "run") + (f" and {judged} to judge them" if judged else "")
    if budget.usd == NO_LIMIT:
        cap = "without a cap in dollars; --max-usd limits each run"
    else:
        cap = f"at most ${format_usd(budget.usd * (len(jobs) + judged))} in all"
    common_options.echo_info(f"{runs}, {cap}")


class _EvalSetup:
    """The configurations of an evaluation: their agents and policies."""

    def __init__(self, agents: tuple[str, ...], budget: RunBudget, *, team: bool) -> None:
        self._settings = common_options.current_settings()
        self._planner = planning.Planner(self._settings)
        self.budget = budget
        team_settings = self._planner.team_settings
        programs = dict(
            submit_options.parse_named_agent(named_agent)
            for named_agent in agents
            if "=" in named_agent
        )
        self._agents: dict[str, Agent] = team_settings.agents | programs
        self._alone = {name: self._find(name) for name in (w.partition("=")[0] for w in agents)}
        names = (*self._alone, *((evaluation.TEAM,) if team else ()))
        if not 0 < len(names) <= evaluation.MAX_CONFIGURATIONS or len(set(names)) < len(names):
            most = evaluation.MAX_CONFIGURATIONS
            raise click.UsageError(
                f"name 1 to {most} configurations with --agent NAME and --team; "
                f"no agent may be called {evaluation.TEAM}"
            )
        if len(self._alone) < len(agents):
            raise click.UsageError("--agent: the same name twice")
        self.names = names

    def _find(self, name: str) -> Agent:
        agent = self._agents.get("" if name == DEFAULT_AGENT else name)
        if agent is None:
            listed = ", ".join(sorted(name or DEFAULT_AGENT for name in self._agents)) or "none"
            raise click.UsageError(
                f"--agent {name}: forum.toml has no such agent (it has: {listed}); "
                "for a program write NAME=PROGRAM"
            )
        return agent

    def make_jobs(self, cases: tuple[evaluation.EvalCase, ...], repeat: int) -> list[EvalJob]:
        """Return all plays, case by case: a change of the load in between hits all alike."""
        orders = {
            (number, name): self._decide(case, name)
            for number, case in enumerate(cases, 1)
            for name in self.names
        }
        for request in {name: run_request for (_, name), run_request in orders.items()}.values():
            submit_options.reject_unusable_agents(request.policy, request.plan, here=True)
        return [
            EvalJob(
                number, case, configuration=name, repeat=again, run_request=orders[number, name]
            )
            for again in range(1, repeat + 1)
            for number, case in enumerate(cases, 1)
            for name in self.names
        ]

    def _decide(self, case: evaluation.EvalCase, name: str) -> RunRequest:
        """Return what a configuration carries out for a case."""
        team_settings = self._planner.team_settings
        policy = Policy(tools=team_settings.tools, servers=team_settings.servers)
        team = name == evaluation.TEAM
        if team:
            if not self._agents:
                raise click.UsageError("--team: name agents in forum.toml, or with --agent")
            policy = msgspec.structs.replace(policy, agents=self._agents, roles=team_settings.roles)
        else:
            policy = msgspec.structs.replace(policy, agents={"": self._alone[name]})
        request = RunRequest(
            case.request, None, planning.pin_tools(policy, self._settings), self.budget
        )
        operator = planning.CallerAuthority.OPERATOR
        return submit_options.as_usage_error(
            lambda: self._planner.decide(request, operator, lane=case.lane, team=team)
        )

    def pick_judge(self, cases: tuple[evaluation.EvalCase, ...]) -> EvalJudge | None:
        """Return the judge that forum.toml names, if a case has a reference for it.

        All configurations have the same judge; otherwise their scores could not be compared.
        """
        name = self._planner.team_settings.roles.get(Role.VALIDATOR)
        if name is None or not any(case.reference for case in cases):
            return None
        agent = self._find(name or DEFAULT_AGENT)
        mine = [n for n, other in self._alone.items() if models_of(other) & models_of(agent)]
        if evaluation.TEAM in self.names:
            request = self._decide(cases[0], evaluation.TEAM)
            if not role_assignment.is_independent(request.policy, Role.VALIDATOR):
                mine.append(evaluation.TEAM)
        return EvalJudge(name, agent, self.budget, tuple(mine))
