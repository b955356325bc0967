"""Notices that a Postgres server is another one, and that it lacks commits which were seen.

The identity of a database is its system identifier, its timeline and the start of its server.  It
is read once for each session.  A promoted standby has a new timeline; a database that was restored
has another start.  When the identity changes, what this process remembers is compared with what is
there, and forgotten.  An asynchronous standby that was promoted may lack commits that were
acknowledged: then nothing more is written to this log, by any process that hears of it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary

import psycopg

from forum import errors, tlog
from forum.ledger import ports
from forum.ledger.database_memory import Lineage
from forum.ledger.entry import leaf_of
from forum.ledger.row_checks import has_tree
from forum.ledger.strand import ENDED_MARK, LOST_COMMITS_MARK
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_sessions import QUERIES

_MAX_ACKNOWLEDGED = 10_000
"""How many of its last entries a process remembers until a larger tree has been seen."""
_LOOK_INTERVAL_S = 1.0
"""How often a process looks whether another one has found lost commits."""


class DatabaseIdentity(NamedTuple):
    """Which server answers, and on which timeline it writes."""

    system: int
    timeline: int
    started: float
    """When the server was started, in seconds since 1970."""


class _Acknowledged(NamedTuple):
    """An entry of this process that the database has acknowledged."""

    position: ports.Position
    leaf: tlog.Hash


_identities: WeakKeyDictionary[Connection, DatabaseIdentity] = WeakKeyDictionary()


def _identify(db: Connection) -> DatabaseIdentity | None:
    """Return the identity of the database of a session; None of a standby, which takes no writes.

    A standby is asked again each time: it may have been promoted since.
    """
    identity = _identities.get(db)
    if identity is None:
        with translate_errors("identifying the database"):
            row = db.execute(QUERIES["identity"]).fetchone()
        if row is None or row[1] is None:
            return None
        identity = _identities[db] = DatabaseIdentity(*row)
    return identity


class DatabaseGuard(ForkAware):
    """Compares the database of one log with what this process and this machine have seen of it."""

    def __init__(
        self,
        origin: str,
        lineage: Lineage,
        open_reader: Callable[[Connection], ports.Reader | None],
    ) -> None:
        """Take a function that opens a log over a session; None if the database lacks it."""
        self._origin, self._lineage = origin, lineage
        self._open_reader = open_reader
        self.after_fork_in_child()
        register_fork_aware(self)
        self._acknowledged: deque[_Acknowledged] = deque(maxlen=_MAX_ACKNOWLEDGED)
        self._seen = ports.TreeHead(0, tlog.EMPTY_ROOT)
        """The largest tree that was seen: never forgotten, for it is what is compared."""
        self._looked_at = 0.0
        self._lost: errors.CommitsLost | None = None
        self.has_ended = False
        """Whether the log had ended at the last look; an epoch that cannot begin reopens it."""

    def after_fork_in_child(self) -> None:
        """Start with a free lock: a thread of the parent may have held it."""
        self._lock = Lock()

    @property
    def seen(self) -> ports.TreeHead:
        """The largest tree of this log that this process has seen."""
        return self._seen

    def check(self, db: Connection | None = None) -> None:
        """Raise `CommitsLost` if the database lacks commits that were seen, or `LogEnded`.

        With a session, the mark of an ended log is read again: it is taken away if the next epoch
        cannot begin.
        """
        if self.has_ended and db is not None:
            with self._lock:
                self._read_mark(self._open_reader(db))
        if self._lost is not None:
            raise self._lost.with_traceback(None)
        if self.has_ended:
            raise errors.LogEnded(self._origin)

    def admit(self, db: Connection) -> None:
        """Compare the database of a session with the one in use, before the session is used.

        Raises `ServerReplaced` for a session of a server that was left for another one.
        """
        identity = _identify(db)
        if identity is None or identity == self._lineage.identity:
            return
        with self._lock:
            if identity == self._lineage.identity:
                return
            self._refuse_superseded(db, identity)
            if self._lineage.identity is not None:
                self._compare(db)
            # Last: if the session breaks before, the next one is compared.
            self._lineage.meet(identity)

    def refuse_left(self, db: Connection) -> None:
        """Raise `ServerReplaced` for a session of a server that was left for another one.

        For a look that must not take the lock for long, as comparing what was seen does.
        """
        identity = _identify(db)
        if identity is not None and identity != self._lineage.identity:
            self._refuse_superseded(db, identity)

    def check_current(self, db: Connection) -> None:
        """Raise `StoreConnectionLost` if another thread has met another server meanwhile.

        Called after a cache was taken: then the cache and the session are of the same database.
        """
        if _identities.get(db) not in (None, self._lineage.identity):
            raise errors.StoreConnectionLost("using a server", "another one took over", "")

    def _refuse_superseded(self, db: Connection, identity: DatabaseIdentity) -> None:
        """Refuse a server whose successor this process has met: its commits are lost."""
        current = self._lineage.identity
        is_older = (
            isinstance(current, DatabaseIdentity)
            and current.system == identity.system
            and current.timeline > identity.timeline
        )
        if is_older or self._lineage.has_left(identity):
            db.close()
            raise errors.ServerReplaced(identity.timeline)

    def require(self, db: Connection, head: ports.TreeHead) -> None:
        """Compare the database with a tree that was seen before this process began."""
        with self._lock:
            if head.size > self._seen.size:
                self._seen = head
            self._compare(db)

    def note_head(self, head: ports.TreeHead, before: ports.TreeHead) -> bool:
        """Remember a tree that was read; return False if it is behind one that was seen before."""
        with self._lock:
            if head.size > self._seen.size:
                self._seen = head
        return head.size >= before.size

    def note_appended(self, records: Sequence[ports.EntryWrite]) -> None:
        """Remember entries that the database has acknowledged."""
        self._acknowledged.extend(_Acknowledged(r.position, r.leaf) for r in records)

    def begin_look(self) -> bool:
        """Return whether it is time to look what other processes have found."""
        is_due = self._lost is None and monotonic() - self._looked_at >= _LOOK_INTERVAL_S
        if is_due:
            self._looked_at = monotonic()
        return is_due

    def look(self, db: Connection, *, again: bool = False) -> None:
        """Read what other processes have found; with `again`, compare the trees once more."""
        with self._lock:
            if _identify(db) is None:
                return
            if again:
                self._compare(db)
            else:
                self._read_mark(self._open_reader(db))

    def check_predecessors(self, db: Connection, records: Sequence[ports.EntryWrite]) -> None:
        """Check that the entries before these are there, after the database has changed.

        Raises `CommitsLost` where there is none, and `PositionTaken` where there is another.
        """
        reader = self._open_reader(db)
        for record in records:
            run, strand, n = record.position
            before = reader.entries_at(run, [(strand, n - 1)])[0] if reader else None
            if before is None:
                with self._lock:
                    self._find_lost(db, reader, 1)
                self.check(db)
            elif leaf_of(before).hex().encode() not in record.data:
                raise errors.PositionTaken(str(record.position))

    def _compare(self, db: Connection) -> None:
        """Compare what was seen with what is there.  The lock is held."""
        reader = self._open_reader(db)
        self._read_mark(reader)
        if self._lost is not None or self.has_ended:
            return
        missing = self._count_missing(reader) if reader else len(self._acknowledged)
        if missing or reader is None or not self._continues(reader):
            self._find_lost(db, reader, missing)

    def _continues(self, reader: ports.TreeReader) -> bool:
        seen = self._seen
        return reader.head().size >= seen.size and has_tree(reader.read_tile, seen)

    def _count_missing(self, reader: ports.Reader) -> int:
        """Return how many entries of this process were acknowledged and are not there."""
        by_run: dict[str, list[_Acknowledged]] = {}
        for entry in list(self._acknowledged):
            by_run.setdefault(entry.position.run, []).append(entry)
        missing: set[tlog.Hash] = set()
        for run, entries in by_run.items():
            places = [(entry.position.strand, entry.position.n) for entry in entries]
            try:
                stored = reader.entries_at(run, places)
            except errors.ArchiveUnreachable:
                continue  # a run is archived when it is signed, so the tree tells
            missing |= {
                entry.leaf
                for entry, data in zip(entries, stored, strict=True)
                if data is None or leaf_of(data) != entry.leaf
            }
        if missing:  # what the sequencer has set aside is not lost
            missing -= {leaf_of(row.row.data) for row in reader.quarantined_rows()}
        return len(missing)

    def _read_mark(self, reader: ports.EntryReader | None) -> None:
        mark = reader.strand_head(LOST_COMMITS_MARK) if reader else None
        if mark is not None and reader is not None and self._lost is None:
            self._lost = errors.CommitsLost(self._origin, mark.n, reader.head().size, 0)
        ended = reader.strand_head(ENDED_MARK) if reader else None
        self.has_ended = ended is not None and ended.n == 0

    def _find_lost(self, db: Connection, reader: ports.TreeReader | None, missing: int) -> None:
        """Stop this process, and leave a mark that stops the others.  The lock is held."""
        seen, there = self._seen, reader.head().size if reader else 0
        self._lost = errors.CommitsLost(self._origin, seen.size, there, missing)
        # Without the mark, others stop as soon as they compare what they have seen themselves.
        with suppress(psycopg.Error):
            mark = {"strand": LOST_COMMITS_MARK, "n": seen.size, "leaf": seen.root, "tag": None}
            db.execute(QUERIES["add_lost_mark"], {"origin": self._origin, **mark})
