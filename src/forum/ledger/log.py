"""One ledger as its writers and readers use it: a log of entries over a store."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from forum.errors import (
    AmbiguousEntry,
    Malformed,
    NoSuchEntry,
    NotYetSigned,
    Overtaken,
    StepMismatch,
)
from forum.ledger.body import Bytes
from forum.ledger.entry import LOG_RUN, MAIN, MAX_PARENTS, Count, Entry, leaf_of
from forum.ledger.kinds import (
    Export,
    Join,
    KeyAdd,
    Kinds,
    LogOpen,
    Outcome,
    Redact,
    RedactReason,
    RunClose,
    RunOpen,
)
from forum.ledger.mask import Mask
from forum.ledger.ports import (
    Append,
    AppendAsync,
    Clock,
    Effect,
    Position,
    Reader,
    Record,
    Salts,
    Store,
)
from forum.ledger.strand import Attachment, Draft, Pen, Recorded, Strand
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    TlogProof,
    TreeView,
    VerifierKey,
    checkpoint_of,
    prove_inclusion,
)

SYSTEM = "system"
MAX_RUN_NAME = 64
"""A run is named in the steps of others, and before a slash in positions."""


class StrandEnd(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a strand ended, as the close of its run records it."""

    strand: str
    n: Count
    head: str


class Located(msgspec.Struct, frozen=True):
    """An entry that was found, with its index if it has one."""

    index: int | None
    data: bytes
    entry: Entry[Any]

    @property
    def leaf(self) -> Hash:
        """The id of the entry."""
        return leaf_of(self.data)

    @property
    def position(self) -> Position:
        """Where the entry stands in its run."""
        return Position(self.entry.run, self.entry.strand, self.entry.n)


_NO_SECRETS = Mask()


