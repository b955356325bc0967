"""The same request means the same by HTTP, MCP and command line, for the same authority.

Whoever types commands is the operator, so clients are compared by HTTP and MCP only.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.app.planner import AgentRegistry, CallerAuthority
from forum.config import load_settings
from forum.engine import IdempotencyKey, RunRequest, read_body
from forum.errors import IdempotencyKeyUsed
from forum.features.recorder.plan_values import read_plan_value
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Scope
from forum.ledger.log import read_strand_entries
from forum.ledger.ports import Position
from forum.runs.acceptance_criteria import Check, parse_criteria
from forum.runs.plan import Plan, RunBudget, read_plan
from forum.runs.policy import Policy, read_policy, write_policy
from forum.surfaces.cli.mcp_over_http import PATH, McpExtension
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.requests import AskForm, BudgetAsk
from forum.units import NANO_USD, to_exact_units
from tests.surfaces.halls import showing
from tests.surfaces.terminal import Terminal

PROJECT = """
[roster]
file = "roster.toml"
rung = "lexical"

[models.default]
cmd = "cat"

[tools.pay]
cmd = "pay --now"

[tools.lint]
cmd = "lint"

[clients]
usd = 0.25
"""
ROSTER = """
[[lane]]
name = "code"
does = "Changes code."
tools = ["lint"]
terms = ["code"]

[[lane]]
name = "prose"
does = "Writes."
terms = ["write"]
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A request, in the words of each surface."""

    http: Mapping[str, Any] = field(default_factory=dict)
    mcp: Mapping[str, Any] = field(default_factory=dict)
    cli: tuple[str, ...] = ()
    tasks: tuple[Mapping[str, Any], ...] = ()
    may_ask: bool = True
    """Whether clients may ask for it."""


def task(done_when: str = "", lane: str = "") -> Mapping[str, Any]:
    """Return a task of a plan."""
    return {"id": "a", "instruction": "Do it.", "done_when": done_when, "lane": lane}


CASES = {
    "plain": Case(),
    "plan": Case(tasks=(task(),)),
    "plan with a tool": Case(tasks=(task("command pay"),), may_ask=False),
    "plan with a tool of its lane": Case(tasks=(task("command lint", "code"),)),
    "plan with a tool of another lane": Case(tasks=(task("command pay", "code"),), may_ask=False),
    "plan with a file": Case(tasks=(task(f"file a.txt sha256:{'0' * 64}"),), may_ask=False),
    "lane": Case({"lane": "code"}, {"lane": "code"}, ("--lane", "code")),
    "team": Case({"team": True}, {"team": True}, ("--team",)),
    "plan of a team": Case({"team": True}, {"team": True}, ("--team",), (task(lane="prose"),)),
    "budget": Case(
        {"budget": {"usd": "0.50", "seconds": "60"}},
        {"budget_usd": 0.5, "max_seconds": 60},
        ("--max-usd", "0.50", "--max-seconds", "60"),
    ),
    "gates": Case({"gates": {"what": ["plan"]}}, {"gates": ["plan"]}, ("--gate", "plan")),
}
REQUEST = "Change the code of the parser."


def recorded(forum: Forum, run: str) -> list[tuple[str, object, dict[str, object]]]:
    """Return what was put on record about a request before anybody worked on it."""
    return [
        (
            entry.kind,
            entry.facts,
            {
                name: _content(name, read_body(forum.ledger, _place(run, entry.n), name))
                for name in entry.bodies
            },
        )
        for _, entry in read_strand_entries(forum.ledger, run, MAIN_STRAND)
        if entry.n > 0  # the first entry opens the run, and names a checkpoint
    ]


def _place(run: str, n: int) -> Position:
    return Position(run, MAIN_STRAND, n)


def _content(name: str, body: bytes) -> object:
    """Return what a body says; the secret of a policy is drawn for each run."""
    return read_policy(body).with_secret(b"") if name == "policy" else body


def by_command(terminal: Terminal, case: Case) -> str:
    """Submit a request on the command line, and return its run."""
    words = ["submit", REQUEST, *case.cli, "--detach"]
    if case.tasks:
        (terminal.folder / "plan.json").write_text(json.dumps({"tasks": case.tasks}))
        words += ["--plan", "plan.json"]
    return str(terminal.ask(*words)["run"])


def by_http(client: TestClient, key: str, case: Case) -> str:
    """Submit a request over HTTP, and return its run, or "" where it is refused."""
    body = {"request": REQUEST, "tasks": case.tasks, **case.http}
    answer = client.post("/api/v1/runs", json=body, headers=showing(key))
    assert answer.status_code in (202, 422), answer.text
    return str(answer.json().get("run", ""))


def by_mcp(client: TestClient, key: str, case: Case) -> str:
    """Submit a request over MCP, and return its run, or "" where it is refused."""
    asked = {"request": REQUEST, "tasks": case.tasks, "wait": False, **case.mcp}
    call = {"name": "submit", "arguments": asked}
    answer = client.post(
        PATH,
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={**showing(key), "Accept": "application/json, text/event-stream"},
    )
    (line,) = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    result = json.loads(line.removeprefix("data: "))["result"]
    return "" if result["isError"] else str(result["structuredContent"]["run"])


@contextmanager
def serving(forum: Forum) -> Iterator[TestClient]:
    """Serve a ledger over HTTP and MCP."""
    app = make_app(ServerConfig([Tenant(forum)]), [McpExtension(1 << 20)])
    with TestClient(app, "http://localhost", client=("127.0.0.1", 40000)) as client:
        yield client


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_request_means_the_same_over_every_surface(tmp_path: Path, case: Case) -> None:
    """A tool that the operator may use is not lost, and none is gained, by another way in."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "forum.toml").write_text(PROJECT)
    (terminal.folder / "roster.toml").write_text(ROSTER)
    typed = by_command(terminal, case)
    house = Forum(load_settings(terminal.folder, terminal.environment))
    with house as forum, serving(forum) as client:
        operator = forum.access.operator_token()
        key = str(forum.access.grant("ci", {Scope.SUBMIT, Scope.READ}))
        operators = [typed, by_http(client, operator, case), by_mcp(client, operator, case)]
        clients = [by_http(client, key, case), by_mcp(client, key, case)]

        first, *others = [recorded(forum, run) for run in operators]
        assert others == [first, first]
        assert [bool(run) for run in clients] == [case.may_ask] * 2
        if case.may_ask:
            one, other = [recorded(forum, run) for run in clients]
            assert one == other


