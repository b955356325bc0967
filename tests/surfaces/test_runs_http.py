"""Runs over HTTP: what somebody may not do in the place of those who may."""

from pathlib import Path
from typing import Any

import pytest

from forum.engine import RunRequest
from forum.features.chat_api import run_stream
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import Scope
from forum.runs.panel import Council
from forum.runs.plan import Plan, Task, single_task_plan, write_plan
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually
from tests.surfaces.halls import PROJECT, hall, lone_hall, open_forum, showing

RUNS = "/api/v1/runs"
CHAT = "/v1/chat/completions"
TOOLS = '[tools.deploy]\ncmd = "deploy --now"\n'


def test_who_may_only_submit_reads_nothing_by_cancelling(tmp_path: Path) -> None:
    """A run is named in logs and addresses; to stop it must not be a way to read it."""
    plans = "Buy the lighthouse."
    with lone_hall(tmp_path) as (forum, client):
        both = showing(forum.access.grant("both", {Scope.SUBMIT, Scope.READ}))
        mere = showing(forum.access.grant("mere", {Scope.SUBMIT}))
        asked = client.post(RUNS, json={"request": plans, "route": False}, headers=both)
        run = f"{RUNS}/{asked.json()['run']}"
        response = client.post(f"{run}/cancel", headers=mere)
        read = client.get(run, headers=both)

    assert read.json()["request"] == plans
    assert (response.status_code, response.json()["href"]) == (202, run)
    assert plans not in response.text


def test_an_interrupted_run_is_resumed_by_whoever_may_submit(tmp_path: Path) -> None:
    """Over HTTP as at the command line; who may only submit reads nothing by it."""
    with lone_hall(tmp_path) as (forum, client):
        both = showing(forum.access.grant("both", {Scope.SUBMIT, Scope.READ}))
        mere = showing(forum.access.grant("mere", {Scope.SUBMIT}))
        reader = showing(forum.access.grant("reader", {Scope.READ}))
        asked = client.post(RUNS, json={"request": "Go.", "route": False}, headers=both)
        run = asked.json()["run"]
        forum.runs.interrupt(run)
        states = [client.get(f"{RUNS}/{run}", headers=both).json()["state"]]
        refused = client.post(f"{RUNS}/{run}/resume", headers=reader)
        responses = [client.post(f"{RUNS}/{run}/resume", headers=mere) for _ in range(2)]
        states.append(client.get(f"{RUNS}/{run}", headers=both).json()["state"])
        unknown = client.post(f"{RUNS}/no-such-run/resume", headers=mere)
        timer = forum.store.timer(run, "main")

    assert states == ["interrupted", "running"]
    assert refused.status_code == 403
    assert [answer.status_code for answer in responses] == [202, 202]
    assert "Go." not in responses[0].text
    assert unknown.status_code == 404
    assert timer is not None


LISTS = ("runs", "gates", "reviews", "incidents", "evaluations")


def test_no_text_makes_a_list_long(tmp_path: Path) -> None:
    """Whoever submits or reports must not make the lists of everybody slow."""
    text = "e" + 100_000 * "\u0301"
    step = {"type": "step", "run": "long-run-0001", "span": "a", "op": "model", "name": "m"}
    items = [
        {"type": "start", "run": "long-run-0001", "name": text[:100]},
        step | {"outcome": "ok", "input": {"messages": [{"role": "user", "content": text}]}},
        {
            "type": "gate",
            "run": "long-run-0001",
            "subject": "pay",
            "shown": text,
            "milliseconds": 3_600_000,
        },
    ]
    with lone_hall(tmp_path, operator=True) as (_, client):
        made = client.post(RUNS, json={"request": text, "route": False}).json()
        reported = client.post("/api/v1/reports", json={"items": items})
        listed = {name: client.get(f"/api/v1/{name}").json() for name in LISTS}
        whole = client.get(f"{RUNS}/{made['run']}").json()["request"]

    assert reported.status_code == 200, reported.text
    assert {run["run"]: run["is_cut"] for run in listed["runs"]["runs"]}[made["run"]]
    assert len(listed["gates"]["gates"]) == 1
    assert {name for name in LISTS if longest_text(listed[name]) > 200} == set()
    assert whole == text


def longest_text(value: object) -> int:
    """Return the length of the longest text in a JSON value."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(longest_text, parts), default=0)


def test_the_logs_own_entries_are_no_run(tmp_path: Path) -> None:
    """Nobody has asked for them: as a run they would never end, and clients would wait for it."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        own = list(forum.store.read_strand(LOG_RUN, "main"))
        answer = client.get(f"{RUNS}/{LOG_RUN}")

    assert own
    assert answer.status_code == 404


