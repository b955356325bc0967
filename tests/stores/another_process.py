"""Another process with the same ledger: python -m tests.stores.another_process.

write PLACE ORIGIN STRAND ENTRIES
    append so many entries, one by one, and print each n once it is durable
carry PLACE ORIGIN MEGABYTES
    store a body and read it back, and print how many megabytes of memory that took
"""

import resource
import sys
from pathlib import Path

from forum.ledger.entry import Commitment
from forum.ledger.ports import Store
from forum.ledger.sequencer import Sequencer
from tests.support import Chain, Pieces, StoreFactory


def main(what: str, place: str, origin: str, *arguments: str) -> None:
    """Do one of these."""
    factory = StoreFactory(place if place.startswith("postgresql:") else Path(place), origin)
    store = factory()
    match what, arguments:
        case "write", [strand, entries]:
            write(store, Chain(origin, "run", strand), int(entries))
        case "carry", [megabytes]:
            carry(store, int(megabytes))
        case _:
            raise SystemExit(__doc__)
    factory.close()


def write(store: Store, chain: Chain, entries: int) -> None:
    """Write a strand, and sequence whatever is there now and then."""
    for n in range(entries):
        store.append(chain.take(1))
        sys.stdout.write(f"{n}\n")
        sys.stdout.flush()
        if n % 10 == 9:
            Sequencer(store).drain()


def carry(store: Store, megabytes: int) -> None:
    """Carry a body there and back."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = Chain(store.origin).next(text=Pieces(megabytes << 20))
    store.append([record])
    body = store.body(record.position, "text")
    commitment: Commitment = record.bodies[0].commitment()
    assert body is not None
    assert body.matches(commitment)
    assert not body.matches(Commitment(commitment.h, commitment.size + 1, commitment.type))
    store.erase_bodies([(record.position, "text")])
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(f"{kilobytes // 1024}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
