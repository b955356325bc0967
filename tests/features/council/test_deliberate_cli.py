"""Deliberations at the command line: what is asked, told, kept, replayed and refused.

Whatever carries out a run is a process of its own, as it is for a user; what only reads is called
in this one.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import pytest
import rfc8785
import yaml
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st

from forum.app.formatting import SHORT_ID_LENGTH
from forum.errors import StoreFailed
from forum.features.council.kinds import Accord, End, Ground
from forum.features.symposium import session_folders
from forum.features.symposium.kinds import ReplayPin
from forum.features.symposium.session_folders import load_config
from forum.surfaces.cli.panel_lines import dissent_lines, panel_lines
from forum.surfaces.schemas.fields import SpentForm
from forum.surfaces.schemas.panels import (
    BaselineForm,
    BlockerForm,
    ChangeForm,
    CouncilForm,
    MinorityForm,
    RoundForm,
    SeatForm,
    VoteForm,
)
from tests.features.council.forged import honest
from tests.features.symposium.own_examples import SCRIPT, SELECTOR_SCRIPT, write_examples
from tests.spoken import ballot, claiming
from tests.surfaces.terminal import FORUM, Terminal

KEY = "sk-9f8e7d6c5b4a39281706f5e4"
SESSION = "canal-two-rounds"
STEERING = "\x1b[2J\x1b]0;another\x07"
"""A name that would wipe the screen, and call the window otherwise."""


WAYS = (
    (claiming("no", "it is old"), ballot("yes", because=["c1", "c2", "c3"])),
    (claiming("yes", "it was tested"), ballot("yes")),
    (claiming("no", "it is rusty"), claiming("yes", "it is paint")),
    (ballot("yes"), ballot("yes")),
    (ballot("no"), ballot("no", decides="a core sample", blocker="nobody has dived")),
)
"""The first seat is convinced, the third one conforms, the last one objects."""
AGREEING = ((ballot("yes"),),) * 5


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return the folder of our own configs and scripts."""
    return write_examples(tmp_path / "examples")


def script(user: Terminal, ways: tuple[tuple[str, ...], ...]) -> str:
    """Write the script of a council whose seats go these ways, and return its name."""
    moves = {
        f"~ballot.{turn}.{seat}": [{"say": text, "tokens": 100, "input_tokens": 60}]
        for seat, way in enumerate(ways, 1)
        for turn, text in enumerate(way)
    }
    (user.folder / "seats.json").write_text(json.dumps({"moves": moves, "usd": 0.002}))
    return "seats.json"


def ask(user: Terminal, *words: str) -> subprocess.CompletedProcess[str]:
    """Ask a council whether a bridge is safe."""
    return user.type("deliberate", "Is the bridge safe?", *words)


def newest(user: Terminal) -> str:
    """Return the newest run."""
    run: str = user.ask("runs")["runs"][0]["run"]
    return run


def hold(
    user: Terminal, examples: Path, config: str = "two-rounds", *words: str
) -> subprocess.CompletedProcess[str]:
    """Hold a session of the open protocol by its script."""
    return user.type(
        "deliberate",
        "--protocol",
        "symposium",
        "--config",
        str(examples / f"configs/{config}.yaml"),
        "--script",
        str(examples / SCRIPT),
        "--output",
        "sessions",
        *words,
    )


# A council


@pytest.mark.slow
def test_a_panel_is_asked_and_whoever_disagrees_is_told(user: Terminal) -> None:
    """The answer is on stdout, and that it is blocked; how it came about is beside it."""
    options = ("--option", "yes", "--option", "no", "--rounds", "1")
    asked = ask(user, *options, "--script", script(user, WAYS))
    deliberation = user.ask("show")["deliberation"]
    shown = user.call("show").stdout

    assert asked.returncode == 9, asked.stderr
    assert asked.stdout.startswith("Blocked: 1 objection must be answered")
    assert asked.stdout.endswith("\n\nyes\n")
    assert "seat 1, round 0: ballot sealed after" in asked.stderr
    assert "(5 of 5 ballots)" in asked.stderr
    assert "baseline    no (67 % of those asked), 300 tokens, $0.006" in asked.stderr
    assert "outcome     blocked, by vote, after 1 exchange, 1,000 tokens, $0.02" in asked.stderr
    assert "another answer than the baseline" in asked.stderr
    assert "50 %: 1 of 2 changes without a reason" in asked.stderr
    assert "minority    no (seats 3, 5)" in asked.stderr
    assert "seat 5 blocks: nobody has dived" in asked.stderr
    assert "All seats are the same agent" in asked.stderr
    assert deliberation["protocol"] == "council"
    assert [seat["weighed"] for seat in deliberation["seats"]] == ["yes", "yes", "no", "yes", "no"]
    assert [(one["seat"], one["conformity"]) for one in deliberation["changes"]] == [
        (1, False),
        (3, True),
    ]
    assert deliberation["baseline"]["spent"] == {"usd": "0.006", "tokens": 300}
    assert deliberation["spent"] == {"usd": "0.02", "tokens": 1000}
    assert deliberation["minority"][0]["argument"] in ("it is rusty", "it is old")
    for words in ("changed", "minority report", "would decide", "blockers", "warnings"):
        assert f"\n{words}\n" in shown
    assert "seat 3, round 1: no -> yes, without a reason: conformity, not weighed" in shown
    assert max(map(len, unstyle(shown).split("\n"))) <= 80
    assert " \n" not in unstyle(shown)
    assert user.ask("ledger", "verify")["ok"] is True


