"""One process that writes, and keeps the log, until it is killed: `python -m tests.soak.worker`.

It takes its strands up by replaying them, goes on with them through a group commit, and notes
down each acknowledgement the moment that it has it.  Names of steps follow from positions alone,
so that whoever takes up a strand asks for the very steps that are recorded there.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from forum.errors import ConcurrentUpdate, RollbackDetected, StoreConnectionLost
from forum.ledger.body import CHUNK_SIZE, SALT_SIZE, BytesContent
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import LEDGER_KINDS, JoinFacts, NoteFacts
from forum.ledger.log import Ledger
from forum.ledger.ports import Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft, RecordedEntry, Strand
from forum.stores.group_commit import GroupCommitter
from forum.stores.postgres import PostgresStore
from forum.stores.publisher_loop import PublisherLoop
from forum.stores.sqlite import SqliteStore
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import Hash
from tests.soak.orders import (
    LOG_KEY,
    ORIGIN,
    POLICY,
    ROLLED_BACK,
    SLOTS,
    Orders,
    Role,
)
from tests.soak.traps import Journal, Traps
from tests.soak.witness import FileWitness

LENGTH = 2000
"""Entries in a strand; then its lane begins the next one.  A restart replays no more than this."""
SIZES = (1, 1, 1, 2, 3, 5, 10, 20, 50, 100, 150, 200)
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.1


def open_store(database: str) -> Store:
    """Open the log, and wait for a server that is just being restarted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if database.startswith("postgresql:"):
                return PostgresStore(database, ORIGIN)
            return SqliteStore(Path(database), ORIGIN)
        except StoreConnectionLost:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def clock() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def publisher(store: Store, state: Path, traps: Traps) -> Publisher:
    """Make the signer of the soak's log, with its witness."""
    guard = traps.memory(FileCheckpointStore(state / "guard"))
    witness = traps.cosigner(FileWitness(FileCheckpointStore(state / "witness"), clock))
    return Publisher(store, key=LOG_KEY, guard=guard, policy=POLICY, cosigners=[witness])


def run_of(slot: int) -> str:
    """Name the run that a slot writes, life after life."""
    return f"worker-{slot}"


class Lane:
    """Writes strand after strand, each taken up where its record ends."""

    def __init__(self, orders: Orders, number: int, ledger: Ledger, acks: Journal) -> None:
        self._orders, self._number = orders, number
        self._ledger, self._acks = ledger, acks
        # Every life cuts its steps into batches of its own.
        self._random = Random(f"{orders.name}/{number}")
        self._cause: Hash | None = None

    def work(self, stop: threading.Event) -> None:
        """Write until told to stop, or killed."""
        while not stop.is_set():
            try:
                self._write(stop)
            except (StoreConnectionLost, ConcurrentUpdate):
                # The server is coming back, or a zombie is on our strand: take it up anew.
                stop.wait(PAUSE_SECONDS)

    def _write(self, stop: threading.Event) -> None:
        generation = self._generation()
        while not stop.is_set():
            self._go_through(
                self._ledger.open_strand(self._run, f"{self._number}.{generation}"), stop
            )
            generation += 1

    def _go_through(self, strand: Strand, stop: threading.Event) -> None:
        n = 0
        while n < LENGTH and not stop.is_set():
            if strand.replay_step(f"step/{n}") is not None:
                n += 1
                continue
            written = strand.append(*self._drafts(n))
            self._acknowledge(strand.name, written)
            n += len(written)

    @property
    def _run(self) -> str:
        return run_of(self._orders.slot)

    def _generation(self) -> int:
        """Find the strand that this lane was writing: those before it are full."""
        names = (name.split(".") for name in self._ledger.store.strands(self._run))
        return max((int(g) for lane, g in names if int(lane) == self._number), default=0)

    def _drafts(self, n: int) -> list[Draft]:
        count = min(self._random.choice(SIZES), LENGTH - n)
        parents = self._parents()
        return [self._draft(step, parents if step == n else ()) for step in range(n, n + count)]

    def _draft(self, n: int, parents: tuple[Hash, ...]) -> Draft:
        step, actor = f"step/{n}", f"worker-{self._orders.name}"
        if self._random.random() > 0.01:
            return Draft(step, actor, JoinFacts(), parents)
        # Some bodies are empty, and a few take more than one piece.
        size = self._random.choice((0, 1, 100, 3000))
        if self._random.random() < 0.02:
            size = CHUNK_SIZE + 1
        body = Attachment("text", BytesContent(self._random.randbytes(size)), "application/x-noise")
        return Draft(step, actor, facts=NoteFacts(), parents=parents, bodies=(body,))

    def _parents(self) -> tuple[Hash, ...]:
        """Name causes: what this lane wrote last, and what other processes have just committed."""
        causes = {self._cause} if self._cause else set()
        if self._random.random() < 0.2:
            run = run_of(self._random.randrange(SLOTS))
            for name in self._ledger.store.strands(run)[-2:]:
                last = self._ledger.store.last_entry(run, name)
                causes |= {leaf_of(last)} if last else set()
        return tuple(causes)

    def _acknowledge(self, strand: str, written: tuple[RecordedEntry, ...]) -> None:
        self._acks.write(*(f"{self._run} {strand} {r.entry.n} {r.leaf.hex()}" for r in written))
        self._cause = written[-1].leaf


