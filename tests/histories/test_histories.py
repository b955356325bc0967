"""What earlier releases wrote: this one opens, continues, verifies and exports it.

`tests/histories/VERSION` holds what `write.py` wrote with that release.  A format change adds the
history of the release before it; none is ever removed or written anew.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.app import KINDS, Forum, upgrade_database
from forum.config import Settings, load_settings
from forum.errors import UpgradeBlocked
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.runs.kinds import Why
from forum.runs.policy import Answer
from forum.runs.run_fold import Run, TaskState
from forum.stores import postgres_upgrade
from forum.tlog import WitnessPolicy
from forum.verify import State, Trust, standalone, verify_bundle
from tests.e2e.project import eventually
from tests.histories.write import PLAN, RUN_RELEASE, Release, unpack
from tests.soak.cluster import scratch_database
from tests.surfaces.command_server import run_command

HERE = Path(__file__).parent
_LONG_CALL_MS = 3000
"""How long a call takes that is under way when a worker is stopped."""
SUBMIT = ("submit", "--no-route", "--detach", "--plan")
RELEASES = sorted(path.name for path in HERE.iterdir() if path.name[0].isdigit())


@dataclass(frozen=True, slots=True)
class History:
    """The project of a user who has worked with an earlier release, in a folder of its own."""

    home: Path
    database: str | None
    environ: Mapping[str, str]
    expected: Mapping[str, Any]
    archive: Path

    @property
    def settings(self) -> Settings:
        """The settings that hold in this project."""
        return load_settings(self.home, self.environ)

    @property
    def trust(self) -> Trust:
        """Trust the keys that the user of the earlier release handed out."""
        return Trust(policy=WitnessPolicy.parse((self.home / "policy").read_bytes()))

    def upgrade(self) -> None:
        """Do what the release notes say to do before the first process of this release starts."""
        upgrade_database(self.settings)

    def finish_upgrade(self) -> None:
        """Do what may only be done when the last process of the earlier release has ended."""
        if self.database:
            done = self.call("db", "upgrade", "--post")
            assert done.returncode == 0, done.stderr

    def submit(self, plan: str) -> str:
        """Have this release accept a run, and leave it to a worker."""
        done = self.call(*SUBMIT, plan)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this release."""
        return run_command(words, self.home, self.environ)


def project_of(folder: Path, home: Path) -> None:
    """Lay a project out as its user had it: git keeps neither modes nor ignored folders."""
    shutil.copytree(folder / "data", home / ".forum")
    shutil.copytree(folder / "state", home / "state")
    for name in ("forum.toml", "bundle.zip", "policy"):
        shutil.copy(folder / name, home / name)
    for path in home.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture(params=RELEASES)
def release_folder(request: pytest.FixtureRequest) -> Path:
    """Return the folder of each release that has a history."""
    return HERE / str(request.param)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def history(
    request: pytest.FixtureRequest, release_folder: Path, tmp_path: Path
) -> Iterator[History]:
    """Return the history of a release in each database that it could be written in."""
    folder, home = release_folder / request.param, tmp_path / "project"
    project_of(folder, home)
    environ = {n: v for n, v in os.environ.items() if not n.startswith("FORUM_")}
    environ |= {"FORUM_STATE_DIR": str(home / "state"), "HOME": str(tmp_path)}
    with ExitStack() as stack:
        database = None
        if request.param == "postgres":
            url = request.getfixturevalue("postgres_url")
            database = environ["FORUM_DATABASE_URL"] = stack.enter_context(scratch_database(url))
            with psycopg.connect(database) as db:
                db.execute((folder / "dump.sql").read_bytes())
        expected = json.loads((folder / "expected.json").read_text())
        archive = release_folder / "release.tar.xz"
        yield History(home, database, environ, expected, archive=archive)


def standalone_accepts(history: History, bundle: Path) -> bool:
    """Have the verifier of this release that needs no Forum check a bundle."""
    words = [str(standalone.__file__), str(bundle), "--policy", str(history.home / "policy")]
    done = subprocess.run(
        [sys.executable, "-I", *words], capture_output=True, text=True, check=False
    )
    return done.returncode == 0


