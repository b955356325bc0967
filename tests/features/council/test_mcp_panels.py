"""Panels over MCP: asked for by the SDK's own client, over pipes and HTTP."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forum.features.symposium.artifact import build_session_files, read_recorded_session
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.decoders import read_config
from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import KEY_CACHE_TTL_S
from forum.surfaces.mcp.results import UNTRUSTED_NOTICE
from tests.e2e.project import Project, eventually, project
from tests.features.symposium.own_examples import SCRIPT, write_examples
from tests.spoken import synthesis, turn, verdict
from tests.surfaces import panels
from tests.surfaces.panels import (
    COUNCIL,
    QUESTION,
    TOKENS,
    TURNS,
    personas,
)
from tests.surfaces.serving import Served, served
from tests.surfaces.talks import (
    ERAS,
    Connect,
    Talk,
    in_process,
    over_http,
    over_pipes,
    talk,
    text_of,
)

pytestmark = pytest.mark.slow

ANSWER = "Close it until it is tested."
SYMPOSIUM = {
    "~turn.1": turn("The rust is deep."),
    "~turn.2": turn("The tests are old."),
    "~turn.3": verdict("finalize"),
    "~turn.4": synthesis(ANSWER, "the rust"),
}
ASKING = {
    "~turn.1": turn("Whose bridge is it?"),
    "~turn.2": turn("There are two."),
    "~turn.3": verdict("request_user_input", user_input_request={"question": "Which bridge?"}),
}
ONE, TWO = {"personas": personas("Rust Expert")}, {"personas": personas("smith", "smith")}
COUNCIL_OF_THREE: dict[str, Any] = {"question": QUESTION, "seats": 3, "rounds": 1}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Make a project whose agents sit on councils, and make up one persona."""
    with project(tmp_path_factory.mktemp("here"), None, panels.project(COUNCIL, ONE)) as made:
        yield made


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve such a project."""
    settings = panels.project(COUNCIL, ONE)
    with served(tmp_path_factory.mktemp("there"), settings=settings) as made:
        yield made


@pytest.fixture(params=["pipes", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Return a way to a server."""
    if request.param == "pipes":
        return over_pipes(request.getfixturevalue("here"))
    there: Served = request.getfixturevalue("there")
    return over_http(there.url, there.project.forum.access.operator_token())


@pytest.mark.parametrize("era", ERAS)
def test_a_council_deliberates_and_tells_how_far_it_is(connect: Connect, era: str) -> None:
    """The answer comes with who dissents; `show` tells the same later."""

    async def asked(begun: Talk) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        members = await begun.well("deliberate", **COUNCIL_OF_THREE)
        told = list(begun.told)
        return members, await begun.well("show", run=members["run"]), told

    document, shown, told = talk(connect, asked, era)

    assert (document["outcome"], document["answer"], document["question"]) == ("ok", "yes", None)
    assert document["deliberation"] == shown["deliberation"]
    assert [one["argument"] for one in document["deliberation"]["minority"]] == ["it is old"]
    assert document["spent"]["tokens"] == TURNS * TOKENS
    steps = [step for step, _, _ in told]
    assert steps == sorted(set(steps))
    assert told[-1][0] >= TURNS
    words = "\n".join(message for _, _, message in told)
    assert f"{TURNS} turns taken" in words
    # Ballots are told round by round, each once, when they are no longer sealed.
    ballots = [line for line in words.splitlines() if line.startswith("seat ")]
    assert [line.split(" says")[0] for line in ballots] == [
        f"seat {seat}, round {number}" for number in (0, 1) for seat in (1, 2, 3)
    ]
    assert "it is old" in ballots[0]


