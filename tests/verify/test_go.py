"""The verifier in Go, as strangers run it.

What it says of honest and forged bundles is compared in every test that verifies one (samples.py).
"""

import subprocess
from pathlib import Path

import pytest

from forum.ledger.bundle import Bundle
from forum.ledger.entry import Entry, leaf_of
from forum.ledger.kinds import LEDGER_KINDS, RunOpenFacts
from forum.tlog import (
    ED25519_COSIGNATURE,
    Checkpoint,
    Note,
    Signature,
    SigningKey,
    TlogProof,
    cosign,
    is_local_witness,
    sign_checkpoint,
)
from tests.tlog.trees import view_in_memory
from tests.verify.go_verifier import go_verifier
from tests.verify.samples import LOG, ORIGIN, POLICY, RUN, SECOND, STARTED, WITNESS, verify_both

pytestmark = pytest.mark.go


def run_go(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    program = go_verifier()
    if program is None:
        pytest.skip("no Go toolchain (Debian: golang-go)")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def one_entry(*more: Signature) -> bytes:
    """Return a bundle of a log that has a single entry."""
    entry = Entry(
        v="forum/entry/1",
        log=ORIGIN,
        run=RUN,
        strand="main",
        n=0,
        prev="",
        step="open",
        ts=STARTED * SECOND,
        actor="writer",
        kind="run.open/1",
        parents=(),
        facts=RunOpenFacts(),
        bodies={},
    )
    data = LEDGER_KINDS.write(entry)
    root = view_in_memory([leaf_of(data)]).root()
    signed = sign_checkpoint(Checkpoint(ORIGIN, 1, root), LOG)
    cosigned = cosign(signed.text, WITNESS, STARTED)
    note = Note(signed.text, (*signed.signatures, cosigned, *more))
    proofs = {0: TlogProof(0, (), note)}
    return Bundle(
        ORIGIN, run=RUN, checkpoint=note.encode(), entries={0: data}, proofs=proofs, bodies={}
    ).encode()


def test_it_verifies_a_log_of_one_entry(tmp_path: Path) -> None:
    """An open run is not complete, which is no lie: the status is that of verify.py."""
    (tmp_path / "b.zip").write_bytes(one_entry())
    (tmp_path / "trust").write_bytes(POLICY.encode())

    report = verify_both(one_entry())
    completed = run_go(tmp_path / "b.zip", "--policy", tmp_path / "trust")

    assert str(report.intact.state) == "holds"
    assert completed.returncode == 3
    assert "intact       holds" in completed.stdout
    assert "complete     not checked" in completed.stdout


def test_lines_of_other_keys_with_the_name_of_the_log_change_nothing(tmp_path: Path) -> None:
    """A note has up to 64 lines, and one name may have many keys: only the ids tell them apart."""
    others = [Signature(ORIGIN, bytes([n] * 4), bytes(64)) for n in range(1, 60)]
    (tmp_path / "b.zip").write_bytes(one_entry(*others))
    (tmp_path / "trust").write_bytes(POLICY.encode())

    report = verify_both(one_entry(*others))
    completed = run_go(tmp_path / "b.zip", "--policy", tmp_path / "trust")

    assert str(report.intact.state) == "holds"
    assert "intact       holds" in completed.stdout


def test_a_witness_is_local_by_the_same_letters_as_elsewhere(tmp_path: Path) -> None:
    """The lower case of Go makes ASCII of a letter that other languages keep."""
    (tmp_path / "b.zip").write_bytes(one_entry())
    statuses = {}
    for name in ("Forum.Local/Witness/1", "forum.local/w\u0130tness/1"):
        witness = SigningKey(b"w" * 32, name, ED25519_COSIGNATURE).verifier()
        lines = [f"log {LOG.verifier()}", f"witness w {witness}", "independent w", "quorum w", ""]
        (tmp_path / "trust").write_text("\n".join(lines))
        completed = run_go(tmp_path / "b.zip", "--policy", tmp_path / "trust")
        statuses[name] = completed.returncode == 2, is_local_witness(name)

    assert [*statuses.values()] == [(True, True), (False, False)]


def test_wrong_usage_has_the_status_2(tmp_path: Path) -> None:
    """A script must be able to tell a wrong call from a forged bundle."""
    (tmp_path / "b.zip").write_bytes(one_entry())
    (tmp_path / "trust").write_text("log \x1b[2J\n")

    wrong = [
        run_go(),
        run_go("--policy"),
        run_go(tmp_path / "none.zip"),
        run_go(tmp_path / "b.zip", "--policy", tmp_path / "trust"),
        run_go(tmp_path / "b.zip", "--key", "\x1b[2J"),
    ]

    assert [completed.returncode for completed in wrong] == [2] * len(wrong)
    assert not any("\x1b" in completed.stdout + completed.stderr for completed in wrong)
