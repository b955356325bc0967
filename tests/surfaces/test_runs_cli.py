"""Runs at the command line: what they print, where, and with which status they end.

Whatever carries out a run is a process of its own, as it is for a user; what only reads is called
in this one.
"""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.errors import (
    AmbiguousRun,
    GateAlreadyDecided,
    GateChanged,
    NoSuchEntry,
    NoSuchRun,
    RunAlreadyEnded,
    RunNotEnded,
)
from tests.surfaces.terminal import FORUM, Terminal

pytestmark = pytest.mark.slow

PLAN_TOML = """
request = "Prepare the release"

[budget]
usd = 0.50
seconds = 60

[policy.agents.""]
kind = "scripted"
usd = "0.012"
moves."*" = [{ say = "one\\ntwo\\nthree", tokens = 640 }]

[[tasks]]
id = "changelog"
instruction = "Write the changelog."

[[tasks]]
id = "build"
instruction = "Build the packages."
needs = ["changelog"]
done_when = "contains two"

[[tasks]]
id = "announce"
instruction = "Announce it."
needs = ["build"]
after = ["changelog"]
"""
PLAN = {
    "request": "Prepare the release",
    "budget": {"usd": 0.50, "seconds": 60},
    "tasks": [
        {"id": "changelog", "instruction": "Write the changelog."},
        {
            "id": "build",
            "instruction": "Build the packages.",
            "needs": ["changelog"],
            "done_when": "contains two",
        },
        {
            "id": "announce",
            "instruction": "Announce it.",
            "needs": ["build"],
            "after": ["changelog"],
        },
    ],
}
SCRIPT = {"moves": {"*": [{"say": "one\ntwo\nthree", "tokens": 640}]}, "usd": 0.012}
OTHER = {
    "moves": {"*": SCRIPT["moves"]["*"], "announce": [{"say": "one\nzwei\nthree"}]},  # type: ignore[index]
    "usd": 0.012,
}
STUBBORN = "trap '' TERM; cat >/dev/null; while :; do sleep 60; done"


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one object that a command has printed."""
    assert done.stdout.count("\n") == 1, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def running(pattern: str) -> list[str]:
    """Return the command lines of processes that hold a text."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if pattern in line]


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Asking


def test_a_request_is_answered_and_every_step_of_it_can_be_told(bare: Terminal) -> None:
    """From nothing: the ledger is made, the answer alone is on stdout, and all of it verifies."""
    asked = bare.type("submit", "Name three rivers")
    run = bare.ask("runs")["runs"][0]["run"]

    assert (asked.returncode, asked.stdout) == (0, "Done: Name three rivers\n")
    assert "No model is connected: a scripted agent repeats the request." in asked.stderr
    assert f"run {run}\n" in asked.stderr
    assert "  answer: passed" in asked.stderr
    assert f"forum show {run[:18]}" in asked.stderr
    assert bare.call("show", "--answer").stdout == "Done: Name three rivers\n"
    assert bare.ask("ledger", "verify")["ok"] is True
    entry = bare.ask("show")["tasks"][0]["entry"]
    output = bare.call("why", str(entry)).stdout
    # The sequencer may name the run between two of its entries.
    assert re.sub(r"#\d+", "#", output).split("\n") == [
        "# task answer: attempt 1 was accepted (checked that it succeeded)",
        " because # task answer: the reply came: ok after 0 ms",
        "  because # task answer: scripted was called, attempt 1, call 1",
        "   because # operator made a plan of 1 task",
        "    because # operator asked for something",
        "     because # the run was opened",
        "",
    ]
    replayed = bare.call("replay", run)
    assert (replayed.exit_code, replayed.stdout) == (0, "the replay is the same, step by step\n")


def test_a_prompt_that_looks_like_an_option_arrives_as_it_is(bare: Terminal) -> None:
    """No shell and no option parser may come between a prompt and the program it is for."""
    asked = bare.type("submit", "--cmd", "cat", "--", "--help; $(id) 'x")

    assert (asked.returncode, asked.stdout) == (0, "--help; $(id) 'x\n")
    assert "No model is connected" not in asked.stderr


def test_seats_with_programs_are_connected_models(bare: Terminal) -> None:
    """The task of a panel has no agent of its own: nobody repeats the request."""
    panel = {"seats": 1, "models": ["ann"]}
    plan = {"request": "x", "tasks": [{"id": "a", "instruction": "x", "panel": panel}]}
    (bare.folder / "plan.json").write_text(json.dumps(plan))
    asked = bare.type("submit", "--plan", "plan.json", "--agent", "ann=cat")

    assert "No model is connected" not in asked.stderr
    assert "because nobody cast a ballot" in asked.stderr


