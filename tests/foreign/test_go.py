"""A log that Forum wrote, judged by a verifier that others wrote: Go's sumdb packages.

check.go reads nothing but files in the formats of C2SP: as they are, and as a server hands them
out.  Each of its checks is a test here.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import sample

import pytest

from forum.ledger.body import text_content
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts
from forum.ledger.log import Ledger, prove_entry
from forum.ledger.ports import Reader, Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft, Strand
from forum.stores.sqlite import SqliteStore
from forum.stores.state_files import FileCheckpointStore, write_key
from forum.tlog import (
    TILE_WIDTH,
    Checkpoint,
    KnownLog,
    Note,
    SigningKey,
    TreeView,
    WitnessPolicy,
    encode_entry_bundle,
    entries_path,
    hash_leaf,
    prove_consistency,
    sign_checkpoint,
)
from tests.e2e.project import project
from tests.surfaces.serving import serving
from tests.tlog.trees import list_tiles

pytestmark = [pytest.mark.go, pytest.mark.slow]

KEY = SigningKey(bytes(range(32)), "example.com/log")
POLICY = WitnessPolicy((KnownLog(KEY.verifier()),), (), (), "none")

# Above 256 * 256 entries the tree has tiles of three levels, and here a partial one of each.
OLD_SIZE, SIZE = 65_000, 70_000
LEVELS = range(3)
# The ends of the tree, of tiles, of the old tree and of the largest full subtree.
PROVEN = (0, 255, 256, 64_999, 65_000, 65_535, 65_536, 69_887, 69_888, 69_999)

CHECKS = [
    "signature of checkpoint",
    "signature of checkpoint.old",
    "signature of checkpoint.fork",
    "altered checkpoint is rejected",
    "entries hash to the root of checkpoint",
    "entries hash to the root of checkpoint.old",
    *(f"entries hash to the tiles of level {level}" for level in LEVELS),
    *(
        f"entry {index} is {verdict}"
        for index in PROVEN
        for verdict in (
            "proven from the tiles as Forum proves it",
            "proven by its tlog-proof",
            "rejected when forged",
            "rejected at another index",
        )
    ),
    *(f"altered tile of level {level} is rejected" for level in LEVELS),
    "consistency is proven from the tiles",
    "consistency is proven by Forum",
    "consistency has one proof",
    "consistency with another old root is rejected",
]


def extend(store: Store, run: Strand, size: int) -> None:
    """Let a run grow until the log has this size, and give every entry its index."""
    for first in range(store.head().size, size, 5000):
        run.append(
            *(
                Draft(
                    f"say/{n}",
                    actor="tester",
                    facts=NoteFacts(),
                    parents=(),
                    bodies=(Attachment("text", text_content(f"no. {n}")),),
                )
                for n in range(first, min(first + 5000, size))
            )
        )
        Sequencer(store).drain()


def tlog_files(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a log by their paths in C2SP tlog-tiles."""
    note = reader.checkpoint()
    assert note is not None
    yield "checkpoint", note
    for tile, width in list_tiles(Checkpoint.parse(Note.parse(note).text).size):
        yield tile.path(width), reader.read_tile(tile, width)
        if tile.level == 0:
            first = tile.index * TILE_WIDTH
            entries = reader.entries(first, first + width)
            yield (
                entries_path(tile.index, width),
                encode_entry_bundle(e for e in entries if e is not None),
            )


