"""Packs: equal bytes, figures that follow from entries, and every change is found and named."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forum.features.evidence import gathering, pack_file
from forum.features.evidence.control_maps import MapReview, ReviewStatus
from forum.features.evidence.queries import Query
from forum.features.evidence.report import PackReport
from forum.features.evidence.service import shipped_maps
from forum.ledger import kinds
from forum.ledger.body import text_content
from forum.ledger.key_rotation import sign_key_addition
from forum.ledger.kinds import NoteFacts, RedactionReason
from forum.ledger.strand import Attachment, Draft
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.tlog import SigningKey
from forum.verify import State, Trust
from tests.features.evidence import packs
from tests.features.evidence.packs import (
    Audited,
    draw,
    forge,
    make,
    period,
    replace,
    rows,
    verify,
    verify_alone,
    verify_twice,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Return a log of five days; no test adds to it."""
    return packs.make_log(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def pack(world: Audited) -> bytes:
    """Return a pack of three of these days."""
    return make(world, period(1, 4))


@pytest.fixture(scope="module")
def old_pack(world: Audited) -> bytes:
    """Return a pack of these days as release 0.2 made it, with a page."""
    return packs.make_old(world, period(1, 4))


def report_of(pack: bytes) -> PackReport:
    """Return the report in a pack."""
    return msgspec.json.decode(unpack_archive(pack)["report.json"], type=PackReport)


def test_an_honest_pack_holds(world: Audited, pack: bytes) -> None:
    """All claims hold for a reader with the policy, and the period is bounded by witnesses."""
    result = verify_twice(pack, world.trust)

    assert result.ok, result
    assert not result.findings
    assert (result.since, result.until) == (report_of(pack).since, report_of(pack).until)


def test_the_figures_are_those_of_the_days(pack: bytes) -> None:
    """Of the runs that were open before, the one that went on in the period counts."""
    report = report_of(pack)
    figures = {figure.id: figure for figure in report.figures}

    assert figures["runs.all"].value == 9 + 1 + 2
    assert figures["runs.carried"].value == 1
    assert figures["runs.open"].value == 1
    assert figures["runs.not-ok"].value == 2
    assert figures["gates.median"].value == 90
    assert figures["gaps.steps"].value == 7
    (decision,) = report.decisions
    assert (decision.run, decision.subject, decision.actor) == ("run-gate", "plan", "carol")
    assert figures["access.denied"].value == 4
    assert {group.key: group.value for group in figures["access.keys"].groups} == {
        ("name of k1", "read", "revoked"): 1,
        ("name of k2", "read", "valid"): 1,
    }
    assert figures["cost.total"].value == 9 * 1_500_000
    assert figures["caps.reached"].value == 1
    assert {named.run for named in report.named} == {"run-gap", "run-gate", "run-21"}
    assert set(report.sample.runs) <= {bundle.run for bundle in report.bundles}
    assert report.sample.population == 12


def test_packs_of_the_same_period_are_equal(tmp_path: Path) -> None:
    """What is recorded after the period changes nothing."""
    world = packs.make_log(tmp_path)
    first = make(world, period(1, 4))
    world.at(6)
    world.run("another")
    world.ledger.record_export("run-10", 5, 70, "operator")
    world.settle_at(6, 60)

    assert make(world, period(1, 4)) == first


def test_a_body_that_was_erased_after_the_period_does_not_break_its_bundle(tmp_path: Path) -> None:
    """The bundle then has a later checkpoint, with the redaction."""
    world = packs.make_log(tmp_path)
    arguments = period(1, 4)
    (decision,) = [
        recorded
        for recorded in world.ledger.store.read_strand("run-gate", "gate/plan")
        if b"gate.open/1" in recorded
    ]
    located = world.ledger.find_entry("run-gate/gate/plan/0")
    assert located.data == decision
    world.at(6)
    world.ledger.request_redaction(located, "shown", "operator", RedactionReason.REQUEST)
    world.settle_at(6, 60)
    world.ledger.erase_redacted()

    result = verify_twice(make(world, arguments), world.trust)

    assert result.ok, result.findings


def test_without_keys_nothing_is_said_to_hold(pack: bytes) -> None:
    """Keys in the pack are not believed."""
    result = verify(pack, Trust())

    assert not result.ok
    claims = (result.intact, result.complete, result.independent, result.figures, result.attested)
    assert {claim.state for claim in claims} == {State.NOT_CHECKED}


def test_another_log_with_the_same_name_is_found(world: Audited, pack: bytes) -> None:
    """A forger who makes a whole log of his own does not have its key."""
    other = SigningKey(b"o" * 32, world.key.name)

    result = verify(pack, Trust(keys=(other.verifier(),)))

    assert result.intact.state is State.FAILS
    assert result.complete.state is result.figures.state is State.NOT_CHECKED
    assert not result.ok


def test_a_pack_of_another_log_is_one_sentence(world: Audited, pack: bytes, tmp_path: Path) -> None:
    """Every verifier says once which logs these are, and what the reader needs."""
    other = SigningKey(b"o" * 32, "other.example/log")
    begins = f"Your key is of the log {other.name}; this pack is of "
    (tmp_path / "pack.zip").write_bytes(pack)
    outputs = [
        subprocess.run(
            [sys.executable, *program, str(tmp_path / "pack.zip"), "--key", str(other.verifier())],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for program in (["-m", "forum", "verify"], ["-m", "forum.verify.standalone"])
    ]

    result = verify_twice(pack, Trust(keys=(other.verifier(),)))
    assert [f.detail for f in result.findings] == [f"{begins}…{world.key.name[-8:]}."]
    for text in (" ".join(each.split()) for each in outputs):
        assert text.count(begins) == 1
        assert "signature-rejected" not in text
        assert "You need the trust file of that log" in text


def test_a_period_that_is_cut_off_is_found(world: Audited) -> None:
    """A pack that ends with a tree of an earlier day says that entries may be missing."""
    honest = period(1, 3)
    longer = msgspec.structs.replace(honest, until=honest.until + packs.DAY)
    files, report = packs.compute(world, honest)
    text = msgspec.json.encode(msgspec.structs.replace(report, arguments=longer))
    files["report.json"] = msgspec.json.format(text, indent=1) + b"\n"
    data = pack_file.seal_pack(world.key.name, files, report, world.attestation_key)

    result = verify_twice(data, world.trust)

    assert result.complete.state is State.FAILS
    assert "tail-cut" in result.complete.reason


def test_any_figure_changed_in_the_report_is_named(world: Audited, pack: bytes) -> None:
    """By somebody who can sign the pack again: by the maker himself."""
    report = report_of(pack)
    for figure in report.figures:
        changed = msgspec.structs.replace(figure, value=(figure.value or 0) + 1)
        figures = tuple(changed if f.id == figure.id else f for f in report.figures)
        text = msgspec.json.encode(msgspec.structs.replace(report, figures=figures))

        def change(files: packs.Files, text: bytes = text) -> None:
            files["report.json"] = msgspec.json.format(text, indent=1) + b"\n"

        result = verify(forge(pack, world, change), world.trust)

        assert rows(result) == {f"figures {figure.id} value": "figure-changed"}
        assert result.figures.state is State.FAILS
        assert not result.ok


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_any_number_changed_on_the_page_is_named(
    world: Audited, old_pack: bytes, data: st.DataObject
) -> None:
    """In a figure, a table, a chart: wherever a digit stands, in a pack that has a page."""
    page = unpack_archive(old_pack)["report.html"].decode()
    body = page.index("<main>")
    digit = data.draw(st.sampled_from([m.start() for m in re.finditer(r"\d", page[body:])])) + body
    other = str((int(page[digit]) + data.draw(st.integers(1, 9))) % 10)
    text = (page[:digit] + other + page[digit + 1 :]).encode()

    def change(files: packs.Files) -> None:
        files["report.html"] = text

    result = verify(forge(old_pack, world, change), world.trust)

    (row,) = rows(result)
    line = page[page.rindex("\n", 0, digit) + 1 : page.index("\n", digit)]
    named = re.search(r'data-row="([^"]*)"', line)
    assert row.startswith("report.html ")
    assert named is None or row == f"report.html {named[1]}"
    assert not result.ok


@pytest.mark.slow
@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_any_byte_changed_in_a_file_that_counts_is_found(
    world: Audited, pack: bytes, file: float, place: float
) -> None:
    """Whichever byte of whichever file: of the log part, the report, a map or a bundle."""
    unpacked = unpack_archive(pack)
    free = {*pack_file.EXTRAS, pack_file.SCHEMA, pack_file.MANIFEST, pack_file.ATTESTATION}
    names = sorted(name for name in unpacked.keys() - free if unpacked[name])
    name = names[int(file * len(names))]
    at = int(place * len(unpacked[name]))

    def change(files: packs.Files) -> None:
        old = files[name]
        files[name] = old[:at] + bytes([old[at] ^ 1]) + old[at + 1 :]

    result = verify(forge(pack, world, change), world.trust)

    assert not result.ok, (name, at)
    assert result.found, (name, at)


@pytest.mark.parametrize("end", [b"\x0b", b"\r\n", b"", b"\n\n"])
def test_lines_of_hashes_end_in_one_way(world: Audited, pack: bytes, end: bytes) -> None:
    """A file that can be written in two ways could be changed unnoticed."""

    def change(files: packs.Files) -> None:
        files["log/edge"] = files["log/edge"].removesuffix(b"\n") + end

    assert not verify_twice(forge(pack, world, change), world.trust).ok


@pytest.mark.parametrize("member", ["id", "title", "section"])
def test_a_query_that_lacks_a_member_is_found(world: Audited, pack: bytes, member: str) -> None:
    """By all three verifiers: none of them ends with an error of its own."""

    def change(files: packs.Files) -> None:
        query = re.compile(rb'("query":\s*\{[^{}]*)"' + member.encode() + b'"')
        files["report.json"] = query.sub(rb'\1"no-such"', files["report.json"], count=1)

    assert not verify_twice(forge(pack, world, change), world.trust).ok


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_the_stand_alone_verifier_finds_any_byte_that_it_claims_to_check(
    world: Audited, pack: bytes, data: st.DataObject
) -> None:
    """Whatever it does not find, it says of the file that it did not check it."""
    unpacked = unpack_archive(pack)
    resealed = {pack_file.MANIFEST, pack_file.ATTESTATION}
    # Half of all tries change the report: it has the most places that somebody must compute.
    name = data.draw(st.sampled_from([*sorted(unpacked.keys() - resealed), "report.json"]))
    at = data.draw(st.integers(0, max(0, len(unpacked[name]) - 1)))

    def change(files: packs.Files) -> None:
        old = files[name]
        files[name] = old[:at] + bytes([old[at] ^ 1]) + old[at + 1 :]

    alone = verify_alone(forge(pack, world, change), world.trust)

    free = name in " ".join(alone["not_checked"]) or not unpacked[name]
    assert not alone["ok"] or free, (name, at)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_a_run_that_is_left_out_is_found(world: Audited, pack: bytes, data: st.DataObject) -> None:
    """Its entries are missing between two roots, whatever else is made to fit."""
    lines = unpack_archive(pack)["log/entries.jsonl"].splitlines(keepends=True)
    runs = sorted({re.search(rb'"run":"([^"]*)"', line)[1] for line in lines})  # type: ignore[index]
    run = data.draw(st.sampled_from(runs))
    kept = [line for line in lines if b'"run":"%b"' % run not in line]

    def change(files: packs.Files) -> None:
        files["log/entries.jsonl"] = b"".join(kept)

    result = verify(forge(pack, world, change), world.trust)

    assert result.intact.state is State.FAILS
    assert result.complete.state is State.FAILS
    assert rows(result)["log part"] == "log-part"


def test_a_run_that_was_open_before_is_not_left_out(world: Audited, pack: bytes) -> None:
    """Without its first entries, entries of the period belong to a run of which none is known."""

    def change(files: packs.Files) -> None:
        lines = files["log/earlier.jsonl"].splitlines(keepends=True)
        kept = [line for line in lines if b'\\"run\\":\\"early\\"' not in line]
        assert len(kept) < len(lines)
        files["log/earlier.jsonl"] = b"".join(kept)

    result = verify_twice(forge(pack, world, change), world.trust)

    assert not result.ok
    assert any("first entry of run early" in finding.detail for finding in result.findings)


def test_a_grant_before_the_period_is_not_left_out(world: Audited, pack: bytes) -> None:
    """Who had access is shown for the period, whenever it was given."""

    def change(files: packs.Files) -> None:
        lines = files["log/earlier.jsonl"].splitlines(keepends=True)
        kept = [line for line in lines if b"name of k2" not in line]
        assert len(kept) == len(lines) - 1
        files["log/earlier.jsonl"] = b"".join(kept)

    result = verify_twice(forge(pack, world, change), world.trust)

    assert any("an entry of log/access is missing" in f.detail for f in result.findings)


def test_what_could_be_left_out_before_the_period_is_named_as_not_checked(
    world: Audited, pack: bytes
) -> None:
    """A maker can leave out a whole strand from before the start; a whole log has no start."""
    words = ("other runs were open when the period began", "entries from before the period")
    whole = make(world, period(-1, 4))

    for data, is_said in ((pack, True), (whole, False)):
        assert ("log/start.note" in unpack_archive(data)) is is_said
        ours = " ".join(verify(data, world.trust).not_checked)
        alone = " ".join(verify_alone(data, world.trust)["not_checked"])
        for text in (ours, alone):
            assert [word in text for word in words] == [is_said] * 2
    limits = " ".join(report_of(pack).limits)
    assert "Entries from before the period that the maker of a pack left out" in limits
    assert "log/earlier.jsonl" in pack_file.README


def test_without_a_report_the_attestation_does_not_hold(world: Audited, pack: bytes) -> None:
    """What it claims cannot be compared, and a statement about another manifest is rejected."""

    def change(files: packs.Files) -> None:
        lines = files["log/entries.jsonl"].splitlines(keepends=True)
        files["log/entries.jsonl"] = b"{}\n" + b"".join(lines[1:])

    forged = forge(pack, world, change)
    files = unpack_archive(forged)
    files[pack_file.ATTESTATION] = unpack_archive(pack)[pack_file.ATTESTATION]
    exchanged = pack_archive(files)

    for data, state in ((forged, State.NOT_CHECKED), (exchanged, State.FAILS)):
        assert verify(data, world.trust).attested.state is state
        assert verify_alone(data, world.trust)["attested"]["state"] == str(state)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"sample": 3', b'"sample": -1', "sample"),
        (b'000000,\n  "sample"', b'000001,\n  "sample"', "until"),
        (b'"v":', b'"x": ' + b"[" * 3000 + b"]" * 3000 + b',\n "v":', "nested"),
    ],
)
def test_a_report_of_another_form_is_refused(
    world: Audited, pack: bytes, old: bytes, new: bytes, why: str
) -> None:
    """A count is not negative, a period ends with a whole second, and no nesting ends a reader."""
    data = forge(pack, world, replace("report.json", (old, new)))

    result = verify(data, world.trust)

    assert [str(finding.problem) for finding in result.findings] == ["pack-altered"]
    assert why in result.intact.reason
    assert result.intact.state is State.FAILS
    assert not verify_alone(data, world.trust)["ok"]


