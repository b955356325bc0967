"""What somebody who configures nothing may ask for: among what the operator has, and no more."""

from decimal import Decimal
from pathlib import Path

import pytest

from forum.app.planner import AgentRegistry, CallerAuthority
from forum.config import load_settings
from forum.engine import RunRequest
from forum.errors import BadPlan
from forum.runs.personas import Persona, build_briefing
from forum.surfaces import requests
from forum.surfaces.requests import (
    AskForm,
    BudgetAsk,
    PanelAsk,
    TaskAsk,
    council_from_form,
    run_request_from_form,
)
from forum.units import NANO_USD

PROJECT = """
[roster]
file = "roster.toml"
rung = "lexical"

[models.default]
kind = "scripted"

[tools.deploy]
cmd = "deploy --now"

[tools.lint]
cmd = "lint"
"""
ROSTER = """
[[lane]]
name = "code"
does = "Changes code."
tools = ["lint"]
terms = ["code"]

[[lane]]
name = "prose"
does = "Writes."
terms = ["write"]
"""


@pytest.fixture
def registry(tmp_path: Path) -> AgentRegistry:
    """Return those who work for a project with two tools, one of them for one lane."""
    (tmp_path / "forum.toml").write_text(PROJECT)
    (tmp_path / "roster.toml").write_text(ROSTER)
    return AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))


def decide(registry: AgentRegistry, form: AskForm) -> RunRequest:
    """Return what is carried out for a client."""
    return run_request_from_form(form, registry, CallerAuthority.CLIENT)


def plan(done_when: str, lane: str = "") -> AskForm:
    """Return the wish for one task."""
    return AskForm("Go.", (TaskAsk("a", "Go.", done_when, lane=lane),))


@pytest.mark.parametrize(
    "ask",
    [
        plan("command deploy"),
        plan("tests deploy", lane="code"),
        plan(f"file /etc/passwd sha256:{'0' * 64}", lane="code"),
        AskForm("Go.", (TaskAsk("outer", "Go.", tasks=(TaskAsk("a", "Go.", "command deploy"),)),)),
    ],
    ids=["without-a-lane", "of-another-lane", "a-file", "in-a-plan-within"],
)
def test_a_check_reaches_no_further_than_the_lane(registry: AgentRegistry, ask: AskForm) -> None:
    """A check has a tool used: by naming one, a client would have done what no agent may do."""
    with pytest.raises(BadPlan):
        decide(registry, ask)


def test_a_task_has_the_tools_of_its_lane_only(registry: AgentRegistry) -> None:
    """Tools that the operator gave to a lane are not everybody's because a client names none."""
    request = decide(registry, plan("command lint", lane="code"))
    asks = (plan("contains x"), AskForm("Go.", route=False), AskForm("Go."))
    bare = [decide(registry, ask) for ask in asks]

    assert request.plan is not None
    assert request.policy.tools_of(request.plan.tasks[0]) == ("lint",)
    assert [
        run_request.policy.tools_of(run_request.plan.tasks[0])
        for run_request in bare
        if run_request.plan
    ] == [(), (), ()]


def test_nobody_can_be_named_who_is_not_configured(registry: AgentRegistry) -> None:
    """An agent may be a program: whoever could name one would run it."""
    with pytest.raises(BadPlan):
        decide(registry, AskForm("Go.", (TaskAsk("a", "Go.", agent="./evil"),)))
    with pytest.raises(BadPlan):
        decide(registry, AskForm("Go.", lane="no-such-lane"))


def test_no_client_uses_more_than_the_operator_allows(tmp_path: Path) -> None:
    """Whoever can submit could otherwise spend without bound, by saying nothing of a budget."""
    (tmp_path / "forum.toml").write_text("[clients]\nusd = 0.25\nseconds = 60\ncalls = 10\n")
    registry = AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))
    silent, greedy, modest = (
        decide(registry, AskForm("Go.", budget=budget)).budget
        for budget in (
            BudgetAsk(),
            BudgetAsk(usd=Decimal(1), calls=100),
            BudgetAsk(usd=Decimal("0.1"), tokens=5),
        )
    )

    assert (silent.usd, silent.milliseconds, silent.calls) == (NANO_USD // 4, 60_000, 10)
    assert (greedy.usd, greedy.calls) == (NANO_USD // 4, 10)
    assert (modest.usd, modest.tokens, modest.calls) == (NANO_USD // 10, 5, 10)


def test_only_those_who_sit_are_briefed(
    registry: AgentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of names would hold up everybody else at a server for as long as that takes."""
    briefed: list[Persona] = []

    def noted(persona: Persona) -> str:
        briefed.append(persona)
        return build_briefing(persona)

    monkeypatch.setattr(requests, "build_briefing", noted)
    panel = PanelAsk(seats=2, personas=("critic",) * 100)
    tasks = tuple(TaskAsk(f"t{n}", "Go.", panel=panel) for n in range(3))
    decide(registry, AskForm("Go.", tasks))

    assert len(briefed) == 3 * 2


def test_money_is_exact_or_refused(registry: AgentRegistry) -> None:
    """A cap that was rounded is another cap."""
    ask = decide(
        registry, AskForm("Go.", budget=BudgetAsk(usd=Decimal("0.50"), seconds=Decimal("1.5")))
    )

    assert (ask.budget.usd, ask.budget.milliseconds) == (NANO_USD // 2, 1500)
    for wrong in ("0.0000000001", "-1", "NaN", "Infinity", "1e30"):
        with pytest.raises(BadPlan):
            decide(
                registry,
                AskForm("Go.", tasks=(TaskAsk("a", "Go.", budget=BudgetAsk(usd=Decimal(wrong))),)),
            )


def test_there_are_as_many_seats_as_models_whoever_asks() -> None:
    """What the command line takes for three seats is three seats by every other door."""
    asks = (
        PanelAsk(models=("ash", "birch", "cedar")),
        PanelAsk(models=("ash",)),
        PanelAsk(models=("ash", "birch", "cedar"), personas=("critic", "engineer")),
        PanelAsk(models=("ash", "birch", "cedar"), seats=7),
    )

    assert [len(council_from_form(ask).seats) for ask in asks] == [3, 5, 2, 7]