@pytest.mark.slow
def test_what_was_recorded_of_a_panel_can_be_asked_for_in_words(user: Terminal) -> None:
    """`runs`, `why`, `show --until` and both replays know what a deliberation is."""
    ask(user, "--script", script(user, WAYS), "--rounds", "1", "--option", "yes", "--option", "no")
    run = newest(user)
    (listed,) = user.ask("runs")["runs"]
    size = user.ask("ledger", "verify")["size"]
    words = [user.call("why", str(entry)).stdout.split("\n")[0] for entry in range(2, size)]

    user.environment["COLUMNS"] = "120"
    assert user.call("runs").stdout.split("\n")[1].split()[4] == "10/10"
    assert (listed["passed"], listed["tasks"]) == (10, 10)
    for said in (
        "a council of 5 seats sat down",
        "seat 5, round 1: its ballot was sealed",
        "3 first answers, 66.6 % of those asked agree",
        "all ballots of round 0 are in, and may be shown",
        "the council closed (rounds): blocked, from 10 ballots",
    ):
        assert any(said in line for line in words), said
    assert "ballots sealed" in user.call("show", run, "--until", "20").stdout
    for command in ("replay", "execution-replay"):
        again = user.call("deliberate", command, run)
        assert (again.exit_code, again.stdout) == (0, "the same, ballot by ballot\n")
    assert user.ask("deliberate", "metrics", run)["conformity"] == 0.5


@pytest.mark.slow
def test_a_panel_that_agrees_at_once_is_not_asked_further(user: Terminal) -> None:
    """Two of three are enough where that is said to be: nobody else costs anything."""
    ways = ((ballot("yes"),), (ballot("no"),), (ballot("Yes."),), (), ())
    asked = ask(user, "--script", script(user, ways), "--threshold", "2/3", "--json")
    document = json.loads(asked.stdout)

    assert asked.returncode == 0, asked.stderr
    assert document["spent"]["calls"] == 3
    assert (document["deliberation"]["end"], document["deliberation"]["ground"]) == ("gate", "gate")


@pytest.mark.slow
def test_a_question_comes_from_a_file_or_from_standard_input(user: Terminal) -> None:
    """Whoever has it there need not put it on the command line."""
    name = script(user, AGREEING)
    (user.folder / "question.md").write_text("Is the file safe?")
    piped = subprocess.run(
        [FORUM, "deliberate", "-", "--script", name],
        cwd=user.folder,
        env=user.environment,
        input="Is the pipe safe?",
        capture_output=True,
        text=True,
        check=False,
    )
    named = user.type("deliberate", "@question.md", "--script", name)

    assert (piped.returncode, named.returncode) == (0, 0), piped.stderr + named.stderr
    asked = [run["request"] for run in user.ask("runs")["runs"]]
    assert asked == ["Is the file safe?", "Is the pipe safe?"]


@pytest.mark.slow
def test_the_first_word_decides_whether_it_is_a_question(user: Terminal) -> None:
    """A question that is the name of a command can still be asked."""
    asked = user.type("deliberate", "ask", "replay", "--script", script(user, AGREEING))

    assert asked.returncode == 0, asked.stderr
    assert user.ask("show")["request"] == "replay"
    assert user.call("deliberate", "replay").exit_code == 2


@pytest.mark.slow
def test_a_panel_stops_at_its_limits(user: Terminal) -> None:
    """What was said until then stays, and the status tells that it was a limit."""
    asked = ask(user, "--script", script(user, WAYS), "--max-calls", "4", "--json")
    document = json.loads(asked.stdout)

    assert asked.returncode == 5, asked.stderr
    assert document["spent"]["calls"] <= 4
    assert document["deliberation"]["end"] == "stopped"
    assert "budget: " in asked.stderr


@pytest.mark.slow
def test_a_seat_that_could_not_be_heard_is_told_with_its_reason(user: Terminal) -> None:
    """An absent vote is no vote, and whoever reads the answer should know why."""
    moves: dict[str, Any] = {f"~ballot.0.{seat}": [{"say": ballot("yes")}] for seat in (1, 2, 3, 4)}
    moves["~ballot.0.5"] = [{"fail": "http 404"}]
    (user.folder / "seats.json").write_text(json.dumps({"moves": moves}))
    asked = ask(user, "--script", "seats.json", "--baseline", "0", "--json")
    deliberation = json.loads(asked.stdout)["deliberation"]

    assert asked.returncode == 0, asked.stderr
    assert deliberation["absent"] == [{"seat": 5, "reason": "http 404"}]
    assert "absent\n  seat 5: http 404\n" in user.call("show").stdout


