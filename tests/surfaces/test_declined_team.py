"""A team of a model that is too small for one is declined, on record, on every surface."""

import json
from pathlib import Path

import pytest

from forum.app import Forum
from forum.app.planner import CallerAuthority, Planner
from forum.config import load_settings
from forum.engine import RunRequest
from forum.engine.context import RunContext, read_run_input
from forum.runs.policy import Role
from forum.runs.team_measurements import TOO_SMALL
from tests.surfaces.halls import showing
from tests.surfaces.terminal import Terminal
from tests.surfaces.test_one_decision import REQUEST, Case, by_http, by_mcp, serving

SMALL = next(iter(TOO_SMALL))
PROJECT = '[models.capable]\nurl = "http://127.0.0.1:1/v1"\nmodel = "{}"\n'
TEAM = Case({"team": True}, {"team": True})


@pytest.mark.parametrize("model", [SMALL, "a-large-one"])
def test_a_team_is_declined_for_the_figures_of_its_model(tmp_path: Path, model: str) -> None:
    """The command says so, and the policy on record names the model; others get their team."""
    terminal, is_small = Terminal(tmp_path), model == SMALL
    (terminal.folder / "forum.toml").write_text(PROJECT.format(model))
    typed = terminal.call("submit", REQUEST, "--team", "--detach", "--json")
    settings = load_settings(terminal.folder, terminal.environment)

    assert typed.exit_code == 0, typed.output
    assert ("too small for a team, and answers alone" in typed.stderr) == is_small
    with Forum(settings) as forum, serving(forum) as client:
        operator = forum.access.operator_token()
        by_command = str(json.loads(typed.stdout)["run"])
        for run in (by_command, by_http(client, operator, TEAM), by_mcp(client, operator, TEAM)):
            accepted = read_run_input(forum.ledger, run)
            assert accepted.policy.declined_team == ((model,) if is_small else ())
            assert (Role.COORDINATOR in accepted.policy.roles) != is_small
            assert isinstance(accepted, RunContext) == is_small  # one task is planned already
            document = client.get(f"/api/v1/runs/{run}", headers=showing(operator)).json()
            assert document["declined_team"] == ([model] if is_small else [])
    shown = terminal.call("show", by_command)
    assert (f"no team: {model} gains nothing from one" in shown.stdout) == is_small


def test_what_measures_a_model_gets_its_team(tmp_path: Path) -> None:
    """The benchmark and the demo have a team work, whatever its figures say."""
    (tmp_path / "forum.toml").write_text(PROJECT.format(SMALL))
    settings = load_settings(tmp_path, {"HOME": str(tmp_path)})
    for any_model in (True, False):
        planner = Planner(settings, any_model=any_model)
        request = RunRequest(REQUEST, None, planner.base_policy)
        decided = planner.decide(request, CallerAuthority.OPERATOR, team=True)
        assert bool(decided.policy.declined_team) != any_model
        again = planner.decide(decided, CallerAuthority.OPERATOR, team=False)
        assert not again.policy.declined_team
