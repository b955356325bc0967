"""A strand: a chain of entries with one writer at a time.

The position is the fence.  A writer carries the head of its strand and appends at the next
position; the store lets each position be taken once.  Whoever finds it taken has been overtaken:
it adopts what is recorded there if that is the very step it was about to record, and otherwise
stops.  So a writer that was paused, or declared dead too early, cannot add to a strand that its
successor has gone on with, and nobody has to be told about it.

Every draft of every writer passes one place, where its secrets give way to their names.
"""

from collections.abc import Sequence
from itertools import islice
from operator import is_not
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from forum.errors import ConcurrentUpdate, Malformed, PositionTaken, StepMismatch
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.body import Body, Content
from forum.ledger.entry import FORMAT, LOG_RUN, Entry, Facts, leaf_of
from forum.ledger.kinds import Kinds
from forum.ledger.ports import (
    Append,
    AppendAsync,
    Clock,
    Effect,
    EntryWrite,
    IdempotencyRecord,
    Position,
    Reader,
    Salts,
    TaggedHead,
)
from forum.ledger.secret_mask import SecretMask
from forum.ledger.write_tags import WriteKeys
from forum.tlog import Hash

TAGS_STRAND = "tags"
"""The strand of the log's own run that says from where on entries carry tags."""

WRITE_KEY_MARK = "write-key"
"""Under this name the store keeps a mark of the write key that the writers of a log use."""

TAGGED_STRANDS = frozenset({ACCESS_STRAND})
"""Strands of the log's own run whose head is tagged: what they end with must not be taken away."""


class Attachment(msgspec.Struct, frozen=True):
    """A body that a draft wants to commit to."""

    name: str
    content: Content
    type: str = "text/plain"


class Draft(msgspec.Struct, frozen=True):
    """What a writer wants recorded at the next position of its strand."""

    step: str
    actor: str
    facts: Facts
    parents: tuple[Hash, ...] = ()
    bodies: tuple[Attachment, ...] = ()
    effects: tuple[Effect, ...] = ()


class RecordedEntry(NamedTuple):
    """An entry that is in the store, with its id."""

    leaf: Hash
    entry: Entry[Any]


class WriterContext(msgspec.Struct, frozen=True):
    """What every writer of one log writes with."""

    store: Reader
    append: Append
    append_async: AppendAsync
    kinds: Kinds
    clock: Clock
    salts: Salts
    mask: SecretMask
    tags: WriteKeys | None = None
    """What marks entries as written by us; without it the sequencer may refuse them."""


