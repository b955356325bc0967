"""`forum lanes`, `forum plan` and `forum costs`: the same as over HTTP, and nothing is recorded."""

import json
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.engine import read_body
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Scope
from forum.ledger.ports import Position
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
    document = {"lanes": terminal.ask("lanes"), "plan": terminal.ask("plan", REQUEST)}
    with Forum(settings) as forum, serving(forum) as client:
        key = showing(str(forum.access.grant("ci", {Scope.SUBMIT})))
        served = {
            "lanes": client.get("/api/v1/roster", headers=key).json(),
            "plan": client.post("/api/v1/plan", json={"request": REQUEST}, headers=key).json(),
        }
        assert forum.reads.recent_runs(None, 9) == []

    assert document["lanes"].pop("schema") == "forum.roster/1"
    assert document["plan"].pop("schema") == "forum.plan/1"
    assert document["lanes"] == served["lanes"]
    assert document["plan"] | {"cap": None} == served["plan"] | {"cap": None}
    assert document["plan"]["lane"] == "code"


def test_lanes_and_plans_read_as_text(terminal: Terminal) -> None:
    """A person sees what each lane is for, who would do what, and the limits."""
    lanes = terminal.call("lanes").stdout
    plan = terminal.call("plan", REQUEST, "--max-usd", "0.50", "--gate", "plan").stdout
    wide = terminal.call("plan", f"Please: {REQUEST} " * 9).stdout
    team = terminal.call("plan", REQUEST, "--team").stdout

    assert "Changes code." in lanes
    assert plan == (
        "lane      code\n"
        "task      answer in code, by the default agent\n"
        f"          {REQUEST}\n"
        "judged    no; --team plans and judges\n"
        "limits    $0.50\n"
        "approval  of plan\n"
    )
    assert wide.count("\n") > plan.count("\n") - 1
    assert "\\n" not in wide
    assert "a team plans them when the run begins" in team
    assert terminal.call("plan", REQUEST, "--lane", "no-such").exit_code == 2


def test_routes_and_plans_are_recorded_if_asked_for(terminal: Terminal) -> None:
    """As a note in a run of its own, which verifies; a reader cannot have anything recorded."""
    settings = load_settings(terminal.folder, terminal.environment)
    runs = [terminal.ask(command, REQUEST, "--record")["recorded"] for command in ("route", "plan")]
    bodies = {"/api/v1/route": {"text": REQUEST}, "/api/v1/plan": {"request": REQUEST}}
    with Forum(settings) as forum, serving(forum) as client:
        writer, reader = (
            showing(str(forum.access.grant(scope.value, {scope})))
            for scope in (Scope.SUBMIT, Scope.READ)
        )
        for path, body in bodies.items():
            plain = client.post(path, json=body, headers=writer)
            kept = client.post(path, json={**body, "record": True}, headers=writer)
            refused = client.post(path, json={**body, "record": True}, headers=reader)
            assert plain.json() == kept.json() | {"recorded": None}
            assert (plain.status_code, refused.status_code) == (200, 422)
            runs.append(kept.json()["recorded"])
        texts = [
            json.loads(read_body(forum.ledger, Position(run, MAIN_STRAND, 1), "text"))
            for run in runs
        ]

    assert [text["schema"] for text in texts] == ["forum.route/1", "forum.plan/1"] * 2
    assert {text["request"] for text in texts} == {REQUEST}
    assert {text["reply"]["lane"] for text in texts} == {"code"}
    assert terminal.ask("ledger", "verify")["intact"]["state"] == "holds"
    listed = terminal.ask("runs")["runs"]
    assert {run["run"] for run in listed} == set(runs)
    assert {(run["tasks"], run["spent"]["calls"]) for run in listed} == {(0, 0)}


def test_submit_says_whether_it_planned_and_judged(terminal: Terminal) -> None:
    """In words and in JSON; whoever had one agent do it all is told what a team does."""
    (terminal.folder / "script.json").write_text(json.dumps({"kind": "scripted"}))
    done = terminal.type("submit", REQUEST, "--script", "script.json")
    form = terminal.ask("show")

    assert "one task, not judged; --team plans and judges" in done.stderr
    assert (form["planned"], form["judged"]) == (False, False)


_MODEL = '[models.capable]\nurl = "http://127.0.0.1:1/v1"\nmodel = "tiny"\n'


@pytest.mark.parametrize(
    ("settings", "options", "team"),
    [
        (_MODEL, (), False),
        (f'[submit]\nteam = "auto"\n{_MODEL}', (), True),
        (f'[submit]\nteam = "auto"\n{_MODEL}', ("--solo",), False),
        (f'[submit]\nteam = "never"\n{_MODEL}', (), False),
        ('[submit]\nteam = "auto"\n[models.capable]\ncmd = "cat"\n', (), False),
        ('[submit]\nteam = "auto"\n', (), False),
    ],
)
def test_a_team_is_the_default_where_that_is_set_and_a_model_is_configured(
    terminal: Terminal, settings: str, options: tuple[str, ...], *, team: bool
) -> None:
    """Without the setting nothing changes, and a program is not taken for a model."""
    (terminal.folder / "forum.toml").write_text(settings)
    form = terminal.ask("plan", REQUEST, *options)

    assert (form["team"], form["judged"]) == (team, team)


def test_a_wrong_choice_of_a_team_is_named(terminal: Terminal) -> None:
    """With the values that there are."""
    (terminal.folder / "forum.toml").write_text('[submit]\nteam = "always"\n')

    assert (
        "[submit] team: 'always' is unknown; write one of auto, never"
        in terminal.type("lanes").stderr
    )


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
