"""The next epoch of a log goes on with the keys, rules, budgets and open runs of the one before."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest

from forum.app import Forum
from forum.app.epoch_carry import Carrier
from forum.app.keys import KeyOperations
from forum.app.project import ProjectContext
from forum.engine import RunRequest
from forum.errors import (
    ClockOff,
    IdempotencyKeyUsed,
    LogEnded,
    StoreConnectionLost,
    StoreLocked,
)
from forum.ledger import ports
from forum.ledger.body import text_content
from forum.ledger.carried import CARRIED_STRAND
from forum.ledger.conditions import StoreCondition
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.kinds import CarryFacts, NoteFacts, Outcome, Scope
from forum.ledger.log import Ledger
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft
from forum.runs.plan import single_task_plan
from forum.runs.policy import Answer, Policy
from forum.stores.postgres import PostgresStore
from forum.stores.state_files import FileCheckpointStore
from forum.stores.store_monitor import StoreMonitor
from forum.verify import Problem, State
from tests.e2e.project import Project, project

GATED = RunRequest("Deploy.", single_task_plan("Deploy."), Policy(gates=("tasks",)))


def lose(home: Project, what: Callable[[Forum], object]) -> None:
    """Do something, and put the database back as it was before that."""
    data = home.forum.settings.data
    home.forum.close()
    shutil.copytree(data, data.with_name("copy"))
    with Forum(home.forum.settings) as forum:
        what(forum)
    for path in data.glob("ledger*"):
        path.unlink()
    for path in data.with_name("copy").glob("ledger*"):
        shutil.move(path, data)


def reopen(home: Project) -> Project:
    """Return the project as a new process sees it."""
    return Project(home.home, home.environ, Forum(home.forum.settings))


def test_an_epoch_goes_on_where_commits_were_lost(tmp_path: Path) -> None:
    """What was recorded lives on, and nothing is repeated before a person has looked."""
    with project(tmp_path / "project", None) as home:
        key = home.forum.access.grant("ci", {Scope.SUBMIT, Scope.READ})
        gone = home.forum.access.grant("gone", {Scope.ADMIN})
        home.forum.access.revoke(gone.id)
        with home.worker():
            run = home.submit(GATED)
            digest = home.wait(run).open_gates[0].digest
        once = home.forum.log.append_note(text_content("x"), "once")
        home.forum.log.publish()
        account = home.forum.store.account(run)
        left = home.forum.origin
        lose(home, lambda forum: forum.log.record_note(text_content("soon to be lost")))
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()
        later = reopen(home)
        forum = later.forum
        access = forum.access.read_access()
        state = forum.reads.read_run(run)
        first = forum.log.verify(forum.log.read_trust())
        with later.worker():
            waiting = forum.reads.read_run(run)
            forum.runs.resume(run)
            forum.runs.decide_gate(run, "task/answer", Answer.APPROVE, digest)
            ended = later.end(run)
        with pytest.raises(IdempotencyKeyUsed):
            forum.log.append_note(text_content("y"), "once")
        forum.log.publish()
        second = forum.log.verify(forum.log.read_trust())

    assert begun.carried.runs == (run,)
    assert begun.carried.interrupted
    assert begun.held.size < begun.left.size
    assert set(access.granted) == {key.id, gone.id}
    assert access.revoked == {gone.id}
    assert state.interrupted
    assert [gate.digest for gate in state.open_gates] == [digest]
    assert waiting.outcome is None
    assert ended.outcome is Outcome.OK
    assert account is not None
    assert once
    for report in (first, second):
        assert report.findings == ()
        assert report.ok
        assert [(e.origin, e.intact, e.complete) for e in report.epochs] == [
            (left, State.HOLDS, State.HOLDS)
        ]


def test_what_was_not_in_the_earlier_log_is_not_carried(tmp_path: Path) -> None:
    """Whoever has the write key cannot give himself access by saying that he had it before."""
    with project(tmp_path / "project", None) as home:
        home.forum.access.grant("ci", {Scope.READ})
        home.forum.log.publish()
        home.forum.close()
        with Forum(home.forum.settings) as forum:
            forum.keys.new_epoch()
        with Forum(home.forum.settings) as forum:
            forum.access.grant("thief", {Scope.ADMIN})
            thief = list(forum.store.read_strand(LOG_RUN, "access"))[-1]
            facts = CarryFacts(LOG_RUN, "access", 2, leaf_of(thief).hex())
            forum.ledger.append_log_entry(Draft("carry/more", "operator", facts), CARRIED_STRAND)
            forum.log.publish()
            report = forum.log.verify(forum.log.read_trust())

    assert [finding.problem for finding in report.findings] == [Problem.HISTORY_REPLACED]
    assert "log/access was not carried as it is in the earlier log" in report.findings[0].detail


def test_an_epoch_without_a_loss_lets_runs_go_on(tmp_path: Path) -> None:
    """No record is cut, so nobody has to look."""
    with project(tmp_path / "project", None) as home:
        run = home.submit(RunRequest("Go.", single_task_plan("Go.")))
        home.forum.log.publish()
        home.forum.close()
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()
        later = reopen(home)
        with later.worker():
            ended = later.end(run)
        later.forum.log.publish()
        report = later.forum.log.verify(later.forum.log.read_trust())

    assert begun.carried.runs == (run,)
    assert not begun.carried.interrupted
    assert ended.outcome is Outcome.OK
    assert report.findings == ()


def test_keys_and_caps_of_an_earlier_epoch_are_in_force(tmp_path: Path) -> None:
    """A key names the epoch that made it; what was used of a cap stays used."""
    with project(tmp_path / "project", None) as home:
        key = home.forum.access.grant("ci", {Scope.READ})
        used = ports.Spend(usd=7, tokens=8, runs=9)
        today = home.forum.store.take_slice("all", "day", "worker", used, cap=used)
        home.forum.ledger.record_run(
            "run",
            "tester",
            Draft("note", "tester", NoteFacts(), effects=(ports.BudgetSliceCharge(today, used),)),
        )
        home.forum.log.publish()
        home.forum.close()
        for _ in range(2):
            with Forum(home.forum.settings) as forum:
                forum.keys.new_epoch()
        with Forum(home.forum.settings) as forum:
            tenants, access = forum.access.tenants, forum.access.read_access()
            carried = [use.used for use in forum.store.budget_use()]
            report = forum.log.verify(forum.log.read_trust())

    assert key.ledger in tenants
    assert key.id in access.granted
    assert carried == [used]
    assert report.findings == ()


def test_what_a_run_has_used_without_approval_stays_used(tmp_path: Path) -> None:
    """Else each epoch would let it use as much again before a person is asked."""
    with project(tmp_path / "project", None) as home:
        runs = [home.submit(GATED), "ended"]
        used = ports.Spend(usd=7)
        for run in runs:
            scope = f"gate:payments/{run}"
            place = home.forum.store.take_slice(scope, "run", "worker", used, cap=used)
            charge = ports.BudgetSliceCharge(place, used)
            home.forum.ledger.record_run(
                f"run-{run}", "tester", Draft("note", "tester", NoteFacts(), effects=(charge,))
            )
        home.forum.log.publish()
        home.forum.close()
        with Forum(home.forum.settings) as forum:
            forum.keys.new_epoch()
        with Forum(home.forum.settings) as forum:
            carried = forum.store.run_budget_use(runs)

    assert [(use.scope, use.used) for use in carried] == [(f"gate:payments/{runs[0]}", used)]


def test_a_process_that_was_left_running_writes_nothing_into_the_earlier_log(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs would be lost, and what both epochs go on with would be done twice."""
    run = home.submit(GATED)
    home.forum.log.publish()
    with Forum(home.forum.settings) as old, monkeypatch.context() as patch:
        later = submit_before_stop(old, patch)
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()
        with pytest.raises(LogEnded, match="restart this process"):
            old.runs.submit(GATED)
        head = old.store.head()
        with pytest.raises(LogEnded):
            old.store.advance_head(head, head, ports.PendingEntries([], []), {})
        with pytest.raises(LogEnded):
            old.store.save_checkpoint(head.size, b"a note")
        with pytest.raises(LogEnded):
            old.store.check_history()
        troubles = StoreMonitor(old.store).look()
        after = old.store.read_state().size
        assert old.store.strands(run)  # reading goes on
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert set(begun.carried.runs) == {run, *later}
    assert [trouble.condition for trouble in troubles] == [StoreCondition.EPOCH_OVER]
    assert after == begun.held.size
    assert report.findings == ()