def test_an_entry_that_is_dated_back_out_of_the_period_is_found(tmp_path: Path) -> None:
    """Its time would be before a tree that witnesses saw without it."""
    world = packs.make_log(tmp_path)
    world.at(6)
    world.skew = -4 * packs.DAY
    world.run("hidden")
    world.skew = 0
    world.settle_at(7, 0)
    arguments = period(6, 7)
    report = packs.compute(world, arguments)[1]

    result = verify_twice(make(world, arguments), world.trust)

    assert {figure.id: figure.value for figure in report.figures}["runs.all"] == 1  # the gap's
    assert "time-impossible" in result.independent.reason
    assert not result.ok


def test_an_exchanged_sample_is_named(world: Audited, pack: bytes) -> None:
    """The maker cannot choose which runs an auditor sees."""
    report = report_of(pack)
    drawn = report.sample.runs[0]
    others = {f"run-{day}{n}" for day in (1, 2, 3) for n in range(3)} - {*report.sample.runs}
    other = min(others - {named.run for named in report.named})
    bundle = packs.compute(world, period(1, 4, sample=99))[0][f"runs/{other}.zip"]

    def change(files: packs.Files) -> None:
        files.pop(f"runs/{drawn}.zip")
        files[f"runs/{other}.zip"] = bundle
        replace("report.json", (drawn.encode(), other.encode()))(files)

    result = verify_twice(forge(pack, world, change), world.trust)

    document = rows(result)
    assert document[f"runs/{other}.zip"] == "sample-changed"
    assert document[f"runs/{drawn}.zip"] == "bundle-missing"


