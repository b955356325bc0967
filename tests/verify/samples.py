"""A small ledger with fixed keys, clock and salts, the bundle of one of its runs, two verifiers.

The run has two strands, a cause outside of it, a body that was redacted after an export, and
checkpoints before and behind it: every kind of file that a bundle can hold is in its bundle.
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from forum.errors import WitnessUnreachable
from forum.ledger.body import text_content
from forum.ledger.bundle import Bundle, gather_bundle
from forum.ledger.kinds import LEDGER_KINDS, JoinFacts, NoteFacts, Outcome, RedactionReason
from forum.ledger.log import Ledger
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.span_files import MAX_BODY_BYTES
from forum.ledger.strand import Attachment, Draft, Strand
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.stores.sqlite import SqliteStore
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import (
    ED25519_COSIGNATURE,
    Hash,
    KnownLog,
    KnownWitness,
    Note,
    SigningKey,
    WitnessPolicy,
    cosign,
)
from forum.verify import Report, Trust, verify_bundle
from tests.verify.go_verifier import go_verifier, verify_by_go
from tests.verify.page import page_verifier

STANDALONE = Path(__file__).parents[2] / "src/forum/verify/standalone.py"

ORIGIN = "example.com/ledger"
LOG = SigningKey(bytes(range(32)), ORIGIN)
WITNESS = SigningKey(b"w" * 32, "forum.local/witness/1", ED25519_COSIGNATURE)
POLICY = WitnessPolicy(
    (KnownLog(LOG.verifier()),), (KnownWitness("local", WITNESS.verifier()),), (), "local"
)
TRUST = Trust(policy=POLICY)

RUN = "0192d000-0000-7000-8000-000000000001"
OTHER_RUN = "0192d000-0000-7000-8000-000000000002"
TASK = "task/1"
STARTED = 1_700_000_000
SECOND = 1_000_000

Files = dict[str, bytes]


class LocalWitness:
    """Cosigns whatever it is shown, at the time of a clock that it shares with the writer."""

    def __init__(self, key: SigningKey, clock: Callable[[], int]) -> None:
        self.name, self._key = key.name, key
        self._clock = clock
        self.asleep = False

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature line."""
        if self.asleep:
            raise WitnessUnreachable(self.name, "asleep")
        return f"{cosign(Note.parse(note).text, self._key, self._clock() // SECOND)}\n"


class World:
    """A ledger in a folder, with everything that has a choice in it fixed."""

    def __init__(
        self, folder: Path, log: SigningKey = LOG, witness: SigningKey | None = WITNESS
    ) -> None:
        self.clock = count(STARTED * SECOND, SECOND).__next__
        salts = (sha256(b"salt %d" % n).digest() for n in count())
        self.store = SqliteStore(folder / "ledger", log.name)
        self.ledger = Ledger(self.store, LEDGER_KINDS, self.clock, salts.__next__)
        self.policy = WitnessPolicy((KnownLog(log.verifier()),), (), (), "none")
        if witness is not None:
            known_witness = KnownWitness("local", witness.verifier())
            self.policy = WitnessPolicy((KnownLog(log.verifier()),), (known_witness,), (), "local")
        self.witnesses = [LocalWitness(witness, self.clock)] if witness else []
        guard = FileCheckpointStore(folder / "guard")
        self._publisher = Publisher(
            self.store, key=log, guard=guard, policy=self.policy, cosigners=self.witnesses
        )
        self.ledger.initialize("forumd/0", log.verifier())
        self.settle()

    def settle(self) -> bytes:
        """Sequence, sign and have witnessed what is there."""
        Sequencer(self.store).drain()
        return self._publisher.publish().note

    def remark(
        self, strand: Strand, step: str, words: str | None = None, *parents: Hash | None
    ) -> Hash:
        """Record a remark, with a body if there are words."""
        bodies = () if words is None else (Attachment("text", text_content(words)),)
        causes = tuple(parent for parent in parents if parent)
        return strand.append(
            Draft(step, actor="agent", facts=NoteFacts(), parents=causes, bodies=bodies)
        )[0].leaf

    def bundle(self, run: str = RUN, verifier: bytes = b"# verify.py\n") -> Bundle:
        """Gather the evidence of a run."""
        with self.store.snapshot() as reader:
            return gather_bundle(reader, LEDGER_KINDS, run, self.policy, verifier=verifier)

    def close(self) -> None:
        """Let go of the file."""
        self.store.close()


def write_run(world: World, *, close: bool = True) -> Strand:
    """Record a run of two strands."""
    main = world.ledger.open_run(RUN, "operator")
    cause = world.ledger.find_entry("0").leaf
    asked = world.remark(main, "ask", "What is the answer?", main.head, cause)
    task = world.ledger.open_strand(RUN, TASK)
    world.remark(task, "think", "a secret", asked)
    answered = world.remark(task, "answer", "42", task.head)
    main.append(Draft("join", "system", JoinFacts(), (answered,)))
    if close:
        world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    return main