@pytest.mark.slow
def test_a_task_of_a_plan_is_deliberated_on(user: Terminal) -> None:
    """A panel in a plan file is written as it is asked for everywhere, and takes its seats."""
    moves = {f"~ballot.0.{seat}": [{"say": ballot("yes")}] for seat in (1, 2, 3)}
    plan = {
        "request": "Decide, then tell",
        "policy": {"agents": {"": {"kind": "scripted"}, "a": {"kind": "scripted", "moves": moves}}},
        "tasks": [
            {"id": "decide", "instruction": "Is it?", "panel": {"seats": 3, "threshold": 0.66}},
            {"id": "tell", "instruction": "Tell it.", "needs": ["decide"]},
        ],
    }
    (user.folder / "plan.json").write_text(json.dumps(plan))
    done = user.type("submit", "--plan", "plan.json", "--json")
    tasks = {task["id"]: task for task in json.loads(done.stdout)["tasks"]}
    within = user.ask("show", tasks["decide"]["run"])

    assert done.returncode == 0, done.stderr
    assert within["answer"] == "yes"
    assert within["deliberation"]["seated"] == 3
    assert {seat["agent"] for seat in within["deliberation"]["seats"]} == {"a"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("ask",), "say what the question is"),
        (("--seats", "3"), "say what the question is"),
        (("Is it?",), "forum demo panel"),
        (("Is it?", "--cmd", "cat", "--seats", "plumber"), "no persona is called 'plumber'"),
        (("Is it?", "--cmd", "cat", "--seats", "0"), "from 1 to 100 can deliberate"),
        (("Is it?", "--cmd", "cat", "--models", "nobody"), "no agent is called 'nobody'"),
        (("Is it?", "--cmd", "cat", "--check", "nothing"), "no tool is called 'nothing'"),
        (("Is it?", "--cmd", "cat", "--threshold", "3/2"), "is not between 0.001 and 1"),
        (("Is it?", "--cmd", "cat", "--threshold", "0"), "is not between 0.001 and 1"),
        (("Is it?", "--cmd", "cat", "--models", ""), "without it all are asked"),
        (("Is it?", "--cmd", "cat", "--option", "yes"), "nothing to choose"),
        (("Is it?", "--cmd", "cat", "--threshold", "most"), "write 0.6 or 2/3"),
        (("Is it?", "--cmd", "cat", "--threshold", "1e999999999"), "write 0.6 or 2/3"),
        (("Is it?", "--cmd", "cat", "--seats", ","), "say how many"),
        (("", "--cmd", "cat"), "no question"),
        ((" \n", "--cmd", "cat"), "no question"),
        (("list", "--cmd", "cat"), "forum deliberate ask list"),
        (("valdate", "--cmd", "cat"), "forum deliberate ask valdate"),
        (("execution-replays", "--cmd", "cat"), "forum deliberate ask execution-replays"),
        (("Is it?", "--cmd", "cat", "--output", "x"), "add --protocol symposium"),
        (("--config", "{config}", "--protocol", "council"), "leave out --protocol council"),
        (
            ("--config", "{config}", "--selector-script", "{script}"),
            "only with --config and --script",
        ),
        (("--config", "{config}", "--option", "yes"), "only a council counts ballots"),
        (("--config", "{config}", "--seats", "3"), "the config of a symposium says that"),
        (("--config", "{config}", "--output", "x", "--detach"), "forum deliberate export"),
        (("--config", "{config}"), "or set OPENAI_API_KEY"),
        (("--config", "{config}", "--agent", "a=cat"), "no agent serves the model"),
        (("--config", "{script}"), "Object "),
        (("@missing.md", "--cmd", "cat"), "No such file"),
        (("validate", "missing.json"), "no such file"),
        (("validate",), "Missing argument"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_recorded(
    user: Terminal, examples: Path, words: tuple[str, ...], text: str
) -> None:
    """Wrong usage is status 2, and the line says what to do about it."""
    files = {
        "{config}": str(examples / "configs/openai.yaml"),
        "{script}": str(examples / SCRIPT),
    }
    refused = user.call("deliberate", *(files.get(word, word) for word in words))

    assert refused.exit_code == 2, refused.output
    assert text in refused.stderr
    assert not user.database.exists()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["council", "symposium"])
def test_a_panel_that_has_not_begun_is_no_other_run(user: Terminal, protocol: str) -> None:
    """Whoever asks too early is told what to wait for."""
    (user.folder / "forum.toml").write_text('[models.ash]\nkind = "scripted"\n')
    user.type("deliberate", "Is it?", "--protocol", protocol, "--detach")
    result = user.call("deliberate", "replay", newest(user))

    assert result.exit_code == 2
    assert "has not begun; see it through: forum resume" in result.stderr


@pytest.mark.slow
def test_a_council_that_was_interrupted_is_not_said_to_be_another(user: Terminal) -> None:
    """Status 4 is for a record from which something else follows; here only the rest is missing."""
    (user.folder / "seat.sh").write_text("#!/bin/sh\nkill -INT $PPID; sleep 60\n")
    (user.folder / "seat.sh").chmod(0o755)
    user.type("deliberate", "Is it?", "--seats", "1", "--cmd", "./seat.sh")

    for command in (("deliberate", "replay"), ("deliberate", "execution-replay"), ("replay",)):
        result = user.call(*command, newest(user))
        assert result.exit_code == 2, result.output
        assert "has not ended; go on with: forum resume" in result.stderr


# Configs of others

BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefghi")
)
NO_CONFIGS: dict[str, tuple[str, str]] = {
    "a date that is none": ("a: 2031-99-99", "month"),
    "a number that is none": ("a: 0x_", "invalid literal"),
    "a number of 5,000 digits": ("a: " + "9" * 5000, "4300"),
    "a hundred thousand brackets": ("[" * 100_000, "nested"),
    "aliases of aliases": (BOMB, "alias"),
    "what holds itself": ("a: &a [*a]", "alias"),
    "a name twice": ("session_id: a\nsession_id: b", "'session_id' is there twice"),
    "a name twice, in JSON": ('{"session_id": "a", "session_id": "b"}', "twice"),
    "a name that is a list": ("? [a]\n: b", "unhashable"),
    "a list": ("[]", "not an object"),
}


@pytest.mark.parametrize(("text", "why"), NO_CONFIGS.values(), ids=NO_CONFIGS)
def test_a_config_that_is_none_is_refused_with_a_reason(
    user: Terminal, text: str, why: str
) -> None:
    """A config may come from anybody: no traceback, and no gigabytes of aliases."""
    (user.folder / "config.yaml").write_text(text)
    refused = user.call("deliberate", "--config", "config.yaml", "--cmd", "cat")

    assert refused.exit_code == 2, refused.exception
    assert why in refused.stderr


