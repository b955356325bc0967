"""Background threads that sequence and publish a log.

While this process leads, a committed entry gets its index within about a tenth of a second and is
covered by a signed checkpoint within about a second.
"""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from forum.backends.fork_safety import ForkAware, register_fork_aware
from forum.errors import ConcurrentUpdate, StoreFailed
from forum.ledger.ports import Store
from forum.ledger.sequencer import MAX_BATCH_ENTRIES, Publication, Publisher, Sequencer

SEQUENCE_INTERVAL_S = 0.1
LEADER_POLL_INTERVAL_S = 1.0
"""The interval at which a process that does not lead tries to; many workers share one log."""
PUBLISH_INTERVAL_S = 0.8


class PublisherLoop(ForkAware):
    """A background service that sequences, signs and publishes one log.

    It has three threads, so that a slow or unreachable witness delays neither signatures nor
    indexes.  Appending does not depend on any of them.
    """

    def __init__(
        self,
        store: Store,
        sequencer: Sequencer,
        publisher: Publisher,
        on_publication: Callable[[Publication], None] = lambda _: None,
    ) -> None:
        self._store, self._sequencer, self._publisher = store, sequencer, publisher
        self._on_publication = on_publication
        self._stop, self._caught_up = Event(), Event()
        self._signed = self._published = -1
        self._leads = False
        self.failure: Exception | None = None
        """The error that stopped the threads for good, if any."""
        self._errors: dict[str, StoreFailed] = {}
        self._threads = [
            Thread(target=self._run, args=(name, step, pause), name=f"forum-{name}", daemon=True)
            for name, step, pause in (
                ("sequencer", self._sequence, SEQUENCE_INTERVAL_S),
                ("signer", self._sign, PUBLISH_INTERVAL_S),
                ("publisher", self._publish, PUBLISH_INTERVAL_S),
            )
        ]
        for thread in self._threads:
            thread.start()
        register_fork_aware(self)

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
        for thread in self._threads:
            thread.join()
        self.raise_failure()
        self._sequencer.drain()
        self._caught_up.set()
        self._leads = self._store.try_lead()
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
        while (entries := self._sequencer.sequence_batch()) and not self._stop.is_set():
            # Once caught up, what arrives meanwhile waits for the next round unless a batch is
            # full: under load every batch would be small, and each costs a commit and nine
            # statements.
            if self._caught_up.is_set() and entries < MAX_BATCH_ENTRIES:
                return
        self._caught_up.set()

    def _sign(self) -> None:
        size = self._store.head().size
        if size != self._signed and self._leads:
            self._publisher.sign()
            self._signed = size

    def _publish(self) -> None:
        # Sequence the entries that a crash left pending before anything is published.  If an old
        # checkpoint were cosigned only now, these entries would come behind it and would seem to
        # have been written after the time of the cosignature.
        if not self._caught_up.is_set():
            return
        if self._leads and self._store.head().size != self._published:
            publication = self._publisher.publish()
            # -1 is no size of a tree, so the next round publishes this tree again and asks the
            # witnesses whose cosignature is missing.
            missing = publication.unreachable or publication.refused
            self._published = -1 if missing else publication.checkpoint.size
            self._on_publication(publication)
