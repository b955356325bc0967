"""The official client of OpenAI has a panel deliberate, which to it is a model like others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.spoken import turn, verdict
from tests.surfaces.halls import hall, open_forum
from tests.surfaces.panels import (
    COUNCIL,
    MUTE,
    QUESTION,
    TOKENS,
    TURNS,
    project,
)
from tests.surfaces.serving import Served, served

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
THREE: dict[str, Any] = {"forum": {"panel": {"seats": 3, "rounds": 1, "options": ["yes", "no"]}}}
ASKING = {
    "~turn.1": turn("Whose bridge is it?"),
    "~turn.2": verdict("request_user_input", user_input_request={"question": "Which bridge?"}),
}
ROSTER = """\
[[lane]]
name = "panel"
does = "Paints panels."
instructions = "Paint."
terms = ["paint"]

[[lane]]
name = "rivers"
does = "Knows rivers."
instructions = "Give lengths in km."
terms = ["river"]
"""


@pytest.fixture(scope="module")
def openai_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a project with two agents, and a lane that is called like the panel."""
    home = tmp_path_factory.mktemp("panel")
    (home / "roster.toml").write_text(ROSTER)
    settings = project(COUNCIL, ASKING, terms='[roster]\nfile = "roster.toml"\n')
    with served(home, settings=settings) as openai_server:
        yield openai_server


@pytest.fixture(scope="module")
def client(openai_server: Served) -> Iterator[OpenAI]:
    """Return a client as people make it."""
    key = str(openai_server.project.forum.access.grant("tester", (Scope.SUBMIT, Scope.READ)))
    with OpenAI(base_url=f"{openai_server.url}/v1", api_key=key) as client:
        yield client


def dissent(forum: Any) -> list[str]:  # noqa: ANN401  what only we know of an answer
    """Return what the minority says, as an answer tells it."""
    return [one["argument"] for one in forum["deliberation"]["minority"]]


def test_a_panel_is_a_model_where_somebody_can_sit_on_it(client: OpenAI, tmp_path: Path) -> None:
    """A lane of that name is still there, by its longer name."""
    names = [model.id for model in client.models.list()]
    with (
        open_forum(tmp_path, "") as forum,
        hall(ServerConfig([Tenant(forum)]), operator=True) as nobody,
    ):
        listed = [one["id"] for one in nobody.get("/v1/models").json()["data"]]
        alone = nobody.get("/v1/models/panel")
        chat = nobody.post("/v1/chat/completions", json={"model": "panel", "messages": ASKED})

    assert names == ["forum", "team", "replay", "panel", "lane/panel", "rivers"]
    assert client.models.retrieve("lane/panel").model_extra == {"description": "Paints panels."}
    assert "panel" not in listed
    assert alone.status_code == 404
    assert "nobody can sit on the panel" in chat.json()["error"]["message"]


def test_a_chat_is_answered_by_a_panel(openai_server: Served, client: OpenAI) -> None:
    """The text is the answer, and nothing but the answer: who dissents stands beside it."""
    answer = client.chat.completions.create(model="panel", messages=ASKED, extra_body=THREE)

    extra = answer.model_extra or {}
    assert answer.choices[0].message.content == "yes"
    assert answer.usage is not None
    assert answer.usage.total_tokens == TURNS * TOKENS
    assert dissent(extra["forum"]) == ["it is old"]
    assert openai_server.project.answer(extra["forum"]["run"]) == b"yes"


def test_a_panel_is_streamed(client: OpenAI) -> None:
    """The whole of the answer comes when the votes are counted, with the dissent at the end."""
    stream = client.chat.completions.create(
        model="panel",
        messages=ASKED,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=THREE,
    )
    chunks = list(stream)

    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    ends = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert "".join(texts) == "yes"
    assert [dissent((end.model_extra or {})["forum"]) for end in ends] == [["it is old"]]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == TURNS * TOKENS


def test_a_response_is_given_by_a_panel(client: OpenAI) -> None:
    """In one piece and as a stream, the newer form tells the same."""
    whole = client.responses.create(model="panel", input=QUESTION, extra_body=THREE)
    with client.responses.stream(model="panel", input=QUESTION, extra_body=THREE) as stream:
        streamed = [event.type for event in stream]
        final = stream.get_final_response()

    assert whole.output_text == final.output_text == "yes"
    assert whole.usage is not None
    assert whole.usage.total_tokens == TURNS * TOKENS
    for response in (whole, final):
        assert dissent((response.model_extra or {})["forum"]) == ["it is old"]
    assert streamed[-1] == "response.completed"


def test_the_record_of_a_panel_is_played_again(client: OpenAI) -> None:
    """Nobody is asked, and the same is told."""
    first = client.chat.completions.create(model="panel", messages=ASKED, extra_body=THREE)
    run = (first.model_extra or {})["forum"]["run"]
    again = client.chat.completions.create(model=f"replay:{run}", messages=ASKED)

    assert again.choices[0].message.content == "yes"
    assert (again.model_extra or {})["forum"] == (first.model_extra or {})["forum"]
    assert again.usage is not None
    assert again.usage.total_tokens == 0


def test_a_question_of_the_panel_reaches_the_person(client: OpenAI) -> None:
    """It is no answer, and so it must not look like one."""
    panel = {"protocol": "symposium", "personas": ["critic"]}
    with pytest.raises(openai.UnprocessableEntityError) as asked:
        client.chat.completions.create(
            model="panel", messages=ASKED, extra_body={"forum": {"panel": panel}}
        )

    assert asked.value.code == "user_input_required"
    assert "Which bridge?" in asked.value.message


def test_a_panel_that_nobody_was_heard_in_says_why(tmp_path: Path) -> None:
    """Whoever only hears that it failed can do nothing about it."""
    ask = {"model": "panel", "messages": ASKED, "forum": {"panel": {"seats": 2}}}
    with (
        open_forum(tmp_path, project(MUTE)) as forum,
        hall(ServerConfig([Tenant(forum, forum.runs.run_worker)]), operator=True) as client,
    ):
        failed = client.post("/v1/chat/completions", json=ask).json()

    assert "nobody cast a ballot: no reply in the form" in failed["error"]["message"]


@pytest.mark.parametrize(
    ("model", "panel", "words"),
    [
        ("panel", {"models": ["eve"]}, "no agent is called 'eve'"),
        ("panel", {"seats": 0}, ">= 1"),
        ("forum", {"seats": 3}, "is only for the model 'panel'"),
        ("lane/panel", {"seats": 3}, "is only for the model 'panel'"),
    ],
)
def test_a_panel_that_cannot_sit_is_refused(
    openai_server: Served, client: OpenAI, model: str, panel: dict[str, object], words: str
) -> None:
    """To ignore what was said of it would give an answer that looks as if it were heeded."""
    before = openai_server.project.forum.reads.recent_runs(None, 1)
    with pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(
            model=model, messages=ASKED, extra_body={"forum": {"panel": panel}}
        )

    assert refused.value.status_code in (400, 422)
    assert words in refused.value.message
    assert openai_server.project.forum.reads.recent_runs(None, 1) == before


def test_a_panel_over_its_budget_is_like_an_account_without_money(client: OpenAI) -> None:
    """Each of its calls is reserved before it is made."""
    terms = {**THREE["forum"], "budget": {"calls": 4}}
    with pytest.raises(openai.RateLimitError) as stopped:
        client.chat.completions.create(
            model="panel", messages=ASKED, extra_body={"forum": terms}
        )  # fmt: skip

    assert stopped.value.code == "budget_exceeded"
