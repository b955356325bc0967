"""The ledger: append entries to one log over a store, find them, and prove them.

`Ledger` is the interface of writers.  The functions below it need only a `Reader`.  A body is
returned only after it was compared with the commitment in its entry.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from forum import errors, tlog
from forum.ledger import ports
from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.body_eraser import ArchiveEraser, BodyEraser
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, MAX_PARENTS, Count, Entry, leaf_of
from forum.ledger.kinds import (
    ExportFacts,
    JoinFacts,
    KeyAddFacts,
    Kinds,
    LogOpenFacts,
    Outcome,
    RedactionReason,
    RedactionV3Facts,
    RunCloseFacts,
    RunOpenFacts,
    TagEnforcementFacts,
)
from forum.ledger.redaction import MAX_REDACTED_ENTRIES
from forum.ledger.retention_holds import RETENTION_STRAND, read_retention
from forum.ledger.secret_mask import SecretMask
from forum.ledger.strand import (
    TAGGED_STRANDS,
    TAGS_STRAND,
    WRITE_KEY_MARK,
    Attachment,
    Draft,
    EntryMemory,
    JointAppend,
    RecordedEntry,
    Strand,
    StrandStart,
    WriterContext,
    start_strands,
)
from forum.ledger.write_tags import WriteKeys

SYSTEM_ACTOR = "system"
_PAGE_ENTRIES = 1000
"""Number of entries whose indexes are looked up in one query."""
_MIN_ID_DIGITS = 4
"""The number of digits from which the beginning of an id is looked up."""
MAX_RUN_NAME_LENGTH = 64
"""Run names are part of step labels, which hold at most 128 characters."""


class StrandEnd(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last position and the head of a strand, as the closing entry of its run records them."""

    strand: str
    n: Count
    head: str


class LocatedEntry(msgspec.Struct, frozen=True):
    """An entry that was found, with its index if it has one."""

    index: int | None
    data: bytes
    entry: Entry[Any]

    @property
    def leaf(self) -> tlog.Hash:
        """The id of the entry."""
        return leaf_of(self.data)

    @property
    def position(self) -> ports.Position:
        """The position of the entry: run, strand and n."""
        return ports.Position(self.entry.run, self.entry.strand, self.entry.n)


_NO_SECRETS = SecretMask()


