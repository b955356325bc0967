"""Evaluations of scripted agents, which answer, cost and take what is written, case by case."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from forum.app import Forum
from forum.engine import RouteDecision, RunRequest
from forum.features.demo.sample_runs import CENT, SAMPLE_AGENTS, SAMPLE_CASES
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.player import EvalJob, EvalPlayer
from forum.runs import kinds
from forum.runs.plan import RunBudget
from forum.runs.policy import LaneBrief, Policy, Scripted, ScriptStep


def play_sample_evaluation(
    forum: Forum, tell: Callable[[str], None] = lambda _: None
) -> evaluation.EvalReport:
    """Play the sample cases with both sample agents. A worker of the ledger has to run.

    `tell` gets a line for each play.
    """
    budget = RunBudget(usd=5 * CENT)
    return play_evaluation(forum, SAMPLE_CASES, SAMPLE_AGENTS, budget, tell)


def play_evaluation(
    forum: Forum,
    cases: Sequence[evaluation.EvalCase],
    agents: Mapping[str, Sequence[ScriptStep]],
    budget: RunBudget = RunBudget(),  # noqa: B008  it is frozen
    tell: Callable[[str], None] = lambda _: None,
) -> evaluation.EvalReport:
    """Play each case with each agent, whose n-th step answers the n-th case."""
    jobs = [
        EvalJob(number, case, name, 1, _request(case, steps[number - 1], budget))
        for number, case in enumerate(cases, 1)
        for name, steps in agents.items()
    ]
    player = EvalPlayer(
        forum=forum,
        evaluation_facts=kinds.EvalOpenFacts(len(cases), 1, tuple(agents)),
        cases=b"".join(msgspec.json.encode(case) + b"\n" for case in cases),
        jobs=jobs,
        parallel=2,
        judge=None,
        tell=tell,
    )
    report, _ = player.play()
    return report


def _request(case: evaluation.EvalCase, step: ScriptStep, budget: RunBudget) -> RunRequest:
    agent = Scripted({"*": (step,)}, usd=step.usd or 0, tokens=step.tokens)
    if not case.lane:
        return RunRequest(case.request, None, Policy(agents={"": agent}), budget)
    route = RouteDecision(kinds.RouteFacts(case.lane, kinds.Basis.GIVEN))
    policy = Policy(agents={"": agent}, lanes={case.lane: LaneBrief()})
    return RunRequest(case.request, None, policy, budget, route)
