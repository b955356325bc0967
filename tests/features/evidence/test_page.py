"""The page of a pack: every verdict on it is the reader's, whatever the maker of the pack wrote."""

import re
from html import unescape
from pathlib import Path

import msgspec
import pytest

from forum.app import KINDS
from forum.features.evidence import pack_file
from forum.features.evidence.control_maps import ControlMap, MapReview, ReviewStatus
from forum.features.evidence.gathering import PackContents, collect_files, gather_part
from forum.features.evidence.report import Arguments, make_report
from forum.features.evidence.service import shipped_maps
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import (
    ED25519_COSIGNATURE,
    KnownWitness,
    Note,
    SigningKey,
    WitnessGroup,
    WitnessPolicy,
    cosign,
    verify_cosignatures,
)
from forum.verify import State, Trust
from tests.features.evidence import packs
from tests.features.evidence.packs import (
    EXTRAS,
    Audited,
    Files,
    draw,
    forge,
    make,
    make_old,
    period,
    rows,
    verify,
    verify_alone,
    verify_twice,
)

ASKED = period(1, 4)
HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
INVENTED = ("kpmg.com/witness", "bsi.bund.de/witness", "deloitte.com/witness")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Return a log of five days; no test adds to it."""
    return packs.make_log(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def pack(world: Audited) -> bytes:
    """Return a pack of three of these days."""
    return make(world, ASKED)


def words(page: str) -> str:
    """Return the text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main>")[2])).split())


def invent_witnesses(world: Audited, arguments: Arguments) -> bytes:
    """Return a pack whose maker has made witnesses of his own, and encloses them as trusted."""
    keys = [
        SigningKey(bytes([n]) * 32, name, ED25519_COSIGNATURE) for n, name in enumerate(INVENTED)
    ]
    named = tuple(KnownWitness(f"w{n}", key.verifier()) for n, key in enumerate(keys))
    group = WitnessGroup("all", 3, tuple(witness.name for witness in named))
    policy = WitnessPolicy(world.policy.logs, named, (group,), "all")

    def add(data: bytes) -> bytes:
        note = Note.parse(data)
        at = verify_cosignatures(note, world.policy.witness_keys)[0].time
        return Note(
            note.text, (*note.signatures, *(cosign(note.text, k, at) for k in keys))
        ).encode()

    with world.store.snapshot() as reader:
        part = gather_part(reader, KINDS, world.policy, arguments)
        start = add(part.start) if part.start else None
        seen = tuple(map(add, part.seen))
        part = msgspec.structs.replace(part, end=add(part.end), start=start, seen=seen)
        maps = [shipped_maps()[name] for name in arguments.maps]
        report = make_report(part, arguments, maps, policy)
        key = world.attestation_key.verifier()
        files = collect_files(
            reader, KINDS, PackContents(part, report, world.policy, key, extras=EXTRAS)
        )
    files[pack_file.POLICY] = policy.encode()
    return pack_file.seal_pack(world.key.name, files, report, world.attestation_key)


def test_no_file_of_a_pack_says_that_anything_holds(pack: bytes) -> None:
    """Its maker may be the suspect: he could write that as well."""
    for name, data in unpack_archive(pack).items():
        if not name.startswith(("runs/", "log/")):
            assert not re.search(rb'"holds"|_HOLDS|\bcosigned by\b', data), name


def test_invented_witnesses_are_on_no_page(world: Audited) -> None:
    """All holds for a reader with the true keys, and the page has the witnesses of these alone."""
    data = invent_witnesses(world, ASKED)
    result = verify_twice(data, world.trust)
    page = words(draw(data, world.trust))

    assert result.ok, result.findings
    assert world.policy.witness_keys[0].name in page
    seeds, _, verdicts = page.partition(
        "comes from the cosignatures of a tree behind the period by"
    )
    assert not any(name in seeds for name in INVENTED)
    # The seed does come from them; the page says that nobody knows them.
    assert verdicts.count("(not marked as another organization's)") >= len(INVENTED)


def test_a_pack_of_0_2_that_names_invented_witnesses_does_not_hold(world: Audited) -> None:
    """What people read in it was not checked, although the claims hold."""
    key = SigningKey(b"k" * 32, INVENTED[0], ED25519_COSIGNATURE)
    witnesses = (*world.policy.witnesses, KnownWitness("kpmg", key.verifier()))
    policy = WitnessPolicy(world.policy.logs, witnesses, world.policy.groups, world.policy.quorum)
    data = make_old(world, ASKED, policy)
    result = verify(data, world.trust)

    assert verify(make_old(world, ASKED), world.trust).ok
    assert not result.findings
    assert result.figures.state is State.NOT_CHECKED
    assert INVENTED[0] in result.figures.reason
    assert not result.ok


def test_a_forged_page_is_refused(world: Audited, pack: bytes) -> None:
    """A pack of today holds none; in one of release 0.2 it must be the one of its report."""
    praise = b"<p>All duties are met. No run failed.</p>"
    old = make_old(world, ASKED)
    page = unpack_archive(old)[pack_file.PAGE]

    def add(files: Files) -> None:
        files[pack_file.PAGE] = page

    def change(files: Files) -> None:
        files[pack_file.PAGE] = page.replace(b"</h1>", b"</h1>" + praise, 1)

    added = verify_twice(forge(pack, world, add), world.trust)
    changed = forge(old, world, change)
    alone = verify_alone(changed, world.trust)

    assert "report.html" in added.intact.reason
    assert not added.ok
    assert rows(verify(changed, world.trust)) == {"report.html title": "page-changed"}
    # It does not draw the page, and does not pass what it did not check.
    assert (alone["ok"], alone["figures"]["state"]) == (False, "not checked")
    assert "report.html was not checked" in " ".join(alone["not_checked"])


