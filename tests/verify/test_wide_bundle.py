"""Bundles whose archive is wide: forum/bundle/2, which ends as ZIP64 has it."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from forum.ledger.bundle import Bundle, PastCheckpoint
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.ports import Position
from forum.ledger.strand import Draft
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.tlog import Note, TlogProof, TreeView, prove_consistency, prove_inclusion
from tests.verify.flips import HEADERS, Flips
from tests.verify.samples import (
    ORIGIN,
    RUN,
    STANDALONE,
    World,
    altered,
    make_bundle,
    problems,
    standalone,
    verify_both,
)

_WIDE = "forum/bundle/2"


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let archives be wide that have more than ten files."""
    monkeypatch.setattr("forum.ledger.zip_archive.MAX_FILES", 10)
    monkeypatch.setattr(standalone, "MAX_FILES", 10)
    return iter(())


@pytest.fixture
def bundle(tmp_path: Path, few_files: None) -> bytes:
    """Return the bundle that most tests alter, in a wide archive."""
    return make_bundle(tmp_path, share=False)


def test_a_wide_bundle_says_so_and_holds(bundle: bytes) -> None:
    """Its files are those of any bundle; other programs read its archive."""
    assert f'{{"v":"{_WIDE}",'.encode() in bundle
    assert verify_both(bundle).ok
    with zipfile.ZipFile(BytesIO(bundle)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == unpack_archive(bundle)


def test_each_bundle_has_one_version(bundle: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fits the first version cannot be given out in both."""
    assert problems(verify_both(altered(bundle, v="forum/bundle/1"))) == {"bundle-altered"}
    monkeypatch.undo()

    assert problems(verify_both(bundle)) == {"bundle-altered"}
    narrow = altered(_narrow(bundle), v="forum/bundle/1")
    assert verify_both(narrow).ok
    assert problems(verify_both(altered(narrow, v=_WIDE))) == {"bundle-altered"}


def _narrow(bundle: bytes) -> bytes:
    """Return the files of a bundle in an archive that is not wide."""
    with zipfile.ZipFile(BytesIO(bundle)) as archive:
        return pack_archive({name: archive.read(name) for name in archive.namelist()})


def test_every_bit_of_a_wide_end_counts(bundle: bytes) -> None:
    """What ZIP64 adds is held to one form as well."""
    flips = Flips(bundle)
    ends = [flip for flip in flips.headers() if flip.at >= len(bundle) - 98]

    assert len(ends) == 8 * 98
    assert all(flip.name == HEADERS for flip in ends)
    assert all(flips.judge(flips.turned(flip), flip) for flip in ends)


# A run of many entries, as it is


_ENTRIES = 33_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a bundle with more entries than the first version can hold."""
    folder = tmp_path_factory.mktemp("large")
    world = World(folder)
    main = world.ledger.open_run(RUN, "operator")
    for start in range(0, _ENTRIES, 1000):
        main.append(*(Draft(f"step/{start + n}", "agent", NoteFacts()) for n in range(1000)))
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    path = folder / "large.zip"
    path.write_bytes(_gather_all(world).encode())
    (folder / "policy").write_bytes(world.policy.encode())
    world.close()
    return path


def _gather_all(world: World) -> Bundle:
    """Put the whole log into one bundle, reading each tile once."""
    newest, first = world.store.checkpoint(), world.store.checkpoint(2)
    assert newest is not None
    assert first is not None
    note = Note.parse(newest)
    view = TreeView(world.store.head().size, world.store.read_tile)
    own = dict(enumerate(world.store.entries(2, view.size), 2))
    entries = {index: data for index, data in own.items() if data is not None}
    close = max(entries)
    body = world.store.body(Position(RUN, "main", close - 2), "strands")
    assert body is not None
    return Bundle(
        origin=ORIGIN,
        run=RUN,
        checkpoint=newest,
        entries=entries,
        proofs={i: TlogProof(i, tuple(prove_inclusion(view, i)), note) for i in entries},
        bodies={(close, "strands"): (body.salt, b"".join(body.read()))},
        past=(PastCheckpoint(first, tuple(prove_consistency(view, 2))),),
    )


_PEAK = """
def peak():
    # Of this program: what getrusage tells may be of the one that started it.
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
"""
_OURS = f"""{_PEAK}
import sys
from pathlib import Path
import forum.stores.state_files
from forum.app import verify_bundle_file
from forum.tlog import WitnessPolicy
from forum.verify import Trust
bundle, policy = map(Path, sys.argv[1:])
before = peak()
report = verify_bundle_file(bundle, Trust(policy=WitnessPolicy.parse(policy.read_bytes())))
print(report.ok, report.entries, peak() - before)
"""
_STRANGERS = f"""{_PEAK}
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("standalone", {str(STANDALONE)!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
before = peak()
trust = module.BundleTrust([], module.BundlePolicy(module.read_file(sys.argv[2])), [])
report = module.verify(module.LazyFile(sys.argv[1]), trust)
print(report["ok"], report["entries"], peak() - before)
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_OURS, id="forum"),
        # The stand-alone verifier reads small ones in the gate, which are wide in the same way.
        pytest.param(_STRANGERS, id="stand-alone", marks=pytest.mark.nightly),
    ],
)
def test_more_entries_than_the_first_version_can_hold(large: Path, program: str) -> None:
    """Nothing limits the entries of a run, so nothing limits its evidence; nor does memory."""
    command = [sys.executable, "-c", program, str(large), str(large.with_name("policy"))]
    texts = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    assert texts[:2] == ["True", str(_ENTRIES + 2)]
    # Names and digests are kept; with entries as short as these, they are half of the archive.
    assert int(texts[2]) < 2 * large.stat().st_size
