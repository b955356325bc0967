"""The command line as a user meets it: what it prints, where, and with which status."""

import json
import os
import pty
import resource
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from forum.errors import ConcurrentUpdate, Malformed, NoSuchEntry, RollbackDetected
from forum.tlog import Hash, SigningKey, TlogProof, VerifierKey, check_inclusion, open_checkpoint
from tests.support import free_port
from tests.surfaces.serving import started
from tests.surfaces.terminal import FORUM, Terminal

CPU_SECONDS = 0.2


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


@pytest.fixture
def terminal(bare: Terminal) -> Terminal:
    """Return a terminal in a folder with a ledger."""
    assert bare.call("init").exit_code == 0
    return bare


@pytest.fixture
def bundle(terminal: Terminal) -> Path:
    """Return the exported bundle of one remark."""
    run = terminal.note("paid 40.00 EUR")["run"]
    assert terminal.call("ledger", "export", run, "--output", "run.zip").exit_code == 0
    return terminal.folder / "run.zip"


def overwrite(database: Path, index: int, old: bytes, new: bytes) -> None:
    """Change the bytes of an entry in the file, as a thief would."""
    with sqlite3.connect(database) as db:
        where = "id = (SELECT entry FROM leaf WHERE idx = ?)"
        (data,) = db.execute(f"SELECT bytes FROM entry WHERE {where}", (index,)).fetchone()  # noqa: S608
        assert old in data
        changed = data.replace(old, new)
        db.execute(f"UPDATE entry SET bytes = ? WHERE {where}", (changed, index))  # noqa: S608
    db.close()


# Beginning


def test_init_makes_a_ledger_once(bare: Terminal) -> None:
    """Whoever types it twice must not get another key, or lose what he wrote into forum.toml."""
    first = bare.ask("init")
    (bare.folder / "forum.toml").write_text("# mine\n")
    second = bare.ask("init")

    assert (first["made"], second["made"]) == (True, False)
    assert {**first, "made": False} == second
    assert (bare.folder / "forum.toml").read_text() == "# mine\n"


def test_keys_are_for_their_owner_only(terminal: Terminal) -> None:
    """Who can read the log's key can sign for the log."""
    keys = [terminal.folder / ".forum/log.key", terminal.state / "witness/witness.key"]

    assert [stat.S_IMODE(key.stat().st_mode) for key in keys] == [0o600, 0o600]
    assert stat.S_IMODE((terminal.folder / ".forum").stat().st_mode) == 0o700


def test_without_a_ledger_the_way_to_one_is_told(bare: Terminal) -> None:
    """An error is one line, on stderr, and ends in what to do next."""
    shown = bare.type("ledger", "show")

    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith("error: there is no ledger in ")
    assert shown.stderr.endswith("; make one with: forum init\n")
    assert shown.stderr.count("\n") == 1


# Writing and reading


def test_a_note_that_cannot_be_signed_is_recorded_all_the_same(terminal: Terminal) -> None:
    """It exits with 0, for it is done; a warning names the file, and a retry doubles nothing."""
    (guard,) = terminal.state.glob("logs/*/guard.note")
    obstacle = guard.with_name("guard.note.new")
    obstacle.mkdir()
    shown = terminal.call("--quiet", "ledger", "note", "hello", "--idempotency-key", "one")
    unsigned = terminal.ask("ledger", "note", "hello", "--idempotency-key", "one")
    obstacle.rmdir()
    signed = terminal.ask("ledger", "note", "hello", "--idempotency-key", "one")
    other = terminal.call("ledger", "note", "bye", "--idempotency-key", "one")

    assert shown.exit_code == 0
    assert f"the signer's guard failed while writing {guard}" in shown.stderr
    assert unsigned["id"] == shown.stdout.split()[0] == signed["id"]
    assert (unsigned["signed"], signed["signed"], signed["witnessed"]) == (False, True, True)
    assert other.exit_code == 1
    assert "was used for another note" in other.stderr
    assert terminal.call("ledger", "note", "x", "--idempotency-key", "a b").exit_code == 2


