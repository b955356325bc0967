"""Gathering a pack from a log: the log part, and the files that follow from it.

What is gathered depends on the period and on what was recorded until the tree that covers it, and
not on what was recorded later, so that two packs of the same period are equal.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from forum import tlog
from forum.errors import NotYetSigned, TamperDetected
from forum.evidence import pack_file
from forum.evidence.attestation import EVIDENCE_STRAND
from forum.evidence.control_maps import encode_map
from forum.evidence.entry_list import list_entries
from forum.evidence.log_part import LIFE_KINDS, EarlierEntry, LogPart
from forum.evidence.page import draw_page
from forum.evidence.report import Arguments, PackReport, encode_report
from forum.ledger.bundle import PastCheckpoint, gather_bundle
from forum.ledger.entry import LOG_RUN, leaf_of, peek_kind
from forum.ledger.key_rotation import (
    find_key_rotations,
    find_rotation_checkpoints,
    read_key_rotation,
)
from forum.ledger.kinds import KeyAddV2Facts, Kinds
from forum.ledger.log import find_entry
from forum.ledger.ports import Reader

_SECOND = 1_000_000
_TIME = re.compile(rb'"ts":([0-9]+),"actor"').search
_RUN = re.compile(rb'"run":"([^"]*)"').search


class PackContents(msgspec.Struct, frozen=True):
    """What a pack is made of."""

    part: LogPart
    report: PackReport
    policy: tlog.WitnessPolicy
    key: tlog.VerifierKey
    """The key of the attestation."""
    extras: Mapping[str, bytes]
    """Files enclosed for convenience, by name."""


def find_end(
    reader: Reader,
    kinds: Kinds,
    policy: tlog.WitnessPolicy,
    arguments: Arguments,
    *,
    must_be_later: bool,
) -> bytes | None:
    """Return the first checkpoint that covers the period and that no retired key has signed.

    A reader pins the newest key of the log, and what leads from there to an earlier key must be in
    the pack.  With `must_be_later`, witnesses must have seen it after the period ended.
    """
    entries = [(e.index or 0, e.data, e.entry) for e in find_key_rotations(reader, kinds)]
    rotations = [read_key_rotation(*entry, reader.origin) for entry in entries]
    retired = {rotation.old for rotation in rotations if rotation}
    last = -1
    for index, data in _entries(reader, 0, reader.head().size):
        if _time_of(data) < arguments.until:
            last = index
    first = None
    for note in reader.checkpoints(max(1, last + 1)):
        if must_be_later and _seen(note, policy) < arguments.until:
            continue
        signatures = tlog.Note.parse(note).signatures
        if not any(signature.claims_key(key) for signature in signatures for key in retired):
            return note
        first = first or note
    # The old key signs the hand-over itself: until the new one has signed, there is no other.
    return first


def _find_start(reader: Reader, policy: tlog.WitnessPolicy, arguments: Arguments) -> bytes | None:
    """Return the last checkpoint that witnesses saw before the period began, if there is one.

    None means the empty tree: then the pack holds the log from its beginning.
    """
    size = reader.head().size
    times = ((index, _time_of(data)) for index, data in _entries(reader, 0, size))
    most = next((index for index, at in times if at >= arguments.since), size)
    note = reader.checkpoint(most)
    while note is not None:
        seen = _seen(note, policy)
        # Witnesses state whole seconds, and may have cosigned up to a second later.
        if seen and seen + _SECOND <= arguments.since:
            return note
        note = reader.checkpoint(tlog.parse_checkpoint(note).size - 1)
    return None


def _seen(note: bytes, policy: tlog.WitnessPolicy) -> int:
    """Return when the witnesses of the policy saw a checkpoint; 0 if too few have."""
    cosignatures = tlog.verify_cosignatures(tlog.Note.parse(note), policy.witness_keys)
    return tlog.quorum_time(cosignatures, policy) * _SECOND


def gather_part(
    reader: Reader, kinds: Kinds, policy: tlog.WitnessPolicy, arguments: Arguments
) -> LogPart:
    """Return the log part of a pack; `reader` must be a snapshot.

    Raises `NotYetSigned`, `TamperDetected`.
    """
    end = find_end(reader, kinds, policy, arguments, must_be_later=True)
    # Without witnesses, or while they cannot be reached, the pack says that it is not witnessed.
    end = end or find_end(reader, kinds, policy, arguments, must_be_later=False)
    if end is None:
        raise NotYetSigned("the period")
    size = tlog.parse_checkpoint(end).size
    start = _find_start(reader, policy, arguments)
    first = tlog.parse_checkpoint(start).size if start else 0
    view = tlog.TreeView(size, reader.read_tile)
    return LogPart(
        origin=reader.origin,
        start=start,
        end=end,
        edge=tlog.Tree.load(first, reader.read_tile).edge,
        consistency=tuple(tlog.prove_consistency(view, first)),
        entries=tuple(data for _, data in _entries(reader, first, size)),
        earlier=tuple(_earlier_entries(reader, view, first)),
        past=tuple(_past_checkpoints(reader, kinds, view)),
    )


def _past_checkpoints(
    reader: Reader, kinds: Kinds, view: tlog.TreeView
) -> Iterator[PastCheckpoint]:
    """Yield what a reader needs who pinned an earlier key of the log."""
    rotations = [e for e in find_key_rotations(reader, kinds) if (e.index or 0) < view.size]
    for note in dict.fromkeys(find_rotation_checkpoints(reader, rotations)):
        size = tlog.parse_checkpoint(note).size
        if size < view.size:
            yield PastCheckpoint(note, tuple(tlog.prove_consistency(view, size)))


def collect_files(reader: Reader, kinds: Kinds, contents: PackContents) -> dict[str, bytes]:
    """Return the files of a pack, by name; `reader` must be a snapshot."""
    part, report, policy = contents.part, contents.report, contents.policy
    verifier = contents.extras["verify.py"]
    files = pack_file.part_files(part)
    for bundle in report.bundles:
        gathered = gather_bundle(reader, kinds, bundle.run, policy, verifier, size=report.end.size)
        files[bundle.file] = gathered.encode()
    entry, proof = _prove_key(reader, kinds, contents.key, policy)
    files |= {f"maps/{used.map.name}.json": encode_map(used.map) for used in report.maps}
    return files | {
        pack_file.REPORT: encode_report(report),
        pack_file.PAGE: draw_page(report).encode(),
        pack_file.SCHEMA: pack_file.report_schema(),
        pack_file.ENTRY_LIST: list_entries(part, report.arguments),
        pack_file.POLICY: policy.without_marks().encode(),
        pack_file.KEY_ENTRY: entry,
        pack_file.KEY_PROOF: proof.encode(),
        **contents.extras,
    }


def _entries(reader: Reader, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for index, data in enumerate(reader.entries(start, stop), start):
        if data is None:
            raise TamperDetected(f"entry {index}", "it is missing")
        yield index, data


def _time_of(data: bytes) -> int:
    match = _TIME(data)
    return int(match[1]) if match else 0


def _earlier_entries(reader: Reader, view: tlog.TreeView, first: int) -> Iterator[EarlierEntry]:
    """Yield the entries before an index of runs open there, and of the log's own life."""
    open_runs: dict[bytes, list[int]] = {}
    life: list[int] = []
    for index, data in _entries(reader, 0, first):
        match, kind = _RUN(data), peek_kind(data)
        run = match[1] if match else b""
        if run == LOG_RUN.encode():
            life += [index] if kind.startswith(LIFE_KINDS) else []
        elif kind == b"run.close/1":
            open_runs.pop(run, None)
        else:
            open_runs.setdefault(run, []).append(index)
    for index in sorted([*life, *(i for indexes in open_runs.values() for i in indexes)]):
        data = next(data for _, data in _entries(reader, index, index + 1))
        proof = tlog.prove_inclusion(view, index)
        yield EarlierEntry(index, data.decode(), tuple(node.base64() for node in proof))


def _prove_key(
    reader: Reader, kinds: Kinds, key: tlog.VerifierKey, policy: tlog.WitnessPolicy
) -> tuple[bytes, tlog.TlogProof]:
    """Return the entry that publishes a key, with a proof in the first checkpoint that covers it.

    Not the newest one: two packs of the same period are to be equal.
    """
    for data in reader.read_strand(LOG_RUN, EVIDENCE_STRAND):
        facts = kinds.read(data).facts
        if not isinstance(facts, KeyAddV2Facts) or facts.vkey != str(key):
            continue
        index = find_entry(reader, kinds, leaf_of(data).hex()).index
        if index is None:
            break
        notes = [tlog.Note.parse(note) for note in reader.checkpoints(index + 1)]
        note = next((n for n in notes if tlog.is_witnessed(n, policy)), notes[0] if notes else None)
        if note is None:
            break
        view = tlog.TreeView(tlog.Checkpoint.parse(note.text).size, reader.read_tile)
        return data, tlog.TlogProof(index, tuple(tlog.prove_inclusion(view, index)), note)
    raise NotYetSigned("the key of attestations")
