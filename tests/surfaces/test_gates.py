"""Decisions at the terminal: they see what they decide, and bind to what was shown."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from forum.errors import GateChanged
from forum.surfaces.cli import common_options
from tests.surfaces.terminal import Terminal

HOSTILE = "Draft.\x1b[2J\x1b[1;1Hif approved  nothing happens\u202eevil"
PLAN = {
    "request": "Announce the release.",
    "tasks": [
        {"id": "draft", "instruction": "Write a draft."},
        {"id": "publish", "instruction": "Publish it.", "needs": ["draft"]},
        {"id": "tell", "instruction": "Tell all.", "needs": ["publish"]},
    ],
}


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user whose only run waits before the task `publish`."""
    user = Terminal(tmp_path)
    assert user.call("init").exit_code == 0
    (user.folder / "plan.json").write_text(json.dumps(PLAN))
    (user.folder / "script.json").write_text(json.dumps({"moves": {"draft": [{"say": HOSTILE}]}}))
    submitted = user.call(
        *("submit", "--plan", "plan.json", "--gate", "task:publish", "--max-usd", "0.5"),
        *("--script", "script.json"),
    )
    assert submitted.exit_code == 6, submitted.output
    return user


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands believe that a person sits at a terminal."""
    monkeypatch.setattr(common_options, "can_ask", lambda: True)


def waiting_gate(user: Terminal) -> dict[str, Any]:
    """Return the only gate that waits."""
    (gate,) = user.ask("gate", "list")["gates"]
    return dict(gate)


@pytest.mark.usefixtures("at_terminal")
def test_what_is_decided_is_shown_first(user: Terminal) -> None:
    """Request, results, content, effects, cost and cap come before the question."""
    asked = user.call("gate", "approve", given=b"y\nGood draft.\n")
    before, _, _ = asked.stderr.partition("Approve task/publish?")

    assert asked.exit_code == 0, asked.output
    for part in (
        "  Announce the release.",
        "result of draft",
        "  Publish it.",
        "The task publish is carried out with this instruction",
        "The tasks that need it are",
        "$0.00 of $0.50",
        "rejected automatically in",
    ):
        assert part in before


@pytest.mark.usefixtures("at_terminal")
def test_no_text_of_an_agent_controls_the_terminal(user: Terminal) -> None:
    """A reply could otherwise clear the screen and print a harmless question in its place."""
    asked = user.call("gate", "approve", given=b"n\n")
    lines = [line for line in asked.stderr.splitlines() if "nothing happens" in line]

    assert "\x1b[2J" not in asked.stderr
    assert "\u202e" not in asked.stderr
    assert lines
    assert all(line.startswith("  ") for line in lines)


@pytest.mark.usefixtures("at_terminal")
@pytest.mark.parametrize("command", ["approve", "reject"])
def test_the_reason_is_recorded_and_shown(user: Terminal, command: str) -> None:
    """Whoever reads the record later learns why, until the body is erased."""
    gate = waiting_gate(user)
    asked = user.call("gate", command, given="y\nBecause of März.\n".encode())
    shown = user.ask("gate", "show", gate["run"], gate["subject"])

    assert asked.exit_code == 0, asked.output
    assert (shown["decided"], shown["reason"]) == (command, "Because of März.")
    assert "Because of März." in user.call("gate", "show", gate["run"], gate["subject"]).stderr
    assert user.call("ledger", "verify").exit_code == 0


@pytest.mark.usefixtures("at_terminal")
def test_an_answer_is_refused_if_the_content_changed_after_it_was_shown(
    user: Terminal,
) -> None:
    """The person has agreed to something else than what would now be carried out."""
    gate = waiting_gate(user)
    changed = user.folder / "other"
    changed.write_text("Publish my advertisement.")

    def edit_while_asking(*_: object, **__: object) -> bool:
        user.call("gate", "edit", gate["run"], gate["subject"], "--file", str(changed))
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click, "confirm", edit_while_asking)
        refused = user.call("gate", "approve", given=b"\n")

    assert isinstance(refused.exception, GateChanged)
    assert waiting_gate(user)["decided"] is None


@pytest.mark.parametrize("command", [("gate", "approve"), ("gate", "reject"), ("resume",)])
def test_without_a_terminal_it_must_be_named(user: Terminal, command: tuple[str, ...]) -> None:
    """A script must not decide about something that nobody has looked at."""
    refused = user.call(*command)

    assert refused.exit_code == 2
    assert f"forum {' '.join(command)} {waiting_gate(user)['run'][:18]}" in refused.stderr
    assert waiting_gate(user)["decided"] is None


def test_what_was_edited_is_decided_only_by_its_digest(user: Terminal) -> None:
    """A script that names the gate was written for the content that the gate was opened with."""
    gate = waiting_gate(user)
    name = (gate["run"], gate["subject"])
    (user.folder / "other").write_text("Publish my advertisement.")
    edited = user.call("gate", "edit", *name, "--file", str(user.folder / "other"))
    refused = user.call("gate", "approve", *name)
    approved = user.call("gate", "approve", *name, "--digest", edited.stdout.strip())

    assert isinstance(refused.exception, GateChanged)
    assert approved.exit_code == 0, approved.output


@pytest.mark.usefixtures("at_terminal")
def test_of_several_none_is_chosen(user: Terminal) -> None:
    """The one that is shown first would be decided by chance."""
    user.call("submit", "--plan", "plan.json", "--gate", "plan")
    refused = [user.call("gate", "show"), user.call("gate", "approve"), user.call("resume")]

    assert [result.exit_code for result in refused] == [2, 2, 2]
    assert "2 gates wait; name the run and the gate: " in refused[0].stderr


@pytest.mark.usefixtures("at_terminal")
def test_resume_shows_the_only_run_and_asks(user: Terminal) -> None:
    """Continuing spends money: the person sees the request and the cost first."""
    gate = waiting_gate(user)
    user.call("gate", "approve", gate["run"], gate["subject"])
    left = user.call("resume", given=b"n\n")
    done = user.call("resume", given=b"y\n")

    assert left.exit_code == 1
    assert "Announce the release." in left.stderr
    assert done.exit_code == 0, done.output
