"""The sample of a pack: its maker cannot know the seed, or the report says that he can."""

import json
from base64 import b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from forum import tlog
from forum.app import KINDS
from forum.features.evidence import gathering, pack_file
from forum.features.evidence.audit import (
    SEED_OF_MAKER,
    SEED_OF_OTHERS,
    SEED_OF_RECORD,
    SEED_OF_UNKNOWN_WITNESSES,
    SEED_OF_WITNESSES,
)
from forum.features.evidence.gathering import PackContents, collect_files, gather_part
from forum.features.evidence.log_part import LogPart
from forum.features.evidence.recorded_cosignatures import find_quorum_record
from forum.features.evidence.report import PackReport, draw_sample, make_report
from forum.ledger.ports import Cosigner, Reader
from forum.ledger.sequencer import Publication
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import KnownWitness, Note, WitnessGroup, WitnessPolicy, cosign
from forum.verify import Trust
from tests.features.evidence.packs import (
    EXTRAS,
    Audited,
    Recorded,
    draw,
    forge,
    make,
    make_old,
    period,
    replace,
    rows,
    verify_alone,
    verify_twice,
)
from tests.verify.world import LOCAL, REMOTE, junk_lines, record_junk, witness_key

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
    lines = {
        *(SEED_OF_MAKER, SEED_OF_OTHERS, SEED_OF_RECORD),
        *(SEED_OF_UNKNOWN_WITNESSES, SEED_OF_WITNESSES),
    }
    texts = lines.intersection(result.not_checked)
    assert texts == lines.intersection(alone["not_checked"])
    return texts


def marked(policy: WitnessPolicy) -> Trust:
    """Return the trust of a reader who knows that others run all witnesses."""
    names = "".join(f"independent {witness.name}\n" for witness in policy.witnesses)
    return Trust(policy=WitnessPolicy.parse(policy.encode() + names.encode()))


def mark_only(policy: WitnessPolicy, name: str) -> WitnessPolicy:
    """Return a policy that marks the witness with this key name as another organization's."""
    text = next(witness.name for witness in policy.witnesses if witness.key.name == name)
    return WitnessPolicy.parse(policy.encode() + f"independent {text}\n".encode())


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
    for trust, mark in (
        (marked(world.policy), "another organization"),
        (world.trust, "not marked as another organization"),
    ):
        page = unescape(draw(data, trust))
        assert "Nobody chose" not in page
        assert "comes from the cosignatures of a tree behind the period by" in page
        assert f"{REMOTE} ({mark}'s" in page


OTHERS = ("a.example/witness", "b.example/witness", "c.example/witness")