def submit_before_stop(forum: Forum, patch: pytest.MonkeyPatch) -> list[str]:
    """Let a run be submitted just before its log stops; return a list to which it is added."""
    runs: list[str] = []
    stop = ProjectContext.stop_appends

    def stop_late(project: ProjectContext, origin: str) -> None:
        runs.append(forum.runs.submit(GATED))
        stop(project, origin)

    patch.setattr(ProjectContext, "stop_appends", stop_late)
    return runs


def test_a_log_goes_on_if_its_next_epoch_cannot_begin(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that fails must not leave a project without a log."""
    home.submit(GATED)
    home.forum.log.publish()
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr("forum.app.epoch_carry.SourceCheck", fail)
        with pytest.raises(RuntimeError, match="fails"):
            forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        forum.runs.submit(GATED)
        forum.log.publish()
        forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert report.findings == ()


def test_a_second_attempt_finishes_an_epoch_that_has_begun(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says of the log before must stay so, so that takes nothing meanwhile."""
    run = home.submit(GATED)
    home.forum.log.publish()
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr("forum.app.epoch_carry.carry_state", fail)
        with pytest.raises(RuntimeError, match="fails"):
            forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        with pytest.raises(LogEnded):
            forum.runs.submit(GATED)
        begun = forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert begun.carried.runs == (run,)
    assert report.findings == ()


def test_an_attempt_that_died_after_its_last_key_but_one_loses_nothing(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signing key is that of the next epoch, and the write key beside it not yet."""
    home.forum.log.append_note(text_content("x"), "once")
    die_before_the_write_key(home, monkeypatch)
    with Forum(home.forum.settings) as forum:
        forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        with pytest.raises(IdempotencyKeyUsed):
            forum.log.append_note(text_content("y"), "once")

    assert report.findings == ()


def die_before_the_write_key(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin an epoch, and die when its write key would be put into its place."""
    left, use = home.forum.origin, KeyOperations._set_write_keys  # noqa: SLF001

    def die(keys: KeyOperations, origin: str) -> None:
        if origin != left:
            fail()
        use(keys, origin)

    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr(KeyOperations, "_set_write_keys", die)
        with pytest.raises(RuntimeError, match="fails"):
            forum.keys.new_epoch()


@pytest.mark.parametrize("is_early", [True, False])
def test_a_write_key_that_was_rotated_since_is_kept(
    home: Project, monkeypatch: pytest.MonkeyPatch, *, is_early: bool
) -> None:
    """Entries have its tag, and without it they would be set aside."""
    die_before_the_write_key(home, monkeypatch)
    prepared = home.forum.settings.write_key_file.with_name("write.key.next")
    stale = prepared.read_bytes()
    with Forum(home.forum.settings) as forum:
        forum.keys.rotate_write_key()
        is_left_behind = prepared.exists()
        forum.log.append_note(text_content("x"), "once")
    if is_early:  # a file that an earlier release has left behind
        prepared.write_bytes(stale)
    with Forum(home.forum.settings) as forum:
        forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        with pytest.raises(IdempotencyKeyUsed):
            forum.log.append_note(text_content("y"), "once")

    assert not is_left_behind
    assert report.findings == ()


def test_two_operators_begin_one_epoch(home: Project) -> None:
    """The second would make new write keys for what the first has begun."""
    run = home.submit(GATED)
    home.forum.log.publish()
    settings, start = home.forum.settings, Barrier(2)

    def begin() -> str:
        with Forum(settings) as forum:
            assert forum.origin
            start.wait()
            try:
                return forum.keys.new_epoch().origin
            except LogEnded:
                return ""

    with ThreadPoolExecutor(2) as threads:
        begun = sorted(each.result() for each in [threads.submit(begin) for _ in range(2)])
    with Forum(settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

        assert begun == ["", forum.origin]
        assert forum.store.strands(run)
    assert report.findings == ()


def test_nothing_is_signed_of_a_log_that_has_ended(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a checkpoint would be in no database: verification would find a cut tail for ever."""
    run = home.submit(GATED)
    home.forum.log.publish()
    end = ProjectContext.end_log
    with Forum(home.forum.settings) as old:

        def end_late(project: ProjectContext, origin: str) -> None:
            guard = old.log._project.guard  # noqa: SLF001
            last = guard.latest()
            assert last is not None
            with pytest.raises(LogEnded):
                guard.advance(last, last)
            end(project, origin)

        later = submit_before_stop(old, monkeypatch)
        monkeypatch.setattr(ProjectContext, "end_log", end_late)
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert set(begun.carried.runs) == {run, *later}
    assert report.findings == ()


def test_what_a_signer_did_not_store_is_stored_before_the_log_ends(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard has its checkpoint, so the epoch says that the log was left there."""
    home.submit(GATED)
    home.forum.log.publish()
    home.submit(GATED)
    with Forum(home.forum.settings) as old, monkeypatch.context() as patch:
        old.log._project.sequencer.drain()  # noqa: SLF001
        patch.setattr(type(old.store), "save_checkpoint", fail)
        with pytest.raises(RuntimeError):
            old.log.publisher.sign()
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr(KeyOperations, "_sign_rest", lambda *_, **__: None)
        begun = forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert begun.held == begun.left
    assert report.findings == ()


def test_an_idempotency_key_may_lead_to_a_run_of_an_earlier_epoch(home: Project) -> None:
    """The write key of an epoch that was left is gone, so its tag cannot be checked there."""
    home.forum.log.append_note(text_content("x"), "once")
    home.forum.log.publish()
    for _ in range(3):
        with Forum(home.forum.settings) as forum:
            forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        with pytest.raises(IdempotencyKeyUsed):
            forum.log.append_note(text_content("y"), "once")

    assert report.findings == ()


def test_what_was_acknowledged_is_signed_before_the_log_ends(home: Project) -> None:
    """No later epoch would ever give it an index."""
    home.forum.log.publish()
    noted = home.forum.log.append_note(text_content("x"), "once")
    with Forum(home.forum.settings) as forum:
        begun = forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        with forum.log._project.open_log(home.forum.origin) as reader:  # noqa: SLF001
            assert reader is not None
            note = reader.entries_at(noted, [(MAIN_STRAND, 0)])[0]
            assert note is not None
            (index,) = reader.indexes([leaf_of(note)])

    assert index is not None
    assert index < begun.held.size
    assert report.findings == ()


STEPS: list[tuple[object, str]] = [
    (ProjectContext, "stop_appends"),
    (KeyOperations, "_sign_rest"),
    (FileCheckpointStore, "end"),
    (ProjectContext, "end_log"),
    (KeyOperations, "_find_carried"),
    (Ledger, "initialize"),
    (Ledger, "mark_write_key"),
    (Carrier, "commit"),
    (KeyOperations, "_use_key"),
]


@pytest.mark.parametrize(("part", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_crash_loses_no_acknowledged_entry(
    home: Project, monkeypatch: pytest.MonkeyPatch, part: object, step: str
) -> None:
    """It is signed, or it was refused; whatever the command was doing when it was killed."""
    taken = [home.submit(GATED)]
    with Forum(home.forum.settings) as old:
        with monkeypatch.context() as patch, Forum(home.forum.settings) as forum:
            patch.setattr(part, step, fail)
            patch.setattr(KeyOperations, "_reopen_log", lambda *_, **__: None)  # it was killed
            with pytest.raises(RuntimeError, match="fails"):
                forum.keys.new_epoch()
        with suppress(LogEnded):
            taken.append(old.runs.submit(GATED))
        with Forum(home.forum.settings) as forum:
            forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        indexes = find_indexes(forum, home.forum.origin, taken)
        carried = [run for run in taken if forum.store.strands(run)]
        later = forum.runs.submit(GATED)
        forum.log.publish()

    assert None not in indexes
    assert carried == taken
    assert later
    assert report.findings == ()


def find_indexes(forum: Forum, origin: str, runs: Sequence[str]) -> list[int | None]:
    """Return the index of the first entry of each run in a log."""
    with forum.log._project.open_log(origin) as reader:  # noqa: SLF001
        assert reader is not None
        firsts = [reader.entries_at(run, [(MAIN_STRAND, 0)])[0] for run in runs]
        entries = [data for data in firsts if data is not None]
        assert len(entries) == len(runs)
        return list(reader.indexes([leaf_of(data) for data in entries]))


def test_nothing_is_taken_that_could_not_be_signed(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last signature and the end of the log, an entry would get no index."""
    home.forum.log.publish()
    end = FileCheckpointStore.end
    taken: list[str] = []
    with Forum(home.forum.settings) as old:

        def end_late(store: FileCheckpointStore) -> None:
            with suppress(LogEnded):
                taken.append(old.log.append_note(text_content("x"), "once"))
            end(store)

        monkeypatch.setattr(FileCheckpointStore, "end", end_late)
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        assert None not in find_indexes(forum, home.forum.origin, taken)

    assert begun.unsigned == 0


@pytest.mark.parametrize("error", [StoreLocked("x", "it is locked"), ClockOff("1 s ahead of")])
def test_an_epoch_that_cannot_sign_now_does_not_begin(
    home: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What keeps it from signing can pass, and then nothing is left without a signature."""
    run = home.submit(GATED)
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr(Sequencer, "drain", lambda _: raise_error(error))
        with pytest.raises(type(error)):
            forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        assert forum.origin == home.forum.origin
        later = forum.runs.submit(GATED)
        forum.keys.new_epoch()
    with Forum(home.forum.settings) as forum:
        assert None not in find_indexes(forum, home.forum.origin, [run, later])
        assert forum.log.verify(forum.log.read_trust()).findings == ()


def test_a_process_that_has_met_the_end_goes_on_when_it_is_taken_back(home: Project) -> None:
    """An epoch that cannot begin must not stop servers that nobody restarts."""
    home.forum.log.publish()
    project = home.forum.log._project  # noqa: SLF001
    monitor = StoreMonitor(home.forum.store)
    project.end_log(home.forum.origin)
    if isinstance(home.forum.store, PostgresStore):
        home.forum.store._guard._looked_at = 0.0  # noqa: SLF001  a second has passed
    home.forum.store.head()
    with pytest.raises(LogEnded):
        home.forum.store.check_history()
    stopped = monitor.look()
    project.reopen_log(home.forum.origin)
    home.forum.store.check_history()
    home.submit(GATED)
    home.forum.log.publish()
    monitor._tried_at = 0.0  # noqa: SLF001  its interval has passed

    assert [trouble.condition for trouble in stopped] == [StoreCondition.EPOCH_OVER]
    assert monitor.look() == []


def test_a_log_that_waits_for_its_next_epoch_says_so(home: Project) -> None:
    """It takes nothing, and no epoch has begun: the command was killed, and is typed again."""
    home.forum.log.publish()
    home.forum.log._project.stop_appends(home.forum.origin)  # noqa: SLF001
    troubles = StoreMonitor(home.forum.store).look()
    with pytest.raises(LogEnded, match="type it again: forum ledger epoch"):
        home.submit(GATED)

    assert [trouble.condition for trouble in troubles] == [StoreCondition.EPOCH_OVER]


def test_a_database_that_goes_away_leaves_no_log_that_takes_what_nobody_signs(
    home: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaning up after an error needs the database, which may be the error."""
    home.forum.log.publish()
    lost = StoreConnectionLost("ending the log", "the server is away", "")
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr(ProjectContext, "end_log", lambda *_, **__: raise_error(lost))
        patch.setattr(ProjectContext, "reopen_log", lambda *_, **__: raise_error(lost))
        with (
            pytest.warns(RuntimeWarning, match="takes nothing until this command succeeds"),
            pytest.raises(StoreConnectionLost),
        ):
            forum.keys.new_epoch()
    with pytest.raises(LogEnded):
        home.submit(GATED)
    with Forum(home.forum.settings) as forum, monkeypatch.context() as patch:
        patch.setattr(ProjectContext, "end_log", lambda *_, **__: raise_error(lost))
        patch.setattr(type(forum.store), "strands", strands_once(type(forum.store)))
        with pytest.raises(StoreConnectionLost):
            forum.keys.new_epoch()
    home.submit(GATED)
    home.forum.log.publish()

    assert home.forum.log.verify(home.forum.log.read_trust()).findings == ()


def strands_once(store: type) -> Callable[[object, str], object]:
    """Return a way to list strands that fails from the second time on."""
    strands, times = store.strands, []  # type: ignore[attr-defined]

    def list_strands(self: object, run: str) -> object:
        times.append(run)
        if len(times) > 1:
            raise StoreConnectionLost("listing strands", "the server is away", "")
        return strands(self, run)

    return list_strands


def test_the_end_of_a_guard_is_taken_back_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be there again after a crash, beside a log that takes entries."""
    guard, synced = FileCheckpointStore(tmp_path / "guard.note"), list[Path]()
    guard.end()
    monkeypatch.setattr("forum.stores.state_files.sync_path", synced.append)
    guard.reopen()
    guard.advance(None, b"x")

    assert synced == [tmp_path, tmp_path]


def raise_error(error: Exception) -> None:
    """Raise an error."""
    raise error


def test_what_stays_unsigned_is_counted(tmp_path: Path) -> None:
    """A log that was rolled back is signed no further, and people must hear of it."""
    with project(tmp_path / "project", None) as home:
        home.forum.log.publish()
        lose(home, lambda forum: forum.log.record_note(text_content("soon to be lost")))
        with Forum(home.forum.settings) as forum:
            forum.runs.submit(GATED)
            waiting = forum.store.count_rows().pending
            begun = forum.keys.new_epoch()

    assert begun.unsigned == waiting > 0


def fail(*_: object, **__: object) -> None:
    """Fail."""
    raise RuntimeError("it fails")


def test_a_lost_revocation_is_told(tmp_path: Path) -> None:
    """Its key is valid again, and nobody else can know that it was revoked."""
    with project(tmp_path / "project", None) as home:
        key = home.forum.access.grant("ci", {Scope.READ})
        home.forum.access.read_access()
        home.forum.log.publish()

        def revoke(forum: Forum) -> None:
            forum.access.revoke(key.id)
            forum.access.read_access()
            forum.log.publish()

        lose(home, revoke)
        with Forum(home.forum.settings) as forum:
            begun = forum.keys.new_epoch()

    assert begun.carried.keys == 1
    assert begun.carried.lost_access == 1
