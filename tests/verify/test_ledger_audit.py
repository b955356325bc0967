"""Verification of a whole ledger: three answers, each for its own reason."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from forum.errors import BodyHeld, ForumError, NoSuchLog, StoreFailed
from forum.ledger.body import BytesContent, StoredBody, text_content
from forum.ledger.entry import Facts, leaf_of
from forum.ledger.kinds import (
    LEDGER_KINDS,
    HoldAct,
    HoldFacts,
    Kind,
    Kinds,
    NoteFacts,
    Outcome,
    RedactionBatchFacts,
    RedactionFacts,
    RedactionReason,
    RedactionV3Facts,
    RetentionFacts,
    RunCloseFacts,
    RunOpenFacts,
)
from forum.ledger.log import Ledger, LocatedEntry
from forum.ledger.ports import EntryWrite, Position
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Attachment, Draft
from forum.stores.run_progress import open_run_progress
from forum.stores.sqlite import SqliteStore
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    SigningKey,
    TileId,
    cosign,
    parse_checkpoint,
    sign_checkpoint,
)
from forum.verify import Claim, Problem, State, Trust, audit_growth, verify_ledger
from tests.support import Wrapped
from tests.verify.world import LOCAL, REMOTE, SECOND, World, problems, remark, witness_key

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
    assert report.complete.reason.startswith("no gap in 2 runs, 0 of them still open; ")
    assert report.independent.reason == f"cosigned by {REMOTE}; one witness decides the time"
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


def test_entries_that_a_crash_left_unsigned_are_pending_however_long(world: World) -> None:
    """A writer that was killed before it signed has hidden nothing: the next write goes on."""
    world.run("second")
    young, old = world.verify(after=9), world.verify(after=3600)

    assert young.ok
    assert (young.pending, young.size, young.notices) == (3, 5, ())
    assert old.ok
    assert old.notices == ("3 entries are recorded and not signed yet; the next write signs them",)
    world.now += 3600 * SECOND
    world.run("third")
    world.settle()
    assert (world.verify().ok, world.verify().notices, world.verify().pending) == (True, (), 0)


@pytest.mark.parametrize(("seconds", "hidden"), [(9, False), (11, True)])
def test_an_entry_that_later_ones_were_signed_without_is_found(
    world: World, seconds: int, *, hidden: bool
) -> None:
    """To sign what came later and leave an entry out is to hide it."""
    world.now += seconds * SECOND
    world.run("third")
    world.skew = -seconds * SECOND
    world.open("second")
    world.skew = 0
    Sequencer(world.store).sequence_batch(3)
    world.publish()
    report = world.verify(after=60)

    assert problems(report) == ([Problem.LEFT_UNSEQUENCED] if hidden else [])
    assert report.pending == 1


def test_a_checkpoint_that_only_the_signer_remembers_is_no_cut_tail(world: World) -> None:
    """The signer writes its guard first: killed behind that, it has signed what is all there."""
    published = world.store.checkpoint()
    world.run("second")
    world.sign()
    guard, row = world.guard.latest(), world.store.head().size
    with closing(sqlite3.connect(world.folder / "ledger.db")) as db, db:
        db.execute("DELETE FROM checkpoint WHERE size = ?", (row,))
    assert world.store.checkpoint() == published
    assert guard is not None
    trust = Trust(policy=world.policy, remembered=(guard,), guard=guard)
    report = world.verify(trust, after=3600)

    assert report.ok
    assert report.size == row
    assert any("not yet published here" in notice for notice in report.notices)
    # To somebody who is not on the signer's machine it is one all the same.
    assert Problem.TAIL_CUT in problems(world.verify(remembered=[guard], after=3600))


def test_a_tail_that_was_cut_is_found_by_the_guard(world: World) -> None:
    """The signer's memory excuses nothing but what is there: the entries of its checkpoint."""
    folder, backup = world.folder / "ledger.db", world.folder / "backup.db"
    with closing(sqlite3.connect(folder)) as db, closing(sqlite3.connect(backup)) as copy:
        db.backup(copy)
    world.run("second")
    world.settle()
    guard = world.guard.latest()
    assert guard is not None
    trust = Trust(policy=world.policy, remembered=(guard,), guard=guard)
    restored = SqliteStore(backup, world.key.name)
    for again in (False, True):
        if again:  # grown to the same size, with other entries, and not signed
            other = Ledger(restored, LEDGER_KINDS, lambda: world.now, lambda: bytes(32))
            main = other.open_run("other", "tester")
            main.append(remark("note"), remark("note/2"))
            Sequencer(restored).drain()
            assert restored.head().size == parse_checkpoint(guard).size
        with restored.snapshot() as reader:
            report = verify_ledger(reader, LEDGER_KINDS, trust, world.now)
        assert Problem.TAIL_CUT in problems(report)


