"""A bundle in the hands of a forger, read by Forum and by the stand-alone verifier alike."""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random, choice

import pytest

from forum.ledger.body import BytesContent, compute_commitment, text_content
from forum.ledger.bundle import Bundle
from forum.ledger.entry import Commitment, Facts
from forum.ledger.kinds import (
    LEDGER_KINDS,
    HoldAct,
    HoldFacts,
    NoteFacts,
    Outcome,
    RedactionBatchFacts,
    RedactionFacts,
    RedactionReason,
    RedactionV3Facts,
    RunCloseFacts,
)
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.strand import Attachment, Draft
from forum.ledger.zip_archive import Archive, pack_archive, unpack_archive
from forum.tlog import (
    ED25519_COSIGNATURE,
    KnownWitness,
    Note,
    SigningKey,
    TlogProof,
    WitnessPolicy,
    cosign,
)
from forum.verify import State, Trust
from tests.soak.flip import ENCLOSED, chosen, sweep, tell
from tests.verify.flips import Flips
from tests.verify.samples import (
    LOG,
    ORIGIN,
    OTHER_RUN,
    POLICY,
    RUN,
    SECOND,
    STARTED,
    TASK,
    TRUST,
    WITNESS,
    World,
    altered,
    make_bundle,
    problems,
    seal,
    verify_both,
    without,
    write_run,
    write_story,
)

HOLDS, FAILS = State.HOLDS, State.FAILS
NOT_CHECKED = State.NOT_CHECKED


