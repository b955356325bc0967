"""`forum hook`, with the JSON that Claude Code writes: recorded before the tool, and denied."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forum.errors import Malformed
from forum.ledger.kinds import Outcome
from forum.sdk import HookRules, ReportWriter, handle_event, parse_event
from forum.work.gate_rules import GateRule
from forum.work.policy import Answer
from tests.docs.pages import ROOT
from tests.sdk.recording import assert_verified, open_forum, read_runs
from tests.surfaces.terminal import FORUM, Terminal


def event(name: str, **members: Any) -> str:  # noqa: ANN401  members of JSON
    """Return an event as Claude Code writes it."""
    common = {
        "session_id": "abc-123",
        "transcript_path": "/x.jsonl",
        "cwd": "/",
        "hook_event_name": name,
    }
    return json.dumps(common | members)


BASH = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1"}


@pytest.mark.slow
def test_a_session_is_a_run(tmp_path: Path) -> None:
    """The commands of the guide record a prompt and a tool, and close the run."""
    page = (ROOT / "docs/guides/record-claude-code.md").read_text()
    settings = json.loads(page.split("```json\n")[1].split("```")[0])["hooks"]
    commands = {name: hooks[0]["hooks"][0]["command"].split() for name, hooks in settings.items()}
    terminal = Terminal(tmp_path)
    terminal.type("init")
    told: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": "List the files."},
        "PreToolUse": BASH,
        "PostToolUse": {**BASH, "tool_response": {"stdout": "a.txt"}},
        "SessionEnd": {"reason": "exit"},
    }
    for name, members in told.items():
        done = subprocess.run(
            [FORUM, *commands[name][1:]],
            cwd=terminal.folder,
            env=terminal.environment,
            input=event(name, **members),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr

    shown = json.loads(terminal.type("ledger", "show", "--json").stdout)
    assert "claude-abc-123" in json.dumps(shown)


def test_a_tool_is_recorded_before_it_is_used(project: Path) -> None:
    """Its begin and its end are in one strand; a hook that is asked again adds nothing."""
    with open_forum(project) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")
        for name, members in (
            ("PreToolUse", BASH),
            ("PreToolUse", BASH),
            ("PostToolUse", {**BASH, "tool_response": "a.txt"}),
            ("PreToolUse", {**BASH, "tool_use_id": "toolu_2"}),
            ("SessionEnd", {}),
            ("PostToolUse", {**BASH, "tool_use_id": "toolu_3", "tool_response": "late"}),
        ):
            assert (
                handle_event(parse_event(event(name, **members).encode()), writer, HookRules())
                == ""
            )

    first, second = read_runs(project)
    assert [(step.name, step.outcome) for step in first.steps] == [
        ("Bash", Outcome.OK),
        ("Bash", Outcome.INDETERMINATE),  # the session ended while it was under way
    ]
    assert first.bodies["toolu_1"]["output"] == b"a.txt"
    assert second.source.continues == first.run
    assert_verified(project)


def test_tools_are_denied_by_limit_and_by_gate(project: Path) -> None:
    """A limit counts uses; a gate is for one use, and its approval holds for the next try."""
    rules = HookRules((GateRule("shell", "Bash"),), max_calls=2)
    with open_forum(project) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")

        def use(number: int, tool: str = "Read") -> str:
            told = event("PreToolUse", **{**BASH, "tool_name": tool, "tool_use_id": f"t{number}"})
            return handle_event(parse_event(told.encode()), writer, rules)

        waiting = use(1, "Bash")
        ((run, gate),) = forum.reads.waiting_gates()
        forum.runs.decide_gate(run, gate.opened.subject, Answer.APPROVE, gate.digest)
        allowed = use(2, "Bash"), use(3)
        over = use(4)

    (recorded,) = read_runs(project)
    assert f"forum gate approve {run} {gate.opened.subject}" in waiting
    assert allowed == ("", "")
    assert "would pass its cap" in over
    assert [step.outcome for step in recorded.steps] == [Outcome.DENIED] * 2


def test_something_else_than_an_event_is_refused() -> None:
    """Claude Code does not use a tool whose hook could not read the event."""
    with pytest.raises(Malformed):
        parse_event(b"{}")
