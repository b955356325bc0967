"""Bodies that share bytes, in SQL: how they are read, written and erased.

Pieces and lists of spans stand under the strand `main` of their run (`forum.ledger.spans`).  A
transaction that adds or removes some holds the row of that strand in `piece_head` until it ends:

- Writers of one run take numbers from it, so no two lists have the same.
- An erasure raises its count of erasures.  A writer that remembers bodies of before forgets them,
  because it would name bytes that are gone.
"""

from abc import abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

from forum.errors import Malformed
from forum.ledger import ports
from forum.ledger.body import CHUNK_SIZE, Body
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.span_files import MAX_LISTED_BYTES
from forum.ledger.spans import (
    MIN_SHARED_BYTES,
    KnownBody,
    SpanList,
    covered_ranges,
    encode_spans,
    needed_spans,
    share_body,
)
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.sql_piece_reader import FetchRows, PieceReader, read_list
from forum.stores.sql_queries import QueryExecutor, SqlTransactions

MIN_BODY_BYTES = MIN_SHARED_BYTES
"""The least size of a body that is compared with others: a shorter one is one row, as it is."""

_MAX_KNOWN_BODIES = 8
"""How many bodies of each name are remembered: many results of tools displace no prompt."""

_MAX_KNOWN_BYTES = 64 << 20
_MAX_RUN_BYTES = 32 << 20
_RECENT_LISTS = 64


class _KnownRun(NamedTuple):
    """What a writer remembers of the bodies of a run."""

    erasures: int
    bodies: tuple[KnownBody, ...]

    @property
    def size(self) -> int:
        """The number of bytes that it holds in memory."""
        return sum(len(body.content) for body in self.bodies)


class KnownBodies(ForkAware):
    """The last bodies of the runs that this process writes, the least recently used forgotten."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, _KnownRun] = OrderedDict()
        self._lock, self._size = Lock(), 0
        self.may_share = False
        """Whether this database was seen to have no process that cannot read shared bodies."""
        register_fork_aware(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: another thread of the parent may have held the lock."""
        self._runs = OrderedDict()
        self._lock, self._size = Lock(), 0

    def find(self, strand: int, erasures: int, stop: int) -> tuple[KnownBody, ...] | None:
        """Return the bodies of a run; None if they are not known or not what is stored now.

        The numbers of all lists of the run are below `stop`.
        """
        with self._lock:
            run = self._runs.get(strand)
        if run is None or run.erasures != erasures:
            return None
        if any(body.number >= stop for body in run.bodies):
            return None
        return run.bodies

    def keep(self, strand: int, erasures: int, bodies: tuple[KnownBody, ...]) -> None:
        """Remember the bodies of a run as they were committed."""
        # One run with long bodies does not make the others forgotten.
        sizes = accumulate(len(body.content) for body in bodies)
        kept = [body for body, size in zip(bodies, sizes, strict=True) if size <= _MAX_RUN_BYTES]
        run = _KnownRun(erasures, tuple(kept) or bodies[:1])
        with self._lock:
            self._drop(strand)
            self._runs[strand] = run
            self._size += run.size
            while self._size > _MAX_KNOWN_BYTES and self._runs:
                self._drop(next(iter(self._runs)))

    def forget(self, strand: int) -> None:
        """Forget the bodies of a run, for example because one was erased."""
        with self._lock:
            self._drop(strand)

    def _drop(self, strand: int) -> None:
        dropped = self._runs.pop(strand, None)
        self._size -= dropped.size if dropped else 0