@pytest.fixture(scope="module", params=[True, False], ids=["version 3", "version 1"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a bundle that verifies, as it is written now and by earlier releases."""
    return make_bundle(tmp_path_factory.mktemp("genuine"), share=request.param)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a ledger to write into."""
    world = World(tmp_path)
    yield world
    world.close()


def states(data: bytes, trust: Trust = TRUST) -> tuple[State, State, State]:
    """Return the three answers, on which both verifiers agree."""
    report = verify_both(data, trust)
    return report.intact.state, report.complete.state, report.independent.state


# What is genuine


class CountedSource:
    """Bytes that count how often they are asked for."""

    def __init__(self, data: bytes) -> None:
        self.data, self.reads = data, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, piece: slice) -> bytes:
        self.reads += 1
        return self.data[piece]


def test_a_bundle_is_opened_in_large_pieces() -> None:
    """Each of its files is small: three calls of the system for each cost more than its check."""
    data = pack_archive({f"entries/{n:016}.json": b"{}" * 50 for n in range(2000)})
    source = CountedSource(data)
    archive = Archive(source)
    opened, size = source.reads, len(data)

    assert opened <= 2 + size // 0xFFFF
    assert archive.read(f"entries/{7:016}.json") == b"{}" * 50


def test_a_genuine_bundle_holds(bundle: bytes) -> None:
    """Otherwise every forgery below could be rejected for a reason that was there before it."""
    report = verify_both(bundle)

    assert report.ok
    assert report.findings == ()
    assert (report.origin, report.entries, report.runs) == (ORIGIN, 8, 1)
    assert (report.bodies.ok, report.bodies.redacted) == (3, 1)
    assert [sighting.same_machine for sighting in report.sightings] == [True]


def test_a_bundle_is_deterministic(bundle: bytes, tmp_path: Path) -> None:
    """The same ledger gives the same bytes, so that two copies can be compared by digest."""
    assert make_bundle(tmp_path, share=b'"v":"forum/bundle/3"' in bundle) == bundle


def test_any_program_can_open_a_bundle(bundle: bytes) -> None:
    """The one form that we accept is a form that every reader of zip archives knows."""
    with zipfile.ZipFile(BytesIO(bundle)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == unpack_archive(bundle)


def test_what_a_bundle_encloses_is_not_believed(bundle: bytes) -> None:
    """Policy, verifier and instructions are a convenience: no part of the report rests on them."""
    files = unpack_archive(bundle)
    files |= {"policy": b"quorum none\n", "verify.py": b"print('all holds')\n", "README.txt": b""}
    files |= {"index.html": b"<h1>all holds</h1>"}

    assert verify_both(seal(files)) == verify_both(bundle)


# Whom the reader trusts


def test_without_keys_and_policy_nothing_holds_for_sure(bundle: bytes) -> None:
    """A verifier that took keys from the bundle would say yes to every forger."""
    assert states(bundle, Trust()) == (NOT_CHECKED, NOT_CHECKED, NOT_CHECKED)


def test_a_key_alone_says_nothing_of_witnesses(bundle: bytes) -> None:
    """Without a policy there is nobody whose word could make it independent."""
    assert states(bundle, Trust((LOG.verifier(),))) == (HOLDS, HOLDS, NOT_CHECKED)


def test_a_policy_without_logs_names_no_key(bundle: bytes) -> None:
    """Witnesses vouch for what they saw, not for whose log it is."""
    policy = WitnessPolicy((), POLICY.witnesses, (), "local")

    assert states(bundle, Trust(policy=policy)) == (NOT_CHECKED, NOT_CHECKED, HOLDS)
    assert verify_both(bundle, Trust((LOG.verifier(),), policy)).ok


def test_another_log_s_key_does_not_open_it(bundle: bytes) -> None:
    """A reader who pins a key means that key."""
    other = SigningKey(b"o" * 32, ORIGIN)

    report = verify_both(
        bundle, Trust((other.verifier(),), WitnessPolicy((), POLICY.witnesses, (), "local"))
    )

    assert (report.intact.state, problems(report)) == (FAILS, {"signature-rejected"})


@pytest.mark.parametrize(
    ("witnesses", "quorum"),
    [((), "none"), ((WITNESS,), "strangers"), ((WITNESS,), "all")],
    ids=["nobody", "somebody-else", "more-than-there-are"],
)
def test_a_policy_that_is_not_satisfied(
    bundle: bytes, witnesses: tuple[SigningKey, ...], quorum: str
) -> None:
    """The quorum is the reader's, whatever the log's own policy is content with."""
    stranger = SigningKey(b"s" * 32, "witness.example/s", ED25519_COSIGNATURE)
    lines = [f"log {LOG.verifier()}", f"witness strangers {stranger.verifier()}"]
    lines += [f"witness local {key.verifier()}" for key in witnesses]
    lines += ["group all all local strangers"] if witnesses else []
    policy = WitnessPolicy.parse("\n".join([*lines, f"quorum {quorum}", ""]).encode())

    report = verify_both(bundle, Trust(policy=policy))

    assert (report.independent.state, problems(report)) == (FAILS, {"not-witnessed"})


def test_one_of_several_witnesses_may_suffice(bundle: bytes) -> None:
    """A group is satisfied by as many members as its threshold says."""
    stranger = SigningKey(b"s" * 32, "witness.example/s", ED25519_COSIGNATURE)
    known_witnesses = (KnownWitness("s", stranger.verifier()), *POLICY.witnesses)
    lines = [
        *POLICY.logs,
        *known_witnesses,
        "group inner any local",
        "group g 1 s inner",
        "quorum g",
        "",
    ]

    assert verify_both(
        bundle, Trust(policy=WitnessPolicy.parse("\n".join(map(str, lines)).encode()))
    ).ok


def test_a_forger_with_keys_of_his_own(bundle: bytes, tmp_path: Path) -> None:
    """Same names, own keys, own policy, own verifier: it holds for whoever believes the bundle."""
    log = SigningKey(b"f" * 32, ORIGIN)
    witness = SigningKey(b"g" * 32, WITNESS.name, ED25519_COSIGNATURE)
    world = World(tmp_path, log, witness)
    write_story(world)
    forged = world.bundle(verifier=b"print('all holds')\n").encode()
    world.close()

    assert verify_both(forged, Trust(policy=world.policy)).ok
    report = verify_both(forged)
    assert not report.ok
    assert problems(report) == {"signature-rejected", "not-witnessed"}
    assert states(forged, Trust()) == (NOT_CHECKED, NOT_CHECKED, NOT_CHECKED)


def test_a_tree_that_was_seen_otherwise(bundle: bytes, tmp_path: Path) -> None:
    """Two trees of one size under one key are two histories; the reader remembers the first."""
    world = World(tmp_path)
    strand = world.ledger.open_strand(OTHER_RUN)
    for number in range(10):
        world.remark(strand, f"other/{number}")
    seen = world.settle()
    world.close()

    report = verify_both(bundle, Trust(policy=POLICY, remembered=(seen, seen)))

    assert problems(report) == {"history-replaced"}
    assert (report.independent.state, report.found) == (FAILS, 1)
    own = unpack_archive(bundle)["checkpoint"]
    assert verify_both(bundle, Trust(policy=POLICY, remembered=(own,))).ok
    assert not verify_both(bundle, Trust(policy=POLICY, remembered=(b"no note",))).ok


# What is missing


def test_a_body_that_is_missing_without_a_redaction(bundle: bytes) -> None:
    """Whoever leaves out the damning body must not be able to call it redacted."""
    report = verify_both(without(bundle, "bodies/0000000000000005", "salts/0000000000000005"))

    assert (report.complete.state, problems(report)) == (FAILS, {"body-missing"})
    assert (report.bodies.missing, report.bodies.redacted) == (1, 1)


def test_a_redaction_that_is_left_out(bundle: bytes) -> None:
    """The redacted body is then simply missing."""
    last = "0000000000000009"

    report = verify_both(without(bundle, f"entries/{last}", f"proofs/{last}"))

    assert problems(report) == {"body-missing"}


def test_a_redacted_body_that_comes_back(bundle: bytes) -> None:
    """Who still holds body and salt can prove it; nothing else passes for it."""
    files = unpack_archive(bundle)
    name = "0000000000000004/text"

    report = verify_both(seal(files | {f"bodies/{name}": b"a lie", f"salts/{name}": bytes(32)}))

    assert problems(report) == {"body-mismatch"}


@pytest.mark.parametrize("salt", [b"", bytes(31), bytes(33)])
def test_a_salt_of_another_length(bundle: bytes, salt: bytes) -> None:
    """It is a finding like any other, and not an exception in the verifier."""
    files = unpack_archive(bundle) | {"salts/0000000000000005/text": salt}

    assert problems(verify_both(seal(files))) == {"body-mismatch"}


def test_an_entry_that_is_left_out(bundle: bytes) -> None:
    """A gap in a strand shows, and so does a link or a cause that leads nowhere."""
    number = "0000000000000005"

    report = verify_both(
        without(bundle, *(f"{kind}/{number}" for kind in ("entries", "proofs", "bodies", "salts")))
    )

    assert problems(report) == {"parent-unknown", "strand-unclosed"}


def test_an_entry_without_its_proof(bundle: bytes) -> None:
    """Each entry stands with its own evidence, or the bundle is not one."""
    assert problems(verify_both(without(bundle, "proofs/0000000000000003"))) == {"bundle-altered"}


def test_a_strand_that_is_left_out(bundle: bytes) -> None:
    """The close of a run lists every strand with its end: none can be dropped whole."""
    gone = [f"{kind}/000000000000000{n}" for n in (4, 5, 9) for kind in ("entries", "proofs")]
    gone += [f"{kind}/000000000000000{n}" for n in (4, 5) for kind in ("bodies", "salts")]

    report = verify_both(without(bundle, *gone))

    assert (report.complete.state, problems(report)) == (
        FAILS,
        {"strand-unclosed", "parent-unknown"},
    )


def test_a_run_without_its_close(bundle: bytes) -> None:
    """Whoever cuts the end off gets no more than "not checked"."""
    kinds = ("entries", "proofs", "bodies", "salts")

    assert states(without(bundle, *(f"{kind}/0000000000000007" for kind in kinds))) == (
        HOLDS,
        NOT_CHECKED,
        HOLDS,
    )


def test_the_bundle_of_an_open_run(world: World) -> None:
    """What is still going on cannot be complete, and is not called incomplete either."""
    write_run(world, close=False)

    report = verify_both(world.bundle().encode())

    assert report.complete.state == NOT_CHECKED
    assert report.open_runs == (RUN,)
    assert report.findings == ()


def test_a_bundle_without_entries_of_its_run(bundle: bytes) -> None:
    """Nothing is missing from nothing; but it is no evidence of a run."""
    kinds = ("entries", "proofs", "bodies", "salts")

    empty = verify_both(without(bundle, *kinds))
    another = verify_both(altered(without(bundle, "bodies", "salts"), run=OTHER_RUN))

    assert (empty.complete.state, problems(empty)) == (FAILS, {"run-unopened"})
    assert (another.complete.state, problems(another)) == (FAILS, {"run-unopened"})


@pytest.mark.parametrize("member", ["origin", "run"])
@pytest.mark.parametrize(
    "text", ["", "a b", "a\n", "\x1b[2J\x1b[H", "\u202e", "\x9b", "a\u200b", "l" * 129, 'a"', "a\\"]
)
def test_origin_and_run_are_labels(bundle: bytes, member: str, text: str) -> None:
    """No entry has others: they would be there only for a reader's terminal or page."""
    report = verify_both(altered(bundle, **{member: text}))

    assert problems(report) == {"bundle-altered"}
    assert (report.intact.state, report.origin) == (FAILS, "")


def test_the_bundle_of_the_log_s_own_life(world: World) -> None:
    """It has no close, so its tail can be cut without a trace: not checked."""
    write_story(world)

    report = verify_both(world.bundle("log").encode())

    assert (report.intact.state, report.complete.state) == (HOLDS, NOT_CHECKED)
    assert report.findings == ()


def test_a_close_whose_list_is_redacted(world: World) -> None:
    """Which strands there were is then not known; "complete" would be a guess."""
    write_story(world)
    target = world.ledger.find_entry(f"{RUN}/main/3")
    world.ledger.request_redaction(target, "strands", "operator", RedactionReason.REQUEST)
    world.settle()
    world.ledger.erase_redacted()

    report = verify_both(world.bundle().encode())

    assert (report.complete.state, report.bodies.redacted) == (NOT_CHECKED, 2)
    assert report.findings == ()


def test_a_run_cannot_redact_its_own_bodies(world: World) -> None:
    """Who may write a run could leave out what damns it, and both verifiers would believe it."""
    main = write_run(world, close=False)
    target = world.ledger.find_entry(f"{RUN}/{TASK}/0")
    facts = RedactionFacts(target.leaf.hex(), "text", RedactionReason.SECRET)
    main.append(Draft("redact", "operator", facts, (target.leaf,)))
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    world.store.erase_bodies([(target.position, "text")])

    report = verify_both(world.bundle().encode())

    assert problems(report) == {"body-missing"}
    assert (report.bodies.redacted, report.bodies.missing) == (0, 1)


@pytest.mark.parametrize(
    ("item", "redacted"),
    [
        ("0/text", 1),
        ("1/text", 0),
        ("2/text", 0),
        ("00/text", 0),
        ("+0/text", 0),
        ("٠/text", 0),
        ("100/text", 0),
        ("0/text\u2028", 0),
        ("0text", 0),
        ("0/", 0),
        ("0//text", 0),
        ("/text", 0),
        ("", 0),
    ],
)
def test_a_redaction_of_many_bodies_says_which(world: World, item: str, redacted: int) -> None:
    """By the place of the entry among the parents; anything else redacts nothing."""
    write_run(world)
    target = world.ledger.find_entry(f"{RUN}/{TASK}/0")
    other = world.ledger.find_entry(f"{RUN}/main/0")
    facts = RedactionBatchFacts((item, "1/nothing"), RedactionReason.RETENTION, "*")
    draft = Draft("redact", "system", facts, (target.leaf, other.leaf))
    world.ledger.append_log_entry(draft, RETENTION_STRAND)
    world.settle()
    world.store.erase_bodies([(target.position, "text")])

    report = verify_both(world.bundle().encode())

    assert (report.bodies.redacted, report.bodies.missing) == (redacted, 1 - redacted)
    assert problems(report) == (set() if redacted else {"body-missing"})


@pytest.mark.parametrize("strand", ["main", "other"])
def test_a_redaction_of_many_bodies_elsewhere_explains_nothing(world: World, strand: str) -> None:
    """Only one strand of the log's own run is read for them."""
    write_run(world)
    target = world.ledger.find_entry(f"{RUN}/{TASK}/0")
    facts = RedactionBatchFacts(("0/text",), RedactionReason.RETENTION)
    world.ledger.append_log_entry(Draft("redact", "system", facts, (target.leaf,)), strand)
    world.settle()
    world.store.erase_bodies([(target.position, "text")])

    assert problems(verify_both(world.bundle().encode())) == {"body-missing"}


def redact_past_the_check(world: World, kind: str, run: str = RUN) -> Draft:
    """Return a redaction as somebody writes it who does not ask whether the run is held."""
    target = world.ledger.find_entry(f"{RUN}/{TASK}/0")
    facts: Facts = RedactionFacts(target.leaf.hex(), "text", RedactionReason.REQUEST)
    if kind == "redact/2":
        facts = RedactionBatchFacts(("0/text",), RedactionReason.RETENTION)
    elif kind == "redact/3":
        facts = RedactionV3Facts(("0/text",), (run,), RedactionReason.RETENTION)
    strand = "main" if kind == "redact/1" else RETENTION_STRAND
    world.ledger.append_log_entry(Draft("redact", "system", facts, (target.leaf,)), strand)
    world.settle()
    world.store.erase_bodies([(target.position, "text")])
    return Draft("release", "operator", HoldFacts("case", HoldAct.RELEASE))


@pytest.mark.parametrize("kind", ["redact/1", "redact/2", "redact/3"])
@pytest.mark.parametrize("runs", [(RUN,), ()])
def test_a_redaction_behind_a_hold_is_found(world: World, kind: str, runs: tuple[str, ...]) -> None:
    """The order of the log decides, also if the hold is released later."""
    write_run(world)
    hold = HoldFacts("case", HoldAct.PLACE, runs)
    world.ledger.append_log_entry(Draft("hold", "operator", hold), RETENTION_STRAND)
    released = redact_past_the_check(world, kind)
    assert problems(verify_both(world.bundle().encode())) == {"hold-broken"}
    world.ledger.append_log_entry(released, RETENTION_STRAND)
    world.settle()
    report = verify_both(world.bundle().encode())
    assert (report.complete.state, problems(report)) == (FAILS, {"hold-broken"})


@pytest.mark.parametrize("kind", ["redact/1", "redact/2", "redact/3"])
def test_a_redaction_that_no_hold_forbids_is_no_finding(world: World, kind: str) -> None:
    """A hold on another run, one that was released before, and one that was placed after."""
    write_run(world)
    release = HoldFacts("case", HoldAct.RELEASE)
    for facts in (
        HoldFacts("other", HoldAct.PLACE, (OTHER_RUN,)),
        HoldFacts("case", HoldAct.PLACE, (RUN,)),
        release,
    ):
        world.ledger.append_log_entry(Draft("hold", "operator", facts), RETENTION_STRAND)
    redact_past_the_check(world, kind)
    late = Draft("hold", "operator", HoldFacts("late", HoldAct.PLACE))
    world.ledger.append_log_entry(late, RETENTION_STRAND)
    world.settle()
    assert verify_both(world.bundle().encode()).findings == ()


def test_a_redaction_cannot_name_another_run(world: World) -> None:
    """Whoever has one entry and not the run would look for holds on the other run."""
    write_run(world)
    redact_past_the_check(world, "redact/3", OTHER_RUN)
    assert problems(verify_both(world.bundle().encode())) == {"parent-unknown"}


def test_an_array_that_is_written_with_its_default_is_malformed(world: World) -> None:
    """One thing can be said in one way only, and every verifier has to see that."""
    write_run(world)
    facts = HoldFacts("case", HoldAct.PLACE, ("r",))
    world.ledger.append_log_entry(Draft("hold", "operator", facts), RETENTION_STRAND)
    world.settle()
    files = unpack_archive(world.bundle("log").encode())
    (name,) = [n for n, data in files.items() if b'"runs":["r"]' in data]
    document = files | {name: files[name].replace(b'"runs":["r"]', b'"runs":[]')}

    assert "entry-malformed" not in problems(verify_both(seal(files)))
    assert "entry-malformed" in problems(verify_both(seal(document)))


def test_a_close_that_commits_to_no_list_closes_nothing(world: World) -> None:
    """It says how many strands there were, which even a run without any has to prove."""
    main = world.ledger.open_run(RUN, "operator")
    main.append(Draft("run/close", "operator", RunCloseFacts(Outcome.OK, 0)))
    world.settle()

    assert problems(verify_both(world.bundle().encode())) == {"strand-unclosed"}


def test_a_close_beside_main_closes_nothing(world: World) -> None:
    """Only `main` speaks for the run; the same kind in another strand is like any other entry."""
    main = world.ledger.open_run(RUN, "operator")
    asked = world.remark(main, "ask")
    task = world.ledger.open_strand(RUN, TASK)
    body = Attachment("strands", text_content("[]"))
    task.append(
        Draft(
            "run/close",
            actor="operator",
            facts=RunCloseFacts(Outcome.OK, 0),
            parents=(asked,),
            bodies=(body,),
        )
    )
    world.settle()
    report = verify_both(world.bundle().encode())

    assert report.findings == ()
    assert report.complete.state is NOT_CHECKED


def test_what_comes_after_a_close(world: World) -> None:
    """Nothing may be added to a closed run: neither to a strand of it nor as a new one."""
    main = write_run(world)
    world.remark(main, "late")
    world.remark(world.ledger.open_strand(RUN, "task/2"), "later")
    world.settle()

    report = verify_both(world.bundle().encode())

    assert {"after-close", "position-missing", "run-unopened", "cause-missing"} == problems(report)


# What does not belong


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/outside",
        "entries/1.json",
        "entries/0000000000000001.txt",
        "proofs/0000000000000001.tlog-proof",
        "proofs/0000000000000001.inclusion",
        "spans/0000000000000003/other",
        "pieces/0000000000000001",
        "salts/0000000000000003/other",
        "past/0000000000000005.consistency",
        "nul\0",
        "\u0661",
        "",
    ],
)
def test_a_file_of_no_known_kind(bundle: bytes, name: str) -> None:
    """What the verifier does not read must not stand where readers look for evidence."""
    assert problems(verify_both(seal(unpack_archive(bundle) | {name: b""}))) == {"bundle-altered"}


