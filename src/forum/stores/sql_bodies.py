"""Bodies of entries in SQL, and the removal of bodies and of archived runs."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from forum.ledger import ports
from forum.ledger.body import StoredBody
from forum.ledger.entry import MAIN_STRAND
from forum.stores import sql_queries
from forum.stores.sql_entries import ArchivedRows, SqlEntryReader, group_into_pages
from forum.stores.sql_piece_reader import PieceBody, PieceReader
from forum.stores.sql_pieces import SqlPieceStore, release_pieces


class SqlBodyReader(SqlEntryReader, ports.LogReader):
    """Reads bodies from the database, or from the archive of their run."""

    def body(self, position: ports.Position, name: str) -> StoredBody | None:
        return self.bodies_at([(position, name)])[0]

    def bodies_at(self, places: Sequence[tuple[ports.Position, str]]) -> list[StoredBody | None]:
        bodies: list[StoredBody | None] = []
        readers: dict[str, PieceReader] = {}
        for low in range(0, len(places), sql_queries.PAGE_ROWS):
            page = places[low : low + sql_queries.PAGE_ROWS]
            page_bodies: list[StoredBody | None] = []
            rows = self._bodies_at([(*position, name) for position, name in page])
            for (position, name), (strand, salt, data, number) in zip(page, rows, strict=True):
                place = {"strand": strand, "n": position.n, "name": name}
                body = None if salt is None else self._make_body(place, salt, data)
                if body and number is not None:
                    body = self._make_shared_body(position.run, salt, number, readers)
                page_bodies.append(body)
            bodies += self._add_archived(page, page_bodies)
        return bodies

    @abstractmethod
    def _bodies_at(self, places: list[tuple[str, str, int, str]]) -> list[Any]:
        """Return strand key, salt, data of a small body, and list of a shared one, for each place.

        A place is (run, strand, n, name).
        """

    def _add_archived(
        self, places: Sequence[tuple[ports.Position, str]], bodies: list[StoredBody | None]
    ) -> list[StoredBody | None]:
        """Return the bodies with those that are in an archive in place of None."""
        archived = ArchivedRows(self.archive)
        missing = [at for at, body in enumerate(bodies) if body is None]
        keys = [(self._strand_key(*places[at][0][:2]), places[at][0].n) for at in missing]
        for at, is_emptied in zip(missing, self._are_emptied(keys), strict=True):
            if is_emptied:
                (run, strand, n), name = places[at]
                bodies[at] = archived.find(run).body(strand, n, name)
        return bodies

    def bodies_of_run(self, run: str) -> Iterator[tuple[ports.Position, str, StoredBody]]:
        emptied: set[str] = set()
        readers: dict[str, PieceReader] = {}
        for strands in group_into_pages(self._strands_of(run)):
            are_emptied = self._are_emptied([(s.key, s.length - 1) for s in strands])
            emptied.update(s.name for s, gone in zip(strands, are_emptied, strict=True) if gone)
            names = {strand.key: strand.name for strand in strands}
            keys = self._list(list(names))
            # One query returns all small bodies of the page.
            for key, n, name, salt, data, number in self._fetch_rows(
                "bodies_of_strands", strands=keys, size=sql_queries.MAX_SMALL_BODY_BYTES
            ):
                body = self._make_body({"strand": key, "n": n, "name": name}, salt, data)
                if number is not None:
                    body = self._make_shared_body(run, salt, number, readers)
                yield ports.Position(run, names[key], n), name, body
        # A strand is emptied in one transaction, so its last entry decides.
        for position, name, body in self._find_archived(run).bodies() if emptied else ():
            if position.strand in emptied:
                yield position, name, body

    def _find_archived(self, run: str) -> ports.ArchivedRun:
        return ArchivedRows(self.archive).find(run)

    def _are_emptied(self, places: list[tuple[int | None, int]]) -> list[bool]:
        """Return for each position whether its entry was moved to an archive."""
        return [data == b"" for data, _ in self._entries_at(places)] if places else []

    def _make_body(self, place: dict[str, Any], salt: bytes, data: bytes | None) -> StoredBody:
        """Return a body with its content, or one that is read when its reader asks for it."""
        # A large body comes without its content: it is read part by part, and never held whole.
        read = partial(self._read_body_chunks, place) if data is None else partial(iter, [data])
        return StoredBody(salt, read)

    def _make_shared_body(
        self, run: str, salt: bytes, number: int, readers: dict[str, PieceReader]
    ) -> StoredBody:
        """Return a body that is put together from pieces when its reader asks for it."""
        reader = readers.get(run)
        if reader is None:
            # Without a strand `main` there is no piece, and the body is found to be altered.
            strand = self._strand_key(run, MAIN_STRAND) or 0
            reader = readers[run] = PieceReader(self._fetch_rows, strand, self._list)
        shared = PieceBody(reader, number)
        return StoredBody(salt, partial(reader.read, number), shared=shared)

    def _body_key(self, position: ports.Position, name: str) -> dict[str, Any]:
        strand = self._strand_key(position.run, position.strand)
        return {"strand": strand, "n": position.n, "name": name}

    def _read_body_chunks(self, key: dict[str, Any]) -> Iterator[bytes]:
        part = 0
        while (data := self._fetch_one("body_part", **key, part=part)) is not None:
            yield data
            part += 1


class SqlContentStore(SqlBodyReader, SqlPieceStore, ports.ContentStore):
    """Removes bodies, and what an archive holds."""

    def erase_bodies(self, places: Sequence[tuple[ports.Position, str]]) -> None:
        keys = [self._body_key(position, name) for position, name in places]
        runs = sorted({position.run for position, _ in places})
        with self._write_transaction("erasing") as execute:
            self._check_not_moving(execute)
            held = self._hold_pieces(execute, runs)
            for key in keys:
                execute("erase", **key)
            for run, strand in held.items():
                release_pieces(execute, run, strand, self._list)
            # The digest in the idempotency record is not salted: with it, an attacker could
            # confirm guesses of the erased request.
            for run in runs:
                execute("forget_asked", run=run)

    def unarchived_runs(self, after: str, limit: int) -> list[str]:
        return self._fetch_column("unarchived_runs", run=after, limit=limit)

    def remove_archived(self, run: str, lengths: Mapping[str, int]) -> None:
        # `main` comes last.  After a crash before it, the run is still listed as one that is
        # stored here, and the next call removes the rest.
        for strand in sorted(self._strands_of(run), key=lambda row: row.name == MAIN_STRAND):
            place = {"strand": strand.key, "length": lengths.get(strand.name, 0)}
            # With the last strand, the pieces that no body needs any more.
            last = [run] if strand.name == MAIN_STRAND else []
            with self._write_transaction("removing an archived run") as execute:
                self._check_not_moving(execute)
                held = self._hold_pieces(execute, last)
                execute("remove_archived_bodies", **place)
                for main in held.values():
                    release_pieces(execute, run, main, self._list)
                execute("empty_entries", **place)