@pytest.mark.parametrize("unwitnessed", [1, 2])
def test_what_the_signer_was_about_to_have_cosigned_is_no_finding(
    world: World, unwitnessed: int
) -> None:
    """A signer that is killed before it asks its witnesses asks them next time.

    One that has signed twice without them went on without them.
    """
    for number in range(unwitnessed):
        world.run(f"unseen/{number}".replace("/", "-"))
        world.sign()
    guard = world.guard.latest()
    report = world.verify(Trust(policy=world.policy, guard=guard), after=3600)

    assert report.ok is (unwitnessed == 1)
    assert problems(report) == [Problem.NOT_WITNESSED] * (unwitnessed - 1)
    assert len(report.notices) == 2 - unwitnessed


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
    world.ledger.open_strand("second", "task").append(remark("attempt", None, asked.leaf))
    body = Attachment("strands", BytesContent(msgspec.json.encode(listed)), "application/json")
    main.append(
        Draft(
            "run/close",
            actor="tester",
            facts=RunCloseFacts(Outcome.OK, 1),
            parents=(),
            bodies=(body,),
        )
    )
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
    late = main if strand == "main" else world.ledger.open_strand("second", strand)
    late.append(remark("afterthought", None, world.ledger.open_strand("second").head or NOBODY))
    world.settle()
    report = world.verify()

    assert Problem.AFTER_CLOSE in problems(report)
    assert report.findings[0].index == 7


def test_a_strand_needs_a_cause(world: World) -> None:
    """Without one nobody can say why it was begun."""
    main = world.open("second")
    world.ledger.open_strand("second", "task").append(remark("attempt"))
    world.close(main)
    world.settle()
    report = world.verify()

    assert problems(report) == [Problem.CAUSE_MISSING]
    assert report.findings[0].entry == "second/task/0"


def test_a_run_begins_with_its_opening(world: World) -> None:
    """The opening names the past of the run; without it nothing says when it began."""
    world.ledger.open_strand("second").append(remark("request"))
    world.settle()

    assert problems(world.verify()) == [Problem.RUN_UNOPENED]


def test_old_parents_cost_no_query_for_a_tile_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be far from its database: each query of a tile would be a round trip."""
    monkeypatch.setattr("forum.verify.entry_checker._MAX_RECENT_ENTRIES", 1)
    main = world.open()
    first = main.head
    assert first
    for n in range(40):
        main.append(Draft(f"look/{n}", "tester", NoteFacts(), (first,)))
    world.settle()
    tiles = []

    def read_tile(tile: TileId, width: int) -> bytes:
        tiles.append(tile)
        return world.store.read_tile(tile, width)

    reader = Wrapped(world.store, read_tile=read_tile)
    report = verify_ledger(reader, LEDGER_KINDS, world.trust, world.now)

    assert report.ok
    assert len(tiles) < 20


def test_old_parents_are_looked_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause may be any number of entries away, and one that never was is still noticed."""
    monkeypatch.setattr("forum.verify.entry_checker._MAX_RECENT_ENTRIES", 2)
    oldest = world.ledger.find_entry("0").leaf
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
    target = world.ledger.find_entry("first/main/1")
    world.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    world.settle()
    erased = world.ledger.erase_redacted()
    report = world.verify()

    assert erased == [Position("first", "main", 1)]
    assert report.ok
    assert (report.bodies.redacted, report.bodies.missing) == (1, 0)


def test_bodies_that_a_rule_has_erased_are_no_finding(world: World) -> None:
    """One entry explains them all, and none that it does not name."""
    world.run("other")
    world.settle()
    targets = [world.ledger.find_entry(f"{run}/main/1") for run in ("first", "other")]
    facts = RedactionBatchFacts(("0/text",), RedactionReason.RETENTION, "*")
    draft = Draft("redact", "system", facts, tuple(target.leaf for target in targets))
    world.ledger.append_log_entry(draft, RETENTION_STRAND)
    world.settle()
    erased = world.ledger.erase_redacted()
    report = world.verify()

    assert erased == [Position("first", "main", 1)]
    assert report.ok
    assert (report.bodies.redacted, report.bodies.missing) == (1, 0)
    world.store.erase_bodies([(targets[1].position, "text")])
    assert problems(world.verify()) == [Problem.BODY_MISSING]


