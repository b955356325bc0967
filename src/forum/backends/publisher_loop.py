"""Keeping a log: indexes within a tenth of a second, a signed checkpoint within one."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from forum.backends.fork_safety import ForkAware, register_fork_aware
from forum.errors import ConcurrentUpdate, StoreFailed
from forum.ledger import Publication, Publisher, Sequencer, Store

SEQUENCE_INTERVAL_S = 0.1
LEADER_POLL_INTERVAL_S = 1.0
"""How often a process that does not lead asks whether it may: many workers share one log."""
PUBLISH_INTERVAL_S = 0.8


class PublisherLoop(ForkAware):
    """Sequences and publishes one log in the background.

    Three threads: a witness that is slow or gone delays neither signatures nor indexes, and
    appending needs none of the three.
    """

    def __init__(
        self,
        store: Store,
        sequencer: Sequencer,
        publisher: Publisher,
        heard: Callable[[Publication], None] = lambda _: None,
    ) -> None:
        self._store, self._sequencer, self._publisher = store, sequencer, publisher
        self._heard = heard
        self._stop, self._caught_up = Event(), Event()
        self._signed = self._published = -1
        self._leads = False
        self.failure: Exception | None = None
        """Why this log is not kept any more, if something is wrong with it."""
        self._troubles: dict[str, StoreFailed] = {}
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
        """Leave the keeping to the parent; who closes this in a child keeps the log once more."""
        self._threads = []
        self._stop, self._caught_up = Event(), Event()
        self._troubles = {}

    def close(self) -> None:
        """Stop, having sequenced and published what is there; raise what went wrong."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.raise_failure()
        self._sequencer.drain()
        self._caught_up.set()
        self._leads = self._store.try_lead()
        self._publish()

    def raise_failure(self) -> None:
        """Raise what stopped the keeping of this log: whoever writes on must know."""
        if self.failure is not None:
            raise self.failure

    @property
    def last_error(self) -> StoreFailed | None:
        """What keeps this log from being kept just now; it is tried again all the time."""
        return next(iter([*self._troubles.values()]), None)

    def _run(self, name: str, step: Callable[[], None], pause: float) -> None:
        while not self._stop.is_set():
            begun = monotonic()
            try:
                step()
                self._troubles.pop(name, None)
            except ConcurrentUpdate:
                pass  # somebody else sequences: look again
            except StoreFailed as error:
                self._troubles[name] = error  # a full disk, a database that restarts: look again
            except Exception as error:  # noqa: BLE001  raised again by whoever closes
                self.failure = error
                self._stop.set()
            self._stop.wait(max(0.0, pause - (monotonic() - begun)))

    def _sequence(self) -> None:
        self._leads = self._store.try_lead()
        if not self._leads:
            self._stop.wait(LEADER_POLL_INTERVAL_S)
            return
        while self._sequencer.sequence_batch() and not self._stop.is_set():
            pass
        self._caught_up.set()

    def _sign(self) -> None:
        size = self._store.head().size
        if size != self._signed and self._leads:
            self._publisher.sign()
            self._signed = size

    def _publish(self) -> None:
        # Entries that a crash left waiting get their indexes first: behind an old checkpoint that
        # is cosigned only now, they would seem to have been written after that.
        if not self._caught_up.is_set():
            return
        if self._leads and self._store.head().size != self._published:
            publication = self._publisher.publish()
            # Ask again as long as a witness is missing.
            missing = publication.unreachable or publication.refused
            self._published = -1 if missing else publication.checkpoint.size
            self._heard(publication)
