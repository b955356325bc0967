"""Which entries are in a period: witnesses decide at its ends, and the writer between them."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forum import tlog
from forum.app import KINDS
from forum.features.evidence import gathering
from forum.features.evidence.audit import COUNTED_BY_WITNESSES, COUNTED_BY_WRITERS
from forum.features.evidence.counted_times import CountedBy, CountedTimes
from forum.features.evidence.gathering import gather_part
from forum.features.evidence.log_part import LogPart, read_part_entry
from forum.features.evidence.period_audit import find_period_problem
from forum.features.evidence.report import make_report
from forum.ledger.kinds import Outcome
from forum.ledger.zip_archive import unpack_archive
from forum.verify import State, Trust
from tests.features.evidence.packs import (
    PackBytes,
    Recorded,
    draw,
    forge,
    make,
    make_old,
    period,
    rows,
    verify_twice,
)
from tests.features.evidence.test_outside import read_report
from tests.verify.world import LOCAL, REMOTE, SECOND, policy_of, witness_key

FAR = 100_000
"""Seconds: further than any clock is wrong."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "settle", "settle", "sign", "bound"]),
        st.integers(0, 3 * SECOND),
        st.integers(-5, 5),
    ),
    min_size=5,
    max_size=25,
)


def act(world: Recorded, steps: list[tuple[str, int, int]]) -> list[int]:
    """Write, sign and cosign with clocks that are wrong, and return ends of periods."""
    bounds = [world.now // SECOND - FAR]
    for number, (step, later, skew) in enumerate(steps):
        world.now += later
        world.skew = skew * SECOND if step == "write" else 0
        match step:
            case "write":
                world.run(f"run-{number}")
            case "settle":
                world.now, now = world.now + skew * SECOND, world.now
                world.settle()
                world.now = now
            case "sign":
                world.sign()
            case _:
                bounds.append(world.now // SECOND)
    world.skew, world.now = 0, world.now + FAR * SECOND
    bounds.append(world.now // SECOND)
    world.run("last")
    world.settle()
    return sorted(set(bounds))


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, witnesses=st.sampled_from([(LOCAL,), (LOCAL, REMOTE)]))
def test_packs_of_periods_that_meet_divide_the_entries(
    steps: list[tuple[str, int, int]], witnesses: tuple[str, ...]
) -> None:
    """No entry is in neither of two, and none in both, whatever the clocks of all of them say."""
    with TemporaryDirectory() as folder:
        world = Recorded(Path(folder), *witnesses)
        bounds = act(world, steps)
        found: Counter[int] = Counter()
        covered = 0
        for since, until in pairwise(bounds):
            arguments = period(0, 1, since=since * SECOND, until=until * SECOND, maps=())
            with world.store.snapshot() as reader:
                part = gather_part(reader, KINDS, world.policy, arguments)
            times = CountedTimes(part, world.policy)
            counted = [
                index
                for index, data in enumerate(part.entries, part.first)
                if arguments.since
                <= times.time_of(index, read_part_entry(data).ts)
                < arguments.until
            ]
            report = make_report(part, arguments, [], world.policy)
            assert (report.counted, report.counted_by) == (len(counted), CountedBy.WITNESSED)
            assert not find_period_problem(part, times, world.policy, arguments)
            found.update(counted)
            covered = size_of(part.seen[-1]) if part.seen else part.first
    assert set(found.values()) <= {1}
    assert set(range(covered)) <= found.keys()


def write_quiet_log(folder: Path, *witnesses: str) -> Recorded:
    """Return a log with a failed run that its writer dates a minute before its period."""
    world = Recorded(folder, *witnesses)
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 20)
    for day, second in ((0, 86_390), (1, 10), (1, 60), (1, 100), (1, 5000), (2, 10), (2, 60)):
        world.at(day, second - 5)
        world.report_run(f"run-{day}-{second}")
        if (day, second) == (1, 60):
            world.at(0, 86_370)
            world.report_run("early", Outcome.FAILED)
        if (day, second) == (1, 5000):
            world.at(2, 200)
            world.report_run("late", Outcome.FAILED)
        world.settle_at(day, second)
    world.settle_at(3, 0)
    return world


ASKED = period(1, 2, sample=0, maps=())


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return a log with runs that are dated out of their period."""
    return write_quiet_log(tmp_path_factory.mktemp("quiet"))


def test_a_run_counts_in_the_period_in_which_witnesses_first_saw_it(quiet: Recorded) -> None:
    """Its writer dates it a little before, so that no time is impossible."""
    pack = make(quiet, ASKED)

    report = read_report(pack)
    result = verify_twice(pack, quiet.trust)
    page = draw(pack, quiet.trust)

    assert report.counted_by is CountedBy.WITNESSED
    assert report.outside
    assert set(report.outside.runs) == {"early", "late"}
    assert {"early", "late"} <= {named.run for named in report.named}
    assert result.figures.state is State.HOLDS
    assert not [f for f in result.findings if not f.row.startswith("runs/late")]
    assert COUNTED_BY_WITNESSES in result.not_checked
    assert b",early," in unpack_archive(pack)["entries.csv"]
    assert "Counted by: witnessed." in page
    assert "10 entries were first seen by witnesses in the period" in page


def test_a_run_that_is_dated_into_a_period_that_is_over_does_not_change_it(quiet: Recorded) -> None:
    """The pack of the day before is made on its due day: it cannot have what came later."""
    before = read_report(make(quiet, period(0, 1, sample=0, maps=())))

    assert "early" not in {named.run for named in before.named}
    assert before.counted_by is CountedBy.WITNESSED


@pytest.mark.parametrize(
    "dated", [(1, 86_385), (1, -14), (2, 100)], ids=["as written", "before", "behind"]
)
def test_a_run_of_the_last_minute_counts_whatever_the_log_dates(
    tmp_path: Path, dated: tuple[int, int]
) -> None:
    """Nothing of the period is behind it, and the owner dates the entries of the log as well."""
    world = Recorded(tmp_path, REMOTE)
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 60)
    for day, second in ((1, 2), (1, 86_200)):
        world.at(day, second)
        world.report_run(f"run-{day}-{second}")
        world.settle_at(day, second + 2)
    world.at(1, -15)
    world.report_run("bad", Outcome.FAILED)
    world.at(*dated)
    world.sequence()
    for day, second in ((1, 86_390), (2, 2), (2, 60)):
        world.at(day, second)
        world.publish()
        world.report_run(f"later-{day}-{second}")
        world.settle_at(day, second + 2)
    pack = make(world, ASKED)

    report = read_report(pack)
    figures = {figure.id: figure.value for figure in report.figures}

    assert verify_twice(pack, world.trust).figures.state is State.HOLDS
    assert report.counted_by is CountedBy.WITNESSED
    assert figures["runs.not-ok"] == 1
    assert "bad" in {named.run for named in report.named}
    assert report.outside
    assert "bad" in report.outside.runs


def test_where_no_witness_decides_the_writer_does(tmp_path: Path) -> None:
    """And page and report say so."""
    world = Recorded(tmp_path)
    world.policy = policy_of(world.key)
    world.at(1, 10)
    world.report_run("only")
    world.sign()
    pack = make(world, ASKED)

    result = verify_twice(pack, world.trust)

    assert read_report(pack).counted_by is CountedBy.WRITER
    assert COUNTED_BY_WRITERS in result.not_checked
    assert "Counted by: writer." in draw(pack, world.trust)


class Hiding:
    """A reader of a log that leaves out some checkpoints."""

    def __init__(self, reader: Any, sizes: set[int]) -> None:  # noqa: ANN401
        self._reader, self._sizes = reader, sizes

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._reader, name)

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the others."""
        notes = self._reader.checkpoints(start)
        return (n for n in notes if tlog.parse_checkpoint(n).size not in self._sizes)

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the largest of the others."""
        return max(
            (n for n in self.checkpoints() if most is None or size_of(n) <= most),
            key=size_of,
            default=None,
        )


def size_of(note: bytes) -> int:
    """Return the size of a tree."""
    return tlog.parse_checkpoint(note).size


def gather(world: Recorded) -> LogPart:
    """Return the log part of an honest pack."""
    with world.store.snapshot() as reader:
        return gather_part(reader, KINDS, world.policy, ASKED)


def make_hiding(world: Recorded, *sizes: int) -> PackBytes:
    """Return the pack of a maker who leaves out checkpoints, and computes the rest from that."""
    find = gathering.find_edge

    def find_edge(reader: Any, *rest: Any) -> gathering.PeriodEdge:  # noqa: ANN401
        return find(Hiding(reader, set(sizes)), *rest)

    with patch.object(gathering, "find_edge", find_edge):
        return make(world, ASKED)


def make_changed(world: Recorded, change: Callable[[LogPart], LogPart]) -> PackBytes:
    """Return the pack of a maker who changes the log part."""
    gathered = gathering.gather_part

    with patch(
        "tests.features.evidence.packs.gather_part",
        lambda *args, **named: change(gathered(*args, **named)),
    ):
        return make(world, ASKED)


@pytest.mark.parametrize("which", ["first", "last", "both", "start", "end"])
def test_a_checkpoint_that_the_log_recorded_cannot_be_left_out(quiet: Recorded, which: str) -> None:
    """Otherwise an entry could be moved over an end of the period."""
    part = gather(quiet)
    assert len(part.seen) == 3
    hidden = {
        "first": [size_of(part.seen[0])],
        "last": [size_of(part.seen[1])],
        "both": [size_of(note) for note in part.seen[:2]],
        "start": [part.first],
        "end": [size_of(part.seen[2])],
    }[which]

    result = verify_twice(make_hiding(quiet, *hidden), quiet.trust)

    assert rows(result)["log/seen"] == "period-changed"
    assert result.figures.state is State.FAILS
    assert not result.ok


@pytest.mark.parametrize("how", ["unseen", "early", "many", "forged"])
def test_checkpoints_that_cannot_be_those_of_the_period_are_refused(
    quiet: Recorded, how: str
) -> None:
    """A pack has the first and the last one that witnesses saw in it, and nothing else."""
    part = gather(quiet)
    with quiet.store.snapshot() as reader:
        notes = {size_of(note): note for note in reader.checkpoints(1)}
    between = [notes[size] for size in sorted(notes) if part.first < size < size_of(part.end)]
    forged = tlog.Checkpoint(quiet.key.name, size_of(part.seen[0]), tlog.hash_leaf(b""))
    note = tlog.sign_checkpoint(forged, quiet.key)
    cosigned = tlog.cosign(note.text, witness_key(LOCAL), quiet.now // SECOND)
    first = tlog.Note.parse(part.seen[0])
    unseen = tlog.Note(first.text, tuple(s for s in first.signatures if s.name != LOCAL))
    others = {
        "unseen": (unseen.encode(), *part.seen[1:]),
        "early": (part.start, *part.seen[1:]),
        "many": tuple(between[:3]),
        "forged": (tlog.Note(note.text, (*note.signatures, cosigned)).encode(), *part.seen[1:]),
    }[how]
    assert None not in others

    def change(gathered: LogPart) -> LogPart:
        return msgspec.structs.replace(gathered, seen=others)

    result = verify_twice(make_changed(quiet, change), quiet.trust)

    assert not result.ok
    assert {str(f.problem) for f in result.findings} & {"period-changed", "log-part"}


def test_a_policy_of_other_witnesses_decides_nothing_for_a_reader(tmp_path: Path) -> None:
    """A witness of the maker has not seen what would decide; that of the reader has."""
    world = Recorded(tmp_path, LOCAL, REMOTE)
    reader = Trust(policy=policy_of(world.key, witness_key(LOCAL)))
    alone = {LOCAL: world.witnesses[LOCAL]}
    both = dict(world.witnesses)
    world.at(0, 10)
    world.report_run("first")
    world.settle_at(0, 20)
    for day, second, asked in ((1, 10, alone), (1, 20, alone), (1, 5000, both), (2, 10, both)):
        world.at(day, second - 5)
        world.report_run(f"run-{day}-{second}")
        world.witnesses = asked
        world.settle_at(day, second)
    world.policy = policy_of(world.key, witness_key(REMOTE))

    result = verify_twice(make(world, ASKED), reader)

    assert result.figures.state is State.NOT_CHECKED
    assert "by your trust file, other checkpoints decide" in result.figures.reason
    assert not result.ok


def test_a_pack_of_release_0_2_counts_by_the_writer(quiet: Recorded) -> None:
    """It holds no such checkpoints, and may hold none."""
    old = make_old(quiet, ASKED)
    report = read_report(old)
    note = gather(quiet).seen[0]
    added = forge(old, quiet, lambda f: f.update({f"log/seen/{size_of(note):016}.note": note}))

    assert COUNTED_BY_WRITERS in verify_twice(old, quiet.trust).not_checked
    assert "pack-altered" in rows(verify_twice(added, quiet.trust)).values()
    assert report.counted_by is msgspec.UNSET
    assert "early" not in {named.run for named in report.named}
