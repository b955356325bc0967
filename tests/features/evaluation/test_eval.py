"""`forum eval`: cases played by real processes, scored, recorded, and compared."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.errors import Malformed
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.service import EvaluationOperations
from forum.ledger.entry import MAIN_STRAND, leaf_of
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Draft
from forum.runs import kinds
from tests.surfaces.page import Page
from tests.surfaces.terminal import FORUM, Terminal

TEAM = """
[models.default]
kind = "scripted"
usd = 0.001
moves."*" = [{ say = "The river is the Danube.", tokens = 20 }]

[models.chief]
kind = "scripted"
usd = 0.002
moves."@coordinator" = [{ say = '{"tasks":[{"id":"river","instruction":"Which river?",\
"lane":"python","needs":[],"done_when":"contains river"}]}' }]
moves."@intent" = [{ say = '{"passed":true,"reason":"","evidence":"","missing":[]}' }]
moves."judge" = [{ say = '{"reason":"It names <another> river.","score":0.25}' }]
moves."*" = [{ say = '{"passed":true,"reason":"fine","evidence":"x","missing":[]}' }]

[roles]
classifier = "chief"
coordinator = "chief"
validator = "chief"
synthesizer = "chief"
intent = "chief"
reviser = "chief"
summarizer = "chief"
""".replace("\\\n", "")
CASES = [
    {"request": "Say Elbe.", "checks": "contains Elbe\nmatches ^Say"},
    {"request": "Say <b>Oder</b>.", "checks": "contains Oder\ncontains Elbe"},
    {"request": "Which river?", "reference": "Elbe"},
]


def write_cases(user: Terminal, cases: list[dict[str, str]]) -> None:
    """Write a case file into the folder of a user."""
    (user.folder / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with a ledger and a file of cases."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    write_cases(made, CASES)
    return made


def test_agents_are_compared_and_the_evaluation_is_a_verifiable_run(user: Terminal) -> None:
    """The quality is that of the checks, each play has its scores, and the ledger verifies."""
    played = user.type(
        "eval", "cases.jsonl", "--agent", "echo=cat", "--agent", "loud=tr a-z A-Z",
        "--html", "report.html", "--json",
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    assert "6 runs, without a cap in dollars" in played.stderr
    report = json.loads(played.stdout)
    echo, loud = report["configurations"]
    assert echo["figures"]["quality"]["mean"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert loud["figures"]["quality"]["mean"] == 0
    assert loud["figures"]["quality"]["method"] == "wilson"
    assert report["comparisons"][0]["conclusion"] == (
        "no difference in quality shown between loud and echo with 3 cases"
    )
    qualities = {(p["case"], p["configuration"]): p["quality"] for p in report["plays"]}
    assert (qualities[1, "echo"], qualities[2, "echo"]) == (1.0, 0.5)

    scores = user.ask("scores", report["plays"][0]["run"])["scores"]
    assert [(s["name"], s["value"], s["by"]) for s in scores] == [
        ("checks", 1.0, "program"),
        ("quality", 1.0, "program"),
    ]
    again = user.ask("eval", "--of", report["evaluation"])
    assert again == report
    assert "forum eval --of" in user.type("show", report["evaluation"]).stderr
    assert user.call("ledger", "verify").exit_code == 0

    text = (user.folder / "report.html").read_text()
    page = Page(text)
    assert page.loaded == []
    assert not {"script", "img", "link", "iframe", "b"} & set(page.tags)
    assert page.tags.count("svg") == len(page.labels) == 4
    assert "echo: 0.50" in page.labels[0]
    assert not re.search(r"https?://", text)


def test_a_team_and_a_judge_are_played_and_their_cost_is_told_apart(user: Terminal) -> None:
    """The reason of the judge is recorded with its score, and so is that it is no other model."""
    (user.folder / "forum.toml").write_text(TEAM)
    write_cases(user, [CASES[2] | {"lane": "python"}, {"request": "Which?", "checks": "json"}])
    played = user.type(
        "eval", "cases.jsonl", "--agent", "default", "--team", "--repeat", "2", "--parallel", "3",
        "--max-usd", "0.5", "--json",
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    assert "8 runs and 4 to judge them, at most $6.00 in all" in played.stderr
    report = json.loads(played.stdout)
    alone, team = report["configurations"]
    assert (alone["spent_usd"], alone["figures"]["tokens"]["mean"]) == ("0.004", 20)
    assert float(team["spent_usd"]) > 0.01
    assert alone["figures"]["quality"]["mean"] == 0.125
    assert report["judge"] == {
        "agent": "chief", "judged": 4, "unjudged": 0, "spent_usd": "0.008",
        "not_independent_of": ["default", "team"],
    }  # fmt: skip
    lanes = {(r["lane"], r["configuration"]): r["figures"]["plays"] for r in report["lanes"]}
    assert lanes["python", "team"] == lanes["python", "default"] == 2
    judged = next(p["run"] for p in report["plays"] if p["case"] == 1)
    score = user.ask("scores", judged)["scores"][0]
    assert (score["by"], score["value"], score["comment"], score["independence"]) == (
        "judge", 0.25, "It names <another> river.", "not-independent",
    )  # fmt: skip
    assert user.call("ledger", "verify").exit_code == 0
    assert user.ask("eval", "--of", report["evaluation"]) == report


def test_a_report_that_does_not_follow_from_the_record_is_refused(user: Terminal) -> None:
    """Also if it was signed, and only the quality of a play is not that of its answer.

    A score that is about another run than it says is found by the verification of the ledger.
    """
    played = user.ask("eval", "cases.jsonl", "--agent", "echo=cat")
    settings = load_settings(user.folder, user.environment)
    with Forum(settings) as forum:
        play, other = played["plays"][:2]
        opened = kinds.EvalOpenFacts(3, 1, ("echo",))
        forged = kinds.EvalPlayFacts(1, configuration="echo", repeat=1, run=play["run"], quality=0)
        record = EvaluationOperations(forum).begin(
            (user.folder / "cases.jsonl").read_bytes(), opened
        )
        record.add_play(forged, ())
        worse = evaluation.describe_play(forged, forum.reads.read_run(play["run"]), "")
        record.close(evaluation.build_report(record.run, opened, [worse]), Outcome.OK)
        close = leaf_of(forum.store.last_entry(other["run"], MAIN_STRAND) or b"")
        facts = kinds.ScoreFacts(
            play["run"],
            subject=kinds.ScoreSubject.RUN,
            name="quality",
            value=1000,
            by=kinds.Scorer.PROGRAM,
        )
        draft = Draft("score/forged", "operator", facts, (close,))
        forum.ledger.append_log_entry(draft, kinds.score_strand(play["run"]))
        forum.log.publish()

    refused = user.type("eval", "--of", record.run)
    assert (refused.returncode, "does not follow" in refused.stderr) == (3, True), refused.stderr
    verified = user.type("ledger", "verify")
    assert (verified.returncode, "score-invalid" in verified.stdout) == (3, True)


def test_an_agent_that_never_answers_and_a_cap_are_told_by_the_exit_status(user: Terminal) -> None:
    """Its runs are on record with quality 0; a comparison of nothing must not look like success."""
    failed = user.type("eval", "cases.jsonl", "--agent", "bad=false", "--agent", "echo=cat")
    assert failed.returncode == 1
    assert "3 of 3 runs of bad ended without an answer" in failed.stdout
    with (user.folder / "forum.toml").open("a") as file:
        file.write('[budgets.daily]\nper = "day"\nruns = 2\n')
    capped = user.type("eval", "cases.jsonl", "--agent", "echo=cat")
    assert capped.returncode == 1
    assert "not played: case 3 by echo" in capped.stdout
    assert user.call("ledger", "verify").exit_code == 0


def test_a_stopped_evaluation_keeps_what_was_played(user: Terminal) -> None:
    """Ctrl-C cancels the runs under way, and the report says what is missing."""
    (user.folder / "slow.sh").write_text(
        'read -r line\ncase "$line" in *Elbe*) echo "Say Elbe.";; *) sleep 60;; esac\n'
    )
    process = subprocess.Popen(
        [FORUM, "eval", "cases.jsonl", "--agent", "slow=sh slow.sh", "--json"],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("1 of 3"):
            break
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    report = json.loads(printed)
    assert [play["case"] for play in report["plays"]] == [1]
    assert {skipped["case"] for skipped in report["unplayed"]} == {2, 3}
    assert user.ask("eval", "--of", report["evaluation"]) == report
    assert user.call("ledger", "verify").exit_code == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 1"),
        (b'{"request": "x"}', "no `checks` and no `reference`"),
        (b'{"request": "x", "checks": "be polite"}', "none of contains"),
        (b'{"request": "x", "checks": "matches ("}', "line 1"),
        (b'{"request": "x", "check": "contains y"}', "check"),
        (b"\n", "0 cases"),
    ],
)
def test_a_case_file_that_means_nothing_is_refused(line: bytes, why: str) -> None:
    """With the line, before anything is played."""
    with pytest.raises(Malformed, match=why):
        evaluation.read_cases(line)


@pytest.mark.parametrize(
    ("reference", "answer", "score"),
    [
        ("Elbe", "It is the Elbe, in Dresden.", 1000),
        ("The Elbe.", "the  elbe", 1000),
        ("12", "112", 0),
        ("Elbe", "", 0),
        ("", "anything", 0),
    ],
)
def test_a_reference_is_matched_by_whole_words(reference: str, answer: str, score: int) -> None:
    """Case and white space do not count; a part of a word or a number does not match."""
    assert evaluation.grade_match(reference, answer) == score


@pytest.mark.parametrize(
    "words",
    [(), ("cases.jsonl",), ("cases.jsonl", "--agent", "nobody"), ("--of", "x", "--team"),
     ("cases.jsonl", "--agent", "team=cat", "--team"),
     ("cases.jsonl", "--agent", "a=cat", "--agent", "a=cat")],
)  # fmt: skip
def test_wrong_usage_has_its_own_exit_status(user: Terminal, words: tuple[str, ...]) -> None:
    """Nothing is recorded for it."""
    assert user.call("eval", *words).exit_code == 2
    assert user.ask("runs")["runs"] == []
