"""Gathering a pack from a log: the log part, and the files that follow from it.

What is gathered depends on the period and on what was recorded until the tree that covers it, and
not on what was recorded later, so that two packs of the same period are equal.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import takewhile

import msgspec

from forum import tlog
from forum.errors import AmbiguousEntry, Malformed, NoSuchEntry, NotYetSigned, TamperDetected
from forum.features.evidence import pack_file
from forum.features.evidence.attestation import EVIDENCE_STRAND
from forum.features.evidence.control_maps import encode_map
from forum.features.evidence.counted_times import (
    SECOND,
    CountedTimes,
    find_seen_time,
    is_seen_since,
)
from forum.features.evidence.entry_list import list_entries
from forum.features.evidence.log_part import LIFE_KINDS, EarlierEntry, LogPart
from forum.features.evidence.recorded_cosignatures import find_quorum_record
from forum.features.evidence.report import Arguments, PackReport, encode_report
from forum.ledger.bundle import PastCheckpoint, gather_bundle
from forum.ledger.entry import LOG_RUN, leaf_of, peek_kind
from forum.ledger.key_rotation import (
    find_key_rotations,
    find_rotation_checkpoints,
    read_key_rotation,
)
from forum.ledger.kinds import KeyAddV2Facts, Kinds
from forum.ledger.log import LocatedEntry, find_entry
from forum.ledger.ports import EntryReader, LogReader, TreeReader
from forum.ledger.redaction import is_redaction, redacted_bodies
from forum.ledger.witness_records import find_records

_TIME = re.compile(rb'"ts":([0-9]+),"actor"').search
_RUN = re.compile(rb'"run":"([^"]*)"').search


class PeriodEdge(msgspec.Struct, frozen=True):
    """The checkpoints that decide which entries are before a moment."""

    before: bytes | None
    """The last one that witnesses saw before `behind`."""
    behind: bytes | None
    """The first one that witnesses saw at the moment or later."""


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
    reader: EntryReader, kinds: Kinds, policy: tlog.WitnessPolicy, until: int, edge: PeriodEdge
) -> bytes | None:
    """Return the first checkpoint that covers the period and that no retired key has signed.

    If the log recorded who cosigned the checkpoint behind the period, it covers that record: by it,
    the maker cannot choose among trees and cosignatures, which draw the sample.

    A reader pins the newest key of the log, and what leads from there to an earlier key must be in
    the pack.  Without witnesses, or while they cannot be reached, writers say what is covered.
    """
    entries = [(e.index or 0, e.data, e.entry) for e in find_key_rotations(reader, kinds)]
    rotations = [read_key_rotation(*entry, reader.origin) for entry in entries]
    retired = {rotation.old for rotation in rotations if rotation}
    decisive = edge.behind or edge.before
    size = tlog.parse_checkpoint(decisive).size if decisive else 1
    if edge.behind is None:
        for index, data in _entries(reader, 0, reader.head().size):
            if _time_of(data) < until:
                size = max(size, index + 1)
    recorded = _find_record(reader, kinds, policy, edge.behind) if edge.behind else 0

    def is_seen(note: bytes) -> bool:
        return edge.behind is None or is_seen_since(find_seen_time(note, policy), until)

    sizes = (recorded, size) if recorded else (size,)
    notes = (_find_cover(reader, retired, smallest, is_seen) for smallest in sizes)
    return next(filter(None, notes), None)


def _find_cover(
    reader: TreeReader,
    retired: Collection[tlog.VerifierKey],
    size: int,
    is_seen: Callable[[bytes], bool],
) -> bytes | None:
    """Return the first checkpoint of at least a size that no retired key has signed.

    The old key signs the hand-over itself: until the new one has signed, there is no other.
    """
    first = None
    for note in filter(is_seen, reader.checkpoints(size)):
        signatures = tlog.Note.parse(note).signatures
        if not any(signature.claims_key(key) for signature in signatures for key in retired):
            return note
        first = first or note
    return first


def _find_record(reader: EntryReader, kinds: Kinds, policy: tlog.WitnessPolicy, note: bytes) -> int:
    """Return the size of the first tree with the record of a checkpoint's quorum, 0 if none is."""
    checkpoint = tlog.parse_checkpoint(note)
    records = [
        entry
        for entry in takewhile(
            lambda entry: entry.facts.size == checkpoint.size,
            find_records(reader, kinds, checkpoint.size),
        )
        if entry.facts.root == checkpoint.root.hex()
    ]
    lines = (entry.facts.cosignatures for entry in records)
    recorded = find_quorum_record(str(checkpoint), lines, policy)
    if recorded is None:
        return 0
    entry = records[recorded[0]]
    index = find_entry(reader, kinds, f"{entry.run}/{entry.strand}/{entry.n}").index
    return index + 1 if index is not None else 0