def test_a_persona_is_made_up_by_a_recorded_run_and_can_be_seated(connect: Connect) -> None:
    """It has the form of the protocol, whatever the model has called it."""

    async def asked(begun: Talk) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        made = await begun.well("generate_persona", about=QUESTION)
        listed = await begun.well("list_personas")
        seats = [made["persona"], "critic", listed["personas"][0]]
        members = await begun.well("deliberate", **COUNCIL_OF_THREE, personas=seats)
        return made, listed, members

    made, listed, document = talk(connect, asked, "2026-07-28")

    assert (made["persona"]["id"], made["persona"]["persona_class"]) == ("rust-expert", "domain")
    assert made["persona"]["must_delegate"] == {"costs": "the treasurer"}
    assert (made["tasks"], made["passed"], made["spent"]["calls"]) == (1, 1, 1)
    assert [one["id"] for one in listed["personas"]][-1] == "coordinator"
    assert document["answer"] == "yes"


def test_who_may_not_read_runs_is_told_no_words_of_turns(here: Project) -> None:
    """Progress goes to everybody who submits; bodies are for those who may read."""

    async def asked(begun: Talk) -> list[Any]:
        await begun.call("deliberate", **COUNCIL_OF_THREE)
        return list(begun.told)

    told = talk(over_pipes(here, "--scope", "submit"), asked, "2026-07-28")

    assert told
    assert not any("says" in message for _, _, message in told)


def test_a_session_is_played_by_a_script_that_is_content(here: Project, tmp_path: Path) -> None:
    """By the names that the protocol has; each turn is told while it goes on."""
    script = json.loads((write_examples(tmp_path) / SCRIPT).read_bytes())
    for entry in script["entries"]:
        entry.get("match", {}).pop("agent_id", None)
    asked_for = {"problem": QUESTION, "personas": ["critic", "engineer"]}

    async def asked(begun: Talk) -> tuple[dict[str, Any], list[Any], list[str]]:
        members = await begun.well("deliberate", **asked_for, provider="fake", script=script)
        told = list(begun.told)
        refused = [
            await begun.badly("deliberate", **asked_for, provider="fake"),
            await begun.badly("deliberate", **asked_for, question=QUESTION),
            await begun.badly("deliberate", seats=3),
            await begun.badly("deliberate", **asked_for, provider="fake", fake_script_path="x"),
        ]
        return members, told, refused

    document, told, refused = talk(over_pipes(here), asked, "2026-07-28")

    form = document["deliberation"]
    assert (form["protocol"], form["messages"][0]["text"]) == ("symposium", QUESTION)
    assert [one["speaker"] for one in form["messages"]].count("critic") >= 1
    words = "\n".join(message for _, _, message in told)
    spoken = [one for one in form["messages"] if one["speaker"] in ("critic", "engineer")]
    assert spoken
    for one in spoken:
        assert words.count(f'{one["speaker"]} says: "{one["text"]}"') == 1
    for why, error in zip(
        ("pass its script as `script`", "say one of them", "`question` (or `problem`)", "unknown"),
        refused,
        strict=True,
    ):
        assert why in error


def test_a_question_goes_back_to_whoever_asks(tmp_path: Path) -> None:
    """No persona may answer it: the session ends, and says what it has to know."""
    with project(tmp_path, None, panels.project(ASKING, TWO)) as made:

        async def asked(begun: Talk) -> tuple[dict[str, Any], str, str, str]:
            result = await begun.call("deliberate_adaptive", question=QUESTION, seats=2)
            assert result.structured_content is not None
            jsonschema.validate(result.structured_content, begun.schemas["deliberate_adaptive"])
            words, quoted = (text_content.text for text_content in result.content)  # type: ignore[union-attr]
            later = await begun.call("status", run=result.structured_content["run"])
            return dict(result.structured_content), words, quoted, text_of(later)

        document, words, quoted, later = talk(over_pipes(made), asked, "2026-07-28")
        view = made.forum.reads.view_run(document["run"])

    assert document["question"] == quoted == "Which bridge?"
    assert "Put it to them" in words
    assert later == words
    assert words.endswith(UNTRUSTED_NOTICE)
    assert document["deliberation"]["reason"] == "user_input_required"
    assert (document["outcome"], document["status"]) == ("failed", 1)
    assert [one["id"] for one in document["personas"]] == ["smith", "smith"]
    assert len(view.state.tasks) == len(ASKING)