def evidence(reader: Reader, old: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what the checks need beside the log itself."""
    yield "vkey", f"{KEY.verifier()}\n".encode()
    yield "checkpoint.old", old
    # What a log would show that gives different answers to different readers.
    fork = Checkpoint(KEY.name, OLD_SIZE, hash_leaf(b"the root of another tree"))
    yield "checkpoint.fork", sign_checkpoint(fork, KEY).encode()
    consistency = prove_consistency(TreeView(SIZE, reader.read_tile), OLD_SIZE, SIZE)
    yield "consistency", "".join(f"{node.base64()}\n" for node in consistency).encode()
    for index in PROVEN:
        yield f"proofs/{index}.tlog-proof", prove_entry(reader, index).encode()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds a log as it would be served."""
    folder = tmp_path_factory.mktemp("log")
    home = folder / ".forum"
    home.mkdir()
    write_key(home / "log.key", KEY)
    store = SqliteStore(home / "ledger.db", KEY.name)
    publisher = Publisher(store, KEY, FileCheckpointStore(folder / "guard"), POLICY)
    clock, salts = count(1_700_000_000_000_000), count()
    ledger = Ledger(store, LEDGER_KINDS, lambda: next(clock), lambda: next(salts).to_bytes(32))
    ledger.initialize("forum", KEY.verifier())
    run = ledger.open_run("run", "tester")
    Sequencer(store).drain()
    extend(store, run, OLD_SIZE)
    old = publisher.publish().note
    extend(store, run, SIZE)
    publisher.publish()
    for name, data in (*tlog_files(store), *evidence(store, old)):
        path = folder / "served" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    store.close()
    return folder / "served"


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the verifier, built from check.go and the packages that Debian ships."""
    gopath = os.environ.get("GOPATH", "/usr/share/gocode")
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain (Debian: golang-go)")
    if not Path(gopath, "src/golang.org/x/mod/sumdb").is_dir():
        pytest.skip(f"no golang.org/x/mod in {gopath} (Debian: golang-golang-x-mod-dev)")
    folder = tmp_path_factory.mktemp("go")
    # The packages come from GOPATH, never from a network.
    settings = {"GO111MODULE": "off", "GOPATH": gopath, "GOCACHE": str(folder / "cache")}
    subprocess.run(
        ["go", "build", "-o", folder / "check", Path(__file__).with_name("check.go")],
        env=os.environ | settings | {"GOFLAGS": "-buildvcs=false"},
        check=True,
    )
    return folder / "check"


def fetched(log: Path, folder: Path) -> Path:
    """Return a copy of the log in which checkpoint, tiles and entries came over HTTP.

    Of the entries, those at the ends of whatever has ends, and others that are drawn.
    """
    shutil.copytree(log, folder, dirs_exist_ok=True)
    files = [path for path in (folder / "tile").rglob("*") if path.is_file()]
    entries = {path for path in files if "entries" in path.parts}
    bundles = {index // TILE_WIDTH for index in PROVEN} | {*sample(range(SIZE // TILE_WIDTH), 20)}
    asked = {folder / entries_path(at, min(TILE_WIDTH, SIZE - at * TILE_WIDTH)) for at in bundles}
    assert asked <= entries
    tiles = [path for path in files if path not in entries or path in asked]
    with project(log.parent, None) as made, serving(made) as there:
        for path in (folder / "checkpoint", *tiles):
            response = there.client.get(f"/tlog/{path.relative_to(folder)}")
            assert response.status_code == 200, response.text
            path.write_bytes(response.content)
    return folder


@pytest.fixture(scope="module", params=["files", "http"])
def verdict(
    request: pytest.FixtureRequest,
    check: Path,
    log: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> subprocess.CompletedProcess[str]:
    """Return what the verifier says of the log."""
    folder = log if request.param == "files" else fetched(log, tmp_path_factory.mktemp("fetched"))
    return subprocess.run([check, folder], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CHECKS)
def test_go_finds(verdict: subprocess.CompletedProcess[str], name: str) -> None:
    """What is proven only by its own maker is not proven."""
    assert f"ok {name}" in verdict.stdout.splitlines(), verdict.stdout + verdict.stderr


def test_go_finds_nothing_else(verdict: subprocess.CompletedProcess[str]) -> None:
    """A check that nobody waits for could vanish, and one that fails must be seen to."""
    assert (verdict.returncode, verdict.stderr) == (0, "")
    assert sorted(verdict.stdout.splitlines()) == sorted(f"ok {name}" for name in CHECKS)
