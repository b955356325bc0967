"""Those who work for a project: servers of tools are asked by one, and by nobody too often."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from forum.app import planner as module
from forum.app.planner import AgentRegistry, CallerAuthority
from forum.config import Settings, load_settings
from forum.engine import RunRequest
from forum.errors import ServerUnusable
from forum.runs.policy import Policy, Role
from forum.surfaces.requests import AskForm, PanelAsk, run_request_from_form
from tests.support import SOON

ASK = AskForm("Go.", route=False)


@pytest.fixture
def registry(tmp_path: Path) -> AgentRegistry:
    """Return those who work for a project with one model."""
    (tmp_path / "forum.toml").write_text('[models.default]\nkind = "scripted"\n')
    return AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))


def decide(registry: AgentRegistry, form: AskForm = ASK) -> RunRequest:
    """Return what is carried out for a client."""
    return run_request_from_form(form, registry, CallerAuthority.CLIENT)


class Clock:
    """Tells a time that only tests change."""

    seconds = 1000.0

    def __call__(self) -> float:
        """Tell it."""
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock by which is remembered what servers offer."""
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def ask_servers_by(
    monkeypatch: pytest.MonkeyPatch, pin: Callable[[Policy, Settings], Policy]
) -> None:
    """Have the servers asked in this way."""
    monkeypatch.setattr(module, "pin_tools", pin)


@pytest.mark.parametrize("roster", [None, "[[lane]"], ids=["missing", "broken"])
def test_a_roster_that_cannot_be_read_is_found_before_anybody_asks(
    tmp_path: Path, roster: str | None
) -> None:
    """A server that starts with it would answer every chat client that something went wrong."""
    (tmp_path / "forum.toml").write_text('[roster]\nfile = "own.toml"\n')
    if roster is not None:
        (tmp_path / "own.toml").write_text(roster)

    with pytest.raises(ValueError, match="this roster cannot be used"):
        AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))


def test_a_server_that_does_not_answer_is_left_alone_for_a_while(
    registry: AgentRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find that out takes half a minute: not each of those who wait may have to."""
    begun, gate = Event(), Event()
    asked = []

    def pin(policy: Policy, _settings: Settings) -> Policy:
        asked.append(policy)
        begun.set()
        gate.wait(SOON)
        raise ServerUnusable("files", "it does not answer")

    ask_servers_by(monkeypatch, pin)
    with ThreadPoolExecutor(8) as threads:
        orders = [threads.submit(decide, registry) for _ in range(8)]
        begun.wait(SOON)
        gate.set()
        errors = [future.exception(SOON) for future in orders]
    at_first = len(asked)
    clock.seconds += 10
    with pytest.raises(ServerUnusable):
        decide(registry)

    assert [type(error) for error in errors] == [ServerUnusable] * 8
    assert {str(error) for error in errors} == {str(ServerUnusable("files", "it does not answer"))}
    assert (at_first, len(asked)) == (1, 2)


def test_nobody_waits_for_what_was_offered_a_minute_ago(
    registry: AgentRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one asks the servers again, the others go by what they said the last time."""
    begun, gate = Event(), Event()
    gate.set()

    def pin(policy: Policy, _settings: Settings) -> Policy:
        begun.set()
        gate.wait(SOON)
        return policy

    ask_servers_by(monkeypatch, pin)
    before = decide(registry)
    clock.seconds += 100
    begun.clear()
    gate.clear()
    with ThreadPoolExecutor(2) as threads:
        asking = threads.submit(decide, registry)
        begun.wait(SOON)
        try:
            meanwhile = threads.submit(decide, registry).result(SOON / 3)
            waits = not asking.done()
        finally:
            gate.set()

    assert meanwhile.policy == before.policy == asking.result().policy
    assert waits


def test_a_panel_is_shown_all_of_a_long_question(tmp_path: Path) -> None:
    """A diff is soon longer than what is quoted of an output; its end may be what matters."""
    (tmp_path / "forum.toml").write_text('[models.ash]\nkind = "scripted"\n')
    registry = AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))
    question = "é" * 50_000

    request = decide(registry, AskForm(question, panel=PanelAsk()))

    assert request.policy.input_bytes == len(question.encode())


SLOW_AGENT = '[models.slow]\nkind = "pydantic-ai"\nmodel = "test:one"\n'
SHORT, LONG = "Draw the login flow.", "Draw the login flow. " * 10


@pytest.mark.parametrize(
    ("form", "settings", "is_inline"),
    [
        (AskForm(SHORT), "", True),
        (AskForm(LONG), "", False),
        (AskForm(LONG, lane="backend"), "", True),
        (AskForm(SHORT, team=True), "", False),
        (AskForm(SHORT), "[roles]\nteam = true\n", False),
        (AskForm(SHORT), SLOW_AGENT, False),
    ],
    ids=["short", "long", "lane given", "team", "team by default", "foreign code"],
)
def test_only_what_is_cheap_is_routed_on_an_event_loop(
    tmp_path: Path, form: AskForm, settings: str, *, is_inline: bool
) -> None:
    """All others wait for whoever is routed there."""
    text = f'{settings}[roster]\nrung = "lexical"\n\n[models.default]\nkind = "scripted"\n'
    (tmp_path / "forum.toml").write_text(text)
    registry = AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))

    assert not registry.can_route_inline(form.request, lane=form.lane, team=form.team)  # not loaded
    registry.warm_up()
    assert registry.can_route_inline(form.request, lane=form.lane, team=form.team) is is_inline


def test_a_router_with_a_second_stage_is_not_asked_on_an_event_loop(
    registry: AgentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls a model of sentences, which takes milliseconds for the shortest request."""
    registry.warm_up()
    monkeypatch.setattr(type(registry.router), "is_lexical", False)

    assert not registry.can_route_inline(SHORT)
    assert registry.can_route_inline(SHORT, lane="backend")


@pytest.mark.parametrize(("team", "is_planned"), [(None, True), (False, False)])
def test_a_coordinator_that_is_named_plans_without_a_team(
    tmp_path: Path, *, team: bool | None, is_planned: bool
) -> None:
    """One role is switched on by naming it; --solo leaves it out."""
    (tmp_path / "forum.toml").write_text(
        "[models.chief]\nmodel = 'm'\nurl = 'http://127.0.0.1:9/v1'\n"
        "[roles]\ncoordinator = 'chief'\n"
    )
    planner = AgentRegistry(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")}))
    request = RunRequest("Compare the rivers, and say which is longer.", None, planner.base_policy)
    decided = planner.decide(request, CallerAuthority.OPERATOR, team=team)

    assert (decided.plan is None) is is_planned
    assert set(decided.policy.roles) == {Role.COORDINATOR}
