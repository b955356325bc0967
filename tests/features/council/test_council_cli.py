"""What a council tells at the command line: its reasons, and when its answer is no decision."""

import json
from pathlib import Path
from typing import Any

import pytest

import forum
from forum.app import Forum
from forum.config import load_settings
from forum.ledger.kinds import Scope
from forum.models.answer_comparison import open_encoder
from forum.verify import standalone
from tests.spoken import ballot
from tests.surfaces.halls import showing
from tests.surfaces.terminal import Terminal
from tests.surfaces.test_one_decision import serving
from tests.verify.page import page_verifier

JUDGED_SAME = json.dumps({"same": True, "reason": "both choose it"})
DATABASES = ("Use PostgreSQL.", "PostgreSQL is the database to choose.", "use postgresql")


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


@pytest.fixture
def _encoder() -> None:
    """Skip the test if the weights of the sentence model are not installed."""
    if open_encoder() is None:
        pytest.skip("the weights of the sentence model are not installed")


def sourced(answer: str, claim: str, source: str, **members: Any) -> str:  # noqa: ANN401
    """Return the ballot of a seat that has a claim with a source."""
    return ballot(answer, claims=[{"text": claim, "evidence": source}], **members)


def script(user: Terminal, ballots: tuple[str, ...], **others: str) -> str:
    """Write the script of a council whose seats cast these first ballots; return its name."""
    moves = {f"~ballot.0.{seat}": [{"say": text}] for seat, text in enumerate(ballots, 1)}
    moves |= {f"~{turn}": [{"say": text}] for turn, text in others.items()}
    (user.folder / "seats.json").write_text(json.dumps({"moves": moves}))
    return "seats.json"


def ask(user: Terminal, name: str, seats: int, *words: str) -> tuple[Any, dict[str, Any]]:
    """Ask a council without an exchange, and return the process and what is recorded of it."""
    asked = user.type(
        *("deliberate", "Which one?", "--script", name, "--seats", str(seats), "--rounds", "0"),
        *words,
    )
    return asked, user.ask("show")


@pytest.mark.slow
def test_a_split_council_has_its_own_status_and_is_not_told_as_an_answer(user: Terminal) -> None:
    """Who reads only the first line or the exit status must not take it for a decision."""
    ballots = tuple(ballot(answer) for answer in ("yes", "no", "later"))
    options = ("--option", "yes", "--option", "no", "--option", "later")
    asked, run = ask(user, script(user, ballots), 3, *options)

    assert asked.returncode == 8
    assert asked.stdout.startswith("Split: no answer has a majority of the seats.")
    assert "! split" in asked.stderr
    assert "✓ ok" not in asked.stderr
    assert (run["status"], run["outcome"], run["answer"]) == (8, "ok", "yes")
    assert run["deliberation"]["headline"].startswith("Split:")
    assert run["reason"] == "the council is split: no answer has a majority of its seats"
    assert user.call("show", "--answer").stdout.startswith("Split:")


@pytest.mark.slow
def test_a_blocked_council_has_its_own_status_and_names_the_objection(user: Terminal) -> None:
    """All say yes, and one objects: a plain yes would hide the objection."""
    ballots = (ballot("yes"), ballot("yes"), ballot("yes", blocker="nobody has dived"))
    asked, run = ask(user, script(user, ballots), 3, "--option", "yes", "--option", "no")

    assert asked.returncode == 9
    assert asked.stdout.startswith("Blocked: 1 objection must be answered")
    assert "seat 3 blocks: nobody has dived" in asked.stderr
    assert run["status"] == 9
    assert run["deliberation"]["headline"].startswith("Blocked:")


@pytest.mark.slow
def test_the_report_has_the_claims_for_the_answer_with_their_sources(user: Terminal) -> None:
    """An answer without its reasons can only be believed."""
    ballots = (
        sourced("yes", "it was tested", "report 7"),
        sourced("yes", "it was tested", "report 7"),
        sourced("no", "it is rusty", "photo 4"),
    )
    options = ("--option", "yes", "--option", "no", "--baseline", "0")
    asked, run = ask(user, script(user, ballots), 3, *options)
    council = run["deliberation"]

    assert asked.returncode == 0
    assert '"it was tested" [source: report 7]' in " ".join(asked.stderr.split())
    assert council["claims"] == [
        {
            "claim": "it was tested",
            "status": "supported",
            "evidence": "report 7",
            "support": 1,
            "attacks": [],
        }
    ]
    assert (council["holders"], council["headline"]) == ([1, 2], None)
    assert council["comparison"] is None
    assert user.ask("ledger", "verify")["ok"] is True


@pytest.mark.slow
@pytest.mark.usefixtures("_encoder")
def test_answers_in_other_words_are_one_answer_and_the_report_names_the_step(
    user: Terminal,
) -> None:
    """Three wordings of one answer agree: in the vote, and in the baseline that it ends at."""
    name = script(user, tuple(sourced(text, f"because of {text}", "here") for text in DATABASES))
    asked, run = ask(user, name, 3)
    council = run["deliberation"]
    checked = user.ask("ledger", "verify")

    assert asked.returncode == 0, asked.stderr
    assert (council["accord"], council["end"]) == ("agreed", "gate")
    assert council["baseline"]["agreement"] == 1
    assert council["comparison"]["encoder"] == "all-MiniLM-L6-v2"
    steps = [(pair["step"], pair["same"]) for pair in council["comparison"]["pairs"]]
    assert steps == [("text", True), ("encoder", True)]
    assert "same by encoder, similarity 0.78" in " ".join(asked.stderr.split())
    assert len(council["claims"]) == 2
    assert checked["ok"] is True
    assert any("similarity/1, which is taken from the record" in o for o in checked["not_checked"])
    for command in ("replay", "execution-replay"):
        again = user.call("deliberate", command, run["run"])
        assert (again.exit_code, again.stdout) == (0, "the same, ballot by ballot\n")


