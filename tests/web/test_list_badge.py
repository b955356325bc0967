"""The badge of the list of runs: the browser proves that none is left out, or says so."""

from typing import Any

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.features.evaluation.sample import play_sample_evaluation
from forum.ledger.body import text_content
from forum.ledger.strand import Attachment, Draft
from forum.runs.kinds import AcceptedFacts
from forum.tlog import SigningKey
from tests.surfaces.terminal import Terminal
from tests.web.browsing import needs_browser, play, up

pytestmark = [*needs_browser, pytest.mark.slow]

RUNS = 110
CHILDREN = 2
AGENT = '[models.default]\ncmd = "cat"\nusd = 0.01\n'


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401  what the script prints
    """Show lists to a browser, of an honest server and of one that lies."""
    home = tmp_path_factory.mktemp("lists")
    terminal = Terminal(home / "project")
    (terminal.folder / "forum.toml").write_text(AGENT)
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        forum.keys.initialise()
        with forum.runs.run_worker():
            play_sample_evaluation(forum)
        with forum.log.open_writer() as ledger:
            for number in range(RUNS):
                ledger.open_run(f"run-{number:03}", "crew")
                if number % 40 == 0:
                    forum.log.publish()
            for number in range(CHILDREN):
                request = Attachment("request", text_content("Ask again."))
                accepted = AcceptedFacts(parent_run="run-001")
                draft = Draft("accept", "crew", accepted, bodies=(request,))
                ledger.open_run(f"child-{number}", "crew", draft)
        forum.log.publish()
        origin = forum.origin
    policy, wrong = home / "policy", home / "wrong"
    policy.write_text(terminal.type("ledger", "policy").stdout)
    wrong.write_text(f"log {SigningKey(b'o' * 32, origin).verifier()}\nquorum none\n")
    with up(terminal) as server:
        found = play(server, "list.mjs", str(policy), str(wrong))
        newest = server.client.get("/api/v1/runs?limit=100").json()
        older = server.client.get(f"/api/v1/runs?limit=100&cursor={newest['next']}").json()
        found["listed"] = len(newest["runs"]) + len(older["runs"])
    return found


def test_an_honest_list_is_proven_page_by_page(seen: Any) -> None:  # noqa: ANN401
    """With pinned keys, and not before; the runs that no list shows are looked up."""
    assert seen["before"] == {"label": "check in this browser", "tone": "idle"}
    assert seen["honest"] == {"label": "100 runs proven, none left out", "tone": "ok"}
    second = {"label": f"{seen['listed'] - 1} runs proven, none left out", "tone": "ok"}
    assert seen["second"] == second
    assert "none left out, under the checkpoint of size" in seen["details"]
    assert "another run started them or that they are evaluations" in seen["details"]
    assert "Runs that were opened after the checkpoint" in seen["details"]
    assert "cannot prove itself" in seen["details"]


def test_a_run_that_begins_is_proven_too_and_an_idle_log_is_not_asked_again(
    seen: Any,  # noqa: ANN401
) -> None:
    """A list that is right never has a red badge; one that does not change is proven once."""
    assert seen["arrived"] == {
        "label": f"{seen['listed']} runs proven, none left out",
        "tone": "ok",
    }
    assert set(seen["tones"]) <= {"busy", "ok", "wait"}
    assert seen["askedWhileIdle"] == 0


def test_each_lie_about_a_list_has_a_red_badge(seen: Any) -> None:  # noqa: ANN401
    """A run that is left out, first, last or between, and a directory with a gap."""
    labels = {
        "middle": "a run is left out",
        "newest": "a run is left out",
        "moved": "a run is out of place",
        "gap": "the directory was altered",
        "shortened": "the directory was altered",
        "wrongKey": "the checkpoint was altered",
    }

    assert {name: seen[name]["label"] for name in labels} == labels
    assert {seen[name]["tone"] for name in labels} == {"bad"}
    assert all("Do not rely on this list" in seen[name]["sentence"] for name in labels)


def test_a_list_that_cannot_be_checked_is_not_green(seen: Any) -> None:  # noqa: ANN401
    """A server without the answer, and a list with a filter, prove nothing."""
    assert (seen["noAnswer"]["label"], seen["noAnswer"]["tone"]) == ("list not checked", "wait")
    assert "could not check whether the list is whole" in seen["noAnswer"]["sentence"]
    assert seen["filtered"] == {"label": "filtered: not checked", "tone": "idle"}
    assert "Filters hide runs" in seen["filteredDetails"]


def test_the_badge_of_the_list_has_no_fault(seen: Any) -> None:  # noqa: ANN401
    """No script error, no report of the content security policy, and nothing for axe."""
    assert seen["faults"] == []