def test_a_panel_made_up_for_a_question_goes_on_under_its_key(tmp_path: Path) -> None:
    """Two runs, each made once: how often it is asked does not matter, and a worker may do them."""
    with project(tmp_path, None, panels.project(SYMPOSIUM, TWO, usd="0.01")) as made:

        async def asked(begun: Talk) -> list[dict[str, Any]]:
            ask: dict[str, Any] = {"question": QUESTION, "seats": 2, "budget_usd": 1}
            early = await begun.well("deliberate_adaptive", **ask, seconds=0.1)
            ask["key"] = early["key"]
            with made.worker():
                members = await begun.well("deliberate_adaptive", **ask, seconds=60)
            again = await begun.well("deliberate_adaptive", **ask, seconds=60)
            await begun.badly("deliberate_adaptive", **{**ask, "question": "Another one?"})
            return [early, members, again]

        early, document, again = talk(over_pipes(made, "--no-work"), asked, "legacy")
        runs = made.forum.reads.recent_runs(None, 10)
        view = made.forum.reads.view_run(document["run"])

    assert (early["outcome"], early["deliberation"]) == (None, None)
    assert (document["answer"], again["answer"]) == (ANSWER, ANSWER)
    assert [run for run, _ in runs] == [document["run"], early["run"]]
    assert document["deliberation"]["panel"] == ["smith", "smith-2"]
    assert view.state.accepted is not None
    assert view.state.accepted.cap.usd == 990_000_000  # the personas were paid from the same dollar
    assert view.session is not None
    artifact = build_session_files(read_recorded_session(view.session, view.notes), "1.0.0")[
        "artifact.json"
    ]
    assert check_artifact(artifact) == ()


def test_a_key_that_is_revoked_meanwhile_has_no_panel_sit(tmp_path: Path) -> None:
    """Making up personas takes its time: the run that follows is another one, and begins later."""
    with served(tmp_path, settings=panels.project(SYMPOSIUM, TWO), workers=0) as house:
        forum = house.project.forum
        key = forum.access.grant("guest", {Scope.SUBMIT})

        async def asked(begun: Talk) -> str:
            async with asyncio.TaskGroup() as both:
                ask = begun.badly("deliberate_adaptive", question=QUESTION, seats=2)
                refused = both.create_task(ask)
                await asyncio.to_thread(eventually, lambda: bool(forum.reads.recent_runs(None, 1)))
                forum.access.revoke(key.id)
                await asyncio.sleep(2 * KEY_CACHE_TTL_S)
                with house.project.worker():
                    return await refused

        words = talk(over_http(house.url, str(key)), asked, "2026-07-28")
        runs = forum.reads.recent_runs(None, 10)

    assert "revoked" in words
    assert len(runs) == 1


def test_what_is_not_said_has_the_defaults_of_the_protocol(tmp_path: Path) -> None:
    """A session from a question: 5 rounds, 1800 s, $5, 500,000 tokens, two retries."""
    with project(tmp_path, None, panels.project(SYMPOSIUM)) as made:

        async def asked(begun: Talk) -> dict[str, Any]:
            return await begun.well(
                "deliberate",
                question=QUESTION,
                protocol="symposium",
                personas=["critic", "engineer"],
                wait=False,
            )

        document = talk(in_process(made, Scope.SUBMIT), asked, "2026-07-28")
        policy = made.forum.reads.read_run_request(document["run"]).policy

    config = read_config(policy.panel.config)  # type: ignore[union-attr]
    caps = config.budget
    assert (caps.max_rounds, caps.max_wallclock_seconds) == (5, 1800)
    assert (caps.max_total_cost_usd, caps.max_total_tokens) == (5.0, 500_000)
    assert config.runtime.per_agent_retry_budget == 2
    assert [agent.model for agent in config.agents] == ["ann", "bob"]