class Worker:
    """One life: its lanes, what it does for the log, and how it ends."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._stop = threading.Event()
        self._traps = Traps(orders)
        self._store = self._traps.store(open_store(orders.database))
        self._committer = GroupCommitter(self._store)
        self._random = Random(orders.name)

    def live(self) -> None:
        """Work until told to stop, then finish what was begun."""
        signal.signal(signal.SIGTERM, lambda *_, **__: self._stop.set())
        threads = [threading.Thread(target=job, args=(self._stop,)) for job in self._jobs()]
        for thread in threads:
            thread.start()
        keeper = self._keeper() if self._orders.role is Role.KEEPER else None
        while not self._stop.wait(PAUSE_SECONDS):
            if keeper is not None and keeper.failure is not None:
                self._stop.set()
        for thread in threads:
            thread.join()
        self._committer.close()
        if keeper is not None:
            keeper.close()
        self._store.close()

    def _jobs(self) -> list[Callable[[threading.Event], None]]:
        acks = Journal(Path(self._orders.evidence) / f"{self._orders.name}.acks")
        ledger = Ledger(
            self._store,
            kinds=LEDGER_KINDS,
            clock=clock,
            salts=lambda: os.urandom(SALT_SIZE),
            append=self._committer.append,
        )
        lanes = range(self._orders.lanes)
        jobs: list[Callable[[threading.Event], None]]
        jobs = [Lane(self._orders, number, ledger, acks).work for number in lanes]
        if self._orders.role in (Role.ROGUE, Role.GROWER):
            jobs.append(self._sequence)
        return jobs

    def _keeper(self) -> PublisherLoop:
        return PublisherLoop(self._store, Sequencer(self._store), self._publisher())

    def _publisher(self) -> Publisher:
        return publisher(self._store, Path(self._orders.state), self._traps)

    def _sequence(self, stop: threading.Event) -> None:
        """Sequence and publish against everybody else who does."""
        sequencer, signer = Sequencer(self._store), self._publisher()
        while not stop.wait(0.02):
            try:
                sequencer.sequence_batch(self._random.choice((10, 1000, 10_000)))
                if self._orders.role is Role.ROGUE and self._random.random() < 0.7:
                    signer.publish()
            except (ConcurrentUpdate, StoreConnectionLost):
                continue


def _fail(failure: threading.ExceptHookArgs) -> None:
    """End the process when a thread ends: a worker is whole, or it is not."""
    traceback.print_exception(failure.exc_value)
    sys.stderr.flush()
    os._exit(ROLLED_BACK if isinstance(failure.exc_value, RollbackDetected) else 1)


def main() -> None:
    """Live as the orders say."""
    faulthandler.register(signal.SIGUSR1)
    threading.excepthook = _fail
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    try:
        Worker(orders).live()
    except RollbackDetected as error:
        print(error, file=sys.stderr)
        sys.exit(ROLLED_BACK)


if __name__ == "__main__":
    main()
