"""What DBOS keeps: names, and nothing that matters."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy, Scripted, ScriptStep
from tests.e2e.project import Project, eventually, project

pytestmark = pytest.mark.postgres
CANARY = "xylophone-canary-7731"


def order(milliseconds: int = 0) -> RunRequest:
    """Ask for something that nobody but the ledger may keep."""
    move = ScriptStep(say=f"{CANARY} said", milliseconds=milliseconds)
    plan = Plan((Task("a", f"{CANARY} a"), Task("b", f"{CANARY} b", needs=("a",))))
    return RunRequest(f"{CANARY} request", plan, Policy(agents={"": Scripted({"*": (move,)})}))


@pytest.fixture
def home(tmp_path: Path, postgres_url: str) -> Iterator[Project]:
    """Make a project whose runs DBOS assigns."""
    with project(tmp_path / "project", postgres_url, runner="dbos") as made:
        yield made


def cells_of(url: str) -> list[str]:
    """Return every value in every table of DBOS, as text."""
    with psycopg.connect(url) as db:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'dbos'"
        tables = [f'dbos."{row[0]}"' for row in db.execute(names)]
        rows = [row for t in tables for row in db.execute(f"SELECT * FROM {t}")]  # noqa: S608
    return [str(value) for row in rows for value in row if value is not None]


def test_the_rows_of_dbos_hold_neither_content_nor_pickles(
    home: Project, postgres_url: str
) -> None:
    """What is not in them needs no redaction, and what is not code cannot be executed."""
    with home.worker():
        run = home.submit(order())
        state = home.wait(run)
    cells = cells_of(postgres_url)

    assert state.outcome is Outcome.OK
    assert any(run in cell for cell in cells)
    assert not [cell for cell in cells if CANARY in cell]
    assert not [cell for cell in cells if cell.startswith(("gAS", "gAR", "\\x80", "b'\\x80"))]
    assert "py_pickle" not in cells


def test_a_run_goes_on_when_dbos_has_lost_everything(home: Project, postgres_url: str) -> None:
    """The ledger is the authority on what happened, and on what has yet to happen."""
    with home.worker() as worker:
        run = home.submit(order(milliseconds=1500))
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        worker.kill()
        worker.wait()
    with psycopg.connect(postgres_url) as db:
        db.execute("DROP SCHEMA dbos CASCADE")
    with home.worker():
        state = home.end(run, seconds=60)

    assert state.outcome is Outcome.OK
    assert [call.replied.why for call in state.tasks["a"].calls if call.replied] == ["lost", ""]
