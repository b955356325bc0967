"""What `forum doctor` finds, what it says to do, and that it changes nothing."""

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from forum.app import Forum, upgrade_database
from forum.config import Settings, load_settings
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.ports import due_now
from forum.runs import shared_tasks
from forum.section_reader import SectionTables
from forum.surfaces.cli.doctor import DoctorFinding, DoctorState, run_doctor_checks
from tests.soak.cluster import scratch_database
from tests.surfaces.terminal import Terminal

Change = Callable[[Terminal], object]


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


@pytest.fixture
def terminal(bare: Terminal) -> Terminal:
    """Return a terminal in a project with a ledger of some entries."""
    bare.call("init")
    bare.note("hello")
    return bare


def examined(terminal: Terminal, status: int) -> dict[str, DoctorFinding]:
    """Return what is found, by the names of the checks; of several of one name, the worst."""
    done = terminal.call("doctor", "--json")
    assert done.exit_code == status, done.output
    document: dict[str, DoctorFinding] = {}
    for one in json.loads(done.stdout)["checks"]:
        finding = DoctorFinding(one["check"], DoctorState(one["state"]), one["found"], one["next"])
        if finding.check not in document or document[finding.check].state is DoctorState.OK:
            document[finding.check] = finding
    return document


def files_of(terminal: Terminal) -> dict[Path, bytes]:
    """Return every file of the user, with its content."""
    home = terminal.folder.parent
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_where_nothing_is_yet_the_way_to_it_is_told(bare: Terminal) -> None:
    """It is the first thing that somebody types whom something does not work for."""
    document = examined(bare, 0)

    unmade = {"project", "data", "state", "key", "database"}
    assert {finding.next for name, finding in document.items() if name in unmade} == {"forum init"}
    assert {document[name].state for name in unmade} == {DoctorState.WARNING}
    assert files_of(bare) == {}


def test_a_ledger_that_is_well_is_told_to_be(terminal: Terminal) -> None:
    """Every check is there, none of them warns but of the missing model, and nothing is written."""
    before = files_of(terminal)
    document = examined(terminal, 0)
    shown = terminal.call("doctor")

    assert [name for name, finding in document.items() if finding.state is not DoctorState.OK] == [
        "model"
    ]
    assert {"key", "ledger", "signer", "witness", "quorum", "workers", "roster"} <= document.keys()
    assert files_of(terminal) == before
    assert "✓ ledger" in shown.stdout
    assert shown.stderr == "\n1 warning\n"
    assert max(map(len, shown.stdout.split("\n"))) <= 80


def key_of(terminal: Terminal) -> Path:
    """Return where the log's key is."""
    return terminal.folder / ".forum/log.key"


def restore_old_database(terminal: Terminal) -> None:
    """Put an older state of the ledger in its place, as from a backup."""
    kept = terminal.database.read_bytes()
    terminal.note("more")
    terminal.database.write_bytes(kept)


def remove_hold(terminal: Terminal) -> None:
    """Delete the entry of a hold, as if it had never been placed."""
    assert terminal.type("hold", "place", "case").returncode == 0
    with closing(sqlite3.connect(terminal.database)) as db, db:
        strand = "SELECT id FROM strand WHERE run = 'log' AND name = 'retention'"
        assert db.execute(f"DELETE FROM entry WHERE strand = ({strand})").rowcount == 1  # noqa: S608


def remove_head(terminal: Terminal) -> None:
    """Delete the tagged end of the directory of runs."""
    terminal.note("one")
    with closing(sqlite3.connect(terminal.database)) as db, db:
        assert db.execute("DELETE FROM head WHERE strand = 'runs'").rowcount == 1


def ask_a_stranger(terminal: Terminal, url: str = "http://127.0.0.1:9") -> None:
    """Let the quorum be a witness at an address, by default one where nobody listens."""
    words = terminal.policy.read_text().replace("witness local ", "witness far ")
    key = words.split("witness far ")[1].split("\n")[0]
    shutil.rmtree(terminal.state / "witness")
    words = words.replace(key, f"{key} {url}").replace("quorum local", "quorum far")
    terminal.policy.write_text(words)


def configure(text: str) -> Change:
    """Return what writes the project file."""
    return lambda terminal: (terminal.folder / "forum.toml").write_text(text)


