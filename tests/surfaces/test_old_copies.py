"""A database that is older than what this machine has seen: no list shows it as if it were new."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from forum.app import CostAxis, Forum, RunQuery
from forum.config import Settings
from forum.errors import TamperDetected
from forum.features.demo.tampering import open_tamperer
from forum.ledger.entry import LOG_RUN
from forum.ledger.strand import RUNS_STRAND
from forum.tlog import Note, parse_checkpoint
from forum.verify import Problem
from tests.soak.cluster import scratch_database
from tests.support import fresh_origin, upgraded
from tests.surfaces.terminal import Terminal


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Return the settings of a ledger with one signed run, in a database of its own."""
    data = tmp_path / "data"
    if request.param == "sqlite":
        yield make_ledger(Settings(data, tmp_path / "state", data / "log.key", fresh_origin()))
        return
    with scratch_database(str(request.getfixturevalue("postgres_url"))) as url:
        place = (data, tmp_path / "state", data / "log.key", fresh_origin(), upgraded(url))
        yield make_ledger(Settings(*place))


def make_ledger(settings: Settings) -> Settings:
    """Make a ledger with one signed run."""
    with Forum(settings) as forum:
        forum.keys.initialise()
        open_run(forum, "old")
    return settings


def open_run(forum: Forum, run: str) -> None:
    """Open a run, and sign it."""
    forum.ledger.open_run(run, "x")
    forum.log.publish()


def save_copy(settings: Settings, to: Path) -> None:
    """Copy the database aside."""
    if settings.database is None:
        shutil.copytree(settings.data, to)
        return
    copy = settings.database + "_copy"
    run_admin(settings, f"CREATE DATABASE {name_of(copy)} TEMPLATE {name_of(settings.database)}")


def put_copy_back(settings: Settings, copy: Path) -> None:
    """Put the copy in the place of the database."""
    if settings.database is None:
        shutil.rmtree(settings.data)
        shutil.copytree(copy, settings.data)
        return
    name = name_of(settings.database)
    run_admin(settings, f"DROP DATABASE {name} WITH (FORCE)")
    run_admin(settings, f"ALTER DATABASE {name}_copy RENAME TO {name}")


def name_of(url: str) -> str:
    """Return the name of the database in a URL."""
    return url.rsplit("/", 1)[1]


def run_admin(settings: Settings, statement: str) -> None:
    """Run a statement in the database of the server itself."""
    assert settings.database
    server = settings.database.rsplit("/", 1)[0]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(statement.encode())


def list_runs(forum: Forum) -> object:
    """List the runs."""
    return forum.reads.list_runs(RunQuery(), None, 10)


SHOWN: dict[str, Callable[[Forum], object]] = {
    "runs": list_runs,
    "costs": lambda forum: forum.reads.add_up_all_costs(CostAxis.MODEL, RunQuery()),
    "summary": lambda forum: forum.reads.measure_log(),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_an_old_copy_is_not_listed(settings: Settings, tmp_path: Path, shown: str) -> None:
    """The signer remembers what it signed, although nobody has listed it."""
    save_copy(settings, tmp_path / "copy")
    with Forum(settings) as forum:
        open_run(forum, "new")
    put_copy_back(settings, tmp_path / "copy")

    with Forum(settings) as forum, pytest.raises(TamperDetected, match="has seen"):
        SHOWN[shown](forum)


@pytest.mark.parametrize("by", ["signing", "verifying"])
def test_the_end_of_the_directory_is_remembered(settings: Settings, by: str) -> None:
    """With an older head and its tag, its newest entry was never there; the tree is untouched."""
    with Forum(settings) as forum:
        before = forum.store.strand_head(RUNS_STRAND)
        assert before is not None
        open_run(forum, "new")
        if by == "verifying":
            (forum.state / "heads").unlink()
            assert forum.log.verify(forum.log.read_trust()).ok
        for place in (f"{LOG_RUN}/{RUNS_STRAND}/1", "new/main/0"):
            open_tamperer(forum).delete(forum.ledger.find_entry(place).index or 0)
        forum.store.save_strand_head(before)

    with Forum(settings) as forum, pytest.raises(TamperDetected, match="not there any more"):
        list_runs(forum)


def strip_newest(forum: Forum) -> bytes:
    """Take the cosignatures off the newest checkpoint in the database, and return what it was."""
    notes = {parse_checkpoint(note).size: note for note in forum.store.checkpoints(0)}
    newest = notes[max(notes)]
    parsed = Note.parse(newest)
    own = tuple(line for line in parsed.signatures if line.name == forum.origin)
    assert own != parsed.signatures
    open_tamperer(forum).replace_checkpoints(notes | {max(notes): Note(parsed.text, own).encode()})
    return newest


def test_cosignatures_that_were_stripped_are_put_back_before_they_are_recorded(
    settings: Settings,
) -> None:
    """The machine that signs keeps them until the next batch: a record of them accuses nobody."""
    with Forum(settings) as forum:
        before = strip_newest(forum)
    with Forum(settings) as forum:
        open_run(forum, "new")
        report = forum.log.verify(forum.log.read_trust())

        assert forum.store.checkpoint(parse_checkpoint(before).size) == before
    assert Problem.COSIGNATURE_MISSING not in [f.problem for f in report.findings]


def test_cosignatures_that_were_stripped_are_put_back(settings: Settings) -> None:
    """The first ones, and no later ones, when the same tree is published again."""
    with Forum(settings) as forum:
        before = strip_newest(forum)
    with Forum(settings) as forum:
        forum.log.publish()

        assert forum.store.checkpoint() == before


@pytest.mark.parametrize(
    "words",
    [
        "ledger verify",
        "ledger summary",
        "ledger export log",
        "ledger checkpoint",
        "ledger show",
        "evidence --from 2026-01-01 -o pack.zip",
        "keys create --name x --scope read",
        "hold place case",
        "incident list",
        "review",
        "runs",
        "doctor",
    ],
)
@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_database_without_entries_is_told_in_words(
    tmp_path: Path, words: str, *, is_remembered: bool
) -> None:
    """It is what there is when only the keys were copied to another machine."""
    terminal = Terminal(tmp_path)
    terminal.type("init")
    terminal.database.unlink()
    if not is_remembered:
        shutil.rmtree(terminal.state)
    done = terminal.type(*words.split())

    assert "Traceback" not in done.stderr
    assert "0 to -1" not in done.stdout


def test_an_emptied_database_is_no_ledger_without_runs(tmp_path: Path) -> None:
    """`forum runs` said that there is no run yet."""
    terminal = Terminal(tmp_path)
    terminal.type("init")
    terminal.note("one")
    terminal.database.unlink()
    listed = terminal.type("runs")

    assert listed.returncode == 3
    assert "put the newer database back" in listed.stderr