def test_the_bundle_of_another_run_is_rejected(world: Audited, pack: bytes) -> None:
    """A bundle must hold the entries that the log part has of its run."""
    first, second = (f"runs/{run}.zip" for run in report_of(pack).sample.runs[:2])

    def change(files: packs.Files) -> None:
        files[first] = files[second]

    result = verify_twice(forge(pack, world, change), world.trust)

    assert rows(result) == {first: "bundle-rejected"}


@pytest.mark.parametrize("name", sorted(shipped_maps()))
def test_an_altered_map_is_named(world: Audited, name: str) -> None:
    """Even where the maker alters the map first, and makes the whole pack of that."""
    honest = shipped_maps()[name]
    row = honest.rows[0]
    altered = msgspec.structs.replace(
        honest, rows=(msgspec.structs.replace(row, yours="Nothing."), *honest.rows[1:])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "shipped_maps", lambda: {name: altered})
        data = make(world, period(1, 4, maps=(name,)))

    result = verify(data, world.trust)
    mine = verify(data, world.trust, {name: honest})

    assert rows(mine) == {f"map {name} rows {row.id} yours": "map-changed"}
    assert rows(result) == rows(mine)


def test_an_unknown_map_is_not_said_to_be_checked(world: Audited, pack: bytes) -> None:
    """A map of the user's own is the user's own."""
    result = verify(pack, world.trust, {})

    assert result.ok
    assert any("the text of map ai-act" in line for line in result.not_checked)


