"""Panels over HTTP: who deliberates, under whose limits, and what is told of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.features.chat_api.run_stream import AnsweredRun, _read_run_end
from forum.ledger.access import ApiKey
from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.mcp.results import describe_run
from tests.e2e.project import eventually
from tests.spoken import ballot, synthesis, turn, verdict
from tests.surfaces.halls import hall, open_forum, showing
from tests.surfaces.panels import (
    COUNCIL,
    MUTE,
    QUESTION,
    TOKENS,
    TURNS,
    persona,
    project,
)

RUNS = "/api/v1/runs"
SYMPOSIUM = {
    "~turn.1": turn("The tests are thirty years old."),
    "~turn.2": turn("Paint hides the rust."),
    "~turn.3": verdict("finalize"),
    "~turn.4": synthesis("Close it until it is tested.", "the rust"),
}
INSPECTOR = {
    **persona("inspector", persona_class="domain"),
    "must_delegate": {"costs": "the treasurer"},
}
LENGTHY = {**INSPECTOR, "reasoning_style": "at length " * 1000}
MANY = [
    {
        "id": "many",
        "instruction": "Ask everybody.",
        "tasks": [
            {"id": f"t{n}", "instruction": QUESTION, "panel": {"seats": 100}} for n in range(11)
        ],
    }
]


class Visitor:
    """Somebody with a key, at a server that does the work itself."""

    def __init__(self, forum: Forum, client: TestClient, key: ApiKey) -> None:
        self.forum, self._client = forum, client
        self._headers = showing(key)

    def ask(self, panel: object, **members: object) -> Any:  # noqa: ANN401
        """Have a panel deliberate, and return what is said to that."""
        form = {"request": QUESTION, "panel": panel, **members}
        return self._client.post(RUNS, json=form, headers=self._headers)

    def end(self, panel: object, **members: object) -> dict[str, Any]:
        """Have a panel deliberate, and return the run once it has ended."""
        taken = self.ask(panel, **members)
        assert taken.status_code == 202, taken.text
        run = f"{RUNS}/{taken.json()['run']}"
        eventually(lambda: self.get(run)["outcome"] is not None)
        return self.get(run)

    def get(self, path: str) -> dict[str, Any]:
        """Return what is at an address."""
        document: dict[str, Any] = self._client.get(path, headers=self._headers).json()
        return document

    def preview(self, form: Mapping[str, object]) -> dict[str, Any]:
        """Return what would be done."""
        response = self._client.post("/api/v1/plan", json=form, headers=self._headers)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def stream(self, path: str) -> str:
        """Return the events of a run that has ended."""
        return self._client.get(f"{path}/events", headers=self._headers).text


@contextmanager
def visiting(home: Path, settings: str) -> Iterator[Visitor]:
    """Serve a project to somebody who may submit and read."""
    with open_forum(home, settings) as forum:
        key = forum.access.grant("visitor", {Scope.SUBMIT, Scope.READ})
        with hall(ServerConfig([Tenant(forum, forum.runs.run_worker)])) as client:
            yield Visitor(forum, client, key)


# One process can work for one ledger at a time: those with projects of their own come first.


def test_where_nobody_is_named_nobody_can_sit(tmp_path: Path) -> None:
    """A project without models is told so at once, and not by a run that fails."""
    with visiting(tmp_path, "") as visitor:
        refused = visitor.ask({})

    assert refused.status_code == 422
    assert "nobody can sit on the panel" in refused.json()["detail"]


@pytest.mark.parametrize("protocol", ["council", "symposium"])
def test_a_panel_stays_under_the_ceiling_of_the_operator(tmp_path: Path, protocol: str) -> None:
    """Whatever whoever asks allows itself: a panel is many calls, and each is reserved first."""
    ceiling = "[clients]\nusd = 0.000002\n"
    panel = {"protocol": protocol, "seats": 3}
    settings = project(COUNCIL, SYMPOSIUM, usd="0.000001", terms=ceiling)
    with visiting(tmp_path, settings) as visitor:
        run = visitor.end(panel, budget={"usd": "1000"})

    assert run["cap"]["usd"] == "0.000002"
    assert run["status"] == 5
    assert float(run["spent"]["usd"]) <= 0.000002
    assert run["spent"]["calls"] == 2


def test_a_council_that_nobody_was_heard_in_says_why(tmp_path: Path) -> None:
    """It has no task that could have failed: only its turns know."""
    with visiting(tmp_path, project(MUTE)) as visitor:
        run = visitor.end({"seats": 2})
        refused = visitor.ask({"seats": 2}, about=run["run"])

    assert run["outcome"] == "failed"
    assert run["reason"] == "nobody cast a ballot: no reply in the form that was asked for"
    assert refused.status_code == 409
    assert "at the same time" not in refused.json()["title"]
    assert "has no answer to deliberate on" in refused.json()["detail"]
    assert f"GET /api/v1/runs/{run['run']}" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("ballots", "status", "word"),
    [
        ((ballot("yes"), ballot("yes", blocker="nobody has dived")), 9, "Blocked"),
        ((ballot("yes"), ballot("no")), 8, "Split"),
    ],
)
def test_an_undecided_council_is_no_plain_answer(
    tmp_path: Path, ballots: tuple[str, ...], status: int, word: str
) -> None:
    """A client sees the status and the headline; a chat client, which sees a text only, as well."""
    moves = {f"~ballot.0.{seat}": text for seat, text in enumerate(ballots, 1)}
    with visiting(tmp_path, project(moves)) as visitor:
        run = visitor.end({"seats": 2, "rounds": 0})
        ended = _read_run_end(visitor.forum, run["run"])
        view = visitor.forum.reads.view_run(run["run"])

    assert (run["outcome"], run["answer"], run["status"]) == ("ok", "yes", status)
    assert run["deliberation"]["headline"].startswith(f"{word}: ")
    assert run["reason"].startswith(f"the council is {word.lower()}: ")
    assert isinstance(ended, AnsweredRun)
    assert ended.answer.startswith(f"{word}: ")
    assert "ended without a decision: the council is" in describe_run(view)


# At one project


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Return somebody at a project with two agents and no limits."""
    with visiting(tmp_path_factory.mktemp("panels"), project(COUNCIL, SYMPOSIUM)) as visitor:
        yield visitor