def test_only_who_may_approve_says_what_a_deadline_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decides at every gate: also whether an effect of which nobody is sure has happened."""
    monkeypatch.setattr(run_stream, "ANSWER_TIMEOUT_S", 0.2)
    terms = [
        {"what": [], "default": "approve"},
        {"what": [], "default": "reject"},
        {"what": ["plan"], "seconds": 1},
    ]
    ask: dict[str, Any] = {"request": "Pay.", "route": False}
    document = {"model": "forum", "messages": [{"role": "user", "content": "Pay."}]}
    with lone_hall(tmp_path) as (forum, client):
        mere = showing(forum.access.grant("mere", {Scope.SUBMIT, Scope.READ}))
        trusted = showing(forum.access.grant("trusted", {Scope.SUBMIT, Scope.APPROVE}))
        responses = [
            client.post(RUNS, json={**ask, "gates": gates}, headers=mere) for gates in terms
        ]
        chats = [{**document, "forum": {"gates": gates}} for gates in terms]
        responses += [client.post(CHAT, json=chat, headers=mere) for chat in chats]
        begun = forum.reads.recent_runs(None, 10)
        may = [client.post(RUNS, json={**ask, "gates": gates}, headers=trusted) for gates in terms]
        may.append(client.post(RUNS, json={**ask, "gates": {"what": ["plan"]}}, headers=mere))

    assert [answer.status_code for answer in responses] == [422] * 6
    assert all("require the scope approve" in answer.text for answer in responses)
    assert begun == []
    assert [answer.status_code for answer in may] == [202] * 4


def test_a_fork_uses_no_more_than_the_operator_allows(tmp_path: Path) -> None:
    """It is asked for by a client, whoever has asked for what it parts from, and without limits."""
    ceiling = "[clients]\nusd = 0.25\ncalls = 10\n"
    with open_forum(tmp_path, ceiling + PROJECT) as forum:
        both = showing(forum.access.grant("both", {Scope.SUBMIT, Scope.READ}))
        with hall(ServerConfig([Tenant(forum)])) as client:
            run = forum.runs.submit(
                RunRequest("Name three rivers.", single_task_plan("Name three rivers."))
            )
            first = f"{run}/main/0"
            eventually(lambda: forum.ledger.find_entry(first).index is not None)
            at = {"at": forum.ledger.find_entry(first).index}
            forked = client.post(f"{RUNS}/{run}/fork", json=at, headers=both)
            caps = [
                client.get(f"{RUNS}/{text}", headers=both).json()["cap"]
                for text in (run, forked.json()["run"])
            ]

    assert [(cap["usd"], cap["calls"]) for cap in caps] == [(None, None), ("0.25", 10)]


def test_an_edited_plan_reaches_no_further_than_one_that_is_asked_for(tmp_path: Path) -> None:
    """Who may approve decides about work, not about the files and the tools of the workers."""
    tasks = {
        Task("name", "Name a river.", "contains river"): 200,
        Task("name", "Name a river.", "command deploy"): 422,
        Task("name", "Name a river.", "tests deploy"): 422,
        Task("name", "Name a river.", f"file /etc/passwd sha256:{'0' * 64}"): 422,
        Task("name", "Name a river.", panel=Council()): 200,
        Task("name", "Name a river.", panel=Council(check="deploy")): 422,
    }
    ask = {
        "request": "Name a river.",
        "tasks": [{"id": "name", "instruction": "Name a river."}],
        "gates": {"what": ["plan"]},
    }
    with open_forum(tmp_path, PROJECT + TOOLS) as forum:
        mere, approver = (
            forum.access.grant("one", {scope}) for scope in (Scope.SUBMIT, Scope.APPROVE)
        )
        with hall(ServerConfig([Tenant(forum, forum.runs.run_worker)])) as client:
            run = client.post(RUNS, json=ask, headers=showing(mere)).json()["run"]
            eventually(lambda: bool(forum.reads.waiting_gates()))
            document = {}
            for task in tasks:
                shown = write_plan(Plan((task,)))
                digest = forum.reads.read_gate(run, "plan")[0].digest
                edit = {"subject": "plan", "digest": digest, "shown": shown.decode()}
                answer = client.put(f"{RUNS}/{run}/gate", json=edit, headers=showing(approver))
                document[task] = answer.status_code

    assert document == tasks


def test_a_client_gets_no_tools_by_forking_or_editing_a_run_of_the_operator(tmp_path: Path) -> None:
    """The policy of the operator's run has no lanes, and lets every task use every tool."""
    task = {"id": "name", "instruction": "Name a river."}
    ask = {"request": "Name a river.", "tasks": [task], "gates": {"what": ["plan"]}}
    scopes = {Scope.SUBMIT, Scope.APPROVE, Scope.READ}
    with open_forum(tmp_path, PROJECT + TOOLS) as forum:
        key, operator = forum.access.grant("one", scopes), forum.access.operator_token()
        with hall(ServerConfig([Tenant(forum, forum.runs.run_worker)])) as client:
            run = client.post(RUNS, json=ask, headers=showing(operator)).json()["run"]
            eventually(lambda: bool(forum.reads.waiting_gates()))
            eventually(lambda: forum.ledger.find_entry(f"{run}/main/0").index is not None)
            at = {"at": forum.ledger.find_entry(f"{run}/main/0").index}
            forks = [
                client.post(f"{RUNS}/{run}/fork", json=at, headers=showing(api_key))
                for api_key in (key, operator)
            ]
            digest = forum.reads.read_gate(run, "plan")[0].digest
            shown = write_plan(Plan((Task("name", "Deploy it."),))).decode()
            edit = {"subject": "plan", "digest": digest, "shown": shown}
            edits = [
                client.put(f"{RUNS}/{run}/gate", json=edit, headers=showing(api_key))
                for api_key in (key, operator)
            ]

    assert [answer.status_code for answer in forks] == [422, 202]
    assert [answer.status_code for answer in edits] == [422, 200]
