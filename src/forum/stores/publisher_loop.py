"""Background threads that sequence and publish a log, and clean up behind its ended runs.

While this process leads, a committed entry gets its index within about a tenth of a second and is
covered by a signed checkpoint within about a second.
"""

from collections.abc import Callable
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple

from forum.errors import ConcurrentUpdate, StoreFailed
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.ports import PublisherStore
from forum.ledger.sequencer import MAX_BATCH_ENTRIES, Publication, Publisher, Sequencer
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.threads import start_thread

SEQUENCE_INTERVAL_S = 0.1
IDLE_INTERVAL_S = 1.0
"""The longest time until entries of other processes get an index; those of this one wake it."""
HEAD_INTERVAL_S = 5.0
"""How often a process looks for a tree of another sequencer to sign and to publish."""
LEADER_POLL_INTERVAL_S = 1.0
"""The interval at which a process that does not lead tries to; many workers share one log."""
PUBLISH_INTERVAL_S = 0.8
FIRST_RETENTION_DELAY_S = 15.0
RETENTION_DELAY_S = 60.0
"""The interval at which bodies are looked for whose period is over."""
CLEAN_UP_INTERVAL_S = 60.0
CLEAN_UP_BATCH = 500
"""The number of ended runs whose rows are deleted in one transaction."""
DEFAULT_CLEAN_UP_DELAY_S = 7 * 86_400.0


class _Look(NamedTuple):
    """When a thread last looked at the tree, and how many batches were sequenced until then."""

    batches: int = -1
    at: float = -inf


class _SignedTree(NamedTuple):
    """The tree that was signed last."""

    size: int = -1
    note: bytes = b""
    is_caught_up: bool = False
    """Whether entries that a crash left pending are in it."""


class _PublishedTree(NamedTuple):
    """The note of a tree as it was signed, and as it stands after the witnesses were asked."""

    signed: bytes = b""
    note: bytes = b""
    is_complete: bool = False
    """Whether each witness has answered; otherwise they are asked again."""