def test_a_body_that_is_gone_without_a_word_is_found(world: World) -> None:
    """Removing the damning text is the cheapest fraud of all."""
    world.store.erase_bodies([(Position("first", "main", 1), "text")])
    report = world.verify()

    assert problems(report) == [Problem.BODY_MISSING]
    assert (report.findings[0].index, report.bodies.missing) == (3, 1)


@pytest.mark.parametrize("rule", ["*", ""])
def test_an_erasure_by_a_rule_that_is_not_in_force_is_found(world: World, rule: str) -> None:
    """Whoever makes the eraser read another rule, and puts the row back, leaves this."""
    target = world.ledger.find_entry("first/main/1")
    by_rule = RedactionV3Facts(("0/text",), ("first",), RedactionReason.RETENTION, rule)

    def redact() -> list[Problem]:
        draft = Draft("step", "operator", by_rule, (target.leaf,))
        world.ledger.append_log_entry(draft, RETENTION_STRAND)
        world.settle()
        return problems(world.verify())

    def set_rule(seconds: int) -> None:
        draft = Draft("rule", "operator", RetentionFacts("*", seconds))
        world.ledger.append_log_entry(draft, RETENTION_STRAND)

    set_rule(1)
    assert redact() == ([] if rule else [Problem.RULE_MISSING])
    set_rule(0)
    assert Problem.RULE_MISSING in redact()


@pytest.mark.parametrize("audit", ["ledger", "witness"])
@pytest.mark.parametrize("kind", ["redact/1", "redact/2", "redact/3"])
def test_a_broken_hold_is_found(
    world: World, tmp_path: Path, kind: str, audit: Literal["ledger", "witness"]
) -> None:
    """A redaction that was written past the check stands behind the hold for ever."""

    def find_problems() -> list[Problem]:
        if audit == "ledger":
            return problems(world.verify())
        with world.store.snapshot() as reader, open_run_progress(tmp_path / "runs.db") as state:
            target = parse_checkpoint(reader.checkpoint() or b"")
            last = state.last("tests")
            report = audit_growth(reader, LEDGER_KINDS, target, world.now, last=last, state=state)
            if report.holds:
                state.commit(report.audited, "tests")
            return [finding.problem for finding in report.findings]

    def append(facts: Facts, *parents: Hash) -> None:
        strand = "main" if kind == "redact/1" and parents else RETENTION_STRAND
        world.ledger.append_log_entry(Draft("step", "operator", facts, parents), strand)

    target = world.ledger.find_entry("first/main/1")
    for facts in (
        HoldFacts("other", HoldAct.PLACE, ("other",)),
        HoldFacts("case", HoldAct.PLACE, ("first",)),
    ):
        append(facts)
    world.settle()
    assert not find_problems()
    append(
        {
            "redact/1": RedactionFacts(target.leaf.hex(), "text", RedactionReason.LEGAL),
            "redact/2": RedactionBatchFacts(("0/text",), RedactionReason.LEGAL),
            "redact/3": RedactionV3Facts(("0/text",), ("first",), RedactionReason.LEGAL),
        }[kind],
        target.leaf,
    )
    append(HoldFacts("case", HoldAct.RELEASE))
    world.settle()
    assert find_problems() == [Problem.HOLD_BROKEN]


def test_the_eraser_keeps_what_a_hold_keeps_whatever_the_redaction_says(world: World) -> None:
    """It looks for the run of the entry in the log, and not at the run that is named."""
    target = world.ledger.find_entry("first/main/1")
    hold = Draft("hold", "operator", HoldFacts("case", HoldAct.PLACE, ("first",)))
    world.ledger.append_log_entry(hold, RETENTION_STRAND)
    facts = RedactionV3Facts(("0/text",), ("other",), RedactionReason.LEGAL)
    draft = Draft("redact", "operator", facts, (target.leaf,))
    world.ledger.append_log_entry(draft, RETENTION_STRAND)
    world.settle()
    assert world.ledger.erase_redacted() == []
    assert Problem.PARENT_UNKNOWN in problems(world.verify())
    with pytest.raises(BodyHeld):
        world.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)


def test_a_redaction_that_is_not_signed_yet_explains_nothing(world: World) -> None:
    """Erased first and explained later is what a fraud would do."""
    target = world.ledger.find_entry("first/main/1")
    world.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    world.store.erase_bodies([(target.position, "text")])

    assert problems(world.verify()) == [Problem.BODY_MISSING]


