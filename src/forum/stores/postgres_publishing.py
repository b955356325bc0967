"""How entries get their indexes in Postgres, and leave the queue otherwise.

The compare-and-set of the sequencer is the only statement that changes a shared row of the log.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

import psycopg

from forum import errors
from forum.ledger import ports
from forum.stores import sql_queries
from forum.stores.postgres_appending import PostgresEntryStore
from forum.stores.postgres_connections import Connection
from forum.stores.postgres_log import NotHereError
from forum.stores.postgres_reader import StrandKey
from forum.stores.postgres_schema import add_partitions
from forum.stores.postgres_sessions import QUERIES, run_query
from forum.stores.sql_publishing import SqlPublisherStore
from forum.stores.sql_queries import QueryExecutor
from forum.tlog import TileId

_MOVE_CHECK_INTERVAL_S = 2.0
"""How often a process that writes nothing asks whether its log was moved."""


class PendingKey(NamedTuple):
    """The key of a pending entry: the sequence number of its commit, its strand and position."""

    seq: int
    strand: int
    n: int


class PostgresPublisherStore(PostgresEntryStore, SqlPublisherStore):
    """Sequences entries, sets rows aside, and stores signed notes."""

    def try_lead(self) -> bool:
        """Return whether this process holds the sequencer lock; try to take it if not.

        The lock is an advisory lock of one database session, so Postgres frees it when the process
        or its connection is gone.
        """
        if monotonic() - self._looked_at >= _MOVE_CHECK_INTERVAL_S:
            # A process that writes nothing would go on reading where the log was.
            self._looked_at = monotonic()
            if self._fetch_rows("move"):
                self._find_log(self._moves)
        return self._connections.try_lead(self._log)

    def pending_entries(self, limit: int) -> ports.PendingEntries:
        """Return the next entries without an index, in the order of their commits.

        Raises `EntryLost` if a pending entry is no longer stored.
        """
        pending = self._fetch_rows("waiting", limit=limit)
        rows = []
        for _, _, run, strand, n, data, tag in pending:
            if data is None:
                why = f"entry {run}/{strand}/{n} was acknowledged and is gone"
                raise errors.EntryLost(self._origin, why)
            rows.append(ports.EntryRow(run=run or "", strand=strand or "", n=n, data=data, tag=tag))
        return ports.PendingEntries(rows, [PendingKey(row[0], row[1], row[4]) for row in pending])

    def advance_head(
        self,
        old: ports.TreeHead,
        new: ports.TreeHead,
        batch: ports.PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[ports.EntryWrite] = (),
    ) -> None:
        moves = self._moves
        try:
            self._advance_head(old, new, batch, tiles, own=own)
        except errors.ConcurrentUpdate:
            self._find_log(moves)  # the head does not advance where the log is not
            raise

    def _advance_head(
        self,
        old: ports.TreeHead,
        new: ports.TreeHead,
        batch: ports.PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[ports.EntryWrite],
    ) -> None:
        keys: Sequence[PendingKey] = batch.keys
        added: dict[StrandKey, int] = {}
        with self._write_connection("sequencing") as db, db.transaction():
            cached = self._strand_ids.value
            head = (new.size, new.root, self._log, old.size, old.root)
            # The row lock is held until the commit: a second sequencer that waits for it then
            # finds a different head, and its compare-and-set fails.
            if db.execute(QUERIES["swap"], head).rowcount != 1:
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            # The head can be the expected one although the batch is no longer pending: another
            # sequencer may have indexed the entries after this one read them and before it read
            # the head, or an entry may have been moved to the quarantine.
            seqs = sorted({key.seq for key in keys})
            removed = db.execute(QUERIES["remove_pending"], (self._log, seqs)).fetchall()
            places = {
                (seq, *place) for seq, *arrays in removed for place in zip(*arrays, strict=True)
            }
            if places != set(keys):
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            strands = [key.strand for key in keys]
            strands += self._add_own_entries(db, own, added, cached)
            ns = [*(key.n for key in keys), *(write.position.n for write in own)]
            db.execute(QUERIES["add_sequenced"], (self._log, old.size, strands, ns))
            self._add_leaves(db, old.size, [*batch.leaves, *(write.leaf for write in own)])
            with db.cursor() as cursor:
                cursor.executemany(
                    QUERIES["put_tile"],
                    [(self._log, t.level, t.index, h) for t, h in tiles.items()],
                )
        self._cache_strand_keys(added, cached)
        self._guard.note_head(new, old)

    def _add_own_entries(
        self,
        db: Connection,
        own: Sequence[ports.EntryWrite],
        added: dict[StrandKey, int],
        cached: dict[StrandKey, int],
    ) -> list[int]:
        """Store entries of the sequencer, which are never pending; return their strand keys.

        Raises `PositionTaken`.
        """
        if not own:
            return []
        wanted = {(write.position.run, write.position.strand) for write in own}
        missing = {key for key in wanted if key not in cached}
        added.update(self._add_strands(db, missing) if missing else {})
        places = [(write.position.run, write.position.strand) for write in own]
        strands = [added.get(place) or cached[place] for place in places]
        rows = {
            "log": self._log,
            "strands": strands,
            "ns": [write.position.n for write in own],
            "bytes": [write.data for write in own],
            "tags": [write.tag for write in own],
        }
        try:
            db.execute(QUERIES["add_own_entries"], rows)
        except psycopg.errors.UniqueViolation:
            raise errors.PositionTaken(str(own[0].position)) from None
        self._apply_effects(partial(run_query, db, log=self._log), own)
        return strands

    def _add_leaves(self, db: Connection, first: int, leaves: Sequence[bytes]) -> None:
        # In the order of the index on the prefix, so that neighbours go to the same page.
        prefixes = sql_queries.leaf_prefixes(leaves)
        rows = sorted((prefix, idx) for idx, prefix in enumerate(prefixes, first))
        columns = ([row[0] for row in rows], [row[1] for row in rows])
        db.execute(QUERIES["add_leaves"], (self._log, *columns))

    def save_checkpoint(self, size: int, note: bytes) -> None:
        def write() -> None:
            with self._write_transaction("publishing") as execute:
                if not self._save_checkpoint(execute, size, note).rowcount:
                    raise NotHereError

        self._write_where_it_is(write)

    def move_to_quarantine(self, batch: ports.PendingEntries) -> None:
        keys: Sequence[PendingKey] = batch.keys
        runs = {key: row.run for key, row in zip(keys, batch.rows, strict=True)}
        by_commit: dict[int, list[PendingKey]] = {}
        for key in keys:
            by_commit.setdefault(key.seq, []).append(key)
        with (
            self._write_transaction("setting rows aside") as execute,
            self._releasing_pieces(execute, runs.values()) as write_out,
        ):
            self._check_not_moving(execute)
            for seq, group in sorted(by_commit.items()):
                self._remove_waiting(execute, seq, group)
                for key in group:
                    place = {"strand": key.strand, "n": key.n}
                    row = execute("add_quarantine", **place).fetchall()
                    execute("add_quarantine_bodies", quarantine=row[0][0], **place)
                    write_out(runs[key], row[0][0], **place)
                    execute("remove_bodies", **place)
                    execute("remove_entry", **place)

    def _remove_waiting(self, execute: QueryExecutor, seq: int, keys: Sequence[PendingKey]) -> None:
        """Remove entries from their pending commit.

        Raises `ConcurrentUpdate` if one of them is no longer pending.
        """
        commit = execute("pending_row", seq=seq).fetchall()
        waiting = list(zip(*commit[0], strict=True)) if commit else []
        removed = {(key.strand, key.n) for key in keys}
        if not removed.issubset(waiting):
            raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
        left = [place for place in waiting if place not in removed]
        if not left:
            execute("remove_commit", seq=seq)
            return
        strands, ns = [place[0] for place in left], [place[1] for place in left]
        execute("set_pending", seq=seq, strands=strands, ns=ns)

    def clean_up(self, seconds: float, limit: int) -> int:
        """Delete rows as every store does, and make the partitions that are needed soon."""
        looked = super().clean_up(seconds, limit)
        if looked < limit:
            # Another process may hold a table for long, make the same partitions at the moment, or
            # only its role may make them.  Then the default partition takes the rows.
            with suppress(errors.StoreFailed), self._connection("adding partitions") as db:
                add_partitions(db)
        return looked
