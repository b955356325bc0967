"""Proxies of the ports that end or stop their own process at a planned call.

`SIGKILL` before the effect: it failed.  After the effect, before anybody hears of it: it failed
but persisted.  The product has no hooks for this; it is given these in place of its ports.
Now and then a proxy lingers before it reads or writes, so that others come in between.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

from forum.ledger.ports import (
    CheckpointStore,
    Cosigner,
    EntryWrite,
    PendingEntries,
    Store,
    TreeHead,
)
from forum.tlog import Hash, TileId
from tests.soak.orders import Moment, Orders, Plan, Point

LINGER_SECONDS = 0.1
LINGERS = 0.05
"""How often a call is delayed."""


class Journal:
    """A file to which whole lines are added, unbuffered: what is in it, the parent will see."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *lines: str) -> None:
        """Add lines.  A kill in the middle leaves a last line without its end."""
        os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())


class Trap:
    """Springs once, at the k-th call of one effect, after some seconds of rest."""

    def __init__(self, orders: Orders) -> None:
        self._plan = orders.plan
        self._stopped = Path(orders.evidence) / f"{orders.name}.stopped"
        self._calls = 0
        self._lock = threading.Lock()
        self._random = Random(orders.name)
        self._armed = time.monotonic() + (orders.plan.rest if orders.plan else 0.0)

    @contextmanager
    def around(self, point: Point, records: Sequence[EntryWrite] = ()) -> Iterator[None]:
        """Stand around an effect."""
        self.linger()
        plan = self._reached(point)
        if plan is not None and plan.moment is Moment.BEFORE:
            die()
        if plan is not None and plan.moment is Moment.STOP:
            self._stop(records)
        yield
        if plan is not None and plan.moment is Moment.AFTER:
            die()

    def linger(self) -> None:
        """Be slow, sometimes."""
        if self._random.random() < LINGERS:
            time.sleep(self._random.uniform(0.0, LINGER_SECONDS))

    def _reached(self, point: Point) -> Plan | None:
        if self._plan is None or self._plan.point is not point or time.monotonic() < self._armed:
            return None
        with self._lock:
            self._calls += 1
            return self._plan if self._calls >= self._plan.k else None

    def _stop(self, records: Sequence[EntryWrite]) -> None:
        self._plan = None
        positions = [(record.position, record.leaf.hex()) for record in records]
        Journal(self._stopped).write(*(f"{p.run} {p.strand} {p.n} {leaf}" for p, leaf in positions))
        # To this very thread: it is stopped before the call returns, and the others with it.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def die() -> None:
    """End this process as a power cut would: nothing is flushed, closed or told."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class _TrappedStore:
    def __init__(self, store: Store, trap: Trap, notes: Journal) -> None:
        self._store, self._trap = store, trap
        self._notes = notes

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the store has
        return getattr(self._store, name)

    def head(self) -> TreeHead:
        self._trap.linger()
        return self._store.head()

    def checkpoint(self, most: int | None = None) -> bytes | None:
        self._trap.linger()
        return self._store.checkpoint(most)

    def backlog(self) -> int:
        self._trap.linger()
        return self._store.backlog()

    def append(self, records: Sequence[EntryWrite]) -> None:
        with self._trap.around(Point.APPEND, records):
            self._store.append(records)

    def pending_entries(self, limit: int) -> PendingEntries:
        with self._trap.around(Point.WAITING):
            return self._store.pending_entries(limit)

    def advance_head(
        self,
        old: TreeHead,
        new: TreeHead,
        batch: PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[EntryWrite] = (),
    ) -> None:
        with self._trap.around(Point.SWAP):
            self._store.advance_head(old, new, batch, tiles, own=own)

    def save_checkpoint(self, size: int, note: bytes) -> None:
        self._notes.write(note.hex())
        with self._trap.around(Point.SAVE_CHECKPOINT):
            self._store.save_checkpoint(size, note)


class TrappedMemory:
    """The signer's guard, with a trap around it."""

    def __init__(self, memory: CheckpointStore, trap: Trap, notes: Journal) -> None:
        self._memory, self._trap = memory, trap
        self._notes = notes

    def latest(self) -> bytes | None:
        """Return the note, or nothing when there never was one."""
        self._trap.linger()
        return self._memory.latest()

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace old by new durably."""
        # What was signed is evidence even if nobody was to hear of it.
        self._notes.write(new.hex())
        with self._trap.around(Point.ADVANCE):
            self._memory.advance(old, new)


class TrappedCosigner:
    """A witness, with a trap around it."""

    def __init__(self, cosigner: Cosigner, trap: Trap) -> None:
        self._cosigner, self._trap = cosigner, trap

    @property
    def name(self) -> str:
        """The name of its key."""
        return self._cosigner.name

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature lines for a checkpoint."""
        with self._trap.around(Point.COSIGN):
            return self._cosigner.cosign(note, prove)


class Traps:
    """The trap of one life, and the ports with it around them."""

    def __init__(self, orders: Orders) -> None:
        self._trap = Trap(orders)
        self._notes = Journal(Path(orders.evidence) / f"{orders.name}.notes")

    def store(self, store: Store) -> Store:
        """Put the trap around a store."""
        return cast("Store", _TrappedStore(store, self._trap, self._notes))

    def memory(self, memory: CheckpointStore) -> CheckpointStore:
        """Put the trap around the signer's guard."""
        return TrappedMemory(memory, self._trap, self._notes)

    def cosigner(self, cosigner: Cosigner) -> Cosigner:
        """Put the trap around a witness."""
        return TrappedCosigner(cosigner, self._trap)