class Strand:
    """One strand as its writer holds it: first what is recorded is played, then it is live."""

    def __init__(
        self, pen: WriterContext, run: str, name: str, *, at_end: bool = False, new: bool = False
    ) -> None:
        if pen.mask.has_secret(f"{run}/{name}".encode(errors="replace")):
            # A name is how others find the strand: with a mark in it they would not.
            raise Malformed(
                "strand", f"a secret in its name: {pen.mask.mask_label(f'{run}/{name}')}"
            )
        self._pen, self.run, self.name = pen, run, name
        self._recorded: list[RecordedEntry] = []
        self._played = 0
        self._n, self._head = 0, ""
        if at_end:
            self._skip_to_end()
        elif not new:  # of what nobody has written yet, there is nothing to read
            self._load()

    @property
    def head(self) -> Hash | None:
        """The id of the last entry, the cause of what comes next."""
        return Hash.from_hex(self._head) if self._head else None

    @property
    def length(self) -> int:
        """The number of entries in the strand, as far as this writer knows."""
        return self._n

    @property
    def loaded_entries(self) -> tuple[RecordedEntry, ...]:
        """What was recorded when this writer took the strand up."""
        return tuple(self._recorded)

    def replay_step(self, step: str) -> RecordedEntry | None:
        """Return the record of the next step, or nothing when the step has yet to be done.

        A recorded step with another name is an error: the program that recorded this strand is
        not the one that plays it.
        """
        if self._played == len(self._recorded):
            return None
        found, step = self._recorded[self._played], self._pen.mask.mask_label(step)
        if found.entry.step != step:
            raise StepMismatch(str(self._position(found.entry.n)), found.entry.step, step)
        self._played += 1
        return found

    def append(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Record these at the next positions, all or none, and return what is recorded there."""
        records, written = self._prepare(drafts)
        if not records:
            return ()
        try:
            self._pen.append(records)
        except PositionTaken:
            return self._adopt_existing(drafts)
        return self._advance(written)

    async def append_async(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Do the same for a task: others go on while the entries become durable."""
        records, written = self._prepare(drafts)
        if not records:
            return ()
        try:
            await self._pen.append_async(records)
        except PositionTaken:
            return self._adopt_existing(drafts)
        return self._advance(written)

    def append_exclusive(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Record these, or raise `ConcurrentUpdate` where another writer was first.

        For those who act upon what they record: whoever adopted another writer's intent would
        have its effect a second time.
        """
        records, written = self._prepare(drafts)
        try:
            self._pen.append(records)
        except PositionTaken:
            self._check_own_commit(written)
        return self._advance(written)

    async def append_exclusive_async(self, *drafts: Draft) -> tuple[RecordedEntry, ...]:
        """Do the same for a task."""
        records, written = self._prepare(drafts)
        try:
            await self._pen.append_async(records)
        except PositionTaken:
            self._check_own_commit(written)
        return self._advance(written)

    def _check_own_commit(self, written: tuple[RecordedEntry, ...]) -> None:
        """Refuse to go on unless the writer was oneself, and only word of the commit was lost."""
        there = self._pen.store.read_strand(self.run, self.name, self._n)
        found = [leaf_of(data) for data in islice(there, len(written))]
        if found != [record.leaf for record in written]:
            raise ConcurrentUpdate(f"strand {self.run}/{self.name}")

    def _advance(self, written: tuple[RecordedEntry, ...]) -> tuple[RecordedEntry, ...]:
        self._n, self._head = self._n + len(written), written[-1].leaf.hex()
        return written

    def _prepare(
        self, drafts: Sequence[Draft]
    ) -> tuple[list[EntryWrite], tuple[RecordedEntry, ...]]:
        """Make the entries of these drafts, each linked to the one before it."""
        if self._pen.mask:
            drafts = [_mask_draft(draft, self._pen.mask) for draft in drafts]
        if drafts and self._played < len(self._recorded):
            ahead = self._recorded[self._played].entry
            raise StepMismatch(str(self._position(ahead.n)), ahead.step, drafts[0].step)
        prev, records, written = self._head, [], []
        for n, draft in enumerate(drafts, self._n):
            bodies = self._salt_bodies(draft.bodies) if draft.bodies else ()
            entry = self._entry(n, prev, draft, bodies)
            data = self._pen.kinds.write(entry)
            leaf = leaf_of(data)
            effects = self._tag_effects(draft.effects, n, leaf)
            tag = self._pen.tags.tag_entry(data) if self._pen.tags else None
            records.append(EntryWrite(self._position(n), data, leaf, bodies, effects, tag))
            written.append(RecordedEntry(leaf, entry))
            prev = leaf.hex()
        return records, tuple(written)

    def _tag_effects(self, effects: tuple[Effect, ...], n: int, leaf: Hash) -> tuple[Effect, ...]:
        """Return the effects of an entry with the tags that keep others from changing them."""
        keys = self._pen.tags
        if keys is None:
            return effects
        if self.run == LOG_RUN and self.name in TAGGED_STRANDS:
            head = TaggedHead(self.name, n, leaf, keys.tag_head(self.name, n, leaf))
            effects = (*effects, head)
        return tuple(
            effect._replace(tag=keys.tag_idempotency(*effect[:3]))
            if isinstance(effect, IdempotencyRecord)
            else effect
            for effect in effects
        )

    def _entry(self, n: int, prev: str, draft: Draft, bodies: tuple[Body, ...]) -> Entry[Any]:
        pen, facts = self._pen, draft.facts
        parents = tuple([parent.hex() for parent in draft.parents]) if draft.parents else ()
        commitments = {body.name: body.commitment() for body in bodies}
        kind = pen.kinds.kind_of(facts).name
        place = (FORMAT, pen.store.origin, self.run, self.name, n, prev, draft.step)
        return Entry(*place, pen.clock(), draft.actor, kind, parents, facts, commitments)

    def _salt_bodies(self, attachments: Sequence[Attachment]) -> tuple[Body, ...]:
        names = sorted(attachment.name for attachment in attachments)
        if len(set(names)) != len(names):
            raise Malformed("draft", f"two bodies of one name: {', '.join(names)}")
        bodies = [Body(a.name, a.type, a.content, self._pen.salts()) for a in attachments]
        return tuple(sorted(bodies, key=lambda body: body.name))

    def _adopt_existing(self, drafts: Sequence[Draft]) -> tuple[RecordedEntry, ...]:
        """Take over what another writer, or our own lost commit, has recorded instead."""
        self._load()
        found = []
        for draft in drafts:
            record = self.replay_step(draft.step)
            if record is None:
                # All or none: whoever took the first of these positions stopped before the last.
                raise ConcurrentUpdate(f"strand {self.run}/{self.name}")
            found.append(record)
        return tuple(found)

    def _skip_to_end(self) -> None:
        """Begin behind what is recorded, for a writer that does not replay it."""
        last = self._pen.store.last_entry(self.run, self.name)
        if last is not None:
            self._n, self._head = self._pen.kinds.read(last).n + 1, leaf_of(last).hex()

    def _load(self) -> None:
        """Read what the store has beyond what this writer knows."""
        for data in self._pen.store.read_strand(self.run, self.name, self._n):
            entry = self._pen.kinds.read(data)
            self._recorded.append(RecordedEntry(leaf_of(data), entry))
            self._n, self._head = entry.n + 1, self._recorded[-1].leaf.hex()

    def _position(self, n: int) -> Position:
        return Position(self.run, self.name, n)


def _mask_draft(draft: Draft, mask: SecretMask) -> Draft:
    """Return this very draft if there is no secret in it, and otherwise one that hides it."""
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