class SharedBodyRow(NamedTuple):
    """A body that is stored as a list of spans."""

    strand: int
    """The key of the run's strand `main`."""
    number: int
    piece: bytes
    list: SpanList

    def pieces(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield the rows of its piece: strand, number, start and data."""
        for start in range(0, len(self.piece), CHUNK_SIZE):
            yield self.strand, self.number, start, self.piece[start : start + CHUNK_SIZE]

    def row(self) -> tuple[int, int, int | None, int, bytes]:
        """Return the row of its list."""
        base, kept, tail = self.list
        return self.strand, self.number, base, kept, encode_spans(tail)


class SharedBodies(NamedTuple):
    """How bodies of some entries are stored, and what to remember after the commit."""

    rows: Mapping[tuple[ports.Position, str], SharedBodyRow]
    known: Mapping[int, tuple[int, tuple[KnownBody, ...]]]
    """Erasures and bodies of each run, by the key of its strand `main`."""

    def body_rows(
        self, strand: int, record: ports.EntryWrite
    ) -> Iterator[tuple[int, int, str, int, bytes, bytes, int | None]]:
        """Yield the rows of an entry's bodies: strand, n, name, part, salt, data and list."""
        n = record.position.n
        for body in record.bodies:
            shared = self.rows.get((record.position, body.name))
            if shared:
                yield strand, n, body.name, 0, body.salt, b"", shared.number
                continue
            for part, data in enumerate(body.content.chunks()):
                yield strand, n, body.name, part, body.salt, data, None


NOTHING_SHARED = SharedBodies({}, {})
"""All bodies are stored as they are."""


def has_size_to_share(body: Body) -> bool:
    """Return whether a body is long enough to repeat others, and short enough to be compared."""
    return MIN_BODY_BYTES <= body.content.size <= MAX_LISTED_BYTES


class _Candidate(NamedTuple):
    position: ports.Position
    name: str
    content: bytes


def share_bodies(
    records: Sequence[ports.EntryWrite],
    strand_of: Callable[[str], int | None],
    fetch: FetchRows,
    known_bodies: KnownBodies,
    list_numbers: Callable[[list[int]], object],
) -> SharedBodies:
    """Decide how the bodies of these entries are stored, in the transaction that stores them.

    `strand_of` returns the key of the strand `main` of a run, or None if there is none.
    """
    by_run: dict[int, list[_Candidate]] = {}
    for record in records:
        for body in record.bodies:
            if has_size_to_share(body):
                strand = strand_of(record.position.run)
                if strand is not None:
                    content = b"".join(body.content.chunks())
                    candidate = _Candidate(record.position, body.name, content)
                    by_run.setdefault(strand, []).append(candidate)
    rows: dict[tuple[ports.Position, str], SharedBodyRow] = {}
    learned: dict[int, tuple[int, tuple[KnownBody, ...]]] = {}
    # Sorted: two transactions that write to the same runs cannot deadlock.
    for strand in sorted(by_run):
        count = len(by_run[strand])
        stop, erasures = fetch("reserve_lists", strand=strand, count=count)[0]
        first = stop - count
        bodies = known_bodies.find(strand, erasures, first)
        if bodies is None:
            bodies = _read_known(fetch, strand, first, list_numbers) if first else ()
        for number, candidate in enumerate(by_run[strand], first):
            shared = share_body(number, candidate.content, bodies)
            rows[candidate.position, candidate.name] = SharedBodyRow(
                strand, number, shared.piece, shared.list
            )
            new = KnownBody(
                number, candidate.content, shared.spans, shared.depth, name=candidate.name
            )
            others = [body for body in bodies if body.number not in shared.contained]
            bodies = _keep_newest([new, *others])
        learned[strand] = erasures, bodies
    return SharedBodies(rows, learned)


def _keep_newest(bodies: Sequence[KnownBody]) -> tuple[KnownBody, ...]:
    """Return the newest bodies of each name; they are given with the newest first."""
    counts: Counter[str] = Counter()
    kept: list[KnownBody] = []
    for body in bodies:
        counts[body.name] += 1
        if counts[body.name] <= _MAX_KNOWN_BODIES:
            kept.append(body)
    return tuple(kept)


def _read_known(
    fetch: FetchRows, strand: int, stop: int, list_numbers: Callable[[list[int]], object]
) -> tuple[KnownBody, ...]:
    """Return the last bodies of a run that others do not begin with, the newest first.

    The numbers of genuine lists are below `stop`: one that somebody has added would not be there
    for long, and what builds on it would be lost.
    """
    rows = fetch("recent_lists", strand=strand, stop=stop, limit=_RECENT_LISTS)
    bases = {row[1] for row in rows}
    ends = [row for row in rows if row[0] not in bases][:_MAX_KNOWN_BODIES]
    reader = PieceReader(fetch, strand, list_numbers)
    bodies: list[KnownBody] = []
    for row in ends:
        try:
            number = row[0]
            spans = reader.resolve(number)
            depth = reader.measure_chain(number)
        except Malformed:
            continue  # somebody has changed it: verification says so, and nothing builds on it
        content = b"".join(reader.read(number))
        # A list stays while others begin with it, also when the bytes behind that were erased.
        if len(content) == sum(span.length for span in spans):
            bodies.append(KnownBody(number, content, spans, depth))
    return tuple(bodies)


def release_pieces(
    execute: Callable[..., Any],
    run: str,
    strand: int,
    list_numbers: Callable[[list[int]], object],
) -> None:
    """Remove what no body of a run needs any more, after some of its bodies were removed.

    The caller holds the row of `strand`, its `main`, in `piece_head`.
    """
    used = {row[0] for row in execute("lists_in_use", run=run).fetchall()}
    stored = {row[0]: row for row in execute("span_lists", strand=strand).fetchall()}
    lists = _readable(stored.values())
    needed = needed_spans(lists, used)
    unused = [number for number in stored if number not in needed]
    if unused:
        execute("remove_lists", strand=strand, numbers=list_numbers(unused))
    covered = covered_ranges(
        span
        for number, count in needed.items()
        for span in lists[number].tail[: max(0, count - lists[number].kept)]
    )
    for number, start, size in execute("piece_ranges", strand=strand).fetchall():
        wanted = [
            (max(start, low), min(start + size, high))
            for low, high in covered.get(number, ())
            if low < start + size and high > start
        ]
        if wanted == [(start, start + size)]:
            continue
        place = {"strand": strand, "number": number, "start": start}
        data: bytes = execute("piece_data", **place).fetchall()[0][0] if wanted else b""
        execute("remove_piece", **place)
        for low, high in wanted:
            execute("add_piece", **{**place, "start": low}, data=data[low - start : high - start])


def _readable(rows: Iterable[Sequence[Any]]) -> dict[int, SpanList]:
    """Return the lists of rows without those that cannot be read: no body can be read by them."""
    lists: dict[int, SpanList] = {}
    for row in rows:
        try:
            lists[row[0]] = read_list(row)
        except Malformed:
            continue
    return lists


def find_main(execute: Callable[..., Any], run: str) -> int | None:
    """Return the key of the strand `main` of a run, or None."""
    rows = execute("strand", run=run, name=MAIN_STRAND).fetchall()
    return rows[0][0] if rows else None


class SqlPieceStore(SqlTransactions):
    """Writes bodies as lists of spans, and removes what no body needs any more."""

    @cached_property
    def _known_bodies(self) -> DatabaseMemory[KnownBodies]:
        """The last bodies that this process has written, with which the next are compared."""
        return DatabaseMemory(self.lineage, KnownBodies)

    @abstractmethod
    def _writes_shared_bodies(self, execute: QueryExecutor) -> bool:
        """Return whether no process is left that cannot read a body of spans."""

    def _share_bodies(
        self,
        execute: QueryExecutor,
        records: Sequence[ports.EntryWrite],
        strands: MutableMapping[tuple[str, str], int],
        known_bodies: KnownBodies,
    ) -> SharedBodies:
        """Decide how bodies are stored; `strands` are keys that are known, and take one looked up.

        Strands and bodies were taken before the database was looked at.  If that becomes another
        one meanwhile, nobody uses them any more.
        """
        if not any(has_size_to_share(body) for record in records for body in record.bodies):
            return NOTHING_SHARED
        if not known_bodies.may_share:
            known_bodies.may_share = self._writes_shared_bodies(execute)
        if not known_bodies.may_share:
            return NOTHING_SHARED

        def find_strand(run: str) -> int | None:
            key = (run, MAIN_STRAND)
            strand = strands.get(key) or find_main(execute, run)
            if strand is not None:
                strands[key] = strand
            return strand

        def fetch(query: str, **parameters: object) -> list[Any]:
            return execute(query, **parameters).fetchall()

        return share_bodies(
            records,
            strand_of=find_strand,
            fetch=fetch,
            known_bodies=known_bodies,
            list_numbers=self._list,
        )

    @staticmethod
    def _keep_known(known_bodies: KnownBodies, shared: SharedBodies) -> None:
        """Remember bodies for the next append, after their commit."""
        for strand, (erasures, bodies) in shared.known.items():
            known_bodies.keep(strand, erasures, bodies)

    def _hold_pieces(self, execute: QueryExecutor, runs: Iterable[str]) -> dict[str, int]:
        """Keep others from adding bodies to runs until the end of the transaction.

        Return the key of the strand `main` of each run that has bodies with pieces.
        """
        mains = {run: strand for run in runs if (strand := find_main(execute, run)) is not None}
        # All transactions lock runs in this order, so two of them cannot deadlock.
        ordered = sorted(mains.items(), key=lambda item: item[1])
        held = {
            run: strand
            for run, strand in ordered
            if execute("begin_release", strand=strand).rowcount
        }
        for strand in held.values():
            self._known_bodies.value.forget(strand)
        return held

    @contextmanager
    def _releasing_pieces(
        self, execute: QueryExecutor, runs: Iterable[str]
    ) -> Iterator[Callable[..., None]]:
        """Hold runs whose entries are set aside; at the end, remove what no body needs any more.

        Yields a function that writes the shared bodies of an entry out for the quarantine.
        """
        held = self._hold_pieces(execute, set(runs))

        def fetch(query: str, **parameters: object) -> list[Any]:
            return execute(query, **parameters).fetchall()

        def write_out(run: str, quarantine: int, **place: object) -> None:
            for name, number in fetch("lists_of_entry", **place) if run in held else ():
                data = b"".join(PieceReader(fetch, held[run], self._list).read(number))
                execute("set_quarantine_body", quarantine=quarantine, name=name, data=data)

        yield write_out
        for run, strand in held.items():
            release_pieces(execute, run, strand, self._list)
