"""The evidence bundle: one file with which a third party can verify one run offline.

It holds the entries of the run and those they refer to, a proof for each, the checkpoint with its
cosignatures, earlier checkpoints with proofs that this one continues them, disclosed bodies with
their salts, and a verifier.  Keys, policy and verifier are enclosed for convenience only: a forger
would enclose forged ones.  The same contents always give the same bytes.  See docs/spec/bundle.md.

Three versions are read.  Version 3 holds once what bodies share, and the checkpoint once; 1 and 2
write everything out, and differ in the form of their archive only.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from forum import errors, tlog
from forum.ledger import log, zip_archive
from forum.ledger.body import StoredBody
from forum.ledger.entry import LOG_RUN, is_label, leaf_of, peek_kind
from forum.ledger.key_rotation import find_key_rotations, find_rotation_checkpoints
from forum.ledger.kinds import HoldAct, Kinds, RunOpenFacts
from forum.ledger.listed_bodies import ListedBodies, ListedBody
from forum.ledger.ports import BodyReader, EntryReader, LogReader, TreeReader
from forum.ledger.redaction import REDACTION_STRANDS, is_redaction, redacted_bodies
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.shared_bodies import GatheredBodies, SaltedBody
from forum.ledger.span_files import MAX_BODY_BYTES, Place, read_span_file
from forum.ledger.witness_records import find_records

FORMAT: Literal["forum/bundle/1"] = "forum/bundle/1"
WIDE_FORMAT: Literal["forum/bundle/2"] = "forum/bundle/2"
"""The format of a bundle whose archive needs ZIP64; the files in it are the same."""
SPAN_FORMAT: Literal["forum/bundle/3"] = "forum/bundle/3"
"""The format of a bundle whose bodies share bytes, in an archive of either form."""

MAX_PAST = 69
"""How many earlier checkpoints are read: one for each of 64 hand-overs, and five of the run."""

PACK_END = "log/end.note"
"""A file that each evidence pack has, and no bundle."""
_MANIFEST = "manifest.json"
_ENTRY = re.compile(r"entries/([0-9]{16})\.json").fullmatch
_BODY = re.compile(r"bodies/([0-9]{16})/([a-z][a-z0-9._-]{0,31})").fullmatch
_LIST = re.compile(r"spans/([0-9]{16})/([a-z][a-z0-9._-]{0,31})").fullmatch
_PIECE = re.compile(r"pieces/([0-9]{16})").fullmatch
_PAST = re.compile(r"past/([0-9]{16})\.note").fullmatch
# Names of extra files have no slash: an extra file cannot be mistaken for evidence, and cannot be
# extracted outside the target folder.
_EXTRA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch

_MAX_PROOF_LINES = 63
_PAGE_BODIES = 64

README = """\
An evidence bundle of Forum: one run, as a transparency log recorded it.

    forum verify THIS.zip --policy POLICY      with Forum installed
    python3 verify.py THIS.zip --policy POLICY with Python alone; get verify.py from a release
    forum verify --page verify.html            writes a page that verifies it in your browser

Take the policy (the keys that you trust) from the people who run the log, not from this file:
whoever forges a bundle encloses his own keys and his own verifier.
"""


class BundleFileLine(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One file of a bundle: its name, length and SHA-256."""

    name: str
    size: int
    digest: str


class BundleManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of files in a bundle.  It detects accidental damage; the proofs detect forgery."""

    v: Literal["forum/bundle/1", "forum/bundle/2", "forum/bundle/3"]
    origin: str
    run: str
    files: msgspec.Raw
    """A `BundleFileLine` for each file, encoded: the list may be very long."""


class PastCheckpoint(msgspec.Struct, frozen=True):
    """An earlier checkpoint, and the proof that the bundle's checkpoint continues it."""

    note: bytes
    proof: tuple[tlog.Hash, ...]


class EntryProof(NamedTuple):
    """The inclusion proof of an entry in a bundle, and the checkpoint that it leads to."""

    entry: int
    """The index of the entry."""
    hashes: tuple[tlog.Hash, ...]
    note: bytes


