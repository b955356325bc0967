"""A bus for the text deltas of running model calls, between processes, on Postgres NOTIFY.

A notification is not stored: it reaches only the sessions that listen at that moment.  One thread
sends and one thread listens, each with its own connection; both start on first use.  If the
database is unavailable, deltas are dropped, and no caller waits for them.
"""

import hmac
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from itertools import count
from threading import Condition, Event, Thread
from typing import ClassVar

import msgspec
import psycopg
from msgspec.structs import replace

from forum.errors import TransactionPooler
from forum.stores.delta_bus import DeltaListener, LocalDeltaBus
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.postgres_sessions import LimitedSession, Purpose, RetryDelay, connect

MAX_PAYLOAD_BYTES = 7900
"""The maximum size of a notification; Postgres accepts less than 8000 bytes."""
MAX_QUEUED_CHARS = 1 << 22
"""The maximum number of queued characters; further deltas are dropped."""

_BATCH_INTERVAL_S = 0.08
_IDLE_S = 2.0
"""After this time without a delta the sender gives its connection back."""
_POLL_INTERVAL_S = 0.2
"""The interval at which the listening thread checks whether it is closed."""
_CLOSE_TIMEOUT_S = 2.0
"""The time that `close` waits for a thread that may be blocked on the database."""
# A notification is sent by a commit, which normally waits for the disk.  Deltas may be lost, so
# they need not wait.
_ASYNC_COMMIT = "SET synchronous_commit TO off"
_NOTIFY = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"


class DeltaMessage(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a notification."""

    log: str
    run: str
    task: str
    step: str
    text: str
    n: int = 0
    """Makes equal texts differ: Postgres drops duplicate notifications of a transaction."""


# Created once at import: two threads in which msgspec inspects a type at the same time can crash
# the process.
_delta_decoder = msgspec.json.Decoder(DeltaMessage)


class PostgresDeltaBus:
    """A bus for the deltas of one log between all processes that use a database."""

    def __init__(self, url: str, origin: str, secret: bytes) -> None:
        """Use the channel that those find who have a secret of the log."""
        log = sha256(origin.encode()).hexdigest()[:32]
        channel = name_channel(origin, secret)
        self._sender = _DeltaSender(url, log, channel)
        self._receiver = _DeltaReceiver(url, log, channel)

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Queue a delta; all deltas of about a tenth of a second are sent together."""
        self._sender.enqueue((run, task, step), text)

    def subscribe(self, listener: DeltaListener) -> AbstractContextManager[None]:
        """Subscribe a listener until the end of the block; delivery starts once connected."""
        self._receiver.start()
        return self._receiver.listeners.subscribe(listener)

    def close(self) -> None:
        """Send the queued deltas, and close both connections."""
        self._sender.close()
        self._receiver.close()


def name_channel(origin: str, secret: bytes) -> str:
    """Return the channel of a log.

    Every user of a database may listen on each channel that they can name, and tenants must not
    hear each other: so the name follows from a secret.  No statement lists the channels of others.
    """
    return f"forum_delta_{hmac.new(secret, origin.encode(), 'sha256').hexdigest()[:32]}"


class _DatabaseThread(ForkAware):
    """A thread with a connection of its own, which it opens again after an error."""

    name: ClassVar[str]

    def __init__(self, url: str, log: str, channel: str) -> None:
        # The payloads are UTF-8, whatever the database is encoded in.
        self._url = psycopg.conninfo.make_conninfo(url, client_encoding="utf8")
        self._log, self._channel = log, channel
        self._retry = RetryDelay()
        self.after_fork_in_child()
        register_fork_aware(self)

    def after_fork_in_child(self) -> None:
        """Start without a thread, which belongs to the parent."""
        self._changed, self._closed = Condition(), Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs already."""
        with self._changed:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the thread, and wait for it up to a timeout."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while self._wait_for_work():
            try:
                with connect(self._url, Purpose.SESSION, autocommit=True) as db:
                    self._retry.reset()
                    self._work(db)
            except (psycopg.Error, TransactionPooler):  # the store reports why
                self._drop_queued()
                self._closed.wait(self._retry.next())

    def _wait_for_work(self) -> bool:
        """Wait until a connection is needed; return False when the thread is finished."""
        return not self._closed.is_set()

    def _drop_queued(self) -> None:
        """Drop what waits for the database."""

    @abstractmethod
    def _work(self, db: LimitedSession) -> None:
        """Use a connection until the thread is finished, or has no more use for it."""


class _DeltaSender(_DatabaseThread):
    """A queue of deltas with a thread that sends them in batches."""

    name = "forum-whispers"

    def after_fork_in_child(self) -> None:
        """Start with an empty queue: the thread of the parent sends the queued deltas."""
        super().after_fork_in_child()
        self._waiting: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._size = 0

    def enqueue(self, call: tuple[str, str, str], text: str) -> None:
        """Queue a delta, or drop it if the queue is full or closed."""
        with self._changed:
            if self._closed.is_set() or self._size > MAX_QUEUED_CHARS:
                return
            # A lone surrogate cannot be encoded as UTF-8, and sending it would fail.
            self._waiting[call].append(text.encode(errors="replace").decode())
            self._size += len(text)
            self.start()
            self._changed.notify()

    def _wait_for_work(self, seconds: float | None = None) -> bool:
        """Wait for deltas; return False if there are none after some seconds, or at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed.is_set(), seconds)
            return bool(self._waiting)

    def _work(self, db: LimitedSession) -> None:
        db.execute(_ASYNC_COMMIT)
        while self._wait_for_work(_IDLE_S):
            self._closed.wait(_BATCH_INTERVAL_S)
            payloads = [
                payload
                for call, pieces in self._take_batch().items()
                for payload in _split_payloads(
                    DeltaMessage(self._log, *call, "".join(pieces)), count()
                )
            ]
            if payloads:
                # One statement, so that the server wakes the listening sessions only once.
                db.execute(_NOTIFY, (self._channel, payloads))

    def _drop_queued(self) -> None:
        self._take_batch()

    def _take_batch(self) -> dict[tuple[str, str, str], list[str]]:
        with self._changed:
            batch, self._waiting = self._waiting, defaultdict(list)
            self._size = 0
        return batch


def _split_payloads(delta: DeltaMessage, numbers: Iterator[int]) -> Iterator[str]:
    """Split a message into payloads within the size limit.

    The text is dropped if the names alone exceed the limit.
    """
    delta = replace(delta, n=next(numbers))
    payload = msgspec.json.encode(delta)
    if len(payload) <= MAX_PAYLOAD_BYTES:
        yield payload.decode()
    elif (middle := len(delta.text) // 2) > 0:
        yield from _split_payloads(replace(delta, text=delta.text[:middle]), numbers)
        yield from _split_payloads(replace(delta, text=delta.text[middle:]), numbers)


class _DeltaReceiver(_DatabaseThread):
    """A thread that receives the notifications of all processes for the listeners of this one."""

    name = "forum-listener"

    def after_fork_in_child(self) -> None:
        """Start without listeners: the subscriptions belong to the parent."""
        super().after_fork_in_child()
        self.listeners = LocalDeltaBus()

    def _work(self, db: LimitedSession) -> None:
        db.execute(f"LISTEN {self._channel}")
        while not self._closed.is_set():
            for payload in db.receive(_POLL_INTERVAL_S):
                self._dispatch(payload)

    def _dispatch(self, payload: str) -> None:
        try:
            delta = _delta_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return  # any user of the database can send any payload to this channel
        if delta.log == self._log:
            self.listeners.publish(delta.run, delta.task, delta.step, delta.text)
