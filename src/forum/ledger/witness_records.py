"""Records of cosignatures in the log itself, in the strand `witnessed` of its own run.

The cosignatures of a checkpoint arrive after its tree was signed, so nothing signed commits to
them: whoever has the database could take them away.  The sequencer records them with the next
batch.  A recorded cosignature is the line of the note, so it verifies by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from forum.errors import Malformed, SignatureRejected, SigningRefused
from forum.ledger.entry import LOG_RUN, Entry
from forum.ledger.kinds import Kinds, WitnessedFacts
from forum.ledger.own_entries import WITNESSED_STRAND, Batch
from forum.ledger.ports import EntryReader, EntryRow, PublisherStore
from forum.ledger.row_checks import has_tree
from forum.ledger.strand import Draft, RecordedEntry
from forum.tlog import (
    Checkpoint,
    Cosignature,
    Hash,
    Note,
    Signature,
    VerifierKey,
    format_base64,
    parse_checkpoint,
    verify_cosignatures,
)

_MAX_CHECKPOINTS = 100
"""How many checkpoints are recorded with one batch; others wait for the next one."""
_MAX_LINES_SIZE = 2500
"""Bytes of cosignatures in one entry; the rest of it fits the limit, too."""

KeysByClaim = Mapping[str, VerifierKey]
"""Keys by what their lines have behind the dash: the name, and the first characters of the id."""
_CLAIM = slice(len("\u2014 "), -99)
"""Where that is in a line: a cosignature and its id have 104 characters, of which five are that."""


class WitnessRecord(msgspec.Struct, frozen=True):
    """A line of a witness that an entry records, unverified, and the place of that entry."""

    key: VerifierKey
    signature: Signature
    where: str
    """The position of the entry: run/strand/n."""
    index: int | None = None


class RestoredCosignature(msgspec.Struct, frozen=True):
    """A recorded cosignature that is not below the stored note."""

    record: WitnessRecord
    witness: str
    cosignature: Cosignature | None
    """None if it does not hold."""
    is_missing: bool
    """Whether there is no other cosignature of the witness below the note."""


class WitnessRecords:
    """The recorded lines that name these witnesses, by size and root of the checkpoint.

    Whoever may write to the log can have other lines recorded, as many as he likes: they are left
    aside before they count.
    """

    def __init__(self, origin: str, witnesses: Iterable[VerifierKey]) -> None:
        self._origin, self._witnesses = origin, keys_by_claim(witnesses)
        self._lines: dict[tuple[int, str], list[WitnessRecord]] = {}

    def add_entry(self, entry: Entry[Any], index: int | None = None) -> None:
        """Add what an entry records, if it is a record of this log."""
        facts = entry.facts
        place = (entry.log, entry.run, entry.strand)
        if not isinstance(facts, WitnessedFacts):
            return
        if place != (self._origin, LOG_RUN, WITNESSED_STRAND):
            return
        where = f"{entry.run}/{entry.strand}/{entry.n}"
        lines = self._lines.setdefault((facts.size, facts.root), [])
        for key, signature in read_lines(facts.cosignatures, self._witnesses):
            lines.append(WitnessRecord(key, signature, where, index))

    @property
    def checkpoints(self) -> list[tuple[int, str]]:
        """The size and root of each checkpoint of which a line was recorded."""
        return sorted(place for place, lines in self._lines.items() if lines)

    @property
    def first_size(self) -> int | None:
        """The size of the smallest checkpoint of which something was recorded, if it was."""
        return min((size for size, _ in self._lines), default=None)

    def restore(
        self, checkpoint: Checkpoint, signatures: Sequence[Signature]
    ) -> Iterator[RestoredCosignature]:
        """Yield the recorded cosignatures of a checkpoint that are not among these signatures.

        Only lines that are not there are verified, and the first of each witness only, so a
        complete note costs nothing.
        """
        seen = set(signatures)
        restored = set[VerifierKey]()
        for record in self._lines.get((checkpoint.size, checkpoint.root.hex()), ()):
            key, signature = record.key, record.signature
            if key not in restored and signature not in seen:
                restored.add(key)
                # A witness that was asked twice has two cosignatures, and the note one of them.
                is_missing = not any(other.claims_key(key) for other in signatures)
                held = _verify_line(str(checkpoint), signature, key)
                yield RestoredCosignature(record, key.name, held, is_missing)


def keys_by_claim(witnesses: Iterable[VerifierKey]) -> KeysByClaim:
    """Return the keys of witnesses for `read_lines`."""
    return {f"{key.name} {format_base64(key.key_id)[:5]}": key for key in witnesses}


def read_lines(
    lines: Iterable[str], witnesses: KeysByClaim
) -> Iterator[tuple[VerifierKey, Signature]]:
    """Yield the recorded lines that name one of these witnesses, unverified."""
    for line in lines:
        # Parsing is dear: a log can have a million lines of strangers.
        key = witnesses.get(line[_CLAIM])
        if key is None:
            continue
        with suppress(Malformed):  # no witness has cosigned that
            signature = Signature.parse(line)
            if signature.claims_key(key):
                yield key, signature


def _verify_line(text: str, signature: Signature, key: VerifierKey) -> Cosignature | None:
    try:
        return verify_cosignatures(Note(text, (signature,)), [key])[0]
    except SignatureRejected:
        return None


def may_be_recorded(checkpoint: Checkpoint, line: str, witnesses: Sequence[VerifierKey]) -> bool:
    """Return whether a recorded line is a signature line, and holds if one of these made it."""
    try:
        signature = Signature.parse(line)
    except Malformed:
        return False
    key = next(filter(signature.claims_key, witnesses), None)
    return key is None or _verify_line(str(checkpoint), signature, key) is not None


def merge_cosignatures(note: bytes, kept: bytes | None, witnesses: Sequence[VerifierKey]) -> bytes:
    """Return a note with the lines of witnesses that a kept note of the same checkpoint has."""
    if kept is None or kept == note:
        return note
    with suppress(Malformed):
        parsed, other = Note.parse(note), Note.parse(kept)
        if parsed.text == other.text:
            lines = [s for s in other.signatures if any(map(s.claims_key, witnesses))]
            missing = [line for line in lines if line not in parsed.signatures]
            return Note(parsed.text, (*parsed.signatures, *missing)).encode() if missing else note
    return note


class WitnessRecorder:
    """Composes the entries that record the cosignatures of checkpoints."""

    strand = WITNESSED_STRAND

    def __init__(
        self,
        store: PublisherStore,
        witnesses: Sequence[VerifierKey],
        kept: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        """Record the cosignatures by these witnesses; nothing if there are none.

        `kept` returns the last cosigned note, from outside the database: until it is recorded,
        nothing else shows that somebody took its cosignatures away.
        """
        self._store, self._witnesses = store, witnesses
        self._kept = kept

    def compose(self, batch: Batch, last: RecordedEntry | None) -> Sequence[Draft]:
        """Return drafts that record what was cosigned since the last record."""
        before = last.entry.facts if last else None
        if before is not None and not isinstance(before, WitnessedFacts):
            where = f"entry {LOG_RUN}/{WITNESSED_STRAND}/{last.entry.n if last else 0}"
            raise SigningRefused(where, "it does not belong into this strand")
        parents = () if last else (Hash(batch.leaves[0]),)
        if before is not None and before.size > batch.first:
            before = None  # forged: it names a tree that there is not yet, and must end no records
        drafts: list[Draft] = []
        kept = self._kept()
        for facts in _draft_records(self._store, self._witnesses, before, batch.first, kept=kept):
            drafts.append(Draft(f"witnessed/{facts.size}", "system", facts, parents))
            parents = ()
        return drafts


def _draft_records(
    store: PublisherStore,
    witnesses: Sequence[VerifierKey],
    last: WitnessedFacts | None,
    size: int,
    kept: bytes | None,
) -> Iterator[WitnessedFacts]:
    """Yield records of the checkpoints up to a size that were signed since the last record.

    What was cosigned after the last record of a checkpoint is recorded again.
    """
    newest = store.checkpoint(size) if last is None and witnesses else None
    start = last.size if last else parse_checkpoint(newest).size if newest else size + 1
    rows = _add_kept(store.checkpoint_rows(start), kept, start) if witnesses else ()
    for stored, data, is_there in list(islice(rows, _MAX_CHECKPOINTS)):
        try:
            merged = merge_cosignatures(data, kept, witnesses)
            note = Note.parse(merged)
            checkpoint = Checkpoint.parse(note.text)
        except Malformed:
            continue  # the database was edited, which the verifier reports
        # Whoever writes another size into the table must not end the records.
        if not 0 < checkpoint.size == stored <= size:
            continue
        if not is_there and not has_tree(store.read_tile, checkpoint):
            continue  # the log has lost this tree, which the guard of the signer reports
        if merged != data or not is_there:
            # The signer kept the note and died, or its disk was full, before the store had it; or
            # the database fell back to a moment before that.
            # Stored before it is recorded: else an accident would look like a theft.
            store.save_checkpoint(stored, merged)
        is_recorded = last is not None and stored == last.size
        recorded = last.cosignatures if last is not None and is_recorded else ()
        lines = tuple(_held_lines(note, witnesses, recorded))
        for part in _split(lines) if lines else () if is_recorded else ((),):
            yield WitnessedFacts(stored, checkpoint.root.hex(), tuple(part))


def _add_kept(
    rows: Iterable[tuple[int, bytes]], kept: bytes | None, start: int
) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the stored notes in their order, with the kept one where there is no row of it.

    The last member says whether there is a row.
    """
    size = 0
    with suppress(Malformed):
        size = parse_checkpoint(kept).size if kept else 0
    for stored, note in rows:
        if kept is not None and start <= size < stored:
            yield size, kept, False
        if stored >= size:
            size = 0
        yield stored, note, True
    if kept is not None and size and start <= size:
        yield size, kept, False