def test_another_attestation_is_rejected(world: Audited, pack: bytes) -> None:
    """A key that the log did not publish signs nothing."""
    files = unpack_archive(pack)
    report = report_of(pack)
    forger = SigningKey(b"f" * 32, world.attestation_key.name)
    rest = {n: d for n, d in files.items() if n not in (pack_file.MANIFEST, pack_file.ATTESTATION)}
    sealed = pack_file.seal_pack(world.key.name, rest, report, forger)

    assert rows(verify(sealed, world.trust)) == {pack_file.ATTESTATION: "attestation-rejected"}
    del files["report.json"]
    assert not verify(pack_archive(files), world.trust).ok


def test_what_a_gateway_has_recorded_is_in_no_figure_of_costs(tmp_path: Path) -> None:
    """Every verifier computes the same figures of a program that reports under `forum run`."""
    world = Audited(tmp_path)
    world.at(1)
    world.report_run("within", relayed_by="01a1f698-9590-791c-b9fc-9c84500e3f31")
    world.report_run("alone")
    world.settle_at(2)
    data = make(world, period(0, 2))
    report = msgspec.json.decode(unpack_archive(data)["report.json"], type=PackReport)
    figures = {figure.id: figure.value for figure in report.figures}

    assert verify_twice(data, world.trust).figures.state is State.HOLDS
    assert (figures["cost.total"], figures["tokens.total"]) == (1_500_000, 42)