def test_panels_that_cannot_sit_are_refused_with_what_to_do(here: Project, tmp_path: Path) -> None:
    """A model that is told what was wrong can put it right."""

    async def clumsily(begun: Talk) -> list[str]:
        return [
            await begun.badly("deliberate", question=QUESTION, personas=["plumber"]),
            await begun.badly("deliberate", question=QUESTION, models=["eve"]),
            await begun.badly("deliberate", question=QUESTION, protocol="symposium", judge="ann"),
            await begun.badly("deliberate_adaptive", question=QUESTION, seats=10),
            await begun.badly("generate_persona", about=QUESTION, model="eve"),
            await begun.badly("generate_persona", about=QUESTION, kind="funny"),
            # Personas for no question would be paid for before anybody could refuse it.
            await begun.badly("deliberate", question=" "),
            await begun.badly("deliberate_adaptive", question="\n", seconds=0),
            await begun.badly("generate_persona", about=" ", seconds=0),
            await begun.badly(
                "deliberate_adaptive", question=QUESTION, models=["ann", "eve"], seconds=0
            ),
        ]

    async def alone(begun: Talk) -> list[str]:
        return [
            await begun.badly("deliberate", question=QUESTION),
            await begun.badly("generate_persona", about=QUESTION),
        ]

    before = here.forum.reads.recent_runs(None, 1)
    words = talk(in_process(here, Scope.SUBMIT), clumsily, "2026-07-28")
    assert here.forum.reads.recent_runs(None, 1) == before
    with project(tmp_path, None) as nobody:
        words += talk(in_process(nobody, Scope.SUBMIT), alone, "2026-07-28")

    expected = ["known: logician", "eve", "panel.judge", "<= 9", "eve", "funny", *[r"\S"] * 3]
    expected += ["eve", "nobody can sit", "[models.NAME]"]
    for text, one in zip(words, expected, strict=True):
        assert one in text


def test_a_panel_stays_under_the_ceiling_of_the_operator(tmp_path: Path) -> None:
    """Also the two runs of one that is made up: together they have what the operator allows."""
    ceiling = "[clients]\ncalls = 2\n"
    with project(tmp_path, None, panels.project(SYMPOSIUM, COUNCIL, TWO, terms=ceiling)) as made:

        async def asked(begun: Talk) -> tuple[dict[str, Any], dict[str, Any], str]:
            council = await begun.well("deliberate", **COUNCIL_OF_THREE)
            words = text_of(await begun.call("status", run=council["run"]))
            ask = {"question": QUESTION, "seats": 2, "budget_usd": 99}
            return council, await begun.well("deliberate_adaptive", **ask), words

        council, symposium, words = talk(over_pipes(made), asked, "2026-07-28")

    assert (council["status"], council["spent"]["calls"]) == (5, 2)
    assert (symposium["status"], symposium["spent"]["calls"]) == (5, 1), "one was for the personas"
    assert "2 turns taken" in words, "who was stopped before being asked has taken none"
    assert council["deliberation"]["end"] == "stopped"
    assert symposium["deliberation"]["reason"] == "budget_exceeded"


def test_a_panel_deliberates_on_the_answer_of_a_run(here: Project) -> None:
    """Without a question it is asked whether the answer holds; only readers may have it asked."""

    async def asked(begun: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
        first = await begun.well("deliberate", **COUNCIL_OF_THREE)
        members = await begun.well("deliberate", seats=3, rounds=1, about=first["run"])
        return first, members

    async def asked_blindly(begun: Talk) -> str:
        return text_of(await begun.call("deliberate", seats=3, about=first["run"]))

    first, document = talk(over_pipes(here), asked, "2026-07-28")
    refused = talk(in_process(here, Scope.SUBMIT), asked_blindly, "2026-07-28")

    about = here.forum.reads.read_run(document["run"]).about
    assert about is not None
    assert about.run == first["run"]
    assert "requires the scope read" in refused