class Ledger:
    """Writes and finds the entries of one log."""

    def __init__(  # noqa: PLR0913  each is a port, and the last three have a default
        self,
        store: Store,
        kinds: Kinds,
        clock: Clock,
        salts: Salts,
        append: Append | None = None,
        append_async: AppendAsync | None = None,
        *,
        mask: Mask = _NO_SECRETS,
    ) -> None:
        self.store, self.kinds, self.mask = store, kinds, mask
        append = append or store.append
        append_async = append_async or _at_once(append)
        self._pen = Pen(store, append, append_async, kinds, clock, salts, mask)

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.store.origin

    def strand(self, run: str, name: str = MAIN) -> Strand:
        """Take up a strand where its record ends."""
        return Strand(self._pen, run, name)

    def end_of(self, run: str, name: str) -> Strand:
        """Take up a strand behind what is recorded, without playing it."""
        return Strand(self._pen, run, name, at_end=True)

    def now(self) -> int:
        """Return the time in microseconds since 1970, as this writer believes it to be."""
        return self._pen.clock()

    def begin(self, program: str, key: VerifierKey, left: Checkpoint | None = None) -> None:
        """Write the first entries of a log, unless they are there."""
        last = self.store.last(LOG_RUN, MAIN)
        if last is not None and self.kinds.read(last).n > 0:
            return
        strand = self.strand(LOG_RUN)
        opening = LogOpen(program)
        if left is not None:
            opening = LogOpen(program, left.origin, left.size, left.root.hex())
        if strand.recorded("log/open") is None:
            strand.append(Draft("log/open", SYSTEM, opening))
        if strand.recorded("log/key") is None:
            strand.append(Draft("log/key", SYSTEM, KeyAdd(str(key))))

    def open_run(self, run: str, actor: str, *first: Draft, new: bool = False) -> Strand:
        """Open a run together with its first steps, or take it up again.

        It names the newest checkpoint as its past.  Whoever has just made up its name knows that
        it is new.
        """
        _check_name(run)
        strand = Strand(self._pen, run, MAIN, new=new)
        if strand.recorded("run/open") is None:
            newest = self.store.checkpoint()
            past = checkpoint_of(newest) if newest else None
            strand.append(_opening(actor, past), *first)
        return strand

    async def open_new_run_async(
        self, run: str, actor: str, past: Checkpoint | None, *first: Draft
    ) -> None:
        """Open a run of a new name after some checkpoint, without reading anything."""
        _check_name(run)
        strand = Strand(self._pen, run, MAIN, new=True)
        await strand.append_async(_opening(actor, past), *first)

    def close_run(
        self, main: Strand, actor: str, outcome: Outcome, effects: tuple[Effect, ...] = ()
    ) -> Recorded:
        """Close a run; nothing may be added to any of its strands afterwards."""
        found = main.recorded("run/close")
        if found is not None:
            return found
        ends = list(self._ends(main.run))
        parents = tuple(Hash.from_hex(end.head) for end in ends[:16])
        body = Attachment("strands", Bytes(msgspec.json.encode(ends)), "application/json")
        facts = RunClose(outcome, len(ends))
        return main.append(Draft("run/close", actor, facts, parents, (body,), effects))[0]

    def log_entry(self, draft: Draft, strand: str = MAIN) -> Recorded:
        """Record something in the life of the log, behind whatever others record there."""
        if strand != MAIN and not draft.parents:
            draft = replace(draft, parents=(self._opening,))
        while True:
            try:
                return self.end_of(LOG_RUN, strand).append(draft)[0]
            except (Overtaken, StepMismatch):
                continue

    @cached_property
    def _opening(self) -> Hash:
        """The first entry of the log: the cause of what has no other."""
        return leaf_of(next(self.store.strand(LOG_RUN, MAIN)))

    def request_redaction(
        self, target: Located, body: str, actor: str, reason: RedactReason
    ) -> Recorded:
        """Record that a body is to be erased; `erase` may follow once this is in a checkpoint."""
        if body not in target.entry.bodies:
            raise NoSuchEntry(f"{target.leaf.hex()} has no body {body!r}")
        exports = self._joined([r.leaf for r in self._exports(target.entry.run)])
        step = f"redact/{target.leaf.hex()}/{body}"
        facts = Redact(target.leaf.hex(), body, reason)
        return self.log_entry(Draft(step, actor, facts, (target.leaf, *exports)))

    def erase_redacted(self) -> list[Position]:
        """Erase every body whose redaction is in a signed checkpoint; say which."""
        note = self.store.checkpoint()
        size = checkpoint_of(note).size if note else 0
        erased = []
        for recorded in self._log_entries():
            if not isinstance(recorded.entry.facts, Redact):
                continue
            index = index_of(self.store, recorded.leaf)
            # Erase second: a body that is gone without a word in a signed tree is a finding.
            if index is None or index >= size:
                continue
            target = self.find(recorded.entry.facts.entry)
            if self.store.body(target.position, recorded.entry.facts.body) is not None:
                self.store.erase(target.position, recorded.entry.facts.body)
                erased.append(target.position)
        return erased

    def record_export(self, run: str, entries: int, size: int, actor: str) -> Recorded:
        """Record that the bodies of a run leave the ledger."""
        # A step of its own for each: somebody else's export of the same run, recorded at the same
        # moment, must not be taken for this one.
        step = f"export/{run}/{self._pen.salts()[:8].hex()}"
        return self.log_entry(Draft(step, actor, Export(run, entries, size)))

    def find(self, what: str) -> Located:
        """Return the entry with this index, id (or the first digits of it), or position."""
        return find(self.store, self.kinds, what)

    def prove(self, index: int) -> TlogProof:
        """Return the proof that an entry is in the newest signed tree."""
        return prove(self.store, index)

    def _ends(self, run: str) -> Iterator[StrandEnd]:
        for name in sorted(self.store.strands(run)):
            last = self.store.last(run, name)
            if name != MAIN and last is not None:
                yield StrandEnd(name, self.kinds.read(last).n, leaf_of(last).hex())

    def _joined(self, causes: list[Hash]) -> list[Hash]:
        """Return what stands for these causes beside one more in a single entry."""
        while len(causes) >= MAX_PARENTS:
            gathered, rest = causes[:MAX_PARENTS], causes[MAX_PARENTS:]
            step = f"join/{gathered[-1].hex()}"
            causes = [*rest, self.log_entry(Draft(step, SYSTEM, Join(), tuple(gathered))).leaf]
        return causes

    def _log_entries(self) -> Iterator[Recorded]:
        for data in self.store.strand(LOG_RUN, MAIN):
            yield Recorded(leaf_of(data), self.kinds.read(data))

    def _exports(self, run: str) -> Iterator[Recorded]:
        for recorded in self._log_entries():
            facts = recorded.entry.facts
            if isinstance(facts, Export) and facts.run == run:
                yield recorded