@pytest.mark.parametrize("how", ["unsigned", "signed by itself", "of another log", "for later"])
def test_a_key_that_only_a_writer_added_attests_nothing(tmp_path: Path, how: str) -> None:
    """Every writer can add an entry to the strand `evidence`; only the log's key lends authority.

    Release 0.2 wrote no signature, and nothing tells its entries from those of another writer.
    """
    world = Audited(tmp_path)
    mine = SigningKey(b"m" * 32, world.attestation_key.name)
    world.at(1)
    world.report_run("one")
    facts = sign_key_addition(world.key.name, 0, mine, mine)
    added: kinds.KeyAddFacts | kinds.KeyAddV2Facts = msgspec.structs.replace(
        facts, by=str(world.key.verifier())
    )
    if how == "unsigned":
        added = kinds.KeyAddFacts(str(mine.verifier()))
    elif how == "of another log":
        added = sign_key_addition("other.example/log", 0, world.key, mine)
    elif how == "for later":
        added = sign_key_addition(world.key.name, 1000, world.key, mine)
    leaf = world.ledger.append_log_entry(Draft("add/mine", "operator", added), "evidence").leaf
    world.settle_at(2)
    entry = world.ledger.find_entry(leaf.hex())
    files = unpack_archive(make(world, period(0, 2)))
    report = msgspec.json.decode(files["report.json"], type=PackReport)
    del files[pack_file.MANIFEST], files[pack_file.ATTESTATION]
    assert entry.index is not None
    files[pack_file.KEY_ENTRY] = entry.data
    files[pack_file.KEY_PROOF] = world.ledger.prove_entry(entry.index).encode()
    result = verify_twice(pack_file.seal_pack(world.key.name, files, report, mine), world.trust)

    assert not result.ok
    assert result.attested.state is (State.NOT_CHECKED if how == "unsigned" else State.FAILS)


