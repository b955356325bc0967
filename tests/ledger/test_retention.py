"""Retention: what is erased when, what holds keep, and what is left on record of it."""

import secrets
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import BodyHeld, StoreFailed
from forum.ledger import due_bodies
from forum.ledger.body import text_content
from forum.ledger.due_bodies import RetentionScan
from forum.ledger.entry import LOG_RUN, Entry, Facts
from forum.ledger.kinds import (
    LEDGER_KINDS,
    HoldAct,
    HoldFacts,
    NoteFacts,
    Outcome,
    RedactionReason,
    RedactionV3Facts,
    RetentionFacts,
)
from forum.ledger.log import Ledger
from forum.ledger.ports import Position
from forum.ledger.redaction import (
    MAX_REDACTED_BODIES,
    MAX_REDACTED_ENTRIES,
    redacted_bodies,
)
from forum.ledger.retention_holds import (
    RETENTION_STRAND,
    RetentionState,
    fold_retention,
    read_retention,
)
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import WitnessPolicy
from tests.support import StoreFactory, key_of, wait_until

DAY_S = 86_400
DAY = 1_000_000 * DAY_S
WITHOUT_WITNESSES = WitnessPolicy((), (), (), "none")


class Office:
    """A ledger with a clock to turn, and the means to sign it."""

    def __init__(self, factory: StoreFactory, folder: Path) -> None:
        self.factory, self.now = factory, 10_000 * DAY
        self._ticks = count(1)
        self.store = factory()
        salts = lambda: secrets.token_bytes(32)  # noqa: E731
        clock = lambda: self.now + next(self._ticks)  # noqa: E731
        self.ledger = Ledger(self.store, LEDGER_KINDS, clock, salts)
        self.guard = FileCheckpointStore(folder / "guard.note")
        self.active: set[str] = set()
        self.ledger.initialize("tests/1", key_of(factory.origin).verifier())
        self.scan = self.make_scan()

    def make_scan(self) -> RetentionScan:
        """Return a scan, as another process would have it."""
        return RetentionScan(self.ledger, self.active.__contains__)

    def sign(self) -> None:
        """Sequence and sign what is there."""
        Sequencer(self.store).drain()
        key = key_of(self.factory.origin)
        Publisher(self.store, key, self.guard, WITHOUT_WITNESSES).publish()

    def rule(self, subject: str, days: int) -> None:
        """Set a rule."""
        facts = RetentionFacts(subject, days * DAY_S)
        self.ledger.append_log_entry(Draft("rule", "operator", facts), RETENTION_STRAND)

    def hold(self, name: str, act: HoldAct, *runs: str) -> None:
        """Place or release a hold."""
        facts = HoldFacts(name, act, runs)
        self.ledger.append_log_entry(Draft("hold", "operator", facts), RETENTION_STRAND)

    def write(self, run: str, *words: str) -> None:
        """Record a run with some remarks."""
        main = self.ledger.open_run(run, "tester")
        for n, text in enumerate(words):
            body = Attachment("text", text_content(text))
            main.append(Draft(f"say/{n}", "tester", NoteFacts(), bodies=(body,)))
        self.ledger.close_run(main, "tester", Outcome.OK)
        self.sign()

    def has(self, run: str, n: int = 1, name: str = "text") -> bool:
        """Tell whether a body is stored."""
        return self.store.body(Position(run, "main", n), name) is not None

    def settle(self) -> int:
        """Apply the rules until nothing is left to do; return the number of erased bodies."""
        erased = 0
        while True:
            step = self.scan.step()
            erased += step.erased
            if step.is_done and not step.redacted and not step.erased:
                return erased
            self.sign()

    def redactions(self) -> list[Entry[Any]]:
        """Return the redactions by rule."""
        entries = map(LEDGER_KINDS.read, self.store.read_strand(LOG_RUN, RETENTION_STRAND))
        return [entry for entry in entries if isinstance(entry.facts, RedactionV3Facts)]


@pytest.fixture
def office(store_factory: StoreFactory, tmp_path: Path) -> Office:
    """Return a new ledger in each database."""
    return Office(store_factory, tmp_path)


def test_bodies_are_erased_when_their_period_is_over(office: Office) -> None:
    """Not before, and not before their redaction is signed."""
    office.rule("*", 30)
    office.write("old", "one", "two")
    office.now += 20 * DAY
    office.write("young", "three")
    assert office.settle() == 0
    office.now += 11 * DAY

    step = office.scan.step()
    assert (step.redacted, step.erased) == (2, 0)
    assert office.has("old", 1)
    Sequencer(office.store).drain()
    assert office.scan.step().erased == 0, "a redaction that is not signed erases nothing"
    office.sign()
    assert office.scan.step().erased == 2
    assert not office.has("old", 1)
    assert not office.has("old", 2)
    assert office.has("old", 3, "strands"), "verification needs it, and it holds no content"
    assert office.has("young")

    (redaction,) = office.redactions()
    assert (redaction.facts.reason, redaction.facts.rule) == (RedactionReason.RETENTION, "*")
    targets = [office.ledger.find_entry(f"old/main/{n}").leaf.hex() for n in (1, 2)]
    assert [*redacted_bodies(redaction)] == [(target, "text") for target in targets]


