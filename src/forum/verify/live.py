"""Verification of a whole ledger, pinned at its newest signed checkpoint."""

from binascii import hexlify
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate

from forum.deliberation import Indexed
from forum.errors import Malformed, ProofRejected
from forum.ledger import Kinds, Position, Reader, StoredBody, leaf_of
from forum.tlog import (
    TILE_WIDTH,
    Checkpoint,
    Cosignature,
    Hash,
    TileId,
    Tree,
    TreeView,
    check_consistency,
    hash_leaf,
    hash_leaves,
    prove_consistency,
)
from forum.verify.chronicle import FOREVER, TOLERANCE, Chronicle, unknown_kinds
from forum.verify.report import Answer, Claim, Findings, Problem, Report, State, empty_report
from forum.verify.sessions import Sessions
from forum.verify.trust import Trust, sightings

GRACE = 10 * 1_000_000
"""How long, in microseconds, an entry may go without an index or a cosignature."""

_CHUNK = 16 * TILE_WIDTH
_NOTHING = b""
_NO_LEAF = hash_leaf(_NOTHING)
"""Stands for an entry that is not there; no entry is empty."""

Progress = Callable[[int, int], None]


def verify_ledger(
    reader: Reader,
    kinds: Kinds,
    trust: Trust,
    now: int,
    progress: Progress = lambda _done, _all: None,
) -> Report:
    """Check everything that one snapshot of a ledger holds."""
    return _Audit(reader, kinds, trust, now).run(progress)