def test_a_program_that_fails_is_reported_with_what_it_said(bare: Terminal) -> None:
    """Status 1, nothing on stdout, and the way out of it on stderr; it is not tried again."""
    failed = bare.type("submit", "x", "--cmd", "no-such-program")

    assert (failed.returncode, failed.stdout) == (1, "")
    assert "✗ failed: 0 of 1 task passed, 1 call" in failed.stderr
    assert "cannot start the program 'no-such-program'" in " ".join(failed.stderr.split())
    shown = bare.call("show").stdout
    assert "not-found: cannot start the program" in shown


def test_what_would_pass_the_cap_is_not_asked_for(bare: Terminal) -> None:
    """Status 5, before the money is spent."""
    capped = bare.type("submit", "x", "--max-usd", "0.01", "--price-usd", "0.02", "--json")
    run = told(capped)

    assert capped.returncode == 5
    assert (run["outcome"], run["status"]) == ("denied", 5)
    assert run["spent"] == {"usd": "0.00", "tokens": 0, "calls": 0}
    assert run["reason"] == (
        "budget: $0.02 more was needed, and $0.00 of $0.01 was used (at answer)"
    )


def test_a_program_that_does_not_want_to_end_is_ended_in_time(bare: Terminal) -> None:
    """It ignores SIGTERM, and has children: soon after its time none of them is left."""
    command = f'sh -c "{STUBBORN}"'
    late = bare.type("submit", "x", "--cmd", command, "--max-seconds", "3", "--json")
    run = told(late)

    assert late.returncode == 5
    assert run["seconds"] < 15
    assert (run["outcome"], run["tasks"][0]["state"]) == ("timeout", "stopped")
    assert [line for line in running("trap '' TERM") if "while :" in line] == []


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ('{"request": "x", "tasks": []}', "it has no tasks"),
        ('{"request": "x", "taks": []}', "taks: unknown key; did you mean tasks?"),
        ('{"request": 1}', "request: this is not a text"),
        ('{"tasks": [{"id": "a", "instruction": "b"}]}', "say what is to be done"),
        (
            '{"request": "x", "tasks": [{"id": "a", "instruction": "b", "need": 1}]}',
            "did you mean needs?",
        ),
        ('{"request": "x", "tasks": [{"id": "a"}]}', "`instruction` is missing"),
        (
            '{"request": "x", "tasks": [{"id": "a", "instruction": "b", "needs": ["a"]}]}',
            "'a' waits for itself",
        ),
        (
            '{"request": "x", "tasks": [{"id": "a", "instruction": "b", "agent": "c"}]}',
            "no agent is called 'c'",
        ),
        ('{"request": "x", "budget": {"usd": "much"}}', "budget.usd: 'much' is not a number"),
        ('{"request": "x", "budget": {"dollars": 1}}', "budget.dollars: unknown key; known: usd"),
        ('{"request": "x", "budget": {"usd": NaN}}', "NaN is not a number"),
        ('{"request": "x", "policy": {"parallell": 2}}', "did you mean parallel?"),
        ('request = "x"\nbudget = 3', "line 2, column 1: budget: this is not a table"),
        ("[1, 2]", "Expected ']' at the end of a table declaration"),
        ("{", "Expecting property name"),
        ('{"request": ' + "[" * 100_000, "plan: "),
        ('{"request": "x", "tasks": [{"id": "a", "instruction": "\\ud800"}]}', "malformed plan"),
    ],
)
def test_a_bad_plan_is_wrong_usage(bare: Terminal, plan: str, why: str) -> None:
    """Status 2 with what is wrong in it, and nothing is taken on."""
    (bare.folder / "plan").write_text(plan)
    refused = bare.call("submit", "--plan", "plan")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert why in refused.stderr
    assert not (bare.folder.parent / "data").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("submit",),
        ("submit", ""),
        ("submit", "-"),
        ("submit", "x\ud800"),
        ("submit", "x", "--cmd", "unclosed 'quote"),
        ("submit", "x", "--cmd", ""),
        ("submit", "x", "--cmd", "cat", "--script", "script"),
        ("submit", "x", "--agent", "cat"),
        ("submit", "x", "--agent", "a b=cat"),
        ("submit", "x", "--max-usd", "1e-10"),
        ("submit", "x", "--max-usd", "-1"),
        ("submit", "x", "--max-seconds", "soon"),
        ("submit", "x", "--max-calls", "-1"),
        ("submit", "x", "--gate", "task:nosuch"),
        ("submit", "x", "--gate-default", "maybe"),
        ("submit", "x", "--plan", "nosuch"),
        ("fork", "x"),
        ("gate", "edit", "x", "plan"),
    ],
)
def test_a_wrong_question_has_status_2(bare: Terminal, words: tuple[str, ...]) -> None:
    """A script can tell a typing error from an agent that failed."""
    (bare.folder / "script").write_text("{}")
    asked = bare.call(*words, given=b"caf\xe9")

    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.count("Error: ") == 1


