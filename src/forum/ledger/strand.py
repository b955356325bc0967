"""A strand: a chain of entries with one writer at a time.

The position is the fencing token.  A writer knows the head of its strand and appends at the next
position; the store accepts each position once.  A writer that finds its position taken has been
overtaken: it adopts the recorded entry if that is the step it was about to record, and otherwise
raises.  So a writer that was paused, or declared dead too early, cannot append to a strand that its
successor has continued, and no notification of the old writer is needed.

Every draft of every writer passes `Strand._prepare`, which replaces secrets by their names and
hidden characters in facts by U+FFFD.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import is_not
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from forum import errors
from forum.ledger import ports
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.body import Body, Content
from forum.ledger.control_key import is_control_entry
from forum.ledger.entry import FORMAT, LOG_RUN, Entry, Facts, change_texts, leaf_of
from forum.ledger.kinds import Kinds
from forum.ledger.secret_mask import SecretMask
from forum.ledger.write_tags import WriteKeys
from forum.tlog import Hash
from forum.untrusted_text import replace_hidden

T = TypeVar("T")

TAGS_STRAND = "tags"
"""The strand of the log's own run that records from which index on entries carry tags."""

WRITE_KEY_MARK = "write-key"
"""The name under which the store keeps a head tagged with the writers' current write key."""

LOST_COMMITS_MARK = "lost-commits"
"""The name under which the store keeps how far the log was seen when commits were found lost."""

ENDED_MARK = "ended"
"""The name under which the store keeps that this log takes no entries: its next epoch begins.

The position says whether it is still sequenced and signed (1), or not any more (0).
"""

RUNS_STRAND = "runs"
"""The strand of the log's own run that names the runs in the order of their openings."""

TAGGED_STRANDS = frozenset({ACCESS_STRAND, RUNS_STRAND})
"""Strands of the log's own run whose head is tagged, so that a truncation is detected.

Removing the last entry of the access strand could undo the revocation of a key; removing that of
the directory would hide the newest runs.
"""


class Attachment(msgspec.Struct, frozen=True):
    """A body that the entry of a draft will commit to."""

    name: str
    content: Content
    type: str = "text/plain"
    salt: bytes = b""
    """That of another entry's body with this content, so that the commitments are equal."""


class Draft(msgspec.Struct, frozen=True):
    """The content of an entry to be recorded at the next position of a strand."""

    step: str
    actor: str
    facts: Facts
    parents: tuple[Hash, ...] = ()
    bodies: tuple[Attachment, ...] = ()
    effects: tuple[ports.Effect, ...] = ()


class StrandStart(msgspec.Struct, frozen=True):
    """The first entry of a strand, to be recorded unless the strand has entries already."""

    run: str
    strand: str
    draft: Draft


class RecordedEntry(NamedTuple):
    """A stored entry with its id."""

    leaf: Hash
    entry: Entry[Any]


class EntryMemory(Protocol):
    """Remembers the entries of runs that one process drives alone, so that they are not read again.

    Some strands of such a run have other writers too; these are never remembered.
    """

    def load(self, run: str, read: Callable[[], Iterable[RecordedEntry]]) -> None:
        """Remember a run from now on; `read` reads its entries, strand by strand."""

    def read(self, run: str, strand: str, start: int = 0) -> Sequence[RecordedEntry] | None:
        """Return the entries of a strand from a position on, or None if they must be read.

        A negative position counts from the end, as in a slice.
        """

    def strands(self, run: str) -> Sequence[str] | None:
        """Return the names of the strands of a remembered run, or None."""

    def share_tasks(self, run: str) -> None:
        """Remember no more than `main` of a run: other processes drive tasks of it, too."""

    def add(self, entries: Sequence[RecordedEntry]) -> None:
        """Remember entries of one strand that were just committed, if their run is remembered."""

    def forget(self, run: str) -> None:
        """Remember nothing of a run any more: another process has written to it."""

    def derive(self, source: RecordedEntry, what: str, make: Callable[[], T]) -> T:
        """Return what follows from an entry; made once if its run is remembered."""


