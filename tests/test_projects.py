"""A project's log cannot vanish or be exchanged quietly: the state directory remembers it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.app import KINDS, Forum
from forum.config import Settings
from forum.errors import ForumError, LogKeyChanged, LogKeyMissing, NoLedger
from forum.features.demo.tampering import open_tamperer
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.kinds import LogEpochFacts
from forum.stores import state_files
from forum.stores.project_registry import ProjectEpoch, ProjectRegistry, public_address
from forum.verify import Problem, Report, State
from tests.support import fresh_origin, key_of, upgraded

Make = Callable[[str], Settings]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return what makes the settings of a project; all share a state directory and a database."""
    url = None
    if request.param == "postgres":
        url = upgraded(str(request.getfixturevalue("postgres_url")))

    def settings(name: str) -> Settings:
        data = tmp_path / name / ".forum"
        file = tmp_path / name / "forum.toml"
        return Settings(
            data,
            state=tmp_path / "state",
            key_file=data / "log.key",
            origin=fresh_origin(),
            database=url,
            file=file,
        )

    return settings


def write(settings: Settings, words: str = "hello") -> list[str]:
    """Write into the ledger as a command does, and return what a person is told."""
    texts: list[str] = []
    with Forum(settings, texts.append) as forum:
        forum.keys.initialise()
        forum.log.record_note(text_content(words))
    return texts


def verify(settings: Settings) -> Report:
    """Verify the ledger as a command does."""
    with Forum(settings) as forum:
        return forum.log.verify(forum.log.read_trust())


def problems(report: Report) -> set[Problem]:
    """Return what was found."""
    return {finding.problem for finding in report.findings}


def refusal(settings: Settings, command: Callable[[Forum], object]) -> ForumError:
    """Return the error with which a command ends."""
    with Forum(settings) as forum, pytest.raises(ForumError) as refused:
        command(forum)
    return refused.value


COMMANDS: list[Callable[[Forum], object]] = [
    lambda forum: forum.keys.initialise(),
    lambda forum: forum.log.verify(forum.log.read_trust()),
    lambda forum: forum.store,
    lambda forum: forum.open_reader().__enter__(),
    lambda forum: forum.access.grant("ci", ()),
]


@pytest.mark.parametrize("what", ["folder", "key"])
def test_a_log_whose_key_is_gone_is_not_replaced_by_a_new_one(make: Make, what: str) -> None:
    """After `rm -r .forum` an empty log would verify: whoever deletes must be noticed."""
    settings = make("project")
    write(settings)
    shutil.rmtree(settings.data) if what == "folder" else settings.key_file.unlink()

    errors = [refusal(settings, command) for command in COMMANDS]
    assert {type(error) for error in errors} == {LogKeyMissing}
    assert "Restore the key and its folder from a backup" in str(errors[0])
    assert "forum ledger epoch --reason" in str(errors[0])
    assert not settings.key_file.exists()


def test_a_folder_exchanged_with_its_policy_is_noticed(make: Make, tmp_path: Path) -> None:
    """The thief's ledger verifies under the thief's policy, which forum.toml names."""
    settings, other = make("project"), replace(make("other"), state=tmp_path / "elsewhere")
    write(settings)
    write(other)
    with Forum(other) as forum:
        policy = tmp_path / "policy"
        policy.write_bytes(forum.policy.encode())
    shutil.rmtree(settings.data)
    shutil.copytree(other.data, settings.data)

    swapped = replace(settings, policy=policy)
    errors = [refusal(swapped, command) for command in COMMANDS]
    assert {type(error) for error in errors} == {LogKeyChanged}
    assert other.origin is not None
    assert other.origin in str(errors[0])
    assert "forum ledger epoch --reason" in str(errors[0])


def test_another_key_of_the_same_name_is_noticed(make: Make) -> None:
    """The name of a log is no secret: whoever makes a key of that name is not its signer."""
    settings = make("project")
    write(settings)
    state_files.write_key(settings.key_file, key_of(str(settings.origin)))

    assert isinstance(refusal(settings, lambda forum: forum.keys.initialise()), LogKeyChanged)


def test_an_earlier_log_that_is_deleted_after_an_epoch_is_missed(make: Make) -> None:
    """An epoch must not be the way to get rid of what was recorded before it."""
    settings = make("project")
    write(settings, "what somebody regrets")
    with Forum(settings) as old:
        old.store.head()  # opened under the write key that the epoch replaces
        old.keys.new_epoch("we had a fire")
        assert verify(settings).ok
        open_tamperer(old).replace_history([])

    report = verify(settings)
    assert problems(report) == {Problem.EPOCH_MISSING}
    assert report.complete.state is State.FAILS
    assert settings.origin is not None
    assert settings.origin in report.complete.reason