def _check_name(run: str) -> None:
    if "/" in run or len(run) > MAX_RUN_NAME:
        raise Malformed("run", f"its name has a slash, or more than {MAX_RUN_NAME} characters")


def _opening(actor: str, past: Checkpoint | None) -> Draft:
    facts = RunOpen(past.size, past.root.hex()) if past else RunOpen()
    return Draft("run/open", actor, facts)


def _at_once(append: Append) -> AppendAsync:
    """Let tasks append where nobody gathers: all of them wait for each commit."""

    async def append_async(records: Sequence[Record]) -> None:
        append(records)

    return append_async


def entries_of(
    ledger: Ledger, run: str, strand: str, start: int = 0
) -> Iterator[tuple[Hash, Entry[Any]]]:
    """Read a strand, each entry with its id."""
    for data in ledger.store.strand(run, strand, start):
        yield leaf_of(data), ledger.kinds.read(data)


def find(reader: Reader, kinds: Kinds, what: str) -> Located:
    """Return the entry with this index, id (or its first digits), or position run/strand/n."""
    if what.isdecimal() and len(what) < 16:
        return _at(reader, kinds, int(what))
    if "/" in what:
        return _at_position(reader, kinds, what)
    return _by_id(reader, kinds, what)


def causes(
    reader: Reader, kinds: Kinds, entry: Located, limit: int
) -> Iterator[tuple[int, Located]]:
    """Yield an entry and what led to it, each once, with how many steps it is away.

    The causes of an entry are its parents, and, where it names none, the entry before it.
    """
    level, seen, depth = [entry], {entry.leaf.hex()}, 0
    while level and limit > 0:
        for effect in level[:limit]:
            yield depth, effect
        limit -= len(level)
        names = [n for e in level for n in (e.entry.parents or (e.entry.prev,))]
        fresh = [name for name in dict.fromkeys(names) if name and name not in seen]
        seen.update(fresh)
        level, depth = [find(reader, kinds, name) for name in fresh], depth + 1


def prove(reader: Reader, index: int) -> TlogProof:
    """Return the proof that an entry is in the newest signed tree."""
    data = reader.checkpoint()
    note = Note.parse(data) if data else None
    size = Checkpoint.parse(note.text).size if note else 0
    if note is None or index >= size:
        raise NotYetSigned(str(index))
    hashes = prove_inclusion(TreeView(size, reader.read_tile), index, size)
    return TlogProof(index, tuple(hashes), note)


def _at(reader: Reader, kinds: Kinds, index: int) -> Located:
    data = next(reader.entries(index, index + 1))
    if data is not None:
        return Located(index, data, kinds.read(data))
    raise NoSuchEntry(f"the log has {reader.head().size} entries, and none with index {index}")


def _at_position(reader: Reader, kinds: Kinds, what: str) -> Located:
    run, _, rest = what.partition("/")
    strand, _, n = rest.rpartition("/")
    if not n.isdecimal() or len(n) > 15:
        raise NoSuchEntry(f"{what} (a position is run/strand/n)")
    for data in reader.strand(run, strand, int(n)):
        entry = kinds.read(data)
        if entry.n == int(n):
            return Located(index_of(reader, leaf_of(data)), data, entry)
        break
    raise NoSuchEntry(what)


def _by_id(reader: Reader, kinds: Kinds, what: str) -> Located:
    found = _matching(reader, what)
    if not found:
        raise NoSuchEntry(what)
    if len(found) > 1:
        raise AmbiguousEntry(what, len(found))
    return _at(reader, kinds, found[0])


def _matching(reader: Reader, digits: str) -> Sequence[int]:
    even = digits[: len(digits) & ~1]
    try:
        prefix = bytes.fromhex(even)
    except ValueError:
        raise Malformed("entry id", f"{digits!r} is not hexadecimal") from None
    if len(prefix) < 2:
        raise Malformed("entry id", "give at least four digits")
    found = ((i, next(reader.entries(i, i + 1))) for i in reader.find(prefix[:8]))
    return [i for i, data in found if data and leaf_of(data).hex().startswith(digits)]


def index_of(reader: Reader, leaf: Hash) -> int | None:
    """Return the index of an entry, or nothing when it has none yet."""
    found = _matching(reader, leaf.hex())
    return found[0] if found else None


def is_before(reader: Reader, leaf: Hash, until: int) -> bool:
    """Tell whether an entry has an index up to this one."""
    index = index_of(reader, leaf)
    return index is not None and index <= until
