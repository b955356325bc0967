"""Verification of a whole ledger: three answers, each for its own reason."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from forum.errors import ForumError, NoSuchLog, StoreFailed
from forum.ledger import (
    LEDGER_KINDS,
    Attachment,
    Bytes,
    Draft,
    Facts,
    Kind,
    Kinds,
    Outcome,
    Position,
    Record,
    RedactReason,
    RunClose,
    RunOpen,
    leaf_of,
    text,
)
from forum.tlog import Checkpoint, Hash, SigningKey, sign_checkpoint
from forum.verify import Claim, Problem, State, Trust
from tests.verify.world import LOCAL, REMOTE, SECOND, World, problems, remark

NOBODY = Hash(bytes(32))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a log with a witness elsewhere, and one closed run that it has seen."""
    world = World(tmp_path, REMOTE)
    world.run("first")
    world.settle()
    return world


def test_a_healthy_ledger_is_all_three(world: World) -> None:
    """Each of the words says what it rests on."""
    report = world.verify(after=60)

    assert report.ok
    assert (report.found, report.not_checked, report.pending) == (0, (), 0)
    assert report.intact.reason == "5 entries, every leaf and link"
    assert report.complete.reason == "no gap in 2 runs, 0 of them still open"
    assert report.independent.reason == f"cosigned by {REMOTE}"
    assert (report.bodies.ok, report.size) == (2, 5)


def test_every_problem_refutes_one_claim() -> None:
    """A problem that counts against nothing would be printed, and change no answer."""
    assert {problem.claim for problem in Problem} == set(Claim)
    assert Problem.BODY_MISMATCH.claim is Claim.INTACT
    assert Problem.NOTHING_SIGNED.claim is Claim.COMPLETE
    assert Problem.PAST_UNKNOWN.claim is Claim.INDEPENDENT


# What is signed, and by whom


def test_a_ledger_that_was_never_signed_is_not_complete(tmp_path: Path) -> None:
    """Whoever takes all checkpoints away must not be left with a ledger that holds."""
    world = World(tmp_path, REMOTE)
    world.run()
    report = world.verify()

    assert problems(report) == [Problem.NOTHING_SIGNED, Problem.NOT_WITNESSED]
    assert report.complete.state is State.FAILS
    assert report.pending == 5


def test_newer_entries_are_pending_and_late_only_after_ten_seconds(world: World) -> None:
    """A live ledger is always a little ahead of its checkpoint; to stay ahead is to hide."""
    world.run("second")
    young, old = world.verify(after=9), world.verify(after=11)

    assert young.ok
    assert (young.pending, young.size) == (3, 5)
    assert problems(old) == [Problem.LEFT_UNSEQUENCED] * 3
    assert old.findings[0].entry == "second/main/0"


def test_without_keys_nothing_is_checked(world: World) -> None:
    """Trust comes from the reader, and never from what is being verified."""
    report = world.verify(Trust())

    assert (report.intact.state, report.independent.state) == (State.NOT_CHECKED,) * 2
    assert not report.ok


def test_with_a_key_alone_nobody_else_has_seen_it(world: World) -> None:
    """The log's signature says nothing about other readers."""
    report = world.verify(Trust(keys=(world.key.verifier(),)))

    assert (report.intact.state, report.complete.state) == (State.HOLDS,) * 2
    assert report.independent.state is State.NOT_CHECKED
    assert not report.ok


def test_entries_that_no_witness_has_seen_are_named(world: World) -> None:
    """A witness that is cut off for longer than ten seconds is a finding, from the first entry."""
    world.run("second")
    world.sign()
    young, old = world.verify(after=9), world.verify(after=11)

    assert young.ok
    assert problems(old) == [Problem.NOT_WITNESSED]
    assert "entries 5 to 7" in old.independent.reason


