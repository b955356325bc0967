"""Whatever a writer with the right keys records, however wrong: both verifiers say the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from forum.ledger.body import compute_commitment
from forum.ledger.bundle import Bundle, PastCheckpoint
from forum.ledger.entry import Commitment, Entry, Facts, leaf_of
from forum.ledger.kinds import (
    LEDGER_KINDS,
    HoldAct,
    HoldFacts,
    JoinFacts,
    LogOpenFacts,
    NoteFacts,
    Outcome,
    RedactionBatchFacts,
    RedactionFacts,
    RedactionReason,
    RedactionV3Facts,
    RunCloseFacts,
    RunOpenFacts,
)
from forum.tlog import (
    ED25519_COSIGNATURE,
    Checkpoint,
    KnownWitness,
    Note,
    SigningKey,
    TlogProof,
    TreeView,
    WitnessGroup,
    WitnessPolicy,
    cosign,
    prove_consistency,
    prove_inclusion,
    sign_checkpoint,
)
from forum.verify import Trust
from tests.tlog.trees import view_in_memory
from tests.verify.flips import quick_signatures
from tests.verify.samples import (
    LOG,
    ORIGIN,
    OTHER_RUN,
    POLICY,
    RUN,
    SECOND,
    STARTED,
    WITNESS,
    problems,
    verify_both,
)

RUNS = st.sampled_from([RUN, RUN, RUN, RUN, OTHER_RUN, "log"])
STRANDS = st.sampled_from(["main", "main", "a", "b", "retention"])
REDACTED_ITEMS = ["0/text", "0/text", "1/text", "0/strands", "9/text", "00/text", "0/", "text", ""]
OFFSETS = st.sampled_from([0, 0, 0, 0, -299, -301, 299, 301])
SALT = bytes(32)
SECOND_WITNESS, THIRD_WITNESS = (
    SigningKey(seed * 32, f"witness.example/{seed.decode()}", ED25519_COSIGNATURE)
    for seed in (b"2", b"3")
)
WITNESSES = (WITNESS, SECOND_WITNESS, THIRD_WITNESS)
NAMED = tuple(KnownWitness(f"w{n}", key.verifier()) for n, key in enumerate(WITNESSES))
QUORUM = WitnessPolicy(POLICY.logs, NAMED, (WitnessGroup("two", 2, ("w0", "w1", "w2")),), "two")
NESTED = WitnessPolicy(
    POLICY.logs,
    NAMED,
    (WitnessGroup("others", 1, ("w1", "w2")), WitnessGroup("both", 2, ("w0", "others"))),
    "both",
)
TRUSTS = [
    Trust(policy=POLICY),
    Trust(policy=QUORUM),
    Trust(policy=NESTED),
    Trust(policy=WitnessPolicy(POLICY.logs, NAMED, (), "none")),
    Trust((LOG.verifier(),)),
    Trust(),
]
TIMES = st.sampled_from([STARTED, STARTED, STARTED - 10, STARTED + 10, STARTED + 600])
WRONG_TIMES = st.sampled_from(
    [0, 1, STARTED - 86_400, STARTED + 86_400, 2**53 // SECOND, 2**63 - 1]
)

HELD_RUNS = st.sampled_from([(), (RUN,), (OTHER_RUN, "log")])

Drawn = tuple[Facts, dict[str, bytes]]


def rarely(draw: st.DrawFn) -> bool:
    """Draw a lie: one in eight."""
    return draw(st.integers(0, 7)) == 7


@dataclass
class Writer:
    """Writes entries that are wrong now and then, and signs them all."""

    draw: st.DrawFn
    data: list[bytes] = field(default_factory=list)
    bodies: dict[tuple[int, str], tuple[bytes, bytes]] = field(default_factory=dict)
    heads: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def write(self) -> None:
        """Record one more entry."""
        run, strand = self.draw(RUNS), self.draw(STRANDS)
        n, prev = self.heads.get((run, strand), (0, ""))
        if rarely(self.draw):
            n, prev = self.draw(st.integers(0, 3)), "ab" * 32
        facts, bodies = self.facts(run, strand)
        entry: Entry[Any] = Entry(
            v="forum/entry/1",
            log="example.com/other" if rarely(self.draw) and rarely(self.draw) else ORIGIN,
            run=run,
            strand=strand,
            n=n,
            prev=(prev or "cd" * 32) if n else "",
            step="step",
            ts=(STARTED + self.draw(OFFSETS)) * SECOND,
            actor="writer",
            kind=LEDGER_KINDS.kind_of(facts).name,
            parents=tuple(self.parents()),
            facts=facts,
            bodies={name: self.commitment(content) for name, content in bodies.items()},
        )
        self.keep(entry, bodies)

    def keep(self, entry: Entry[Any], bodies: dict[str, bytes]) -> None:
        """Take an entry into the log, and most of its bodies into the bundle."""
        index, data = len(self.data), LEDGER_KINDS.write(entry)
        self.data.append(data)
        self.heads[entry.run, entry.strand] = (entry.n + 1, leaf_of(data).hex())
        for name, content in bodies.items():
            if not rarely(self.draw):
                kept = b"another" if rarely(self.draw) else content
                self.bodies[index, name] = (SALT, kept)

    def facts(self, run: str, strand: str) -> Drawn:
        """Draw what is recorded: usually what fits, now and then something else."""
        opened = (run, strand) in self.heads
        if run == "log" and not opened:
            return LogOpenFacts("program"), {}
        if strand == "main" and opened == rarely(self.draw):
            return self.draw(st.sampled_from([RunOpenFacts(), RunOpenFacts(1, self.root(1))])), {}
        if strand == "main" and rarely(self.draw):
            return RunCloseFacts(Outcome.OK, 1), {"strands": self.ends(run)}
        if self.data and rarely(self.draw):
            return self.erasure(run, strand), {}
        return self.draw(
            st.sampled_from(
                [(JoinFacts(), {}), (NoteFacts(), {}), (NoteFacts(), {"text": b"some text"})]
            )
        )

    def erasure(self, run: str, strand: str) -> Facts:
        """Draw a redaction of any version, and in their strand a hold as well."""
        items = st.lists(st.sampled_from(REDACTED_ITEMS), max_size=3).map(tuple)
        target = leaf_of(self.draw(st.sampled_from(self.data))).hex()
        name = self.draw(st.sampled_from(["text", "strands"]))
        drawn: list[Facts] = [
            RedactionFacts(target, name, RedactionReason.LEGAL),
            RedactionBatchFacts(self.draw(items), RedactionReason.RETENTION),
            RedactionV3Facts(
                self.draw(items),
                self.draw(st.lists(RUNS, max_size=2).map(tuple)),
                RedactionReason.REQUEST,
            ),
        ]
        if (run, strand) == ("log", "retention"):
            drawn += [HoldFacts(hold, HoldAct.PLACE, self.draw(HELD_RUNS)) for hold in "ab"]
            drawn.append(HoldFacts("a", HoldAct.RELEASE))
        return self.draw(st.sampled_from(drawn))

    def ends(self, run: str) -> bytes:
        """Write the list of strands, right or wrong."""
        ends = [
            f'["{name}",{n - 1},"{head}"]'
            for (owner, name), (n, head) in sorted(self.heads.items())
            if owner == run and name != "main" and not rarely(self.draw)
        ]
        return f"[{','.join(ends)}]".encode()

    def parents(self) -> Iterator[str]:
        """Draw causes."""
        if rarely(self.draw):
            yield "ef" * 32
        if self.draw(st.booleans()) and self.data:
            yield leaf_of(self.draw(st.sampled_from(self.data))).hex()

    def commitment(self, content: bytes) -> Commitment:
        """Commit to a body, now and then with a wrong size."""
        size = len(content) + rarely(self.draw)
        return Commitment(compute_commitment(SALT, size, [content]).hex(), size, "text/plain")

    def root(self, size: int) -> str:
        """Return the root over the first entries, if there are so many."""
        return view_in_memory([leaf_of(data) for data in self.data[:size]]).root().hex()

    def bundle(self) -> Bundle:
        """Gather most of it, under a checkpoint that is signed and usually cosigned."""
        view = view_in_memory([leaf_of(data) for data in self.data])
        note = self.signed(view, view.size)
        kept = [index for index in range(view.size) if not rarely(self.draw)]
        past = self.draw(st.sets(st.integers(1, view.size)))
        return Bundle(
            origin=ORIGIN,
            run=self.draw(st.sampled_from([RUN, RUN, RUN, OTHER_RUN, "log"])),
            checkpoint=note.encode(),
            entries={index: self.data[index] for index in kept},
            proofs={i: TlogProof(i, tuple(prove_inclusion(view, i)), note) for i in kept},
            bodies=self.bodies,
            past=tuple(self.past(view, size) for size in sorted(past)),
        )

    def past(self, view: TreeView, size: int) -> PastCheckpoint:
        """Enclose an earlier checkpoint."""
        note = self.signed(view, size).encode()
        return PastCheckpoint(note, tuple(prove_consistency(view, size)))

    def signed(self, view: TreeView, size: int) -> Note:
        """Sign the tree as it was, or another one."""
        root = view.root(1 if rarely(self.draw) else size)
        note = sign_checkpoint(Checkpoint(ORIGIN, size, root), LOG)
        cosigned = [
            cosign(note.text, key, self.draw(WRONG_TIMES if rarely(self.draw) else TIMES))
            for key in WITNESSES
            if not rarely(self.draw)
        ]
        return Note(note.text, (*note.signatures, *cosigned))


@st.composite
def bundles(draw: st.DrawFn) -> bytes:
    """Draw the bundle of a run by a writer who is not always honest."""
    writer = Writer(draw)
    for _ in range(draw(st.integers(1, 12))):
        writer.write()
    return writer.bundle().encode()


@given(bundles(), st.sampled_from(TRUSTS))
def test_both_say_the_same_of_whatever_was_signed(data: bytes, trust: Trust) -> None:
    """A stolen key signs anything; which findings that leads to must not depend on the reader."""
    with quick_signatures():
        for problem in problems(verify_both(data, trust)):
            event(problem)
