"""Verification of what is new: it rests on an earlier one, and says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.ledger.entry import leaf_of
from forum.ledger.kinds import (
    LEDGER_KINDS,
    Outcome,
    RedactionBatchFacts,
    RedactionReason,
    RunCloseFacts,
    RunOpenFacts,
)
from forum.ledger.ports import EntryWrite, Position
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.strand import Draft
from forum.stores.run_progress import RunProgressFile, open_run_progress
from forum.tlog import Hash
from forum.verify import Report, VerifiedCheckpoint, verify_ledger, verify_since
from tests.verify.world import REMOTE, World, remark

TRUST = "whom the reader trusts"
NOBODY = Hash(bytes(32))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a log with a closed run, one that goes on with two strands, and a witness."""
    world = World(tmp_path, REMOTE)
    world.run("closed")
    main = world.open("going")
    (asked,) = main.append(remark("request"))
    world.ledger.open_strand("going", "task").append(remark("attempt", None, asked.leaf))
    world.settle()
    return world


@contextmanager
def kept(folder: Path) -> Iterator[RunProgressFile]:
    """Open the state that is kept beside a log."""
    with open_run_progress(folder / "seen.db") as state:
        yield state


def verify_all(world: World, folder: Path) -> Report:
    """Verify everything, and keep the state if it holds."""
    with kept(folder) as state, world.store.snapshot() as reader:

        def keep(runs: Any, last: VerifiedCheckpoint) -> None:  # noqa: ANN401
            state.replace(runs)
            state.commit(last, TRUST)

        return verify_ledger(reader, LEDGER_KINDS, world.trust, world.now, keep=keep)


def verify_new(world: World, folder: Path) -> Report | None:
    """Verify what is new since then, and keep the state if it holds."""
    with kept(folder) as state, world.store.snapshot() as reader:
        last = state.last(TRUST)
        assert last is not None
        done = verify_since(reader, LEDGER_KINDS, world.trust, world.now, last=last, state=state)
        if done is None:
            return None
        report, newest = done
        if report.ok:
            state.commit(newest, TRUST)
        return report


def rows(folder: Path) -> list[Any]:
    """Return all that is kept."""
    with kept(folder) as state:
        tables = ("last", "run", "strand")
        return [state._db.execute(f"SELECT * FROM {table}").fetchall() for table in tables]  # noqa: S608, SLF001


def test_what_is_new_is_checked_and_what_is_not_is_said(world: World, tmp_path: Path) -> None:
    """A reader of the report must know what it does not say anything about."""
    assert verify_all(world, tmp_path).ok
    size = world.store.head().size
    world.ledger.open_strand_at_end("going", "task").append(remark("result", "done"))
    world.run("second")
    world.settle()
    report = verify_new(world, tmp_path)

    assert report is not None
    assert report.ok
    assert (report.entries, report.size, report.bodies.ok) == (4, size + 4, 3)
    assert report.open_runs == ("going",)
    assert report.intact.reason == f"4 entries since entry {size}, every leaf and link"
    assert report.not_checked[0] == (
        f"entries 0 to {size - 1} were checked at 2023-11-14 22:13:20 UTC or later, not now"
    )


def test_with_nothing_new_the_answer_is_the_same(world: World, tmp_path: Path) -> None:
    """The checkpoint is compared, and its witness is still known."""
    verify_all(world, tmp_path)
    report = verify_new(world, tmp_path)

    assert report is not None
    assert report.ok
    assert report.entries == 0


def test_the_time_of_the_earlier_verification_stays(world: World, tmp_path: Path) -> None:
    """What was not checked again must not look as if it had been."""
    verify_all(world, tmp_path)
    with kept(tmp_path) as state:
        first = state.last(TRUST)
    world.now += 3_600_000_000
    world.run("second")
    world.settle()
    verify_new(world, tmp_path)
    with kept(tmp_path) as state:
        second = state.last(TRUST)

    assert first is not None
    assert second is not None
    assert second.size > first.size
    assert second.checked_at == first.checked_at


def _append_gap(world: World) -> None:
    last = world.ledger.find_entry("going/main/1").entry
    data = LEDGER_KINDS.write(replace(last, n=3, prev=NOBODY.hex()))
    world.store.append([EntryWrite(Position("going", "main", 3), data, leaf_of(data))])


def _reopen(world: World) -> None:
    world.ledger.open_strand("closed", "late").append(
        remark("afterthought", None, world.ledger.find_entry("0").leaf)
    )


def _leave_unopened(world: World) -> None:
    world.ledger.open_strand("other").append(remark("request"))


def _name_nobody(world: World) -> None:
    world.ledger.open_strand_at_end("going", "main").append(remark("note", None, NOBODY))


def _close_wrongly(world: World) -> None:
    world.ledger.open_strand_at_end("going", "main").append(
        Draft("close", "tester", RunCloseFacts(Outcome.OK, 0))
    )