def test_the_most_exact_rule_counts_and_the_last_one(office: Office) -> None:
    """A kind may be kept longer than the rest, or for ever."""
    office.rule("*", 10)
    office.rule("note", 100)
    office.rule("note/text", 1)
    office.rule("note/text", 50)
    office.write("run", "words")
    office.now += 20 * DAY
    assert office.settle() == 0
    office.now += 31 * DAY
    assert office.settle() == 1
    assert office.redactions()[0].facts.rule == "note/text"

    office.rule("note/text", 0)
    office.write("kept", "words")
    office.now += 1000 * DAY
    assert office.settle() == 0


def test_a_hold_wins_until_it_is_released(office: Office) -> None:
    """Over rules, over requests, and over redactions that were recorded before it."""
    office.rule("*", 1)
    for run in ("held", "free", "late"):
        office.write(run, "words")
    office.hold("case", HoldAct.PLACE, "held")
    office.now += 2 * DAY
    target = office.ledger.find_entry("late/main/1")
    office.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    office.hold("other", HoldAct.PLACE, "late")
    office.sign()
    assert office.settle() == 1
    assert (office.has("held"), office.has("free"), office.has("late")) == (True, False, True)
    with pytest.raises(BodyHeld, match="held"):
        office.ledger.request_redaction(
            office.ledger.find_entry("held/main/1"), "text", "tester", RedactionReason.REQUEST
        )
    assert office.ledger.erase_redacted() == []

    office.hold("case", HoldAct.RELEASE)
    office.hold("other", HoldAct.RELEASE)
    assert office.settle() == 2
    assert not office.has("held")
    assert not office.has("late")


def test_a_hold_on_everything_covers_what_comes(office: Office) -> None:
    """It names no run."""
    office.rule("*", 1)
    office.hold("all", HoldAct.PLACE)
    office.write("new", "words")
    office.now += 2 * DAY
    assert office.settle() == 0
    assert office.redactions() == []


