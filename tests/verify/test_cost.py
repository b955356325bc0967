"""A hostile file costs no verifier much: work begins at accepted keys, and has bounds."""

import json
import resource
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from forum.app import KINDS
from forum.app.evidence import shipped_maps
from forum.evidence.control_maps import ControlMap, MapReview, ReviewStatus, encode_map
from forum.evidence.queries import Condition, Query
from forum.ledger import kinds
from forum.ledger.bundle import Bundle, PastCheckpoint
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Draft
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import (
    Checkpoint,
    Note,
    Signature,
    SigningKey,
    TlogProof,
    hash_leaf,
    prove_consistency,
    prove_inclusion,
    sign_checkpoint,
)
from forum.verify import Trust, verify_bundle, verify_pack
from tests.evidence.packs import Audited, forge, make, period
from tests.tlog.trees import view_in_memory
from tests.verify.go_verifier import go_verifier, verify_by_go
from tests.verify.page import page_verifier
from tests.verify.samples import LOG, ORIGIN, TRUST, standalone, stranger, verify_alone

MAX_SECONDS = 2.0

pytestmark = pytest.mark.slow


def rotation(n: int, prev: str, old: SigningKey, new: SigningKey, version: int) -> bytes:
    """Return an entry that hands the log over, with signatures that do not hold."""
    facts: dict[str, object] = {"old": str(old.verifier()), "vkey": str(new.verifier())}
    if version > 1:
        false = "A" * 85 + "A=="
        facts |= {"since": 0, "signed": false, "proof": false}
    members = {
        "v": "forum/entry/1",
        "log": ORIGIN,
        "run": "log",
        "strand": "keys",
        "n": n,
        "prev": prev,
        "step": "s",
        "ts": 1_700_000_000_000_000,
        "actor": "o",
        "kind": f"key.rotate/{version}",
        "parents": [],
        "facts": facts,
        "bodies": {},
    }
    return json.dumps(members, separators=(",", ":")).encode()


def hostile_bundle(
    hand_overs: int, past: int, signers: list[SigningKey], *, version: int = 1, pinned: bool = False
) -> bytes:
    """Return a bundle with many hand-overs and earlier checkpoints, each claiming signatures."""
    keys = [SigningKey(n.to_bytes(32, "big"), ORIGIN) for n in range(1, hand_overs + 2)]
    entries, prev = list[bytes](), ""
    for n in range(hand_overs):
        old = LOG if pinned else keys[n]
        entries.append(rotation(n, prev, old, keys[n + 1], version))
        prev = hash_leaf(entries[-1]).hex()
    filling = [hash_leaf(b"%d" % n) for n in range(past + 5)]
    view = view_in_memory([*map(hash_leaf, entries), *filling])
    claimed = [Signature(ORIGIN, key.verifier().key_id, b"\1" * 63 + b"\0") for key in signers]

    def note(size: int) -> Note:
        checkpoint = Checkpoint(ORIGIN, size, view.root(size))
        if not claimed:
            return sign_checkpoint(checkpoint, keys[0])
        return Note(str(checkpoint), tuple(claimed))

    newest = note(view.size)
    return Bundle(
        origin=ORIGIN,
        run="x",
        checkpoint=newest.encode(),
        entries=dict(enumerate(entries)),
        proofs={
            n: TlogProof(n, tuple(prove_inclusion(view, n)), newest) for n in range(hand_overs)
        },
        bodies={},
        past=tuple(
            PastCheckpoint(note(size).encode(), tuple(prove_consistency(view, size)))
            for size in range(view.size - past, view.size)
        ),
    ).encode()


def others(count: int) -> list[SigningKey]:
    """Return keys that the reader does not trust."""
    return [SigningKey(n.to_bytes(32, "big"), ORIGIN) for n in range(1, count + 1)]


BUNDLES: dict[str, Callable[[], bytes]] = {
    "64 hand-overs, 200 notes of 64 signatures": lambda: hostile_bundle(64, 200, others(64)),
    "64 hand-overs, 67 notes of 64 signatures": lambda: hostile_bundle(64, 67, others(64)),
    "2000 hand-overs, 1999 notes": lambda: hostile_bundle(2000, 1999, []),
    "false signatures of the trusted key": lambda: hostile_bundle(
        64, 67, [LOG] * 64, version=2, pinned=True
    ),
}


def children_seconds() -> float:
    """Return the CPU time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(data: bytes, trust: Trust) -> dict[str, float]:
    """Return the seconds of CPU that each verifier takes; none of them may accept the file."""
    spent = {}
    alone = stranger(trust)
    is_pack = "log/end.note" in unpack_archive(data)
    started = process_time()
    if is_pack:
        assert not verify_pack(data, KINDS, trust, shipped_maps()).ok
    else:
        assert not verify_bundle(data, KINDS, trust).ok
    spent["library"] = process_time() - started
    started = process_time()
    check: Callable[..., dict[str, Any]] = standalone.verify_pack if is_pack else verify_alone
    assert not check(data, alone)["ok"]
    spent["verify.py"] = process_time() - started
    if page := page_verifier():
        measured = page.measure(data, alone)
        assert not measured["report"]["ok"]
        spent["verify.html"] = measured["seconds"]
    if go_verifier() and not is_pack:
        started = children_seconds()
        assert not verify_by_go(data, alone)["ok"]
        spent["Go"] = children_seconds() - started
    return spent


@pytest.mark.parametrize("name", BUNDLES)
def test_a_hostile_bundle_costs_no_verifier_much(name: str) -> None:
    """Nobody needs a key to make these files, and everybody may be sent one."""
    spent = measure(BUNDLES[name](), TRUST)

    assert max(spent.values()) < MAX_SECONDS, spent


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audited, bytes]:
    """Return a log of many entries, and a pack of it whose map has many queries."""
    world = Audited(tmp_path_factory.mktemp("flooded"))
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 20)
    world.at(1, 10)
    main = world.ledger.open_run("flood", "bob")
    for start in range(0, 4000, 500):
        main.append(*(Draft(f"n{start + n}", "bob", kinds.NoteFacts()) for n in range(500)))
    world.ledger.close_run(main, "bob", Outcome.OK)
    world.settle_at(1, 20)
    world.at(3, 10)
    world.report_run("last")
    world.settle_at(3, 20)

    def add_map(files: dict[str, bytes]) -> None:
        asked = Condition("actor", ("x",))
        queries = (Query(f"q.{n}", "t", "house", where=(asked,)) for n in range(4000))
        review = MapReview(ReviewStatus.UNREVIEWED)
        house = ControlMap("house", "t", "1", "all", review, (), tuple(queries))
        files["maps/house.json"] = encode_map(house)
        report = files["report.json"].replace(b'"maps": []', b'"maps": [\n   "house"\n  ]', 1)
        assert report != files["report.json"]
        files["report.json"] = report

    return world, forge(make(world, period(1, 3, sample=0, maps=())), world, add_map)


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_hostile_pack_costs_no_verifier_much(
    flooded: tuple[Audited, bytes], *, is_trusted: bool
) -> None:
    """Work is the product of entries and queries, of which the file has as many as it likes."""
    world, data = flooded
    another = Trust((SigningKey(b"q" * 32, world.policy.logs[0].key.name).verifier(),))

    spent = measure(data, world.trust if is_trusted else another)

    assert max(spent.values()) < MAX_SECONDS, spent
