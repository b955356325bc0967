"""What the parent knows by itself, held against what the store says at the end.

Nothing here uses `forum.verify` or `forum.tlog`: entries are read as plain JSON, hashed with
hashlib, and the tree is that of tests/tlog/oracle.py, which is RFC 6962 word for word.
"""

import json
import os
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from forum.ledger.ports import Position, Reader
from forum.tlog import TileId
from tests.soak.orders import LOG_KEY, ORIGIN
from tests.tlog.oracle import Oracle

TILE_WIDTH = 256
MAX_VIOLATIONS = 50


class Signed(NamedTuple):
    """A size and a root under the log's signature."""

    size: int
    root: bytes


@dataclass
class Evidence:
    """All that workers and memories have told, read from files that only they write."""

    folder: Path
    """Where the workers note down what they were told."""
    state: Path
    """Where signer and witness keep what they remember."""
    acks: dict[Position, bytes] = field(default_factory=dict)
    notes: set[bytes] = field(default_factory=set)
    refused: dict[bytes, Position] = field(default_factory=dict)
    """What zombies were about to write when they were stopped and overtaken."""
    violations: list[str] = field(default_factory=list)
    heads: dict[tuple[str, str], int] = field(default_factory=dict)
    """The last acknowledged position of each strand."""
    fresh: set[tuple[str, str]] = field(default_factory=set)
    """Strands with an acknowledgement since the last look."""
    _read: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Take in what was written since the last time."""
        for path in self._grown():
            if path.suffix == ".acks":
                for line in self._lines(path):
                    self._acknowledge(*parse_position(line))
            elif path.suffix == ".notes":
                self.notes.update(map(bytes.fromhex, self._lines(path)))

    def collect(self, reader: Reader) -> None:
        """Take in every signed note that the store, the signer and the witness hold now."""
        self.notes.update(reader.checkpoints())
        for name in ("guard", "witness"):
            try:
                self.notes.add((self.state / name).read_bytes())
            except FileNotFoundError:
                continue

    def sample(self, reader: Reader) -> None:
        """Look whether the newest acknowledged entry of each active strand is there."""
        for run, strand in self.fresh:
            position = Position(run, strand, self.heads[run, strand])
            data = next(iter(reader.read_strand(*position)), b"")
            if leaf_of(data) != self.acks[position]:
                self.violations.append(f"{position} was acknowledged and is not there")
        self.fresh.clear()

    def signed(self) -> Iterator[Signed]:
        """Yield what each note says, once its signature has been verified."""
        for note in self.notes:
            try:
                yield open_note(note)
            except (ValueError, InvalidSignature) as error:
                self.violations.append(f"a note is not signed by the log: {error!r} {note!r}")

    def _acknowledge(self, position: Position, leaf: bytes) -> None:
        if self.acks.setdefault(position, leaf) != leaf:
            self.violations.append(f"{position} was acknowledged with two entries")
        strand = (position.run, position.strand)
        self.heads[strand] = max(position.n, self.heads.get(strand, 0))
        self.fresh.add(strand)

    def _grown(self) -> list[Path]:
        """Return the files that are longer than what was read of them."""
        with os.scandir(self.folder) as files:
            found = [(Path(file.path), file.stat().st_size) for file in files]
        return [path for path, size in found if size > self._read.get(path, 0)]

    def _lines(self, path: Path) -> list[str]:
        """Return whole new lines; the last one of a killed worker may be torn: nobody heard it."""
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(whole)
        return whole.decode().splitlines()


@dataclass
class Audit:
    """One full look at a log that nobody writes any more."""

    reader: Reader
    evidence: Evidence
    violations: list[str] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0
    bodies: int = 0
    strands: int = 0
    checkpoints: int = 0
    _index: dict[bytes, int] = field(default_factory=dict)
    _at: dict[Position, bytes] = field(default_factory=dict)

    def run(self) -> None:
        """Check everything; what does not hold stands in `violations` afterwards."""
        size, root = self.reader.head()
        for index, data in enumerate(self.reader.entries(0, size)):
            if data is None:
                self._expect(holds=False, what=f"index {index} has lost its entry")
            else:
                self._take(data)
        self._expect(len(self._index) == size, f"{len(self._index)} of {size} entries in the tree")
        self._expect(not any(self.reader.unsequenced_entries()), "an entry has no index")
        self._check_strands()
        self._check_acknowledged()
        tree = Oracle(list(self._index))
        self._expect(tree.mth(0, len(tree.leaves)) == root, "the root is not that of the entries")
        self._check_tiles(tree)
        self._check_notes(tree)
        self.violations += self.evidence.violations

    @property
    def size(self) -> int:
        """The number of entries in the tree."""
        return len(self._index)

    def _expect(self, holds: bool, what: str) -> None:  # noqa: FBT001  the verdict is the subject
        if not holds and len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def _take(self, data: bytes) -> None:
        """Take the next entry of the tree: it is new, and follows all that caused it."""
        leaf, entry = leaf_of(data), json.loads(data)
        position = Position(entry["run"], entry["strand"], entry["n"])
        again = leaf in self._index or position in self._at
        self.doubled += again
        self._expect(not again, f"{position} is in the tree twice")
        causes = [*entry["parents"], *([entry["prev"]] if entry["n"] else [])]
        is_known = all(bytes.fromhex(cause) in self._index for cause in causes)
        self._expect(is_known, f"{position} stands before one of its causes")
        self._expect(entry["log"] == ORIGIN, f"{position} is of another log")
        self._index[leaf] = len(self._index)
        self._at[position] = leaf
        for name, commitment in entry["bodies"].items():
            self._check_body(position, name, commitment)

    def _check_body(self, position: Position, name: str, commitment: dict[str, Any]) -> None:
        self.bodies += 1
        body = self.reader.body(position, name)
        if body is None:
            self._expect(holds=False, what=f"{position} has lost its body {name}")
            return
        content = b"".join(body.read())
        framed = b"forum/body/1\0" + body.salt + len(content).to_bytes(8, "big") + content
        holds = (sha256(framed).hexdigest(), len(content)) == (commitment["h"], commitment["size"])
        self._expect(holds, f"{position} has another body {name} than it committed to")

    def _check_strands(self) -> None:
        """Every strand is a chain without gaps, and all its entries are in the tree."""
        runs, entries = self.reader.runs("", 10_000), 0
        for run in runs:
            for strand in self.reader.strands(run):
                self.strands += 1
                entries += self._check_strand(run, strand)
        self._expect(entries == len(self._at), f"{entries} in strands, {len(self._at)} in the tree")

    def _check_strand(self, run: str, strand: str) -> int:
        leaf, n = b"", -1
        for n, data in enumerate(self.reader.read_strand(run, strand)):
            entry, position = json.loads(data), Position(run, strand, n)
            named = Position(entry["run"], entry["strand"], entry["n"])
            self._expect(named == position, f"{named} stands at {position}")
            self._expect(entry["prev"] == leaf.hex(), f"{position} does not follow {n - 1}")
            self._expect(entry["step"] == f"step/{n}", f"{position} records {entry['step']}")
            leaf = leaf_of(data)
            self._expect(self._at.get(position) == leaf, f"{position} differs from the tree's")
        return n + 1

    def _check_acknowledged(self) -> None:
        for position, leaf in self.evidence.acks.items():
            data = self._at.get(position)
            self.lost += data != leaf
            self._expect(data == leaf, f"{position} was acknowledged and is lost")
        for leaf, position in self.evidence.refused.items():
            self._expect(leaf not in self._index, f"{position}: a zombie wrote past its successor")

    def _check_tiles(self, tree: Oracle) -> None:
        level, hashes = 0, len(tree.leaves)
        while hashes:
            for first in range(0, hashes, TILE_WIDTH):
                width = min(TILE_WIDTH, hashes - first)
                tile = TileId(level, first // TILE_WIDTH)
                holds = self.reader.read_tile(tile, width) == tree.tile(*tile, width)
                self._expect(holds, f"{tile} is not the tile of these entries")
            level, hashes = level + 1, hashes // TILE_WIDTH

    def _check_notes(self, tree: Oracle) -> None:
        """All that was ever signed is one history, and it is the one in the store."""
        self.evidence.collect(self.reader)
        signed = sorted(set(self.evidence.signed()))
        self.checkpoints = len({size for size, _ in signed})
        for one, next_one in pairwise(signed):
            self._expect(one.size != next_one.size, f"two trees of size {one.size} were signed")
        for size, root in signed:
            holds = size <= len(tree.leaves) and tree.mth(0, size) == root
            self._expect(holds, f"the signed tree of size {size} is not a past of this one")


def leaf_of(data: bytes) -> bytes:
    """RFC 6962 section 2.1."""
    return sha256(b"\0" + data).digest()


def parse_position(line: str) -> tuple[Position, bytes]:
    """Read a line of a worker: where an entry stands, and which."""
    run, strand, n, leaf = line.split(" ")
    return Position(run, strand, int(n)), bytes.fromhex(leaf)


def open_note(note: bytes) -> Signed:
    """Read a checkpoint and verify the signature of its log (C2SP signed-note)."""
    text, _, lines = note.decode().rpartition("\n\n")
    origin, size, root = text.split("\n")
    if origin != ORIGIN:
        raise ValueError(origin)
    own = [line.split(" ")[2] for line in lines.splitlines() if line.split(" ")[1] == ORIGIN]
    public = Ed25519PublicKey.from_public_bytes(LOG_KEY.verifier().public)
    for encoded in own:
        public.verify(b64decode(encoded)[4:], f"{text}\n".encode())
    if not own:
        raise ValueError(lines)
    return Signed(int(size), b64decode(root))
