"""Bundles in which bodies share bytes: forum/bundle/3."""

import json
import zipfile
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest

from forum.app import KINDS
from forum.ledger.archive import make_copy
from forum.ledger.bundle import BundleReader
from forum.ledger.kinds import LEDGER_KINDS, Outcome, RedactionReason
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.tlog import WitnessPolicy
from forum.verify import Bodies, State, Trust, verify_bundle
from tests.docs.bundle_vectors import VECTORS, render
from tests.verify.conversations import conversation, prompts
from tests.verify.hostile_spans import STRANGER
from tests.verify.samples import (
    RUN,
    Files,
    World,
    problems,
    seal,
    standalone,
    stranger,
    verify_both,
    write_story,
)
from tests.verify.span_frauds import FRAUDS, forge

OLD_PACK = Path(__file__).parents[1] / "features/evidence/release-0.2.zip"
OLD_BUNDLES = {
    name: data
    for name, data in unpack_archive(OLD_PACK.read_bytes()).items()
    if name.startswith("runs/")
}


def test_a_conversation_holds_and_is_stored_once() -> None:
    """Each prompt repeats the one before it: the pieces have what was said, and little more."""
    data = conversation(50, 900)
    report = verify_both(data)
    assert report.ok
    files = unpack_archive(data)
    said = len(list(prompts(50, 900))[-1])
    stored = sum(
        len(content) for name, content in files.items() if name.startswith(("pieces/", "spans/"))
    )
    assert stored < 1.3 * said


def test_more_than_the_reader_wants_is_refused_by_all() -> None:
    """A small file can describe long bodies; whoever expects them raises the limit."""
    data = conversation()
    size = BundleReader(data).body_bytes
    assert verify_both(data, max_bytes=size).ok
    refused = verify_both(data, max_bytes=size - 1)
    assert problems(refused) == {"bundle-altered"}
    assert refused.bodies == Bodies()
    assert "--max-bytes" in refused.intact.reason


@pytest.mark.parametrize("trust", [Trust(), Trust(keys=(STRANGER.verifier(),))])
def test_bodies_of_entries_that_nobody_signed_are_not_put_together(trust: Trust) -> None:
    """Otherwise a stranger could have gigabytes hashed; nothing is said to hold of them."""
    report = verify_both(conversation(), trust)
    assert report.bodies == Bodies(ok=1)
    assert report.intact.state is not State.HOLDS


def test_the_form_of_the_archive_does_not_decide_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bodies share bytes in a wide archive too; versions 1 and 2 differ by nothing else."""
    narrow = conversation()
    monkeypatch.setattr("forum.ledger.zip_archive.MAX_FILES", 10)
    monkeypatch.setattr(standalone, "MAX_FILES", 10)
    wide = seal(unpack_again(narrow))
    assert wide != narrow
    assert verify_both(wide).ok
    assert problems(verify_both(narrow)) == {"bundle-altered"}


def unpack_again(data: bytes) -> Files:
    """Return the files of an archive in whatever form."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("v", ["forum/bundle/1", "forum/bundle/2", "forum/bundle/4"])
def test_no_other_version_has_lists(v: str) -> None:
    """A version says which files there are."""
    assert problems(verify_both(seal(unpack_archive(conversation()), v=v))) == {"bundle-altered"}


def test_each_version_holds_the_same(tmp_path: Path) -> None:
    """What is written out in versions 1 and 2 is shared in version 3."""
    world = World(tmp_path)
    write_story(world)
    bundle = world.bundle()
    whole, shared = (verify_both(bundle.encode(share=share)) for share in (False, True))
    world.close()
    assert whole.ok
    assert whole == shared


def test_a_redacted_body_leaves_no_bytes(tmp_path: Path) -> None:
    """What an archive copy leaves out is in no piece either, unless another body has it."""
    world = World(tmp_path)
    main = world.ledger.open_run(RUN, "operator")
    for number, text in enumerate(["first " * 200, "first " * 200 + "to hide " * 200]):
        world.remark(main, f"call/{number}", text)
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    target = world.ledger.find_entry(f"{RUN}/main/2")
    world.ledger.request_redaction(target, "text", "operator", RedactionReason.SECRET)
    world.settle()
    with world.store.snapshot() as reader:
        assert b"to hide" in world.bundle().encode()
        copy = make_copy(reader, LEDGER_KINDS, RUN, world.policy).encode()
    world.close()
    assert b"to hide" not in copy
    assert verify_both(copy).ok


def test_the_published_vectors_are_these() -> None:
    """To write them: python -m tests.docs.bundle_vectors."""
    assert VECTORS.read_text() == render()


def test_the_published_bundle_verifies() -> None:
    """Its bytes do not change with what writes bundles: every verifier goes on to read them."""
    vectors = json.loads(VECTORS.read_text())
    files = {name: b64decode(data) for name, data in vectors["genuine"].items()}
    data = pack_archive(files | {"manifest.json": vectors["manifest"].encode()})
    assert verify_both(data).ok
    assert seal(unpack_archive(data)) == data


@pytest.mark.parametrize("run", OLD_BUNDLES)
def test_the_bundles_of_a_released_version_are_read(run: str) -> None:
    """These bytes are of release 0.2, which wrote forum/bundle/1."""
    data = OLD_BUNDLES[run]
    assert b'{"v":"forum/bundle/1",' in data
    trust = Trust(policy=WitnessPolicy.parse(OLD_PACK.with_suffix(".policy").read_bytes()))
    report = verify_bundle(data, KINDS, trust)
    stated = standalone.verify(data, stranger(trust))
    assert report.intact.state is State.HOLDS
    assert stated["intact"]["state"] == "holds"
    assert report.bodies.ok == stated["bodies"]["ok"] > 0


@pytest.mark.parametrize("name", FRAUDS)
def test_every_fraud_against_spans_is_found(name: str) -> None:
    """Nothing but the bodies that were recorded can be read out of a bundle."""
    fraud, expected = FRAUDS[name]
    found = problems(verify_both(forge(fraud)))
    assert found
    assert found <= expected
