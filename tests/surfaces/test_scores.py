"""Scores of ended runs: by command, over HTTP, and as a verifier finds them."""

from pathlib import Path

import pytest

from forum.app import Forum
from forum.engine import RunRequest
from forum.errors import ScoreTooEarly
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.kinds import Scope
from forum.ledger.strand import Draft
from forum.runs import kinds
from forum.runs.scores import Score
from forum.tlog import Hash
from tests.surfaces.halls import lone_hall, open_forum, showing
from tests.surfaces.terminal import Terminal

PERFECT = Score("good", 1000)


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with one run that has answered."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    assert made.type("submit", "Name a river.", "--cmd", "cat").returncode == 0
    return made


def newest_run(user: Terminal) -> str:
    """Return the id of the newest run."""
    run = user.ask("runs")["runs"][0]["run"]
    assert isinstance(run, str)
    return run


def test_scores_are_kept_and_the_latest_of_an_actor_counts(user: Terminal) -> None:
    """A person may think better of it; what they said first stays on record."""
    run = newest_run(user)
    user.ask("score", run, "--name", "correct", "--value", "0.2", "--comment", "Wrong river.")
    user.ask("score", run, "--answer", "--name", "correct", "--value", "1", "--by", "program")
    last = user.ask("score", run, "--name", "correct", "--value", "0.75")
    user.ask("score", run, "--task", "answer", "--name", "short", "--value", "1")

    listed = user.ask("scores", run)["scores"]
    assert [(s["subject"], s["value"], s["by"], s["latest"]) for s in listed] == [
        ("run", 0.2, "person", False),
        ("answer", 1.0, "program", True),
        ("run", 0.75, "person", True),
        ("task", 1.0, "person", True),
    ]
    assert listed[0]["comment"] == "Wrong river."
    assert user.ask("show", run)["scores"] == listed
    shown = user.call("show", run).stdout
    assert "correct 0.750 the run, by a person (operator)" in shown
    assert "0.200" not in shown
    assert "operator scored the run" in user.call("why", last["entry"]).stdout
    assert user.call("ledger", "verify").exit_code == 0


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--name", "good", "--value", "1.5"), 2, "from 0 to 1"),
        (("--name", "Good one", "--value", "1"), 2, "its name"),
        (("--name", "good", "--value", "1", "--task", "a", "--answer"), 2, "of one of them"),
        (("--name", "good", "--value", "1", "--task", "a"), 1, "has no task a"),
    ],
)
def test_a_score_that_means_nothing_is_refused(
    user: Terminal, words: tuple[str, ...], status: int, text: str
) -> None:
    """And leaves nothing behind."""
    run = newest_run(user)
    refused = user.type("score", run, *words)

    assert (refused.returncode, text in refused.stderr) == (status, True), refused.stderr
    assert user.ask("scores", run)["scores"] == []


def test_a_run_that_goes_on_is_not_scored(tmp_path: Path) -> None:
    """Its answer may still become another one."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        run = client.post("/api/v1/runs", json={"request": "x", "route": False}).json()["run"]
        refused = client.post(f"/api/v1/runs/{run}/scores", json={"name": "good", "value": 1})
        assert (refused.status_code, "has not ended" in refused.json()["detail"]) == (409, True)
        with pytest.raises(ScoreTooEarly):
            forum.scores.record(run, PERFECT)


def test_clients_score_and_read_by_their_scopes(tmp_path: Path) -> None:
    """Who may submit may score; who may read sees the scores, with the key that gave each."""
    with open_forum(tmp_path) as forum:
        run = answered_run(forum)
    with lone_hall(tmp_path) as (forum, client):
        writer, reader = (
            showing(forum.access.grant(name, {scope}))
            for name, scope in (("writer", Scope.SUBMIT), ("reader", Scope.READ))
        )
        path, body = f"/api/v1/runs/{run}/scores", {"name": "helpful", "value": 0.5}
        posing = client.post(path, json=body | {"by": "person"}, headers=writer)
        assert posing.status_code == 422
        assert "not a person's" in posing.json()["detail"]
        assert client.post(path, json=body, headers=writer).json()["by"] == "program"
        token = {"Authorization": f"Bearer {forum.access.operator_token()}"}
        by_operator = client.post(path, json=body, headers=token).json()
        assert by_operator["by"] == "person"
        made = client.post(path, json=body | {"by": "judge"}, headers=writer)
        assert (made.status_code, made.json()["actor"][:4]) == (201, "key/")
        assert client.post(path, json=body, headers=reader).status_code == 403
        assert client.get(path, headers=writer).status_code == 403
        assert client.get(path, headers=reader).json()["scores"][-1] == made.json()
        missing = client.get("/api/v1/runs/nothing/scores", headers=reader)
        assert missing.status_code == 404
        wrong = client.post(path, json={"name": "helpful", "value": 1.01}, headers=writer)
        assert wrong.status_code == 400


def answered_run(forum: Forum) -> str:
    """Have a request answered, and return the run."""
    with forum.runs.run_worker():
        run = forum.runs.submit(RunRequest("Name a river."))
        forum.reads.follow_run(run)
    return run


def forge(forum: Forum, facts: kinds.ScoreFacts, parents: tuple[Hash, ...], strand: str) -> None:
    """Write a score with the keys of the log, past the checks of `forum.scores`."""
    forum.ledger.append_log_entry(Draft("score/forged", "operator", facts, parents), strand)
    forum.log.publish()


@pytest.mark.parametrize(
    "fraud", ["other-run", "other-subject", "nowhere", "elsewhere", "too-good"]
)
def test_a_forged_score_is_found(tmp_path: Path, fraud: str) -> None:
    """Also one that was written and signed with the keys of the log."""
    with open_forum(tmp_path) as forum:
        run, other = answered_run(forum), answered_run(forum)
        forum.scores.record(run, PERFECT)
        forum.log.publish()
        assert forum.log.verify(forum.log.read_trust()).ok

        close, elsewhere = (
            leaf_of(forum.store.last_entry(name, "main") or b"") for name in (run, other)
        )
        subject = kinds.ScoreSubject.ANSWER if fraud == "other-subject" else kinds.ScoreSubject.RUN
        value = 1001 if fraud == "too-good" else 1000
        facts = kinds.ScoreFacts(run, subject, name="good", value=value, by=kinds.Scorer.PERSON)
        parent = {"other-run": elsewhere, "nowhere": Hash(bytes(32))}.get(fraud, close)
        strand = kinds.score_strand(other if fraud == "elsewhere" else run)
        forge(forum, facts, (parent,), strand)
        report = forum.log.verify(forum.log.read_trust())

    assert not report.ok
    texts = {finding.problem.value for finding in report.findings}
    assert texts == {"score-invalid"} | ({"parent-unknown"} if fraud == "nowhere" else set())
    assert {f.entry for f in report.findings} <= {f"{LOG_RUN}/{strand}/{n}" for n in (0, 1)}
