"""What the tests of several rooms share: logs that can be opened twice, and ports that fail."""

import gc
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from forum.app import Forum
from forum.ledger.body import CHUNK_SIZE, Body, Content
from forum.ledger.entry import Entry, leaf_of
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts
from forum.ledger.log import Ledger
from forum.ledger.ports import Effect, EntryWrite, Position, Reader, Store
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.sqlite import SqliteStore
from forum.tlog import Hash, SigningKey

SOON = 120.0
"""Seconds after which somebody who waits has been forgotten."""


def flaky(reason: str) -> pytest.MarkDecorator:
    """Mark a test that is tried up to twice more; nothing else is ever tried again.

    It is for limits against the clock that users were promised, where nothing else can be counted:
    the machine does other things too.  The reason says so.
    """
    return pytest.mark.flaky(reruns=2, reason=reason)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about soon."""
    assert_soon(holds, SOON, pause=0.005)


def assert_soon(holds: Callable[[], bool], seconds: float, pause: float) -> None:
    """Ask again and again; a question that takes long is asked less often."""
    deadline = (asked := monotonic()) + seconds
    while not holds():
        assert monotonic() < deadline, "it does not happen"
        sleep(max(pause, 4 * (monotonic() - asked)))
        asked = monotonic()


def open_files() -> int:
    """Count what this process holds open, without what other tests have left to be collected."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def free_port() -> int:
    """Return a port of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def fresh_origin() -> str:
    """Return the name of a log that no test has used before: databases outlive test runs."""
    return f"test.example/{secrets.token_hex(8)}"


def key_of(origin: str) -> SigningKey:
    """Return the key that signs for a log."""
    return SigningKey(bytes(range(32)), origin)


@cache
def upgraded(url: str) -> str:
    """Bring a Postgres database up to date, once."""
    upgrade_schema(url)
    return url


class StoreFactory:
    """Opens one log again and again, each time as another process would."""

    def __init__(self, place: Path | str, origin: str | None = None) -> None:
        self.place = place
        self.origin = origin or fresh_origin()
        self._opened: list[Store] = []

    def __call__(self) -> Store:
        """Open the log."""
        store: Store
        if isinstance(self.place, Path):
            store = SqliteStore(self.place, self.origin)
        else:
            store = PostgresStore(upgraded(self.place), self.origin, connections=2)
        self._opened.append(store)
        return store

    def beside(self) -> "StoreFactory":
        """Return a factory of another log in the same database."""
        return StoreFactory(self.place)

    def close(self) -> None:
        """Close what was opened."""
        for store in self._opened:
            store.close()


class Chain:
    """The entries of one strand, each linked to the one before it, on their way to a store."""

    def __init__(self, origin: str, run: str = "run", strand: str = "main") -> None:
        self.origin, self.run = origin, run
        self.strand = strand
        self.records: list[EntryWrite] = []

    def take(self, entries: int) -> list[EntryWrite]:
        """Return the next entries."""
        return [self.next() for _ in range(entries)]

    def next(
        self, *parents: Hash, text: Content | None = None, effects: tuple[Effect, ...] = ()
    ) -> EntryWrite:
        """Return the next entry, with a body if there is a text."""
        n = len(self.records)
        bodies = (Body("text", "text/plain", text, secrets.token_bytes(32)),) if text else ()
        entry = Entry(
            v="forum/entry/1",
            log=self.origin,
            run=self.run,
            strand=self.strand,
            n=n,
            prev=self.records[-1].leaf.hex() if n else "",
            step=f"step/{n}",
            ts=n,
            actor="tester",
            kind="note/1",
            parents=tuple(parent.hex() for parent in parents),
            facts=NoteFacts(),
            bodies={body.name: body.commitment() for body in bodies},
        )
        data = LEDGER_KINDS.write(entry)
        record = EntryWrite(
            Position(self.run, self.strand, n),
            data,
            leaf=leaf_of(data),
            bodies=bodies,
            effects=effects,
        )
        self.records.append(record)
        return record


def ledger_on(store: Store, append: Callable[[Sequence[EntryWrite]], None] | None = None) -> Ledger:
    """Return a ledger with a clock of its own."""
    return Ledger(
        store,
        kinds=LEDGER_KINDS,
        clock=count(1).__next__,
        salts=lambda: secrets.token_bytes(32),
        append=append,
    )


def data_of(records: Sequence[EntryWrite]) -> list[bytes]:
    """Return the bytes of some entries."""
    return [record.data for record in records]


def entries_of(reader: Reader) -> list[bytes]:
    """Return the entries of a log in the order of their indexes; each index must have one."""
    entries = list(reader.entries(0, reader.head().size))
    assert None not in entries
    return [data for data in entries if data is not None]


def leaves_of(reader: Reader) -> list[Hash]:
    """Return the leaf hashes of a log in the order of their indexes, computed from its entries."""
    return [leaf_of(data) for data in entries_of(reader)]


class Pieces:
    """Content of any length that is never in memory as a whole."""

    def __init__(self, size: int) -> None:
        self.size = size

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece, each of them different."""
        for at in range(0, self.size, CHUNK_SIZE):
            length = min(CHUNK_SIZE, self.size - at)
            yield at.to_bytes(8, "big").ljust(length, b"x")[:length]