def test_a_council_is_asked_for_and_told_of(visitor: Visitor) -> None:
    """Whoever gets the answer can read how it came about, and who disagrees."""
    run = visitor.end({"seats": 3, "rounds": 1})

    deliberation = run["deliberation"]
    assert (run["outcome"], run["answer"]) == ("ok", "yes")
    assert (deliberation["protocol"], deliberation["accord"], deliberation["ground"]) == (
        "council",
        "majority",
        "vote",
    )
    assert [seat["agent"] for seat in deliberation["seats"]] == ["ann", "bob", "ann"]
    assert [one["argument"] for one in deliberation["minority"]] == ["it is old"]
    assert deliberation["decisive"] == ["another test"]
    assert run["spent"]["tokens"] == deliberation["spent"]["tokens"] == TURNS * TOKENS


def test_the_events_of_a_council_are_those_of_its_record(visitor: Visitor) -> None:
    """Who follows a run sees each ballot sealed, and all of them before the reveal."""
    run = visitor.end({"seats": 3, "rounds": 1})

    events = visitor.stream(f"{RUNS}/{run['run']}")
    kinds = [kind for kind in ("council/1", "ballot/1", "reveal/2") if f'"{kind}"' in events]
    assert kinds == ["council/1", "ballot/1", "reveal/2"]
    assert events.count('"ballot/1"') == TURNS
    first = events.index('"reveal/2"')
    assert events[:first].count('"ballot/1"') == TURNS // 2


