"""What the tests of the promise of a store look at."""

from forum.ledger.ports import (
    Amount,
    BudgetCharge,
    Store,
)
from forum.ledger.sequencer import Sequencer
from forum.tlog import EMPTY_ROOT, Checkpoint, Hash, Note, Signature
from tests.support import (
    leaves_of,
)
from tests.tlog.trees import list_tiles

CALL = BudgetCharge("run", Amount(calls=1))


def sequence(store: Store, *limits: int) -> None:
    """Give indexes in batches of at most these sizes, and then to what is left."""
    sequencer = Sequencer(store)
    for limit in limits:
        sequencer.sequence_batch(limit)
    sequencer.drain()


def state(store: Store) -> tuple[object, ...]:
    """Return all that a swap could change."""
    head = store.head()
    tiles = [store.read_tile(tile, width) for tile, width in list_tiles(head.size)]
    found = [store.find_by_prefix(leaf[:8]) for leaf in leaves_of(store)]
    return (
        head,
        tiles,
        found,
        list(store.entries(0, head.size + 10)),
        list(store.unsequenced_entries()),
    )


def beside(store: Store, *runs: str) -> tuple[object, ...]:
    """Return all that effects could change."""
    return *(store.account(run) for run in runs), *store.timers(None, 100, due=False)


def note_of(origin: str, size: int, *names: str) -> bytes:
    """Return a note about a tree of this size, with signatures that nobody checks here."""
    text = str(Checkpoint(origin, size, Hash(bytes(32)) if size else EMPTY_ROOT))
    signatures = [Signature(name, b"keys", b"s" * 64) for name in names or ("own",)]
    return Note(text, tuple(signatures)).encode()