def test_an_earlier_log_that_is_cut_or_altered_after_an_epoch_is_found(make: Make) -> None:
    """Every check of the log in use holds for those before it, too."""
    settings = make("project")
    write(settings, "kept")
    write(settings, "cut")
    with Forum(settings) as old:
        entries = [data for data in old.store.entries(0, 6) if data]
        old.keys.new_epoch("we had a fire")
        open_tamperer(old).replace_history(entries, keep_checkpoints=6)
    cut = verify(settings)
    with Forum(replace(settings, data=settings.data)) as forum:
        forum.log.record_note(text_content("life goes on"))

    assert Problem.TAIL_CUT in problems(cut)
    assert Problem.TAIL_CUT in problems(verify(settings))


def test_an_earlier_log_that_goes_on_after_its_epoch_is_found(make: Make) -> None:
    """Two logs would then claim to be what is recorded now."""
    settings = make("project")
    write(settings)
    with Forum(settings) as old:
        old.store.head()  # opened under the write key that the epoch replaces
        old.keys.new_epoch("we had a fire")
        # The owner of the log lets it go on, in the database and for the signer.
        old.log._project.reopen_log(old.store.origin)  # noqa: SLF001
        old.log._project.memory(old.store.origin, "guard.note").reopen()  # noqa: SLF001
        old.log.record_note(text_content("somebody was not told"))

    assert problems(verify(settings)) == {Problem.HISTORY_REPLACED}


def test_an_earlier_log_that_is_not_continued_is_missed(make: Make) -> None:
    """What this machine remembers of a project counts, whatever its newest log says."""
    settings = make("project")
    write(settings)
    with Forum(settings) as forum:
        forum.keys.new_epoch("we had a fire")
    report = verify(settings)
    registry = ProjectRegistry(settings.state / "projects")
    (project,) = registry.find_by_log(report.origin)
    forgotten = ProjectEpoch("example.com/forgotten", (str(key_of("x").verifier()),))
    registry.save(msgspec.structs.replace(project, epochs=(forgotten, *project.epochs)))

    assert report.ok
    assert problems(verify(settings)) == {Problem.EPOCH_MISSING}


def test_what_was_lost_before_an_epoch_is_declared_by_it(make: Make) -> None:
    """A restored database has lost its tail; that is on record, and no finding for ever."""
    settings = make("project")
    write(settings, "kept")
    write(settings, "lost")
    with Forum(settings) as old:
        entries = [data for data in old.store.entries(0, 7) if data]
        open_tamperer(old).replace_history(entries, keep_checkpoints=7)
        old.keys.new_epoch("restored from a backup")

    report = verify(settings)
    assert problems(report) <= {Problem.BODY_MISSING, Problem.TABLE_MISMATCH}
    assert any("entries 7 to 11" in missing for missing in report.not_checked)


def test_after_the_loss_of_the_key_an_epoch_goes_on_under_a_new_one(make: Make) -> None:
    """Whoever has the lost key must not be able to sign for the next epoch."""
    settings = make("project")
    write(settings)
    lost = state_files.read_key(settings.key_file)
    settings.key_file.unlink()

    assert isinstance(
        refusal(settings, lambda forum: forum.keys.new_epoch()), LogKeyMissing
    )  # without a reason
    with Forum(settings) as forum:
        begun = forum.keys.new_epoch("the disk died")
    texts = write(settings, "a new beginning")
    report = verify(settings)
    with Forum(settings) as forum:
        first = [KINDS.read(data) for data in forum.store.read_strand(LOG_RUN, MAIN_STRAND)]
        reason = forum.reads.bodies_at(LOG_RUN, MAIN_STRAND, "log/epoch")["reason"]

    assert begun.has_new_key
    assert begun.key.public != lost.verifier().public
    assert report.ok, report
    assert texts == []
    assert [epoch.origin for epoch in report.epochs] == [settings.origin]
    assert first[0].facts.left_origin == settings.origin
    assert isinstance(first[2].facts, LogEpochFacts)
    assert reason == b"the disk died"


def test_a_lost_folder_leaves_an_epoch_that_says_what_is_missing(make: Make) -> None:
    """The next epoch signs on, and Complete says for ever that the log before it is gone."""
    settings = make("project")
    write(settings)
    with Forum(settings) as forum:
        open_tamperer(forum).replace_history([])
    shutil.rmtree(settings.data)
    with Forum(settings) as forum:
        forum.keys.new_epoch("somebody has deleted everything")
    write(settings)

    assert problems(verify(settings)) == {Problem.EPOCH_MISSING}