def test_a_body_of_no_entry(bundle: bytes) -> None:
    """A text that the log never committed to must not travel along as if it had."""
    files = unpack_archive(bundle)
    for place in ("0000000000000003/other", "0000000000000001/text", "0000000000000009/text"):
        stray = files | {f"bodies/{place}": b"x", f"salts/{place}": bytes(32)}

        assert problems(verify_both(seal(stray))) == {"bundle-altered"}


def test_an_entry_of_another_log(world: World, tmp_path: Path) -> None:
    """An entry names its log, so that it cannot be replayed in another one."""
    write_run(world)
    foreign = LEDGER_KINDS.read(next(world.store.entries(3, 4)) or b"")
    data = LEDGER_KINDS.write(
        type(foreign)(**{f: getattr(foreign, f) for f in foreign.__struct_fields__} | {"log": "x"})
    )
    files = unpack_archive(world.bundle().encode()) | {"entries/0000000000000003.json": data}

    assert {"foreign-entry", "proof-rejected"} < problems(verify_both(seal(files)))


@pytest.mark.parametrize("cut", [1, 22, 46, 1000])
def test_an_archive_that_is_cut_off(bundle: bytes, cut: int) -> None:
    """Half a download is no bundle."""
    assert problems(verify_both(bundle[:-cut])) == {"bundle-altered"}