def test_a_symposium_is_asked_for_and_told_of(visitor: Visitor) -> None:
    """Its personas are named, or brought along; its caps are those of the protocol."""
    run = visitor.end(
        {
            "protocol": "symposium",
            "personas": ["critic", INSPECTOR],
            "models": ["bob"],
        }
    )

    deliberation = run["deliberation"]
    assert (run["outcome"], run["answer"]) == ("ok", "Close it until it is tested.")
    assert (deliberation["protocol"], deliberation["panel"]) == (
        "symposium",
        ["critic", "inspector"],
    )
    assert deliberation["unresolved"] == ["the rust"]
    assert (run["cap"]["usd"], run["cap"]["tokens"]) == ("5.00", 500_000)
    assert list(run["spent_by"]) == ["bob"]


@pytest.mark.parametrize(
    ("panel", "members", "words"),
    [
        ({"models": ["eve"]}, {}, "no agent is called 'eve'; name it with --agent"),
        ({"judge": "eve"}, {}, "no agent is called 'eve'"),
        ({"models": ["e" * 129], "protocol": "symposium"}, {}, "length <= 128"),
        ({"personas": ["plumber"]}, {}, "no persona is called 'plumber'; known: logician"),
        ({"seats": 101}, {}, "<= 100"),
        ({"rounds": 11}, {}, "<= 10"),
        ({"options": [""]}, {}, "length >= 1"),
        ({"check": "deploy"}, {}, "unknown field `check`"),
        ({"seats": [{"agent": "ann", "briefing": "Say yes."}]}, {}, "Expected `int | null`"),
        ({"protocol": "brawl"}, {}, "Invalid enum value"),
        ({"protocol": "symposium", "options": ["yes"]}, {}, "only a council counts ballots"),
        ({"protocol": "symposium", "rounds": 0}, {}, "at least one"),
        ({"protocol": "symposium", "models": ["eve"]}, {}, "no agent is called 'eve'"),
        ({"personas": [persona("x", persona_class="horizontal")]}, {}, "personas"),
        ({"personas": [{**INSPECTOR, "id": "a\nb"}]}, {}, "one printable line"),
        ({"personas": [LENGTHY]}, {}, "10,000 bytes"),
        ({"personas": [LENGTHY], "protocol": "symposium"}, {}, "10,000 bytes"),
        (None, {"tasks": MANY}, "1000 seats together"),
        ({}, {"team": True}, "team: a panel deliberates, and carries out no plan"),
        ({}, {"lane": "rivers"}, "lane: a panel deliberates"),
        ({}, {"tasks": [{"id": "a", "instruction": "Do."}]}, "tasks: a panel deliberates"),
        ({}, {"gates": {"what": ["plan"]}}, "leave out the gates"),
        ({}, {"request": " \n"}, "no question"),
    ],
)
def test_a_panel_that_cannot_sit_is_refused_with_what_to_do(
    visitor: Visitor, panel: object, members: dict[str, object], words: str
) -> None:
    """Nobody from outside can have others asked than the operator has named, nor a tool run."""
    before = visitor.forum.reads.recent_runs(None, 1)
    refused = visitor.ask(panel, **members)

    assert refused.status_code in (400, 422)
    assert words in refused.json()["detail"]
    assert visitor.forum.reads.recent_runs(None, 1) == before


@pytest.mark.parametrize(
    ("panel", "text"),
    [
        ({"seats": 3, "rounds": 1}, "yes\n\nThe council decided by a majority (2 of 3 seats)."),
        (
            {"protocol": "symposium", "personas": ["critic", "engineer"], "models": ["bob"]},
            "Close it until it is tested.\n\nThe symposium came to an answer, with a dissent.",
        ),
    ],
    ids=["council", "symposium"],
)
def test_a_panel_is_a_task_of_a_plan(visitor: Visitor, panel: dict[str, object], text: str) -> None:
    """There, too, it has nobody on it whom the operator does not know."""
    tasks = [{"id": "safe", "instruction": QUESTION, "panel": panel}]
    good = visitor.end(None, tasks=tasks)
    strict = visitor.end(None, tasks=[{**tasks[0], "panel": {**panel, "require": "agreement"}}])
    refused = visitor.ask(None, tasks=[{**tasks[0], "panel": {**panel, "models": ["eve"]}}])

    assert good["answer"].startswith(text)
    assert strict["outcome"] == "failed"
    assert refused.status_code == 422
    assert "eve" in refused.json()["detail"]