class Ledger:
    """Appends and finds the entries of one log."""

    def __init__(  # noqa: PLR0913  each is a port, and the last three have a default
        self,
        store: ports.Store,
        kinds: Kinds,
        clock: ports.Clock,
        salts: ports.Salts,
        append: ports.Append | None = None,
        append_async: ports.AppendAsync | None = None,
        *,
        mask: SecretMask = _NO_SECRETS,
        tags: WriteKeys | None = None,
        control: WriteKeys | None = None,
        may_control: bool = True,
        dating_clock: ports.Clock | None = None,
        set_aside: Callable[[], None] = lambda: None,
    ) -> None:
        """Use `set_aside` to move rows out of the way that no writer of this log wrote."""
        self._set_aside = set_aside
        self.store, self.kinds = store, kinds
        self.mask, self.tags = mask, tags
        append = append or store.append
        append_async = append_async or _append_inline(append)
        self.writer = WriterContext(
            store=store,
            append=append,
            append_async=append_async,
            kinds=kinds,
            clock=clock,
            salts=salts,
            mask=mask,
            tags=tags,
            control=control,
            may_control=may_control,
            dating_clock=dating_clock,
        )

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.store.origin

    def with_memory(self, memory: EntryMemory) -> "Ledger":
        """Return this ledger with a memory of runs that this process drives alone."""
        other = copy(self)
        other.writer = replace(self.writer, memory=memory)
        return other

    def remember_run(self, run: str) -> None:
        """Read all entries of a run and remember them, if this ledger has a memory."""
        if self.writer.memory is not None:
            self.writer.memory.load(
                run, lambda: (self.writer.parse(data) for _, data in self.store.entries_of_run(run))
            )

    def open_strand(self, run: str, name: str = MAIN_STRAND) -> Strand:
        """Return a strand with its recorded entries loaded, to be replayed and then extended."""
        return Strand(self.writer, run, name)

    def open_strand_at_end(self, run: str, name: str) -> Strand:
        """Return a strand positioned after its last entry, without replaying the entries."""
        return Strand(self.writer, run, name, at_end=True)

    def new_strand(self, run: str, name: str) -> Strand:
        """Return a strand that the caller knows to be empty, without reading it."""
        _check_name(run)
        return Strand(self.writer, run, name, new=True)

    def start_strands(self, starts: Sequence[StrandStart]) -> list[RecordedEntry | None]:
        """Record the first entries of many strands in one commit; None for a started strand."""
        return start_strands(self.writer, starts)

    def join_appends(self) -> JointAppend:
        """Return an empty append to several strands, to be filled and committed."""
        return JointAppend(self.writer)

    def now(self) -> int:
        """Return the time in microseconds since 1970, by the clock of this writer."""
        return self.writer.clock()

    def check_clock(self) -> None:
        """Raise `ClockOff` if this writer's clock is too wrong to date entries."""
        self.writer.read_date()

    def initialize(
        self,
        program: str,
        key: tlog.VerifierKey,
        left: tlog.Checkpoint | None = None,
        epoch: Draft | None = None,
    ) -> None:
        """Write the first entries of a log, unless they are recorded already.

        A log that continues another one names the last checkpoint of the old log (`left`) and gives
        the reason (`epoch`).  After a crash between two entries, a second call adds the rest.
        """
        # Counted and not read: the reason of an epoch may wait for its signature.
        if self.store.strand_lengths(LOG_RUN).get(MAIN_STRAND, 0) > (2 if epoch else 1):
            return
        strand = self.open_strand(LOG_RUN)
        opening = LogOpenFacts(program)
        if left is not None:
            opening = LogOpenFacts(program, left.origin, left.size, left.root.hex())
        if strand.replay_step("log/open") is None:
            strand.append(Draft("log/open", SYSTEM_ACTOR, opening))
        if strand.replay_step("log/key") is None:
            strand.append(Draft("log/key", SYSTEM_ACTOR, KeyAddFacts(str(key))))
        if epoch is not None and strand.replay_step(epoch.step) is None:
            strand.append(epoch)

    def enforce_tags(self, last_untagged: int) -> None:
        """Record that every entry after an index carries a tag, unless it is recorded already."""
        if self.store.last_entry(LOG_RUN, TAGS_STRAND) is None:
            self.append_log_entry(
                Draft("tags/enforce", SYSTEM_ACTOR, TagEnforcementFacts(last_untagged)), TAGS_STRAND
            )

    def mark_write_key(self) -> None:
        """Store a mark tagged with the current write key, so that `check_write_key` can compare."""
        keys = self._keys()
        mark = tlog.Hash(bytes(32))
        self.store.save_strand_head(
            ports.TaggedHead(WRITE_KEY_MARK, 0, mark, keys.tag_head(WRITE_KEY_MARK, 0, mark))
        )

    def check_write_key(self) -> None:
        """Raise `WrongWriteKey` if this writer's key is not the one that marked the log.

        The sequencer would quarantine every entry tagged with the wrong key.
        """
        mark = self.store.strand_head(WRITE_KEY_MARK)
        if mark is not None and not self._keys().accepts_head(*mark):
            key_id = self._keys().current.id.hex()
            raise errors.WrongWriteKey(
                self.origin, key_id, "the writers of the log use another one"
            )

    def _keys(self) -> WriteKeys:
        if self.tags is None:
            raise errors.WrongWriteKey(self.origin, "-", "it has none")
        return self.tags

    def check_idempotency_row(self, name: str, record: errors.IdempotencyKeyUsed) -> None:
        """Check the tag of the stored record of an idempotency key.  Raises `TamperDetected`."""
        keys = self.tags
        if keys is None or not keys.is_enforced or not record.digest:
            return  # an erased record has no digest, and the caller's digest comparison refuses it
        if not keys.accepts_idempotency(name, record.run, record.digest, record.tag):
            raise errors.TamperDetected(
                f"idempotency key {name!r}", "no writer of this log tied it to that run"
            )

    def open_run(self, run: str, actor: str, *first: Draft, new: bool = False) -> Strand:
        """Open a run together with its first steps, or return the strand of an open run.

        The opening entry names the newest checkpoint, which proves that the run is not older.
        `new` skips reading: the caller has just generated the run's name.
        """
        _check_name(run)
        strand = Strand(self.writer, run, MAIN_STRAND, new=new)
        if strand.replay_step("run/open") is None:
            strand.append(self.draft_opening(actor), *first)
        return strand

    def draft_opening(self, actor: str) -> Draft:
        """Return the first entry of a run that is opened now."""
        newest = self.store.checkpoint()
        return opening_draft(actor, tlog.parse_checkpoint(newest) if newest else None)

    def close_run(
        self,
        main: Strand,
        actor: str,
        outcome: Outcome,
        effects: tuple[ports.Effect, ...] = (),
        ends: Sequence[StrandEnd] | None = None,
        *,
        parent: str = "",
    ) -> RecordedEntry:
        """Close a run; nothing may be appended to any of its strands afterwards.

        `ends` are the ends of its other strands, if the caller has read them since `main`; `parent`
        is the run that delegated it.  Return the recorded closing entry if the run is closed
        already.
        """
        recorded = main.replay_step("run/close")
        if recorded is not None:
            return recorded
        listed = self.strand_ends(main.run) if ends is None else list(ends)
        effects += (ports.EndedRun(main.run, parent),)
        return main.append(draft_closing(actor, outcome, listed, effects))[0]

    def is_closed(self, run: str) -> bool:
        """Return whether a run is closed; one that does not exist is not."""
        last = self.writer.last_entry(run, MAIN_STRAND)
        return last is not None and isinstance(last.entry.facts, RunCloseFacts)

    def record_run(self, run: str, actor: str, *steps: Draft) -> None:
        """Record a complete run with a new name, from opening to close, in one commit."""
        closing = draft_closing(actor, Outcome.OK, [], (ports.EndedRun(run),))
        self.open_run(run, actor, *steps, closing, new=True)

    def append_log_entry(self, draft: Draft, strand: str = MAIN_STRAND) -> RecordedEntry:
        """Append an entry to a strand of the log's own run, after the entries of other writers."""
        if strand != MAIN_STRAND and not draft.parents:
            draft = replace(draft, parents=(self._opening,))
        while True:
            try:
                return self.open_log_strand(strand).append(draft)[0]
            except (errors.ConcurrentUpdate, errors.StepMismatch):
                continue  # another writer took the position: append after its entry

    def open_log_strand(self, name: str) -> Strand:
        """Return a strand of the log's own run, positioned after its last entry.

        A forged row there is set aside first: it must not keep others from writing.
        """
        try:
            return self.open_strand_at_end(LOG_RUN, name)
        except errors.TamperDetected:
            self._set_aside()
            return self.open_strand_at_end(LOG_RUN, name)

    @cached_property
    def _opening(self) -> tlog.Hash:
        """The first entry of the log: the parent of entries that name no other cause."""
        return leaf_of(read_opening(self.store))

    def request_redaction(
        self, target: LocatedEntry, body: str, actor: str, reason: RedactionReason
    ) -> RecordedEntry:
        """Record that a body is to be erased.

        `erase_redacted` erases it once this entry is in a signed checkpoint.  The entry names the
        exports of the run as causes, because an exported bundle may still hold the body.  Raises
        `BodyHeld`.
        """
        if body not in target.entry.bodies:
            raise errors.NoSuchEntry(f"{target.leaf.hex()} has no body {body!r}")
        bodies = [(target.leaf, body)]
        return self.request_redactions(target.entry.run, bodies, actor, reason)[0]

    def request_redactions(
        self,
        run: str,
        bodies: Sequence[tuple[tlog.Hash, str]],
        actor: str,
        reason: RedactionReason,
    ) -> list[RecordedEntry]:
        """Record that bodies of one run, each by its entry and name, are to be erased."""
        return [
            self._request_batch(run, bodies[at : at + MAX_REDACTED_ENTRIES], actor, reason)
            for at in range(0, len(bodies), MAX_REDACTED_ENTRIES)
        ]

    def _request_batch(
        self,
        run: str,
        bodies: Sequence[tuple[tlog.Hash, str]],
        actor: str,
        reason: RedactionReason,
    ) -> RecordedEntry:
        exports = self.join_causes([r.leaf for r in self._exports(run)])
        leaves = list(dict.fromkeys(leaf for leaf, _ in bodies))
        step = f"redact/{bodies[0][0].hex()}/{bodies[0][1]}"
        places = tuple(f"{leaves.index(leaf)}/{name}" for leaf, name in bodies)
        facts = RedactionV3Facts(places, (run,) * len(leaves), reason)
        draft = Draft(step, actor, facts, (*leaves, *exports))
        while True:
            strand = self.open_log_strand(RETENTION_STRAND)
            if read_retention(self.store, self.kinds).is_held(run):
                raise errors.BodyHeld(run)
            try:
                # The position is the fence: if somebody placed a hold since the strand was read,
                # the append fails, and the hold is seen in the next round.
                return strand.append_exclusive(draft)[0]
            except errors.ConcurrentUpdate:
                continue

    def erase_redacted(self, archive: ArchiveEraser | None = None) -> list[ports.Position]:
        """Erase every body whose redaction is in a signed checkpoint; return their positions.

        With `archive`, erase them from the copies of archived runs too.
        """
        return BodyEraser(self.store, self.kinds, archive).erase()

    def record_export(self, run: str, entries: int, size: int, actor: str) -> RecordedEntry:
        """Record that the bodies of a run leave the ledger in a bundle."""
        # A random suffix makes each step unique.  Otherwise a concurrent export of the same run
        # would be adopted in place of this one, and only one of the two would be recorded.
        step = f"export/{run}/{self.writer.salts()[:8].hex()}"
        return self.append_log_entry(Draft(step, actor, ExportFacts(run, entries, size)))

    def find_entry(self, what: str) -> LocatedEntry:
        """Return the entry with this index, id (or its first digits), or position."""
        return find_entry(self.store, self.kinds, what)

    def prove_entry(self, index: int) -> tlog.TlogProof:
        """Return the proof that an entry is in the newest signed tree.  Raises `NotYetSigned`."""
        return prove_entry(self.store, index)

    def strand_ends(self, run: str) -> list[StrandEnd]:
        """Return the ends of the strands of a run except `main`, ordered by name.

        Raises `ConcurrentUpdate` if another process has added to a remembered strand.
        """
        return list(self._read_ends(run))

    def _read_ends(self, run: str) -> Iterator[StrandEnd]:
        # The lengths are read even where all is remembered: the close must list every entry.
        lengths = self.store.strand_lengths(run)
        names = sorted(name for name, length in lengths.items() if name != MAIN_STRAND and length)
        for name, last in zip(names, self.writer.last_entries(run, names), strict=True):
            length = lengths[name]
            if last is not None and last.entry.n + 1 < length:
                self.writer.forget(run)
                raise errors.ConcurrentUpdate(f"strand {run}/{name}")
            if last is not None:
                yield StrandEnd(name, last.entry.n, last.leaf.hex())

    def join_causes(self, causes: list[tlog.Hash], limit: int = MAX_PARENTS - 1) -> list[tlog.Hash]:
        """Return at most `limit` causes, recording `join/1` entries that lead to the rest.

        By default one place is left for the entry's other parent.
        """
        while len(causes) > limit:
            gathered, rest = causes[:MAX_PARENTS], causes[MAX_PARENTS:]
            step = f"join/{gathered[-1].hex()}"
            causes = [
                *rest,
                self.append_log_entry(Draft(step, SYSTEM_ACTOR, JoinFacts(), tuple(gathered))).leaf,
            ]
        return causes

    def _log_entries(self) -> Iterator[RecordedEntry]:
        yield from map(self.writer.parse, self.store.read_strand(LOG_RUN, MAIN_STRAND))

    def _exports(self, run: str) -> Iterator[RecordedEntry]:
        for recorded in self._log_entries():
            facts = recorded.entry.facts
            if isinstance(facts, ExportFacts) and facts.run == run:
                yield recorded


