"""What the SQL backends share: SQL lives in files, and what is done with it is the same in both.

Each database has numbered migrations, applied once and never edited after their release, and one
file of named queries.  The queries have the same names and parameters everywhere.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from forum.errors import AlreadyAsked, OverBudget, SchemaTooNew, StoreFailed
from forum.ledger import (
    Account,
    Alarm,
    Amount,
    Charge,
    Effect,
    Head,
    Once,
    OpenAccount,
    Position,
    Record,
    StoredBody,
)
from forum.tlog import Hash, TileId, hash_leaf

PAGE = 1000
"""How many rows are read at a time."""

MOST_STRANDS = 100_000
"""How many strands a store knows without asking."""

_ATTEMPTS = 5
"""How often a charge is tried while others give back what it needs."""


class Migration(NamedTuple):
    """One step of a schema."""

    number: int
    sql: str


def queries(database: str, name: str = "queries") -> dict[str, str]:
    """Return the queries of a database by their names."""
    text = (files("forum.backends") / "sql" / database / f"{name}.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def migrations(database: str, applied: int) -> list[Migration]:
    """Return what has yet to be applied; a schema newer than this release is refused."""
    folder = files("forum.backends") / "sql" / database
    names = sorted(f.name for f in folder.iterdir() if f.name[:4].isdecimal())
    if applied > len(names):
        raise SchemaTooNew(applied, len(names))
    return [Migration(int(n[:4]), (folder / n).read_text()) for n in names if int(n[:4]) > applied]


def prefix_of(leaf: bytes) -> int:
    """Return the number under which a leaf can be found: its first eight bytes, signed."""
    return int.from_bytes(leaf[:8], "big", signed=True)


class SqlReader(ABC):
    """One log, read with the named queries of some database."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._log = 0
        self._strand_ids: dict[tuple[str, str], int] = {}

    @abstractmethod
    def _rows(self, query: str, **parameters: object) -> list[Any]:
        """Run a query and return all of its rows."""

    def _one(self, query: str, **parameters: object) -> Any:  # noqa: ANN401  a column of any type
        rows = self._rows(query, **parameters)
        return rows[0][0] if rows else None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._origin

    def head(self) -> Head:
        """Return the tree that was last committed to."""
        size, root = self._rows("head", log=self._log)[0]
        return Head(size, Hash(root))

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""
        hashes: bytes | None = self._one(
            "tile", log=self._log, level=tile.level, idx=tile.index, length=32 * width
        )
        return hashes or b""

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the entry of each of these indexes, in order; nothing where one is not there."""
        for low in range(start, stop, PAGE):
            high = min(low + PAGE, stop)
            page = self._rows("entries", log=self._log, start=low, stop=high)
            if len(page) == high - low:
                yield from [row[1] for row in page]
            else:
                found = dict(page)
                yield from (found.get(index) for index in range(low, high))

    def find(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves whose first eight bytes begin with this prefix."""
        # Big-endian and signed keeps the order within one prefix: its first bit is the same.
        low, high = (prefix_of(prefix[:8].ljust(8, end)) for end in (b"\0", b"\xff"))
        return [row[0] for row in self._rows("find", log=self._log, low=low, high=high)]

    def indexes(self, leaves: Sequence[Hash]) -> list[int | None]:
        """Return the index of each of these entries, or nothing for one that has none yet."""
        found: dict[int, list[int]] = {}
        for low in range(0, len(leaves), PAGE):
            prefixes = [prefix_of(leaf) for leaf in leaves[low : low + PAGE]]
            for prefix, index in self._rows(
                "indexes", log=self._log, prefixes=self._list(prefixes)
            ):
                found.setdefault(prefix, []).append(index)
        return [self._the_one(leaf, found.get(prefix_of(leaf), [])) for leaf in leaves]

    def _the_one(self, leaf: Hash, indexes: list[int]) -> int | None:
        """Return the index of a leaf among those that begin alike: nearly always the only one."""
        if len(indexes) < 2:
            return indexes[0] if indexes else None
        same = (i for i in indexes if hash_leaf(next(self.entries(i, i + 1)) or b"") == leaf)
        return next(same, None)

    @abstractmethod
    def _list(self, numbers: list[int]) -> object:
        """Return numbers as a parameter of a query."""

    def strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a strand from position `start`, sequenced or not."""
        key = self._strand(run, strand)
        if key is not None:
            place = {"log": self._log, "strand": key}
            yield from self._paged("strand_entries", "n", start, **place)

    def last(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand."""
        key = self._strand(run, strand)
        return None if key is None else self._one("last", log=self._log, strand=key)

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""
        return [row[0] for row in self._rows("strands", log=self._log, run=run)]

    def runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs in the order of their names."""
        return [row[0] for row in self._rows("runs", log=self._log, run=after, limit=limit)]

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return runs in the opposite order, beginning before one of them, or with the last."""
        query = "last_runs" if before is None else "runs_before"
        return [row[0] for row in self._rows(query, log=self._log, run=before, limit=limit)]

    def body(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or nothing when it is not there."""
        key = self._body_key(position, name)
        salt = self._one("body_salt", **key)
        return None if salt is None else StoredBody(salt, lambda: self._parts(key))

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of at least this size, smallest first."""
        yield from self._paged("checkpoints", "size", start, log=self._log)

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree, or of the largest up to a size."""
        size = 2**62 if most is None else most
        found: bytes | None = self._one("checkpoint", log=self._log, size=size)
        return found

    def unsequenced(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet; nothing where one is not there."""
        yield from (row[0] for row in self._rows("unsequenced", log=self._log))

    def stored(self) -> int:
        """Count the entries that are stored, whether or not the log knows them."""
        return int(self._one("stored", log=self._log))

    def backlog(self) -> int:
        """Return about how many entries wait for an index."""
        return int(self._one("backlog", log=self._log) or 0)

    def _paged(self, query: str, name: str, start: int, **place: object) -> Iterator[bytes]:
        """Yield what a query finds from a number on, page by page."""
        while page := self._rows(query, **place, **{name: start}, limit=PAGE):
            yield from [row[1] for row in page]
            if page[-1][0] < start:
                return  # a row that lies about its number would be found for ever
            start = page[-1][0] + 1

    def _strand(self, run: str, name: str) -> int | None:
        known = self._strand_ids.get((run, name))
        return (
            known if known is not None else self._one("strand", log=self._log, run=run, name=name)
        )

    def _know(self, strands: dict[tuple[str, str], int]) -> None:
        """Remember the keys of strands that were committed; a process may see very many."""
        if len(self._strand_ids) > MOST_STRANDS:
            self._strand_ids.clear()
        self._strand_ids.update(strands)

    def _body_key(self, position: Position, name: str) -> dict[str, Any]:
        strand = self._strand(position.run, position.strand)
        return {"log": self._log, "strand": strand, "n": position.n, "name": name}

    def _parts(self, key: dict[str, Any]) -> Iterator[bytes]:
        part = 0
        while (data := self._one("body_part", **key, part=part)) is not None:
            yield data
            part += 1


class Result(Protocol):
    """What a statement found or changed."""

    @property
    def rowcount(self) -> int:
        """How many rows."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows."""
        ...


class Execute(Protocol):
    """Runs a named query in a transaction that is under way."""

    def __call__(self, query: str, **parameters: object) -> Result:
        """Run it and return what came of it."""
        ...


class SqlStore(SqlReader):
    """What stands beside a log, kept with the named queries of some database."""

    @abstractmethod
    def _writing(self, doing: str) -> AbstractContextManager[Execute]:
        """Begin a transaction; it is committed at the end, unless something was raised."""

    def account(self, run: str) -> Account | None:
        """Return what a run may spend and has used."""
        return _account(self._rows("account", log=self._log, run=run))

    def alarms(self, after: Alarm | None, limit: int, *, due: bool) -> list[Alarm]:
        """Return alarms in the order of run and strand, beginning behind one of them."""
        run, strand = ("", "") if after is None else (after.run, after.strand)
        query = "due_alarms" if due else "alarms"
        rows = self._rows(query, log=self._log, run=run, strand=strand, limit=limit)
        return [Alarm(*row) for row in rows]

    def alarm(self, run: str, strand: str) -> Alarm | None:
        """Return one alarm."""
        rows = self._rows("alarm", log=self._log, run=run, strand=strand)
        return Alarm(*rows[0]) if rows else None

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""
        return int(self._one("now"))

    def snooze(self, alarms: Sequence[Alarm], seconds: float | None) -> None:
        """Let these ring after some seconds, or never, unless they were changed since then."""
        micros = None if seconds is None else _micros(seconds)
        query = "silence" if micros is None else "snooze"
        with self._writing("snoozing") as execute:
            for alarm in sorted(alarms, key=_place):
                execute(query, log=self._log, micros=micros, **alarm._asdict())

    def hold_lease(self, worker: str, seconds: float) -> None:
        """Let others know, for some seconds, that this worker lives."""
        with self._writing("holding a lease") as execute:
            execute("hold_lease", log=self._log, worker=worker, micros=_micros(seconds))

    def drop_lease(self, worker: str) -> None:
        """Let others know that this worker is gone."""
        with self._writing("dropping a lease") as execute:
            execute("drop_lease", log=self._log, worker=worker)

    def lost_workers(self) -> list[str]:
        """Return those whose lease has run out, by the store's own clock, and was not dropped."""
        return [row[0] for row in self._rows("lost_workers", log=self._log)]

    def workers(self) -> list[str]:
        """Return those who have a lease, run out or not."""
        return [row[0] for row in self._rows("workers", log=self._log)]

    def _apply_effects(self, execute: Execute, records: Sequence[Record]) -> None:
        # After the entries: a commit that is made again, because nobody knows what became of it,
        # finds its positions taken before it could charge twice.
        effects = [effect for record in records for effect in record.effects]
        # In one order for all, accounts before alarms, each by run and strand: two transactions
        # that change the same rows cannot deadlock.
        for kind, alike in groupby(sorted(effects, key=_place), type):
            if kind is OpenAccount:
                self._open_accounts(execute, [e for e in alike if isinstance(e, OpenAccount)])
            elif kind is Alarm:
                self._set_alarms(execute, [e for e in alike if isinstance(e, Alarm)])
            else:
                for effect in alike:
                    self._change(execute, effect)

    @abstractmethod
    def _open_accounts(self, execute: Execute, accounts: Sequence[OpenAccount]) -> None:
        """Give runs their accounts, where they have none."""

    @abstractmethod
    def _set_alarms(self, execute: Execute, alarms: Sequence[Alarm]) -> None:
        """Set these alarms, or put them out, in this order."""

    def _change(self, execute: Execute, effect: Effect) -> None:
        if isinstance(effect, Charge):
            self._charge(execute, effect)
        elif isinstance(effect, Once):
            self._ask_once(execute, effect)

    def _charge(self, execute: Execute, charge: Charge) -> None:
        account = {"log": self._log, "run": charge.run}
        amount = charge.amount._asdict()
        for _ in range(_ATTEMPTS):
            if execute("charge", **account, **amount, guarded=charge.guarded).rowcount == 1:
                return
            # Where the refusal took no lock, others may have given back what was missing.
            _check_room(_account(execute("account", **account).fetchall()), charge)
        raise StoreFailed("charging", f"the account of run {charge.run} does not hold still")

    def _ask_once(self, execute: Execute, once: Once) -> None:
        if execute("ask_once", log=self._log, **once._asdict()).rowcount == 1:
            return
        run, digest = execute("asked", log=self._log, name=once.name).fetchall()[0]
        raise AlreadyAsked(run, digest)


def _place(effect: Effect) -> tuple[bool, str, str, bool]:
    """Return where an effect stands among others; charges of one account stay as they came."""
    match effect:
        case Once(name, _, _):
            return True, name, "", True
        case Alarm(run, strand, _):
            return True, run, strand, False
        case OpenAccount(run, _) | Charge(run, _, _):
            return False, run, "", isinstance(effect, Charge)


def _account(rows: list[Any]) -> Account | None:
    return Account(Amount(*rows[0][:3]), Amount(*rows[0][3:])) if rows else None


def _check_room(account: Account | None, charge: Charge) -> None:
    """Name the first limit that a refused charge would pass, or let it try again."""
    if account is None:
        raise OverBudget(charge.run, "calls", charge.amount.calls, 0, 0)
    limits = zip(Amount._fields, charge.amount, account.used, account.cap, strict=True)
    for limit, asked, used, cap in limits:
        # What is given back must not be refused because of an overrun.
        if asked > 0 and used + asked > cap:
            raise OverBudget(charge.run, limit, asked, used, cap)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
