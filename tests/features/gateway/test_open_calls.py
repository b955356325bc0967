"""What a dead gateway has left open is ended, also while other processes write."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from forum.app.open_calls import OpenRunsFile, recover_lost_calls
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.ledger.strand import Draft
from forum.runs.kinds import StopFacts, StopReason
from forum.runs.report_kinds import (
    Operation,
    ReportBeginFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
    span_strand,
)
from forum.runs.reported_run import ReportedRunWriter, open_reported_run
from tests.features.telemetry.desks import Desk, main_kinds, steps
from tests.support import StoreFactory

RUN = "run-of-a-dead-gateway"
SOURCE = ReportSourceFacts(ReportProvenance.RELAYED, by="test", usd=100)
BEGUN = ReportBeginFacts(Operation.MODEL, "chat", "", usd=60, calls=1)
STOP = Draft("stop", "gateway", StopFacts(StopReason.BUDGET, "usd"))


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    """Return two processes with one ledger."""
    factory = StoreFactory(tmp_path / "ledger.db")
    yield Desk(factory()), Desk(factory())
    factory.close()


def die_in_a_call(desk: Desk, folder: Path) -> ReportBeginFacts:
    """Begin a call in a new run, and leave it as a gateway does that is killed."""
    file = OpenRunsFile(folder)
    file.add(RUN)
    begun = replace(BEGUN, span=file.new_span())
    writer = open_reported_run(desk.ledger, RUN, "agent", SOURCE)
    writer.new_strand(begun.span).append(writer.begin_draft(begun))
    file.abandon()
    return begun


def test_a_lost_call_is_paid_in_full_and_its_run_closed(
    desks: tuple[Desk, Desk], tmp_path: Path
) -> None:
    """Once, however often it is looked for."""
    begun = die_in_a_call(desks[0], tmp_path / "open")

    assert [recover_lost_calls(desk.ledger, tmp_path / "open") for desk in desks] == [1, 0]
    step = steps(desks[0].ledger, RUN)[begun.span].facts
    assert (step.outcome, step.code, step.usd) == (Outcome.INDETERMINATE, "lost", 60)
    account = desks[0].store.account(RUN)
    assert account is not None
    assert account.used == Amount(60, 0, 1)
    assert main_kinds(desks[0].ledger, RUN)[-1] == "run.close/1"


def test_a_run_is_closed_behind_what_another_process_appends(
    desks: tuple[Desk, Desk], tmp_path: Path
) -> None:
    """Nobody would look for the run again: its file is removed."""
    one, other = desks
    die_in_a_call(one, tmp_path / "open")

    def append_before_the_close() -> None:
        writer = ReportedRunWriter(other.ledger, RUN)
        one.interrupt = lambda: writer.append_to_main(STOP)

    one.interrupt = append_before_the_close
    recover_lost_calls(one.ledger, tmp_path / "open")
    assert main_kinds(one.ledger, RUN)[-2:] == ["stop/1", "run.close/1"]


def test_the_end_that_another_process_records_stands(
    desks: tuple[Desk, Desk], tmp_path: Path
) -> None:
    """A gateway that is taken for dead may come to its end at the same moment."""
    one, other = desks
    begun = die_in_a_call(one, tmp_path / "open")
    ended = ReportStepFacts(Operation.MODEL, "chat", Outcome.OK, begun.span, usd=7)

    def end() -> None:
        strand = other.ledger.open_strand(RUN, span_strand(begun.span))
        strand.replay_step("begin")
        writer = ReportedRunWriter(other.ledger, RUN, cap=SOURCE.cap)
        strand.append(writer.step_draft(ended, begun=begun))

    one.interrupt = end
    assert recover_lost_calls(one.ledger, tmp_path / "open") == 0
    assert steps(one.ledger, RUN)[begun.span].facts == ended
    account = one.store.account(RUN)
    assert account is not None
    assert account.used == Amount(7, 0, 1)