class Bundle(msgspec.Struct, frozen=True):
    """The contents of a bundle, not yet verified."""

    origin: str
    run: str
    checkpoint: bytes
    entries: Mapping[int, bytes]
    proofs: Mapping[int, tlog.TlogProof]
    bodies: Mapping[Place, SaltedBody]
    """Salt and content, by the index of the entry and the name of the body."""
    past: tuple[PastCheckpoint, ...] = ()
    extras: Mapping[str, bytes] = {}
    """Files enclosed for convenience, not as evidence: policy, verifier, instructions."""

    def encode(self, *, share: bool = True) -> bytes:
        """Return the bundle as a zip archive with deterministic bytes.

        What bodies share is held once, and so is the checkpoint.  Without `share`, everything is
        written out, as releases before this version did.
        """
        files = dict(self._shared_files() if share else self._whole_files())
        listing = _listing(files)
        manifest = BundleManifest(SPAN_FORMAT if share else FORMAT, self.origin, self.run, listing)
        line = msgspec.json.encode(manifest)
        sizes = [(name, len(data)) for name, data in files.items()]
        if not share and zip_archive.is_wide([*sizes, (_MANIFEST, len(line))]):
            line = msgspec.json.encode(replace(manifest, v=WIDE_FORMAT))
        return zip_archive.pack_archive({**files, _MANIFEST: line})

    def _whole_files(self) -> Iterator[tuple[str, bytes]]:
        for index in self.entries:
            yield f"proofs/{index:016}.tlog-proof", self.proofs[index].encode()
        for (index, name), (salt, content) in self.bodies.items():
            yield f"bodies/{index:016}/{name}", content
            yield f"salts/{index:016}/{name}", salt
        yield from self._common_files()

    def _shared_files(self) -> Iterator[tuple[str, bytes]]:
        for index in self.entries:
            yield f"proofs/{index:016}.inclusion", _write_hashes(self.proofs[index].hashes)
        bodies = self.bodies
        if not isinstance(bodies, GatheredBodies):
            bodies = GatheredBodies(sorted(bodies.items()))
        yield from bodies.files()
        for (index, name), salt in bodies.salts():
            yield f"salts/{index:016}/{name}", salt
        yield from self._common_files()

    def _common_files(self) -> Iterator[tuple[str, bytes]]:
        yield "checkpoint", self.checkpoint
        for index, data in self.entries.items():
            yield f"entries/{index:016}.json", data
        for earlier in self.past:
            size = tlog.parse_checkpoint(earlier.note).size
            yield f"past/{size:016}.note", earlier.note
            yield f"past/{size:016}.consistency", _write_hashes(earlier.proof)
        yield from self.extras.items()


def _write_hashes(hashes: Iterable[tlog.Hash]) -> bytes:
    return "".join(f"{node.base64()}\n" for node in hashes).encode()


def _listing(files: Mapping[str, bytes]) -> msgspec.Raw:
    lines = [
        BundleFileLine(name, len(files[name]), sha256(files[name]).hexdigest())
        for name in sorted(files)
    ]
    return msgspec.Raw(msgspec.json.encode(lines))