def _held_lines(
    note: Note, witnesses: Sequence[VerifierKey], recorded: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of witnesses below a note that hold and were not recorded."""
    for signature in note.signatures:
        key = next(filter(signature.claims_key, witnesses), None)
        if key is None or str(signature) in recorded:
            continue
        if _verify_line(note.text, signature, key) is not None:
            yield str(signature)


def _split(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines in groups that fit into one entry."""
    group: list[str] = []
    for line in lines:
        if group and len("".join([*group, line]).encode()) > _MAX_LINES_SIZE:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def find_records(reader: EntryReader, kinds: Kinds, size: int = 0) -> Iterator[Entry[Any]]:
    """Yield the records of checkpoints of at least this size; what cannot be read is left out.

    The rows are not checked here: a recorded cosignature verifies by itself.
    """
    for row in reader.strand_rows(LOG_RUN, WITNESSED_STRAND, _find_first(reader, kinds, size)):
        entry = _read_record(row, kinds)
        if entry is not None and entry.facts.size >= size:
            yield entry


def _find_first(reader: EntryReader, kinds: Kinds, size: int) -> int:
    """Return the first position of a record of at least this size: they are in that order."""
    if not size:
        return 0
    low, high = 0, reader.strand_lengths(LOG_RUN).get(WITNESSED_STRAND, 0)
    while low < high:
        middle = (low + high) // 2
        row = next(reader.strand_rows(LOG_RUN, WITNESSED_STRAND, middle), None)
        entry = _read_record(row, kinds) if row else None
        if entry is not None and entry.facts.size < size:
            low = middle + 1
        else:
            high = middle
    return low


def _read_record(row: EntryRow, kinds: Kinds) -> Entry[WitnessedFacts] | None:
    with suppress(Malformed):  # reported when the entry is checked
        entry = kinds.read(row.data)
        return entry if isinstance(entry.facts, WitnessedFacts) else None
    return None
