"""A witness that reads the log before it cosigns: what a bundle cannot show, it finds."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.errors import WitnessRefused
from forum.features.witness.client import WitnessClient
from forum.features.witness.service import audit_with
from forum.features.witness.witness import Witness
from forum.ledger.bundle import gather_bundle
from forum.ledger.kinds import LEDGER_KINDS, Outcome, RedactionReason
from forum.stores.log_auditor import LogAuditor
from forum.stores.parallel_verify import LedgerAddress
from forum.verify import AuditReport, State, Trust
from tests.verify.samples import standalone, stranger, verify_both
from tests.verify.world import Kept, World, policy_of, remark, witness_key

AUDITOR = "auditor.example/w"
PLAIN = "plain.example/w"


class Audited:
    """A log with a plain witness and an auditing one."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder, PLAIN)
        self.folder, self.path = folder / "witness", folder / "ledger.db"
        self.reports: list[AuditReport] = []
        source = LedgerAddress("", file=str(self.path))
        self.auditor = LogAuditor(
            self.folder,
            sources=[source],
            kinds=KINDS,
            clock=lambda: self.world.now,
            report=self.reports.append,
        )
        key, logs = self.world.key, {self.world.key.name: (self.world.key.verifier(),)}
        memory = Kept()
        self.witness = Witness(
            witness_key(AUDITOR),
            logs=lambda: logs,
            memory=lambda _: memory,
            clock=lambda: self.world.now,
            audit=audit_with(self.auditor),
        )
        self.world.policy = policy_of(key, witness_key(PLAIN), witness_key(AUDITOR))
        self.plain = Trust(policy=policy_of(key, witness_key(PLAIN)))
        self.strict = Trust(policy=policy_of(key, witness_key(PLAIN), witness_key(AUDITOR)))

    def settle(self) -> tuple[WitnessRefused, ...]:
        """Sequence, sign, and ask both; return who refused."""
        plain = self.world.witnesses[PLAIN]
        return self.world.settle(
            WitnessClient(PLAIN, plain.add_checkpoint),
            WitnessClient(AUDITOR, self.witness.add_checkpoint),
        ).refused

    def bundle(self, run: str) -> bytes:
        """Export a run."""
        with self.world.store.snapshot() as reader:
            policy = self.world.policy
            return gather_bundle(
                reader, LEDGER_KINDS, run, policy, verifier=b"# verify.py\n"
            ).encode()

    def forget(self, run: str) -> None:
        """Free the positions of a run, as its owner can: its entries stay in the tree."""
        with sqlite3.connect(self.path) as db:
            db.execute("UPDATE strand SET run = run || '-hidden' WHERE run = ?", (run,))
        db.close()
        self.world.store._strand_ids.value.clear()  # noqa: SLF001


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    """Return a log that two witnesses know."""
    return Audited(tmp_path)


def test_an_honest_log_is_cosigned_as_it_grows(audited: Audited) -> None:
    """Each entry is read once, and the report says whether bodies were there."""
    audited.world.run("first")
    first = audited.settle()
    main = audited.world.open("second")
    second = audited.settle()
    main.append(remark("note", "words"))
    audited.world.close(main)

    assert (first, second, audited.settle()) == ((), (), ())
    assert [report.entries for report in audited.reports] == [5, 1, 2]
    assert [report.bodies_seen for report in audited.reports] == [2, 0, 2]
    assert audited.world.verify(audited.strict).ok


def test_a_run_recorded_twice_has_two_bundles_and_one_of_them_is_refused(
    audited: Audited,
) -> None:
    """Each shows one version without a gap; only who reads the whole log sees both."""
    audited.world.run("run", "it was approved")
    assert not audited.settle()
    before = audited.bundle("run")
    audited.forget("run")
    audited.world.run("run", "it was rejected")
    refused = audited.settle()
    behind = audited.bundle("run")

    # Under a policy that asks for no audit both are complete, and both say what that leaves open.
    for bundle in (before, behind):
        report = verify_both(bundle, audited.plain, stranger(audited.plain))
        assert report.ok
        assert "whether the log holds another version of this run was not checked" in (
            report.complete.reason
        )
        assert standalone.verify(bundle, stranger(audited.plain))["complete"]["reason"] == (
            report.complete.reason
        )
    # The auditor saw the first version, and does not cosign a log that holds both.
    assert [error.witness for error in refused] == [AUDITOR]
    assert "after-close" in str(refused[0])
    assert verify_both(before, audited.strict, stranger(audited.strict)).ok
    second = verify_both(behind, audited.strict, stranger(audited.strict))
    assert [str(finding.problem) for finding in second.findings] == ["not-witnessed"]
    assert second.independent.state is State.FAILS


def test_what_was_found_is_listed_and_the_log_stays_refused(audited: Audited) -> None:
    """Whoever runs the log must learn what is wrong; time does not make it right."""
    audited.world.run("run")
    audited.settle()
    audited.forget("run")
    audited.world.run("run", "other words")
    audited.settle()
    audited.world.run("next")
    assert audited.settle()
    kept = audited.auditor.latest_report(audited.world.key.name)
    assert kept is not None
    report = msgspec.json.decode(kept, type=AuditReport)

    assert not report.held
    assert (report.audited_size, report.asked_size) == (5, 11)
    assert report.findings[0].problem == "after-close"
    assert report.findings[0].index == 5


def test_an_erased_body_is_explained_by_its_redaction(audited: Audited) -> None:
    """A witness that comes later reads a log from which bodies were erased rightly."""
    audited.world.run("first")
    audited.world.settle()
    target = audited.world.ledger.find_entry("first/main/1")
    audited.world.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    audited.world.settle()
    audited.world.ledger.erase_redacted()

    assert audited.settle() == ()
    assert audited.reports[-1].bodies_redacted == 1


def test_a_log_that_cannot_be_read_is_not_cosigned(audited: Audited, tmp_path: Path) -> None:
    """Not to know is no reason to sign; the log asks again."""
    audited.world.run("first")
    audited.auditor._sources = [LedgerAddress("", file=str(tmp_path / "none.db"))]  # noqa: SLF001
    audited.settle()

    assert audited.witness.latest_checkpoint(audited.world.key.name) is None


_MEASURE = """
import sys
from pathlib import Path
from forum.app.clock_ids_and_kinds import KINDS
from forum.stores.log_auditor import LogAuditor
from forum.stores.parallel_verify import LedgerAddress
from forum.stores.sqlite import open_reader
from forum.tlog import parse_checkpoint
with open_reader(Path(sys.argv[1]), sys.argv[2]) as reader:
    target = parse_checkpoint(reader.checkpoint())
auditor = LogAuditor(Path(sys.argv[3]), [LedgerAddress("", file=sys.argv[1])], KINDS, lambda: 1)
assert auditor.audit(target).held
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_memory_does_not_grow_with_the_log(audited: Audited, tmp_path: Path) -> None:
    """What is known of runs and strands is on disk."""
    grown = []
    for entries in (1_000, 60_000):
        for number in range(entries // 500):
            run = audited.world.ledger.open_run(f"run-{entries}-{number}", "tester")
            run.append(*(remark(f"step/{n}") for n in range(498)))
            audited.world.ledger.close_run(run, "tester", Outcome.OK)
        audited.world.sign()
        folder = tmp_path / f"witness-{entries}"
        command = [sys.executable, "-c", _MEASURE, str(audited.path), audited.world.key.name]
        done = subprocess.run([*command, str(folder)], check=True, capture_output=True)
        grown.append(int(done.stdout) / 1024)

    assert grown[1] - grown[0] < 64  # MiB