class BundleReader:
    """A well-formed bundle, not yet verified, whose files are read on demand.

    Raises `Malformed` for anything not in its canonical form, on opening or when a file is read.
    Bodies in spans are refused on opening, before any of them is put together.
    """

    def __init__(self, source: zip_archive.ByteSource, *, max_bytes: int = MAX_BODY_BYTES) -> None:
        """Open a bundle; one of version 3 whose bodies have more than `max_bytes` is refused."""
        self._archive = zip_archive.Archive(source)
        manifest = self._read_manifest()
        self.origin, self.run = manifest.origin, manifest.run
        self._shares = manifest.v == SPAN_FORMAT
        names = [name for name in self._archive.members if name != _MANIFEST]
        self.indexes = [int(m[1]) for m in map(_ENTRY, names) if m]
        """The indexes of the entries, in ascending order."""
        self._whole = {(int(m[1]), m[2]) for m in map(_BODY, names) if m}
        self._sizes = [m[1] for m in map(_PAST, names) if m]
        listed = [(int(m[1]), m[2]) for m in map(_LIST, names) if m] if self._shares else []
        self.bodies = sorted([*self._whole, *listed])
        """The entry index and the name of each body."""
        pieces = [name for name in names if _PIECE(name)] if self._shares else []
        self._check_names(pieces)
        check_past_count(len(self._sizes))
        self.checkpoint = self._archive.read("checkpoint")
        self.past = tuple(map(self._read_past, self._sizes))
        self._listed = ListedBodies(self._archive, pieces)
        if self._shares:
            self._read_lists(listed, max_bytes)

    def entry(self, index: int) -> bytes:
        """Return the bytes of an entry."""
        return self._archive.read(f"entries/{index:016}.json")

    def proof(self, index: int) -> EntryProof:
        """Return the inclusion proof of an entry."""
        if self._shares:
            hashes = _read_hash_lines(self._archive.read(f"proofs/{index:016}.inclusion"))
            if len(hashes) > _MAX_PROOF_LINES:
                raise errors.Malformed("bundle", f"the proof of entry {index} is too long")
            return EntryProof(index, hashes, self.checkpoint)
        data = self._archive.read(f"proofs/{index:016}.tlog-proof")
        proof = tlog.TlogProof.parse(data)
        if proof.encode() != data:
            raise errors.Malformed("bundle", f"the proof of entry {index} is not in canonical form")
        return EntryProof(proof.index, proof.hashes, proof.note.encode())

    def body(self, index: int, name: str) -> StoredBody:
        """Return a body, whose content is read in chunks."""
        place = f"{index:016}/{name}"
        salt = self._archive.read(f"salts/{place}")
        if (index, name) not in self._whole:
            size = self._listed.table.size((index, name))
            chunks = partial(self._listed.chunks, (index, name))
            shared = ListedBody(self._listed, (index, name))
            return StoredBody(salt, chunks, size=size, shared=shared)
        return StoredBody(salt, lambda: self._archive.read_chunks(f"bodies/{place}"))

    def is_shared(self, index: int, name: str) -> bool:
        """Return whether a body is put together from spans."""
        return (index, name) in self._listed.table

    @property
    def body_bytes(self) -> int:
        """The number of bytes of all bodies together, if what they share is held once."""
        return self._listed.table.body_bytes

    def _read_lists(self, places: list[Place], max_bytes: int) -> None:
        """Check every list, and what all bodies have together."""
        table, members = self._listed.table, self._archive.members
        for index, name in places:
            data = self._archive.read(f"spans/{index:016}/{name}")
            table.add((index, name), read_span_file(data))
        inline = sum(members[f"bodies/{index:016}/{name}"].size for index, name in self._whole)
        table.finish(inline, max_bytes)
        tlog.Note.parse(self.checkpoint)

    def _read_manifest(self) -> BundleManifest:
        """Return the manifest.  Raises `Malformed` unless it lists exactly the other files."""
        members = self._archive.members
        if _MANIFEST not in members and not any(map(_ENTRY, members)):
            raise errors.Malformed("bundle", zip_archive.NOT_A_BUNDLE)
        data = self._archive.read(_MANIFEST) if _MANIFEST in members else b""
        try:
            manifest = msgspec.json.decode(data, type=BundleManifest)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise errors.Malformed("bundle", f"no readable manifest: {error}") from None
        wide = manifest.v == WIDE_FORMAT
        fits = manifest.v == SPAN_FORMAT or wide == self._archive.is_wide
        same = fits and msgspec.json.encode(manifest) == data
        if not same or not self._is_listing(bytes(manifest.files)):
            raise errors.Malformed(
                "bundle", "altered: its files are not those that its manifest lists"
            )
        # No entry could have them: they are there only to be shown to a reader.
        if not (is_label(manifest.origin) and is_label(manifest.run)):
            raise errors.Malformed("bundle", "altered: its origin or its run is no label")
        return manifest

    def _is_listing(self, listed: bytes) -> bool:
        """Return whether the manifest's list is that of the archive's members.

        Lines are compared one by one: a bundle may have very many files.
        """
        at = 0
        for name, member in self._archive.members.items():
            if name == _MANIFEST:
                continue
            line = msgspec.json.encode(BundleFileLine(name, member.size, member.digest.hex()))
            if listed[at : at + 1] != (b"," if at else b"[") or not listed.startswith(line, at + 1):
                return False
            at += 1 + len(line)
        return listed[at:] == (b"]" if at else b"[]")

    def _check_names(self, pieces: list[str]) -> None:
        """Raise `Malformed` if a file of the bundle is missing, or for a file of no known kind."""
        expected = {"checkpoint", _MANIFEST}
        suffix = "inclusion" if self._shares else "tlog-proof"
        for index in self.indexes:
            expected |= {f"entries/{index:016}.json", f"proofs/{index:016}.{suffix}"}
        for index, name in self.bodies:
            folder = "bodies" if (index, name) in self._whole else "spans"
            expected |= {f"{folder}/{index:016}/{name}", f"salts/{index:016}/{name}"}
        for size in self._sizes:
            expected |= {f"past/{size}.note", f"past/{size}.consistency"}
        expected.update(f"pieces/{number:016}" for number in range(len(pieces)))
        if missing := expected.difference(self._archive.members):
            raise errors.Malformed("bundle", f"{min(missing)} is missing")
        if not all(map(_EXTRA, self._archive.members.keys() - expected)):
            raise errors.Malformed("bundle", "a file of no known kind")

    def _read_past(self, size: str) -> PastCheckpoint:
        note = self._archive.read(f"past/{size}.note")
        hashes = _read_hash_lines(self._archive.read(f"past/{size}.consistency"))
        if f"{tlog.parse_checkpoint(note).size:016}" != size:
            raise errors.Malformed("bundle", "an earlier checkpoint is not in canonical form")
        return PastCheckpoint(note, hashes)


