"""The directory of runs: it names every run as it was opened, or a verification says so."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from forum.ledger.kinds import LEDGER_KINDS, NoteFacts, RunsOpenedFacts
from forum.ledger.own_entries import Batch, Composer
from forum.ledger.run_directory import RunDirectory
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft, RecordedEntry
from forum.tlog import parse_checkpoint
from forum.verify import Report
from forum.verify.growth_audit import audit_growth
from forum.verify.report import Problem
from tests.verify.test_incremental_audit import TRUST, kept, verify_all, verify_new
from tests.verify.world import REMOTE, World

Forge = Callable[[Sequence[Draft]], Sequence[Draft]]


class ForgedDirectory(RunDirectory):
    """A directory by somebody who has the keys, and the tables of the database."""

    def __init__(self, world: World, forge: Forge) -> None:
        super().__init__(world.store)
        self._forge = forge

    def compose(self, batch: Batch, last: RecordedEntry | None) -> Sequence[Draft]:
        """Return other drafts than the honest ones."""
        return self._forge(super().compose(replace(batch, is_next=True), last))


def sequence(world: World, *composers: Composer) -> None:
    """Sequence and sign with these composers."""
    Sequencer(world.store, writer=world.ledger.writer, composers=composers).drain()
    world.publish()


def honest(world: World) -> None:
    """Sequence as this release does."""
    sequence(world, RunDirectory(world.store))


def facts(**changes: object) -> Forge:
    """Return a forgery of facts."""

    def forge(drafts: Sequence[Draft]) -> Sequence[Draft]:
        return [replace(d, facts=replace(d.facts, **changes)) for d in drafts]

    return forge


def other_runs(choose: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Forge:
    """Return a forgery of the names."""

    def forge(drafts: Sequence[Draft]) -> Sequence[Draft]:
        (draft,) = drafts
        assert isinstance(draft.facts, RunsOpenedFacts)
        return [replace(draft, facts=replace(draft.facts, runs=choose(draft.facts.runs)))]

    return forge


FORGERIES = {
    "a run is left out": other_runs(lambda runs: runs[1:]),
    "the last run is left out": other_runs(lambda runs: runs[:-1]),
    "another order": other_runs(lambda runs: runs[::-1]),
    "a run is named twice": other_runs(lambda runs: (*runs, runs[0])),
    "an earlier run is named again": other_runs(lambda runs: ("run-0", *runs)),
    "a run that was never opened": other_runs(lambda runs: (*runs, "invented")),
    "positions with a gap": facts(first=9),
    "it begins again": facts(since=1),
    "nothing is named": lambda _: (),
    "an entry of another kind": lambda drafts: [replace(d, facts=NoteFacts()) for d in drafts],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_directory_that_is_not_what_was_opened_is_found(tmp_path: Path, forge: Forge) -> None:
    """Also where segments of the log are checked apart from each other."""
    world = World(tmp_path, REMOTE)
    world.open("run-0")
    honest(world)
    assert not world.verify().findings
    for n in range(1, 4):
        world.open(f"run-{n}")
    sequence(world, ForgedDirectory(world, forge))

    assert problems(world.verify()) == {Problem.DIRECTORY_BROKEN}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_what_is_new_in_the_directory_is_compared(tmp_path: Path, forge: Forge) -> None:
    """Neither a verification of new entries nor an auditing witness accepts it."""
    world = World(tmp_path, REMOTE)
    world.open("run-0")
    honest(world)
    assert verify_all(world, tmp_path).ok
    world.open("run-1")
    world.open("run-2")
    honest(world)
    report = verify_new(world, tmp_path)
    assert report is not None
    assert not report.findings
    for n in range(3, 6):
        world.open(f"run-{n}")
    sequence(world, ForgedDirectory(world, forge))

    assert verify_new(world, tmp_path) is None
    with world.store.snapshot() as reader, kept(tmp_path) as state:
        target = parse_checkpoint(reader.checkpoint() or b"")
        last = state.last(TRUST)
        grown = audit_growth(reader, LEDGER_KINDS, target, world.now, last=last, state=state)
    assert {finding.problem for finding in grown.findings} == {Problem.DIRECTORY_BROKEN}


def test_a_log_of_an_earlier_release_has_a_part_without_a_directory(tmp_path: Path) -> None:
    """It begins with the first batch of this release, and nothing is said of the runs before."""
    world = World(tmp_path, REMOTE)
    for n in range(3):
        world.open(f"run-{n}")
        sequence(world)
    world.open("run-3")
    honest(world)

    report = world.verify()
    assert not report.findings
    assert verify_all(world, tmp_path).ok
    world.open("run-4")
    honest(world)
    assert verify_new(world, tmp_path) is not None


def test_runs_that_an_earlier_release_sequenced_are_named_late(tmp_path: Path) -> None:
    """While an old process runs beside a new one its runs are a finding; then a notice."""
    world = World(tmp_path, REMOTE)
    world.open("run-0")
    honest(world)
    world.open("run-1")
    sequence(world)
    assert problems(world.verify()) == {Problem.DIRECTORY_BROKEN}
    world.open("run-2")
    honest(world)

    report = world.verify()
    assert not report.findings
    assert any("1 runs were named in the directory after" in notice for notice in report.notices)


def problems(report: Report) -> set[Problem]:
    """Return what a report found."""
    return {finding.problem for finding in report.findings}