def test_a_quorum_of_two_needs_both(tmp_path: Path) -> None:
    """One witness of two has seen it: that is what the reader said would not do."""
    world = World(tmp_path, REMOTE, LOCAL)
    del world.witnesses[LOCAL]
    world.run()
    publication = world.settle()

    assert not publication.witnessed
    assert problems(world.verify(after=60)) == [Problem.NOT_WITNESSED]


@pytest.mark.parametrize(("witness", "says_so"), [(LOCAL, True), (REMOTE, False)])
def test_a_witness_on_the_writers_machine_is_called_that(
    tmp_path: Path, witness: str, *, says_so: bool
) -> None:
    """It holds, at its own strength: it cannot stop the owner of the machine."""
    world = World(tmp_path, witness)
    world.settle()
    report = world.verify()

    assert report.ok
    assert ("on the writer's own machine" in report.independent.reason) is says_so
    assert [sighting.same_machine for sighting in report.sightings] == [says_so]


# What was seen before


def test_a_checkpoint_seen_before_may_be_smaller(world: World) -> None:
    """A log grows, and so continues all that was seen of it."""
    seen = world.store.checkpoint()
    assert seen is not None
    world.run("second")
    world.settle()

    assert world.verify(remembered=[seen]).ok


def test_a_checkpoint_seen_before_must_not_be_larger(world: World) -> None:
    """What the signer signed is not there any more: somebody has cut the tail off."""
    head = world.store.head()
    larger = Checkpoint(world.key.name, head.size + 1, head.root)
    report = world.verify(remembered=[sign_checkpoint(larger, world.key).encode()])

    assert problems(report) == [Problem.TAIL_CUT]
    assert report.complete.state is State.FAILS


@pytest.mark.parametrize("smaller", [0, 1])
def test_a_checkpoint_seen_before_must_be_continued(world: World, smaller: int) -> None:
    """Another root for the same or an earlier size is another history."""
    other = Checkpoint(world.key.name, world.store.head().size - smaller, NOBODY)
    report = world.verify(remembered=[sign_checkpoint(other, world.key).encode()])

    assert problems(report) == [Problem.HISTORY_REPLACED]
    assert report.independent.state is State.FAILS


# Runs and strands


class Novelty(Facts, frozen=True):
    """Facts of a kind from the future."""

    words: str


def test_unknown_kinds_are_listed_as_not_checked(tmp_path: Path) -> None:
    """An older verifier can check the tree of a newer log, and says what it could not read."""
    kinds = LEDGER_KINDS | Kinds([Kind("novelty/7", Novelty)])
    world = World(tmp_path, REMOTE, kinds=kinds)
    main = world.open()
    main.append(Draft("novel", "tester", Novelty("hello")))
    world.settle()
    report = world.verify()

    assert report.ok
    assert report.not_checked == (
        "the facts of 1 entries of kind novelty/7, unknown to this release",
    )
    assert report.open_runs == ("run",)


@pytest.mark.parametrize("listed", [[], [("task", 5, NOBODY.hex())], [("other", 0, "")]])
def test_a_close_that_does_not_fit_is_found(world: World, listed: list[object]) -> None:
    """Strands are named when a run is closed, so that none can be left out or made up."""
    main = world.open("second")
    (asked,) = main.append(remark("request"))
    world.ledger.strand("second", "task").append(remark("attempt", None, asked.leaf))
    body = Attachment("strands", Bytes(msgspec.json.encode(listed)), "application/json")
    main.append(Draft("run/close", "tester", RunClose(Outcome.OK, 1), (), (body,)))
    world.settle()
    report = world.verify()

    assert problems(report) == [Problem.STRAND_UNCLOSED]
    assert "task" in report.complete.reason
    assert report.findings[0].entry == "second/main/2"


@pytest.mark.parametrize("strand", ["main", "late"])
def test_an_entry_behind_the_close_is_found(world: World, strand: str) -> None:
    """What is added to a run after its end was not there when its end was believed."""
    main = world.open("second")
    world.close(main)
    late = main if strand == "main" else world.ledger.strand("second", strand)
    late.append(remark("afterthought", None, world.ledger.strand("second").head or NOBODY))
    world.settle()
    report = world.verify()

    assert Problem.AFTER_CLOSE in problems(report)
    assert report.findings[0].index == 7