def check_past_count(count: int) -> None:
    """Raise `Malformed` for more earlier checkpoints than any log needs."""
    if count > MAX_PAST:
        raise errors.Malformed(
            "bundle", f"{count} earlier checkpoints; at most {MAX_PAST} are read"
        )


def _read_hash_lines(data: bytes) -> tuple[tlog.Hash, ...]:
    try:
        hashes = tuple(tlog.Hash.from_base64(line) for line in data.decode("ascii").splitlines())
    except UnicodeDecodeError:
        raise errors.Malformed("proof", "not ASCII") from None
    if _write_hashes(hashes) != data:
        raise errors.Malformed("bundle", "a proof is not in canonical form")
    return hashes


def gather_bundle(
    reader: LogReader,
    kinds: Kinds,
    run: str,
    policy: tlog.WitnessPolicy,
    verifier: bytes,
    *,
    size: int | None = None,
) -> Bundle:
    """Return the evidence of one run, as far as it is signed; `reader` must be a snapshot.

    With `size`, return the run as it was in the tree of that size.  The bundle then has the first
    checkpoint that covers what it holds, and not the newest, so that it does not depend on what was
    recorded later.  Raises `NotYetSigned`, `NoSuchEntry`, `TamperDetected`.
    """
    newest = reader.checkpoint()
    fixed = size
    if size is None:
        size = tlog.parse_checkpoint(newest).size if newest else 0
    own = list(_signed_entries(reader, kinds, run, size))
    if not own or newest is None:
        raise (
            errors.NotYetSigned(run)
            if reader.strands(run)
            else errors.NoSuchEntry(f"the log has no run {run}")
        )
    if fixed is None:
        last = max(index for index, _ in own)
        data = _find_witnessed_checkpoint(reader, policy, above=last) or newest
    else:
        # A redaction may be later than the run: without it, an erased body would be a finding.
        redacted = _redactions(reader, kinds, [entry for _, entry in own])
        needed = max([fixed, *((entry.index or 0) + 1 for entry in redacted)])
        data = _find_first_checkpoint(reader, policy, needed) or newest
    note = tlog.Note.parse(data)
    view = tlog.TreeView(tlog.Checkpoint.parse(note.text).size, reader.read_tile)
    run_entries = [entry for _, entry in own]
    # A reader whose policy pins an earlier or later key of this log needs the key rotations.
    handed_over = [e for e in find_key_rotations(reader, kinds) if (e.index or 0) < view.size]
    redactions = list(_redactions(reader, kinds, run_entries))
    rotated = find_rotation_checkpoints(reader, handed_over)
    past = tuple(_past_checkpoints(reader, view, policy, run_entries, signed=rotated))
    others = [
        *_witness_records(reader, kinds, past),
        *_external_causes(reader, kinds, run_entries),
        *redactions,
        *(_holds(reader, kinds, run) if redactions else ()),
        *handed_over,
    ]
    entries = {
        index: e.data
        for e in [*run_entries, *others]
        if (index := e.index) is not None and index < view.size
    }
    return Bundle(
        origin=reader.origin,
        run=run,
        checkpoint=data,
        entries=entries,
        proofs={i: _proof(view, i, data, note) for i, data in entries.items()},
        bodies=GatheredBodies(_bodies(reader, run_entries)),
        past=past,
        extras={
            "README.txt": README.encode(),
            "policy": policy.without_marks().encode(),
            "verify.py": verifier,
        },
    )


