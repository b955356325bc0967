"""Transparency log: trees, proofs, signed notes, and witness policies.

Pure functions and values: no files, no network, no clock, no random numbers.  All formats are those
of C2SP (tlog-tiles, signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof, tlog-policy), so
that independent tools can check what Forum records.

    hashing             leaf and node hashes
    canonical_encoding  base64 and decimal numbers in one form
    tiles               the tree as files
    tree                the right edge for appending, and a view of the whole tree
    proofs              inclusion and consistency proofs, made and checked
    keys, note          signing keys, and text signed with them
    checkpoint          the size and root that a log commits to
    cosignature         timestamped signatures of witnesses on a checkpoint
    proof_file          an inclusion proof of one entry for offline use
    witness_policy      the logs and witnesses that a reader trusts
"""

from forum.tlog.canonical_encoding import format_base64, parse_base64
from forum.tlog.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from forum.tlog.cosignature import (
    Cosignature,
    cosign,
    describe_witnessing,
    is_witnessed,
    quorum_time,
    select_consistent_times,
    verify_cosignatures,
)
from forum.tlog.hashing import EMPTY_ROOT, Hash, hash_children, hash_leaf, hash_leaves
from forum.tlog.keys import ED25519, ED25519_COSIGNATURE, SigningKey, VerifierKey
from forum.tlog.note import Note, Signature, add_signatures, sign_note, verify_note
from forum.tlog.proof_file import TlogProof
from forum.tlog.proofs import check_consistency, check_inclusion, prove_consistency, prove_inclusion
from forum.tlog.tiles import (
    TILE_WIDTH,
    ReadTile,
    TileId,
    count_tiles,
    encode_entry_bundle,
    entries_path,
    parse_entries_path,
    parse_tile_path,
)
from forum.tlog.tree import Tree, TreeView
from forum.tlog.witness_policy import (
    LOCAL_WITNESS,
    KnownLog,
    KnownWitness,
    WitnessGroup,
    WitnessPolicy,
    is_local_witness,
)