def test_what_was_found_stands_first_on_the_page(world: Audited, pack: bytes) -> None:
    """Before any figure, and in the margin of each printed page."""

    def change(files: Files) -> None:
        text = files["report.json"]
        at = text.index(b'"value": ', text.index(b'"id": "runs.not-ok"'))
        files["report.json"] = text[:at] + text[at:].replace(b'"value": 2', b'"value": 0', 1)

    forged = forge(pack, world, change)
    page = draw(forged, world.trust)
    text = words(page)

    found = text.index("report.json says 0; the entries give 2")
    assert text.index("Not verified: 1 problem was found.") < found < text.index("did not end well")
    assert '@bottom-left { content: "Not verified: 1 problem was found.' in page
    assert '<div class="tile" data-row="runs.not-ok"><b>2</b>' in page  # what the entries give
    assert "Not verified" not in draw(pack, world.trust)


@pytest.mark.parametrize("whose", ["none", "another's"])
def test_a_page_without_the_right_keys_has_no_figure(
    world: Audited, pack: bytes, whose: str
) -> None:
    """What nobody whom the reader trusts has signed is not shown to him as numbers."""
    other = SigningKey(b"o" * 32, world.key.name).verifier()
    trust = Trust() if whose == "none" else Trust(keys=(other,))
    page = draw(pack, trust)
    text = words(page)

    assert 'class="tile"' not in page
    assert "holds" not in text.partition("Not checked")[0]
    if whose == "none":
        assert "Nothing was checked: choose your trust file." in text
        assert "you named no key" in text
    else:
        assert "Not verified" in text
        assert str(other) in text


def test_the_page_says_whose_keys_and_what_was_not_checked(world: Audited, pack: bytes) -> None:
    """Every key that the reader trusts, and every sentence of the verifier."""
    result = verify(pack, world.trust)
    text = words(draw(pack, world.trust))

    assert "Only the writer's own witnesses have seen it." in text
    for key in (*world.trust.log_keys, *world.policy.witness_keys):
        assert str(key) in text
    for line in result.not_checked:
        assert " ".join(line.split()) in text
    assert "they are not evidence" in text


def test_a_name_does_not_turn_numbers_around(tmp_path: Path) -> None:
    """A character that a reporter put into a model name would show 10 calls as 01, $91 as 19$."""
    world = Audited(tmp_path)
    world.at(1, 10)
    hebrew, turning = "\u05d0\u05d1\u05d2", "gpt-5\u202e"
    for number in range(10):
        world.report_run(f"run-{number}", model=hebrew if number % 2 else turning)
    world.settle_at(1, 20)
    world.at(3, 10)
    world.report_run("last")
    world.settle_at(3, 20)
    data = make(world, period(1, 3, maps=()))
    page = draw(data, world.trust)

    assert verify(data, world.trust).ok
    assert HIDDEN.search(page) is None
    # The ledger has recorded a mark for the character that nobody sees.
    for name in (hebrew, "gpt-5\ufffd"):
        assert f"<bdi>{name}</bdi> / <bdi>lake</bdi> <b>5</b>" in page
        assert f"<bdi>{name}</bdi> <b>$0.0075</b>" in page


def softened(name: str, title: str) -> ControlMap:
    """Return a map of Forum with other duties, a new version and an invented reviewer."""
    honest = shipped_maps()["ai-act"]
    row = msgspec.structs.replace(honest.rows[0], duty="Nothing is required.", not_covered="")
    review = MapReview(ReviewStatus.REVIEWED, "KPMG AG, Frankfurt", "2026-11-30")
    return msgspec.structs.replace(
        honest,
        name=name,
        title=title,
        version="2026-12",
        review=review,
        rows=(row, *honest.rows[1:]),
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("ai-act", "EU AI Act (Regulation (EU) 2024/1689)"),
        ("eu-act", "eu ai act: regulation (eu) 2024 1689"),
        ("eu-act", "The law on AI, 2024/1689"),
        ("own", "What we owe"),
    ],
)
def test_a_map_is_the_readers_own_or_its_makers(world: Audited, name: str, title: str) -> None:
    """Another version of a known map is a finding, under whatever name.

    The text of any other is called its maker's.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "shipped_maps", lambda: {name: softened(name, title)})
        data = make(world, period(1, 4, maps=(name,)))

    result = verify_twice(data, world.trust)
    text = words(draw(data, world.trust))

    expected = {} if name == "own" else {f"map {name}": "map-changed"}
    assert rows(result) == expected
    assert result.ok is (name == "own")
    is_unknown = any(f"the text of map {name}" in line for line in result.not_checked)
    assert is_unknown is (name != "ai-act")
    assert "The maker of the pack wrote this text." in text
    assert "Its maker says: Compared with the original texts by KPMG AG" in text
    honest = words(draw(make(world, period(1, 4, maps=("ai-act",))), world.trust))
    assert "The maker of the pack wrote this text." not in honest


def test_a_pack_that_cannot_be_read_has_a_page_too(
    world: Audited, pack: bytes, tmp_path: Path
) -> None:
    """It says why, and has nothing else."""
    text = words(draw(pack[:-200], world.trust))

    assert "Not verified: 1 problem was found. pack-altered" in text
    assert "No figure is shown" in text