@pytest.mark.parametrize(
    "words",
    ["hello", "", "line \u2028 separator, \u0085 next line\n", "--option", "x" * 1_000_000],
    ids=["plain", "empty", "separators", "dashes", "megabyte"],
)
def test_a_remark_is_read_back_as_it_was(terminal: Terminal, words: str) -> None:
    """Text that breaks other ledgers: what split lines, looks like an option, or is long."""
    recorded = terminal.ask("ledger", "note", given=words.encode())
    body = terminal.call("ledger", "get", recorded["id"], "--body", "text")

    assert body.stdout_bytes == words.encode()
    assert recorded["entry"]["bodies"]["text"]["size"] == len(words.encode())
    assert recorded["witnessed"] is True


def test_a_remark_can_be_an_argument(terminal: Terminal) -> None:
    """It is printed as id and position, which is what the other commands take."""
    noted = terminal.type("ledger", "note", "hello")
    leaf, position = noted.stdout.split()

    run = position.partition("/")[0]
    assert noted.stderr.split("\n") == [
        f"recorded; read it again: forum show {run[:18]} --transcript",
        "checkpoint 7: self-witnessed",
        "",
    ]
    assert terminal.type("ledger", "get", leaf, "--body", "text").stdout == "hello"
    assert terminal.type("ledger", "get", position, "--body", "text").stdout == "hello"


@pytest.mark.parametrize(
    ("words", "given", "why"),
    [
        (("a\ud800b",), None, "a lone surrogate at character 1"),
        ((), b"a\xed\xa0\x80b", "not UTF-8 at byte 1"),
    ],
    ids=["argument", "stdin"],
)
def test_what_is_not_text_is_refused(
    terminal: Terminal, words: tuple[str, ...], given: bytes | None, why: str
) -> None:
    """To replace a character would be to record what nobody said."""
    refused = terminal.call("ledger", "note", *words, given=given)

    assert isinstance(refused.exception, Malformed)
    assert str(refused.exception) == f"malformed text: {why}"
    assert terminal.ask("ledger", "summary")["size"] == 2


def test_entries_are_listed_by_index_and_by_run(terminal: Terminal) -> None:
    """The newest are shown without asking; a run is shown whole."""
    run = terminal.note("one")["run"]
    terminal.note("two")
    newest = terminal.ask("ledger", "show", "--limit", "2")["entries"]
    first = terminal.ask("ledger", "show", "--from", "0", "--limit", "1")["entries"]
    whole = terminal.ask("ledger", "show", run)["entries"]

    assert [entry["index"] for entry in newest] == [10, 11]
    assert [entry["entry"]["kind"] for entry in first] == ["log.open/1"]
    assert [entry["entry"]["step"] for entry in whole] == ["run/open", "note", "run/close"]


def test_an_entry_is_found_by_index_id_prefix_and_position(terminal: Terminal) -> None:
    """Whichever of them a user has at hand names the same entry."""
    noted = terminal.note("hello")
    names = [str(noted["index"]), noted["id"], noted["id"][:8], f"{noted['run']}/main/1"]

    assert {terminal.ask("ledger", "get", name)["id"] for name in names} == {noted["id"]}


def test_an_id_may_begin_with_decimal_digits(terminal: Terminal) -> None:
    """An index that exists wins; else the digits are those of an id."""
    noted = terminal.note("hello")
    # About one id in seven begins with four decimal digits that are no index.
    while not (noted["id"][:4].isdecimal() and int(noted["id"][:4]) > noted["index"]):
        noted = terminal.note("hello")
    missing = terminal.call("ledger", "get", "99999999999999")

    assert terminal.ask("ledger", "get", noted["id"][:4])["id"].startswith(noted["id"][:4])
    assert terminal.ask("ledger", "get", str(noted["index"]))["id"] == noted["id"]
    assert "none with index 99999999999999" in str(missing.exception)


