"""Checks a list of runs for a reader who trusts only his own keys.

Each entry of the directory names the entry before it, so an inclusion proof of the last one binds
all that are shown: between them nothing was left out, and no run was added or moved.  What the log
names before the first of them and after the last one is not shown; the counts say how much that is
before, and the index and the size bound what is after.
"""

from collections.abc import Sequence

from msgspec import Struct

from forum import tlog
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.kinds import Kinds, RunsOpenedFacts
from forum.ledger.strand import RUNS_STRAND

MAX_LISTED_ENTRIES = 1000
"""How many entries of a directory are read at once."""


class ProvenRuns(Struct, frozen=True):
    """All runs that consecutive entries of a directory name, in the order of their openings."""

    origin: str
    runs: tuple[str, ...]
    before: int
    """How many runs the directory names before these."""
    first: int
    """The position of the first entry in the directory."""
    since: int
    """In a list from position 0: the index from which on the log names every run that it opens."""
    index: int
    """The index of the last entry: what the tree has behind it may open further runs."""
    size: int
    """The size of the signed tree."""
    is_witnessed: bool
    """Whether as many witnesses as the trust file asks for have cosigned the tree."""


def check_run_list(
    entries: Sequence[bytes], proof: bytes, kinds: Kinds, policy: tlog.WitnessPolicy
) -> ProvenRuns:
    """Return the runs that consecutive entries of a directory name.

    `proof` is the C2SP tlog-proof of the last entry.  Raises `Malformed`, `ProofRejected` and
    `SignatureRejected`.
    """
    if not 0 < len(entries) <= MAX_LISTED_ENTRIES:
        raise Malformed("list of runs", f"{len(entries)} entries, not 1 to {MAX_LISTED_ENTRIES}")
    proven = tlog.TlogProof.parse(proof)
    checkpoint, note = tlog.open_checkpoint(proven.note, policy.log_keys)
    if sum(key.name == checkpoint.origin for key in policy.log_keys) > 1:
        why = "the trust file names several keys of this log, and a list holds no hand-over"
        raise SignatureRejected(checkpoint.origin, f"{why}; pin the newest one only")
    leaf = leaf_of(entries[-1])
    tlog.check_inclusion(proven.hashes, leaf, proven.index, checkpoint.size, root=checkpoint.root)
    start, names, since = _read_names(entries, kinds, checkpoint.origin)
    return ProvenRuns(
        origin=checkpoint.origin,
        runs=tuple(run for facts in names for run in facts.runs),
        before=names[0].first,
        first=start,
        since=since,
        index=proven.index,
        size=checkpoint.size,
        is_witnessed=tlog.is_witnessed(note, policy),
    )


def _read_names(
    entries: Sequence[bytes], kinds: Kinds, origin: str
) -> tuple[int, list[RunsOpenedFacts], int]:
    """Return the position of the first entry, the facts of all, and where the directory begins."""
    names: list[RunsOpenedFacts] = []
    start = expected = 0
    prev = ""
    for number, data in enumerate(entries):
        entry = kinds.read(data)
        facts, place = entry.facts, (entry.log, entry.run, entry.strand)
        if place != (origin, LOG_RUN, RUNS_STRAND) or not isinstance(facts, RunsOpenedFacts):
            raise Malformed("list of runs", "an entry is not of the directory of this log")
        if not number:
            start, expected = entry.n, facts.first
            prev = entry.prev
        if (entry.n, entry.prev, facts.first) != (start + number, prev, expected):
            raise ProofRejected(f"entry {number} of the list does not follow the one before it")
        prev, expected = leaf_of(data).hex(), facts.first + len(facts.runs)
        names.append(facts)
    if not start and names[0].first:
        raise ProofRejected("the directory does not begin with its first run")
    return start, names, names[0].since
