"""The evidence bundle: what a stranger needs to check one run, offline, in one file.

It holds the entries of the run and those they refer to, a proof for each, the checkpoint with its
cosignatures, earlier checkpoints with proofs that this one continues them, disclosed bodies with
their salts, and a verifier.  Keys, policy and verifier are enclosed for convenience only: a forger
would enclose his own.  See docs/spec/bundle.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Literal

import msgspec

from forum.errors import Malformed, NoSuchEntry, NotYetSigned
from forum.ledger.archive import pack, unpack
from forum.ledger.entry import LOG_RUN, MAIN, leaf_of
from forum.ledger.kinds import Kinds, Redact, RunOpen
from forum.ledger.log import Located, find
from forum.ledger.ports import Reader
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    Policy,
    TlogProof,
    TreeView,
    checkpoint_of,
    is_witnessed,
    prove_consistency,
    prove_inclusion,
)

FORMAT: Literal["forum/bundle/1"] = "forum/bundle/1"

_ENTRY = re.compile(r"entries/([0-9]{16})\.json").fullmatch
_BODY = re.compile(r"bodies/([0-9]{16})/([a-z][a-z0-9._-]{0,31})").fullmatch
_PAST = re.compile(r"past/([0-9]{16})\.note").fullmatch
# Beside the evidence, never among it, and never outside the folder it is unpacked into.
_EXTRA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch

README = """\
An evidence bundle of Forum: one run, as a transparency log recorded it.

    forum verify THIS.zip --policy POLICY      with Forum installed
    python3 verify.py THIS.zip --policy POLICY with Python alone; get verify.py from a release

Take the policy (the keys that you trust) from the people who run the log, not from this file:
whoever forges a bundle encloses his own keys and his own verifier.
"""


class FileLine(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One file of a bundle: its name, length and SHA-256."""

    name: str
    size: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in a bundle.  It protects against accidents; the proofs, against people."""

    v: Literal["forum/bundle/1"]
    origin: str
    run: str
    files: tuple[FileLine, ...]


class PastCheckpoint(msgspec.Struct, frozen=True):
    """An earlier checkpoint, and the proof that the bundle's own continues it."""

    note: bytes
    proof: tuple[Hash, ...]


class Bundle(msgspec.Struct, frozen=True):
    """The contents of a bundle, in its form, not yet verified."""

    origin: str
    run: str
    checkpoint: bytes
    entries: Mapping[int, bytes]
    proofs: Mapping[int, TlogProof]
    bodies: Mapping[tuple[int, str], tuple[bytes, bytes]]
    """Salt and content, by the index of the entry and the name of the body."""
    past: tuple[PastCheckpoint, ...] = ()
    extras: Mapping[str, bytes] = {}
    """What is enclosed for convenience: policy, verifier, instructions."""

    def encode(self) -> bytes:
        """Return the bundle as one deterministic zip."""
        files = dict(self._files())
        manifest = Manifest(FORMAT, self.origin, self.run, _listing(files))
        return pack({**files, "manifest.json": msgspec.json.encode(manifest)})

    def _files(self) -> Iterator[tuple[str, bytes]]:
        yield "checkpoint", self.checkpoint
        for index, data in self.entries.items():
            yield f"entries/{index:016}.json", data
            yield f"proofs/{index:016}.tlog-proof", self.proofs[index].encode()
        for (index, name), (salt, content) in self.bodies.items():
            yield f"bodies/{index:016}/{name}", content
            yield f"salts/{index:016}/{name}", salt
        for earlier in self.past:
            size = checkpoint_of(earlier.note).size
            yield f"past/{size:016}.note", earlier.note
            lines = "".join(f"{node.base64()}\n" for node in earlier.proof)
            yield f"past/{size:016}.consistency", lines.encode()
        yield from self.extras.items()

    @classmethod
    def parse(cls, data: bytes) -> "Bundle":
        """Read a bundle; every file must be listed, have its digest, and be of a known kind."""
        files = unpack(data)
        manifest = _read_manifest(files.pop("manifest.json", b""))
        if manifest.files != _listing(files):
            raise Malformed("bundle", "its files are not those that its manifest lists")
        bundle = _from_files(manifest, files)
        if bundle.encode() != data:
            raise Malformed("bundle", "its bytes are not the only form of its contents")
        return bundle


def _listing(files: Mapping[str, bytes]) -> tuple[FileLine, ...]:
    return tuple(
        FileLine(name, len(files[name]), sha256(files[name]).hexdigest()) for name in sorted(files)
    )


def _read_manifest(data: bytes) -> Manifest:
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed("bundle", f"no readable manifest: {error}") from None