def read_opening(reader: ports.EntryReader) -> bytes:
    """Return the first entry of a log.  Raises `NoSuchEntry` for a log without any."""
    data = next(reader.read_strand(LOG_RUN, MAIN_STRAND), None)
    if data is None:
        why = "the database of this log is empty; put the newest one back, or begin: forum init"
        raise errors.NoSuchEntry(f"{LOG_RUN}/{MAIN_STRAND}/0 ({why})")
    return data


def _check_name(run: str) -> None:
    if "/" in run or len(run) > MAX_RUN_NAME_LENGTH:
        raise errors.Malformed(
            "run", f"its name has a slash, or more than {MAX_RUN_NAME_LENGTH} characters"
        )


def opening_draft(actor: str, past: tlog.Checkpoint | None) -> Draft:
    """Return the first entry of a run that is opened after a checkpoint, if there is one."""
    facts = RunOpenFacts(past.size, past.root.hex()) if past else RunOpenFacts()
    return Draft("run/open", actor, facts)


def draft_closing(
    actor: str, outcome: Outcome, ends: Sequence[StrandEnd], effects: tuple[ports.Effect, ...]
) -> Draft:
    """Return the entry that closes a run whose other strands have these ends."""
    # An entry has at most 16 parents; the body lists the ends of all strands.
    parents = tuple(tlog.Hash.from_hex(end.head) for end in ends[:16])
    body = Attachment("strands", BytesContent(msgspec.json.encode(ends)), "application/json")
    return Draft(
        step="run/close",
        actor=actor,
        facts=RunCloseFacts(outcome, len(ends)),
        parents=parents,
        bodies=(body,),
        effects=effects,
    )


