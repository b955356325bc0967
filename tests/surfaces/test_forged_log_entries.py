"""Rows that a stranger put into the log's own strands: nobody believes them or is stopped for good.

The attacker has the database, and with `tagged` the write key as well, which every worker has.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from forum.app import Forum, RunQuery
from forum.config import Settings, load_settings
from forum.errors import ForumError, NotYetSigned, SigningRefused, TamperDetected
from forum.features.retention.service import RetentionOperations
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.body import text_content
from forum.ledger.control_key import CONTROL_STRANDS, REQUESTS_STRAND
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.key_rotation import find_key_rotations
from forum.ledger.kinds import LEDGER_KINDS, Scope
from forum.ledger.own_entries import OWN_STRANDS
from forum.ledger.ports import EntryWrite, Position, TaggedHead
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import RUNS_STRAND, WRITE_KEY_MARK
from forum.tlog import Hash
from tests.support import fresh_origin, sign_unread, upgraded
from tests.surfaces.terminal import Terminal

CONTROL = [(strand, "note/1") for strand in sorted(CONTROL_STRANDS)]
CONTROL += [(MAIN_STRAND, kind) for kind in ("log.seal/1", "log.epoch/1", "redact/1")]
OTHERS = [(name, "note/1") for name in sorted({*OWN_STRANDS, REQUESTS_STRAND, ACCESS_STRAND})]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def forum(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger with a run, a hold and a key, in each database."""
    sqlite = request.param == "sqlite"
    url = None if sqlite else upgraded(str(request.getfixturevalue("postgres_url")))
    data = tmp_path / "data"
    settings = Settings(
        data,
        state=tmp_path / "state",
        key_file=data / "log.key",
        origin=fresh_origin(),
        database=url,
    )
    with Forum(settings) as found:
        found.keys.initialise()
        found.ledger.open_run("run", "x")
        RetentionOperations(found).place_hold("base")
        found.access.grant("a", [Scope.READ])
        found.log.publish()
        yield found


def forge(forum: Forum, strand: str, kind: str, *, tagged: bool, facts: str = "{}") -> Position:
    """Put a row behind the last one of a strand of the log's own run."""
    rows = list(forum.store.strand_rows(LOG_RUN, strand))
    place = Position(LOG_RUN, strand, len(rows))
    entry = {
        "v": "forum/entry/1",
        "log": forum.origin,
        "run": LOG_RUN,
        "strand": strand,
        "n": place.n,
        "prev": leaf_of(rows[-1].data).hex() if rows else "",
        "step": "forged",
        "ts": forum.ledger.now(),
        "actor": "system",
        "kind": kind,
        "parents": [leaf_of(next(forum.store.strand_rows(LOG_RUN, MAIN_STRAND)).data).hex()],
        "facts": json.loads(facts),
        "bodies": {},
    }
    data = json.dumps(entry, separators=(",", ":")).encode()
    keys = forum.write_keys
    assert keys is not None
    tag = keys.tag_entry(data) if tagged else b"x" * 20
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=tag)])
    return place


def is_set_aside(forum: Forum, place: Position) -> bool:
    """Return whether a forged row was moved to the quarantine."""
    return place in [row.row.position for row in forum.store.quarantined_rows()]


def use_all(forum: Forum) -> None:
    """Do what an operator does, in commands that each find the forged row first."""
    RetentionOperations(forum).place_hold("mine")
    RetentionOperations(forum).set_rule("call/prompt", 3600)
    RetentionOperations(forum).read_requests()
    forum.access.grant("b", [Scope.READ])
    forum.access.read_access()
    forum.log.export("run")
    forum.log.append_note(text_content("more"))
    forum.log.publish()
    forum.reads.list_runs(RunQuery(), None, 10)


@pytest.mark.parametrize("tagged", [False, True], ids=["untagged", "tagged"])
@pytest.mark.parametrize(("strand", "kind"), [*CONTROL, *OTHERS])
def test_a_forged_row_stops_nobody_for_good(
    forum: Forum, strand: str, kind: str, *, tagged: bool
) -> None:
    """It is set aside, nobody writes behind it, and the log verifies when it was discarded."""
    place = forge(forum, strand, kind, tagged=tagged)
    use_all(forum)
    if tagged and strand in {REQUESTS_STRAND, ACCESS_STRAND}:
        # Every process with the write key may write there.
        assert not forum.store.count_quarantined()
    else:
        assert is_set_aside(forum, place)
        forum.log.discard_quarantine()
    report = forum.log.verify(forum.log.read_trust())

    assert report.ok, report.findings


READ_STRANDS = sorted({*CONTROL_STRANDS, *OWN_STRANDS, REQUESTS_STRAND, ACCESS_STRAND})


@pytest.mark.parametrize("strand", READ_STRANDS)
def test_an_entry_of_the_log_that_nobody_can_read_is_set_aside(forum: Forum, strand: str) -> None:
    """Signed, it would keep everybody from reading the strand, for ever."""
    place = forge(forum, strand, "hold/1", tagged=True, facts='{"nonsense":1}')
    use_all(forum)

    assert is_set_aside(forum, place)


@pytest.mark.parametrize("strand", READ_STRANDS)
def test_an_entry_of_the_log_that_nobody_can_read_is_not_signed(forum: Forum, strand: str) -> None:
    """Whoever has the write key and the database gives it an index."""
    forge(forum, strand, "hold/1", tagged=True, facts='{"nonsense":1}')
    with patch("forum.ledger.own_entries.is_foreign_to_own", return_value=False):
        Sequencer(forum.store).drain()

    with pytest.raises(SigningRefused):
        forum.log.publish()