def _within_the_run(target: LocatedEntry) -> tuple[str, str, tuple[Hash, ...]]:
    return "second", "main", (target.leaf,)


def _beside_the_life_of_the_log(target: LocatedEntry) -> tuple[str, str, tuple[Hash, ...]]:
    return "log", "access", (target.leaf,)


def _caused_by_something_else(_: LocatedEntry) -> tuple[str, str, tuple[Hash, ...]]:
    return "log", "main", ()


@pytest.mark.parametrize(
    "place", [_within_the_run, _beside_the_life_of_the_log, _caused_by_something_else]
)
def test_a_redaction_in_the_wrong_place_explains_nothing(
    world: World, place: Callable[[LocatedEntry], tuple[str, str, tuple[Hash, ...]]]
) -> None:
    """Who may write a run could call what is missing in it redacted."""
    target = world.ledger.find_entry("first/main/1")
    run, strand, parents = place(target)
    if run != "log":
        world.open(run)
    elif strand != "main":
        world.ledger.open_strand_at_end(run, strand).append(remark("begin", None, target.leaf))
    facts = RedactionFacts(target.leaf.hex(), "text", RedactionReason.LEGAL)
    world.ledger.open_strand_at_end(run, strand).append(Draft("redact", "tester", facts, parents))
    world.settle()
    world.store.erase_bodies([(target.position, "text")])
    report = world.verify()

    assert problems(report) == [Problem.BODY_MISSING]
    assert (report.bodies.redacted, report.bodies.missing) == (0, 1)


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


DAY = 24 * 3600 * SECOND


def notes(world: World, *names: str) -> None:
    """Write runs, each signed and cosigned before the next begins."""
    for name in names:
        world.now += 60 * SECOND
        world.run(name)
        world.settle()


@pytest.mark.parametrize("wrong", [DAY, -DAY])
def test_a_clock_that_was_wrong_once_is_blamed_for_that_entry_only(
    world: World, wrong: int
) -> None:
    """Writer and local witness share a clock: a day ahead, or behind, for the time of one note.

    The witness's wrong time must not refute what was written before it or is written after it.
    """
    notes(world, "before-1", "before-2", "before-3")
    world.now += wrong
    notes(world, "wrong")
    world.now -= wrong
    notes(world, "after-1", "after-2")
    for later in (0, 3 * 24 * 3600):
        report = world.verify(after=later)

        assert set(problems(report)) == {Problem.TIME_IMPOSSIBLE}
        assert {str(finding.entry).split("/")[0] for finding in report.findings} == {"wrong"}
        assert all("clock" in finding.detail for finding in report.findings)
        assert any("clock of a witness was wrong" in notice for notice in report.notices)


def test_a_witness_whose_clock_was_wrong_once_refutes_no_entry(world: World) -> None:
    """The writer's clock was right all the time: there is nothing to find, and one thing to say."""
    notes(world, "before")
    world.skew = -DAY  # the writer's clock is the witness's without its error
    world.now += DAY
    notes(world, "wrong")
    world.now -= DAY
    world.skew = 0
    notes(world, "after-1", "after-2")
    report = world.verify()

    assert report.ok
    assert any("clock of a witness was wrong" in notice for notice in report.notices)


@pytest.mark.parametrize("signed", [False, True])
def test_an_entry_from_the_future_is_found_and_the_clock_is_named(
    world: World, *, signed: bool
) -> None:
    """Its writer could choose any time that has not come yet."""
    world.skew = DAY
    world.run("future")
    world.skew = 0
    if signed:
        world.sign()
    report = world.verify(Trust(policy=world.policy, guard=world.guard.latest()))

    assert set(problems(report)) == {Problem.TIME_IMPOSSIBLE}
    assert all("probably ahead" in finding.detail for finding in report.findings)


def test_one_witness_of_three_that_answers_time_1_refutes_nothing(tmp_path: Path) -> None:
    """The time of a checkpoint is that of the quorum, not the smallest that anybody says."""
    world = World(tmp_path, "witness.example/1", "witness.example/2", "witness.example/3")
    group = replace(world.policy.groups[0], threshold=2)
    world.policy = replace(world.policy, groups=(group,))
    notes(world, "first", "second")
    liar = witness_key("witness.example/3")
    for note in list(world.store.checkpoints()):
        parsed = Note.parse(note)
        others = [s for s in parsed.signatures if s.name != liar.name]
        lie = Note(parsed.text, (*others, cosign(parsed.text, liar, 1)))
        with closing(sqlite3.connect(world.folder / "ledger.db")) as db, db:
            db.execute("UPDATE checkpoint SET note = ? WHERE note = ?", (lie.encode(), note))
    report = world.verify()

    assert report.ok
    assert "one witness decides" not in report.independent.reason