@pytest.mark.parametrize(
    "data", [b"", b"PK\3\4", b"PK\5\6" + bytes(18), bytes(100), pack_archive({})]
)
def test_what_is_no_bundle_at_all(data: bytes) -> None:
    """Any bytes whatever give a report."""
    assert problems(verify_both(data)) == {"bundle-altered"}


def test_an_archive_with_something_around_it(bundle: bytes) -> None:
    """Zip readers find an archive inside other bytes; whoever verifies must not."""
    for forged in (b"x" + bundle, bundle + b"x", bundle[:-2] + b"\1\0x"):
        assert problems(verify_both(forged)) == {"bundle-altered"}


def test_an_archive_with_very_many_files() -> None:
    """A zip archive counts its files with two bytes; beyond that it ends as ZIP64 has it."""
    files = {f"{n:05}": b"" for n in range(65_536)}
    data = pack_archive(files)

    assert unpack_archive(data) == files
    with zipfile.ZipFile(BytesIO(data)) as archive:
        assert archive.namelist() == list(files)


def test_a_manifest_that_is_written_differently(bundle: bytes) -> None:
    """One bundle, one form: also in what protects against accidents only."""
    files = unpack_archive(bundle)
    line = files["manifest.json"]
    for other in (
        line.replace(b",", b", ", 1),
        re.sub(rb'"v":"forum/bundle/[13]",', b"", line, count=1),
        line.replace(b'{"v"', b'{"w":1,"v"', 1),
        line.replace(b'"run":"', b'"run":"\\u0030', 1),
        line.replace(b'"run":"', b'"run":["', 1).replace(b'","files', b'"],"files', 1),
        b"[]",
        b"",
        b"\xff",
        b"[" * 100_000,
    ):
        assert problems(verify_both(pack_archive(files | {"manifest.json": other}))) == {
            "bundle-altered"
        }