def test_a_strand_needs_a_cause(world: World) -> None:
    """Without one nobody can say why it was begun."""
    main = world.open("second")
    world.ledger.strand("second", "task").append(remark("attempt"))
    world.close(main)
    world.settle()
    report = world.verify()

    assert problems(report) == [Problem.CAUSE_MISSING]
    assert report.findings[0].entry == "second/task/0"


def test_a_run_begins_with_its_opening(world: World) -> None:
    """The opening names the past of the run; without it nothing says when it began."""
    world.ledger.strand("second").append(remark("request"))
    world.settle()

    assert problems(world.verify()) == [Problem.RUN_UNOPENED]


def test_old_parents_are_looked_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause may be any number of entries away, and one that never was is still noticed."""
    monkeypatch.setattr("forum.verify.chronicle._RECENT", 2)
    oldest = world.ledger.find("0").leaf
    main = world.open("second")
    main.append(remark("one"), remark("two"), remark("three"), remark("four", None, oldest))
    main.append(remark("five", None, NOBODY))
    world.settle()
    report = world.verify()

    assert problems(report) == [Problem.PARENT_UNKNOWN]
    assert report.findings[0].entry == "second/main/5"


def test_beyond_a_thousand_findings_are_counted(world: World) -> None:
    """A ledger that is wrong everywhere must not fill the reader's memory, nor look less wrong."""
    main = world.open("second")
    main.append(*(remark(f"step/{n}", None, NOBODY) for n in range(1100)))
    world.settle()
    report = world.verify()

    assert (report.found, len(report.findings)) == (1100, 1000)
    assert report.intact.state is State.FAILS


# Bodies


def test_a_redacted_body_is_no_finding(world: World) -> None:
    """Its absence is explained by an entry that is in a signed checkpoint."""
    target = world.ledger.find("first/main/1")
    world.ledger.request_redaction(target, "text", "tester", RedactReason.LEGAL)
    world.settle()
    erased = world.ledger.erase_redacted()
    report = world.verify()

    assert erased == [Position("first", "main", 1)]
    assert report.ok
    assert (report.bodies.redacted, report.bodies.missing) == (1, 0)


def test_a_body_that_is_gone_without_a_word_is_found(world: World) -> None:
    """Removing the damning text is the cheapest fraud of all."""
    world.store.erase(Position("first", "main", 1), "text")
    report = world.verify()

    assert problems(report) == [Problem.BODY_MISSING]
    assert (report.findings[0].index, report.bodies.missing) == (3, 1)


def test_a_redaction_that_is_not_signed_yet_explains_nothing(world: World) -> None:
    """Erased first and explained later is what a fraud would do."""
    target = world.ledger.find("first/main/1")
    world.ledger.request_redaction(target, "text", "tester", RedactReason.LEGAL)
    world.store.erase(target.position, "text")

    assert problems(world.verify()) == [Problem.BODY_MISSING]


# Times


@pytest.mark.parametrize(
    ("seconds", "impossible"), [(-301, True), (-299, False), (299, False), (301, True)]
)
def test_times_lie_between_two_checkpoints(world: World, seconds: int, *, impossible: bool) -> None:
    """A witness saw the log before the run began, and another time when it had been written."""
    main = world.open("second")
    world.skew = seconds * SECOND
    main.append(remark("note"))
    world.skew = 0
    world.close(main)
    world.settle()
    report = world.verify()

    assert (problems(report) == [Problem.TIME_IMPOSSIBLE]) is impossible
    assert report.ok is not impossible


def test_a_past_that_nobody_has_seen_is_found(world: World) -> None:
    """A run may not invent the checkpoint that it comes after."""
    world.ledger.strand("second").append(Draft("run/open", "tester", RunOpen(4, NOBODY.hex())))
    world.settle()

    assert problems(world.verify()) == [Problem.PAST_UNKNOWN]


