"""Quotas of tenants: refused with a reason and a time, counted, and set by the operator only."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.config import Settings, load_settings
from forum.engine import RunRequest
from forum.errors import BadSettings, CapReached
from forum.features.gateway.actor_caps import find_actor_caps
from forum.features.tenants.service import TenantFolders
from forum.runs.plan import single_task_plan
from forum.runs.shared_caps import Caller
from forum.sections import TenantQuota
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.surfaces.halls import hall, open_forum

ORDER = RunRequest("Go.", single_task_plan("Go."))


def with_quota(home: Path, quota: TenantQuota) -> Forum:
    """Open the ledger of a tenant with a quota."""
    with open_forum(home) as forum:
        settings = replace(forum.settings, quota=quota)
    return Forum(settings)


def submit(client: TestClient) -> Any:  # noqa: ANN401  a response
    """Submit a run over HTTP."""
    return client.post("/api/v1/runs", json={"request": "Go.", "route": False})


def test_a_tenant_has_no_more_runs_at_once_than_its_quota(tmp_path: Path) -> None:
    """The next one is refused, nothing of it is recorded, and it is told when to come again."""
    with (
        with_quota(tmp_path, TenantQuota(runs_at_once=2)) as forum,
        hall(ServerConfig([Tenant(forum)]), operator=True) as client,
    ):
        taken = [submit(client) for _ in range(2)]
        refused = submit(client)
        metrics = client.get("/metrics").text
        runs = forum.store.runs("", 10)
        forum.runs.interrupt(taken[0].json()["run"])
        again = submit(client)

    assert [response.status_code for response in (*taken, refused, again)] == [202, 202, 429, 202]
    assert refused.json()["type"] == "urn:forum:problem:cap-reached"
    assert "runs_at_once ([tenants])" in refused.json()["detail"]
    assert int(refused.headers["Retry-After"]) >= 1
    assert {response.json()["run"] for response in taken} == set(runs) - {"log"}
    labels = f'{{ledger="{forum.origin}",of="runs_at_once"}}'
    assert f"forum_tenant_quota{labels} 2.0" in metrics
    assert f"forum_tenant_quota_used{labels} 2.0" in metrics


def test_a_tenant_begins_no_more_runs_in_a_minute_than_its_quota(tmp_path: Path) -> None:
    """Counted in the commit of the acceptance, so several servers together keep it too."""
    with (
        with_quota(tmp_path, TenantQuota(runs_per_minute=3)) as forum,
        Forum(forum.settings) as other,
        hall(ServerConfig([Tenant(forum)]), operator=True) as client,
    ):
        statuses = []
        for _ in range(7):  # the minute may end once meanwhile
            other.runs.submit(ORDER)
            refused = submit(client)
            statuses.append(refused.status_code)
            if refused.status_code == 429:
                break
        with pytest.raises(CapReached, match=r"runs per minute for tenant .*\[tenants\]"):
            submit_many(other)
        with pytest.raises(CapReached):
            asyncio.run(submit_many_async(other))

    assert statuses[-1] == 429
    assert len(statuses) <= 4
    assert refused.json()["type"] == "urn:forum:problem:cap-reached"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60


def submit_many(forum: Forum) -> None:
    """Submit more runs than may begin in a minute, even if one ends meanwhile."""
    for _ in range(7):
        forum.runs.submit(ORDER)


async def submit_many_async(forum: Forum) -> None:
    """Do the same on the path of small requests."""
    for _ in range(7):
        await forum.runs.submit_async(ORDER, "key/a", None)


def test_minutes_that_are_over_are_not_kept(tmp_path: Path) -> None:
    """Days and months are few; a row for each minute would grow for ever."""
    with with_quota(tmp_path, TenantQuota(runs_per_minute=1000)) as forum:
        forum.runs.submit(ORDER)
        with closing(sqlite3.connect(forum.settings.ledger_file)) as db, db:
            db.execute("UPDATE budget SET period = 'minute 2001-01-01 00:00', until = 1")
        with Forum(forum.settings) as other:
            other.runs.submit(ORDER)
        with closing(sqlite3.connect(forum.settings.ledger_file)) as db:
            periods = db.execute("SELECT DISTINCT period FROM budget").fetchall()

    assert len(periods) == 1
    assert periods != [("minute 2001-01-01 00:00",)]


def test_a_quota_is_no_cap_of_calls(tmp_path: Path) -> None:
    """A gateway asks for prices where calls are capped; a quota of runs needs none."""
    with with_quota(tmp_path, TenantQuota(runs_per_minute=1)) as forum:
        caps = find_actor_caps(forum, "somebody")

        assert not caps.is_capped
        assert forum.runs.budgets.run_limits(Caller("somebody"))


def operator_of(home: Path, text: str) -> Settings:
    """Return the settings of an operator with a tenant `red`."""
    (home / "tenants/red").mkdir(parents=True)
    (home / "forum.toml").write_text(f'[database]\nurl = "postgresql://nowhere/x"\n{text}')
    (home / "tenants/red/forum.toml").write_text("[tenants.red]\nruns_per_minute = 9\n")
    return load_settings(home, {"FORUM_STATE_DIR": str(home / "state")})


def test_a_quota_is_the_operators(tmp_path: Path) -> None:
    """A tenant writes its own file, so what that says of quotas counts for nothing."""
    operator = operator_of(tmp_path, "[tenants.red]\nruns_at_once = 5\nweight = 3\n")

    tenant = TenantFolders(operator, {}).load(tmp_path / "tenants/red")

    assert tenant.quota == TenantQuota(runs_at_once=5, weight=3)
    assert operator.quota == TenantQuota()


def test_a_tenant_without_a_quota_has_none(tmp_path: Path) -> None:
    """Also if its own file names one."""
    operator = operator_of(tmp_path, "")

    assert TenantFolders(operator, {}).load(tmp_path / "tenants/red").quota == TenantQuota()


@pytest.mark.parametrize("text", ["runs = 3", "weight = 0", "runs_at_once = true", "weight = 1.5"])
def test_a_wrong_quota_is_refused(tmp_path: Path, text: str) -> None:
    """One that was ignored would be no limit at all."""
    with pytest.raises(BadSettings, match=r"\[tenants.red\]"):
        operator_of(tmp_path, f"[tenants.red]\n{text}\n")


def test_without_a_quota_nothing_is_asked_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance costs no statement more than before."""
    with open_forum(tmp_path) as forum:
        monkeypatch.setattr(forum.store, "count_open_runs", None)
        forum.runs.submit(ORDER)