def test_a_config_is_json_as_others_write_it(user: Terminal, examples: Path) -> None:
    """With tabs, and with pairs of surrogates, which to YAML are something else."""
    config = yaml.safe_load((examples / "configs/two-rounds.yaml").read_text())
    file = user.folder / "config.json"
    file.write_text(json.dumps(config | {"problem_statement": "Why \U0001f600?"}, indent="\t"))

    assert load_config(file)["problem_statement"] == "Why \U0001f600?"


# The open protocol


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("two-rounds", ()),
        ("rules-selector", ()),
        ("llm-selector", ("--selector-script", f"{{examples}}/{SELECTOR_SCRIPT}")),
    ],
)
def test_a_session_of_each_selector_is_held_end_to_end(
    user: Terminal, examples: Path, config: str, more: tuple[str, ...]
) -> None:
    """The engine holds them, and others find in the folder what the protocol wants there."""
    words = [word.format(examples=examples) for word in more]
    held = hold(user, examples, config, *words)
    (folder,) = (user.folder / "sessions").iterdir()
    artifact = json.loads((folder / "artifact.json").read_bytes())
    digest = sha256(rfc8785.dumps(artifact["canonical_transcript"])).hexdigest()

    assert held.returncode == 0, held.stderr
    answer = artifact["canonical_transcript"][-1]["content"]["integrated_answer"]
    assert held.stdout == f"{answer}\n"
    assert artifact["transcript_digest"] == digest
    assert folder.name == artifact["session_id"]
    assert json.loads((folder / "manifest.json").read_bytes())["status"] == "complete"
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    for command, path in (
        ("validate", folder / "artifact.json"),
        ("replay", folder),
        ("execution-replay", folder / "artifact.json"),
        ("replay", newest(user)),
        ("metrics", folder),
    ):
        done = user.call("deliberate", command, str(path), "--json")
        assert done.exit_code == 0, done.output
    counted = user.ask("deliberate", "metrics", str(folder))
    assert (
        counted["tokens_cumulative"]["total_tokens"] == artifact["cumulative_usage"]["total_tokens"]
    )
    assert user.ask("ledger", "verify")["ok"] is True
    assert max(map(len, unstyle(user.call("show").stdout).split("\n"))) <= 80


@pytest.mark.slow
def test_each_turn_is_printed_while_the_session_goes_on(user: Terminal, examples: Path) -> None:
    """Its words, once, below its speaker; the answer is on stdout only."""
    held = hold(user, examples)
    quiet = user.type(
        *("--quiet", "deliberate", "--config", str(examples / "configs/two-rounds.yaml")),
        *("--script", str(examples / SCRIPT)),
    )
    messages = user.ask("show", newest(user))["deliberation"]["messages"]
    text = " ".join(held.stderr.split())

    for message in messages[1:-1]:
        assert text.count(f"{message['speaker']}: {' '.join(message['text'].split())}") == 1
    assert " ".join(messages[-1]["text"].split()) not in text
    assert (quiet.returncode, "critic:" in quiet.stderr) == (0, False)


@pytest.mark.slow
def test_the_same_session_again_destroys_nothing(user: Terminal, examples: Path) -> None:
    """A folder that is there belongs to whoever made it; the reference truncates its journal."""
    hold(user, examples)
    folder = user.folder / "sessions" / SESSION
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    again = hold(user, examples)

    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert "another session_id" in again.stderr
    assert again.stderr.endswith(f"see it: forum show {newest(user)[:SHORT_ID_LENGTH]}\n")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert len(user.ask("runs")["runs"]) == 1


@pytest.mark.slow
def test_a_folder_of_somebody_else_is_left_alone(user: Terminal, examples: Path) -> None:
    """Whatever is in it: only a folder that names this run is written to again."""
    hold(user, examples)
    folder = user.folder / "others" / SESSION
    folder.mkdir(parents=True)
    (folder / "artifact.json").write_text("mine")
    export = ("deliberate", "export", newest(user), "--output", "others")
    unnamed = user.call(*export)
    (folder / "forum.json").write_text(json.dumps({"run": STEERING, "origin": "o"}))
    named = user.call(*export)
    begun = hold(user, examples, "two-rounds", "--output", "others")

    assert (unnamed.exit_code, named.exit_code, begun.returncode) == (2, 2, 2)
    assert "\x1b" not in named.stderr + begun.stderr
    assert (folder / "artifact.json").read_text() == "mine"


@pytest.mark.slow
def test_links_in_a_folder_lead_nowhere(user: Terminal, examples: Path) -> None:
    """Whoever may write into it would have us write into the folders of others."""
    hold(user, examples)
    folder, elsewhere = user.folder / "sessions" / SESSION, user.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (folder / "artifact.json.new").symlink_to(elsewhere / "file")
    (user.folder / "others").mkdir()
    (user.folder / "others" / SESSION).symlink_to(elsewhere / "empty")
    (elsewhere / "empty").mkdir()
    file = user.call("deliberate", "export", newest(user), "--output", "sessions")
    whole = user.call("deliberate", "export", newest(user), "--output", "others")

    assert (file.exit_code, whole.exit_code) == (1, 2)
    assert (elsewhere / "file").read_text() == "mine"
    assert not (folder / "artifact.json").is_symlink()
    assert not list((elsewhere / "empty").iterdir())


@pytest.mark.slow
def test_a_session_that_did_not_begin_leaves_no_folder(user: Terminal, examples: Path) -> None:
    """Else the next try is told that somebody was there before."""
    config, replies = (f"{examples}/{name}" for name in ("configs/two-rounds.yaml", SCRIPT))
    words = ("deliberate", "--config", config, "--script", replies, "--output", "sessions")
    (user.folder / "file").touch()
    failed = user.type(*words, FORUM_STATE_DIR=str(user.folder / "file"))

    assert failed.returncode == 1
    assert not list((user.folder / "sessions").iterdir())


