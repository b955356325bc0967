"""Decisions: a Coordinator, or a plan, has a configured panel choose between options."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.council_end import Accord
from forum.runs.panel import COUNCIL_VERSION, Council, Seat, draft_decision
from forum.runs.plan import Task, read_plan, seat_decision_task
from forum.runs.policy import Policy, Role, Scripted, ScriptStep
from forum.runs.run_fold import TaskState
from tests.engine.office import Office, quick
from tests.engine.panel import Way, panel
from tests.engine.test_replay import play
from tests.spoken import ballot, claiming

REQUEST = """\
1. On which day does the shop move, Monday or Friday?
2. Announce the move: what is the text?"""
FRIDAY: tuple[Way, ...] = (
    (ballot("Friday"), ballot("Friday")),
    (ballot("Friday"), ballot("Friday")),
    (claiming("Monday", "fewer customers come"), ballot("Monday")),
)
SPLIT: tuple[Way, ...] = (
    (ballot("Friday"), ballot("Friday")),
    (ballot("Monday"), ballot("Monday")),
)


def planned(options: list[str]) -> str:
    """Return the plan of a Coordinator with a decision between these options."""
    decide: dict[str, Any] = {"id": "day", "instruction": "On which day does the shop move?"}
    announce = {"id": "announce", "instruction": "Announce the move.", "needs": ["day"]}
    tasks = [{**decide, "decide": options, "covers": [1]}, {**announce, "covers": [2]}]
    return json.dumps({"asks": ["the day of the move", "announce the move"], "tasks": tasks})


def order(ways: tuple[Way, ...], *replies: str, panels: bool = True) -> RunRequest:
    """Ask for what a Coordinator plans."""
    seated = panel(*ways, version=COUNCIL_VERSION)
    assert isinstance(seated.panel, Council)
    agents = {
        **seated.agents,
        "": Scripted({"announce": (ScriptStep("The shop moves on Friday."),)}),
        "lead": Scripted({"@coordinator": tuple(map(ScriptStep, replies))}),
    }
    named = {"board": seated.panel} if panels else {}
    policy: Policy = quick(agents=agents, panels=named, roles={Role.COORDINATOR: "lead"})
    return RunRequest(REQUEST, None, policy)


def asked(office: Office, call: int = 0) -> str:
    """Return what the Coordinator was asked in one of its calls."""
    calls = [e for e in office.entries() if (e.strand, e.kind) == ("role/coordinator", "call/1")]
    return office.body(calls[call], "prompt").decode()


def test_a_coordinator_plans_a_decision_that_a_panel_takes(office: Office, folder: Path) -> None:
    """Those that need it get the chosen option, and what was said against it."""
    run = office.do(order(FRIDAY, planned(["Monday", "Friday"])))
    (entry,) = [e for e in office.entries() if e.kind == "plan/1"]
    day = read_plan(office.body(entry, "plan")).by_id["day"]
    prompt = office.prompt("announce").decode()

    assert run.outcome is Outcome.OK
    assert isinstance(day.panel, Council)
    assert day.panel.options == ("Monday", "Friday")
    accord = run.task("day").accord
    assert accord is not None
    assert accord.accord is Accord.MAJORITY
    assert "Friday" in prompt
    assert "fewer customers come" in prompt
    assert "## Decisions" in asked(office)
    assert office.findings() == ()
    assert play(office, folder) == []


def test_a_decision_on_which_the_panel_is_split_is_none(office: Office) -> None:
    """Nothing is announced."""
    run = office.do(order(SPLIT, planned(["Monday", "Friday"])))

    assert run.outcome is Outcome.FAILED
    assert run.task("day").state is TaskState.FAILED
    assert run.task("announce").state is TaskState.SKIPPED
    assert office.findings() == ()


def test_a_coordinator_without_panels_is_offered_no_decision(office: Office) -> None:
    """And one that plans it all the same is told, and asked again."""
    plain = planned([])
    run = office.do(order(FRIDAY, planned(["Monday", "Friday"]), plain, panels=False))

    assert "Decisions" not in asked(office)
    assert "no panel is configured" in asked(office, 1)
    assert run.task("day").accord is None


@pytest.mark.parametrize("options", [["Friday"], ["Friday", "friday."]])
def test_a_decision_between_less_than_two_options_is_refused(
    office: Office, options: list[str]
) -> None:
    """The Coordinator is told what is wrong."""
    office.do(order(FRIDAY, planned(options), planned(["Monday", "Friday"])))

    assert "option" in asked(office, 1)


def test_a_decision_goes_to_no_panel_twice() -> None:
    """A ladder that begins with the panel of the task goes on above it."""
    panels = {name: Council((Seat(name),) * 2, rounds=0) for name in ("board", "elders")}
    agents = dict.fromkeys(("", *panels), Scripted())
    policy = quick(agents=agents, panels=panels, ladder=tuple(panels))
    draft = Task("pick", "Which?", panel=draft_decision(["yes", "no"]))
    rungs = {
        name: policy.rungs_of(
            seat_decision_task(msgspec.structs.replace(draft, agent=name), panels)
        )
        for name in panels
    }

    assert rungs == {"board": ("", "elders"), "elders": ("",)}
