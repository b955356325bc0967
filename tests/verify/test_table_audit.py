"""The rows beside the log that follow from its entries."""

from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.runs.policy import Answer
from forum.verify import Trust
from tests.engine.office import KINDS, RUN, Office, chain, now, quick
from tests.support import StoreFactory, key_of
from tests.verify.world import assert_cut_does_not_matter


@pytest.fixture
def factory(tmp_path: Path) -> StoreFactory:
    """Return what opens a ledger file."""
    return StoreFactory(tmp_path / "ledger.db")


def check_sound(office: Office) -> None:
    """Check that a ledger has no finding, whether it is verified as a whole or in segments."""
    assert office.findings() == ()
    with office.store.snapshot() as reader:
        trust = Trust((key_of(office.store.origin).verifier(),))
        assert_cut_does_not_matter(reader, KINDS, trust, now())


@pytest.mark.parametrize("answer", Answer)
def test_a_gate_that_was_decided_needs_no_timer(factory: StoreFactory, answer: Answer) -> None:
    """The decision ends the timer of the gate, long before a worker goes on with the run."""
    office = Office(factory())
    office.do(RunRequest("x", chain("a"), quick(gates=("plan",))))
    waiting = office.alarms()
    office.decide("plan", answer)

    assert waiting == [(RUN, "gate/plan")]
    assert office.alarms() == [(RUN, "main")]
    check_sound(office)


def test_the_timer_of_a_run_whose_gate_was_decided_is_missed(factory: StoreFactory) -> None:
    """Such a run waits for no person any more: without a timer nobody would go on with it."""
    office = Office(factory())
    office.do(RunRequest("x", chain("a"), quick(gates=("plan",))))
    office.decide("plan", Answer.APPROVE)
    timer = office.store.timer(RUN, "main")
    assert timer is not None
    office.store.reschedule([timer], None)

    (finding,) = office.findings()
    assert finding.detail == f"{RUN}/main has no timer, so no worker would continue it"