@pytest.mark.slow
@pytest.mark.usefixtures("_encoder")
def test_a_judge_decides_what_the_encoder_is_not_sure_of(user: Terminal) -> None:
    """The rule on replaced words holds these for different; the judge knows that they are not."""
    ballots = (ballot("Rewrite the parser in Rust."), ballot("Port the parser to Rust."))
    name = script(user, ballots, **{"same.1.1": JUDGED_SAME})
    asked, run = ask(user, name, 2, "--judge", "", "--baseline", "0")
    (pair,) = run["deliberation"]["comparison"]["pairs"]

    assert asked.returncode == 0, asked.stderr
    assert (pair["step"], pair["same"], pair["rule"]) == ("judge", True, "word")
    assert run["deliberation"]["accord"] == "agreed"
    assert user.ask("ledger", "verify")["ok"] is True


@pytest.mark.slow
def test_a_council_deliberates_on_the_answer_of_a_run(user: Terminal) -> None:
    """What a bundle of the session cannot show is told by every verifier."""
    first = user.call("submit", "Is the bridge safe?", "--cmd", "echo It was tested.")
    answered = user.ask("show")["run"]
    ballots = (ballot("sound"),) * 3
    words = ("--option", "sound", "--option", "unsound", "--seats", "3")
    asked = user.type(
        *("deliberate", "--about", answered, "--script", script(user, ballots), *words)
    )
    run = user.ask("show")
    shown = user.call("show", run["run"]).stdout
    checked = user.ask("ledger", "verify")

    assert first.exit_code == 0, first.output
    assert asked.returncode == 0, asked.stderr
    assert run["about"] == answered
    assert f"the answer of {answered[:18]}" in shown
    assert "> It was tested." in run["request"]
    assert (checked["ok"], checked["not_checked"]) == (True, [])
    assert "deliberate on the answer of run" in user.call("why", f"{run['run']}/main/2").stdout

    user.call("ledger", "export", run["run"], "--output", "session.zip")
    there = "whether what it is about is the answer of run"
    report = user.ask("verify", "session.zip", "--policy", str(user.policy))
    assert report["ok"] is True
    assert [answered in missing for missing in report["not_checked"] if there in missing] == [True]
    data = (user.folder / "session.zip").read_bytes()
    trust = standalone.BundleTrust([], None, [])
    alone = standalone.verify(data, trust)
    assert [answered in missing for missing in alone["not_checked"] if there in missing] == [True]
    page = page_verifier()
    if page is not None:
        assert page.verify(data, trust) == alone


@pytest.mark.parametrize(
    ("about", "words"),
    [("nothing", "nothing"), ("00000000-0000-7000-8000-000000000000", "00000000")],
)
def test_a_run_that_is_not_there_cannot_be_deliberated_on(
    user: Terminal, about: str, words: str
) -> None:
    """The error names it, and nobody is asked."""
    user.call("submit", "Hi", "--cmd", "echo Hi.")
    script(user, (ballot("yes"),))
    asked = user.type("deliberate", "--about", about, "--script", "seats.json", "--seats", "1")

    assert asked.returncode == 1
    assert words in asked.stderr
    assert "forum runs lists the runs" in asked.stderr
    assert len(user.ask("runs")["runs"]) == 1


def test_every_count_and_comparison_of_runs_has_the_words_of_their_list(user: Terminal) -> None:
    """An undecided council closes its run with the outcome `ok`: no reader may count it as one."""
    user.call("init")
    options = ("--option", "yes", "--option", "no", "--rounds", "0")
    for ballots in (
        (ballot("yes"), ballot("yes")),
        (ballot("yes"), ballot("no")),
        (ballot("yes"), ballot("yes", blocker="nobody has dived")),
    ):
        seats = ("--script", script(user, ballots), "--seats", "2")
        user.call("deliberate", "Which one?", *seats, *options)
    listed = {run["word"]: run["run"] for run in user.ask("runs")["runs"]}
    program = forum.ledger(user.folder)
    words = dict.fromkeys(listed, 1)

    assert list(listed) == ["blocked", "split", "ok"]
    assert user.ask("ledger", "summary")["outcomes"] == program.summary().outcomes == words
    for word, run in listed.items():
        assert [
            run_listing["run"] for run_listing in user.ask("runs", "--state", word)["runs"]
        ] == [run]
        assert [run_listing.id for run_listing in program.runs(state=word)] == [run]
        assert user.ask("bench", run, run)["a"]["outcome"] == word
        assert program.compare(run, run).a.state == word
        assert user.ask("ledger", "summary", run)["outcomes"] == {word: 1}
    with Forum(load_settings(user.folder, user.environment)) as opened, serving(opened) as client:
        key = showing(str(opened.access.grant("ci", {Scope.READ})))
        for word, run in listed.items():
            runs = client.get(f"/api/v1/runs?outcome={word}", headers=key).json()["runs"]
            assert [line["run"] for line in runs] == [run]
