"""Verification of a whole ledger, pinned at its newest signed checkpoint."""

from collections import Counter
from collections.abc import Callable, Iterator

from forum.errors import Malformed, ProofRejected
from forum.ledger import Kinds, Reader
from forum.tlog import (
    TILE_WIDTH,
    Checkpoint,
    Cosignature,
    TileId,
    Tree,
    TreeView,
    check_consistency,
    hash_leaf,
    prove_consistency,
)
from forum.verify.chronicle import Chronicle, unknown_kinds
from forum.verify.report import Answer, Claim, Findings, Problem, Report, State
from forum.verify.trust import Trust, sightings

GRACE = 10 * 1_000_000
"""How long, in microseconds, an entry may go without an index or a cosignature."""

_CHUNK = 16 * TILE_WIDTH
_NO_LEAF = bytes(32)

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
        self._leaves: list[bytes] = []
        self._unknown: Counter[str] = Counter()
        self._seen: dict[int, tuple[Cosignature, ...]] = {}
        self._signed: list[Checkpoint] = []
        self._chronicle = Chronicle(
            reader.origin,
            self._findings,
            lambda _index, position, name: reader.body(position, name),
            self._is_before,
        )

    def run(self, progress: Progress) -> Report:
        """Read the checkpoints, then every entry, then what only the end can tell."""
        self._read_checkpoints()
        size = self._signed[-1].size if self._signed else 0
        stops = iter([*(c.size for c in self._signed), 0])
        self._advance(next(stops), stops, size, progress)
        pending = self._check_pending(size)
        self._check_memories()
        return self._report(size, pending)

    def _advance(self, stop: int, stops: Iterator[int], size: int, progress: Progress) -> None:
        """Take in all entries, stopping at each checkpoint to compare its root."""
        checkpoints = iter(self._signed)
        start = 0
        while start < size:
            self._chronicle.ceiling = self._ceiling(stop)
            for low in range(start, stop, _CHUNK):
                self._take_chunk(low, min(low + _CHUNK, stop))
                progress(min(low + _CHUNK, stop), size)
            self._compare_root(next(checkpoints))
            start, stop = stop, next(stops)

    def _take_chunk(self, start: int, stop: int) -> None:
        leaves = []
        read, take, unknown = self._kinds.read, self._chronicle.take, self._unknown
        known = self._kinds
        for index, data in enumerate(self._reader.entries(start, stop), start):
            if data is None:
                self._findings.add(Problem.ENTRY_MISSING, "the log has no such entry", index)
                leaves.append(_NO_LEAF)
                continue
            leaf = hash_leaf(data)
            leaves.append(leaf)
            try:
                entry = read(data)
            except Malformed as error:
                self._findings.add(Problem.ENTRY_MALFORMED, str(error), index)
                continue
            take(index, leaf.hex(), entry)
            if entry.kind not in known:
                unknown[entry.kind] += 1
        self._compare_tiles(leaves)

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
            self._signed.append(checkpoint)
            seen = self._trust.seen_by(data, self._findings)
            if self._trust.satisfied_by(seen):
                self._seen[checkpoint.size] = seen
                time = min(cosignature.time for cosignature in seen) * 1_000_000
                self._chronicle.times[checkpoint.size, checkpoint.root.hex()] = time

    def _ceiling(self, stop: int) -> int:
        """Return when the first witnessed checkpoint that covers these entries was cosigned."""
        times = (
            self._seen[c.size] for c in self._signed if c.size >= stop and c.size in self._seen
        )
        first = next(times, None)
        return min(c.time for c in first) * 1_000_000 if first else 2**62

    def _check_pending(self, size: int) -> int:
        """Count what is not signed yet; it is a finding only when it has waited for long."""
        if not self._signed:
            self._findings.add(Problem.NOTHING_SIGNED, "there is no checkpoint by a trusted key")
        head = self._reader.head()
        sequenced = (e for e in self._reader.entries(size, max(size, head.size)) if e is not None)
        waiting = [*sequenced, *self._reader.unsequenced()]
        for data in waiting:
            self._check_waiting(data)
        return len(waiting)

    def _check_waiting(self, data: bytes) -> None:
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, f"not signed yet: {error}")
            return
        if entry.ts < self._now - GRACE:
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
        leaf = bytes.fromhex(parent)
        view = TreeView(self._tree.size, self._reader.read_tile)
        earlier = (i for i in self._reader.find(leaf[:8]) if i < min(index, self._tree.size))
        return any(view.leaf(i) == leaf for i in earlier)

    def _check_witnessed(self, size: int) -> tuple[Cosignature, ...]:
        """Return the cosignatures of the newest witnessed checkpoint, which must be recent."""
        newest = max(self._seen, default=0)
        if newest == size:
            return self._seen.get(newest, ())
        first = next(self._reader.entries(newest, newest + 1), None)
        try:
            age = self._now - self._kinds.read(first or b"").ts
        except Malformed:
            age = 2**62
        if age > GRACE:
            detail = f"entries {newest} to {size - 1} are in no checkpoint that the policy accepts"
            self._findings.add(Problem.NOT_WITNESSED, detail)
        return self._seen.get(newest, ())

    def _report(self, size: int, pending: int) -> Report:
        bodies = self._chronicle.finish()
        seen = self._check_witnessed(size) if self._trust.policy and size else ()
        chronicle, findings = self._chronicle, self._findings
        intact = findings.answer(Claim.INTACT, f"{chronicle.entries} entries, every leaf and link")
        if not self._trust.log_keys:
            intact = Answer(State.NOT_CHECKED, "no key was given: name the log's key with --key")
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
            not_checked=(*unknown_kinds(self._unknown.items()), *not_checked),
            entries=chronicle.entries,
            runs=chronicle.runs,
            open_runs=opened,
            bodies=bodies,
            pending=pending,
            sightings=sightings(seen),
        )