def find_edge(reader: TreeReader, policy: tlog.WitnessPolicy, moment: int) -> PeriodEdge:
    """Return the checkpoints that decide which entries are before a moment.

    Both follow from the moment alone, so that packs of periods that meet there agree.
    """
    names = b"|".join(re.escape(key.name.encode()) for key in policy.witness_keys)
    # The key id and the time of a cosignature.  Reading that is much cheaper than checking it.
    claims = re.compile("\u2014 (?:".encode() + names + rb") ([A-Za-z0-9+/]{16})").findall
    behind = next(
        (
            note
            for note in reader.checkpoints(1)
            if any(is_seen_since(_read_claimed_time(claim), moment) for claim in claims(note))
            and is_seen_since(find_seen_time(note, policy), moment)
        ),
        None,
    )
    most = tlog.parse_checkpoint(behind).size - 1 if behind else reader.head().size
    note = reader.checkpoint(most)
    while note is not None and not find_seen_time(note, policy):
        note = reader.checkpoint(tlog.parse_checkpoint(note).size - 1)
    return PeriodEdge(note, behind)


def _read_claimed_time(claim: bytes) -> int:
    return int.from_bytes(b64decode(claim)[4:]) * SECOND


def find_first_seen(reader: TreeReader, policy: tlog.WitnessPolicy, index: int) -> int:
    """Return when witnesses first saw a tree with an entry, in microseconds; 0 if they have not."""
    seen = (find_seen_time(note, policy) for note in reader.checkpoints(index + 1))
    return next(filter(None, seen), 0)


def gather_part(
    reader: EntryReader, kinds: Kinds, policy: tlog.WitnessPolicy, arguments: Arguments
) -> LogPart:
    """Return the log part of a pack; `reader` must be a snapshot.

    Raises `NotYetSigned`, `TamperDetected`.
    """
    edges = [find_edge(reader, policy, at) for at in (arguments.since, arguments.until)]
    end = find_end(reader, kinds, policy, arguments.until, edge=edges[1])
    if end is None:
        raise NotYetSigned("the period")
    size = tlog.parse_checkpoint(end).size
    # None means the empty tree: then the pack holds the log from its beginning.
    start = edges[0].before
    first = tlog.parse_checkpoint(start).size if start else 0
    notes = (edges[0].behind, edges[1].before, edges[1].behind)
    by_size = {tlog.parse_checkpoint(note).size: note for note in notes if note}
    view = tlog.TreeView(size, reader.read_tile)
    return LogPart(
        origin=reader.origin,
        start=start,
        end=end,
        edge=tlog.Tree.load(first, reader.read_tile).edge,
        consistency=tuple(tlog.prove_consistency(view, first)),
        entries=tuple(data for _, data in _entries(reader, first, size)),
        earlier=tuple(_earlier_entries(reader, kinds, view, first)),
        seen=tuple(by_size[at] for at in sorted(by_size) if first < at < size),
        past=tuple(_past_checkpoints(reader, kinds, view)),
    )


