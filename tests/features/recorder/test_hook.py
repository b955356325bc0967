"""`forum hook`, with the JSON that Claude Code writes: recorded before the tool, and denied."""

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forum.errors import Malformed, ReportRefused
from forum.features.recorder.public import HookRules, ReportWriter, handle_event, parse_event
from forum.hook_guard import BLOCKED, MAX_SECONDS
from forum.ledger.kinds import Outcome
from forum.runs.gate_rules import GateRule
from forum.runs.policy import Answer
from forum.runs.shared_caps import GatePeriod
from tests.docs.pages import ROOT
from tests.features.recorder.recording import assert_verified, open_forum, read_runs
from tests.surfaces.terminal import Terminal


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
    commands = {name: hooks[0]["hooks"][0]["command"] for name, hooks in settings.items()}
    terminal = Terminal(tmp_path)
    terminal.type("init")
    document: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": "List the files."},
        "PreToolUse": BASH,
        "PostToolUse": {**BASH, "tool_response": {"stdout": "a.txt"}},
        "SessionEnd": {"reason": "exit"},
    }
    for name, members in document.items():
        done = subprocess.run(
            ["sh", "-c", commands[name].replace("forum", f"{sys.executable} -m forum")],
            cwd=terminal.folder,
            env=terminal.environment | {"CLAUDE_PROJECT_DIR": str(terminal.folder)},
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
            text = event("PreToolUse", **{**BASH, "tool_name": tool, "tool_use_id": f"t{number}"})
            return handle_event(parse_event(text.encode()), writer, rules)

        waiting = use(1, "Bash")
        ((run, gate),) = forum.reads.waiting_gates()
        forum.runs.decide_gate(run, gate.opened.subject, Answer.APPROVE, gate.digest)
        allowed = use(2, "Bash"), use(3)
        over = use(4)

    (recorded,) = read_runs(project)
    assert f"forum gate approve {run} {gate.opened.subject}" in waiting
    assert allowed == ("", "")
    assert "would pass its cap" in over
    assert [(step.name, step.outcome) for step in recorded.steps] == [
        ("Bash", Outcome.DENIED),
        ("Read", Outcome.DENIED),
        ("approval-taken", Outcome.OK),
    ]


@pytest.mark.parametrize("per", [GatePeriod.RUN, GatePeriod.DAY])
def test_a_tool_is_denied_when_the_sum_of_its_uses_passes_the_limit(
    project: Path, per: GatePeriod
) -> None:
    """Over a session, which a resumed one continues, or over all sessions of a day."""
    rules = HookRules((GateRule("pay", "mcp__bank__pay", argument="amount", above="100", per=per),))
    with open_forum(project) as forum:
        forum.keys.initialise()

        def use(number: int, session: str = "abc-123") -> str:
            members = {"tool_name": "mcp__bank__pay", "tool_use_id": f"t{number}"}
            document = json.loads(event("PreToolUse", **members, tool_input={"amount": 40}))
            writer = ReportWriter(forum.ledger, "claude-code")
            data = json.dumps(document | {"session_id": session}).encode()
            return handle_event(parse_event(data), writer, rules)

        first = use(1)
        end = parse_event(event("SessionEnd").encode())
        handle_event(end, ReportWriter(forum.ledger, "claude-code"), rules)
        second, third = use(2), use(3)
        other = use(4, "other")
        again = use(5)

    assert first == second == ""
    assert "needs approval" in third
    assert "needs approval" in again
    assert bool(other) is (per is GatePeriod.DAY)


def test_something_else_than_an_event_is_refused() -> None:
    """Claude Code does not use a tool whose hook could not read the event."""
    with pytest.raises(Malformed):
        parse_event(b"{}")


PAY = {"tool_name": "mcp__bank__pay", "tool_use_id": "toolu_9"}
PAY_RULE = '[gates.pay]\ntool = "mcp__bank__pay"\nargument = "amount"\nabove = 100\n'
NESTED = "[" * 1100 + "]" * 1100


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with a ledger and a rule about payments."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    with (made.folder / "forum.toml").open("a") as file:
        file.write(PAY_RULE)
    return made


def run_hook(
    user: Terminal, data: bytes, *options: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook as Claude Code does."""
    return subprocess.run(
        [sys.executable, "-m", "forum", "hook", *options],
        cwd=cwd or user.folder,
        env=user.environment | variables,
        input=data,
        capture_output=True,
        check=False,
    )


def is_blocked(status: int, stdout: str) -> bool:
    """Return whether Claude Code does not use the tool."""
    if status != 0:
        return status == BLOCKED
    return (
        "permissionDecision" in stdout
        and json.loads(stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        event("PreToolUse", **PAY, tool_input={"amount": 500, "note": 0})
        .replace('"note": 0', f'"note": {NESTED}')
        .encode(),
        event("PreToolUse", **PAY, tool_input={"amount": 500}).encode() + b"\xff",
        event("PreToolUse", **PAY, tool_input={"amount": 1, "x": 2})
        .replace('"x"', '"amount"')
        .encode(),
        event("PreToolUse", **PAY, tool_input={}).encode("utf-16"),
        b"[" * 200_000,
        b"",
    ],
    ids=["nested", "invalid UTF-8", "doubled", "UTF-16", "too deep", "empty"],
)
def test_an_event_that_cannot_be_read_blocks_the_tool(user: Terminal, data: bytes) -> None:
    """A model chooses the arguments of a tool, and so the event."""
    done = run_hook(user, data)
    assert done.returncode == BLOCKED
    assert b"the tool is not used" in done.stderr
    assert done.stdout == b""


@pytest.mark.slow
@pytest.mark.parametrize("named", ["option", "variable"])
def test_the_agent_does_not_choose_the_rules(user: Terminal, named: str) -> None:
    """It may go elsewhere, begin a project there, and move the file of this one."""
    data = event("PreToolUse", tool_name=PAY["tool_name"], tool_input={"amount": 500}).encode()
    below, parent = user.folder / "below", user.folder.parent
    below.mkdir()
    (below / "forum.toml").touch()
    folder = str(user.folder)
    options = ("--project", folder) if named == "option" else ()
    variables = {} if named == "option" else {"CLAUDE_PROJECT_DIR": folder}
    for place in (user.folder, below, parent):
        done = run_hook(user, data, *options, cwd=place, **variables)
        assert b"[gates.pay]" in done.stdout
        assert is_blocked(done.returncode, done.stdout.decode())
    (user.folder / "forum.toml").rename(user.folder / "ft")
    (parent / "forum.toml").touch()
    for place in (user.folder, below, parent):
        done = run_hook(user, data, *options, cwd=place, **variables)
        assert done.returncode == BLOCKED
        assert b"it has no forum.toml" in done.stderr
    assert run_hook(user, data, "--project", ".", cwd=below).returncode == BLOCKED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PreToolUse", "PostToolUse", "UserPromptSubmit"])
def test_without_a_project_nothing_is_recorded_and_no_tool_used(user: Terminal, name: str) -> None:
    """A default place has no rules, and nobody looks there."""
    (user.folder / "forum.toml").unlink()
    done = run_hook(user, event(name, **PAY, tool_input={"amount": 1}, prompt="x").encode())
    assert done.returncode == BLOCKED
    assert b"--project" in done.stderr
    assert b"run forum init" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.nightly), 6])
@pytest.mark.parametrize("step", ["imports", "calls"])
def test_a_fault_at_any_step_blocks_the_tool(user: Terminal, step: str, every: int) -> None:
    """Whatever fails, a use that needs approval is not made.  The steps are found by running.

    The gate tries every sixth of them, and begins with another one each time.
    """
    text = event("PreToolUse", **PAY, tool_input={"amount": 500})
    first = str(secrets.randbelow(every))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.features.recorder.hook_faults",
            step,
            text,
            first,
            str(every),
        ],
        cwd=user.folder,
        env=user.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    faults = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(faults) > 100 // every, done.stderr
    # The shell, in the command of the guide, guards what the guard cannot: its own import, and an
    # interpreter that is killed.
    faults = [
        f for f in faults if f["status"] >= 0 and f["place"] not in ("forum", "forum.__main__")
    ]
    passed = [f for f in faults if not is_blocked(f["status"], f["stdout"])]
    assert [fault["place"] for fault in passed] == []


@pytest.mark.slow
def test_output_that_cannot_be_written_blocks_the_tool(user: Terminal) -> None:
    """A denial that does not arrive is none; a full disk is found when the output is flushed."""
    data = event("PreToolUse", **PAY, tool_input={"amount": 500}).encode()
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "forum", "hook"],
            cwd=user.folder,
            env=user.environment,
            input=data,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == BLOCKED


def test_a_hook_that_takes_too_long_blocks_the_tool() -> None:
    """Claude Code would end it at its time limit, and use the tool."""
    code = (
        "import time; from forum import hook_guard as g; g.MAX_SECONDS = 0.1; "
        "g.run_guarded(lambda: time.sleep(60))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == BLOCKED
    assert b"took too long" in done.stderr


def test_the_settings_of_the_guide_leave_the_hook_its_time() -> None:
    """Every command of the guide ends with 2 if it cannot start, and decides before its limit."""
    page = (ROOT / "docs/guides/record-claude-code.md").read_text()
    blocks = [json.loads(part.split("```")[0]) for part in page.split("```json\n")[1:]]
    hooks = [
        hook
        for block in blocks
        for group in block["hooks"].values()
        for entry in group
        for hook in entry["hooks"]
    ]
    assert len(hooks) >= 6
    for hook in hooks:
        assert hook["command"].startswith('forum hook --project "$CLAUDE_PROJECT_DIR" ')
        words = hook["command"].split()
        wait = float(words[words.index("--wait") + 1]) if "--wait" in words else 0
        assert hook["command"].endswith(" || exit 2")
        assert hook["onFailure"] == "block"
        assert hook["timeout"] > wait + MAX_SECONDS


def test_an_approval_is_for_one_use(project: Path) -> None:
    """Otherwise a payment that was approved once could be made any number of times."""
    rules = HookRules((GateRule("pay", "pay"),))
    with open_forum(project) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")

        def use(number: int) -> str:
            text = event(
                "PreToolUse", tool_name="pay", tool_input={"amount": 5}, tool_use_id=f"t{number}"
            )
            return handle_event(parse_event(text.encode()), writer, rules)

        assert use(1)
        ((run, gate),) = forum.reads.waiting_gates()
        forum.runs.decide_gate(run, gate.opened.subject, Answer.APPROVE, gate.digest)
        assert use(2) == ""
        assert use(2) == ""  # the same use, about which the hook is asked again
        assert "needs approval" in use(3)
        ((_, second),) = forum.reads.waiting_gates()
    assert second.opened.subject != gate.opened.subject
    assert_verified(project)


def test_another_use_with_the_same_id_is_not_recorded_as_the_first(project: Path) -> None:
    """What is on record before the use is what is used."""
    with open_forum(project) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")

        def use(command: str) -> str:
            text = event("PreToolUse", **{**BASH, "tool_input": {"command": command}})
            return handle_event(parse_event(text.encode()), writer, HookRules())

        assert use("ls") == ""
        with pytest.raises(ReportRefused, match="another content"):
            use("rm -rf /")


@pytest.mark.parametrize("name", ["BASH", "bash", "\uff22ash", "Ba\u200bsh", "Bash ", "Bash\u2060"])
def test_a_tool_is_gated_in_every_spelling(project: Path, name: str) -> None:
    """A client that takes one name for the other must not get past the rule."""
    rules = HookRules((GateRule("shell", "Bas?"),))
    with open_forum(project) as forum:
        forum.keys.initialise()
        data = event("PreToolUse", **{**BASH, "tool_name": name}).encode()
        why = handle_event(parse_event(data), ReportWriter(forum.ledger, "claude-code"), rules)
    assert "needs approval" in why


def test_uses_without_an_id_are_counted_each(project: Path) -> None:
    """Older versions do not name a use; two equal ones are two."""
    rules = HookRules(max_calls=2)
    document = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    with open_forum(project) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")

        def tell(name: str, **members: Any) -> str:  # noqa: ANN401  members of JSON
            return handle_event(
                parse_event(event(name, **document, **members).encode()), writer, rules
            )

        assert tell("PreToolUse") == ""
        assert tell("PostToolUse", tool_response="a") == ""
        assert tell("PreToolUse") == ""
        assert tell("PostToolUse", tool_response="b") == ""
        assert "would pass its cap" in tell("PreToolUse")

    (recorded,) = read_runs(project)
    outcomes = [step.outcome for step in recorded.steps]
    assert sorted(outcomes) == [Outcome.DENIED, Outcome.OK, Outcome.OK]