class _Audit:
    """One verification under way."""

    def __init__(self, reader: Reader, kinds: Kinds, trust: Trust, now: int) -> None:
        self._reader, self._kinds, self._trust, self._now = reader, kinds, trust, now
        self._findings = Findings()
        self._tree = Tree()
        self._unknown: Counter[str] = Counter()
        self._seen: dict[int, tuple[Cosignature, ...]] = {}
        self._signed: list[Checkpoint] = []
        self._sessions = Sessions(self._body, self._findings)
        self._chronicle = Chronicle(
            reader.origin, self._findings, self._sessions.body, self._is_before
        )

    def run(self, progress: Progress) -> Report:
        """Read the checkpoints, then every entry, then what only the end can tell."""
        if not self._trust.log_keys:
            # There is nothing to compare with, for a reader who trusts nobody.
            unknown = Answer(State.NOT_CHECKED, "no key was given: name the log's key with --key")
            return empty_report(self._reader.origin, unknown, unknown, self._findings)
        self._read_checkpoints()
        size = self._signed[-1].size if self._signed else 0
        self._advance(size, progress)
        for run in self._sessions.runs:
            self._sessions.check(run, self._signed_entries(run))
        pending = self._check_pending(size)
        self._check_memories()
        return self._report(size, pending)

    def _advance(self, size: int, progress: Progress) -> None:
        """Take in all entries, stopping at each checkpoint to compare its root."""
        start = 0
        for checkpoint, bounds in zip(self._signed, self._bounds(), strict=True):
            self._chronicle.bound(*bounds)
            for low in range(start, checkpoint.size, _CHUNK):
                self._take_chunk(low, min(low + _CHUNK, checkpoint.size))
                progress(min(low + _CHUNK, checkpoint.size), size)
            self._compare_root(checkpoint)
            start = checkpoint.size

    def _take_chunk(self, start: int, stop: int) -> None:
        entries = list(self._reader.entries(start, stop))
        leaves = hash_leaves(data or _NOTHING for data in entries)
        # The leaves first: what was altered is named before what follows from it.
        self._compare_tiles(leaves)
        follow, kinds = self._chronicle.follow, self._kinds
        for index, (data, leaf) in enumerate(zip(entries, leaves, strict=True), start):
            if data is None:
                self._findings.add(Problem.ENTRY_MISSING, "the log has no such entry", index)
                continue
            name = hexlify(leaf)
            if not follow(name, data, kinds):
                self._take(index, name, data)

    def _take(self, index: int, leaf: bytes, data: bytes) -> None:
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, str(error), index)
            return
        self._chronicle.take(index, leaf, entry)
        self._sessions.notice(index, entry)
        if entry.kind not in self._kinds:
            self._unknown[entry.kind] += 1

    def _body(self, _index: int, position: Position, name: str) -> StoredBody | None:
        return self._reader.body(position, name)

    def _signed_entries(self, run: str) -> Iterator[Indexed]:
        """Yield the entries of a run that are in the signed tree."""
        for strand in self._reader.strands(run):
            entries = list(self._reader.strand(run, strand))
            leaves = [leaf_of(data) for data in entries]
            places = zip(leaves, self._reader.indexes(leaves), entries, strict=True)
            for leaf, index, data in places:
                if index is not None and self._is_at(leaf, index):
                    with suppress(Malformed):  # that was found when it was taken in
                        yield Indexed(index, leaf, self._kinds.read(data))

    def _compare_tiles(self, leaves: list[bytes]) -> None:
        """Compare the tiles that these leaves make with those that are stored."""
        for tile, hashes in self._tree.extend(leaves).items():
            stored = self._reader.read_tile(tile, len(hashes) // 32)
            if stored != hashes:
                self._report_tile(tile, hashes, stored)

    def _report_tile(self, tile: TileId, hashes: bytes, stored: bytes) -> None:
        if tile.level:
            detail = f"stored tile {tile.path(len(hashes) // 32)} is not that of the entries"
            self._findings.add(Problem.LEAF_MISMATCH, detail)
            return
        for place in range(len(hashes) // 32):
            index = tile.index * TILE_WIDTH + place
            own = hashes[32 * place : 32 * place + 32]
            if own != stored[32 * place : 32 * place + 32] and own != _NO_LEAF:
                detail = "its bytes are not those whose hash is in the tree"
                self._findings.add(Problem.LEAF_MISMATCH, detail, index)

    def _compare_root(self, checkpoint: Checkpoint) -> None:
        if self._tree.root() != checkpoint.root:
            detail = f"the entries do not have the root that was signed for size {checkpoint.size}"
            self._findings.add(Problem.ROOT_MISMATCH, detail)

    def _read_checkpoints(self) -> None:
        for data in self._reader.checkpoints():
            checkpoint = self._trust.open(data, self._findings)
            if checkpoint is None or not checkpoint.size:
                continue
            if checkpoint.origin != self._reader.origin:
                # Its key may well be trusted, but for the log that it speaks of.
                detail = f"checkpoint: it is of {checkpoint.origin}, another log"
                self._findings.add(Problem.SIGNATURE_REJECTED, detail)
                continue
            self._signed.append(checkpoint)
            seen = self._trust.seen_by(data, self._findings)
            if self._trust.satisfied_by(seen):
                self._seen[checkpoint.size] = seen
            time = self._time(checkpoint.size)
            self._chronicle.times[checkpoint.size, checkpoint.root.hex()] = time
        # The row says one size and the note may say another.
        self._signed.sort(key=lambda checkpoint: checkpoint.size)

    def _time(self, size: int) -> int:
        """Return when the checkpoint of a size was cosigned, or 0 if it was not."""
        return min((c.time for c in self._seen.get(size, ())), default=0) * 1_000_000

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Yield for the entries up to each checkpoint when they can have got their indexes.

        That is after the last witnessed checkpoint before them, and before the first that covers
        them.
        """
        times = [self._time(checkpoint.size) for checkpoint in self._signed]
        floors = accumulate(times, max, initial=0)
        later = accumulate((time or FOREVER for time in reversed(times)), min)
        # One floor too many: nothing is bounded by what comes after it.
        yield from zip(list(floors)[:-1], reversed(list(later)), strict=True)

    def _check_pending(self, size: int) -> int:
        """Count what is not signed yet; it is a finding only when it has waited for long."""
        if not self._signed:
            self._findings.add(Problem.NOTHING_SIGNED, "there is no checkpoint by a trusted key")
        stored = self._reader.stored()
        # The head is a row of the database, and may say anything: no more can be there.
        end = min(self._head_size(), stored)
        sequenced = (e for e in self._reader.entries(size, max(size, end)) if e is not None)
        waiting = [*sequenced, *self._reader.unsequenced()]
        for data in waiting:
            self._check_waiting(data)
        strays = stored - size - len(waiting)
        if strays > 0:
            detail = (
                f"{strays} entries are stored that are neither in the tree nor on the way to it"
            )
            self._findings.add(Problem.STRAY_ENTRY, detail)
        return len(waiting)

    def _head_size(self) -> int:
        try:
            return self._reader.head().size
        except Malformed as error:
            self._findings.add(Problem.ROOT_MISMATCH, f"the head of the log: {error}")
            return 0

    def _check_waiting(self, data: bytes | None) -> None:
        if data is None:
            detail = "an entry that waits for its index is not there"
            self._findings.add(Problem.ENTRY_MISSING, detail)
            return
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, f"not signed yet: {error}")
            return
        if not self._is_young(entry.ts):
            detail = f"in no signed checkpoint after {(self._now - entry.ts) // 1_000_000} s"
            where = f"{entry.run}/{entry.strand}/{entry.n}"
            self._findings.add(Problem.LEFT_UNSEQUENCED, detail, None, where)

    def _check_memories(self) -> None:
        """Compare with what was seen before: a log may grow, and do nothing else."""
        if not self._signed:
            return
        newest = self._signed[-1]
        view = TreeView(newest.size, self._reader.read_tile)
        for memory in self._trust.memories(self._reader.origin, self._findings):
            if memory.size > newest.size:
                detail = (
                    f"a checkpoint of size {memory.size} was seen before, this is {newest.size}"
                )
                self._findings.add(Problem.TAIL_CUT, detail)
            elif memory.size:
                self._check_memory(memory, newest, view)

    def _check_memory(self, memory: Checkpoint, newest: Checkpoint, view: TreeView) -> None:
        try:
            proof = prove_consistency(view, memory.size)
            check_consistency(proof, memory.size, memory.root, newest.size, newest.root)
        except (ProofRejected, Malformed):
            detail = f"the checkpoint of size {memory.size} that was seen before is not continued"
            self._findings.add(Problem.HISTORY_REPLACED, detail)

    def _is_before(self, parent: str, index: int) -> bool:
        """Look up a parent that is not among the recent entries."""
        leaf = Hash(bytes.fromhex(parent))
        return any(self._is_at(leaf, i) for i in self._reader.find(leaf[:8]) if i < index)

    def _is_at(self, leaf: Hash, index: int) -> bool:
        """Tell whether the tree, as far as it was taken in, has a leaf at this index."""
        if not 0 <= index < self._tree.size:
            return False
        try:
            return TreeView(self._tree.size, self._reader.read_tile).leaf(index) == leaf
        except Malformed:
            return False  # the tile is not there; that was found when it was compared

    def _is_young(self, ts: int) -> bool:
        """Tell whether what was written then may still be on its way.

        The time is the writer's claim: one from the future would never grow old.
        """
        return self._now - GRACE <= ts <= self._now + TOLERANCE

    def _check_witnessed(self, size: int) -> tuple[Cosignature, ...]:
        """Return the cosignatures of the newest witnessed checkpoint, which must be recent."""
        newest = max(self._seen, default=0)
        if not newest or (newest < size and not self._is_young(self._written(newest))):
            detail = f"entries {newest} to {size - 1} are in no checkpoint that the policy accepts"
            self._findings.add(Problem.NOT_WITNESSED, detail)
        return self._seen.get(newest, ())

    def _written(self, index: int) -> int:
        data = next(self._reader.entries(index, index + 1))
        try:
            return self._kinds.read(data or b"").ts
        except Malformed:
            return 0

    def _report(self, size: int, pending: int) -> Report:
        bodies = self._chronicle.finish()
        seen = self._check_witnessed(size) if self._trust.policy else ()
        chronicle, findings = self._chronicle, self._findings
        checked = f"{chronicle.entries} entries, every leaf and link{self._sessions.played()}"
        intact = findings.answer(Claim.INTACT, checked)
        opened = chronicle.open_runs()
        complete = f"no gap in {chronicle.runs} runs, {len(opened)} of them still open"
        not_checked = [
            f"the strands of run {run}: its list is redacted" for run in chronicle.unlisted
        ]
        return Report(
            origin=self._reader.origin,
            size=size,
            root=self._signed[-1].root.hex() if self._signed else "",
            intact=intact,
            complete=findings.answer(Claim.COMPLETE, complete),
            independent=self._trust.independence(seen, findings),
            findings=tuple(findings.listed),
            found=findings.count,
            not_checked=(
                *unknown_kinds(self._unknown.items()),
                *chronicle.not_checked,
                *not_checked,
                *self._sessions.not_checked,
            ),
            entries=chronicle.entries,
            runs=chronicle.runs,
            open_runs=opened,
            bodies=bodies,
            pending=pending,
            sightings=sightings(seen),
        )
