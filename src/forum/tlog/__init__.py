"""Transparency log: trees, proofs, signed notes, and the policies that judge them.

Pure: no files, no network, no clock, no random numbers.  Everything is in the formats of
C2SP (tlog-tiles, signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof, tlog-policy), so
that tools which other people wrote can check what Forum records.

    hashing      bytes become leaves and nodes
    tiles        the tree as files
    tree         its growing edge, and a view of all of it
    proofs       prove and check, always in pairs
    keys, note   text that somebody signed
    checkpoint   what a log commits to
    cosignature  what a witness has seen of it
    proof_file   one entry, provable offline
    policy       whom the reader believes
"""

from forum.tlog.checkpoint import Checkpoint, checkpoint_of, open_checkpoint, sign_checkpoint
from forum.tlog.cosignature import (
    Cosignature,
    consistent_times,
    cosign,
    cosignatures,
    is_witnessed,
    quorum_time,
)
from forum.tlog.hashing import (
    EMPTY_ROOT,
    Hash,
    hash_children,
    hash_leaf,
    hash_leaves,
    root_of,
)
from forum.tlog.keys import ED25519, ED25519_COSIGNATURE, SigningKey, VerifierKey
from forum.tlog.note import Note, Signature, sign_note, verified_by
from forum.tlog.policy import KnownLog, KnownWitness, Policy, WitnessGroup
from forum.tlog.proof_file import TlogProof
from forum.tlog.proofs import (
    check_consistency,
    check_inclusion,
    check_subtree_consistency,
    check_subtree_inclusion,
    prove_consistency,
    prove_inclusion,
)
from forum.tlog.tiles import (
    TILE_WIDTH,
    ReadTile,
    TileId,
    count_tiles,
    entries_path,
    entry_bundle,
    parse_entries_path,
    parse_tile_path,
    split_entry_bundle,
    tile_widths,
)
from forum.tlog.tree import Tree, TreeView, view_of

__all__ = [
    "ED25519",
    "ED25519_COSIGNATURE",
    "EMPTY_ROOT",
    "TILE_WIDTH",
    "Checkpoint",
    "Cosignature",
    "Hash",
    "KnownLog",
    "KnownWitness",
    "Note",
    "Policy",
    "ReadTile",
    "Signature",
    "SigningKey",
    "TileId",
    "TlogProof",
    "Tree",
    "TreeView",
    "VerifierKey",
    "WitnessGroup",
    "check_consistency",
    "check_inclusion",
    "check_subtree_consistency",
    "check_subtree_inclusion",
    "checkpoint_of",
    "consistent_times",
    "cosign",
    "cosignatures",
    "count_tiles",
    "entries_path",
    "entry_bundle",
    "hash_children",
    "hash_leaf",
    "hash_leaves",
    "is_witnessed",
    "open_checkpoint",
    "parse_entries_path",
    "parse_tile_path",
    "prove_consistency",
    "prove_inclusion",
    "quorum_time",
    "root_of",
    "sign_checkpoint",
    "sign_note",
    "split_entry_bundle",
    "tile_widths",
    "verified_by",
    "view_of",
]