TURNS = """#!/bin/sh
cat >/dev/null
case $FORUM_TASK in
"~turn.1") echo '{"text": "a"}';;
"~turn.2") %s; echo '{"next_action": "finalize", "rationale": "a", "confidence": 1, "focus": "a",
  "next_agents": [], "resolved_disagreements": [], "unresolved_disagreements": []}';;
*) echo '{"integrated_answer": "No.", "resolved_disagreements": [],
  "unresolved_disagreements": []}';;
esac
"""


@pytest.mark.slow
def test_a_session_that_the_user_has_capped_names_that_cap(user: Terminal) -> None:
    """Its config has another; and whoever was not asked has taken no turn."""
    (user.folder / "turn.sh").write_text(TURNS % "true")
    (user.folder / "turn.sh").chmod(0o755)
    words = ("--protocol", "symposium", "--seats", "critic", "--cmd", "./turn.sh")
    held = user.type("deliberate", "Is it?", *words, "--max-calls", "1")

    assert held.returncode == 5, held.stderr
    assert "budget: 1 of 2 turns taken, 1 of 1 call," in held.stderr
    reason = "It failed: budget: 1 call more was needed, and 1 call of 1 call was used (at turn 2)"
    assert reason in " ".join(held.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("rm -r sessions", "No such file"),
        ("cd sessions/* && mkdir artifact.json.new", "artifact.json: Is a directory"),
    ],
)
def test_an_answer_that_was_paid_for_is_told_even_if_it_cannot_be_kept(
    user: Terminal, trouble: str, why: str
) -> None:
    """Only its files are missing, and follow from the ledger whenever there is room for them."""
    (user.folder / "turn.sh").write_text(TURNS % trouble)
    (user.folder / "turn.sh").chmod(0o755)
    words = ("--protocol", "symposium", "--seats", "critic", "--cmd", "./turn.sh")
    held = user.type("deliberate", "Is it?", *words, "--output", "sessions")
    again = user.call("deliberate", "export", newest(user), "--output", "others")

    assert (held.returncode, held.stdout) == (1, "No.\n"), held.stderr
    assert why in held.stderr
    assert "try again: forum deliberate export" in held.stderr
    assert "database" not in held.stderr
    assert again.exit_code == 0


@pytest.mark.slow
def test_a_session_that_was_interrupted_says_how_its_folder_is_written(user: Terminal) -> None:
    """Whoever resumes it does not know of the folder, which would stay as it was at first."""
    (user.folder / "turn.sh").write_text(TURNS % "kill -INT $PPID; sleep 60")
    (user.folder / "turn.sh").chmod(0o755)
    words = ("--protocol", "symposium", "--seats", "critic", "--cmd", "./turn.sh")
    held = user.type("deliberate", "Is it?", *words, "--output", "my sessions")
    run = newest(user)
    (folder,) = (user.folder / "my sessions").iterdir()
    checked = user.call("deliberate", "validate", str(folder))

    assert held.returncode == 130, held.stderr
    assert held.stderr.endswith(
        f"forum resume {run[:SHORT_ID_LENGTH]}; "
        f"then: forum deliberate export {run[:SHORT_ID_LENGTH]} --output 'my sessions'\n"
    )
    assert f"forum deliberate export {run[:SHORT_ID_LENGTH]} --output" in checked.stderr