@pytest.mark.parametrize(
    ("change", "check", "step"),
    [
        (lambda t: key_of(t).chmod(0o644), "key", "chmod 600 "),
        (lambda t: key_of(t).write_text("x"), "key", "restore the file from a backup"),
        (lambda t: key_of(t).unlink(), "key", "restore "),
        (lambda t: t.database.parent.chmod(0o755), "data", "chmod -R go= "),
        (lambda t: t.database.write_text("no database" * 99), "database", "forum ledger verify"),
        (lambda t: t.policy.unlink(), "witness", "restore the file from a backup"),
        (restore_old_database, "signer", "forum ledger epoch"),
        (lambda t: t.database.unlink(), "signer", "restore the newest database"),
        (remove_hold, "strands", "put the newest database back"),
        (remove_head, "strands", "put the newest database back"),
        (ask_a_stranger, "quorum", "bring the witnesses above back"),
        (configure("[ledger]\norigin = 1\n"), "project", "correct "),
        (configure("[[["), "project", "correct "),
        (configure('[models.x]\ncmd = "no-such-program"\n'), "model", "forum models check"),
        (configure('[models.x]\nurl = "x"\nmodel = "x"\n'), "model", "correct "),
        (configure('[tools.x]\ncmd = "no-such-program"\n'), "tool", "install it"),
        (configure('[roster]\nfile = "none.toml"\n'), "roster", "forum config show"),
        (configure('[oidc]\nissuer = "http://far.example"\n'), "doors", "correct "),
        (
            configure('[webhooks.x]\nurl = "https://far.example"\nsecret_env = "UNSET"\n'),
            "doors",
            "correct ",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_broken_comes_with_the_next_step(
    terminal: Terminal, change: Change, check: str, step: str
) -> None:
    """Whatever is broken, it is found under its name, and the rest is looked at too."""
    change(terminal)
    document = examined(terminal, 1)

    assert document[check].state is DoctorState.PROBLEM
    assert step in (document[check].next or "")
    assert document["extras"].state is DoctorState.OK


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Answer everything that is posted with one status, and return where."""

    class Monotone(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object, **__: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Monotone) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "witness", "quorum"),
    [(400, DoctorState.OK, DoctorState.OK), (200, DoctorState.WARNING, DoctorState.PROBLEM)],
)
def test_only_who_refuses_nonsense_is_a_witness(
    terminal: Terminal, status: int, witness: DoctorState, quorum: DoctorState
) -> None:
    """Any web server may say yes to everything; a cosignature is not to be had from it."""
    with answering(status) as url:
        ask_a_stranger(terminal, url)
        document = examined(terminal, 1 if quorum is DoctorState.PROBLEM else 0)

    assert (document["witness"].state, document["quorum"].state) == (witness, quorum)
    assert url in document["witness"].found


def test_work_that_nobody_does_is_told_of(terminal: Terminal) -> None:
    """A run that was handed over waits for a worker: whoever asks why it stands still is told."""
    terminal.call("submit", "x", "--cmd", "cat", "--detach")
    finding = examined(terminal, 0)["workers"]

    assert (finding.state, finding.next) == (DoctorState.WARNING, "forum worker")
    assert finding.found == "none, and 1 run to go on with"


def test_tasks_that_workers_share_are_not_counted_as_runs(terminal: Terminal) -> None:
    """A large plan has a timer for each task that is to be done; it is one run nevertheless."""
    large, small = (
        terminal.call("submit", "x", "--cmd", "cat", "--detach").stdout.strip() for _ in range(2)
    )
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        keys = [shared_tasks.key_of(large, f"t{number}") for number in range(1, 1201)]
        forum.store.set_timers([due_now(key, MAIN_STRAND, forum.store.now()) for key in keys])
        accepted = forum.reads.accepted_runs(10)
        texts = forum.reads.accepted_runs(1)
    finding = examined(terminal, 0)["workers"]

    assert (accepted, texts) == ([large, small], [large])
    assert finding.found == "none, and 2 runs to go on with"


def test_what_nobody_foresaw_is_a_finding_too(tmp_path: Path) -> None:
    """A doctor who falls over helps nobody."""
    broken = Settings(
        tmp_path / "data",
        tmp_path / "state",
        tmp_path / "key",
        sections=SectionTables({"models": 7}),
    )
    document = {
        doctor_check.check: doctor_check for doctor_check in run_doctor_checks(lambda: broken)
    }

    assert document["model"].state is DoctorState.PROBLEM
    assert "AttributeError" in document["model"].found


@pytest.mark.postgres
def test_a_database_is_looked_at_without_being_changed(tmp_path: Path, postgres_url: str) -> None:
    """Before `forum init` it gets neither tables nor a log; what it lacks is said."""
    with scratch_database(postgres_url) as url:
        settings = Settings(tmp_path / "d", tmp_path / "s", tmp_path / "d/log.key", database=url)
        bare = {
            doctor_check.check: doctor_check for doctor_check in run_doctor_checks(lambda: settings)
        }["database"]
        upgrade_database(settings)
        ready = {
            doctor_check.check: doctor_check for doctor_check in run_doctor_checks(lambda: settings)
        }["database"]
        with psycopg.connect(url) as db:
            logs = db.execute("SELECT count(*) FROM forum.log").fetchone()
        with Forum(settings) as forum:
            forum.keys.initialise()
        begun = {
            doctor_check.check: doctor_check for doctor_check in run_doctor_checks(lambda: settings)
        }

    assert (bare.state, bare.next) == (DoctorState.PROBLEM, "forum db upgrade")
    assert (ready.state, ready.next) == (DoctorState.WARNING, "forum init")
    assert logs == (0,)
    assert (begun["database"].state, begun["clock"].state) == (DoctorState.OK, DoctorState.OK)


def test_a_database_that_does_not_answer_is_told_of_without_its_password(
    terminal: Terminal,
) -> None:
    """What is printed for a bug report must not hold a secret."""
    terminal.environment["FORUM_DATABASE_URL"] = "postgresql://me:s3cret@127.0.0.1:9/x"
    shown = terminal.call("doctor").stdout
    finding = examined(terminal, 1)["database"]

    assert "s3cret" not in shown
    assert finding.state is DoctorState.PROBLEM
    assert "start the database" in (finding.next or "")


def test_a_state_directory_that_others_can_enter_is_a_problem(terminal: Terminal) -> None:
    """The token of the operator is there, the guard, and the key of the local witness."""
    state = Path(terminal.environment["FORUM_STATE_DIR"])
    made = state.stat().st_mode & 0o777
    state.chmod(0o755)

    assert made == 0o700
    assert examined(terminal, 1)["state"].next == f"chmod 700 {state}"


def test_a_file_with_a_password_that_others_can_read_is_a_problem(bare: Terminal) -> None:
    """A password in forum.toml, the key of a model, the secret of a webhook."""
    bare.environment.pop("FORUM_DATABASE_URL", None)
    file, key = bare.folder / "forum.toml", bare.folder / "model.key"
    file.write_text(
        '[database]\nurl = "postgresql://u:hunter22@127.0.0.1:1/x"\n'
        '[models.a]\nurl = "http://127.0.0.1:1/v1"\nmodel = "m"\nkey_file = "model.key"\n'
    )
    key.write_text("sk-123456789")
    for path in (file, key):
        path.chmod(0o644)
    open_files = [document for document in all_findings(bare) if document["check"] == "secrets"]
    for path in (file, key):
        path.chmod(0o600)
    closed = [document for document in all_findings(bare) if document["check"] == "secrets"]

    assert [document["next"] for document in open_files] == [
        f"chmod 600 {file}",
        f"chmod 600 {key}",
    ]
    assert closed == []


def test_an_operator_token_that_others_can_read_is_a_problem(terminal: Terminal) -> None:
    """Servers refuse such a token, and only a new one helps: the old one may have been read."""
    terminal.call("token")
    token = next(Path(terminal.environment["FORUM_STATE_DIR"]).rglob("*.token"))
    token.chmod(0o644)
    finding = examined(terminal, 1)["secrets"]
    terminal.call("token", "--rotate")
    rotated = [document for document in all_findings(terminal) if document["check"] == "secrets"]

    assert finding.state is DoctorState.PROBLEM
    assert finding.next == "forum token --rotate"
    assert token.name in finding.found
    assert "other users can read this token" in finding.found
    assert rotated == []


def all_findings(terminal: Terminal) -> list[dict[str, str]]:
    """Return everything that is found, in the order in which it was looked at."""
    checks: list[dict[str, str]] = json.loads(terminal.call("doctor", "--json").stdout)["checks"]
    return checks


def test_a_program_that_is_not_confined_is_told_of(terminal: Terminal) -> None:
    """What it could do must be known to whoever relies on a gate."""
    file = terminal.folder / "forum.toml"
    file.write_text('[models.a]\ncmd = "cat"\n[tools.lint]\ncmd = "true"\n')
    free = examined(terminal, 0)["confined"]
    file.write_text(f"[agents]\nconfine = true\n{file.read_text()}")
    confined = examined(terminal, 0)["confined"]

    assert free.state is DoctorState.WARNING
    assert "the agent a, the tool lint" in free.found
    assert "approve at gates" in free.found
    assert "confine = true" in (free.next or "")
    assert (confined.state, confined.next) == (DoctorState.OK, None)