def test_why_leads_back_to_the_cause(terminal: Terminal) -> None:
    """The end of a run is there because of the remark, and that because the run was opened."""
    index = terminal.note("hello")["index"]
    causes = terminal.ask("ledger", "why", str(index + 1))["causes"]

    assert [(c["depth"], c["entry"]["step"]) for c in causes] == [
        (0, "run/close"),
        (1, "note"),
        (2, "run/open"),
    ]


def test_a_proof_can_be_checked_with_the_logs_key_alone(terminal: Terminal) -> None:
    """What is printed is the proof, byte for byte: it can be piped into a file and sent."""
    key = VerifierKey.parse(terminal.ask("init")["key"])
    noted = terminal.note("hello")
    proof = TlogProof.parse(terminal.call("ledger", "proof", noted["id"]).stdout_bytes)
    checkpoint, _ = open_checkpoint(proof.note, [key])

    leaf = Hash.from_hex(noted["id"])
    check_inclusion(proof.hashes, leaf, proof.index, checkpoint.size, root=checkpoint.root)
    assert proof.index == noted["index"]


def test_a_checkpoint_is_printed_as_it_was_signed(terminal: Terminal) -> None:
    """Kept in a file, it is what --seen takes later."""
    key = VerifierKey.parse(terminal.ask("init")["key"])
    printed = terminal.type("ledger", "checkpoint")
    document = terminal.ask("ledger", "checkpoint")
    checkpoint, note = open_checkpoint(printed.stdout.encode(), [key])

    assert (checkpoint.size, checkpoint.root.hex()) == (document["size"], document["root"])
    assert (document["note"], document["witnessed"]) == (note.encode().decode(), True)
    assert printed.stderr == "self-witnessed\n"


def test_a_redacted_body_is_gone_and_the_ledger_still_holds(terminal: Terminal) -> None:
    """Erasure must not look like fraud, nor may the text be left in the file."""
    noted = terminal.note("the name of a customer")
    done = terminal.ask("ledger", "redact", noted["id"], "text", "--reason", "legal")
    body = terminal.call("ledger", "get", noted["id"], "--body", "text")
    report = terminal.ask("ledger", "verify")

    assert done["erased"] == 1
    assert isinstance(body.exception, NoSuchEntry)
    assert "was redacted" in str(body.exception)
    assert (report["ok"], report["bodies"]["redacted"]) == (True, 1)
    files = terminal.folder.glob(".forum/ledger.db*")
    assert [file for file in files if b"the name of a customer" in file.read_bytes()] == []


def test_a_summary_counts_what_is_there(terminal: Terminal) -> None:
    """Runs are those of users; the log's own life is not counted among them."""
    terminal.note("hello")
    summary = terminal.ask("ledger", "summary")

    assert (summary["size"], summary["runs"], summary["waiting"]) == (7, 1, 0)
    assert summary["kinds"]["note/1"] == 1


def test_a_text_is_erased_everywhere_and_the_bodies_are_named(terminal: Terminal) -> None:
    """With what the command cannot reach; a text of a few bytes is refused."""
    long, short = (terminal.ask("ledger", "note", text) for text in ("her address " * 9, "Ada"))
    done = terminal.call("ledger", "redact", long["id"], "text", "--text-everywhere")
    refused = terminal.call("ledger", "redact", short["id"], "text", "--text-everywhere")
    again = terminal.ask("ledger", "note", "his address " * 9)
    as_json = terminal.ask("ledger", "redact", again["id"], "text", "--text-everywhere")

    assert "/main/1  text\n" in done.stdout
    assert "erased 1" in done.stdout
    assert "Not reached: copies of the ledger file" in done.stderr
    assert "only 3 bytes" in str(refused.exception)
    assert [body["body"] for body in as_json["bodies"]] == ["text"]