def test_a_manifest_with_a_boolean_for_a_number(bundle: bytes) -> None:
    """In some languages true equals one."""
    files = unpack_archive(bundle) | {"README.txt": b"x"}
    line = unpack_archive(seal(files))["manifest.json"].replace(
        b'["README.txt",1,', b'["README.txt",true,'
    )

    report = verify_both(pack_archive(files | {"manifest.json": line}))

    assert problems(report) == {"bundle-altered"}


# Times, causes and links


def test_a_time_before_the_run_can_have_begun(tmp_path: Path) -> None:
    """A run that names a cosigned checkpoint is younger than that: backdating shows."""
    world = World(tmp_path)
    world.ledger = type(world.ledger)(
        world.store, LEDGER_KINDS, lambda: (STARTED - 600) * SECOND, lambda: bytes(32)
    )
    write_run(world)

    report = verify_both(world.bundle().encode())

    assert (report.independent.state, problems(report)) == (FAILS, {"time-impossible"})
    world.close()


def test_a_time_after_the_run_was_seen(tmp_path: Path) -> None:
    """What a witness has seen was there by then, whatever its writer says."""
    world = World(tmp_path)
    world.ledger = type(world.ledger)(
        world.store, LEDGER_KINDS, lambda: (STARTED + 600) * SECOND, lambda: bytes(32)
    )
    write_run(world)

    report = verify_both(world.bundle().encode())

    assert (report.independent.state, problems(report)) == (FAILS, {"time-impossible"})
    world.close()


