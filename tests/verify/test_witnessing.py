"""Who has seen it: only the reader's own mark makes a witness independent."""

from dataclasses import replace
from pathlib import Path

import pytest

from forum.errors import Malformed
from forum.ledger.kinds import LEDGER_KINDS
from forum.tlog import (
    ED25519_COSIGNATURE,
    KnownLog,
    KnownWitness,
    Note,
    SigningKey,
    WitnessPolicy,
    describe_witnessing,
)
from forum.verify import State, Trust, WitnessState, verify_bundle, verify_ledger
from tests.verify.page import PageRejected, page_verifier
from tests.verify.samples import (
    LOG,
    ORIGIN,
    POLICY,
    World,
    standalone,
    stranger,
    verify_both,
    write_run,
)

ELSEWHERE = SigningKey(b"e" * 32, "witness.example.org/forum", ED25519_COSIGNATURE)
OTHER_LOG = SigningKey(b"o" * 32, f"forum.local/log/{'7' * 28}32c4987d")


def make_bundle(folder: Path, witness: SigningKey) -> tuple[bytes, WitnessPolicy]:
    """Return a bundle that this witness has seen, and the trust file of its writer."""
    world = World(folder, witness=witness)
    try:
        write_run(world)
        world.settle()
        return world.bundle().encode(), world.policy
    finally:
        world.close()


def test_a_witness_is_independent_by_the_mark_of_the_reader_alone(tmp_path: Path) -> None:
    """Not by its name, which whoever made it has chosen."""
    bundle, policy = make_bundle(tmp_path, ELSEWHERE)
    unmarked = verify_both(bundle, Trust(policy=policy))
    marked = verify_both(bundle, Trust(policy=replace(policy, independent=("local",))))

    assert unmarked.ok
    assert unmarked.witnessing is WitnessState.SELF_WITNESSED
    assert [sighting.independent for sighting in unmarked.sightings] == [False]
    assert unmarked.summary == "intact, complete, self-witnessed"
    assert marked.ok
    assert marked.witnessing is WitnessState.INDEPENDENT
    assert marked.summary == "intact, complete, independent"
    assert marked.independent == unmarked.independent  # released members stay as they were


def test_a_mark_counts_only_if_that_witness_has_seen_it(tmp_path: Path) -> None:
    """A quorum of the writer's own witnesses stays self-witnessed beside a marked one."""
    bundle, policy = make_bundle(tmp_path, ELSEWHERE)
    absent = SigningKey(b"a" * 32, "witness.example.net", ED25519_COSIGNATURE)
    text = f"witness absent {absent.verifier()}\nindependent absent\n{policy}"

    report = verify_both(bundle, Trust(policy=WitnessPolicy.parse(text.encode())))
    assert report.witnessing is WitnessState.SELF_WITNESSED


def test_a_mark_counts_only_where_the_reader_names_one_log(tmp_path: Path) -> None:
    """A witness that is foreign to one log may be the own one of another."""
    bundle, policy = make_bundle(tmp_path, ELSEWHERE)
    marked = replace(policy, independent=("local",))
    two = replace(marked, logs=(*marked.logs, KnownLog(OTHER_LOG.verifier())))
    foreign = replace(marked, logs=(KnownLog(OTHER_LOG.verifier()),))
    rotated = replace(
        marked, logs=(*marked.logs, KnownLog(SigningKey(b"r" * 32, ORIGIN).verifier()))
    )
    keys = (LOG.verifier(),)

    for trust in (Trust(policy=two), Trust(keys=keys, policy=foreign)):
        report = verify_both(bundle, trust)
        assert report.ok
        assert report.witnessing is WitnessState.SELF_WITNESSED
        assert [sighting.independent for sighting in report.sightings] == [False]
    for trust in (
        Trust(policy=rotated),
        Trust(keys=keys, policy=marked),
        Trust(keys=keys, policy=replace(marked, logs=())),
    ):
        assert verify_both(bundle, trust).witnessing is WitnessState.INDEPENDENT


def test_the_key_of_the_log_is_no_witness_of_another_organization(tmp_path: Path) -> None:
    """Whether the trust file or an option names it as the key of the log."""
    own = SigningKey(bytes(range(32)), "witness.example.org/own", ED25519_COSIGNATURE)
    bundle, policy = make_bundle(tmp_path, own)
    unnamed = replace(policy, logs=(), independent=("local",))

    refuse_everywhere(f"{policy!s}independent local\n", policy)
    report = verify_both(bundle, Trust(keys=(LOG.verifier(),), policy=unnamed))
    assert report.witnessing is WitnessState.SELF_WITNESSED