def write_recorded_log(folder: Path, log: type[Recorded] = Recorded) -> Recorded:
    """Return a log that records what any of three witnesses cosigned, with trees behind a period.

    One cosignature is enough for its policy.
    """
    world = log(folder, *OTHERS)
    names = tuple(witness.name for witness in world.policy.witnesses)
    group = WitnessGroup("any", 1, names)
    world.policy = WitnessPolicy(world.policy.logs, world.policy.witnesses, (group,), "any")
    for day, second in ((0, 10), (1, 10), (3, 10), (3, 300), (3, 600), (3, 900)):
        world.at(day, second)
        for run in RUNS if day == 1 else [f"run-{day}-{second}"]:
            world.report_run(run)
        world.settle_at(day, second + 10)
    return world


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return such a log."""
    return write_recorded_log(tmp_path_factory.mktemp("recorded"))


def gather_at(world: Recorded, size: int) -> LogPart:
    """Return the log part of a maker who ends the pack with the first tree of at least a size."""

    def find_end(reader: Reader, *_: object, edge: object) -> bytes:
        return next(reader.checkpoints(size))

    with patch.object(gathering, "find_end", find_end), world.store.snapshot() as reader:
        return gather_part(reader, KINDS, world.policy, ASKED)


def seal(world: Recorded, part: LogPart) -> bytes:
    """Return the pack that follows from a log part."""
    with patch("tests.features.evidence.packs.gather_part", lambda *_, **__: part):
        return make(world, ASKED)


def strip(note: bytes, *names: str) -> bytes:
    """Return a note without the cosignatures of witnesses."""
    parsed = Note.parse(note)
    kept = tuple(s for s in parsed.signatures if s.name not in names)
    return Note(parsed.text, kept).encode()


def test_what_the_log_recorded_draws_the_sample(recorded: Recorded) -> None:
    """The pack reaches to the record, and the report says what is left to its maker."""
    data = make(recorded, ASKED)
    report = read_report(data)

    assert report.sample.seed_from == "recorded"
    assert seed_lines(data, marked(recorded.policy)) == {SEED_OF_RECORD}
    assert seed_lines(data, recorded.trust) == {SEED_OF_UNKNOWN_WITNESSES}
    page = unescape(draw(data, marked(recorded.policy)))
    assert "that the log recorded of the first tree behind the period" in page
    assert all(name in page for name in OTHERS)


def test_a_later_tree_draws_the_same_sample(recorded: Recorded) -> None:
    """Otherwise each ordinary checkpoint behind the period would be a draw, and ask nobody."""
    with recorded.store.snapshot() as reader:
        honest = gather_part(reader, KINDS, recorded.policy, ASKED)
        sizes = [tlog.parse_checkpoint(note).size for note in reader.checkpoints(1)]
    end = tlog.parse_checkpoint(honest.end).size
    expected = read_report(make(recorded, ASKED)).sample
    later = [seal(recorded, gather_at(recorded, size)) for size in sizes if size > end]

    assert len(later) == 2
    for data in later:
        assert read_report(data).sample == expected
        assert seed_lines(data, marked(recorded.policy)) == {SEED_OF_RECORD}


def test_a_later_tree_cannot_be_the_first_behind_the_period(recorded: Recorded) -> None:
    """The log recorded that witnesses saw an earlier one there."""
    with recorded.store.snapshot() as reader:
        honest = gather_part(reader, KINDS, recorded.policy, ASKED)
    behind = tlog.parse_checkpoint(honest.seen[-1]).size
    without = msgspec.structs.replace(
        gather_at(recorded, behind + 1),
        seen=tuple(n for n in honest.seen if tlog.parse_checkpoint(n).size != behind),
    )

    result = verify_twice(seal(recorded, without), marked(recorded.policy))

    assert rows(result)["log/seen"] == "period-changed"
    assert not result.ok


class Flooded(Recorded):
    """A log in which lines of strangers are before the recorded cosignatures of a checkpoint."""

    def settle(self, *asked: Cosigner) -> Publication:
        """Sign, and record lines of the new checkpoint before the sequencer does."""
        publication = super().settle(*asked)
        record_junk(self, publication.note, ["no line", *junk_lines(70)])
        return publication


def test_lines_before_the_recorded_cosignatures_change_nothing(tmp_path: Path) -> None:
    """Neither the draw, nor that one which was recorded cannot be left out, nor its checkpoint."""
    world = write_recorded_log(tmp_path, Flooded)
    data = make(world, ASKED)
    assert read_report(data).sample.seed_from == "recorded"
    assert seed_lines(data, marked(world.policy)) == {SEED_OF_RECORD}
    with world.store.snapshot() as reader:
        honest = gather_part(reader, KINDS, world.policy, ASKED)
    behind = honest.seen[-1]

    lacking = msgspec.structs.replace(honest, seen=(*honest.seen[:-1], strip(behind, OTHERS[0])))
    result = verify_twice(seal(world, lacking), marked(world.policy))
    assert "lacks a cosignature that the log recorded" in str(result.findings)

    later = gather_at(world, tlog.parse_checkpoint(behind).size + 1)
    left = tuple(note for note in honest.seen if note != behind)
    result = verify_twice(
        seal(world, msgspec.structs.replace(later, seen=left)), marked(world.policy)
    )
    assert rows(result)["log/seen"] == "period-changed"


@pytest.mark.parametrize("names", [OTHERS[:1], OTHERS[1:]])
def test_a_recorded_cosignature_cannot_be_left_out(
    recorded: Recorded, names: tuple[str, ...]
) -> None:
    """With a quorum of one of three, seven sets of cosignatures would each draw another sample."""
    with recorded.store.snapshot() as reader:
        honest = gather_part(reader, KINDS, recorded.policy, ASKED)
    seen = (*honest.seen[:-1], strip(honest.seen[-1], *names))
    data = seal(recorded, msgspec.structs.replace(honest, seen=seen))

    result = verify_twice(data, marked(recorded.policy))

    assert rows(result)["log/seen"] == "period-changed"
    assert "lacks a cosignature that the log recorded" in str(result.findings)
    assert read_report(data).sample == read_report(make(recorded, ASKED)).sample


def test_a_changed_seed_is_another_sample(recorded: Recorded) -> None:
    """The record is in the log part, so that nobody need believe the report."""
    data = make(recorded, ASKED)
    seed = read_report(data).sample.seed.encode()
    forged = forge(data, recorded, replace("report.json", (seed, seed[::-1])))

    assert rows(verify_twice(forged, marked(recorded.policy)))["sample seed"] == "sample-changed"


def test_a_pack_without_the_record_says_that_its_maker_could_choose(recorded: Recorded) -> None:
    """It ends with the tree itself: what was recorded then is not in it."""
    with recorded.store.snapshot() as reader:
        honest = gather_part(reader, KINDS, recorded.policy, ASKED)
    part = gather_at(recorded, tlog.parse_checkpoint(honest.seen[-1]).size)
    data = seal(recorded, msgspec.structs.replace(part, end=strip(part.end, *OTHERS[1:])))

    assert read_report(data).sample.seed_from == "witnesses"
    texts = seed_lines(data, Trust(policy=mark_only(recorded.policy, OTHERS[0])))
    assert texts == {SEED_OF_WITNESSES}
    page = unescape(draw(data, marked(recorded.policy)))
    assert "the maker of the log could choose among later trees and cosignatures" in page
    assert "bring a seed of your own" in page


def test_a_policy_that_leaves_out_a_witness_draws_for_nobody_else(recorded: Recorded) -> None:
    """The maker chooses the enclosed policy, and each draws another sample."""
    trust, whole = marked(recorded.policy), recorded.policy
    recorded.policy = WitnessPolicy(
        whole.logs, whole.witnesses[:1], (WitnessGroup("any", 1, ("w0",)),), "any"
    )
    try:
        data = make(recorded, ASKED)
    finally:
        recorded.policy = whole

    assert read_report(data).sample.seed_from == "recorded"
    assert seed_lines(data, trust) == {SEED_OF_OTHERS}


def test_what_is_recorded_later_does_not_draw(recorded: Recorded) -> None:
    """Otherwise the maker could choose by where the log part ends."""
    with recorded.store.snapshot() as reader:
        note = Note.parse(gather_part(reader, KINDS, recorded.policy, ASKED).seen[-1])
    first, second, third = (str(s) for s in note.signatures if s.name in OTHERS)
    records: list[tuple[str, ...]] = [(), (first,), (second, third)]

    quorum_record = find_quorum_record(note.text, records, recorded.policy)

    assert quorum_record is not None
    assert (quorum_record[0], list(map(str, quorum_record[1].signatures))) == (1, [first])
    assert find_quorum_record(note.text, records[:1], recorded.policy) is None
    assert find_quorum_record(note.text, [("no line",)], recorded.policy) is None


def test_a_witness_of_the_maker_draws_nothing(tmp_path: Path) -> None:
    """On his own machine the maker gets as many cosignatures as he likes."""
    world = write_log(tmp_path, LOCAL)
    data = make(world, ASKED)
    report = read_report(data)

    assert (report.sample.seed_from, report.sample.seed) == ("checkpoint", report.end.root)
    assert seed_lines(data, world.trust) == {SEED_OF_MAKER}
    page = draw(data, world.trust)
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
    known_witness = KnownWitness("bsi", invented.verifier())
    world.policy = WitnessPolicy(
        world.policy.logs, (*world.policy.witnesses, known_witness), world.policy.groups, "all"
    )
    stored = world.store.checkpoint()
    assert stored is not None
    with world.store.snapshot() as reader:
        part = gather_part(reader, KINDS, world.policy, ASKED)
        note = Note.parse(part.end)
        cosigned = Note(note.text, (*note.signatures, cosign(note.text, invented, 1_700_300_000)))
        part = msgspec.structs.replace(part, end=cosigned.encode())
        report = make_report(part, ASKED, [], world.policy)
        key = world.attestation_key.verifier()
        files = collect_files(
            reader, KINDS, PackContents(part, report, world.policy, key, extras=EXTRAS)
        )
    data = pack_file.seal_pack(world.key.name, files, report, world.attestation_key)

    assert seed_lines(data, trust) == {SEED_OF_UNKNOWN_WITNESSES}


@pytest.mark.parametrize("witness", [LOCAL, REMOTE])
def test_a_pack_of_0_2_stays_readable(tmp_path: Path, witness: str) -> None:
    """It verifies as before, and the report says what it cannot show."""
    world = write_log(tmp_path, witness)
    data = make_old(world, ASKED)
    files = unpack_archive(data)

    assert json.loads(files["report.json"])["v"] == "forum/evidence/1"
    assert "Nobody chose them" in files["report.html"].decode()
    result = verify_twice(data, world.trust)
    assert result.ok, result.findings
    assert SEED_OF_MAKER in result.not_checked
    assert "Nobody chose" not in draw(data, world.trust)


def test_a_pack_that_release_0_2_wrote_is_read_as_it_was() -> None:
    """Queries, page and sample of that release are made again; nothing seems to be changed."""
    folder = Path(__file__).parent
    data = (folder / "release-0.2.zip").read_bytes()
    trust = Trust(policy=WitnessPolicy.parse((folder / "release-0.2.policy").read_bytes()))

    result = verify_twice(data, trust)
    alone = verify_alone(data, trust)

    # Nobody but the library draws the page that people would read.
    assert (alone["ok"], alone["findings"]) == (False, [])
    assert alone["figures"]["state"] == "not checked"
    assert (result.findings, str(result.figures.state)) == ((), "holds")
    assert SEED_OF_MAKER in result.not_checked
