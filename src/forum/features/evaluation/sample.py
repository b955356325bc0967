"""Evaluations of scripted agents, which answer, cost and take what is written, case by case."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from forum.app import Forum
from forum.engine import RouteDecision, RunRequest
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.player import EvalJob, EvalPlayer
from forum.runs import kinds
from forum.runs.plan import RunBudget
from forum.runs.policy import LaneBrief, Policy, Scripted, ScriptStep

_NANO_PER_CENT = 10_000_000
_CASES = (
    evaluation.EvalCase("Which river flows through Dresden?", "contains Elbe", lane="facts"),
    evaluation.EvalCase("Which river flows through Ulm?", "contains Danube", lane="facts"),
    evaluation.EvalCase(
        "How long is the Danube, in km?", "contains 2850\nmatches km", lane="facts"
    ),
    evaluation.EvalCase("Write an expression for the cube of x.", "matches x ?\\*\\*", lane="code"),
    evaluation.EvalCase("Write a test whether n is even.", "contains % 2", lane="code"),
    evaluation.EvalCase(
        "Give the first prime numbers as JSON.", 'json {"type":"array"}', lane="code"
    ),
)
"""Of two lanes."""
_ANSWERS = {
    "quick": (
        ("The Elbe.", 180, 210, 0.02),
        ("The Iller.", 210, 230, 0.02),
        ("About 2850.", 190, 260, 0.03),
        ("x ** 3", 240, 310, 0.03),
        ("n / 2 == 0", 260, 340, 0.04),
        ("2, 3, 5, 7", 200, 280, 0.03),
    ),
    "strong": (
        ("The Elbe.", 520, 640, 0.21),
        ("The Danube.", 610, 700, 0.24),
        ("2850 km.", 580, 690, 0.23),
        ("x ** 3", 840, 1100, 0.41),
        ("n % 2 == 0", 790, 1020, 0.37),
        ("[2, 3, 5, 7]", 700, 930, 0.33),
    ),
}
"""Of one agent that is cheap and one that is right, the answer to each case, with its
milliseconds, tokens and cents."""


def play_sample_evaluation(
    forum: Forum, tell: Callable[[str], None] = lambda _: None
) -> evaluation.EvalReport:
    """Play the sample cases with both sample agents. A worker of the ledger has to run.

    `tell` gets a line for each play.
    """
    agents = {
        name: tuple(
            ScriptStep(
                say=text,
                milliseconds=milliseconds,
                tokens=tokens,
                input_tokens=tokens * 2 // 3,
                usd=round(cents * _NANO_PER_CENT),
            )
            for text, milliseconds, tokens, cents in answers
        )
        for name, answers in _ANSWERS.items()
    }
    return play_evaluation(forum, _CASES, agents, RunBudget(usd=5 * _NANO_PER_CENT), tell=tell)


def play_evaluation(
    forum: Forum,
    cases: Sequence[evaluation.EvalCase],
    agents: Mapping[str, Sequence[ScriptStep]],
    budget: RunBudget = RunBudget(),  # noqa: B008  it is frozen
    tell: Callable[[str], None] = lambda _: None,
) -> evaluation.EvalReport:
    """Play each case with each agent, whose n-th step answers the n-th case."""
    jobs = [
        EvalJob(
            number,
            case,
            configuration=name,
            repeat=1,
            run_request=_request(case, steps[number - 1], budget),
        )
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
    return RunRequest(case.request, plan=None, policy=policy, budget=budget, route=route)