class PublisherLoop(ForkAware):
    """A background service that sequences, signs and publishes one log.

    Its threads do not wait for each other: neither a slow or unreachable witness, nor the erasure
    of what the rules of retention no longer keep, nor a clean-up delays signatures and indexes.
    Appending does not depend on any of them.
    """

    def __init__(
        self,
        store: PublisherStore,
        sequencer: Sequencer,
        publisher: Publisher,
        on_publication: Callable[[Publication], None] = lambda _: None,
        retain: Callable[[], bool] | None = None,
        cleanup_delay_s: float = DEFAULT_CLEAN_UP_DELAY_S,
    ) -> None:
        """Start the threads.

        `retain` does one step of retention and tells whether all is done.  Rows beside a run
        (account, keys) stay `cleanup_delay_s` after its end.
        """
        self._cleanup_delay_s = cleanup_delay_s
        self._store, self._sequencer = store, sequencer
        self._publisher = publisher
        self._on_publication, self._retain = on_publication, retain
        self._stop, self._caught_up = Event(), Event()
        # A tree of the same size in another database is another tree.
        self._signed: DatabaseMemory[_SignedTree] = DatabaseMemory(store.lineage, _SignedTree)
        self._published: DatabaseMemory[_PublishedTree] = DatabaseMemory(
            store.lineage, _PublishedTree
        )
        self._leads = self._erases = False
        self._wake, self._pause = Event(), SEQUENCE_INTERVAL_S
        self._batches = 0
        self._looked = _Look()
        self.has_retained = False
        """Whether a round of retention is over."""
        self.failure: Exception | None = None
        """The error that stopped the threads for good, if any."""
        self._errors: dict[str, StoreFailed] = {}
        self._threads = [
            Thread(target=self._run, args=(name, step, pause), name=f"forum-{name}", daemon=True)
            for name, step, pause in (
                ("sequencer", self._sequence, SEQUENCE_INTERVAL_S),
                ("signer", self._sign, PUBLISH_INTERVAL_S),
                ("publisher", self._publish, PUBLISH_INTERVAL_S),
                ("retention", self._erase, PUBLISH_INTERVAL_S),
                ("cleaner", self._clean_up, CLEAN_UP_INTERVAL_S),
            )
            if name != "retention" or retain is not None
        ]
        # Without threads, `close` sequences and publishes what was appended.
        self._threads = [thread for thread in self._threads if start_thread(thread)]
        register_fork_aware(self)

    def notice_append(self) -> None:
        """Sequence soon: this process has appended entries."""
        self._wake.set()

    def after_fork_in_child(self) -> None:
        """Leave sequencing and publishing to the threads of the parent.

        `close` in a child still sequences and publishes once.
        """
        self._threads = []
        self._stop, self._caught_up = Event(), Event()
        self._errors = {}

    def close(self) -> None:
        """Stop the threads, then sequence and publish the rest.

        Raises the error that stopped a thread earlier, if any.
        """
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self.raise_failure()
        self._sequencer.drain()
        self._caught_up.set()
        self._leads, self._looked = self._store.try_lead(), _Look()
        self._sign()
        self._publish()

    def raise_failure(self) -> None:
        """Raise the error that stopped the threads, so that writers learn of it."""
        if self.failure is not None:
            raise self.failure

    @property
    def last_error(self) -> StoreFailed | None:
        """A current error of one of the threads, if any; the thread retries continuously."""
        return next(iter([*self._errors.values()]), None)

    def _run(self, name: str, step: Callable[[], None], pause: float) -> None:
        while not self._stop.is_set():
            started = monotonic()
            try:
                step()
                self._errors.pop(name, None)
            except ConcurrentUpdate:
                pass  # another process sequences too: try again
            except StoreFailed as error:
                self._errors[name] = error  # a full disk or a restarting database: try again
            except Exception as error:  # noqa: BLE001  raised again by `close`
                self.failure = error
                self._stop.set()
            self._stop.wait(max(0.0, pause - (monotonic() - started)))

    def _sequence(self) -> None:
        self._leads = self._store.try_lead()
        if not self._leads:
            self._stop.wait(LEADER_POLL_INTERVAL_S)
            return
        is_idle = True
        while (entries := self._sequencer.sequence_batch()) and not self._stop.is_set():
            is_idle = False
            # Once caught up, what arrives meanwhile waits for the next round unless a batch is
            # full: under load every batch would be small, and each costs a commit and nine
            # statements.
            if self._caught_up.is_set() and entries < MAX_BATCH_ENTRIES:
                break
        self._caught_up.set()
        self._batches += not is_idle
        # Entries of other processes are looked for less often while there are none.
        self._pause = min(2 * self._pause, IDLE_INTERVAL_S) if is_idle else SEQUENCE_INTERVAL_S
        if is_idle and self._wake.wait(self._pause):
            self._wake.clear()

    def _sign(self) -> None:
        is_caught_up, signed = self._caught_up.is_set(), self._signed.value
        look = _Look(self._batches, monotonic())
        may_have_grown = (
            look.batches != self._looked.batches or look.at - self._looked.at >= HEAD_INTERVAL_S
        )
        if not self._leads or (is_caught_up == signed.is_caught_up and not may_have_grown):
            return
        size = self._store.head().size
        if (size, is_caught_up) != (signed.size, signed.is_caught_up):
            self._signed.value = _SignedTree(size, self._publisher.sign(), is_caught_up)
        self._looked = look

    def _erase(self) -> None:
        # A command that ends in a moment leaves retention to processes that stay.
        if self._stop.wait(RETENTION_DELAY_S if self._erases else FIRST_RETENTION_DELAY_S):
            return
        self._erases = True
        while self._leads and self._retain is not None and not self._stop.is_set():
            if self._retain():
                break
            # Each step is recorded and signed before the next one erases what it announced.
            self._stop.wait(PUBLISH_INTERVAL_S)
        self.has_retained = True

    def _clean_up(self) -> None:
        """Delete the rows beside runs that ended long ago, a batch at a time."""
        if not self._leads:
            # A process that has just started leads after its first look.  One that ends within this
            # time leaves the clean-up to others.
            self._stop.wait(LEADER_POLL_INTERVAL_S)
        while self._leads and not self._stop.wait(SEQUENCE_INTERVAL_S):
            # Two processes that lead at once delete different rows, or one of them finds nothing.
            if self._store.clean_up(self._cleanup_delay_s, CLEAN_UP_BATCH) < CLEAN_UP_BATCH:
                return

    def _publish(self) -> None:
        # Sequence the entries that a crash left pending before anything is published.  If an old
        # checkpoint were cosigned only now, these entries would come behind it and would seem to
        # have been written after the time of the cosignature.
        signed, published = self._signed.value, self._published.value
        is_same = signed.note == published.signed
        if not self._leads or not signed.is_caught_up or (is_same and published.is_complete):
            return
        publication = self._publisher.publish(published.note if is_same else signed.note)
        is_complete = not publication.unreachable and not publication.refused
        self._published.value = _PublishedTree(signed.note, publication.note, is_complete)
        self._on_publication(publication)
