"""What runs have cost: every run counts once, and summaries that somebody altered do not."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.many_runs import counted_statements, write_runs
from forum.app import Forum, new_run_id, run_costs
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment, Draft
from forum.runs import kinds
from forum.runs.run_summary import MAX_COSTS, RunCost, SummaryTally
from forum.units import format_usd
from tests.surfaces.halls import lone_hall

COSTS = "/api/v1/costs"


def _nano(usd: str) -> int:
    whole, _, part = usd.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0"))


def _sum_rows(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up rows, apart from their runs: a run may be in several."""
    return {
        "usd": format_usd(sum(_nano(row["spent"]["usd"]) for row in rows)),
        "tokens": sum(row["spent"]["tokens"] for row in rows),
        "calls": sum(row["spent"]["calls"] for row in rows),
    }


def test_costs_are_those_of_all_runs_whatever_they_are_added_up_by(tmp_path: Path) -> None:
    """Runs that go on, were stopped or have no price count, and are told apart."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        names = write_runs(forum, 60, 700)
        names.append(_write_run(forum, "writer", "small-1", 5, ends=False))
        states = {name: forum.reads.read_run(name) for name in names}
        document = {by: client.get(COSTS, params={"by": by}).json() for by in run_costs.CostAxis}
        again = client.get(COSTS).json()
        later = client.get(COSTS, params={"since": "2099-01-01"}).json()
        unfit = client.get(COSTS, params={"by": "moon"})

    total = document[run_costs.CostAxis.DAY]["total"]
    spent = [state.spent for state in states.values()]
    assert total["spent"] == {
        "usd": format_usd(sum(amount.usd for amount in spent)),
        "tokens": sum(amount.tokens for amount in spent),
        "calls": sum(amount.calls for amount in spent),
    }
    assert again == document[run_costs.CostAxis.DAY]
    for by, costs in document.items():
        assert costs["by"] == by
        assert costs["total"] == total
        assert _sum_rows(costs["rows"]) == total["spent"]
    assert [row["key"] for row in document[run_costs.CostAxis.AGENT]["rows"]][-1] == "crew"
    assert {row["key"] for row in document[run_costs.CostAxis.LANE]["rows"]} == {
        *("research", "backend", "writing", None)
    }
    assert total["runs"] == 61
    # As `write_runs` has them: every 23rd is stopped unless it is reported, every 10th reported.
    stopped = [name for nth, name in enumerate(names, 1) if nth % 23 == 0 and nth % 10]
    assert again["stopped"] == stopped[::-1]
    assert again["runs_stopped"] == len(stopped)
    assert again["runs_open"] == 1
    assert again["runs_unpriced"] == 3  # every 10th, but not every 20th
    assert (again["runs_altered"], again["next"]) == (0, None)
    assert later["rows"] == []
    assert later["total"]["runs"] == 0
    assert unfit.status_code == 400


def test_the_cost_of_a_day_is_split_into_the_same_parts_as_all_days(tmp_path: Path) -> None:
    """The parts of a row are its cost, and the smallest of many are added up."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        for number in range(1, 12):
            _write_run(forum, f"agent-{number}", "small-1", number)
        days = client.get(COSTS, params={"split": "agent"}).json()
        lanes = client.get(COSTS, params={"by": "model", "split": "lane"}).json()
        plain = client.get(COSTS).json()

    (day,) = days["rows"]
    names = [f"agent-{number}" for number in range(11, 3, -1)]
    assert [part["key"] for part in day["parts"]] == [*names, "(others)"]
    assert _nano(day["parts"][-1]["usd"]) == _nano(day["parts"][-2]["usd"]) * (1 + 2 + 3) // 4
    assert sum(_nano(part["usd"]) for part in day["parts"]) == _nano(day["spent"]["usd"])
    assert [part["key"] for part in lanes["rows"][0]["parts"]] == [None]
    assert [{**row, "parts": []} for row in days["rows"]] == plain["rows"]