def _append_inline(append: ports.Append) -> ports.AppendAsync:
    """Return an async append without group commit: each commit blocks the event loop."""

    async def append_async(records: Sequence[ports.EntryWrite]) -> None:
        append(records)

    return append_async


def read_strand_entries(
    ledger: Ledger, run: str, strand: str, start: int = 0
) -> Iterator[tuple[tlog.Hash, Entry[Any]]]:
    """Yield the entries of a strand from position `start`, each with its id."""
    yield from ledger.writer.read_entries(run, strand, start)


def find_entry(reader: ports.EntryReader, kinds: Kinds, what: str) -> LocatedEntry:
    """Return the entry with this index, id (or its first digits), or position run/strand/n.

    The run of a position may be the index of one of its entries.  Raises `NoSuchEntry`,
    `AmbiguousEntry`, `Malformed`.
    """
    if what.isdecimal() and len(what) < 16:
        # The first digits of an id may all be decimal.  An index that exists wins.
        is_id = len(what) >= _MIN_ID_DIGITS and int(what) >= reader.head().size
        if not is_id or not _match_id(reader, what):
            return _find_by_index(reader, kinds, int(what))
    if "/" in what:
        return _find_by_position(reader, kinds, what)
    return _find_by_id(reader, kinds, what)


def stored_body(reader: ports.BodyReader, entry: Entry[Any], name: str) -> StoredBody | None:
    """Return a body that matches the commitment in its entry, or None if it is not stored.

    Raises `TamperDetected`.  The body is read here for the comparison, and again by the caller.
    """
    body = reader.body(ports.Position(entry.run, entry.strand, entry.n), name)
    if body is not None:
        check_body(entry, name, body)
    return body


