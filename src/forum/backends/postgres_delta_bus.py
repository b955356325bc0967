"""Who listens to models while they speak: between processes, by the notifications of Postgres.

A notification is no row: it reaches the sessions that listen at that moment, and is gone.  One
thread sends, and one listens, each with a connection of its own; both begin when they are needed.
Where the database cannot be reached, what was to be sent is lost, and nobody waits for it.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from threading import Condition, Event, Lock, Thread

import msgspec
import psycopg
from msgspec.structs import replace
from psycopg.rows import TupleRow

from forum.backends.delta_bus import DeltaListener, DeltaListeners
from forum.backends.fork_safety import ForkAware, register_fork_aware

CHANNEL = "forum_delta"
MAX_PAYLOAD_BYTES = 7900
"""Bytes of a notification: Postgres takes less than 8000."""
MAX_QUEUED_CHARS = 1 << 22
"""Characters that wait to be sent; what comes when there are so many is lost."""

_BATCH_INTERVAL_S = 0.08
_RETRY_DELAY_S = 1.0
_POLL_INTERVAL_S = 0.2
"""How long a listener may take to see that it is to end."""
_CONNECT_TIMEOUT_S = 10
_CLOSE_TIMEOUT_S = 2.0
"""How long the end of a process may wait for a thread that waits for the database."""
# What may be lost need not wait for a disk: a notification is a commit like any other.
_ASYNC_COMMIT = "SET synchronous_commit TO off"
_NOTIFY = "SELECT pg_notify(%s, %s)"

Connection = psycopg.Connection[TupleRow]


class DeltaMessage(msgspec.Struct, frozen=True, array_like=True):
    """A notification."""

    log: str
    run: str
    task: str
    step: str
    text: str
    n: int = 0
    """Differs between equal texts: Postgres drops what it was told before in a transaction."""


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_delta_decoder = msgspec.json.Decoder(DeltaMessage)


class PostgresDeltaBus:
    """Whispers of one log between all processes that use one database."""

    def __init__(self, url: str, origin: str) -> None:
        log = sha256(origin.encode()).hexdigest()[:32]
        self._sender, self._ear = _DeltaSender(url, log), _DeltaReceiver(url, log)

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Have a text sent, together with what else is said in the same tenth of a second."""
        self._sender.enqueue((run, task, step), text)

    @contextmanager
    def subscribe(self, listener: DeltaListener) -> Iterator[None]:
        """Have somebody told what is said of this log, once the database is reached."""
        self._ear.add(listener)
        try:
            yield
        finally:
            self._ear.remove(listener)

    def close(self) -> None:
        """Send what waits, and let go of both connections."""
        self._sender.close()
        self._ear.close()


class _DeltaSender(ForkAware):
    """Gathers what is said, and sends it."""

    def __init__(self, url: str, log: str) -> None:
        self._url, self._log = url, log
        self.after_fork_in_child()
        register_fork_aware(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: what waits is sent by the parent, whose thread it is."""
        self._waiting: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._size = 0
        self._changed, self._closed = Condition(), Event()
        self._thread: Thread | None = None

    def enqueue(self, call: tuple[str, str, str], text: str) -> None:
        """Take in what is to be sent."""
        with self._changed:
            if self._closed.is_set() or self._size > MAX_QUEUED_CHARS:
                return
            # A lone surrogate is no text, and nobody could send it.
            self._waiting[call].append(text.encode(errors="replace").decode())
            self._size += len(text)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="forum-whispers", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread, once it has sent what waits."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while not self._is_finished():
            try:
                with _connect(self._url) as db:
                    self._send_all(db)
            except psycopg.Error:
                self._take_batch()
                self._closed.wait(_RETRY_DELAY_S)

    def _is_finished(self) -> bool:
        return self._closed.is_set() and not self._waiting

    def _send_all(self, db: Connection) -> None:
        db.execute(_ASYNC_COMMIT)
        while not self._is_finished():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
            self._closed.wait(_BATCH_INTERVAL_S)
            payloads = [
                (CHANNEL, payload)
                for call, pieces in self._take_batch().items()
                for payload in _split_payloads(
                    DeltaMessage(self._log, *call, "".join(pieces)), count()
                )
            ]
            if payloads:
                # One transaction: the server wakes those who listen once.
                with db.transaction(), db.cursor() as cursor:
                    cursor.executemany(_NOTIFY, payloads)

    def _take_batch(self) -> dict[tuple[str, str, str], list[str]]:
        with self._changed:
            taken, self._waiting = self._waiting, defaultdict(list)
            self._size = 0
        return taken


def _split_payloads(whisper: DeltaMessage, numbers: Iterator[int]) -> Iterator[str]:
    """Yield notifications that are short enough; what does not fit beside long names is lost."""
    whisper = replace(whisper, n=next(numbers))
    payload = msgspec.json.encode(whisper)
    if len(payload) <= MAX_PAYLOAD_BYTES:
        yield payload.decode()
    elif (middle := len(whisper.text) // 2) > 0:
        yield from _split_payloads(replace(whisper, text=whisper.text[:middle]), numbers)
        yield from _split_payloads(replace(whisper, text=whisper.text[middle:]), numbers)


class _DeltaReceiver(ForkAware):
    """Hears what is sent by whomever, and tells those who listen here."""

    def __init__(self, url: str, log: str) -> None:
        self._url, self._log = url, log
        self.after_fork_in_child()
        register_fork_aware(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: those who listened do so in the parent."""
        self._listeners = DeltaListeners()
        self._lock, self._closed = Lock(), Event()
        self._thread: Thread | None = None

    def add(self, listener: DeltaListener) -> None:
        """Have somebody told."""
        self._listeners.add(listener)
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._run, name="forum-listener", daemon=True)
                self._thread.start()

    def remove(self, listener: DeltaListener) -> None:
        """Have somebody told no more."""
        self._listeners.remove(listener)

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                with _connect(self._url) as db:
                    self._receive_all(db)
            except psycopg.Error:
                self._closed.wait(_RETRY_DELAY_S)

    def _receive_all(self, db: Connection) -> None:
        db.execute(f"LISTEN {CHANNEL}")
        while not self._closed.is_set():
            for notification in db.notifies(timeout=_POLL_INTERVAL_S):
                self._dispatch(notification.payload)
                if self._closed.is_set():
                    return

    def _dispatch(self, payload: str) -> None:
        try:
            whisper = _delta_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return  # anybody who may connect can send anything here
        if whisper.log == self._log:
            self._listeners.notify(whisper.run, whisper.task, whisper.step, whisper.text)


def _connect(url: str) -> Connection:
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        client_encoding="utf8",
        # A session whose other end is gone without a word is noticed in a minute, not in hours.
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
    )
