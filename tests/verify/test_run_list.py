"""A list of runs that a stranger can check: nothing between its ends can be left out or added."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forum.errors import ForumError, ProofRejected, SignatureRejected
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.run_directory import RunDirectory, RunListProof, prove_run_list
from forum.ledger.sequencer import Sequencer
from forum.tlog import SigningKey, WitnessPolicy
from forum.verify import check_run_list
from tests.verify.world import LOCAL, World


class Listed(World):
    """A log whose directory has one entry for each of five runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LOCAL)
        for number in range(5):
            self.run(f"run-{number}")
            Sequencer(
                self.store, writer=self.ledger.writer, composers=(RunDirectory(self.store),)
            ).drain()
        self.publish()

    def prove(self, start: int, stop: int) -> RunListProof:
        """Return the proof of some positions."""
        return prove_run_list(self.store, start, stop - start)


@pytest.fixture
def world(tmp_path: Path) -> Listed:
    """Return the log."""
    return Listed(tmp_path)


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 4), (4, 5), (2, 99)])
def test_the_runs_of_some_positions_are_proven(world: Listed, start: int, stop: int) -> None:
    """All of them, in their order, and how many came before."""
    shown = world.prove(start, stop)
    proven = check_run_list(shown.entries, shown.proof, LEDGER_KINDS, world.policy)

    assert proven.runs == tuple(f"run-{n}" for n in range(start, min(stop, 5)))
    assert (proven.before, proven.first, proven.origin) == (start, start, world.key.name)
    assert proven.is_witnessed
    assert proven.index < proven.size


def test_positions_are_counted_from_the_end_of_what_is_signed(world: Listed) -> None:
    """A list of runs begins with the newest; those that nobody has signed yet have no proof."""
    world.run("unsigned")
    Sequencer(
        world.store, writer=world.ledger.writer, composers=(RunDirectory(world.store),)
    ).drain()
    shown = [prove_run_list(world.store, first, 500) for first in (-2, -99)]
    proven = [
        check_run_list(each.entries, each.proof, LEDGER_KINDS, world.policy) for each in shown
    ]

    assert [each.runs for each in proven] == [
        ("run-3", "run-4"),
        tuple(f"run-{n}" for n in range(5)),
    ]
    assert [each.first for each in proven] == [each.first for each in shown] == [3, 0]


Fraud = Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
FRAUDS: dict[str, Fraud] = {
    "one is left out": lambda entries: (*entries[:2], *entries[3:]),
    "two are exchanged": lambda entries: (entries[1], entries[0], *entries[2:]),
    "a run has another name": lambda entries: (
        *entries[:1],
        entries[1].replace(b"run-1", b"run-9"),
        *entries[2:],
    ),
    "the last run has another name": lambda entries: (
        *entries[:-1],
        entries[-1].replace(b"run-4", b"run-9"),
    ),
    "the last one is left out": lambda entries: entries[:-1],
    "the last one is shown twice": lambda entries: (*entries, entries[-1]),
    "nothing is shown": lambda _: (),
    "it is no entry": lambda entries: (b"{}", *entries[1:]),
}


@pytest.mark.parametrize("fraud", FRAUDS)
def test_no_run_can_be_left_out_or_added(world: Listed, fraud: str) -> None:
    """Whatever is done to the entries, with the genuine proof beside them."""
    shown = world.prove(0, 5)
    with pytest.raises(ForumError):
        check_run_list(FRAUDS[fraud](shown.entries), shown.proof, LEDGER_KINDS, world.policy)


def test_an_entry_of_another_strand_is_no_list(world: Listed) -> None:
    """It is in the signed tree, and names no runs."""
    shown = world.prove(0, 5)
    (first, *_) = world.store.entries(0, 1)
    assert first is not None
    proof = world.ledger.prove_entry(0).encode()
    with pytest.raises(ForumError):
        check_run_list((first,), proof, LEDGER_KINDS, world.policy)
    with pytest.raises(ProofRejected):
        check_run_list(shown.entries, proof, LEDGER_KINDS, world.policy)


def test_a_list_counts_under_the_one_key_that_the_reader_pins(world: Listed) -> None:
    """Another key, or several of the log without their hand-over, prove nothing."""
    shown = world.prove(0, 5)
    other = SigningKey(b"o" * 32, world.key.name).verifier()
    own = world.key.verifier()
    for logs in (f"log {other}\n", f"log {own}\nlog {other}\n"):
        policy = WitnessPolicy.parse(f"{logs}quorum none\n".encode())
        with pytest.raises(SignatureRejected):
            check_run_list(shown.entries, shown.proof, LEDGER_KINDS, policy)
