"""An operator who holds the keys, and writes the record of a session anew, as he likes it.

Whatever he writes is consistent in itself: every link, proof and signature holds.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from forum.ledger.body import SALT_SIZE, Body, BytesContent, StoredBody
from forum.ledger.bundle import gather_bundle
from forum.ledger.entry import FORMAT, MAIN_STRAND, Entry, Facts
from forum.ledger.kinds import Kinds, RunCloseFacts, RunOpenFacts
from forum.ledger.log import Ledger, stored_body
from forum.ledger.ports import Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs.record_comparison import IndexedEntry, SessionEntries
from forum.stores.sqlite import SqliteStore
from forum.tlog import Hash
from forum.verify import Report, Trust, verify_bundle, verify_ledger
from tests.engine.office import KINDS, RUN, Office, now
from tests.support import fresh_origin, key_of
from tests.verify.world import Kept, SegmentsHere, policy_of


@dataclass
class Line:
    """One entry, to be written anew."""

    id: str
    strand: str
    step: str
    actor: str
    facts: Facts
    ts: int
    parents: list[str] = field(default_factory=list)
    """The ids of other lines."""
    bodies: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    salts: dict[str, bytes] = field(default_factory=dict)
    """Those of the bodies: a seed follows from the commitments to replies."""

    def salt(self, body: str) -> bytes:
        """Return the salt of a body; one that was added gets any."""
        return self.salts.get(body, b"s" * SALT_SIZE)

    def alter(self, **members: Any) -> None:  # noqa: ANN401
        """Have it state other facts."""
        self.facts = msgspec.structs.replace(self.facts, **members)

    def rewrite(self, body: str, change: Callable[[bytes], bytes]) -> None:
        """Have it say something else."""
        data, media = self.bodies[body]
        changed = change(data)
        assert changed != data, "nothing was forged"
        self.bodies[body] = changed, media


class Story:
    """The record of a session, line by line."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def copy(self) -> "Story":
        """Return one that can be altered."""
        return Story(
            [replace(line, parents=[*line.parents], bodies={**line.bodies}) for line in self.lines]
        )

    def of(self, strand: str, kind: type[Facts] | None = None) -> list[Line]:
        """Return the lines of a strand, or those of one kind."""
        own = [line for line in self.lines if line.strand == strand]
        return [line for line in own if kind is None or isinstance(line.facts, kind)]

    def one(self, strand: str, kind: type[Facts]) -> Line:
        """Return the first line of a kind."""
        return self.of(strand, kind)[0]

    def step(self, step: str) -> Line:
        """Return a note of the main strand."""
        return next(line for line in self.of(MAIN_STRAND) if line.step == step)

    def drop(self, *lines: Line, instead: Line | None = None) -> None:
        """Leave lines out; what they led to no longer names them, or another one instead."""
        gone = {line.id for line in lines}
        self.lines = [line for line in self.lines if line.id not in gone]
        for line in self.lines:
            named = [parent for parent in line.parents if parent not in gone]
            lost = len(named) < len(line.parents)
            line.parents = [*named, instead.id] if lost and instead else named

    def drop_turns(self, *names: str) -> None:
        """Leave turns out."""
        for name in names:
            self.drop(*self.of(f"turn/{name}"))

    def move(self, line: Line, before: Line | None = None, after: Line | None = None) -> None:
        """Have a line written before or after another one."""
        self.lines.remove(line)
        target = before or after
        assert target is not None
        self.lines.insert(self.lines.index(target) + (after is not None), line)

    def repeat_turn(self, name: str, other: str, before: Line) -> None:
        """Write a turn once more, under another name."""
        copies = [
            replace(line, id=f"{line.id}/{other}", strand=f"turn/{other}", bodies={**line.bodies})
            for line in self.of(f"turn/{name}")
        ]
        at = self.lines.index(before)
        self.lines[at:at] = copies


def story_of(office: Office, run: str = RUN) -> Story:
    """Return the record of a run."""
    return Story(
        [
            Line(
                leaf.hex(),
                entry.strand,
                entry.step,
                entry.actor,
                facts=entry.facts,
                ts=entry.ts,
                parents=list(entry.parents),
                bodies={
                    name: (office.body(entry, name), body.type)
                    for name, body in entry.bodies.items()
                },
                salts={
                    name: stored.salt
                    for name in entry.bodies
                    if (stored := stored_body(office.store, entry, name)) is not None
                },
            )
            for leaf, entry in office.told(run)
        ]
    )