# Reading


@dataclass(frozen=True)
class Library:
    """A ledger with some runs in it."""

    terminal: Terminal
    first: dict[str, Any]
    same: dict[str, Any]
    other: dict[str, Any]
    fork: dict[str, Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Return three runs of one plan, from TOML and JSON, and a fork of one of them."""
    terminal = Terminal(tmp_path_factory.mktemp("library"))
    files = {"plan.json": PLAN, "script.json": SCRIPT, "other.json": OTHER}
    for name, content in files.items():
        (terminal.folder / name).write_text(json.dumps(content))
    (terminal.folder / "plan.toml").write_text(PLAN_TOML)
    terminal.call("init")

    def run(*words: str) -> dict[str, Any]:
        done = terminal.type(*words, "--json")
        assert done.returncode == 0, done.stderr
        return told(done)

    first = run("submit", "--plan", "plan.toml")
    same = run("submit", "--plan", "plan.json", "--script", "script.json")
    other = run("submit", "--plan", "plan.json", "--script", "other.json")
    build = next(task["entry"] for task in first["tasks"] if task["id"] == "build")
    fork = run("fork", "--at", str(build), "--cmd", "wc -l")
    return Library(terminal, first, same, other, fork=fork)


def test_a_run_is_shown_on_one_screen(library: Library) -> None:
    """Every task with its state, who did it, and what it cost; and no line is too long."""
    library.terminal.environment["COLUMNS"] = "80"
    lines = library.terminal.call("show", library.first["run"]).stdout.split("\n")

    assert lines[0] == f"run {library.first['run']}  ✓ ok"
    assert lines[1] == "  request  Prepare the release"
    assert "  used     3 calls, 1,920 tokens, $0.036 of $0.50" in lines[4]
    assert max(map(len, lines)) <= 80
    drawn = [re.sub(r" {2,}", "  ", line).strip() for line in lines[7:10]]
    assert re.fullmatch(r"✓ changelog  passed  scripted  1  640  \$0.012  \d.\d s  \d+", drawn[0])
    assert drawn[1].startswith("└─ ✓ build  passed")
    assert drawn[2].startswith("└─ ✓ announce (+ ch…  passed")
    assert lines[-5:-1] == ["answer", "  one", "  two", "  three"]


def test_a_run_is_shown_as_it_stood(library: Library) -> None:
    """At the entry of a verdict the next task has not begun, whatever happened since."""
    run, tasks = library.first["run"], library.first["tasks"]
    then = library.terminal.ask("show", run, "--until", str(tasks[0]["entry"]))
    before = library.terminal.call("show", run, "--until", "0")

    assert [task["state"] for task in then["tasks"]] == ["passed", "pending", "pending"]
    assert (then["state"], then["outcome"], then["answer"]) == ("running", None, None)
    assert then["until"] == tasks[0]["entry"]
    assert "had no request at that time" in str(before.exception)


def test_a_run_is_found_by_its_beginning_and_by_its_entries(library: Library) -> None:
    """Whichever of them a user has at hand names the same run."""
    run, entry = library.other["run"], library.other["tasks"][0]["entry"]
    names = [run, run[:18], str(entry), f"{run}/task/build/0"]

    assert {library.terminal.ask("show", name)["run"] for name in names} == {run}
    assert isinstance(library.terminal.call("show", "nosuch").exception, NoSuchEntry)
    of_the_log = library.terminal.call("show", "0").exception
    assert str(of_the_log) == "no such run: log; forum runs lists them"


def test_a_beginning_that_fits_several_runs_names_none(
    bare: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To guess which run is to be cancelled would be the wrong kind of help."""
    made = [f"01a1c0de-1234-7000-8000-00000000000{n}" for n in range(2)]
    names = iter(made)
    monkeypatch.setattr("forum.app.runs.new_run_id", lambda: next(names))
    for _ in range(2):
        bare.call("submit", "x", "--cmd", "cat", "--detach")

    for beginning in ("01a1c0de-1234", "01a1", "01a"):
        ambiguous = bare.call("cancel", beginning).exception
        assert isinstance(ambiguous, AmbiguousRun)
        listed = f"{made[0]}, {made[1]}; give more of the name, or the index of an entry"
        assert str(ambiguous) == f"{beginning} fits 2 runs: {listed}"
    assert {run["state"] for run in bare.ask("runs")["runs"]} == {"running"}


def test_without_a_name_the_newest_run_is_meant(library: Library) -> None:
    """Which is the one that was just submitted."""
    assert library.terminal.ask("show")["run"] == library.fork["run"]
    assert library.terminal.ask("show")["fork_of"] == library.first["run"]


def test_runs_are_listed_newest_first_and_page_by_page(library: Library) -> None:
    """A table that fits the screen, with the way to the rest of it."""
    library.terminal.environment["COLUMNS"] = "80"
    listed = library.terminal.ask("runs")["runs"]
    page = library.terminal.ask("runs", "--before", listed[1]["run"], "--limit", "1")["runs"]
    table = library.terminal.call("runs", "--limit", "2")

    assert [run["run"] for run in listed] == [
        document["run"] for document in (library.fork, library.other, library.same, library.first)
    ]
    assert [(run["passed"], run["tasks"], run["outcome"]) for run in listed] == [(3, 3, "ok")] * 4
    assert page == listed[2:3]
    assert re.fullmatch(
        # The request gets its room before columns that are left out of a narrow terminal.
        r"run +state +cost +time  request\n"
        r"(\S{18}  ✓ ok +\S+ +\S+ s  Prepare the release\n){2}",
        table.stdout,
    )
    assert table.stderr == f"older ones: forum runs --before {listed[1]['run'][:18]}\n"


def test_runs_that_say_the_same_do_not_differ(library: Library) -> None:
    """One plan from TOML and from JSON, at other times and prices of time, is one plan."""
    compared = library.terminal.call("diff", library.first["run"], library.same["run"])

    assert (compared.exit_code, compared.stdout) == (
        0,
        "the runs are the same (A driven, B driven)\n",
    )


def test_a_difference_is_shown_with_both_sides(library: Library) -> None:
    """The first one in full, the others by their places; status 1."""
    compared = library.terminal.call("diff", library.same["run"], library.other["run"])

    assert compared.exit_code == 1
    assert compared.stdout.startswith("answer of A (")
    assert "\n\nfirst difference: main, accepted\n  policy, line " in compared.stdout
    assert "  task/announce, attempt/1/call/1/reply: " in compared.stdout
    forked = library.terminal.call("diff", library.first["run"], library.fork["run"], "--json")
    parted = json.loads(forked.stdout)
    assert (parted["equal"], parted["count"]) == (False, len(parted["divergences"]))


def test_a_fork_takes_over_what_was_said_and_asks_for_the_rest(library: Library) -> None:
    """Two replies are taken from the record, for nothing; the third comes from the new agent."""
    tasks = {task["id"]: task for task in library.fork["tasks"]}
    entries = library.terminal.ask("ledger", "show", library.fork["run"])["entries"]
    replies = [e["entry"] for e in entries if e["entry"]["kind"] == "reply/1"]
    sources = {r["strand"]: r["facts"].get("source", "live") for r in replies}

    assert sources == {
        "task/changelog": "recorded",
        "task/build": "recorded",
        "task/announce": "live",
    }
    assert tasks["announce"]["model"] == "wc"
    assert library.fork["answer"].strip().isdecimal()
    assert library.fork["spent"]["usd"] == "0.00"
    assert library.terminal.call("replay", library.fork["run"]).exit_code == 0


def test_two_runs_are_measured_side_by_side(library: Library) -> None:
    """What they did, cost and took, in the same units."""
    first, fork = library.first["run"], library.fork["run"]
    measured = library.terminal.ask("bench", first, fork)
    shown = library.terminal.call("bench", first, fork).stdout

    assert [(measured[side]["calls"], measured[side]["usd"]) for side in "ab"] == [
        (3, "0.036"),
        (3, "0.00"),
    ]
    assert measured["a"]["outcome"] == measured["b"]["outcome"] == "ok"
    assert re.search(r"^cost +\$0.036 +\$0.00 +-\$0.036 \(-100%\)$", shown, re.MULTILINE)
    sizes = [measured[side]["record"]["body_bytes"] for side in "ab"]
    assert measured["difference"]["body_bytes"] == sizes[1] - sizes[0]
    assert measured["difference"]["usd"] == "-0.036"


def test_json_is_one_object_that_names_its_schema(library: Library) -> None:
    """A program can tell what it reads, and is not disturbed by talk."""
    a, b = library.first["run"], library.other["run"]
    schemas = {
        ("runs",): "forum.runs/1",
        ("show", a): "forum.run/1",
        ("why", "20"): "forum.why/1",
        ("diff", a, b): "forum.diff/1",
        ("bench", a, b): "forum.bench/1",
        ("replay", a): "forum.replay/1",
        ("gate", "list"): "forum.gates/1",
    }
    printed = {words: library.terminal.call(*words, "--json").stdout for words in schemas}

    assert {words: json.loads(line)["schema"] for words, line in printed.items()} == schemas
    assert {line.count("\n") for line in printed.values()} == {1}
    assert library.first.keys() == library.terminal.ask("show", a).keys()
    assert library.first["cap"] == {"usd": "0.50", "tokens": None, "calls": None, "seconds": 60.0}


def test_a_run_that_goes_on_is_not_played_again(library: Library, tmp_path: Path) -> None:
    """Nothing is made up: a run whose call is still open has nothing to be played from."""
    terminal = Terminal(tmp_path)
    run = terminal.call("submit", "x", "--cmd", "sleep 60", "--detach").stdout.strip()
    replayed = terminal.call("replay", run)

    assert replayed.exit_code == 2
    assert "has not ended; go on with: forum resume" in replayed.stderr
    assert isinstance(
        library.terminal.call("cancel", library.first["run"]).exception, RunAlreadyEnded
    )


def test_a_replay_without_its_record_is_a_mismatch(tmp_path: Path) -> None:
    """What a model said was erased: nobody is asked for it again."""
    terminal = Terminal(tmp_path)
    run = terminal.ask("submit", "x")["run"]
    terminal.call("ledger", "redact", f"{run}/task/answer/1", "output", "--reason", "secret")
    replayed = terminal.call("replay", run)

    assert replayed.exit_code == 4
    assert "a replay calls no model" in replayed.stdout


def test_a_fork_of_what_was_erased_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Nobody could go on with it; accepted, it would be tried again by every later command."""
    terminal = Terminal(tmp_path)
    run = terminal.ask("submit", "x")["run"]
    last = max(entry["index"] for entry in terminal.ask("ledger", "show", run)["entries"])
    terminal.call("ledger", "redact", f"{run}/task/answer/1", "output", "--reason", "secret")
    refused = terminal.type("fork", run, "--at", str(last))

    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"entry {run}/task/answer/1: its body 'output' was erased" in refused.stderr
    assert [each["run"] for each in terminal.ask("runs")["runs"]] == [run]


def test_every_command_shows_what_one_could_type(bare: Terminal) -> None:
    """A newcomer copies an example before reading anything."""
    commands = ["submit", "runs", "show", "why", "resume", "cancel", "fork", "replay", "diff"]
    commands += ["bench", "worker", "gate list", "gate show", "gate approve", "gate edit"]
    helped = {command: bare.call(*command.split(), "--help").stdout for command in commands}

    assert [name for name, text in helped.items() if "\nExamples:\n  " not in text] == []
    assert [name for name, text in helped.items() if f"  forum {name}" not in text] == []
    assert [name for name, text in helped.items() if "--json" not in text] == []


# Deciding


def test_what_nobody_asked_for_is_not_resumed(bare: Terminal) -> None:
    """The log's own entries are no request: whoever waited for their end would wait for ever."""
    bare.note("hello")

    assert isinstance(bare.call("resume", "1").exception, NoSuchRun)


def test_what_a_run_has_yet_to_read_is_not_erased(bare: Terminal) -> None:
    """Whoever drives it could neither go on nor end; cancelled, it gives everything free."""
    bare.type("submit", "x", "--cmd", "cat", "--gate", "plan")
    (gate,) = bare.ask("gate", "list")["gates"]
    entries = bare.ask("ledger", "show", gate["run"])["entries"]
    (accepted,) = [entry["id"] for entry in entries if entry["entry"]["kind"] == "accepted/1"]
    redact = ("ledger", "redact", accepted, "policy", "--reason", "legal")
    refused = bare.call(*redact)
    bare.type("cancel", gate["run"])

    assert isinstance(refused.exception, RunNotEnded)
    assert bare.ask(*redact)["erased"] == 1


def test_a_gate_is_shown_edited_approved_and_passed(bare: Terminal) -> None:
    """Status 6 while it waits, and what was approved is what is carried out."""
    (bare.folder / "plan.json").write_text(json.dumps(PLAN))
    waiting = bare.type("submit", "--plan", "plan.json", "--cmd", "cat", "--gate", "plan")
    (gate,) = bare.ask("gate", "list")["gates"]
    run = gate["run"]

    assert (waiting.returncode, waiting.stdout) == (6, "")
    assert f"forum gate approve {run[:18]} plan" in waiting.stderr
    assert f"forum resume {run[:18]}" in waiting.stderr
    assert "plan" in bare.call("show").stdout.split("gates\n")[1]
    assert isinstance(
        bare.call("gate", "approve", run, "plan", "--digest", "0" * 8).exception, GateChanged
    )
    assert bare.call("gate", "approve", run, "plan", "--digest", gate["digest"][:7]).exit_code == 2

    shown = bare.call("gate", "show", run, "plan").stdout
    (bare.folder / "edited").write_text(shown.replace("Announce it.", "two: tell nobody."))
    (bare.folder / "broken").write_text(shown.replace("announce", "build"))
    assert bare.call("gate", "edit", run, "plan", "--file", "broken").exit_code == 2
    edited = bare.ask("gate", "edit", run, "plan", "--file", "edited")["digest"]
    old = bare.call("gate", "approve", run, "plan", "--digest", gate["digest"])
    assert isinstance(old.exception, GateChanged)
    assert bare.ask("gate", "approve", run, "plan", "--digest", edited[:8])["digest"] == edited
    assert isinstance(bare.call("gate", "reject", run, "plan").exception, GateAlreadyDecided)

    resumed = bare.type("resume", run[:18], "--json")
    done = told(resumed)
    assert (resumed.returncode, done["answer"].partition("\n")[0]) == (0, "two: tell nobody.")
    assert done["gates"][0] | {"decided": "approve", "by": "operator"} == done["gates"][0]
    assert bare.ask("gate", "list")["gates"] == []
    again = bare.call("resume", run)
    assert (again.exit_code, "the run has already ended" in again.stderr) == (0, True)


def test_what_waits_in_a_run_within_a_run_is_told(bare: Terminal) -> None:
    """The outer run does not wait for a person itself, but nothing goes on without one."""
    inner = [{"id": "part", "instruction": "Do the part."}]
    task = {"id": "whole", "instruction": "Do it.", "tasks": inner, "budget": {"seconds": 60}}
    (bare.folder / "plan.json").write_text(json.dumps({"request": "x", "tasks": [task]}))
    waiting = bare.type("submit", "--plan", "plan.json", "--cmd", "cat", "--gate", "task:part")
    (gate,) = bare.ask("gate", "list")["gates"]
    (outer,) = bare.ask("runs")["runs"]

    assert (waiting.returncode, outer["run"] == gate["run"]) == (6, False)
    assert f"forum gate approve {gate['run'][:18]} task/part" in waiting.stderr
    assert bare.ask("show")["waits_for"] == [{"run": gate["run"], "subject": "task/part"}]
    approved = bare.call("gate", "approve", gate["run"], "task:part")
    assert f"forum resume {outer['run'][:18]}" in approved.stderr
    resumed = bare.type("resume", gate["run"][:13])
    assert (resumed.returncode, resumed.stdout) == (0, "Do the part.\n")
    assert len(bare.ask("runs", "--all")["runs"]) == 2


def test_nobody_decides_and_the_default_holds(bare: Terminal) -> None:
    """An approval that may be given by silence is given by it, and said to be."""
    asked = bare.type(
        *("submit", "x", "--cmd", "cat", "--gate", "tasks"),
        *("--gate-seconds", "0", "--gate-default", "approve", "--json"),
    )
    run = told(asked)
    if asked.returncode == 6:  # it was looked at before the time was over
        run = told(bare.type("resume", run["run"], "--json"))

    assert (run["outcome"], run["answer"]) == ("ok", "x")
    assert [(gate["decided"], gate["by"]) for gate in run["gates"]] == [("approve", "deadline")]


# Working


@pytest.fixture
def worker(bare: Terminal) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Return what starts a worker."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [FORUM, *words],
            cwd=bare.folder,
            env=bare.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_worker_carries_out_what_was_handed_over(
    bare: Terminal, worker: Callable[..., subprocess.Popen[str]]
) -> None:
    """What was accepted is durable: nobody needs to be there when it is, and nobody watches."""
    accepted = bare.call("submit", "hello", "--cmd", "cat", "--detach")
    run = accepted.stdout.strip()
    stuck = bare.call("submit", "wait", "--cmd", "sleep 61.7", "--detach").stdout.strip()
    serving = worker("worker", "--tasks", "2", "--json")
    wait_for(lambda: bare.ask("show", run)["state"] == "ended")
    wait_for(lambda: running("sleep\x0061.7") != [])
    cancelled = bare.call("cancel", stuck)
    serving.send_signal(signal.SIGTERM)
    out, err = serving.communicate(timeout=30)

    assert (accepted.exit_code, bare.ask("show", run)["answer"]) == (0, "hello")
    assert (cancelled.exit_code, cancelled.stdout.strip()) == (0, stuck)
    assert bare.ask("show", stuck)["outcome"] == "cancelled"
    assert running("sleep\x0061.7") == []
    assert serving.returncode == 0
    assert json.loads(out)["schema"] == "forum.worker/1"
    assert f"worker {json.loads(out)['worker']} serves " in err
    assert bare.ask("ledger", "verify")["ok"] is True


AGENT = """
import os, sys, time
sys.stdin.read()
log = os.open(sys.argv[1], os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600)
os.write(log, b"asked\\n")
if os.fstat(log).st_size == len(b"asked\\n"):
    time.sleep(62.3)
print("done", end="")
"""


def asked(log: Path) -> int:
    """Return how often the agent was asked."""
    return log.read_text().count("asked") if log.exists() else 0


def test_a_run_that_was_interrupted_is_carried_on_by_resume_alone(
    bare: Terminal, worker: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Ctrl-C means stopped: no other command calls its agent again, and each says that it is there.

    The command and its agents end, with status 130.
    """
    log, agent = tmp_path / "calls", tmp_path / "agent.py"
    agent.write_text(AGENT)
    asking = worker("submit", "x", "--cmd", f"{sys.executable} {agent} {log}")
    wait_for(lambda: asked(log) == 1)
    asking.send_signal(signal.SIGINT)
    out, err = asking.communicate(timeout=30)
    (run,) = bare.ask("runs")["runs"]
    short = run["run"][:18]
    others = [bare.type("submit", "hello", "--cmd", "cat") for _ in range(2)]
    listed = bare.call("runs").stdout
    called = asked(log)
    resumed = bare.type("resume", short)

    assert (asking.returncode, out) == (130, "")
    assert f"interrupted; go on with: forum resume {short}" in err
    assert (run["outcome"], run["state"]) == (None, "interrupted")
    assert [other.stdout for other in others] == ["hello\n"] * 2
    text = f"1 run is interrupted: {short}; go on with: forum resume {short}"
    assert all(text in other.stderr for other in others)
    assert (called, "interrupted" in listed) == (1, True)
    assert (resumed.returncode, resumed.stdout, asked(log)) == (0, "done\n", 2)
    assert "interrupted" not in bare.call("runs").stdout
    assert running(str(agent)) == []
    assert bare.ask("ledger", "verify")["ok"] is True


def test_a_second_ctrl_c_ends_a_command_whose_database_does_not_answer(
    bare: Terminal, worker: Callable[..., subprocess.Popen[str]]
) -> None:
    """Whoever holds the lock may hold it for ever; the command says what became of the run."""
    asking = worker("submit", "wait", "--cmd", "sleep 15.3")
    wait_for(lambda: running("sleep\x0015.3") != [])
    (file,) = bare.folder.parent.rglob("ledger.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        asking.send_signal(signal.SIGINT)
        assert asking.stderr
        lines = next(line for line in asking.stderr if "Ctrl-C again" in line)
        asking.send_signal(signal.SIGINT)
        asking.wait(timeout=10)
    (run,) = bare.ask("runs")["runs"]

    assert f"run {run['run'][:18]} is not interrupted" in lines
    assert (asking.returncode, run["state"]) == (-signal.SIGINT, "running")
    assert bare.call("cancel", run["run"]).exit_code == 0


def test_the_gate_of_an_interrupted_run_is_decided_and_says_that_the_run_waits(
    bare: Terminal,
) -> None:
    """A decision does not resume a run, and no command claims to carry it on."""
    asked = bare.type("submit", "x", "--cmd", "cat", "--gate", "plan")
    (run,) = bare.ask("runs")["runs"]
    (file,) = bare.folder.parent.rglob("ledger.db")
    settings = Settings(file.parent, bare.state, file.parent / "log.key")
    with Forum(settings) as forum:
        forum.runs.interrupt(run["run"])
    decided = bare.type("gate", "approve", run["run"], "plan")
    other = bare.type("submit", "y", "--cmd", "cat")

    assert asked.returncode
    assert f"the run is interrupted; to continue it here: forum resume {run['run'][:18]}" in (
        decided.stderr
    )
    assert "carrying on" not in other.stderr


def test_a_run_that_another_process_carries_out_is_only_left(
    bare: Terminal, worker: Callable[..., subprocess.Popen[str]]
) -> None:
    """Whoever stops looking at it must not stop it for others, and is told who goes on."""
    run = bare.call("submit", "wait", "--cmd", "sleep 64.1", "--detach").stdout.strip()
    worker("worker")
    wait_for(lambda: running("sleep\x0064.1") != [])
    following = worker("resume", run)
    assert following.stderr
    assert following.stderr.readline() == f"run {run}\n"
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=30)

    assert following.returncode == 130
    assert f"stopped following; another process carries run {run[:18]} on" in err
    assert bare.ask("show", run)["state"] == "running"
    assert running("sleep\x0064.1") != []


def test_a_command_says_which_other_runs_it_carries_on(bare: Terminal) -> None:
    """An agent that somebody else has asked for is called, and paid, by this command."""
    other = bare.call("submit", "one", "--cmd", "cat", "--detach").stdout.strip()
    done = bare.type("submit", "two", "--cmd", "cat")

    assert f"carrying on 1 run accepted before: {other[:18]}\n" in done.stderr
    assert bare.ask("show", other)["answer"] == "one"


# Looking


def test_nothing_that_was_asked_can_steer_the_terminal(bare: Terminal) -> None:
    """A request, an agent's answer or its error may hold escape sequences; a screen does not."""
    bare.call("submit", "\x1b[31mred\x07 \u202ereversed", "--cmd", "cat", "--detach")
    shown = bare.call("show").stdout + bare.call("runs").stdout

    assert "[31mred" in shown
    assert not {"\x1b", "\x07", "\u202e"} & {*shown}


@pytest.fixture
def screen() -> Iterator[tuple[int, int]]:
    """Return both ends of a pseudo-terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def test_on_a_terminal_the_tree_is_drawn_again(bare: Terminal, screen: tuple[int, int]) -> None:
    """In the same place; and NO_COLOR takes the colours away, not the tree."""
    ours, theirs = screen
    asked = subprocess.run(
        [FORUM, "submit", "x", "--cmd", "cat"],
        cwd=bare.folder,
        env=bare.environment | {"TERM": "xterm", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
    )
    seen = os.read(ours, 100_000).decode()

    assert (asked.returncode, asked.stdout) == (0, b"x\n")
    assert "✓ answer" in seen
    assert re.search(r"\x1b\[\d+A\x1b\[J", seen)
    assert not re.search(r"\x1b\[[\d;]*m", seen)


# What it costs


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", {"dbos", "asyncio", "forum.app", "forum.engine", "forum.runs"}),
        ("submit --help", {"dbos", "sqlalchemy", "forum.stores"}),
        ("runs", {"dbos", "sqlalchemy", "forum.models", "prometheus_client"}),
    ],
)
def test_a_command_loads_only_what_it_uses(
    bare: Terminal, command: str, unwanted: set[str]
) -> None:
    """The durable engine takes a second to load; what only reads must not pay for it."""
    bare.call("init")
    program = (
        "import sys\n"
        "from forum.surfaces.cli import cli\n"
        "try:\n    cli.main(sys.argv[1:], standalone_mode=False)\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program, *command.split()],
        cwd=bare.folder,
        env=bare.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stderr.split()

    assert unwanted & {*loaded} == set()