JUDGED = """
[models.judge]
cmd = "cat"

[roles]
validator = "judge"
"""
BY_CODE = {
    "contains": task("contains parser"),
    "matches": task("matches ."),
    "json": task('json {"type": "object"}'),
    "json-value": task('json-value {"type": "object"}'),
    "command": task("command lint", "code"),
    "tests": task("tests lint", "code"),
    "several": task("contains a\nmatches b"),
    "within": {**task(), "tasks": [task("contains parser")]},
    "panel": {**task("matches ."), "panel": {"seats": 2}},
    "words": task("It is short."),
    "nothing": task(),
}


@pytest.mark.parametrize("given", BY_CODE.values(), ids=BY_CODE.keys())
def test_a_client_cannot_spare_the_validator_of_the_operator(
    tmp_path: Path, given: Mapping[str, Any]
) -> None:
    """A client may add to what is judged; the operator, by any way in, is taken at its word."""
    terminal, case = Terminal(tmp_path), Case(tasks=(given,))
    (terminal.folder / "forum.toml").write_text(PROJECT + JUDGED)
    (terminal.folder / "roster.toml").write_text(ROSTER)
    typed = by_command(terminal, case)
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        with serving(forum) as client:
            operator = forum.access.operator_token()
            key = str(forum.access.grant("ci", {Scope.SUBMIT, Scope.READ}))
            own = [typed, by_http(client, operator, case), by_mcp(client, operator, case)]
            clients = [by_http(client, key, case), by_mcp(client, key, case)]
        plans = {run: plan_of(forum, run) for run in (*own, *clients)}
        # What a program in Python passes, which is the operator too, is decided here.
        asked = RunRequest(REQUEST, read_plan_value([given]), Policy())
        registry = AgentRegistry(forum.settings)
        asked = replace(asked, policy=registry.current_policy())
        passed = registry.decide(asked, CallerAuthority.OPERATOR).plan

    assert passed == plans[typed]
    assert all(plans[run] == plans[typed] for run in own)
    written = read_plan_value([given]).all_tasks
    assert [task.done_when for task in plans[typed].all_tasks] == [t.done_when for t in written]
    for run in clients:
        for submitted, before in zip(plans[run].all_tasks, written, strict=True):
            criteria = parse_criteria(submitted.done_when)
            assert not criteria or any(each.check is Check.MODEL for each in criteria)
            assert submitted.done_when.startswith(before.done_when)