def test_an_incident_has_its_run_and_what_it_names(world: Audited) -> None:
    """In the order of the log, with its bundle."""
    data = make(world, period(1, 4, incident="run-gate", sample=0, maps=()))
    report = report_of(data)

    assert verify(data, world.trust).ok
    assert report.incident is not None
    kinds = [entry.kind for entry in report.incident.timeline]
    assert kinds[0] == "run.open/1"
    assert kinds[-1] == "run.close/1"
    assert "runs/run-gate.zip" in unpack_archive(data)


def test_an_auditors_seed_is_named_as_not_checked(world: Audited) -> None:
    """Who brought it cannot be seen."""
    data = make(world, period(1, 4, seed="tuesday"))
    result = verify_twice(data, world.trust)

    assert result.ok
    assert report_of(data).sample.seed_from == "auditor"
    assert any("tuesday" in line for line in result.not_checked)


def test_texts_of_others_stay_text(tmp_path: Path) -> None:
    """Actors and runs are named by others; a page runs no script and a table has no formula."""
    world = packs.Audited(tmp_path)
    world.at(1, 10)
    body = Attachment("text", text_content("x"))
    run = "<script>alert(1)"
    world.ledger.record_run(
        run, "=1+1", Draft("note", actor="=1+1", facts=NoteFacts(), parents=(), bodies=(body,))
    )
    world.settle_at(3, 0)

    data = make(world, period(1, 3, maps=(), sample=1))
    files = unpack_archive(data)

    page = draw(data, world.trust)
    assert verify(data, world.trust).ok
    assert "<script" not in page
    # Only the trust file of a reader makes a witness independent.
    assert "<b>Independent</b>" not in page
    assert "self-witnessed" in page
    assert b"'=1+1" in files["entries.csv"]
    assert b",=1+1" not in files["entries.csv"]


