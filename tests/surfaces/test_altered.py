"""A database that was changed behind the ledger's back: no command shows it as if it were whole."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.errors import TamperDetected, WrongWriteKey
from forum.features.demo.tampering import open_tamperer
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import Scope
from forum.ledger.ports import Position
from tests.support import fresh_origin, upgraded
from tests.surfaces.terminal import Terminal


def change(terminal: Terminal, statement: str) -> None:
    """Type a statement into the database's own shell."""
    with closing(sqlite3.connect(terminal.database)) as db, db:
        assert db.execute(statement).rowcount > 0


FRAUDS = {
    "another body": "UPDATE body SET data = x'6c6965'",
    "another actor": "UPDATE entry SET bytes = CAST(replace(CAST(bytes AS TEXT), 'operator',"
    " 'somebody') AS BLOB) WHERE strand IN (SELECT id FROM strand WHERE run <> 'log')",
    "another place": "UPDATE entry SET n = n + 10"
    " WHERE strand IN (SELECT id FROM strand WHERE run <> 'log')",
    "not found by its id": "UPDATE leaf SET prefix = prefix + 1",
}


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a project with one note."""
    found = Terminal(tmp_path)
    assert found.type("init").returncode == 0
    return found


@pytest.mark.parametrize("fraud", FRAUDS)
def test_nothing_that_was_altered_is_printed_or_exported(terminal: Terminal, fraud: str) -> None:
    """Each command says so and ends with status 3; none of them writes a bundle."""
    noted = terminal.note("paid 40 EUR")
    change(terminal, FRAUDS[fraud])
    statuses = {
        "export": terminal.type("ledger", "export", str(noted["run"])),
        "verify": terminal.type("ledger", "verify"),
    }
    if fraud == "another body":
        statuses["get"] = terminal.type("ledger", "get", str(noted["id"]), "--body", "text")
    elif fraud != "not found by its id":
        statuses |= {
            "show": terminal.type("ledger", "show", str(noted["run"])),
            "get": terminal.type("ledger", "get", f"{noted['index']}"),
            "why": terminal.type("ledger", "why", f"{noted['index']}"),
        }

    assert {name: done.returncode for name, done in statuses.items()} == dict.fromkeys(statuses, 3)
    assert not list(terminal.folder.glob("*.zip"))
    assert all("lie" not in done.stdout for name, done in statuses.items() if name == "get")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def forum(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger with a key that was revoked, in each database."""
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
        yield found


def test_a_server_remembers_a_revocation_that_is_deleted_with_its_head(forum: Forum) -> None:
    """Whoever kept an older row of the head, with its tag, can put it back; not the memory."""
    key = forum.access.grant("intern", [Scope.ADMIN])
    forum.log.publish()
    before = forum.store.strand_head(ACCESS_STRAND)
    assert before is not None
    forum.access.revoke(key.id)
    forum.log.publish()
    server = Forum(forum.settings)
    access_state = server.access.read_access()
    revocation = forum.ledger.find_entry(str(Position(LOG_RUN, ACCESS_STRAND, 1)))
    open_tamperer(forum).delete(revocation.index or 0)
    forum.store.save_strand_head(before)

    assert key.id in server.access.read_access(access_state).revoked
    with (
        pytest.raises(TamperDetected, match="not there any more"),
        Forum(forum.settings) as restarted,
    ):
        restarted.access.read_access()
    server.close()