# What programs read


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        ("init", "forum.init/1"),
        ("ledger verify", "forum.report/1"),
        ("ledger show", "forum.entries/1"),
        ("ledger get 3", "forum.entry/1"),
        ("ledger why 3", "forum.why/1"),
        ("ledger proof 3", "forum.proof/1"),
        ("ledger checkpoint", "forum.checkpoint/1"),
        ("ledger note again", "forum.entry/1"),
        ("ledger redact 3 text", "forum.redaction/1"),
        ("ledger export log", "forum.export/1"),
        ("ledger summary", "forum.summary/1"),
        ("ledger epoch --yes", "forum.epoch/1"),
        ("keys rotate-log --yes", "forum.key.rotated/1"),
        ("init --new-log", "forum.init/1"),
        ("verify run.zip", "forum.report/1"),
    ],
)
def test_json_is_one_object_that_names_its_schema(
    bundle: Path, terminal: Terminal, command: str, schema: str
) -> None:
    """A program can tell what it reads, and is not disturbed by talk."""
    result = terminal.call(*command.split(), "--json")

    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["schema"] == schema


def test_an_epoch_says_what_it_carries_and_what_it_could_not_sign(
    bundle: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person decides by these lines what to do again."""
    del bundle
    monkeypatch.setattr("forum.app.keys._count_unsigned", lambda *_, **__: 2)
    result = terminal.call("ledger", "epoch", "--yes")

    assert "2 entries of" in result.stderr
    assert "carried over: 0 entries about access, 0 open runs" in result.stderr


# Verifying


def test_a_bundle_is_believed_with_the_readers_policy_only(
    bundle: Path, terminal: Terminal, tmp_path: Path
) -> None:
    """What a bundle encloses is not evidence: without the reader's own keys nothing holds."""
    shutil.move(bundle, tmp_path)
    foreign = str(SigningKey(bytes(32), "example.com/other").verifier())
    with_policy = terminal.type("verify", "../run.zip", "--policy", str(terminal.policy))
    with_nothing = terminal.type("verify", "../run.zip")
    with_foreign_key = terminal.type("verify", "../run.zip", "--key", foreign)

    assert [r.returncode for r in (with_policy, with_nothing, with_foreign_key)] == [0, 3, 3]
    assert "✓ Intact" in with_policy.stdout
    assert "you named no key of the log: nothing was checked" in with_nothing.stdout
    assert "Your key is of the log example.com/other; this bundle" in with_foreign_key.stdout
    assert "✓" not in with_foreign_key.stdout
    assert "signature-rejected" in with_foreign_key.stdout


def test_a_bundle_says_so_when_only_its_own_machine_has_seen_it(
    bundle: Path, terminal: Terminal
) -> None:
    """The local witness is better than none, and must not pass for more than it is."""
    report = terminal.ask("verify", "run.zip", "--policy", str(terminal.policy))

    assert "on the writer's own machine" in report["independent"]["reason"]
    assert [sighting["same_machine"] for sighting in report["sightings"]] == [True]


def test_verify_names_the_entry_that_was_altered(terminal: Terminal) -> None:
    """Status 3, and the reader knows where to look."""
    noted = terminal.note("hello")
    overwrite(terminal.database, noted["index"], b"operator", b"somebody")
    verified = terminal.type("ledger", "verify")

    place = f"entry {noted['index']}"
    assert verified.returncode == 3
    assert f"leaf-mismatch at {place}: its bytes are not those whose hash" in verified.stdout
    assert "✗ Intact" in verified.stdout


def test_after_a_restored_database_only_a_new_epoch_goes_on(terminal: Terminal) -> None:
    """A backup that grows again is a fork: it is neither signed nor verified, and says why."""
    before = terminal.ask("init")["origin"]
    shutil.copytree(terminal.folder / ".forum", terminal.folder / "backup")
    terminal.note("soon to be lost")
    shutil.rmtree(terminal.folder / ".forum")
    shutil.move(terminal.folder / "backup", terminal.folder / ".forum")

    cut = terminal.ask("ledger", "verify")
    assert {finding["problem"] for finding in cut["findings"]} == {"tail-cut"}
    refused = terminal.call("ledger", "note", "as if nothing had happened")
    assert isinstance(refused.exception, RollbackDetected)
    assert str(refused.exception).endswith("begin a new epoch: forum ledger epoch")
    assert terminal.call("ledger", "epoch", given=b"n\n").exit_code == 1
    assert terminal.ask("ledger", "epoch", "--yes")["origin"] == f"{before}/epoch-2"
    terminal.note("a new beginning")
    assert terminal.ask("ledger", "verify")["ok"] is True
    (opening,) = terminal.ask("ledger", "show", "--from", "0", "--limit", "1")["entries"]
    assert opening["entry"]["facts"]["left_origin"] == before
    assert opening["entry"]["facts"]["left_size"] == 7


def test_a_reader_does_not_forget_what_was_seen(terminal: Terminal) -> None:
    """Naming a policy adds trust; it must not take away the memory of a longer ledger."""
    shutil.copytree(terminal.folder / ".forum", terminal.folder / "backup")
    terminal.note("soon to be lost")
    assert terminal.ask("ledger", "verify")["ok"] is True
    (seen,) = terminal.state.glob("logs/*/seen.note")
    before = seen.read_bytes()
    shutil.rmtree(terminal.folder / ".forum")
    shutil.move(terminal.folder / "backup", terminal.folder / ".forum")
    report = terminal.ask("ledger", "verify", "--policy", str(terminal.policy))

    assert seen.read_bytes() == before
    assert report["ok"] is False


def test_what_is_new_is_verified_by_itself(terminal: Terminal) -> None:
    """The report says what was checked at another time; the first one has nothing to go on from."""
    terminal.note("first")
    first = terminal.type("ledger", "verify", "--since-seen", "--json")
    terminal.note("second")
    second = terminal.type("ledger", "verify", "--since-seen", "--json", "--jobs", "2")
    report = json.loads(second.stdout)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "everything was checked, not only what is new" in first.stderr
    assert "everything" not in second.stderr
    assert (report["ok"], report["entries"]) == (True, 5)
    assert report["not_checked"][0].startswith("entries 0 to 6 were checked at 20")


def test_a_fraud_before_what_is_new_is_found_by_verifying_everything(terminal: Terminal) -> None:
    """What is not looked at is said; what is looked at by default is everything."""
    noted = terminal.note("first")
    assert terminal.ask("ledger", "verify")["ok"] is True
    overwrite(terminal.database, noted["index"], b"operator", b"somebody")

    since = terminal.ask("ledger", "verify", "--since-seen")
    assert since["not_checked"][0].endswith("not now")
    assert terminal.type("ledger", "verify").returncode == 3


@pytest.mark.parametrize("spoil", ["seen.db", "seen.note"])
def test_a_state_of_another_checkpoint_is_not_used(terminal: Terminal, spoil: str) -> None:
    """What is remembered in two files must be of one moment, or everything is verified."""
    terminal.note("first")
    assert terminal.ask("ledger", "verify")["ok"] is True
    (path,) = terminal.state.glob(f"logs/*/{spoil}")
    before = path.read_bytes()
    terminal.note("second")
    assert terminal.ask("ledger", "verify")["ok"] is True
    path.write_bytes(before)
    completed = terminal.type("ledger", "verify", "--since-seen")

    assert completed.returncode == 0
    assert "the state is not that of the checkpoint that was seen last" in completed.stderr


def test_two_readers_can_verify_at_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another one remembered meanwhile does not make this one's report go away."""

    def overtaken(*_: object, **__: object) -> None:
        raise ConcurrentUpdate("what seen.note remembers")

    monkeypatch.setattr("forum.stores.state_files.FileCheckpointStore.advance", overtaken)

    assert terminal.call("ledger", "verify").exit_code == 0


def test_an_epoch_without_a_guard_still_names_what_it_leaves(terminal: Terminal) -> None:
    """The store, and the witness, know the last checkpoint when the signer has lost it."""
    (guard,) = terminal.state.glob("logs/*/guard.note")
    guard.unlink()
    noted = terminal.call("ledger", "note", "hello")
    assert noted.exit_code == 0
    assert "not signed yet" in noted.stderr
    terminal.ask("ledger", "epoch", "--yes")
    (opening,) = terminal.ask("ledger", "show", "--from", "0", "--limit", "1")["entries"]

    assert opening["entry"]["facts"].get("left_size") == 2


def test_a_lost_folder_is_told_with_its_remedies(terminal: Terminal) -> None:
    """Status 1 and one line, from whatever is typed first; an epoch asks for its reason."""
    before = terminal.ask("init")["origin"]
    shutil.rmtree(terminal.folder / ".forum")
    typed = [
        terminal.type(*command.split())
        for command in ("ledger note hello", "ledger verify", "init", "runs", "ledger epoch --yes")
    ]

    assert {(result.returncode, result.stdout) for result in typed} == {(1, "")}
    for result in typed:
        assert f"error: the signing key of {before} is missing" in result.stderr
        assert "Restore the key and its folder from a backup" in result.stderr
        assert "forum ledger epoch --reason TEXT" in result.stderr
    begun = terminal.type("ledger", "epoch", "--yes", "--reason", "the disk died")
    assert begun.stdout.strip() == f"{before}/epoch-2"
    assert "readers must pin it again" in begun.stderr
    assert terminal.type("ledger", "note", "a new beginning").returncode == 0
    verified = terminal.type("ledger", "verify")
    assert verified.returncode == 3
    assert f"epoch-missing: {before}, left at size 2" in verified.stdout


def test_starting_over_is_told_as_a_new_ledger(terminal: Terminal) -> None:
    """A user who wants to begin anew says so, and is then asked nothing more."""
    before = terminal.ask("init")
    shutil.rmtree(terminal.folder / ".forum")
    made = terminal.ask("init", "--new-log")
    terminal.note("hello")

    assert made["made"] is True
    assert made["origin"] != before["origin"]
    assert terminal.ask("ledger", "verify")["ok"] is True


def test_a_moved_project_is_told_in_one_line(terminal: Terminal) -> None:
    """On stderr, once."""
    origin = terminal.ask("init")["origin"]
    moved = terminal.folder.with_name("moved")
    terminal.folder.rename(moved)
    terminal.folder = moved
    first, second = terminal.type("ledger", "verify"), terminal.type("ledger", "verify")

    assert first.stderr.count("\n") == 1
    assert f"the ledger {origin} moved from" in first.stderr
    assert (first.returncode, second.returncode, second.stderr) == (0, 0, "")


def test_a_rotated_key_is_told_with_what_is_to_be_done(terminal: Terminal) -> None:
    """The new key on stdout; whom to tell of it on stderr."""
    before = terminal.ask("init")["key"]
    rotated = terminal.type("keys", "rotate-log", "--yes")
    key = rotated.stdout.strip()

    assert key != before
    assert key == terminal.ask("init")["key"]
    assert f"forum witness serve --rotated --log '{key}'" in rotated.stderr
    assert "restart servers and workers" in rotated.stderr
    assert terminal.call("keys", "rotate-log", given=b"n\n").exit_code == 1
    assert terminal.ask("ledger", "verify", "--key", before)["intact"]["state"] == "holds"


# Failing


@pytest.mark.parametrize(
    "command",
    [
        "nosuch",
        "ledger nosuch",
        "ledger get",
        "ledger show --limit none",
        "ledger show --limit 0",
        "ledger redact 3 text --reason because",
        "ledger verify --policy nosuch",
        "verify",
        "verify nosuch.zip",
        "verify run.zip --key nonsense",
        "verify run.zip --policy forum.toml",
        "witness serve --log nonsense",
        "db upgrade",
    ],
)
def test_a_wrong_question_has_status_2(bundle: Path, terminal: Terminal, command: str) -> None:
    """A script can tell a typing error from a finding."""
    asked = terminal.call(*command.split())

    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.count("Error: ") == 1


@pytest.mark.parametrize(
    ("command", "next_step"),
    [
        ("ledger get 99", "the log has 7 entries, and none with index 99"),
        ("ledger get abc", "give at least four digits"),
        ("ledger get 3 --body none", "has no body 'none'; it has: text"),
        ("ledger export nosuch", "nosuch is neither a run nor an entry"),
        ("ledger export log --output no/such/folder", "No such file or directory"),
    ],
)
def test_an_error_is_one_line_on_stderr(terminal: Terminal, command: str, next_step: str) -> None:
    """No traceback, nothing on stdout that a pipe would take for an answer, status 1."""
    terminal.note("hello")
    failed = terminal.type(*command.split())

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: ")
    assert next_step in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.fixture
def screen() -> Iterator[tuple[int, int]]:
    """Return both ends of a pseudo-terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(("no_color", "escapes"), [("", True), ("1", False)])
def test_no_color_is_respected(
    terminal: Terminal, screen: tuple[int, int], no_color: str, *, escapes: bool
) -> None:
    """Colours are for a terminal whose owner wants them (no-color.org)."""
    ours, theirs = screen
    environment = terminal.environment | {"NO_COLOR": no_color, "TERM": "xterm"}
    command = [str(FORUM), "ledger", "verify"]
    subprocess.run(command, cwd=terminal.folder, env=environment, stdout=theirs, check=True)
    shown = os.read(ours, 10_000)

    assert "✓ Intact" in shown.decode()
    assert (b"\x1b[" in shown) is escapes


POOR = {
    "LC_ALL": "C",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONUTF8": "0",
    "PYTHONIOENCODING": "latin-1",
}
"""A locale without most of the letters there are."""


def test_any_locale_will_do(terminal: Terminal) -> None:
    """What a terminal lacks is written otherwise; files are UTF-8, and JSON is JSON, anywhere."""
    (terminal.folder / "forum.toml").write_text('[models.own]\ncmd = "😀"\n', encoding="utf-8")
    verified = terminal.type("ledger", "verify", **POOR)
    shown = terminal.type("config", "show", "--json", **POOR)

    assert "\n\\u2713 Intact" in verified.stdout, verified.stderr
    assert shown.stdout.isascii()
    assert "😀" in {one["value"] for one in json.loads(shown.stdout)["settings"]}


@pytest.mark.parametrize(
    "command", ["ledger get 0 --json", "ledger get 3 --body text", "submit hello"]
)
def test_a_closed_stdout_is_no_failure(terminal: Terminal, command: str) -> None:
    """Who closes it wants the status only, as some schedulers do."""
    terminal.note("hello")
    closing = ["sh", "-c", 'exec "$0" "$@" >&-', str(FORUM), *command.split()]
    done = subprocess.run(
        closing,
        cwd=terminal.folder,
        env=terminal.environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


# Serving


def test_up_serves_whoever_shows_the_operators_token(terminal: Terminal) -> None:
    """`Bearer $(forum token)` is all that a program of the operator has to know."""
    port = free_port()
    (terminal.folder / "forum.toml").write_text(f"[server]\nport = {port}\n")
    with started(terminal, "up") as url:
        token = terminal.type("token").stdout.strip()
        without = httpx2.get(f"{url}/api/v1/runs")
        shown = httpx2.get(f"{url}/api/v1/runs", headers={"Authorization": f"Bearer {token}"})
        rotated = terminal.type("token", "--rotate").stdout.strip()
        after = httpx2.get(f"{url}/api/v1/runs", headers={"Authorization": f"Bearer {token}"})

    assert url == f"http://127.0.0.1:{port}"
    assert [answer.status_code for answer in (without, shown, after)] == [401, 200, 401]
    assert "forum token" in without.json()["detail"]
    assert rotated != token


def test_up_uses_the_agent_of_its_options(terminal: Terminal) -> None:
    """Whoever tries it out needs no file of settings."""
    with started(terminal, "up", "--port", "0", "--cmd", "cat") as url:
        token = terminal.type("token").stdout.strip()
        headers = {"Authorization": f"Bearer {token}"}
        taken = httpx2.post(f"{url}/api/v1/runs", json={"request": "again"}, headers=headers)
        run = taken.json()["run"]
        terminal.type("watch", run)
        document = httpx2.get(f"{url}/api/v1/runs/{run}", headers=headers).json()

    assert (document["outcome"], document["answer"]) == ("ok", "again")


def test_there_is_no_token_without_a_ledger(tmp_path: Path) -> None:
    """In the wrong folder it would open nothing, and nobody would know why."""
    refused = Terminal(tmp_path / "elsewhere").type("token")

    assert refused.returncode == 1
    assert "forum init" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--open-loopback", "--host", "::"),
        ("serve", "--open-loopback", "--host", "192.0.2.1"),
        ("serve", "--open-loopback", "--require-keys"),
        ("up", "--open-loopback", "--require-keys"),
    ],
    ids=" ".join,
)
def test_only_a_loopback_address_can_be_open(terminal: Terminal, words: tuple[str, ...]) -> None:
    """Who can reach another address is not known to anybody."""
    refused = terminal.type(*words)

    assert refused.returncode == 2
    assert "--open-loopback" in refused.stderr


def test_a_server_names_the_port_that_it_got(terminal: Terminal) -> None:
    """Who asks for any free port learns it here, and it answers at once."""
    with started(terminal, "serve", "--port", "0") as url:
        answer = httpx2.get(f"{url}/livez")

    assert answer.status_code == 200


def test_a_server_that_cannot_listen_does_not_say_that_it_serves(terminal: Terminal) -> None:
    """Who waits for that line would talk to whoever has the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = terminal.type("serve", "--port", str(port))

    assert failed.returncode == 1
    assert str(port) in failed.stderr
    assert "serving" not in failed.stderr


# What it costs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "most_modules"), [("--help", 190), ("runs", 440), ("ledger verify", 460)]
)
def test_a_command_costs_little(terminal: Terminal, command: str, most_modules: int) -> None:
    """Less than a fifth of a second of CPU: it is typed often, and in scripts.

    Modules that are loaded are counted, which is exact.  Where another tenant of the machine makes
    every process dearer, so is the measure of CPU: what Python itself takes to start with
    `asyncio`, seven times.
    """
    terminal.note("hello")
    forum = [str(FORUM), *command.split()]
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *forum],
        cwd=terminal.folder,
        env=terminal.environment,
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    bare = [sys.executable, "-c", "import asyncio"]
    costs = [(cpu_seconds(terminal, forum), cpu_seconds(terminal, bare)) for _ in range(5)]

    assert loaded.count("import time:") < most_modules
    assert min(ours for ours, _ in costs) < max(CPU_SECONDS, 7 * min(bare for _, bare in costs))


def cpu_seconds(terminal: Terminal, command: list[str]) -> float:
    """Return the CPU time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=terminal.folder, env=terminal.environment, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_who_looks_at_runs_loads_no_engine(terminal: Terminal) -> None:
    """Nor the event loop that it needs: to load the two costs more than to look."""
    terminal.note("hello")
    output = subprocess.run(
        [sys.executable, "-X", "importtime", FORUM, "runs"],
        cwd=terminal.folder,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    loaded = {line.rpartition("|")[2].strip() for line in output.splitlines()}

    assert "forum.stores.sqlite" in loaded
    assert {"forum.engine", "asyncio"} & loaded == set()


def test_the_verifier_loads_neither_network_nor_database() -> None:
    """What a stranger runs can be shown to talk to nobody: it has nothing to talk with."""
    program = "import sys, forum.verify; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "forum.verify.ledger_audit" in loaded
    assert {"socket", "asyncio", "sqlite3", "psycopg", "starlette", "click"} & {*loaded} == set()
