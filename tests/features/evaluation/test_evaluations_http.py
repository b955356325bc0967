"""Evaluations over HTTP: a list of them, and reports that are computed anew from the record."""

from pathlib import Path

import msgspec

from forum.app import Forum
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.rules import EvalCase
from forum.features.evaluation.sample import play_evaluation
from forum.features.evaluation.service import EvaluationOperations
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Position
from forum.runs import kinds
from forum.runs.policy import ScriptStep
from tests.surfaces.halls import lone_hall

EVALUATIONS = "/api/v1/evaluations"
CASES = (
    EvalCase("Name the river of Dresden.", checks="contains Elbe", lane="rivers"),
    EvalCase("Name the river of Ulm.", checks="contains Danube", lane="rivers"),
)


def play(forum: Forum) -> evaluation.EvalReport:
    """Play two cases with an agent that knows one river and one that knows both."""
    with forum.runs.run_worker():
        return play_evaluation(
            forum,
            CASES,
            {
                "one": (ScriptStep(say="The Elbe."), ScriptStep(say="The Elbe.")),
                "both": (ScriptStep(say="The Elbe."), ScriptStep(say="The Danube.", usd=1000)),
            },
        )


def test_evaluations_are_listed_page_by_page_and_runs_are_not(tmp_path: Path) -> None:
    """One that was given up is listed with what it has played so far."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        report = play(forum)
        given_up = EvaluationOperations(forum).begin(b"{}", kinds.EvalOpenFacts(9, 2, ("one",)))
        given_up.add_play(
            kinds.EvalPlayFacts(
                1, configuration="one", repeat=1, run=report.plays[0].run, quality=0
            ),
            (),
        )
        first = client.get(EVALUATIONS, params={"limit": 1}).json()
        second = client.get(EVALUATIONS, params={"limit": 1, "cursor": first["next"]}).json()
        runs = {line["run"] for line in client.get("/api/v1/runs").json()["runs"]}
        unfinished = client.get(f"{EVALUATIONS}/{given_up.run}")
        no_evaluation = client.get(f"{EVALUATIONS}/{report.plays[0].run}")

    (open_line,), (line,) = first["evaluations"], second["evaluations"]
    assert (open_line["run"], open_line["ended"]) == (given_up.run, None)
    assert (open_line["cases"], open_line["repeat"], open_line["plays"]) == (9, 2, 1)
    assert (line["run"], line["plays"], line["unplayed"]) == (report.evaluation, 4, 0)
    assert line["configurations"] == ["one", "both"]
    assert line["ended"] > line["begun"]
    assert not runs & {report.evaluation, given_up.run}
    assert (unfinished.status_code, no_evaluation.status_code) == (404, 404)


def test_a_report_is_what_the_command_prints_and_is_computed_anew(tmp_path: Path) -> None:
    """With what each case asks for."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        report = play(forum)
        document = client.get(f"{EVALUATIONS}/{report.evaluation}").json()

    assert document["check"] == "follows"
    assert document["requests"] == [case.request for case in CASES]
    assert msgspec.convert(document["report"], evaluation.EvalReport) == report
    means = [c["figures"]["quality"]["mean"] for c in document["report"]["configurations"]]
    assert means == [0.5, 1.0]


def test_a_report_that_does_not_follow_is_told_apart_from_one_that_was_erased(
    tmp_path: Path,
) -> None:
    """A report with a worse quality than its answer has, and one whose cases are gone."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        report = play(forum)
        forged = forge(forum, report.plays[0].run)
        differs = client.get(f"{EVALUATIONS}/{forged}").json()
        no_run = client.get(f"{EVALUATIONS}/{forge(forum, 'nothing')}").json()
        forum.store.erase_bodies([(Position(report.evaluation, MAIN_STRAND, 1), "cases")])
        erased = client.get(f"{EVALUATIONS}/{report.evaluation}").json()
        many = EvaluationOperations(forum).check_report(report, 3)

    assert differs["check"] == no_run["check"] == "differs"
    assert (erased["check"], erased["requests"]) == ("erased", [])
    assert erased["report"]["evaluation"] == report.evaluation
    assert many.value == "not computed"


def forge(forum: Forum, run: str) -> str:
    """Record an evaluation whose only play is of a run and bad."""
    opened = kinds.EvalOpenFacts(2, 1, ("one",))
    cases = b"".join(msgspec.json.encode(case) + b"\n" for case in CASES)
    record = EvaluationOperations(forum).begin(cases, opened)
    facts = kinds.EvalPlayFacts(1, configuration="one", repeat=1, run=run, quality=0)
    record.add_play(facts, ())
    plays = []
    if run != "nothing":
        plays = [evaluation.describe_play(facts, forum.reads.read_run(run), "rivers")]
    record.close(evaluation.build_report(record.run, opened, plays), Outcome.OK)
    return record.run
