"""One ledger as its writers and readers use it: a log of entries over a store."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from forum.errors import (
    AlreadyAsked,
    Altered,
    AmbiguousEntry,
    Malformed,
    NoSuchEntry,
    NotYetSigned,
    Overtaken,
    StepMismatch,
    WrongWriteKey,
)
from forum.ledger.body import Bytes, StoredBody
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
    TagsEnforced,
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
    TaggedHead,
)
from forum.ledger.strand import TAGS, WRITE_KEY, Attachment, Draft, Pen, Recorded, Strand
from forum.ledger.tags import WriteKeys
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
_PAGE = 1000
"""How many entries are looked up together."""
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
        tags: WriteKeys | None = None,
    ) -> None:
        self.store, self.kinds, self.mask, self.tags = store, kinds, mask, tags
        append = append or store.append
        append_async = append_async or _at_once(append)
        self._pen = Pen(store, append, append_async, kinds, clock, salts, mask, tags)

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

    def begin(
        self,
        program: str,
        key: VerifierKey,
        left: Checkpoint | None = None,
        epoch: Draft | None = None,
    ) -> None:
        """Write the first entries of a log, unless they are there.

        One that continues another names the checkpoint at which that was left, and says why.
        """
        last = self.store.last(LOG_RUN, MAIN)
        if last is not None and self.kinds.read(last).n > (1 if epoch else 0):
            return
        strand = self.strand(LOG_RUN)
        opening = LogOpen(program)
        if left is not None:
            opening = LogOpen(program, left.origin, left.size, left.root.hex())
        if strand.recorded("log/open") is None:
            strand.append(Draft("log/open", SYSTEM, opening))
        if strand.recorded("log/key") is None:
            strand.append(Draft("log/key", SYSTEM, KeyAdd(str(key))))
        if epoch is not None and strand.recorded(epoch.step) is None:
            strand.append(epoch)

    def enforce_tags(self, last_untagged: int) -> None:
        """Record that every entry behind an index carries a tag, unless that is recorded."""
        if self.store.last(LOG_RUN, TAGS) is None:
            self.log_entry(Draft("tags/enforce", SYSTEM, TagsEnforced(last_untagged)), TAGS)

    def mark_write_key(self) -> None:
        """Leave a mark of the current write key, by which another machine knows a wrong one."""
        keys = self._keys()
        mark = Hash(bytes(32))
        self.store.save_strand_head(
            TaggedHead(WRITE_KEY, 0, mark, keys.tag_head(WRITE_KEY, 0, mark))
        )

    def check_write_key(self) -> None:
        """Refuse to write with a key that is not the log's: its entries would be set aside."""
        mark = self.store.strand_head(WRITE_KEY)
        if mark is not None and not self._keys().accepts_head(*mark):
            key_id = self._keys().current.id.hex()
            raise WrongWriteKey(self.origin, key_id, "the writers of the log use another one")

    def _keys(self) -> WriteKeys:
        if self.tags is None:
            raise WrongWriteKey(self.origin, "-", "it has none")
        return self.tags

    def check_asked(self, name: str, asked: AlreadyAsked) -> None:
        """Accept what the store says of a name that was used before.  Raises `Altered`."""
        keys = self.tags
        if keys is None or not keys.enforced or not asked.digest:
            return  # what was erased is refused by whoever compares the digest
        if not keys.accepts_idempotency(name, asked.run, asked.digest, asked.tag):
            raise Altered(f"idempotency key {name!r}", "no writer of this log tied it to that run")

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
        return main.append(_closing(actor, outcome, list(self._ends(main.run)), effects))[0]

    def record_run(self, run: str, actor: str, *steps: Draft) -> None:
        """Record a whole run of a new name, from its opening to its close, in one commit."""
        self.open_run(run, actor, *steps, _closing(actor, Outcome.OK, []), new=True)

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


def _closing(
    actor: str, outcome: Outcome, ends: list[StrandEnd], effects: tuple[Effect, ...] = ()
) -> Draft:
    parents = tuple(Hash.from_hex(end.head) for end in ends[:16])
    body = Attachment("strands", Bytes(msgspec.json.encode(ends)), "application/json")
    return Draft("run/close", actor, RunClose(outcome, len(ends)), parents, (body,), effects)


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


def stored_body(reader: Reader, entry: Entry[Any], name: str) -> StoredBody | None:
    """Return a body that is the one its entry commits to, or nothing when it is not there.

    Raises `Altered`.  It is read once to compare it, and again by whoever uses it.
    """
    body = reader.body(Position(entry.run, entry.strand, entry.n), name)
    if body is not None:
        check_body(entry, name, body)
    return body


def read_body(reader: Reader, entry: Entry[Any], name: str) -> bytes | None:
    """Return the content of a body, or nothing when it is not there.  Raises `Altered`."""
    body = reader.body(Position(entry.run, entry.strand, entry.n), name)
    if body is None:
        return None
    content = b"".join(body.read())
    check_body(entry, name, StoredBody(body.salt, Bytes(content).chunks))
    return content


def check_body(entry: Entry[Any], name: str, body: StoredBody) -> None:
    """Accept a body that is the one its entry commits to.  Raises `Altered`."""
    commitment = entry.bodies.get(name)
    if commitment is None or not body.matches(commitment):
        what = f"body {name!r} of entry {entry.run}/{entry.strand}/{entry.n}"
        raise Altered(what, "it is not the one that was recorded")


def check_heads(
    reader: Reader, keys: WriteKeys | None, strand: str, remembered: tuple[int, str] | None
) -> None:
    """Refuse a strand of the log's own run that was shortened or replaced.  Raises `Altered`.

    It must reach the head that its last writer tagged, and the one that this machine remembers
    (position and id): somebody who puts back an older row with its tag cannot change the latter.
    """
    heads = [remembered] if remembered else []
    stored = reader.strand_head(strand)
    if stored is not None:
        if keys is not None and not keys.accepts_head(*stored):
            raise Altered(f"the head of {LOG_RUN}/{strand}", "no writer of this log tagged it")
        heads.append((stored.n, stored.leaf.hex()))
    elif keys is not None and keys.enforced and reader.last(LOG_RUN, strand) is not None:
        raise Altered(f"the head of {LOG_RUN}/{strand}", "it was removed")
    for n, leaf in heads:
        data = next(reader.strand(LOG_RUN, strand, n), None)
        if data is None or leaf_of(data).hex() != leaf:
            why = f"its entry {n} was {leaf[:16]} and is not there any more"
            raise Altered(f"{LOG_RUN}/{strand}", why)


def locate_run(reader: Reader, kinds: Kinds, run: str) -> Iterator[Located]:
    """Yield all entries of a run, strand by strand, with the indexes that they have."""
    entries = reader.entries_of_run(run)
    # The leaf in the tree is compared with the entry: an index that was altered is noticed.  Who
    # wants evidence of it makes a proof, and checks that against a signed root.
    view = TreeView(reader.head().size, reader.read_tile)
    while page := [data for _, data in islice(entries, _PAGE)]:
        indexes = reader.indexes([leaf_of(data) for data in page])
        for index, data in zip(indexes, page, strict=True):
            if index is not None and index < view.size and view.leaf(index) != leaf_of(data):
                raise Altered(f"entry {index}", "the tree has another entry at this index")
            yield Located(index, data, kinds.read(data))


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
        reader.check.check_index(index, leaf_of(data))
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
