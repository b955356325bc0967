"""Retention and holds: by command, by the process that signs the log, and what is left on disk."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.errors import BodyHeld, HoldInForce, Malformed, NoSuchHold, RunNotEnded
from forum.features.retention.service import RetentionOperations
from forum.ledger.kinds import RedactionReason
from forum.ledger.ports import Position
from forum.stores import publisher_loop
from tests.support import wait_until
from tests.surfaces.halls import lone_hall, open_forum
from tests.surfaces.terminal import Terminal

WORDS = "the name of a certain customer"


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with one note."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    made.note(WORDS)
    return made


def forum_of(user: Terminal) -> Forum:
    """Open the ledger of a user."""
    return Forum(load_settings(user.folder, user.environment))


def keep_for_a_second(user: Terminal) -> None:
    """Set a rule that is shorter than any that can be typed, and let the period pass."""
    with forum_of(user) as forum:
        RetentionOperations(forum).set_rule("*", 1)
    time.sleep(1.1)


def bytes_on_disk(user: Terminal) -> bytes:
    """Return what the files of the ledger hold."""
    files = sorted(user.database.parent.glob(f"{user.database.name}*"))
    return b"".join(file.read_bytes() for file in files)


def test_what_is_past_its_period_is_in_no_file_and_verifies(user: Terminal) -> None:
    """And the record says what was erased, and why."""
    assert WORDS.encode() in bytes_on_disk(user)
    keep_for_a_second(user)
    assert user.ask("retention", "apply") == {
        "schema": "forum.erasure/1",
        "redacted": 1,
        "erased": 1,
    }
    assert WORDS.encode() not in bytes_on_disk(user)
    report = user.ask("ledger", "verify")
    assert report["bodies"] == {"ok": 1, "redacted": 1, "missing": 0, "mismatch": 0}
    assert user.call("ledger", "verify").exit_code == 0
    gone = user.type("ledger", "get", "3", "--body", "text")
    assert "was redacted (retention, by rule *)" in gone.stderr
    assert (
        "had 1 body of 1 run erased (retention, rule *)"
        in user.call("why", "log/retention/1").stdout
    )
    run = user.ask("ledger", "get", "3")["entry"]["run"]
    assert user.call("ledger", "export", run).exit_code == 0
    verified = user.type("verify", f"{run}.zip", "--policy", str(user.policy), "--json")
    assert '"redacted": 1' in verified.stdout
    assert user.ask("retention", "apply")["erased"] == 0


def test_a_hold_keeps_what_a_rule_and_a_person_would_erase(user: Terminal) -> None:
    """Until it is released."""
    run = user.ask("ledger", "get", "3")["entry"]["run"]
    held = user.ask("hold", "place", "case-7", "--run", run, "--reason", "A claim.")
    assert [(h["name"], h["runs"], h["reason"]) for h in held["holds"]] == [
        ("case-7", [run], "A claim.")
    ]
    keep_for_a_second(user)
    assert user.ask("retention", "apply")["erased"] == 0
    refused = user.type("ledger", "redact", "3", "text")
    assert (refused.returncode, "a hold keeps" in refused.stderr) == (1, True)
    assert isinstance(user.call("hold", "place", "case-7").exception, HoldInForce)
    assert "case-7" in user.call("hold", "list").stdout
    assert "placed the hold case-7 on 1 run" in user.call("why", "log/retention/0").stdout

    assert user.ask("hold", "release", "case-7")["holds"] == []
    assert isinstance(user.call("hold", "release", "case-7").exception, NoSuchHold)
    assert user.ask("retention", "apply")["erased"] == 1
    assert user.call("ledger", "verify").exit_code == 0


def test_rules_are_listed_as_they_were_set(user: Terminal) -> None:
    """And what means nothing is refused."""
    user.ask("retention", "set", "*", "1y")
    user.ask("retention", "set", "call/prompt", "30d")
    listed = user.ask("retention", "set", "reply", "keep")
    assert {rule["subject"]: rule["seconds"] for rule in listed["rules"]} == {
        "*": 366 * 86_400,
        "call/prompt": 30 * 86_400,
        "reply": None,
    }
    printed = user.call("retention", "list").stdout
    assert "call/prompt  30 days" in printed
    assert "for ever" in printed
    for period in ("30", "0d", "-1d", "d", "1m"):
        assert user.call("retention", "set", "call", "--", period).exit_code == 2
    with forum_of(user) as forum:
        for subject in ("nothing", "call/nothing", "run.close", "run.close/strands", "call/1", ""):
            with pytest.raises(Malformed, match="neither"):
                RetentionOperations(forum).set_rule(subject, 1)
        with pytest.raises(Malformed, match="41 runs"):
            RetentionOperations(forum).place_hold("all", ("r",) * 41)
        with pytest.raises(Malformed, match="its name"):
            RetentionOperations(forum).place_hold("Case 7")


def test_the_process_that_signs_erases_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to type anything."""
    monkeypatch.setattr(publisher_loop, "FIRST_RETENTION_DELAY_S", 0.01)
    monkeypatch.setattr(publisher_loop, "RETENTION_DELAY_S", 0.05)
    with lone_hall(tmp_path, operator=True) as (forum, client):
        run = client.post("/api/v1/runs", json={"request": WORDS, "route": False}).json()["run"]
        place = Position(run, "main", 1)
        assert forum.store.body(place, "request") is not None
        RetentionOperations(forum).set_rule("*", 1)
        with pytest.raises(RunNotEnded):
            forum.log.redact(f"{run}/main/1", "request", RedactionReason.REQUEST)
        forum.runs.cancel(run)
        with forum.runs.run_worker():
            wait_until(lambda: forum.ledger.is_closed(run))
            wait_until(lambda: forum.store.body(place, "request") is None)


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger."""
    with open_forum(tmp_path) as opened:
        yield opened


def test_a_held_body_is_not_redacted_at_any_door(forum: Forum) -> None:
    """The check is where redactions are recorded."""
    forum.ledger.open_run("r", "x")
    RetentionOperations(forum).place_hold("all", reason="x")
    held = forum.ledger.find_entry("log/retention/0")
    assert "reason" in held.entry.bodies
    forum.log.publish()
    with pytest.raises(BodyHeld):
        forum.log.redact("log/retention/0", "reason", RedactionReason.REQUEST)
