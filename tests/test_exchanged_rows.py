"""Rows that were exchanged or forged with what every worker has: write key and database."""

import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from forum.app import KINDS, Forum, RunQuery, new_salt, now
from forum.config import Settings
from forum.errors import ForumError, NoSuchRequest, NotYetSigned, SigningRefused, TamperDetected
from forum.features.demo.tampering import open_tamperer
from forum.features.retention.service import RetentionOperations
from forum.ledger import kinds
from forum.ledger.carried import CARRIED_LOG_STRANDS
from forum.ledger.control_key import CONTROL_STRANDS, REQUESTS_STRAND
from forum.ledger.entry import LOG_RUN, Facts, leaf_of, write_entry
from forum.ledger.kinds import ControlAct, ControlRequestFacts, RetentionFacts
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryWrite, Position
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import RUNS_STRAND, Draft, Strand
from forum.tlog import Hash, Note, parse_checkpoint
from forum.verify import Problem, State
from tests.support import fresh_origin, sign_unread, upgraded


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def forum(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger with a signed run in each kind of database."""
    url = None
    if request.param == "postgres":
        url = upgraded(str(request.getfixturevalue("postgres_url")))
    data = tmp_path / "project/.forum"
    made = Settings(
        data,
        state=tmp_path / "state",
        key_file=data / "log.key",
        origin=fresh_origin(),
        database=url,
    )
    with Forum(made) as found:
        found.keys.initialise()
        found.ledger.open_run("run", "x")
        found.log.publish()
        yield found


def writer_of(forum: Forum) -> Ledger:
    """Return what a worker writes with: the write key, and no control key."""
    return Ledger(forum.store, KINDS, now, new_salt, tags=forum.write_keys)


def run_sql(forum: Forum, statement: str, **parameters: object) -> None:
    """Run a statement of an attacker; `forum.` before a table is the schema of Postgres."""
    if forum.settings.database:
        with psycopg.connect(forum.settings.database, autocommit=True) as postgres:
            postgres.execute(statement.encode(), parameters)
        return
    plain = statement.replace("forum.", "")
    for name in parameters:
        plain = plain.replace(f"%({name})s", f":{name}")
    with sqlite3.connect(forum.settings.ledger_file) as sqlite:
        sqlite.execute(plain, parameters)
    sqlite.close()


def exchange_facts(forum: Forum, strand: str, n: int, facts: Facts) -> bytes:
    """Give an entry of the log other facts, with the tag of the write key; return it."""
    old = next(forum.store.strand_rows(LOG_RUN, strand, n)).data
    entry = replace(KINDS.read(old), facts=facts, bodies={})
    new = KINDS.write(entry)
    exchange(forum, old, new)
    return new


def exchange(forum: Forum, old: bytes, new: bytes) -> None:
    """Give a row other bytes, with the tag of the write key."""
    keys = forum.write_keys
    assert keys is not None
    statement = "UPDATE forum.entry SET bytes = %(new)s, tag = %(tag)s WHERE bytes = %(old)s"
    run_sql(forum, statement, new=new, tag=keys.tag_entry(new), old=old)


def ask(forum: Forum, facts: ControlRequestFacts) -> str:
    """Ask for something as a worker does; return the id of the request."""
    step = f"ask/{new_salt()[:4].hex()}"
    draft = Draft(step, "worker", facts)
    return writer_of(forum).append_log_entry(draft, REQUESTS_STRAND).leaf.hex()


PLACE = ControlRequestFacts(ControlAct.PLACE, hold="audit")
RELEASE = ControlRequestFacts(ControlAct.RELEASE, hold="case")


def test_a_request_that_is_not_signed_is_not_granted(forum: Forum) -> None:
    """Until then it can be exchanged for another one with the same first digits."""
    asked = ask(forum, PLACE)
    assert [r.is_signed for r in RetentionOperations(forum).read_requests()] == [False]
    with pytest.raises(NotYetSigned):
        RetentionOperations(forum).grant_request(asked)
    forum.log.publish()

    with pytest.raises(NoSuchRequest):
        RetentionOperations(forum).grant_request(asked[:8])
    RetentionOperations(forum).grant_request(asked[:12])
    assert list(RetentionOperations(forum).read_state().holds) == ["audit"]


def test_a_request_that_was_exchanged_is_not_granted(forum: Forum) -> None:
    """Its tag is valid, but the signed tree has another entry."""
    RetentionOperations(forum).place_hold("case")
    ask(forum, PLACE)
    forum.log.publish()
    forged = exchange_facts(forum, REQUESTS_STRAND, 0, RELEASE)

    with pytest.raises((NotYetSigned, TamperDetected)):
        RetentionOperations(forum).grant_request(leaf_of(forged).hex())
    assert list(RetentionOperations(forum).read_state().holds) == ["case"]


def test_a_rule_that_was_exchanged_is_not_applied(forum: Forum) -> None:
    """The row is put back when the bodies are erased."""
    RetentionOperations(forum).set_rule("call", 3600)
    RetentionOperations(forum).set_rule("note", 3600)
    forum.log.publish()
    exchange_facts(forum, RETENTION_STRAND, 0, RetentionFacts("*", 1))

    with pytest.raises(TamperDetected):
        RetentionOperations(forum).read_state()
    with pytest.raises(TamperDetected):
        RetentionOperations(forum).apply_rules()
    # Another machine cannot tell by a tag, and follows the signed tree.
    elsewhere = dataclasses.replace(forum.settings, state=forum.settings.state.with_name("b"))
    with Forum(elsewhere) as worker, pytest.raises(TamperDetected):
        RetentionOperations(worker).read_state()


@pytest.mark.parametrize("size", ["4611686018427387904", "3"])
@pytest.mark.parametrize("kind", ["garbage", "copy"])
def test_a_false_checkpoint_stops_nobody_and_is_no_loss(forum: Forum, kind: str, size: str) -> None:
    """Nothing is lost while the tree that the guard signed is there."""
    forum.ledger.open_run("second", "x")
    forum.log.publish()
    log = "(SELECT id FROM forum.log WHERE origin = %(origin)s)"
    copied = "note" if kind == "copy" else "%(note)s"
    statement = "INSERT INTO forum.checkpoint (log, size, note) "
    statement += f"SELECT log, {size}, {copied} FROM forum.checkpoint WHERE log = {log}"  # noqa: S608
    garbage = {} if kind == "copy" else {"note": b"xx"}
    run_sql(forum, f"{statement} ORDER BY size LIMIT 1", origin=forum.origin, **garbage)
    forum.ledger.open_run("third", "x")
    published = forum.log.publish()
    assert published.checkpoint.size == forum.store.head().size
    report = forum.log.verify(forum.log.read_trust())
    assert [f for f in report.findings if size in f.detail], report.findings

    forum.keys.new_epoch("its report is red")
    with Forum(forum.settings) as successor:
        (begun,) = (e for e in read_main(successor) if isinstance(e, kinds.LogEpochFacts))
    assert begun.held_size == published.checkpoint.size


@pytest.mark.parametrize("forum", ["sqlite"], indirect=True)
def test_a_head_that_is_no_number_hangs_nobody(forum: Forum) -> None:
    """SQLite takes any type in any column."""
    run_sql(forum, "UPDATE log SET size = x''")
    report = forum.log.verify(forum.log.read_trust())

    assert Problem.ROOT_MISMATCH in {finding.problem for finding in report.findings}
    with pytest.raises(ForumError):
        forum.log.publish()


def read_main(forum: Forum) -> list[object]:
    """Return the facts of the first entries of a log."""
    return [KINDS.read(data).facts for data in forum.store.read_strand(LOG_RUN, "main")]


def put(forum: Forum, run: str, strand: str, facts: Facts) -> None:
    """Record an entry as a worker that gives it an index in the same breath."""
    Strand(writer_of(forum).writer, run, strand, at_end=True).append(
        Draft("forged", "x", facts, (opening_of(forum),))
    )
    Sequencer(forum.store).drain()


def opening_of(forum: Forum) -> Hash:
    """Return the first entry of the log, as the cause of forged ones."""
    return leaf_of(next(forum.store.read_strand(LOG_RUN, "main")))


@pytest.mark.parametrize(
    ("strand", "facts"),
    [
        ("witnessed", kinds.WitnessedFacts(2**53 - 1, "00" * 32)),
        ("witnessed", kinds.WitnessedFacts(3, "00" * 32)),
        ("witnessed", kinds.NoteFacts()),
        ("runs", kinds.RunsOpenedFacts(2**53 - 1, ("ghost",))),
        ("runs", kinds.RunsOpenedFacts(1, ("ghost",))),
        ("runs", kinds.RunsOpenedFacts(1, ("run",))),
        ("runs", kinds.NoteFacts()),
    ],
)
def test_the_signer_signs_nothing_that_no_sequencer_composes(
    forum: Forum, strand: str, facts: Facts
) -> None:
    """It would end what sequencers record; a new epoch leads out."""
    signed = forum.store.checkpoint()
    put(forum, LOG_RUN, strand, facts)
    with pytest.raises(SigningRefused, match="ledger epoch"):
        forum.log.publish()

    assert forum.store.checkpoint() == signed
    forum.keys.new_epoch("forged")
    with Forum(forum.settings) as successor:
        successor.ledger.open_run("next", "x")
        assert successor.log.publish().checkpoint.size


@pytest.mark.parametrize("line", ["x", "a witness's"])
def test_the_signer_signs_no_record_of_a_cosignature_that_does_not_hold(
    forum: Forum, line: str
) -> None:
    """It would be a finding for ever, or take the place of those that hold."""
    signed = parse_checkpoint(forum.store.checkpoint() or b"")
    if line != "x":
        forum.ledger.open_run("other", "x")
        lines = Note.parse(forum.log.publish().note).signatures
        line = str(next(own for own in lines if own.name != forum.origin))
    put(forum, LOG_RUN, "witnessed", kinds.WitnessedFacts(signed.size, signed.root.hex(), (line,)))
    with pytest.raises(SigningRefused, match="does not hold"):
        forum.log.publish()


def test_the_signer_signs_no_record_out_of_order(forum: Forum) -> None:
    """Exporters search the records by size, and would not find those before it."""
    first = parse_checkpoint(forum.store.checkpoint() or b"")
    for run in ("second", "third"):
        forum.ledger.open_run(run, "x")
        forum.log.publish()
    put(forum, LOG_RUN, "witnessed", kinds.WitnessedFacts(first.size, first.root.hex()))
    with pytest.raises(SigningRefused, match="larger checkpoint"):
        forum.log.publish()


def test_a_row_that_stops_writers_is_named(forum: Forum) -> None:
    """It stands at the end of a strand of sequencers, and waits for no index."""
    Strand(writer_of(forum).writer, LOG_RUN, RUNS_STRAND, at_end=True).append(
        Draft("forged", "x", kinds.RunsOpenedFacts(1, ("run",)), (opening_of(forum),))
    )
    place = Position(LOG_RUN, RUNS_STRAND, 1)
    open_tamperer(forum).hide_row(place)
    forum.ledger.open_run("second", "x")
    with pytest.raises(TamperDetected):
        forum.log.publish()
    document = {f.problem: f.detail for f in forum.log.verify(forum.log.read_trust()).findings}
    assert str(place) in document[Problem.STRAY_ENTRY]

    run_sql(
        forum,
        "DELETE FROM forum.entry WHERE n = 1 AND strand IN "
        "(SELECT id FROM forum.strand WHERE run = 'log' AND name = 'runs')",
    )
    forum.log.publish()
    assert forum.log.verify(forum.log.read_trust()).complete.state is State.HOLDS


def test_a_record_of_a_tree_that_is_not_there_ends_no_records(forum: Forum) -> None:
    """A log of the release before may have signed one."""
    put(forum, LOG_RUN, "witnessed", kinds.WitnessedFacts(2**53 - 1, "00" * 32))
    sign_unread(forum)
    forum.ledger.open_run("second", "x")
    forum.log.publish()
    last = forum.ledger.writer.last_entry(LOG_RUN, "witnessed")

    assert last is not None
    assert last.entry.facts.size < forum.store.head().size


RUBBISH = b'{"v":"forum/entry/1","log":"%s","run":"%s","strand":"%s","n":%d,"prev":"" no JSON'


@pytest.mark.parametrize(
    ("run", "strand"), [("rubbish", "main"), ("run", "main"), ("log", "access"), ("log", "main")]
)
@pytest.mark.parametrize("indexed", [False, True])
def test_what_nobody_can_read_is_not_signed(
    forum: Forum, run: str, strand: str, *, indexed: bool
) -> None:
    """It would be in the tree for ever, and stop whoever reads its strand."""
    n = sum(1 for _ in forum.store.strand_rows(run, strand))
    data = RUBBISH % (forum.origin.encode(), run.encode(), strand.encode(), n)
    keys = forum.write_keys
    assert keys is not None
    place = Position(run, strand, n)
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=keys.tag_entry(data))])
    if indexed:
        Sequencer(forum.store).drain()
        with pytest.raises(SigningRefused, match="nobody can read"):
            forum.log.publish()
        return
    forum.log.publish()

    assert [q.row.position for q in forum.store.quarantined_rows()] == [place]
    forum.log.discard_quarantine()
    assert forum.log.verify(forum.log.read_trust()).ok


def test_an_entry_of_a_later_release_is_signed(forum: Forum) -> None:
    """Its kind is unknown, and it is well formed."""
    old = next(forum.store.strand_rows("run", "main")).data
    entry = replace(KINDS.read(old), n=1, prev=leaf_of(old).hex(), kind="later/1")
    data = write_entry(replace(entry, facts=msgspec.Raw(b'{"new":"fact"}')))[0]
    keys = forum.write_keys
    assert keys is not None
    place = Position("run", "main", 1)
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=keys.tag_entry(data))])
    forum.log.publish()

    assert not forum.store.count_quarantined()
    assert forum.log.verify(forum.log.read_trust()).ok


@pytest.mark.parametrize("strand", ["access", "requests", "keys", "retention", "main"])
def test_a_gap_in_a_strand_of_the_log_is_a_finding(forum: Forum, strand: str) -> None:
    """An entry that stood behind a row that was set aside stays behind a gap: reports say so."""
    RetentionOperations(forum).place_hold("case")
    forum.access.grant("a", [kinds.Scope.READ])
    forum.log.publish()
    rows = list(forum.store.strand_rows(LOG_RUN, strand))
    prev = rows[-1].data if rows else next(forum.store.read_strand(LOG_RUN, "main"))
    entry = replace(
        KINDS.read(prev),
        strand=strand,
        n=len(rows) + 1,
        prev=leaf_of(prev).hex(),
        ts=now(),
        kind="note/1",
        facts=kinds.NoteFacts(),
        parents=(opening_of(forum).hex(),),
    )
    data = KINDS.write(entry)
    keys, control = forum.write_keys, forum.control_keys
    assert keys is not None
    assert control is not None
    tag = keys.tag_entry(data) + (control.tag_control(data) if strand in CONTROL_STRANDS else b"")
    place = Position(LOG_RUN, strand, entry.n)
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=tag)])
    forum.log.publish()
    report = forum.log.verify(forum.log.read_trust())

    assert Problem.POSITION_MISSING in {finding.problem for finding in report.findings}
    forum.log.export("run")
    if strand not in CARRIED_LOG_STRANDS:  # there, a revocation could be what is missing
        forum.keys.new_epoch("a gap")


@pytest.mark.parametrize("tagged", [False, True])
def test_a_run_whose_opening_was_set_aside_is_in_no_list(forum: Forum, *, tagged: bool) -> None:
    """It was never opened: the tables know its name, and the log does not."""
    data = RUBBISH % (forum.origin.encode(), b"ghost", b"main", 0)
    keys = forum.write_keys
    assert keys is not None
    tag = keys.tag_entry(data) if tagged else b"x" * 20
    place = Position("ghost", "main", 0)
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=tag)])
    forum.ledger.open_run("second", "x")
    forum.log.publish()

    assert [q.row.position for q in forum.store.quarantined_rows()] == [place]
    listed = forum.reads.list_runs(RunQuery(), None, 10).runs
    assert [run.run for run in listed] == ["second", "run"]


def test_a_checkpoint_that_is_deleted_before_it_is_recorded_is_put_back(forum: Forum) -> None:
    """The machine that signs remembers it: nothing is lost, and a record accuses nobody."""
    note = forum.store.checkpoint() or b""
    newest = parse_checkpoint(note).size
    log = "(SELECT id FROM forum.log WHERE origin = %(origin)s)"
    statement = f"DELETE FROM forum.checkpoint WHERE size = {newest} AND log = {log}"  # noqa: S608
    run_sql(forum, statement, origin=forum.origin)
    forum.ledger.open_run("second", "x")
    forum.log.publish()
    report = forum.log.verify(forum.log.read_trust())

    assert forum.store.checkpoint(newest) == note
    assert not report.findings
