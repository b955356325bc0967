"""The pages of scores, deliberations and costs: they show what the command line says."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.surfaces.terminal import Terminal
from tests.web.browsing import play, up
from tests.web.sample_data import write_sample_runs
from tests.web.test_browser import pytestmark as browser_marks

pytestmark = browser_marks


class Shown:
    """What the pages show of the sample runs, and what commands print of them."""

    def __init__(self, terminal: Terminal) -> None:
        runs = write_sample_runs(terminal)
        council, evaluation = runs["council"], runs["evaluation"]
        with up(terminal) as server:
            pages = ("#/scores", "#/costs", f"#/run/{council}")
            self.faults: list[str] = play(server, "pages.mjs", *pages)
            self.figures: Any = play(server, "figures.mjs", council)
        self.report = terminal.ask("eval", "--of", evaluation)
        self.council = terminal.ask("show", council)["deliberation"]
        self.listed = terminal.ask("runs", "--all", "--limit", "1000")["runs"]
        self.budgets = terminal.ask("budgets")["budgets"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Read the pages and run the commands once."""
    return Shown(Terminal(tmp_path_factory.mktemp("figures")))


def test_no_page_has_a_fault(shown: Shown) -> None:
    """In both schemes and widths, and while they are used."""
    assert shown.faults == []
    assert shown.figures["faults"] == []


def test_scores_are_those_of_the_report(shown: Shown) -> None:
    """Of all cases and of each lane, in the table and in the picture; each play has its run."""
    page, report = shown.figures["scores"], shown.report
    measured = [c["figures"] for c in report["configurations"]]
    measured += [c["figures"] for c in report["lanes"]]
    rows = [row for row in page["figures"] if len(row) > 1]

    assert page["check"] == "computed anew from the record: the same"
    assert [row[0] for row in rows] == ["quick", "strong"] * 3
    for row, figures in zip(rows, measured, strict=True):
        quality = figures["quality"]
        assert row[1:4] == [str(quality["cases"]), str(figures["plays"]), "0"]
        assert row[4] == (f"{quality['mean']:.2f}\n{quality['low']:.2f} to {quality['high']:.2f}")
        cost, *interval = row[5].replace(" to ", "\n").split("\n")
        assert _dollars(cost) == pytest.approx(figures["usd"]["mean"], rel=0.01)
        assert [_dollars(end) for end in interval] == pytest.approx(
            [figures["usd"]["low"], figures["usd"]["high"]], rel=0.05
        )
    assert page["dots"] == pytest.approx([100 * f["quality"]["mean"] for f in measured], abs=0.01)
    assert page["plays"] == [f"#/run/{play['run']}" for play in report["plays"]]
    assert len(page["cases"]) == report["cases"]


def test_outcomes_by_lane_are_those_of_the_runs(shown: Shown) -> None:
    """Every run is counted once."""
    rows = {row[0]: row for row in shown.figures["scores"]["lanes"]}
    own = [line for line in shown.listed if line["lane"] == "sales"]

    assert sum(int(row[1]) for row in rows.values()) == len(shown.listed)
    assert rows["sales"][1:5] == [str(len(own)), "1", "1", "0"]


def test_a_council_shows_every_ballot_and_what_moved_each_seat(shown: Shown) -> None:
    """A change without a reason is in red, and the dissent has its argument and the attack."""
    page, council = shown.figures["council"], shown.council
    for row, seat in zip(page["ballots"], council["seats"], strict=True):
        votes = [f"{vote['answer']} {vote['confidence']} %" for vote in seat["votes"]]
        assert row[0].startswith(f"{seat['seat']} {seat['agent']}")
        assert [cell.split("\n")[0] for cell in row[1:-1]] == votes
        holds = seat["seat"] in council["holders"]
        assert row[-1] == f"{seat['weighed']}\n{'for the answer' if holds else 'dissent'}"
    reasoned, conforming = council["changes"]
    assert f"changed because {reasoned['because'][0]}" in page["ballots"][0][2]
    assert "changed without a reason" in page["ballots"][conforming["seat"] - 1][2]
    assert len([text for text in page["conformity"] if text]) == 1
    (dissent,) = page["dissent"]
    (minority,) = council["minority"]
    for text in (minority["answer"], minority["argument"], *minority["attacks"]):
        assert text in dissent
    assert page["gain"][0] == council["baseline"]["answer"]
    assert page["gain"][2].startswith(f"${council['baseline']['spent']['usd']}, ")


def test_costs_are_those_of_the_runs(shown: Shown) -> None:
    """However they are added up, and every part of a day is drawn."""
    page = shown.figures["costs"]
    total = sum(Decimal(line["spent"]["usd"]) for line in shown.listed)
    by_lane = {row[0]: row for row in page["byLane"]}

    for rows in (page["days"], page["byLane"], page["byModel"]):
        assert sum(Decimal(row[1].removeprefix("$")) for row in rows) == total
        assert sum(int(row[3]) for row in rows) == sum(
            run["spent"]["calls"] for run in shown.listed
        )
        assert sum(int(row[5]) for row in rows) == sum(run["unpriced"] for run in shown.listed) > 0
    assert Decimal(by_lane["sales"][1].removeprefix("$")) == _sum_of(shown, "sales")
    assert len(page["segments"]) >= len(by_lane)
    assert page["hash"].startswith("#/costs?since=20")
    assert page["hash"].endswith("&by=model")


def test_runs_that_a_cap_stopped_and_budgets_are_shown(shown: Shown) -> None:
    """With what is used of a cap over many runs."""
    page = shown.figures["costs"]
    stopped = [row for row in page["noted"] if row[1] == "budget"]
    (budget,) = shown.budgets
    (row,) = page["budgets"]

    assert [row[0] for row in stopped] == ["Find twenty new customers in Austria."]
    assert any("without a price" in row[1] for row in page["noted"])
    assert row[:3] == [budget["name"], budget["scope"], budget["period"]]
    assert _dollars(row[3].split(" of ")[0]) == pytest.approx(
        float(budget["used"]["usd"]), rel=0.01
    )


def test_calls_by_upstream_are_those_of_the_runs_that_were_relayed(shown: Shown) -> None:
    """Each with its failures, its latency and its cost."""
    rows = shown.figures["costs"]["upstreams"]
    relayed = [line for line in shown.listed if line["provenance"] == "relayed"]

    assert rows
    assert sum(int(row[1]) for row in rows) == sum(run["spent"]["calls"] for run in relayed)
    assert all(row[3] and row[4] for row in rows if int(row[2]) < int(row[1]))
    assert sum(Decimal(row[5].removeprefix("$")) for row in rows) == sum(
        Decimal(run["spent"]["usd"]) for run in relayed
    )


def _dollars(text: str) -> float:
    return float(text.removeprefix("$"))


def _sum_of(shown: Shown, lane: str) -> Decimal:
    lines: list[Mapping[str, Any]] = [line for line in shown.listed if line["lane"] == lane]
    return sum((Decimal(line["spent"]["usd"]) for line in lines), Decimal(0))