class WriterContext(msgspec.Struct, frozen=True):
    """The dependencies that all writers of one log share."""

    store: ports.EntryReader
    append: ports.Append
    append_async: ports.AppendAsync
    kinds: Kinds
    clock: ports.Clock
    salts: ports.Salts
    mask: SecretMask
    tags: WriteKeys | None = None
    """Keys for the tags of entries; the sequencer may quarantine entries without a tag."""
    memory: EntryMemory | None = None
    control: WriteKeys | None = None
    """The key for the tags of control entries, on the machine that signs."""
    may_control: bool = True
    """Whether this process may write control entries; others are refused them."""
    dating_clock: ports.Clock | None = None
    """The clock that dates entries, if it is not `clock`: one that refuses to be wrong."""

    def read_date(self) -> int:
        """Return the time for an entry.  Raises `ClockOff` if this machine's clock is off."""
        return (self.dating_clock or self.clock)()

    def tag_entry(self, position: ports.Position, data: bytes) -> bytes | None:
        """Return the tag of an entry.  Raises `NotSigner` for one that is not ours to write."""
        if self.tags is None:
            return None
        tag = self.tags.tag_entry(data)
        if not is_control_entry(position.run, position.strand, data):
            return tag
        if not self.may_control:
            raise errors.NotSigner(self.store.origin, position.strand)
        return tag + self.control.tag_control(data) if self.control else tag

    def read_entries(self, run: str, strand: str, start: int = 0) -> Iterable[RecordedEntry]:
        """Return the entries of a strand from a position on, remembered or stored."""
        remembered = self.memory.read(run, strand, start) if self.memory else None
        if remembered is not None:
            return remembered
        return map(self.parse, self.store.read_strand(run, strand, start))

    def last_entry(self, run: str, strand: str) -> RecordedEntry | None:
        """Return the last entry of a strand, remembered or stored, or None if it has none."""
        remembered = self.memory.read(run, strand, -1) if self.memory else None
        if remembered is not None:
            return remembered[0] if remembered else None
        data = self.store.last_entry(run, strand)
        return None if data is None else self.parse(data)

    def last_entries(self, run: str, strands: Sequence[str]) -> list[RecordedEntry | None]:
        """Return the last entry of each of some strands; those in the store in one statement."""
        remembered = [self.memory.read(run, name, -1) if self.memory else None for name in strands]
        missing = [
            (run, name) for name, last in zip(strands, remembered, strict=True) if last is None
        ]
        stored = iter(self.store.last_entries(missing)) if missing else iter(())
        ends: list[RecordedEntry | None] = []
        for last in remembered:
            if last is not None:
                ends.append(last[0] if last else None)
            else:
                data = next(stored)
                ends.append(None if data is None else self.parse(data))
        return ends

    def parse(self, data: bytes) -> RecordedEntry:
        """Return a stored entry with its id."""
        return RecordedEntry(leaf_of(data), self.kinds.read(data))

    def strands(self, run: str) -> Sequence[str]:
        """Return the names of the strands of a run, remembered or stored."""
        remembered = self.memory.strands(run) if self.memory else None
        return self.store.strands(run) if remembered is None else remembered

    def remembers(self, run: str) -> bool:
        """Return whether all entries of a run are remembered that clients do not append."""
        return self.memory is not None and self.memory.strands(run) is not None

    def share_tasks(self, run: str) -> None:
        """Read the strands of a run from the store, except `main`: its tasks are shared."""
        if self.memory is not None:
            self.memory.share_tasks(run)

    def derive(self, source: RecordedEntry, what: str, make: Callable[[], T]) -> T:
        """Return what follows from an entry; made once if its run is remembered."""
        return self.memory.derive(source, what, make) if self.memory else make()

    def remember(self, entries: Sequence[RecordedEntry]) -> None:
        """Remember entries that were committed."""
        if self.memory is not None and entries:
            self.memory.add(entries)

    def forget(self, run: str) -> None:
        """Read a run again: an append to it was refused, so another writer was there."""
        if self.memory is not None:
            self.memory.forget(run)


