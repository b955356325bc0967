"""The sample of a pack: its maker cannot know the seed, or the report says that he can."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from forum.app import KINDS
from forum.evidence import pack_file
from forum.evidence.attestation import make_statement, sign_statement
from forum.evidence.gathering import PackContents, collect_files, gather_part
from forum.evidence.report import PackReport, draw_sample, make_report
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.tlog import KnownWitness, Note, WitnessPolicy, cosign
from forum.verify import Trust, check_log_part, record_check
from forum.verify.pack_audit import (
    SEED_OF_MAKER,
    SEED_OF_UNKNOWN_WITNESSES,
    SEED_OF_WITNESSES,
)
from tests.evidence.packs import EXTRAS, Audited, make, period, verify_alone, verify_twice
from tests.verify.world import LOCAL, REMOTE, witness_key

RUNS = [f"run-{n}" for n in range(12)]
ASKED = period(1, 3, sample=3, maps=())


def write_log(folder: Path, *witnesses: str) -> Audited:
    """Return a log with runs in the period, cosigned by these witnesses."""
    world = Audited(folder, *witnesses)
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 20)
    world.at(1, 10)
    for run in RUNS:
        world.report_run(run)
    world.settle_at(1, 20)
    world.at(3, 10)
    world.report_run("last")
    world.settle_at(3, 20)
    return world


def read_report(data: bytes) -> PackReport:
    """Return the report of a pack."""
    return msgspec.json.decode(unpack_archive(data)["report.json"], type=PackReport)


def seed_lines(data: bytes, trust: Trust) -> set[str]:
    """Return what all three verifiers say about the seed; the pack must be all right."""
    result = verify_twice(data, trust)
    alone = verify_alone(data, trust)
    assert result.ok, result.findings
    lines = {SEED_OF_MAKER, SEED_OF_UNKNOWN_WITNESSES, SEED_OF_WITNESSES}
    said = lines.intersection(result.not_checked)
    assert said == lines.intersection(alone["not_checked"])
    return said


def marked(policy: WitnessPolicy) -> Trust:
    """Return the trust of a reader who knows that others run all witnesses."""
    names = "".join(f"independent {witness.name}\n" for witness in policy.witnesses)
    return Trust(policy=WitnessPolicy.parse(policy.encode() + names.encode()))


def test_the_root_does_not_draw_where_others_have_cosigned(tmp_path: Path) -> None:
    """The maker tries entries until a root suits him; for a cosignature he has to ask."""
    world = write_log(tmp_path, REMOTE)
    data = make(world, ASKED)
    report = read_report(data)
    end = Note.parse(unpack_archive(data)["log/end.note"])

    assert report.v == "forum/evidence/2"
    assert report.sample.seed_from == "witnesses"
    assert report.sample.seed != report.end.root
    assert report.sample.runs == draw_sample(RUNS, report.sample.seed, 3)
    assert witness_key(REMOTE).verifier().key_id in {s.key_id for s in end.signatures}
    assert seed_lines(data, marked(world.policy)) == {SEED_OF_WITNESSES}
    assert seed_lines(data, world.trust) == {SEED_OF_UNKNOWN_WITNESSES}
    page = unpack_archive(data)["report.html"].decode()
    assert "Nobody chose" not in page
    assert "comes from the cosignatures of the last tree" in page


def test_a_witness_of_the_maker_draws_nothing(tmp_path: Path) -> None:
    """On his own machine the maker gets as many cosignatures as he likes."""
    world = write_log(tmp_path, LOCAL)
    data = make(world, ASKED)
    report = read_report(data)

    assert (report.sample.seed_from, report.sample.seed) == ("checkpoint", report.end.root)
    assert seed_lines(data, world.trust) == {SEED_OF_MAKER}
    page = unpack_archive(data)["report.html"].decode()
    assert "The maker of the log can influence this draw" in page


def test_a_local_cosignature_beside_another_does_not_count(tmp_path: Path) -> None:
    """It could be made anew until the sample suits, after the other witness has cosigned."""
    world = write_log(tmp_path, LOCAL, REMOTE)
    data = make(world, ASKED)
    files = unpack_archive(data)
    note = Note.parse(files["log/end.note"])
    remote = witness_key(REMOTE).verifier()
    blob = next(s.blob for s in note.signatures if s.claims_key(remote))

    line = f"forum/sample/1\n{remote} {b64encode(blob).decode()}\n"

    assert read_report(data).sample.seed == sha256(line.encode()).hexdigest()


def test_an_invented_witness_is_named_as_unknown(tmp_path: Path) -> None:
    """The maker encloses a policy with a witness of his own, and draws as often as he likes."""
    world = write_log(tmp_path, REMOTE)
    trust = marked(world.policy)
    invented = witness_key("bsi.example/witness")
    known = KnownWitness("bsi", invented.verifier())
    world.policy = WitnessPolicy(
        world.policy.logs, (*world.policy.witnesses, known), world.policy.groups, "all"
    )
    stored = world.store.checkpoint()
    assert stored is not None
    with world.store.snapshot() as reader:
        part = gather_part(reader, KINDS, world.policy, ASKED)
        note = Note.parse(part.end)
        cosigned = Note(note.text, (*note.signatures, cosign(note.text, invented, 1_700_300_000)))
        part = msgspec.structs.replace(part, end=cosigned.encode())
        check = check_log_part(part, KINDS, Trust(policy=world.policy), ASKED)
        report = make_report(part, ASKED, [], record_check(check), world.policy)
        key = world.attestation_key.verifier()
        files = collect_files(reader, KINDS, PackContents(part, report, world.policy, key, EXTRAS))
    data = pack_file.seal_pack(world.key.name, files, report, world.attestation_key)

    assert seed_lines(data, trust) == {SEED_OF_UNKNOWN_WITNESSES}


@pytest.mark.parametrize("witness", [LOCAL, REMOTE])
def test_a_pack_of_0_2_stays_readable(tmp_path: Path, witness: str) -> None:
    """It verifies as before, and the report says what it cannot show."""
    world = write_log(tmp_path, witness)
    with world.store.snapshot() as reader:
        part = gather_part(reader, KINDS, world.policy, ASKED)
        check = check_log_part(part, KINDS, world.trust, ASKED)
        report = make_report(part, ASKED, [], record_check(check), None)
        key = world.attestation_key.verifier()
        files = collect_files(reader, KINDS, PackContents(part, report, world.policy, key, EXTRAS))
    manifest = pack_file.encode_manifest(world.key.name, files, is_old=True)
    statement = make_statement(sha256(manifest).hexdigest(), report)
    attestation = sign_statement(statement, world.attestation_key)
    data = pack_archive({**files, pack_file.MANIFEST: manifest, pack_file.ATTESTATION: attestation})

    assert json.loads(files["report.json"])["v"] == "forum/evidence/1"
    assert "Nobody chose them" in files["report.html"].decode()
    assert seed_lines(data, world.trust) == {SEED_OF_MAKER}


def test_a_pack_that_release_0_2_wrote_is_read_as_it_was() -> None:
    """Queries, page and sample of that release are made again; nothing seems to be changed."""
    folder = Path(__file__).parent
    data = (folder / "release-0.2.zip").read_bytes()
    trust = Trust(policy=WitnessPolicy.parse((folder / "release-0.2.policy").read_bytes()))

    result = verify_twice(data, trust)

    assert (result.findings, str(result.figures.state)) == ((), "holds")
    assert SEED_OF_MAKER in result.not_checked
