"""What a program passes wins over forum.toml: agents, tools, ladder, panels and roles."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import forum
from forum.app.planner import load_roster
from forum.errors import BadPlan, FunctionNameTaken
from forum.features.recorder.public import EngineSession
from forum.ledger.kinds import Outcome
from forum.runs.policy import ToolCall
from tests.models.provider import Provider, say, serving
from tests.spoken import synthesis, turn, verdict

FLEET = """
[models.cheap]
url = "{url}"
model = "tiny-1"
price = {{ input = 1, output = 1 }}

[models.capable]
url = "{url}"
model = "tiny-2"
price = {{ input = 1, output = 1 }}

[tools.pay]
cmd = "false"
"""
CODE = "Fix the bug in the function parse_date of this Python module and add a unit test."


@forum.agent
def own(prompt: str) -> str:
    """Answer."""
    return "mine"


@forum.agent
def voting(prompt: str) -> str:
    """Cast a ballot."""
    return '{"answer": "mine", "confidence": 0.9, "claims": [], "reason": "so"}'


@forum.tool
def stock(item: str = "") -> str:
    """Tell how many there are of an item."""
    return "12"


@contextmanager
def fleet(project: Path, *answers: str | ToolCall) -> Iterator[tuple[Provider, EngineSession]]:
    """Serve models that forum.toml names, and yield what they have seen, and an engine."""
    replies = [say("", a) if isinstance(a, ToolCall) else say(a) for a in answers]
    with serving(*replies) as provider:
        (project / "forum.toml").write_text(FLEET.format(url=provider.url))
        with forum.engine_of(project) as engine:
            yield provider, engine


@pytest.mark.parametrize(
    "options",
    [{}, {"route": True}, {"lane": "code"}, {"plan": [{"id": "a", "instruction": "Go."}]}],
    ids=["plain", "routed", "lane", "plan"],
)
def test_the_agents_of_a_program_work(project: Path, options: Any) -> None:  # noqa: ANN401
    """Models of forum.toml are not asked in the place of those that were passed, nor billed."""
    with fleet(project, "theirs") as (provider, engine):
        if "lane" in options:
            options = {"lane": load_roster().lanes[0].name}
        result = engine.submit(CODE, agents=[own], **options).wait(30)

    assert (result.answer, provider.seen) == ("mine", [])


def test_a_team_of_a_program_is_the_program(project: Path) -> None:
    """A team fills its roles with the agents that were passed."""
    with fleet(project, "theirs") as (provider, engine):
        engine.submit(CODE, agents=[own], team=True, calls=4).wait(30)

    assert provider.seen == []


def test_an_agent_of_forum_toml_works_where_the_plan_names_it(project: Path) -> None:
    """A plan may name both."""
    plan = {
        "tasks": [
            {"id": "a", "instruction": "Go.", "agent": "capable"},
            {"id": "b", "instruction": "Go on.", "needs": ["a"]},
        ]
    }
    with fleet(project, "theirs") as (provider, engine):
        result = engine.submit("Two", plan=plan, agents=[own]).wait(30)

    assert (result.outcome, len(provider.seen)) == (Outcome.OK, 1)


@pytest.mark.parametrize("request_text", ["How many lamps?", CODE], ids=["no lane", "lane"])
def test_the_tools_of_a_program_are_granted(project: Path, request_text: str) -> None:
    """The model is offered them, and only them: those of forum.toml belong to lanes."""
    with fleet(project, ToolCall("stock", '{"item": "lamps"}'), "There are 12.") as (
        provider,
        engine,
    ):
        result = engine.submit(request_text, tools=[stock]).wait(30)

    offered = [tool["function"]["name"] for tool in provider.seen[0].body["tools"]]
    assert offered == ["stock"]
    assert "12" in str(provider.seen[1].body["messages"])
    assert result.answer == "There are 12."


@forum.agent
def wrong(prompt: str) -> str:
    """Answer what is not accepted."""
    return "wrong"


@forum.agent
def strict(prompt: str) -> str:
    """Vote to reject, or judge so."""
    if "ballot" in prompt or "accept" in prompt:
        return '{"answer": "reject", "confidence": 0.9, "claims": [], "reason": "so"}'
    return "no"


JURY = """
[panels.jury]
seats = 2
models = ["capable"]

