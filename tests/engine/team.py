"""A whole team of scripted agents: every role says what its script tells it to."""

import json
from typing import Any

from forum.engine import RunRequest
from forum.runs.plan import RunBudget
from forum.runs.policy import LaneBrief, Policy, Role, Scripted, ScriptStep, ToolSpec
from tests.engine.office import quick

REQUEST = "Compare the rivers Elbe and Danube, and say which is longer."
PLAN = {
    "tasks": [
        {"id": "elbe", "instruction": "How long is the Elbe?", "lane": "geography",
         "needs": [], "done_when": "a length is given"},
        {"id": "danube", "instruction": "How long is the Danube?", "lane": "geography",
         "needs": [], "done_when": "matches [0-9]+ km"},
    ]
}  # fmt: skip
PARTS = {
    "parts": [
        {"from": "danube", "text": "The Danube is longer, with 2850 km,"},
        {"from": "elbe", "text": "than the Elbe with 1094 km; these rivers were compared."},
    ]
}
YES = {"passed": True, "reason": ""}
NO = {"passed": False, "reason": "it does not say which is longer"}


def said(value: Any) -> ScriptStep:  # noqa: ANN401  what a role says
    """Return the move that says this in JSON."""
    return ScriptStep(json.dumps(value))


WORKER = Scripted({"elbe": (ScriptStep("1094 km"),), "danube": (ScriptStep("2850 km"),)}, usd=5)
JUDGE = Scripted({"elbe": (said(YES),), "@intent": (said(YES),)}, usd=2)
CHIEF = Scripted(
    {
        "@classifier": (said({"lane": "geography"}),),
        "@coordinator": (said(PLAN),),
        "@synthesizer": (said(PARTS),),
        "@reviser": (said({"text": "Danube."}),),
    },
    usd=3,
)
ROLES = {
    Role.CLASSIFIER: "chief",
    Role.COORDINATOR: "chief",
    Role.VALIDATOR: "judge",
    Role.SYNTHESIZER: "chief",
    Role.INTENT: "judge",
    Role.REVISER: "chief",
}
LANES = {
    "geography": LaneBrief("Knows places.", "Give lengths in km.", "worker"),
    "cooking": LaneBrief("Knows food.", "Be brief.", "worker"),
}


def team(**members: Any) -> Policy:  # noqa: ANN401
    """Return the policy of a whole team."""
    agents = {"": Scripted(), "worker": WORKER, "judge": JUDGE, "chief": CHIEF}
    usual = {"agents": agents, "lanes": LANES, "roles": ROLES, "retries": 1}
    return quick(**{**usual, **members})


def order(**members: Any) -> RunRequest:  # noqa: ANN401
    """Return a request that nobody has planned."""
    return RunRequest(REQUEST, None, team(**members), RunBudget(usd=10_000))


WHOLE = order(
    tools={"look": ToolSpec(("look",)), "outside": ToolSpec(("outside",))},
    context=("look",),
    verifiers=("outside",),
)
"""A request that goes all the way, with background before and a check from outside behind."""