def test_what_no_witness_has_cosigned_is_never_independent(tmp_path: Path) -> None:
    """The ten seconds are for what is newer than a cosigned checkpoint, not instead of one.

    Whoever holds the log's key can make any history young: times are the writer's claim.
    """
    world = World(tmp_path, REMOTE)
    world.run()
    world.sign()

    assert world.verify().independent.state is not State.HOLDS


def test_what_was_never_signed_is_not_independent(tmp_path: Path) -> None:
    """Cosigned by nobody is not a reason."""
    assert World(tmp_path, REMOTE).verify().independent.state is not State.HOLDS


def test_the_writers_clock_cannot_put_off_the_witnesses(world: World) -> None:
    """An entry from tomorrow would be too young to need a witness until then."""
    world.skew = 24 * 3600 * SECOND
    world.run("second")
    world.sign()

    assert not world.verify(after=60).ok


def test_a_run_cannot_choose_an_older_past(world: World) -> None:
    """Naming an old checkpoint, or none, is how one would write into last month."""
    world.now += 30 * 24 * 3600 * SECOND
    world.run("second")
    world.settle()
    world.skew = -15 * 24 * 3600 * SECOND
    main = world.ledger.strand("third")
    main.append(Draft("run/open", "tester", RunOpen()), remark("approval"))
    world.close(main)
    world.skew = 0
    world.settle()

    assert Problem.TIME_IMPOSSIBLE in problems(world.verify())


def test_a_witness_that_was_away_leaves_no_finding_behind(world: World) -> None:
    """A run that was begun meanwhile names a checkpoint that is signed and not cosigned.

    The same happens to all older runs when a witness is added to the policy.
    """
    world.run("second")
    world.sign()
    world.run("third")
    world.settle()

    assert problems(world.verify()) == []


def test_without_keys_nothing_is_found_wrong_either(world: World) -> None:
    """Not knowing whom to trust is no finding against the ledger."""
    report = world.verify(Trust(), after=60)

    assert report.complete.state is State.NOT_CHECKED
    assert report.found == 0


def _spoil_salt(db: sqlite3.Connection) -> None:
    db.execute("UPDATE body SET salt = x'00'")


def _spoil_entry(db: sqlite3.Connection) -> None:
    db.execute("UPDATE entry SET bytes = 'text, not bytes' WHERE id = 4")


def _spoil_part(db: sqlite3.Connection) -> None:
    db.execute("UPDATE body SET data = 7")


def _lose_tile(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM tile")


@pytest.mark.parametrize(
    "spoil",
    [
        _spoil_salt,
        _spoil_entry,
        _spoil_part,
        _lose_tile,
    ],
)
def test_what_cannot_be_read_is_a_finding_and_no_crash(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[sqlite3.Connection], None],
) -> None:
    """Whoever holds the database may put anything there; a verifier that stops names nothing."""
    monkeypatch.setattr("forum.verify.chronicle._RECENT", 1)
    world.open("second").append(remark("note", None, world.ledger.find("0").leaf))
    world.settle()
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        spoil(db)
    db.close()
    report = world.verify()

    assert report.intact.state is State.FAILS


@pytest.mark.parametrize("content", [b"not a list", b'[["task"]]', None])
def test_a_close_whose_list_cannot_be_read_is_found(world: World, content: bytes | None) -> None:
    """Only a redaction excuses a missing list; garbage would hide every strand."""
    main = world.open("second")
    body = (Attachment("strands", Bytes(content)),) if content is not None else ()
    main.append(Draft("run/close", "tester", RunClose(Outcome.OK, 0), (), body))
    world.settle()

    assert problems(world.verify()) == [Problem.STRAND_UNCLOSED]