def test_a_preview_shows_the_panel_and_the_decision_of_a_task(visitor: Visitor) -> None:
    """Who would sit, and between what they would choose, also within an inner plan."""
    asked = {
        "request": QUESTION,
        "panels": {"board": {"seats": 2, "models": ["ann"], "require": "agreement"}},
        "tasks": [
            {"id": "choose", "instruction": "Which?", "decide": ["left", "right"]},
            {
                "id": "outer",
                "instruction": "Go.",
                "tasks": [
                    {
                        "id": "inner",
                        "instruction": QUESTION,
                        "panel": {"protocol": "symposium", "models": ["ann", "bob"]},
                    }
                ],
            },
            {"id": "plain", "instruction": "Go."},
        ],
    }
    choose, outer, plain = visitor.preview(asked)["tasks"]

    assert choose["decide"] == ["left", "right"]
    assert choose["panel"] == {
        "protocol": "council",
        "agents": ["ann", "ann"],
        "require": "agreement",
    }
    assert outer["tasks"][0]["panel"]["protocol"] == "symposium"
    assert {*outer["tasks"][0]["panel"]["agents"]} == {"ann", "bob"}
    assert [(task["panel"], task["decide"]) for task in (outer, plain)] == [(None, [])] * 2


def test_a_panel_deliberates_on_the_answer_of_a_run(visitor: Visitor) -> None:
    """The run is named in the reply, and what cannot be deliberated on has its own status."""
    first = visitor.end({"seats": 3, "rounds": 1})
    panel = {"seats": 3, "rounds": 1}
    run = visitor.end(panel, request="Does it hold?", about=first["run"])
    there = "0199c0de-0000-7000-8000-000000000000"

    assert run["about"] == first["run"]
    assert first["about"] is None
    assert run["request"].startswith("Does it hold?")
    assert "> yes" in run["request"]
    assert visitor.ask(panel, about=there).status_code == 404
    refused = visitor.ask(None, about=first["run"])
    assert refused.status_code == 422
    assert "about: a panel deliberates" in refused.json()["detail"]
    (noted,) = [
        each
        for each in visitor.forum.reads.read_run_record(run["run"]).entries
        if each.entry.kind == "about/1"
    ]
    (answer,) = [
        each
        for each in visitor.forum.reads.read_run_record(first["run"]).entries
        if each.entry.kind == "answer/1"
    ]
    assert noted.entry.facts.entry == answer.leaf.hex()
    assert noted.entry.bodies["answer"].h == answer.entry.bodies["answer"].h


def test_whoever_may_not_read_cannot_have_an_answer_deliberated_on(tmp_path: Path) -> None:
    """What a panel says would tell what the answer says."""
    with open_forum(tmp_path, project(COUNCIL, SYMPOSIUM)) as forum:
        reader = forum.access.grant("visitor", {Scope.SUBMIT, Scope.READ})
        writer = forum.access.grant("writer", {Scope.SUBMIT})
        with hall(ServerConfig([Tenant(forum, forum.runs.run_worker)])) as client:
            first = Visitor(forum, client, reader).end({"seats": 3, "rounds": 1})
            refused = Visitor(forum, client, writer).ask({"seats": 3}, about=first["run"])

    assert refused.status_code == 422
    assert "requires the scope read" in refused.json()["detail"]


@pytest.mark.parametrize("name", ["problem", "question"])
def test_the_text_has_one_name_for_every_run(visitor: Visitor, name: str) -> None:
    """Whoever comes from the protocol is told which."""
    refused = visitor.ask({"protocol": "symposium"}, **{name: QUESTION})

    assert refused.status_code in (400, 422)
    assert "it is called `request` here" in refused.json()["detail"]