def test_a_map_of_somebody_else_stays_text(world: Audited) -> None:
    """Every text of a map is shown as text, and none of it can run or load anything."""
    evil = "<script src=//x>&\"'"
    honest = shipped_maps()["pci-dss"]
    row = msgspec.structs.replace(
        honest.rows[0], id=evil, duty=evil, source=evil, yours=evil, not_covered=evil
    )
    query = Query(evil, evil, evil)
    hostile = msgspec.structs.replace(
        honest,
        name="own",
        title=evil,
        version=evil,
        applies=evil,
        review=MapReview(ReviewStatus.REVIEWED, evil, evil),
        rows=(row,),
        queries=(query,),
        not_shown=(evil,),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "shipped_maps", lambda: {"own": hostile})
        data = make(world, period(1, 4, maps=("own",), seed=evil))

    page = draw(data, world.trust)
    assert verify(data, world.trust).ok
    assert "<script" not in page
    assert page.count("&lt;script src=//x&gt;&amp;&quot;&#x27;") > 10


def test_a_map_cannot_replace_a_figure_of_every_report(world: Audited) -> None:
    """Otherwise its maker could put another number under the name of a known one."""
    query = Query("runs.not-okay", "Runs that ended, and not well", "runs", kinds=("none/1",))
    own = msgspec.structs.replace(
        shipped_maps()["pci-dss"], name="own", title="Ours", queries=(query,)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "shipped_maps", lambda: {"own": own})
        honest = make(world, period(1, 4, maps=("own",)))

    def change(files: packs.Files) -> None:
        for name in ("maps/own.json", "report.json"):
            files[name] = files[name].replace(b"runs.not-okay", b"runs.not-ok")

    result = verify_twice(forge(honest, world, change), world.trust)

    assert verify(honest, world.trust).ok
    assert any("two queries have the id runs.not-ok" in f.detail for f in result.findings)
    assert result.figures.state is not State.HOLDS


def test_maps_that_nobody_has_reviewed_are_marked_on_each_printed_page(
    world: Audited, pack: bytes
) -> None:
    """In the margin, where it covers no row; without such a map there is no mark."""
    mark = '@page { @bottom-left { content: "Not reviewed: '

    assert mark in draw(pack, world.trust)
    assert mark not in draw(make(world, period(1, 4, maps=())), world.trust)


@pytest.mark.parametrize("held", [("run-10",), (), ("run-11",)])
def test_a_redaction_under_a_hold_is_counted(tmp_path: Path, held: tuple[str, ...]) -> None:
    """By any version of the entry; the commands refuse it, and somebody with a key may not."""
    world = packs.make_log(tmp_path)
    world.at(6, 10)
    target = world.ledger.find_entry("run-10/main/0")
    place, release = (kinds.HoldFacts("h", act, held) for act in kinds.HoldAct)
    one = kinds.RedactionFacts(target.leaf.hex(), "names", RedactionReason.LEGAL)
    many = kinds.RedactionBatchFacts(("0/names",), RedactionReason.LEGAL)
    for number, (facts, strand) in enumerate(
        [
            (place, "retention"),
            (one, "main"),
            (many, "retention"),
            (release, "retention"),
            (one, "main"),
        ]
    ):
        parents = (target.leaf,) if facts in (one, many) else ()
        world.ledger.append_log_entry(Draft(f"s{number}", "mallory", facts, parents), strand)
    world.settle_at(6, 100)
    world.settle_at(7, 0)
    world.run("later")
    world.settle_at(7, 60)
    data = make(world, period(1, 7, sample=0))

    figures = {figure.id: figure for figure in report_of(data).figures}

    assert verify_twice(data, world.trust).ok
    assert figures["redactions.by"].value == 3 + 1
    assert figures["redactions.held"].value == (0 if held == ("run-11",) else 2)


def erase_under_hold(folder: Path) -> Audited:
    """Return a log in which a body of an early run was erased although a hold keeps the run."""
    world = Audited(folder)
    world.at(0, 10)
    main = world.ledger.open_run("secret-deal", "alice")
    body = Attachment("text", text_content("we knew"))
    main.append(Draft("note", actor="alice", facts=NoteFacts(), parents=(), bodies=(body,)))
    world.ledger.close_run(main, "alice", kinds.Outcome.OK)
    world.settle_at(0, 60)
    world.at(1, 10)
    place = kinds.HoldFacts("litigation-9", kinds.HoldAct.PLACE, ("secret-deal",))
    world.ledger.append_log_entry(Draft("hold", "operator", place), "retention")
    world.settle_at(1, 60)
    world.at(2, 10)
    world.report_run("other")
    world.settle_at(2, 20)
    world.at(3, 10)
    target = world.ledger.find_entry("secret-deal/main/1").leaf
    # Whoever has the key of the writer need not ask `request_redaction`, which would refuse it.
    facts = kinds.RedactionFacts(target.hex(), "text", RedactionReason.RETENTION)
    world.ledger.append_log_entry(Draft("redact/z", "operator", facts, (target,)))
    world.settle_at(3, 20)
    for day in (4, 5):
        world.at(day, 10)
        world.report_run(f"run-{day}")
        world.settle_at(day, 20)
    return world