def test_a_past_that_is_left_out(bundle: bytes) -> None:
    """Without the checkpoint that the run names, nobody has seen that past."""
    assert problems(verify_both(without(bundle, "past/0000000000000002"))) == {"past-unknown"}


def test_a_past_that_no_witness_has_seen(world: World) -> None:
    """A witness that slept delays nothing; what it did not cosign merely bounds no times."""
    world.remark(world.ledger.open_strand(OTHER_RUN), "before")
    world.witnesses[0].asleep = True
    world.settle()
    main = world.ledger.open_run(RUN, "operator")
    world.witnesses[0].asleep = False
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()

    bundle = world.bundle().encode()

    assert "past/0000000000000003.note" in unpack_archive(bundle)
    assert verify_both(bundle).ok


def test_a_past_that_is_not_continued(bundle: bytes) -> None:
    """An earlier checkpoint counts only if this tree grew from it."""
    files = unpack_archive(bundle)
    name = "past/0000000000000008.consistency"

    report = verify_both(seal(files | {name: files["past/0000000000000002.consistency"]}))

    assert problems(report) == {"history-replaced"}


def test_a_past_by_another_key(bundle: bytes) -> None:
    """Whoever lets a bundle continue a checkpoint of his own making is found out by its key."""
    files = unpack_archive(bundle)
    other = SigningKey(b"o" * 32, ORIGIN)
    note = Note.parse(files["past/0000000000000008.note"])
    forged = Note(note.text, (cosign(note.text, WITNESS, STARTED),)).encode()

    assert other.verifier() != LOG.verifier()
    report = verify_both(seal(files | {"past/0000000000000008.note": forged}))
    assert problems(report) == {"signature-rejected"}


