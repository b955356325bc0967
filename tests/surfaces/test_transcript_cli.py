"""What happened, for somebody who was not there: transcripts, and why a run failed."""

import json
from pathlib import Path

import pytest

from tests.surfaces.terminal import Terminal

pytestmark = pytest.mark.slow

PLAN = """
request = "Name the longest river"

[policy.tools.atlas]
argv = ["sed", "s/^/atlas: /"]

[policy.agents.""]
kind = "scripted"
moves.river = [
  { say = "let me see", use = [{ tool = "atlas", arguments = "rivers" }] },
  { say = "the Rhine" },
  { say = "the \\u001b[31mRhine, again" },
]

[policy]
retries = 1

[[tasks]]
id = "river"
instruction = "Name the longest river of Europe."
done_when = "contains Danube"
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a user whose run used a tool, was rejected twice, and failed."""
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    terminal.environment["COLUMNS"] = "80"
    (terminal.folder / "plan.toml").write_text(PLAN)
    failed = terminal.type("submit", "--plan", "plan.toml")
    assert failed.returncode == 1, failed.stderr
    (terminal.folder / "said").write_text(failed.stderr)
    run = terminal.ask("runs")["runs"][0]["run"]
    assert terminal.call("ledger", "export", run, "-o", "run.zip").exit_code == 0
    return terminal


WHY = (
    "It failed: river was given up after 2 attempts, because the reply does not contain what was "
    'demanded (contains Danube); the last reply was "the '
)


def test_a_failed_run_ends_with_why_and_the_last_reply(user: Terminal) -> None:
    """In one sentence, where it was carried out and where it is shown."""
    carried_out = " ".join((user.folder / "said").read_text().split())
    shown = " ".join(user.call("show").stdout.split())

    assert WHY in carried_out
    assert WHY in shown
    assert user.ask("show")["why"].startswith(WHY)


def test_a_transcript_tells_everything_in_its_order(user: Terminal) -> None:
    """Prompts, replies, tool calls, verdicts with their reasons, and in the end why it failed."""
    lines = user.call("show", "--transcript").stdout.split("\n")
    parts = [
        "    Name the longest river",
        "    river: Name the longest river of Europe.",
        "  prompt",
        "    let me see",
        "  wants to use",
        "    atlas rivers",
        "  result",
        "    atlas: rivers",
        "    the Rhine",
    ]
    places = [lines.index(part) for part in parts]

    assert places == sorted(places)
    text = " ".join(" ".join(lines).split())
    rejected = "the reply does not contain what was demanded (contains Danube)"
    assert text.count("attempt 1 was not accepted (not-contained): it is tried again") == 1
    assert text.count(rejected) == 3
    assert text.endswith('again".')
    assert WHY in text


def test_a_transcript_fits_the_screen_and_steers_no_terminal(user: Terminal) -> None:
    """Eighty columns, and nothing of what an agent wrote is a command to the terminal."""
    shown = user.call("show", "--transcript").stdout

    assert max(map(len, shown.split("\n"))) <= 80
    assert "\x1b" not in shown
    assert "\ufffd[31mRhine" in shown


def test_a_bundle_tells_the_same(user: Terminal) -> None:
    """Whoever was sent a file can read it, without any ledger."""
    kept = user.call("show", "--transcript")
    sent = user.call("show", "run.zip", "--transcript")

    assert sent.exit_code == 0
    assert sent.stdout == kept.stdout
    assert "to verify it: forum verify run.zip" in sent.stderr
    assert "river  " in user.call("show", "run.zip").stdout


def test_programs_read_it_too(user: Terminal) -> None:
    """One object with a step for each entry, its texts, and why."""
    document = user.ask("show", "--transcript")
    sent = json.loads(user.call("show", "run.zip", "--transcript", "--json").stdout)

    assert document == sent
    assert document["schema"] == "forum.transcript/1"
    assert document["why"].startswith(WHY)
    kinds = [step["kind"] for step in document["steps"]]
    assert kinds[:3] == ["accepted/1", "plan/1", "call/1"]
    assert document["steps"][3]["bodies"]["output"] == "let me see"


def test_what_is_no_bundle_is_refused(user: Terminal, tmp_path: Path) -> None:
    """And wishes that contradict each other are wrong usage."""
    assert user.type("show", "plan.toml").returncode == 1
    assert user.call("show", "--transcript", "--answer").exit_code == 2
    assert user.type("show", str(tmp_path / "none.zip")).returncode == 1