def read_body(reader: ports.BodyReader, entry: Entry[Any], name: str) -> bytes | None:
    """Return the content of a body, or None if it is not stored.  Raises `TamperDetected`."""
    body = reader.body(ports.Position(entry.run, entry.strand, entry.n), name)
    return None if body is None else read_stored(entry, name, body)


def read_stored(entry: Entry[Any], name: str, body: StoredBody) -> bytes:
    """Return the content of a stored body.  Raises `TamperDetected`."""
    content = b"".join(body.read())
    check_body(entry, name, StoredBody(body.salt, BytesContent(content).chunks))
    return content


def check_body(entry: Entry[Any], name: str, body: StoredBody) -> None:
    """Check a body against the commitment in its entry.  Raises `TamperDetected`."""
    commitment = entry.bodies.get(name)
    if commitment is None or not body.matches(commitment):
        what = f"body {name!r} of entry {entry.run}/{entry.strand}/{entry.n}"
        raise errors.TamperDetected(what, "it is not the one that was recorded")


def check_strand_head(
    reader: ports.EntryReader,
    keys: WriteKeys | None,
    strand: str,
    remembered: tuple[int, str] | None,
) -> None:
    """Raise `TamperDetected` if a strand of the log's own run was truncated or replaced.

    The strand must contain the head that its last writer tagged, if heads are tagged there, and the
    head (position and id) that this machine remembers.  The latter detects a replay: an attacker
    can restore an older head row with its valid tag, but cannot change the memory of this machine.
    """
    heads = [remembered] if remembered else []
    stored = reader.strand_head(strand)
    if stored is not None:
        if keys is not None and not keys.accepts_head(*stored):
            raise errors.TamperDetected(
                f"the head of {LOG_RUN}/{strand}", "no writer of this log tagged it"
            )
        heads.append((stored.n, stored.leaf.hex()))
    elif (
        strand in TAGGED_STRANDS
        and keys is not None
        and keys.is_enforced
        and reader.last_entry(LOG_RUN, strand) is not None
    ):
        raise errors.TamperDetected(f"the head of {LOG_RUN}/{strand}", "it was removed")
    for n, leaf in heads:
        data = next(reader.read_strand(LOG_RUN, strand, n), None)
        if data is None or leaf_of(data).hex() != leaf:
            why = f"its entry {n} was {leaf[:16]} and is not there any more"
            raise errors.TamperDetected(f"{LOG_RUN}/{strand}", why)