class Wrapped:
    """A port with some of its calls replaced; the others go through."""

    def __init__(self, port: object, **calls: Callable[..., Any]) -> None:
        self._port, self._calls = port, calls

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  a call of any port
        return self._calls.get(name) or getattr(self._port, name)


class Stopped(Exception):
    """The process ends here, in the middle of what it was doing."""


class Calls(ABC):
    """Counts the calls of a process to the world, and has something happen at one of them."""

    def __init__(self, before: int) -> None:
        self._left = before

    @property
    def reached(self) -> bool:
        """Whether the process came to that call."""
        return self._left < 0

    def port(self, port: object) -> Any:  # noqa: ANN401  a port of any kind
        """Return a port whose calls are counted."""
        return _Counted(port, self)

    def call(self, effect: Callable[..., Any], *arguments: object, **named: object) -> Any:  # noqa: ANN401
        """Do this, or what happens instead."""
        self._left -= 1
        if self._left == -1:
            return self._happen(partial(effect, *arguments, **named))
        return effect(*arguments, **named)

    @abstractmethod
    def _happen(self, effect: Callable[[], Any]) -> Any:  # noqa: ANN401  what the call returns
        """Take the place of the call."""


class Fuse(Calls):
    """Stops a process at one of its calls to the world, before or after the call has its effect.

    These are the two rows of every crash table: failed, and failed but persisted.
    """

    def __init__(self, before: int, *, persisted: bool) -> None:
        super().__init__(before)
        self._persisted = persisted

    def _happen(self, effect: Callable[[], Any]) -> Any:  # noqa: ANN401
        if self._persisted:
            effect()
        raise Stopped


class Interlude(Calls):
    """Lets somebody else act between two calls that a process makes to the world."""

    def __init__(self, before: int, act: Callable[[], object]) -> None:
        super().__init__(before)
        self._act = act

    def _happen(self, effect: Callable[[], Any]) -> Any:  # noqa: ANN401
        self._act()
        return effect()


class _Counted:
    def __init__(self, port: object, calls: Calls) -> None:
        self._port, self._calls = port, calls

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  a call or a value
        found = getattr(self._port, name)
        return partial(self._calls.call, found) if callable(found) else found


def sign_unread(forum: Forum) -> None:
    """Sequence and sign like a release that did not read what it signed."""
    forum.log.drop_publisher()
    forum.__dict__["readable"] = None
    forum.log.publish()
    forum.__dict__.pop("readable")
    forum.log.drop_publisher()