@pytest.mark.parametrize("stop", range(4))
def test_an_epoch_under_a_new_key_can_be_stopped_anywhere(
    make: Make, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two keys made for one epoch, witnesses would know the wrong one."""
    settings = make("project")
    write(settings)
    settings.key_file.unlink()
    calls = iter(range(9))
    whole = state_files.write_durably

    def stopped(path: Path, data: bytes, **named: Any) -> None:  # noqa: ANN401
        counts = path.name.startswith("log.key") or path.suffix == ".json"
        if counts and next(calls) == stop:
            raise KeyboardInterrupt
        whole(path, data, **named)

    for module in ("state_files", "project_registry"):
        monkeypatch.setattr(f"forum.stores.{module}.write_durably", stopped)
    with pytest.raises(KeyboardInterrupt), Forum(settings) as forum:
        forum.keys.new_epoch("the disk died")
    monkeypatch.undo()
    if not settings.key_file.exists():
        with Forum(settings) as forum:
            forum.keys.new_epoch("the disk died")
    texts = write(settings)
    report = verify(settings)

    assert report.ok, report
    assert report.origin == f"{settings.origin}/epoch-2"
    assert texts == []


def test_a_folder_that_was_moved_is_registered_again(make: Make, tmp_path: Path) -> None:
    """Its guard moved with the state directory's name for the log; one line says so, once."""
    settings = make("project")
    write(settings)
    (tmp_path / "project").rename(tmp_path / "moved")
    moved = replace(make("moved"), origin=settings.origin)

    (line,) = write(moved)
    assert f"the ledger {settings.origin} moved from {settings.data}" in line
    assert line.endswith("; registered again")
    assert write(moved) == []
    assert verify(moved).ok
    again = replace(settings, origin=fresh_origin())
    assert write(again) == []  # nothing is remembered of the place that it left


def test_a_copied_folder_is_named_and_only_one_of_both_is_signed(
    make: Make, tmp_path: Path
) -> None:
    """Both have the key; the guard is outside both, and signs one history."""
    settings = make("project")
    write(settings)
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    copy = replace(make("copy"), origin=settings.origin)

    (line,) = write(copy, "in the copy")
    assert "too; both are registered" in line
    if settings.database is None:
        assert "forum ledger epoch" in str(
            refusal(settings, lambda forum: forum.log.record_note(text_content("in the original")))
        )


def test_starting_over_is_done_on_purpose(make: Make) -> None:
    """The old log stays remembered as replaced, with the time at which it was."""
    settings = make("project")
    write(settings)
    shutil.rmtree(settings.data)
    with Forum(settings) as forum:
        forum.keys.start_over()
        forum.keys.initialise()
    write(settings)
    report = verify(settings)
    (project,) = ProjectRegistry(settings.state / "projects").find_by_log(report.origin)

    assert report.ok
    assert report.origin == f"{settings.origin}/log-2"
    assert [epoch.origin for past in project.replaced for epoch in past.epochs] == [settings.origin]
    assert project.replaced[0].at > 0


def test_starting_over_keeps_the_old_key(make: Make) -> None:
    """Nobody loses a key by a command that was typed too fast."""
    settings = make("project")
    write(settings)
    key = settings.key_file.read_bytes()
    with Forum(settings) as forum:
        forum.keys.start_over()
        forum.keys.initialise()
        forum.log.record_note(text_content("hello"))

    assert verify(settings).ok
    assert [path.read_bytes() for path in settings.data.glob("log.key.replaced-*")] == [key]


@pytest.mark.postgres
def test_a_project_on_postgres_is_remembered_by_its_database(
    postgres_url: str, tmp_path: Path
) -> None:
    """A folder that was moved without its key is no new project: its database knows it."""
    url = upgraded(postgres_url)
    old = Settings(tmp_path / "a", tmp_path / "state", tmp_path / "a/log.key", database=url)
    write(old)
    shutil.rmtree(old.data)
    moved = replace(old, data=tmp_path / "b", key_file=tmp_path / "b/log.key")

    assert isinstance(refusal(moved, lambda forum: forum.keys.initialise()), LogKeyMissing)
    stranger = replace(moved, state=tmp_path / "other")
    assert isinstance(refusal(stranger, lambda forum: forum.key), NoLedger)
    with Forum(moved) as forum:
        forum.keys.new_epoch("the folder was lost when we moved")
    write(moved)
    assert verify(moved).ok
    write(old)  # another project, since the first one goes on elsewhere
    assert len(list((tmp_path / "state/projects").glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://me:secret@db.example:5433/forum?sslmode=require", "db.example:5433/forum"),
        ("postgresql://db.example/forum", "db.example:5432/forum"),
        ("postgresql:///forum?host=/run/postgresql", "/run/postgresql:5432/forum"),
        ("host=db.example dbname=forum password=secret", "db.example:5432/forum"),
    ],
)
def test_the_address_of_a_database_is_remembered_without_its_password(
    url: str, address: str
) -> None:
    """A password that changes makes no other project, and must not be written down."""
    assert public_address(url) == address


def test_a_reader_registers_what_an_older_release_has_made(make: Make) -> None:
    """Trust begins with the first use by a release that remembers."""
    settings = make("project")
    write(settings)
    shutil.rmtree(settings.state / "projects")
    assert verify(settings).ok
    settings.key_file.unlink()

    assert isinstance(refusal(settings, lambda forum: forum.keys.initialise()), LogKeyMissing)


def test_a_state_directory_that_cannot_be_written_stops_no_reader(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is no reason to refuse what is there."""
    settings = make("project")
    write(settings)
    shutil.rmtree(settings.state / "projects")
    (settings.state / "projects").write_bytes(b"")
    texts: list[str] = []
    with Forum(settings, texts.append) as forum:
        assert forum.store.head().size == 7

    assert len(texts) == 1
    assert "could not be remembered" in texts[0]
    assert os.path.isfile(settings.state / "projects")  # noqa: PTH113