def test_the_cost_of_a_run_within_a_run_counts_once(tmp_path: Path) -> None:
    """The outer run is charged for the inner one, which has the same cost of its own."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        _write_run(forum, "writer", "small-1", 7)
        _write_run(forum, kinds.CHILD_RUN, kinds.CHILD_RUN, 7)
        costs = client.get(COSTS, params={"by": "agent"}).json()

    assert costs["total"]["spent"] == {"usd": "0.000000007", "tokens": 1, "calls": 1}
    assert [(row["key"], row["runs"]) for row in costs["rows"]] == [("writer", 1)]


def test_a_reporter_hides_no_cost_behind_the_name_of_inner_runs(tmp_path: Path) -> None:
    """Reporters name agents and models as they like; only the engine has runs within runs."""
    with lone_hall(tmp_path, operator=True) as (_, client):
        step = {"type": "step", "run": "chat-0001", "span": "a1", "op": "model", "name": "chat"}
        step |= {"outcome": "ok", "agent": kinds.CHILD_RUN, "model": kinds.CHILD_RUN}
        items = [{"type": "start", "run": "chat-0001", "name": "chat"}, step | {"usd": 7}]
        assert client.post("/api/v1/reports", json={"items": items}).json() == {"recorded": 2}
        costs = client.get(COSTS, params={"by": "agent"}).json()

    assert costs["total"]["spent"] == {"usd": "0.000000007", "tokens": 0, "calls": 1}
    assert [row["key"] for row in costs["rows"]] == [kinds.CHILD_RUN]


def test_a_reply_that_a_fork_has_taken_over_has_a_known_price(tmp_path: Path) -> None:
    """The forked run has paid for it, so it costs nothing here."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        _write_run(forum, "writer", "small-1", 0, source=kinds.ReplyOrigin.RECORDED)
        taken_over = client.get(COSTS).json()
        _write_run(forum, "writer", "small-1", 0)
        both = client.get(COSTS).json()

    assert (taken_over["total"]["unpriced"], taken_over["runs_unpriced"]) == (0, 0)
    assert (both["total"]["unpriced"], both["runs_unpriced"]) == (1, 1)


def test_the_cost_of_inner_runs_is_known_among_very_many_costs() -> None:
    """It is not added up with others: it could not be left out any more."""
    tally = SummaryTally(accepted=True)
    inner = RunCost(
        1, agent=kinds.CHILD_RUN, model=kinds.CHILD_RUN, usd=1, tokens=1, calls=1, unpriced=0
    )
    for cost in (
        inner,
        *(
            RunCost(1, agent=f"agent-{n}", model="m", usd=5, tokens=5, calls=1, unpriced=0)
            for n in range(MAX_COSTS + 9)
        ),
    ):
        tally.costs[cost.agent] = cost

    summary = tally.result()

    assert inner in summary.costs
    assert sum(cost.usd for cost in summary.own_costs) == 5 * (MAX_COSTS + 9)


def _write_run(
    forum: Forum,
    agent: str,
    model: str,
    usd: int,
    *,
    ends: bool = True,
    source: kinds.ReplyOrigin = kinds.ReplyOrigin.LIVE,
) -> str:
    """Record a run with one call."""
    run = new_run_id()
    with forum.log.open_writer() as ledger:
        joint, main = ledger.join_appends(), ledger.new_strand(run, "main")
        request = Attachment("request", text_content("Do it."))
        facts = kinds.AcceptedFacts(usd=10, tokens=10, calls=10)
        opening = ledger.draft_opening("operator")
        joint.add(main, opening, Draft("accepted", "operator", facts, bodies=(request,)))
        joint.add(
            ledger.new_strand(run, "task/1"),
            Draft(
                "call/1.1",
                "engine",
                kinds.CallFacts(agent, model, attempt=1, turn=1, usd=10, tokens=10),
            ),
            Draft(
                "reply/1.1", agent, kinds.ReplyFacts(Outcome.OK, usd=usd, tokens=1, source=source)
            ),
        )
        joint.commit()
        if ends:
            ledger.close_run(main, "engine", Outcome.OK)
    return run


def test_an_altered_summary_changes_no_cost_and_is_counted(tmp_path: Path) -> None:
    """Somebody who hides a cost in the database hides nothing."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        names = write_runs(forum, 12, 200)
        before = client.get(COSTS, params={"by": "agent"}).json()
        with closing(sqlite3.connect(next(tmp_path.rglob("ledger.db")))) as db:
            change = "UPDATE run_summary SET data = replace(data, 'writer', 'nobody') WHERE run = ?"
            changed = db.execute(change, (names[0],)).rowcount
            db.commit()
        after = client.get(COSTS, params={"by": "agent"}).json()

    assert changed == 1
    assert after == {**before, "runs_altered": 1}


def test_a_request_adds_up_a_limited_number_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor leads to the rest, and closed runs are read without their entries."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        write_runs(forum, 12, 200)
        with counted_statements() as first:
            whole = client.get(COSTS).json()
        with counted_statements() as second:
            client.get(COSTS)
        monkeypatch.setattr(run_costs, "MAX_SCANNED_RUNS", 5)
        monkeypatch.setattr(run_costs, "PAGE_SIZE", 5)
        pages = [client.get(COSTS).json()]
        while pages[-1]["next"]:
            pages.append(client.get(COSTS, params={"cursor": pages[-1]["next"]}).json())
        monkeypatch.setattr(run_costs, "MAX_COST_KEYS", 1)
        few = client.get(COSTS, params={"by": "agent"}).json()

    assert first.count("first_entries") == 12
    assert second.count("first_entries") == 0
    assert second.count("summaries") == 1
    assert [page["total"]["runs"] for page in pages] == [5, 5, 2]
    assert _sum_rows([row for page in pages for row in page["rows"]]) == whole["total"]["spent"]
    assert len(few["rows"]) == 2
    assert "(others)" in [row["key"] for row in few["rows"]]
