"""`forum ledger summary` and `forum bench` state what the record holds, and agree."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import forum
from forum.app import Forum, RunQuery
from forum.config import load_settings
from tests.spoken import ballot
from tests.surfaces.panels import project
from tests.surfaces.terminal import Terminal

LADDER = """
request = "How long is the Danube?"
tasks = [{ id = "length", instruction = "How long?", agent = "quick", done_when = "contains 2850" }]
[policy]
ladder = ["thorough"]
retries = 1
backoff_milliseconds = 1
[policy.agents.quick]
kind = "scripted"
moves.length = [{ fail = "busy" }, { say = "Rather long." }]
[policy.agents.thorough]
kind = "scripted"
moves.length = [{ say = "2850 km." }]
"""
COUNCIL = """
request = "Tell a class about 91."
[[tasks]]
id = "decide"
instruction = "Is 91 prime?"
panel = { models = ["ash"], seats = 3, options = ["yes", "no"] }
[[tasks]]
id = "tell"
instruction = "Tell."
needs = ["decide"]
agent = "teller"
[policy.agents.teller]
kind = "command"
argv = ["cat"]
[policy.agents.""]
kind = "command"
argv = ["cat"]
[policy.agents.ash]
kind = "command"
argv = ["cat"]
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a project with runs that escalate, deliberate, stop, fail and answer."""
    terminal = Terminal(tmp_path_factory.mktemp("figures"))
    terminal.call("init")
    for name, plan in (("ladder", LADDER), ("council", COUNCIL)):
        (terminal.folder / f"{name}.toml").write_text(plan)
    terminal.call("submit", "--plan", "ladder.toml")
    terminal.call("submit", "--plan", "ladder.toml", "--max-calls", "2")
    terminal.call("submit", "--plan", "council.toml")
    terminal.call("submit", "Fail.", "--cmd", "false")
    terminal.call("ledger", "note", "in a run of its own")
    return terminal


JUDGED = """
request = "Is the bridge safe?"
tasks = [
  { id = "look", instruction = "Look." },
  { id = "ask", instruction = "Ask.", panel = { seats = 2, models = ["ann"], rounds = 0 } },
]
[policy]
ladder = ["board"]
"""
SETTINGS = """
[panels.board]
models = ["ann", "bob"]
seats = 3
rounds = 1
[roles]
validator = "board"
"""


@pytest.mark.parametrize("limit", ["3", ""])
def test_every_view_of_a_run_has_the_calls_of_the_account_of_its_cap(
    tmp_path: Path, limit: str
) -> None:
    """A council is asked by one call, and makes many: these count, in the run that asked it."""
    terminal = Terminal(tmp_path)
    spoken = {f"~ballot.{n}.{seat}": ballot("reject") for n in (0, 1) for seat in (1, 2, 3)}
    (terminal.folder / "forum.toml").write_text(project({"*": "Yes."}, spoken) + SETTINGS)
    (terminal.folder / "judged.toml").write_text(JUDGED)
    terminal.call("init")
    # One task after the other: which of two gets what is left of a cap is chance.
    cap = ("--max-calls", limit, "--parallel", "1") if limit else ()
    ended = terminal.call("submit", "--plan", "judged.toml", *cap)
    with Forum(load_settings(terminal.folder, terminal.environment)) as opened:
        (run,) = (row.run for row in opened.reads.list_runs(RunQuery(), None, 9).runs)
        account = opened.store.account(run)
    assert account
    calls = account.used.calls
    program = forum.ledger(terminal.folder)
    shown = terminal.ask("show", run)

    assert 1 < calls <= int(limit or calls)
    assert {
        "show": shown["spent"]["calls"],
        "tasks": sum(part["spent"]["calls"] for part in shown["tasks"]),
        "runs": terminal.ask("runs")["runs"][0]["spent"]["calls"],
        "summary": terminal.ask("ledger", "summary", run)["record"]["calls"],
        "bench": terminal.ask("bench", run, run)["a"]["calls"],
        "costs": terminal.ask("costs")["total"]["spent"]["calls"],
        "program": program.runs()[0].calls,
    } == dict.fromkeys(("show", "tasks", "runs", "summary", "bench", "costs", "program"), calls)
    assert f"{calls} of {limit} calls" in ended.output or not limit
    assert terminal.ask("ledger", "verify")["ok"] is True


def listed_runs(terminal: Terminal) -> list[str]:
    """Return the runs, the oldest first."""
    return [run["run"] for run in reversed(terminal.ask("runs")["runs"])]


def test_a_summary_counts_calls_verdicts_escalations_and_stops(terminal: Terminal) -> None:
    """Of one run: a call that failed, one that was not accepted, one that passed."""
    escalated, stopped, *_ = listed_runs(terminal)
    first = terminal.ask("ledger", "summary", escalated)["record"]
    second = terminal.ask("ledger", "summary", stopped)["record"]

    assert first["verdicts"] == {"accept": 1, "escalate": 1, "retry": 1}
    assert (first["escalations"], first["stops"]) == (1, {})
    assert [(m["model"], m["calls"]) for m in first["models"]] == [("scripted", 3)]
    assert (second["calls"], second["stops"]) == (2, {"budget": 1})


def test_the_log_holds_what_its_runs_hold(terminal: Terminal) -> None:
    """Each run counts once, also one within another; only the entries of the log itself remain."""
    whole = terminal.ask("ledger", "summary")
    runs = [terminal.ask("ledger", "summary", run) for run in listed_runs(terminal)]
    own = Counter(whole["kinds"])
    for run in runs:
        own -= Counter(run["kinds"])

    assert whole["runs"] == sum(run["runs"] for run in runs) > len(runs)
    assert set(own) == {"log.open/1", "key.add/1", "runs.open/1", "witnessed/1"}
    for name in ("calls", "tokens", "escalations", "body_bytes", "bodies"):
        assert whole["record"][name] == sum(run["record"][name] for run in runs)
    for name in ("verdicts", "checks", "stops"):
        assert whole["record"][name] == dict(add_up(run["record"][name] for run in runs))
    models = Counter[str]()
    for run in runs:
        models.update({model["model"]: model["calls"] for model in run["record"]["models"]})
    assert {m["model"]: m["calls"] for m in whole["record"]["models"]} == models


def add_up(counts: Any) -> Counter[str]:  # noqa: ANN401  members of JSON
    """Return the sum of counts by name."""
    total = Counter[str]()
    for count in counts:
        total.update(count)
    return total


def test_a_summary_fits_on_one_screen_and_says_how_much_was_verified(terminal: Terminal) -> None:
    """Nothing is called verified that this machine has not checked."""
    before = terminal.ask("ledger", "summary")
    terminal.call("ledger", "verify")
    after = terminal.ask("ledger", "summary")
    lines = terminal.call("ledger", "summary").stdout.splitlines()

    assert (before["verified"], after["verified"]) == (0, after["size"])
    assert f"signed {after['size']}, last verified here {after['size']} of {after['size']}" in lines
    assert len(lines) < 50


def test_a_difference_is_what_the_second_run_has_more(terminal: Terminal) -> None:
    """In the same figures, and with the other sign the other way round."""
    a, b, *_ = listed_runs(terminal)
    forth, back = terminal.ask("bench", a, b), terminal.ask("bench", b, a)
    assert (forth["difference"]["calls"], forth["difference"]["stops"]) == (-1, 1)
    for name in set(forth["difference"]) - {"usd"}:
        assert forth["difference"][name] == -back["difference"][name]
    assert terminal.ask("bench", a, a)["difference"]["body_bytes"] == 0
    shown = terminal.call("bench", a, b).stdout
    assert re.search(r"^  scripted +3 +2 +-1 \(-33%\)$", shown, re.MULTILINE)
    assert re.search(r"^  budget +0 +1 +\+1$", shown, re.MULTILINE)