def test_a_proof_of_another_entry(tmp_path: Path) -> None:
    """In version 1, a proof counts for the entry that it names, and for this checkpoint."""
    files = unpack_archive(make_bundle(tmp_path, share=False))
    text, two = (f"proofs/000000000000000{n}.tlog-proof" for n in (2, 3))
    swapped = verify_both(seal(files | {text: files[two], two: files[text]}))
    proof = TlogProof.parse(files[text])
    older = TlogProof(2, proof.hashes, Note.parse(files["past/0000000000000008.note"]))
    renumbered = TlogProof(3, proof.hashes, proof.note).encode()

    assert problems(swapped) == {"proof-rejected"}
    assert problems(verify_both(seal(files | {text: older.encode()}))) == {"proof-rejected"}
    assert problems(verify_both(seal(files | {two: renumbered}))) == {"proof-rejected"}


def test_a_run_that_does_not_begin_with_its_opening(world: World) -> None:
    """Without run.open nothing says since when the run can exist."""
    world.remark(world.ledger.open_strand(RUN), "first")
    world.settle()

    report = verify_both(world.bundle().encode())

    assert problems(report) == {"run-unopened"}


def test_a_size_that_the_commitment_does_not_fit(world: World) -> None:
    """The length in a leaf outlives the body, so a body of another length must not pass."""
    salt, content = bytes(32), b"four"
    lie = Commitment(compute_commitment(salt, 5, [content]).hex(), 5, "text/plain")
    main = world.ledger.open_run(RUN, "operator")
    head = main.head
    assert head is not None
    forged = LEDGER_KINDS.read(next(world.store.entries(0, 1)) or b"")
    world.settle()
    bundle = world.bundle()
    index, data = max(bundle.entries.items())
    entry = LEDGER_KINDS.read(data)
    members = {f: getattr(entry, f) for f in entry.__struct_fields__}
    data = LEDGER_KINDS.write(
        type(forged)(**members | {"kind": "note/1", "facts": NoteFacts(), "bodies": {"text": lie}})
    )
    altered_bundle = Bundle(
        bundle.origin,
        bundle.run,
        bundle.checkpoint,
        entries={index: data},
        proofs={index: bundle.proofs[index]},
        bodies={(index, "text"): (salt, content)},
        past=bundle.past,
    )

    assert "body-mismatch" in problems(verify_both(altered_bundle.encode()))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'[["task/1",1]]',
        b'[["task/1",-1,""]]',
        b'[["task/1",true,""]]',
        b'[["task/1",1.0,""]]',
        b'[["task/1",99999999999999999999999999,""]]',
        b'[["task/1",1,"", ""]]',
        b'[["\xff",1,""]]',
        b'[["\\ud800",1,""]]',
        b'[["b",0,""],["a",0,""]]',
        b'[["a",0,""],["a",0,""]]',
        b" []",
        b"[" * 5000,
    ],
)
def test_a_list_of_strands_that_is_none(world: World, content: bytes) -> None:
    """A writer may commit to anything; what is no list fits no strands."""
    main = write_run(world, close=False)
    body = Attachment("strands", BytesContent(content), "application/json")
    main.append(
        Draft(
            "run/close",
            actor="operator",
            facts=RunCloseFacts(Outcome.OK, 1),
            parents=(),
            bodies=(body,),
        )
    )
    world.settle()

    report = verify_both(world.bundle().encode())

    assert (report.complete.state, problems(report)) == (FAILS, {"strand-unclosed"})


