"""A small world for verification: one log, its signer, its witnesses, and a clock to turn."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from forum.errors import ConcurrentUpdate, ForumError
from forum.features.witness.client import WitnessClient
from forum.features.witness.witness import Witness
from forum.ledger.body import text_content
from forum.ledger.kinds import LEDGER_KINDS, Kinds, NoteFacts, Outcome, WitnessedFacts
from forum.ledger.log import Ledger
from forum.ledger.own_entries import WITNESSED_STRAND
from forum.ledger.ports import Cosigner, Reader
from forum.ledger.sequencer import Publication, Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft, RecordedEntry, Strand
from forum.stores.sqlite import SqliteStore
from forum.tlog import (
    ED25519_COSIGNATURE,
    Hash,
    KnownLog,
    KnownWitness,
    Signature,
    SigningKey,
    WitnessGroup,
    WitnessPolicy,
    parse_checkpoint,
)
from forum.verify import (
    Problem,
    Report,
    Segment,
    SegmentSummary,
    SessionSummary,
    Trust,
    check_segment,
    check_session,
    verify_ledger,
)
from tests.support import fresh_origin, key_of

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
LOCAL, REMOTE = "forum.local/witness/1", "witness.example/w"


class Kept:
    """A memory that is lost with the process."""

    def __init__(self, note: bytes | None = None) -> None:
        self.note = note

    def latest(self) -> bytes | None:
        """Return the note, or nothing when there never was one."""
        return self.note

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace old by new."""
        if self.note != old:
            raise ConcurrentUpdate("what is kept")
        self.note = new


def witness_key(name: str) -> SigningKey:
    """Return the key of a witness, another for each name."""
    return SigningKey(name.encode().ljust(32, b".")[:32], name, ED25519_COSIGNATURE)


def policy_of(log: SigningKey, *witnesses: SigningKey, url: str | None = None) -> WitnessPolicy:
    """Return the policy that asks for all of these witnesses."""
    known_witnesses = tuple(
        KnownWitness(f"w{n}", w.verifier(), url) for n, w in enumerate(witnesses)
    )
    names = tuple(witness.name for witness in known_witnesses)
    groups = (WitnessGroup("all", len(names), names),) if names else ()
    return WitnessPolicy(
        (KnownLog(log.verifier()),), known_witnesses, groups, "all" if names else "none"
    )


class World:
    """One log and everybody who has to do with it."""

    def __init__(
        self,
        folder: Path,
        *witnesses: str,
        origin: str | None = None,
        kinds: Kinds = LEDGER_KINDS,
        begun: bool = True,
    ) -> None:
        self.folder = folder
        self.now, self.skew = START, 0
        self.key = key_of(origin or fresh_origin())
        self.store = SqliteStore(folder / "ledger.db", self.key.name)
        self.ledger = Ledger(
            self.store, kinds, lambda: self.now + self.skew, lambda: secrets.token_bytes(32)
        )
        self.guard = Kept()
        self.memory = {name: Kept() for name in witnesses}
        self.witnesses = {name: self._witness(name) for name in witnesses}
        self.policy = policy_of(self.key, *map(witness_key, witnesses))
        if begun:
            self.ledger.initialize("tests/1", self.key.verifier())

    def _witness(self, name: str) -> Witness:
        logs = {self.key.name: (self.key.verifier(),)}
        memory = self.memory[name]
        return Witness(witness_key(name), lambda: logs, lambda _: memory, lambda: self.now)

    @property
    def trust(self) -> Trust:
        """What a reader trusts who knows the log and its witnesses."""
        return Trust(policy=self.policy)

    def settle(self, *asked: Cosigner) -> Publication:
        """Sequence, sign, and ask the witnesses; or those who are given."""
        Sequencer(self.store).drain()
        return self.publish(*asked)

    def publish(self, *asked: Cosigner) -> Publication:
        """Sign the tree as it stands, and ask the witnesses; or those who are given."""
        own = [WitnessClient(name, w.add_checkpoint) for name, w in self.witnesses.items()]
        return Publisher(
            self.store,
            self.key,
            self.guard,
            self.policy,
            cosigners=asked or own,
            clock=lambda: self.now,
        ).publish()

    def sign(self) -> bytes:
        """Sequence and sign, and ask nobody."""
        Sequencer(self.store).drain()
        return Publisher(self.store, self.key, self.guard, self.policy).sign()

    def verify(
        self, trust: Trust | None = None, after: float = 0, remembered: Sequence[bytes] = ()
    ) -> Report:
        """Verify the log, some seconds from now."""
        trust = trust or Trust(policy=self.policy, remembered=tuple(remembered))
        now = self.now + int(after * SECOND)
        with self.store.snapshot() as reader:
            assert_cut_does_not_matter(reader, LEDGER_KINDS, trust, now)
            return verify_ledger(reader, LEDGER_KINDS, trust, now)

    def open(self, run: str = "run") -> Strand:
        """Open a run."""
        return self.ledger.open_run(run, "tester")

    def close(self, main: Strand) -> None:
        """Close a run."""
        self.ledger.close_run(main, "tester", Outcome.OK)

    def run(self, run: str = "run", words: str = "hello") -> RecordedEntry:
        """Write a run with one remark, and return that."""
        main = self.open(run)
        (recorded,) = main.append(remark("note", words))
        self.close(main)
        return recorded


