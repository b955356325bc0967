"""Small bundles whose lists of spans describe as much work as they can."""

import json
from collections.abc import Callable, Iterable

from forum.ledger.bundle import Bundle
from forum.ledger.spans import MAX_CHAIN, MAX_SPANS
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import (
    Checkpoint,
    SigningKey,
    TlogProof,
    hash_leaf,
    prove_inclusion,
    sign_checkpoint,
)
from tests.tlog.trees import view_in_memory
from tests.verify.samples import LOG, ORIGIN, seal

List = dict[str, object]
_BODY = "text"
STRANGER = SigningKey(b"s" * 32, ORIGIN)


def _entry(n: int, prev: str, size: int) -> bytes:
    """Return an entry that commits to a body of this size."""
    members = {
        "v": "forum/entry/1",
        "log": ORIGIN,
        "run": "x",
        "strand": "main",
        "n": n,
        "prev": prev,
        "step": f"s/{n}",
        "ts": 1_700_000_000_000_000,
        "actor": "o",
        "kind": "note/1",
        "parents": [],
        "facts": {},
        "bodies": {_BODY: {"h": "0" * 64, "size": size, "type": "text/plain"}},
    }
    return json.dumps(members, separators=(",", ":")).encode()


def bundle_of(lists: Iterable[List], pieces: list[bytes], key: SigningKey = LOG) -> bytes:
    """Return a bundle with one entry for each list, all of them in a tree that a key has signed."""
    entries: list[bytes] = []
    prev = ""
    lists = list(lists)
    for n, listed in enumerate(lists):
        size = listed["size"]
        assert isinstance(size, int)
        entries.append(_entry(n, prev, size))
        prev = hash_leaf(entries[-1]).hex()
    view = view_in_memory([hash_leaf(data) for data in entries])
    newest = sign_checkpoint(Checkpoint(ORIGIN, view.size, view.root(view.size)), key)
    proofs = {n: TlogProof(n, tuple(prove_inclusion(view, n)), newest) for n in range(view.size)}
    files = unpack_archive(
        Bundle(
            origin=ORIGIN,
            run="x",
            checkpoint=newest.encode(),
            entries=dict(enumerate(entries)),
            proofs=proofs,
            bodies={},
        ).encode()
    )
    files |= {f"pieces/{n:016}": piece for n, piece in enumerate(pieces)}
    for n, listed in enumerate(lists):
        files[f"spans/{n:016}/{_BODY}"] = json.dumps(listed, separators=(",", ":")).encode()
        files[f"salts/{n:016}/{_BODY}"] = bytes(32)
    return seal(files)


def alone(spans: list[list[int]]) -> List:
    """Return a list without a base."""
    return {"size": sum(n for _, _, n in spans), "base": None, "kept": 0, "spans": spans}


def keeping(base: int, of: List, kept: int, spans: list[list[int]]) -> List:
    """Return a list that keeps spans of the same size each, and adds some."""
    length = sum(n for _, _, n in spans)
    size = of["size"]
    assert isinstance(size, int)
    return {"size": size + length, "base": [base, _BODY], "kept": kept, "spans": spans}


def _small_spans(count: int, size: int = 1) -> list[list[int]]:
    """Return spans that cannot be merged, after one that uses the whole piece."""
    return [[0, 0, 1000], *([0, 2 * (n % 2) * size, size] for n in range(count - 1))]


def many_kept_spans(lists: int) -> bytes:
    """Return lists that keep as many spans as one body may have."""
    first = alone(_small_spans(MAX_SPANS))
    others = [keeping(0, first, MAX_SPANS, []) for _ in range(lists - 1)]
    return bundle_of([first, *others], [bytes(1000)])


def many_written_spans() -> bytes:
    """Return lists that are written out as far as 5 MB allow."""
    return bundle_of([alone(_small_spans(MAX_SPANS)) for _ in range(9)], [bytes(1000)])


def many_chains() -> bytes:
    """Return very many lists, each at the end of a chain, and each chain apart from the others."""
    lists: list[List] = []
    for n in range(2500):
        if n % MAX_CHAIN == 0:
            lists.append(alone([[0, 0, 1000]]))
        else:
            lists.append(keeping(n - 1, lists[-1], n % MAX_CHAIN, [[0, 4 * (n % 2), 1]]))
    return bundle_of(lists, [bytes(1000)])


def deep_chains_of_many_spans() -> bytes:
    """Return lists at the end of chains, among which no two that follow share a chain."""
    lists: list[List] = [alone(_small_spans(1000)) for _ in range(16)]
    for n in range(16, 2400):
        base = lists[n - 16]
        depth = n // 16 % (MAX_CHAIN - 1)
        if depth == 0:
            lists.append(alone(_small_spans(1000)))
        else:
            kept = 1000 + depth - 1
            lists.append(keeping(n - 16, base, kept, [[0, 4, 1]] if depth % 2 else [[0, 6, 1]]))
    return bundle_of(lists, [bytes(1000)])


def long_bodies(count: int, key: SigningKey = LOG) -> bytes:
    """Return lists of bodies that are as long as a list may make them."""
    spans = [[0, 0, 1 << 20], *([0, n % 2, (1 << 20) - 2] for n in range(15))]
    return bundle_of([alone(spans) for _ in range(count)], [bytes(1 << 20)], key)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "as many kept spans as are read": lambda: many_kept_spans(64),
    "more kept spans than are read": lambda: many_kept_spans(2400),
    "as many written spans as fit": many_written_spans,
    "2500 lists in chains": many_chains,
    "2400 lists at the ends of chains": deep_chains_of_many_spans,
    "longer bodies than are read": lambda: long_bodies(2000),
    "bodies as long as are read, in a tree of a stranger": lambda: long_bodies(128, STRANGER),
}
