"""Lists of runs and the views beside them: from summaries that nobody can alter unseen."""

import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.many_runs import write_runs
from forum.app import KINDS, new_run_id
from forum.ledger.entry import Entry, Facts
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.report_kinds import (
    NOT_MADE,
    Operation,
    ReportBeginFacts,
    ReportStepFacts,
    span_strand,
)
from forum.runs.run_summary import tally_entries
from forum.verify import check_run_list
from tests.surfaces.halls import lone_hall

RUNS = "/api/v1/runs"


def test_an_altered_summary_is_not_used_and_is_found(tmp_path: Path) -> None:
    """The list says the truth and that the row was altered, and so does the verifier."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        names = write_runs(forum, 12, 200)
        forum.log.publish()
        before = client.get(RUNS).json()["runs"]
        intact = forum.log.verify(forum.log.read_trust()).found
        with closing(sqlite3.connect(next(tmp_path.rglob("ledger.db")))) as db:
            change = "UPDATE run_summary SET data = replace(data, 'ok', 'failed') WHERE run = ?"
            db.execute(change, (names[0],))
            db.commit()
        after = client.get(RUNS).json()["runs"]
        report = forum.log.verify(forum.log.read_trust())
        failed = client.get(f"{RUNS}?outcome=failed").json()["runs"]
        texts = client.get(f"{RUNS}?text=NUMBER%203.").json()["runs"]
        diff = client.get(f"{RUNS}/{names[0]}/diff/{names[1]}").json()
        me = client.get("/api/v1/me").json()

    assert [line["run"] for line in before] == names[::-1]
    assert not intact
    assert [line["run"] for line in after if line["altered"]] == [names[0]]
    assert [{**line, "altered": False} for line in after] == before
    assert any("summary" in finding.detail for finding in report.findings)
    assert [line["run"] for line in failed] == [names[6]]
    assert [line["run"] for line in texts] == [names[2]]
    assert not diff["equal"]
    assert me["ledger"] == forum.origin


def test_a_list_stores_the_summaries_of_closed_runs_and_a_close_stores_none(
    tmp_path: Path,
) -> None:
    """A row for a run that goes on, which no list stores, is found by the verifier."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        names = write_runs(forum, 3, 60)
        with forum.log.open_writer() as ledger:
            ledger.open_run(goes_on := new_run_id(), "crew")
        forum.log.publish()
        stored_at_close = forum.store.summaries(names)
        client.get(RUNS)
        stored_by_list = forum.store.summaries([*names, goes_on])
        intact = forum.log.verify(forum.log.read_trust()).found
        forged = stored_by_list[names[0]]._replace(run=goes_on)
        keys = forum.write_keys
        assert keys is not None
        forum.store.save_summaries([forged._replace(tag=keys.tag_summary(*forged[:4]))])
        report = forum.log.verify(forum.log.read_trust())

    assert not stored_at_close
    assert sorted(stored_by_list) == sorted(names)
    assert not intact
    assert [finding.detail for finding in report.findings] == [
        f"the summary of run {goes_on}: the log has not closed this run"
    ]


def test_a_call_that_was_not_made_costs_nothing() -> None:
    """It is given back, with everything that was reserved for it."""
    span = "0" * 16
    begun = ReportBeginFacts(Operation.MODEL, "ask", span, usd=5, tokens=7, calls=1)
    made = ReportStepFacts(Operation.MODEL, "ask", Outcome.OK, span=span, usd=3)
    not_made = ReportStepFacts(Operation.MODEL, "ask", Outcome.CANCELLED, span=span, code=NOT_MADE)

    assert _tally(begun, made) == Amount(3, 0, 1)
    assert _tally(begun, not_made) == Amount()


def _tally(*facts: Facts) -> Amount:
    """Return the cost of a run whose only span has entries with these facts."""
    entries = [
        Entry("forum/entry/1", log="log", run="run", strand=span_strand("0" * 16), n=n, prev="",
              step="step", ts=1, actor="crew",
              kind="kind", parents=(), facts=fact, bodies={})
        for n, fact in enumerate(facts)
    ]  # fmt: skip
    return tally_entries(entries).result().spent


def test_a_stranger_can_check_a_list_of_runs(tmp_path: Path) -> None:
    """With the names of the runs and one proof, and nothing that the server says beside them."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        for run in ("a", "b", "c"):
            forum.ledger.open_run(run, "crew")
            forum.log.publish()
        document = client.get("/api/v1/directory?first=1").json()
        entries = [text.encode() for text in document["entries"]]
        proven = check_run_list(entries, document["proof"].encode(), KINDS, forum.policy)
        behind = client.get("/api/v1/directory?first=9")
        forum.ledger.open_run("d", "crew")
        forum.sequencer.drain()
        unsigned = client.get("/api/v1/directory")

    assert (proven.runs, proven.before, document["first"]) == (("b", "c"), 1, 1)
    assert proven.is_witnessed
    assert (behind.status_code, unsigned.status_code) == (404, 409)
