"""Workers in places where things are not as on the first machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from forum.engine import Order
from forum.ledger import Outcome
from forum.work import one_task
from tests.e2e.project import project


@pytest.mark.postgres
def test_a_worker_on_a_machine_that_does_not_sign_carries_runs_out(
    tmp_path: Path, postgres_url: str
) -> None:
    """Only one machine remembers what it signed; work must not depend on that one being up."""
    with project(tmp_path / "project", postgres_url) as home:
        elsewhere = replace(
            home,
            environ={
                **home.environ,
                "FORUM_STATE_DIR": str(tmp_path / "elsewhere"),
                "FORUM_KEY_FILE": str(home.forum.settings.key_file),
            },
        )
        run = home.submit(Order("Go.", one_task("Go.")))
        with elsewhere.worker():
            state = home.end(run)
        home.forum.settle()
        report = home.forum.verify(home.forum.trust())

    assert state.outcome is Outcome.OK
    assert report.ok, report.findings
    assert not list((tmp_path / "elsewhere").rglob("guard.note"))
