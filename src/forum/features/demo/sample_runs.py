"""Runs for `forum demo --open`: what a dashboard shows, carried out by scripted agents.

The agents say fixed texts for fixed prices, so no account is needed; everything else is real.
"""

from dataclasses import replace
from typing import cast

import msgspec

from forum.engine import RouteDecision, RunRequest
from forum.features.demo.panel import build_run_request as build_council_request
from forum.runs.kinds import Basis, RouteFacts
from forum.runs.panel import COUNCIL_VERSION, Council
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Policy, Scripted, ScriptStep

CENT = 10_000_000
"""Nano-dollars."""
REPORT = "Write a two-page brief on flood protection along the upper Danube, with sources."
DRAFT = """# Flood protection along the upper Danube

Since 2002, 27 polders were planned between Ulm and Passau and 11 of them built. They hold 71
million cubic metres, a third of what the flood of June 2013 left in the fields.

1. Build the three polders that are approved: Bertoldsheim, Großmehring, Leipheim.
2. Pay farmers for fields that are flooded, by a fixed rate for each day.
3. Move the dikes back where nobody lives behind them: 14 km near Deggendorf.

Cost: 640 million euros over ten years, of which 210 million are in the budget.
"""


def build_sample_requests() -> dict[str, RunRequest]:
    """Return the requests by what they show.

    A council with a dissent, a run that its budget stops and the same with a higher cap, a run of
    one task, one that fails, and a plan of twelve tasks with a failed attempt and an escalation
    that waits at a gate.
    """
    return {
        "council": _council(),
        "budget": _customers("Twenty names, sorted by revenue.", 6),
        "paid": _customers("Nineteen names, sorted by revenue.", 20),
        "small": _single_task("Summarize the minutes of 3 March in five lines."),
        "failed": _failing(),
        "gate": _brief_with_gate(),
    }


def _say(text: str, milliseconds: int, tokens: int = 900, cents: float = 0.4) -> ScriptStep:
    return ScriptStep(
        say=text,
        milliseconds=milliseconds,
        tokens=tokens,
        input_tokens=tokens * 2 // 3,
        usd=round(cents * CENT),
    )


def _council() -> RunRequest:
    """Return the council of the demo by the rules of today, with an attack on what it rejects."""
    request = build_council_request()
    panel = cast(Council, request.policy.panel)
    fir = cast(Scripted, request.policy.agents["fir"])
    first, second = fir.moves
    ballot = {
        "answer": "5 cents",
        "confidence": 95,
        "attacks": [
            {"claim": name, "why": "Then the bat costs 90 cents more, not a dollar."}
            for name in ("c1", "c3")
        ],
        "decides": "adding up both prices",
    }
    move = msgspec.structs.replace(fir.moves[second][0], say=msgspec.json.encode(ballot).decode())
    fir = msgspec.structs.replace(fir, moves={first: fir.moves[first], second: (move,)})
    policy = msgspec.structs.replace(
        request.policy,
        agents=request.policy.agents | {"fir": fir},
        panel=msgspec.structs.replace(panel, version=COUNCIL_VERSION),
    )
    return replace(request, policy=policy)


def _brief_with_gate() -> RunRequest:
    """Return a plan of twelve tasks: a call fails, a result is escalated, and the last waits."""
    quick = Scripted(
        {
            "scope": (_say("Ulm to Passau, 1990 to today; water, money, people.", 300),),
            "floods": (_say("1999, 2002, 2005, 2013, 2024.", 700),),
            "polders": (
                ScriptStep(fail="overloaded", milliseconds=250, usd=CENT // 10),
                _say("27 planned, 11 built, 71 million m³.", 650),
            ),
            "dikes": (_say("410 km of dikes; 14 km can be moved back.", 500),),
            "costs": (_say("Rather expensive.", 350),),
            "law": (_say("Water Act §§ 76-78; the states decide.", 450),),
            "farmers": (_say("They ask for a fixed rate for each flooded day.", 400),),
            "sources": (_say("[1] LfU 2023  [2] BMUV 2022  [3] ICPDR 2021", 350),),
        },
        usd=CENT,
        tokens=2000,
    )
    strong = Scripted(
        {
            "costs": (
                _say("640 million euros over ten years, 210 of them funded.", 900, 2400, 1.9),
            ),
            "outline": (_say("Situation, options, recommendation, cost.", 400, 1200, 1.1),),
            "draft": (_say(DRAFT, 1300, 5200, 3.8),),
            "figures": (_say("All seven figures are in [1] or [2].", 600, 1800, 1.2),),
            "publish": (_say(DRAFT, 200, 300, 0.2),),
        },
        usd=4 * CENT,
        tokens=8000,
    )
    plan = Plan(
        (
            Task("scope", "Say what the brief covers."),
            Task("floods", "List the floods.", needs=("scope",)),
            Task("polders", "Count the polders.", needs=("scope",)),
            Task("dikes", "Measure the dikes.", needs=("scope",)),
            Task(
                "costs", "Say what it costs.", needs=("polders", "dikes"), done_when="contains 640"
            ),
            Task("law", "Name the law.", needs=("scope",)),
            Task("farmers", "Say what farmers ask for.", needs=("polders",)),
            Task("sources", "List the sources.", after=("floods", "polders", "dikes", "law")),
            Task("outline", "Outline.", needs=("costs", "law", "farmers"), agent="strong"),
            Task("draft", "Write.", needs=("outline", "floods", "sources"), agent="strong"),
            Task("figures", "Check each figure.", needs=("draft", "sources"), agent="strong"),
            Task("publish", "Publish.", needs=("draft",), after=("figures",), agent="strong"),
        )
    )
    policy = Policy(
        agents={"": quick, "strong": strong},
        ladder=("strong",),
        retries=1,
        backoff_milliseconds=100,
        gates=("task:publish",),
    )
    return RunRequest(REPORT, plan, policy, RunBudget(usd=50 * CENT))


def _customers(reply: str, cents: int) -> RunRequest:
    """Return a plan that costs about ten cents; a lower cap is reached before its end."""
    agent = Scripted({"*": (_say(reply, 300, 1500, 2.4),)}, usd=3 * CENT)
    names = ("find", "filter", "rank", "contact")
    tasks = tuple(
        Task(name, f"{name.capitalize()} customers.", needs=names[number - 1 : number])
        for number, name in enumerate(names)
    )
    policy = Policy(agents={"": agent})
    request = "Find twenty new customers in Austria."
    route = RouteDecision(RouteFacts("sales", Basis.GIVEN))
    return RunRequest(
        request, plan=Plan(tasks), policy=policy, budget=RunBudget(usd=cents * CENT), route=route
    )


def _single_task(request: str) -> RunRequest:
    agent = Scripted({"*": (_say("1. Budget approved.  2. Two seats open.", 300),)}, usd=CENT)
    return RunRequest(request, None, Policy(agents={"": agent}), RunBudget(usd=5 * CENT))


def _failing() -> RunRequest:
    agent = Scripted({"*": (ScriptStep(fail="model not found", milliseconds=80),)})
    policy = Policy(agents={"": agent}, retries=1, backoff_milliseconds=50)
    return RunRequest("Translate the contract into Polish.", None, policy)