def test_a_machine_that_only_writes_needs_no_signing_key(forum: Forum, tmp_path: Path) -> None:
    """It has the public key and the write key; what it writes is signed elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (forum.settings.public_key_file, forum.settings.write_key_file):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    settings = replace(
        forum.settings,
        data=elsewhere if forum.settings.database else forum.settings.data,
        state=tmp_path / "other-state",
        key_file=elsewhere / "log.key",
        policy=forum.policy_file,
    )
    with Forum(settings) as writer:
        writer.keys.initialise()
        run = writer.ledger.open_run("run", "agent:remote")
        signs = writer.is_signer
    forum.log.publish()

    assert not signs
    assert not (elsewhere / "log.key").exists()
    assert forum.ledger.find_entry("run/main/0").leaf == run.head
    assert forum.log.verify(forum.log.read_trust()).ok


def test_a_machine_with_another_write_key_does_not_write(forum: Forum, tmp_path: Path) -> None:
    """Its entries would be acknowledged, and then set aside."""
    strange = tmp_path / "strange.key"
    path = forum.settings.write_key_file
    secret = next(line for line in path.read_text().splitlines() if line.startswith("key "))
    other = Forum(Settings(tmp_path / "x", tmp_path / "y", tmp_path / "x" / "log.key"))
    with other:
        other.keys.initialise()
        foreign = other.settings.write_key_file.read_text().splitlines()[2]
    strange.write_text(path.read_text().replace(secret, foreign))

    with (
        pytest.raises(WrongWriteKey, match=r"Copy write\.key"),
        Forum(replace(forum.settings, write_key=strange)) as wrong,
    ):
        wrong.keys.initialise()


def test_a_rotated_write_key_leaves_what_was_written_in_force(forum: Forum) -> None:
    """Both keys hold from then on, and entries of both are signed."""
    before = forum.ledger.open_run("before", "x")
    forum.keys.rotate_write_key()
    after = forum.ledger.open_run("after", "x")
    forum.log.publish()

    assert [forum.ledger.find_entry(f"{run.run}/main/0").leaf for run in (before, after)] == [
        before.head,
        after.head,
    ]
    assert forum.store.count_quarantined() == 0
    assert forum.log.verify(forum.log.read_trust()).ok


def test_rows_that_were_set_aside_are_listed_until_they_are_discarded(terminal: Terminal) -> None:
    """Verification says so until somebody has looked; that they were there stays on record."""
    terminal.note("one")
    change(
        terminal,
        "INSERT INTO entry (strand, n, bytes, tag) SELECT strand, n + 1, bytes, x'00' FROM entry"
        " WHERE id = (SELECT max(id) FROM entry)",
    )
    terminal.note("two")
    listed = terminal.type("ledger", "quarantine")
    verified = terminal.type("ledger", "verify")
    discarded = terminal.type("ledger", "quarantine", "--discard")
    again = terminal.type("ledger", "quarantine")
    whole = terminal.type("ledger", "verify")

    assert (listed.returncode, verified.returncode) == (3, 3)
    assert "row-quarantined" in verified.stdout
    assert (discarded.returncode, again.returncode, whole.returncode) == (0, 0, 0)
    assert "quarantine.discard/1" in terminal.type("ledger", "show").stdout


def test_a_reader_without_the_write_key_checks_by_the_signed_tree(forum: Forum) -> None:
    """An auditor holds the public key only: what is signed is checked, what is too new is shown."""
    forum.log.record_note(text_content("signed"))
    forum.ledger.open_run("young", "x")
    settings = replace(forum.settings, write_key=forum.settings.data / "none")
    with Forum(settings) as auditor, auditor.open_reader() as reader:
        signed = [data for data in reader.entries(0, reader.head().size) if data]
        young = list(reader.read_strand("young", "main"))
    # The last entries are those of the sequencer.
    index = max(at for at, data in enumerate(signed) if b"operator" in data)
    open_tamperer(forum).overwrite(index, signed[index].replace(b"operator", b"somebody"))

    assert len(young) == 1
    with (
        pytest.raises(TamperDetected),
        Forum(settings) as auditor,
        auditor.open_reader() as reader,
    ):
        list(reader.entries(0, reader.head().size))


FORGED_LAST_ENTRY = """
import hashlib, json, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
strand, n, data = db.execute(
    "SELECT strand, n, bytes FROM entry JOIN strand ON strand.id = entry.strand"
    " WHERE run = 'log' AND name = 'main' ORDER BY n DESC LIMIT 1"
).fetchone()
entry = json.loads(data) | {"n": n + 1, "prev": hashlib.sha256(b"\\0" + data).hexdigest()}
forged = json.dumps(entry, separators=(",", ":")).encode()
db.execute(
    "INSERT INTO entry (strand, n, bytes, tag) VALUES (?, ?, ?, x'00')", (strand, n + 1, forged)
)
db.commit()
"""


def test_a_row_at_the_end_of_the_logs_own_strand_stops_nobody(terminal: Terminal) -> None:
    """It is set aside by whoever writes next; verification reports it before and after."""
    run = [sys.executable, "-c", FORGED_LAST_ENTRY, str(terminal.database)]
    subprocess.run(run, check=True)
    before = terminal.type("ledger", "verify", "--json")
    noted = terminal.type("ledger", "note", "honest")
    after = terminal.type("ledger", "verify", "--json")

    assert (before.returncode, noted.returncode, after.returncode) == (3, 0, 3)
    assert '"tag-rejected"' in before.stdout
    assert '"row-quarantined"' in after.stdout


@pytest.mark.parametrize(
    "fraud",
    [
        "UPDATE once SET tag = NULL, run = (SELECT min(run) FROM strand WHERE run <> once.run)",
        "UPDATE log SET last = 1000000",
        "UPDATE strand SET name = CAST(name AS BLOB) WHERE run <> 'log'",
        "DELETE FROM head WHERE strand = 'access'",
        "UPDATE head SET leaf = x'00' WHERE strand = 'access'",
        "INSERT INTO tile (log, level, idx, hashes) VALUES (99, 0, 0, x'00')",
        "INSERT INTO pending SELECT log, entry FROM leaf; UPDATE log SET last = 0",
    ],
)
def test_what_a_database_owner_changes_is_found(terminal: Terminal, fraud: str) -> None:
    """Columns of another type, rows of no log, and marks of where the sequencer is."""
    terminal.type("keys", "create", "--name", "x", "--scope", "read")
    terminal.note("one")
    terminal.type("ledger", "note", "two", "--idempotency-key", "k")
    for statement in fraud.split(";"):
        change(terminal, statement)
    verified = terminal.type("ledger", "verify")

    assert verified.returncode == 3, verified.stdout + verified.stderr
    assert "mismatch" in verified.stdout


def test_an_idempotency_key_that_somebody_planted_records_nothing_in_silence(
    terminal: Terminal,
) -> None:
    """A note must not be taken for one that was recorded before."""
    noted = terminal.note("one")
    digest = sha256(b"two").hexdigest()
    planted = f"(1, 'operator/note/k', '{noted['run']}', '{digest}')"
    change(terminal, f"INSERT INTO once (log, name, run, digest) VALUES {planted}")  # noqa: S608
    done = terminal.type("ledger", "note", "two", "--idempotency-key", "k")

    assert done.returncode == 3
    assert "no writer of this log tied it" in done.stderr


def test_a_process_that_runs_learns_of_a_rotated_key(forum: Forum) -> None:
    """What another process tags with the new key is acknowledged: it must not be set aside."""
    with Forum(forum.settings) as worker:
        sequencer = worker.sequencer
        worker.store.head()
        forum.keys.rotate_write_key()
        run = forum.ledger.open_run("after", "x")
        sequencer.drain()

        assert list(worker.store.read_strand("after", "main"))
        assert worker.store.count_quarantined() == 0
        assert forum.ledger.find_entry("after/main/0").leaf == run.head


def test_a_server_without_the_write_key_believes_only_what_is_signed(forum: Forum) -> None:
    """Whoever deletes the file must not open the door for rows of his own."""
    forum.access.grant("auditor", [Scope.AUDIT])
    forum.log.publish()
    forum.access.grant("young", [Scope.READ])
    settings = replace(forum.settings, write_key=forum.settings.data / "none")

    with pytest.raises(TamperDetected, match="no signed tree"), Forum(settings) as without:
        without.access.read_access()
    with pytest.raises(WrongWriteKey), Forum(settings) as without, without.log.open_writer():
        pass
    with pytest.raises(WrongWriteKey, match="rotate-write"), Forum(settings) as without:
        without.keys.initialise()