def test_a_full_disk_is_told_before_anybody_is_asked(
    user: Terminal, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the ledger that failed: the run is there, and can go on."""

    def full(folder: Path, files: Mapping[str, bytes]) -> None:
        raise StoreFailed(f"writing {folder / next(iter(files))}", "No space left on device")

    monkeypatch.setattr(session_folders, "write_files", full)
    result = user.call(
        *("deliberate", "--config", str(examples / "configs/two-rounds.yaml")),
        *("--script", str(examples / SCRIPT), "--output", "sessions"),
    )
    run = newest(user)

    assert result.exit_code == 1
    assert f"writing sessions/{SESSION}/forum.json: No space left on device" in result.stderr
    assert (
        f"go on with: forum resume {run[:SHORT_ID_LENGTH]}; then: forum deliberate export"
        in result.stderr
    )
    assert user.ask("show", run)["spent"]["calls"] == 0


@pytest.mark.slow
def test_an_artifact_is_read_whatever_lies_beside_it(user: Terminal, examples: Path) -> None:
    """Who sends a session has written all that is in its folder, and may name any run there."""
    hold(user, examples)
    user.type("submit", "Say something.", "--cmd", "echo no session")
    folder = user.folder / "sessions" / SESSION
    origin = json.loads((folder / "forum.json").read_bytes())["origin"]
    deep = "[" * 200_000
    beside = [
        ("forum.json", '{"x":' + deep),
        ("forum.json", json.dumps({"run": newest(user), "origin": origin})),
        ("forum.json", json.dumps({"run": "log", "origin": origin})),
        ("forum.json", '{"run": "\xff", "origin": ""}'),
        ("manifest.json", deep),
    ]
    for name, text in beside:
        (folder / name).write_text(text, encoding="latin-1")
        for command in ("replay", "metrics"):
            result = user.call("deliberate", command, str(folder))
            assert result.exit_code == 0, (name, text[:80], result.output, result.exception)


def test_the_names_in_an_artifact_do_not_steer_the_terminal(user: Terminal) -> None:
    """They are keys of what is counted, and written by whoever made it."""
    artifact = json.dumps(honest()).replace('"b"', json.dumps(STEERING))
    (user.folder / "artifact.json").write_text(artifact)
    result = user.call("deliberate", "metrics", "artifact.json")

    assert result.exit_code == 0, result.output
    assert "another" in result.stdout
    assert "\x1b" not in result.stdout


def test_what_is_no_artifact_is_not_a_matter_of_pins(user: Terminal) -> None:
    """No runtime whatever could carry it out again."""
    (user.folder / "artifact.json").write_text("{")

    assert user.call("deliberate", "execution-replay", "artifact.json").exit_code == 1


def test_only_a_symposium_is_exported(user: Terminal) -> None:
    """The log's own run was asked for by nobody."""
    user.call("init")
    result = user.call("deliberate", "export", "1", "--output", "sessions")

    assert result.exit_code == 2
    assert "run log is no deliberation; its evidence: forum ledger export log" in result.stderr
    assert not (user.folder / "sessions").exists()


@pytest.mark.slow
def test_an_altered_artifact_is_told_from_what_was_recorded(user: Terminal, examples: Path) -> None:
    """Also one whose digests were made to fit: the ledger has another transcript."""
    hold(user, examples)
    folder = user.folder / "sessions" / SESSION
    artifact = json.loads((folder / "artifact.json").read_bytes())
    artifact["canonical_transcript"][-1]["content"]["integrated_answer"] = "Do nothing."
    (folder / "artifact.json").write_text(json.dumps(artifact))
    careless = [
        user.call("deliberate", command, str(folder)).exit_code
        for command in ("validate", "replay", "execution-replay")
    ]
    digest = sha256(rfc8785.dumps(artifact["canonical_transcript"])).hexdigest()
    (folder / "artifact.json").write_text(json.dumps(artifact | {"transcript_digest": digest}))
    careful = {
        command: user.call("deliberate", command, str(folder))
        for command in ("validate", "replay", "execution-replay")
    }
    exported = user.call("deliberate", "export", newest(user), "--output", "sessions")

    assert careless == [1, 4, 4]
    assert careful["validate"].exit_code == 0
    for command in ("replay", "execution-replay"):
        assert careful[command].exit_code == 4
        assert "the first message that is another one: msg-013" in careful[command].stdout
    assert exported.exit_code == 0
    assert user.call("deliberate", "replay", str(folder)).exit_code == 0


@pytest.mark.slow
def test_a_session_is_carried_out_again_only_if_all_pins_are_held(
    user: Terminal, examples: Path
) -> None:
    """The first that cannot be is named, with a status of its own; nothing else is tried."""
    hold(user, examples)
    folder, replies = user.folder / "sessions" / SESSION, examples / SCRIPT
    again = ("deliberate", "execution-replay", str(folder))
    script = ("--script", str(replies))
    by_script = user.call(*again, *script)
    (folder / "forum.json").unlink()
    unknown = user.call(*again, "--json")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["producer"]["version"] = "0.0.1"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    other = user.call(*again, *script)

    assert by_script.exit_code == 0, by_script.output
    # A forged session comes with the script that was forged with it.
    assert "compared with no ledger" in by_script.stdout
    assert (unknown.exit_code, json.loads(unknown.stdout)["pin"]) == (7, "adapter")
    assert other.exit_code == 7
    assert "the pin `runtime` cannot be held" in other.stderr


@pytest.mark.slow
def test_a_replay_tells_what_it_checked_and_keeps_what_it_executed(
    user: Terminal, examples: Path
) -> None:
    """Every pin is checked or assumed; the folder beside holds the session as it went now."""
    hold(user, examples)
    folder = user.folder / "sessions" / SESSION
    again = ("deliberate", "execution-replay", str(folder))
    by_script = (*again, "--script", str(examples / SCRIPT), "--output", "again")
    document = {
        name: user.ask(*words) for name, words in (("record", again), ("script", by_script))
    }
    words = user.call(*again, "--output", "sessions")
    twice = user.call(*again, "--output", "sessions")

    for form in document.values():
        pins = (*form["conditions_checked"], *form["conditions_assumed"])
        assert sorted(pins) == sorted(ReplayPin)
    assert document["record"]["conditions_checked"] == [
        *("runtime", "provider", "model", "tool_env", "persona", "transcript_prefix"),
    ]
    # An artifact with its own script states everything else only once.
    assert document["script"]["conditions_checked"] == ["runtime"]
    assert words.exit_code == 0, words.output
    assert "conditions checked: runtime, provider, model" in words.stdout
    assert "conditions assumed: adapter, sampling, cache, wallclock" in words.stdout
    for place in ("sessions", "again"):
        kept = user.folder / place / f"{SESSION}-replay"
        names = sorted(file.name for file in kept.iterdir())
        assert names == sorted({file.name for file in folder.iterdir()} - {"forum.json"})
        assert (kept / "artifact.json").read_bytes() == (folder / "artifact.json").read_bytes()
    assert (twice.exit_code, "is there already" in twice.stderr) == (2, True)


@pytest.mark.slow
def test_a_replay_that_is_refused_leaves_no_folder(user: Terminal, examples: Path) -> None:
    """A folder would look as if something had been executed."""
    hold(user, examples)
    folder = user.folder / "sessions" / SESSION
    (folder / "forum.json").unlink()
    refused = user.call("deliberate", "execution-replay", str(folder), "--output", "again")

    assert refused.exit_code == 7
    assert list((user.folder / "again").iterdir()) == []


@pytest.mark.slow
def test_metrics_are_kept_beside_the_artifact_and_fit_a_screen(
    user: Terminal, examples: Path
) -> None:
    """The file has what --json prints; a run of the ledger has no folder to keep it in."""
    hold(user, examples)
    folder = user.folder / "sessions" / SESSION
    result = user.call("deliberate", "metrics", str(folder))
    kept = json.loads((folder / "metrics.json").read_bytes())
    printed = user.ask("deliberate", "metrics", newest(user))

    assert result.exit_code == 0, result.output
    assert kept == {name: value for name, value in printed.items() if name != "schema"}
    assert f"session  {SESSION}" in result.stdout
    assert f"{kept['tokens_cumulative']['total_tokens']:,}" in result.stdout
    lines = result.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80 + len(str(user.folder))


@pytest.mark.slow
def test_what_was_erased_cannot_be_carried_out_again(user: Terminal, examples: Path) -> None:
    """A replay that holds less than it says would find a match that means nothing."""
    hold(user, examples)
    run, folder = newest(user), str(user.folder / "sessions" / SESSION)
    asked = user.call("ledger", "redact", f"{run}/turn/turn.1/1", "output", "--reason", "secret")
    replayed = user.call("deliberate", "execution-replay", folder)

    assert asked.exit_code == 0, asked.output
    assert replayed.exit_code == 7, replayed.output
    assert "transcript_prefix" in replayed.stderr


@pytest.mark.slow
def test_a_panel_that_asks_back_ends_with_its_question(user: Terminal, examples: Path) -> None:
    """The status is not 0, as it is with the reference: nobody has answered anything."""
    script = json.loads((examples / SCRIPT).read_bytes())
    verdict = script["entries"][5]["result"]["structured_output"]
    question = "Strict or eventual consistency?"
    verdict |= {"next_action": "request_user_input", "user_input_request": {"question": question}}
    (user.folder / "asks.json").write_text(json.dumps(script))
    held = user.type(
        *("deliberate", "--config", str(examples / "configs/two-rounds.yaml")),
        *("--script", "asks.json", "--output", "sessions", "How consistent?"),
    )
    folder = user.folder / "sessions" / SESSION
    artifact = json.loads((folder / "artifact.json").read_bytes())

    assert held.returncode == 1
    assert "user_input_required" in held.stderr
    assert f"the panel asks: {question}" in held.stderr
    assert artifact["config"]["problem_statement"] == "How consistent?"
    assert artifact["outcome"]["termination_artifact"]["reason"] == "user_input_required"
    assert json.loads((folder / "manifest.json").read_bytes())["status"] == "terminated"
    assert user.call("deliberate", "validate", str(folder)).exit_code == 0


def small_config(examples: Path, **budget: Any) -> str:  # noqa: ANN401
    """Return the first example with other caps, as JSON."""
    config = yaml.safe_load((examples / "configs/two-rounds.yaml").read_text())
    config["budget"] |= budget
    return json.dumps(config)


@pytest.mark.slow
def test_a_session_ends_when_its_time_is_over_whatever_is_going_on(
    user: Terminal, examples: Path
) -> None:
    """A cap of one second that waits for a call of forty is none."""
    (user.folder / "config.json").write_text(small_config(examples, max_wallclock_seconds=1))
    held = user.type(
        *("deliberate", "--config", "config.json", "--output", "sessions", "--json"),
        *("--agent", "fake-deterministic=sleep 40"),
    )
    document = json.loads(held.stdout)
    folder = str(user.folder / "sessions" / SESSION)

    assert held.returncode == 5, held.stderr
    assert document["deliberation"]["reason"] == "timeout"
    assert document["seconds"] < 20
    assert user.call("deliberate", "validate", folder).exit_code == 0


@pytest.mark.slow
def test_a_session_that_has_used_up_its_tokens_tells_so(user: Terminal, examples: Path) -> None:
    """It is no failure of anybody, and has the status of every other budget."""
    (user.folder / "config.json").write_text(small_config(examples, max_total_tokens=700))
    held = user.type(
        *("deliberate", "--config", "config.json", "--output", "sessions", "--json"),
        *("--script", str(examples / SCRIPT)),
    )

    assert held.returncode == 5, held.stderr
    assert json.loads(held.stdout)["deliberation"]["reason"] == "budget_exceeded"
    assert "budget_exceeded" in held.stderr
    assert user.call("deliberate", "validate", f"sessions/{SESSION}").exit_code == 0


class _Indiscreet(BaseHTTPRequestHandler):
    """A provider that repeats the key it was sent in what it says of an error."""

    def do_POST(self) -> None:
        text = json.dumps({"error": {"message": f"bad key: {self.headers['Authorization']}"}})
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve a provider, and give its address."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_key_that_a_provider_repeats_is_nowhere_on_disk(user: Terminal, examples: Path) -> None:
    """Neither the folder of the session nor the ledger, nor anything printed, has it."""
    (user.folder / "config.json").write_text(small_config(examples))
    with serving(_Indiscreet) as url:
        (user.folder / "forum.toml").write_text(
            f'[models.fake-deterministic]\nurl = "{url}"\nmodel = "m"\nkey_env = "PROVIDER_KEY"\n'
        )
        held = user.type(
            *("deliberate", "--config", "config.json", "--output", "sessions"), PROVIDER_KEY=KEY
        )
    written = [file for file in user.folder.parent.rglob("*") if file.is_file()]

    assert held.returncode == 1
    assert "provider_unrecoverable" in held.stderr
    assert (user.folder / "sessions" / SESSION / "termination.json") in written
    assert not [file for file in written if KEY.encode() in file.read_bytes()]
    assert KEY not in held.stdout + held.stderr


class _Scripted(BaseHTTPRequestHandler):
    """A provider of both APIs that answers as a script says, in the order of the calls."""

    replies: ClassVar[list[dict[str, Any]]] = []
    calls: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        key = self.headers["Authorization"] or self.headers["x-api-key"]
        self.calls.append((self.path, key))
        reply = self.replies[len(self.calls) - 1]
        document: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": json.dumps(reply)}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 7},
        }
        if self.path.endswith("/messages"):
            usage = {"input_tokens": 9, "output_tokens": 7}
            name = asked["tools"][0]["name"]
            content = [{"type": "tool_use", "id": "t1", "name": name, "input": reply}]
            document = {"type": "message", "role": "assistant", "content": content, "usage": usage}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**document, "model": "gpt-4o-mini"}).encode())

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "path"), [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")]
)
def test_a_provider_of_a_config_is_called_where_its_variables_lead(
    user: Terminal, examples: Path, provider: str, path: str
) -> None:
    """No section of forum.toml is needed; without the variables, the error names one."""
    config = (examples / "configs/openai.yaml").read_text().replace('"openai"', f'"{provider}"')
    (user.folder / "config.yaml").write_text(config)
    entries = json.loads((examples / SCRIPT).read_bytes())["entries"]
    _Scripted.replies = [entry["result"]["structured_output"] for entry in entries]
    _Scripted.calls = []
    words = ("deliberate", "--config", "config.yaml", "--output", "sessions")
    refused = user.type(*words)
    with serving(_Scripted) as url:
        # The SDK of Anthropic appends the version itself.
        base = url if provider == "openai" else url.removesuffix("/v1")
        name = provider.upper()
        held = user.type(*words, **{f"{name}_BASE_URL": base, f"{name}_API_KEY": KEY})
    (folder,) = (user.folder / "sessions").iterdir()
    written = [file for file in user.folder.parent.rglob("*") if file.is_file()]

    assert (refused.returncode, f"or set {name}_API_KEY" in refused.stderr) == (2, True)
    assert held.returncode == 0, held.stderr
    assert {called for called, _ in _Scripted.calls} == {path}
    assert all(KEY in key for _, key in _Scripted.calls)
    assert user.call("deliberate", "validate", str(folder)).exit_code == 0
    replayed = user.ask("deliberate", "execution-replay", str(folder))
    assert (replayed["holds"], "model" in replayed["conditions_assumed"]) == (True, True)
    assert not [file for file in written if KEY.encode() in file.read_bytes()]