def _from_files(manifest: Manifest, files: dict[str, bytes]) -> Bundle:
    entries = {int(m[1]): files.pop(m[0]) for m in filter(None, map(_ENTRY, list(files)))}
    named = [m for m in map(_BODY, list(files)) if m]
    try:
        proofs = {i: TlogProof.parse(files.pop(f"proofs/{i:016}.tlog-proof")) for i in entries}
        bodies = {
            (int(m[1]), m[2]): (files.pop(f"salts/{m[1]}/{m[2]}"), files.pop(m[0])) for m in named
        }
        past = tuple(
            PastCheckpoint(files.pop(m[0]), _read_hashes(files.pop(f"past/{m[1]}.consistency")))
            for m in filter(None, map(_PAST, sorted(files)))
        )
        checkpoint = files.pop("checkpoint")
    except KeyError as error:
        raise Malformed("bundle", f"{error.args[0]} is missing") from None
    if not all(map(_EXTRA, files)):
        raise Malformed("bundle", "a file of no known kind")
    return Bundle(
        manifest.origin, manifest.run, checkpoint, entries, proofs, bodies, past, extras=files
    )


def _read_hashes(data: bytes) -> tuple[Hash, ...]:
    try:
        return tuple(Hash.from_base64(line) for line in data.decode("ascii").splitlines())
    except UnicodeDecodeError:
        raise Malformed("consistency proof", "not ASCII") from None


def gather_bundle(
    reader: Reader, kinds: Kinds, run: str, policy: Policy, verifier: bytes
) -> Bundle:
    """Collect the evidence of one run, as far as it is signed in one snapshot."""
    newest = reader.checkpoint()
    size = checkpoint_of(newest).size if newest else 0
    own = [e for strand in reader.strands(run) for e in _signed(reader, kinds, run, strand, size)]
    if not own or newest is None:
        raise NotYetSigned(run) if reader.strands(run) else NoSuchEntry(f"the log has no run {run}")
    data = _witnessed(reader, policy, max(index for index, _ in own)) or newest
    note = Note.parse(data)
    view = TreeView(Checkpoint.parse(note.text).size, reader.read_tile)
    run_entries = [entry for _, entry in own]
    others = [*_referred(reader, kinds, run_entries), *_redactions(reader, kinds, run_entries)]
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
        proofs={i: TlogProof(i, tuple(prove_inclusion(view, i)), note) for i in entries},
        bodies=dict(_bodies(reader, run_entries)),
        past=tuple(_past(reader, view, run_entries)),
        extras={
            "README.txt": README.encode(),
            "policy": policy.encode(),
            "verify.py": verifier,
        },
    )


def _signed(
    reader: Reader, kinds: Kinds, run: str, strand: str, size: int
) -> Iterator[tuple[int, Located]]:
    """Yield the entries of a strand that a tree of this size has."""
    for data in reader.strand(run, strand):
        try:
            located = find(reader, kinds, leaf_of(data).hex())
        except NoSuchEntry:
            return
        if located.index is None or located.index >= size:
            return
        yield located.index, located


def _witnessed(reader: Reader, policy: Policy, last: int) -> bytes | None:
    """Return the newest checkpoint behind an entry that the policy accepts."""
    data = reader.checkpoint()
    while data is not None:
        note = Note.parse(data)
        size = Checkpoint.parse(note.text).size
        if size <= last:
            return None
        if is_witnessed(note, policy):
            return data
        data = reader.checkpoint(size - 1)
    return None


def _referred(reader: Reader, kinds: Kinds, own: Iterable[Located]) -> Iterator[Located]:
    """Yield the causes outside the run, so that no parent is taken on trust."""
    parents = {parent for entry in own for parent in entry.entry.parents}
    for parent in sorted(parents - {entry.leaf.hex() for entry in own}):
        yield find(reader, kinds, parent)


def _redactions(reader: Reader, kinds: Kinds, own: Iterable[Located]) -> Iterator[Located]:
    ids = {entry.leaf.hex() for entry in own if entry.entry.bodies}
    for data in reader.strand(LOG_RUN, MAIN) if ids else ():
        entry = kinds.read(data)
        if isinstance(entry.facts, Redact) and entry.facts.entry in ids:
            with suppress(NoSuchEntry):  # it waits for its index: the body is still there
                yield find(reader, kinds, leaf_of(data).hex())


def _bodies(
    reader: Reader, own: Iterable[Located]
) -> Iterator[tuple[tuple[int, str], tuple[bytes, bytes]]]:
    for entry in own:
        for name in entry.entry.bodies:
            body = reader.body(entry.position, name)
            if body is not None and entry.index is not None:
                yield (entry.index, name), (body.salt, b"".join(body.read()))


def _past(reader: Reader, view: TreeView, own: list[Located]) -> Iterator[PastCheckpoint]:
    """Yield the checkpoints between which the run took place, and the one that it names."""
    indexes = [entry.index or 0 for entry in own]
    named = [e.entry.facts.after_size for e in own if isinstance(e.entry.facts, RunOpen)]
    notes = [reader.checkpoint(size) for size in (*named, min(indexes))]
    notes.append(next(reader.checkpoints(max(indexes) + 1), None))
    for note in dict.fromkeys(note for note in notes if note is not None):
        size = checkpoint_of(note).size
        if 0 < size < view.size:
            yield PastCheckpoint(note, tuple(prove_consistency(view, size)))