def test_a_hold_that_a_worker_releases_stays(forum: Forum) -> None:
    """Neither the machine that signs nor a worker believes it, whether it was indexed or not."""
    facts = '{"hold":"base","act":"release"}'
    forge(forum, "retention", "hold/1", tagged=True, facts=facts)
    with pytest.raises(TamperDetected):
        RetentionOperations(forum).read_state()
    with Forum(on_worker(forum)) as worker:
        held = RetentionOperations(worker).read_state().holds
        listed = RetentionOperations(worker).read_holds()

    assert list(held) == [hold.hold.name for hold in listed] == ["base"]


def test_a_worker_writes_nothing_behind_an_end_of_the_log_that_is_not_signed(
    forum: Forum,
) -> None:
    """The forged row is set aside, and what stands behind it would have lost its place."""
    place = forge(forum, MAIN_STRAND, "log.seal/1", tagged=True)
    with Forum(on_worker(forum)) as worker, pytest.raises(NotYetSigned):
        worker.ledger.record_export("run", 1, 1, "x")
    forum.log.publish()

    assert is_set_aside(forum, place)
    with Forum(on_worker(forum)) as worker:
        assert worker.ledger.record_export("run", 1, 1, "x").entry.n == place.n


@pytest.mark.parametrize(("strand", "kind"), CONTROL)
def test_no_reader_believes_a_control_entry_that_the_signer_did_not_write(
    forum: Forum, strand: str, kind: str
) -> None:
    """One law for all control entries and all ways to read a strand."""
    place = forge(forum, strand, kind, tagged=True)
    places = [(strand, place.n)]
    with Forum(on_worker(forum)) as worker:
        for reader in (forum.store, worker.store):
            with pytest.raises((TamperDetected, NotYetSigned)):
                reader.last_entry(LOG_RUN, strand)
            with pytest.raises((TamperDetected, NotYetSigned)):
                reader.last_entries([(LOG_RUN, strand)])
            with pytest.raises((TamperDetected, NotYetSigned)):
                reader.entries_at(LOG_RUN, places)
        for reader in (forum.store, worker.store):
            read = []
            with suppress(TamperDetected, NotYetSigned):
                read += list(reader.read_strand(LOG_RUN, strand))[place.n :]
            assert not read
        assert not list(find_key_rotations(worker.store, LEDGER_KINDS))


def test_a_list_does_not_remember_a_forged_end_of_the_directory(forum: Forum) -> None:
    """It would be missed for ever once the row is set aside."""
    facts = '{"first":1,"runs":["x"]}'
    forge(forum, RUNS_STRAND, "runs.open/1", tagged=True, facts=facts)
    with pytest.raises(TamperDetected):
        forum.reads.list_runs(RunQuery(), None, 10)
    use_all(forum)
    forum.log.discard_quarantine()

    assert forum.log.verify(forum.log.read_trust()).ok
    assert len(forum.reads.list_runs(RunQuery(), None, 10).runs) == 2


def test_a_run_that_cannot_be_read_is_listed_as_altered(forum: Forum) -> None:
    """A release before signed what nobody can read; it spoils no list."""
    (opened,) = forum.store.strand_rows("run", MAIN_STRAND)
    entry = json.loads(opened.data) | {"n": 1, "prev": leaf_of(opened.data).hex(), "kind": "hold/1"}
    data = json.dumps(entry, separators=(",", ":")).encode()
    keys = forum.write_keys
    assert keys is not None
    place = Position("run", MAIN_STRAND, 1)
    forum.store.append([EntryWrite(place, data, leaf_of(data), tag=keys.tag_entry(data))])
    sign_unread(forum)
    (listed,) = forum.reads.list_runs(RunQuery(), None, 10).runs

    assert (listed.run, listed.is_altered) == ("run", True)


def test_a_forged_mark_of_the_write_key_is_found_and_replaced(forum: Forum) -> None:
    """Otherwise nobody writes any more, and verification says that all is well."""
    forum.store.save_strand_head(TaggedHead(WRITE_KEY_MARK, 0, Hash(bytes(32)), b"x" * 20))
    report = forum.log.verify(forum.log.read_trust())
    assert [finding for finding in report.findings if "rotate-write" in finding.detail]
    with pytest.raises(ForumError, match="rotate-write"):
        forum.ledger.check_write_key()
    forum.keys.rotate_write_key()

    forum.ledger.check_write_key()
    assert forum.log.verify(forum.log.read_trust()).ok


def on_worker(forum: Forum) -> Settings:
    """Return the settings of another machine, with the write key and no key that signs."""
    settings = forum.settings
    elsewhere = settings.data.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    for path in (settings.public_key_file, settings.write_key_file):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    return replace(
        settings,
        data=elsewhere if settings.database else settings.data,
        state=settings.data.parent / "other-state",
        key_file=elsewhere / "log.key",
        policy=forum.policy_file,
    )


def test_the_command_that_lists_forged_rows_sets_them_aside(tmp_path: Path) -> None:
    """It is what the report of a verification names."""
    terminal = Terminal(tmp_path)
    terminal.type("init")
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        forge(forum, RUNS_STRAND, "note/1", tagged=False)
    before = terminal.type("runs")
    verified = terminal.type("ledger", "verify")
    listed = terminal.type("ledger", "quarantine", "--discard")
    after = (terminal.type("runs"), terminal.type("ledger", "verify"))

    assert before.returncode == 3
    assert "forum ledger quarantine" in " ".join(verified.stdout.split())
    assert "log/runs/0" in listed.stdout
    assert [done.returncode for done in after] == [0, 0]