def test_a_redacted_list_leaves_its_number_of_strands(world: World) -> None:
    """The facts of a close outlive its list: how many strands there were can still be counted."""
    main = world.open("second")
    (asked,) = main.append(remark("request"))
    world.ledger.strand("second", "task").append(remark("attempt", None, asked.leaf))
    body = Attachment("strands", text("[]"))
    (close,) = main.append(Draft("run/close", "tester", RunClose(Outcome.OK, 0), (), (body,)))
    world.settle()
    target = world.ledger.find(close.leaf.hex())
    world.ledger.request_redaction(target, "strands", "tester", RedactReason.LEGAL)
    world.settle()
    world.ledger.erase_redacted()

    assert problems(world.verify()) == [Problem.STRAND_UNCLOSED]


def test_an_entry_beside_the_log_is_found(world: World, tmp_path: Path) -> None:
    """An entry that is neither in the tree nor waiting for it is still shown to whoever asks."""
    forged = msgspec.structs.replace(world.ledger.find("first/main/1").entry, n=3)
    data = LEDGER_KINDS.write(forged)
    world.store.append([Record(Position("first", "main", 3), data, leaf_of(data))])
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("UPDATE entry SET id = -1 WHERE n = 3")
    db.close()

    assert world.ledger.find("first/main/3").index is None
    assert not world.verify(after=60).ok


def test_a_log_begins_with_its_opening(tmp_path: Path) -> None:
    """The first entry tells which program began the log, and which epoch it left."""
    world = World(tmp_path, REMOTE, begun=False)
    world.ledger.record_export("run", 0, 0, "tester")
    world.settle()

    assert problems(world.verify()) == [Problem.RUN_UNOPENED]


def test_an_earlier_epoch_is_named(tmp_path: Path) -> None:
    """What was left behind is part of the history, and is not covered by this report."""
    world = World(tmp_path, REMOTE, begun=False)
    left = Checkpoint("test.example/left", 12, NOBODY)
    world.ledger.begin("tests/1", world.key.verifier(), left)
    world.settle()

    assert any("test.example/left" in missing for missing in world.verify().not_checked)


def test_a_checkpoint_of_another_log_is_no_checkpoint_of_this(tmp_path: Path) -> None:
    """A reader may trust two logs; the key of one must not speak for the other."""
    world, other = World(tmp_path, REMOTE), SigningKey(bytes(31) + b"\7", "test.example/other")
    world.run()
    world.settle()
    head = world.store.head()
    forged = sign_checkpoint(Checkpoint(other.name, head.size, head.root), other).encode()
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("UPDATE checkpoint SET note = ? WHERE size = ?", (forged, head.size))
    db.close()
    report = world.verify(Trust(keys=(world.key.verifier(), other.verifier())))

    assert Problem.SIGNATURE_REJECTED in problems(report)
    assert report.intact.state is State.FAILS


@pytest.mark.parametrize("table", ["entry", "checkpoint", "tile", "body", "log", "strand", "leaf"])
def test_whatever_is_in_a_row_a_report_comes_of_it(
    world: World, tmp_path: Path, table: str
) -> None:
    """Whoever holds the database writes what he likes; that must end in a finding, not a crash."""
    world.open("second").append(remark("note", None, world.ledger.find("0").leaf))
    world.settle()
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as db:
        rows = db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    db.close()
    for column, name in enumerate(names):
        for value in (-1, 2**40, "text", b"\xff\xfe", rows[-1][column]):
            with sqlite3.connect(path, isolation_level=None) as db:
                db.execute("BEGIN")
                try:
                    db.execute(f"UPDATE OR IGNORE {table} SET {name} = ?", (value,))  # noqa: S608
                except sqlite3.IntegrityError:
                    db.execute("ROLLBACK")
                    continue
                db.execute("COMMIT")
            db.close()
            try:
                report = world.verify()
                assert report.found or report.ok
            except ForumError as error:
                assert isinstance(error, (StoreFailed, NoSuchLog)), error  # noqa: PT017
            finally:
                with sqlite3.connect(path, isolation_level=None) as db:
                    db.execute("PRAGMA foreign_keys = OFF")
                    db.execute(f"DELETE FROM {table}")  # noqa: S608
                    marks = ",".join("?" * len(names))
                    db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
                db.close()
