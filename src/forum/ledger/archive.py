"""Runs in an archive: their record in the log, and the copies that hold their entries and bodies.

The copy of an archived run is a bundle without enclosures.  An `archive/1` entry of the log's own
run names its place and digest; the last such entry of a run is the one in force.  A copy is used
only if it has that digest.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import sha256

from msgspec.structs import replace

from forum import errors, tlog
from forum.ledger.body import StoredBody
from forum.ledger.bundle import Bundle, BundleReader, gather_bundle
from forum.ledger.control_key import ARCHIVE_STRANDS
from forum.ledger.entry import LOG_RUN, Entry, leaf_of
from forum.ledger.kinds import ArchiveFacts, Kinds
from forum.ledger.log import find_index
from forum.ledger.ports import EntryReader, LogReader, Position
from forum.ledger.redaction import redacted_bodies
from forum.ledger.retention_holds import read_retention
from forum.ledger.shared_bodies import GatheredBodies
from forum.ledger.span_files import NO_LIMIT

_MAX_OPEN_COPIES = 64
"""The number of copies that a reader keeps in memory."""


def archive_strand(run: str) -> str:
    """Return the strand of the log's own run that says where a run is archived."""
    return f"{ARCHIVE_STRANDS}{run}"


def read_archive_record(reader: EntryReader, kinds: Kinds, run: str) -> Entry[ArchiveFacts] | None:
    """Return the entry that says where a run is archived, or None if it is not."""
    # One for each redaction; the last one that counts is in force.
    *_, data = (b"", *reader.read_strand(LOG_RUN, archive_strand(run)))
    entry = kinds.read(data) if data else None
    if entry is None or not isinstance(entry.facts, ArchiveFacts) or entry.facts.run != run:
        return None
    return entry


def is_record_signed(reader: EntryReader, run: str) -> bool:
    """Return whether the last record of an archived run is in a signed checkpoint."""
    data, note = reader.last_entry(LOG_RUN, archive_strand(run)), reader.checkpoint()
    index = find_index(reader, leaf_of(data)) if data else None
    return index is not None and note is not None and index < tlog.parse_checkpoint(note).size


def make_copy(reader: LogReader, kinds: Kinds, run: str, policy: tlog.WitnessPolicy) -> Bundle:
    """Return the bundle of a run for an archive: all evidence, no enclosures, nothing redacted.

    What a hold keeps is in the copy, although its redaction may be on record already.  `reader`
    must be a snapshot.  Raises as `gather_bundle` does.
    """
    bundle = gather_bundle(reader, kinds, run, policy, verifier=b"")
    ids = {leaf_of(data).hex(): index for index, data in bundle.entries.items()}
    redacted = set()
    if not read_retention(reader, kinds).is_held(run):
        named = (body for e in bundle.entries.values() for body in redacted_bodies(kinds.read(e)))
        redacted = {(ids[body.entry], body.name) for body in named if body.entry in ids}
    bodies = bundle.bodies
    if redacted.intersection(bodies):
        # Anew: what only a redacted body holds must not remain in a piece.
        bodies = GatheredBodies((p, bodies[p]) for p in sorted(bodies) if p not in redacted)
    return replace(bundle, bodies=bodies, extras={})


def describe_copy(bundle: Bundle, data: bytes, place: str, kinds: Kinds) -> ArchiveFacts:
    """Return the facts about the copy of a run that is stored at a place."""
    own = [index for index, entry in bundle.entries.items() if kinds.read(entry).run == bundle.run]
    return ArchiveFacts(
        run=bundle.run,
        entries=len(own),
        first=min(own),
        last=max(own),
        digest=sha256(data).hexdigest(),
        place=place,
    )


class BundledRun:
    """The entries and bodies of one run, read from a bundle by their positions."""

    def __init__(self, bundle: BundleReader, kinds: Kinds) -> None:
        self._bundle = bundle
        self._indexes: dict[tuple[str, int], int] = {}
        for index in bundle.indexes:
            entry = kinds.read(bundle.entry(index))
            if entry.run == bundle.run:
                self._indexes[entry.strand, entry.n] = index
        self._bodies = set(bundle.bodies)

    @property
    def lengths(self) -> dict[str, int]:
        """The number of entries of each strand."""
        lengths: dict[str, int] = {}
        for strand, _ in self._indexes:
            lengths[strand] = lengths.get(strand, 0) + 1
        return lengths

    def entry(self, strand: str, n: int) -> bytes | None:
        """Return the entry at a position, or None if the bundle does not have it."""
        index = self._indexes.get((strand, n))
        return None if index is None else self._bundle.entry(index)

    def body(self, strand: str, n: int, name: str) -> StoredBody | None:
        """Return a body of an entry, or None if the bundle does not have it."""
        index = self._indexes.get((strand, n))
        if index is None or (index, name) not in self._bodies:
            return None
        return replace(self._bundle.body(index, name), archived=True)

    def bodies(self) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield the bodies of the run, each with the position of its entry and its name."""
        places = {index: place for place, index in self._indexes.items()}
        for index, name in self._bundle.bodies:
            if index in places:
                body = replace(self._bundle.body(index, name), archived=True)
                yield Position(self._bundle.run, *places[index]), name, body


class ArchiveLookup:
    """Finds the archived runs of one log; `fetch` returns the bytes at a place."""

    def __init__(self, reader: EntryReader, kinds: Kinds, fetch: Callable[[str], bytes]) -> None:
        self._reader, self._kinds = reader, kinds
        self._fetch = fetch
        # By digest: a copy that replaces another one is not mistaken for it.
        self._open = lru_cache(maxsize=_MAX_OPEN_COPIES)(self._open_copy)

    def find(self, run: str) -> BundledRun | None:
        """Return an archived run, or None if the log does not say that it is archived.

        The log's own run is never archived: it says where the others are.  Raises
        `ArchiveUnreachable`, and `TamperDetected` for a copy with another digest.
        """
        record = None if run == LOG_RUN else read_archive_record(self._reader, self._kinds, run)
        return None if record is None else self._open(run, record.facts.place, record.facts.digest)

    def _open_copy(self, run: str, place: str, digest: str) -> BundledRun:
        try:
            data = self._fetch(place)
        except errors.ArchiveUnreachable as error:
            raise errors.ArchiveUnreachable(place, error.why) from None
        if sha256(data).hexdigest() != digest:
            raise errors.TamperDetected(
                f"the archived copy of run {run} at {place}", "it does not have its recorded digest"
            )
        return BundledRun(BundleReader(data, max_bytes=NO_LIMIT), self._kinds)