def _proof(view: tlog.TreeView, index: int, data: bytes, note: tlog.Note) -> tlog.TlogProof:
    """Return the proof of an entry, checked against the checkpoint.  Raises `TamperDetected`.

    An export never contains a proof that a reader would reject.
    """
    hashes = tuple(tlog.prove_inclusion(view, index))
    try:
        root = tlog.Checkpoint.parse(note.text).root
        tlog.check_inclusion(hashes, leaf_of(data), index, view.size, root=root)
    except errors.ProofRejected as error:
        raise errors.TamperDetected(f"entry {index}", str(error)) from None
    return tlog.TlogProof(index, hashes, note)


def _signed_entries(
    reader: EntryReader, kinds: Kinds, run: str, size: int
) -> Iterator[tuple[int, log.LocatedEntry]]:
    """Yield the entries of a run in the tree of this size, without gaps within a strand."""
    ended: set[str] = set()
    for located in log.locate_run(reader, kinds, run):
        strand = located.entry.strand
        if located.index is None and strand not in ended:
            _check_unsequenced(reader, located)
        if located.index is None or located.index >= size:
            ended.add(strand)
        elif strand not in ended:
            yield located.index, located


def _check_unsequenced(reader: EntryReader, located: log.LocatedEntry) -> None:
    """Raise `TamperDetected` if an entry without an index is not among the pending rows.

    Such an entry has an index that a lookup by its id does not find, because the database was
    edited.  To leave it out would export an incomplete run.
    """
    if all(row is None or row.data != located.data for row in reader.unsequenced_rows()):
        raise errors.TamperDetected(f"entry {located.position}", "it is not found by its id")


def _find_witnessed_checkpoint(
    reader: TreeReader, policy: tlog.WitnessPolicy, *, above: int = 0, most: int | None = None
) -> bytes | None:
    """Return the newest checkpoint of more than `above` entries that the policy accepts."""
    data = reader.checkpoint(most)
    while data is not None:
        note = tlog.Note.parse(data)
        size = tlog.Checkpoint.parse(note.text).size
        if size <= above:
            return None
        if tlog.is_witnessed(note, policy):
            return data
        data = reader.checkpoint(size - 1)
    return None


def _find_first_checkpoint(
    reader: TreeReader, policy: tlog.WitnessPolicy, size: int
) -> bytes | None:
    """Return the first checkpoint of at least this size that the policy accepts."""
    notes = reader.checkpoints(size)
    return next((data for data in notes if tlog.is_witnessed(tlog.Note.parse(data), policy)), None)


def _external_causes(
    reader: EntryReader, kinds: Kinds, own: Iterable[log.LocatedEntry]
) -> Iterator[log.LocatedEntry]:
    """Yield the parents outside the run, so that the existence of every parent is proven."""
    parents = {parent for entry in own for parent in entry.entry.parents}
    for parent in sorted(parents - {entry.leaf.hex() for entry in own}):
        yield log.find_entry(reader, kinds, parent)