def minutes_of(story: Story) -> SessionEntries:
    """Return the same as a verifier has it once links, proofs and bodies were checked."""
    kinds = {kind.facts: kind.name for kind in KINDS}
    counts: Counter[str] = Counter()
    leaves = {line.id: Hash(sha256(line.id.encode()).digest()) for line in story.lines}
    entries = []
    bodies: dict[tuple[int, str], bytes] = {}
    for index, line in enumerate(story.lines):
        place = (FORMAT, "log", RUN, line.strand, counts[line.strand], "")
        parents = tuple(leaves[parent].hex() for parent in line.parents if parent in leaves)
        committed = {
            n: Body(n, m, BytesContent(data), line.salt(n)).commitment()
            for n, (data, m) in line.bodies.items()
        }
        said = (line.step, line.ts, line.actor, kinds[type(line.facts)], parents, line.facts)
        entries.append(IndexedEntry(index, leaves[line.id], Entry(*place, *said, committed)))
        bodies |= {(index, name): data for name, (data, _) in line.bodies.items()}
        counts[line.strand] += 1
    return SessionEntries(
        RUN,
        entries,
        lambda where, name: StoredBody(b"", BytesContent(bodies[where.index, name]).chunks),
    )


class Forgery:
    """A ledger with one forged session."""

    def __init__(self, store: Store, story: Story) -> None:
        self._store, self._key = store, key_of(store.origin)
        self._now = now()
        self.ledger = Ledger(store, KINDS, lambda: self._now, lambda: b"s" * 32)
        self.ledger.initialize("tests/1", self._key.verifier())
        self._guard = Kept()
        self._ids: dict[str, Hash] = {}
        self._strands: dict[str, Strand] = {}
        for line in story.lines:
            self._write(line)

    def _write(self, line: Line) -> None:
        self._now = line.ts
        if isinstance(line.facts, RunOpenFacts):
            self._strands[MAIN_STRAND] = self.ledger.open_run(RUN, line.actor)
            return
        if isinstance(line.facts, RunCloseFacts):
            self.ledger.close_run(self._strands[MAIN_STRAND], line.actor, line.facts.outcome)
            return
        if line.strand not in self._strands:
            self._strands[line.strand] = self.ledger.open_strand(RUN, line.strand)
        parents = tuple(self._ids[parent] for parent in line.parents if parent in self._ids)
        bodies = tuple(
            Attachment(n, BytesContent(data), m, line.salt(n))
            for n, (data, m) in line.bodies.items()
        )
        draft = Draft(line.step, line.actor, line.facts, parents, bodies=bodies)
        self._ids[line.id] = self._strands[line.strand].append(draft)[0].leaf

    def sign(self) -> None:
        """Sequence and sign all of it."""
        Sequencer(self._store).drain()
        policy = policy_of(self._key)
        Publisher(self._store, self._key, self._guard, policy).sign()

    @property
    def trust(self) -> Trust:
        """Whom a reader trusts: the operator's very key."""
        return Trust((self._key.verifier(),))

    def verify(self, kinds: Kinds = KINDS) -> Report:
        """Verify the whole ledger, in one piece and in segments, which must say the same."""
        moment = now()
        with self._store.snapshot() as reader:
            whole = verify_ledger(reader, kinds, self.trust, moment)
            with (
                patch("forum.verify.ledger_audit._CHUNK_ENTRIES", 4),
                patch("forum.verify.ledger_audit.SEGMENT_ENTRIES", 4),
            ):
                runner = SegmentsHere(reader, kinds)
                cut = verify_ledger(reader, kinds, self.trust, moment, runner=runner)
        assert cut == whole
        return whole

    def bundle(self) -> bytes:
        """Export the session."""
        with self._store.snapshot() as reader:
            return gather_bundle(
                reader, KINDS, RUN, policy_of(self._key), verifier=b"# verify.py\n"
            ).encode()

    def verify_bundle(self) -> Report:
        """Verify what was exported."""
        return verify_bundle(self.bundle(), KINDS, self.trust)


@contextmanager
def forged(folder: Path, story: Story) -> Iterator[Forgery]:
    """Write a ledger with this story, and sign it."""
    store = SqliteStore(folder / "forged.db", fresh_origin())
    try:
        forgery = Forgery(store, story)
        forgery.sign()
        yield forgery
    finally:
        store.close()
