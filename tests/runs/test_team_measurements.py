"""Models that gain nothing from a team, by measurement."""

import pytest

from forum.runs.policy import Agent, Chat, Policy, Scripted
from forum.runs.team_measurements import (
    TOO_SMALL,
    decline_team,
    explain_declined_team,
    find_measurement,
)

URL = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("name", TOO_SMALL)
def test_a_listed_model_has_figures_that_say_so(name: str) -> None:
    """Whoever is listed was measured, and gained nothing."""
    figures = TOO_SMALL[name]

    assert figures.difference <= 0
    assert figures.low <= figures.difference <= figures.high
    assert figures.requests > 0 < figures.tokens_ratio


@pytest.mark.parametrize("name", TOO_SMALL)
@pytest.mark.parametrize("form", ["{}", "{}-instruct", "hub/{}-Instruct-Q4"])
def test_it_declines_a_team_under_each_of_its_names(name: str, form: str) -> None:
    """And says why, with the figures."""
    model = form.format(name.upper())
    agents: dict[str, Agent] = {"": Scripted(), "capable": Chat(URL, model)}

    assert decline_team(Policy(agents=agents)) == (model,)
    text = explain_declined_team((model,))
    assert model in text
    assert f"{TOO_SMALL[name].difference:+.2f}" in text
    assert f"{TOO_SMALL[name].requests} requests" in text


@pytest.mark.parametrize("name", TOO_SMALL)
def test_no_other_model_declines(name: str) -> None:
    """Neither one whose name only begins alike, nor a team with one larger model."""
    assert find_measurement(f"{name}00") is None
    assert find_measurement("") is None
    agents: dict[str, Agent] = {"cheap": Chat(URL, name), "frontier": Chat(URL, "a-large-one")}
    assert decline_team(Policy(agents=agents)) == ()
    assert decline_team(Policy()) == ()
    assert not explain_declined_team(())
