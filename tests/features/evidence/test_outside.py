"""Entries that are dated out of the period in which the log recorded them."""

from pathlib import Path

import msgspec

from forum.features.evidence.report import PackReport
from forum.features.evidence.tally import OutsideEntries
from forum.ledger.kinds import Outcome
from forum.ledger.zip_archive import unpack_archive
from forum.verify import State
from tests.features.evidence.packs import (
    Audited,
    PackBytes,
    forge,
    make,
    period,
    replace,
    verify_twice,
)


def read_report(data: bytes) -> PackReport:
    """Return the report of a pack."""
    return msgspec.json.decode(unpack_archive(data)["report.json"], type=PackReport)


def make_packs(folder: Path) -> tuple[Audited, dict[int, PackBytes]]:
    """Return packs made on their due days; a failed run is dated just before its period."""
    world, packs = Audited(folder), {}
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 60)
    for day in range(1, 9):
        world.at(day, 2)
        world.report_run(f"run-{day}a")
        world.settle_at(day, 4)
        if day in (4, 8):
            packs[day] = make(world, period(day - 4 if day > 4 else 1, day))
        world.at(day, 3000)
        world.report_run(f"run-{day}b")
        if day == 6:
            world.at(4, -15)
            world.report_run("early", Outcome.FAILED)
        if day == 7:
            world.at(8, 250)
            world.report_run("late", Outcome.FAILED)
        world.settle_at(day, 4000)
        world.at(day, 86_380)
        world.report_run(f"run-{day}c")
        world.settle_at(day, 86_390)
    return world, packs


def test_a_run_that_is_dated_out_of_every_period_is_counted_and_named(tmp_path: Path) -> None:
    """Its writer says that it was before or later; witnesses first saw it in the period."""
    world, packs = make_packs(tmp_path)
    before, after = (read_report(packs[day]) for day in (4, 8))
    assert before.outside == OutsideEntries(0, (), (), 0)
    assert isinstance(after.outside, OutsideEntries)
    assert after.outside.runs == ("early", "late")
    assert after.outside.entries == 2 * 5
    values = {figure.id: figure.value for figure in after.figures}
    assert values["runs.not-ok"] == 2
    assert [named.run for named in after.named] == ["early", "late"]
    assert verify_twice(packs[4], world.trust).ok
    # It is named, so that its bundle is in the pack; there, its time is impossible.
    result = verify_twice(packs[8], world.trust)
    assert result.figures.state is State.HOLDS
    assert {f.row for f in result.findings} == {"runs/early.zip", "runs/late.zip"}


def test_a_maker_who_hides_the_figure_is_found(tmp_path: Path) -> None:
    """All verifiers compute it again."""
    world, packs = make_packs(tmp_path)

    hide = replace("report.json", (b'"entries": 10,', b'"entries": 0,'))
    result = verify_twice(forge(packs[8], world, hide), world.trust)
    assert {str(finding.problem) for finding in result.findings} >= {"figure-changed"}