class Strand:
    """A writer's view of one strand: recorded steps are replayed first, then new ones appended."""

    def __init__(
        self,
        context: WriterContext,
        run: str,
        name: str,
        *,
        at_end: bool = False,
        new: bool = False,
    ) -> None:
        if context.mask.has_secret(f"{run}/{name}".encode(errors="replace")):
            # A name cannot be masked, because readers find the strand by it.
            raise errors.Malformed(
                "strand", f"a secret in its name: {context.mask.mask_label(f'{run}/{name}')}"
            )
        self._context, self.run = context, run
        self.name = name
        self._recorded: list[RecordedEntry] = []
        self._played = 0
        self._n, self._head = 0, ""
        if at_end:
            self._skip_to_end()
        elif not new:  # a new strand has no entries, so the query is saved
            self._load()

    @classmethod
    def following(
        cls, context: WriterContext, run: str, name: str, last: RecordedEntry | None
    ) -> "Strand":
        """Return a strand positioned after its last entry, which the caller has read."""
        strand = cls(context, run, name, new=True)
        strand._move_behind(last)
        return strand

    @property
    def head(self) -> Hash | None:
        """The id of the last entry, or None if the strand is empty."""
        return Hash.from_hex(self._head) if self._head else None

    @property
    def length(self) -> int:
        """The number of entries in the strand that this writer knows of."""
        return self._n

    @property
    def loaded_entries(self) -> tuple[RecordedEntry, ...]:
        """The recorded entries that this writer has loaded, replayed or not."""
        return tuple(self._recorded)

    @property
    def next_recorded(self) -> RecordedEntry | None:
        """The recorded entry that is replayed next; None once all are."""
        return self._recorded[self._played] if self._played < len(self._recorded) else None

    def replay_step(self, step: str) -> RecordedEntry | None:
        """Return the recorded entry of the next step, or None if the step is not recorded yet.

        Raises `StepMismatch` if the next recorded step has another name: the program that recorded
        this strand is not the one that replays it.
        """
        if self._played == len(self._recorded):
            return None
        record, step = self._recorded[self._played], self._context.mask.mask_label(step)
        if record.entry.step != step:
            raise errors.StepMismatch(str(self._position(record.entry.n)), record.entry.step, step)
        self._played += 1
        return record

    def append(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Append these drafts at the next positions, all or none, and return the entries there.

        If another writer recorded the same steps first, return its entries.  Raises `StepMismatch`
        or `ConcurrentUpdate` if it recorded anything else.
        """
        records, written = self._prepare(drafts)
        if not records:
            return ()
        try:
            self._context.append(records)
        except errors.PositionTaken:
            return self._adopt_existing(drafts)
        return self._finish_append(written)

    async def append_async(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Append like `append`, without blocking other tasks until the entries are durable."""
        records, written = self._prepare(drafts)
        if not records:
            return ()
        try:
            await self._context.append_async(records)
        except errors.PositionTaken:
            return self._adopt_existing(drafts)
        return self._finish_append(written)

    def append_exclusive(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Append these drafts, or raise `ConcurrentUpdate` if another writer was first.

        For writers that act on the recorded entry: a writer that adopted the intent of another
        would carry out its effect a second time.
        """
        records, written = self._prepare(drafts)
        try:
            self._context.append(records)
        except errors.PositionTaken:
            self._check_own_commit(written)
        return self._finish_append(written)

    async def append_exclusive_async(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Append like `append_exclusive`, without blocking other tasks."""
        records, written = self._prepare(drafts)
        try:
            await self._context.append_async(records)
        except errors.PositionTaken:
            self._check_own_commit(written)
        return self._finish_append(written)

    def _check_own_commit(self, written: tuple[RecordedEntry, ...]) -> None:
        """Raise `ConcurrentUpdate` unless the stored entries are the ones just written.

        They are if the commit succeeded and only its acknowledgement was lost.
        """
        self._context.forget(self.run)
        there = self._context.store.read_strand(self.run, self.name, self._n)
        leaves = [leaf_of(data) for data in islice(there, len(written))]
        if leaves != [record.leaf for record in written]:
            raise errors.ConcurrentUpdate(f"strand {self.run}/{self.name}")

    def _finish_append(self, written: tuple[RecordedEntry, ...]) -> tuple[RecordedEntry, ...]:
        self._context.remember(written)
        return self._advance(written)

    def _advance(self, written: tuple[RecordedEntry, ...]) -> tuple[RecordedEntry, ...]:
        self._n, self._head = self._n + len(written), written[-1].leaf.hex()
        return written

    def _prepare(
        self, drafts: Sequence[Draft]
    ) -> tuple[list[ports.EntryWrite], tuple[RecordedEntry, ...]]:
        """Return the entries of these drafts, each linked to the previous one by its hash.

        Raises `StepMismatch` if recorded steps have not been replayed yet.
        """
        # Mask before encoding: neither the hash nor the stored bytes may depend on a secret.
        if self._context.mask:
            drafts = [_mask_draft(draft, self._context.mask) for draft in drafts]
        if drafts and self._played < len(self._recorded):
            ahead = self._recorded[self._played].entry
            raise errors.StepMismatch(str(self._position(ahead.n)), ahead.step, drafts[0].step)
        prev, records = self._head, []
        written = []
        for n, draft in enumerate(drafts, self._n):
            bodies = self._salt_bodies(draft.bodies) if draft.bodies else ()
            entry = self._entry(n, prev, draft, bodies)
            data = self._context.kinds.write(entry)
            if not data.isascii():  # only texts in facts can be of other characters
                # What nobody sees, or what turns the figures beside it around, is made visible.
                entry = replace(entry, facts=change_texts(entry.facts, replace_hidden))
                data = self._context.kinds.write(entry)
            leaf = leaf_of(data)
            position = self._position(n)
            records.append(
                ports.EntryWrite(
                    position=position,
                    data=data,
                    leaf=leaf,
                    bodies=bodies,
                    effects=self._tag_effects(draft.effects, n, leaf),
                    tag=self._context.tag_entry(position, data),
                )
            )
            written.append(RecordedEntry(leaf, entry))
            prev = leaf.hex()
        return records, tuple(written)

    def prepare_next(
        self, drafts: Sequence[Draft]
    ) -> tuple[list[ports.EntryWrite], tuple[RecordedEntry, ...]]:
        """Return what the store needs to record these drafts, and move behind them."""
        writes, entries = self._prepare(drafts)
        return writes, self._advance(entries)

    def _tag_effects(
        self, effects: tuple[ports.Effect, ...], n: int, leaf: Hash
    ) -> tuple[ports.Effect, ...]:
        """Return the effects of an entry with tags, which reveal later edits of the database."""
        keys = self._context.tags
        if keys is None:
            return effects
        if self.run == LOG_RUN and self.name in TAGGED_STRANDS:
            head = ports.TaggedHead(self.name, n, leaf, keys.tag_head(self.name, n, leaf))
            effects = (*effects, head)
        return tuple(
            effect._replace(tag=keys.tag_idempotency(*effect[:3]))
            if isinstance(effect, ports.IdempotencyRecord)
            else effect
            for effect in effects
        )

    def _entry(self, n: int, prev: str, draft: Draft, bodies: tuple[Body, ...]) -> Entry[Any]:
        context, facts = self._context, draft.facts
        parents = tuple([parent.hex() for parent in draft.parents]) if draft.parents else ()
        commitments = {body.name: body.commitment() for body in bodies}
        kind = context.kinds.kind_of(facts).name
        return Entry(
            v=FORMAT,
            log=context.store.origin,
            run=self.run,
            strand=self.name,
            n=n,
            prev=prev,
            step=draft.step,
            ts=context.read_date(),
            actor=draft.actor,
            kind=kind,
            parents=parents,
            facts=facts,
            bodies=commitments,
        )

    def _salt_bodies(self, attachments: Sequence[Attachment]) -> tuple[Body, ...]:
        names = sorted(attachment.name for attachment in attachments)
        if len(set(names)) != len(names):
            raise errors.Malformed("draft", f"two bodies of one name: {', '.join(names)}")
        bodies = [
            Body(a.name, a.type, a.content, a.salt or self._context.salts()) for a in attachments
        ]
        return tuple(sorted(bodies, key=lambda body: body.name))

    def _adopt_existing(self, drafts: Sequence[Draft]) -> tuple[RecordedEntry, ...]:
        """Return the entries at these positions, recorded by another writer or by a lost commit.

        Raises `StepMismatch` or `ConcurrentUpdate` if they are not the steps of these drafts.
        """
        self._context.forget(self.run)
        self._load()
        records = []
        for draft in drafts:
            record = self.replay_step(draft.step)
            if record is None:
                # An append is all or none, so these drafts are not stored: the writer that took
                # the first position recorded fewer steps.
                raise errors.ConcurrentUpdate(f"strand {self.run}/{self.name}")
            records.append(record)
        return tuple(records)

    def _skip_to_end(self) -> None:
        """Position this writer after the last entry, without loading the others."""
        self._move_behind(self._context.last_entry(self.run, self.name))

    def _move_behind(self, last: RecordedEntry | None) -> None:
        if last is not None:
            self._n, self._head = last.entry.n + 1, last.leaf.hex()

    def _load(self) -> None:
        """Load the stored entries after the last one that this writer knows."""
        for recorded in self._context.read_entries(self.run, self.name, self._n):
            self._recorded.append(recorded)
            self._n, self._head = recorded.entry.n + 1, recorded.leaf.hex()

    def _position(self, n: int) -> ports.Position:
        return ports.Position(self.run, self.name, n)


class JointAppend:
    """Entries of several strands that are committed together, all or none.

    A writer that adds to other strands of a run appends to `main` as well.  Then the position in
    `main` fences it against the close of the run, which could not list entries that it has not
    seen.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._writes: list[ports.EntryWrite] = []
        self._entries: list[tuple[RecordedEntry, ...]] = []

    def add(self, strand: Strand, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Prepare drafts at the next positions of a strand, and return their entries.

        Later drafts may name these entries as parents.  The strand is of no use if the commit fails
        or is left out: it stands behind entries that do not exist.
        """
        writes, entries = strand.prepare_next(drafts)
        self._writes += writes
        self._entries.append(entries)
        return entries

    def commit(self) -> None:
        """Record everything that was added.  Raises `PositionTaken`, and then records nothing."""
        if self._writes:
            self._context.append(self._writes)
        self._remember()

    async def commit_async(self) -> None:
        """Record like `commit`, without blocking other tasks."""
        if self._writes:
            await self._context.append_async(self._writes)
        self._remember()

    def _remember(self) -> None:
        for entries in self._entries:
            self._context.remember(entries)


def start_strands(
    context: WriterContext, starts: Sequence[StrandStart]
) -> list[RecordedEntry | None]:
    """Record the first entries of many strands in one commit, in this order, each at most once.

    Return None in place of an entry whose strand has been started before: by an equal item of this
    call, an earlier call, or another process.
    """
    recorded: list[RecordedEntry | None] = [None] * len(starts)
    # In the order of the call, which becomes the order of the log.
    places: dict[tuple[str, str], int] = {}
    for at, start in enumerate(starts):
        places.setdefault((start.run, start.strand), at)
    while places:
        prepared = {
            at: Strand(context, run, name, new=True).prepare_next([starts[at].draft])
            for (run, name), at in places.items()
        }
        try:
            context.append([write for (write,), _ in prepared.values()])
        except errors.PositionTaken:
            # An append is all or none: leave out the strands that exist, and try the others again.
            places = _missing_strands(context.store, places)
            continue
        for at, (_, (entry,)) in prepared.items():
            context.remember((entry,))
            recorded[at] = entry
        break
    return recorded


def _missing_strands(
    store: ports.EntryReader, places: dict[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Return the places whose strands have no entry, in their order."""
    missing = set()
    for run in dict.fromkeys(run for run, _ in places):
        names = [name for other, name in places if other == run]
        first = store.entries_at(run, [(name, 0) for name in names])
        for name, data in zip(names, first, strict=True):
            if data is None:
                missing.add((run, name))
    return {place: at for place, at in places.items() if place in missing}


def _mask_draft(draft: Draft, mask: SecretMask) -> Draft:
    """Return the same object if the draft holds no secret, and otherwise a masked copy."""
    bodies = tuple([_mask_attachment(body, mask) for body in draft.bodies])
    if any(map(is_not, bodies, draft.bodies)):
        draft = replace(draft, bodies=bodies)
    if not mask.may_have_secret(
        draft.step, draft.actor, draft.facts, [b.type for b in draft.bodies]
    ):
        return draft
    return replace(
        draft,
        step=mask.mask_label(draft.step),
        actor=mask.mask_label(draft.actor),
        facts=mask.mask_facts(draft.facts),
        bodies=tuple(replace(body, type=mask.mask_label(body.type)) for body in draft.bodies),
    )


def _mask_attachment(body: Attachment, mask: SecretMask) -> Attachment:
    content = mask.mask_content(body.content)
    return body if content is body.content else replace(body, content=content)