def test_an_erasure_under_a_hold_is_never_counted_as_none(tmp_path: Path) -> None:
    """What it erases was recorded before the period; without it, the figure cannot be computed."""
    world = erase_under_hold(tmp_path)
    arguments = period(2, 5, sample=0, maps=())
    honest = make(world, arguments)

    def read_held(data: bytes) -> tuple[int | None, int | None]:
        (figure,) = [f for f in report_of(data).figures if f.id == "redactions.held"]
        return figure.value, figure.items

    assert verify_twice(honest, world.trust).ok
    assert read_held(honest) == (1, 1)
    assert read_held(make(world, period(-1, 5, sample=0, maps=()))) == (1, 1)
    # Entries that are there for this alone change no other figure.
    assert {f.id: f.value for f in report_of(honest).figures}["runs.all"] == 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_find_erased", lambda *_, **__: ())
        own = shipped_maps()["pci-dss"]
        row = msgspec.structs.replace(own.rows[0], figures=("redactions.held",))
        own = msgspec.structs.replace(own, name="own", title="Rules of our own", rows=(row,))
        patch.setattr(packs, "shipped_maps", lambda: {"own": own})
        blind = make(world, period(2, 5, sample=0, maps=("own",)))
    result = verify_twice(blind, world.trust)
    page = draw(blind, world.trust)

    assert result.ok
    assert read_held(blind) == (None, None)
    assert "under a hold: cannot be computed" in page
    assert report_of(blind).maps[0].rows[0].state == "cannot be computed from this pack"
    assert any("figure redactions.held" in line for line in result.not_checked)
    assert any(
        "figure redactions.held" in x for x in verify_alone(blind, world.trust)["not_checked"]
    )
    # Release 0.2 said 0; its packs are read as they were made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_find_erased", lambda *_, **__: ())
        old = packs.make_old(world, arguments)
    assert read_held(old) == (0, 0)
    assert verify_twice(old, world.trust).ok


def test_one_thing_is_named_in_the_singular(world: Audited, pack: bytes) -> None:
    """On the tiles of the page."""
    page = draw(pack, world.trust)

    assert '<div class="tile" data-row="reviews.done"><b>1</b>review recorded</div>' in page
    assert '<div class="tile" data-row="runs.all"><b>12</b>runs</div>' in page


def test_nothing_says_compliant(pack: bytes) -> None:
    """A log shows what was recorded, never that a law is met."""
    files = unpack_archive(pack)
    texts = [files[name] for name in files if name.startswith(("report.", "maps/", "README"))]

    assert not re.search(rb"complian|certified", b"".join(texts), re.IGNORECASE)


@pytest.mark.parametrize("origin", ["", "\x1b[2J\x1b[H", "a\n", "\u202e", "a b", 'a"'])
def test_the_origin_of_a_pack_is_a_label(world: Audited, pack: bytes, origin: str) -> None:
    """No log has another: it would be there only for a reader's terminal or page."""
    files = unpack_archive(pack)
    listed = {
        n: d for n, d in files.items() if n not in (pack_file.MANIFEST, pack_file.ATTESTATION)
    }
    data = pack_archive({**files, pack_file.MANIFEST: pack_file.encode_manifest(origin, listed)})

    result = verify_twice(data, world.trust)

    assert [str(finding.problem) for finding in result.findings] == ["pack-altered"]
    assert result.origin == ""