def test_a_hold_that_comes_in_between_is_seen(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position in the strand is the fence: no redaction follows a hold on its run."""
    office.rule("*", 1)
    office.write("run", "words")
    office.now += 2 * DAY
    found = RetentionScan._find_stored  # noqa: SLF001

    def find_then_hold(scan: RetentionScan, due: Any) -> Any:  # noqa: ANN401
        batch = found(scan, due)
        office.hold("case", HoldAct.PLACE, "run")
        return batch

    monkeypatch.setattr(RetentionScan, "_find_stored", find_then_hold)
    assert office.scan.step().redacted == 0
    assert office.redactions() == []


def test_an_active_run_is_left_until_it_ends(office: Office) -> None:
    """Its worker reads its bodies again, however old they are."""
    office.rule("*", 1)
    office.active.add("run")
    office.write("run", "words")
    office.now += 2 * DAY
    office.write("next", "words")
    office.now += 2 * DAY
    assert office.settle() == 1
    office.active.clear()
    assert office.settle() == 1
    assert not office.has("run")


def test_the_log_itself_is_erased_by_exact_rules_only(office: Office) -> None:
    """Reasons and remarks are part of the account of what was done."""
    body = Attachment("reason", text_content("a claim"))
    facts = HoldFacts("case", HoldAct.PLACE, ("nothing",))
    office.ledger.append_log_entry(
        Draft("hold", "operator", facts, bodies=(body,)), RETENTION_STRAND
    )
    office.rule("*", 1)
    office.sign()
    office.now += 2 * DAY
    assert office.settle() == 0
    office.rule("hold/reason", 1)
    office.sign()
    assert office.settle() == 1


def test_many_bodies_are_erased_in_batches(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry fits, names every body once, and leads to the exports of its runs."""
    monkeypatch.setattr(due_bodies, "_SCANNED_ENTRIES", 25)
    office.rule("*", 1)
    for run in range(4):
        office.write(f"run{run}", *map(str, range(20)))
    exports = [office.ledger.record_export(f"run{n}", 1, 1, "tester").leaf for n in (1, 1, 2)]
    office.sign()
    office.now += 2 * DAY
    assert office.settle() == 80

    redactions = office.redactions()
    bodies = [body for entry in redactions for body in redacted_bodies(entry)]
    assert len(bodies) == len(set(bodies)) == 80
    assert all(len(e.parents) <= MAX_REDACTED_ENTRIES + 1 for e in redactions)
    assert all(len(e.facts.bodies) <= MAX_REDACTED_BODIES for e in redactions)
    reached, ends = set(), [parent for entry in redactions for parent in entry.parents]
    while ends:
        located_entry = office.ledger.find_entry(ends.pop())
        reached.add(located_entry.leaf)
        if located_entry.entry.kind == "join/1":
            ends += located_entry.entry.parents
    assert reached.issuperset(exports)
    # Another process finds everything done.
    office.scan = office.make_scan()
    assert office.settle() == 0
    assert office.redactions() == redactions


def test_what_fails_is_done_again(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that stops anywhere loses nothing, and announces nothing twice."""
    office.rule("*", 1)
    office.write("run", "one", "two")
    office.now += 2 * DAY

    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("erasing", "somebody is reading the ledger; try again later")

    with monkeypatch.context() as patch:
        patch.setattr(RetentionScan, "_redact", fail)
        with pytest.raises(StoreFailed):
            office.scan.step()
    assert office.scan.step().redacted == 2
    office.sign()
    with monkeypatch.context() as patch:
        patch.setattr(office.store, "erase_bodies", fail)
        with pytest.raises(StoreFailed):
            office.scan.step()
        with pytest.raises(StoreFailed):
            office.scan.step()
    assert office.settle() == 2
    assert len(office.redactions()) == 1


def test_an_entry_from_the_future_stops_nothing(office: Office) -> None:
    """A writer whose clock was wrong must not keep the bodies of all others."""
    office.rule("*", 1)
    office.now += 1000 * DAY
    office.write("future", "words")
    office.now -= 1000 * DAY
    office.write("run", "words")
    office.now += 2 * DAY
    assert office.settle() == 1
    assert office.has("future")


def entry_of(n: int, facts: Facts) -> Entry[Any]:
    """Return an entry of the strand."""
    return Entry(
        v="forum/entry/1",
        log="x",
        run=LOG_RUN,
        strand=RETENTION_STRAND,
        n=n,
        prev="",
        step="s",
        ts=n,
        actor="a",
        kind=LEDGER_KINDS.kind_of(facts).name,
        parents=(),
        facts=facts,
        bodies={},
    )


SUBJECTS = st.sampled_from(["*", "note", "note/text", "run.close/strands"])
rules = st.builds(RetentionFacts, SUBJECTS, st.integers(0, 3))
holds = st.builds(
    HoldFacts,
    st.sampled_from(["a", "b"]),
    st.sampled_from(HoldAct),
    st.lists(st.sampled_from(["r", "s"]), max_size=2).map(tuple),
)


@given(st.lists(rules | holds), st.integers(0, 10))
def test_folding_in_parts_is_folding_at_once(facts: list[Facts], at: int) -> None:
    """A process that goes on with what it knows comes to the same rules as a new one."""
    entries = [entry_of(n, each) for n, each in enumerate(facts)]
    whole = fold_retention(entries, RetentionState())

    assert fold_retention(entries[at:], fold_retention(entries[:at], RetentionState())) == whole
    assert whole.find_rule("r", "run.close/1", "strands") is None
    rule = whole.find_rule("r", "note/1", "text")
    assert rule is None or whole.periods[rule] > 0
    assert whole.find_rule(LOG_RUN, "note/1", "text") != "*"


def test_the_state_is_read_in_parts(office: Office) -> None:
    """As it is folded."""
    office.rule("*", 1)
    first = read_retention(office.store, LEDGER_KINDS)
    office.hold("a", HoldAct.PLACE, "r")
    second = read_retention(office.store, LEDGER_KINDS, first)

    assert second == read_retention(office.store, LEDGER_KINDS)
    assert (second.length, second.is_held("r"), second.is_held("s")) == (2, True, False)


def table_bytes(url: str) -> bytes:
    """Return the file of the newest bodies; only a superuser may read it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute(
            "SELECT pg_read_binary_file(pg_relation_filepath('forum.body_0'))"
        ).fetchone()
    assert row is not None
    return bytes(row[0])


@pytest.mark.postgres
def test_postgres_forgets_after_the_table_is_rewritten(postgres_url: str, tmp_path: Path) -> None:
    """By the command that the guide names; until then the file may still hold what was deleted."""
    factory = StoreFactory(postgres_url)
    office, words = Office(factory, tmp_path), secrets.token_hex(20)
    office.rule("*", 1)
    office.write("run", words)
    office.now += 2 * DAY
    assert words.encode() in table_bytes(postgres_url)
    assert office.settle() == 1
    factory.close()

    def is_forgotten() -> bool:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("VACUUM (FULL, ANALYZE) forum.body_0")
        return words.encode() not in table_bytes(postgres_url)

    # A transaction of another database of this server may still keep the row.
    wait_until(is_forgotten)
