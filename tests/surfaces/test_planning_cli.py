"""`forum lanes`, `forum plan` and `forum costs`: the same as over HTTP, and nothing is recorded."""

import json
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.kinds import Scope
from tests.surfaces.halls import showing
from tests.surfaces.terminal import Terminal
from tests.surfaces.test_one_decision import PROJECT, ROSTER, serving

REQUEST = "Change the code of the parser."


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user in a project with two lanes."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    (terminal.folder / "roster.toml").write_text(ROSTER)
    (terminal.folder / "forum.toml").write_text(PROJECT)
    return terminal


def test_lanes_and_plans_are_those_of_the_server(terminal: Terminal) -> None:
    """The command line shares the code of GET /roster and POST /plan; nothing is recorded."""
    settings = load_settings(terminal.folder, terminal.environment)
    told = {"lanes": terminal.ask("lanes"), "plan": terminal.ask("plan", REQUEST)}
    with Forum(settings) as forum, serving(forum) as client:
        key = showing(str(forum.access.grant("ci", {Scope.SUBMIT})))
        served = {
            "lanes": client.get("/api/v1/roster", headers=key).json(),
            "plan": client.post("/api/v1/plan", json={"request": REQUEST}, headers=key).json(),
        }
        assert forum.reads.recent_runs(None, 9) == []

    assert told["lanes"].pop("schema") == "forum.roster/1"
    assert told["plan"].pop("schema") == "forum.plan/1"
    assert told["lanes"] == served["lanes"]
    assert told["plan"] | {"cap": None} == served["plan"] | {"cap": None}
    assert told["plan"]["lane"] == "code"


def test_lanes_and_plans_read_as_text(terminal: Terminal) -> None:
    """A person sees what each lane is for, who would do what, and the limits."""
    lanes = terminal.call("lanes").stdout
    plan = terminal.call("plan", REQUEST, "--max-usd", "0.50", "--gate", "plan").stdout
    team = terminal.call("plan", REQUEST, "--team").stdout

    assert "Changes code." in lanes
    assert plan == (
        "lane      code\n"
        "task      answer in code, by the default agent\n"
        f"          {REQUEST}\n"
        "limits    $0.50\n"
        "approval  of plan\n"
    )
    assert "a team plans them when the run begins" in team
    assert terminal.call("plan", REQUEST, "--lane", "no-such").exit_code == 2


def test_costs_are_added_up(terminal: Terminal) -> None:
    """By an axis, with the total of all runs."""
    priced = ("--script", "script.json")
    (terminal.folder / "script.json").write_text(json.dumps({"kind": "scripted", "usd": "0.25"}))
    for _ in range(2):
        assert terminal.type("submit", REQUEST, *priced).returncode == 0
    form = terminal.ask("costs", "--by", "agent", "--since", "1d")

    assert form["schema"] == "forum.costs/1"
    assert (form["total"]["spent"]["usd"], form["total"]["runs"]) == ("0.50", 2)
    assert "total" in terminal.call("costs").stdout
    assert terminal.ask("costs", "--until", "1d")["total"]["runs"] == 0
    assert terminal.call("costs", "--since", "yesterday").exit_code == 2