def test_a_history_verifies_and_says_what_it_said(history: History) -> None:
    """The first command after an upgrade may be the verification: it must hold, to the byte."""
    history.upgrade()
    expected = history.expected
    with Forum(history.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        note = forum.ledger.find_entry(expected["note"])
        erased = forum.ledger.find_entry(expected["redacted"])
        body = forum.store.body(note.position, "text")
        data = b"".join(body.read()) if body else b""
        access = forum.access.read_access()

    assert report.ok, report.findings
    assert (report.origin, report.size, report.root) == (
        expected["origin"],
        expected["size"],
        expected["root"],
    )
    assert report.bodies.redacted == 1
    assert "\N{WATER WAVE}" in data.decode()
    assert erased.entry.bodies["text"].h
    assert expected["key"] in access.granted
    assert expected["key"] not in access.revoked
    assert expected["revoked_key"] in access.revoked


def test_the_bundle_of_a_history_verifies(history: History) -> None:
    """Bundles are handed out: nobody can ask their holders to take newer ones."""
    bundle = history.home / "bundle.zip"
    report = verify_bundle(bundle.read_bytes(), KINDS, history.trust)

    assert report.ok, report.findings
    assert standalone_accepts(history, bundle)


def test_a_log_that_the_release_before_rotated_is_read_under_its_new_key(tmp_path: Path) -> None:
    """Nobody signed the hand-overs of release 0.2: with the old key alone, the report says why."""
    home = tmp_path / "project"
    project_of(HERE / "0.2.0/rotated", home)
    environ = {n: v for n, v in os.environ.items() if not n.startswith("FORUM_")}
    environ |= {"FORUM_STATE_DIR": str(home / "state"), "HOME": str(tmp_path)}
    old = (home / "policy").read_text()
    new = re.sub(r"(?m)^log .*$", "log " + (home / ".forum/log.pub").read_text().strip(), old)
    bundle = (home / "bundle.zip").read_bytes()
    reports = {}
    with Forum(load_settings(home, environ)) as forum:
        for name, policy in (("old", old), ("new", new)):
            trust = Trust(policy=WitnessPolicy.parse(policy.encode()))
            reports[name] = (forum.log.verify(trust), verify_bundle(bundle, KINDS, trust))
        forum.log.record_note(text_content("Written by this release."))
        later = forum.log.verify(Trust(policy=WitnessPolicy.parse(new.encode())))

    for report in (*reports["new"], later):
        assert report.ok, report.findings
        assert any("as release 0.2 wrote it: it was read back" in n for n in report.notices)
    for report in reports["old"]:
        assert report.intact.state is State.FAILS
        assert any("it was not followed; ask the owner" in notice for notice in report.notices)
    for name, policy, status in (("old", old, 3), ("new", new, 0)):
        (home / "trust").write_text(policy)
        words = [
            str(standalone.__file__),
            str(home / "bundle.zip"),
            "--policy",
            str(home / "trust"),
        ]
        done = subprocess.run(
            [sys.executable, "-I", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == status, (name, done.stdout)
        assert "as release 0.2 wrote it" in done.stdout


def end_of(forum: Forum, run: str) -> Run:
    """Wait until a run has ended."""
    eventually(lambda: forum.reads.read_run(run).outcome is not None, 60)
    return forum.reads.read_run(run)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "release_folder",
    [*(pytest.param(name, marks=pytest.mark.nightly) for name in RELEASES[:-1]), RELEASES[-1]],
    indirect=True,
)
@pytest.mark.parametrize("history", ["postgres"], indirect=True)
def test_processes_of_the_release_before_work_on_beside_an_upgrade(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that reads for long is in the way: it is named, and nobody waits behind it."""
    release, accepted = unpack(history.archive, tmp_path / "release"), []
    waits = []
    (history.home / "slow.toml").write_text(PLAN)
    upgraded, database = Event(), str(history.database)

    def submit() -> None:
        while not upgraded.is_set():
            begun = monotonic()
            accepted.append(submit_before(history, release, "slow.toml"))
            waits.append(monotonic() - begun)

    writer = Thread(target=submit)
    monkeypatch.setattr(postgres_upgrade, "_PATIENCE_S", 8.0)
    alone_begun = monotonic()
    accepted.append(submit_before(history, release, "slow.toml"))
    alone_s = monotonic() - alone_begun
    writer.start()
    try:
        with psycopg.connect(make_conninfo(database, application_name="report")) as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for table in ("entry", "strand", "account", "alarm", "once", "lease"):
                db.execute(f"SELECT FROM forum.{table} LIMIT 1".encode())
            with pytest.raises(UpgradeBlocked, match=r"session \d+ \(report\) .* since 20"):
                history.upgrade()
        done = history.call("db", "upgrade")
    finally:
        upgraded.set()
        writer.join()
    with Forum(history.settings) as forum, forum.runs.run_worker():
        states = [end_of(forum, run) for run in accepted]
        forum.log.publish()
        report = forum.log.verify(forum.log.read_trust())

    assert done.returncode == 0, done.stderr
    assert "applied: " in done.stdout
    assert all(state.outcome is Outcome.OK for state in states)
    assert len(waits) > 1
    assert max(waits) < alone_s + 3.0, waits
    assert report.ok, report.findings


def test_runs_of_a_history_are_continued_and_exported(history: History) -> None:
    """What was accepted is carried out, whichever release accepted it."""
    history.upgrade()
    expected = history.expected
    with Forum(history.settings) as forum:
        (waits,) = forum.reads.read_run(expected["waiting_run"]).open_gates
        forum.runs.decide_gate(expected["waiting_run"], "task/report", Answer.APPROVE, waits.digest)
        forum.runs.resume(expected["waiting_run"])
        with forum.runs.run_worker():
            states = [end_of(forum, expected[name]) for name in ("waiting_run", "accepted_run")]
        exported = {
            name: forum.log.export(expected[name])
            for name in ("run", "council", "waiting_run", "accepted_run")
        }
        report = forum.log.verify(forum.log.read_trust())

    assert [state.outcome for state in states] == [Outcome.OK, Outcome.OK]
    # What was done before the upgrade was not done again.
    assert [len(states[0].tasks[name].calls) for name in ("facts", "count", "report")] == [1, 1, 1]
    assert report.ok, report.findings
    assert report.size > expected["size"]
    for name, data in exported.items():
        (history.home / f"{name}.zip").write_bytes(data)
        assert verify_bundle(data, KINDS, history.trust).ok
        assert standalone_accepts(history, history.home / f"{name}.zip")


@contextmanager
def worker(
    history: History, words: list[str], environ: Mapping[str, str], log: Path
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a worker of some release for a while."""
    with log.open("ab") as writer:
        process = subprocess.Popen(words, cwd=history.home, env=environ, stderr=writer)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def check_done_once(state: Run) -> None:
    """Check that a run has ended well, with one call for each of its tasks."""
    assert state.outcome is Outcome.OK
    assert {name: (len(t.calls), t.state) for name, t in state.tasks.items()} == dict.fromkeys(
        ("facts", "count", "report"), (1, TaskState.PASSED)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "release_folder",
    # Only the release before is met beside this one; what earlier ones wrote is read above.
    [*(pytest.param(name, marks=pytest.mark.nightly) for name in RELEASES[:-1]), RELEASES[-1]],
    indirect=True,
)
@pytest.mark.parametrize(
    ("history", "way"),
    [
        # The way to end is met in each database by the tests of workers (e2e/test_workers.py).
        ("sqlite", signal.SIGTERM),
        pytest.param("postgres", signal.SIGKILL, marks=pytest.mark.postgres),
        pytest.param("sqlite", signal.SIGKILL, marks=pytest.mark.nightly),
        pytest.param("postgres", signal.SIGTERM, marks=(pytest.mark.postgres, pytest.mark.nightly)),
    ],
    indirect=["history"],
)
def test_a_worker_goes_on_with_what_one_of_the_release_before_has_left(
    history: History, tmp_path: Path, way: signal.Signals
) -> None:
    """Old workers are stopped before new ones start: nothing is lost, and nothing is doubled."""
    release = unpack(history.archive, tmp_path / "release")
    before = release.environ(history.home, history.database)
    version = release.call(history.home, history.database, "--version").stdout
    assert version == f"forum, version {history.expected['release']}\n"
    for name, milliseconds in (("slow", 300), ("long", _LONG_CALL_MS)):
        step = f'km long.", milliseconds = {milliseconds} }}]'
        (history.home / f"{name}.toml").write_text(PLAN.replace('km long." }]', step))

    logs = {name: tmp_path / f"{name}.log" for name in ("old", "new")}
    old_words = [sys.executable, "-c", RUN_RELEASE, "worker"]
    new_words = [sys.executable, "-m", "forum", "worker"]
    with worker(history, old_words, before, logs["old"]) as first:
        eventually(lambda: " serves " in logs["old"].read_text(), 60)
        under_way = submit_before(history, release, "long.toml")
        history.upgrade()
        with Forum(history.settings) as forum:
            eventually(lambda: "facts" in forum.reads.read_run(under_way).tasks, 60)
            eventually(lambda: bool(forum.reads.read_run(under_way).task("facts").calls), 60)
        first.send_signal(way)
        status = first.wait(60)
    runs = [submit_before(history, release), history.submit("slow.toml")]  # they wait for a worker
    with (
        Forum(history.settings) as forum,
        worker(history, new_words, history.environ, logs["new"]) as second,
    ):
        runs += [*submit_beside(history, release), history.submit("slow.toml")]
        state = end_of(forum, under_way)
        for run in runs:
            check_done_once(end_of(forum, run))
        history.finish_upgrade()
        runs.append(history.submit("slow.toml"))
        check_done_once(end_of(forum, runs[-1]))
        accepted = {run for run, _ in forum.reads.recent_runs(None, 100)}
        assert second.poll() is None, _logs(logs)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0, _logs(logs)
        forum.log.publish()
        report = forum.log.verify(forum.log.read_trust())

    # Whoever opens a ledger file alone finishes its upgrade.
    noted = history.call("ledger", "note", "After the upgrade.")
    with Forum(history.settings) as forum:
        keys = forum.write_keys
        again = forum.log.verify(forum.log.read_trust())

    if way is signal.SIGTERM:
        assert status == 0, _logs(logs)
        check_done_once(state)  # it has let the call end
    else:
        check_call_was_repeated(state)
    assert report.ok, report.findings
    assert again.ok, again.findings
    assert noted.returncode == 0, noted.stderr
    assert keys is not None
    assert keys.is_enforced
    assert {under_way, *runs} < accepted
    # The release before begins such lines with "trouble", this one has a level in each.
    assert not re.search(r"trouble| WARNING | ERROR ", _logs(logs))


def submit_before(history: History, release: Release, plan: str = "slow.toml") -> str:
    """Have the release before accept a run, and leave it to a worker."""
    return release.call(history.home, history.database, *SUBMIT, plan).stdout.strip()


def submit_beside(history: History, release: Release) -> list[str]:
    """Submit with the release before while a worker of this one runs; return what it accepted.

    A ledger file refuses the releases before this one, which cannot read bodies that share bytes:
    a process of this one has opened it alone.
    """
    if history.database:
        return [submit_before(history, release), submit_before(history, release)]
    refused = release.call(history.home, None, *SUBMIT, "slow.toml", status=1)
    assert "upgrade forum" in refused.stderr
    return []


def check_call_was_repeated(state: Run) -> None:
    """Check that a run has ended well, and that only its first call was lost and made again."""
    assert state.outcome is Outcome.OK
    lost, made = (call.replied for call in state.task("facts").calls)
    assert lost is not None
    assert lost.why is Why.LOST
    assert made is not None
    assert made.outcome is Outcome.OK
    assert [len(state.task(name).calls) for name in ("count", "report")] == [1, 1]


def _logs(logs: Mapping[str, Path]) -> str:
    return "\n".join(f"{name}: {path.read_text()}" for name, path in logs.items())