def _invent_past(world: World) -> None:
    world.ledger.open_strand("new").append(
        Draft("run/open", "tester", RunOpenFacts(4, NOBODY.hex()))
    )


def _write_early(world: World) -> None:
    world.skew = -3600 * 1_000_000
    world.ledger.open_strand_at_end("going", "task").append(remark("note"))
    world.skew = 0


def _lose_body(world: World) -> None:
    world.run("second")
    world.settle()
    world.store.erase_bodies([(world.ledger.find_entry("second/main/1").position, "text")])


@pytest.mark.parametrize(
    "fraud",
    [
        _append_gap,
        _reopen,
        _leave_unopened,
        _name_nobody,
        _close_wrongly,
        _invent_past,
        _write_early,
        _lose_body,
    ],
)
def test_whatever_is_wrong_with_new_entries_is_left_to_a_whole_verification(
    world: World, tmp_path: Path, fraud: Callable[[World], None]
) -> None:
    """What is new is never found to hold where verifying everything finds something."""
    verify_all(world, tmp_path)
    before = rows(tmp_path)
    fraud(world)
    world.settle()

    assert not world.verify().ok
    assert verify_new(world, tmp_path) is None
    assert rows(tmp_path) == before


def test_another_tree_below_is_left_to_a_whole_verification(world: World, tmp_path: Path) -> None:
    """The state says what the runs had come to in one tree, and nothing about any other."""
    verify_all(world, tmp_path)
    with kept(tmp_path) as state:
        last = state.last(TRUST)
        assert last is not None
        root = NOBODY.hex()
        state.commit(VerifiedCheckpoint(last.origin, last.size, root, last.checked_at), TRUST)
    world.run("second")
    world.settle()

    assert verify_new(world, tmp_path) is None


def test_a_state_is_good_for_whom_the_reader_trusted(world: World, tmp_path: Path) -> None:
    """Under other keys, what held then may not hold."""
    verify_all(world, tmp_path)
    with kept(tmp_path) as state:
        assert state.last("somebody else") is None


def test_a_redaction_of_an_old_body_is_no_finding(world: World, tmp_path: Path) -> None:
    """Old bodies are not looked at; the entry that says they are gone is one like any other."""
    verify_all(world, tmp_path)
    target = world.ledger.find_entry("closed/main/1")
    world.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    world.settle()
    world.ledger.erase_redacted()
    report = verify_new(world, tmp_path)

    assert report is not None
    assert report.ok


def test_a_redaction_of_many_old_bodies_is_no_finding(world: World, tmp_path: Path) -> None:
    """As one of a single body is."""
    verify_all(world, tmp_path)
    target = world.ledger.find_entry("closed/main/1")
    facts = RedactionBatchFacts(("0/text",), RedactionReason.RETENTION, "*")
    draft = Draft("redact", "system", facts, (target.leaf,))
    world.ledger.append_log_entry(draft, RETENTION_STRAND)
    world.settle()
    assert world.ledger.erase_redacted()
    report = verify_new(world, tmp_path)

    assert report is not None
    assert report.ok


# The state that is kept is the same, however often it was taken up.

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "branch", "close", "settle", "verify"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=12, deadline=None)
@given(_STEPS)
def test_the_state_follows_from_the_log_alone(steps: list[tuple[str, int]]) -> None:
    """Taken up after any number of entries, it becomes what a whole verification leaves."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        world = World(folder, REMOTE)
        world.settle()
        verify_all(world, folder)
        closed: set[int] = set()
        for number, (what, run) in enumerate(steps):
            if what in {"settle", "verify"}:
                world.settle()
                if what == "verify":
                    report = verify_new(world, folder)
                    assert report is not None
                    assert report.ok
            elif run not in closed:
                _go_on(world, f"run-{run}", what, number)
                closed |= {run} if what == "close" else set()
        world.settle()
        report = verify_new(world, folder)
        assert report is not None
        assert report.ok
        taken_up = rows(folder)
        assert verify_all(world, folder).ok
        whole = rows(folder)
        world.store.close()

    # Closed runs are kept without what only open ones need.
    assert [run[0] for run in taken_up[1] if run[2]] == [run[0] for run in whole[1] if run[2]]
    assert [run for run in taken_up[1] if not run[2]] == [run for run in whole[1] if not run[2]]
    assert taken_up[0] == whole[0]
    assert taken_up[2] == whole[2]


def _go_on(world: World, run: str, what: str, number: int) -> None:
    world.open(run)
    main = world.ledger.open_strand_at_end(run, "main")
    if what == "close":
        world.close(main)
    elif what == "branch":
        assert main.head is not None
        world.ledger.open_strand_at_end(run, "branch").append(
            remark(f"step/{number}", None, main.head)
        )
    else:
        main.append(remark(f"step/{number}", "words"))
