"""Lists follow the signed order of the openings, whatever the keys of the tables say."""

import sqlite3
from pathlib import Path

import psycopg
import pytest

from forum.app import Forum, now
from forum.app.run_list import RunQuery
from forum.config import Settings
from forum.errors import TamperDetected
from forum.ledger.body import text_content
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import NoteFacts
from forum.ledger.strand import Attachment, Draft
from tests.support import fresh_origin, upgraded

pytestmark = pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
_KEY = "(SELECT id FROM {s}strand WHERE run = '~' || :run)"
MOVE = {
    "sqlite": (
        "UPDATE {s}strand SET run = '~' || run WHERE run = :run AND name = 'main'",
        "UPDATE {s}entry SET strand = -strand WHERE strand = {key}",
        "UPDATE {s}body SET strand = -strand WHERE strand = {key}",
        "UPDATE {s}strand SET id = -id, run = :run WHERE id = {key}",
    ),
    "postgres": (
        "UPDATE {s}strand SET run = '~' || run WHERE run = :run AND name = 'main'",
        (
            "INSERT INTO {s}strand (id, log, run, name) OVERRIDING SYSTEM VALUE"
            " SELECT -id, log, :run, name FROM {s}strand WHERE id = {key}"
        ),
        "UPDATE {s}entry SET strand = -strand WHERE strand = {key}",
        "UPDATE {s}body SET strand = -strand WHERE strand = {key}",
        (
            "UPDATE {s}sequenced SET strands = array_replace(strands, {key}, -{key})"
            " WHERE {key} = ANY(strands)"
        ),
        "DELETE FROM {s}strand WHERE id = {key}",
    ),
}
"""Give the strand of a run another key, smaller than those of all others, everywhere."""


def settings_of(folder: Path, kind: str, request: pytest.FixtureRequest) -> Settings:
    """Return the settings of a new ledger in a database of this kind."""
    is_file = kind == "sqlite"
    url = None if is_file else upgraded(str(request.getfixturevalue("postgres_url")))
    data = folder / "ledger"
    return Settings(
        data, state=folder / "state", key_file=data / "log.key", origin=fresh_origin(), database=url
    )


def run_sql(forum: Forum, *statements: str, run: str) -> None:
    """Change the database beneath a ledger; `{s}` stands for its schema, `{key}` for a key."""
    url = forum.settings.database
    schema = "forum." if url else ""
    texts = [text.format(s=schema, key=_KEY.format(s=schema)) for text in statements]
    if url is None:
        with sqlite3.connect(forum.settings.ledger_file) as file:
            for text in texts:
                file.execute(text, {"run": run})
        file.close()
        return
    with psycopg.connect(url) as db:
        db.execute("SET session_replication_role = replica")
        for text in texts:
            db.execute(text.replace(":run", "%(run)s").encode(), {"run": run})


def write_runs(forum: Forum, count: int) -> list[str]:
    """Record runs, and return their names, the newest first."""
    runs: list[str] = []
    for n in range(count):
        run = f"run-{now()}-{n}"
        text = Attachment("text", text_content("words"))
        forum.ledger.record_run(
            run,
            "tester",
            Draft("note", actor="tester", facts=NoteFacts(), parents=(), bodies=(text,)),
        )
        runs.insert(0, run)
        if n % 3 == 0:
            forum.log.publish()
    forum.log.publish()
    return runs


def listed(settings: Settings, query: RunQuery, size: int = 4) -> list[str]:
    """Return the names of all runs that match, page by page, as another process reads them."""
    names: list[str] = []
    before = None
    with Forum(settings) as forum:
        while True:
            page = forum.reads.list_runs(query, before, size)
            names += [run.run for run in page.runs]
            if page.next is None:
                return names
            before = page.next


def test_a_run_with_another_key_in_the_tables_is_listed(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Lists once went by the keys of the strands, which no verification compares."""
    settings = settings_of(tmp_path, kind, request)
    with Forum(settings) as forum:
        forum.keys.initialise()
        runs = write_runs(forum, 12)
        begun = now() - 60_000_000
        run_sql(forum, *MOVE[kind], run=runs[1])

    assert listed(settings, RunQuery()) == runs
    assert listed(settings, RunQuery(since=begun)) == runs
    assert listed(settings, RunQuery(labels=frozenset({"closed", "ended", "ok"}))) == runs


def test_a_run_whose_rows_are_gone_for_a_while_is_missed(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Rows that are put back before the next verification leave no trace in the tables."""
    settings = settings_of(tmp_path, kind, request)
    with Forum(settings) as forum:
        forum.keys.initialise()
        runs = write_runs(forum, 6)
        hide = "UPDATE {s}strand SET name = '~main' WHERE run = :run AND name = 'main'"
        run_sql(forum, hide, run=runs[2])

    with pytest.raises(TamperDetected, match=runs[2]):
        listed(settings, RunQuery())
    with Forum(settings) as forum:
        show = hide.replace("'main'", "'-'").replace("'~main'", "'main'").replace("'-'", "'~main'")
        run_sql(forum, show, run=runs[2])
        assert forum.store.last_entry(runs[2], MAIN_STRAND) is not None
    assert listed(settings, RunQuery()) == runs