[roles]
validator = "jury"
intent = "jury"
"""
DEMANDING = [{"id": "a", "instruction": "Go.", "done_when": "contains mine"}]


def test_the_ladder_and_the_panels_of_a_program_are_used(project: Path) -> None:
    """An agent alone is not accepted, so the program's panel decides, of the program's agents."""
    agents = [wrong, voting]
    with fleet(project, "theirs") as (provider, engine):
        result = engine.submit(
            "x",
            plan=DEMANDING,
            agents=agents,
            ladder=["wrong", "board"],
            panels={"board": {"seats": 2, "models": ["voting"]}},
        ).wait(60)

    assert (result.outcome, result.tasks["a"].output, provider.seen) == (Outcome.OK, "mine", [])
    assert result.tasks["a"].council is not None


def test_a_program_replaces_the_panel_and_the_roles_of_forum_toml(project: Path) -> None:
    """The panel of the same name has other seats, and one role is left out."""
    panels: dict[str, Any] = {"jury": {"seats": 2, "models": ["strict"]}}
    judged = [{"id": "a", "instruction": "Go.", "done_when": "It is mine."}]
    with fleet(project, "theirs") as (provider, _):
        (project / "forum.toml").write_text(FLEET.format(url=provider.url) + JURY)
        with forum.engine_of(project) as engine:
            options: Any = {"plan": judged, "agents": [own, strict]}
            replaced = engine.submit("x", panels=panels, roles={"intent": False}, **options).wait(
                60
            )
            left_out = engine.submit(
                "x", roles={"intent": False, "validator": False}, **options
            ).wait(60)

    (verdict,) = replaced.tasks["a"].verdicts[:1]
    assert (verdict.passed, verdict.judge, provider.seen) == (False, "jury", [])
    assert replaced.intent is None
    assert (left_out.outcome, left_out.answer) == (Outcome.OK, "mine")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ladder": "board"}, "ladder: this is no list of texts"),
        ({"ladder": ["nobody"]}, "no agent is called 'nobody'"),
        ({"panels": {"board": {"seat": 3}}}, "panels.board: there is no member 'seat'"),
        ({"roles": {"valuator": "own"}}, "roles: there is no member 'valuator'"),
        ({"roles": {"validator": 3}}, "roles.validator: "),
        ({"roles": {"validator": "nobody"}}, "no agent is called 'nobody'"),
    ],
)
def test_wrong_ladders_panels_and_roles_say_where(
    project: Path,
    options: Any,  # noqa: ANN401
    why: str,
) -> None:
    """Before anything is recorded."""
    with forum.engine_of(project) as engine, pytest.raises(BadPlan, match=re.escape(why)):
        engine.submit("x", agents=[own], **options)


@forum.agent
def speaking(prompt: str) -> str:
    """Take the turn of a symposium that is asked for."""
    if "integrated_answer" in prompt:
        return synthesis("Go.")
    return verdict("finalize") if "next_action" in prompt else turn("It is tested.")


PLANS: dict[str, object] = {
    "dictionary": {"tasks": [{"id": "a", "instruction": "Go."}]},
    "list of dictionaries": [{"id": "a", "instruction": "Go."}],
    "tasks": [forum.Task("a", "Go.")],
    "plan": forum.Plan((forum.Task("a", "Go."),)),
    "inner plan with a budget": [
        {
            "id": "a",
            "instruction": "Go.",
            "tasks": [{"id": "b", "instruction": "Go."}],
            "budget": {"usd": 0.5, "seconds": 20},
        }
    ],
    "panel": [
        {"id": "a", "instruction": "Go?", "panel": {"seats": 3, "options": ["mine", "yours"]}}
    ],
    "symposium": [
        {
            "id": "a",
            "instruction": "Go?",
            "panel": {"protocol": "symposium", "personas": ["critic"], "require": "agreement"},
        }
    ],
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_is_written_as_the_program_likes(project: Path, plan: Any) -> None:  # noqa: ANN401
    """All forms are carried out, with the same members as in a plan file."""
    with forum.engine_of(project) as engine:
        agent = speaking if "symposium" in str(plan) else voting if "panel" in str(plan) else own
        run = engine.submit("Two", plan=plan, agents=[agent])
        assert run.wait(30).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"task": []}, "did you mean tasks"),
        ([{"id": "a", "instruction": "x", "need": ["b"]}], r"tasks\[0\].*did you mean needs"),
        ([{"id": "a"}], r"tasks\[0\].*instruction"),
        ([7], r"tasks\[0\]"),
        ("x", "no list"),
        ([{"id": "a", "instruction": "x", "budget": {"dollars": 1}}], r"tasks\[0\].budget"),
        ([{"id": "a", "instruction": "x", "panel": {"seat": 1}}], "did you mean seats"),
        ([{"id": "a", "instruction": "x", "tasks": "y"}], r"tasks\[0\].tasks"),
    ],
)
def test_a_wrong_plan_says_where(project: Path, plan: Any, why: str) -> None:  # noqa: ANN401
    """A mistake is found before anything is submitted, and named."""
    with forum.engine_of(project) as engine, pytest.raises(BadPlan, match=why):
        engine.submit("x", plan=plan, agents=[own])


def test_a_misspelled_option_is_refused(project: Path) -> None:
    """A misspelled limit must not become no limit."""
    with forum.engine_of(project) as engine:
        with pytest.raises(TypeError, match="did you mean agents"):
            engine.submit("x", agent=[own])  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="did you mean seats"):
            engine.deliberate("x", seat=3)  # type: ignore[call-arg]
        with pytest.raises(BadPlan, match="usd"):
            engine.submit("x", agents=[own], usd="a lot")


def parrot(word: str, name: str = "") -> Any:  # noqa: ANN401  a function with a prompt
    """Return an agent that says one word."""

    @forum.agent(name=name)
    def parroting(prompt: str) -> str:
        return word

    return parroting


@pytest.mark.parametrize("decorate", [forum.agent, forum.tool])
def test_a_name_is_that_of_one_function(decorate: Any) -> None:  # noqa: ANN401
    """The second function of a name is refused when it is decorated; its own copy is not."""

    def first(prompt: str) -> str:
        return prompt

    def second(prompt: str) -> str:
        return prompt

    name = f"named-{decorate.__name__}"
    decorate(name=name)(first)
    with pytest.raises(FunctionNameTaken, match=r"locals>\.first .*locals>\.second .*name="):
        decorate(name=name)(second)
    assert decorate(name=name)(first) is first  # as where a module is loaded again


def test_functions_that_one_function_makes_are_told_apart(project: Path) -> None:
    """Of two with one name, the one that was replaced is refused, and never the other called."""
    with forum.engine_of(project) as engine:
        first, second = parrot("one"), parrot("two")
        assert engine.submit("x", agents=[second]).wait(30).answer == "two"
        both = r"parroting .*parroting .*name="
        with pytest.raises(FunctionNameTaken, match=both):
            engine.submit("x", agents=[first])
        with pytest.raises(FunctionNameTaken, match=both):
            engine.deliberate("x", agents=[first, second])
        named = [parrot("one", "first-parrot"), parrot("two", "second-parrot")]
        assert engine.submit("x", agents=named).wait(30).answer == "one"