def write_story(world: World) -> None:
    """Record a run, export it, redact one of its bodies, and go on with another run."""
    write_run(world)
    world.ledger.record_export(RUN, 7, 9, "operator")
    target = world.ledger.find_entry(f"{RUN}/{TASK}/0")
    world.ledger.request_redaction(target, "text", "operator", RedactionReason.SECRET)
    world.settle()
    world.ledger.erase_redacted()
    other = world.ledger.open_run(OTHER_RUN, "operator")
    world.ledger.close_run(other, "operator", Outcome.OK)
    world.settle()


def make_bundle(folder: Path, verifier: bytes = b"# verify.py\n", *, share: bool = True) -> bytes:
    """Return the bundle that most tests alter; without `share`, as earlier releases wrote it."""
    world = World(folder)
    try:
        write_story(world)
        return world.bundle(verifier=verifier).encode(share=share)
    finally:
        world.close()


def load_standalone() -> Any:  # noqa: ANN401  a module that nobody imports by its name
    """Run the file that strangers run, as a module."""
    spec = spec_from_file_location("standalone_verifier", STANDALONE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


standalone = load_standalone()
verify_alone = standalone.verify
"""The stand-alone verifier without a comparison."""


def verify_and_compare(data: bytes, trust: Any) -> dict[str, Any]:  # noqa: ANN401  of that module
    """Verify with the stand-alone file; page and Go, where they can run, must say the same."""
    report: dict[str, Any] = verify_alone(data, trust)
    page = page_verifier()
    if page and (trust.policy is None or hasattr(trust.policy, "text")):
        assert page.verify(data, trust, standalone.MAX_FILES) == report
    if (
        go_verifier()
        and standalone.MAX_FILES == 0xFFFF
        and (trust.policy is None or hasattr(trust.policy, "text"))
    ):
        assert without_wording(verify_by_go(data, trust)) == without_wording(report)
    return report


# Whatever a test has verified by the stand-alone file is compared, without its asking.
standalone.verify = verify_and_compare


def stranger(trust: Trust) -> Any:  # noqa: ANN401  a value of that module
    """Return the same trust as the stand-alone verifier has it."""
    keys = [standalone.read_key(str(key)) for key in trust.keys]
    policy = None
    if trust.policy:
        policy = standalone.BundlePolicy(trust.policy.encode())
        policy.text = trust.policy.encode()  # the page reads it itself
    return standalone.BundleTrust(keys, policy, list(trust.remembered))


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as `--json` prints it."""
    findings = [{**msgspec.to_builtins(f), "claim": f.problem.claim} for f in report.findings]
    whole = {
        "schema": "forum.report/1",
        "ok": report.ok,
        **msgspec.to_builtins(report),
        "findings": findings,
    }
    parsed: dict[str, Any] = json.loads(json.dumps(whole))
    return parsed


def without_wording(report: dict[str, Any]) -> dict[str, Any]:
    """Return all of a report but what two programs may say in their own words."""
    kept = {**report, "findings": [{**f, "detail": ""} for f in report["findings"]]}
    for claim in ("intact", "complete", "independent"):
        if report[claim]["state"] == "fails":
            kept[claim] = "fails"
    return kept


def verify_both(
    data: bytes,
    trust: Trust = TRUST,
    other: Any = None,  # noqa: ANN401  of the stand-alone module
    max_bytes: int = MAX_BODY_BYTES,
) -> Report:
    """Verify with Forum and with the stand-alone file, which must say the same."""
    report = verify_bundle(data, LEDGER_KINDS, msgspec.structs.replace(trust, max_bytes=max_bytes))
    whom = other or stranger(trust)
    stated = standalone.verify(data, whom._replace(max_bytes=max_bytes))
    assert without_wording(stated) == without_wording(as_json(report))
    return report


def problems(report: Report) -> set[str]:
    """Return the names of what was found."""
    return {str(finding.problem) for finding in report.findings}


def seal(files: Files, **document: str) -> bytes:
    """Pack files into a bundle with a manifest that fits them, as a forger would."""
    listed = {name: data for name, data in files.items() if name != "manifest.json"}
    manifest = {**json.loads(files["manifest.json"]), **document}
    manifest["files"] = [
        [name, len(listed[name]), sha256(listed[name]).hexdigest()] for name in sorted(listed)
    ]
    line = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    return pack_archive({**listed, "manifest.json": line.encode()})


def without(data: bytes, *prefixes: str) -> bytes:
    """Return a bundle without the files whose names begin like this, its manifest repaired."""
    return seal({n: d for n, d in unpack_archive(data).items() if not n.startswith(prefixes)})


def altered(data: bytes, **document: str) -> bytes:
    """Return a bundle whose manifest says something else."""
    return seal(unpack_archive(data), **document)
