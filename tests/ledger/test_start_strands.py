"""Many strands are started in one commit, and each of them once."""

from random import Random

import pytest

from forum.ledger.kinds import NoteFacts
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft, StrandStart
from tests.support import StoreFactory, leaves_of, ledger_on

RUNS, SPANS = ("r1", "r2"), "abcdefgh"


def start(run: str, span: str) -> StrandStart:
    """Return the start of a span's strand."""
    return StrandStart(run, f"span/{span}", Draft("end", "agent", NoteFacts()))


@pytest.mark.parametrize("seed", range(5))
def test_a_strand_is_started_once(store_factory: StoreFactory, seed: int) -> None:
    """Whatever is sent again, in the same batch or another, by this writer or another."""
    random, store = Random(seed), store_factory()
    writers = ledger_on(store), ledger_on(store_factory())
    sent: set[tuple[str, str]] = set()
    recorded = []
    for _ in range(12):
        spans = [(random.choice(RUNS), random.choice(SPANS)) for _ in range(random.randrange(6))]
        entries = random.choice(writers).start_strands([start(*span) for span in spans])
        recorded += [span for span, entry in zip(spans, entries, strict=True) if entry is not None]
        sent.update(spans)

    stored = [(run, name.removeprefix("span/")) for run in RUNS for name in store.strands(run)]
    assert sorted(recorded) == sorted(stored) == sorted(sent)


@pytest.mark.parametrize("seed", range(5))
def test_strands_are_started_in_the_order_of_the_call(
    store_factory: StoreFactory, seed: int
) -> None:
    """Whatever runs they belong to, and whether or not some have been started before."""
    random, store = Random(seed), store_factory()
    places = [(run, span) for run in RUNS for span in SPANS]
    random.shuffle(places)
    ledger_on(store).start_strands([start(*place) for place in places[: seed % 3]])
    random.shuffle(places)
    again = [place for place in places for _ in range(random.randint(1, 2))]
    entries = ledger_on(store_factory()).start_strands([start(*place) for place in again])

    Sequencer(store).drain()
    started = [entry.leaf for entry in entries if entry is not None]
    assert leaves_of(store)[seed % 3 :] == started