def test_a_cosignature_with_time_0_is_a_cosignature_without_a_time(world: World) -> None:
    """It says that the tree was seen, and bounds no entry."""
    world.run("second")
    world.sign()
    note = Note.parse(world.store.checkpoint() or b"")
    timeless = cosign(note.text, witness_key(REMOTE), 0)
    size = world.store.head().size
    world.store.save_checkpoint(size, Note(note.text, (*note.signatures, timeless)).encode())

    assert world.verify(after=3600).ok


def test_a_past_that_nobody_has_seen_is_found(world: World) -> None:
    """A run may not invent the checkpoint that it comes after."""
    world.ledger.open_strand("second").append(
        Draft("run/open", "tester", RunOpenFacts(4, NOBODY.hex()))
    )
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
    main = world.ledger.open_strand("third")
    main.append(Draft("run/open", "tester", RunOpenFacts()), remark("approval"))
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
    monkeypatch.setattr("forum.verify.entry_checker._MAX_RECENT_ENTRIES", 1)
    world.open("second").append(remark("note", None, world.ledger.find_entry("0").leaf))
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
    body = (Attachment("strands", BytesContent(content)),) if content is not None else ()
    main.append(
        Draft(
            "run/close", actor="tester", facts=RunCloseFacts(Outcome.OK, 0), parents=(), bodies=body
        )
    )
    world.settle()

    assert problems(world.verify()) == [Problem.STRAND_UNCLOSED]


def test_a_redacted_list_leaves_its_number_of_strands(world: World) -> None:
    """The facts of a close outlive its list: how many strands there were can still be counted."""
    main = world.open("second")
    (asked,) = main.append(remark("request"))
    world.ledger.open_strand("second", "task").append(remark("attempt", None, asked.leaf))
    body = Attachment("strands", text_content("[]"))
    (close,) = main.append(
        Draft(
            "run/close",
            actor="tester",
            facts=RunCloseFacts(Outcome.OK, 0),
            parents=(),
            bodies=(body,),
        )
    )
    world.settle()
    target = world.ledger.find_entry(close.leaf.hex())
    world.ledger.request_redaction(target, "strands", "tester", RedactionReason.LEGAL)
    world.settle()
    world.ledger.erase_redacted()

    assert problems(world.verify()) == [Problem.STRAND_UNCLOSED]


def test_an_entry_beside_the_log_is_found(world: World, tmp_path: Path) -> None:
    """An entry that is neither in the tree nor waiting for it is still shown to whoever asks."""
    forged = msgspec.structs.replace(world.ledger.find_entry("first/main/1").entry, n=3)
    data = LEDGER_KINDS.write(forged)
    world.store.append([EntryWrite(Position("first", "main", 3), data, leaf_of(data))])
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("UPDATE entry SET id = -1 WHERE n = 3")
    db.close()

    assert world.ledger.find_entry("first/main/3").index is None
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
    world.ledger.initialize("tests/1", world.key.verifier(), left)
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
    world.open("second").append(remark("note", None, world.ledger.find_entry("0").leaf))
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


def test_bodies_are_read_many_at_a_time(world: World) -> None:
    """A query for each body took longer than all other checks of a ledger, and of Postgres most."""
    main = world.open("many")
    main.append(*(remark(f"note{n}", f"words {n}") for n in range(300)))
    world.close(main)
    world.settle()
    asked: list[int] = []

    def bodies_at(places: Sequence[tuple[Position, str]]) -> list[StoredBody | None]:
        asked.append(len(places))
        return world.store.bodies_at(places)

    def body(position: Position, name: str) -> StoredBody | None:
        return bodies_at([(position, name)])[0]

    with closing(sqlite3.connect(world.folder / "ledger.db", isolation_level=None)) as database:
        database.execute("UPDATE body SET data = 'other' WHERE n = 200")
        database.execute("DELETE FROM body WHERE n = 250")
    reader = Wrapped(world.store, body=body, bodies_at=bodies_at)
    report = verify_ledger(reader, LEDGER_KINDS, world.trust, world.now)
    assert {Problem.BODY_MISMATCH, Problem.BODY_MISSING} <= set(problems(report))
    assert (report.bodies.mismatch, report.bodies.missing) == (1, 1)
    assert report.bodies.ok > 298
    assert len(asked) <= 5