def _witness_records(
    reader: EntryReader, kinds: Kinds, past: Iterable[PastCheckpoint]
) -> Iterator[log.LocatedEntry]:
    """Yield the entries that record the cosignatures of these checkpoints."""
    for earlier in past:
        size = tlog.parse_checkpoint(earlier.note).size
        for record in find_records(reader, kinds, size):
            if record.facts.size != size:
                break  # they are in the order of the sizes
            with suppress(errors.NoSuchEntry):  # without an index yet
                yield log.find_entry(reader, kinds, f"{LOG_RUN}/{record.strand}/{record.n}")


def _redactions(
    reader: EntryReader, kinds: Kinds, own: Iterable[log.LocatedEntry]
) -> Iterator[log.LocatedEntry]:
    ids = {entry.leaf.hex() for entry in own if entry.entry.bodies}
    strands = (reader.read_strand(LOG_RUN, strand) for strand in REDACTION_STRANDS)
    for data in chain.from_iterable(strands) if ids else ():
        if not is_redaction(data):
            continue  # most entries are exports: skip them without parsing
        if any(body.entry in ids for body in redacted_bodies(kinds.read(data))):
            with suppress(errors.NoSuchEntry):  # not sequenced yet, so the body is not erased yet
                yield log.find_entry(reader, kinds, leaf_of(data).hex())


def _holds(reader: EntryReader, kinds: Kinds, run: str) -> Iterator[log.LocatedEntry]:
    """Yield what placed and released the holds on a run: no redaction may stand between the two."""
    names: set[str] = set()
    for data in reader.read_strand(LOG_RUN, RETENTION_STRAND):
        if peek_kind(data) != b"hold/1":
            continue
        facts = kinds.read(data).facts
        if facts.act is HoldAct.PLACE and (not facts.runs or run in facts.runs):
            names.add(facts.hold)
        if facts.hold in names:
            with suppress(errors.NoSuchEntry):  # not sequenced yet
                yield log.find_entry(reader, kinds, leaf_of(data).hex())


def _bodies(
    reader: BodyReader, own: Iterable[log.LocatedEntry]
) -> Iterator[tuple[Place, SaltedBody]]:
    """Yield the bodies that are there, in the order of index and name, a page in memory at once."""
    places = sorted(
        (e.index, name, e) for e in own if e.index is not None for name in e.entry.bodies
    )
    for low in range(0, len(places), _PAGE_BODIES):
        page = places[low : low + _PAGE_BODIES]
        stored = reader.bodies_at([(located.position, name) for _, name, located in page])
        for (index, name, located), body in zip(page, stored, strict=True):
            if body is not None:
                log.check_body(located.entry, name, body)
                yield (index, name), (body.salt, b"".join(body.read()))


def _past_checkpoints(
    reader: TreeReader,
    view: tlog.TreeView,
    policy: tlog.WitnessPolicy,
    own: list[log.LocatedEntry],
    signed: Iterable[bytes],
) -> Iterator[PastCheckpoint]:
    """Yield the checkpoints that bound the run in time, with their consistency proofs.

    These are the one that the run's opening names, the last one before the run, the first one that
    includes all of it, the last and the first such that the policy accepts, and those (`signed`)
    with which earlier keys signed their own rotation.
    """
    indexes = [entry.index or 0 for entry in own]
    named = [e.entry.facts.after_size for e in own if isinstance(e.entry.facts, RunOpenFacts)]
    notes = [reader.checkpoint(size) for size in (*named, min(indexes))]
    notes += [next(reader.checkpoints(max(indexes) + 1), None), *signed]
    # Only a witnessed one proves a time: while witnesses could not be reached, another one does.
    notes.append(_find_witnessed_checkpoint(reader, policy, most=min(indexes)))
    notes.append(_find_first_checkpoint(reader, policy, max(indexes) + 1))
    for note in dict.fromkeys(note for note in notes if note is not None):
        size = tlog.parse_checkpoint(note).size
        if 0 < size < view.size:
            yield PastCheckpoint(note, tuple(tlog.prove_consistency(view, size)))
