"""Who asks at a gate is told wherever gates are shown, and who may have a deadline approve one."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.errors import ReportRefused
from forum.features.recorder.report_items import GateQuestion, RunStart
from forum.features.recorder.report_writer import ReportWriter
from forum.features.webhooks.messages import build_message
from forum.ledger.kinds import Scope
from forum.ledger.log import LocatedEntry
from forum.runs.kinds import GateOpenFacts
from forum.runs.policy import Answer, Policy, Scripted
from forum.runs.report_kinds import ReportProvenance
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import Project
from tests.surfaces.halls import PROJECT, hall, showing
from tests.surfaces.talks import ERAS, Talk, in_process, talk
from tests.surfaces.terminal import Terminal
from tests.test_repository import ROOT, package_sources

REPORTS, GATES = "/api/v1/reports", "/api/v1/gates"
HOUR = 3_600_000


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user with a project."""
    begun = Terminal(tmp_path)
    (begun.folder / "forum.toml").write_text(PROJECT)
    return begun


@pytest.fixture
def forum(terminal: Terminal) -> Iterator[Forum]:
    """Return the ledger of the project."""
    with Forum(load_settings(terminal.folder, terminal.environment)) as opened:
        opened.keys.initialise()
        yield opened


@pytest.fixture
def client(forum: Forum) -> Iterator[TestClient]:
    """Serve it to the operator."""
    with hall(ServerConfig([Tenant(forum)]), operator=True) as opened:
        yield opened


def report_gate(client: TestClient, key: object, **gate: object) -> Any:  # noqa: ANN401  JSON
    """Open a gate by a report, and return what the server says."""
    items = [
        {"type": "start", "run": "pay-0001", "name": "pay", "told": "reported"},
        {"type": "gate", "run": "pay-0001", "subject": "plan", "shown": "Pay.", **gate},
    ]
    headers = showing(str(key))
    return client.post(REPORTS, json={"items": items}, headers=headers).json()


def submit_with_gate(forum: Forum) -> str:
    """Submit a run that waits at a gate of the engine."""
    policy = Policy(agents={"": Scripted()}, gates=("plan",))
    with forum.runs.run_worker():
        run = forum.runs.submit(RunRequest("Pay.", None, policy))
        forum.reads.follow_run(run)
    return run


def test_every_surface_tells_who_asks(forum: Forum, client: TestClient, terminal: Terminal) -> None:
    """A gate that a program reports does not look like one of the engine."""
    key = forum.access.grant("bot", frozenset({Scope.REPORT}))
    report_gate(client, key, milliseconds=HOUR)
    driven, by = submit_with_gate(forum), f"key-bot-{key.id}"
    listed = {gate["run"]: gate for gate in client.get(GATES).json()["gates"]}
    shown = client.get("/api/v1/runs/pay-0001/gate", params={"subject": "plan"}).json()
    viewed = client.get("/api/v1/runs/pay-0001").json()["gates"][0]
    for form in (listed["pay-0001"], shown, viewed):
        assert (form["provenance"], form["asked_by"]) == ("reported", by)
    assert (listed[driven]["provenance"], listed[driven]["asked_by"]) == ("driven", "operator")

    table = terminal.call("gate", "list").stdout
    assert f"{by} (reported)" in table
    assert "operator (driven)" in table
    assert f"reported by {by}" in terminal.call("gate", "show", "pay-0001", "plan").stderr

    async def ask(begun: Talk) -> str:
        text_contents = (await begun.call("gates")).content
        content = (await begun.call("gate", run="pay-0001", subject="plan")).content
        return f"{text_contents} {content}"

    text = talk(in_process(Project(terminal.folder, {}, forum), Scope.APPROVE), ask, ERAS[0])
    assert text.count(f"NOT a run of Forum: reported by {by}") == 2

    origin = forum.reads.find_gate_origin("pay-0001")
    message = msgspec.json.decode(build_message(gate_entry(forum, "pay-0001"), origin).body)
    assert (message["data"]["provenance"], message["data"]["asked_by"]) == ("reported", by)


def gate_entry(forum: Forum, run: str) -> LocatedEntry:
    """Return the entry that opens the gate of a run."""
    record = forum.reads.read_run_record(run)
    return next(at for at in record.entries if isinstance(at.entry.facts, GateOpenFacts))


@pytest.mark.parametrize(
    ("scopes", "is_opened"),
    [({Scope.REPORT}, False), ({Scope.REPORT, Scope.APPROVE}, True), ({Scope.ADMIN}, True)],
    ids=["report", "report-approve", "admin"],
)
def test_a_report_opens_a_gate_that_approves_itself_only_with_the_scope(
    forum: Forum, client: TestClient, scopes: set[Scope], *, is_opened: bool
) -> None:
    """Otherwise whoever may report would decide by letting the deadline pass."""
    key = forum.access.grant("bot", frozenset(scopes))
    said = report_gate(client, key, milliseconds=HOUR, default="approve")

    assert bool(forum.reads.waiting_gates()) is is_opened
    assert bool(said.get("refused")) is not is_opened
    assert is_opened or "requires the scope approve" in said["refused"][0]["why"]


def test_a_request_chooses_what_a_deadline_decides_only_with_the_scope(
    forum: Forum, client: TestClient
) -> None:
    """Over every operation whose body has gates."""
    key = forum.access.grant("ci", frozenset({Scope.SUBMIT, Scope.READ}))
    asked = [endpoint for endpoint in all_endpoints() if endpoint.body and has_gates(endpoint.body)]
    for endpoint in asked:
        body = {"request": "Hi.", "gates": {"what": ["plan"], "default": "approve"}}
        response = client.request(endpoint.method, endpoint.path, json=body, headers=showing(key))
        is_preview = endpoint.name == "plan" and response.status_code == 200
        assert is_preview or "require the scope approve" in response.text, endpoint.name

    assert {"create_run"} <= {endpoint.name for endpoint in asked}
    assert forum.reads.waiting_gates() == []


def has_gates(form: type[msgspec.Struct]) -> bool:
    """Return whether a form has a member that opens gates."""
    return any(field.name == "gates" for field in msgspec.structs.fields(form))


def test_only_these_open_gates_and_each_is_tested() -> None:
    """Who adds another way to open a gate has to say who may let a deadline approve it."""
    texts = {
        path
        for path, source in package_sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("GateOpenFacts")
    }

    assert texts == {
        "engine/gates.py",  # by the policy of a run: see the requests above
        "features/recorder/report_writer.py",  # by reports, the SDK and hooks: see the writer below
        "app/reports.py",  # by gateways, which always reject after the deadline
    }


def test_a_writer_of_reports_approves_nothing_unless_it_is_told_so(forum: Forum) -> None:
    """Hooks and later callers do not get the right by leaving it out."""
    writer = ReportWriter(forum.ledger, "hook")
    run = writer.open_run(RunStart(run="tool-0001", name="t", told=ReportProvenance.WRAPPED))
    question = GateQuestion(
        run=run.run, subject="ask", shown="?", milliseconds=HOUR, default=Answer.APPROVE
    )
    with pytest.raises(ReportRefused, match="requires the scope approve"):
        writer.ask_gate(run, question)
    assert ReportWriter(forum.ledger, "hook", may_approve=True).ask_gate(run, question) is None


def test_traces_open_no_gate() -> None:
    """What OpenTelemetry sends is steps; a gate is never made from a span."""
    sources = [*(ROOT / "src/forum/features/telemetry").rglob("*.py")]

    assert sources
    assert not [path for path in sources if "GateQuestion" in path.read_text()]