class SegmentsHere:
    """Checks segments one after another in this process, as others would in theirs."""

    def __init__(self, reader: Reader, kinds: Kinds) -> None:
        self._reader, self._kinds = reader, kinds

    def run_segments(
        self, segments: Sequence[Segment], times: dict[tuple[int, str], int]
    ) -> Iterator[SegmentSummary | None]:
        """Yield what came of each segment."""
        for segment in segments:
            yield check_segment(self._reader, self._kinds, times, segment)

    def run_sessions(self, runs: Sequence[str], size: int) -> Iterator[SessionSummary | None]:
        """Yield what came of each deliberation."""
        for run in runs:
            yield check_session(self._reader, self._kinds, run, size)


def junk_lines(count: int) -> list[str]:
    """Return signature lines of keys that nobody knows."""
    return [str(Signature(f"junk/{n}", bytes(4), b"\0")) for n in range(count)]


def record_forged(world: World, records: Iterable[WitnessedFacts]) -> None:
    """Record cosignatures, as somebody with the write key and the database can."""
    for number, facts in enumerate(records):
        draft = Draft(f"forged/{facts.size}/{number}", "tester", facts)
        world.ledger.append_log_entry(draft, WITNESSED_STRAND)
    # An honest sequencer sets the rows aside: nobody else writes to its strand.
    with patch("forum.ledger.own_entries.is_foreign_to_own", return_value=False):
        Sequencer(world.store).drain()


def record_junk(world: World, note: bytes, lines: Sequence[str]) -> None:
    """Record lines of a signed checkpoint in this way."""
    checkpoint = parse_checkpoint(note)
    count = 3000 // (3 + max(len(line.encode()) for line in lines))
    parts = (tuple(lines[start : start + count]) for start in range(0, len(lines), count))
    record_forged(
        world, (WitnessedFacts(checkpoint.size, checkpoint.root.hex(), part) for part in parts)
    )


def assert_cut_does_not_matter(reader: Reader, kinds: Kinds, trust: Trust, now: int) -> None:
    """Verify as one process and in segments of a few entries: whatever is wrong, both say it.

    Every test of a fraud passes here, so each of them is also a test of the segments.
    """
    for step, segment in ((3, 3), (2, 5), (4, 1), (7, 20)):
        with (
            patch("forum.verify.ledger_audit._CHUNK_ENTRIES", step),
            patch("forum.verify.ledger_audit.SEGMENT_ENTRIES", segment),
        ):
            try:
                whole = verify_ledger(reader, kinds, trust, now)
            except ForumError as error:
                with pytest.raises(type(error)):
                    verify_ledger(reader, kinds, trust, now, runner=SegmentsHere(reader, kinds))
                continue
            cut = verify_ledger(reader, kinds, trust, now, runner=SegmentsHere(reader, kinds))
        assert cut == whole


def remark(step: str, words: str | None = None, *parents: Hash) -> Draft:
    """Return a remark, with a body if there are words."""
    bodies = (Attachment("text", text_content(words)),) if words is not None else ()
    return Draft(step, actor="tester", facts=NoteFacts(), parents=parents, bodies=bodies)


def problems(report: Report) -> list[Problem]:
    """Return what was found, in the order in which it was found."""
    return [finding.problem for finding in report.findings]