def plan_of(forum: Forum, run: str) -> Plan:
    """Return the recorded plan of a run."""
    (body,) = [bodies["plan"] for kind, _, bodies in recorded(forum, run) if kind == "plan/1"]
    assert isinstance(body, bytes)
    return read_plan(body)


@pytest.mark.parametrize("way", ["submit", "http", "mcp", "python"])
def test_an_idempotency_key_is_for_one_request_with_its_budget(tmp_path: Path, way: str) -> None:
    """Asked again, the run is the same; with another cap, its old one must not hold silently."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "forum.toml").write_text(PROJECT)
    (terminal.folder / "roster.toml").write_text(ROSTER)

    def ask(usd: str) -> str:
        if way == "submit":
            given = ("--max-usd", usd, "--idempotency-key", "one", "--detach", "--json")
            shown = terminal.call("submit", REQUEST, *given)
            return str(json.loads(shown.stdout)["run"]) if shown.exit_code == 0 else ""
        with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
            forum.keys.initialise()
            if way == "python":
                return _keyed_run(forum, RunBudget(usd=to_exact_units(usd, NANO_USD)))
            with serving(forum) as client:
                operator = forum.access.operator_token()
                if way == "mcp":
                    mcp = Case(mcp={"budget_usd": float(usd), "key": "one"})
                    return by_mcp(client, operator, mcp)
                answer = client.post(
                    "/api/v1/runs",
                    json={"request": REQUEST, "budget": {"usd": usd}},
                    headers={**showing(operator), "Idempotency-Key": "one"},
                )
                assert answer.status_code in (202, 409)
                return str(answer.json().get("run", "")) if answer.status_code == 202 else ""

    first, again = ask("1"), ask("1")
    other = ask("5")
    assert first
    assert (again, other) == (first, "")


def _keyed_run(forum: Forum, budget: RunBudget) -> str:
    """Submit a request with a key, as Python programs do; return "" if the key is refused."""
    request = RunRequest(REQUEST, budget=budget)
    try:
        return forum.runs.submit(
            request, idempotency_key=IdempotencyKey.of_order("operator/python", "one", request)
        )
    except IdempotencyKeyUsed:
        return ""


def test_a_key_of_a_release_that_left_the_budget_out_still_finds_its_run(tmp_path: Path) -> None:
    """An upgraded program that asks again gets its run, and none with another cap."""
    with Forum(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")})) as forum:
        forum.keys.initialise()
        request = RunRequest(REQUEST, budget=RunBudget(usd=NANO_USD, tokens=500))
        parts = (request.request.encode(), b"", write_policy(request.policy))
        released = IdempotencyKey("operator/python/one", sha256(b"\0".join(parts)).hexdigest())
        run = forum.runs.submit(request, idempotency_key=released)

        assert _keyed_run(forum, request.budget) == run
        assert _keyed_run(forum, RunBudget(usd=5 * NANO_USD, tokens=500)) == ""


def test_the_digest_of_a_request_is_the_one_of_earlier_releases() -> None:
    """Keys are stored with it: a change would turn each repeated request into a conflict."""
    ask = AskForm(REQUEST, budget=BudgetAsk(usd=Decimal("0.50")))
    request = RunRequest(REQUEST, budget=RunBudget(usd=NANO_USD))

    digests = [
        IdempotencyKey.of_form("ci", "k", ask, "/api/v1/runs").digest,
        IdempotencyKey.of_form("ci", "k", ask).digest,
        IdempotencyKey.of_order("operator/submit", "k", request).digest,
    ]
    assert digests == [
        "3e55f96f87c815c5a7daa0f3c114f532ef631b1a1d8f8dc2e503cc9f5893fb96",
        "8573479dde07864c8f66a09326770baebd2ab7ad85cff05bb3aec161d7107428",
        "b36c1a42068488b400a3c5d1b67acbd661f2e0f5bd175a8768d0ae8fab35714d",
    ]