def locate_run(reader: ports.EntryReader, kinds: Kinds, run: str) -> Iterator[LocatedEntry]:
    """Yield all entries of a run, strand by strand, with their indexes.

    Raises `TamperDetected` if the tree has another entry at an index.
    """
    entries = reader.entries_of_run(run)
    # Comparing the entry with the leaf in the tree detects an altered index.  This is no proof:
    # tiles can be altered too, and only an inclusion proof leads to a signed root.
    view = tlog.TreeView(reader.head().size, reader.read_tile)
    while page := [data for _, data in islice(entries, _PAGE_ENTRIES)]:
        indexes = reader.indexes([leaf_of(data) for data in page])
        for index, data in zip(indexes, page, strict=True):
            if index is not None and index < view.size and view.leaf(index) != leaf_of(data):
                raise errors.TamperDetected(
                    f"entry {index}", "the tree has another entry at this index"
                )
            yield LocatedEntry(index, data, kinds.read(data))


def walk_causes(
    reader: ports.EntryReader,
    kinds: Kinds,
    entry: LocatedEntry,
    limit: int,
    find_further: Callable[[LocatedEntry], Sequence[LocatedEntry]] = lambda _: (),
) -> Iterator[tuple[int, LocatedEntry]]:
    """Yield an entry and its causes, breadth first, each once, with the distance in steps.

    The causes of an entry are what `find_further` finds for it, then its parents, or the previous
    entry of its strand if it names none.  At most `limit` entries are yielded.
    """
    level, seen = [entry], {entry.leaf.hex()}
    depth = 0
    while level and limit > 0:
        for effect in level[:limit]:
            yield depth, effect
        limit -= len(level)
        below: list[LocatedEntry] = []
        for effect in level:
            further = {cause.leaf.hex(): cause for cause in find_further(effect)}
            names = (*further, *(effect.entry.parents or (effect.entry.prev,)))
            for name in dict.fromkeys(names):
                if name and name not in seen:
                    seen.add(name)
                    below.append(further.get(name) or find_entry(reader, kinds, name))
        level, depth = below, depth + 1