@pytest.mark.slow
def test_a_session_id_never_leads_out_of_the_output_folder(user: Terminal, examples: Path) -> None:
    """A config may come from anybody."""
    config = yaml.safe_load((examples / "configs/two-rounds.yaml").read_text())
    outside = ("../elsewhere", "/tmp/elsewhere", "..", ".hidden", "a/b")  # noqa: S108
    for session in (*outside, STEERING, "a\nb", " ", "a\u202eb", "\x7f"):
        (user.folder / "config.json").write_text(json.dumps(config | {"session_id": session}))
        refused = user.call(
            *("deliberate", "--config", "config.json", "--output", "sessions"),
            *("--script", str(examples / SCRIPT)),
        )
        assert refused.exit_code == 2
        assert "the name of a folder" in refused.stderr
        assert "\x1b" not in refused.stderr
    assert not (user.folder / "sessions").exists()


# The demo


@pytest.mark.slow
def test_a_minority_prevails_for_a_reason_and_a_forged_ballot_is_noticed(tmp_path: Path) -> None:
    """The story is real, so its figures are a test; and it is over before anybody is bored."""
    begun = monotonic()
    argv = [sys.executable, "-m", "forum", "demo", "panel", "--json"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=120, cwd=tmp_path)
    document = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr.decode()
    assert (document["answer"], document["plain_vote"]) == ("5 cents", "10 cents")
    assert document["deliberation"]["baseline"]["answer"] == "10 cents"
    assert [one["conformity"] for one in document["deliberation"]["changes"]] == [False, True]
    because = document["deliberation"]["changes"][0]["because"]
    assert "5 and 105 make 110, and 105 is 100 more than 5" in because
    assert len(because) == 2  # its own claim is no reason
    assert document["verified"] is True
    by = {one["name"]: one["by"] for one in document["forgeries"]}
    assert by["change"] == ["body-mismatch"]
    assert by["rewrite"]
    assert all(problem.startswith("session-") for problem in by["rewrite"])
    assert monotonic() - begun < 30