# Bit by bit


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Flips:
    """Return all bits of the bundle."""
    return Flips(make_bundle(tmp_path_factory.mktemp("flipped")))


EVIDENCE = ("manifest.json", "checkpoint", "proofs/")


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.nightly), 8])
def test_a_flipped_bit_of_manifest_checkpoint_and_proofs_is_rejected(
    flips: Flips, every: int
) -> None:
    """One bit anywhere in what the evidence rests on; in the gate, another one of each byte."""
    all_bits = list(flips.of(*EVIDENCE))
    bits = [choice(all_bits[at : at + every]) for at in range(0, len(all_bits), every)]

    seen = sweep("as it is", flips, bits, flips.turned)

    assert sum(seen[kind, True] for kind, _ in seen) == len(bits)


@pytest.mark.slow
def test_flipped_bits_anywhere_else_are_rejected(flips: Flips) -> None:
    """A seeded sample of all others; `just flip-bundle` tries every one."""
    others = [flip for flip in flips.everything() if not flip.name.startswith(EVIDENCE)]

    seen = sweep("as it is", flips, Random(1).sample(others, 2000), flips.turned)

    assert sum(seen[kind, True] for kind, _ in seen) == 2000


@pytest.mark.slow
def test_flipped_bits_that_a_forger_repairs(flips: Flips) -> None:
    """Digests protect against accidents only; what people do is left to proofs and signatures."""
    bits = chosen(flips, "20", seed=2)

    table = tell("repaired", sweep("repaired", flips, bits, flips.repaired))

    # A cosignature of an earlier checkpoint that names nobody bounds no times; that is all.
    assert {kind for kind, counts in table.items() if counts["unchanged"]} <= {*ENCLOSED, "past"}
    assert {kind for kind, counts in table.items() if not counts["rejected"]} == ENCLOSED