def prove_entry(reader: ports.TreeReader, index: int) -> tlog.TlogProof:
    """Return the proof that an entry is in the newest signed tree.  Raises `NotYetSigned`."""
    data = reader.checkpoint()
    note = tlog.Note.parse(data) if data else None
    size = tlog.Checkpoint.parse(note.text).size if note else 0
    if note is None or index >= size:
        raise errors.NotYetSigned(str(index))
    hashes = tlog.prove_inclusion(tlog.TreeView(size, reader.read_tile), index, size)
    return tlog.TlogProof(index, tuple(hashes), note)


def _find_by_index(reader: ports.EntryReader, kinds: Kinds, index: int) -> LocatedEntry:
    data = next(reader.entries(index, index + 1))
    if data is not None:
        reader.check.check_index(index, leaf_of(data))
        return LocatedEntry(index, data, kinds.read(data))
    raise errors.NoSuchEntry(
        f"the log has {reader.head().size} entries, and none with index {index}; "
        "forum ledger show lists the newest"
    )


def _find_by_position(reader: ports.EntryReader, kinds: Kinds, what: str) -> LocatedEntry:
    run, _, rest = what.partition("/")
    strand, _, n = rest.rpartition("/")
    if not n.isdecimal() or len(n) > 15:
        raise errors.NoSuchEntry(f"{what} (a position is run/strand/n)")
    if run.isdecimal() and len(run) < 16 and not reader.strand_lengths(run):
        run = _find_by_index(reader, kinds, int(run)).entry.run
    for data in reader.read_strand(run, strand, int(n)):
        entry = kinds.read(data)
        if entry.n == int(n):
            return LocatedEntry(find_index(reader, leaf_of(data)), data, entry)
        break
    raise errors.NoSuchEntry(what)


def _find_by_id(reader: ports.EntryReader, kinds: Kinds, what: str) -> LocatedEntry:
    indexes = _match_id(reader, what)
    if not indexes:
        raise errors.NoSuchEntry(what)
    if len(indexes) > 1:
        raise errors.AmbiguousEntry(what, len(indexes))
    return _find_by_index(reader, kinds, indexes[0])


def _match_id(reader: ports.EntryReader, digits: str) -> Sequence[int]:
    even = digits[: len(digits) & ~1]
    try:
        prefix = bytes.fromhex(even)
    except ValueError:
        why = f"{digits!r} is no index, id or position of an entry (`forum ledger show` lists them)"
        raise errors.Malformed("entry", why) from None
    if len(prefix) < 2:
        raise errors.Malformed("entry id", "give at least four digits")
    # The store indexes the first eight bytes of each leaf; the remaining digits are compared here.
    rows = ((i, next(reader.entries(i, i + 1))) for i in reader.find_by_prefix(prefix[:8]))
    return [i for i, data in rows if data and leaf_of(data).hex().startswith(digits)]


def find_index(reader: ports.EntryReader, leaf: tlog.Hash) -> int | None:
    """Return the index of the entry with this leaf hash, or None if it has none yet."""
    indexes = _match_id(reader, leaf.hex())
    return indexes[0] if indexes else None


def is_before(reader: ports.EntryReader, leaf: tlog.Hash, until: int) -> bool:
    """Return whether an entry has an index that is not greater than `until`."""
    index = find_index(reader, leaf)
    return index is not None and index <= until