def _past_checkpoints(
    reader: EntryReader, kinds: Kinds, view: tlog.TreeView
) -> Iterator[PastCheckpoint]:
    """Yield what a reader needs who pinned an earlier key of the log."""
    rotations = [e for e in find_key_rotations(reader, kinds) if (e.index or 0) < view.size]
    for note in dict.fromkeys(find_rotation_checkpoints(reader, rotations)):
        size = tlog.parse_checkpoint(note).size
        if size < view.size:
            yield PastCheckpoint(note, tuple(tlog.prove_consistency(view, size)))


def collect_files(reader: LogReader, kinds: Kinds, contents: PackContents) -> dict[str, bytes]:
    """Return the files of a pack, by name; `reader` must be a snapshot."""
    part, report = contents.part, contents.report
    policy = contents.policy
    verifier = contents.extras["verify.py"]
    files = pack_file.part_files(part)
    for bundle in report.bundles:
        gathered = gather_bundle(
            reader, kinds, bundle.run, policy, verifier=verifier, size=report.end.size
        )
        files[bundle.file] = gathered.encode()
    entry, proof = _prove_key(reader, kinds, contents.key, policy)
    times = CountedTimes(part, None if report.check else policy)
    files |= {f"maps/{used.map.name}.json": encode_map(used.map) for used in report.maps}
    return files | {
        pack_file.REPORT: encode_report(report),
        pack_file.SCHEMA: pack_file.report_schema(),
        pack_file.ENTRY_LIST: list_entries(part, report.arguments, times),
        pack_file.POLICY: policy.without_marks().encode(),
        pack_file.KEY_ENTRY: entry,
        pack_file.KEY_PROOF: proof.encode(),
        **contents.extras,
    }


def _entries(reader: EntryReader, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for index, data in enumerate(reader.entries(start, stop), start):
        if data is None:
            raise TamperDetected(f"entry {index}", "it is missing")
        yield index, data


def _time_of(data: bytes) -> int:
    match = _TIME(data)
    return int(match[1]) if match else 0


def _find_erased(
    reader: EntryReader, kinds: Kinds, view: tlog.TreeView, first: int
) -> Iterator[LocatedEntry]:
    """Yield the entries before an index that redactions from there on name."""
    targets: set[str] = set()
    for _, data in _entries(reader, first, view.size):
        if is_redaction(data):
            targets.update(body.entry for body in redacted_bodies(kinds.read(data)))
    for target in sorted(targets):
        try:
            located = find_entry(reader, kinds, target)
        except (NoSuchEntry, AmbiguousEntry, Malformed):
            continue  # the figure then says that it cannot be computed
        if located.index is not None and located.index < first:
            yield located


def _earlier_entries(
    reader: EntryReader, kinds: Kinds, view: tlog.TreeView, first: int
) -> Iterator[EarlierEntry]:
    """Yield the entries before an index that the report needs, in their order.

    They are those of runs open there, of the log's own life, and of the runs of which bodies are
    erased later: whether a hold was in force for them follows from their entries only.
    """
    erased = list(_find_erased(reader, kinds, view, first))
    kept = {located.entry.run.encode() for located in erased}
    needed = {e.index for e in erased if e.index is not None and e.entry.run == LOG_RUN}
    open_runs: dict[bytes, list[int]] = {}
    life: list[int] = []
    for index, data in _entries(reader, 0, first):
        match, kind = _RUN(data), peek_kind(data)
        run = match[1] if match else b""
        if run == LOG_RUN.encode():
            life += [index] if kind.startswith(LIFE_KINDS) or index in needed else []
        elif kind == b"run.close/1" and run not in kept:
            open_runs.pop(run, None)
        else:
            open_runs.setdefault(run, []).append(index)
    for index in sorted([*life, *(i for indexes in open_runs.values() for i in indexes)]):
        data = next(data for _, data in _entries(reader, index, index + 1))
        proof = tlog.prove_inclusion(view, index)
        yield EarlierEntry(index, data.decode(), tuple(node.base64() for node in proof))


def _prove_key(
    reader: EntryReader, kinds: Kinds, key: tlog.VerifierKey, policy: tlog.WitnessPolicy
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