def test_without_any_cosignature_no_surface_says_witnessed(tmp_path: Path) -> None:
    """The quorum "none" is reached by nobody, and then nobody has seen it."""
    world = World(tmp_path, witness=None)
    try:
        note = Note.parse(world.settle())
    finally:
        world.close()
    assert describe_witnessing(note, world.policy) == "signed, not witnessed yet"


def test_without_a_trust_file_nobody_has_seen_it(tmp_path: Path) -> None:
    """And without any key nothing at all was checked."""
    bundle, _ = make_bundle(tmp_path, ELSEWHERE)
    for trust in (Trust(), Trust(keys=(LOG.verifier(),))):
        report = verify_both(bundle, trust)
        assert report.witnessing is WitnessState.NONE
        assert not report.ok
    assert State.HOLDS not in states(verify_both(bundle, Trust()))


def test_a_witness_of_the_logs_own_machine_cannot_be_marked() -> None:
    """All readers refuse such a file, and a mark of nobody."""
    capital = SigningKey(b"w" * 32, "Forum.Local/witness/ab", ED25519_COSIGNATURE)
    spelled = replace(POLICY, witnesses=(KnownWitness("local", capital.verifier()),))
    refuse_everywhere(f"{POLICY}independent local\n", POLICY)
    refuse_everywhere(f"{spelled}independent local\n", spelled)
    refuse_everywhere(f"{POLICY}independent nobody\n", POLICY)


def refuse_everywhere(text: str, readable: WitnessPolicy) -> None:
    """Check that each reader refuses a trust file, and reads the one without the mark."""
    with pytest.raises(Malformed, match="trust file"):
        WitnessPolicy.parse(text.encode())
    with pytest.raises(standalone.BundleRejected):
        standalone.BundlePolicy(text.encode())
    page = page_verifier()
    if page is not None:
        trust = stranger(Trust(policy=readable))
        page.verify(b"", trust)
        trust.policy.text = text.encode()
        with pytest.raises(PageRejected):
            page.verify(b"", trust)


def test_a_writer_never_hands_out_a_mark(tmp_path: Path) -> None:
    """A bundle of a marked trust file encloses the file without the mark."""
    world = World(tmp_path, witness=ELSEWHERE)
    try:
        world.policy = replace(world.policy, independent=("local",))
        write_run(world)
        world.settle()
        enclosed = world.bundle().extras["policy"]
    finally:
        world.close()
    assert b"independent" not in enclosed
    assert WitnessPolicy.parse(enclosed) == world.policy.without_marks()


def test_a_trust_file_for_another_log_is_one_sentence_and_nothing_holds(tmp_path: Path) -> None:
    """The sentence names both logs, and is the same from every verifier."""
    world = World(tmp_path)
    try:
        write_run(world)
        world.settle()
        bundle = world.bundle().encode()
        text = str(world.policy).replace(str(LOG.verifier()), str(OTHER_LOG.verifier()))
        foreign = Trust(policy=WitnessPolicy.parse(text.encode()))
        with world.store.snapshot() as reader:
            whole = verify_ledger(reader, LEDGER_KINDS, foreign, world.clock())
    finally:
        world.close()
    report = verify_both(bundle, foreign)
    sentence = f"Your trust file is for the log …32c4987d; this bundle is of {ORIGIN}."

    assert report.intact.reason == sentence
    assert standalone.verify(bundle, alone(foreign))["intact"]["reason"] == sentence
    assert states(report) == {State.FAILS, State.NOT_CHECKED}
    assert not report.sightings
    assert report.is_unread
    assert whole.intact.reason == sentence.replace("bundle", "ledger")
    assert State.HOLDS not in states(whole)
    by_key = verify_bundle(bundle, LEDGER_KINDS, Trust(keys=(OTHER_LOG.verifier(),)))
    assert by_key.intact.reason.startswith("Your key is of the log …32c4987d;")


def alone(trust: Trust) -> object:
    """Return the trust of the stand-alone verifier."""
    assert trust.policy is not None
    policy = standalone.BundlePolicy(trust.policy.encode())
    policy.text = trust.policy.encode()
    return standalone.BundleTrust([], policy, [])


def states(report: object) -> set[State]:
    """Return the states of the three claims."""
    return {getattr(report, claim).state for claim in ("intact", "complete", "independent")}