# How it looks

_SPENT = SpentForm("0.012", 12_345)
_texts = st.text(min_size=1, max_size=300)


@given(_texts, _texts, st.integers(60, 120), st.integers(1, 4))
def test_whatever_seats_say_it_fits_the_screen_and_does_not_steer_it(
    answer: str, words: str, columns: int, rounds: int
) -> None:
    """Answers and claims are written by models: long, in any script, and with anything in them."""
    votes = tuple(VoteForm(number, answer, 100) for number in range(rounds))
    council_form = CouncilForm(
        2,
        ballots=(RoundForm(0, 2, revealed=True),),
        end=End.ROUNDS,
        ground=Ground.VOTE,
        accord=Accord.SPLIT,
        rounds=1,
        baseline=BaselineForm(answer, 3, 0.666, changed=True, spent=_SPENT),
        spent=_SPENT,
        seats=(
            SeatForm(1, agent=words, model=words, votes=votes, weighed=answer),
            SeatForm(2, agent="", model=None, votes=votes[:1], weighed=None),
        ),
        changes=(ChangeForm(1, 1, answer, words, conformity=True, because=(), evidence=None),),
        conformity=1.0,
        minority=(
            MinorityForm(
                answer,
                seats=(1, 2),
                weight=80,
                argument=words,
                evidence=words,
                support=0,
                attacks=(words,),
            ),
        ),
        decisive=(words,),
        blockers=(BlockerForm(1, words),),
        absent=(),
        warnings=(words,),
    )
    lines = [*panel_lines(council_form, columns), *dissent_lines(council_form, columns)]

    for line in map(unstyle, lines):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)
        assert len(line) <= max(columns, 80)
